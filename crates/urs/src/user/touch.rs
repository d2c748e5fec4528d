//! Fingers: a stick wherever the left thumb lands, looking with the right one, a tap pushes, a long press holds; as on the project's
//! page, but in pixels of the picture, for those of the screen are not known here.

use std::collections::BTreeMap;

use nearlight_units::{Span, Time};
use nearlight_wire::Action;

use super::Acts;
use super::camera::{Camera, Motion};
use crate::input::{TouchPhase, TouchState};

/// Travel of the stick from rest to full speed, as a share of the picture's width: a thumb's width on a phone held upright or not.
const STICK_REACH: f32 = 0.07;
/// Radians for a swipe across the picture's whole width: a swipe across half a phone turns by a third of a circle.
const SWIPE_RADIANS: f32 = std::f32::consts::PI * 4.0 / 3.0;
/// A finger that moved less than this share of the width is tapping or pressing.
const STILL: f32 = 0.015;
const TAP: Span = Span::from_millis(260);
const PRESS: Span = Span::from_millis(380);
/// A browser sends a mouse's events for a finger within this time after it was lifted.
const MOUSE_ECHO: Span = Span::from_millis(700);
/// What the client's own list holds.
const MAX_FINGERS: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Stick,
    Look,
}

#[derive(Debug)]
struct Finger {
    role: Role,
    /// In widths of the picture, y up.
    start: [f32; 2],
    place: [f32; 2],
    began_at: Time,
    moved: bool,
}

#[derive(Debug, Default)]
pub(super) struct Touch {
    fingers: BTreeMap<i32, Finger>,
    /// The finger whose long press holds something.
    holding: Option<i32>,
    touched_at: Option<Time>,
}

impl Touch {
    pub(super) fn on_state(
        &mut self,
        now: Time,
        state: &TouchState,
        picture: (u16, u16),
        camera: &mut Camera,
        acts: &mut Acts,
    ) {
        self.touched_at = Some(now);
        let place = state.position.map(|pixels| (pixels / f32::from(picture.0.max(1))).clamp(-4.0, 4.0));
        match state.phase {
            TouchPhase::Began => self.on_began(now, state.finger, place),
            TouchPhase::Moved | TouchPhase::Stationary => self.on_moved(state.finger, place, camera),
            TouchPhase::Ended => self.on_gone(now, state.finger, true, acts),
            TouchPhase::Canceled | TouchPhase::None => self.on_gone(now, state.finger, false, acts),
        }
    }

    fn on_began(&mut self, now: Time, id: i32, place: [f32; 2]) {
        if self.fingers.len() == MAX_FINGERS && !self.fingers.contains_key(&id) {
            return;
        }
        let walking = self.fingers.values().any(|finger| finger.role == Role::Stick);
        let role = if place[0] < 0.5 && !walking { Role::Stick } else { Role::Look };
        self.fingers.insert(id, Finger { role, start: place, place, began_at: now, moved: false });
    }

    fn on_moved(&mut self, id: i32, place: [f32; 2], camera: &mut Camera) {
        let Some(finger) = self.fingers.get_mut(&id) else { return };
        let [right, up] = [place[0] - finger.place[0], place[1] - finger.place[1]];
        finger.place = place;
        finger.moved |= (place[0] - finger.start[0]).hypot(place[1] - finger.start[1]) > STILL;
        if finger.role == Role::Look {
            // The picture follows the finger, so the view turns against it.
            camera.turn(right * SWIPE_RADIANS, -up * SWIPE_RADIANS);
        }
    }

    fn on_gone(&mut self, now: Time, id: i32, lifted: bool, acts: &mut Acts) {
        // The client repeats a lifted finger when the browser calls it a click.
        let Some(finger) = self.fingers.remove(&id) else { return };
        if self.holding == Some(id) {
            self.holding = None;
            acts.push(Action::Release);
        } else if lifted && !finger.moved && now.saturating_since(finger.began_at) < TAP {
            acts.push(Action::Push);
        }
    }

    /// A finger that has rested for long enough takes hold: true where one did.
    pub(super) fn on_time(&mut self, now: Time, acts: &mut Acts) -> bool {
        let pressed = self.pressing().find(|(_, due)| *due <= now).map(|(id, _)| id);
        if pressed.is_some() {
            self.holding = pressed;
            acts.push(Action::Grab);
        }
        pressed.is_some()
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.pressing().map(|(_, due)| due).min()
    }

    fn pressing(&self) -> impl Iterator<Item = (i32, Time)> + '_ {
        let can = |finger: &Finger| finger.role == Role::Look && !finger.moved;
        let free = self.holding.is_none();
        self.fingers
            .iter()
            .filter(move |(_, finger)| free && can(finger))
            .map(|(id, finger)| (*id, finger.began_at + PRESS))
    }

    /// Whether a mouse that moves now is only the browser's second telling of a finger.
    pub(super) fn was_touched(&self, now: Time) -> bool {
        self.touched_at.is_some_and(|at| now.saturating_since(at) < MOUSE_ECHO)
    }

    pub(super) fn add_to(&self, motion: &mut Motion) {
        for finger in self.fingers.values().filter(|finger| finger.role == Role::Stick) {
            motion.right += ((finger.place[0] - finger.start[0]) / STICK_REACH).clamp(-1.0, 1.0);
            motion.forward += ((finger.place[1] - finger.start[1]) / STICK_REACH).clamp(-1.0, 1.0);
        }
    }

    pub(super) fn let_go(&mut self, acts: &mut Acts) {
        self.fingers.clear();
        if self.holding.take().is_some() {
            acts.push(Action::Release);
        }
    }
}
