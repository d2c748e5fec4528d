//! Pictures like those of a first-person game: a player who walks and looks around between a floor and a ceiling, others who run
//! past, and a static display of health and ammunition.
//!
//! For measurements on content that resembles what is streamed: everything moves by fractions of pixels, near things fast, and a
//! smaller picture loses detail. It is arithmetic on textures made of noise; no game's pictures were used.

use std::sync::OnceLock;

use nearlight_codec::{Picture, Size};

/// Pictures per second of the game; `moment` counts them.
const PICTURES_PER_SECOND: f64 = 30.0;
/// Side of the finest texture, a power of two.
const TEXELS: usize = 1 << TEXEL_BITS;
const TEXEL_BITS: usize = 10;
const LEVELS: usize = 6;
/// Texels of the finest texture in one unit of the world, about a metre.
const TEXELS_PER_UNIT: f64 = 96.0;
/// Distances of floor and ceiling from the eye, in units.
const HEIGHTS: [f64; 2] = [1.6, 2.2];
/// Distance in units beyond which only haze is visible.
const HAZE_DISTANCE: f64 = 14.0;
const HAZE_LUMA: u32 = 112;
const RUNNERS: usize = 4;

/// A texture at all its sizes, each a quarter of the one before.
struct Texture {
    levels: Vec<Level>,
}

/// A square of texels with a side of two to the power of `bits`, which repeats.
struct Level {
    bits: usize,
    /// Rows are padded: the padding repeats the first texel, and rows do not compete for the same cache lines. The last row repeats the first.
    texels: Vec<u8>,
}

/// Padding of a row in texels: one cache line.
const ROW_PADDING: usize = 64;

impl Level {
    fn new(bits: usize, square: &[u8]) -> Self {
        let side = 1 << bits;
        let mut texels = Vec::with_capacity((side + 1) * (side + ROW_PADDING));
        for row in square.chunks_exact(side).chain([&square[..side]]) {
            texels.extend_from_slice(row);
            texels.resize(texels.len() + ROW_PADDING, row[0]);
        }
        Self { bits, texels }
    }

    /// Interpolates between four texels. Coordinates are texels times 65,536.
    fn sample(&self, u: u32, v: u32) -> u32 {
        let side = 1 << self.bits;
        let (x, y) = ((u >> 16) as usize & (side - 1), (v >> 16) as usize & (side - 1));
        let (right, down) = (u >> 8 & 0xFF, v >> 8 & 0xFF);
        let at = y * (side + ROW_PADDING) + x;
        let mixed = |row: &[u8]| u32::from(row[0]) * (256 - right) + u32::from(row[1]) * right;
        let (above, below) = (mixed(&self.texels[at..at + 2]), mixed(&self.texels[at + side + ROW_PADDING..][..2]));
        (above * (256 - down) + below * down) >> 16
    }
}

/// Returns a pseudo-random number from 0 to below 1 for each lattice point.
fn noise(x: usize, y: usize, salt: u32) -> f64 {
    let mut bits = (x as u32).wrapping_mul(0x9E37_79B1) ^ (y as u32).wrapping_mul(0x85EB_CA77) ^ salt;
    for _ in 0..2 {
        bits = (bits ^ (bits >> 15)).wrapping_mul(0x2C1B_3C6D);
    }
    f64::from(bits >> 8) / f64::from(1 << 24)
}

impl Texture {
    /// Builds octaves of smooth noise whose contrast falls with their size, and joints between slabs.
    fn new(salt: u32) -> Self {
        let mut finest = vec![0.0; TEXELS * TEXELS];
        for octave in 2..TEXEL_BITS as u32 {
            let (cells, contrast) = (1_usize << octave, 150.0 / f64::from(1_u32 << octave).powf(0.55));
            let size = TEXELS / cells;
            for (index, value) in finest.iter_mut().enumerate() {
                let (x, y) = (index % TEXELS, index / TEXELS);
                let at = |dx: usize, dy: usize| noise((x / size + dx) % cells, (y / size + dy) % cells, salt + octave);
                let smooth = |part: usize| {
                    let part = part as f64 / size as f64;
                    part * part * (3.0 - 2.0 * part)
                };
                let (right, down) = (smooth(x % size), smooth(y % size));
                let above = at(0, 0) + (at(1, 0) - at(0, 0)) * right;
                let below = at(0, 1) + (at(1, 1) - at(0, 1)) * right;
                *value += contrast * (above + (below - above) * down - 0.5);
            }
        }
        let joint = |index: usize| (index % TEXELS) % 128 < 4 || (index / TEXELS) % 128 < 4;
        let shade = |(index, value): (usize, f64)| 118.0 + value - if joint(index) { 46.0 } else { 0.0 };
        let finest = finest.into_iter().enumerate().map(shade).map(|value| value.clamp(20.0, 230.0) as u8).collect();
        let mut levels: Vec<Vec<u8>> = vec![finest];
        for level in 1..LEVELS {
            let side = TEXELS >> level;
            let finer = &levels[level - 1];
            let texel = |index: usize| {
                let (x, y) = (index % side * 2, index / side * 2);
                let at = |x: usize, y: usize| u32::from(finer[y * side * 2 + x]);
                ((at(x, y) + at(x + 1, y) + at(x, y + 1) + at(x + 1, y + 1) + 2) / 4) as u8
            };
            levels.push((0..side * side).map(texel).collect());
        }
        let bits = |level: usize| TEXEL_BITS - level;
        Self { levels: levels.iter().enumerate().map(|(level, texels)| Level::new(bits(level), texels)).collect() }
    }

