//! The mean number of packets between losses: TFRC's weighted average of intervals (RFC 5348 section 5.4).
//!
//! Only complete intervals count, including the one before the first loss. TFRC also counts the open one when that makes the average
//! longer. NADA waits for seven average intervals without loss; with a sixth of the open one in the average it would wait for ever.

use std::collections::VecDeque;

use nearlight_units::{Span, Time};

/// Weights of the newest complete interval and of those before it (RFC 5348).
const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

/// Counts packets between loss events. Losses within a round trip are one event.
#[derive(Clone, Debug, Default)]
pub struct LossIntervals {
    /// Complete intervals in packets, newest first.
    complete: VecDeque<f64>,
    /// Packets since the last event began.
    since: u64,
    /// When the first lost packet of the last event was sent.
    event: Option<Time>,
}

impl LossIntervals {
    /// Handles a packet that is known to have arrived or to be missing.
    pub fn on_packet(&mut self, sent_at: Time, lost: bool, round_trip: Span) {
        self.since = self.since.saturating_add(1);
        let new_event = self.event.is_none_or(|event| sent_at > event + round_trip);
        if !lost || !new_event {
            return;
        }
        if self.complete.len() == WEIGHTS.len() {
            self.complete.pop_back();
        }
        self.complete.push_front(self.since as f64);
        self.event = Some(sent_at);
        self.since = 0;
    }

    /// Packets since the last loss event, if there was one.
    #[must_use]
    pub fn since(&self) -> Option<u64> {
        self.event.map(|_| self.since)
    }

    /// The average interval in packets, once there was a loss.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let (mut sum, mut weights) = (0.0, 0.0);
        for (interval, weight) in self.complete.iter().zip(WEIGHTS) {
            sum += interval * weight;
            weights += weight;
        }
        (weights > 0.0).then(|| sum / weights)
    }

    /// Number of intervals in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.complete.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies a packet each millisecond, of which these numbers are lost.
    fn after(packets: u64, lost: &[u64]) -> LossIntervals {
        let mut intervals = LossIntervals::default();
        for number in 0..packets {
            intervals.on_packet(Time::from_millis(number), lost.contains(&number), Span::from_millis(20));
        }
        intervals
    }

    #[test]
    fn regular_losses_have_their_distance_as_mean() {
        let lost: Vec<u64> = (1..=20).map(|number| number * 100).collect();
        let intervals = after(2_001, &lost);
        assert!((intervals.mean().expect("losses") - 100.0).abs() < 1e-9);
        assert_eq!((intervals.since(), intervals.held()), (Some(0), 8));
    }

    #[test]
    fn losses_within_a_round_trip_are_one_event() {
        let two = after(301, &[100, 105, 119, 300]).mean().expect("losses");
        assert!((two - f64::midpoint(200.0, 101.0)).abs() < 1e-9);
        let three = after(301, &[100, 121, 300]).mean().expect("losses");
        assert!((three - (179.0 + 21.0 + 101.0) / 3.0).abs() < 1e-9);
    }

    #[test]
    fn older_intervals_weigh_less() {
        let mut intervals = LossIntervals::default();
        intervals.complete.extend([10.0, 10.0, 10.0, 10.0, 20.0, 20.0, 20.0, 20.0]);
        assert!((intervals.mean().expect("losses") - (40.0 + 20.0 * 2.0) / 6.0).abs() < 1e-9);
        assert_eq!(LossIntervals::default().mean(), None);
    }
}
