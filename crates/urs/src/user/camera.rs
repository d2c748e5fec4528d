//! Position and view direction of a screen's user: the rules of the project's page (`web/src/input/camera.ts`), so that both feel alike.

use nearlight_wire::Pose;

/// Metres a second; a calm walk and a run.
const WALK: f32 = 1.8;
const RUN: f32 = 3.6;
/// Speed follows the input with this time constant in seconds, so that movement starts and ends softly.
const EASE: f32 = 0.08;
/// Slower than this in metres a second is standing.
const STANDING: f32 = 0.001;
/// The world ends here, in metres from its middle.
const REACH: f32 = 20.0;
const LOWEST: f32 = 0.4;
const HIGHEST: f32 = 8.0;
/// Straight up and down are excluded: there yaw would be undefined.
const PITCH_LIMIT: f32 = 1.5;

/// How strongly the user wants to move, each from -1 to 1; devices add up.
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
    /// Radians to the left of -z.
    yaw: f32,
    /// Radians up.
    pitch: f32,
    velocity: [f32; 3],
}

impl Camera {
    pub(super) fn at(pose: Pose) -> Self {
        let [x, y, z, w] = pose.orientation;
        // Where the rotation takes (0, 0, -1).
        let ahead = [-2.0 * (x * z + w * y), -2.0 * (y * z - w * x), 2.0 * (x * x + y * y) - 1.0];
        let yaw = (-ahead[0]).atan2(-ahead[2]);
        let pitch = ahead[1].clamp(-1.0, 1.0).asin().clamp(-PITCH_LIMIT, PITCH_LIMIT);
        Self { position: pose.position, yaw, pitch, velocity: [0.0; 3] }
    }

    /// Turns by radians to the left and up.
    pub(super) fn turn(&mut self, left: f32, up: f32) {
        self.yaw = (self.yaw + left) % std::f32::consts::TAU;
        self.pitch = (self.pitch + up).clamp(-PITCH_LIMIT, PITCH_LIMIT);
    }

    /// True where the pose changed.
    pub(super) fn walk(&mut self, motion: Motion, seconds: f32) -> bool {
        let length = motion.right.hypot(motion.forward).max(1.0);
        let speed = if motion.run { RUN } else { WALK };
        let (right, forward, up) = (motion.right / length, motion.forward / length, motion.up.clamp(-1.0, 1.0));
        let (sine, cosine) = self.yaw.sin_cos();
        let wanted = [right * cosine - forward * sine, up, -right * sine - forward * cosine];
        let share = 1.0 - (-seconds / EASE).exp();
        let mut moved = false;
        let limits = [(-REACH, REACH), (LOWEST, HIGHEST), (-REACH, REACH)];
        let axes = self.position.iter_mut().zip(&mut self.velocity).zip(wanted).zip(limits);
        for (((position, velocity), wanted), (low, high)) in axes {
            *velocity += (wanted * speed - *velocity) * share;
            if velocity.abs() < STANDING {
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
        self.velocity.iter().any(|velocity| velocity.abs() >= STANDING)
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
            (0.0, Motion { forward: 1.0, ..Motion::default() }, [0.0, 0.0, -WALK]),
            (std::f32::consts::FRAC_PI_2, Motion { forward: 1.0, ..Motion::default() }, [-WALK, 0.0, 0.0]),
            (0.0, Motion { right: 1.0, run: true, ..Motion::default() }, [RUN, 0.0, 0.0]),
            (std::f32::consts::FRAC_PI_2, Motion { right: 1.0, ..Motion::default() }, [0.0, 0.0, -WALK]),
            (1.0, Motion { up: 1.0, ..Motion::default() }, [0.0, WALK, 0.0]),
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
