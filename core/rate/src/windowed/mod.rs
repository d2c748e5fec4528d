//! TCP's congestion control laws in media mode: the rate is the window that a law allows, spread over the round trip.
//!
//! [`Windowed`] feeds a law of [`nearlight_window`] with packets' fates, as TCP acknowledgements would have reported them, and turns
//! its window and pacing into a target. The laws are the same as those of the competing flows. Decides from losses, marks, round trips
//! and delivery rates. Never probes beyond what the law does itself.
//!
//! Sources and departures of each law are in [`nearlight_window`]. Media mode is our own, because none of them considers encoders.
//!
//! # Departures
//! * The target is 0.9 of the window over the smoothed round trip, and of the pacing rate if the law has one, because frame sizes vary.
//! * The sender does not wait for the window, and the decision contains none. Feedback comes once a frame, and on short paths a window is
//!   less than a frame: a sender that waits would stop within every frame (BBR at 35 Mb/s and 2 ms skipped a third of its frames). Without
//!   a pacing rate the pacer gets 1.2 times the window over the round trip, as in Linux during congestion avoidance.
//! * Feedback comes once a frame. Each arrival is an acknowledgement of its own with a round trip of its own: that of the message's
//!   newest packet, plus the difference of their one-way delays.
//! * The window counts as used while the maximum in flight in the last round trip is above half of it (RFC 7661, section 4.1): a
//!   source of bursts does not fill it all the time. That maximum is also the flight that a loss reduces.
//! * A packet is application-limited if it was the last one available and the window had room, as in Linux. The target
//!   never fills the window, so room begins at 0.8 of it.
//! * The session repairs lost packets, so a reduction applies at once rather than over the time of a repair, and once in a
//!   round trip.
//! * At the user's lowest rate, the law is told of no more than a window in flight. Otherwise BBR would wait for ever for a flight of four
//!   packets.
//! * Before a round trip is known the rate is the user's start. After 500 ms without feedback everything in flight counts as lost and the
//!   law times out.

mod flight;

use nearlight_units::{Bitrate, Bytes, PacketSeq, RemoteTime, Span, Time, smoothed_to_nearest};
use nearlight_window::{AckSample, BbrV1, Cause, Congestion, CongestionLaw, Cubic, CubicOptions, LawSpec};

use self::flight::Flight;
use crate::in_flight::MaxInFlight;
use crate::silence::Silence;
use crate::{Bounds, ControllerWake, Decision, Feedback, Limit, PacketReport, RateController, SentPacket};

/// Share of the window's rate that the encoder gets. Guess: frames miss their size by some percent.
pub(crate) const WINDOW_RATE_SHARE: f64 = 0.9;
/// Ratio of the pacing rate to the window's rate if the law has no pacing of its own (Linux, `tcp_pacing_ca_ratio`).
const PACING_FACTOR: f64 = 1.2;
/// A window filled to this share has no room. Guess: a little below what the target keeps in flight.
const FULL_WINDOW_SHARE: f64 = 0.8;
/// The window counts as used from this share on (RFC 7661, section 4.1).
const USED_WINDOW_SHARE: f64 = 0.5;
/// The round trip before one has been measured (libwebrtc `kDefaultRtt`).
const UNKNOWN_ROUND_TRIP: Span = Span::from_millis(200);
/// The laws' packet size: a full packet of the session, with IP headers.
pub(crate) const LAW_PACKET: Bytes = Bytes::new(1_200);

/// A congestion control law as a rate controller.
#[derive(Debug)]
pub struct Windowed<L> {
    law: L,
    bounds: Bounds,
    flight: Flight,
    most_in_flight: MaxInFlight,
    round_trip: Option<Span>,
    /// Round trip minus one-way delay, the clocks' offset included.
    feedback_delay: Option<Span>,
    /// The highest packet whose loss has been handled: a reduction covers all up to it.
    answered: Option<PacketSeq>,
    /// Bytes lost since the last acknowledgement.
    lost: Bytes,
    at_minimum: bool,
    limit: Limit,
    silence: Silence,
}

