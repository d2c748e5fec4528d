//! Frame-clocked: each frame is a probe of the path, and takes a fixed share of the frame interval on the wire.
//!
//! Frames leave faster than the bottleneck takes them, so that the gaps between their packets' arrivals tell its capacity, frame by
//! frame; the target is that capacity's share which leaves the wire free before the next frame comes. Where the first packet of
//! a frame still meets a queue, the target falls until the queue is gone. Losses change nothing.
//!
//! A token bucket lets short bursts through at line rate, so that frames of its size say nothing of the rate behind it. There a queue
//! builds up although the gaps promise more, and what arrives meanwhile is the capacity: the target stays below it, and tries more
//! after some seconds.
//!
//! A rate below the capacity is the price of latency: a frame's last packet arrives after [`SHARE`] of an interval instead of a whole one.
//!
//! Source: our own, after ideas of Pudica (NSDI 2024: frames as probes of utilisation) and Nebula (WWW 2022: dispersion of frames).
//!
//! # Limits
//! * Dispersion takes the whole bottleneck for its own: beside other traffic it is the queue that limits the rate, so that this
//!   controller yields to flows that fill queues.
//! * Where service is bursty, as on Wi-Fi, a frame's dispersion is a noisy measure; only the mean of several frames raises the rate.

use nearlight_units::{Bitrate, Bytes, FrameId, RemoteTime, Span, Time};

use crate::backlog::Backlog;
use crate::base_delay::BaseDelay;
use crate::silence::Silence;
use crate::{Bounds, ControllerWake, Decision, Feedback, Limit, PacketReport, RateController, SentFrame, SentPacket};

/// Of a frame interval, what a frame takes on the wire. Guess: half, so that a loss that shows by the frame's end can be repaired before
/// the next frame leaves.
const SHARE: f64 = 0.5;
/// Packets leave at this multiple of the capacity: dispersion shows it, and a capacity that has doubled shows in one frame. Guess: a
/// frame then has left in a quarter of its interval.
const PACING: f64 = 2.0;
/// Number of packet gaps that form a sample. Guess: they average out what a single one is off. Smaller frames make one together.
const LEAST_GAPS: u32 = 4;
/// After this many frames without a sample (frames of one packet give none), a path without a queue gets more. Guess: a quarter of a second
/// at 30 frames a second, so that the rate doubles within a second.
const UNSAMPLED: u32 = 8;
/// A sample below this share of the estimate is a change of the path and counts at once. Guess: more than noise on a wire.
const DROP: f64 = 0.75;
/// Weight of any other sample. Guess: a mean of some frames.
const WEIGHT: f64 = 0.25;
/// Where packets arrive as they were sent the path is faster than they: the estimate grows by at most this with each frame.
/// Guess: it doubles in four frames.
const GROWTH: f64 = 1.25;
/// Arrivals spread this much more than departures are the bottleneck's work. Guess: ten packets' jitter of a packet time.
const SPREAD: f64 = 1.1;
/// A queue below this is ignored. Guess: what interrupts and short bursts of others leave behind.
const QUEUE: Span = Span::from_millis(3);
/// What is left of the target at least while a queue drains. Guess: the smallest picture that still moves.
const LEAST: f64 = 0.1;
/// Base delays are remembered for one to two of these. Guess.
const STRETCH: Span = Span::from_secs(10);
/// Of what arrived while a queue built up, this may be sent without a queue building up again. Guess.
const CARRIED: f64 = 0.9;
/// After this, twice that may be sent. The exponent grows with the cube of the time, as CUBIC's window does: slowly near the rate that was
/// too much, quickly where the path has changed. Guess: within a second a queue builds up at most once.
const DOUBLING: Span = Span::from_millis(1_500);
/// The frame interval before two frames have been seen. Guess: 60 frames a second.
const INTERVAL: Span = Span::from_micros(16_667);

