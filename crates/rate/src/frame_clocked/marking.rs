//! On a path that marks packets before its queue grows (L4S, RFC 9330), marks tell the capacity and bursts are not needed: packets leave as
//! the path takes them, the rate grows until some are marked, and yields in proportion to their share, as DCTCP does (RFC 8257), but by a
//! sixteenth at least. Steps are those of [`sharing`].

use nearlight_units::{Span, Time};

use super::sharing::{self, PAUSE};

/// Weight of a round's share of marked packets (g of RFC 8257, section 3.3).
const WEIGHT: f64 = 1.0 / 16.0;
/// That share before the first round. RFC 8257 begins with 1, because it does not know the rate; here the capacity is known from the
/// gaps between packets. Guess.
const FIRST_SHARE: f64 = 0.25;
/// The least part that the rate yields: of 0, 0.02, 0.04 and 0.06, over `plans/default-marks.toml`, 0.06 has the shortest queues, at 1 % less rate.
const LEAST_CUT: f64 = 1.0 / 16.0;
/// Frames that meet a queue while none is marked, after which the path no longer marks. Guess: a third of a second at 60 frames a second.
const UNMARKED: u32 = 20;

/// What the path carries without marks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marking {
    /// In bit/s.
    rate: f64,
    /// Of the packets, which are marked (alpha of RFC 8257).
    share: f64,
    packets: u32,
    marked: u32,
    round_ends: Time,
    grown_at: Time,
    cut_at: Time,
    /// Frames with a queue since the last mark.
    unmarked: u32,
}

impl Marking {
    /// The first mark came; this is what the gaps between packets say that the path carries.
    pub(super) fn new(now: Time, capacity: f64) -> Self {
        Self {
            rate: capacity,
            share: FIRST_SHARE,
            packets: 0,
            marked: 0,
            round_ends: now,
            grown_at: now,
            cut_at: now,
            unmarked: 0,
        }
    }

    /// At which packets leave, in bit/s.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// A queue built up, and this is what arrived meanwhile.
    pub(super) fn limit_to(&mut self, arriving: f64) {
        self.rate = self.rate.min(arriving);
    }

    pub(super) fn scale(&mut self, factor: f64) {
        self.rate *= factor;
    }

    pub(super) fn on_packet(&mut self, marked: bool) {
        self.packets += 1;
        self.marked += u32::from(marked);
        if marked {
            self.unmarked = 0;
        }
    }

    /// Packets were reported, after which the rate stays within these bounds.
    pub(super) fn on_feedback(&mut self, now: Time, round_trip: Span, (least, most): (f64, f64)) {
        let before = std::mem::replace(&mut self.grown_at, now);
        let round = round_trip.max(PAUSE);
        if self.marked == 0 {
            self.rate += sharing::increase(now, before, self.cut_at);
        } else if now.saturating_since(self.cut_at) >= round {
            self.rate *= 1.0 - (self.share / 2.0).max(LEAST_CUT);
            self.cut_at = now;
        }
        if now >= self.round_ends {
            self.share += (f64::from(self.marked) / f64::from(self.packets.max(1)) - self.share) * WEIGHT;
            (self.packets, self.marked) = (0, 0);
            self.round_ends = now + round;
        }
        self.rate = self.rate.clamp(least, most.max(least));
    }

    /// A frame met a queue, or none. True: the path no longer marks.
    pub(super) fn on_frame(&mut self, has_queue: bool) -> bool {
        self.unmarked = if has_queue { self.unmarked + 1 } else { 0 };
        self.unmarked >= UNMARKED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Span = Span::from_micros(16_667);
    const BOUNDS: (f64, f64) = (1e6, 1e9);
    /// A queue above this is marked.
    const THRESHOLD: f64 = 0.001;

    /// Flows that begin at these rates with these round trips on one wire that marks. Their rates at the end, and of all frames the share that met
    /// more than twice the threshold.
    fn share(rates: &[f64], round_trips: &[i64], capacity: f64, seconds: u64) -> (Vec<f64>, f64) {
        let mut now = Time::from_secs(1);
        let mut flows: Vec<Marking> = rates.iter().map(|rate| Marking::new(now, *rate)).collect();
        let (mut queue, mut long): (f64, u64) = (0.0, 0);
        for _ in 0..seconds * 60 {
            now += FRAME;
            // Packets leave one by one while a frame lasts, which is sixteen seventeenths of the interval.
            let sum: f64 = flows.iter().map(Marking::rate).sum();
            let marks = [sum; 16].map(|sum| {
                queue = (queue + (sum / capacity - 1.0) * FRAME.as_secs_f64() / 17.0).max(0.0);
                queue > THRESHOLD
            });
            queue = (queue - FRAME.as_secs_f64() / 17.0).max(0.0);
            long += u64::from(queue > 2.0 * THRESHOLD);
            for (flow, round_trip) in flows.iter_mut().zip(round_trips) {
                for mark in marks {
                    flow.on_packet(mark);
                }
                flow.on_feedback(now, Span::from_millis(*round_trip), BOUNDS);
            }
        }
        (flows.iter().map(Marking::rate).collect(), long as f64 / (seconds * 60) as f64)
    }

    #[test]
    fn a_flow_alone_stays_near_what_the_path_carries_with_a_short_queue() {
        for mbps in [4.0, 15.0, 40.0, 100.0] {
            let (rates, long) = share(&[1.2 * mbps * 1e6], &[40], mbps * 1e6, 30);
            assert!((0.85..1.15).contains(&(rates[0] / 1e6 / mbps)), "{mbps} Mb/s: {rates:?}");
            assert!(long < 0.1, "{mbps} Mb/s: {long}");
        }
    }

    #[test]
    fn unequal_rates_become_equal_in_20_s_whatever_the_round_trips() {
        let (shared, _) = share(&[30e6, 2e6, 1e6], &[20, 80, 40], 40e6, 20);
        let (sum, squares) = shared.iter().fold((0.0, 0.0), |(sum, squares), rate| (sum + rate, squares + rate * rate));
        assert!(sum * sum / (3.0 * squares) > 0.95, "{shared:?}");
        assert!((0.8..1.1).contains(&(sum / 40e6)), "{shared:?}");
    }

    #[test]
    fn a_path_that_carries_more_is_used_within_two_seconds_and_one_that_no_longer_marks_is_left() {
        let mut now = Time::from_secs(1);
        let mut marking = Marking::new(now, 10e6);
        for _ in 0..120 {
            now += FRAME;
            marking.on_packet(false);
            marking.on_feedback(now, Span::from_millis(40), BOUNDS);
        }
        assert!(marking.rate() > 25e6, "{}", marking.rate());
        marking.limit_to(20e6);
        assert!((marking.rate() - 20e6).abs() < 1.0);
        // A mark in between says that the path still marks.
        let left: Vec<_> = (0..40)
            .filter(|frame| {
                marking.on_packet(*frame == 10);
                marking.on_frame(true)
            })
            .collect();
        assert_eq!(left.first(), Some(&29));
        assert!(!marking.on_frame(false));
    }
}
