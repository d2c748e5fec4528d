//! The position and view direction of a window's user; the same movement as on the page.

use nearlight_units::Span;
use nearlight_viewer::point_at_offset;
use nearlight_wire::Pose;

/// Walking speed in metres per second, as on the page: a calm walk.
const WALK_SPEED: f32 = 1.8;
/// Running speed in metres per second, as on the page.
const RUN_SPEED: f32 = 3.6;
/// Time constant, in seconds, with which the speed follows the keys, so that movement starts and ends smoothly.
const SPEED_TIME_CONSTANT: f32 = 0.08;
/// Largest distance from the world's centre along each horizontal axis, in metres.
const MAX_DISTANCE: f32 = 20.0;
/// Lowest eye height in metres.
const MIN_HEIGHT: f32 = 0.4;
/// Highest eye height in metres.
const MAX_HEIGHT: f32 = 8.0;
/// Largest pitch in radians. Straight up and straight down are excluded because yaw is undefined there.
const MAX_PITCH: f32 = 1.5;
/// Longest time step of a walk, so that the view does not jump after the window was suspended.
const MAX_STEP: Span = Span::from_millis(100);

/// How strongly the user wants to move: right, up and forward, each from -1 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Motion {
    pub right: f32,
    pub up: f32,
    pub forward: f32,
    pub run: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Camera {
    position: [f32; 3],
    yaw: f32,
    pitch: f32,
    velocity: [f32; 3],
}

impl Camera {
    /// Returns a camera at rest at `pose`, without roll.
    pub fn at(pose: &Pose) -> Self {
        let eye = Pose { position: [0.0; 3], ..*pose };
        let [x, y, z] = point_at_offset(&eye, [0.0, 0.0, -1.0]);
        let pitch = y.clamp(-1.0, 1.0).asin().clamp(-MAX_PITCH, MAX_PITCH);
        Self { position: pose.position, yaw: (-x).atan2(-z), pitch, velocity: [0.0; 3] }
    }

    /// Turns by these angles, in radians.
    pub fn turn(&mut self, left: f32, up: f32) {
        self.yaw = (self.yaw + left) % std::f32::consts::TAU;
        self.pitch = (self.pitch + up).clamp(-MAX_PITCH, MAX_PITCH);
    }

    /// Walks for `span`. Returns whether the position changed.
    pub fn walk(&mut self, motion: Motion, span: Span) -> bool {
        let seconds = span.min(MAX_STEP).as_secs_f64() as f32;
        let speed = if motion.run { RUN_SPEED } else { WALK_SPEED } / motion.right.hypot(motion.forward).max(1.0);
        let (sin, cos) = self.yaw.sin_cos();
        let wanted = [
            (motion.right * cos - motion.forward * sin) * speed,
            motion.up * speed,
            (-motion.right * sin - motion.forward * cos) * speed,
        ];
        let gain = 1.0 - (-seconds / SPEED_TIME_CONSTANT).exp();
        let before = self.position;
        for (axis, wanted) in wanted.into_iter().enumerate() {
            let velocity = &mut self.velocity[axis];
            *velocity += (wanted - *velocity) * gain;
            if velocity.abs() < 0.001 {
                *velocity = 0.0;
            }
            let (low, high) = if axis == 1 { (MIN_HEIGHT, MAX_HEIGHT) } else { (-MAX_DISTANCE, MAX_DISTANCE) };
            self.position[axis] = (self.position[axis] + *velocity * seconds).clamp(low, high);
        }
        before.iter().zip(self.position).any(|(before, now)| before.to_bits() != now.to_bits())
    }

    pub fn pose(&self) -> Pose {
        Pose { position: self.position, orientation: orientation(self.yaw, self.pitch) }
    }
}

/// Returns the orientation that looks `yaw` radians to the left of -z and `pitch` radians up, as a quaternion x, y, z, w.
pub fn orientation(yaw: f32, pitch: f32) -> [f32; 4] {
    let ((sy, cy), (sp, cp)) = ((yaw / 2.0).sin_cos(), (pitch / 2.0).sin_cos());
    [cy * sp, sy * cp, -sy * sp, cy * cp]
}

/// Returns the product of two quaternions: the second rotation, applied in the frame of the first.
pub fn compose([ax, ay, az, aw]: [f32; 4], [bx, by, bz, bw]: [f32; 4]) -> [f32; 4] {
    [
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(yaw: f32, motion: Motion) -> [f32; 3] {
        let mut camera = Camera::at(&Pose::default());
        camera.turn(yaw, 0.3);
        let start = camera.position;
        for _ in 0..100 {
            camera.walk(motion, Span::from_millis(10));
        }
        std::array::from_fn(|axis| camera.position[axis] - start[axis])
    }

    #[test]
    fn forward_is_where_one_looks() {
        let quarter = std::f32::consts::FRAC_PI_2;
        let forward = Motion { forward: 1.0, ..Motion::default() };
        let right = Motion { right: 1.0, ..Motion::default() };
        // Yaw turns left: after a quarter turn, forward is -x.
        let cases = [
            (0.0, forward, [0.0, 0.0, -1.0]),
            (quarter, forward, [-1.0, 0.0, 0.0]),
            (0.0, right, [1.0, 0.0, 0.0]),
            (quarter, right, [0.0, 0.0, -1.0]),
        ];
        for (yaw, motion, direction) in cases {
            let way = walked(yaw, motion);
            let along: f32 = way.iter().zip(direction).map(|(way, direction)| way * direction).sum();
            // A second at walking speed, less the soft start.
            assert!((1.5..1.8).contains(&along), "{yaw} {motion:?}: {way:?}");
        }
    }

    #[test]
    fn diagonals_are_not_faster_and_the_world_ends() {
        let way = walked(0.0, Motion { right: 1.0, forward: 1.0, ..Motion::default() });
        assert!(way[0].hypot(way[2]) < 1.8);
        let mut camera = Camera::at(&Pose::default());
        for _ in 0..1_000 {
            camera.walk(Motion { forward: -1.0, up: -1.0, run: true, right: 0.0 }, Span::from_millis(100));
        }
        let [_, height, depth] = camera.position;
        assert_eq!((height.to_bits(), depth.to_bits()), (MIN_HEIGHT.to_bits(), MAX_DISTANCE.to_bits()));
        assert!(!camera.walk(Motion { forward: -1.0, ..Motion::default() }, Span::from_millis(10)));
    }

    #[test]
    fn a_camera_stands_where_it_was_put() {
        for (yaw, pitch) in [(0.0, 0.0), (1.0, -0.5), (-2.5, 1.2)] {
            let pose = Pose { position: [1.0, 1.6, -2.0], orientation: orientation(yaw, pitch) };
            let got = Camera::at(&pose).pose();
            let near = got.orientation.iter().zip(pose.orientation).all(|(got, wanted)| (got - wanted).abs() < 1e-3);
            assert!(near, "{yaw} {pitch}: {got:?} instead of {pose:?}");
        }
    }

    #[test]
    fn turns_add_up() {
        let both = compose(orientation(0.4, 0.0), orientation(0.0, 0.3));
        for (got, wanted) in both.into_iter().zip(orientation(0.4, 0.3)) {
            assert!((got - wanted).abs() < 1e-6, "{both:?}");
        }
    }
}
