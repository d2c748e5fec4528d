//! The gamepad: sticks walk and look, A grabs, B pushes, X throws, Y resets, triggers go down and up; as on the project's page.

use nearlight_wire::Action;

use super::Acts;
use super::camera::{Camera, Motion};
use crate::input::{GamepadState, pad};

/// Sticks rest somewhere in here.
const DEAD_ZONE: f32 = 0.12;
/// Radians a second at full deflection.
const TURN_SPEED: f32 = 2.4;
const PRESSES: [(u32, Action); 3] =
    [(pad::EAST, Action::Push), (pad::WEST, Action::Throw), (pad::NORTH, Action::Reset)];

#[derive(Debug, Default)]
pub(super) struct Gamepad {
    state: GamepadState,
}

impl Gamepad {
    pub(super) fn on_state(&mut self, state: &GamepadState, acts: &mut Acts) {
        let (now, before) = (state.buttons, self.state.buttons);
        let went = |bit| now & bit != 0 && before & bit == 0;
        if went(pad::SOUTH) {
            acts.push(Action::Grab);
        }
        if now & pad::SOUTH == 0 && before & pad::SOUTH != 0 {
            acts.push(Action::Release);
        }
        for (bit, action) in PRESSES {
            if went(bit) {
                acts.push(action);
            }
        }
        self.state = *state;
    }

    pub(super) fn let_go(&mut self, acts: &mut Acts) {
        self.on_state(&GamepadState::default(), acts);
    }

    pub(super) fn add_to(&self, motion: &mut Motion) {
        let [right, forward] = self.state.left_stick.map(bent);
        motion.right += right;
        motion.forward += forward;
        motion.up += self.state.right_trigger.clamp(0.0, 1.0) - self.state.left_trigger.clamp(0.0, 1.0);
        motion.run |= self.state.buttons & pad::LEFT_STICK != 0;
    }

    /// A stick that is held keeps turning.
    pub(super) fn turns(&self) -> bool {
        self.state.right_stick.iter().any(|axis| bent(*axis).abs() > 0.0)
    }

    /// True where it turned the view.
    pub(super) fn turn(&self, camera: &mut Camera, seconds: f32) -> bool {
        let [right, up] = self.state.right_stick.map(|axis| bent(axis) * TURN_SPEED * seconds);
        camera.turn(-right, up);
        self.turns()
    }
}

/// Nothing in the dead zone, then a soft start to full deflection.
fn bent(value: f32) -> f32 {
    let size = (value.abs().min(1.0) - DEAD_ZONE).max(0.0) / (1.0 - DEAD_ZONE);
    size * size * value.signum()
}
