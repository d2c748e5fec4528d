//! Rate control: how many bits the encoder may spend and how fast packets may leave.
//!
//! A controller is told of packets and frames (`on_*`) and returns a [`Decision`] that contains every candidate limit. It never
//! reads a clock, does not know packets' contents and owns no socket: the same code runs in virtual time and live.

#![forbid(unsafe_code)]

pub mod alvr;
mod arriving;
mod base_delay;
pub mod buffer_occupancy;
pub mod fixed;
pub mod frame_clocked;
mod frames;
pub mod gcc;
mod in_flight;
pub mod ladder;
pub mod nada;
pub mod nebula;
mod registry;
pub mod scream;
mod silence;
pub mod windowed;

pub use arriving::ArrivingRate;
pub use in_flight::InFlight;
pub use registry::{PRESETS, Preset, UnknownController, new_controller};

use nearlight_units::{Bitrate, Bytes, FrameId, PacketSeq, RemoteTime, Span, Time};
use nearlight_wire::TcpInfo;
use serde::Serialize;

use crate::silence::Silence;

/// A media datagram that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentPacket {
    pub seq: PacketSeq,
    pub sent_at: Time,
    /// Size on the wire, without the transport's own headers.
    pub size: Bytes,
    /// The frame it belongs to. None for probe padding.
    pub frame: Option<FrameId>,
    /// The probe cluster it belongs to, if any.
    pub probe: Option<ProbeId>,
    /// Whether the sender had nothing more to send when this packet left.
    pub app_limited: bool,
}

/// The fate of a sent packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketReport {
    pub packet: SentPacket,
    /// When the packet arrived. None if the receiver reported it missing.
    pub arrived_at: Option<RemoteTime>,
    /// Whether it arrived with the mark "congestion experienced" (RFC 3168).
    pub ce: bool,
}

/// One feedback message, matched with the sender's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feedback<'a> {
    /// Reports of at least one packet, in sequence order. A packet is reported as missing at most once and as arrived at most once (a late
    /// arrival may follow a report of loss).
    pub packets: &'a [PacketReport],
    /// Round trip of the newest packet, without the time for which the receiver delayed the report.
    pub round_trip: Option<Span>,
}

/// The report of a receiver that does not report arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverReport {
    /// Packets since its last report (RFC 3550 section 6.4.1).
    Packets { arrived: u32, lost: u32 },
    /// The receiver's estimate of the path's capacity, for media and everything else.
    Estimate(Bitrate),
}

/// A frame that the encoder delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentFrame {
    pub frame: FrameId,
    pub size: Bytes,
    pub key: bool,
    pub encode: Span,
}

/// The receiving application's report of a displayed frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameOutcome {
    pub frame: FrameId,
    /// One-way delay of the last packet, from sent to arrived.
    pub network: Span,
    pub reassemble: Span,
    pub decode: Span,
    pub motion_to_photon: Option<Span>,
    pub late: bool,
}

/// Identifies a group of packets sent to measure the path's capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ProbeId(pub u32);

/// A request to send `size` at `rate` and measure its arrival. The sender pads if frames do not suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    pub id: ProbeId,
    pub rate: Bitrate,
    pub size: Bytes,
}

/// The reason for a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// A constant of the user or the plan.
    Fixed,
    /// The lowest rate that the session works with.
    Minimum,
    /// The highest rate that the user allows.
    Maximum,
    /// Growing delay.
    Delay,
    /// Lost packets.
    Loss,
    /// A multiple of the arriving rate.
    Delivered,
    /// A finished bandwidth probe.
    Probe,
    /// Packets that a queue has marked.
    Marks,
    /// A policer on the path, which drops what exceeds a rate.
    Policer,
    /// Other flows on the path.
    CrossTraffic,
    /// The congestion window over a round trip.
    Window,
    /// A share of the rate at which whole frames are delivered.
    Throughput,
    /// The receiver's playback buffer.
    Buffer,
    /// The encoder needs too much of the frame interval.
    Encoder,
    /// The decoder falls behind.
    Decoder,
    /// TCP's sending rate, when it carries the media.
    Transport,
    /// No feedback arrives.
    FeedbackTimeout,
}

