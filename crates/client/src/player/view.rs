//! The views of the user's eyes for a head pose.

use nearlight_wire::{DisplayKind, Fov, Pose, View};

use crate::camera::beside;

/// Height of a screen's view in radians, 65 degrees: a screen at arm's length would be less, but then one bumps into things.
const SCREEN_HEIGHT: f32 = 1.134_464;
/// Half the distance between the eyes in metres; adults' mean is 63 mm (Dodgson 2004).
const HALF_EYE_DISTANCE: f32 = 0.0315;
/// How much of an eye's width lies on the nose's side. Guess: near what headsets of 2023 report.
const NASAL_SHARE: f32 = 0.45;
/// Tangent of a headset eye's half height: 45 degrees.
const HEADSET_TANGENT: f32 = 1.0;

/// One view of a screen or two of a headset, for a picture of `size` pixels, so that pixels are square.
pub fn views(display: DisplayKind, head: &Pose, size: (u16, u16)) -> Vec<View> {
    let (width, height) = (f32::from(size.0.max(1)), f32::from(size.1.max(1)));
    match display {
        DisplayKind::Screen => vec![View { pose: *head, fov: Fov::symmetric(SCREEN_HEIGHT, width / height) }],
        DisplayKind::Headset => {
            let across = 2.0 * HEADSET_TANGENT * (width / 2.0) / height;
            let (nasal, temporal) = (across * NASAL_SHARE, across * (1.0 - NASAL_SHARE));
            let eye = |side: f32, left: f32, right: f32| View {
                pose: Pose { position: beside(head, [side * HALF_EYE_DISTANCE, 0.0, 0.0]), ..*head },
                fov: Fov { left: -left, right, down: -HEADSET_TANGENT, up: HEADSET_TANGENT },
            };
            vec![eye(-1.0, temporal, nasal), eye(1.0, nasal, temporal)]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_are_square_and_eyes_mirror_each_other() {
        let head = Pose { position: [0.0, 1.6, 0.0], ..Pose::default() };
        let screen = views(DisplayKind::Screen, &head, (1280, 720));
        let aspect = |fov: Fov| (fov.right - fov.left) / (fov.up - fov.down);
        assert!((aspect(screen[0].fov) - 16.0 / 9.0).abs() < 1e-5);
        let [left, right] = views(DisplayKind::Headset, &head, (1600, 800)).try_into().expect("two eyes");
        assert!((aspect(left.fov) - 1.0).abs() < 1e-5);
        assert!((left.fov.left + right.fov.right).abs() < 1e-6 && left.fov.left < -left.fov.right);
        let distance = right.pose.position[0] - left.pose.position[0];
        assert!((distance - 2.0 * HALF_EYE_DISTANCE).abs() < 1e-6);
    }
}
