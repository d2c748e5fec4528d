//! A bad path inside the driver: seeded loss, duplication and reordering of datagrams, for tests and `--drop`.

use std::str::FromStr;

use bytes::Bytes;
use rand::{RngCore as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// A chance between never and always.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Probability(f64);

/// The text or number is no probability; the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a probability: write a percentage such as `2%` or a fraction such as `0.02`")]
pub struct NotAProbability(String);

impl Probability {
    pub const NEVER: Self = Self(0.0);
    pub const ALWAYS: Self = Self(1.0);

    /// `fraction` lies in 0 ..= 1.
    pub fn new(fraction: f64) -> Result<Self, NotAProbability> {
        if (0.0..=1.0).contains(&fraction) { Ok(Self(fraction)) } else { Err(NotAProbability(fraction.to_string())) }
    }

    /// The chance as a fraction of 1.
    #[must_use]
    pub const fn fraction(self) -> f64 {
        self.0
    }
}

impl FromStr for Probability {
    type Err = NotAProbability;

    /// Reads `2%` and `0.02` as the same chance.
    fn from_str(text: &str) -> Result<Self, NotAProbability> {
        let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
        let fraction = number.trim().parse::<f64>().map_err(|_| NotAProbability(text.to_owned()))?;
        Self::new(fraction / scale).map_err(|_| NotAProbability(text.to_owned()))
    }
}

/// Says of each datagram whether the path loses it: independent losses, the same for the same seed.
#[derive(Clone, Debug)]
pub struct DropModel {
    random: Pcg64Mcg,
    probability: Probability,
}

impl DropModel {
    #[must_use]
    pub fn new(seed: u64, probability: Probability) -> Self {
        Self { random: Pcg64Mcg::seed_from_u64(seed), probability }
    }

    /// Whether the next datagram is lost.
    pub fn drops_next(&mut self) -> bool {
        happens(&mut self.random, self.probability)
    }
}

/// Draws one number whatever the probability, so that a seed means the same losses at every other setting.
fn happens(random: &mut Pcg64Mcg, probability: Probability) -> bool {
    /// Numbers that a double holds exactly: 53 bits.
    const STEPS: f64 = (1_u64 << 53) as f64;
    ((random.next_u64() >> 11) as f64) < probability.fraction() * STEPS
}

/// What a path does to datagrams. The default leaves them alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ImpairmentConfig {
    pub seed: u64,
    pub drop: Probability,
    pub duplicate: Probability,
    /// The datagram swaps places with its successor.
    pub reorder: Probability,
}

/// One direction of a bad path. Adds no delay of its own: a datagram that is reordered waits for its successor.
#[derive(Clone, Debug)]
pub struct Impairment {
    config: ImpairmentConfig,
    losses: DropModel,
    random: Pcg64Mcg,
    held: Option<Bytes>,
    dropped: u64,
}

impl Impairment {
    #[must_use]
    pub fn new(config: ImpairmentConfig) -> Self {
        Self {
            config,
            losses: DropModel::new(config.seed, config.drop),
            // Any constant does: it only keeps the two sequences apart.
            random: Pcg64Mcg::seed_from_u64(config.seed ^ 0x5eed),
            held: None,
            dropped: 0,
        }
    }

    /// What comes out of the path, in order, when `datagram` goes in: none, one, or up to three.
    pub fn on_datagram(&mut self, datagram: Bytes) -> Vec<Bytes> {
        let duplicate = happens(&mut self.random, self.config.duplicate);
        let reorder = happens(&mut self.random, self.config.reorder);
        if self.losses.drops_next() {
            self.dropped += 1;
            return Vec::new();
        }
        if reorder && self.held.is_none() {
            self.held = Some(datagram);
            return Vec::new();
        }
        let mut out = vec![datagram.clone()];
        if duplicate {
            out.push(datagram);
        }
        out.extend(self.held.take());
        out
    }

    /// Datagrams lost so far.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagrams(count: u32) -> impl Iterator<Item = Bytes> {
        (0..count).map(|n| Bytes::copy_from_slice(&n.to_be_bytes()))
    }

    fn through(config: ImpairmentConfig, count: u32) -> Vec<u32> {
        let mut path = Impairment::new(config);
        let out = datagrams(count).flat_map(|datagram| path.on_datagram(datagram));
        out.map(|datagram| u32::from_be_bytes(datagram[..].try_into().unwrap())).collect()
    }

    fn percent(percent: u32) -> Probability {
        Probability::new(f64::from(percent) / 100.0).unwrap()
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
    fn losses_are_exact_for_a_seed() {
        let count = |seed, percents| {
            let mut model = DropModel::new(seed, percent(percents));
            (0..100_000).filter(|_| model.drops_next()).count()
        };
        let counts = [count(1, 2), count(2, 2), count(1, 0), count(1, 100)];
        assert_eq!(counts, [2_028, 2_034, 0, 100_000]);
    }

    #[test]
    fn a_clean_path_changes_nothing() {
        assert_eq!(through(ImpairmentConfig::default(), 1_000), (0..1_000).collect::<Vec<_>>());
    }

    #[test]
    fn duplicates_and_reordering_lose_nothing_but_the_last_held() {
        let config = ImpairmentConfig { seed: 7, duplicate: percent(10), reorder: percent(10), ..Default::default() };
        let out = through(config, 1_000);
        assert!(out.len() > 1_000, "duplicates are there");
        assert!(!out.is_sorted(), "reordering is there");
        let mut distinct = out.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() >= 999);
        assert_eq!(out, through(config, 1_000), "the same seed makes the same path");
    }

    #[test]
    fn losses_do_not_depend_on_the_other_impairments() {
        let lost = |config| {
            let mut path = Impairment::new(config);
            datagrams(10_000).for_each(|datagram| drop(path.on_datagram(datagram)));
            path.dropped()
        };
        let clean = ImpairmentConfig { seed: 3, drop: percent(2), ..Default::default() };
        let busy = ImpairmentConfig { duplicate: percent(20), reorder: percent(20), ..clean };
        assert_eq!(lost(clean), lost(busy));
    }
}
