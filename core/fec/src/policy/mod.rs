//! Redundancy policies: how much redundancy each frame gets, and when more is generated on demand.
//!
//! A policy is told the facts of an encoded frame and returns a [`Plan`] that contains every candidate. It never reads a
//! clock and owns no frame: the same code plans in virtual time and live.

mod baseline;
mod budget;
mod planner;
mod registry;
mod webrtc;

#[cfg(test)]
mod tests;

use nearlight_units::{Bitrate, Bytes, Span};
use serde::Serialize;

use crate::estimate::LossSummary;

pub use baseline::{EscotGop, Fixed, NEBULA_GROUP, Nebula, NoRedundancy, escot_repairs_per_packet, nebula_repairs};
pub use budget::Budget;
pub use planner::Planner;
pub use registry::{POLICIES, PolicyPreset, UnknownPolicy, new_policy};
pub use webrtc::{WebRtc, webrtc_share};

/// An encoder's trade-off between rate and distortion: the mean squared error of 8-bit luma is `scale / rate`.
///
/// Stuhlmüller et al., Analysis of video transmission over lossy channels, 2000, and Nebula's source distortion, both without the rate at
/// which the model breaks down: a running encoder shows one point of the curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RateDistortion {
    /// The scale in squared levels times bits per second.
    pub scale: f64,
    /// The mean squared error of showing the previous frame instead, typical of moving content.
    pub freeze: f64,
}

impl RateDistortion {
    /// The trade-off before an encoder has been measured. Guess: 38 dB (an error of 10) at 10 Mb/s, and 28 dB when a moving picture
    /// freezes.
    pub const TYPICAL: Self = Self { scale: 1e8, freeze: 100.0 };

    /// Derives the trade-off from the mean squared errors of coded pictures at this rate, and of showing the previous picture instead.
    ///
    /// In decibels, as in PSNR and perception, a packet that the encoder does not get costs its part of the frame, and a frozen picture
    /// the logarithm of how many times larger its error is. Plain squared errors would spend a quarter of a stream on repairs to save the
    /// last decibel of pictures without visible errors.
    #[must_use]
    pub fn measured(rate: Bitrate, coded: f64, frozen: f64) -> Self {
        let coded = coded.max(MIN_VISIBLE_ERROR);
        Self { scale: coded * rate.as_bps() as f64, freeze: coded * libm::log(frozen / coded).max(MIN_FREEZE_COST) }
    }

    /// The quality cost of one more packet per frame, as mean squared error, because the encoder gets fewer bits.
    fn price(&self, rate: Bitrate, interval: Span, packet: Bytes) -> f64 {
        let frames_per_second = 1.0 / interval.as_secs_f64().max(1e-4);
        let rate = (rate.as_bps() as f64).max(1e5);
        frames_per_second * packet.bits() as f64 * self.scale / (rate * rate)
    }
}

/// Mean squared error below which no difference is visible, 48 dB. Guess.
const MIN_VISIBLE_ERROR: f64 = 1.0;
/// Minimum cost of a frozen picture, in frames' worth of packets: a static scene moves with the next input, and its
/// picture then waits for what was lost before. Guess.
const MIN_FREEZE_COST: f64 = 1.0;

/// The information about a frame and its path that determines its redundancy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameFacts {
    /// Number of symbols of the frame.
    pub sources: u16,
    /// Size of a symbol with all headers, on the wire.
    pub packet: Bytes,
    /// Whether it decodes without any other frame.
    pub key: bool,
    /// Frames since the last one that decodes without others; 0 for such a frame.
    pub index: u32,
    /// Frames from one such frame to the next, 0 if none is scheduled.
    pub group: u32,
    /// Time from this frame to the next.
    pub interval: Span,
    /// Time until the frame must be complete at the receiver.
    pub deadline: Span,
    pub round_trip: Span,
    /// Upper bound of the extra delay of nearly all packets.
    pub jitter: Span,
    pub losses: LossSummary,
    /// The encoder's rate. The next field is its trade-off.
    pub rate: Bitrate,
    pub distortion: RateDistortion,
    /// Whether each of n repairs is the exclusive or of every n-th symbol and recovers one of them. Otherwise a repair recovers any symbol.
    pub interleaved: bool,
    /// Number of frames that one repair may cover, including this one: as far back as the sender stores them, at least 1.
    pub window: u8,
}

/// The reason for a number of repairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// No repairs with the frame.
    Nothing,
    /// A fixed share of the frame.
    Share,
    /// More for frames on which more frames depend.
    Distance,
    /// One block over the whole group of pictures.
    Group,
    /// The frame's own repairs, sent with it.
    Block,
    /// Repairs over this frame and those before it, sent with it.
    Window,
    /// Few or none with the frame, and more when the receiver requests them.
    Demand,
}

