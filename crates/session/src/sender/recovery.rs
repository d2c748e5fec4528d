//! How a broken chain of references is restored: by a frame that predicts from one that the receiver has, else by a key frame.

use nearlight_events::Event;
use nearlight_units::{Bytes, FrameId, Span, Time};
use nearlight_wire::{Acknowledgement, KeyFrameRequest};

use super::{Sender, SenderConfig};

/// Two key frames for one receiver are at least this far apart. Guess: three frames at 30 frames a second.
const KEY_FRAME_INTERVAL: Span = Span::from_millis(100);

/// What the next frame must be so that the receiver can decode it.
#[derive(Debug)]
pub(super) struct Recovery {
    /// The encoder predicts from acknowledged frames on request.
    references: bool,
    /// Newest frame that the receiver is known to have decoded, since the newest key frame.
    pub(super) acknowledged: Option<FrameId>,
    pub(super) reference_wanted: bool,
    pub(super) key_wanted: Option<&'static str>,
    /// Newest frame that does not depend on the previous one.
    newest_start: Option<FrameId>,
    last_key: Option<(FrameId, Time)>,
    /// The receiver has requested a key frame and accepts nothing before it.
    receiver_waits: bool,
    /// When a key frame is generated that was requested too soon after the previous one.
    key_due: Option<Time>,
    ignored: Option<IgnoredRequests>,
}

/// For how many frames after a key frame requests are ignored.
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

    /// The receiver accepts nothing but a key frame.
    pub(super) const fn is_receiver_waiting(&self) -> bool {
        self.receiver_waits
    }

    /// When a key frame is due that was requested too soon.
    pub(super) const fn key_due(&self) -> Option<Time> {
        self.key_due
    }

    /// A frame was encoded; true where it restores the chain without being a key frame.
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

    /// The newest frame that the receiver has, where the header of `next` can still refer to it: the distance is a byte.
    pub(super) fn within_reach(&self, next: FrameId) -> Option<FrameId> {
        self.acknowledged.filter(|frame| u8::try_from(next.0.saturating_sub(frame.0)).is_ok())
    }

    /// The chain is broken; false where only a key frame can restore it.
    fn want_reference(&mut self) -> bool {
        let possible = self.references && self.acknowledged.is_some();
        self.reference_wanted |= possible;
        possible
    }
}

impl Sender {
    /// Makes the next frame a key frame.
    pub(crate) fn set_key_wanted(&mut self, now: Time, reason: &'static str) {
        if self.recovery.key_wanted.is_none() {
            self.recovery.key_wanted = Some(reason);
            self.emit(now, || Event::KeyFrameForced { reason: reason.into() });
        }
    }

    /// Frames were dropped before they left.
    pub(super) fn on_chain_broken(&mut self, now: Time, reason: &'static str) {
        if !self.recovery.want_reference() {
            self.set_key_wanted(now, reason);
        }
    }

    /// The receiver requests a key frame.
    pub(super) fn on_key_frame_request(&mut self, now: Time, request: KeyFrameRequest) {
        // A receiver cannot have seen frames that were never sent.
        if request.newest >= self.next_frame {
            return;
        }
        if let Some(ignored) = &self.recovery.ignored {
            if ignored.left == 0 {
                self.set_key_wanted(now, "receiver asked");
            }
            return;
        }
        if self.recovery.last_key.is_some_and(|(id, _)| id > request.newest) {
            return;
        }
        // What is still queued is of no use to it, and the key frame would wait behind it.
        self.recovery.receiver_waits = true;
        self.restraint.on_request(now);
        self.abandon_unsent(now);
        let due = self.recovery.last_key.map_or(now, |(_, at)| at + KEY_FRAME_INTERVAL);
        self.recovery.key_due = Some(due);
        self.want_due_key(now);
    }

    /// The key frame that was requested too soon after another may be generated now.
    pub(super) fn want_due_key(&mut self, now: Time) {
        if self.recovery.key_due.take_if(|due| *due <= now).is_some() {
            self.set_key_wanted(now, "receiver asked");
        }
    }

    /// Queued frames are of no use to the receiver any more.
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
            self.recovery.want_reference();
        }
    }
}
