//! Translates the events of a kernel input device (evdev) into actions.

use std::collections::BTreeMap;

use evdev::{AbsoluteAxisCode as Axis, EventType, InputEvent, KeyCode as Code, RelativeAxisCode as Relative};
use winit::event::{MouseButton, TouchPhase};
use winit::keyboard::{KeyCode, PhysicalKey};
use winit::platform::scancode::PhysicalKeyExtScancode as _;

use crate::controls::PIXELS_PER_NOTCH;

/// Units that a high-resolution wheel reports per notch ("Linux Input Subsystem", `REL_WHEEL_HI_RES`).
const FINE_UNITS_PER_NOTCH: f64 = 120.0;
/// The first code of a button; lower codes are keys (linux/input-event-codes.h).
const FIRST_BUTTON: u16 = Code::BTN_0.0;

/// An action of the user. Positions are fractions of the display's width and height.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeviceAction {
    Key {
        key: KeyCode,
        pressed: bool,
    },
    Button {
        button: MouseButton,
        pressed: bool,
    },
    /// Movement of a mouse to the right and down, in its own units.
    PointerMotion([f64; 2]),
    /// Position of the pointer.
    PointerPosition([f32; 2]),
    /// Turn of a wheel, in pixels to the right and down.
    Scroll([f64; 2]),
    /// A finger on a touch screen; `id` is its number on this device.
    Finger {
        id: u32,
        phase: TouchPhase,
        at: [f32; 2],
        pressure: f32,
    },
}

/// Minimum and maximum of an axis.
pub type Range = (i32, i32);

/// A device's capabilities, which determine what its events mean.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the capabilities are independent")]
pub struct Capabilities {
    /// Has keys of a keyboard or remote control.
    pub keys: bool,
    /// Moves the pointer relative to its position, as a mouse does.
    pub relative_motion: bool,
    /// Its wheel has a high resolution.
    pub fine_wheel: bool,
    /// Reports positions, as a tablet or a touch screen does: ranges of the horizontal and the vertical axis.
    pub position_ranges: Option<[Range; 2]>,
    /// Is a touch screen.
    pub direct_touch: bool,
    /// Reports several fingers.
    pub multi_touch: bool,
    /// Reports the pressure of a touch: range of its axis.
    pub pressure: Option<Range>,
}

#[derive(Clone, Copy, Debug)]
struct Finger {
    id: u32,
    at: [i32; 2],
    pressure: Option<i32>,
    phase: Option<TouchPhase>,
}

/// Combines a device's events into actions. A synchronization event completes a report.
#[derive(Debug)]
pub struct Reader {
    capabilities: Capabilities,
    moved: [i32; 2],
    at: [i32; 2],
    placed: bool,
    scrolled: [f64; 2],
    /// The multi-touch slot to which the next values belong.
    slot: i32,
    fingers: BTreeMap<i32, Finger>,
    touches_begun: u32,
}

impl Reader {
    pub fn new(capabilities: Capabilities) -> Self {
        Self {
            capabilities,
            moved: [0; 2],
            at: [0; 2],
            placed: false,
            scrolled: [0.0; 2],
            slot: 0,
            fingers: BTreeMap::new(),
            touches_begun: 0,
        }
    }

    /// Adds the actions that an event completes.
    pub fn on_event(&mut self, event: InputEvent, actions: &mut Vec<DeviceAction>) {
        let (code, value) = (event.code(), event.value());
        match event.event_type() {
            EventType::KEY => self.on_key(code, value, actions),
            EventType::RELATIVE => self.on_relative(Relative(code), value),
            EventType::ABSOLUTE => self.on_absolute(Axis(code), value),
            EventType::SYNCHRONIZATION => self.report(actions),
            _ => {}
        }
    }

