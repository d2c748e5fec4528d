//! Restores a broken chain of references: by a frame that predicts from one that the receiver has, otherwise by a key frame.

use nearlight_events::Event;
use nearlight_units::{Bytes, FrameId, Span, Time};
use nearlight_wire::{Acknowledgement, KeyFrameRequest};

use super::{Sender, SenderConfig};

/// Minimum time between two key frames for one receiver. Guess: three frames at 30 frames a second.
const KEY_FRAME_INTERVAL: Span = Span::from_millis(100);

/// The requirements on the next frame so that the receiver can decode it.
#[derive(Debug)]
pub(super) struct Recovery {
    /// Whether the encoder predicts from acknowledged frames on request.
    references: bool,
    /// Newest frame that the receiver is known to have decoded, since the newest key frame.
    pub(super) acknowledged: Option<FrameId>,
    pub(super) reference_wanted: bool,
    pub(super) key_wanted: Option<&'static str>,
    /// Newest frame that does not depend on the previous one.
    newest_start: Option<FrameId>,
    last_key: Option<(FrameId, Time)>,
    /// Whether the receiver has requested a key frame and accepts nothing before it.
    receiver_waits: bool,
    /// When a key frame is generated that was requested too soon after the previous one.
    key_due: Option<Time>,
    ignored: Option<IgnoredRequests>,
}

/// Ignores requests for a number of frames after a key frame.
///
/// OpenUVR, RTAS 2021, section IV.B.3, and its code (`sending/src/ffmpeg_cuda_encode.c`). Departures:
///
/// - Any key frame begins the period, even one that was not requested; in OpenUVR only a requested one does.
/// - The server sets its length; in OpenUVR each request does.
#[derive(Debug)]
struct IgnoredRequests {
    frames: u16,
    left: u16,
}

impl Recovery {
    pub(super) fn new(config: &SenderConfig) -> Self {
        Self {
            references: config.references,
            acknowledged: None,
            reference_wanted: false,
            key_wanted: Some("first frame"),
            newest_start: None,
            last_key: None,
            receiver_waits: false,
            key_due: None,
            ignored: config.ignored_requests.map(|frames| IgnoredRequests { frames, left: 0 }),
        }
    }

    /// Whether the receiver accepts nothing but a key frame.
    pub(super) const fn is_receiver_waiting(&self) -> bool {
        self.receiver_waits
    }

    /// When a key frame is due that was requested too soon.
    pub(super) const fn key_due(&self) -> Option<Time> {
        self.key_due
    }

    /// Records an encoded frame. Returns whether it restores the chain without being a key frame.
    pub(super) fn on_frame(&mut self, now: Time, frame: FrameId, reference: Option<FrameId>) -> bool {
        if let Some(ignored) = &mut self.ignored {
            ignored.left = if reference.is_none() { ignored.frames } else { ignored.left.saturating_sub(1) };
        }
        let Some(reference) = reference else {
            (self.acknowledged, self.reference_wanted, self.key_wanted) = (None, false, None);
            (self.newest_start, self.last_key) = (Some(frame), Some((frame, now)));
            (self.receiver_waits, self.key_due) = (false, None);
            return false;
        };
        // A frame that was already being encoded when the request arrived does not answer it.
        let start = reference.next() != frame || self.acknowledged == Some(reference);
        if start {
            self.newest_start = Some(frame);
        }
        start && std::mem::take(&mut self.reference_wanted)
    }

    /// The newest frame that the receiver has, if the header of `next` can still refer to it: the distance is a byte.
    pub(super) fn within_reach(&self, next: FrameId) -> Option<FrameId> {
        self.acknowledged.filter(|frame| u8::try_from(next.0.saturating_sub(frame.0)).is_ok())
    }

    /// Requests a frame that restores the chain. Returns false if only a key frame can.
    fn request_reference(&mut self) -> bool {
        let possible = self.references && self.acknowledged.is_some();
        self.reference_wanted |= possible;
        possible
    }
}

impl Sender {
    /// Makes the next frame a key frame.
    pub(crate) fn request_key_frame(&mut self, now: Time, reason: &'static str) {
        if self.recovery.key_wanted.is_none() {
            self.recovery.key_wanted = Some(reason);
            self.emit(now, || Event::KeyFrameForced { reason: reason.into() });
        }
    }

    /// Handles frames that were dropped before they left.
    pub(super) fn on_chain_broken(&mut self, now: Time, reason: &'static str) {
        if !self.recovery.request_reference() {
            self.request_key_frame(now, reason);
        }
    }

    /// Handles the receiver's request for a key frame.
    pub(super) fn on_key_frame_request(&mut self, now: Time, request: KeyFrameRequest) {
        // A receiver cannot have seen frames that were never sent.
        if request.newest >= self.next_frame {
            return;
        }
        if let Some(ignored) = &self.recovery.ignored {
            if ignored.left == 0 {
                self.request_key_frame(now, "receiver asked");
            }
            return;
        }
        if self.recovery.last_key.is_some_and(|(id, _)| id > request.newest) {
            return;
        }
        // The receiver cannot use what is still queued, and the key frame would wait behind it.
        self.recovery.receiver_waits = true;
        self.restraint.on_request(now);
        self.abandon_unsent(now);
        let due = self.recovery.last_key.map_or(now, |(_, at)| at + KEY_FRAME_INTERVAL);
        self.recovery.key_due = Some(due);
        self.request_due_key_frame(now);
    }

    /// Generates the key frame that was requested too soon after another, if it is due.
    pub(super) fn request_due_key_frame(&mut self, now: Time) {
        if self.recovery.key_due.take_if(|due| *due <= now).is_some() {
            self.request_key_frame(now, "receiver asked");
        }
    }

    /// Drops queued frames, which the receiver cannot use any more.
    pub(super) fn abandon_unsent(&mut self, now: Time) {
        let abandoned = self.frames.abandon_unsent();
        if abandoned > Bytes::ZERO {
            self.pacer.on_dropped(now, abandoned);
        }
    }

    pub(super) fn on_acknowledgement(&mut self, acknowledgement: Acknowledgement) {
        let Acknowledgement { decoded, newest, lost } = acknowledgement;
        let current = self.recovery.last_key.is_some_and(|(key, _)| decoded >= key);
        if !current || newest >= self.next_frame {
            return;
        }
        self.recovery.acknowledged = self.recovery.acknowledged.max(Some(decoded));
        let answered = self.recovery.newest_start.is_some_and(|start| start > newest);
        if lost && !answered {
            self.recovery.request_reference();
        }
    }
}
