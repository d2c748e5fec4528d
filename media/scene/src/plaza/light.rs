//! The lighting model: a low sun, the sky's dome and lamps. It is evaluated once for static objects and per object for moving ones.

use glam::{Vec2, Vec3};

/// Towards the sun. Guess: 17 degrees high and left of the view's centre, so that shadows are long and the glow is in the picture.
pub const SUN: Vec3 = Vec3::new(-0.62, 0.31, -0.72);
/// Linear light of the sun on a surface that faces it. Guess, tuned by eye like every colour below.
pub const SUN_LIGHT: Vec3 = Vec3::new(2.5, 1.32, 0.62);
/// Linear light of the sky from straight above.
pub const SKY_LIGHT: Vec3 = Vec3::new(0.36, 0.45, 0.78);
/// Linear light that the ground reflects upwards.
pub const GROUND_LIGHT: Vec3 = Vec3::new(0.30, 0.20, 0.19);
/// Display colour of the air far away, 0 to 1.
pub const FOG: Vec3 = Vec3::new(0.80, 0.56, 0.50);
/// Divisor of stored light, so that a byte can represent light above white.
pub const LIGHT_RANGE: f32 = 1.6;

/// A capsule that blocks the sun.
#[derive(Clone, Copy, Debug)]
pub struct Occluder {
    pub from: Vec3,
    pub to: Vec3,
    pub radius: f32,
}

/// A warm point of light.
#[derive(Clone, Copy, Debug)]
pub struct Lamp {
    pub position: Vec3,
    /// Linear light at one metre.
    pub light: Vec3,
}

/// The lights and occluders of the place.
#[derive(Clone, Debug, Default)]
pub struct Lighting {
    pub occluders: Vec<Occluder>,
    pub lamps: Vec<Lamp>,
}

/// Returns the unit vector towards the sun.
pub fn sun() -> Vec3 {
    SUN.normalize()
}

/// Returns the display value (gamma-coded, may exceed one) of linear light, softly compressed near white.
pub fn display(light: Vec3) -> Vec3 {
    let compressed = light * (Vec3::ONE + light * 0.12) / (Vec3::ONE + light * 0.55);
    compressed.max(Vec3::ZERO).powf(1.0 / 2.2)
}

impl Lighting {
    /// Returns the share of the sun that reaches `point`, 0 to 1, with soft edges that widen with the occluder's distance.
    pub fn sunlight(&self, point: Vec3) -> f32 {
        let sun = sun();
        self.occluders.iter().fold(1.0f32, |visible, occluder| {
            let (distance, gap) = ray_to_segment(point, sun, occluder.from, occluder.to);
            if distance < occluder.radius * 1.5 {
                return visible;
            }
            let penumbra = 0.05 + 0.03 * distance;
            visible.min(smooth((gap - occluder.radius + penumbra) / (2.0 * penumbra)))
        })
    }

    /// Returns the linear light on a surface at `point` with the unit `normal`. `open` (0 to 1) is the visible share of the sky.
    pub fn at(&self, point: Vec3, normal: Vec3, open: f32) -> Vec3 {
        let facing = normal.dot(sun()).max(0.0);
        let direct = if facing > 0.0 { facing * self.sunlight(point + normal * 0.03) } else { 0.0 };
        SUN_LIGHT * direct + self.ambient(point, normal) * open
    }

    /// Returns the linear light of sky, ground and lamps, without the sun.
    pub fn ambient(&self, point: Vec3, normal: Vec3) -> Vec3 {
        let dome = GROUND_LIGHT.lerp(SKY_LIGHT, normal.y * 0.5 + 0.5);
        // The glow around the sun lights surfaces that face it, even in shadow.
        let glow = SUN_LIGHT * 0.10 * (normal.dot(sun()) * 0.5 + 0.5);
        dome + glow + self.lamplight(point, normal)
    }

    fn lamplight(&self, point: Vec3, normal: Vec3) -> Vec3 {
        self.lamps.iter().fold(Vec3::ZERO, |sum, lamp| {
            let offset = lamp.position - point;
            let square = offset.length_squared().max(0.04);
            let facing = (normal.dot(offset) / square.sqrt() * 0.8 + 0.2).max(0.0);
            sum + lamp.light * facing / (square + 0.3)
        })
    }
}

/// Returns a smooth step that rises from 0 to 1 while `x` does.
pub fn smooth(x: f32) -> f32 {
    let x = x.clamp(0.0, 1.0);
    x * x * (3.0 - 2.0 * x)
}

/// Returns the distance along a ray at which it is closest to a segment (0 if that point lies behind), and the gap there.
fn ray_to_segment(origin: Vec3, direction: Vec3, from: Vec3, to: Vec3) -> (f32, f32) {
    let (along, offset) = (to - from, from - origin);
    let (square, mixed) = (along.length_squared(), along.dot(direction));
    let denominator = square - mixed * mixed;
    let share = if denominator.abs() < 1e-6 {
        0.0
    } else {
        ((mixed * offset.dot(direction) - along.dot(offset)) / denominator).clamp(0.0, 1.0)
    };
    let nearest = offset + along * share;
    let distance = nearest.dot(direction).max(0.0);
    (distance, (nearest - direction * distance).length())
}

/// Returns the shadow of `occluder` on the floor: a flat capsule, and the distance that the rays at its far end have travelled.
pub fn floor_shadow(occluder: &Occluder) -> (Vec2, Vec2, f32) {
    let sun = sun();
    let cast = |point: Vec3| {
        let distance = point.y.max(0.0) / sun.y;
        let place = point - sun * distance;
        (Vec2::new(place.x, place.z), distance)
    };
    let ((from, near), (to, far)) = (cast(occluder.from), cast(occluder.to));
    (from, to, near.max(far))
}
