//! Captures made up in the test, so that the truth about them is known.
#![allow(dead_code, reason = "each test takes what it needs")]

pub mod file;
pub mod stream;

use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// A datagram as it leaves, or as it arrives.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// Since the stream began.
    pub nanos: i64,
    pub down: bool,
    pub payload: Vec<u8>,
}

pub struct Dice(Pcg64Mcg);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Below 1.
    pub fn share(&mut self) -> f64 {
        self.0.random()
    }

    pub fn number(&mut self) -> u32 {
        self.0.random()
    }

    /// Irwin and Hall's sum: close to a normal distribution with deviation 1, and never far out.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.share()).sum::<f64>() - 6.0
    }
}
