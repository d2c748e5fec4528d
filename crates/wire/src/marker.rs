//! The marker: frame id and input sequence as black and white cells in the picture itself, so that latency is measured on
//! pixels that went through renderer, encoder, network, decoder and display.
//!
//! Twelve rows of eight bits as 24 columns by 4 rows of square cells in the picture's top left corner: a fixed pattern of 16
//! bits, the frame id, the input sequence (32 bits each) and a CRC-16 over both, most significant bit first, white = 1.

use nearlight_units::{FrameId, InputSeq};

/// Cells in a row.
pub const COLUMNS: usize = 24;
/// Rows of cells.
pub const ROWS: usize = 4;
/// Side of a cell in pixels: a transform block of H.264 and VP8 is 4 or 8, so no block straddles two cells.
pub const CELL_PIXELS: usize = 8;
/// Size of the marker in pixels.
pub const WIDTH: usize = COLUMNS * CELL_PIXELS;
pub const HEIGHT: usize = ROWS * CELL_PIXELS;

/// Rejects most pictures without a marker before the check bits have to; no frame id starts like it.
const PATTERN: u16 = 0xA53C;

/// What the marker says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marker {
    pub frame: FrameId,
    pub input: InputSeq,
}

/// A cell per entry, row by row, true for white.
pub type Cells = [bool; COLUMNS * ROWS];

impl Marker {
    #[must_use]
    pub fn cells(self) -> Cells {
        let mut bytes = [0; 12];
        bytes[..2].copy_from_slice(&PATTERN.to_be_bytes());
        bytes[2..6].copy_from_slice(&self.frame.0.to_be_bytes());
        bytes[6..10].copy_from_slice(&self.input.0.to_be_bytes());
        let check = crc16(&bytes[2..10]);
        bytes[10..].copy_from_slice(&check.to_be_bytes());
        std::array::from_fn(|cell| bytes[cell / 8] >> (7 - cell % 8) & 1 == 1)
    }

    /// Reads a marker back; none where the cells carry no marker or a damaged one.
    #[must_use]
    pub fn from_cells(cells: &Cells) -> Option<Self> {
        let mut bytes = [0u8; 12];
        for (cell, white) in cells.iter().enumerate() {
            bytes[cell / 8] |= u8::from(*white) << (7 - cell % 8);
        }
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let intact = u16::from_be_bytes([bytes[0], bytes[1]]) == PATTERN
            && u16::from_be_bytes([bytes[10], bytes[11]]) == crc16(&bytes[2..10]);
        intact.then(|| Self { frame: FrameId(word(2)), input: InputSeq(word(6)) })
    }

    /// Reads the marker of a picture through `luma(x, y)`, 0 to 255, which is asked for pixels below [`WIDTH`], [`HEIGHT`].
    ///
    /// The middle four pixels of a cell vote, and each cell is compared with the middle of the range that the marker spans, so
    /// that blur, ringing and a changed brightness do no harm.
    pub fn read(luma: impl Fn(usize, usize) -> u8) -> Option<Self> {
        let levels: [u16; COLUMNS * ROWS] = std::array::from_fn(|cell| {
            let x = cell % COLUMNS * CELL_PIXELS + CELL_PIXELS / 2;
            let y = cell / COLUMNS * CELL_PIXELS + CELL_PIXELS / 2;
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
    fn marker_survives_blur_and_brightness() {
        let marker = Marker { frame: FrameId(0x0102_0304), input: InputSeq(77) };
        let cells = marker.cells();
        let sharp = |x: usize, y: usize| if cells[y / CELL_PIXELS * COLUMNS + x / CELL_PIXELS] { 180u8 } else { 60 };
        let blurred = |x: usize, y: usize| {
            let (x, y) = (x.clamp(1, WIDTH - 2), y.clamp(1, HEIGHT - 2));
            let sum: u32 = (x - 1..=x + 1).flat_map(|x| (y - 1..=y + 1).map(move |y| u32::from(sharp(x, y)))).sum();
            (sum / 9) as u8
        };
        assert_eq!(Marker::read(blurred), Some(marker));
        assert_eq!(Marker::read(|_, _| 128), None);
    }

    #[test]
    fn one_wrong_cell_is_noticed() {
        let mut cells = Marker { frame: FrameId(9), input: InputSeq(4) }.cells();
        cells[40] = !cells[40];
        assert_eq!(Marker::from_cells(&cells), None);
    }
}