    /// Handles a key or button. Value 2 is the kernel's repetition of a held key, which is pressed once more.
    fn on_key(&mut self, code: u16, value: i32, actions: &mut Vec<DeviceAction>) {
        let pressed = value != 0;
        if code < FIRST_BUTTON {
            if let PhysicalKey::Code(key) = PhysicalKey::from_scancode(code.into()) {
                actions.push(DeviceAction::Key { key, pressed });
            }
            return;
        }
        if code == Code::BTN_TOUCH.0 && self.capabilities.direct_touch {
            if !self.capabilities.multi_touch {
                self.touch(0, pressed);
            }
            return;
        }
        let button = match Code(code) {
            Code::BTN_LEFT => MouseButton::Left,
            Code::BTN_RIGHT => MouseButton::Right,
            Code::BTN_MIDDLE => MouseButton::Middle,
            Code::BTN_SIDE | Code::BTN_BACK => MouseButton::Back,
            Code::BTN_EXTRA | Code::BTN_FORWARD => MouseButton::Forward,
            _ => return,
        };
        // The pointer reaches its position before the button is pressed.
        self.report_position(actions);
        actions.push(DeviceAction::Button { button, pressed });
    }

    fn on_relative(&mut self, axis: Relative, value: i32) {
        let fine = self.capabilities.fine_wheel;
        let notches = f64::from(value);
        match axis {
            Relative::REL_X => self.moved[0] += value,
            Relative::REL_Y => self.moved[1] += value,
            // In evdev, turning a wheel away from the user is positive, and so is scrolling up.
            Relative::REL_WHEEL if !fine => self.scrolled[1] -= notches * PIXELS_PER_NOTCH,
            Relative::REL_HWHEEL if !fine => self.scrolled[0] += notches * PIXELS_PER_NOTCH,
            Relative::REL_WHEEL_HI_RES => self.scrolled[1] -= notches / FINE_UNITS_PER_NOTCH * PIXELS_PER_NOTCH,
            Relative::REL_HWHEEL_HI_RES => self.scrolled[0] += notches / FINE_UNITS_PER_NOTCH * PIXELS_PER_NOTCH,
            _ => {}
        }
    }

    fn on_absolute(&mut self, axis: Axis, value: i32) {
        let Capabilities { multi_touch, direct_touch, .. } = self.capabilities;
        match axis {
            Axis::ABS_MT_SLOT => self.slot = value,
            Axis::ABS_MT_TRACKING_ID if direct_touch => self.touch(self.slot, value >= 0),
            Axis::ABS_MT_POSITION_X => self.move_finger(self.slot, |finger| finger.at[0] = value),
            Axis::ABS_MT_POSITION_Y => self.move_finger(self.slot, |finger| finger.at[1] = value),
            Axis::ABS_MT_PRESSURE => self.move_finger(self.slot, |finger| finger.pressure = Some(value)),
            Axis::ABS_PRESSURE if direct_touch && !multi_touch => {
                self.move_finger(0, |finger| finger.pressure = Some(value));
            }
            Axis::ABS_X | Axis::ABS_Y if !multi_touch => {
                let index = usize::from(axis == Axis::ABS_Y);
                self.at[index] = value;
                self.placed = true;
                self.move_finger(0, |finger| finger.at[index] = value);
            }
            _ => {}
        }
    }

    fn touch(&mut self, slot: i32, down: bool) {
        if down {
            self.touches_begun = self.touches_begun.wrapping_add(1);
            let phase = Some(TouchPhase::Started);
            self.fingers.insert(slot, Finger { id: self.touches_begun, at: self.at, pressure: None, phase });
        } else if let Some(finger) = self.fingers.get_mut(&slot) {
            finger.phase = Some(TouchPhase::Ended);
        }
    }

    fn move_finger(&mut self, slot: i32, change: impl FnOnce(&mut Finger)) {
        if let Some(finger) = self.fingers.get_mut(&slot) {
            change(finger);
            finger.phase = finger.phase.or(Some(TouchPhase::Moved));
        }
    }

    fn report_position(&mut self, actions: &mut Vec<DeviceAction>) {
        let placed = std::mem::take(&mut self.placed);
        if let (true, false, Some(ranges)) = (placed, self.capabilities.direct_touch, self.capabilities.position_ranges)
        {
            actions.push(DeviceAction::PointerPosition(fractions(self.at, ranges)));
        }
    }

