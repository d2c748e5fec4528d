//! NADA as it was built into ALVR for "Congestion Control for VR Cloud Gaming" (MM '25): ahmad-hl/GCC_NADA_ALVR, branch NADA.
//!
//! It differs from its paper:
//! * Constants are those of draft-rmcat-nada-02 rather than of RFC 8698: the signal at the highest rate, `XREF`, is 20 ms.
//! * Each frame is one sample, and the signal is the mean of the last 15 frames' delay: a frame's own length counts as a queue.
//! * Loss is always 0: there is no penalty, delay is not warped, and loss never ends ramp-up.
//! * Ramp-up's gain is an integer division, 50 ms / (round trip + 220 ms), and so always 0: the rate can only follow the arriving rate.
//! * The arriving bytes are divided by 500 ms although the window ends with the first frame after that, so the arriving rate is up to a
//!   frame too high.
//! * The lowest delay is never forgotten. There is no shaping and no pacing.
//!
//! Its highest rate is 150 Mb/s, so at 35 Mb/s the signal settles at 86 ms.
//!
//! # Departures
//! * Its rates (start 15, from 2 to 150 Mb/s) are the preset's; the user's own take precedence, but the equilibrium keeps the 150 Mb/s.
//! * The client's half runs in the sender, from arrival times in feedback, on the receiver's clock. Frames that lose packets are not
//!   samples, unless the session repairs them.

use nearlight_units::{Bitrate, Bytes, RemoteTime, Span, Time};

use super::reference::{self, Equilibrium, UPDATE_INTERVAL};
use crate::frames::{FrameSample, Frames};
use crate::{Bounds, ControllerWake, Decision, Feedback, Limit, RateController, SentPacket};

/// The parameters of the equilibrium: `NADA_PARAM_PRIO`, `NADA_PARAM_XREF` and `RMCAT_CC_DEFAULT_RMAX`.
const EQUILIBRIUM: Equilibrium =
    Equilibrium { priority: 1.0, signal: Span::from_millis(20), maximum: Bitrate::from_mbps(150) };
/// Number of frames in the means of delay and round trip (`SlidingWindowAverage`).
const MEAN_FRAMES: usize = 15;
/// The window of the arriving rate (`NADA_PARAM_LOGWIN`).
const WINDOW: Span = Span::from_millis(500);
/// Bytes that the client adds to each frame's size for its two time stamps.
const TIMESTAMP_BYTES: Bytes = Bytes::new(24);
/// No queue is building up while no frame's delay is above this (`NADA_PARAM_QEPS`).
const MAX_CALM_DELAY: Span = Span::from_millis(10);
/// Terms of the ramp-up gain in milliseconds: `NADA_PARAM_QBOUND`, and `NADA_PARAM_DELTA` with `NADA_PARAM_DFILT`.
const QUEUE_BOUND: i64 = 50;
const RAMP_UP_DELAY: i64 = 100 + 120;

/// The mean of the last frames' values, with an initial value of 0 (`SlidingWindowAverage`).
#[derive(Clone, Debug)]
struct Mean {
    values: [Span; MEAN_FRAMES],
    count: usize,
    next: usize,
}

impl Mean {
    fn new() -> Self {
        Self { values: [Span::ZERO; MEAN_FRAMES], count: 1, next: 1 }
    }

    fn on_value(&mut self, value: Span) {
        self.values[self.next] = value;
        self.next = (self.next + 1) % MEAN_FRAMES;
        self.count = (self.count + 1).min(MEAN_FRAMES);
    }

    fn mean(&self) -> Span {
        let sum = self.values[..self.count].iter().fold(Span::ZERO, |sum, value| sum + *value);
        sum / self.count as i64
    }

    fn highest(&self) -> Span {
        self.values[..self.count].iter().copied().fold(Span::ZERO, Span::max)
    }
}

/// The client's half.
#[derive(Clone, Debug)]
struct Client {
    base: Option<Span>,
    delays: Mean,
    received: Bytes,
    window_began: Option<RemoteTime>,
    arriving: Bitrate,
    reported_at: Option<RemoteTime>,
}

impl Client {
    fn new() -> Self {
        Self {
            base: None,
            delays: Mean::new(),
            received: Bytes::ZERO,
            window_began: None,
            arriving: Bitrate::ZERO,
            reported_at: None,
        }
    }

    /// Handles a frame that has arrived. Returns whether a report is due with it.
    fn on_frame(&mut self, sample: &FrameSample) -> bool {
        let delay = sample.arrived_at.ahead_of(sample.sent_at);
        let base = self.base.map_or(delay, |base| base.min(delay));
        self.base = Some(base);
        self.delays.on_value(delay - base);
        self.count(sample);
        let reported_at = *self.reported_at.get_or_insert(sample.arrived_at);
        let due = (sample.arrived_at - reported_at).as_micros() / 1_000 > UPDATE_INTERVAL.as_micros() / 1_000;
        if due {
            self.reported_at = Some(sample.arrived_at);
        }
        due
    }

    fn count(&mut self, sample: &FrameSample) {
        self.received += sample.size + TIMESTAMP_BYTES;
        let began = *self.window_began.get_or_insert(sample.arrived_at);
        if sample.arrived_at.saturating_since(began) >= WINDOW {
            self.arriving = self.received.over(WINDOW);
            self.received = Bytes::ZERO;
            self.window_began = Some(sample.arrived_at);
        }
    }

    fn is_calm(&self) -> bool {
        self.delays.highest() <= MAX_CALM_DELAY
    }
}

