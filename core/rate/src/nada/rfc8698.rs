//! NADA as in RFC 8698, with both ends in the sender.
//!
//! Decides from one-way delay, losses and marks of packets. Never probes.
//!
//! # Departures
//! * The highest rate of the equilibrium, `RMAX`, is the user's maximum, because the queue settles at `XREF * RMAX / rate`:
//!   with a maximum far above the path, NADA keeps a long queue. The RFC's 1.5 Mb/s is for video calls.
//! * The receiver's half runs in the sender, from the arrival times in feedback. Its window of 500 ms is counted in messages.
//! * Delay is the lowest of 15 packets *or of a frame's*: at the rates of remote rendering, 15 packets are part of one frame, whose own
//!   burst is not a standing queue.
//! * Loss intervals are complete ones ([`super::loss_interval`]). Warping fades out over one interval. The signal is capped at 500 ms, as
//!   in ns3-rmcat.
//! * Packets that arrive after they were reported missing still count as lost, as in the RFC.
//! * The shaping buffer is the session's pacer, whose queue is reported before each message.
//! * Without feedback the rate falls ([`crate::silence`]).

use nearlight_units::{Bitrate, Bytes, Span, Time, smoothed_to_nearest};

use super::reference::{self, Equilibrium, UPDATE_INTERVAL};
use super::signal::{Congestion, Signal};
use crate::silence::Silence;
use crate::{Bounds, ControllerWake, Decision, Feedback, Limit, RateController, SentFrame, SentPacket};

/// The signal at which the highest rate is reached (`XREF`).
const REFERENCE_SIGNAL: Span = Span::from_millis(10);
/// Bounds of a flow's weight (`PRIO`, 1 by default). Guess: beyond them, flows of lower weight would starve.
const PRIORITY_BOUNDS: (f64, f64) = (0.1, 10.0);
/// Share of the sender's queue that is spread over a second's frames (`BETA_V`, `BETA_S`), and its maximum as a share of the rate.
const SHAPING: f64 = 0.1;
const MAX_SHAPING: f64 = 0.05;
/// The round trip before one has been measured (libwebrtc `kDefaultRtt`).
const UNKNOWN_ROUND_TRIP: Span = Span::from_millis(200);
/// The frame interval before two frames were sent. Guess: 60 frames a second.
const UNKNOWN_FRAME_INTERVAL: Span = Span::from_micros(16_667);

/// The controller.
#[derive(Debug)]
pub struct Rfc8698 {
    bounds: Bounds,
    priority: f64,
    signal: Signal,
    rate: Bitrate,
    limit: Limit,
    congestion: Congestion,
    updated_at: Option<Time>,
    round_trip: Option<Span>,
    queued: Bytes,
    frame_interval: Span,
    frame_at: Option<Time>,
    silence: Silence,
}

impl Rfc8698 {
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let bounds = bounds.in_order();
        Self {
            bounds,
            priority: 1.0,
            signal: Signal::default(),
            rate: bounds.start,
            limit: Limit::Delay,
            congestion: Congestion::default(),
            updated_at: None,
            round_trip: None,
            queued: Bytes::ZERO,
            frame_interval: UNKNOWN_FRAME_INTERVAL,
            frame_at: None,
            silence: Silence::default(),
        }
    }

    fn update(&mut self, now: Time, passed: Span) {
        let before = self.congestion.total();
        self.congestion = self.signal.update();
        let Congestion { delay, loss, marks, calm } = self.congestion;
        let arriving = self.signal.arriving().filter(|_| calm);
        self.rate = if let Some(arriving) = arriving {
            self.limit = Limit::Delivered;
            reference::ramped_up(self.rate, arriving, self.gain())
        } else {
            self.limit = match delay.max(loss).max(marks) {
                highest if highest == delay => Limit::Delay,
                highest if highest == loss => Limit::Loss,
                _ => Limit::Marks,
            };
            let equilibrium = self.equilibrium();
            reference::gradual(self.rate, &equilibrium, passed, (self.congestion.total(), before))
        };
        self.rate = self.bounds.clamp(self.rate);
        self.updated_at = Some(now);
    }

    fn gain(&self) -> f64 {
        reference::ramp_up_gain(self.round_trip.unwrap_or(UNKNOWN_ROUND_TRIP))
    }

    fn equilibrium(&self) -> Equilibrium {
        Equilibrium { priority: self.priority, signal: REFERENCE_SIGNAL, maximum: self.bounds.maximum }
    }

    /// The amount by which encoder and pacer differ from the rate, so that the queue between them empties.
    fn shaping(&self) -> Bitrate {
        let frames_per_second = 1.0 / self.frame_interval.as_secs_f64().max(1e-3);
        let wanted = SHAPING * self.queued.bits() as f64 * frames_per_second;
        Bitrate::from_bps(1).mul_f64(wanted).min(self.rate.mul_f64(MAX_SHAPING))
    }
}

