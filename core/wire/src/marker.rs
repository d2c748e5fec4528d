//! The marker: frame id and input sequence as black and white cells in rows of their own below the picture. It passes through encoder,
//! network and decoder with the picture without being visible, so that latency is measured on pixels.
//!
//! It has eighty bits, most significant first, white = 1: the frame id, the input sequence (32 bits each) and a CRC-16 over both. A
//! [`Strip`] defines the positions of their cells.

use nearlight_units::{FrameId, InputSeq};

/// Number of cells of a marker, one for each bit.
pub const CELLS: usize = 80;
/// Side of a cell in pixels. A transform block of H.264 and VP8 is 4 or 8, so no block straddles two cells.
pub const CELL_PIXELS: usize = 8;
/// Minimum width in pixels of a picture with a marker: at this width it takes four rows of cells, and more would cost too much of so
/// small a picture. Guess.
pub const MIN_WIDTH: u16 = 160;

/// The content of the marker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marker {
    pub frame: FrameId,
    pub input: InputSeq,
}

/// The cells in the order of the bits, true for white.
pub type Cells = [bool; CELLS];

/// The rows below a picture that contain its marker: square cells from the left, row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strip {
    columns: usize,
}

impl Strip {
    /// The strip of pictures of this width in pixels. None below [`MIN_WIDTH`].
    #[must_use]
    pub fn of_width(width: u16) -> Option<Self> {
        let columns = (usize::from(width) / CELL_PIXELS).min(CELLS);
        (width >= MIN_WIDTH).then_some(Self { columns })
    }

    /// The strip below a picture, given its size and the decoded size, both width and height in pixels. None unless the decoded size is
    /// that of the picture and a strip.
    #[must_use]
    pub fn below((width, height): (u16, u16), decoded: (u16, u16)) -> Option<Self> {
        let strip = Self::of_width(width)?;
        (decoded.0 == width && height.checked_add(strip.height()) == Some(decoded.1)).then_some(strip)
    }

    /// Width in pixels of the part with cells, at most the width of the picture.
    #[must_use]
    pub const fn width(self) -> u16 {
        (self.columns * CELL_PIXELS) as u16
    }

    /// Number of rows of pixels: 8 below pictures of 640 pixels and wider, at most 32.
    #[must_use]
    pub const fn height(self) -> u16 {
        (CELLS.div_ceil(self.columns) * CELL_PIXELS) as u16
    }

    /// The cell that contains a pixel of the strip, counted from the strip's upper left corner. None outside of the cells.
    #[must_use]
    pub const fn cell_at(self, x: usize, y: usize) -> Option<usize> {
        let (column, row) = (x / CELL_PIXELS, y / CELL_PIXELS);
        let cell = row * self.columns + column;
        if column < self.columns && cell < CELLS { Some(cell) } else { None }
    }
}

impl Marker {
    #[must_use]
    pub fn cells(self) -> Cells {
        let mut bytes = [0; CELLS / 8];
        bytes[..4].copy_from_slice(&self.frame.0.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.input.0.to_be_bytes());
        let check = crc16(&bytes[..8]);
        bytes[8..].copy_from_slice(&check.to_be_bytes());
        std::array::from_fn(|cell| bytes[cell / 8] >> (7 - cell % 8) & 1 == 1)
    }

    /// Decodes a marker. None if the cells contain no marker or a damaged one.
    #[must_use]
    pub fn from_cells(cells: &Cells) -> Option<Self> {
        let mut bytes = [0u8; CELLS / 8];
        for (cell, white) in cells.iter().enumerate() {
            bytes[cell / 8] |= u8::from(*white) << (7 - cell % 8);
        }
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let intact = u16::from_be_bytes([bytes[8], bytes[9]]) == crc16(&bytes[..8]);
        intact.then(|| Self { frame: FrameId(word(0)), input: InputSeq(word(4)) })
    }

