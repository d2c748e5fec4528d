//! Derives the views of the user's eyes from the head's pose.

use nearlight_wire::{DisplayKind, Fov, Pose, View};

/// Vertical field of view of a screen in radians: 65 degrees. Guess: more than a screen covers at arm's length, because a narrow view makes
/// it hard to avoid obstacles.
const SCREEN_VERTICAL_FOV: f32 = 1.134_464;
/// Half of the distance between the eyes in metres. The adults' mean distance is 63 mm (Dodgson 2004).
const HALF_EYE_DISTANCE: f32 = 0.0315;
/// Fraction of an eye's horizontal field that lies on the nasal side. Guess: close to what headsets of 2023 report.
const NASAL_SHARE: f32 = 0.45;
/// Tangent of half of a headset's vertical field of view: 45 degrees.
const HEADSET_TANGENT: f32 = 1.0;

/// Returns the view of a screen or the two views of a headset, such that the pixels of a picture of `size` are square.
pub fn views(display: DisplayKind, head: &Pose, size: (u16, u16)) -> Vec<View> {
    let (width, height) = (f32::from(size.0.max(1)), f32::from(size.1.max(1)));
    match display {
        DisplayKind::Screen => vec![View { pose: *head, fov: Fov::symmetric(SCREEN_VERTICAL_FOV, width / height) }],
        DisplayKind::Headset => {
            let across = 2.0 * HEADSET_TANGENT * (width / 2.0) / height;
            let (nasal, temporal) = (across * NASAL_SHARE, across * (1.0 - NASAL_SHARE));
            let eye = |side: f32, left: f32, right: f32| View {
                pose: Pose { position: point_at_offset(head, [side * HALF_EYE_DISTANCE, 0.0, 0.0]), ..*head },
                fov: Fov { left: -left, right, down: -HEADSET_TANGENT, up: HEADSET_TANGENT },
            };
            vec![eye(-1.0, temporal, nasal), eye(1.0, nasal, temporal)]
        }
    }
}

/// Returns the point at `offset` from `pose`, in metres along the pose's own axes.
pub fn point_at_offset(pose: &Pose, offset: [f32; 3]) -> [f32; 3] {
    let [x, y, z, w] = pose.orientation;
    let cross =
        |a: [f32; 3], b: [f32; 3]| [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
    // v + 2w(u x v) + 2(u x (u x v)) with u the quaternion's vector part.
    let once = cross([x, y, z], offset);
    let twice = cross([x, y, z], once);
    std::array::from_fn(|axis| pose.position[axis] + offset[axis] + 2.0 * (w * once[axis] + twice[axis]))
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

    #[test]
    fn eyes_turn_with_the_head() {
        let half = std::f32::consts::FRAC_1_SQRT_2;
        let pose = Pose { position: [1.0, 2.0, 3.0], orientation: [0.0, half, 0.0, half] };
        let right = point_at_offset(&pose, [0.5, 0.0, 0.0]);
        for (got, expected) in right.into_iter().zip([1.0, 2.0, 2.5]) {
            assert!((got - expected).abs() < 1e-5, "{right:?}");
        }
    }
}
