//! How late packets leave: a histogram of fixed size.

use nearlight_units::Span;
use serde::Serialize;

/// Buckets to a doubling: quantiles are right to 3 %.
const STEPS: u64 = 32;
const DOUBLINGS: u64 = 40;

/// Times between when packets should have left and when they had left.
#[derive(Clone, Debug)]
pub struct Lateness {
    buckets: Vec<u64>,
    count: u64,
    longest: u64,
}

/// A [`Lateness`] in three numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatenessSummary {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { buckets: vec![0; (STEPS * DOUBLINGS) as usize], count: 0, longest: 0 }
    }
}

impl Lateness {
    #[inline]
    pub fn record(&mut self, late: Span) {
        let nanos = u64::try_from(late.as_nanos()).unwrap_or(0);
        let last = self.buckets.len() - 1;
        self.buckets[bucket(nanos).min(last)] += 1;
        self.count += 1;
        self.longest = self.longest.max(nanos);
    }

    /// The time that this share (0 to 1) of the packets did not exceed; zero before the first packet.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Span {
        let wanted = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Span::from_nanos(highest(index).min(self.longest) as i64);
            }
        }
        Span::ZERO
    }

    #[must_use]
    pub fn longest(&self) -> Span {
        Span::from_nanos(self.longest as i64)
    }

    /// In microseconds.
    pub(crate) fn summary(&self) -> LatenessSummary {
        let micros = |span: Span| (span.as_nanos() / 100) as f64 / 10.0;
        LatenessSummary {
            p50: micros(self.quantile(0.50)),
            p99: micros(self.quantile(0.99)),
            max: micros(self.longest()),
        }
    }
}

/// Even steps up to `STEPS`, then as many to each doubling.
fn bucket(nanos: u64) -> usize {
    let doublings = (nanos / STEPS + 1).ilog2();
    let base = (STEPS << doublings) - STEPS;
    (u64::from(doublings) * STEPS + ((nanos - base) >> doublings)) as usize
}

/// The largest number that falls into the bucket.
fn highest(index: usize) -> u64 {
    let (doublings, step) = (index as u64 / STEPS, index as u64 % STEPS);
    ((STEPS << doublings) - STEPS) + ((step + 1) << doublings) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_every_number_once() {
        for nanos in (0..5_000).chain([1_000_000, 123_456_789, 99_999_999_999]) {
            let index = bucket(nanos);
            assert!(nanos <= highest(index), "{nanos}");
            assert!(index == 0 || nanos > highest(index - 1), "{nanos}");
            assert!((highest(index) - nanos) as f64 <= nanos as f64 * 0.033, "{nanos} is in a narrow bucket");
        }
    }

    #[test]
    fn quantiles_are_the_ranks() {
        let mut late = Lateness::default();
        assert_eq!(late.quantile(0.5), Span::ZERO);
        (1..=1_000).for_each(|micros| late.record(Span::from_micros(micros)));
        for (share, micros) in [(0.001, 1), (0.5, 500), (0.99, 990), (1.0, 1_000)] {
            let found = late.quantile(share).as_nanos() as f64 / 1_000.0;
            assert!((found / f64::from(micros) - 1.0).abs() < 0.033, "{share}: {found}");
        }
        assert_eq!(late.longest(), Span::from_millis(1));
        late.record(Span::from_secs(3_600));
        assert_eq!(late.quantile(1.0), Span::from_secs(3_600));
        late.record(Span::from_nanos(-5));
    }
}
