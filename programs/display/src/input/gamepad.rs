//! A virtual gamepad as a kernel input device: its state, its events, and the answers to a program's requests.
//!
//! It presents itself as Microsoft's Xbox 360 controller, whose layout every library knows. Event types, codes and requests are those of
//! Linux' `include/uapi/linux/input.h` and `input-event-codes.h`; buttons and axes are arranged as the kernel's driver `xpad` does.

use nearlight_wire::Gamepad;
use serde::{Deserialize, Serialize};

/// The device's name. SDL and other libraries recognise it by the identifiers alone.
pub(crate) const DEVICE_NAME: &str = "Microsoft X-Box 360 pad";
/// The device's bus (USB), vendor, product and version.
pub(crate) const IDENTIFIERS: [u16; 4] = [0x03, 0x045e, 0x028e, 0x0114];
/// `EV_VERSION`.
const INTERFACE_VERSION: i32 = 0x01_0001;

/// Bytes of a `struct input_event` on a 64-bit machine.
pub(crate) const EVENT_BYTES: usize = 24;

const SYNCHRONISATION: u16 = 0;
const KEY: u16 = 1;
const ABSOLUTE: u16 = 3;
const FORCE_FEEDBACK: u16 = 0x15;
/// The only effect that the device has (`FF_RUMBLE`).
pub(crate) const RUMBLE: u16 = 0x50;
/// The first force feedback code that is not an effect (`FF_GAIN`).
const GAIN: u16 = 0x60;
/// Bytes of a `struct ff_effect` on a 64-bit machine.
const EFFECT_BYTES: usize = 48;
/// The synchronisation code for a client that has not read for too long and must query the state (`SYN_DROPPED`).
const DROPPED: u16 = 3;

/// The key of each button in the order of W3C's standard mapping; `None` for buttons that are axes of this device.
const BUTTONS: [Option<u16>; 17] = [
    Some(0x130), // A
    Some(0x131), // B
    Some(0x133), // X
    Some(0x134), // Y
    Some(0x136), // left shoulder
    Some(0x137), // right shoulder
    None,        // left trigger
    None,        // right trigger
    Some(0x13a), // back
    Some(0x13b), // start
    Some(0x13d), // left stick
    Some(0x13e), // right stick
    None,        // up
    None,        // down
    None,        // left
    None,        // right
    Some(0x13c), // guide
];
/// The triggers' indices in the standard mapping, left and right.
const TRIGGERS: [usize; 2] = [6, 7];
/// The directional pad's indices in the standard mapping: up, down, left, right.
const D_PAD_BUTTONS: [u32; 4] = [12, 13, 14, 15];

/// Code, minimum, maximum, fuzz and flat of each axis: sticks, triggers, directional pad.
pub(crate) const AXES: [(u16, [i32; 4]); 8] =
    [(0, STICK), (1, STICK), (3, STICK), (4, STICK), (2, TRIGGER), (5, TRIGGER), (16, D_PAD), (17, D_PAD)];
const STICK: [i32; 4] = [-32_768, 32_767, 16, 128];
const TRIGGER: [i32; 4] = [0, 255, 0, 0];
const D_PAD: [i32; 4] = [-1, 1, 0, 0];

/// Deflection from which a stick counts as moved on purpose: half of its travel. Guess: sticks at rest are not exactly centred.
const USED_STICK_THRESHOLD: u16 = 16_384;

/// Returns the codes of the device's keys.
pub(crate) fn keys() -> impl Iterator<Item = u16> {
    BUTTONS.into_iter().flatten()
}

/// The state of a gamepad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PadState {
    /// Pressed buttons, one bit for each button of W3C's standard mapping.
    pressed: u32,
    /// Left and right trigger, 0 to 255.
    triggers: [u8; 2],
    /// Left stick's x and y, right stick's x and y. Right and down are positive.
    sticks: [i16; 4],
}

impl PadState {
    pub(crate) fn from_gamepad(gamepad: &Gamepad) -> Self {
        let trigger = |button: usize| {
            let down = if gamepad.pressed & 1 << button == 0 { 0 } else { u8::MAX };
            gamepad.values.get(button).copied().unwrap_or(down)
        };
        let stick = |axis: usize| gamepad.axes.get(axis).copied().unwrap_or(0);
        Self { pressed: gamepad.pressed, triggers: TRIGGERS.map(trigger), sticks: [0, 1, 2, 3].map(stick) }
    }

