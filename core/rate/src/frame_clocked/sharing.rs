//! The mode beside flows that yield to a queue as we do, such as our own kind: additive increase and multiplicative decrease by the
//! standing queue.
//!
//! Packets are spread over the frame interval, so all flows see the same standing queue, whatever the phases of their frames. Steps are
//! steps of time rather than of round trips, so flows with unequal round trips reach equal rates.

use nearlight_units::{Bitrate, PacketSeq, Span, Time};

use super::Mechanism;
use super::competing::Competing;
use super::mode::Mode;
use super::parameters::Parameters;
use super::path::{FrameArrival, Path};
use super::tracking::Tracking;

/// Additive increase from `before` to `now`, in bit/s. It grows with the time that the rate has been `undisputed_since`, because competitors may
/// have left.
pub(super) fn increase(now: Time, before: Time, undisputed_since: Time, parameters: &Parameters) -> f64 {
    let step = now.saturating_since(before).min(parameters.control_interval).as_secs_f64();
    let quiet = now.saturating_since(undisputed_since).as_secs_f64();
    parameters.additive_increase.as_bps() as f64 * (1.0 + quiet * quiet) * step
}

/// The rate beside flows that yield.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    /// In bit/s.
    rate: f64,
    increased_at: Time,
    decreased_at: Time,
    /// The rate before the last decrease, in bit/s, and since when it has been reached again.
    disputed: f64,
    undisputed_since: Option<Time>,
    /// The newest packet that had left when the rate was decreased, and how many frames sent after it are still to arrive before the next
    /// decrease.
    decreased_after: PacketSeq,
    unsettled_frames: u32,
    /// Since when the queue has stood above the target.
    standing_since: Option<Time>,
}

impl Sharing {
    pub(super) fn new(now: Time, rate: Bitrate) -> Self {
        Self {
            rate: rate.as_bps() as f64,
            increased_at: now,
            decreased_at: now,
            disputed: 0.0,
            undisputed_since: None,
            decreased_after: PacketSeq(0),
            unsettled_frames: 0,
            standing_since: None,
        }
    }

    pub(super) fn rate(&self) -> Bitrate {
        Bitrate::from_bps(self.rate as u64)
    }

    /// Handles a frame. `newest_sent` is the newest packet that has left. The rate stays within `bounds`, in bit/s.
    fn step(
        &mut self,
        now: Time,
        frame: &FrameArrival,
        newest_sent: PacketSeq,
        round_trip: Span,
        bounds: (f64, f64),
        parameters: &Parameters,
    ) {
        let before = std::mem::replace(&mut self.increased_at, now);
        if frame.packet > self.decreased_after {
            self.unsettled_frames = self.unsettled_frames.saturating_sub(1);
        }
        if frame.standing_queue > parameters.target_queue {
            self.standing_since.get_or_insert(now);
            let is_due = now.saturating_since(self.decreased_at) >= parameters.control_interval_for(round_trip);
            if is_due && self.unsettled_frames == 0 {
                self.decrease(now, frame.standing_queue, newest_sent, parameters);
            }
        } else {
            self.standing_since = None;
            // One frame is reason enough to wait.
            if frame.previous_min_queue <= parameters.target_queue {
                self.increase(now, before, parameters);
            }
        }
        self.rate = self.rate.clamp(bounds.0, bounds.1.max(bounds.0));
    }

    fn decrease(&mut self, now: Time, standing: Span, newest_sent: PacketSeq, parameters: &Parameters) {
        self.disputed = self.rate;
        self.undisputed_since = None;
        let excess = standing.as_secs_f64() / parameters.target_queue.as_secs_f64();
        self.rate *= 1.0 - (parameters.decrease * excess).min(parameters.max_decrease);
        self.decreased_at = now;
        (self.decreased_after, self.unsettled_frames) = (newest_sent, parameters.settling_frames);
    }

    /// The increase is steady up to the rate before the last decrease, where the others are expected, and then grows with time.
    fn increase(&mut self, now: Time, before: Time, parameters: &Parameters) {
        if self.rate >= self.disputed {
            self.undisputed_since.get_or_insert(now);
        }
        self.rate += increase(now, before, self.undisputed_since.unwrap_or(now), parameters);
    }

