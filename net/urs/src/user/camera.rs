//! Position and view direction of a screen's user: the rules of the project's page (`web/src/input/camera.ts`), so that both feel alike.

use nearlight_wire::Pose;

/// Speeds in metres per second: a calm walk and a run.
const WALK_SPEED: f32 = 1.8;
const RUN_SPEED: f32 = 3.6;
/// Time constant in seconds with which speed follows the input, so that movement starts and ends softly.
const EASING_SECONDS: f32 = 0.08;
/// Speed in metres per second below which the user stands.
const MIN_SPEED: f32 = 0.001;
/// Bounds of the world in metres: distance from its middle, and heights of the eye.
const WORLD_RADIUS: f32 = 20.0;
const MIN_HEIGHT: f32 = 0.4;
const MAX_HEIGHT: f32 = 8.0;
/// Maximum pitch in radians: straight up and down are excluded, because yaw would be undefined there.
const MAX_PITCH: f32 = 1.5;

/// The desired movement, each component from -1 to 1. Devices add up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Motion {
    pub(super) right: f32,
    pub(super) up: f32,
    pub(super) forward: f32,
    pub(super) run: bool,
}

impl Motion {
    pub(super) fn is_still(self) -> bool {
        [self.right, self.up, self.forward].iter().all(|axis| axis.abs() <= f32::EPSILON)
    }
}

#[derive(Debug)]
pub(super) struct Camera {
    position: [f32; 3],
    /// Yaw in radians to the left of -z.
    yaw: f32,
    /// Pitch in radians, up.
    pitch: f32,
    velocity: [f32; 3],
}

impl Camera {
    pub(super) fn at(pose: Pose) -> Self {
        let [x, y, z, w] = pose.orientation;
        // The direction into which the rotation turns (0, 0, -1).
        let ahead = [-2.0 * (x * z + w * y), -2.0 * (y * z - w * x), 2.0 * (x * x + y * y) - 1.0];
        let yaw = (-ahead[0]).atan2(-ahead[2]);
        let pitch = ahead[1].clamp(-1.0, 1.0).asin().clamp(-MAX_PITCH, MAX_PITCH);
        Self { position: pose.position, yaw, pitch, velocity: [0.0; 3] }
    }

    /// Turns by radians to the left and up.
    pub(super) fn turn(&mut self, left: f32, up: f32) {
        self.yaw = (self.yaw + left) % std::f32::consts::TAU;
        self.pitch = (self.pitch + up).clamp(-MAX_PITCH, MAX_PITCH);
    }

    /// Walks. Returns whether the pose changed.
    pub(super) fn walk(&mut self, motion: Motion, seconds: f32) -> bool {
        let length = motion.right.hypot(motion.forward).max(1.0);
        let speed = if motion.run { RUN_SPEED } else { WALK_SPEED };
        let (right, forward, up) = (motion.right / length, motion.forward / length, motion.up.clamp(-1.0, 1.0));
        let (sine, cosine) = self.yaw.sin_cos();
        let wanted = [right * cosine - forward * sine, up, -right * sine - forward * cosine];
        let share = 1.0 - (-seconds / EASING_SECONDS).exp();
        let mut moved = false;
        let limits = [(-WORLD_RADIUS, WORLD_RADIUS), (MIN_HEIGHT, MAX_HEIGHT), (-WORLD_RADIUS, WORLD_RADIUS)];
        let axes = self.position.iter_mut().zip(&mut self.velocity).zip(wanted).zip(limits);
        for (((position, velocity), wanted), (low, high)) in axes {
            *velocity += (wanted * speed - *velocity) * share;
            if velocity.abs() < MIN_SPEED {
                *velocity = 0.0;
            }
            let before = position.to_bits();
            *position = (*position + *velocity * seconds).clamp(low, high);
            moved |= position.to_bits() != before;
        }
        moved
    }

    /// Whether it would keep moving without input.
    pub(super) fn moves(&self) -> bool {
        self.velocity.iter().any(|velocity| velocity.abs() >= MIN_SPEED)
    }

    pub(super) fn pose(&self) -> Pose {
        let ((sy, cy), (sp, cp)) = ((self.yaw / 2.0).sin_cos(), (self.pitch / 2.0).sin_cos());
        Pose { position: self.position, orientation: [cy * sp, sy * cp, -sy * sp, cy * cp] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pose_gives_the_camera_that_gives_the_pose() {
        for (yaw, pitch) in [(0.0, 0.0), (0.7, 0.3), (-2.5, -1.2), (3.1, 0.9)] {
            let mut camera = Camera::at(Pose::default());
            camera.turn(yaw, pitch);
            let again = Camera::at(camera.pose());
            assert!((again.yaw - yaw).abs() < 1e-5 && (again.pitch - pitch).abs() < 1e-5, "{yaw} {pitch}: {again:?}");
        }
    }

    #[test]
    fn walking_goes_where_the_user_looks_at_the_speed_that_is_said() {
        // Looking to the left of -z is looking along -x.
        for (yaw, motion, expected) in [
            (0.0, Motion { forward: 1.0, ..Motion::default() }, [0.0, 0.0, -WALK_SPEED]),
            (std::f32::consts::FRAC_PI_2, Motion { forward: 1.0, ..Motion::default() }, [-WALK_SPEED, 0.0, 0.0]),
            (0.0, Motion { right: 1.0, run: true, ..Motion::default() }, [RUN_SPEED, 0.0, 0.0]),
            (std::f32::consts::FRAC_PI_2, Motion { right: 1.0, ..Motion::default() }, [0.0, 0.0, -WALK_SPEED]),
            (1.0, Motion { up: 1.0, ..Motion::default() }, [0.0, WALK_SPEED, 0.0]),
        ] {
            let mut camera = Camera::at(Pose { position: [0.0, 1.6, 0.0], ..Pose::default() });
            camera.turn(yaw, 0.0);
            for _ in 0..100 {
                camera.walk(motion, 0.01);
            }
            let close = camera.velocity.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.01);
            assert!(close, "{yaw} {motion:?}: {camera:?}");
            for _ in 0..200 {
                camera.walk(Motion::default(), 0.01);
            }
            assert!(!camera.moves(), "it comes to rest");
        }
    }
}
