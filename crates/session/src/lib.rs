//! The two ends of a stream as sans-IO state machines.
//!
//! [`Sender`] cuts frames into symbols, paces, repairs and asks for key frames; [`Receiver`] puts frames together again, reports
//! arrivals, asks for what is missing, keeps the clocks in step and closes each frame's timeline. Time is an argument, bytes go
//! in through `on_datagram` and come out of `poll_transmit`: the same code runs in virtual time, on a server and in a browser.
//!
//! The order of calls for both: hand over facts (`on_*`), then drain `poll_transmit` and the other `poll_*`, and sleep until
//! `poll_timeout`; then call `on_timeout` and drain again. Waking early is harmless; waking late delays what the [`Wake`] names, and
//! drivers log it.

#![forbid(unsafe_code)]

mod answered;
mod arrivals;
mod assembly;
mod capture;
mod capture_schedule;
mod clock;
mod coded;
mod decoder_load;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod history;
mod inbox;
mod playback;
mod presentation;
mod protection;
mod receiver;
mod recent;
mod release;
mod sender;
mod share;
mod simulcast;
mod sound;
mod spares;
mod symbols;
mod uplink;
mod window;

use nearlight_units::Time;

pub use answered::AnsweredTargets;
pub use capture_schedule::{CaptureDecision, CaptureFacts, CaptureSchedule, Captures, FrameSkipper, SkipReason};
pub use clock::ClockEstimate;
pub use history::{Cut, MOST_PACKETS_KEPT, PACKETS_KEPT_FOR};
pub use inbox::ReceivedInput;
pub use presentation::Displayed;
pub use receiver::{LossRecovery, PictureFacts, ReadyFrame, Receiver, ReceiverConfig, ReceiverStatistics, RtpCounts};
pub use release::{FramePieces, Payload, Release};
pub use sender::{
    Algorithms, Distortion, EncodedFrame, EncoderTarget, Framing, MediaTarget, ReceiverFeedback, Sender, SenderConfig,
    SenderNames, SenderStatistics, UNKNOWN_TO_DISPLAY,
};
pub use simulcast::{
    ALONE_AFTER, KEY_FRAME_DISTANCE, LayerFrame, MOST_LAYERS, MemberFacts, MemberId, PictureNews, SharedPlan,
    SharedStatistics, Simulcast, share_layers,
};
pub use sound::{RtpSound, SoundBlock, SoundPacket, SoundStatistics};
pub use uplink::{DeviceInput, Presence};

/// Why a state machine wants to be woken, and what a late call costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Packets wait for the pacer: late means a longer frame.
    Pace,
    /// Frames were left out because the path carried nothing, and one may try it again: late means a longer standstill.
    PathBlocked,
    /// The rate controller's own clock.
    Rate,
    /// Arrivals want to be reported: late means older feedback.
    Feedback,
    /// Symbols may be missing by now: late means a later retransmission.
    Retransmission,
    /// A clock exchange is due.
    Clock,
    /// An event that the server has not acknowledged, or what is held, is to be told again.
    Input,
    /// Frame reports want to leave.
    Report,
    /// A frame is to be played from the playback buffer, or its filling to be told: late means a picture that stands.
    Playback,
    /// A key frame is to be asked for, or to be made: late means that the picture stands for longer.
    KeyFrame,
    /// A packet of sound is given up and the decoder gets those behind it: late means that they are missing as well.
    Sound,
    /// A timer of the transport's own protocols.
    Transport,
}

impl Wake {
    /// As logs and the page's counters have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pace => "pace",
            Self::PathBlocked => "path_blocked",
            Self::Rate => "rate",
            Self::Feedback => "feedback",
            Self::Retransmission => "retransmission",
            Self::Clock => "clock",
            Self::Input => "input",
            Self::Report => "report",
            Self::Playback => "playback",
            Self::KeyFrame => "key_frame",
            Self::Sound => "sound",
            Self::Transport => "transport",
        }
    }
}

/// The earliest of deadlines, the first of equals.
#[inline]
fn earliest<const COUNT: usize>(deadlines: [Option<(Time, Wake)>; COUNT]) -> Option<(Time, Wake)> {
    // Moment and reason apart: together they are moved in pieces, for which the processor waits at every step.
    let (mut first, mut why) = (Time::FAR_FUTURE, None);
    for (at, wake) in deadlines.into_iter().flatten() {
        if at < first || why.is_none() {
            (first, why) = (at, Some(wake));
        }
    }
    why.map(|why| (first, why))
}

#[cfg(test)]
mod tests;