/// A frame whose packets arrive.
#[derive(Clone, Copy, Debug)]
struct Train {
    frame: FrameId,
    sent: (Time, Time),
    arrived: (RemoteTime, RemoteTime),
    gaps: u32,
    /// Behind the first packet, lost ones included: they passed the bottleneck or would have.
    bytes: Bytes,
    /// Lost since the newest arrival.
    lost: Bytes,
}

/// How far apart packets were, of one frame or of several small ones.
#[derive(Clone, Copy, Debug, Default)]
struct Dispersion {
    gaps: u32,
    bytes: Bytes,
    sent: Span,
    arrived: Span,
}

/// Information about the capacity from frames.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    rate: f64,
    /// The path may carry more: packets came as they were sent.
    at_least: bool,
}

impl Train {
    fn dispersion(&self) -> Dispersion {
        let (sent, arrived) = (self.sent.1 - self.sent.0, self.arrived.1 - self.arrived.0);
        Dispersion { gaps: self.gaps, bytes: self.bytes, sent, arrived }
    }
}

impl Dispersion {
    fn and(self, other: Self) -> Self {
        Self {
            gaps: self.gaps + other.gaps,
            bytes: self.bytes + other.bytes,
            sent: self.sent + other.sent,
            arrived: self.arrived + other.arrived,
        }
    }

    fn sample(self) -> Option<Sample> {
        if self.gaps < LEAST_GAPS || self.arrived <= Span::ZERO {
            return None;
        }
        let rate = self.bytes.over(self.arrived).as_bps() as f64;
        Some(Sample { rate, at_least: self.arrived <= self.sent.mul_f64(SPREAD) })
    }
}

/// The controller.
#[derive(Debug)]
pub struct FrameClocked {
    bounds: Bounds,
    base: BaseDelay,
    train: Option<Train>,
    /// Of frames that were too small to be a sample.
    pooled: Dispersion,
    /// Frames since the last sample.
    unsampled: u32,
    /// In bit/s; none before the first sample.
    capacity: Option<f64>,
    /// That the newest frame's first packet met.
    queue: Span,
    backlog: Backlog,
    /// In bit/s, what arrived while a queue built up the last time, and when that was.
    overload: Option<(f64, Time)>,
    interval: Span,
    framed_at: Option<Time>,
    limit: Limit,
    silence: Silence,
    /// The factor on the target for missing feedback.
    trust: f64,
}

