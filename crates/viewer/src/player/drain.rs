//! The end of a run: frames in flight still count, what the server sends from now on does not.

use nearlight_session::ReceiverStatistics;
use nearlight_units::{FrameId, Span, Time};
use nearlight_wire::ToClient;

/// How long frames in flight may take to the display. Guess: a repair and a decoder's queue on a slow mobile path.
const LIMIT: Span = Span::from_millis(300);

/// The frames that count, and how long they are awaited.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    newest: Option<FrameId>,
    pub until: Time,
    /// Packets missing at the end of the run: later ones are rejected, not lost.
    pub packets_missing: u64,
}

impl Drain {
    /// Frames that the display gets by `shown_at` were in flight when the run ended; `newest` is the last frame of which anything arrived.
    pub fn new(shown_at: Time, newest: Option<FrameId>, statistics: &ReceiverStatistics) -> Self {
        Self { newest, until: shown_at + LIMIT, packets_missing: statistics.loss.packets }
    }

    /// Whether a datagram still matters.
    pub fn admits(&self, datagram: &[u8]) -> bool {
        frame_of(datagram).is_none_or(|frame| Some(frame) <= self.newest)
    }

    /// Whether nothing is left to wait for; `idle` states that decoder and display are idle.
    pub fn is_over(&self, now: Time, statistics: &ReceiverStatistics, idle: bool) -> bool {
        let frames = &statistics.frames;
        now >= self.until || (idle && frames.decoded + frames.lost >= frames.sent)
    }
}

/// The frame that a media datagram belongs to.
pub fn frame_of(datagram: &[u8]) -> Option<FrameId> {
    match ToClient::parse(datagram) {
        Ok(ToClient::Symbol(header, _)) if !header.flags.probe => Some(header.frame),
        Ok(ToClient::Repair(header, _)) => Some(header.frame),
        _ => None,
    }
}
