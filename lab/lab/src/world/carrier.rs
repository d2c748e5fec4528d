//! The transports of a session: our own datagrams, or WebRTC.
//!
//! They correspond to the server's carriers, for both ends at once and without waiting: the caller moves the datagrams and the clock. Times at the
//! server's end are read from its clock, all others from the world's.

mod datagrams;
mod webrtc;

pub(super) use self::datagrams::Datagrams;
pub(super) use self::webrtc::{WebRtc, WebRtcConfig};

use nearlight_events::RecoveryCounts;
use nearlight_session::{DisplayedFrame, EncodedFrame, ReadyFrame, Receiver, Sender, Wake};
use nearlight_units::{FrameId, Span, Time};
use nearlight_wire::marker::Marker;

/// Offset of the server's clock, so that nothing can rely on equal clocks.
const SERVER_CLOCK_OFFSET: Span = Span::from_secs(1_000);

/// Converts to the server's clock.
pub(super) fn server_clock(now: Time) -> Time {
    now + SERVER_CLOCK_OFFSET
}

/// Converts to the world's clock.
pub(super) fn world_clock(server: Time) -> Time {
    server - SERVER_CLOCK_OFFSET
}

/// A complete frame for the decoder.
pub(super) enum CompleteFrame {
    Own(ReadyFrame),
    Played { id: FrameId, show: bool, bits: Vec<u8> },
}

impl CompleteFrame {
    pub(super) const fn id(&self) -> FrameId {
        match self {
            Self::Own(frame) => frame.id,
            Self::Played { id, .. } => *id,
        }
    }

    /// Returns whether the frame is to be displayed, because no newer one waits.
    pub(super) const fn show(&self) -> bool {
        match self {
            Self::Own(frame) => frame.show,
            Self::Played { show, .. } => *show,
        }
    }

    /// Returns whether a reference of the frame is missing, as far as the session knows.
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

/// Both ends of one session. For each end call the facts first, then its timeout, then poll datagrams until None, as
/// [`nearlight_session::SessionDriver`] does at the server.
pub(super) trait Carrier {
    fn sender(&self) -> &Sender;

    fn sender_mut(&mut self) -> &mut Sender;

    fn receiver(&self) -> &Receiver;

    fn receiver_mut(&mut self) -> &mut Receiver;

    fn on_frame(&mut self, at_server: Time, frame: EncodedFrame<'_>);

    /// Returns the frame that a datagram to the client carries a part of, first transmission or not.
    fn frame_of(&self, bytes: &[u8]) -> Option<FrameId>;

    fn on_server_datagram(&mut self, at_server: Time, bytes: &[u8]);

    /// Handles the server's timers.
    fn on_server_timeout(&mut self, at_server: Time);

    fn poll_server_transmit(&mut self, at_server: Time) -> Option<Vec<u8>>;

    /// Takes back the buffer of a sent datagram.
    fn take_back(&mut self, _datagram: Vec<u8>) {}

    /// Returns the server's next timeout, on its clock.
    fn poll_server_timeout(&mut self) -> Option<(Time, Wake)>;

    /// A datagram arrived at the client, with or without a congestion mark.
    fn on_client_datagram(&mut self, now: Time, bytes: &[u8], marked: bool);

    /// Handles the client's timers, before its datagrams are polled. May complete frames.
    fn on_client_timeout(&mut self, now: Time);

    fn poll_client_transmit(&mut self, now: Time) -> Option<Vec<u8>>;

    fn poll_client_timeout(&mut self) -> Option<(Time, Wake)>;

    /// Returns the next frame for the decoder.
    fn poll_frame(&mut self, now: Time) -> Option<CompleteFrame>;

    fn on_decoded(&mut self, now: Time, frame: FrameId);

    fn on_decode_failed(&mut self, now: Time, frame: FrameId);

    fn on_displayed(&mut self, now: Time, frame: FrameId, marker: Marker) -> Option<DisplayedFrame>;

    /// Returns how frames with losses were recovered. None if the client does not report it.
    fn recovery(&self, now: Time) -> Option<RecoveryCounts>;
}