    /// Returns the state with this button pressed or released.
    pub(crate) const fn with_button(mut self, button: u8, pressed: bool) -> Self {
        if button < u32::BITS as u8 {
            let bit = 1 << button;
            self.pressed = if pressed { self.pressed | bit } else { self.pressed & !bit };
        }
        self
    }

    /// Returns whether somebody is using the gamepad.
    pub(crate) fn is_used(self) -> bool {
        self.pressed != 0 || self.sticks.iter().any(|stick| stick.unsigned_abs() > USED_STICK_THRESHOLD)
    }

    fn is_down(self, button: u32) -> bool {
        self.pressed & 1 << button != 0
    }

    /// Returns the axes' values in the order of [`AXES`].
    fn axes(self) -> [i32; 8] {
        let [left_right, left_down, right_right, right_down] = self.sticks.map(i32::from);
        let [left, right] = self.triggers.map(i32::from);
        let [up, down, west, east] = D_PAD_BUTTONS.map(|button| i32::from(self.is_down(button)));
        [left_right, left_down, right_right, right_down, left, right, east - west, down - up]
    }

    /// Returns the events that lead from an earlier state to this one: type, code and value. The last one is a synchronisation. Returns
    /// nothing if the states are equal.
    pub(crate) fn events_since(self, before: Self) -> Vec<(u16, u16, i32)> {
        let buttons = BUTTONS.iter().zip(0..).filter_map(|(key, button)| {
            let changes = self.is_down(button) != before.is_down(button);
            key.filter(|_| changes).map(|key| (KEY, key, i32::from(self.is_down(button))))
        });
        let axes = AXES.iter().zip(self.axes()).zip(before.axes());
        let axes = axes.filter(|((_, now), then)| now != then).map(|(((code, _), now), _)| (ABSOLUTE, *code, now));
        let mut events: Vec<_> = buttons.chain(axes).collect();
        if !events.is_empty() {
            events.push((SYNCHRONISATION, 0, 0));
        }
        events
    }

    /// Returns the return value and the data of a request to the device (`ioctl`); `None` for an unknown request.
    pub(crate) fn ioctl_reply(self, request: u32) -> Option<(i32, Vec<u8>)> {
        let Request { size, kind: b'E', number } = Request::parse(request) else { return None };
        let fixed = |bytes: Vec<u8>| (bytes.len() == size).then_some((0, bytes));
        // Requests of variable length return the number of bytes copied.
        let cut = |mut bytes: Vec<u8>, padded: usize| {
            bytes.resize(padded.max(bytes.len()).min(size), 0);
            Some((bytes.len() as i32, bytes))
        };
        match number {
            0x01 => fixed(INTERFACE_VERSION.to_le_bytes().into()),
            0x02 => fixed(IDENTIFIERS.iter().flat_map(|part| part.to_le_bytes()).collect()),
            0x06 => cut(DEVICE_NAME.bytes().chain([0]).collect(), 0),
            0x35 => cut(bits([RUMBLE].into_iter()), 16),
            // The device has no properties, lights, sounds, switches or events of other types.
            0x09 | 0x19..=0x1b | 0x22 | 0x24..=0x34 | 0x36..=0x3f => cut(Vec::new(), 8),
            0x18 => cut(bits(self.keys_down()), KEY_BYTES),
            0x20 => cut(bits([SYNCHRONISATION, KEY, ABSOLUTE, FORCE_FEEDBACK].into_iter()), 8),
            0x21 => cut(bits(keys()), KEY_BYTES),
            0x23 => cut(bits(AXES.iter().map(|(code, _)| *code)), 8),
            0x40..=0x7f => {
                let axis = AXES.iter().position(|(code, _)| u32::from(*code) == u32::from(number) - 0x40)?;
                let [min, max, fuzz, flat] = AXES[axis].1;
                fixed([self.axes()[axis], min, max, fuzz, flat, 0].iter().flat_map(|part| part.to_le_bytes()).collect())
            }
            // Number of simultaneous force feedback effects.
            0x84 => fixed(1_i32.to_le_bytes().into()),
            // Exclusive access and the events' clock (wall time) are accepted without effect.
            0x90 | 0xa0 => Some((0, Vec::new())),
            _ => None,
        }
    }

    fn keys_down(self) -> impl Iterator<Item = u16> {
        BUTTONS.into_iter().zip(0..).filter_map(move |(key, button)| key.filter(|_| self.is_down(button)))
    }
}

