//! `SCReAMv2`, Self-Clocked Rate Adaptation for Multimedia: loss, marks and delay reduce a window, and the rate follows from the
//! window and the round trip.
//!
//! [`delay`] tracks the queue, [`window`] holds the law of the reference window, and [`ScreamV2`] joins them. Never probes.
//!
//! Source: draft-johansson-ccwg-rfc8298bis-screamv2, text of August 2026; `EricssonResearch` `scream` c8f84c3 where the draft is silent.
//!
//! # Departures
//! * The window begins at the size that the user's start rate needs, not at 3,000 bytes.
//! * Marks count as L4S marks, because the session's packets would be sent as L4S. Classic marks are a setting.
//! * The packets' own size is the segment size. A packet is the draft's data unit.
//! * A frame's size deviates by the smoothed excess over the mean frame; the draft takes a high percentile of a histogram.
//! * The smoothed share of lost packets has a memory of about 200 packets, which the draft leaves open.
//! * A policer is recognised by losses without a queue at the time of the loss. The draft looks at the queue only when it decides: losses
//!   of a full queue would count as a policer's as soon as the queue is empty, and cap the window for minutes.
//! * Competing flows (optional in the draft) do not raise the delay target.
//! * A drifted base is forgotten while the rate is halved, but media is never discarded for it.
//! * Without feedback the window falls ([`crate::silence`]).

pub mod delay;
pub mod window;

use nearlight_units::{Bitrate, Bytes, Span, Time, smoothed_to_nearest};

use self::delay::QueueDelay;
use self::window::{DELAY_TARGET, Losses, ReductionCause, ReferenceWindow, WindowInput};
use crate::arriving::ArrivingRate;
use crate::in_flight::{InFlight, MaxInFlight};
use crate::silence::Silence;
use crate::{Bounds, ControllerWake, Decision, Feedback, Limit, PacketReport, RateController, SentFrame, SentPacket};

/// The share of marks is averaged at least this often, or once a round trip. It rises by an eighth of the difference, and decays more
/// slowly (`L4S_AVG_G_UP`, `L4S_AVG_G_DOWN`).
const MARK_INTERVAL: Span = Span::from_millis(10);
const MARK_WEIGHT: f64 = 1.0 / 8.0;
const MARK_DECAY: f64 = 1.0 / 128.0;
/// Marks in a round trip at which the window stays constant: as many as the rate itself explains.
const MARKS_AT_REST: f64 = 2.0;
/// Share of lost packets from which on losses count without a queue of a quarter of the target, and share from which on losses without
/// a queue are a policer's.
const MIN_LOSS_SHARE: f64 = 0.01;
const MIN_POLICER_LOSS_SHARE: f64 = 0.1;
/// Weight of a packet in the share of lost packets. Guess: four frames at 35 Mb/s and 72 frames a second.
const LOSS_WEIGHT: f64 = 1.0 / 200.0;
/// The maximum of bytes in flight is taken over one to two of these intervals, or round trips if longer (`kSlowUpdateInterval`).
const IN_FLIGHT_INTERVAL: Span = Span::from_millis(50);
/// The round trip before one has been measured. Guess.
const UNKNOWN_ROUND_TRIP: Span = Span::from_millis(50);
/// The time over which the arriving rate is measured. Guess: short enough to show a rate that is ahead of it.
const ARRIVING_WINDOW: Span = Span::from_millis(200);
/// Ratio of the window to what the rate needs, because frame sizes vary.
const WINDOW_OVER_RATE: f64 = 1.2;
/// Queue in the sender, as a share of the frame interval, that does not lower the rate; the weight of the excess; the maximum effect.
const FREE_SENDER_QUEUE: f64 = 0.25;
const SENDER_QUEUE_WEIGHT: f64 = 1.0 / 16.0;
const MAX_QUEUE_ADJUSTMENT: f64 = 0.5;
/// Bytes per packet that the window counts and the rate does not (`PACKET_OVERHEAD`).
const PACKET_OVERHEAD: f64 = 20.0;
/// A window of few packets lowers the rate by their share above the first value, by the second value at most.
const FEW_PACKETS_REDUCTION: (f64, f64) = (0.1, 0.2);
/// Ratio of the pacing rate to the target (`PACKET_PACING_HEADROOM`), relaxed up to fourfold from this share of the highest rate on.
const PACING_FACTOR: f64 = 1.5;
const RELAXED_PACING_SHARE: f64 = 0.8;
const MAX_PACING_RELAXATION: f64 = 4.0;
/// Bytes in flight may exceed the window by this factor, and by as much again when delay is steady (`REF_WND_OVERHEAD`).
const WINDOW_OVERHEAD: f64 = 1.5;
/// Minimum time between two resets of a drifted base delay (`kBaseDelayResetInterval`), and the time and factor by which the rate is
/// reduced before.
const DRIFT_INTERVAL: Span = Span::from_secs(60);
const DRIFT_PAUSE: Span = Span::from_millis(200);
const DRIFT_FACTOR: f64 = 0.5;
/// The frame interval before two frames were sent. Guess: 60 frames a second.
const UNKNOWN_FRAME_INTERVAL: Span = Span::from_micros(16_667);

