//! What a client's session and the studio share: the newest input and the encoder's target one way, frames the other way.
//!
//! Each side takes a lock for a few assignments only, so neither waits for the other's work.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nearlight_codec::{CodecKind, Size};
use nearlight_rate::Step;
use nearlight_scene::{ApplicationMessage, DevicesDescription, Output, START, Viewer};
use nearlight_session::{Distortion, EncodedFrame, EncoderTarget, ReceivedInput, SkipReason, SoundPacket};
use nearlight_units::{Bitrate, FrameId, Span, Time};
use nearlight_wire::{DisplayKind, FrameHeader, InputEvent, MAX_RELIABLE_MESSAGE_BYTES, Pose};
use tokio::sync::mpsc;

use crate::fan_out::News;

/// Events that wait for the next frame; a client that sends more between two frames loses the oldest.
const MAX_EVENTS: usize = 1_024;
/// Bytes of messages and clipboard texts that wait for the next frame.
const MAX_POST_BYTES: usize = 16 * MAX_RELIABLE_MESSAGE_BYTES;
/// What counts for each of them, however short it is.
const POST_OVERHEAD: usize = 256;
/// Frames left out that the session has not heard of: about a second's at the highest frame rates. A session that stands still for
/// longer never hears of the rest.
const MAX_SKIPPED: usize = 128;

/// What the session asks of the studio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StreamTarget {
    pub(crate) encoder: EncoderTarget,
    /// Why a new frame should be left out.
    pub(crate) refusal: Option<SkipReason>,
    pub(crate) display: DisplayKind,
    /// The rung of the controller's ladder.
    pub(crate) step: Step,
    pub(crate) render_to_display: Option<Span>,
    /// A moment at which a capture would be best for the client; others are whole frame intervals away.
    pub(crate) best_capture: Option<Time>,
    /// For the coder of the sound.
    pub(crate) sound: Bitrate,
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

/// What the client has for the application beside input.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Post {
    Message(ApplicationMessage),
    Clipboard(String),
    Devices(DevicesDescription),
}

impl Post {
    const fn bytes(&self) -> usize {
        POST_OVERHEAD
            + match self {
                Self::Message(message) => message.data.len(),
                Self::Clipboard(text) => text.len(),
                Self::Devices(_) => 0,
            }
    }
}

#[derive(Debug)]
struct Shared {
    target: StreamTarget,
    input: Option<ReceivedInput>,
    events: Vec<InputEvent>,
    post: Vec<Post>,
    skipped: Vec<SkipReason>,
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
    /// Counts the layers that the client was given: what an earlier one still has in work is not for it any more.
    number: u64,
    /// A key frame and all that followed were delivered.
    is_whole: bool,
    /// A frame could not be delivered.
    is_broken: bool,
}

/// A frame that several clients get.
#[derive(Clone, Debug)]
pub(crate) struct SharedFrame<'a> {
    pub(crate) key: bool,
    pub(crate) size: Size,
    pub(crate) bits: &'a [u8],
    pub(crate) distortion: Distortion,
}

