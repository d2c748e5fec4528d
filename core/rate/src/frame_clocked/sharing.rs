//! The mode beside flows that yield to a queue as we do, such as our own kind: additive increase and multiplicative decrease by the
//! standing queue.
//!
//! Packets are spread over the frame interval, so all flows see the same standing queue, whatever the phases of their frames. Steps are
//! steps of time rather than of round trips, so flows with unequal round trips reach equal rates.

use nearlight_units::{Bitrate, Span, Time};

use super::Mechanism;
use super::competing::Competing;
use super::mode::Mode;
use super::parameters::Parameters;
use super::path::{FrameArrival, Path};
use super::tracking::Tracking;

/// Additive increase from `before` to `now`, in bit/s. It grows with the time since the last decrease, because competitors may have left.
pub(super) fn increase(now: Time, before: Time, decreased_at: Time, parameters: &Parameters) -> f64 {
    let step = now.saturating_since(before).min(parameters.control_interval).as_secs_f64();
    let quiet = now.saturating_since(decreased_at).as_secs_f64();
    parameters.additive_increase.as_bps() as f64 * (1.0 + quiet * quiet) * step
}

/// The rate beside flows that yield.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    /// In bit/s.
    rate: f64,
    increased_at: Time,
    decreased_at: Time,
    /// Since when the queue has stood above the target.
    standing_since: Option<Time>,
}

impl Sharing {
    pub(super) fn new(now: Time, rate: Bitrate) -> Self {
        Self { rate: rate.as_bps() as f64, increased_at: now, decreased_at: now, standing_since: None }
    }

    pub(super) fn rate(&self) -> Bitrate {
        Bitrate::from_bps(self.rate as u64)
    }

    /// Handles a frame, of which all packets met at least `standing`. The rate stays within `bounds`, in bit/s.
    fn step(&mut self, now: Time, standing: Span, round_trip: Span, bounds: (f64, f64), parameters: &Parameters) {
        let before = std::mem::replace(&mut self.increased_at, now);
        if standing > parameters.target_queue {
            self.standing_since.get_or_insert(now);
            if now.saturating_since(self.decreased_at) >= parameters.control_interval_for(round_trip) {
                let excess = standing.as_secs_f64() / parameters.target_queue.as_secs_f64();
                self.rate *= 1.0 - (parameters.decrease * excess).min(parameters.max_decrease);
                self.decreased_at = now;
            }
        } else {
            self.standing_since = None;
            self.rate += increase(now, before, self.decreased_at, parameters);
        }
        self.rate = self.rate.clamp(bounds.0, bounds.1.max(bounds.0));
    }

    /// Handles a frame. Where the rate reaches the path's capacity, the others have left.
    pub(super) fn on_frame(&mut self, now: Time, frame: FrameArrival, path: &Path) -> Option<Mode> {
        let (least, most) = (path.bounds.minimum.as_bps() as f64, path.peak_share());
        self.step(now, frame.previous_min_queue, path.round_trip?, (least, most), &path.parameters);
        (self.rate >= most).then(|| Mode::Tracking(Tracking::default()))
    }

    /// Looks for a queue that stands although the rate has been given up: the others yield to losses only.
    pub(super) fn on_feedback(&self, now: Time, path: &Path) -> Option<Mode> {
        let (stood, round_trip) = (now.saturating_since(self.standing_since?), path.round_trip?);
        let patience =
            path.parameters.control_interval_for(round_trip) * i64::from(path.parameters.loss_based_intervals);
        let is_loss_based = stood >= patience && path.has(Mechanism::Competition);
        is_loss_based.then(|| Mode::Competing(Competing::beside_one(now, round_trip, path)))
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
        let start = |rate: &f64| Sharing::new(now, Bitrate::from_bps(*rate as u64));
        let mut flows: Vec<Sharing> = rates.iter().map(start).collect();
        let mut queue: f64 = 0.0;
        for _ in 0..seconds * 60 {
            now += FRAME;
            queue = (queue + (rates.iter().sum::<f64>() / capacity - 1.0) * FRAME.as_secs_f64()).max(0.0);
            for (flow, round_trip) in flows.iter_mut().zip(round_trips) {
                let (standing, round_trip) = (Span::from_secs_f64(queue), Span::from_millis(*round_trip));
                flow.step(now, standing, round_trip, BOUNDS, &Parameters::default());
            }
            rates = flows.iter().map(|flow| flow.rate).collect();
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
        let parameters = Parameters::default();
        for (millis, kept) in [(8, 1.0), (16, 0.7), (80, 0.5)] {
            let mut sharing = Sharing::new(at(0), Bitrate::from_mbps(10));
            sharing.step(at(200), Span::from_millis(millis), FRAME, BOUNDS, &parameters);
            let grown =
                if millis == 8 { parameters.additive_increase.as_bps() as f64 * (1.0 + 0.04) * 0.1 } else { 0.0 };
            assert!((sharing.rate - (10e6 * kept + grown)).abs() < 1.0, "{millis} ms: {}", sharing.rate);
            sharing.step(at(250), Span::from_millis(millis), FRAME, BOUNDS, &parameters);
            let stood = sharing.standing_since.map(|since| at(700) - since);
            assert_eq!(stood, (millis != 8).then_some(Span::from_millis(500)));
        }
    }
}