/// The kind of congestion marks that the path sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// One mark says that a queue is long (RFC 3168).
    Classic,
    /// The share of marks says how long (RFC 9330).
    L4s,
}

/// Shares of marked and lost packets.
#[derive(Clone, Debug, Default)]
struct Shares {
    delivered: u32,
    marked: u32,
    averaged_at: Option<Time>,
    marks: f64,
    losses: f64,
    /// Share of packets that were lost while there was no queue.
    policed: f64,
}

impl Shares {
    fn on_report(&mut self, report: &PacketReport, has_queue: bool) {
        let lost = report.arrived_at.is_none();
        let average = |share: &mut f64, is: bool| *share += LOSS_WEIGHT * (f64::from(u8::from(is)) - *share);
        average(&mut self.losses, lost);
        average(&mut self.policed, lost && !has_queue);
        if report.arrived_at.is_some() {
            self.delivered += 1;
            self.marked += u32::from(report.ce);
        }
    }

    /// Classifies the losses of a message that reports some.
    fn judge(&self, has_queue: bool) -> Losses {
        if self.policed > MIN_POLICER_LOSS_SHARE && !has_queue {
            Losses::Policer
        } else if self.losses > MIN_LOSS_SHARE || has_queue {
            Losses::Congestion
        } else {
            Losses::Ignored
        }
    }

    fn on_feedback(&mut self, now: Time, round_trip: Span) {
        let since = now.saturating_since(*self.averaged_at.get_or_insert(now));
        if since < round_trip.min(MARK_INTERVAL) || self.delivered == 0 {
            return;
        }
        let share = f64::from(self.marked) / f64::from(self.delivered);
        self.marks = if share >= self.marks {
            self.marks + MARK_WEIGHT * (share - self.marks)
        } else {
            self.marks * (1.0 - MARK_DECAY)
        };
        (self.delivered, self.marked, self.averaged_at) = (0, 0, Some(now));
    }
}

/// Statistics of the encoder's frame sizes.
#[derive(Clone, Debug)]
struct FrameSizes {
    interval: Span,
    last_at: Option<Time>,
    mean: f64,
    /// Smoothed excess over the mean, as a share of it (`frame_size_dev`).
    excess: f64,
}

impl FrameSizes {
    fn on_frame(&mut self, now: Time, frame: &SentFrame) {
        if let Some(before) = self.last_at.replace(now) {
            let sample = now.saturating_since(before).min(Span::from_secs(1));
            self.interval = smoothed_to_nearest(self.interval, sample);
        }
        let size = frame.size.get() as f64;
        if self.mean == 0.0 {
            self.mean = size;
        }
        let excess = (size / self.mean.max(1.0) - 1.0).clamp(0.0, 1.0);
        self.mean += (size - self.mean) / 16.0;
        self.excess += (excess - self.excess) / 16.0;
    }
}

/// The controller.
#[derive(Debug)]
pub struct ScreamV2 {
    marking: Marking,
    bounds: Bounds,
    in_flight: InFlight,
    most_in_flight: MaxInFlight,
    delay: QueueDelay,
    shares: Shares,
    arriving: ArrivingRate,
    window: ReferenceWindow,
    round_trip: Option<Span>,
    largest: Bytes,
    sizes: FrameSizes,
    adjusted: f64,
    rate: Bitrate,
    limit: Limit,
    drift: Drift,
    silence: Silence,
}

/// Progress of a reset of the base delay.
#[derive(Clone, Copy, Debug, Default)]
struct Drift {
    checked_at: Option<Time>,
    until: Option<Time>,
}

