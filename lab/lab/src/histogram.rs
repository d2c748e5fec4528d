//! Samples with an exact mean and percentiles within 1 %, merged exactly, however many there are.

use nearlight_units::{Bucket, Buckets};
use serde::{Deserialize, Serialize};

/// A histogram of non-negative integers in some small unit, such as microseconds. Buckets are about 1.6 % wide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Buckets<6>,
    sum: u64,
}

impl Histogram {
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    /// Adds a value `count` times.
    #[inline]
    pub fn add_many(&mut self, value: u64, count: u64) {
        // Beyond this a sum of many could overflow: an hour in microseconds is far below.
        let value = value.min(1 << 40);
        self.counts.add_times(value, count);
        self.sum += value * count;
    }

    /// Builds a histogram from pairs of value and count whose exact sum is known.
    pub(crate) fn of(values: impl Iterator<Item = (u64, u64)>, sum: u64) -> Self {
        let mut histogram = Self { sum, ..Self::default() };
        for (value, count) in values.filter(|(_, count)| *count > 0) {
            histogram.counts.add_times(value.min(1 << 40), count);
        }
        histogram
    }

    pub fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        self.sum += other.sum;
    }

    #[must_use]
    pub const fn count(&self) -> u64 {
        self.counts.count()
    }

    /// Returns the exact mean. None without samples.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum as f64 / self.count() as f64)
    }

    /// Returns the value below which `share` of the samples lie (nearest rank). None without samples.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        self.counts.quantile(share).map(Bucket::middle)
    }

    /// Iterates over the buckets that are not empty: their middle and their count.
    pub fn iter(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.counts.iter().map(|(bucket, count)| (bucket.middle(), count))
    }
}

/// The serialised form.
#[derive(Serialize, Deserialize)]
struct StoredHistogram(u64, Buckets<6>);

impl Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        StoredHistogram(self.sum, self.counts.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let StoredHistogram(sum, counts) = StoredHistogram::deserialize(deserializer)?;
        Ok(Self { counts, sum })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