impl Basis {
    /// The name in logs and on the page.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Share => "share",
            Self::Distance => "distance",
            Self::Group => "group",
            Self::Block => "block",
            Self::Window => "window",
            Self::Demand => "demand",
        }
    }
}

/// One way to protect the frame.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Candidate {
    pub basis: Basis,
    /// Repairs with this frame, or with the next one for which repairs are due.
    pub repairs: u16,
    /// Expected cost in packets: those sent, plus the damage of losing the frame at the price of a packet.
    pub cost: f64,
}

/// The redundancy of one frame, with all alternatives. Goes to the log as it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The deciding reason.
    pub basis: Basis,
    /// Number of repairs to send right behind the frame.
    pub repairs: u16,
    /// Number of frames that each of them covers, this one and the frames before it: 1 for a block of its own.
    pub cover: u8,
    /// Number of request rounds that a receiver that lacks symbols can complete before the deadline.
    pub rounds: u8,
    /// Whether requests are answered with repairs, also after the deadline, for the frames that follow.
    pub on_demand: bool,
    /// Probability that the frame is incomplete at its deadline, by this plan and the loss process,
    /// if the policy computes it.
    pub expected_loss: Option<f64>,
    /// All candidates that were compared, including the winner. The rest is empty.
    pub candidates: [Option<Candidate>; 3],
}

impl Plan {
    /// Raises the number of repairs, if the allowance permits more.
    fn at_least(self, repairs: u16) -> Self {
        if self.repairs >= repairs {
            return self;
        }
        let (basis, cover) = if self.repairs == 0 { (Basis::Block, 1) } else { (self.basis, self.cover) };
        Self { basis, cover, repairs, expected_loss: None, ..self }
    }

    /// Lowers the number of repairs, if the allowance is exhausted: the loss probability of the frame is then unknown.
    fn at_most(self, repairs: u16) -> Self {
        if self.repairs <= repairs {
            return self;
        }
        let basis = if repairs == 0 { Basis::Nothing } else { self.basis };
        Self { basis, repairs, expected_loss: None, ..self }
    }

    /// Makes a plan without candidates.
    fn simple(basis: Basis, repairs: u16, rounds: u8) -> Self {
        let candidates = [Some(Candidate { basis, repairs, cost: f64::from(repairs) }), None, None];
        Self { basis, repairs, cover: 1, rounds, on_demand: false, expected_loss: None, candidates }
    }
}

/// Time until a loss is detected: later packets have arrived, and the request has been sent. Guess: the reordering wait of the
/// receiver plus the time to write a datagram.
const DETECTION_TIME: Span = Span::from_millis(5);

/// Further rounds change nothing: with three, one lost packet in a hundred is lost again in a hundred million.
const MAX_ROUNDS: i64 = 3;

impl FrameFacts {
    /// Number of requests of a receiver that can be answered before the deadline.
    #[must_use]
    pub fn rounds(&self) -> u8 {
        let one_way = self.round_trip / 2;
        let spare = self.deadline - one_way - self.jitter;
        let round = self.round_trip + DETECTION_TIME;
        (spare.as_nanos() / round.as_nanos().max(1)).clamp(0, MAX_ROUNDS) as u8
    }

    /// Frames until the next one that ends all error propagation. None if none is scheduled.
    #[must_use]
    pub fn until_refresh(&self) -> Option<u32> {
        (self.group > 0).then(|| self.group.saturating_sub(self.index % self.group).max(1))
    }
}

/// A receiver's request for more symbols of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shortage {
    /// How many symbols the frame lacks.
    pub needed: u16,
    /// Number of repairs for the frame that were sent too late for the receiver to know of them at its request.
    pub underway: u16,
    /// The frame's present facts. Its deadline is the remaining time.
    pub facts: FrameFacts,
}

/// Decides the redundancy of frames.
pub trait RedundancyPolicy: Send {
    /// The name on the command line.
    fn name(&self) -> String;

    /// Plans the redundancy of the next frame, which has just been encoded. Called once for each frame, in order.
    fn plan(&mut self, facts: &FrameFacts) -> Plan;

    /// Returns how many symbols to send to a receiver that lacks some, with an allowance for losses. None if the policy knows only repairs
    /// that are sent with the frame.
    fn answer(&mut self, _shortage: &Shortage) -> Option<u16> {
        None
    }

    /// Maximum number of frames that one repair covers. 0 if none is ever generated.
    fn reach(&self) -> u8 {
        1
    }
}
