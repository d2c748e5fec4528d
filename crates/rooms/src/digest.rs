//! A number that is the same at two ends if they know the same.

use crate::pose::Sample;

/// FNV-1a of 64 bits (draft-eastlake-fnv, section 2), over words instead of bytes. Finds mistakes, not forgeries.
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
        // Words differ in high bits too, which the multiplication alone would lose.
        self.0 ^= self.0 >> 32;
    }
}
