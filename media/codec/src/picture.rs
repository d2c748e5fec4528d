//! Pictures and their sizes.

use std::fmt;

use crate::CodecError;

/// Longest side of a picture in pixels. It bounds the memory that a stream from the network makes a decoder allocate.
pub const MAX_SIDE: u16 = 4096;

/// Shortest side of a picture in pixels: a macroblock, the unit of both codecs.
pub const MIN_SIDE: u16 = 16;

/// Width and height in pixels, both even.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size {
    pub width: u16,
    pub height: u16,
}

impl Size {
    /// Returns the number of pixels of the luma plane.
    #[must_use]
    pub const fn pixels(self) -> usize {
        self.width as usize * self.height as usize
    }

    /// Checks that pictures of this size can be encoded.
    pub fn check(self) -> Result<(), CodecError> {
        let sides = [self.width, self.height];
        let reason = if sides.iter().any(|side| side % 2 != 0) {
            "width and height must be even"
        } else if sides.iter().any(|side| *side < MIN_SIDE) {
            "width and height must be at least 16"
        } else if sides.iter().any(|side| *side > MAX_SIDE) {
            "width and height must be at most 4096"
        } else {
            return Ok(());
        };
        Err(CodecError::Shape { size: self, reason })
    }

    /// Returns the size of the left half, or the whole size if a half could not be encoded.
    #[must_use]
    pub fn left_half(self) -> Self {
        let half = Self { width: self.width / 2, ..self };
        if half.check().is_ok() { half } else { self }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}x{}", self.width, self.height)
    }
}

/// A 4:2:0 picture in BT.709 limited range, planes without padding: `width * height`, then twice a quarter of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub size: Size,
    pub luma: Vec<u8>,
    pub blue: Vec<u8>,
    pub red: Vec<u8>,
}

impl Picture {
    /// Creates a black picture.
    #[must_use]
    pub fn new(size: Size) -> Self {
        let (luma, chroma) = (size.pixels(), size.pixels() / 4);
        Self { size, luma: vec![16; luma], blue: vec![128; chroma], red: vec![128; chroma] }
    }

    /// Resizes the planes for `size`, and allocates only if they grow.
    pub fn set_size(&mut self, size: Size) {
        self.size = size;
        self.luma.resize(size.pixels(), 16);
        self.blue.resize(size.pixels() / 4, 128);
        self.red.resize(size.pixels() / 4, 128);
    }

    /// Scales `from` to fill a picture of `size` with `copies` side by side. Each pixel is the mean of those that it covers. `from` must
    /// pass [`PictureView::check`] and `size` [`Size::check`], and its width must have room for the copies.
    pub fn fit(&mut self, from: PictureView<'_>, size: Size, copies: u8) {
        self.set_size(size);
        if from.size == size && copies <= 1 {
            from.copy_to(self);
            return;
        }
        let halves = |size: Size| (usize::from(size.width / 2), usize::from(size.height / 2));
        let whole = |size: Size| (usize::from(size.width), usize::from(size.height));
        let copies = usize::from(copies.max(1));
        let (luma, chroma) = (from.luma_stride, from.chroma_stride);
        fit_plane((from.luma, luma, whole(from.size)), (&mut self.luma, whole(size)), copies);
        fit_plane((from.blue, chroma, halves(from.size)), (&mut self.blue, halves(size)), copies);
        fit_plane((from.red, chroma, halves(from.size)), (&mut self.red, halves(size)), copies);
    }

    #[must_use]
    pub fn view(&self) -> PictureView<'_> {
        PictureView {
            size: self.size,
            luma: &self.luma,
            blue: &self.blue,
            red: &self.red,
            luma_stride: usize::from(self.size.width),
            chroma_stride: usize::from(self.size.width / 2),
        }
    }
}

/// Scales one plane. Rows are summed first, so that each pixel is read once for each row of the result to which it contributes.
fn fit_plane(
    (from, stride, (columns, rows)): (&[u8], usize, (usize, usize)),
    to: (&mut [u8], (usize, usize)),
    copies: usize,
) {
    let (to, (width, height)) = to;
    let share = (width / copies).max(1);
    // The range of pixels that each pixel of the result covers, at least one.
    let span = |place: usize, of: usize, pixels: usize| {
        let start = place * pixels / of;
        (start, ((place + 1) * pixels / of).max(start + 1))
    };
    let spans: Vec<(usize, usize)> = (0..width).map(|x| span(x % share, share, columns)).collect();
    let mut sums = vec![0_u32; columns];
    for (y, row) in to.chunks_exact_mut(width).enumerate() {
        let (first, end) = span(y, height, rows);
        sums.fill(0);
        // The last row may lack its padding.
        for source in from[first * stride..].chunks(stride).take(end - first) {
            for (sum, pixel) in sums.iter_mut().zip(&source[..columns]) {
                *sum += u32::from(*pixel);
            }
        }
        for (pixel, (left, right)) in row.iter_mut().zip(&spans) {
            let (left, right) = ((*left).min(columns - 1), (*right).min(columns));
            let count = ((right - left) * (end - first)) as u32;
            *pixel = ((sums[left..right].iter().sum::<u32>() + count / 2) / count) as u8;
        }
    }
}