/// A rumble effect of the two motors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rumble {
    /// Strength of the slow, strong motor, 0 to 65,535.
    pub(crate) strong: u16,
    /// Strength of the fast, weak motor, 0 to 65,535.
    pub(crate) weak: u16,
    /// Duration; 0 if the effect plays until it is stopped.
    pub(crate) milliseconds: u16,
}

impl Rumble {
    /// Parses the effect that a request uploads (`EVIOCSFF`). Returns `None` if the device does not support it.
    pub(crate) fn parse(effect: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u16::from_le_bytes([*effect.get(at)?, *effect.get(at + 1)?]));
        let [kind, milliseconds, strong, weak] = [number(0)?, number(10)?, number(16)?, number(18)?];
        (kind == RUMBLE && effect.len() == EFFECT_BYTES).then_some(Self { strong, weak, milliseconds })
    }
}

/// Returns whether a request uploads an effect.
pub(crate) const fn uploads_effect(request: u32) -> bool {
    matches!(Request::parse(request), Request { size: EFFECT_BYTES, kind: b'E', number: 0x80 })
}

/// Interprets an event that a program writes: true plays its effect, false stops it. Returns `None` for other events.
pub(crate) fn plays_effect(event: &[u8]) -> Option<bool> {
    let number = |at: usize| Some(u16::from_le_bytes([*event.get(at)?, *event.get(at + 1)?]));
    let (kind, code, value) = (number(16)?, number(18)?, event.get(20..EVENT_BYTES)?);
    // Clients never learn the effect's number. Those that expect one send -1.
    let is_effect = kind == FORCE_FEEDBACK && (code < GAIN || code == u16::MAX);
    is_effect.then(|| value.iter().any(|byte| *byte != 0))
}

/// Bytes of the kernel's bit set of all keys.
const KEY_BYTES: usize = 0x300 / 8;

/// Returns a bit set of the given numbers.
fn bits(numbers: impl Iterator<Item = u16>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in numbers {
        let place = usize::from(number / 8);
        bytes.resize(bytes.len().max(place + 1), 0);
        bytes[place] |= 1 << (number % 8);
    }
    bytes
}

/// The fields of an `ioctl` request number (`asm-generic/ioctl.h`).
struct Request {
    size: usize,
    kind: u8,
    number: u8,
}

impl Request {
    const fn parse(request: u32) -> Self {
        let [number, kind, ..] = request.to_le_bytes();
        Self { size: (request >> 16 & 0x3fff) as usize, kind, number }
    }
}

/// Returns the bytes of an event at `at` microseconds since 1970.
pub(crate) fn event_bytes((kind, code, value): (u16, u16, i32), at: u64) -> [u8; EVENT_BYTES] {
    let mut bytes = [0; EVENT_BYTES];
    bytes[..8].copy_from_slice(&(at / 1_000_000).to_le_bytes());
    bytes[8..16].copy_from_slice(&(at % 1_000_000).to_le_bytes());
    bytes[16..18].copy_from_slice(&kind.to_le_bytes());
    bytes[18..20].copy_from_slice(&code.to_le_bytes());
    bytes[20..].copy_from_slice(&value.to_le_bytes());
    bytes
}

/// The event for a client that has not read for too long.
pub(crate) const OVERRUN: (u16, u16, i32) = (SYNCHRONISATION, DROPPED, 0);

#[cfg(test)]
mod tests {
    use super::*;

    fn gamepad(pressed: u32, axes: &[i16]) -> Gamepad {
        let values = (0..17).map(|button| if pressed & 1 << button == 0 { 0 } else { 200 }).collect();
        Gamepad { index: 0, pressed, values, axes: axes.into() }
    }

    #[test]
    fn what_has_changed_comes_as_one_group() {
        let rest = PadState::default();
        assert_eq!(rest.events_since(rest), []);
        // A, the right trigger, left on the cross, and the right stick up.
        let state = PadState::from_gamepad(&gamepad(1 | 1 << 7 | 1 << 14, &[0, 0, 0, -32_767]));
        let group =
            [(KEY, 0x130, 1), (ABSOLUTE, 4, -32_767), (ABSOLUTE, 5, 200), (ABSOLUTE, 16, -1), (SYNCHRONISATION, 0, 0)];
        assert_eq!(state.events_since(rest), group);
        let back = rest.events_since(state);
        assert_eq!(back.iter().map(|(_, _, value)| *value).collect::<Vec<_>>(), [0; 5]);
    }

