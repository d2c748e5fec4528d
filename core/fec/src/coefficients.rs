//! Rows of coefficients, which both ends derive from numbers that they know: repairs carry no coefficients.

use std::sync::LazyLock;

use nearlight_units::FrameId;

use crate::field::{divide, logarithm, power};

/// Maximum number of symbols of a Cauchy matrix over GF(2^8), sources and repairs together.
pub const CAUCHY_SYMBOLS: usize = 256;

/// The Cauchy rows: entry `j` of row `r` is y / (r + y) with y = 255 - j.
///
/// Neither depends on how many sources or repairs a frame has, so a repair can be added to any frame at any time. Every square
/// submatrix whose rows and columns name different elements (r + y is not 0, that is r + j < 255 or more than 255, ensured by
/// [`is_cauchy`]) is a Cauchy matrix with scaled columns and can be inverted. Row 0 is all ones: a plain exclusive or.
static ROWS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut rows = Vec::with_capacity(CAUCHY_SYMBOLS * CAUCHY_SYMBOLS);
    for repair in 0..=255_u8 {
        for source in 0..=255_u8 {
            let point = 255 - source;
            rows.push(if repair == point { 0 } else { divide(point, repair ^ point) });
        }
    }
    rows
});

/// Whether repair `repair` of a frame with `sources` symbols has a Cauchy row. The others have seeded rows.
pub(crate) fn is_cauchy(sources: usize, repair: u16) -> bool {
    sources + usize::from(repair) < CAUCHY_SYMBOLS
}

/// Fills `row` with the coefficients of a repair that covers one frame of `row.len()` sources.
pub(crate) fn block_row(frame: FrameId, repair: u16, row: &mut [u8]) {
    if is_cauchy(row.len(), repair) {
        let start = usize::from(repair) * CAUCHY_SYMBOLS;
        row.copy_from_slice(&ROWS[start..start + row.len()]);
    } else {
        seeded_row(u64::from(repair), frame, row);
    }
}

/// Fills `row` with the coefficients for one frame's sources in a repair that covers several frames.
///
/// `newest` distinguishes windows: the same number in another window is another repair.
pub(crate) fn window_row(newest: FrameId, repair: u16, frame: FrameId, row: &mut [u8]) {
    // Bit 16 distinguishes windows from blocks, whose numbers are below it.
    let number = u64::from(newest.0) << 32 | 1 << 16 | u64::from(repair);
    seeded_row(number, frame, row);
}

