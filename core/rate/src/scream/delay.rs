//! Queueing delay: its average, its jitter, and drift of its base.

use nearlight_units::{Span, Time};

use crate::base_delay::BaseDelay;

/// Averages are updated at least this often, or once a round trip (`VIRTUAL_RTT`).
pub const VIRTUAL_ROUND_TRIP: Span = Span::from_millis(25);
/// Weight of a delay that grows (`QDELAY_AVG_G`). A falling delay is adopted at once.
const WEIGHT: f64 = 0.25;
/// Weights of an interval's highest and lowest delay, and of the difference of their averages.
const EXTREME_WEIGHT: f64 = 1.0 / 16.0;
const DEVIATION_WEIGHT: f64 = 1.0 / 32.0;
/// The deviation in seconds at which the scale reaches zero.
const MAX_DEVIATION: f64 = 0.010;
/// The base delay is forgotten after this time (LEDBAT, RFC 6817: ten minutes).
const BASE_MEMORY: Span = Span::from_secs(300);
/// Weight of a growing delay in the slow minimum: 10 s at an update each 50 ms. A falling delay is adopted at once.
const SLOW_WEIGHT: f64 = 0.005;
const SLOW_INTERVAL: Span = Span::from_millis(50);

/// Tracks one-way delay.
#[derive(Clone, Debug)]
pub struct QueueDelay {
    base: BaseDelay,
    latest: Span,
    average: f64,
    updated_at: Option<Time>,
    /// The highest and lowest delay in the current interval.
    highest: Span,
    lowest: Span,
    highest_average: f64,
    lowest_average: f64,
    deviation: f64,
    slow_lowest: f64,
    slow_stretch: Span,
    slow_at: Option<Time>,
}

impl Default for QueueDelay {
    fn default() -> Self {
        Self {
            base: BaseDelay::new(BASE_MEMORY),
            latest: Span::ZERO,
            average: 0.0,
            updated_at: None,
            highest: Span::ZERO,
            lowest: Span::MAX,
            highest_average: 0.0,
            lowest_average: 0.0,
            deviation: 0.0,
            slow_lowest: 0.0,
            slow_stretch: Span::MAX,
            slow_at: None,
        }
    }
}

impl QueueDelay {
    /// Records a packet's one-way delay, clock offset included.
    pub fn on_packet(&mut self, now: Time, one_way: Span) {
        self.latest = self.base.on_delay(now, one_way);
        self.highest = self.highest.max(self.latest);
        self.lowest = self.lowest.min(self.latest);
        self.slow_stretch = self.slow_stretch.min(self.latest);
    }

    /// Handles the end of a feedback message.
    pub fn on_feedback(&mut self, now: Time, round_trip: Span) {
        let since = now.saturating_since(*self.updated_at.get_or_insert(now));
        if since >= round_trip.min(VIRTUAL_ROUND_TRIP) && self.lowest != Span::MAX {
            self.updated_at = Some(now);
            self.update();
        }
        let since = now.saturating_since(*self.slow_at.get_or_insert(now));
        if since >= SLOW_INTERVAL && self.slow_stretch != Span::MAX {
            self.slow_at = Some(now);
            let lowest = std::mem::replace(&mut self.slow_stretch, Span::MAX).as_secs_f64();
            let grown = self.slow_lowest + SLOW_WEIGHT * (lowest - self.slow_lowest);
            self.slow_lowest = grown.min(lowest);
        }
    }

    /// Forgets the base delay, which is then measured anew.
    pub fn forget_base(&mut self) {
        *self = Self { deviation: self.deviation, ..Self::default() };
    }

    /// The newest packet's queueing delay (`qdelay`).
    #[must_use]
    pub fn latest(&self) -> Span {
        self.latest
    }

    /// The average queueing delay (`qdelay_avg`).
    #[must_use]
    pub fn average(&self) -> Span {
        Span::from_secs_f64(self.average)
    }

    /// The lowest delay over about 10 s: a queue that never empties, or clocks that drift.
    #[must_use]
    pub fn slow_lowest(&self) -> Span {
        Span::from_secs_f64(self.slow_lowest)
    }

    /// Steadiness of the delay, from 1 for no jitter to 0.
    #[must_use]
    pub fn steadiness(&self) -> f64 {
        (1.0 - self.deviation / MAX_DEVIATION).clamp(0.0, 1.0)
    }

    fn update(&mut self) {
        let latest = self.latest.as_secs_f64();
        let grown = self.average + WEIGHT * (latest - self.average);
        self.average = if latest < self.average { latest } else { grown };
        let highest = std::mem::replace(&mut self.highest, Span::ZERO).as_secs_f64();
        let lowest = std::mem::replace(&mut self.lowest, Span::MAX).as_secs_f64();
        self.highest_average += EXTREME_WEIGHT * (highest - self.highest_average);
        self.lowest_average += EXTREME_WEIGHT * (lowest - self.lowest_average);
        let deviation = self.highest_average - self.lowest_average;
        self.deviation += DEVIATION_WEIGHT * (deviation - self.deviation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies a message every 30 ms with two packets of these delays in milliseconds.
    fn feed(delay: &mut QueueDelay, from: u64, pairs: &[(i64, i64)]) {
        for (number, &(first, second)) in pairs.iter().enumerate() {
            let now = Time::from_millis(from + 30 * (number as u64 + 1));
            delay.on_packet(now, Span::from_millis(first));
            delay.on_packet(now, Span::from_millis(second));
            delay.on_feedback(now, Span::from_millis(40));
        }
    }

    #[test]
    fn the_average_rises_by_a_quarter_and_falls_at_once() {
        let mut delay = QueueDelay::default();
        feed(&mut delay, 0, &[(10, 10), (10, 10), (50, 50)]);
        assert_eq!(delay.average(), Span::from_millis(10), "a quarter of 40 ms");
        feed(&mut delay, 90, &[(50, 50)]);
        assert_eq!(delay.average(), Span::from_micros(17_500));
        feed(&mut delay, 120, &[(50, 12)]);
        assert_eq!((delay.average(), delay.latest()), (Span::from_millis(2), Span::from_millis(2)));
    }

    #[test]
    fn steadiness_is_what_the_spread_leaves_of_10_ms() {
        for (spread, expected) in [(0, 1.0), (4, 0.6), (10, 0.0), (50, 0.0)] {
            let mut delay = QueueDelay::default();
            feed(&mut delay, 0, &[(10, 10 + spread); 600]);
            assert!((delay.steadiness() - expected).abs() < 1e-6, "{spread} ms: {}", delay.steadiness());
        }
    }

    #[test]
    fn a_base_that_drifts_shows_in_the_slow_minimum_until_it_is_forgotten() {
        let mut delay = QueueDelay::default();
        feed(&mut delay, 0, &[(10, 10)]);
        feed(&mut delay, 30, &[(40, 50); 1_000]);
        let expected = 30.0 * (1.0 - 0.995_f64.powi(499));
        assert!((delay.slow_lowest().as_millis_f64() - expected).abs() < 0.5, "{}", delay.slow_lowest());
        feed(&mut delay, 31_000, &[(10, 11)]);
        feed(&mut delay, 31_030, &[(10, 11)]);
        assert_eq!(delay.slow_lowest(), Span::ZERO);
        delay.forget_base();
        feed(&mut delay, 40_000, &[(40, 40)]);
        assert_eq!(delay.latest(), Span::ZERO);
    }
}