    /// Handles a frame. Where the rate reaches the path's capacity, the others have left.
    pub(super) fn on_frame(&mut self, now: Time, frame: FrameArrival, path: &Path) -> Option<Mode> {
        let (least, most) = (path.bounds.minimum.as_bps() as f64, path.peak_share());
        self.step(now, &frame, path.newest_sent(), path.round_trip?, (least, most), &path.parameters);
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

    fn met(packet: PacketSeq, queue: Span) -> FrameArrival {
        FrameArrival { met_queue: true, packet, previous_min_queue: queue, standing_queue: queue, overload: None }
    }

    /// Flows with these rates and round trips on one wire; what they send above its capacity waits.
    fn share(mut rates: Vec<f64>, round_trips: &[i64], capacity: f64, seconds: u64) -> Vec<f64> {
        let mut now = Time::from_secs(1);
        let start = |rate: &f64| Sharing::new(now, Bitrate::from_bps(*rate as u64));
        let mut flows: Vec<Sharing> = rates.iter().map(start).collect();
        let mut queue: f64 = 0.0;
        for packet in 1..=seconds as u32 * 60 {
            now += FRAME;
            let packet = PacketSeq(packet);
            queue = (queue + (rates.iter().sum::<f64>() / capacity - 1.0) * FRAME.as_secs_f64()).max(0.0);
            for (flow, round_trip) in flows.iter_mut().zip(round_trips) {
                let (standing, round_trip) = (Span::from_secs_f64(queue), Span::from_millis(*round_trip));
                flow.step(now, &met(packet, standing), packet, round_trip, BOUNDS, &Parameters::default());
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
        for (millis, kept) in [(8, 1.0), (10, 0.625), (80, 0.5)] {
            let mut sharing = Sharing::new(at(0), Bitrate::from_mbps(10));
            let frame = |packet| met(PacketSeq(packet), Span::from_millis(millis));
            sharing.step(at(200), &frame(1), PacketSeq(1), FRAME, BOUNDS, &parameters);
            let grown = if millis == 8 { parameters.additive_increase.as_bps() as f64 * 0.1 } else { 0.0 };
            assert!((sharing.rate - (10e6 * kept + grown)).abs() < 1.0, "{millis} ms: {}", sharing.rate);
            sharing.step(at(250), &frame(2), PacketSeq(2), FRAME, BOUNDS, &parameters);
            let stood = sharing.standing_since.map(|since| at(700) - since);
            assert_eq!(stood, (millis != 8).then_some(Span::from_millis(500)));
        }
    }

    #[test]
    fn a_queue_is_answered_again_once_frames_sent_after_the_answer_have_met_it() {
        let parameters = Parameters::default();
        let mut sharing = Sharing::new(Time::ZERO, Bitrate::from_mbps(10));
        let mut rates = Vec::new();
        // The newest packet that has left is ten ahead of the one that is reported.
        for packet in 1..=40 {
            let now = Time::from_millis(200) + FRAME * i64::from(packet);
            let frame = met(PacketSeq(packet), Span::from_millis(10));
            sharing.step(now, &frame, PacketSeq(packet + 10), FRAME, BOUNDS, &parameters);
            rates.push(sharing.rate as u64 / 1_000);
        }
        let cuts: Vec<usize> = (1..40).filter(|frame| rates[*frame] < rates[frame - 1]).collect();
        assert_eq!((rates[0], cuts), (6_250, vec![18, 36]));
    }

    #[test]
    fn growth_is_steady_up_to_the_disputed_rate_and_faster_beyond_it() {
        let parameters = Parameters::default();
        let mut sharing = Sharing::new(Time::ZERO, Bitrate::from_mbps(20));
        let mut rates = vec![20.0];
        for packet in 1..=300 {
            let now = Time::from_millis(200) + FRAME * i64::from(packet);
            let queue = Span::from_millis(if packet == 1 { 10 } else { 0 });
            sharing.step(now, &met(PacketSeq(packet), queue), PacketSeq(packet), FRAME, BOUNDS, &parameters);
            rates.push(sharing.rate / 1e6);
        }
        let step = |frame: usize| rates[frame + 1] - rates[frame];
        let below = (2..100).filter(|frame| rates[*frame + 1] < 20.0);
        assert!(
            below.clone().count() > 80 && below.clone().all(|frame| (step(frame) - 0.0667).abs() < 0.001),
            "{rates:?}"
        );
        assert!(step(299) > 4.0 * step(2), "{rates:?}");
    }
}
