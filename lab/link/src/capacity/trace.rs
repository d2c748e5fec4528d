//! Mahimahi's traces: the moments at which a link may send.

use std::sync::Arc;

use nearlight_units::{Bitrate, Bytes, Span, Time};

/// Capacity of one opportunity: an IP packet of 1,500 bytes plus the four bytes that a TUN device prepends.
/// (mahimahi, `src/frontend/link_queue.hh`, `PACKET_SIZE`)
pub(crate) const OPPORTUNITY: Bytes = Bytes::new(1_504);

/// Bytes that Mahimahi counts for each packet in addition to its IP length: the TUN device's header.
pub(crate) const HEADER: Bytes = Bytes::new(4);

/// The window over which the capacity around a moment is averaged. RFC 8868 section 3.1 logs rates per 200 ms.
const AVERAGING_WINDOW_MS: u64 = 100;

/// Delivery opportunities in whole milliseconds, repeated after the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Ascending, none after the period. Millisecond 0 belongs to the first round only: later ones start on the last one's end.
    opportunities: Arc<[u32]>,
    /// In milliseconds, above 0.
    period: u32,
}

impl Trace {
    /// Returns a trace. None if the list is empty, descends somewhere, or has no duration.
    #[must_use]
    pub fn new(opportunities: impl Into<Arc<[u32]>>) -> Option<Self> {
        let opportunities = opportunities.into();
        let period = opportunities.last().copied().filter(|last| *last > 0)?;
        opportunities.is_sorted().then_some(Self { opportunities, period })
    }

    /// Returns the trace from `offset` on, in whole milliseconds. The part before it is appended at the end.
    #[must_use]
    pub fn starting_at(&self, offset: Span) -> Self {
        let offset = (offset.max(Span::ZERO).as_nanos() as u64 / 1_000_000 % self.period()) as u32;
        let (before, after) = self.opportunities.split_at(self.opportunities.partition_point(|at| *at < offset));
        let (first, last) = (after.iter().map(|at| at - offset), before.iter().map(|at| at + (self.period - offset)));
        Self { opportunities: first.chain(last).collect(), period: self.period }
    }

    fn period(&self) -> u64 {
        u64::from(self.period)
    }

    /// The time after which it repeats.
    #[must_use]
    pub fn length(&self) -> Span {
        Span::from_millis(self.period() as i64)
    }

    /// The mean of its opportunities, 1,500 bytes each.
    #[must_use]
    pub fn mean(&self) -> Bitrate {
        Bytes::new(self.opportunities.len() as u64 * 1_500).over(self.length())
    }

    /// Opportunities up to and including millisecond `now`.
    fn count(&self, now: u64) -> u64 {
        let period = self.period();
        let into = self.opportunities.partition_point(|at| u64::from(*at) <= now % period);
        now / period * self.opportunities.len() as u64 + into as u64
    }

    /// The mean over the 200 ms around `now`.
    #[must_use]
    pub fn around(&self, now: Time) -> Bitrate {
        let now = now.as_micros() / 1_000;
        let (from, to) = (now.saturating_sub(AVERAGING_WINDOW_MS), now + AVERAGING_WINDOW_MS);
        let bytes = Bytes::new((self.count(to) - self.count(from)) * 1_500);
        bytes.over(Span::from_millis((to - from) as i64))
    }
}

/// A [`Trace`] read forwards.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub(crate) trace: Trace,
    next: usize,
    /// Where the current round began, in milliseconds.
    base: u64,
    /// The factor applied to an opportunity's bytes.
    pub(crate) scale: f64,
    /// Bytes of one opportunity.
    pub(crate) budget: Bytes,
}

impl Reader {
    pub(crate) fn new(trace: Trace, scale: f64) -> Self {
        let budget = Bytes::new((OPPORTUNITY.get() as f64 * scale).round().max(1.0) as u64);
        Self { trace, next: 0, base: 0, scale, budget }
    }

