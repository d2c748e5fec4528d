//! Beside others that yield to a queue as we do, such as our own kind: additive increase and multiplicative decrease, by the queue that
//! never empties within a frame interval.
//!
//! All flows see the same standing queue if their packets are spread over the frame interval, whatever the phases of their frames.
//! Steps of time and not of round trips make shares equal whose round trips are not.

use nearlight_units::{Span, Time};

/// A standing queue above this is too much. Guess: half a frame at 60 frames a second. With 5 ms, sessions with round trips of 20 and 80 ms
/// differ by a factor of two in `plans/default-fairness.toml`.
const TARGET: Span = Span::from_millis(8);
/// In bit/s per second. Guess: what two flows at 40 Mb/s give up together comes back within a second.
const INCREASE: f64 = 4e6;
/// Part of the rate that a queue at the target takes, and the most that any queue takes. Guess.
const CUT: f64 = 0.15;
const MOST_CUT: f64 = 0.5;
/// From one cut to the next, or a round trip. Guess: the queue shows what the cut before has done, for most round trips.
pub(super) const PAUSE: Span = Span::from_millis(100);
/// A frame's step of time is at most this: after a pause nothing is known.
const LONGEST_STEP: Span = Span::from_millis(100);

/// By which a rate grows from `before` to `now`, in bit/s: faster long after the last cut, because the others may have left.
pub(super) fn increase(now: Time, before: Time, cut_at: Time) -> f64 {
    let step = now.saturating_since(before).min(LONGEST_STEP).as_secs_f64();
    let uncut = now.saturating_since(cut_at).as_secs_f64();
    INCREASE * (1.0 + uncut * uncut) * step
}

/// The rate among others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    /// In bit/s.
    rate: f64,
    grown_at: Time,
    cut_at: Time,
    /// Since when the queue has stood above the target.
    since: Option<Time>,
}

impl Sharing {
    pub(super) fn new(now: Time, rate: f64) -> Self {
        Self { rate, grown_at: now, cut_at: now, since: None }
    }

    /// In bit/s.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// A frame has arrived, all of whose packets met at least this queue.
    pub(super) fn on_frame(&mut self, now: Time, standing: Span, round_trip: Span, (least, most): (f64, f64)) {
        let before = std::mem::replace(&mut self.grown_at, now);
        let uncut = now.saturating_since(self.cut_at);
        if standing > TARGET {
            self.since.get_or_insert(now);
            if uncut >= round_trip.max(PAUSE) {
                let over = standing.as_secs_f64() / TARGET.as_secs_f64();
                self.rate *= 1.0 - (CUT * over).min(MOST_CUT);
                self.cut_at = now;
            }
        } else {
            self.since = None;
            self.rate += increase(now, before, self.cut_at);
        }
        self.rate = self.rate.clamp(least, most.max(least));
    }

    /// For how long the queue has stood, whatever was given up.
    pub(super) fn stood_for(&self, now: Time) -> Span {
        self.since.map_or(Span::ZERO, |since| now.saturating_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Span = Span::from_micros(16_667);
    const BOUNDS: (f64, f64) = (1e6, 1e9);

    /// Flows with these rates and round trips on one wire; what they send above its capacity waits.
    fn share(mut rates: Vec<f64>, round_trips: &[i64], capacity: f64, seconds: u64) -> Vec<f64> {
        let mut now = Time::from_secs(1);
        let mut flows: Vec<Sharing> = rates.iter().map(|rate| Sharing::new(now, *rate)).collect();
        let mut queue: f64 = 0.0;
        for _ in 0..seconds * 60 {
            now += FRAME;
            queue = (queue + (rates.iter().sum::<f64>() / capacity - 1.0) * FRAME.as_secs_f64()).max(0.0);
            for (flow, round_trip) in flows.iter_mut().zip(round_trips) {
                flow.on_frame(now, Span::from_secs_f64(queue), Span::from_millis(*round_trip), BOUNDS);
            }
            rates = flows.iter().map(Sharing::rate).collect();
        }
        rates
    }

    #[test]
    fn unequal_rates_become_equal_in_20_s_whatever_the_round_trips() {
        for (rates, round_trips) in [(vec![30e6, 2e6], vec![40, 40]), (vec![2e6, 30e6, 1e6], vec![20, 80, 40])] {
            let shared = share(rates, &round_trips, 40e6, 20);
            let (sum, squares) =
                shared.iter().fold((0.0, 0.0), |(sum, squares), rate| (sum + rate, squares + rate * rate));
            assert!(sum * sum / (shared.len() as f64 * squares) > 0.95, "{shared:?}");
            assert!((0.6..1.1).contains(&(sum / 40e6)), "{shared:?}");
        }
    }

    #[test]
    fn cuts_follow_the_queue_and_what_stands_is_told() {
        let at = Time::from_millis;
        for (millis, kept) in [(8, 1.0), (16, 0.7), (80, 0.5)] {
            let mut sharing = Sharing::new(at(0), 10e6);
            sharing.on_frame(at(200), Span::from_millis(millis), FRAME, BOUNDS);
            let grown = if millis == 8 { INCREASE * (1.0 + 0.04) * 0.1 } else { 0.0 };
            assert!((sharing.rate() - (10e6 * kept + grown)).abs() < 1.0, "{millis} ms: {}", sharing.rate());
            sharing.on_frame(at(250), Span::from_millis(millis), FRAME, BOUNDS);
            assert_eq!(sharing.stood_for(at(700)), Span::from_millis(if millis == 8 { 0 } else { 500 }));
        }
    }
}
