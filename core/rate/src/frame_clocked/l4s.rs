//! The mode on a path that marks packets before its queue grows (L4S, RFC 9330). Marks tell the capacity, so bursts are not needed:
//! packets leave one by one, as fast as the path takes them. The rate grows by [`sharing`]'s steps until packets are marked, and falls in
//! proportion to the share of marked packets, as DCTCP's does (RFC 8257), but by [`Parameters::min_mark_decrease`] at least.
//!
//! [`sharing`]: super::sharing

use nearlight_units::{Bitrate, Span, Time};

use super::mode::Mode;
use super::parameters::Parameters;
use super::path::{FrameArrival, Path};
use super::sharing::increase;
use super::tracking::Tracking;

/// The rate that the path carries without marks.
#[derive(Clone, Copy, Debug)]
pub(super) struct L4s {
    /// In bit/s.
    rate: f64,
    /// The smoothed share of marked packets (alpha of RFC 8257).
    marked_share: f64,
    /// Packets of the current round, and marked ones among them.
    packets: u32,
    marked: u32,
    round_ends: Time,
    increased_at: Time,
    decreased_at: Time,
    /// Frames that met a queue since the last mark.
    unmarked_frames: u32,
}

impl L4s {
    /// Begins at the first mark, with the capacity in bit/s that dispersion has shown.
    pub(super) fn new(now: Time, capacity: f64, parameters: &Parameters) -> Self {
        Self {
            rate: capacity,
            marked_share: parameters.initial_marked_share,
            packets: 0,
            marked: 0,
            round_ends: now,
            increased_at: now,
            decreased_at: now,
            unmarked_frames: 0,
        }
    }

    /// The rate at which packets leave.
    pub(super) fn pacing(&self) -> Bitrate {
        Bitrate::from_bps(self.rate as u64)
    }

    pub(super) fn rate(&self, path: &Path) -> Bitrate {
        path.share_of(self.rate)
    }

    /// Handles the end of an outage during which the rate fell to `factor`.
    pub(super) fn on_outage_end(&mut self, factor: f64) {
        self.rate *= factor;
    }

    /// Handles a packet that has arrived.
    pub(super) fn on_arrival(&mut self, is_marked: bool) {
        self.packets += 1;
        self.marked += u32::from(is_marked);
        if is_marked {
            self.unmarked_frames = 0;
        }
    }

    /// Handles a frame. A path on which frames meet a queue and no packet is marked no longer marks.
    pub(super) fn on_frame(&mut self, frame: FrameArrival, path: &Path) -> Option<Mode> {
        if let Some(delivery_rate) = frame.overload {
            self.limit_to(delivery_rate);
        }
        self.is_unmarked(frame.met_queue, &path.parameters).then(|| Mode::Tracking(Tracking::default()))
    }

    /// Lowers the rate to what was delivered while a queue built up, in bit/s.
    fn limit_to(&mut self, delivery_rate: f64) {
        self.rate = self.rate.min(delivery_rate);
    }

    fn is_unmarked(&mut self, met_queue: bool, parameters: &Parameters) -> bool {
        self.unmarked_frames = if met_queue { self.unmarked_frames + 1 } else { 0 };
        self.unmarked_frames >= parameters.evidence_frames
    }

    pub(super) fn on_feedback(&mut self, now: Time, path: &Path) {
        let Some(round_trip) = path.round_trip else { return };
        let pacing = |rate: Bitrate| rate.as_bps() as f64 / path.parameters.target_share;
        let bounds = (pacing(path.bounds.minimum), pacing(path.bounds.maximum));
        self.step(now, round_trip, bounds, &path.parameters);
    }

    /// Handles a report. The rate stays within `bounds`, in bit/s.
    fn step(&mut self, now: Time, round_trip: Span, bounds: (f64, f64), parameters: &Parameters) {
        let before = std::mem::replace(&mut self.increased_at, now);
        let round = parameters.control_interval_for(round_trip);
        if self.marked == 0 {
            self.rate += increase(now, before, self.decreased_at, parameters);
        } else if now.saturating_since(self.decreased_at) >= round {
            self.rate *= 1.0 - (self.marked_share / 2.0).max(parameters.min_mark_decrease);
            self.decreased_at = now;
        }
        if now >= self.round_ends {
            let share = f64::from(self.marked) / f64::from(self.packets.max(1));
            self.marked_share += (share - self.marked_share) * parameters.mark_gain;
            (self.packets, self.marked) = (0, 0);
            self.round_ends = now + round;
        }
        self.rate = self.rate.clamp(bounds.0, bounds.1.max(bounds.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Span = Span::from_micros(16_667);
    const BOUNDS: (f64, f64) = (1e6, 1e9);
    /// A queue above this is marked.
    const THRESHOLD: f64 = 0.001;

    /// Flows that begin at these rates with these round trips on one wire that marks. Returns their rates at the end, and the share of frames
    /// that met more than twice the threshold.
    fn share(rates: &[f64], round_trips: &[i64], capacity: f64, seconds: u64) -> (Vec<f64>, f64) {
        let parameters = Parameters::default();
        let mut now = Time::from_secs(1);
        let mut flows: Vec<L4s> = rates.iter().map(|rate| L4s::new(now, *rate, &parameters)).collect();
        let (mut queue, mut long): (f64, u64) = (0.0, 0);
        for _ in 0..seconds * 60 {
            now += FRAME;
            // Packets leave one by one while a frame lasts, which is sixteen seventeenths of the interval.
            let sum: f64 = flows.iter().map(|flow| flow.rate).sum();
            let marks = [sum; 16].map(|sum| {
                queue = (queue + (sum / capacity - 1.0) * FRAME.as_secs_f64() / 17.0).max(0.0);
                queue > THRESHOLD
            });
            queue = (queue - FRAME.as_secs_f64() / 17.0).max(0.0);
            long += u64::from(queue > 2.0 * THRESHOLD);
            for (flow, round_trip) in flows.iter_mut().zip(round_trips) {
                for mark in marks {
                    flow.on_arrival(mark);
                }
                flow.step(now, Span::from_millis(*round_trip), BOUNDS, &parameters);
            }
        }
        (flows.iter().map(|flow| flow.rate).collect(), long as f64 / (seconds * 60) as f64)
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
        let parameters = Parameters::default();
        let mut now = Time::from_secs(1);
        let mut l4s = L4s::new(now, 10e6, &parameters);
        for _ in 0..120 {
            now += FRAME;
            l4s.on_arrival(false);
            l4s.step(now, Span::from_millis(40), BOUNDS, &parameters);
        }
        assert!(l4s.rate > 25e6, "{}", l4s.rate);
        l4s.limit_to(20e6);
        assert!((l4s.rate - 20e6).abs() < 1.0);
        // A mark in between says that the path still marks.
        let left: Vec<_> = (0..40)
            .filter(|frame| {
                l4s.on_arrival(*frame == 10);
                l4s.is_unmarked(true, &parameters)
            })
            .collect();
        assert_eq!(left.first(), Some(&29));
        assert!(!l4s.is_unmarked(false, &parameters));
    }
}
