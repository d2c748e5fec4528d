//! The test pictures: like a game's, and made before anything is measured.

use nearlight_codec::{Picture, PictureView, Size, convert};
use nearlight_lab::game;

/// Pictures, played forwards and backwards in turn. As many as two processes can hold at 1080p.
const PICTURES: usize = 24;

#[derive(Debug)]
pub(crate) struct TestPictures {
    pub(crate) size: Size,
    /// Pictures in the encoder's format.
    planes: Vec<Picture>,
    /// Pictures in the format of an X window: blue, green, red and a byte of padding.
    pixels: Vec<Vec<u8>>,
}

impl TestPictures {
    /// `pixels`: also as a window holds them; it takes 33 MB for each million pixels.
    pub(crate) fn new(size: Size, with_pixels: bool) -> Self {
        let planes: Vec<Picture> = (0..PICTURES as u32).map(|moment| game::picture(size, moment)).collect();
        let pixels = |picture: &Picture| {
            let mut pixels = vec![0; size.pixels() * 4];
            let stride = usize::from(size.width) * 4;
            // The sizes are equal, so the conversion cannot fail.
            let _ = convert::to_pixels(picture.view(), convert::PixelOrder::Bgra, &mut pixels, stride);
            pixels
        };
        let pixels = if with_pixels { planes.iter().map(pixels).collect() } else { Vec::new() };
        Self { size, planes, pixels }
    }

    /// Returns the index of the picture that is shown as number `number`.
    fn place(number: u32) -> usize {
        let round = 2 * PICTURES - 2;
        let phase = number as usize % round;
        if phase < PICTURES { phase } else { round - phase }
    }

    pub(crate) fn planes(&self, number: u32) -> &Picture {
        &self.planes[Self::place(number)]
    }

    pub(crate) fn view(&self, number: u32) -> PictureView<'_> {
        self.planes(number).view()
    }

    pub(crate) fn pixels(&self, number: u32) -> &[u8] {
        &self.pixels[Self::place(number)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_motion_never_jumps() {
        let places: Vec<_> = (0..200).map(TestPictures::place).collect();
        assert!(places.windows(2).all(|pair| pair[0].abs_diff(pair[1]) == 1), "{places:?}");
        assert_eq!(places.iter().max(), Some(&(PICTURES - 1)));
    }
}
