//! The pointer on a display without a window system. The display hardware draws it above the picture.

use std::sync::Arc;

use drm::Device as _;
use drm::DriverCapability;
use drm::buffer::DrmFourcc;
use drm::control::Device as _;
use drm::control::dumbbuffer::DumbBuffer;
use nearlight_wire::CursorShape;

use super::output::Output;

/// The default arrow: `X` is black, `.` is white. The first pixel is its tip.
const ARROW: [&str; 17] = [
    "X",
    "XX",
    "X.X",
    "X..X",
    "X...X",
    "X....X",
    "X.....X",
    "X......X",
    "X.......X",
    "X........X",
    "X.....XXXXX",
    "X..X..X",
    "X.X X..X",
    "XX  X..X",
    "X    X..X",
    "     X..X",
    "      XX",
];

/// A cursor image in rows of `width` pixels: blue, green and red, premultiplied by the opacity, and the opacity.
struct CursorImage {
    width: usize,
    pixels: Vec<[u8; 4]>,
    /// Column and row of the pixel that points.
    hotspot: [i32; 2],
}

impl CursorImage {
    /// Returns the image of a shape; `None` if the pointer is hidden.
    fn from_shape(shape: &CursorShape) -> Option<Self> {
        match shape {
            CursorShape::Named(name) if name == "none" => None,
            CursorShape::Named(_) => Some(Self::arrow()),
            CursorShape::Image { width, hotspot: [column, row], rgba, .. } => {
                let pixels = rgba.0.as_chunks().0.iter().map(|[red, green, blue, opacity]| {
                    let part = |colour: &u8| (u16::from(*colour) * u16::from(*opacity) / 255) as u8;
                    [part(blue), part(green), part(red), *opacity]
                });
                let hotspot = [(*column).into(), (*row).into()];
                Some(Self { width: usize::from((*width).max(1)), pixels: pixels.collect(), hotspot })
            }
        }
    }

    fn arrow() -> Self {
        let width = ARROW.iter().map(|row| row.len()).max().unwrap_or(1);
        let pixel = |row: &str, column: usize| match row.as_bytes().get(column) {
            Some(b'X') => [0, 0, 0, 255],
            Some(b'.') => [255; 4],
            _ => [0; 4],
        };
        let pixels = ARROW.iter().flat_map(|row| (0..width).map(move |column| pixel(row, column)));
        Self { width, pixels: pixels.collect(), hotspot: [0, 0] }
    }

    /// Draws into a buffer of `side` rows and columns. The image is cropped if it is larger.
    fn draw(&self, bytes: &mut [u8], pitch: usize, side: usize) {
        bytes.fill(0);
        for (row, pixels) in bytes.chunks_exact_mut(pitch).take(side).zip(self.pixels.chunks(self.width)) {
            for (to, pixel) in row.chunks_exact_mut(4).take(side).zip(pixels) {
                to.copy_from_slice(pixel);
            }
        }
    }
}

/// The display's pointer.
pub struct Cursor {
    output: Arc<Output>,
    /// `None` if the display has no hardware pointer, or it failed.
    buffer: Option<DumbBuffer>,
    side: u32,
    hotspot: [i32; 2],
    at: [i32; 2],
}

impl Cursor {
    pub fn new(output: Arc<Output>) -> Self {
        // Drivers that do not report a size have pointers of 64 pixels.
        let side = output.card().get_driver_capability(DriverCapability::CursorWidth).ok().filter(|side| *side > 0);
        let side = side.and_then(|side| u32::try_from(side).ok()).unwrap_or(64);
        let buffer = output.card().create_dumb_buffer((side, side), DrmFourcc::Argb8888, 32).ok();
        Self { output, buffer, side, hotspot: [0, 0], at: [0, 0] }
    }

    /// Shows this shape; `None` hides the pointer.
    pub fn set_shape(&mut self, shape: Option<&CursorShape>) {
        let image = shape.and_then(CursorImage::from_shape);
        if let Err(error) = self.show(image.as_ref()) {
            tracing::warn!(%error, "this display cannot show a pointer; the mouse works without");
            self.buffer = None;
        }
    }

    #[expect(
        deprecated,
        reason = "the legacy calls move the pointer between two frames, and every driver supports them"
    )]
    fn show(&mut self, image: Option<&CursorImage>) -> std::io::Result<()> {
        let (card, crtc) = (self.output.card(), self.output.crtc());
        let Some(buffer) = &mut self.buffer else { return Ok(()) };
        let Some(image) = image else { return card.set_cursor(crtc, None::<&DumbBuffer>) };
        let pitch = drm::buffer::Buffer::pitch(buffer) as usize;
        image.draw(&mut card.map_dumb_buffer(buffer)?, pitch, self.side as usize);
        self.hotspot = image.hotspot;
        let [column, row] = image.hotspot;
        card.set_cursor2(crtc, Some(&*buffer), (column, row)).or_else(|_| card.set_cursor(crtc, Some(&*buffer)))?;
        self.set_position(self.at);
        Ok(())
    }

    /// Moves the pointer's hotspot to this pixel of the display.
    #[expect(
        deprecated,
        reason = "the legacy calls move the pointer between two frames, and every driver supports them"
    )]
    pub fn set_position(&mut self, at: [i32; 2]) {
        self.at = at;
        if self.buffer.is_some() {
            let [left, top] = [at[0] - self.hotspot[0], at[1] - self.hotspot[1]];
            let _ = self.output.card().move_cursor(self.output.crtc(), (left, top));
        }
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        let _ = self.show(None);
        if let Some(buffer) = self.buffer.take() {
            let _ = self.output.card().destroy_dumb_buffer(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use nearlight_wire::Base64;

    use super::*;

    fn drawn(shape: &CursorShape) -> Vec<u8> {
        let mut bytes = vec![1; 64 * 4 * 64];
        CursorImage::from_shape(shape).expect("a shape").draw(&mut bytes, 64 * 4, 64);
        bytes
    }

    #[test]
    fn names_are_an_arrow_and_none_is_nothing() {
        assert!(CursorImage::from_shape(&CursorShape::Named("none".into())).is_none());
        let arrow = drawn(&CursorShape::Named("text".into()));
        assert_eq!((&arrow[..4], &arrow[4..8]), (&[0, 0, 0, 255][..], &[0; 4][..]));
        assert_eq!(arrow[2 * 256 + 4..2 * 256 + 8], [255; 4]);
    }

    #[test]
    fn images_are_multiplied_by_their_opacity_and_cut_off() {
        let rgba = Base64([255, 0, 100, 128].repeat(2 * 80));
        let image = drawn(&CursorShape::Image { width: 2, height: 80, hotspot: [1, 1], rgba });
        assert_eq!(image[..12], [50, 0, 128, 128, 50, 0, 128, 128, 0, 0, 0, 0]);
        assert_eq!(image[63 * 256..63 * 256 + 4], [50, 0, 128, 128]);
    }
}
