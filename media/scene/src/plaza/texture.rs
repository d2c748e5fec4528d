//! Procedural textures. Their values are display values (gamma-coded), like those of rendered pictures.

use glam::{Vec2, Vec3};

use super::light::{self, smooth};
use super::mesh::Layer;

/// An RGBA picture with eight bits per channel, rows from top to bottom.
#[derive(Clone, Debug)]
pub struct Image {
    pub width: u32,
    pub height: u32,
    pub rgba: Vec<u8>,
}

impl Image {
    pub fn from_colours(width: u32, height: u32, colour: impl Fn(f32, f32) -> Vec3) -> Self {
        let mut rgba = Vec::with_capacity((width * height * 4) as usize);
        for y in 0..height {
            for x in 0..width {
                let value = colour((x as f32 + 0.5) / width as f32, (y as f32 + 0.5) / height as f32);
                rgba.extend(value.to_array().map(|channel| (channel.clamp(0.0, 1.0) * 255.0 + 0.5) as u8));
                rgba.push(255);
            }
        }
        Self { width, height, rgba }
    }

    /// Returns the picture with half the width and height (at least one pixel). Each pixel is the mean of four.
    #[must_use]
    pub fn halved(&self) -> Self {
        let (width, height) = ((self.width / 2).max(1), (self.height / 2).max(1));
        let mut rgba = Vec::with_capacity((width * height * 4) as usize);
        let at = |x: u32, y: u32, channel: u32| {
            let (x, y) = (x.min(self.width - 1), y.min(self.height - 1));
            u32::from(self.rgba[((y * self.width + x) * 4 + channel) as usize])
        };
        for y in 0..height {
            for x in 0..width {
                for channel in 0..4 {
                    let (x, y) = (x * 2, y * 2);
                    let sum =
                        at(x, y, channel) + at(x + 1, y, channel) + at(x, y + 1, channel) + at(x + 1, y + 1, channel);
                    rgba.push(((sum + 2) / 4) as u8);
                }
            }
        }
        Self { width, height, rgba }
    }

    /// Returns the picture and its halves down to one pixel.
    pub fn mip_chain(self) -> Vec<Self> {
        let mut chain = vec![self];
        while let Some(last) = chain.last()
            && (last.width > 1 || last.height > 1)
        {
            let next = last.halved();
            chain.push(next);
        }
        chain
    }
}

/// Returns a pseudo-random value of an integer lattice point, 0 to 1.
pub fn lattice(x: i32, y: i32, z: i32) -> f32 {
    let mut hash = (x as u32).wrapping_mul(0x8DA6_B343)
        ^ (y as u32).wrapping_mul(0xD816_3841)
        ^ (z as u32).wrapping_mul(0xCB1A_B31F);
    hash ^= hash >> 15;
    hash = hash.wrapping_mul(0x2C1B_3C6D);
    hash ^= hash >> 12;
    hash = hash.wrapping_mul(0x297A_2D39);
    hash ^= hash >> 15;
    (hash >> 8) as f32 / (1 << 24) as f32
}

/// Returns smooth noise, 0 to 1, which repeats every `period` in x and y unless that is zero.
fn noise(point: Vec3, period: i32) -> f32 {
    let base = point.floor();
    let share = point - base;
    let share = share * share * (Vec3::splat(3.0) - share * 2.0);
    let (x, y, z) = (base.x as i32, base.y as i32, base.z as i32);
    let wrap = |value: i32| if period > 0 { value.rem_euclid(period) } else { value };
    let corner = |dx: i32, dy: i32, dz: i32| lattice(wrap(x + dx), wrap(y + dy), z + dz);
    let line = |dy: i32, dz: i32| corner(0, dy, dz) + (corner(1, dy, dz) - corner(0, dy, dz)) * share.x;
    let plane = |dz: i32| line(0, dz) + (line(1, dz) - line(0, dz)) * share.y;
    plane(0) + (plane(1) - plane(0)) * share.z
}

/// Returns noise of four octaves, 0 to 1.
fn cloudy(point: Vec3, period: i32) -> f32 {
    let mut sum = 0.0;
    let (mut scale, mut weight) = (1, 0.5);
    for octave in 0..4 {
        let shift = Vec3::new(0.0, 0.0, octave as f32 * 7.3);
        sum += weight * noise(point * scale as f32 + shift, period * scale);
        scale *= 2;
        weight *= 0.5;
    }
    sum / 0.9375
}

fn tiling(u: f32, v: f32, frequency: i32, seed: f32) -> f32 {
    cloudy(Vec3::new(u * frequency as f32, v * frequency as f32, seed), frequency)
}