    fn level(&self, texels_per_pixel: f64) -> (usize, &Level) {
        let level = (libm::log2(texels_per_pixel.max(1.0)).round() as usize).min(LEVELS - 1);
        (level, &self.levels[level])
    }
}

struct Player {
    x: f64,
    y: f64,
    heading: f64,
    bob: f64,
}

/// Returns the player's position and heading: he walks on and turns to and fro as if searching, at times quickly.
fn player(moment: u32) -> Player {
    let time = f64::from(moment) / PICTURES_PER_SECOND;
    let quick = |period: f64, width: f64| {
        let phase = (time / period).fract() * period;
        let share = (phase / width).min(1.0);
        ((time / period).floor() + share * share * (3.0 - 2.0 * share)) * 1.9
    };
    let heading = 0.5 * libm::sin(time * 0.9) + 0.22 * libm::sin(time * 2.3) + quick(4.7, 0.5);
    let walked = 3.2 * time + 0.6 * libm::sin(time * 1.3);
    // The path is a gentle curve, independent of the viewing direction.
    let (x, y) = (walked * libm::cos(0.3), walked * libm::sin(0.3) + 2.0 * libm::sin(time * 0.35));
    Player { x, y, heading, bob: 0.05 * libm::sin(time * 9.0) }
}

fn textures() -> &'static [Texture; 3] {
    static TEXTURES: OnceLock<[Texture; 3]> = OnceLock::new();
    TEXTURES.get_or_init(|| [Texture::new(11), Texture::new(23), Texture::new(37)])
}

/// Draws the game at a moment.
#[must_use]
pub fn picture(size: Size, moment: u32) -> Picture {
    let mut picture = Picture::new(size);
    let view = player(moment);
    let (width, height) = (usize::from(size.width), usize::from(size.height));
    draw_plane(&mut picture.luma, [width, height], &view, 256.0);
    draw_plane(&mut picture.blue, [width / 2, height / 2], &view, 44.0);
    picture.red.copy_from_slice(&picture.blue);
    for (blue, red) in picture.blue.iter_mut().zip(&mut picture.red) {
        (*blue, *red) = ((*blue / 4).saturating_add(92), 164 - *red / 4);
    }
    for runner in 0..RUNNERS {
        draw_runner(&mut picture, &view, moment, runner);
    }
    draw_display(&mut picture, moment);
    picture
}

/// Draws floor or ceiling. A `contrast` of 256 leaves textures as they are.
fn draw_plane(plane: &mut [u8], [width, height]: [usize; 2], view: &Player, contrast: f64) {
    let focal = width as f64 * 0.6;
    let horizon = height as f64 * (0.46 + view.bob * 0.1);
    let (cos, sin) = (libm::cos(view.heading), libm::sin(view.heading));
    for (y, row) in plane.chunks_exact_mut(width).enumerate() {
        let below = y as f64 + 0.5 - horizon;
        let (texture, height) = if below > 0.0 { (0, HEIGHTS[0] + view.bob) } else { (1, HEIGHTS[1] - view.bob) };
        let distance = (height * focal / below.abs().max(1.0)).min(HAZE_DISTANCE * 4.0);
        let clear = libm::exp(-(distance / HAZE_DISTANCE) * (distance / HAZE_DISTANCE));
        let per_pixel = distance / focal * TEXELS_PER_UNIT;
        let (level, texels) = textures()[texture].level(per_pixel);
        let scale = TEXELS_PER_UNIT / f64::from(1_u32 << level) * 65_536.0;
        let left = -(width as f64) / 2.0 / focal * distance;
        let u = ((view.x + cos * distance - sin * left) * scale) as i64;
        let v = ((view.y + sin * distance + cos * left) * scale) as i64;
        let (du, dv) = ((-sin * distance / focal * scale) as i64, (cos * distance / focal * scale) as i64);
        let clear = (clear * contrast) as u32;
        let haze = HAZE_LUMA * (256 - clear);
        // Textures repeat, so that what is above 32 bits makes no difference.
        let (mut u, mut v) = (u as u32, v as u32);
        for pixel in row {
            *pixel = ((texels.sample(u, v) * clear + haze) >> 8) as u8;
            (u, v) = (u.wrapping_add(du as u32), v.wrapping_add(dv as u32));
        }
    }
}

