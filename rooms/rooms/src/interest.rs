//! Interest management: how often and in which detail a member needs a subject, by distance and by the direction of view.

use nearlight_units::Span;

use crate::pose::{QuantisedPose, part};

/// Distance in metres up to which every update is sent: the far end of what Hall calls social distance (3.6 m) and a step. Beyond it, the
/// interval grows with the distance, as the angle that a motion covers shrinks.
const FULL_RATE_DISTANCE: f32 = 4.5;
/// Distance in metres up to which fingers are sent: a finger's joint of 2 cm covers half a degree there.
const FINGER_DISTANCE: f32 = 2.5;
/// Distance in metres up to which hands are sent: a motion of 10 cm covers a third of a degree there.
const HAND_DISTANCE: f32 = 18.0;
/// Distance in metres within which the direction of view does not matter: a turn of the head brings things into view faster than an
/// interval.
const PERIPHERAL_DISTANCE: f32 = 1.5;
/// Smallest cosine of the angle from the view axis that counts as in view. The cone of 120 degrees is a headset's 100 to 110 and some
/// turning.
const MIN_VIEW_COSINE: f32 = 0.5;
/// Factor of the interval of subjects that are out of view.
const OUT_OF_VIEW_FACTOR: f32 = 4.0;
/// Longest interval of a moving subject.
const MAX_INTERVAL: Span = Span::from_millis(1_000);

/// The position and the direction of view of a member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Viewer {
    position: [f32; 3],
    forward: [f32; 3],
}

impl Viewer {
    pub(crate) fn new(head: &QuantisedPose) -> Self {
        let pose = head.pose();
        let [x, y, z, w] = pose.orientation;
        // The head looks along its -z axis.
        let forward = [-2.0 * (x * z + w * y), -2.0 * (y * z - w * x), 2.0 * (x * x + y * y) - 1.0];
        Self { position: pose.position, forward }
    }
}

/// How often and in which detail a member needs a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) interval: Span,
    pub(crate) parts: u8,
}

/// Returns what `viewer` needs of a subject at `position` in millimetres, if everything near is sent each `tick`. A viewer without a pose
/// needs heads only.
pub(crate) fn interest(viewer: Option<&Viewer>, position: [i32; 3], tick: Span) -> Interest {
    let Some(Viewer { position: eyes, forward }) = viewer else {
        return Interest { interval: (tick * 4).min(MAX_INTERVAL).max(tick), parts: part::HEAD };
    };
    let towards: [f32; 3] = std::array::from_fn(|axis| position[axis] as f32 / 1e3 - eyes[axis]);
    let distance = towards.iter().map(|axis| axis * axis).sum::<f32>().sqrt();
    let along: f32 = towards.iter().zip(forward).map(|(towards, forward)| towards * forward).sum();
    let beside = distance <= PERIPHERAL_DISTANCE;
    let in_view = beside || along >= MIN_VIEW_COSINE * distance;
    let hands = part::HEAD | part::LEFT | part::RIGHT;
    let parts = match distance {
        distance if beside || in_view && distance <= FINGER_DISTANCE => {
            if distance <= FINGER_DISTANCE {
                part::ALL
            } else {
                hands
            }
        }
        distance if in_view && distance <= HAND_DISTANCE => hands,
        _ => part::HEAD,
    };
    let factor = (distance / FULL_RATE_DISTANCE).max(1.0) * if in_view { 1.0 } else { OUT_OF_VIEW_FACTOR };
    // The interval is a number of whole ticks, so that updates fall on ticks.
    let interval = tick * i64::from(factor.round() as u16);
    Interest { interval: interval.min(MAX_INTERVAL).max(tick), parts }
}

#[cfg(test)]
mod tests {
    use nearlight_wire::Pose;

    use super::*;

    #[test]
    fn what_is_near_and_in_view_comes_first() {
        let tick = Span::from_millis(50);
        let looking = |orientation| {
            let pose = Pose { position: [0.0, 1.6, 0.0], orientation };
            Viewer::new(&QuantisedPose::new(&pose).expect("a pose"))
        };
        let ahead = looking([0.0, 0.0, 0.0, 1.0]);
        let at = |viewer: &Viewer, z: i32| interest(Some(viewer), [0, 1_600, z], tick);
        assert_eq!(at(&ahead, -2_000), Interest { interval: tick, parts: part::ALL });
        assert_eq!(at(&ahead, -4_000), Interest { interval: tick, parts: part::ALL & !part::JOINTS });
        assert_eq!(at(&ahead, -9_000).interval, tick * 2);
        assert_eq!(at(&ahead, -40_000), Interest { interval: tick * 9, parts: part::HEAD });
        assert_eq!(at(&ahead, -4_000_000).interval, MAX_INTERVAL);
        assert_eq!(at(&ahead, 4_000), Interest { interval: tick * 4, parts: part::HEAD });
        // Half a turn about the vertical axis.
        let back = looking([0.0, 1.0, 0.0, 0.0]);
        assert_eq!(at(&back, 4_000).interval, tick);
        // Up and to the left.
        let up = looking([std::f32::consts::FRAC_1_SQRT_2, 0.0, 0.0, std::f32::consts::FRAC_1_SQRT_2]);
        assert_eq!(interest(Some(&up), [0, 5_600, 0], tick).interval, tick);
        let left = looking([0.0, std::f32::consts::FRAC_1_SQRT_2, 0.0, std::f32::consts::FRAC_1_SQRT_2]);
        assert_eq!(interest(Some(&left), [-4_000, 1_600, 0], tick).interval, tick);
        assert_eq!(interest(Some(&left), [4_000, 1_600, 0], tick).interval, tick * 4);
    }
}
