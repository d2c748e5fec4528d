//! Samples in buckets whose width grows with their value: percentiles within 1 %, merged exactly, however many samples there are.

use serde::{Deserialize, Serialize};

/// Buckets to a doubling: a bucket is at most 1/64 of its value wide.
const FINE: u32 = 6;

/// Values are whole numbers of some small unit, such as microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u64,
}

const fn bucket(value: u64) -> usize {
    if value < 1 << FINE {
        return value as usize;
    }
    let shift = value.ilog2() - FINE;
    ((shift as usize + 1) << FINE) + (value >> shift) as usize - (1 << FINE)
}

/// The middle of a bucket.
fn middle(bucket: usize) -> f64 {
    let shift = (bucket >> FINE).saturating_sub(1) as u32;
    if bucket < 2 << FINE {
        return bucket as f64;
    }
    let first = ((1 << FINE) + (bucket & ((1 << FINE) - 1))) as u64;
    (first << shift) as f64 + ((1_u64 << shift) - 1) as f64 / 2.0
}

impl Histogram {
    #[inline]
    pub fn add(&mut self, value: u64) {
        // Beyond this a sum of many could overflow: an hour in microseconds is far below.
        let value = value.min(1 << 40);
        let bucket = bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.count += 1;
        self.sum += value;
    }

    pub fn merge(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
    }

    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Exact; none without samples.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The value below which `share` of the samples lie (nearest rank); none without samples.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        found.map(middle)
    }

    /// Middle of each bucket that is not empty, and its count.
    pub fn iter(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(bucket, count)| (middle(bucket), *count))
    }
}

/// As it is kept: the sum, then pairs of a bucket and its count.
#[derive(Serialize, Deserialize)]
struct Kept(u64, Vec<(u32, u64)>);

impl Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        Kept(self.sum, filled.map(|(bucket, count)| (bucket as u32, *count)).collect()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Kept(sum, pairs) = Kept::deserialize(deserializer)?;
        let mut histogram = Self { sum, ..Self::default() };
        for (bucket, count) in pairs {
            let bucket = bucket as usize;
            if bucket > self::bucket(1 << 40) {
                return Err(serde::de::Error::custom("a bucket beyond the largest value"));
            }
            if bucket >= histogram.counts.len() {
                histogram.counts.resize(bucket + 1, 0);
            }
            histogram.counts[bucket] += count;
            histogram.count += count;
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_values_are_exact_and_large_ones_within_a_percent() {
        for value in (0..200).chain([1_000, 65_535, 65_536, 1 << 30, 1 << 40]) {
            let found = middle(bucket(value));
            assert!((found - value as f64).abs() <= value as f64 / 128.0, "{value} became {found}");
        }
        for value in 1..100_000 {
            assert!(bucket(value) >= bucket(value - 1) && bucket(value) <= bucket(value - 1) + 1, "{value}");
        }
    }

    proptest! {
        #[test]
        fn parts_merge_to_the_whole_and_survive_writing(values in prop::collection::vec(0..10_000_000_u64, 1..200), cut in 0..200_usize) {
            let (mut whole, mut first, mut second) = <(Histogram, Histogram, Histogram)>::default();
            for (index, value) in values.iter().enumerate() {
                whole.add(*value);
                if index < cut { first.add(*value) } else { second.add(*value) }
            }
            first.merge(&second);
            prop_assert_eq!(&first.mean(), &whole.mean());
            for share in [0.0, 0.5, 0.95, 0.99, 1.0] {
                prop_assert_eq!(first.quantile(share), whole.quantile(share));
                let mut sorted = values.clone();
                sorted.sort_unstable();
                let rank = ((values.len() as f64 * share).ceil() as usize).clamp(1, values.len());
                let exact = sorted[rank - 1] as f64;
                let found = whole.quantile(share).expect("samples");
                prop_assert!((found - exact).abs() <= exact / 64.0, "{} became {}", exact, found);
            }
            let text = serde_json::to_string(&whole).expect("plain numbers");
            let read: Histogram = serde_json::from_str(&text).expect("its own writing");
            prop_assert_eq!((read.count(), read.mean(), read.quantile(0.5)), (whole.count(), whole.mean(), whole.quantile(0.5)));
        }
    }
}