impl Windowed<Cubic> {
    /// CUBIC with `HyStart++`.
    #[must_use]
    pub fn cubic(bounds: Bounds) -> Self {
        Self::new(bounds, Cubic::new(LAW_PACKET, CubicOptions::default()))
    }
}

impl Windowed<BbrV1> {
    /// BBR version 1. Its probing begins in a fixed phase, so that runs repeat.
    #[must_use]
    pub fn bbr(bounds: Bounds) -> Self {
        Self::new(bounds, BbrV1::new(LAW_PACKET, 0))
    }
}

impl Windowed<Box<dyn CongestionLaw>> {
    /// Any law. One that probes begins in a fixed phase, so that runs repeat.
    #[must_use]
    pub fn of(bounds: Bounds, law: LawSpec) -> Self {
        Self::new(bounds, law.new_law(LAW_PACKET, 0))
    }
}

impl<L: CongestionLaw> Windowed<L> {
    #[must_use]
    pub fn new(bounds: Bounds, law: L) -> Self {
        Self {
            law,
            bounds: bounds.in_order(),
            flight: Flight::default(),
            most_in_flight: MaxInFlight::default(),
            round_trip: None,
            feedback_delay: None,
            answered: None,
            lost: Bytes::ZERO,
            at_minimum: false,
            limit: Limit::Window,
            silence: Silence::default(),
        }
    }

    fn on_round_trip(&mut self, sample: Span, newest: Option<&PacketReport>) {
        let sample = sample.max(Span::from_nanos(1));
        self.round_trip = Some(smoothed_to_nearest(self.round_trip, sample));
        if let Some(PacketReport { packet, arrived_at: Some(arrived_at), .. }) = newest {
            self.feedback_delay = Some(sample - arrived_at.ahead_of(packet.sent_at));
        }
    }

    /// Handles the newest loss or mark that no reduction covers yet.
    fn on_congestion(&mut self, now: Time, cause: Cause, seq: PacketSeq) {
        if self.answered.is_some_and(|answered| seq <= answered) {
            return;
        }
        self.answered = self.flight.newest().map_or(Some(seq), |newest| Some(newest.max(seq)));
        let flight = self.most_in_flight.most().min(self.law.window());
        self.law.on_loss(now, &Congestion { cause, flight, in_flight: self.in_flight_for_law() });
        self.law.on_recovered(now);
        self.limit = if cause == Cause::Mark { Limit::Marks } else { Limit::Loss };
    }

    fn on_arrival(&mut self, now: Time, report: &PacketReport, arrived_at: RemoteTime) {
        let packet = &report.packet;
        let round_trip = self.feedback_delay.map(|feedback_delay| arrived_at.ahead_of(packet.sent_at) + feedback_delay);
        let back_at = round_trip.map_or(now, |round_trip| packet.sent_at + round_trip.max(Span::ZERO));
        let used = self.most_in_flight.most().get() as f64 > USED_WINDOW_SHARE * self.law.window().get() as f64;
        let Some(acked) = self.flight.on_arrived(packet.seq, back_at) else { return };
        let sampled = round_trip.filter(|round_trip| *round_trip > Span::ZERO);
        self.law.on_packet_acked(now, &acked.packet, sampled);
        let sample = AckSample {
            acked: acked.packet.size,
            lost: std::mem::take(&mut self.lost),
            in_flight_before: acked.in_flight_before,
            in_flight: self.in_flight_for_law(),
            delivered: self.flight.delivered(),
            delivered_when_sent: acked.delivered_when_sent,
            round_trip: sampled,
            delivery: acked.delivery,
            window_limited: used,
            marked: report.ce,
        };
        self.law.on_ack(now, &sample);
    }

    /// Bytes in flight, as the law is told.
    fn in_flight_for_law(&self) -> Bytes {
        let in_flight = self.flight.bytes();
        if self.at_minimum { in_flight.min(self.law.window()) } else { in_flight }
    }

