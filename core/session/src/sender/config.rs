//! A sender's configuration.

use crate::pace::Mode;
use nearlight_fec::policy::RedundancyPolicy;
use nearlight_rate::RateController;
use nearlight_units::{Bitrate, Span};
use nearlight_wire::RecoveryPolicy;

/// Which protocol frames the packets, and which end determines what the receiver lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// Datagrams of our own protocol, which [`crate::Sender::poll_transmit`] writes. Its receiver requests the pieces that it lacks and
    /// reports which frames it shows.
    #[default]
    Symbols,
    /// RTP packets, which the driver writes from what [`crate::Sender::poll_release`] returns; it splits frames itself. Its receiver
    /// reports packets, from which the sender infers what is lost, and may never report which frames it shows.
    Rtp,
}

/// The configuration of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    pub framing: Framing,
    /// Largest datagram that the transport accepts, in bytes: at least 640.
    pub max_datagram: usize,
    pub pacing: Mode,
    pub frame_interval: Span,
    /// Whether to emit events for `poll_event`. Otherwise they are not created.
    pub events: bool,
    /// The maximum rate of frames and their redundancy together, including retransmissions: the encoder gets the remainder. None: a
    /// controller that subtracts redundancy from its target is trusted with that, and retransmissions come on top.
    pub maximum: Option<Bitrate>,
    /// Number of frames from one key frame to the next, 0 if none is scheduled. Some redundancy policies plan by it.
    pub group: u32,
    /// Whether the encoder can predict from any frame that the receiver has acknowledged ([`crate::EncoderTarget::recover`]), so that a
    /// loss needs no key frame. Requires a receiver that sends acknowledgements.
    pub references: bool,
    /// Frames that the receiver buffers before it shows them: frames stay useful for this many frame intervals longer. 0 without a buffer.
    pub playback_buffer: u8,
    /// Whether frames leave even if earlier ones have been unreported for long, as with senders that know only their rate.
    pub unrestrained: bool,
    /// Number of frames after a key frame during which requests for another one are ignored and frames are still sent, as OpenUVR's
    /// host does. None: a request that comes too soon is answered later, and what is queued before the answer is dropped.
    pub ignored_requests: Option<u16>,
}

impl SenderConfig {
    /// The configuration for this recovery policy. `keeps_references`: the encoder can predict from acknowledged frames.
    #[must_use]
    pub const fn recovering(self, policy: RecoveryPolicy, keeps_references: bool) -> Self {
        let (references, unrestrained, ignored_requests) = match policy {
            RecoveryPolicy::Retransmission => (false, false, None),
            RecoveryPolicy::Reference => (keeps_references, false, None),
            // Policies modelled on published systems behave like them.
            RecoveryPolicy::Intra => (false, true, None),
            RecoveryPolicy::OpenUvr { ignored_frames } => (false, true, Some(ignored_frames)),
        };
        Self { references, unrestrained, ignored_requests, ..self }
    }
}

/// The defaults of most tests and simulations: datagrams of our own of 1,200 bytes, 30 frames a second, no scheduled key frames.
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

/// A sender's algorithms.
pub struct Algorithms {
    pub controller: Box<dyn RateController>,
    /// The redundancy policy. None adds no redundancy, as does the policy `none`.
    pub redundancy: Option<Box<dyn RedundancyPolicy>>,
}

impl From<Box<dyn RateController>> for Algorithms {
    fn from(controller: Box<dyn RateController>) -> Self {
        Self { controller, redundancy: None }
    }
}

/// The names of the algorithms in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderNames {
    pub controller: &'static str,
    /// The policy's name. None without redundancy.
    pub redundancy: Option<String>,
}
