//! Converts four-byte pixels into 4:2:0, two rows at a time, with AVX2 if the processor has it. Memory bandwidth limits the speed: the
//! conversion costs about as much as a copy of the pixels.
#![expect(unsafe_code, reason = "vector instructions; each block states why it is sound")]

#[cfg(target_arch = "x86_64")]
#[cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "two dozen instructions, whose names say where they are from")
)]
use std::arch::x86_64::*;

use crate::convert::PixelOrder;

/// Two rows of pixels, and the destinations of their luma and colour differences: one byte of luma per pixel, and half as many of each
/// difference per row.
pub(crate) struct RowPair<'a> {
    pub(crate) pixels: [&'a [u8]; 2],
    pub(crate) luma: [&'a mut [u8]; 2],
    pub(crate) blue: &'a mut [u8],
    pub(crate) red: &'a mut [u8],
}

/// Fraction bits of the factors: the most with which a factor fits 16 bits and a sum of products 32 bits.
const FRACTION_BITS: i32 = 15;
/// Fraction bits of the sum of four pixels.
const FRACTION_BITS_OF_FOUR: i32 = FRACTION_BITS + 2;
/// The smallest luma, and one half for rounding (ITU-R BT.709-6 item 4.6).
const LUMA_OFFSET: i32 = (16 << FRACTION_BITS) + (1 << (FRACTION_BITS - 1));
/// The value of no colour difference, and one half for rounding.
const DIFFERENCE_OFFSET: i32 = (128 << FRACTION_BITS_OF_FOUR) + (1 << (FRACTION_BITS_OF_FOUR - 1));

/// Factors of the first three bytes of a pixel.
type Factors = [i16; 3];

/// A conversion for one order of bytes.
#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    luma: Factors,
    blue: Factors,
    red: Factors,
}

/// Luma of red, green and blue (ITU-R BT.709-6, items 3.2 and 3.3). The divisor of a colour difference is twice one minus the factor of its
/// own colour.
const LUMA: [f64; 3] = [0.2126, 0.7152, 0.0722];
/// Limited range: the extents of luma and of colour differences (item 4.6), as shares of the 255 of pixels.
const RANGES: [f64; 2] = [219.0 / 255.0, 224.0 / 255.0];

const fn factor(value: f64) -> i16 {
    let scaled = value * (1 << FRACTION_BITS) as f64;
    // A cast truncates.
    (if scaled < 0.0 { scaled - 0.5 } else { scaled + 0.5 }) as i16
}

const fn difference(own: usize) -> Factors {
    let mut factors = [0; 3];
    let mut colour = 0;
    while colour < 3 {
        let share = if colour == own { 1.0 - LUMA[own] } else { -LUMA[colour] };
        factors[colour] = factor(share / (2.0 * (1.0 - LUMA[own])) * RANGES[1]);
        colour += 1;
    }
    // Grey has no colour difference, so the factor of the own colour absorbs the rounding errors of the others.
    factors[own] -= factors[0] + factors[1] + factors[2];
    factors
}

const RGB: Kernel = Kernel {
    luma: [factor(LUMA[0] * RANGES[0]), factor(LUMA[1] * RANGES[0]), factor(LUMA[2] * RANGES[0])],
    blue: difference(2),
    red: difference(0),
};

