//! Static shapes for collisions and ray casts.

use glam::{Quat, Vec3};

#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// Everything below y = 0.
    Ground,
    Ball {
        radius: f32,
    },
    Block {
        half: Vec3,
    },
    /// An upright cylinder whose foot is at the position.
    Column {
        radius: f32,
        height: f32,
    },
}

/// A form with position and rotation.
#[derive(Clone, Copy, Debug)]
pub struct Solid {
    pub form: Form,
    pub position: Vec3,
    pub rotation: Quat,
}

/// A contact with a solid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Touch {
    /// Unit vector out of the solid.
    pub normal: Vec3,
    /// Metres by which the other body has to move along `normal`.
    pub depth: f32,
}

impl Solid {
    pub const GROUND: Self = Self { form: Form::Ground, position: Vec3::ZERO, rotation: Quat::IDENTITY };

    pub fn block(position: Vec3, half: Vec3) -> Self {
        Self { form: Form::Block { half }, position, rotation: Quat::IDENTITY }
    }

    pub fn column(position: Vec3, radius: f32, height: f32) -> Self {
        Self { form: Form::Column { radius, height }, position, rotation: Quat::IDENTITY }
    }

    /// Returns the contact of a ball of `radius` around `point`, or none if it does not touch the solid.
    pub fn touch(&self, point: Vec3, radius: f32) -> Option<Touch> {
        let local = self.rotation.inverse() * (point - self.position);
        let (normal, distance) = match self.form {
            Form::Ground => (Vec3::Y, point.y),
            Form::Ball { radius } => (local.normalize_or(Vec3::Y), local.length() - radius),
            Form::Block { half } => from_block(local, half),
            Form::Column { radius, height } => from_column(local, radius, height),
        };
        let depth = radius - distance;
        (depth > 0.0).then(|| Touch { normal: self.rotation * normal, depth })
    }

    /// Returns the distance along a ray (of unit direction) to the solid, enlarged by `margin` metres on all sides.
    pub fn hit(&self, origin: Vec3, direction: Vec3, margin: f32) -> Option<f32> {
        match self.form {
            Form::Ground => (direction.y < -1e-4).then(|| origin.y.max(0.0) / -direction.y),
            Form::Ball { radius } => hit_ball(self.position - origin, direction, radius + margin),
            Form::Block { half } => {
                let inverse = self.rotation.inverse();
                hit_block(inverse * (origin - self.position), inverse * direction, half + Vec3::splat(margin))
            }
            Form::Column { radius, height } => {
                let half = Vec3::new(radius, height / 2.0, radius) + Vec3::splat(margin);
                hit_block(origin - self.position - Vec3::Y * (height / 2.0), direction, half)
            }
        }
    }
}

fn from_block(local: Vec3, half: Vec3) -> (Vec3, f32) {
    let nearest = local.clamp(-half, half);
    let outside = local - nearest;
    if outside.length_squared() > 1e-10 {
        return (outside.normalize(), outside.length());
    }
    let gaps = half - local.abs();
    let axis = if gaps.x < gaps.y && gaps.x < gaps.z {
        0
    } else if gaps.y < gaps.z {
        1
    } else {
        2
    };
    let mut normal = Vec3::ZERO;
    normal[axis] = if local[axis] < 0.0 { -1.0 } else { 1.0 };
    (normal, -gaps[axis])
}

fn from_column(local: Vec3, radius: f32, height: f32) -> (Vec3, f32) {
    let flat = Vec3::new(local.x, 0.0, local.z);
    let (side, top) = (flat.length() - radius, local.y - height);
    let outward = flat.normalize_or(Vec3::X);
    if side > 0.0 && top > 0.0 {
        let offset = outward * side + Vec3::Y * top;
        return (offset.normalize(), offset.length());
    }
    if side > top { (outward, side) } else { (Vec3::Y, top) }
}

fn hit_ball(centre: Vec3, direction: Vec3, radius: f32) -> Option<f32> {
    let along = centre.dot(direction);
    let gap = centre.length_squared() - along * along;
    let reach = radius * radius - gap;
    if reach < 0.0 || along < 0.0 {
        return None;
    }
    Some((along - reach.sqrt()).max(0.0))
}

fn hit_block(origin: Vec3, direction: Vec3, half: Vec3) -> Option<f32> {
    let (mut near, mut far) = (0.0f32, f32::INFINITY);
    for axis in 0..3 {
        if direction[axis].abs() < 1e-7 {
            if origin[axis].abs() > half[axis] {
                return None;
            }
            continue;
        }
        let (first, second) =
            ((-half[axis] - origin[axis]) / direction[axis], (half[axis] - origin[axis]) / direction[axis]);
        near = near.max(first.min(second));
        far = far.min(first.max(second));
    }
    (near <= far).then_some(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touches_have_the_nearest_face_as_normal() {
        let block = Solid::block(Vec3::ZERO, Vec3::splat(0.5));
        let column = Solid::column(Vec3::ZERO, 0.5, 2.0);
        let cases = [
            (Solid::GROUND, Vec3::new(0.0, 0.05, 0.0), Some((Vec3::Y, 0.05))),
            (Solid::GROUND, Vec3::new(0.0, 0.2, 0.0), None),
            (block, Vec3::new(0.55, 0.0, 0.0), Some((Vec3::X, 0.05))),
            (block, Vec3::new(0.0, 0.4, 0.1), Some((Vec3::Y, 0.2))),
            (column, Vec3::new(0.0, 1.0, 0.55), Some((Vec3::Z, 0.05))),
            (column, Vec3::new(0.1, 1.95, 0.0), Some((Vec3::Y, 0.15))),
        ];
        for (solid, point, expected) in cases {
            let touch = solid.touch(point, 0.1);
            match (touch, expected) {
                (None, None) => {}
                (Some(touch), Some((normal, depth))) => {
                    assert!(touch.normal.distance(normal) < 1e-4, "{solid:?}: {touch:?}");
                    assert!((touch.depth - depth).abs() < 1e-4, "{solid:?}: {touch:?}");
                }
                _ => panic!("{solid:?} at {point}: {touch:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn rays_stop_at_the_near_face() {
        let turned = Solid {
            form: Form::Block { half: Vec3::splat(0.5) },
            position: Vec3::new(0.0, 0.0, -5.0),
            rotation: Quat::from_rotation_y(std::f32::consts::FRAC_PI_4),
        };
        let ball =
            Solid { form: Form::Ball { radius: 1.0 }, position: Vec3::new(0.0, 0.0, -5.0), rotation: Quat::IDENTITY };
        let distance = |solid: &Solid, direction: Vec3| solid.hit(Vec3::ZERO, direction, 0.0);
        assert!((distance(&turned, Vec3::NEG_Z).expect("hit") - (5.0 - 0.5f32.sqrt())).abs() < 1e-3);
        assert!((distance(&ball, Vec3::NEG_Z).expect("hit") - 4.0).abs() < 1e-5);
        assert_eq!(distance(&ball, Vec3::Z), None);
        assert_eq!(distance(&turned, Vec3::Y), None);
    }
}
