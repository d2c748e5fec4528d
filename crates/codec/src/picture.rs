//! Pictures and their sizes.

use std::fmt;

use crate::CodecError;

/// Longest side of a picture that is encoded or decoded: bounds what a stranger's stream makes a decoder allocate.
pub const LARGEST_SIDE: u16 = 4096;

/// Shortest side: a macroblock, the unit of both codecs.
const SMALLEST_SIDE: u16 = 16;

/// Width and height in pixels, both even.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size {
    pub width: u16,
    pub height: u16,
}

impl Size {
    /// Pixels of the luma plane.
    #[must_use]
    pub const fn pixels(self) -> usize {
        self.width as usize * self.height as usize
    }

    /// Whether pictures of this size can be coded at all.
    pub fn check(self) -> Result<(), CodecError> {
        let sides = [self.width, self.height];
        let reason = if sides.iter().any(|side| side % 2 != 0) {
            "width and height must be even"
        } else if sides.iter().any(|side| *side < SMALLEST_SIDE) {
            "width and height must be at least 16"
        } else if sides.iter().any(|side| *side > LARGEST_SIDE) {
            "width and height must be at most 4096"
        } else {
            return Ok(());
        };
        Err(CodecError::Shape { size: self, reason })
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
    /// A black picture.
    #[must_use]
    pub fn new(size: Size) -> Self {
        let (luma, chroma) = (size.pixels(), size.pixels() / 4);
        Self { size, luma: vec![16; luma], blue: vec![128; chroma], red: vec![128; chroma] }
    }

    /// Gives the planes the lengths that `size` asks for; allocates only where they grow.
    pub fn set_size(&mut self, size: Size) {
        self.size = size;
        self.luma.resize(size.pixels(), 16);
        self.blue.resize(size.pixels() / 4, 128);
        self.red.resize(size.pixels() / 4, 128);
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
    /// Whether every plane holds the rows that size and strides promise.
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

    /// Copies the planes into `picture`, dropping their padding: for those who keep a picture beyond the decoder's next call.
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

    /// Luma at a pixel, 16 (black) to 235 (white).
    ///
    /// # Panics
    /// Outside the picture.
    #[must_use]
    pub fn luma_at(&self, x: usize, y: usize) -> u8 {
        self.luma[y * self.luma_stride + x]
    }
}
