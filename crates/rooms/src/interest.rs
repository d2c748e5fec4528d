//! How often and in which detail a member needs to see a subject: by distance and by where it looks.

use nearlight_units::Span;

use crate::pose::{QuantisedPose, part};

/// Nearer than this every update is worth sending, in metres: the far end of what Hall calls social distance (3.6 m) and a step. Beyond
/// it, the interval grows with the distance, as the angle that a motion covers shrinks.
const NEAR: f32 = 4.5;
/// Fingers are seen to about this distance, in metres: a finger's joint of 2 cm covers half a degree there.
const FINGERS: f32 = 2.5;
/// Hands are seen to about this distance, in metres: a motion of 10 cm covers a third of a degree there.
const HANDS: f32 = 18.0;
/// So near, in metres, things come into view by a turn of the head alone, faster than an interval.
const BESIDE: f32 = 1.5;
/// The cosine of half the angle that counts as in view: 120 degrees, which is a headset's 100 to 110 and some turning.
const IN_VIEW: f32 = 0.5;
/// What is out of view is sent so many times less often.
const OUT_OF_VIEW: f32 = 4.0;
/// Nothing that moves is sent less often than this.
const LONGEST: Span = Span::from_millis(1_000);

/// Where a member's eyes are and where they look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Viewer {
    position: [f32; 3],
    forward: [f32; 3],
}

impl Viewer {
    pub(crate) fn new(head: &QuantisedPose) -> Self {
        let pose = head.pose();
        let [x, y, z, w] = pose.orientation;
        // The rotated -z axis.
        let forward = [-2.0 * (x * z + w * y), -2.0 * (y * z - w * x), 2.0 * (x * x + y * y) - 1.0];
        Self { position: pose.position, forward }
    }
}

/// What a member needs of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) interval: Span,
    pub(crate) parts: u8,
}

/// What `viewer` needs of something at `position` in millimetres, where everything near is sent each `tick`. Who has no pose yet needs
/// heads only.
pub(crate) fn interest(viewer: Option<&Viewer>, position: [i32; 3], tick: Span) -> Interest {
    let Some(Viewer { position: eyes, forward }) = viewer else {
        return Interest { interval: (tick * 4).min(LONGEST).max(tick), parts: part::HEAD };
    };
    let towards: [f32; 3] = std::array::from_fn(|axis| position[axis] as f32 / 1e3 - eyes[axis]);
    let distance = towards.iter().map(|axis| axis * axis).sum::<f32>().sqrt();
    let along: f32 = towards.iter().zip(forward).map(|(towards, forward)| towards * forward).sum();
    let beside = distance <= BESIDE;
    let in_view = beside || along >= IN_VIEW * distance;
    let hands = part::HEAD | part::LEFT | part::RIGHT;
    let parts = match distance {
        distance if beside || in_view && distance <= FINGERS => {
            if distance <= FINGERS {
                part::ALL
            } else {
                hands
            }
        }
        distance if in_view && distance <= HANDS => hands,
        _ => part::HEAD,
    };
    let factor = (distance / NEAR).max(1.0) * if in_view { 1.0 } else { OUT_OF_VIEW };
    // Whole ticks, so that what is due falls on one.
    let interval = tick * i64::from(factor.round() as u16);
    Interest { interval: interval.min(LONGEST).max(tick), parts }
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
        assert_eq!(at(&ahead, -4_000_000).interval, LONGEST);
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