impl FrameClocked {
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds: bounds.in_order(),
            base: BaseDelay::new(STRETCH),
            train: None,
            pooled: Dispersion::default(),
            unsampled: 0,
            capacity: None,
            queue: Span::ZERO,
            backlog: Backlog::default(),
            overload: None,
            interval: INTERVAL,
            framed_at: None,
            limit: Limit::Throughput,
            silence: Silence::default(),
            trust: 1.0,
        }
    }

    fn on_report(&mut self, now: Time, report: &PacketReport) {
        let Some(frame) = report.packet.frame else { return };
        let size = report.packet.size;
        let is_newer = self.train.is_none_or(|train| train.frame < frame);
        if report.arrived_at.is_some() && !is_newer {
            self.backlog.on_arrival(size);
        }
        let current = self.train.as_mut().filter(|train| train.frame == frame);
        match (current, report.arrived_at) {
            (Some(train), None) => train.lost += size,
            (Some(train), Some(arrived_at)) => {
                train.bytes += size + std::mem::take(&mut train.lost);
                train.gaps += 1;
                train.sent.1 = report.packet.sent_at;
                train.arrived.1 = train.arrived.1.max(arrived_at);
            }
            // What is sent again belongs to an older frame and says nothing of this one.
            (None, Some(arrived_at)) if is_newer => {
                self.end_train();
                let sent_at = report.packet.sent_at;
                self.queue = self.base.on_delay(now, arrived_at.ahead_of(sent_at));
                // A queue of an interval holds a whole frame: what varies less is jitter, or others' frames.
                if let Some(rate) = self.backlog.on_frame(arrived_at, self.queue, QUEUE, self.interval) {
                    self.overload = Some((rate, now));
                }
                self.backlog.on_arrival(size);
                let (sent, arrived) = ((sent_at, sent_at), (arrived_at, arrived_at));
                let (bytes, lost) = (Bytes::ZERO, Bytes::ZERO);
                self.train = Some(Train { frame, sent, arrived, gaps: 0, bytes, lost });
            }
            (None, _) => {}
        }
    }

    /// The frame's packets have all been reported.
    fn end_train(&mut self) {
        let Some(train) = self.train.take() else { return };
        let dispersion = train.dispersion();
        let own = dispersion.gaps >= LEAST_GAPS;
        self.pooled = if own { dispersion } else { self.pooled.and(dispersion) };
        let Some(Sample { rate, at_least }) = self.pooled.sample() else {
            self.on_unsampled();
            return;
        };
        (self.pooled, self.unsampled) = (Dispersion::default(), 0);
        let before = self.capacity.unwrap_or(rate);
        self.capacity = Some(match at_least {
            true => rate.clamp(before, before * GROWTH),
            false if rate < before * DROP => rate,
            false => before + (rate - before) * WEIGHT,
        });
    }

    fn on_unsampled(&mut self) {
        self.unsampled += 1;
        if self.unsampled >= UNSAMPLED && self.queue <= QUEUE {
            self.unsampled = 0;
            let known = self.capacity.unwrap_or(self.bounds.start.as_bps() as f64 / SHARE);
            self.capacity = Some(known * GROWTH);
        }
    }

    /// A frame that is still arriving may show already that the path has become slower.
    fn look_early(&mut self) {
        let Some((sample, capacity)) = self.train.and_then(|train| train.dispersion().sample()).zip(self.capacity)
        else {
            return;
        };
        if !sample.at_least && sample.rate < capacity * DROP {
            self.capacity = Some(sample.rate);
        }
    }

    /// What a queue leaves of the target: the less, the more of a frame interval it takes.
    fn room(&self) -> f64 {
        let over = (self.queue - QUEUE).max(Span::ZERO);
        (1.0 - over.as_secs_f64() / self.interval.as_secs_f64()).clamp(LEAST, 1.0)
    }

    fn share(&self) -> Bitrate {
        self.capacity.map_or(self.bounds.start, |capacity| Bitrate::from_bps((capacity * SHARE) as u64))
    }

    /// What the path carries without a queue that builds up; more is tried as time goes by.
    fn carried(&self) -> Option<Bitrate> {
        let (rate, at) = self.overload?;
        let age = self.framed_at?.saturating_since(at).as_secs_f64() / DOUBLING.as_secs_f64();
        Some(Bitrate::from_bps((rate * CARRIED * age.powi(3).min(30.0).exp2()) as u64))
    }
}