    /// Reads the marker of a strip through `luma(x, y)`, 0 to 255, which is called for pixels within the strip's width and height.
    ///
    /// The middle four pixels of a cell vote, and each cell is compared with the middle of the range that the marker spans, so
    /// that blur, ringing and a changed brightness do no harm.
    pub fn read(strip: Strip, luma: impl Fn(usize, usize) -> u8) -> Option<Self> {
        let levels: [u16; CELLS] = std::array::from_fn(|cell| {
            let x = cell % strip.columns * CELL_PIXELS + CELL_PIXELS / 2;
            let y = cell / strip.columns * CELL_PIXELS + CELL_PIXELS / 2;
            [(x - 1, y - 1), (x, y - 1), (x - 1, y), (x, y)].into_iter().map(|(x, y)| u16::from(luma(x, y))).sum()
        });
        let (darkest, brightest) = (levels.iter().min()?, levels.iter().max()?);
        // Four pixels of at least 16 levels' difference: less is a flat picture, not a marker.
        if brightest - darkest < 64 {
            return None;
        }
        let threshold = (darkest + brightest) / 2;
        Self::from_cells(&levels.map(|level| level > threshold))
    }
}

/// CRC-16/IBM-3740 (polynomial 0x1021, initial value 0xFFFF).
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xFFFF, |crc, byte| {
        (0..8)
            .fold(crc ^ (u16::from(*byte) << 8), |crc, _| if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_bits_are_the_standard_ones() {
        // The check value that the CRC catalogue gives for "123456789".
        assert_eq!(crc16(b"123456789"), 0x29B1);
    }

    #[test]
    fn strips_hold_every_cell_once_within_the_picture_s_width() {
        for (width, wanted) in [
            (158, None),
            (160, Some((160, 32))),
            (254, Some((248, 24))),
            (256, Some((256, 24))),
            (318, Some((312, 24))),
            (320, Some((320, 16))),
            (638, Some((632, 16))),
            (640, Some((640, 8))),
            (1_280, Some((640, 8))),
            (u16::MAX, Some((640, 8))),
        ] {
            let strip = Strip::of_width(width);
            assert_eq!(strip.map(|strip| (strip.width(), strip.height())), wanted, "{width}");
            let Some(strip) = strip else { continue };
            let mut pixels = [0; CELLS];
            for y in 0..usize::from(strip.height()) {
                for cell in (0..usize::from(width)).filter_map(|x| strip.cell_at(x, y)) {
                    pixels[cell] += 1;
                }
            }
            assert_eq!(pixels, [CELL_PIXELS * CELL_PIXELS; CELLS], "{width}");
        }
    }

    #[test]
    fn a_strip_is_known_by_the_decoded_size_alone() {
        let below = |width, height, decoded| Strip::below((width, height), decoded).is_some();
        assert!(below(640, 360, (640, 368)) && below(320, 180, (320, 196)) && below(160, 90, (160, 122)));
        for decoded in [(640, 360), (640, 366), (640, 376), (1_280, 368), (0, 0)] {
            assert!(!below(640, 360, decoded), "{decoded:?}");
        }
        assert!(!below(64, 64, (64, 72)) && !below(640, u16::MAX, (640, 7)), "too narrow, too high");
    }

    #[test]
    fn marker_survives_blur_and_brightness_at_every_width() {
        let marker = Marker { frame: FrameId(0x0102_0304), input: InputSeq(77) };
        let cells = marker.cells();
        for strip in [160, 200, 320, 500, 640, 1_920].map(|width| Strip::of_width(width).expect("wide enough")) {
            let sharp = |x, y| if strip.cell_at(x, y).is_some_and(|cell| cells[cell]) { 180u8 } else { 60 };
            let blurred = |x: usize, y: usize| {
                let (x, y) = (x.max(1), y.max(1));
                let sum: u32 = (x - 1..=x + 1).flat_map(|x| (y - 1..=y + 1).map(move |y| u32::from(sharp(x, y)))).sum();
                (sum / 9) as u8
            };
            assert_eq!(Marker::read(strip, blurred), Some(marker), "{strip:?}");
            assert_eq!(Marker::read(strip, |_, _| 128), None);
        }
    }

    #[test]
    fn one_wrong_cell_is_noticed() {
        let cells = Marker { frame: FrameId(9), input: InputSeq(4) }.cells();
        for wrong in 0..CELLS {
            let mut cells = cells;
            cells[wrong] = !cells[wrong];
            assert_eq!(Marker::from_cells(&cells), None, "{wrong}");
        }
    }
}