impl Kernel {
    /// Returns the conversion for this order. None if the processor lacks the instructions, or pixels have three bytes.
    pub(crate) fn detect(order: PixelOrder) -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        let found = std::arch::is_x86_feature_detected!("avx2");
        #[cfg(not(target_arch = "x86_64"))]
        let found = false;
        Self::of(order).filter(|_| found)
    }

    fn of(order: PixelOrder) -> Option<Self> {
        let swapped = |[first, second, third]: Factors| [third, second, first];
        match order {
            PixelOrder::Rgba => Some(RGB),
            PixelOrder::Bgra => {
                let Self { luma, blue, red } = RGB;
                Some(Self { luma: swapped(luma), blue: swapped(blue), red: swapped(red) })
            }
            PixelOrder::Rgb | PixelOrder::Bgr => None,
        }
    }

    /// Converts as many pixels as both rows and all destinations have.
    pub(crate) fn convert(&self, pair: &mut RowPair<'_>) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `detect` has found the instructions.
        let done = unsafe { self.convert_vectors(pair) };
        #[cfg(not(target_arch = "x86_64"))]
        let done = 0;
        self.convert_plain(pair, done);
    }

    /// Converts the columns from `from` on, which is even, without vector instructions.
    fn convert_plain(&self, pair: &mut RowPair<'_>, from: usize) {
        let dot = |factors: Factors, values: [i32; 3]| {
            factors.iter().zip(values).map(|(factor, value)| i32::from(*factor) * value).sum::<i32>()
        };
        let RowPair { pixels: [upper, lower], luma: [upper_luma, lower_luma], blue, red } = pair;
        let colours = |pixel: &[u8; 4]| [pixel[0], pixel[1], pixel[2]].map(i32::from);
        for (row, luma) in [(*upper, upper_luma), (*lower, lower_luma)] {
            for (pixel, luma) in row.as_chunks::<4>().0.iter().zip(luma.iter_mut()).skip(from) {
                *luma = ((dot(self.luma, colours(pixel)) + LUMA_OFFSET) >> FRACTION_BITS) as u8;
            }
        }
        let squares = upper.as_chunks::<8>().0.iter().zip(lower.as_chunks::<8>().0);
        for (((upper, lower), blue), red) in squares.zip(blue.iter_mut()).zip(red.iter_mut()).skip(from / 2) {
            let sums = std::array::from_fn(|colour| {
                [upper[colour], upper[colour + 4], lower[colour], lower[colour + 4]].map(i32::from).iter().sum()
            });
            *blue = ((dot(self.blue, sums) + DIFFERENCE_OFFSET) >> FRACTION_BITS_OF_FOUR) as u8;
            *red = ((dot(self.red, sums) + DIFFERENCE_OFFSET) >> FRACTION_BITS_OF_FOUR) as u8;
        }
    }

    /// Converts 32 columns at a time. Returns the number of converted columns.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn convert_vectors(&self, pair: &mut RowPair<'_>) -> usize {
        const COLUMNS: usize = 32;
        // One product covers the first and third byte, another one the second byte alone. The fourth byte is ignored.
        let outer = |factors: Factors| _mm256_set1_epi32(pack_factors(factors[0], factors[2]));
        let middle = |factors: Factors| _mm256_set1_epi32(pack_factors(factors[1], 0));
        let [luma, blue, red] = [self.luma, self.blue, self.red].map(|factors| [outer(factors), middle(factors)]);
        let outer_bytes = _mm256_set1_epi32(0x00ff_00ff);
        let [luma_offset, difference_offset] = [LUMA_OFFSET, DIFFERENCE_OFFSET].map(|offset| _mm256_set1_epi32(offset));
        let weigh = |[outer, middle]: [__m256i; 2], factors: [__m256i; 2], offset| {
            let products =
                _mm256_add_epi32(_mm256_madd_epi16(outer, factors[0]), _mm256_madd_epi16(middle, factors[1]));
            _mm256_add_epi32(products, offset)
        };
        let [upper, lower] = pair.pixels.map(|row| row.as_chunks::<{ 4 * COLUMNS }>().0);
        let [upper_luma, lower_luma] = &mut pair.luma;
        let lumas = upper_luma.as_chunks_mut::<COLUMNS>().0.iter_mut().zip(lower_luma.as_chunks_mut::<COLUMNS>().0);
        let blues = pair.blue.as_chunks_mut::<{ COLUMNS / 2 }>().0;
        let differences = blues.iter_mut().zip(pair.red.as_chunks_mut::<{ COLUMNS / 2 }>().0);
        let mut done = 0;
        for (((upper, lower), lumas), differences) in upper.iter().zip(lower).zip(lumas).zip(differences) {
            let zero = _mm256_setzero_si256();
            let (mut luma_of, mut sums) = ([[zero; 4]; 2], [[zero; 4]; 2]);
            let vectors = upper.as_chunks::<32>().0.iter().zip(lower.as_chunks::<32>().0);
            for (place, (upper, lower)) in vectors.enumerate() {
                let split = |pixels: __m256i| [_mm256_and_si256(pixels, outer_bytes), _mm256_srli_epi16::<8>(pixels)];
                let rows = [split(load(upper)), split(load(lower))];
                for (row, luma_of) in rows.iter().zip(&mut luma_of) {
                    luma_of[place] = _mm256_srli_epi32::<FRACTION_BITS>(weigh(*row, luma, luma_offset));
                }
                for (part, sums) in sums.iter_mut().enumerate() {
                    sums[place] = _mm256_add_epi16(rows[0][part], rows[1][part]);
                }
            }
            store(lumas.0, pack_luma(luma_of[0]));
            store(lumas.1, pack_luma(luma_of[1]));
            let [outer, middle] = sums.map(|sums| [fold(sums[0], sums[1]), fold(sums[2], sums[3])]);
            let weighed = |factors, half: usize| {
                let weighed = weigh([outer[half], middle[half]], factors, difference_offset);
                _mm256_srai_epi32::<FRACTION_BITS_OF_FOUR>(weighed)
            };
            let [blue, red] = [blue, red].map(|factors| _mm256_packs_epi32(weighed(factors, 0), weighed(factors, 1)));
            let both = in_order(_mm256_packus_epi16(blue, red));
            store_half(differences.0, _mm256_castsi256_si128(both));
            store_half(differences.1, _mm256_extracti128_si256::<1>(both));
            done += COLUMNS;
        }
        done
    }
}

