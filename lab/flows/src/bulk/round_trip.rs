//! Smoothed round trips and the retransmission time-out (RFC 6298).

use nearlight_units::{Span, smoothed, smoothed_deviation};

/// Timeout before the first round trip (section 2, rule 2.1).
const INITIAL_TIMEOUT: Span = Span::from_secs(1);
/// Least margin of the timeout above the smoothed round trip (Linux, `TCP_RTO_MIN`; RFC 6298 says 1 s in all).
const MIN_TIMEOUT_MARGIN: Span = Span::from_millis(200);
/// The longest time-out, back-off included (section 2, rule 2.5).
const MAX_TIMEOUT: Span = Span::from_secs(60);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    smoothed: Option<Span>, // SRTT
    variation: Span,        // RTTVAR
    lowest: Option<Span>,
    backoff: u32,
}

impl RoundTrip {
    pub(super) fn on_sample(&mut self, sample: Span) {
        let sample = sample.max(Span::from_nanos(1));
        self.lowest = Some(self.lowest.map_or(sample, |lowest| lowest.min(sample)));
        self.variation = self.smoothed.map_or(sample / 2, |mean| smoothed_deviation(self.variation, mean, sample));
        self.smoothed = Some(smoothed(self.smoothed, sample));
    }

    pub(super) fn smoothed(&self) -> Option<Span> {
        self.smoothed
    }

    pub(super) fn lowest(&self) -> Option<Span> {
        self.lowest
    }

    /// Returns the retransmission timeout, including back-off.
    pub(super) fn timeout(&self) -> Span {
        let single =
            self.smoothed.map_or(INITIAL_TIMEOUT, |smoothed| smoothed + (self.variation * 4).max(MIN_TIMEOUT_MARGIN));
        (single * (1 << self.backoff)).min(MAX_TIMEOUT)
    }

    pub(super) fn on_timeout(&mut self) {
        // 2^10 times the shortest time-out is beyond the longest.
        self.backoff = (self.backoff + 1).min(10);
    }

    pub(super) fn on_progress(&mut self) {
        self.backoff = 0;
    }

    /// Time-outs since the last progress.
    pub(super) fn backoff(&self) -> u32 {
        self.backoff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_s_arithmetic() {
        let mut round_trip = RoundTrip::default();
        assert_eq!(round_trip.timeout(), Span::from_secs(1));
        round_trip.on_sample(Span::from_millis(800));
        assert_eq!(round_trip.timeout(), Span::from_millis(800 + 4 * 400));
        round_trip.on_sample(Span::from_millis(1_600));
        // SRTT 800 + 800/8, RTTVAR 400 + (800 - 400)/4.
        assert_eq!(round_trip.timeout(), Span::from_millis(900 + 4 * 500));
        for _ in 0..200 {
            round_trip.on_sample(Span::from_millis(20));
        }
        assert!(round_trip.timeout() - Span::from_millis(220) < Span::from_millis(1), "{}", round_trip.timeout());
        for expected in [440, 880, 1_760] {
            round_trip.on_timeout();
            assert!((round_trip.timeout() - Span::from_millis(expected)).abs() < Span::from_millis(2));
        }
        for _ in 0..40 {
            round_trip.on_timeout();
        }
        assert_eq!(round_trip.timeout(), Span::from_secs(60));
        round_trip.on_progress();
        assert!(round_trip.timeout() < Span::from_millis(221));
    }
}