    /// The window spread over a round trip.
    fn window_rate(&self) -> Option<Bitrate> {
        self.round_trip.map(|round_trip| self.law.window().over(round_trip))
    }

    /// The rate before the bounds apply.
    fn unbounded_rate(&self) -> Bitrate {
        let Some(window) = self.window_rate() else { return self.bounds.start };
        self.law.pacing().map_or(window, |pacing| window.min(pacing)).mul_f64(WINDOW_RATE_SHARE)
    }
}

impl<L: CongestionLaw> RateController for Windowed<L> {
    fn name(&self) -> &'static str {
        self.law.name()
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.silence.on_sent(packet.sent_at);
        let after = self.flight.bytes() + packet.size;
        let filled = after.get() as f64 > FULL_WINDOW_SHARE * self.law.window().get() as f64;
        self.flight.on_packet_sent(packet, packet.app_limited && !filled);
        self.law.on_sent(packet.sent_at, packet.size, after);
        let stretch = self.round_trip.unwrap_or(UNKNOWN_ROUND_TRIP);
        self.most_in_flight.on_bytes(packet.sent_at, after, stretch);
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>) {
        if self.silence.on_feedback(feedback) {
            self.law.on_recovered(now);
        }
        self.at_minimum = self.unbounded_rate() <= self.bounds.minimum;
        let newest = feedback.packets.iter().rev().find(|report| report.arrived_at.is_some());
        if let Some(round_trip) = feedback.round_trip {
            self.on_round_trip(round_trip, newest);
        }
        self.limit = Limit::Window;
        for report in feedback.packets.iter().filter(|report| report.arrived_at.is_none()) {
            if let Some(packet) = self.flight.on_missing(report.packet.seq) {
                self.lost += packet.size;
                self.law.on_packet_lost(now, &packet);
                self.on_congestion(now, Cause::Loss, report.packet.seq);
            }
        }
        for report in feedback.packets {
            let Some(arrived_at) = report.arrived_at else { continue };
            if report.ce {
                self.on_congestion(now, Cause::Mark, report.packet.seq);
            }
            self.on_arrival(now, report, arrived_at);
        }
        let paced = self.law.pacing().zip(self.window_rate()).is_some_and(|(pacing, window)| pacing < window);
        if paced && self.limit == Limit::Window {
            self.limit = Limit::Delivered;
        }
    }

    fn silence(&mut self) -> Option<&mut Silence> {
        Some(&mut self.silence)
    }

    fn on_timeout(&mut self, now: Time) {
        if self.silence.on_time(now) {
            let flight = self.flight.forget();
            self.law.on_timeout(now, flight);
            self.limit = Limit::FeedbackTimeout;
        }
    }

    fn poll_timeout(&self) -> Option<(Time, ControllerWake)> {
        // The first time-out leaves nothing that a second one could take.
        self.silence.due(true).map(|at| (at, ControllerWake::FeedbackTimeout))
    }

    fn set_bounds(&mut self, _now: Time, bounds: Bounds) {
        self.bounds = bounds.in_order();
    }

    fn decision(&self) -> Decision {
        let unbounded_rate = self.unbounded_rate();
        let window = self.window_rate().map_or(unbounded_rate, |rate| rate.mul_f64(WINDOW_RATE_SHARE));
        let candidates = [(self.limit, unbounded_rate), (Limit::Window, window)];
        let count = if self.limit == Limit::Window { 1 } else { 2 };
        let decision = Decision::of(&self.bounds, &candidates[..count], 1.0);
        let pacing = self.law.pacing().unwrap_or_else(|| unbounded_rate.mul_f64(PACING_FACTOR / WINDOW_RATE_SHARE));
        Decision { pacing: pacing.max(decision.target), ..decision }
    }

    fn held(&self) -> usize {
        self.flight.held()
    }
}

#[cfg(test)]
mod tests;
