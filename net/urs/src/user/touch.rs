//! Fingers: a stick wherever the left thumb lands, looking with the right one. As on the project's page, but in pixels of the picture,
//! because those of the screen are unknown here.

use std::collections::BTreeMap;

use nearlight_units::{Span, Time};
use nearlight_wire::{ScreenPoint, Touch as WireTouch};

use super::camera::{Camera, Motion};
use super::mouse;
use crate::input::{TouchPhase, TouchState};

/// Travel of the stick from rest to full speed, as a share of the picture's width: a thumb's width on a phone in either orientation.
const STICK_REACH: f32 = 0.07;
/// Radians for a swipe across the picture's whole width: a swipe across half a phone turns by a third of a circle.
const SWIPE_RADIANS: f32 = std::f32::consts::PI * 4.0 / 3.0;
/// A browser sends a mouse's events for a finger within this time after it was lifted.
const MOUSE_ECHO: Span = Span::from_millis(700);
/// Maximum number of fingers, as in the client's own list.
const MAX_FINGERS: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Stick,
    Look,
}

#[derive(Debug)]
struct Finger {
    role: Role,
    /// Position in widths of the picture, y up.
    start: [f32; 2],
    place: [f32; 2],
    reported: WireTouch,
}

#[derive(Debug, Default)]
pub(super) struct Touch {
    fingers: BTreeMap<i32, Finger>,
    /// Number of fingers so far, which identifies them, because the client reuses its own numbers.
    begun: u32,
    touched_at: Option<Time>,
}

impl Touch {
    pub(super) fn on_state(&mut self, now: Time, state: &TouchState, picture: (u16, u16), camera: &mut Camera) {
        self.touched_at = Some(now);
        let place = state.position.map(|pixels| (pixels / f32::from(picture.0.max(1))).clamp(-4.0, 4.0));
        let at = mouse::place(state.position, picture);
        match state.phase {
            TouchPhase::Began => self.on_began(state.finger, place, at),
            TouchPhase::Moved | TouchPhase::Stationary => self.on_moved(state.finger, place, at, camera),
            // The client repeats a lifted finger when the browser calls it a click.
            TouchPhase::Ended | TouchPhase::Canceled | TouchPhase::None => drop(self.fingers.remove(&state.finger)),
        }
    }

    fn on_began(&mut self, id: i32, place: [f32; 2], at: ScreenPoint) {
        if self.fingers.len() == MAX_FINGERS && !self.fingers.contains_key(&id) {
            return;
        }
        let walking = self.fingers.values().any(|finger| finger.role == Role::Stick);
        let role = if place[0] < 0.5 && !walking { Role::Stick } else { Role::Look };
        self.begun = self.begun.wrapping_add(1);
        let reported = WireTouch { id: self.begun, at, pressure: u8::MAX };
        self.fingers.insert(id, Finger { role, start: place, place, reported });
    }

    fn on_moved(&mut self, id: i32, place: [f32; 2], at: ScreenPoint, camera: &mut Camera) {
        let Some(finger) = self.fingers.get_mut(&id) else { return };
        let [right, up] = [place[0] - finger.place[0], place[1] - finger.place[1]];
        finger.place = place;
        finger.reported.at = at;
        if finger.role == Role::Look {
            // The picture follows the finger, so the view turns against it.
            camera.turn(right * SWIPE_RADIANS, -up * SWIPE_RADIANS);
        }
    }

    /// The fingers in the form used on the wire.
    pub(super) fn touches(&self) -> Vec<WireTouch> {
        self.fingers.values().map(|finger| finger.reported).collect()
    }

    /// Whether a mouse movement now is only the browser's emulation of a finger.
    pub(super) fn was_touched(&self, now: Time) -> bool {
        self.touched_at.is_some_and(|at| now.saturating_since(at) < MOUSE_ECHO)
    }

    pub(super) fn add_to(&self, motion: &mut Motion) {
        for finger in self.fingers.values().filter(|finger| finger.role == Role::Stick) {
            motion.right += ((finger.place[0] - finger.start[0]) / STICK_REACH).clamp(-1.0, 1.0);
            motion.forward += ((finger.place[1] - finger.start[1]) / STICK_REACH).clamp(-1.0, 1.0);
        }
    }

    pub(super) fn release_all(&mut self) {
        self.fingers.clear();
    }
}