/// Returns nonzero coefficients from a generator that is not linear over GF(2).
///
/// A linear one (a shift register, an xorshift) confines all rows to a space of as many dimensions as its state has bits, so that
/// further repairs are worthless. This is `SplitMix64` (Steele, Lea, Flood: Fast splittable pseudorandom number
/// generators, 2014), addressable at any position. Its multiplications carry.
fn seeded_row(number: u64, frame: FrameId, row: &mut [u8]) {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let start = mix(mix(number.wrapping_add(GOLDEN)) ^ u64::from(frame.0).wrapping_mul(GOLDEN));
    let mut state = start;
    for chunk in row.chunks_mut(8) {
        state = state.wrapping_add(GOLDEN);
        let bytes = without_zeros(mix(state)).to_le_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
}

/// The finaliser of `SplitMix64`.
const fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Replaces every byte that is 0 by 1, so that any repair recovers a single missing symbol.
const fn without_zeros(bytes: u64) -> u64 {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    let not_zero = ((bytes & LOW) + LOW) | bytes;
    bytes | (!(not_zero | LOW) >> 7)
}

/// Replaces `inverse` by the inverse of the Cauchy rows `repairs` in the columns `missing`, row by row, in time e^2.
///
/// There must be as many repairs as missing symbols, all of them distinct and with Cauchy rows.
pub(crate) fn invert_cauchy(repairs: &[u16], missing: &[u16], inverse: &mut Vec<u8>) {
    debug_assert_eq!(repairs.len(), missing.len());
    // With C = 1 / (x + y), x of a repair and y of a source, the entry for source i and repair j of the inverse of C is
    // u(j) v(i) / (x(j) + y(i)); see Knuth, The Art of Computer Programming 1, section 1.2.3, exercise 41. All in logarithms.
    let repair_points: Vec<u8> = repairs.iter().map(|repair| *repair as u8).collect();
    let source_points: Vec<u8> = missing.iter().map(|source| 255 - *source as u8).collect();
    let of_repairs: Vec<u32> = repair_points.iter().map(|own| weight(*own, &source_points, &repair_points)).collect();
    inverse.clear();
    for own in &source_points {
        // The columns are scaled by y, so the inverse's rows are by 1 / y.
        let of_source = weight(*own, &repair_points, &source_points) + 255 - logarithm(*own);
        let row = repair_points.iter().zip(&of_repairs);
        inverse.extend(row.map(|(other, of_repair)| power(of_source + of_repair + 255 - logarithm(own ^ other))));
    }
}

/// The logarithm of the product of `own`'s differences from `others`, divided by that of its differences from the rest of `same`.
fn weight(own: u8, others: &[u8], same: &[u8]) -> u32 {
    let sum = |points: &[u8]| points.iter().map(|point| logarithm(own ^ point)).sum::<u32>() % 255;
    // The logarithm of its difference from itself reads 0, as that of 1 does, and changes nothing.
    sum(others) + 255 - sum(same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::multiply;
    use crate::kernel::Kernel;
    use crate::solve::reduce;

    #[test]
    fn zero_bytes_become_one_and_others_stay() {
        for shift in 0..8 {
            for byte in 0..=255_u64 {
                let rest = 0x0101_8080_FF7F_02FE_u64.rotate_left(8 * shift) & !(0xFF << (8 * shift));
                let expected = rest | byte.max(1) << (8 * shift);
                assert_eq!(without_zeros(rest | byte << (8 * shift)), expected);
            }
        }
    }

    #[test]
    fn the_first_cauchy_row_is_a_plain_exclusive_or() {
        let mut row = [0; 255];
        block_row(FrameId(9), 0, &mut row);
        assert_eq!(row, [1; 255]);
    }

    #[test]
    fn the_explicit_inverse_inverts() {
        let repairs = [0, 3, 4, 17, 90];
        let missing = [0, 1, 50, 99, 140];
        let mut inverse = Vec::new();
        invert_cauchy(&repairs, &missing, &mut inverse);
        let mut row = [0; 150];
        for (number, repair) in repairs.into_iter().enumerate() {
            block_row(FrameId(0), repair, &mut row);
            for column in 0..5 {
                let sum = (0..5).fold(0, |sum, inner| {
                    sum ^ multiply(inverse[inner * 5 + column], row[usize::from(missing[inner])])
                });
                assert_eq!(sum, u8::from(column == number));
            }
        }
    }

    /// A generator that is linear over GF(2) with 64 bits of state fails this: its rows have rank 64.
    #[test]
    fn two_hundred_seeded_rows_are_independent() {
        let mut rows = vec![0; 200 * 400];
        for (number, row) in rows.chunks_mut(400).enumerate() {
            window_row(FrameId(5), number as u16, FrameId(4), row);
            assert!(!row.contains(&0));
        }
        assert_eq!(reduce(Kernel::best(), &rows, 400).rank(), 200);
    }

    #[test]
    fn seeded_coefficients_are_spread_evenly() {
        let mut counts = [0_u32; 256];
        let mut row = [0; 1_000];
        for repair in 0..255 {
            seeded_row(repair, FrameId(7), &mut row);
            for coefficient in row {
                counts[usize::from(coefficient)] += 1;
            }
        }
        // 255,000 draws: about 1,000 of each, 2,000 of the 1 that also stands for 0; five standard deviations of slack.
        assert_eq!(counts[0], 0);
        assert!(counts[1].abs_diff(1_992) < 225, "{}", counts[1]);
        assert!(counts[2..].iter().all(|count| count.abs_diff(996) < 158), "{counts:?}");
    }

    #[test]
    fn windows_blocks_and_frames_have_rows_of_their_own() {
        let mut rows = Vec::new();
        for (newest, repair, frame) in [(1, 0, 1), (1, 0, 0), (1, 1, 1), (2, 0, 1)] {
            let mut row = [0; 32];
            window_row(FrameId(newest), repair, FrameId(frame), &mut row);
            rows.push(row);
        }
        for frame in [0, 1] {
            let mut row = [0; 32];
            seeded_row(0, FrameId(frame), &mut row);
            rows.push(row);
        }
        for (number, row) in rows.iter().enumerate() {
            assert!(rows[..number].iter().all(|other| other != row));
        }
    }
}
