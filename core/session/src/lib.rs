//! The two ends of a stream as sans-IO state machines.
//!
//! [`Sender`] splits frames into symbols, paces them, retransmits, adds redundancy and requests key frames from the encoder. [`Receiver`]
//! reassembles frames, reports arrivals, requests what is missing, keeps the clocks synchronized and closes each frame's timeline. Time is
//! an argument, bytes go in through `on_datagram` and come out of `poll_transmit`: the same code runs in virtual time, on a server and in a
//! browser. [`SessionDriver`] defines what the server's end does after each event.
//!
//! The order of calls for both: pass facts (`on_*`), drain `poll_transmit` and the other `poll_*`, and sleep until
//! `poll_timeout`. Then call `on_timeout` and drain again. Waking early is harmless. Waking late delays what the [`Wake`] names, and
//! drivers log it.

#![forbid(unsafe_code)]

mod capture;
mod clock;
mod driver;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod pace;
mod packets;
mod receiver;
mod recent;
mod sender;
mod simulcast;
mod sound;

use nearlight_units::Time;

pub use capture::answered::{AnsweredTargets, EncodeRequest};
pub use capture::schedule::{
    CaptureAlignment, CaptureDecision, CaptureFacts, CaptureSchedule, FrameSkipper, SkipReason,
};
pub use clock::ClockEstimate;
pub use driver::{FrameProducer, ServerEnd, SessionDriver};
pub use packets::history::{MAX_PACKETS_KEPT, PACKET_RETENTION, Segmentation};
pub use packets::release::{FramePieces, Payload, Release};
pub use receiver::display_queue::{DisplayOrder, DisplayQueue, UnknownDisplayOrder};
pub use receiver::input_sampler::{DeviceInput, Presence};
pub use receiver::presentation::DisplayedFrame;
pub use receiver::{
    LossRecovery, PictureFacts, ReadyFrame, ReceivedFrames, ReceivedRtp, ReceivedSound, Receiver, ReceiverConfig,
    ReceiverStatistics, RtpCounts, Uplink,
};
pub use sender::inbox::ReceivedInput;
pub use sender::{
    Algorithms, Distortion, EncodedFrame, EncoderTarget, Framing, MediaTarget, ReceiverFeedback, RtpSender, Sender,
    SenderConfig, SenderNames, SenderStatistics, UNKNOWN_TO_DISPLAY,
};
pub use simulcast::{
    ALONE_AFTER, KEY_FRAME_DISTANCE, LayerFrame, MAX_LAYERS, MemberFacts, MemberId, PictureUpdate, SharedPlan,
    SharedStatistics, Simulcast, share_layers,
};
pub use sound::{RtpSound, SoundBlock, SoundPacket, SoundStatistics};

/// Why a state machine wants to be woken, and what a late call costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Packets wait for the pacer. Late: a frame takes longer.
    Pace,
    /// Frames were skipped because the path was blocked or a key frame had to get through first, and the next one may leave. Late: a
    /// longer freeze.
    PathBlocked,
    /// The rate controller's own clock.
    Rate,
    /// Arrivals are to be reported. Late: older feedback.
    Feedback,
    /// Symbols may be missing by now, or a frame is to be given up. Late: a later retransmission.
    Retransmission,
    /// A clock exchange is due.
    Clock,
    /// An unacknowledged event, or a pressed button, is to be repeated.
    Input,
    /// Frame reports are ready to be sent.
    Report,
    /// A frame is to be played from the playback buffer, or its fill level reported. Late: a frozen picture.
    Playback,
    /// A frame with which the decoder can continue, such as a key frame, is to be requested or encoded. Late: the picture is frozen
    /// for longer.
    KeyFrame,
    /// A packet of sound is given up and the decoder gets those behind it. Late: those are missing as well.
    Sound,
    /// A timer of the transport's own protocols.
    Transport,
}

impl Wake {
    /// The name in logs and in the page's counters.
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

/// Returns the earliest of several deadlines. Of equal ones, the first.
#[inline]
fn earliest<const COUNT: usize>(deadlines: [Option<(Time, Wake)>; COUNT]) -> Option<(Time, Wake)> {
    // Time and reason are handled separately: a move of both together is split, and the processor stalls at every step.
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