/// Returns the distance from the nearest joint of a wall of blocks, and the random value of the block.
fn blocks(u: f32, v: f32, columns: i32, rows: i32) -> (f32, f32) {
    let row = (v * rows as f32).floor();
    let shifted = u * columns as f32 + if row as i32 % 2 == 0 { 0.0 } else { 0.5 };
    let column = (shifted.floor() as i32).rem_euclid(columns);
    let across = (shifted - shifted.floor() - 0.5).abs();
    let along = (v * rows as f32 - row - 0.5).abs();
    let edge = ((0.5 - across) / columns as f32).min((0.5 - along) / rows as f32);
    (edge, lattice(column, row as i32, 91))
}

/// Returns the repeating texture of the flagstones, a square of four by four metres.
pub fn floor() -> Image {
    Image::from_colours(512, 512, |u, v| {
        let (edge, tone) = blocks(u, v, 4, 4);
        let grain = tiling(u, v, 24, 3.0);
        let stain = tiling(u, v, 4, 11.0);
        let joint = smooth((edge - 0.0025) / 0.004);
        let bevel = smooth((edge - 0.004) / 0.010);
        let stone = Vec3::new(0.80, 0.76, 0.72).lerp(Vec3::new(0.68, 0.67, 0.70), tone);
        let stone = stone * (0.86 + 0.2 * grain) * (0.88 + 0.22 * stain) * (0.92 + 0.08 * bevel);
        Vec3::new(0.34, 0.31, 0.30).lerp(stone, joint)
    })
}

/// Returns the texture of one layer of the shared array, which repeats in both directions.
pub fn layer(layer: Layer, size: u32) -> Image {
    let shade = move |u: f32, v: f32| match layer {
        Layer::White => Vec3::ONE,
        Layer::Stone => {
            let grain = tiling(u, v, 16, 2.0);
            let stain = tiling(u, v, 4, 5.0);
            Vec3::new(0.84, 0.80, 0.76) * (0.80 + 0.22 * grain) * (0.86 + 0.22 * stain)
        }
        Layer::Marble => {
            let warp = tiling(u, v, 4, 8.0);
            let vein = ((u + warp * 0.5) * 2.0 * std::f32::consts::TAU).sin().abs();
            let fluting = 0.93 + 0.07 * (u * 12.0 * std::f32::consts::TAU).cos();
            Vec3::new(0.93, 0.90, 0.86) * (0.86 + 0.14 * smooth(vein * 2.2)) * fluting
        }
        Layer::Crate => wood(u, v),
        Layer::Leaves => {
            let clump = smooth((tiling(u, v, 8, 21.0) - 0.3) * 2.4);
            let leaf = tiling(u, v, 32, 4.0);
            Vec3::new(0.34, 0.42, 0.30).lerp(Vec3::new(0.86, 0.95, 0.62), clump * 0.55 + leaf * 0.45)
        }
        Layer::Ball => {
            let stripe = (u * 6.0).fract();
            let edge = smooth((stripe - 0.5).abs() * 24.0);
            let white = if (u * 6.0) as i32 % 2 == 0 { 1.0 } else { 0.45 };
            let band = smooth(((v - 0.5).abs() - 0.06) * 60.0);
            Vec3::splat(0.96).lerp(Vec3::splat(white), band) * (0.85 + 0.15 * edge.max(1.0 - band))
        }
        Layer::Masonry => {
            let (edge, tone) = blocks(u, v, 2, 4);
            let grain = tiling(u, v, 16, 13.0);
            let stone = Vec3::new(0.86, 0.80, 0.73).lerp(Vec3::new(0.74, 0.70, 0.66), tone);
            Vec3::splat(0.46).lerp(stone * (0.82 + 0.22 * grain), smooth((edge - 0.006) / 0.012))
        }
        Layer::Paper => {
            let rib = 0.86 + 0.14 * smooth(((v * 9.0).fract() - 0.5).abs() * 6.0);
            let fibre = 0.94 + 0.06 * tiling(u, v, 16, 17.0);
            Vec3::splat(rib * fibre)
        }
    };
    Image::from_colours(size, size, shade)
}

