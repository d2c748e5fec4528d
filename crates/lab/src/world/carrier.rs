//! What carries a session between its two ends: datagrams of our own, or WebRTC's protocols.
//!
//! The counterpart of the server's carriers for both ends at once and without waiting: who drives it moves the datagrams and the clock.
//! Times at the server's end are read from its clock, all others from the world's.

mod datagrams;
mod webrtc;

pub(super) use self::datagrams::Datagrams;
pub(super) use self::webrtc::{WebRtc, WebRtcConfig};

use nearlight_events::RecoveryCounts;
use nearlight_session::{Displayed, EncodedFrame, ReadyFrame, Receiver, Sender, Wake};
use nearlight_units::{FrameId, Span, Time};
use nearlight_wire::marker::Marker;

/// The server's clock is ahead by this: nothing may rely on equal clocks.
const CLOCKS_APART: Span = Span::from_secs(1_000);

/// The server's clock.
pub(super) fn server_clock(now: Time) -> Time {
    now + CLOCKS_APART
}

/// The world's clock.
pub(super) fn world_clock(server: Time) -> Time {
    server - CLOCKS_APART
}

/// A frame for the decoder.
pub(super) enum Whole {
    Own(ReadyFrame),
    Played { id: FrameId, show: bool, bits: Vec<u8> },
}

impl Whole {
    pub(super) const fn id(&self) -> FrameId {
        match self {
            Self::Own(frame) => frame.id,
            Self::Played { id, .. } => *id,
        }
    }

    /// Whether no newer one waits.
    pub(super) const fn show(&self) -> bool {
        match self {
            Self::Own(frame) => frame.show,
            Self::Played { show, .. } => *show,
        }
    }

    /// Something is missing that it was predicted from, as far as the session knows.
    pub(super) const fn is_damaged(&self) -> bool {
        match self {
            Self::Own(frame) => frame.damaged,
            Self::Played { .. } => false,
        }
    }

    pub(super) fn bits(&self) -> &[u8] {
        match self {
            Self::Own(frame) => frame.bits(),
            Self::Played { bits, .. } => bits,
        }
    }
}

/// Both ends of one session. Facts first, then the timers of the end that they concern, then its datagrams until none:
/// [`nearlight_session::SessionDriver`] at the server's.
pub(super) trait Carrier {
    fn sender(&self) -> &Sender;

    fn sender_mut(&mut self) -> &mut Sender;

    fn receiver(&self) -> &Receiver;

    fn receiver_mut(&mut self) -> &mut Receiver;

    fn on_frame(&mut self, at_server: Time, frame: EncodedFrame<'_>);

    /// Of which frame a datagram to the client carries a piece, whichever time it is sent.
    fn frame_of(&self, bytes: &[u8]) -> Option<FrameId>;

    fn on_server_datagram(&mut self, at_server: Time, bytes: &[u8]);

    /// The server's timers.
    fn on_server_timeout(&mut self, at_server: Time);

    fn poll_server_transmit(&mut self, at_server: Time) -> Option<Vec<u8>>;

    /// A datagram of the server's is of no more use.
    fn take_back(&mut self, _datagram: Vec<u8>) {}

    /// On the server's clock.
    fn poll_server_timeout(&mut self) -> Option<(Time, Wake)>;

    /// A datagram arrived at the client, with or without a congestion mark.
    fn on_client_datagram(&mut self, now: Time, bytes: &[u8], marked: bool);

    /// The client's timers, before its datagrams are taken; may bring frames for the decoder.
    fn on_client_timeout(&mut self, now: Time);

    fn poll_client_transmit(&mut self, now: Time) -> Option<Vec<u8>>;

    fn poll_client_timeout(&mut self) -> Option<(Time, Wake)>;

    /// The next frame for the decoder.
    fn poll_frame(&mut self, now: Time) -> Option<Whole>;

    fn on_decoded(&mut self, now: Time, frame: FrameId);

    fn on_decode_failed(&mut self, now: Time, frame: FrameId);

    fn on_displayed(&mut self, now: Time, frame: FrameId, marker: Marker) -> Option<Displayed>;

    /// How frames that had lost something became whole; none where the client does not tell.
    fn recovery(&self, now: Time) -> Option<RecoveryCounts>;
}
