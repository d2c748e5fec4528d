//! Nebula's joint control of source rate and redundancy, and ESCOT as Nebula's authors built it.
//!
//! In each step the sending rate becomes the throughput that the dispersion of frames' packets shows, minus what drains the queue
//! within the step. The picture takes the highest rung of a ladder that this rate carries beside the redundancy. Decides from arrivals,
//! losses, round trips and motion-to-photon latency. Never probes.
//!
//! Source: Alhilal et al., Nebula: Reliable Low-latency Video Transmission for Mobile Cloud Gaming (WWW 2022), sections 3.3 to 5.3.
//!
//! # Departures
//! * The paper's equations are missing in its published text. The sending rate is `T (1 - min(delta, tau) / tau)`: the rate that drains
//!   the queue of `T delta` within a step of `tau`.
//! * The picture takes the largest rung that is not above the rate; the paper also says the closest one. If the rung does not fall and
//!   motion-to-photon latency is above its bound, the rung below is taken.
//! * The capture rate falls, in proportion and to a third at most, only if even the lowest rung is too much. The paper does not say
//!   how it is chosen.
//! * Loss and throughput are measured once a step, and the client's half runs in the sender. Each feedback message is a probe of the
//!   round trip; the paper leaves open how often it probes.
//! * The ladder reaches to the user's maximum ([`crate::ladder`]), and before the first measurement the rate is the user's start.
//! * Without feedback the picture falls by a rung each 500 ms.
//! * Frames must leave unpaced. Otherwise their dispersion shows the pacer's rate.
//! * `escot`: one block for each group of pictures, and a step for each group of ten frames. The original (Wu et al., TCSVT 2017) adapts
//!   on top of TCP.

mod monitor;
mod redundancy;

use nearlight_fec::policy::NEBULA_GROUP;
use nearlight_units::{Bitrate, Bytes, Span, Time};

use self::monitor::Monitor;
use self::redundancy::{Block, RedundancyShare};
use crate::ladder::Ladder;
use crate::silence::Silence;
use crate::{
    Bounds, ControllerWake, Decision, Feedback, FrameOutcome, Limit, RateController, Redundancy, SentFrame, SentPacket,
};

/// Length of the control step (section 3.4).
const STEP_LENGTH: Span = Span::from_secs(1);
/// The highest motion-to-photon latency that does not lower the rung (section 3.3, `T_d`).
const MAX_MOTION_TO_PHOTON: Span = Span::from_millis(130);
/// The lowest share of frames that are captured. Guess: 10 of 30 a second still show motion.
const MIN_FRAME_SHARE: f64 = 1.0 / 3.0;

/// The parameters in which presets differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NebulaOptions {
    pub name: &'static str,
    /// Whether a step is a group of frames rather than a second.
    pub by_group: bool,
    block: Block,
}

impl NebulaOptions {
    /// The parameters of the paper.
    pub const NEBULA: Self = Self { name: "nebula", by_group: false, block: Block::Frame };

    /// The parameters of ESCOT, as the paper describes it.
    pub const ESCOT: Self = Self { name: "escot", by_group: true, block: Block::Group };
}

/// The controller.
#[derive(Debug)]
pub struct Nebula {
    options: NebulaOptions,
    bounds: Bounds,
    ladder: Ladder,
    monitor: Monitor,
    share: RedundancyShare,
    /// Size of the largest packet.
    packet: Bytes,
    round_trip: Option<Span>,
    lowest_round_trip: Option<Span>,
    /// Frames since the last step.
    frames: u32,
    stepped_at: Option<Time>,
    rung: usize,
    frame_rate: f64,
    /// The sending rate, including redundancy.
    sending: Option<Bitrate>,
    limit: Limit,
    silence: Silence,
}

impl Nebula {
    #[must_use]
    pub fn new(bounds: Bounds, options: NebulaOptions) -> Self {
        let bounds = bounds.in_order();
        let ladder = Ladder::up_to(bounds.maximum);
        Self {
            options,
            bounds,
            ladder,
            monitor: Monitor::default(),
            share: RedundancyShare::new(options.block),
            packet: Bytes::new(1),
            round_trip: None,
            lowest_round_trip: None,
            frames: 0,
            stepped_at: None,
            rung: ladder.below(bounds.start),
            frame_rate: 1.0,
            sending: None,
            limit: Limit::Throughput,
            silence: Silence::default(),
        }
    }