    #[inline]
    pub(crate) fn next_at(&self) -> Time {
        Time::from_millis(self.base.saturating_add(u64::from(self.trace.opportunities[self.next])))
    }

    #[inline]
    pub(crate) fn advance(&mut self) {
        self.next += 1;
        if self.next == self.trace.opportunities.len() {
            self.next = 0;
            self.base = self.base.saturating_add(self.trace.period());
        }
    }

    /// Lets every opportunity up to and including `now` pass unused.
    pub(crate) fn skip(&mut self, now: Time) {
        if self.next_at() > now {
            return;
        }
        let (now, period) = (now.as_nanos() / 1_000_000, self.trace.period());
        // Whole rounds first, however long the link was idle; the end of one round and the start of the next coincide.
        let rounds = (now - self.base).saturating_sub(1) / period;
        if rounds > 0 {
            self.base += rounds * period;
            self.next = 0;
        }
        while self.next_at() <= Time::from_millis(now) {
            self.advance();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_goes_round_like_mahimahi() {
        let mut reader = Reader::new(Trace::new([0, 3, 3, 10]).unwrap(), 1.0);
        let times: Vec<u64> = std::iter::repeat_with(|| {
            let at = reader.next_at();
            reader.advance();
            at.as_micros() / 1_000
        })
        .take(9)
        .collect();
        // The base moves on by the last timestamp, so that the 0 of the second round falls on the 10 of the first.
        assert_eq!(times, [0, 3, 3, 10, 10, 13, 13, 20, 20]);
    }

    #[test]
    fn a_trace_that_starts_later_has_the_same_opportunities_and_wraps_round() {
        let whole = Trace::new([0, 3, 3, 10]).unwrap();
        let times = |trace: &Trace| {
            let mut reader = Reader::new(trace.clone(), 1.0);
            std::iter::repeat_with(move || {
                let at = reader.next_at();
                reader.advance();
                at.as_micros() / 1_000
            })
        };
        for offset in 0..25_u64 {
            let trace = whole.starting_at(Span::from_millis(offset as i64));
            let expected: Vec<u64> =
                times(&whole).filter(|at| *at >= offset % 10).map(|at| at - offset % 10).take(50).collect();
            assert_eq!(times(&trace).take(50).collect::<Vec<_>>(), expected, "from {offset} ms on");
            assert_eq!((trace.length(), trace.mean()), (whole.length(), whole.mean()));
            for now in [0, 1, 2, 3, 9, 10, 11, 57] {
                let mut skipped = Reader::new(trace.clone(), 1.0);
                skipped.skip(Time::from_millis(now));
                let next = expected.iter().find(|at| **at > now).copied();
                assert_eq!(Some(skipped.next_at()), next.map(Time::from_millis), "{now} ms after {offset} ms");
            }
        }
    }

    #[test]
    fn skipping_is_the_same_as_stepping() {
        for now in [0, 1, 2, 3, 9, 10, 11, 12, 13, 19, 20, 21, 137, 1_000_000, 1_000_003] {
            let now = Time::from_millis(now);
            let mut stepped = Reader::new(Trace::new([0, 3, 3, 10]).unwrap(), 1.0);
            let mut skipped = stepped.clone();
            while stepped.next_at() <= now {
                stepped.advance();
            }
            skipped.skip(now);
            assert_eq!((stepped.next, stepped.base), (skipped.next, skipped.base), "{now:?}");
        }
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        for wrong in [vec![], vec![0], vec![0, 0], vec![5, 4]] {
            assert_eq!(Trace::new(wrong), None);
        }
    }

    #[test]
    fn capacity_is_averaged_around_a_moment() {
        let trace = Trace::new((1..=1_000).collect::<Vec<u32>>()).unwrap();
        assert_eq!(trace.mean(), Bitrate::from_mbps(12));
        for now in [500, 1_000, 77_777] {
            assert_eq!(trace.around(Time::from_millis(now)), Bitrate::from_mbps(12), "at {now} ms");
        }
    }
}
