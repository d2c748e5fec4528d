//! A picture in plain memory, for sources that do not draw on an adapter.

use crate::{PixelFormat, Pixels, SceneError};

/// Longest side in pixels: 8K.
const MAX_SIDE: u16 = 8192;
/// Shortest side in pixels: a macroblock, the unit of video codecs.
const MIN_SIDE: u16 = 16;

/// An RGBA picture without padding between rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Canvas {
    pub width: u16,
    pub height: u16,
    pub bytes: Vec<u8>,
}

/// Rejects sizes that no encoder accepts.
pub fn check_size(width: u16, height: u16) -> Result<(), SceneError> {
    let refused = |reason: String| Err(SceneError::Size { width, height, reason });
    if !width.is_multiple_of(2) || !height.is_multiple_of(2) {
        return refused("both sides must be even, as video codecs halve the colour".into());
    }
    if width.min(height) < MIN_SIDE {
        return refused(format!("each side must have {MIN_SIDE} pixels at least, which video codecs code as one"));
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

    /// Copies the other picture, reusing the memory.
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

    /// Fills the picture with `copies` of `from` side by side, scaled by nearest neighbour.
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
    use super::*;

    #[test]
    fn odd_and_absurd_sizes_are_refused() {
        for (width, height, fine) in [
            (1280, 720, true),
            (16, 16, true),
            (1279, 720, false),
            (640, 359, false),
            (64, 14, false),
            (10_000, 720, false),
        ] {
            assert_eq!(check_size(width, height).is_ok(), fine, "{width}x{height}");
        }
    }
}
