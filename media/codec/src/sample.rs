//! A synthetic moving picture that is as hard to encode as a rendered scene, for self-tests and benches.

use crate::{Picture, Size};

/// Draws the picture of a moment: a textured ground that slides faster towards the bottom, as a floor does under a moving camera, and a
/// bright disc with a sharp edge that moves in a circle.
///
/// A `moment` always yields the same picture. Consecutive ones differ by a few pixels of motion.
#[must_use]
pub fn moving_picture(size: Size, moment: u32) -> Picture {
    let mut picture = Picture::new(size);
    let width = usize::from(size.width);
    for (y, row) in picture.luma.chunks_exact_mut(width).enumerate() {
        for (x, luma) in row.iter_mut().enumerate() {
            *luma = ground(x as u32 + moment * (8 + y as u32 / 16) / 8, y as u32 + moment);
        }
    }
    for (y, (blue, red)) in
        picture.blue.chunks_exact_mut(width / 2).zip(picture.red.chunks_exact_mut(width / 2)).enumerate()
    {
        for (x, (blue, red)) in blue.iter_mut().zip(red).enumerate() {
            *blue = 96 + (wave(x as u32 * 2 + moment * 3, 300) / 4) as u8;
            *red = 96 + (wave(y as u32 * 2 + moment, 210) / 4) as u8;
        }
    }
    draw_disc(&mut picture, moment);
    picture
}

/// Returns the luma of the ground: slow waves with fine grain that moves along with them.
fn ground(x: u32, y: u32) -> u8 {
    let tiles = ((x / 64 + y / 64) % 2) * 24;
    let grain = x.wrapping_mul(0x9E37_79B1).wrapping_add(y.wrapping_mul(0x85EB_CA77));
    let grain = (grain ^ (grain >> 15)).wrapping_mul(0x2C1B_3C6D) >> 28;
    (48 + (wave(x, 170) + wave(y, 130)) / 4 + tiles + grain) as u8
}

/// Returns a triangle wave between 0 and 255.
fn wave(position: u32, period: u32) -> u32 {
    let phase = position % period * 510 / period;
    if phase < 256 { phase } else { 510 - phase }
}

fn draw_disc(picture: &mut Picture, moment: u32) {
    let (width, height) = (i64::from(picture.size.width), i64::from(picture.size.height));
    let radius = height / 8;
    let angle = f64::from(moment) * 0.05;
    let centre = (
        width / 2 + (angle.cos() * width as f64 / 4.0) as i64,
        height / 2 + (angle.sin() * height as f64 / 4.0) as i64,
    );
    for y in (centre.1 - radius).max(0)..(centre.1 + radius).min(height) {
        for x in (centre.0 - radius).max(0)..(centre.0 + radius).min(width) {
            if (x - centre.0).pow(2) + (y - centre.1).pow(2) < radius.pow(2) {
                picture.luma[(y * width + x) as usize] = 220;
            }
        }
    }
}