/// Draws a figure that runs around the player.
fn draw_runner(picture: &mut Picture, view: &Player, moment: u32, runner: usize) {
    let time = f64::from(moment) / PICTURES_PER_SECOND;
    let phase = runner as f64 * 1.7;
    let distance = 3.0 + 1.8 * libm::sin(time * (0.7 + 0.13 * runner as f64) + phase);
    let bearing = 1.1 * libm::sin(time * (0.5 + 0.21 * runner as f64) + phase * 2.0) - 0.6 * libm::sin(view.heading);
    let (width, height) = (i64::from(picture.size.width), i64::from(picture.size.height));
    let focal = width as f64 * 0.6;
    let centre = (width as f64 / 2.0 + focal * bearing, height as f64 * 0.5 + 0.3 * focal / distance);
    let (half_width, half_height) = (0.35 * focal / distance, 0.8 * focal / distance);
    let scale = 160.0 * 65_536.0 / half_height;
    let (left, right) = ((centre.0 - half_width) as i64, (centre.0 + half_width) as i64);
    let (top, bottom) = ((centre.1 - half_height) as i64, (centre.1 + half_height) as i64);
    let texels = &textures()[2].levels[1];
    for y in top.max(0)..bottom.min(height) {
        let down = (y as f64 - centre.1) / half_height;
        for x in left.max(0)..right.min(width) {
            let across = (x as f64 - centre.0) / half_width;
            if across * across + down * down > 1.0 {
                continue;
            }
            let u = ((x as f64 - centre.0) * scale) as i64 + ((runner as i64) << 22);
            let v = ((y as f64 - centre.1) * scale) as i64;
            let shade = (1.0 - 0.45 * across.abs()) * 0.85;
            let value = f64::from(texels.sample(u as u32, v as u32)) * shade;
            picture.luma[(y * width + x) as usize] = (value * 1.2).clamp(16.0, 235.0) as u8;
        }
    }
}

/// Draws health and ammunition, blocks in the lower corners of which one changes now and then, and a cross in the middle.
fn draw_display(picture: &mut Picture, moment: u32) {
    let (width, height) = (usize::from(picture.size.width), usize::from(picture.size.height));
    let cell = (height / 60).max(2);
    let mut fill = |x: usize, y: usize, w: usize, h: usize, value: u8| {
        for row in y..(y + h).min(height) {
            picture.luma[row * width + x.min(width)..row * width + (x + w).min(width)].fill(value);
        }
    };
    let digits = moment / 15;
    for block in 0..24_usize {
        let lit = noise(block, if block < 20 { 1 } else { digits as usize }, 5) > 0.4;
        let (column, row) = (block % 12, block / 12);
        fill(cell * (2 + column), height - cell * (5 - row * 2), cell - 1, cell * 2 - 1, if lit { 220 } else { 30 });
        fill(
            width.saturating_sub(cell * (15 - column)),
            height - cell * (5 - row * 2),
            cell - 1,
            cell * 2 - 1,
            if lit { 210 } else { 40 },
        );
    }
    fill(width / 2 - cell, height / 2, cell * 2, cell.div_ceil(6), 230);
    fill(width / 2, height / 2 - cell, cell.div_ceil(6), cell * 2, 230);
}

#[cfg(test)]
mod tests {
    use nearlight_codec::quality::psnr;

    use super::*;

    #[test]
    fn it_moves_everywhere_and_is_the_same_again() {
        let size = Size { width: 320, height: 180 };
        let (one, next, same) = (picture(size, 40), picture(size, 41), picture(size, 40));
        assert_eq!(one, same);
        let difference = psnr(one.view(), next.view()).expect("equal sizes");
        assert!((12.0..30.0).contains(&difference), "{difference} dB from one picture to the next");
        // No band of the picture is static.
        for band in one.luma.chunks(320 * 30).zip(next.luma.chunks(320 * 30)) {
            let changed = band.0.iter().zip(band.1).filter(|(a, b)| a != b).count();
            assert!(changed > 320 * 30 / 4, "{changed}");
        }
    }

    #[test]
    fn any_moment_and_size_can_be_drawn() {
        for (width, height) in [(16, 16), (256, 144), (1_280, 64)] {
            for moment in [0, 1_000_000, u32::MAX] {
                assert_eq!(
                    picture(Size { width, height }, moment).luma.len(),
                    usize::from(width) * usize::from(height)
                );
            }
        }
    }
}
