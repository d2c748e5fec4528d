//! The mouse: every movement looks, whether the pointer is locked or not, because the client does not report that.

use nearlight_wire::{Pointer, PointerButton, ScreenPoint, WHEEL_UNITS_PER_PIXEL};

use super::camera::Camera;
use crate::input::{MouseState, button};

/// Radians per pixel of mouse travel, as on the project's page: 1,500 pixels are half a turn.
const RADIANS_PER_PIXEL: f32 = std::f32::consts::PI / 1_500.0;
/// Maximum movement between two events in pixels. Guess: a wide screen crossed at once.
const MAX_MOVEMENT: f32 = 4_000.0;
const BUTTONS: [(u16, PointerButton); 3] = [
    (button::LEFT, PointerButton::Primary),
    (button::MIDDLE, PointerButton::Auxiliary),
    (button::RIGHT, PointerButton::Secondary),
];

/// Applies the state, which has its origin at the lower left. `picture` is in pixels.
pub(super) fn on_state(pointer: &mut Pointer, state: &MouseState, picture: (u16, u16), camera: &mut Camera) {
    let [right, up] = state.delta.map(|pixels| pixels.clamp(-MAX_MOVEMENT, MAX_MOVEMENT));
    camera.turn(-right * RADIANS_PER_PIXEL, up * RADIANS_PER_PIXEL);
    // The client passes on the browser's `deltaY`, which grows towards the user. NaN casts to 0.
    let scrolled = state.scroll.map(|pixels| (pixels * WHEEL_UNITS_PER_PIXEL as f32) as i32);
    pointer.captured = true;
    pointer.at = place(state.position, picture);
    for (total, way) in pointer.moved.iter_mut().zip([right as i32, -up as i32]) {
        *total = total.wrapping_add(way);
    }
    for (total, way) in pointer.scrolled.iter_mut().zip(scrolled) {
        *total = total.wrapping_add(way);
    }
    let down = BUTTONS.into_iter().filter(|(bit, _)| state.buttons & bit != 0);
    pointer.buttons = down.fold(0, |buttons, (_, button)| buttons | button.bit());
}

/// Converts a position in pixels from the lower left corner.
pub(super) fn place([x, y]: [f32; 2], (width, height): (u16, u16)) -> ScreenPoint {
    ScreenPoint::new(x / f32::from(width.max(1)), 1.0 - y / f32::from(height.max(1)))
}
