//! The end of a run: frames in flight still count, later ones do not.

use nearlight_session::ReceiverStatistics;
use nearlight_units::{FrameId, Span, Time};
use nearlight_wire::ToClient;

/// Maximum time that frames in flight may take to the display. Guess: a repair and a decoder's queue on a slow mobile path.
const DRAIN_TIMEOUT: Span = Span::from_millis(300);

/// The last frame that counts, and how long the run waits for it.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    newest: Option<FrameId>,
    pub until: Time,
    /// Number of packets lost by the end of the run. Later packets are rejected and must not count as lost.
    pub packets_missing: u64,
}

impl Drain {
    /// Starts the drain. Frames displayed by `shown_at` were in flight when the run ended; `newest` is the last frame of which a datagram
    /// has arrived.
    pub fn new(shown_at: Time, newest: Option<FrameId>, statistics: &ReceiverStatistics) -> Self {
        Self { newest, until: shown_at + DRAIN_TIMEOUT, packets_missing: statistics.loss.packets }
    }

    /// Returns whether a datagram belongs to a frame that counts.
    pub fn admits(&self, datagram: &[u8]) -> bool {
        frame_of(datagram).is_none_or(|frame| Some(frame) <= self.newest)
    }

    /// Returns whether the drain is over. `idle` says whether decoder and display are idle.
    pub fn is_over(&self, now: Time, statistics: &ReceiverStatistics, idle: bool) -> bool {
        let frames = &statistics.frames;
        now >= self.until || (idle && frames.decoded + frames.lost >= frames.sent)
    }
}

/// Returns the frame to which a media datagram belongs.
pub fn frame_of(datagram: &[u8]) -> Option<FrameId> {
    match ToClient::parse(datagram) {
        Ok(ToClient::Symbol(header, _)) if !header.flags.probe => Some(header.frame),
        Ok(ToClient::Repair(header, _)) => Some(header.frame),
        _ => None,
    }
}
