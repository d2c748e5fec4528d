//! The encoder's target in one direction, and frames in the other.

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use nearlight_codec::Size;
use nearlight_rate::Step;
use nearlight_session::{Distortion, EncodedFrame, EncoderTarget, MediaTarget, SkipReason};
use nearlight_units::{Bitrate, FrameId, Span, Time, lock};
use nearlight_wire::{DisplayKind, FrameHeader};
use tokio::sync::mpsc::{self, error::TrySendError};

use super::send_progress::SendProgress;

/// A session's requests to the studio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StreamTarget {
    pub(crate) encoder: EncoderTarget,
    /// Why a new frame should be skipped.
    pub(crate) refusal: Option<SkipReason>,
    pub(crate) display: DisplayKind,
    /// The rung of the controller's ladder.
    pub(crate) step: Step,
    pub(crate) render_to_display: Option<Span>,
    /// The best capture time for the client; others are whole frame intervals away.
    pub(crate) best_capture: Option<Time>,
    /// The target of the sound encoder.
    pub(crate) sound: Bitrate,
}

impl StreamTarget {
    pub(crate) fn new(target: MediaTarget, display: DisplayKind) -> Self {
        let MediaTarget { encoder, refusal, step, render_to_display, best_capture, sound, playback_buffer: _ } = target;
        Self { encoder, refusal, display, step, render_to_display, best_capture, sound }
    }

    /// Returns the target of a new session with a screen, at this rate and without sound.
    #[cfg(test)]
    pub(crate) const fn of_screen(rate: Bitrate) -> Self {
        Self {
            encoder: EncoderTarget { rate, key: false, recover: false, acknowledged: None, next: FrameId(0) },
            refusal: None,
            display: DisplayKind::Screen,
            step: Step { rung: 0, scale: 1.0, frame_rate: 1.0 },
            render_to_display: None,
            best_capture: None,
            sound: Bitrate::ZERO,
        }
    }
}

/// A delivery of the studio to the session.
#[derive(Debug)]
pub(crate) enum Delivery {
    Frame(EncodedFrame<'static>),
    /// From the next frame on the pictures have this size and number of views.
    Size(Size, u8),
}

/// A frame that several clients receive.
#[derive(Clone, Debug)]
pub(crate) struct SharedFrame<'a> {
    pub(crate) key: bool,
    pub(crate) size: Size,
    pub(crate) bits: &'a [u8],
    pub(crate) distortion: Distortion,
}

/// The frames of a layer that the client shares with others.
#[derive(Clone, Copy, Debug, Default)]
struct Chain {
    /// Counts the layers that the client was assigned to: frames that an earlier one is still encoding are no longer for it.
    number: u64,
    /// Whether a key frame and all that followed were delivered.
    is_whole: bool,
    /// Whether a frame could not be delivered.
    is_broken: bool,
}

#[derive(Debug)]
struct StreamState {
    target: StreamTarget,
    next_frame: FrameId,
    /// Size and number of views that the session knows of.
    announced: Option<(Size, u8)>,
    /// The newest key frame that was delivered.
    key_frame: Option<FrameId>,
    chain: Chain,
}

/// The session's targets for the encoder, and the encoder's frames for the session.
#[derive(Debug)]
pub(crate) struct StreamExchange {
    state: Mutex<StreamState>,
    /// Bounded by the session.
    deliveries: mpsc::Sender<Delivery>,
    progress: SendProgress,
}

impl StreamExchange {
    pub(super) fn new(target: StreamTarget, deliveries: mpsc::Sender<Delivery>) -> Self {
        let state =
            StreamState { target, next_frame: FrameId(0), announced: None, key_frame: None, chain: Chain::default() };
        Self { state: Mutex::new(state), deliveries, progress: SendProgress::default() }
    }

