//! The state of all devices at one moment.
//!
//! Numbers are stored as on the wire, as fractions of the picture or of the travel of an axis or a button, so that nothing is
//! rounded twice.

use super::{Hand, Key};
use crate::cursor::Reader;
use crate::{Pose, WireError};

/// Maximum number of keys that are down at the same time: more than a user has fingers.
pub const MAX_KEYS: usize = 16;
/// Maximum number of fingers on a touch screen.
pub const MAX_TOUCHES: usize = 10;
/// Maximum number of gamepads, numbered from 0: as many as browsers report.
pub const MAX_GAMEPADS: usize = 4;
/// Suffix of the names of gamepads that a server has made for a program. Viewers on the same machine must not take them for their user's:
/// each would appear as a further gamepad of the program.
pub const SERVED_GAMEPAD: &str = "(Nearlight)";
/// Maximum number of buttons of a gamepad. The standard mapping has 17.
pub const MAX_GAMEPAD_BUTTONS: usize = 20;
pub const MAX_GAMEPAD_AXES: usize = 6;
/// Maximum number of controllers: one for each [`Hand`].
pub const MAX_CONTROLLERS: usize = 3;
pub const MAX_CONTROLLER_BUTTONS: usize = 10;
pub const MAX_CONTROLLER_AXES: usize = 4;
/// Units of the wheel per CSS pixel.
pub const WHEEL_UNITS_PER_PIXEL: i32 = 16;

/// Bits of the parts that a sample contains, in the order of the parts.
const GAZE: u16 = 1 << 0;
const CONTROLLERS: u16 = 1 << 1;
const KEYS: u16 = 1 << 2;
const POINTER: u16 = 1 << 3;
const TOUCHES: u16 = 1 << 4;
const GAMEPADS: u16 = 1 << 5;
pub(super) const EVENTS: u16 = 1 << 6;
/// Flags, not parts: they say that the joints of a hand are tracked, which are sent in separate datagrams.
const HANDS: [(u16, Hand); 2] = [(1 << 7, Hand::Left), (1 << 8, Hand::Right)];
const KNOWN_BITS: u16 = (1 << 9) - 1;

/// A position in the picture: 0 is its left or upper edge, 65,535 its right or lower one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScreenPoint {
    pub x: u16,
    pub y: u16,
}

impl ScreenPoint {
    /// Makes the position at these fractions of width and height, clamped to the edges.
    #[must_use]
    pub fn new(x: f32, y: f32) -> Self {
        let part = |value: f32| (value.clamp(0.0, 1.0) * f32::from(u16::MAX)).round() as u16;
        Self { x: part(x), y: part(y) }
    }

    /// The position as fractions of width and height, 0 to 1.
    #[must_use]
    pub fn fractions(self) -> [f32; 2] {
        [self.x, self.y].map(|part| f32::from(part) / f32::from(u16::MAX))
    }

    pub(super) fn write(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.x.to_be_bytes());
        bytes.extend_from_slice(&self.y.to_be_bytes());
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { x: reader.u16()?, y: reader.u16()? })
    }
}

/// Buttons of a mouse or pen, numbered as in W3C's `MouseEvent.button`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointerButton {
    /// The left button of a right-handed mouse.
    Primary = 0,
    /// The wheel.
    Auxiliary = 1,
    /// The right button.
    Secondary = 2,
    Back = 3,
    Forward = 4,
}

impl PointerButton {
    /// All buttons, in the order of their codes.
    pub const ALL: [Self; 5] = [Self::Primary, Self::Auxiliary, Self::Secondary, Self::Back, Self::Forward];

    /// The button's bit in [`Pointer::buttons`].
    #[must_use]
    pub const fn bit(self) -> u8 {
        1 << self as u8
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Self::ALL.get(usize::from(reader.u8()?)).copied().ok_or(WireError::Field("button"))
    }
}

/// A mouse or a pen.
///
/// Movement and wheel are wrapping totals since the session began, so that a lost sample loses no movement: see [`Pointer::since`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pointer {
    pub at: ScreenPoint,
    /// Whether the client has captured the pointer: then only its movement counts, not its position.
    pub captured: bool,
    /// Total movement right and down, in CSS pixels.
    pub moved: [i32; 2],
    /// Total scrolling right and down, in parts of a CSS pixel ([`WHEEL_UNITS_PER_PIXEL`]). A notch of a wheel is about 100 pixels.
    pub scrolled: [i32; 2],
    /// Bits of the pressed buttons: see [`PointerButton::bit`].
    pub buttons: u8,
}

