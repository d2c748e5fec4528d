//! The state that a client's session and the studio share: the newest input and the encoder's target in one direction, frames in the other.
//!
//! Each side takes a lock for a few assignments only, so neither waits for the other's work.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use nearlight_codec::{CodecError, CodecKind, Size};
use nearlight_rate::Step;
use nearlight_rooms::Role;
use nearlight_scene::{ApplicationMessage, DevicesDescription, Output, START, Viewer};
use nearlight_session::{Distortion, EncodedFrame, EncoderTarget, MediaTarget, ReceivedInput, SkipReason, SoundPacket};
use nearlight_units::{Bitrate, FrameId, Span, Time};
use nearlight_wire::{DisplayKind, FrameHeader, InputEvent, MAX_RELIABLE_MESSAGE_BYTES, Pose};
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, error::TrySendError};

use crate::fan_out::FanOutEvent;

/// Events that wait for the next frame; a client that sends more between two frames loses the oldest.
const MAX_EVENTS: usize = 1_024;
/// Bytes of messages and clipboard texts that wait for the next frame.
const MAX_TO_APPLICATION_BYTES: usize = 16 * MAX_RELIABLE_MESSAGE_BYTES;
/// Charged for each of them in addition to its length.
const TO_APPLICATION_OVERHEAD: usize = 256;
/// Skipped frames that the session has not been informed of: about a second's worth at the highest frame rates. A session that is blocked
/// for longer is never informed of the rest.
const MAX_SKIPPED: usize = 128;

/// What the session requests from the studio.
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
    /// For the sound encoder.
    pub(crate) sound: Bitrate,
}

impl StreamTarget {
    pub(crate) fn new(target: MediaTarget, display: DisplayKind) -> Self {
        let MediaTarget { encoder, refusal, step, render_to_display, best_capture, sound, playback_buffer: _ } = target;
        Self { encoder, refusal, display, step, render_to_display, best_capture, sound }
    }
}

/// What the studio hands to the session.
#[derive(Debug)]
pub(crate) enum Delivery {
    Frame(EncodedFrame<'static>),
    /// From the next frame on the pictures have this size and number of views.
    Size(Size, u8),
    /// No more frames will come.
    Failed(String),
}

/// What the client sends to the application besides input.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ToApplication {
    /// What others are to call the user.
    Name(String),
    Message(ApplicationMessage),
    Clipboard(String),
    Devices(DevicesDescription),
}

impl ToApplication {
    const fn bytes(&self) -> usize {
        TO_APPLICATION_OVERHEAD
            + match self {
                Self::Message(message) => message.data.len(),
                Self::Name(text) | Self::Clipboard(text) => text.len(),
                Self::Devices(_) => 0,
            }
    }
}

#[derive(Debug)]
struct Shared {
    target: StreamTarget,
    input: Option<ReceivedInput>,
    events: Vec<InputEvent>,
    to_application: Vec<ToApplication>,
    skipped: VecDeque<SkipReason>,
    head: Pose,
    next_frame: FrameId,
    /// Size and number of views that the session knows of.
    stream: Option<(Size, u8)>,
    /// The newest key frame that was delivered.
    key_frame: Option<FrameId>,
    chain: Chain,
}

/// The frames of a layer that the client shares with others.
#[derive(Clone, Copy, Debug, Default)]
struct Chain {
    /// Counts the layers that the client was assigned to: frames that an earlier one is still encoding are no longer for it.
    number: u64,
    /// A key frame and all that followed were delivered.
    is_whole: bool,
    /// A frame could not be delivered.
    is_broken: bool,
}

/// A frame that several clients receive.
#[derive(Clone, Debug)]
pub(crate) struct SharedFrame<'a> {
    pub(crate) key: bool,
    pub(crate) size: Size,
    pub(crate) bits: &'a [u8],
    pub(crate) distortion: Distortion,
}

/// How many frames the session was given, and how many of them it has handed to its transport.
#[derive(Debug, Default)]
struct Passage {
    frames: Mutex<Frames>,
    passed: Condvar,
}

#[derive(Debug, Default)]
struct Frames {
    given: u64,
    sent: u64,
}

