//! Detects an application-limited region (ALR): the application sends less than it may, so arrivals do not show the capacity.

use nearlight_units::{Bitrate, Bytes, Span, Time};

/// Sending below this share of the estimate is application-limited (libwebrtc `bandwidth_usage_ratio`).
const USAGE_RATIO: f64 = 0.65;
/// Unused share of the budget at which the region begins and ends (libwebrtc `start_`/`stop_budget_level_ratio`).
const START_BUDGET_LEVEL: f64 = 0.80;
const STOP_BUDGET_LEVEL: f64 = 0.50;
/// The budget's length (libwebrtc `kWindowMs` of `IntervalBudget`).
const WINDOW: Span = Span::from_millis(500);

/// Watches a budget that fills at 65 % of the estimate and empties with what is sent: libwebrtc `AlrDetector`.
#[derive(Clone, Debug)]
pub struct AlrDetector {
    refill: Bitrate,
    /// The budget in bits, between plus and minus one window at the estimate.
    budget: f64,
    last_sent: Option<Time>,
    since: Option<Time>,
    ended: Option<Time>,
}

impl AlrDetector {
    #[must_use]
    pub fn new(estimate: Bitrate) -> Self {
        Self { refill: estimate.mul_f64(USAGE_RATIO), budget: 0.0, last_sent: None, since: None, ended: None }
    }

    pub fn set_estimate(&mut self, estimate: Bitrate) {
        self.refill = estimate.mul_f64(USAGE_RATIO);
        self.budget = self.budget.clamp(-self.window(), self.window());
    }

    pub fn on_sent(&mut self, now: Time, size: Bytes) {
        let passed = now.saturating_since(self.last_sent.unwrap_or(now));
        self.last_sent = self.last_sent.max(Some(now));
        let window = self.window();
        let spent = (self.budget - size.bits() as f64).max(-window);
        self.budget = (spent + self.refill.as_bps() as f64 * passed.as_secs_f64()).min(window);
        let share = if window > 0.0 { self.budget / window } else { 0.0 };
        if self.since.is_none() && share > START_BUDGET_LEVEL {
            self.since = Some(now);
        } else if self.since.is_some() && share < STOP_BUDGET_LEVEL {
            self.since = None;
            self.ended = Some(now);
        }
    }

    /// When the current application-limited region began, if the application limits the rate now.
    #[must_use]
    pub fn since(&self) -> Option<Time> {
        self.since
    }

    /// When the last application-limited region ended.
    #[must_use]
    pub fn ended(&self) -> Option<Time> {
        self.ended
    }

    fn window(&self) -> f64 {
        self.refill.as_bps() as f64 * WINDOW.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends for a second at a share of an estimate of 10 Mb/s, in packets of 1,250 bytes.
    fn send(detector: &mut AlrDetector, from: u64, percent: u64) {
        let gap = 100_000 / percent;
        for number in 0..1_000_000 / gap {
            detector.on_sent(Time::from_secs(from) + Span::from_micros((number * gap) as i64), Bytes::new(1_250));
        }
    }

    #[test]
    fn begins_below_65_percent_and_ends_above() {
        let cases = [(10, true), (40, true), (63, false), (70, false), (100, false)];
        for (percent, limited) in cases {
            let mut detector = AlrDetector::new(Bitrate::from_mbps(10));
            send(&mut detector, 0, percent);
            send(&mut detector, 1, percent);
            assert_eq!(detector.since().is_some(), limited, "{percent} %");
        }
        let mut detector = AlrDetector::new(Bitrate::from_mbps(10));
        send(&mut detector, 0, 10);
        send(&mut detector, 1, 100);
        assert!(detector.since().is_none());
        assert!(detector.ended().is_some_and(|ended| ended < Time::from_secs(2)));
    }
}