impl Pointer {
    /// Movement and scrolling in pixels from `before` to this state.
    #[must_use]
    pub fn since(&self, before: &Self) -> ([i32; 2], [f32; 2]) {
        let way = |now: [i32; 2], then: [i32; 2]| [now[0].wrapping_sub(then[0]), now[1].wrapping_sub(then[1])];
        let scrolled = way(self.scrolled, before.scrolled).map(|units| units as f32 / WHEEL_UNITS_PER_PIXEL as f32);
        (way(self.moved, before.moved), scrolled)
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self.captured));
        self.at.write(bytes);
        for total in self.moved.iter().chain(&self.scrolled) {
            bytes.extend_from_slice(&total.to_be_bytes());
        }
        bytes.push(self.buttons);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let captured = reader.bounded(2, "pointer")? == 1;
        let at = ScreenPoint::read(reader)?;
        let mut pair = || Ok([reader.i32()?, reader.i32()?]);
        let (moved, scrolled) = (pair()?, pair()?);
        let buttons = reader.bounded(1 << PointerButton::ALL.len(), "buttons")?;
        Ok(Self { at, captured, moved, scrolled, buttons })
    }
}

/// A finger on a touch screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The client's number for it, not used again in the session.
    pub id: u32,
    pub at: ScreenPoint,
    /// Pressure, 0 to 255; 255 if the device does not report it.
    pub pressure: u8,
}

/// A gamepad in the standard mapping of W3C's Gamepad.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gamepad {
    /// The gamepad's number, below [`MAX_GAMEPADS`].
    pub index: u8,
    /// A bit for each button that is down.
    pub pressed: u32,
    /// How far each button is down, 0 to 255.
    pub values: Vec<u8>,
    /// Positions of the axes, -32,767 to 32,767: left stick right and down, right stick right and down.
    pub axes: Vec<i16>,
}

/// An XR controller, or another device that points in space.
#[derive(Clone, Debug, PartialEq)]
pub struct Controller {
    pub hand: Hand,
    /// The pose from which it points, along -z: WebXR's target ray, OpenXR's aim pose.
    pub aim: Pose,
    /// The pose of the hand that holds it. None for a device that is not held.
    pub grip: Option<Pose>,
    /// A bit for each button of WebXR's `xr-standard` mapping: 0 trigger, 1 squeeze, 2 touchpad, 3 thumbstick, then the profile's own.
    pub pressed: u16,
    pub touched: u16,
    /// How far each button is down, 0 to 65,535.
    pub values: Vec<u16>,
    /// Positions of the axes, -32,767 to 32,767: touchpad right and down, thumbstick right and down.
    pub axes: Vec<i16>,
}

impl Controller {
    /// Makes a controller that only points.
    #[must_use]
    pub const fn pointing(hand: Hand, aim: Pose) -> Self {
        Self { hand, aim, grip: None, pressed: 0, touched: 0, values: Vec::new(), axes: Vec::new() }
    }
}

/// The state of all devices. Absent devices are at rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Devices {
    /// The gaze: origin, and direction along -z. Only if the user allows it.
    pub gaze: Option<Pose>,
    /// The controllers, at most one for each hand.
    pub controllers: Vec<Controller>,
    /// Keys that are down, without duplicates.
    pub keys: Vec<Key>,
    pub pointer: Option<Pointer>,
    pub touches: Vec<Touch>,
    pub gamepads: Vec<Gamepad>,
    /// Whether the joints of the left and of the right hand are tracked.
    pub hands: [bool; 2],
}

impl Devices {
    /// Whether something is pressed, touched or moved out of rest.
    #[must_use]
    pub fn holds_anything(&self) -> bool {
        !self.keys.is_empty()
            || !self.touches.is_empty()
            || self.pointer.is_some_and(|pointer| pointer.buttons != 0)
            || self.gamepads.iter().any(|gamepad| gamepad.pressed != 0 || gamepad.axes.iter().any(|axis| *axis != 0))
            || self.controllers.iter().any(|controller| controller.pressed != 0)
    }

    pub(super) fn write(&self, events: u16, bytes: &mut Vec<u8>) {
        let Self { gaze, controllers, keys, pointer, touches, gamepads, hands } = self;
        let mut parts = events;
        for (part, there) in [
            (GAZE, gaze.is_some()),
            (CONTROLLERS, !controllers.is_empty()),
            (KEYS, !keys.is_empty()),
            (POINTER, pointer.is_some()),
            (TOUCHES, !touches.is_empty()),
            (GAMEPADS, !gamepads.is_empty()),
            (HANDS[0].0, hands[0]),
            (HANDS[1].0, hands[1]),
        ] {
            parts |= if there { part } else { 0 };
        }
        bytes.extend_from_slice(&parts.to_be_bytes());
        if let Some(gaze) = gaze {
            gaze.write(bytes);
        }
        write_list(controllers, MAX_CONTROLLERS, bytes, Controller::write);
        write_list(keys, MAX_KEYS, bytes, |key, bytes| key.write(bytes));
        if let Some(pointer) = pointer {
            pointer.write(bytes);
        }
        write_list(touches, MAX_TOUCHES, bytes, Touch::write);
        write_list(gamepads, MAX_GAMEPADS, bytes, Gamepad::write);
    }

