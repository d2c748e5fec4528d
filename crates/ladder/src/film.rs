//! What is streamed: pictures like a game's, made before anything is measured.

use nearlight_codec::{Picture, PictureView, Size, convert};
use nearlight_lab::game;

/// Pictures, played forwards and backwards in turn. As many as two processes can hold at 1080p.
const PICTURES: usize = 24;

#[derive(Debug)]
pub(crate) struct Film {
    pub(crate) size: Size,
    /// In the encoder's format.
    planes: Vec<Picture>,
    /// As a window of X holds them: blue, green, red and a byte of padding.
    pixels: Vec<Vec<u8>>,
}

impl Film {
    /// `pixels`: also as a window holds them; it takes 33 MB for each million pixels.
    pub(crate) fn new(size: Size, with_pixels: bool) -> Self {
        let planes: Vec<Picture> = (0..PICTURES as u32).map(|moment| game::picture(size, moment)).collect();
        let pixels = |picture: &Picture| {
            let mut pixels = vec![0; size.pixels() * 4];
            let stride = usize::from(size.width) * 4;
            // The sizes are equal, so nothing can be refused.
            let _ = convert::to_pixels(picture.view(), convert::PixelOrder::Bgra, &mut pixels, stride);
            pixels
        };
        let pixels = if with_pixels { planes.iter().map(pixels).collect() } else { Vec::new() };
        Self { size, planes, pixels }
    }

    /// Which picture is shown as the one with this number.
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
    fn the_film_never_jumps() {
        let places: Vec<_> = (0..200).map(Film::place).collect();
        assert!(places.windows(2).all(|pair| pair[0].abs_diff(pair[1]) == 1), "{places:?}");
        assert_eq!(places.iter().max(), Some(&(PICTURES - 1)));
    }
}
