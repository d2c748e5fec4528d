//! The mouse: every movement looks, whether the pointer is locked or not, for the client does not say; buttons act on what is ahead.

use nearlight_wire::Action;

use super::Acts;
use super::camera::Camera;
use crate::input::{MouseState, button};

/// Radians per pixel of mouse travel, as on the project's page: 1,500 pixels are half a turn.
const RADIANS: f32 = std::f32::consts::PI / 1_500.0;
/// No movement between two events is longer, in pixels. Guess: a wide screen crossed at once.
const LONGEST: f32 = 4_000.0;

#[derive(Debug, Default)]
pub(super) struct Mouse {
    buttons: u16,
}

impl Mouse {
    pub(super) fn on_state(&mut self, state: &MouseState, camera: &mut Camera, acts: &mut Acts) {
        let [right, up] = state.delta.map(|pixels| pixels.clamp(-LONGEST, LONGEST) * RADIANS);
        camera.turn(-right, up);
        let went = |bit| state.buttons & bit != 0 && self.buttons & bit == 0;
        if went(button::LEFT) {
            acts.push(Action::Grab);
        }
        if state.buttons & button::LEFT == 0 && self.buttons & button::LEFT != 0 {
            acts.push(Action::Release);
        }
        if went(button::MIDDLE) {
            acts.push(Action::Throw);
        }
        if went(button::RIGHT) {
            acts.push(Action::Push);
        }
        self.buttons = state.buttons;
    }

    pub(super) fn let_go(&mut self, acts: &mut Acts) {
        if self.buttons & button::LEFT != 0 {
            acts.push(Action::Release);
        }
        self.buttons = 0;
    }
}
