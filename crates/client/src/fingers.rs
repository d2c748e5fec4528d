//! Fingers on a touch screen: the application gets them all; one on the left half of the picture walks, others look around, as on the page.

use std::collections::BTreeMap;

use nearlight_wire::{MAX_TOUCHES, ScreenPoint, Touch};
use winit::event::TouchPhase;

use crate::camera::Motion;

/// Travel of the walking finger from rest to full speed, as a share of the picture's width. Guess: a thumb's width on a phone.
const REACH: f32 = 0.06;
/// Radians for a swipe across the picture's width: half of it turns by a third of a circle.
const SWIPE_RADIANS: f32 = std::f32::consts::TAU * 2.0 / 3.0;

/// One event of the screen.
#[derive(Clone, Copy, Debug)]
pub struct FingerEvent {
    /// The system's id of the finger while it is down.
    pub id: u64,
    pub phase: TouchPhase,
    /// Fractions of the picture's width and height.
    pub at: [f32; 2],
    /// 0 to 1; 1 where the screen does not tell.
    pub pressure: f32,
    /// Width of the picture by its height.
    pub aspect: f32,
}

#[derive(Clone, Copy, Debug)]
struct Finger {
    walks: bool,
    began: [f32; 2],
    at: [f32; 2],
    pressure: f32,
    aspect: f32,
    /// Its id in this session.
    name: u32,
}

#[derive(Debug, Default)]
pub struct Fingers {
    down: BTreeMap<u64, Finger>,
    /// Number of fingers so far, which provides their ids.
    begun: u32,
}

impl Fingers {
    /// How far the view turns as a result, in radians to the left and up; none where the finger does not look around.
    pub fn on_event(&mut self, event: FingerEvent) -> Option<[f32; 2]> {
        let FingerEvent { id, phase, at, pressure, aspect } = event;
        match phase {
            TouchPhase::Started if self.down.len() < MAX_TOUCHES => {
                self.begun = self.begun.wrapping_add(1);
                let walks = at[0] < 0.5 && !self.down.values().any(|finger| finger.walks);
                self.down.insert(id, Finger { walks, began: at, at, pressure, aspect, name: self.begun });
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

    /// In the form that the application gets them.
    pub fn touches(&self) -> Vec<Touch> {
        let touches = self.down.values().map(|finger| Touch {
            id: finger.name,
            at: ScreenPoint::new(finger.at[0], finger.at[1]),
            pressure: (finger.pressure.clamp(0.0, 1.0) * f32::from(u8::MAX)).round() as u8,
        });
        touches.collect()
    }

    pub fn add_to(&self, motion: &mut Motion) {
        for finger in self.down.values().filter(|finger| finger.walks) {
            motion.right += (finger.at[0] - finger.began[0]) / REACH;
            motion.forward -= (finger.at[1] - finger.began[1]) / finger.aspect / REACH;
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
