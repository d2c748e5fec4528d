//! The light map of the floor: shadows, lamplight and ambient occlusion.

use glam::{Vec2, Vec3};

use super::build::SCULPTURE;
use super::light::{LIGHT_RANGE, Lighting, SUN_LIGHT, display, floor_shadow, smooth};
use super::texture::Image;

/// Half the side of the square that the picture covers, in metres.
pub const REACH: f32 = 22.0;
/// Position of the centre of the square on the z axis, in metres.
pub const MIDDLE: f32 = -6.0;
/// Pixels along a side. A pixel covers nine centimetres, less than the penumbra of a column's capital.
const SIDE: u32 = 512;

/// The low sun only grazes the floor; this gain makes its shadows visible. Guess, tuned by eye.
const SUN_GAIN: f32 = 2.1;

/// Returns the colour of the bands of darker stone around the sculpture.
fn inlay(place: Vec2) -> Vec3 {
    let offset = place - Vec2::new(SCULPTURE.x, SCULPTURE.z);
    let distance = offset.length();
    let band = |middle: f32, half: f32| 1.0 - smooth(((distance - middle).abs() - half) / 0.08 + 0.5);
    let spokes = smooth(((offset.to_angle() * 13.0).cos() - 0.2) * 5.0) * band(5.55, 0.75);
    let dark = band(4.55, 0.16).max(band(6.55, 0.16)).max(spokes * 0.75);
    Vec3::ONE.lerp(Vec3::new(0.66, 0.52, 0.50), dark)
}

/// A value per pixel of the floor.
struct Field {
    values: Vec<f32>,
}

impl Field {
    fn new() -> Self {
        Self { values: vec![1.0; (SIDE * SIDE) as usize] }
    }

    /// Darkens the area around the segment `from`-`to` where `shade(distance, share along)` is below one.
    fn darken(&mut self, (from, to): (Vec2, Vec2), reach: f32, shade: impl Fn(f32, f32) -> f32) {
        let pixel = |metres: f32| ((metres + REACH) / (2.0 * REACH) * SIDE as f32).clamp(0.0, SIDE as f32) as u32;
        let (low, high) = (from.min(to) - Vec2::splat(reach), from.max(to) + Vec2::splat(reach));
        let along = to - from;
        for row in pixel(low.y - MIDDLE)..pixel(high.y - MIDDLE) {
            for column in pixel(low.x)..pixel(high.x) {
                let offset = place(column, row) - from;
                let share = (offset.dot(along) / along.length_squared().max(1e-6)).clamp(0.0, 1.0);
                let distance = (offset - along * share).length();
                let value = &mut self.values[(row * SIDE + column) as usize];
                *value = value.min(shade(distance, share));
            }
        }
    }
}

/// Returns the position of a pixel's centre on the floor, as x and z.
fn place(column: u32, row: u32) -> Vec2 {
    let metres = |pixel: u32| (pixel as f32 + 0.5) / SIDE as f32 * 2.0 * REACH - REACH;
    Vec2::new(metres(column), metres(row) + MIDDLE)
}

/// Bakes the light on the floor. `contacts` are footprints (position and radius) that occlude the sky.
pub fn bake(lighting: &Lighting, contacts: &[(Vec2, f32)]) -> Image {
    let mut sunlight = Field::new();
    for occluder in &lighting.occluders {
        let (from, to, distance) = floor_shadow(occluder);
        let widest = 0.03 + 0.022 * distance;
        sunlight.darken((from, to), occluder.radius + widest, |gap, share| {
            let penumbra = 0.02 + (widest - 0.02) * share;
            smooth((gap - occluder.radius + penumbra) / (2.0 * penumbra))
        });
    }
    let mut open = Field::new();
    for (centre, radius) in contacts {
        let reach = radius * 1.2 + 0.5;
        open.darken((*centre, *centre), radius + reach, |distance, _| {
            0.42 + 0.58 * smooth((distance - radius * 0.8) / reach)
        });
    }
    let facing = super::light::sun().y;
    Image::from_colours(SIDE, SIDE, |u, v| {
        let (column, row) = ((u * SIDE as f32) as u32, (v * SIDE as f32) as u32);
        let index = (row * SIDE + column) as usize;
        let place = place(column, row);
        let ambient = lighting.ambient(Vec3::new(place.x, 0.0, place.y), Vec3::Y);
        let light = SUN_LIGHT * (facing * SUN_GAIN * sunlight.values[index]) + ambient * (0.8 * open.values[index]);
        display(light) * inlay(place) / LIGHT_RANGE
    })
}