impl ScreamV2 {
    #[must_use]
    pub fn new(bounds: Bounds, marking: Marking) -> Self {
        let bounds = bounds.in_order();
        Self {
            marking,
            bounds,
            in_flight: InFlight::default(),
            most_in_flight: MaxInFlight::default(),
            delay: QueueDelay::default(),
            shares: Shares::default(),
            arriving: ArrivingRate::new(ARRIVING_WINDOW),
            window: ReferenceWindow::new(window_for(bounds.start, UNKNOWN_ROUND_TRIP)),
            round_trip: None,
            largest: Bytes::new(1_000),
            sizes: FrameSizes { interval: UNKNOWN_FRAME_INTERVAL, last_at: None, mean: 0.0, excess: 0.0 },
            adjusted: 0.0,
            rate: bounds.start,
            limit: Limit::Window,
            drift: Drift::default(),
            silence: Silence::default(),
        }
    }

    fn on_round_trip(&mut self, sample: Span) {
        let sample = sample.max(Span::from_millis(1));
        if self.round_trip.is_none() {
            // The first round trip: the window that the start rate needs on this path.
            self.window = ReferenceWindow::new(window_for(self.bounds.start, sample));
        }
        self.round_trip = Some(smoothed_to_nearest(self.round_trip, sample));
    }

    /// Records the packets of a message. Returns the bytes that arrived with a mark and whether something was lost.
    fn on_reports(&mut self, now: Time, feedback: &Feedback<'_>) -> (Bytes, bool) {
        let (mut marked, mut lost) = (Bytes::ZERO, false);
        // These packets met the queue that was known before this message.
        let has_queue = self.has_queue();
        for report in feedback.packets {
            self.shares.on_report(report, has_queue);
            let Some(arrived_at) = report.arrived_at else {
                lost = true;
                continue;
            };
            if report.ce {
                marked += report.packet.size;
            }
            self.delay.on_packet(now, arrived_at.ahead_of(report.packet.sent_at));
            self.arriving.on_packet(arrived_at, report.packet.size);
        }
        (marked, lost)
    }

    fn has_queue(&self) -> bool {
        self.delay.average() > DELAY_TARGET / 4
    }

    fn step(&mut self, now: Time, round_trip: Span, acked: Bytes, (marked, lost): (Bytes, bool)) {
        let packets = self.window.bytes() / self.largest.get().max(1) as f64;
        let facts = WindowInput {
            now,
            acked,
            marked,
            round_trip,
            losses: if lost { self.shares.judge(self.has_queue()) } else { Losses::Ignored },
            mark_share: self.shares.marks,
            scalable: self.marking == Marking::L4s,
            queue_delay: self.delay.latest(),
            average_delay: self.delay.average(),
            steadiness: self.delay.steadiness(),
            over_arriving: self
                .arriving
                .rate()
                .map(|arriving| self.rate.as_bps() as f64 / arriving.as_bps().max(1) as f64),
            expected_mark_share: MARKS_AT_REST / packets.max(1.0),
            at_maximum: self.rate >= self.bounds.maximum,
            most_in_flight: self.most_in_flight.most(),
            packet: self.largest,
        };
        self.limit = match self.window.on_feedback(&facts) {
            Some(ReductionCause::Loss) => Limit::Loss,
            Some(ReductionCause::Marks) => Limit::Marks,
            Some(ReductionCause::Delay) => Limit::Delay,
            None => Limit::Window,
        };
    }

    /// The rate that the window allows.
    fn update_rate(&mut self, now: Time, round_trip: Span) {
        let packet = self.largest.get().max(1) as f64;
        let few = (packet / self.window.bytes() - FEW_PACKETS_REDUCTION.0).clamp(0.0, FEW_PACKETS_REDUCTION.1);
        let share =
            packet / (packet + PACKET_OVERHEAD) * (1.0 - few) / (WINDOW_OVER_RATE + self.adjusted + self.sizes.excess);
        let pause = if self.is_drifting(now, round_trip) { DRIFT_FACTOR } else { 1.0 };
        let bits_per_second = 8.0 * self.window.bytes() * share * pause / round_trip.as_secs_f64().max(1e-3);
        self.rate = self.bounds.clamp(Bitrate::from_bps(1).mul_f64(bits_per_second));
    }