impl Limit {
    /// The name in logs, on the wire and on the page.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Minimum => "minimum",
            Self::Maximum => "maximum",
            Self::Delay => "delay",
            Self::Loss => "loss",
            Self::Delivered => "delivered",
            Self::Probe => "probe",
            Self::Marks => "marks",
            Self::Policer => "policer",
            Self::CrossTraffic => "cross_traffic",
            Self::Window => "window",
            Self::Throughput => "throughput",
            Self::Buffer => "buffer",
            Self::Encoder => "encoder",
            Self::Decoder => "decoder",
            Self::Transport => "transport",
            Self::FeedbackTimeout => "feedback_timeout",
        }
    }
}

/// The picture's position on a controller's ladder of sizes and frame rates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Index of the rung, from 0 for the lowest.
    pub rung: u8,
    /// Share of the full picture's width and height, above 0 and at most 1.
    pub scale: f64,
    /// Share of the full frame rate, above 0 and at most 1.
    pub frame_rate: f64,
}

/// The redundancy that a controller leaves room for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Redundancy {
    /// Share of redundancy in all sent bytes, from 0 to below 1. It comes on top of the target.
    pub share: f64,
    /// Share of packets that are lost, from 0 to 1, as far as the controller knows.
    pub loss: f64,
}

/// The rates in force and all candidates. Goes to the log as it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// The rate for the encoder.
    pub target: Bitrate,
    /// The rate for the pacer.
    pub pacing: Bitrate,
    /// Whether packets must leave one by one at that rate, whatever the pacer's mode, because this path loses even short bursts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub evenly: bool,
    /// Maximum number of unacknowledged bytes, if the controller has such a window: media beyond it waits in the sender for feedback, half
    /// a second at most.
    pub window: Option<Bytes>,
    /// The picture's size and frame rate, if the controller chooses them.
    pub step: Option<Step>,
    /// The redundancy against losses, if the controller accounts for it.
    pub redundancy: Option<Redundancy>,
    /// The limit that determined the target.
    pub binding: Limit,
    /// All candidates, including the winner.
    pub limits: Vec<(Limit, Bitrate)>,
}

/// Maximum number of packets that a controller remembers: 6 s at 100 Mb/s. Older ones no longer count.
const MAX_PACKETS: usize = 65_536;

/// The sending rate of a sender without a pacer: its network card's. Guess: Gigabit Ethernet.
const UNPACED_RATE: Bitrate = Bitrate::from_mbps(1_000);

impl Decision {
    /// Makes a decision from candidates, of which the first sets the target within the bounds. The pacing rate is a multiple of it.
    fn of(bounds: &Bounds, candidates: &[(Limit, Bitrate)], pacing_factor: f64) -> Self {
        let (limit, wanted) = candidates[0];
        let target = bounds.clamp(wanted);
        let binding = match wanted {
            _ if wanted >= bounds.maximum => Limit::Maximum,
            _ if wanted < bounds.minimum => Limit::Minimum,
            _ => limit,
        };
        let mut limits = Vec::with_capacity(candidates.len() + 2);
        limits.extend_from_slice(candidates);
        limits.push((Limit::Minimum, bounds.minimum));
        limits.push((Limit::Maximum, bounds.maximum));
        let pacing = target.mul_f64(pacing_factor).max(target);
        Self { target, pacing, evenly: false, window: None, step: None, redundancy: None, binding, limits }
    }

    /// Whether the target is the lowest rate allowed, and not a constant.
    #[must_use]
    pub fn is_at_minimum(&self) -> bool {
        let lowest = |(limit, rate): &(Limit, Bitrate)| *limit == Limit::Minimum && self.target <= *rate;
        self.binding != Limit::Fixed && self.limits.iter().any(lowest)
    }

    /// Adds a candidate from outside of the controller and lowers the target to it. The pacing rate keeps its distance from the target.
    /// A constant target stays, and so does the lowest rate.
    #[must_use]
    pub fn limited_to(mut self, limit: Limit, rate: Bitrate) -> Self {
        let lowest = self.limits.iter().find(|(limit, _)| *limit == Limit::Minimum).map(|(_, rate)| *rate);
        let target = rate.max(lowest.unwrap_or(Bitrate::ZERO));
        self.limits.push((limit, rate));
        if target < self.target && self.binding != Limit::Fixed {
            self.pacing = self.pacing.mul_f64(target.as_bps() as f64 / self.target.as_bps() as f64);
            self.target = target;
            self.binding = limit;
        }
        self
    }

    /// Makes a decision for sources that do not pace.
    fn unpaced(bounds: &Bounds, candidates: &[(Limit, Bitrate)]) -> Self {
        let decision = Self::of(bounds, candidates, 1.0);
        Self { pacing: decision.target.max(UNPACED_RATE), ..decision }
    }
}

