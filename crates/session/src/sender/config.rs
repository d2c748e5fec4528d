//! What a sender is made with.

use nearlight_fec::policy::RedundancyPolicy;
use nearlight_pace::Mode;
use nearlight_rate::RateController;
use nearlight_units::{Bitrate, Span};
use nearlight_wire::RecoveryPolicy;

/// Who writes the packets, and who tells what the receiver lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// Datagrams of our own protocol, which [`crate::Sender::poll_transmit`] writes. Its receiver names the pieces that it lacks and says
    /// which frames it shows.
    #[default]
    Symbols,
    /// RTP packets, which the driver writes from what [`crate::Sender::poll_release`] hands out; it cuts frames itself. Its receiver reports
    /// packets, from which the sender concludes what is lost, and may never tell which frames it shows.
    Rtp,
}

/// What a session is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    pub framing: Framing,
    /// Largest datagram that the transport takes, in bytes: at least 640.
    pub max_datagram: usize,
    pub pacing: Mode,
    pub frame_interval: Span,
    /// Emit events for `poll_event`; without it they are not even made.
    pub events: bool,
    /// Frames and what is added to them, retransmissions included, together take no more: the encoder gets what is left. Without it a
    /// controller that takes redundancy off its target itself is trusted with that, and retransmissions come on top.
    pub maximum: Option<Bitrate>,
    /// Frames from one key frame to the next, 0 where none is scheduled: some redundancy policies plan by it.
    pub group: u32,
    /// The encoder can predict from any frame that the receiver has acknowledged ([`crate::EncoderTarget::recover`]), so that a loss needs
    /// no key frame. Only where the receiver acknowledges.
    pub references: bool,
    /// Frames that the receiver holds before it shows them: they are of use so many frame intervals longer. 0 where it holds none.
    pub playback_buffer: u8,
    /// Frames leave even where nothing has been heard for long of those before them, as senders do that know no more than their rate.
    pub unrestrained: bool,
    /// After a key frame, requests for another one are ignored for so many frames, and until then frames go on to leave as they are: what
    /// OpenUVR's host does. None: a request that comes too soon is answered later, and what is queued before the answer is dropped.
    pub ignored_requests: Option<u16>,
}

impl SenderConfig {
    /// The same for a session that recovers in this way. `keeps_references`: the encoder can predict from acknowledged frames.
    #[must_use]
    pub const fn recovering(self, policy: RecoveryPolicy, keeps_references: bool) -> Self {
        let (references, unrestrained, ignored_requests) = match policy {
            RecoveryPolicy::Retransmission => (false, false, None),
            RecoveryPolicy::Reference => (keeps_references, false, None),
            // What is compared with published systems does as they do.
            RecoveryPolicy::Intra => (false, true, None),
            RecoveryPolicy::OpenUvr { ignored_frames } => (false, true, Some(ignored_frames)),
        };
        Self { references, unrestrained, ignored_requests, ..self }
    }
}

/// What most tests and simulations want: datagrams of our own of 1,200 bytes, 30 frames a second, nothing scheduled.
impl Default for SenderConfig {
    fn default() -> Self {
        Self {
            framing: Framing::Symbols,
            max_datagram: 1_200,
            pacing: Mode::Compressed,
            frame_interval: Span::from_secs(1) / 30,
            events: false,
            maximum: None,
            group: 0,
            references: false,
            playback_buffer: 0,
            unrestrained: false,
            ignored_requests: None,
        }
    }
}

/// What decides in a sender.
pub struct Algorithms {
    pub controller: Box<dyn RateController>,
    /// None: nothing is added to the frames. The policy `none` is the same.
    pub redundancy: Option<Box<dyn RedundancyPolicy>>,
}

impl From<Box<dyn RateController>> for Algorithms {
    fn from(controller: Box<dyn RateController>) -> Self {
        Self { controller, redundancy: None }
    }
}

/// What the algorithms in force are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderNames {
    pub controller: &'static str,
    /// None where nothing is added to the frames.
    pub redundancy: Option<String>,
}