/// A decoded picture, borrowed from the decoder until its next call.
#[derive(Clone, Copy, Debug)]
pub struct PictureView<'a> {
    pub size: Size,
    pub luma: &'a [u8],
    pub blue: &'a [u8],
    pub red: &'a [u8],
    /// Bytes from one row to the next of luma and of each chroma plane.
    pub luma_stride: usize,
    pub chroma_stride: usize,
}

impl PictureView<'_> {
    /// Checks that every plane holds the rows that size and strides promise.
    pub fn check(&self) -> Result<(), CodecError> {
        self.size.check()?;
        let (width, height) = (usize::from(self.size.width), usize::from(self.size.height));
        let planes = [
            ("a luma plane", self.luma.len(), self.luma_stride, width, height),
            ("a blue plane", self.blue.len(), self.chroma_stride, width / 2, height / 2),
            ("a red plane", self.red.len(), self.chroma_stride, width / 2, height / 2),
        ];
        for (what, got, stride, columns, rows) in planes {
            let needed = stride.max(columns) * (rows - 1) + columns;
            if stride < columns || got < needed {
                return Err(CodecError::Buffer { what, size: self.size, needed, got });
            }
        }
        Ok(())
    }

    /// Returns the left half, which is the left eye's picture of two side by side, or the whole picture if a half could not be encoded.
    #[must_use]
    pub fn left_half(self) -> Self {
        Self { size: self.size.left_half(), ..self }
    }

    /// Copies the planes into `picture`, dropping their padding: for callers that keep a picture beyond the decoder's next call.
    pub fn copy_to(&self, picture: &mut Picture) {
        picture.set_size(self.size);
        let copy = |from: &[u8], stride: usize, to: &mut [u8], columns: usize| {
            for (source, target) in from.chunks(stride).zip(to.chunks_exact_mut(columns)) {
                target.copy_from_slice(&source[..columns]);
            }
        };
        let width = usize::from(self.size.width);
        copy(self.luma, self.luma_stride, &mut picture.luma, width);
        copy(self.blue, self.chroma_stride, &mut picture.blue, width / 2);
        copy(self.red, self.chroma_stride, &mut picture.red, width / 2);
    }

    /// Returns luma at a pixel, 16 (black) to 235 (white).
    ///
    /// # Panics
    /// If the pixel lies outside the picture.
    #[must_use]
    pub fn luma_at(&self, x: usize, y: usize) -> u8 {
        self.luma[y * self.luma_stride + x]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_fit_other_sizes_by_the_mean_of_what_each_pixel_covers() {
        let size = |width, height| Size { width, height };
        let mut from = Picture::new(size(64, 32));
        for (index, pixel) in from.luma.iter_mut().enumerate() {
            *pixel = if index % 64 < 32 { 40 } else { 200 };
        }
        from.red.fill(90);
        let mut to = Picture::new(size(16, 16));
        to.fit(from.view(), size(32, 16), 1);
        assert_eq!((to.size, to.luma[0], to.luma[15], to.luma[16], to.luma[31]), (size(32, 16), 40, 40, 200, 200));
        assert!(to.red.iter().all(|pixel| *pixel == 90) && to.blue.iter().all(|pixel| *pixel == 128));
        // With two copies, each half of the row has both halves of the picture.
        to.fit(from.view(), size(64, 32), 2);
        assert_eq!([0, 15, 16, 31, 32, 47, 48, 63].map(|x| to.luma[64 * 9 + x]), [40, 40, 200, 200, 40, 40, 200, 200]);
        to.fit(from.view(), size(64, 32), 1);
        assert_eq!(to, from);
        // A pixel with an edge inside is the mean, and a larger picture repeats pixels.
        to.fit(from.view(), size(96, 48), 1);
        assert_eq!((to.luma[0], to.luma[95]), (40, 200));
        from.luma[0] = 80;
        to.fit(from.view(), size(32, 16), 1);
        assert_eq!(to.luma[0], 50);
        // The left eye's half, scaled down and unscaled.
        let left = from.view().left_half();
        assert!(left.check().is_ok());
        to.fit(left, size(16, 16), 1);
        assert_eq!((to.luma[0], to.luma[1], to.luma[15], to.red[0]), (50, 40, 40, 90));
        to.fit(left, size(32, 32), 1);
        assert_eq!((to.size, to.luma[0], to.luma[31], to.luma[32]), (size(32, 32), 80, 40, 40));
        assert_eq!(Picture::new(size(16, 16)).view().left_half().size, size(16, 16), "a half could not be coded");
    }
}
