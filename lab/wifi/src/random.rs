//! Draws from the cell's seeded generator.

use rand_pcg::Pcg32;
use rand_pcg::rand_core::{RngCore, SeedableRng};

/// A seeded random number generator.
#[derive(Clone, Debug)]
pub(crate) struct Random(Pcg32);

/// A probability in steps of 2^-32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(probability: f64) -> Self {
        Self((probability.clamp(0.0, 1.0) * 4_294_967_296.0).round() as u64)
    }
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg32::seed_from_u64(seed))
    }

    /// Returns a uniform number from 0 to `most`, both included.
    #[inline]
    pub(crate) fn up_to(&mut self, most: u16) -> u16 {
        ((u64::from(self.0.next_u32()) * (u64::from(most) + 1)) >> 32) as u16
    }

    /// Returns a uniform number from 0 to below `bound`; zero for a bound of zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    #[inline]
    pub(crate) fn happens(&mut self, chance: Chance) -> bool {
        u64::from(self.0.next_u32()) < chance.0
    }

    /// Returns a uniform number from 0 to below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        f64::from(self.0.next_u32()) / 4_294_967_296.0
    }

    /// Returns an approximately normal number with mean 0 and deviation 1: the sum of twelve uniform draws, so never beyond 6.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}
