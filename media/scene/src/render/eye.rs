//! The camera of one eye: projection, culling and uniform block.

use glam::{Mat4, Quat, Vec3, Vec4};
use nearlight_wire::View;

use crate::plaza::light;
use crate::world::place;

/// Distance of the near plane in metres.
const NEAR: f32 = 0.04;
/// Density of the exponential fog, per metre. Guess: hills at 150 m nearly vanish.
pub const FOG_DENSITY: f32 = 0.0052;
/// Alignment of uniform blocks in bytes: the largest that any adapter requires.
pub const STRIDE: u64 = 256;

pub struct Eye {
    pub clip: Mat4,
    pub position: Vec3,
    rotation: Quat,
    /// Inward normals of the four side planes through the eye.
    sides: [Vec3; 4],
}

impl Eye {
    pub fn new(view: &View) -> Self {
        let (position, rotation) = place(&view.pose);
        let fov = view.fov;
        let (width, height) = (fov.right - fov.left, fov.up - fov.down);
        // Depth runs from one at NEAR to zero at infinity, which keeps floating-point depth exact far away.
        let projection = Mat4::from_cols(
            Vec4::new(2.0 / width, 0.0, 0.0, 0.0),
            Vec4::new(0.0, 2.0 / height, 0.0, 0.0),
            Vec4::new((fov.right + fov.left) / width, (fov.up + fov.down) / height, 0.0, -1.0),
            Vec4::new(0.0, 0.0, NEAR, 0.0),
        );
        let sides = [
            Vec3::new(1.0, 0.0, fov.left),
            Vec3::new(-1.0, 0.0, -fov.right),
            Vec3::new(0.0, 1.0, fov.down),
            Vec3::new(0.0, -1.0, -fov.up),
        ];
        Self {
            clip: projection * Mat4::from_rotation_translation(rotation, position).inverse(),
            position,
            rotation,
            sides: sides.map(|side| rotation * side.normalize()),
        }
    }

    /// Returns whether a ball may be in the picture.
    pub fn sees(&self, centre: Vec3, radius: f32) -> bool {
        let offset = centre - self.position;
        offset.dot(self.rotation * Vec3::NEG_Z) > -radius && self.sides.iter().all(|side| side.dot(offset) > -radius)
    }

    /// Returns the uniform block of the shaders.
    pub fn block(&self) -> Vec<u8> {
        let mut numbers = Vec::with_capacity(48);
        numbers.extend(self.clip.to_cols_array());
        let vectors = [
            self.position,
            self.rotation * Vec3::X,
            self.rotation * Vec3::Y,
            light::sun(),
            light::SUN_LIGHT,
            light::SKY_LIGHT,
            light::GROUND_LIGHT,
        ];
        for vector in vectors {
            numbers.extend(vector.extend(0.0).to_array());
        }
        numbers.extend(light::FOG.extend(FOG_DENSITY).to_array());
        let mut bytes: Vec<u8> = numbers.into_iter().flat_map(f32::to_le_bytes).collect();
        bytes.resize(STRIDE as usize, 0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearlight_wire::{Fov, Pose};

    fn eye() -> Eye {
        let fov = Fov { left: -1.2, right: 0.8, down: -0.9, up: 0.7 };
        let pose = Pose { position: [1.0, 2.0, 3.0], ..Pose::default() };
        Eye::new(&View { pose, fov })
    }

    #[test]
    fn tangents_are_the_edges_of_the_picture() {
        let cases = [(-1.2, -0.9, -1.0, -1.0), (0.8, 0.7, 1.0, 1.0), (-0.2, -0.1, 0.0, 0.0)];
        for (x, y, across, up) in cases {
            let place = Vec3::new(1.0, 2.0, 3.0) + Vec3::new(x, y, -1.0) * 5.0;
            let point = eye().clip.project_point3(place);
            assert!((point.x - across).abs() < 1e-5 && (point.y - up).abs() < 1e-5, "{point}");
            assert!(point.z > 0.0 && point.z < 1.0, "{point}");
        }
    }

    #[test]
    fn balls_outside_the_picture_are_not_seen() {
        let seen = |x: f32, y: f32, z: f32| eye().sees(Vec3::new(1.0 + x, 2.0 + y, 3.0 + z), 0.5);
        assert!(seen(0.0, 0.0, -5.0));
        assert!(seen(-6.3, 0.0, -5.0), "half of it is inside");
        assert!(!seen(-8.0, 0.0, -5.0));
        assert!(!seen(5.5, 0.0, -5.0));
        assert!(!seen(0.0, 0.0, 5.0));
        assert!(!seen(0.0, 5.0, -5.0));
    }
}
