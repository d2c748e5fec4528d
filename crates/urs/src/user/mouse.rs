//! The mouse: every movement looks, whether the pointer is locked or not, for the client does not say; buttons act on what is ahead.

use nearlight_wire::Action;

use super::Acts;
use super::camera::Camera;
use crate::input::{MouseState, button};

/// Radians per pixel of mouse travel, as on the project's page: 1,500 pixels are half a turn.
const RADIANS: f32 = std::f32::consts::PI / 1_500.0;
/// No movement between two events is longer, in pixels. Guess: a wide screen crossed at once.
const LONGEST: f32 = 4_000.0;

/// What a wheel tells for one notch, as browsers count it, and the most notches that one event is taken for.
const NOTCH: f32 = 100.0;
const MOST_NOTCHES: f32 = 8.0;

#[derive(Debug, Default)]
pub(super) struct Mouse {
    buttons: u16,
    /// Of a notch, since the last whole one.
    turned: f32,
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
        self.turn_wheel(state.scroll[1], acts);
    }

    /// The client hands on the browser's `deltaY`, which grows towards the user.
    fn turn_wheel(&mut self, towards_user: f32, acts: &mut Acts) {
        if towards_user.is_nan() {
            return;
        }
        self.turned += (towards_user / NOTCH).clamp(-MOST_NOTCHES, MOST_NOTCHES);
        let notches = self.turned.trunc();
        self.turned -= notches;
        let action = if notches > 0.0 { Action::Nearer } else { Action::Farther };
        (0..notches.abs() as u8).for_each(|_| acts.push(action));
    }

    pub(super) fn let_go(&mut self, acts: &mut Acts) {
        if self.buttons & button::LEFT != 0 {
            acts.push(Action::Release);
        }
        self.buttons = 0;
    }
}
