//! How late packets leave: a histogram of fixed size.

use nearlight_units::{Bucket, Buckets, Span};
use serde::Serialize;

/// Durations: how late packets left, how long they were in flight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Quantiles are accurate to 3 %.
    counts: Buckets<5>,
    longest: u64,
}

/// A [`Lateness`] in three numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatenessSummary {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

impl Lateness {
    #[inline]
    pub fn record(&mut self, late: Span) {
        let nanos = u64::try_from(late.as_nanos()).unwrap_or(0);
        self.counts.add(nanos);
        self.longest = self.longest.max(nanos);
    }

    /// Iterates over what was recorded since `earlier`, an earlier state: the middle and the count of each bucket that is not empty.
    pub fn since<'a>(&'a self, earlier: &'a Self) -> impl Iterator<Item = (Span, u64)> + 'a {
        let mut before = earlier.counts.iter().peekable();
        self.counts.iter().filter_map(move |(bucket, count)| {
            let had = before.next_if(|(other, _)| *other == bucket).map_or(0, |(_, count)| count);
            (count > had).then(|| (Span::from_nanos(bucket.middle() as i64), count - had))
        })
    }

    /// The time that this share (0 to 1) of the packets did not exceed; zero before the first packet.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Span {
        let last = self.counts.quantile(share).map_or(0, Bucket::last);
        Span::from_nanos(last.min(self.longest) as i64)
    }

    #[must_use]
    pub fn longest(&self) -> Span {
        Span::from_nanos(self.longest as i64)
    }

    /// Returns a summary in microseconds.
    pub(crate) fn summary(&self) -> LatenessSummary {
        let micros = |span: Span| (span.as_nanos() / 100) as f64 / 10.0;
        LatenessSummary {
            p50: micros(self.quantile(0.50)),
            p99: micros(self.quantile(0.99)),
            max: micros(self.longest()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
