//! Drains a long queue quickly after over-use.
//!
//! Not part of libwebrtc, which continues at 85 % of the capacity: a queue of 400 ms then lasts for almost 3 s, in which every frame is
//! late. Decides from one-way delay over its recent minimum, which includes the unknown offset of the clocks.

use nearlight_units::{Span, Time};

use crate::base_delay::BaseDelay;

/// Queueing delay above which a cut is followed by draining, and at which draining ends. Guess: three frames at 60 frames a second are
/// perceived as lag; below half a frame there is nothing left to gain.
const START_DELAY: Span = Span::from_millis(50);
const STOP_DELAY: Span = Span::from_millis(10);
/// The longest time of draining. Guess: at half the capacity this empties a queue of a second; a delay that remains is the path's own.
const MAX_DRAIN_TIME: Span = Span::from_secs(2);
/// The lowest delay is remembered for one to two of these intervals. Guess: long compared with a queue's life, short enough for clocks
/// that drift and paths that change.
const BASE_DELAY_INTERVAL: Span = Span::from_secs(5);

/// Decides when to send at half rate until the queue is gone.
#[derive(Clone, Debug)]
pub struct Drain {
    base: BaseDelay,
    active_since: Option<Time>,
}

impl Default for Drain {
    fn default() -> Self {
        Self { base: BaseDelay::new(BASE_DELAY_INTERVAL), active_since: None }
    }
}

impl Drain {
    /// The share of the rate that is sent while draining.
    pub const FACTOR: f64 = 0.5;

    /// Handles the lowest delay of a feedback message's packets. `cut` says whether over-use lowered the rate with this message.
    pub fn on_delay(&mut self, now: Time, delay: Span, cut: bool) {
        let standing = self.base.on_delay(now, delay);
        if cut && standing > START_DELAY {
            self.active_since.get_or_insert(now);
        }
        let over = self.active_since.is_some_and(|since| now.saturating_since(since) > MAX_DRAIN_TIME);
        if standing < STOP_DELAY || over {
            self.active_since = None;
        }
    }

    #[must_use]
    pub fn is_active(&self) -> bool {
        self.active_since.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies feedback every 20 ms from second `from` on, with these delays in milliseconds and a cut with the first.
    fn feed(drain: &mut Drain, from: u64, delays: &[i64]) -> Vec<bool> {
        let active = delays.iter().enumerate().map(|(number, &delay)| {
            let now = Time::from_millis(from * 1_000 + 20 * number as u64);
            // The receiver's clock is an hour behind.
            drain.on_delay(now, Span::from_millis(delay) - Span::from_secs(3_600), number == 0);
            drain.is_active()
        });
        active.collect()
    }

    #[test]
    fn drains_from_a_long_queue_down_to_a_short_one() {
        let mut drain = Drain::default();
        assert_eq!(feed(&mut drain, 0, &[10, 30]), [false, false]);
        assert_eq!(feed(&mut drain, 1, &[40, 90]), [false, false], "no cut with the long queue");
        assert_eq!(feed(&mut drain, 2, &[200, 150, 30, 19, 25]), [true, true, true, false, false]);
    }

    #[test]
    fn a_delay_that_stays_is_the_paths_own() {
        let mut drain = Drain::default();
        feed(&mut drain, 0, &[10]);
        let active = feed(&mut drain, 1, &[110; 150]);
        assert_eq!(active.iter().filter(|&&active| active).count(), 101, "2 s");
        feed(&mut drain, 7, &[110; 2]);
        feed(&mut drain, 13, &[110; 2]);
        assert_eq!(feed(&mut drain, 14, &[111]), [false], "the old path is forgotten");
    }
}
