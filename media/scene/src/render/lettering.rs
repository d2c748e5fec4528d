//! Pictures of name tags: letters on a dark pill. The font is `DejaVu Sans`, which has Latin, Greek, Cyrillic, Armenian, Georgian, Hebrew
//! and Arabic letters. Letters stand in the order of the text, unjoined; what the font lacks is a box.

use ab_glyph::{Font as _, FontRef, Glyph, PxScale, ScaleFont as _, point};

/// Size of a tag's picture in pixels. A short name takes the left part of it.
pub const WIDTH: u32 = 1_024;
pub const HEIGHT: u32 = 64;
/// Levels of a picture, each half as large as the one before: the last one has four rows.
pub const LEVELS: u32 = 5;
/// Bytes of a pixel: the share of the pill, and that of letters.
pub const PIXEL_BYTES: u32 = 2;
/// Height of a line of text in pixels, and the space to the left and to the right of it.
const LINE_HEIGHT: f32 = 46.0;
const MARGIN: f32 = 24.0;
/// Characters of a name that are drawn. The narrowest letters fill less than half of the width.
const MAX_CHARACTERS: usize = 64;

/// A tag's picture.
pub struct TagPicture {
    /// Columns of the first level that the tag takes.
    pub width: u32,
    /// The levels, the largest first.
    pub levels: Vec<Vec<u8>>,
}

/// Draws names.
pub struct Lettering {
    font: FontRef<'static>,
}

impl Lettering {
    pub fn new() -> Self {
        Self { font: FontRef::try_from_slice(dejavu::sans::regular()).expect("the crate has a font") }
    }

    /// Draws a name. A name that is too long for the picture has smaller letters.
    pub fn draw(&self, name: &str) -> TagPicture {
        let room = WIDTH as f32 - 2.0 * MARGIN;
        let (mut glyphs, mut length) = self.line(name, LINE_HEIGHT);
        if length > room {
            (glyphs, length) = self.line(name, LINE_HEIGHT * room / length);
        }
        let width = ((length + 2.0 * MARGIN).ceil() as u32).min(WIDTH);
        let mut picture = vec![0; (WIDTH * HEIGHT * PIXEL_BYTES) as usize];
        for (index, pixel) in picture.chunks_exact_mut(PIXEL_BYTES as usize).enumerate() {
            let (x, y) = (index as u32 % WIDTH, index as u32 / WIDTH);
            pixel[0] = share(pill(x as f32 + 0.5, y as f32 + 0.5, width as f32));
        }
        for outlined in glyphs.into_iter().filter_map(|glyph| self.font.outline_glyph(glyph)) {
            let corner = outlined.px_bounds().min;
            outlined.draw(|x, y, covered| {
                let (x, y) = (corner.x as i64 + i64::from(x), corner.y as i64 + i64::from(y));
                if (0..i64::from(WIDTH)).contains(&x) && (0..i64::from(HEIGHT)).contains(&y) {
                    let at = ((y as u32 * WIDTH + x as u32) * PIXEL_BYTES + 1) as usize;
                    picture[at] = picture[at].max(share(covered));
                }
            });
        }
        let mut levels = vec![picture];
        for level in 1..LEVELS {
            let half = halved(&levels[level as usize - 1], WIDTH >> (level - 1));
            levels.push(half);
        }
        TagPicture { width, levels }
    }

    /// Returns the glyphs of a line, from the margin on, and its length.
    fn line(&self, name: &str, height: f32) -> (Vec<Glyph>, f32) {
        let scale = PxScale::from(height);
        let font = self.font.as_scaled(scale);
        let baseline = (HEIGHT as f32 + font.ascent() + font.descent()) / 2.0;
        let (mut x, mut previous, mut glyphs) = (0.0, None, Vec::new());
        for character in name.chars().take(MAX_CHARACTERS) {
            let id = font.glyph_id(character);
            x += previous.map_or(0.0, |previous| font.kern(previous, id));
            glyphs.push(id.with_scale_and_position(scale, point(MARGIN + x, baseline)));
            x += font.h_advance(id);
            previous = Some(id);
        }
        (glyphs, x)
    }
}

/// Returns the share of a pixel that a pill of this width covers.
fn pill(x: f32, y: f32, width: f32) -> f32 {
    let radius = HEIGHT as f32 / 2.0;
    let beyond = (x - x.clamp(radius, (width - radius).max(radius))).hypot(y - radius);
    (radius - beyond + 0.5).clamp(0.0, 1.0)
}

fn share(covered: f32) -> u8 {
    (covered * 255.0).round() as u8
}

/// Returns a picture of half the width and height, whose pixels are the means of four.
fn halved(picture: &[u8], width: u32) -> Vec<u8> {
    let stride = (width * PIXEL_BYTES) as usize;
    let pixel = PIXEL_BYTES as usize;
    let mut half = Vec::with_capacity(picture.len() / 4);
    for rows in picture.chunks_exact(2 * stride) {
        let (upper, lower) = rows.split_at(stride);
        for at in (0..stride).step_by(2 * pixel) {
            for channel in at..at + pixel {
                let sum = [upper[channel], upper[channel + pixel], lower[channel], lower[channel + pixel]];
                half.push((sum.map(u16::from).iter().sum::<u16>() / 4) as u8);
            }
        }
    }
    half
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(picture: &TagPicture) -> Vec<u8> {
        picture.levels[0].chunks_exact(2).map(|pixel| pixel[1]).collect()
    }

    #[test]
    fn names_of_any_length_and_script_fit_on_their_pills() {
        let lettering = Lettering::new();
        let long = "W".repeat(32);
        let names = ["", "A", "Ada (2)", "Ζωή", "Анна", "שרה", "李", "🐧", "\u{10ffff}", long.as_str()];
        for name in names {
            let picture = lettering.draw(name);
            assert!((2 * MARGIN as u32..=WIDTH).contains(&picture.width), "{name} takes {}", picture.width);
            for (level, bytes) in picture.levels.iter().enumerate() {
                assert_eq!(bytes.len(), ((WIDTH * HEIGHT * PIXEL_BYTES) >> (2 * level)) as usize);
            }
            let drawn = letters(&picture);
            let inked = drawn.iter().filter(|share| **share > 128).count();
            assert_eq!(inked > 0, !name.is_empty(), "{name} has {inked} pixels");
            let outside = |at: usize| at as u32 % WIDTH >= picture.width;
            assert!(
                !drawn.iter().enumerate().any(|(at, share)| outside(at) && *share > 0),
                "{name} is wider than its pill"
            );
        }
    }

    #[test]
    fn what_the_font_lacks_is_a_box() {
        let lettering = Lettering::new();
        let boxed = letters(&lettering.draw("李"));
        assert_eq!(boxed, letters(&lettering.draw("漢")));
        assert_ne!(boxed, letters(&lettering.draw("A")));
    }
}