    /// Reads the devices, and whether events follow.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<(Self, bool), WireError> {
        let parts = reader.u16()?;
        if parts & !KNOWN_BITS != 0 {
            return Err(WireError::Field("parts"));
        }
        let has = |part: u16| parts & part != 0;
        let mut devices = Self { hands: HANDS.map(|(part, _)| has(part)), ..Self::default() };
        if has(GAZE) {
            devices.gaze = Some(Pose::read(reader)?);
        }
        if has(CONTROLLERS) {
            devices.controllers = read_list(reader, MAX_CONTROLLERS, "controllers", Controller::read)?;
            check_unique(&devices.controllers, |controller| controller.hand, "controllers")?;
        }
        if has(KEYS) {
            devices.keys = read_list(reader, MAX_KEYS, "keys", Key::read)?;
            check_unique(&devices.keys, |key| *key, "keys")?;
        }
        if has(POINTER) {
            devices.pointer = Some(Pointer::read(reader)?);
        }
        if has(TOUCHES) {
            devices.touches = read_list(reader, MAX_TOUCHES, "touches", Touch::read)?;
            check_unique(&devices.touches, |touch| touch.id, "touches")?;
        }
        if has(GAMEPADS) {
            devices.gamepads = read_list(reader, MAX_GAMEPADS, "gamepads", Gamepad::read)?;
            check_unique(&devices.gamepads, |gamepad| gamepad.index, "gamepads")?;
        }
        Ok((devices, has(EVENTS)))
    }
}

impl Key {
    /// Writes the page in one byte and the usage in two.
    pub(super) fn write(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.0.to_be_bytes()[1..]);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self(u32::from(reader.u8()?) << 16 | u32::from(reader.u16()?)))
    }
}

impl Touch {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.id.to_be_bytes());
        self.at.write(bytes);
        bytes.push(self.pressure);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { id: reader.u32()?, at: ScreenPoint::read(reader)?, pressure: reader.u8()? })
    }
}

impl Gamepad {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.push(self.index);
        bytes.extend_from_slice(&self.pressed.to_be_bytes());
        bytes.push(self.values.len() as u8);
        bytes.extend_from_slice(&self.values);
        write_axes(&self.axes, bytes);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let index = reader.bounded(MAX_GAMEPADS, "gamepad")?;
        let pressed = reader.u32()?;
        let count = reader.count(0, MAX_GAMEPAD_BUTTONS, "gamepad buttons")?;
        if pressed >> count != 0 {
            return Err(WireError::Field("gamepad buttons"));
        }
        let values = reader.take(count)?.to_vec();
        Ok(Self { index, pressed, values, axes: read_axes(reader, MAX_GAMEPAD_AXES)? })
    }
}

impl Controller {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend([self.hand.code(), u8::from(self.grip.is_some())]);
        self.aim.write(bytes);
        if let Some(grip) = &self.grip {
            grip.write(bytes);
        }
        bytes.extend_from_slice(&self.pressed.to_be_bytes());
        bytes.extend_from_slice(&self.touched.to_be_bytes());
        bytes.push(self.values.len() as u8);
        for value in &self.values {
            bytes.extend_from_slice(&value.to_be_bytes());
        }
        write_axes(&self.axes, bytes);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let hand = Hand::read(reader)?;
        let held = reader.bounded(2, "grip")? == 1;
        let aim = Pose::read(reader)?;
        let grip = held.then(|| Pose::read(reader)).transpose()?;
        let (pressed, touched) = (reader.u16()?, reader.u16()?);
        let count = reader.count(0, MAX_CONTROLLER_BUTTONS, "controller buttons")?;
        if (pressed | touched) >> count != 0 {
            return Err(WireError::Field("controller buttons"));
        }
        let values = (0..count).map(|_| reader.u16()).collect::<Result<_, _>>()?;
        Ok(Self { hand, aim, grip, pressed, touched, values, axes: read_axes(reader, MAX_CONTROLLER_AXES)? })
    }
}

fn write_axes(axes: &[i16], bytes: &mut Vec<u8>) {
    bytes.push(axes.len() as u8);
    for axis in axes {
        bytes.extend_from_slice(&axis.to_be_bytes());
    }
}

fn read_axes(reader: &mut Reader<'_>, most: usize) -> Result<Vec<i16>, WireError> {
    let count = reader.count(0, most, "axes")?;
    (0..count).map(|_| reader.fraction()).collect()
}

/// Writes a count and the items. Writes nothing for an empty list, which the parts' bits show.
fn write_list<T>(items: &[T], most: usize, bytes: &mut Vec<u8>, write: impl Fn(&T, &mut Vec<u8>)) {
    debug_assert!(items.len() <= most);
    if !items.is_empty() {
        bytes.push(items.len() as u8);
        for item in items {
            write(item, bytes);
        }
    }
}

fn read_list<T>(
    reader: &mut Reader<'_>,
    most: usize,
    field: &'static str,
    read: impl Fn(&mut Reader<'_>) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    let count = reader.count(1, most, field)?;
    (0..count).map(|_| read(reader)).collect()
}

fn check_unique<T, K: PartialEq>(items: &[T], key: impl Fn(&T) -> K, field: &'static str) -> Result<(), WireError> {
    let twice = items.iter().enumerate().any(|(at, item)| items[..at].iter().any(|other| key(other) == key(item)));
    if twice { Err(WireError::Field(field)) } else { Ok(()) }
}