    /// Adds the actions of a complete report.
    fn report(&mut self, actions: &mut Vec<DeviceAction>) {
        self.report_position(actions);
        let moved = std::mem::take(&mut self.moved);
        if moved != [0; 2] {
            actions.push(DeviceAction::PointerMotion(moved.map(f64::from)));
        }
        let scrolled = std::mem::take(&mut self.scrolled);
        if scrolled.iter().any(|distance| *distance != 0.0) {
            actions.push(DeviceAction::Scroll(scrolled));
        }
        let Some(ranges) = self.capabilities.position_ranges else { return };
        let full = self.capabilities.pressure;
        self.fingers.retain(|_, finger| {
            let Some(phase) = finger.phase.take() else { return true };
            let pressure = finger.pressure.zip(full).map_or(1.0, |(value, range)| fraction(value, range));
            actions.push(DeviceAction::Finger { id: finger.id, phase, at: fractions(finger.at, ranges), pressure });
            phase != TouchPhase::Ended
        });
    }
}

fn fractions(at: [i32; 2], [across, down]: [Range; 2]) -> [f32; 2] {
    [fraction(at[0], across), fraction(at[1], down)]
}

fn fraction(value: i32, (low, high): Range) -> f32 {
    let (value, low, high) = (f64::from(value), f64::from(low), f64::from(high));
    ((value - low) / (high - low).max(1.0)).clamp(0.0, 1.0) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reader: &mut Reader, events: &[(EventType, u16, i32)]) -> Vec<DeviceAction> {
        let mut actions = Vec::new();
        for (kind, code, value) in events {
            reader.on_event(InputEvent::new(kind.0, *code, *value), &mut actions);
        }
        reader.on_event(InputEvent::new(EventType::SYNCHRONIZATION.0, 0, 0), &mut actions);
        actions
    }

    const fn key(code: Code, value: i32) -> (EventType, u16, i32) {
        (EventType::KEY, code.0, value)
    }

    const fn axis(axis: Axis, value: i32) -> (EventType, u16, i32) {
        (EventType::ABSOLUTE, axis.0, value)
    }

    const fn relative(axis: Relative, value: i32) -> (EventType, u16, i32) {
        (EventType::RELATIVE, axis.0, value)
    }

    #[test]
    fn keys_are_named_by_their_place_and_repeat_as_the_kernel_repeats_them() {
        let mut reader = Reader::new(Capabilities { keys: true, ..Capabilities::default() });
        let press = |key, pressed| vec![DeviceAction::Key { key, pressed }];
        assert_eq!(read(&mut reader, &[key(Code::KEY_W, 1)]), press(KeyCode::KeyW, true));
        assert_eq!(read(&mut reader, &[key(Code::KEY_W, 2)]), press(KeyCode::KeyW, true));
        assert_eq!(read(&mut reader, &[key(Code::KEY_W, 0)]), press(KeyCode::KeyW, false));
        assert_eq!(read(&mut reader, &[key(Code::KEY_LEFTMETA, 1)]), press(KeyCode::SuperLeft, true));
        assert_eq!(read(&mut reader, &[key(Code::BTN_SOUTH, 1)]), [], "a gamepad's");
    }

    #[test]
    fn a_mouse_moves_once_for_each_report() {
        let mut reader = Reader::new(Capabilities { relative_motion: true, ..Capabilities::default() });
        let moved = read(&mut reader, &[relative(Relative::REL_X, 3), relative(Relative::REL_Y, -2)]);
        assert_eq!(moved, [DeviceAction::PointerMotion([3.0, -2.0])]);
        let scrolled = read(&mut reader, &[relative(Relative::REL_WHEEL, -1), relative(Relative::REL_HWHEEL, 1)]);
        assert_eq!(scrolled, [DeviceAction::Scroll([100.0, 100.0])], "towards the user is down");
        let clicked = read(&mut reader, &[key(Code::BTN_RIGHT, 1)]);
        assert_eq!(clicked, [DeviceAction::Button { button: MouseButton::Right, pressed: true }]);
    }

    #[test]
    fn a_fine_wheel_counts_once() {
        let mut reader =
            Reader::new(Capabilities { relative_motion: true, fine_wheel: true, ..Capabilities::default() });
        let turned = [relative(Relative::REL_WHEEL, 1), relative(Relative::REL_WHEEL_HI_RES, 120)];
        assert_eq!(read(&mut reader, &turned), [DeviceAction::Scroll([0.0, -100.0])]);
        assert_eq!(
            read(&mut reader, &[relative(Relative::REL_WHEEL_HI_RES, 30)]),
            [DeviceAction::Scroll([0.0, -25.0])]
        );
    }

    #[test]
    fn a_tablet_places_the_pointer_before_it_presses() {
        let position_ranges = Some([(0, 1_000), (100, 300)]);
        let mut reader = Reader::new(Capabilities { position_ranges, ..Capabilities::default() });
        let actions = read(&mut reader, &[axis(Axis::ABS_X, 250), axis(Axis::ABS_Y, 200), key(Code::BTN_LEFT, 1)]);
        assert_eq!(
            actions,
            [
                DeviceAction::PointerPosition([0.25, 0.5]),
                DeviceAction::Button { button: MouseButton::Left, pressed: true }
            ]
        );
    }

    #[test]
    fn fingers_begin_move_and_end_each_by_itself() {
        let capabilities = Capabilities {
            position_ranges: Some([(0, 100); 2]),
            direct_touch: true,
            multi_touch: true,
            pressure: Some((0, 200)),
            ..Capabilities::default()
        };
        let mut reader = Reader::new(capabilities);
        let finger = |id, phase, at, pressure| DeviceAction::Finger { id, phase, at, pressure };
        let down = read(
            &mut reader,
            &[
                axis(Axis::ABS_MT_SLOT, 0),
                axis(Axis::ABS_MT_TRACKING_ID, 7),
                axis(Axis::ABS_MT_POSITION_X, 10),
                axis(Axis::ABS_MT_POSITION_Y, 20),
                axis(Axis::ABS_MT_PRESSURE, 50),
                axis(Axis::ABS_MT_SLOT, 1),
                axis(Axis::ABS_MT_TRACKING_ID, 8),
                axis(Axis::ABS_MT_POSITION_X, 90),
                axis(Axis::ABS_MT_POSITION_Y, 80),
                key(Code::BTN_TOUCH, 1),
                axis(Axis::ABS_X, 10),
            ],
        );
        let started = TouchPhase::Started;
        assert_eq!(down, [finger(1, started, [0.1, 0.2], 0.25), finger(2, started, [0.9, 0.8], 1.0)]);
        let moved = read(&mut reader, &[axis(Axis::ABS_MT_POSITION_X, 95)]);
        assert_eq!(moved, [finger(2, TouchPhase::Moved, [0.95, 0.8], 1.0)]);
        let lifted = read(&mut reader, &[axis(Axis::ABS_MT_SLOT, 0), axis(Axis::ABS_MT_TRACKING_ID, -1)]);
        assert_eq!(lifted, [finger(1, TouchPhase::Ended, [0.1, 0.2], 0.25)]);
        assert_eq!(read(&mut reader, &[axis(Axis::ABS_MT_POSITION_X, 50)]), [], "nothing is down there");
    }

    #[test]
    fn a_screen_for_one_finger_touches_where_it_says() {
        let capabilities =
            Capabilities { position_ranges: Some([(0, 100); 2]), direct_touch: true, ..Capabilities::default() };
        let mut reader = Reader::new(capabilities);
        let down = read(&mut reader, &[key(Code::BTN_TOUCH, 1), axis(Axis::ABS_X, 50), axis(Axis::ABS_Y, 25)]);
        assert_eq!(down, [DeviceAction::Finger { id: 1, phase: TouchPhase::Started, at: [0.5, 0.25], pressure: 1.0 }]);
        let up = read(&mut reader, &[key(Code::BTN_TOUCH, 0)]);
        assert_eq!(up, [DeviceAction::Finger { id: 1, phase: TouchPhase::Ended, at: [0.5, 0.25], pressure: 1.0 }]);
    }
}