impl RateController for Rfc8698 {
    fn name(&self) -> &'static str {
        "nada-rfc8698"
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.silence.on_sent(packet.sent_at);
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>) {
        self.silence.on_feedback(feedback);
        if let Some(round_trip) = feedback.round_trip {
            let sample = round_trip.max(Span::ZERO);
            self.round_trip = Some(smoothed_to_nearest(self.round_trip, sample));
        }
        self.signal.on_feedback(now, feedback, self.round_trip.unwrap_or(UNKNOWN_ROUND_TRIP));
        let passed = now.saturating_since(*self.updated_at.get_or_insert(now));
        if passed >= UPDATE_INTERVAL {
            self.update(now, passed);
        }
    }

    fn on_frame_sent(&mut self, now: Time, _frame: &SentFrame) {
        if let Some(before) = self.frame_at.replace(now) {
            let sample = now.saturating_since(before).min(Span::from_secs(1));
            self.frame_interval = smoothed_to_nearest(self.frame_interval, sample);
        }
    }

    fn on_sender_queue(&mut self, _now: Time, queued: Bytes) {
        self.queued = queued;
    }

    fn silence(&mut self) -> Option<&mut Silence> {
        Some(&mut self.silence)
    }

    fn on_timeout(&mut self, now: Time) {
        if self.silence.on_time(now) {
            self.rate = self.bounds.clamp(self.rate.mul_f64(Silence::FACTOR));
            self.limit = Limit::FeedbackTimeout;
            // Measurements from before the time-out say nothing of the path after it.
            self.updated_at = None;
        }
    }

    fn poll_timeout(&self) -> Option<(Time, ControllerWake)> {
        self.silence.due(self.rate <= self.bounds.minimum).map(|at| (at, ControllerWake::FeedbackTimeout))
    }

    fn set_bounds(&mut self, _now: Time, bounds: Bounds) {
        self.bounds = bounds.in_order();
        self.rate = self.bounds.clamp(self.rate);
    }

    fn set_priority(&mut self, _now: Time, weight: f64) {
        if weight.is_finite() {
            self.priority = weight.clamp(PRIORITY_BOUNDS.0, PRIORITY_BOUNDS.1);
        }
    }

    fn decision(&self) -> Decision {
        let shaping = self.shaping();
        let encoder = Bitrate::from_bps(self.rate.as_bps().saturating_sub(shaping.as_bps()));
        let mut candidates = vec![(self.limit, encoder)];
        if self.limit != Limit::Delivered {
            let most = self.signal.arriving().map(|arriving| arriving.mul_f64(1.0 + self.gain()));
            candidates.extend(most.map(|most| (Limit::Delivered, most)));
        }
        let decision = Decision::of(&self.bounds, &candidates, 1.0);
        let pacing = (self.rate + shaping).min(self.bounds.maximum).max(decision.target);
        Decision { pacing, ..decision }
    }

    fn held(&self) -> usize {
        self.signal.held()
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::FrameId;

    use super::*;

    #[test]
    fn the_queue_between_encoder_and_pacer_moves_them_apart_by_5_percent_at_most() {
        let mbps = Bitrate::from_mbps;
        let mut nada = Rfc8698::new(Bounds { minimum: mbps(1), start: mbps(20), maximum: mbps(100) });
        for frame in 0..100_u32 {
            let sent = SentFrame { frame: FrameId(frame), size: Bytes::new(30_000), key: false, encode: Span::ZERO };
            nada.on_frame_sent(Time::from_millis(u64::from(frame) * 20), &sent);
        }
        let rates = |nada: &Rfc8698| (nada.decision().target, nada.decision().pacing);
        assert_eq!(rates(&nada), (mbps(20), mbps(20)));
        // 0.1 * 8 * 10,000 bytes * 50 frames a second, give or take the smoothing of the interval.
        nada.on_sender_queue(Time::ZERO, Bytes::new(10_000));
        let shaping = nada.shaping().as_bps() as f64;
        assert!((shaping / 400_000.0 - 1.0).abs() < 1e-3, "{shaping}");
        nada.on_sender_queue(Time::ZERO, Bytes::new(1_000_000));
        assert_eq!(rates(&nada), (mbps(19), mbps(21)));
    }
}