    fn step_if_due(&mut self, now: Time) {
        let since = now.saturating_since(*self.stepped_at.get_or_insert(now));
        let due = if self.options.by_group { self.frames >= NEBULA_GROUP } else { since >= STEP_LENGTH };
        if due {
            self.stepped_at = Some(now);
            self.frames = 0;
            self.monitor.on_step();
            self.step();
        }
    }

    fn step(&mut self) {
        let Some(throughput) = self.monitor.throughput() else { return };
        let sending = throughput.mul_f64(1.0 - self.queueing().as_secs_f64() / STEP_LENGTH.as_secs_f64());
        let source = sending.mul_f64(1.0 - self.share.share(self.monitor.loss()));
        let mut rung = self.ladder.below(source);
        self.limit = Limit::Throughput;
        if rung >= self.rung && self.monitor.motion_to_photon().is_some_and(|latency| latency > MAX_MOTION_TO_PHOTON) {
            rung = rung.saturating_sub(1);
            self.limit = Limit::Delay;
        }
        self.rung = rung;
        let lowest = self.ladder.rate(0).as_bps().max(1) as f64;
        self.frame_rate = (source.as_bps() as f64 / lowest).clamp(MIN_FRAME_SHARE, 1.0);
        self.sending = Some(sending);
    }

    /// Excess of the round trip over the shortest one, a step at most (`delta`).
    fn queueing(&self) -> Span {
        let both = self.round_trip.zip(self.lowest_round_trip);
        both.map_or(Span::ZERO, |(recent, lowest)| (recent - lowest).clamp(Span::ZERO, STEP_LENGTH))
    }

    /// The rung's rate, or the user's start rate before the first measurement.
    fn rung_rate(&self) -> Bitrate {
        let measured = self.sending.is_some() || self.limit == Limit::FeedbackTimeout;
        if measured { self.ladder.rate(self.rung).mul_f64(self.frame_rate) } else { self.bounds.start }
    }
}

impl RateController for Nebula {
    fn name(&self) -> &'static str {
        self.options.name
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.silence.on_sent(packet.sent_at);
        self.packet = self.packet.max(packet.size);
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>) {
        self.silence.on_feedback(feedback);
        if let Some(sample) = feedback.round_trip {
            let sample = sample.max(Span::ZERO);
            self.round_trip = Some(sample);
            self.lowest_round_trip = Some(self.lowest_round_trip.map_or(sample, |lowest| lowest.min(sample)));
        }
        self.monitor.on_feedback(feedback);
        self.step_if_due(now);
    }

    fn on_frame_sent(&mut self, _now: Time, frame: &SentFrame) {
        self.frames = self.frames.saturating_add(1);
        self.share.on_frame(frame.size, frame.key, self.packet, self.monitor.loss());
    }

    fn on_frame_outcome(&mut self, _now: Time, outcome: &FrameOutcome) {
        if let Some(latency) = outcome.motion_to_photon {
            self.monitor.on_motion_to_photon(latency);
        }
    }

    fn silence(&mut self) -> Option<&mut Silence> {
        Some(&mut self.silence)
    }

    fn on_timeout(&mut self, now: Time) {
        if self.silence.on_time(now) {
            self.rung = self.rung.saturating_sub(1);
            self.limit = Limit::FeedbackTimeout;
        }
    }

    fn poll_timeout(&self) -> Option<(Time, ControllerWake)> {
        self.silence.due(self.rung == 0).map(|at| (at, ControllerWake::FeedbackTimeout))
    }

    fn set_bounds(&mut self, _now: Time, bounds: Bounds) {
        self.bounds = bounds.in_order();
        self.ladder = Ladder::up_to(self.bounds.maximum);
        self.rung = self.ladder.below(self.sending.unwrap_or(self.bounds.start));
    }

    fn decision(&self) -> Decision {
        let loss = self.monitor.loss();
        let redundancy = Redundancy { share: self.share.share(loss), loss };
        let candidates = [(self.limit, self.rung_rate()), (Limit::Delivered, self.sending.unwrap_or(Bitrate::ZERO))];
        let count = 1 + usize::from(self.sending.is_some());
        let step = Some(self.ladder.step(self.rung, self.frame_rate));
        Decision { step, redundancy: Some(redundancy), ..Decision::unpaced(&self.bounds, &candidates[..count]) }
    }

    fn held(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests;