    /// Whether the base may have drifted, because the queue has not been empty for long. The rate is then reduced briefly to find out.
    fn is_drifting(&mut self, now: Time, round_trip: Span) -> bool {
        if let Some(until) = self.drift.until {
            if now < until {
                return true;
            }
            self.drift.until = None;
            self.delay.forget_base();
        }
        let since = now.saturating_since(*self.drift.checked_at.get_or_insert(now));
        if since > DRIFT_INTERVAL && self.delay.slow_lowest() > DELAY_TARGET / 4 {
            self.drift.checked_at = Some(now);
            self.drift.until = Some(now + (round_trip * 5).max(DRIFT_PAUSE));
        }
        self.drift.until.is_some()
    }

    fn pacing(&self) -> Bitrate {
        let share = self.rate.as_bps() as f64 / self.bounds.maximum.as_bps().max(1) as f64;
        let relaxed = ((share - RELAXED_PACING_SHARE) / (1.0 - RELAXED_PACING_SHARE)).clamp(0.0, 1.0);
        self.rate.mul_f64(PACING_FACTOR / (1.0 - relaxed).max(1.0 / MAX_PACING_RELAXATION))
    }

    /// Bytes allowed in flight.
    fn allowed(&self) -> Bytes {
        let overhead = WINDOW_OVERHEAD * (1.0 + self.delay.steadiness());
        Bytes::new((self.window.bytes() * overhead) as u64) + self.largest
    }
}

/// The window that a rate needs: the inverse of [`ScreamV2::update_rate`].
fn window_for(rate: Bitrate, round_trip: Span) -> Bytes {
    rate.mul_f64(WINDOW_OVER_RATE).bytes_in(round_trip)
}

impl RateController for ScreamV2 {
    fn name(&self) -> &'static str {
        "scream-v2"
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.silence.on_sent(packet.sent_at);
        self.in_flight.on_packet_sent(packet);
        self.largest = self.largest.max(packet.size);
        let stretch = self.round_trip.unwrap_or(UNKNOWN_ROUND_TRIP).max(IN_FLIGHT_INTERVAL);
        self.most_in_flight.on_bytes(packet.sent_at, self.in_flight.bytes(), stretch);
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>) {
        self.silence.on_feedback(feedback);
        if let Some(sample) = feedback.round_trip {
            self.on_round_trip(sample);
        }
        let highest = feedback.packets.iter().map(|report| report.packet.seq).max();
        let acked = highest.map_or(Bytes::ZERO, |highest| self.in_flight.on_reported(highest));
        let seen = self.on_reports(now, feedback);
        let Some(round_trip) = self.round_trip else { return };
        self.delay.on_feedback(now, round_trip);
        self.shares.on_feedback(now, round_trip);
        self.step(now, round_trip, acked, seen);
        self.update_rate(now, round_trip);
    }

    fn on_frame_sent(&mut self, now: Time, frame: &SentFrame) {
        self.sizes.on_frame(now, frame);
    }

    fn on_sender_queue(&mut self, _now: Time, queued: Bytes) {
        let interval = self.sizes.interval.as_secs_f64().max(1e-3);
        let waits = self.pacing().time_to_send(queued).as_secs_f64() / interval;
        let adjusted = self.adjusted + SENDER_QUEUE_WEIGHT * (waits - FREE_SENDER_QUEUE);
        self.adjusted = adjusted.clamp(0.0, MAX_QUEUE_ADJUSTMENT);
    }

    fn silence(&mut self) -> Option<&mut Silence> {
        Some(&mut self.silence)
    }

    fn on_timeout(&mut self, now: Time) {
        if self.silence.on_time(now) {
            self.in_flight.forget();
            self.window.scale(Silence::FACTOR);
            self.rate = self.bounds.clamp(self.rate.mul_f64(Silence::FACTOR));
            self.limit = Limit::FeedbackTimeout;
        }
    }

    fn poll_timeout(&self) -> Option<(Time, ControllerWake)> {
        self.silence.due(self.rate <= self.bounds.minimum).map(|at| (at, ControllerWake::FeedbackTimeout))
    }

    fn set_bounds(&mut self, _now: Time, bounds: Bounds) {
        self.bounds = bounds.in_order();
        self.rate = self.bounds.clamp(self.rate);
    }

    fn decision(&self) -> Decision {
        let decision = Decision::of(&self.bounds, &[(self.limit, self.rate)], 1.0);
        Decision { pacing: self.pacing().max(decision.target), window: Some(self.allowed()), ..decision }
    }

    fn held(&self) -> usize {
        self.in_flight.held()
    }
}