    fn state(&self) -> MutexGuard<'_, StreamState> {
        // Only assignments happen under the lock, so a panic elsewhere leaves no inconsistent state.
        lock(&self.state)
    }

    /// Sets the size and the number of views of pictures that the session has announced to its client.
    pub(super) fn set_announced(&self, size: Size, views: u8) {
        self.state().announced = Some((size, views));
    }

    /// Sets the target of the next frame.
    pub(crate) fn set_target(&self, target: StreamTarget) {
        self.state().target = target;
    }

    /// Returns the target of the next frame.
    pub(crate) fn target(&self) -> StreamTarget {
        self.state().target
    }

    /// Returns whether the session has requested a key frame and none has been delivered since.
    pub(crate) fn is_key_wanted(&self) -> bool {
        let state = self.state();
        let EncoderTarget { key, recover, next, .. } = state.target.encoder;
        (key || recover) && state.key_frame.is_none_or(|frame| frame < next)
    }

    /// Returns the number of the client's next frame, which must then be delivered.
    pub(crate) fn take_frame_id(&self) -> FrameId {
        let mut state = self.state();
        let id = state.next_frame;
        state.next_frame = id.next();
        id
    }

    /// Announces to the session if the pictures change from the next frame on. Returns false if the session is gone.
    pub(crate) fn announce(&self, size: Size, views: u8) -> bool {
        let known = self.state().announced.replace((size, views));
        known == Some((size, views)) || self.deliver(Delivery::Size(size, views))
    }

    /// Delivers to the session, and waits for room if there is none. Returns false if the session is gone.
    pub(crate) fn deliver(&self, delivery: Delivery) -> bool {
        if let Delivery::Frame(frame) = &delivery
            && frame.reference.is_none()
        {
            self.state().key_frame = Some(frame.id);
        }
        if matches!(delivery, Delivery::Frame(_)) {
            self.progress.on_given();
        }
        match self.deliveries.try_send(delivery) {
            Ok(()) => true,
            // The caller is a thread of the encoder's own, which has nothing else to do.
            Err(TrySendError::Full(delivery)) => self.deliveries.blocking_send(delivery).is_ok(),
            Err(TrySendError::Closed(_)) => false,
        }
    }

    /// Returns whether a frame, and the size before it, can be delivered without waiting.
    pub(crate) fn has_room(&self) -> bool {
        self.deliveries.capacity() >= 2
    }

    /// Assigns the client to a layer. It receives that layer's frames from the next key frame on, and frames of other layers are dropped.
    /// Returns the number under which the layer delivers.
    pub(crate) fn begin_chain(&self) -> u64 {
        let mut state = self.state();
        state.chain = Chain { number: state.chain.number + 1, ..Chain::default() };
        state.chain.number
    }

    /// Returns whether a frame of the layer could not be delivered since the last call. The next delivered one must be a key frame then.
    pub(crate) fn take_chain_broken(&self) -> bool {
        std::mem::take(&mut self.state().chain.is_broken)
    }

    /// Delivers a frame of a layer. It never blocks, because the other viewers' frames would be delayed too. If the session has no room, the
    /// frame is lost and its chain of references is broken.
    pub(crate) fn deliver_shared(&self, chain: u64, frame: &SharedFrame<'_>, header: FrameHeader) {
        let mut state = self.state();
        let goes_on = frame.key || state.chain.is_whole;
        if state.chain.number != chain || !goes_on {
            return;
        }
        let (id, stream) = (state.next_frame, (frame.size, header.views.len() as u8));
        let reference = id.0.checked_sub(1).filter(|_| !frame.key).map(FrameId);
        let SharedFrame { bits, distortion, .. } = *frame;
        let coded =
            EncodedFrame { id, reference, header, bits: Cow::Owned(bits.to_vec()), distortion, group_index: None };
        let accepted =
            state.announced == Some(stream) || self.deliveries.try_send(Delivery::Size(stream.0, stream.1)).is_ok();
        if accepted {
            state.announced = Some(stream);
        }
        let delivered = accepted && self.deliveries.try_send(Delivery::Frame(coded)).is_ok();
        if delivered {
            self.progress.on_given();
        }
        (state.chain.is_whole, state.chain.is_broken) = (delivered, !delivered);
        if delivered {
            state.next_frame = id.next();
            state.key_frame = if frame.key { Some(id) } else { state.key_frame };
        }
    }

    /// Records that the session has passed frames to its transport, as far as the pacer allows, and has none left to take.
    pub(crate) fn on_frames_sent(&self, count: u64) {
        self.progress.on_sent(count);
    }

    /// Ends all waits, because the session has left.
    pub(super) fn on_left(&self) {
        self.progress.on_left();
    }

    /// Waits until the session has taken every frame and passed what may leave at once to its transport, at most for `limit`.
    pub(super) fn wait_until_sent(&self, limit: Duration, has_left: impl Fn() -> bool) {
        self.progress.wait(limit, has_left);
    }
}