/// Returns two factors for `madd`, with the first one in the lower half.
#[cfg(target_arch = "x86_64")]
const fn pack_factors(lower: i16, upper: i16) -> i32 {
    (upper as i32) << 16 | (lower as u16 as i32)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: reads 32 bytes at any address.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn store(bytes: &mut [u8; 32], vector: __m256i) {
    // SAFETY: writes 32 bytes at any address.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn store_half(bytes: &mut [u8; 16], vector: __m128i) {
    // SAFETY: writes 16 bytes at any address.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), vector) }
}

/// Packs 32 values of 32 bits into bytes. Packing keeps the halves of vectors apart, so groups of four must be reordered.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn pack_luma(values: [__m256i; 4]) -> __m256i {
    let [first, second, third, fourth] = values;
    let packed = _mm256_packus_epi16(_mm256_packs_epi32(first, second), _mm256_packs_epi32(third, fourth));
    _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}

/// Adds neighbouring values of 32 bits. Each half of the result has the sums of `one`, then those of `other`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn fold(one: __m256i, other: __m256i) -> __m256i {
    let (one, other) = (_mm256_castsi256_ps(one), _mm256_castsi256_ps(other));
    let (even, odd) = (_mm256_shuffle_ps::<0b10_00_10_00>(one, other), _mm256_shuffle_ps::<0b11_01_11_01>(one, other));
    _mm256_add_epi16(_mm256_castps_si256(even), _mm256_castps_si256(odd))
}

/// Reorders 16 blue and 16 red differences. Each half of the input has eight of either: two from the half of each of four folded vectors.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn in_order(packed: __m256i) -> __m256i {
    let by_colour = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
    let pairs = _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
    _mm256_shuffle_epi8(by_colour, _mm256_broadcastsi128_si256(pairs))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns pseudo-random bytes, with the extremes among them.
    fn bytes(count: usize, seed: u32) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..count).map(|index| if index % 96 < 32 { [0, 255][index / 4 % 2] } else { next() }).collect()
    }

    #[test]
    fn vectors_convert_as_the_plain_rule_does() {
        for order in [PixelOrder::Rgba, PixelOrder::Bgra] {
            let Some(kernel) = Kernel::detect(order) else { continue };
            for (columns, seed) in [(2, 1), (30, 2), (32, 3), (34, 4), (254, 5), (1_920, 6)] {
                let (upper, lower) = (bytes(columns * 4, seed), bytes(columns * 4, seed + 100));
                let mut results = [false, true].map(|plain| {
                    let mut planes = [vec![0; columns], vec![0; columns], vec![0; columns / 2], vec![0; columns / 2]];
                    let [one, other, blue, red] = &mut planes;
                    let mut pair = RowPair { pixels: [&upper, &lower], luma: [one, other], blue, red };
                    if plain {
                        kernel.convert_plain(&mut pair, 0);
                    } else {
                        kernel.convert(&mut pair);
                    }
                    planes
                });
                let plain = results[1].clone();
                assert_eq!(std::mem::take(&mut results[0]), plain, "{order:?}, {columns} columns");
            }
        }
    }

    #[test]
    fn the_plain_rule_is_the_standard_s_within_half_a_level() {
        let kernel = Kernel::of(PixelOrder::Rgba).expect("factors");
        let (upper, lower) = (bytes(512, 7), bytes(512, 8));
        let (mut luma, mut blue, mut red) = ([[0; 128]; 2], [0; 64], [0; 64]);
        let [one, other] = &mut luma;
        kernel.convert_plain(
            &mut RowPair { pixels: [&upper, &lower], luma: [one, other], blue: &mut blue, red: &mut red },
            0,
        );
        let of = |row: &[u8], column: usize| {
            let [red, green, blue] = [0, 1, 2].map(|colour| f64::from(row[4 * column + colour]) / 255.0);
            let luma = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
            [luma, (blue - luma) / 1.8556, (red - luma) / 1.5748]
        };
        let close = |got: u8, wanted: f64| assert!((f64::from(got) - wanted).abs() < 0.53, "{got}, not {wanted}");
        for column in 0..128 {
            for (row, luma) in [&upper, &lower].into_iter().zip(&luma) {
                close(luma[column], 16.0 + 219.0 * of(row, column)[0]);
            }
        }
        for column in 0..64 {
            let mean = |part: usize| {
                let values = [&upper, &lower].map(|row| of(row, 2 * column)[part] + of(row, 2 * column + 1)[part]);
                values.iter().sum::<f64>() / 4.0
            };
            close(blue[column], 128.0 + 224.0 * mean(1));
            close(red[column], 128.0 + 224.0 * mean(2));
        }
    }
}