#[cfg(test)]
mod tests {
    use nearlight_units::{FrameId, PacketSeq};

    use super::*;

    const BOUNDS: Bounds =
        Bounds { minimum: Bitrate::from_mbps(1), start: Bitrate::from_mbps(8), maximum: Bitrate::from_mbps(100) };

    fn report(arrived: bool) -> PacketReport {
        let packet = SentPacket {
            seq: PacketSeq(0),
            sent_at: Time::from_secs(1),
            size: Bytes::new(1_180),
            frame: Some(FrameId(0)),
            probe: None,
            app_limited: true,
        };
        PacketReport { packet, arrived_at: arrived.then_some(nearlight_units::RemoteTime::from_secs(1_000)), ce: false }
    }

    #[test]
    fn the_share_of_marks_rises_by_an_eighth_and_decays_slowly() {
        let mut shares = Shares::default();
        let mut feed = |message: u64, marked: u32| {
            (shares.delivered, shares.marked) = (10, marked);
            shares.on_feedback(Time::from_millis(10 * message), Span::from_millis(40));
            shares.marks
        };
        feed(0, 10);
        assert!((feed(1, 8) - 0.1).abs() < 1e-12);
        assert!((feed(2, 0) - 0.1 * 127.0 / 128.0).abs() < 1e-12);
    }

    #[test]
    fn a_policer_loses_without_a_queue_and_a_queue_that_has_emptied_is_none() {
        // Of each group of ten packets the first ones are lost; the queue is there while they are reported, or when they are judged.
        let cases = [
            ("few, by chance", 0, 1, [false, false], Losses::Ignored),
            ("few, in a queue", 0, 1, [true, true], Losses::Congestion),
            ("a policer", 2, 100, [false, false], Losses::Policer),
            ("a full queue", 2, 100, [true, true], Losses::Congestion),
            ("a queue that was full just before", 2, 100, [true, false], Losses::Congestion),
        ];
        for (what, of_ten, groups, [met, judged], expected) in cases {
            let mut shares = Shares::default();
            for number in 0..10 * groups {
                let lost = number % 10 < of_ten || number == 0;
                shares.on_report(&report(!lost), met);
            }
            assert_eq!(shares.judge(judged), expected, "{what}");
        }
    }

    #[test]
    fn pacing_is_half_as_much_again_and_four_times_that_at_the_maximum() {
        let mut scream = ScreamV2::new(BOUNDS, Marking::L4s);
        for (mbps, factor) in [(10, 1.5), (80, 1.5), (90, 3.0), (100, 6.0)] {
            scream.rate = Bitrate::from_mbps(mbps);
            let found = scream.pacing().as_bps() as f64 / (mbps as f64 * 1e6);
            assert!((found - factor).abs() < 1e-9, "{mbps} Mb/s: {found}");
        }
    }

    #[test]
    fn the_start_rate_holds_on_a_path_without_a_queue() {
        let mut scream = ScreamV2::new(BOUNDS, Marking::L4s);
        let packets = [report(true)];
        scream.on_packet_sent(&packets[0].packet);
        let feedback = Feedback { packets: &packets, round_trip: Some(Span::from_millis(100)) };
        scream.on_feedback(Time::from_millis(1_100), &feedback);
        // 8 * w / rtt / 1.2, less 20 of 1,200 bytes, with a window of 1.2 times 8 Mb/s for 100 ms, and one packet's growth.
        let found = scream.decision().target.as_bps() as f64 / 8e6;
        assert!((found / (1_180.0 / 1_200.0) - 1.0).abs() < 2e-3, "{found}");
    }

    #[test]
    fn a_queue_in_the_sender_lowers_the_rate_by_a_bounded_share() {
        let mut scream = ScreamV2::new(BOUNDS, Marking::L4s);
        (0..100).for_each(|_| scream.on_sender_queue(Time::ZERO, Bytes::ZERO));
        assert!(scream.adjusted.abs() < 1e-12);
        (0..100).for_each(|_| scream.on_sender_queue(Time::ZERO, Bytes::new(1_000_000)));
        assert!((scream.adjusted - MAX_QUEUE_ADJUSTMENT).abs() < 1e-12);
    }
}
