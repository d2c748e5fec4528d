//! How much redundancy each frame gets, and when more is made on demand.
//!
//! A policy sees what is known when a frame has been encoded and answers a [`Plan`] that carries every candidate. It never reads a
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

/// How an encoder trades rate for distortion: the mean squared error of 8-bit luma is `scale / rate`.
///
/// Stuhlmüller et al., Analysis of video transmission over lossy channels, 2000, and Nebula's source distortion, both without the rate at
/// which the model breaks down: a running encoder shows one point of the curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RateDistortion {
    /// In squared levels times bits per second.
    pub scale: f64,
    /// The cost of showing the previous frame instead, as mean squared error, typical of moving content.
    pub freeze: f64,
}

impl RateDistortion {
    /// Before an encoder has been measured. Guess: 38 dB (an error of 10) at 10 Mb/s, and 28 dB when a moving picture freezes.
    pub const TYPICAL: Self = Self { scale: 1e8, freeze: 100.0 };

    /// By the mean squared errors of coded pictures at this rate, and of showing the picture before in place of one.
    ///
    /// In decibels, as in PSNR and perception, a packet that the encoder does not get costs its part of the frame, and a frozen picture
    /// the logarithm of how many times larger its error is; plain squared errors would spend a quarter of a stream on repairs to save the
    /// last decibel of pictures without visible errors.
    #[must_use]
    pub fn measured(rate: Bitrate, coded: f64, frozen: f64) -> Self {
        let coded = coded.max(LEAST_CODED);
        Self { scale: coded * rate.as_bps() as f64, freeze: coded * libm::log(frozen / coded).max(LEAST_WORTH) }
    }

    /// The quality cost of one more packet per frame, as mean squared error, because the encoder gets fewer bits.
    fn price(&self, rate: Bitrate, interval: Span, packet: Bytes) -> f64 {
        let frames_per_second = 1.0 / interval.as_secs_f64().max(1e-4);
        let rate = (rate.as_bps() as f64).max(1e5);
        frames_per_second * packet.bits() as f64 * self.scale / (rate * rate)
    }
}

/// Mean squared error below which no difference is visible, 48 dB. Guess.
const LEAST_CODED: f64 = 1.0;
/// A frozen picture is worth as many packets as a frame has at least: a static scene moves with the next input, and its
/// picture then waits for what was lost before. Guess.
const LEAST_WORTH: f64 = 1.0;

/// The information about a frame and its path on which its redundancy is decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameFacts {
    /// Symbols that the frame was cut into.
    pub sources: u16,
    /// A symbol with all headers, on the wire.
    pub packet: Bytes,
    /// Decodes without any other frame.
    pub key: bool,
    /// Frames since the last one that decodes without others; 0 for such a one.
    pub index: u32,
    /// Frames from one such to the next, 0 where none is scheduled.
    pub group: u32,
    /// Time from this frame to the next.
    pub interval: Span,
    /// From now until the frame must be whole at the receiver.
    pub deadline: Span,
    pub round_trip: Span,
    /// How much later than usual packets arrive, nearly always less.
    pub jitter: Span,
    pub losses: LossSummary,
    /// The encoder's, and what it trades it for.
    pub rate: Bitrate,
    pub distortion: RateDistortion,
    /// With n repairs, each is the exclusive or of every n-th symbol of the frame and recovers one of them; else it recovers any one of all.
    pub interleaved: bool,
    /// Frames that one repair may cover, this one included: as far back as the sender keeps them, at least 1.
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
    /// More for frames that more frames depend on.
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
    /// With this frame, or with the next one that is due some.
    pub repairs: u16,
    /// Expected cost in packets: those sent, and the damage of losing the frame at the price of a packet.
    pub cost: f64,
}

/// The redundancy of one frame and everything that argued for other. Goes to the log as it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The deciding reason.
    pub basis: Basis,
    /// Repairs to send right behind the frame.
    pub repairs: u16,
    /// Frames that each of them covers, this one and as many before it as needed: 1 for a block of its own.
    pub cover: u8,
    /// How many request rounds a receiver that lacks symbols can complete before the deadline.
    pub rounds: u8,
    /// Requests are answered with repairs; after the deadline too, for the sake of the frames that follow.
    pub on_demand: bool,
    /// Probability that the frame is not whole in time, by this plan and the loss process,
    /// where the policy accounts for it.
    pub expected_loss: Option<f64>,
    /// All candidates that were weighed, the winner included; the rest is empty.
    pub candidates: [Option<Candidate>; 3],
}

impl Plan {
    /// The same with more repairs, where an allowance for them is left over.
    fn at_least(self, repairs: u16) -> Self {
        if self.repairs >= repairs {
            return self;
        }
        let (basis, cover) = if self.repairs == 0 { (Basis::Block, 1) } else { (self.basis, self.cover) };
        Self { basis, cover, repairs, expected_loss: None, ..self }
    }

    /// The same with fewer repairs, if there is no allowance for more: the loss probability of the frame is then unknown.
    fn at_most(self, repairs: u16) -> Self {
        if self.repairs <= repairs {
            return self;
        }
        let basis = if repairs == 0 { Basis::Nothing } else { self.basis };
        Self { basis, repairs, expected_loss: None, ..self }
    }

    /// A plan that was not weighed against others.
    fn simple(basis: Basis, repairs: u16, rounds: u8) -> Self {
        let candidates = [Some(Candidate { basis, repairs, cost: f64::from(repairs) }), None, None];
        Self { basis, repairs, cover: 1, rounds, on_demand: false, expected_loss: None, candidates }
    }
}

/// Time from a loss until it shows: later packets have arrived, and the request has been sent. Guess: the reordering wait of the
/// receiver plus the time to write a datagram.
const DETECT: Span = Span::from_millis(5);

/// Rounds beyond these change nothing: with three, one lost packet in a hundred is lost again in a hundred million.
const MAX_ROUNDS: i64 = 3;

impl FrameFacts {
    /// How many requests of a receiver can be answered before the deadline.
    #[must_use]
    pub fn rounds(&self) -> u8 {
        let one_way = self.round_trip / 2;
        let spare = self.deadline - one_way - self.jitter;
        let round = self.round_trip + DETECT;
        (spare.as_nanos() / round.as_nanos().max(1)).clamp(0, MAX_ROUNDS) as u8
    }

    /// Frames until the next one that ends all error propagation; None if none is scheduled.
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
    /// Repairs that serve the frame but were sent too late for the receiver to know of them at its request.
    pub underway: u16,
    /// The frame's facts as of now: its deadline is what is left.
    pub facts: FrameFacts,
}

/// Decides the redundancy of frames.
pub trait RedundancyPolicy: Send {
    /// The name, as on the command line.
    fn name(&self) -> String;

    /// The redundancy of the next frame, which has just been encoded. Called once for each frame, in order.
    fn plan(&mut self, facts: &FrameFacts) -> Plan;

    /// How many symbols to send to a receiver that lacks some, lost ones allowed for; none where the policy knows only repairs that
    /// go with the frame.
    fn answer(&mut self, _shortage: &Shortage) -> Option<u16> {
        None
    }

    /// The most frames that one repair covers; 0 where none is ever made.
    fn reach(&self) -> u8 {
        1
    }
}
