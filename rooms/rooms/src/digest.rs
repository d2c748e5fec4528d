//! A hash with which two ends check that they know the same.

use crate::pose::Sample;

/// A 64-bit FNV-1a hash (draft-eastlake-fnv, section 2) over words instead of bytes. It detects mistakes, not forgeries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    pub(crate) fn add_sample(&mut self, sample: &Sample) {
        sample.numbers().for_each(|number| self.add(u64::from(number.cast_unsigned())));
    }

    pub(crate) fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        // Multiplication alone would lose differences in the high bits of a word.
        self.0 ^= self.0 >> 32;
    }
}
