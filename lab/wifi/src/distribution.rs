//! A compact distribution of delays: exact count, mean and extremes, quantiles to within 0.4 %.

use nearlight_units::{Bucket, Buckets, Span};
use serde::{Deserialize, Serialize};

/// Recorded delays.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Distribution {
    counts: Buckets<7>,
    sum: u128,
    longest: u64,
}

/// A distribution as reports print it, in milliseconds; zeros without samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DelaySummary {
    pub count: u64,
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub p9999: f64,
    pub max: f64,
}

impl Distribution {
    /// Records a delay; a negative one counts as zero.
    #[inline]
    pub fn add(&mut self, delay: Span) {
        let nanos = delay.as_nanos().max(0) as u64;
        self.counts.add(nanos);
        self.sum += u128::from(nanos);
        self.longest = self.longest.max(nanos);
    }

    /// Adds all samples of another distribution.
    pub fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        self.sum += other.sum;
        self.longest = self.longest.max(other.longest);
    }

    /// Iterates over the recorded delays, within 0.4 %, and their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Span, u64)> + '_ {
        self.counts.iter().map(|(bucket, count)| (Span::from_nanos(middle(bucket) as i64), count))
    }

    /// Returns the exact sum of all delays.
    pub fn sum(&self) -> Span {
        Span::from_nanos(i64::try_from(self.sum).unwrap_or(i64::MAX))
    }

    pub fn count(&self) -> u64 {
        self.counts.count()
    }

    pub fn mean(&self) -> Span {
        let mean = self.sum / u128::from(self.count().max(1));
        Span::from_nanos(mean as i64)
    }

    /// Returns the delay that a `share` of all delays, from 0 to 1, does not exceed.
    pub fn quantile(&self, share: f64) -> Span {
        let found = self.counts.quantile(share.clamp(0.0, 1.0));
        found.map_or(Span::ZERO, |bucket| Span::from_nanos(middle(bucket).min(self.longest) as i64))
    }

    /// Returns the cumulative distribution in milliseconds: points where it rises by a thousandth or more, and all points of the last thousandth.
    pub fn curve(&self) -> Vec<(f64, f64)> {
        let mut curve: Vec<(f64, f64)> = Vec::new();
        let mut seen = 0;
        for (bucket, count) in self.counts.iter() {
            seen += count;
            let share = seen as f64 / self.count() as f64;
            let drawn = curve.last().map_or(0.0, |point| point.1);
            if share - drawn >= 0.001 || share > 0.999 {
                curve.push((Span::from_nanos(middle(bucket) as i64).as_millis_f64(), share));
            }
        }
        curve
    }

    pub fn summary(&self) -> DelaySummary {
        let at = |share| self.quantile(share).as_millis_f64();
        DelaySummary {
            count: self.count(),
            mean: self.sum as f64 / self.count().max(1) as f64 / 1e6,
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p9999: at(0.9999),
            max: self.longest as f64 / 1e6,
        }
    }
}

fn middle(bucket: Bucket) -> u64 {
    bucket.first + bucket.width / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_one_says_zero() {
        assert_eq!(Distribution::default().summary(), DelaySummary::default());
        assert!(Distribution::default().curve().is_empty());
    }

    proptest! {
        #[test]
        fn quantiles_are_within_half_a_percent_of_the_sorted_values(
            mut values in prop::collection::vec(0..10_000_000_000_i64, 1..300),
            share in 0.0..=1.0_f64,
        ) {
            let mut halves = [Distribution::default(), Distribution::default()];
            for (index, value) in values.iter().enumerate() {
                halves[index % 2].add(Span::from_nanos(*value));
            }
            let [mut all, other] = halves;
            all.merge(&other);
            values.sort_unstable();
            let rank = ((share * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1];
            let answer = all.quantile(share).as_nanos();
            prop_assert!((answer - exact).abs() <= exact / 200 + 1, "{answer} instead of {exact}");
            let mean = values.iter().map(|value| i128::from(*value)).sum::<i128>() / values.len() as i128;
            prop_assert_eq!(i128::from(all.mean().as_nanos()), mean);
            let curve = all.curve();
            prop_assert!(curve.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
            let &(last, share) = curve.last().expect("at least one value");
            let longest = values[values.len() - 1] as f64 / 1e6;
            prop_assert!(share >= 1.0 && (last - longest).abs() <= last / 200.0 + 1e-6);
        }
    }
}