/// The controller.
#[derive(Debug)]
pub struct AlvrFork {
    bounds: Bounds,
    frames: Frames,
    client: Client,
    round_trips: Mean,
    rate: Bitrate,
    signal: Span,
    updated_at: Option<Time>,
    limit: Limit,
}

impl AlvrFork {
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let bounds = bounds.in_order();
        Self {
            bounds,
            frames: Frames::default(),
            client: Client::new(),
            round_trips: Mean::new(),
            rate: bounds.start,
            signal: Span::ZERO,
            updated_at: None,
            limit: Limit::Delay,
        }
    }

    fn on_report(&mut self, now: Time, sample: &FrameSample) {
        self.round_trips.on_value(now.saturating_since(sample.sent_at));
        let passed = now.saturating_since(self.updated_at.replace(now).unwrap_or(now));
        let before = std::mem::replace(&mut self.signal, self.client.delays.mean());
        let wanted = if self.client.is_calm() {
            self.limit = Limit::Delivered;
            reference::ramped_up(self.rate, self.client.arriving, self.gain())
        } else {
            self.limit = Limit::Delay;
            reference::gradual(self.rate, &EQUILIBRIUM, passed, (self.signal, before))
        };
        self.rate = self.bounds.clamp(wanted);
    }

    /// The ramp-up gain in whole numbers, as in the fork: 0 for every round trip.
    fn gain(&self) -> f64 {
        let round_trip = self.round_trips.mean().as_micros() / 1_000;
        (QUEUE_BOUND / round_trip.saturating_add(RAMP_UP_DELAY)) as f64
    }
}

impl RateController for AlvrFork {
    fn name(&self) -> &'static str {
        "nada-alvr-fork"
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.frames.on_packet_sent(packet);
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>) {
        feedback.packets.iter().for_each(|report| self.frames.on_report(report));
        while let Some(sample) = self.frames.poll() {
            if self.client.on_frame(&sample) {
                self.on_report(now, &sample);
            }
        }
    }

    fn on_timeout(&mut self, _now: Time) {}

    fn poll_timeout(&self) -> Option<(Time, ControllerWake)> {
        None
    }

    fn set_bounds(&mut self, _now: Time, bounds: Bounds) {
        self.bounds = bounds.in_order();
        self.rate = self.bounds.clamp(self.rate);
    }

    fn decision(&self) -> Decision {
        let mut candidates = vec![(self.limit, self.rate)];
        if self.limit != Limit::Delivered {
            candidates.push((Limit::Delivered, self.client.arriving));
        }
        Decision::unpaced(&self.bounds, &candidates)
    }

    fn held(&self) -> usize {
        self.frames.held()
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::FrameId;

    use super::*;

    const BOUNDS: Bounds =
        Bounds { minimum: Bitrate::from_mbps(2), start: Bitrate::from_mbps(15), maximum: Bitrate::from_mbps(150) };

    /// Sends frames of `size` each 10 ms with this queueing delay, and gives feedback at once.
    fn run(nada: &mut AlvrFork, from: i64, frames: i64, (size, delay): (u64, i64)) {
        for number in from..from + frames {
            let sent_at = Time::from_secs(1) + Span::from_millis(10) * number;
            let arrived_at = sent_at + Span::from_millis(5 + delay);
            let (frame, size) = (FrameId(number as u32), Bytes::new(size));
            let sample = FrameSample { frame, size, sent_at, arrived_at: arrived_at.for_peer() };
            if nada.client.on_frame(&sample) {
                nada.on_report(arrived_at, &sample);
            }
        }
    }

    #[test]
    fn ramp_up_only_follows_what_arrives_because_its_gain_is_0() {
        let mut nada = AlvrFork::new(BOUNDS);
        // 25,000 bytes each 10 ms are 20 Mb/s; 51 frames end in a window, of which the first is not yet counted as its part.
        run(&mut nada, 0, 500, (25_000, 0));
        assert!(nada.gain() == 0.0 && nada.client.is_calm());
        let windowful = Bytes::new(25_024 * 50).over(WINDOW);
        let first = Bytes::new(25_024 * 51).over(WINDOW);
        assert_eq!((nada.client.arriving, nada.rate), (windowful, first), "the rate keeps the highest that arrived");
        for round_trip in [0, 20, 1_000] {
            nada.round_trips.on_value(Span::from_millis(round_trip));
            assert_eq!(nada.gain().to_bits(), 0.0_f64.to_bits());
        }
    }

    #[test]
    fn the_signal_is_the_mean_delay_and_settles_at_86_ms_for_35_mbps() {
        let mut nada = AlvrFork::new(BOUNDS);
        run(&mut nada, 0, 1, (1_000, 0));
        nada.rate = Bitrate::from_mbps(35);
        let settled = EQUILIBRIUM.at(nada.rate);
        assert_eq!(settled.as_micros(), 85_714, "PRIO * XREF * RMAX / r");
        nada.rate = Bitrate::from_mbps(30);
        // At a constant delay of 100 ms the rate settles where 100 ms is its worth.
        run(&mut nada, 1, 20_000, (1_000, 100));
        assert_eq!(nada.signal, Span::from_millis(100));
        assert!((nada.rate.as_bps() as f64 / 30e6 - 1.0).abs() < 1e-3, "{}", nada.rate);
    }

    #[test]
    fn one_frame_of_late_above_10_ms_ends_ramp_up() {
        let mut nada = AlvrFork::new(BOUNDS);
        run(&mut nada, 0, 30, (25_000, 0));
        run(&mut nada, 30, 1, (25_000, 11));
        run(&mut nada, 31, 14, (25_000, 0));
        assert!(!nada.client.is_calm());
        run(&mut nada, 45, 1, (25_000, 0));
        assert!(nada.client.is_calm());
    }
}
