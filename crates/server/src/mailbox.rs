//! What a client's session and the studio share: the newest input and the encoder's target one way, frames the other way.
//!
//! Each side takes a lock for a few assignments only, so neither waits for the other's work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nearlight_codec::{CodecKind, Size};
use nearlight_rate::Step;
use nearlight_scene::{ApplicationMessage, DevicesDescription, Output, START, Viewer};
use nearlight_session::{EncodedFrame, EncoderTarget, ReceivedInput, SkipReason, SoundPacket};
use nearlight_units::{Bitrate, Span, Time};
use nearlight_wire::{DisplayKind, InputEvent, MAX_RELIABLE_MESSAGE_BYTES, Pose};
use tokio::sync::mpsc;

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
}

/// What one client's session and the studio share.
#[derive(Debug)]
pub(crate) struct EncoderMailbox {
    pub(crate) viewer: Viewer,
    pub(crate) codec: CodecKind,
    shared: Mutex<Shared>,
    left: AtomicBool,
    deliveries: mpsc::Sender<Delivery>,
    /// None: the client hears nothing.
    sounds: Option<mpsc::Sender<SoundPacket>>,
    outputs: mpsc::Sender<Output>,
    overrun: AtomicBool,
}

impl EncoderMailbox {
    pub(crate) fn new(
        viewer: Viewer,
        codec: CodecKind,
        target: StreamTarget,
        deliveries: mpsc::Sender<Delivery>,
        outputs: mpsc::Sender<Output>,
    ) -> Self {
        let shared =
            Shared { target, input: None, events: Vec::new(), post: Vec::new(), skipped: Vec::new(), head: START };
        Self {
            viewer,
            codec,
            shared: Mutex::new(shared),
            left: AtomicBool::new(false),
            deliveries,
            sounds: None,
            outputs,
            overrun: AtomicBool::new(false),
        }
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
        shared.input = Some(input);
    }

    /// False where more waits for the application than it has taken.
    pub(crate) fn post(&self, post: Post) -> bool {
        let mut shared = self.shared();
        let waiting: usize = shared.post.iter().map(Post::bytes).sum();
        let fits = waiting + post.bytes() <= MAX_POST_BYTES;
        if fits {
            shared.post.push(post);
        }
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

    /// False when the session is gone.
    pub(crate) fn deliver(&self, delivery: Delivery) -> bool {
        self.deliveries.blocking_send(delivery).is_ok()
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