/// What one client's session and the studio share.
#[derive(Debug)]
pub(crate) struct EncoderMailbox {
    pub(crate) viewer: Viewer,
    pub(crate) codec: CodecKind,
    /// The client crops the rows below its pictures that hold the marker.
    pub(crate) marker: bool,
    shared: Mutex<Shared>,
    left: AtomicBool,
    deliveries: mpsc::Sender<Delivery>,
    /// None: the client hears nothing.
    sounds: Option<mpsc::Sender<SoundPacket>>,
    outputs: mpsc::Sender<Output>,
    overrun: AtomicBool,
    /// Where the studio hears at once that there is an input or a message.
    news: OnceLock<std::sync::mpsc::Sender<News>>,
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
            post: Vec::new(),
            skipped: Vec::new(),
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
            shared: Mutex::new(shared),
            left: AtomicBool::new(false),
            deliveries,
            sounds: None,
            outputs,
            overrun: AtomicBool::new(false),
            news: OnceLock::new(),
        }
    }

    /// The session has told its client of pictures of this size and number of views.
    pub(crate) fn with_stream(self, size: Size, views: u8) -> Self {
        self.shared().stream = Some((size, views));
        self
    }

    /// The studio wants to hear of inputs and messages as they come.
    pub(crate) fn set_news(&self, news: std::sync::mpsc::Sender<News>) {
        let _ = self.news.set(news);
    }

    /// Whether the client crops the rows below its pictures that hold the marker.
    pub(crate) fn with_marker(self, marker: bool) -> Self {
        Self { marker, ..self }
    }

    /// The client hears: packets of sound go here.
    pub(crate) fn with_sounds(self, sounds: mpsc::Sender<SoundPacket>) -> Self {
        Self { sounds: Some(sounds), ..self }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        // Only assignments happen under the lock, so a panic elsewhere leaves nothing half done.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_target(&self, target: StreamTarget) {
        self.shared().target = target;
    }

    pub(crate) fn target(&self) -> StreamTarget {
        self.shared().target
    }

    /// The newest input replaces an older one that no frame has used; events add up.
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
        if let Some(news) = self.news.get().filter(|_| is_first) {
            // A studio that has ended has said why.
            let _ = news.send(News::Input);
        }
    }

    /// False where more waits for the application than it has taken.
    pub(crate) fn post(&self, post: Post) -> bool {
        let mut shared = self.shared();
        let waiting: usize = shared.post.iter().map(Post::bytes).sum();
        let fits = waiting + post.bytes() <= MAX_POST_BYTES;
        let is_first = shared.post.is_empty();
        if fits {
            shared.post.push(post);
        }
        drop(shared);
        self.tell_of_input(fits && is_first);
        fits
    }

    /// What came since the last call.
    pub(crate) fn take_post(&self) -> Vec<Post> {
        std::mem::take(&mut self.shared().post)
    }

    /// Something for the client beside pictures. A session that is too slow loses what newer ones replace; what must not be lost ends it.
    pub(crate) fn put_out(&self, output: Output) {
        let reliable = matches!(&output, Output::Message(message) if message.reliable);
        if self.outputs.try_send(output).is_err() {
            self.overrun.fetch_or(reliable, Ordering::Relaxed);
        }
    }

    /// The session has not taken a message that must not be lost.
    pub(crate) fn is_overrun(&self) -> bool {
        self.overrun.load(Ordering::Relaxed)
    }

    /// Where the client's head was last.
    pub(crate) fn head(&self) -> Pose {
        self.shared().head
    }

    pub(crate) fn take_input(&self) -> Option<ReceivedInput> {
        let mut shared = self.shared();
        let mut input = shared.input.take()?;
        input.events = std::mem::take(&mut shared.events);
        Some(input)
    }

    /// The studio left a frame out.
    pub(crate) fn on_skipped(&self, reason: SkipReason) {
        let mut shared = self.shared();
        if shared.skipped.len() < MAX_SKIPPED {
            shared.skipped.push(reason);
        }
    }

    /// Why frames were left out since the last call, one reason each.
    pub(crate) fn take_skipped(&self) -> Vec<SkipReason> {
        std::mem::take(&mut self.shared().skipped)
    }

    /// The number of the client's next frame, which is then to be delivered.
    pub(crate) fn take_frame_id(&self) -> FrameId {
        let mut shared = self.shared();
        let id = shared.next_frame;
        shared.next_frame = id.next();
        id
    }

    /// Tells the session where the pictures change from the next frame on. False when it is gone.
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
        self.deliveries.blocking_send(delivery).is_ok()
    }

    /// The session wants a frame that needs none of those before, and none was delivered since.
    pub(crate) fn is_key_wanted(&self) -> bool {
        let shared = self.shared();
        let EncoderTarget { key, recover, next, .. } = shared.target.encoder;
        (key || recover) && shared.key_frame.is_none_or(|frame| frame < next)
    }

    /// The client gets the frames of a layer, beginning with a key frame; frames of others are not for it any more. Answers the number
    /// by which that layer delivers.
    pub(crate) fn begin_chain(&self) -> u64 {
        let mut shared = self.shared();
        shared.chain = Chain { number: shared.chain.number + 1, ..Chain::default() };
        shared.chain.number
    }

    /// Whether a frame of the layer could not be delivered since the last call: the next one that is must be a key frame.
    pub(crate) fn take_broken(&self) -> bool {
        std::mem::take(&mut self.shared().chain.is_broken)
    }

    /// Never waits: the others' frames would wait too. A session that has no room loses the frame and with it the chain.
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
        let told =
            shared.stream == Some(stream) || self.deliveries.try_send(Delivery::Size(stream.0, stream.1)).is_ok();
        if told {
            shared.stream = Some(stream);
        }
        let delivered = told && self.deliveries.try_send(Delivery::Frame(coded)).is_ok();
        (shared.chain.is_whole, shared.chain.is_broken) = (delivered, !delivered);
        if delivered {
            shared.next_frame = id.next();
            shared.key_frame = if frame.key { Some(id) } else { shared.key_frame };
        }
    }

    /// A packet that the session has no room for is lost: it would be late.
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
