//! The latency marker in rows below a picture: written before encoding, read and cropped after decoding.

use nearlight_wire::marker::{Marker, Strip};

use crate::{Picture, PictureView, Size};

/// Luma of black and white in limited range, and neutral chroma.
const BLACK: u8 = 16;
const WHITE: u8 = 235;
const GREY: u8 = 128;

impl Size {
    /// Returns the encoded size of a picture of this size with `strip` below it.
    #[must_use]
    pub fn with_strip(self, strip: Option<Strip>) -> Self {
        let height = self.height.saturating_add(strip.map_or(0, Strip::height));
        Self { height, ..self }
    }
}

impl Picture {
    /// Extends the picture by the rows of `strip`, which must have the picture's width, and draws the marker there. No other pixel changes.
    pub fn add_marker(&mut self, strip: Strip, marker: Marker) {
        let (luma, chroma) = (self.size.pixels(), self.size.pixels() / 4);
        self.set_size(self.size.with_strip(Some(strip)));
        let cells = marker.cells();
        for (y, row) in self.luma[luma..].chunks_exact_mut(usize::from(self.size.width)).enumerate() {
            for (x, pixel) in row.iter_mut().enumerate() {
                *pixel = if strip.cell_at(x, y).is_some_and(|cell| cells[cell]) { WHITE } else { BLACK };
            }
        }
        self.blue[chroma..].fill(GREY);
        self.red[chroma..].fill(GREY);
    }
}

impl PictureView<'_> {
    /// Returns the topmost rows, or all rows if there are no more.
    #[must_use]
    pub fn top(self, height: u16) -> Self {
        Self { size: Size { height: self.size.height.min(height), ..self.size }, ..self }
    }

    /// Returns the picture of `size` without the strip that may lie below it, and the marker that was read from the strip.
    ///
    /// A picture of any other size is returned unchanged.
    #[must_use]
    pub fn without_strip(self, size: Size) -> (Self, Option<Marker>) {
        let sides = |size: Size| (size.width, size.height);
        let Some(strip) = Strip::below(sides(size), sides(self.size)) else { return (self, None) };
        let marker = Marker::read(strip, |x, y| self.luma_at(x, y + usize::from(size.height)));
        (self.top(size.height), marker)
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::{FrameId, InputSeq};

    use super::*;
    use crate::sample;

    #[test]
    fn a_marker_is_added_and_cut_off_and_the_picture_is_as_it_was() {
        for (width, height) in [(1280, 720), (640, 360), (320, 180), (162, 90)] {
            let size = Size { width, height };
            let (first, second) = (sample::moving_picture(size, 1), sample::moving_picture(size, 2));
            let strip = Strip::of_width(width).expect("wide enough");
            let mut marked = Picture::new(size);
            // The memory of one frame is reused by the next.
            for (frame, picture) in [(7, &first), (8, &second)] {
                let marker = Marker { frame: FrameId(frame), input: InputSeq(3) };
                marked.fit(picture.view(), size, 1);
                marked.add_marker(strip, marker);
                assert_eq!(marked.size, size.with_strip(Some(strip)));
                assert!(marked.view().check().is_ok() && marked.blue.len() == marked.size.pixels() / 4);
                let (cut, read) = marked.view().without_strip(size);
                assert_eq!(read, Some(marker), "{size}");
                let mut copy = Picture::new(size);
                cut.copy_to(&mut copy);
                assert!(copy == *picture, "{size}");
            }
        }
    }

    #[test]
    fn what_is_no_picture_with_a_strip_is_left_as_it_is() {
        let picture = sample::moving_picture(Size { width: 640, height: 368 }, 0);
        let is_whole = |width, height| {
            let (cut, marker) = picture.view().without_strip(Size { width, height });
            cut.size == picture.size && marker.is_none()
        };
        assert!(is_whole(640, 368) && is_whole(640, 200) && is_whole(320, 360) && is_whole(640, 400));
        assert!(!is_whole(640, 360));
    }
}