impl Passage {
    fn frames(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one client's session and the studio share.
#[derive(Debug)]
pub(crate) struct EncoderMailbox {
    pub(crate) viewer: Viewer,
    pub(crate) codec: CodecKind,
    /// The client crops the rows below its pictures that hold the marker.
    pub(crate) marker: bool,
    role: Role,
    shared: Mutex<Shared>,
    left: AtomicBool,
    deliveries: mpsc::Sender<Delivery>,
    /// None: the client receives no sound.
    sounds: Option<mpsc::Sender<SoundPacket>>,
    outputs: mpsc::Sender<Output>,
    overrun: AtomicBool,
    passage: Passage,
    /// Wakes the session after a skipped frame: the next one may depend on it.
    has_skipped: Notify,
    /// Notifies the studio at once of an input or a message.
    events: OnceLock<std::sync::mpsc::SyncSender<FanOutEvent>>,
}

impl EncoderMailbox {
    pub(crate) fn new(
        viewer: Viewer,
        codec: CodecKind,
        target: StreamTarget,
        deliveries: mpsc::Sender<Delivery>,
        outputs: mpsc::Sender<Output>,
    ) -> Self {
        let shared = Shared {
            target,
            input: None,
            events: Vec::new(),
            to_application: Vec::new(),
            skipped: VecDeque::new(),
            head: START,
            next_frame: FrameId(0),
            stream: None,
            key_frame: None,
            chain: Chain::default(),
        };
        Self {
            viewer,
            codec,
            marker: false,
            role: Role::default(),
            shared: Mutex::new(shared),
            left: AtomicBool::new(false),
            deliveries,
            sounds: None,
            outputs,
            overrun: AtomicBool::new(false),
            passage: Passage::default(),
            has_skipped: Notify::new(),
            events: OnceLock::new(),
        }
    }

    /// The session has announced pictures of this size and number of views to its client.
    pub(crate) fn with_stream(self, size: Size, views: u8) -> Self {
        self.shared().stream = Some((size, views));
        self
    }

    /// The studio wants to be notified of inputs and messages as they arrive.
    pub(crate) fn set_events(&self, events: std::sync::mpsc::SyncSender<FanOutEvent>) {
        let _ = self.events.set(events);
    }

    /// Whether the client crops the rows below its pictures that hold the marker.
    pub(crate) fn with_marker(self, marker: bool) -> Self {
        Self { marker, ..self }
    }

    /// The role that the client's token stands for.
    pub(crate) fn with_role(self, role: Role) -> Self {
        Self { role, ..self }
    }

    /// Whether the application takes anything from this client.
    pub(crate) const fn acts(&self) -> bool {
        self.role.acts()
    }

    /// The client receives sound: packets go here.
    pub(crate) fn with_sounds(self, sounds: mpsc::Sender<SoundPacket>) -> Self {
        Self { sounds: Some(sounds), ..self }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        // Only assignments happen under the lock, so a panic elsewhere leaves no inconsistent state.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_target(&self, target: StreamTarget) {
        self.shared().target = target;
    }

    pub(crate) fn target(&self) -> StreamTarget {
        self.shared().target
    }

    /// The newest input replaces an older one that no frame has used; events accumulate.
    pub(crate) fn on_input(&self, mut input: ReceivedInput) {
        let mut shared = self.shared();
        shared.events.append(&mut input.events);
        let excess = shared.events.len().saturating_sub(MAX_EVENTS);
        shared.events.drain(..excess);
        shared.head = input.sample.head;
        let is_first = shared.input.replace(input).is_none();
        drop(shared);
        self.tell_of_input(is_first);
    }

    fn tell_of_input(&self, is_first: bool) {
        if let Some(events) = self.events.get().filter(|_| is_first) {
            // A studio that has ended has reported why.
            let _ = events.send(FanOutEvent::Input);
        }
    }

    /// False if too much is already queued for the application.
    pub(crate) fn queue_for_application(&self, to_application: ToApplication) -> bool {
        let mut shared = self.shared();
        let waiting: usize = shared.to_application.iter().map(ToApplication::bytes).sum();
        let fits = waiting + to_application.bytes() <= MAX_TO_APPLICATION_BYTES;
        let is_first = shared.to_application.is_empty();
        if fits {
            shared.to_application.push(to_application);
        }
        drop(shared);
        self.tell_of_input(fits && is_first);
        fits
    }

    /// What has arrived since the last call.
    pub(crate) fn take_for_application(&self) -> Vec<ToApplication> {
        std::mem::take(&mut self.shared().to_application)
    }

    /// Output for the client besides pictures. If the session is too slow, output that newer output replaces is dropped; output that must
    /// not be lost ends the session.
    pub(crate) fn put_out(&self, output: Output) {
        let reliable = matches!(&output, Output::Message(message) if message.reliable);
        if self.outputs.try_send(output).is_err() {
            self.overrun.fetch_or(reliable, Ordering::Relaxed);
        }
    }

    /// The session had no room for a message that must not be lost.
    pub(crate) fn is_overrun(&self) -> bool {
        self.overrun.load(Ordering::Relaxed)
    }

    /// The latest pose of the client's head.
    pub(crate) fn head(&self) -> Pose {
        self.shared().head
    }

    pub(crate) fn take_input(&self) -> Option<ReceivedInput> {
        let mut shared = self.shared();
        let mut input = shared.input.take()?;
        input.events = std::mem::take(&mut shared.events);
        Some(input)
    }

    /// The studio skipped a frame.
    pub(crate) fn on_skipped(&self, reason: SkipReason) {
        let mut shared = self.shared();
        if shared.skipped.len() < MAX_SKIPPED {
            shared.skipped.push_back(reason);
        }
        drop(shared);
        self.has_skipped.notify_one();
    }

    /// Waits until a frame has been skipped since the last call.
    pub(crate) async fn skipped(&self) {
        self.has_skipped.notified().await;
    }

    /// Why the next frame was skipped of those that the session has not been informed of.
    pub(crate) fn poll_skipped(&self) -> Option<SkipReason> {
        self.shared().skipped.pop_front()
    }

    /// The number of the client's next frame, which must then be delivered.
    pub(crate) fn take_frame_id(&self) -> FrameId {
        let mut shared = self.shared();
        let id = shared.next_frame;
        shared.next_frame = id.next();
        id
    }

    /// Announces to the session if the pictures change from the next frame on. False if the session is gone.
    pub(crate) fn announce(&self, size: Size, views: u8) -> bool {
        let known = self.shared().stream.replace((size, views));
        known == Some((size, views)) || self.deliver(Delivery::Size(size, views))
    }

    /// False when the session is gone.
    pub(crate) fn deliver(&self, delivery: Delivery) -> bool {
        if let Delivery::Frame(frame) = &delivery
            && frame.reference.is_none()
        {
            self.shared().key_frame = Some(frame.id);
        }
        if matches!(delivery, Delivery::Frame(_)) {
            self.on_given();
        }
        match self.deliveries.try_send(delivery) {
            Ok(()) => true,
            // Waits: in a thread of the encoder's own, which has nothing else to do.
            Err(TrySendError::Full(delivery)) => self.deliveries.blocking_send(delivery).is_ok(),
            Err(TrySendError::Closed(_)) => false,
        }
    }

    /// No more frames come.
    pub(crate) fn on_encoder_failed(&self, error: &CodecError) {
        tracing::error!(viewer = self.viewer.0, %error, "the encoder failed");
        self.deliver(Delivery::Failed(error.to_string()));
    }

    /// Whether a frame, and the size before it, can be delivered without waiting.
    pub(crate) fn has_room(&self) -> bool {
        self.deliveries.capacity() >= 2
    }

    /// A frame is about to be delivered.
    fn on_given(&self) {
        self.passage.frames().given += 1;
    }

    /// The session has passed as many frames as the pacer allows to its transport, and has none left to take.
    pub(crate) fn on_frames_sent(&self, count: u64) {
        let mut frames = self.passage.frames();
        frames.sent += count;
        drop(frames);
        self.passage.passed.notify_all();
    }

    /// Waits until the session has taken every frame and handed what may leave at once to its transport, at most so long.
    pub(crate) fn wait_until_sent(&self, limit: Duration) {
        let waiting = |frames: &mut Frames| frames.sent < frames.given && !self.has_left();
        drop(self.passage.passed.wait_timeout_while(self.passage.frames(), limit, waiting));
    }

    /// The session has requested a key frame, and none has been delivered since.
    pub(crate) fn is_key_wanted(&self) -> bool {
        let shared = self.shared();
        let EncoderTarget { key, recover, next, .. } = shared.target.encoder;
        (key || recover) && shared.key_frame.is_none_or(|frame| frame < next)
    }

    /// From now on the client receives the frames of a layer, beginning with a key frame; frames of other layers are dropped. Returns the
    /// number under which that layer delivers.
    pub(crate) fn begin_chain(&self) -> u64 {
        let mut shared = self.shared();
        shared.chain = Chain { number: shared.chain.number + 1, ..Chain::default() };
        shared.chain.number
    }

    /// Whether a frame of the layer could not be delivered since the last call: the next delivered one must be a key frame.
    pub(crate) fn take_chain_broken(&self) -> bool {
        std::mem::take(&mut self.shared().chain.is_broken)
    }

    /// Never blocks: the other viewers' frames would be delayed too. If a session has no room, the frame is lost and its chain of
    /// references broken.
    pub(crate) fn deliver_shared(&self, chain: u64, frame: &SharedFrame<'_>, header: FrameHeader) {
        let mut shared = self.shared();
        let goes_on = frame.key || shared.chain.is_whole;
        if shared.chain.number != chain || !goes_on {
            return;
        }
        let (id, stream) = (shared.next_frame, (frame.size, header.views.len() as u8));
        let reference = id.0.checked_sub(1).filter(|_| !frame.key).map(FrameId);
        let SharedFrame { bits, distortion, .. } = *frame;
        let coded =
            EncodedFrame { id, reference, header, bits: Cow::Owned(bits.to_vec()), distortion, group_index: None };
        let accepted =
            shared.stream == Some(stream) || self.deliveries.try_send(Delivery::Size(stream.0, stream.1)).is_ok();
        if accepted {
            shared.stream = Some(stream);
        }
        let delivered = accepted && self.deliveries.try_send(Delivery::Frame(coded)).is_ok();
        if delivered {
            self.on_given();
        }
        (shared.chain.is_whole, shared.chain.is_broken) = (delivered, !delivered);
        if delivered {
            shared.next_frame = id.next();
            shared.key_frame = if frame.key { Some(id) } else { shared.key_frame };
        }
    }

    /// A packet that the session has no room for is dropped: it would be late.
    pub(crate) fn deliver_sound(&self, packet: SoundPacket) {
        if let Some(sounds) = &self.sounds {
            let _ = sounds.try_send(packet);
        }
    }

    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }
}