impl RateController for FrameClocked {
    fn name(&self) -> &'static str {
        "frame-clocked"
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.silence.on_sent(packet.sent_at);
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>) {
        if feedback.packets.is_empty() {
            return;
        }
        if self.silence.on_feedback(feedback) {
            // What the path carried before the silence is no estimate any more: the rate grows from where the silence has left it.
            let capacity = self.capacity.unwrap_or(self.bounds.start.as_bps() as f64 / SHARE);
            self.capacity = Some(capacity * std::mem::replace(&mut self.trust, 1.0));
        }
        for report in feedback.packets {
            self.on_report(now, report);
        }
        self.look_early();
        self.limit = if self.room() < 1.0 { Limit::Delay } else { Limit::Throughput };
    }

    fn on_frame_sent(&mut self, now: Time, _frame: &SentFrame) {
        if let Some(before) = self.framed_at.replace(now) {
            let since = now.saturating_since(before).clamp(Span::from_millis(2), Span::from_millis(100));
            self.interval += (since - self.interval) / 8;
        }
    }

    fn silence(&mut self) -> Option<&mut Silence> {
        Some(&mut self.silence)
    }

    fn on_timeout(&mut self, now: Time) {
        if self.silence.on_time(now) {
            self.trust *= Silence::FACTOR;
            self.limit = Limit::FeedbackTimeout;
        }
    }

    fn poll_timeout(&self) -> Option<(Time, ControllerWake)> {
        let lowest = self.decision().target <= self.bounds.minimum;
        self.silence.due(lowest).map(|at| (at, ControllerWake::FeedbackTimeout))
    }

    fn set_bounds(&mut self, _now: Time, bounds: Bounds) {
        self.bounds = bounds.in_order();
    }

    fn decision(&self) -> Decision {
        let share = self.share();
        let share = self.carried().map_or(share, |carried| carried.min(share));
        let wanted = share.mul_f64(self.room() * self.trust);
        let decision = Decision::of(&self.bounds, &[(self.limit, wanted), (Limit::Delivered, share)], 1.0);
        let unclamped = self.capacity.unwrap_or(self.bounds.start.as_bps() as f64 / SHARE);
        let pacing = Bitrate::from_bps((unclamped * PACING) as u64).max(decision.target.mul_f64(PACING));
        Decision { pacing, ..decision }
    }

    fn held(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::PacketSeq;

    use super::*;

    const BOUNDS: Bounds =
        Bounds { minimum: Bitrate::from_kbps(200), start: Bitrate::from_mbps(2), maximum: Bitrate::from_mbps(50) };
    const PACKET: Bytes = Bytes::new(1_250);
    const FRAME: Span = Span::from_millis(33);
    /// A packet's time on a wire of 1 Gb/s.
    const LINE: Span = Span::from_micros(10);

    /// Frames of the controller's own size over a wire with a queue; feedback comes with the next frame.
    struct Wire {
        controller: FrameClocked,
        capacity: Bitrate,
        free_at: Time,
        now: Time,
        seq: u32,
        frame: u32,
        /// Of this many packets, one is lost behind the bottleneck.
        loses: u32,
        /// What a token bucket lets through at line rate.
        burst: Bytes,
    }

    impl Wire {
        fn new(capacity: Bitrate) -> Self {
            let (free_at, now) = (Time::ZERO, Time::from_secs(1));
            Self {
                controller: FrameClocked::new(BOUNDS),
                capacity,
                free_at,
                now,
                seq: 0,
                frame: 0,
                loses: 0,
                burst: Bytes::ZERO,
            }
        }

        fn run(&mut self, frames: u32) -> Decision {
            for _ in 0..frames {
                let decision = self.controller.decision();
                let size = decision.target.bytes_in(FRAME);
                let count = size.get().div_ceil(PACKET.get()).max(1);
                let mut reports = Vec::new();
                for index in 0..count {
                    let sent_at = self.now + decision.pacing.time_to_send(Bytes::new(PACKET.get() * index));
                    self.free_at = self.free_at.max(sent_at) + self.capacity.time_to_send(PACKET);
                    let leaves_at = (self.free_at - self.capacity.time_to_send(self.burst)).max(sent_at + LINE);
                    self.seq += 1;
                    let lost = self.loses > 0 && self.seq.is_multiple_of(self.loses);
                    let packet = SentPacket {
                        seq: PacketSeq(self.seq),
                        sent_at,
                        size: PACKET,
                        frame: Some(FrameId(self.frame)),
                        probe: None,
                        app_limited: index + 1 == count,
                    };
                    reports.push(PacketReport {
                        packet,
                        arrived_at: (!lost).then_some((leaves_at + Span::from_secs(90)).for_peer()),
                        ce: false,
                    });
                }
                let frame = SentFrame { frame: FrameId(self.frame), size, key: false, encode: Span::ZERO };
                self.controller.on_frame_sent(self.now, &frame);
                self.now += FRAME;
                self.controller.on_feedback(self.now, &Feedback { packets: &reports, round_trip: None });
                self.frame += 1;
            }
            self.controller.decision()
        }
    }

    #[test]
    fn a_frame_takes_its_share_of_any_capacity_with_and_without_losses() {
        for loses in [0, 10] {
            for mbps in [1, 4, 10, 60] {
                let mut wire = Wire::new(Bitrate::from_mbps(mbps));
                wire.loses = loses;
                let target = wire.run(90).target.as_mbps_f64();
                let wanted = mbps as f64 * SHARE;
                assert!((target / wanted - 1.0).abs() < 0.06, "{mbps} Mb/s, one in {loses}: {target}");
            }
        }
    }

    #[test]
    fn a_smaller_capacity_shows_in_the_next_feedback_and_a_larger_one_in_frames() {
        let mut wire = Wire::new(Bitrate::from_mbps(10));
        wire.run(60);
        wire.capacity = Bitrate::from_mbps(3);
        let at_once = wire.run(1).target.as_mbps_f64();
        assert!(at_once < 1.6, "{at_once}");
        let settled = wire.run(15).target.as_mbps_f64();
        assert!((settled / 1.5 - 1.0).abs() < 0.06, "{settled}: the queue has drained");
        wire.capacity = Bitrate::from_mbps(10);
        let grown = wire.run(20).target.as_mbps_f64();
        assert!(grown > 4.7, "{grown}");
    }

    #[test]
    fn frames_too_small_for_a_sample_do_not_keep_the_rate_down() {
        // Frames of four, two and one packets.
        for (kbps, frames) in [(2_000, 25), (900, 40), (400, 80)] {
            let mut wire = Wire::new(Bitrate::from_kbps(kbps));
            let low = wire.run(120).target.as_bps() as f64;
            let share = (kbps as f64 * 1e3 * SHARE).max(BOUNDS.minimum.as_bps() as f64);
            assert!(low < share * 1.3, "{kbps} kb/s: {low}");
            wire.capacity = Bitrate::from_mbps(20);
            let high = wire.run(frames).target.as_mbps_f64();
            assert!(high > 8.0, "{kbps} kb/s: {high} Mb/s after {frames} frames");
        }
    }

    #[test]
    fn a_queue_of_others_lowers_the_target_until_it_is_gone() {
        let mut wire = Wire::new(Bitrate::from_mbps(10));
        let before = wire.run(60).target;
        wire.free_at = wire.now + Span::from_millis(60);
        let decision = wire.run(1);
        assert!(decision.target < before.mul_f64(0.2) && decision.binding == Limit::Delay, "{decision:?}");
        let after = wire.run(20).target;
        assert!(after > before.mul_f64(0.9), "{after} after {before}");
    }

    #[test]
    fn a_token_bucket_is_not_overloaded_although_frames_come_through_at_line_rate() {
        for mbps in [2, 4, 8] {
            let mut wire = Wire::new(Bitrate::from_mbps(mbps));
            wire.burst = Bytes::new(18_000);
            wire.run(60);
            let (mut sum, mut waits) = (0.0, Vec::new());
            for _ in 0..300 {
                sum += wire.run(1).target.as_mbps_f64();
                waits.push(wire.free_at - wire.capacity.time_to_send(wire.burst) - wire.now);
            }
            waits.sort_unstable();
            let mean = sum / 300.0;
            assert!((0.5..1.0).contains(&(mean / mbps as f64)), "{mbps} Mb/s: {mean}");
            assert!(waits[285] < FRAME, "{mbps} Mb/s: frames wait for {}", waits[285]);
        }
    }

    #[test]
    fn without_feedback_the_rate_falls_to_the_minimum() {
        let mut wire = Wire::new(Bitrate::from_mbps(10));
        wire.run(60);
        let sent_at = wire.now;
        wire.controller.on_packet_sent(&SentPacket {
            seq: PacketSeq(wire.seq + 1),
            sent_at,
            size: PACKET,
            frame: Some(FrameId(wire.frame)),
            probe: None,
            app_limited: true,
        });
        let mut steps = 0;
        while let Some((at, ControllerWake::FeedbackTimeout)) = wire.controller.poll_timeout() {
            assert_eq!(at - sent_at, Span::from_millis(500 * (steps + 1)));
            wire.controller.on_timeout(at);
            steps += 1;
        }
        assert_eq!(wire.controller.decision().target, BOUNDS.minimum);
        assert!(wire.run(1).target > BOUNDS.minimum, "feedback is back");
    }
}