/// Why a controller wants to be woken. Early calls are harmless; a late one delays what the reason names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerWake {
    /// A periodic step of the control law.
    Step,
    /// Feedback has been missing for too long.
    FeedbackTimeout,
    /// A probe is due.
    Probe,
}

/// The lowest, initial and highest rate of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub minimum: Bitrate,
    pub start: Bitrate,
    pub maximum: Bitrate,
}

impl Bounds {
    /// The rate before anything has been measured. Guess: most home Wi-Fi carries it, and 720p at 30 frames a second looks decent.
    pub const START: Bitrate = Bitrate::from_mbps(8);

    /// The lowest rate. Guess: 720p at 30 frames a second is still readable, and a frame of it fits into four packets.
    pub const MINIMUM: Bitrate = Bitrate::from_mbps(1);

    /// The usual minimum and start below the user's maximum.
    #[must_use]
    pub fn up_to(maximum: Bitrate) -> Self {
        Self { minimum: Self::MINIMUM, start: Self::START, maximum }.in_order()
    }

    /// Lowers minimum and start to the maximum where they exceed it, and raises the start to the minimum.
    #[must_use]
    pub fn in_order(self) -> Self {
        let minimum = self.minimum.min(self.maximum);
        Self { minimum, start: self.start.clamp(minimum, self.maximum), maximum: self.maximum }
    }

    /// The nearest rate within the bounds.
    #[must_use]
    pub fn clamp(&self, rate: Bitrate) -> Bitrate {
        rate.max(self.minimum).min(self.maximum)
    }
}

/// Decides how many bits the encoder may spend.
///
/// Facts come with non-decreasing `now`. `decision` has no side effects and may be called at any time.
pub trait RateController: Send {
    /// The preset's name, as on the command line.
    fn name(&self) -> &'static str;

    fn on_packet_sent(&mut self, packet: &SentPacket);

    fn on_feedback(&mut self, now: Time, feedback: &Feedback<'_>);

    /// Handles a report that names only packets sent so long ago that they are forgotten: the path holds seconds' worth of data. Such a
    /// report does not end a silence, and is a reason to send less.
    fn on_outdated_feedback(&mut self, now: Time) {
        if let Some(silence) = self.silence() {
            silence.on_outdated(now);
            self.on_timeout(now);
        }
    }

    /// The state of missing feedback, for controllers that react to it.
    fn silence(&mut self) -> Option<&mut Silence> {
        None
    }

    fn on_frame_sent(&mut self, _now: Time, _frame: &SentFrame) {}

    fn on_frame_outcome(&mut self, _now: Time, _outcome: &FrameOutcome) {}

    /// Replaces feedback if the receiver does not report individual packets.
    fn on_receiver_report(&mut self, _now: Time, _report: &ReceiverReport) {}

    /// Media queued in the sender, reported before each feedback message.
    fn on_sender_queue(&mut self, _now: Time, _queued: Bytes) {}

    /// Number of frames that the receiver should buffer before it displays them, for a rate that follows from those; 0 for none.
    fn playback_buffer(&self) -> u8 {
        0
    }

    /// TCP's own statistics, when it carries the media, and the limit that follows from recent ones. The caller keeps to that limit when it
    /// applies the decision, so only controllers that would otherwise exceed it, such as by probing, need it.
    fn on_tcp_info(&mut self, _now: Time, _info: &TcpInfo, _limit: Option<Bitrate>) {}

    /// Complete frames that wait in the receiver's playback buffer for their display time.
    fn on_playback_buffer(&mut self, _now: Time, _frames: u32) {}

    /// Call it at the time that [`RateController::poll_timeout`] names.
    fn on_timeout(&mut self, now: Time);

    fn poll_timeout(&self) -> Option<(Time, ControllerWake)>;

    /// Returns a probe to send now. Each is returned once.
    fn poll_probe(&mut self, _now: Time) -> Option<Probe> {
        None
    }

    fn set_bounds(&mut self, now: Time, bounds: Bounds);

    /// Sets this flow's weight among those that share a bottleneck, 1 for an ordinary one. Only some control laws have it.
    fn set_priority(&mut self, _now: Time, _weight: f64) {}

    fn decision(&self) -> Decision;

    /// Number of records in memory, bounded regardless of input.
    fn held(&self) -> usize;
}
