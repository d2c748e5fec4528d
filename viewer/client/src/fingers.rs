//! Fingers on a touch screen. The application gets them all. As on the page, the first one that touches the left half of the picture walks;
//! the others look around.

use std::collections::BTreeMap;

use nearlight_wire::{MAX_TOUCHES, ScreenPoint, Touch};
use winit::event::TouchPhase;

use crate::camera::Motion;

/// Travel of the walking finger from rest to full speed, as a fraction of the picture's width. Guess: a thumb's width on a phone.
const FULL_SPEED_TRAVEL: f32 = 0.06;
/// Radians that a swipe across the picture's whole width turns the view.
const SWIPE_RADIANS: f32 = std::f32::consts::TAU * 2.0 / 3.0;

/// An event of a touch screen.
#[derive(Clone, Copy, Debug)]
pub struct FingerEvent {
    /// The system's number of the finger while it is down.
    pub id: u64,
    pub phase: TouchPhase,
    /// Position in fractions of the picture's width and height.
    pub at: [f32; 2],
    /// Pressure from 0 to 1; 1 if the screen does not report it.
    pub pressure: f32,
    /// The picture's width divided by its height.
    pub aspect: f32,
}

#[derive(Clone, Copy, Debug)]
struct Finger {
    walks: bool,
    began: [f32; 2],
    at: [f32; 2],
    pressure: f32,
    aspect: f32,
    /// The finger's number in this session.
    number: u32,
}

#[derive(Debug, Default)]
pub struct Fingers {
    down: BTreeMap<u64, Finger>,
    /// Number of touches so far, from which fingers get their numbers.
    touches_begun: u32,
}

impl Fingers {
    /// Handles an event. Returns how far the view turns, in radians to the left and up, if the finger looks around.
    pub fn on_event(&mut self, event: FingerEvent) -> Option<[f32; 2]> {
        let FingerEvent { id, phase, at, pressure, aspect } = event;
        match phase {
            TouchPhase::Started if self.down.len() < MAX_TOUCHES => {
                self.touches_begun = self.touches_begun.wrapping_add(1);
                let walks = at[0] < 0.5 && !self.down.values().any(|finger| finger.walks);
                self.down.insert(id, Finger { walks, began: at, at, pressure, aspect, number: self.touches_begun });
            }
            TouchPhase::Moved => {
                if let Some(finger) = self.down.get_mut(&id) {
                    let [right, down] = [at[0] - finger.at[0], (at[1] - finger.at[1]) / aspect];
                    (finger.at, finger.pressure) = (at, pressure);
                    // The picture follows the finger, so the view turns against it.
                    if !finger.walks {
                        return Some([right * SWIPE_RADIANS, down * SWIPE_RADIANS]);
                    }
                }
            }
            TouchPhase::Started => {}
            TouchPhase::Ended | TouchPhase::Cancelled => drop(self.down.remove(&id)),
        }
        None
    }

    pub fn release_all(&mut self) {
        self.down.clear();
    }

    /// Returns the fingers in the form that the application gets.
    pub fn touches(&self) -> Vec<Touch> {
        let touches = self.down.values().map(|finger| Touch {
            id: finger.number,
            at: ScreenPoint::new(finger.at[0], finger.at[1]),
            pressure: (finger.pressure.clamp(0.0, 1.0) * f32::from(u8::MAX)).round() as u8,
        });
        touches.collect()
    }

    pub fn add_to(&self, motion: &mut Motion) {
        for finger in self.down.values().filter(|finger| finger.walks) {
            motion.right += (finger.at[0] - finger.began[0]) / FULL_SPEED_TRAVEL;
            motion.forward -= (finger.at[1] - finger.began[1]) / finger.aspect / FULL_SPEED_TRAVEL;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: u64, phase: TouchPhase, at: [f32; 2]) -> FingerEvent {
        FingerEvent { id, phase, at, pressure: 0.5, aspect: 2.0 }
    }

    #[test]
    fn one_finger_walks_and_another_looks() {
        let mut fingers = Fingers::default();
        fingers.on_event(event(7, TouchPhase::Started, [0.25, 0.5]));
        fingers.on_event(event(9, TouchPhase::Started, [0.75, 0.5]));
        assert_eq!(fingers.on_event(event(7, TouchPhase::Moved, [0.25, 0.38])), None);
        let [left, up] = fingers.on_event(event(9, TouchPhase::Moved, [0.85, 0.5])).expect("it looks around");
        assert!((left - SWIPE_RADIANS / 10.0).abs() < 1e-5 && up.abs() < 1e-6, "{left} {up}");
        let mut motion = Motion::default();
        fingers.add_to(&mut motion);
        assert!((motion.forward - 1.0).abs() < 1e-4 && motion.right.abs() < 1e-6, "{motion:?}");
        let reported = fingers.touches();
        assert_eq!(reported.iter().map(|touch| (touch.id, touch.pressure)).collect::<Vec<_>>(), [(1, 128), (2, 128)]);
        fingers.on_event(event(7, TouchPhase::Ended, [0.25, 0.38]));
        assert_eq!(fingers.touches().len(), 1);
    }

    #[test]
    fn more_fingers_than_the_protocol_has_are_left_out() {
        let mut fingers = Fingers::default();
        for id in 0..40 {
            fingers.on_event(event(id, TouchPhase::Started, [0.9, 0.9]));
        }
        assert_eq!(fingers.touches().len(), MAX_TOUCHES);
    }
}
