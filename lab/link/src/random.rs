//! Seeded draws; logarithms in portable software, so that a seed means the same path on every machine.

use std::fmt;
use std::str::FromStr;

use nearlight_units::Span;
use rand::{RngCore as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use thiserror::Error;

/// Numbers that a double holds exactly: 53 bits.
const DOUBLE_STEPS: u64 = 1 << 53;

/// A probability.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Probability(f64);

impl Probability {
    pub const NEVER: Self = Self(0.0);
    pub const ALWAYS: Self = Self(1.0);

    /// Returns a probability. None unless `fraction` lies in 0 ..= 1.
    #[must_use]
    pub fn new(fraction: f64) -> Option<Self> {
        (0.0..=1.0).contains(&fraction).then_some(Self(fraction))
    }

    /// The nearest chance to `fraction`; NaN becomes never.
    #[must_use]
    pub fn clamped(fraction: f64) -> Self {
        Self(if fraction.is_nan() { 0.0 } else { fraction.clamp(0.0, 1.0) })
    }

    /// The chance as a fraction of 1.
    #[must_use]
    pub const fn fraction(self) -> f64 {
        self.0
    }
}

/// The text is not a probability.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a probability: write a percentage such as `2%` or a fraction such as `0.02`")]
pub struct ProbabilityError(String);

impl FromStr for Probability {
    type Err = ProbabilityError;

    /// Reads `2%` and `0.02` as the same chance.
    fn from_str(text: &str) -> Result<Self, ProbabilityError> {
        let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
        let fraction = number.trim().parse::<f64>().map_err(|_| ProbabilityError(text.to_owned()))?;
        Self::new(fraction / scale).ok_or_else(|| ProbabilityError(text.to_owned()))
    }
}

impl fmt::Display for Probability {
    /// Formats a percentage without insignificant digits.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Ten digits: what is left of 15 after multiplying by 100 and printing.
        let percent = (self.0 * 1e12).round() / 1e10;
        write!(formatter, "{percent}%")
    }
}

/// A hop's own source of randomness.
#[derive(Clone, Debug)]
pub struct Random(Pcg64Mcg);

impl Random {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// The source of the hop at `place` in a path with `seed`: hops share no draws.
    #[must_use]
    pub fn of_hop(seed: u64, place: usize) -> Self {
        // The golden ratio's bits spread neighbouring places over all seeds (SplitMix64's increment).
        Self::new(seed.wrapping_add((place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// A seed for something that this source's owner starts.
    pub fn seed(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Always draws one number, whatever the probability, so that a seed yields the same draws at every setting.
    #[inline]
    pub fn happens(&mut self, chance: Probability) -> bool {
        self.unit() < chance.0
    }

    /// Uniform in 0 .. 1, without 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / DOUBLE_STEPS as f64
    }

    /// Normal with mean 0 and deviation 1 (Marsaglia's polar method).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * libm::log(square) / square).sqrt();
            }
        }
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// Exponential with the given mean.
    pub fn exponential_span(&mut self, mean: Span) -> Span {
        mean.mul_f64(self.exponential())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_moments_they_promise() {
        let mut random = Random::new(1);
        let count = 200_000;
        let moments = |draws: Vec<f64>| {
            let mean = draws.iter().sum::<f64>() / f64::from(count);
            let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / f64::from(count);
            (mean, variance)
        };
        // Bounds: five standard errors of each mean and about as much of each variance.
        let (mean, variance) = moments((0..count).map(|_| random.normal()).collect());
        assert!(mean.abs() < 0.012 && (variance - 1.0).abs() < 0.02, "normal: {mean}, {variance}");
        let (mean, variance) = moments((0..count).map(|_| random.exponential()).collect());
        assert!((mean - 1.0).abs() < 0.012 && (variance - 1.0).abs() < 0.04, "exponential: {mean}, {variance}");
        let (mean, variance) = moments((0..count).map(|_| random.unit()).collect());
        assert!((mean - 0.5).abs() < 0.004 && (variance - 1.0 / 12.0).abs() < 0.001, "unit: {mean}, {variance}");
    }

    #[test]
    fn probabilities_are_read_as_people_write_them() {
        for (text, fraction) in [("2%", 0.02), ("0.02", 0.02), ("0", 0.0), ("100%", 1.0), (" 50 %", 0.5)] {
            assert_eq!(text.parse::<Probability>().map(Probability::fraction), Ok(fraction), "{text}");
        }
        for text in ["", "%", "two", "101%", "-1%", "NaN", "inf"] {
            let error = text.parse::<Probability>().unwrap_err();
            assert!(error.to_string().contains("2%"), "{text}: {error}");
        }
    }

    #[test]
    fn hops_share_no_draws() {
        let first = |place| Random::of_hop(7, place).seed();
        assert_ne!(first(0), first(1));
        assert_eq!(first(3), first(3));
        assert_ne!(Random::of_hop(8, 0).seed(), first(0));
    }
}