/// Returns the colour of a crate's face: planks in a frame with a diagonal.
fn wood(u: f32, v: f32) -> Vec3 {
    let rim = u.min(1.0 - u).min(v.min(1.0 - v));
    let diagonal = (u - v).abs() / std::f32::consts::SQRT_2;
    let framed = rim < 0.13 || diagonal < 0.07;
    let along = if rim < 0.13 && u.min(1.0 - u) < v.min(1.0 - v) { (v, u) } else { (u, v) };
    let grain = cloudy(Vec3::new(along.0 * 3.0, along.1 * 34.0, if framed { 1.0 } else { 2.0 }), 0);
    let plank = (v * 5.0).floor();
    let gap = ((v * 5.0).fract() - 0.5).abs();
    let tone = if framed { 0.98 } else { 0.76 + 0.14 * lattice(plank as i32, 0, 7) };
    let groove = if framed { 1.0 } else { 1.0 - 0.5 * smooth((gap - 0.44) * 20.0) };
    let edge =
        smooth((rim - 0.13).abs() * 70.0).min(if rim < 0.13 { 1.0 } else { smooth((diagonal - 0.07).abs() * 90.0) });
    Vec3::new(0.86, 0.66, 0.44) * (0.74 + 0.36 * grain) * tone * groove * (0.62 + 0.38 * edge)
}

/// Returns the evening sky. Columns go once around, starting at +x towards +z; rows go from straight up to a little below the horizon.
pub fn sky() -> Image {
    Image::from_colours(1024, 256, |u, v| {
        let (sin, cos) = (u * std::f32::consts::TAU).sin_cos();
        let height = sky_height(v);
        let level = (1.0 - height * height).max(0.0).sqrt();
        sky_colour(Vec3::new(cos * level, height, sin * level))
    })
}

/// Returns the sine of the elevation at row `v` (0 to 1) of [`sky`]. The horizon gets most of the rows.
pub fn sky_height(v: f32) -> f32 {
    let up = 1.0 - v / 0.9;
    up.abs() * up
}

fn sky_colour(direction: Vec3) -> Vec3 {
    let height = direction.y.max(0.0);
    let flat = Vec2::new(direction.x, direction.z).normalize_or(Vec2::X);
    let sun = light::sun();
    let towards = flat.dot(Vec2::new(sun.x, sun.z).normalize()) * 0.5 + 0.5;
    let horizon = Vec3::new(0.60, 0.47, 0.58).lerp(Vec3::new(1.0, 0.66, 0.40), towards * towards);
    let middle = Vec3::new(0.33, 0.38, 0.62).lerp(Vec3::new(0.70, 0.53, 0.58), towards * towards);
    let zenith = Vec3::new(0.13, 0.19, 0.40);
    let mut colour = horizon.lerp(middle, smooth(height / 0.28)).lerp(zenith, smooth((height - 0.12) / 0.75));
    let near_sun = direction.dot(sun).max(0.0);
    colour += Vec3::new(0.55, 0.36, 0.16) * near_sun.powi(12) * 0.38
        + Vec3::new(0.9, 0.75, 0.5) * (near_sun.powi(420) * 1.2 + near_sun.powi(60) * 0.22);
    // Clouds lie on a plane overhead and stretch towards the horizon.
    let plane = Vec2::new(direction.x, direction.z) / (height + 0.12);
    let wisp = cloudy(Vec3::new(plane.x * 0.55 + 9.0, plane.y * 1.25, 31.0), 0);
    let cover = smooth((wisp - 0.50) * 4.2) * smooth(height * 9.0) * (1.0 - smooth((height - 0.35) / 0.5));
    let lit = Vec3::new(0.96, 0.62, 0.56).lerp(Vec3::new(1.0, 0.80, 0.56), near_sun.powi(4));
    let dark = Vec3::new(0.46, 0.40, 0.56);
    let body = smooth((wisp - 0.60) * 4.0);
    colour.lerp(lit.lerp(dark, body * 0.55), cover * 0.72)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mip_chain_ends_with_one_pixel_of_the_mean_colour() {
        let image = Image::from_colours(8, 2, |u, _| Vec3::splat(if u < 0.5 { 0.0 } else { 1.0 }));
        let chain = image.mip_chain();
        assert_eq!(
            chain.iter().map(|level| (level.width, level.height)).collect::<Vec<_>>(),
            [(8, 2), (4, 1), (2, 1), (1, 1)]
        );
        assert_eq!(chain[3].rgba, [128, 128, 128, 255]);
    }

    #[test]
    fn textures_repeat_without_a_seam() {
        for frequency in [4, 16] {
            for step in 0..20 {
                let v = step as f32 / 20.0;
                assert!((tiling(0.0, v, frequency, 5.0) - tiling(0.99999, v, frequency, 5.0)).abs() < 1e-2);
            }
        }
    }
}
