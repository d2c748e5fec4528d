//! A picture in plain memory, for sources that do not draw on an adapter.

use nearlight_wire::marker::{CELL_PIXELS, COLUMNS, HEIGHT, Marker, WIDTH};

use crate::{PixelFormat, Pixels, SceneError};

/// Longest side of such a picture, in pixels: 8K.
const MAX_SIDE: u16 = 8192;

/// An RGBA picture without padding between rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Canvas {
    pub width: u16,
    pub height: u16,
    pub bytes: Vec<u8>,
}

/// Draws `marker` into the top left corner of a picture of four bytes a pixel.
///
/// Pictures smaller than the marker are left as they are.
pub fn marker_draw(marker: Marker, bytes: &mut [u8], stride: usize) {
    if stride < WIDTH * 4 || bytes.len() < (HEIGHT - 1) * stride + WIDTH * 4 {
        return;
    }
    let cells = marker.cells();
    for (y, row) in bytes.chunks_mut(stride).take(HEIGHT).enumerate() {
        for (x, pixel) in row[..WIDTH * 4].chunks_exact_mut(4).enumerate() {
            let white = cells[y / CELL_PIXELS * COLUMNS + x / CELL_PIXELS];
            pixel.copy_from_slice(&if white { [255; 4] } else { [0, 0, 0, 255] });
        }
    }
}

/// Refuses sizes that no encoder takes or that have no room for the marker.
pub fn check_size(width: u16, height: u16) -> Result<(), SceneError> {
    let refused = |reason: String| Err(SceneError::Size { width, height, reason });
    if !width.is_multiple_of(2) || !height.is_multiple_of(2) {
        return refused("both sides must be even, as video codecs halve the colour".into());
    }
    if usize::from(width) < WIDTH || usize::from(height) < HEIGHT {
        return refused(format!("the marker alone takes {WIDTH}x{HEIGHT}"));
    }
    if width.max(height) > MAX_SIDE {
        return refused(format!("the longest side may have {MAX_SIDE} pixels"));
    }
    Ok(())
}

impl Canvas {
    pub fn new(width: u16, height: u16) -> Self {
        Self { width, height, bytes: vec![255; usize::from(width) * usize::from(height) * 4] }
    }

    /// Becomes the same picture, in the memory that it has.
    pub fn copy_from(&mut self, other: &Self) {
        (self.width, self.height) = (other.width, other.height);
        self.bytes.clone_from(&other.bytes);
    }

    pub fn stride(&self) -> usize {
        usize::from(self.width) * 4
    }

    pub fn pixels(&self) -> Pixels<'_> {
        Pixels {
            bytes: &self.bytes,
            format: PixelFormat::Rgba,
            width: self.width,
            height: self.height,
            stride: self.stride(),
        }
    }

    /// Fills a rectangle, cut to the picture.
    pub fn fill(&mut self, (left, top): (usize, usize), (width, height): (usize, usize), colour: [u8; 3]) {
        let stride = self.stride();
        let right = (left + width).min(usize::from(self.width));
        let bottom = (top + height).min(usize::from(self.height));
        for y in top..bottom {
            for pixel in self.bytes[y * stride + left.min(right) * 4..y * stride + right * 4].chunks_exact_mut(4) {
                pixel[..3].copy_from_slice(&colour);
            }
        }
    }

    /// Writes `copies` of `from` side by side over the whole picture, each pixel from its nearest.
    pub fn tile(&mut self, from: &Self, copies: usize) {
        let share = usize::from(self.width) / copies.max(1);
        let columns: Vec<usize> = (0..usize::from(self.width))
            .map(|x| x % share.max(1) * usize::from(from.width) / share.max(1) * 4)
            .collect();
        let (stride, height) = (self.stride(), usize::from(self.height));
        for (y, row) in self.bytes.chunks_exact_mut(stride).enumerate() {
            let source = &from.bytes[y * usize::from(from.height) / height * from.stride()..][..from.stride()];
            for (pixel, column) in row.chunks_exact_mut(4).zip(&columns) {
                pixel.copy_from_slice(&source[*column..*column + 4]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::{FrameId, InputSeq};

    use super::*;

    #[test]
    fn marker_reads_back_from_memory() {
        let marker = Marker { frame: FrameId(77), input: InputSeq(3) };
        let mut canvas = Canvas::new(200, 40);
        let stride = canvas.stride();
        marker_draw(marker, &mut canvas.bytes, stride);
        assert_eq!(Marker::read(|x, y| canvas.bytes[y * stride + x * 4 + 1]), Some(marker));
        let mut small = Canvas::new(10, 10);
        let before = small.clone();
        marker_draw(marker, &mut small.bytes, 40);
        assert_eq!(small, before);
    }

    #[test]
    fn odd_and_absurd_sizes_are_refused() {
        for (width, height, fine) in
            [(1280, 720, true), (1279, 720, false), (640, 359, false), (64, 64, false), (10_000, 720, false)]
        {
            assert_eq!(check_size(width, height).is_ok(), fine, "{width}x{height}");
        }
    }
}