    #[test]
    fn a_short_press_between_two_states_is_not_lost() {
        let rest = PadState::default();
        let pressed = rest.with_button(16, true);
        assert_eq!(pressed.events_since(rest)[0], (KEY, 0x13c, 1));
        assert_eq!(pressed.with_button(16, false), rest);
        assert_eq!(rest.with_button(255, true), rest, "a button that there is not");
    }

    #[test]
    fn a_gamepad_with_fewer_parts_rests_in_the_others() {
        let small = Gamepad { index: 0, pressed: 1 << 6, values: Vec::new(), axes: vec![5] };
        let state = PadState::from_gamepad(&small);
        assert_eq!((state.triggers, state.sticks), ([255, 0], [5, 0, 0, 0]));
    }

    #[test]
    fn a_stick_that_rests_beside_the_middle_is_not_used() {
        for (pressed, axis, used) in
            [(0, 4_000, false), (0, -4_000, false), (0, i16::MIN, true), (0, 20_000, true), (8, 0, true)]
        {
            assert_eq!(PadState::from_gamepad(&gamepad(pressed, &[0, axis])).is_used(), used, "{pressed} {axis}");
        }
    }

    /// `_IOC(_IOC_READ, 'E', number, size)`.
    const fn request(number: u32, size: u32) -> u32 {
        2 << 30 | size << 16 | (b'E' as u32) << 8 | number
    }

    #[test]
    fn requests_are_answered_as_the_kernel_does() {
        let state = PadState::from_gamepad(&gamepad(1 << 3, &[100, 0, 0, 0]));
        assert_eq!(state.ioctl_reply(request(0x02, 8)), Some((0, vec![3, 0, 0x5e, 4, 0x8e, 2, 0x14, 1])));
        assert_eq!(state.ioctl_reply(request(0x02, 4)), None, "too little room");
        assert_eq!(state.ioctl_reply(request(0x06, 9)), Some((9, b"Microsoft".to_vec())));
        let (length, keys) = state.ioctl_reply(request(0x21, 96)).expect("keys");
        assert_eq!((length, keys.len(), keys[0x130 / 8], keys[0x138 / 8]), (96, 96, 0b1101_1011, 0b0111_1100));
        let (_, down) = state.ioctl_reply(request(0x18, 96)).expect("what is down");
        assert_eq!((down[0x134 / 8], down.iter().filter(|byte| **byte != 0).count()), (1 << 4, 1));
        let (returned, axis) = state.ioctl_reply(request(0x40, 24)).expect("an axis");
        assert_eq!((returned, &axis[..4], axis.len()), (0, &[100, 0, 0, 0][..], 24));
        assert_eq!(state.ioctl_reply(request(0x40 + 6, 24)), None, "an axis that there is not");
        assert_eq!(state.ioctl_reply(0x8004_6601), None, "a request to something else");
    }

    /// As SDL uploads and plays it: the number of the effect stays what it was before the upload, -1.
    #[test]
    fn an_effect_is_uploaded_played_and_stopped() {
        let upload = 1 << 30 | 48 << 16 | u32::from(b'E') << 8 | 0x80;
        assert!(uploads_effect(upload) && !uploads_effect(request(0x35, 16)));
        let mut effect = [0; 48];
        effect[..4].copy_from_slice(&[0x50, 0, 255, 255]);
        effect[10..12].copy_from_slice(&500_u16.to_le_bytes());
        effect[16..20].copy_from_slice(&[0, 0x80, 0, 0x40]);
        assert_eq!(Rumble::parse(&effect), Some(Rumble { strong: 0x8000, weak: 0x4000, milliseconds: 500 }));
        assert_eq!(Rumble::parse(&effect[..40]), None);
        effect[0] = 0x51;
        assert_eq!(Rumble::parse(&effect), None, "a periodic effect");
        let event = |kind, code, value| plays_effect(&event_bytes((kind, code, value), 0));
        assert_eq!([event(0x15, u16::MAX, 1), event(0x15, 0, 0)], [Some(true), Some(false)]);
        assert_eq!([event(0x15, 0x60, 9), event(0x11, 0, 1)], [None; 2], "gain, a light");
        let (_, types) = PadState::default().ioctl_reply(request(0x20, 8)).expect("types");
        let (_, effects) = PadState::default().ioctl_reply(request(0x35, 16)).expect("effects");
        assert_eq!((types[2], effects[0x50 / 8]), (1 << 5, 1));
    }

    #[test]
    fn an_event_has_the_kernels_layout() {
        let bytes = event_bytes((1, 0x130, -1), 5_000_007);
        assert_eq!(bytes, [5, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0x30, 1, 255, 255, 255, 255]);
    }
}
