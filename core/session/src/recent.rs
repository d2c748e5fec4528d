//! The mean rate over the last second, in constant memory.

use std::collections::VecDeque;

use nearlight_units::{Bitrate, Bytes, Span, Time};

const WINDOW: Span = Span::from_secs(1);
/// Bytes within this span share an entry, so there are a hundred entries however many packets there are.
const BIN: Span = Span::from_millis(10);
/// Interval at which sums are reported: fine enough for a time series, and few among a frame's other events.
const REPORT_INTERVAL: Span = Span::from_millis(100);

#[derive(Debug, Default)]
pub(crate) struct RecentRate {
    bins: VecDeque<(Time, Bytes)>,
    reported_at: Option<Time>,
}

impl RecentRate {
    pub(crate) fn on_bytes(&mut self, now: Time, size: Bytes) {
        match self.bins.back_mut() {
            Some((start, sum)) if now - *start < BIN => *sum += size,
            _ => self.bins.push_back((now, size)),
        }
        while self.bins.front().is_some_and(|(start, _)| now - *start >= WINDOW) {
            self.bins.pop_front();
        }
    }

    /// Whether the sum is due to be reported. Call it with each datagram.
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        let due = self.reported_at.is_none_or(|at| now - at >= REPORT_INTERVAL);
        if due {
            self.reported_at = Some(now);
        }
        due
    }

    pub(crate) fn rate(&self, now: Time) -> Bitrate {
        let recent = self.bins.iter().filter(|(start, _)| now - *start < WINDOW);
        recent.map(|(_, size)| *size).sum::<Bytes>().over(WINDOW)
    }
}
