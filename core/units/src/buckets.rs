//! A histogram whose buckets widen with the value: any number of samples in little memory, and quantiles within a known relative
//! error.

use serde::{Deserialize, Serialize};

/// Larger values count as this one: nearly five hours in nanoseconds.
const MAX_VALUE: u64 = 1 << 44;

/// A histogram with `2^BITS` buckets per doubling. It is exact below `2^(BITS + 1)`, and a bucket's width is at most `2^-BITS` of its
/// value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets<const BITS: u32> {
    counts: Vec<u64>,
    count: u64,
}

/// The values that fall into one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub first: u64,
    /// The number of distinct values in it.
    pub width: u64,
}

impl Bucket {
    #[must_use]
    pub const fn last(self) -> u64 {
        self.first + self.width - 1
    }

    #[must_use]
    pub fn middle(self) -> f64 {
        self.first as f64 + (self.width - 1) as f64 / 2.0
    }
}

const fn index<const BITS: u32>(value: u64) -> usize {
    if value < 1 << BITS {
        return value as usize;
    }
    let shift = value.ilog2() - BITS;
    ((shift as usize + 1) << BITS) + (value >> shift) as usize - (1 << BITS)
}

const fn bucket<const BITS: u32>(index: usize) -> Bucket {
    let shift = (index >> BITS).saturating_sub(1) as u32;
    let step = index - ((shift as usize) << BITS);
    Bucket { first: (step as u64) << shift, width: 1 << shift }
}

impl<const BITS: u32> Buckets<BITS> {
    /// Adds one value. Values beyond 2^44 count as 2^44.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.add_times(value, 1);
    }

    /// Adds the same value this many times.
    #[inline]
    pub fn add_times(&mut self, value: u64, times: u64) {
        self.add_many(index::<BITS>(value.min(MAX_VALUE)), times);
    }

    fn add_many(&mut self, index: usize, count: u64) {
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += count;
        self.count += count;
    }

    /// Adds all values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
    }

    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the bucket of the smallest value that is not below a `share` (0 to 1) of all values, by nearest rank. None without values.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Bucket> {
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        found.map(bucket::<BITS>)
    }

    /// Returns each bucket that is not empty, in ascending order, with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Bucket, u64)> + '_ {
        self.filled().map(|(index, count)| (bucket::<BITS>(index), count))
    }

    fn filled(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.counts.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }
}

/// Serialised as pairs of a bucket's number and its count.
impl<const BITS: u32> Serialize for Buckets<BITS> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.filled().map(|(index, count)| (index as u32, count)))
    }
}

impl<'de, const BITS: u32> Deserialize<'de> for Buckets<BITS> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut buckets = Self::default();
        for (number, count) in Vec::<(u32, u64)>::deserialize(deserializer)? {
            if number as usize > index::<BITS>(MAX_VALUE) || buckets.count.checked_add(count).is_none() {
                return Err(serde::de::Error::custom("a bucket beyond the largest value, or more than can be counted"));
            }
            buckets.add_many(number as usize, count);
        }
        Ok(buckets)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check_layout<const BITS: u32>() {
        let values = (0..200_000).chain([1 << 30, (1 << 30) + 12_345, MAX_VALUE - 1, MAX_VALUE]);
        for value in values {
            let Bucket { first, width } = bucket::<BITS>(index::<BITS>(value));
            assert!((first..first + width).contains(&value), "{value} is not in {width} values from {first}");
            assert!(width == 1 || width <= value >> BITS, "{value} is in a bucket of {width}");
        }
        for number in 1..=index::<BITS>(1 << 20) {
            assert_eq!(
                bucket::<BITS>(number).first,
                bucket::<BITS>(number - 1).last() + 1,
                "every value has one bucket"
            );
        }
    }

    #[test]
    fn every_value_has_one_bucket_that_is_narrow_enough() {
        check_layout::<5>();
        check_layout::<6>();
        check_layout::<7>();
    }

    #[test]
    fn nothing_counted_has_no_quantile() {
        assert_eq!(Buckets::<6>::default().quantile(0.5), None);
    }

    #[test]
    fn what_cannot_have_been_written_is_refused() {
        for text in ["[[100000,1]]", "[[1,18446744073709551615],[2,1]]", "[[1]]", "7"] {
            assert!(serde_json::from_str::<Buckets<6>>(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn parts_merge_to_the_whole_and_survive_writing(values in prop::collection::vec(0..10_000_000_u64, 1..200), cut in 0..200_usize) {
            let (mut whole, mut first, mut second) = <(Buckets<6>, Buckets<6>, Buckets<6>)>::default();
            for (place, value) in values.iter().enumerate() {
                whole.add(*value);
                if place < cut { first.add(*value) } else { second.add(*value) }
            }
            first.merge(&second);
            let mut sorted = values.clone();
            sorted.sort_unstable();
            for share in [0.0, 0.5, 0.95, 0.99, 1.0] {
                prop_assert_eq!(first.quantile(share), whole.quantile(share));
                let rank = ((values.len() as f64 * share).ceil() as usize).clamp(1, values.len());
                let Bucket { first, width } = whole.quantile(share).expect("samples");
                prop_assert!((first..first + width).contains(&sorted[rank - 1]), "{share}: {first}, {width}");
            }
            let text = serde_json::to_string(&whole).expect("plain numbers");
            let read: Buckets<6> = serde_json::from_str(&text).expect("its own writing");
            prop_assert_eq!(read.iter().collect::<Vec<_>>(), whole.iter().collect::<Vec<_>>());
        }
    }
}
