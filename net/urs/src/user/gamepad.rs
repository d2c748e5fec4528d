//! The gamepad: sticks walk and look, triggers go down and up, as on the project's page.

use nearlight_wire::Gamepad as WireGamepad;

use super::camera::{Camera, Motion};
use crate::input::{GamepadState, pad};

/// Deflection below which sticks are at rest.
const DEAD_ZONE: f32 = 0.12;
/// Turning speed in radians per second at full deflection.
const TURN_SPEED: f32 = 2.4;
/// Triggers' numbers in the standard mapping, whose buttons are 17.
const TRIGGERS: [usize; 2] = [6, 7];
const BUTTONS: usize = 17;
/// Travel from which a trigger counts as pressed. Guess: what browsers do.
const PRESSED_TRAVEL: f32 = 0.1;

#[derive(Debug, Default)]
pub(super) struct Gamepad {
    state: GamepadState,
}

impl Gamepad {
    pub(super) const fn on_state(&mut self, state: &GamepadState) {
        self.state = *state;
    }

    /// The state in the form used on the wire.
    pub(super) fn state(&self) -> WireGamepad {
        let GamepadState { buttons, left_stick, right_stick, left_trigger, right_trigger } = self.state;
        let mut gamepad = WireGamepad { values: vec![0; BUTTONS], ..WireGamepad::default() };
        for (bit, number) in pad::STANDARD.into_iter().enumerate() {
            if buttons >> bit & 1 == 1 {
                gamepad.values[usize::from(number)] = u8::MAX;
            }
        }
        for (number, way) in TRIGGERS.into_iter().zip([left_trigger, right_trigger]) {
            gamepad.values[number] = if way > PRESSED_TRAVEL { (way.min(1.0) * f32::from(u8::MAX)) as u8 } else { 0 };
        }
        let down = gamepad.values.iter().enumerate().filter(|(_, value)| **value > 0);
        gamepad.pressed = down.fold(0, |pressed, (number, _)| pressed | 1 << number);
        // Down is positive in the standard mapping.
        let axes = [left_stick[0], -left_stick[1], right_stick[0], -right_stick[1]];
        gamepad.axes = axes.map(|axis| (axis.clamp(-1.0, 1.0) * f32::from(i16::MAX)) as i16).to_vec();
        gamepad
    }

    pub(super) fn add_to(&self, motion: &mut Motion) {
        let [right, forward] = self.state.left_stick.map(response);
        motion.right += right;
        motion.forward += forward;
        motion.up += self.state.right_trigger.clamp(0.0, 1.0) - self.state.left_trigger.clamp(0.0, 1.0);
        motion.run |= self.state.buttons & pad::LEFT_STICK != 0;
    }

    /// Whether a deflected stick keeps turning the view.
    pub(super) fn turns(&self) -> bool {
        self.state.right_stick.iter().any(|axis| response(*axis).abs() > 0.0)
    }

    /// Turns the view. Returns whether it changed.
    pub(super) fn turn(&self, camera: &mut Camera, seconds: f32) -> bool {
        let [right, up] = self.state.right_stick.map(|axis| response(axis) * TURN_SPEED * seconds);
        camera.turn(-right, up);
        self.turns()
    }
}

/// The response curve of a stick: zero in the dead zone, then a soft start up to full deflection.
fn response(value: f32) -> f32 {
    let size = (value.abs().min(1.0) - DEAD_ZONE).max(0.0) / (1.0 - DEAD_ZONE);
    size * size * value.signum()
}
