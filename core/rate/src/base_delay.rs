//! Queueing delay: one-way delay above its recent minimum.
//!
//! One-way delay includes the unknown offset of the two clocks. The difference does not.

use nearlight_units::{Span, Time};

/// Remembers the lowest delay over the last one to two intervals of fixed length.
#[derive(Clone, Debug)]
pub struct BaseDelay {
    interval: Span,
    /// The lowest delays of the last full interval and of the current one, with the time at which the current one began.
    before: Option<Span>,
    lowest: Option<Span>,
    since: Time,
}

impl BaseDelay {
    #[must_use]
    pub fn new(interval: Span) -> Self {
        Self { interval, before: None, lowest: None, since: Time::ZERO }
    }

    /// Records a packet's one-way delay. Returns its excess over the base delay.
    pub fn on_delay(&mut self, now: Time, delay: Span) -> Span {
        if now.saturating_since(self.since) > self.interval {
            self.before = self.lowest.take();
            self.since = now;
        }
        let lowest = self.lowest.map_or(delay, |lowest| lowest.min(delay));
        self.lowest = Some(lowest);
        delay - self.before.map_or(lowest, |before| before.min(lowest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_delay_is_remembered_for_one_to_two_stretches() {
        let mut base = BaseDelay::new(Span::from_secs(10));
        // The receiver's clock is an hour behind.
        let mut above = |second: u64, millis: i64| {
            let delay = Span::from_millis(millis) - Span::from_secs(3_600);
            base.on_delay(Time::from_secs(second), delay).as_micros() / 1_000
        };
        assert_eq!([above(11, 30), above(12, 20), above(13, 50)], [0, 0, 30]);
        assert_eq!([above(25, 50), above(30, 60)], [30, 40], "the interval before still counts");
        assert_eq!([above(36, 60), above(37, 55)], [10, 5]);
    }
}
