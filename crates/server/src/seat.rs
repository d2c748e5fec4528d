//! What a client's session and the studio share: the newest input one way, wishes for the encoder and frames the other way.
//!
//! Each side takes a lock for a few assignments only, so neither waits for the other's work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nearlight_codec::{CodecKind, Size};
use nearlight_rate::Step;
use nearlight_scene::Viewer;
use nearlight_session::{EncodedFrame, EncoderWish, ReceivedInput};
use nearlight_units::Span;
use nearlight_wire::{DisplayKind, InputEvent};
use tokio::sync::mpsc;

/// Actions that wait for the next frame; a client that sends more between two frames loses the oldest.
const MAX_ACTIONS: usize = 128;

/// What the session asks of the studio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wish {
    pub(crate) encoder: EncoderWish,
    /// Why a new frame should be left out.
    pub(crate) refusal: Option<&'static str>,
    pub(crate) display: DisplayKind,
    /// Where the picture stands on the controller's ladder.
    pub(crate) step: Step,
    pub(crate) render_to_display: Option<Span>,
}

/// What the studio hands to the session.
#[derive(Debug)]
pub(crate) enum Delivery {
    Frame(EncodedFrame),
    /// From the next frame on the pictures have this size and number of views.
    Size(Size, u8),
    /// No more frames will come.
    Failed(String),
}

#[derive(Debug)]
struct Shared {
    wish: Wish,
    input: Option<ReceivedInput>,
    actions: Vec<InputEvent>,
    skipped: Vec<&'static str>,
}

/// One client's place in the studio.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) viewer: Viewer,
    pub(crate) codec: CodecKind,
    shared: Mutex<Shared>,
    left: AtomicBool,
    deliveries: mpsc::Sender<Delivery>,
}

impl Seat {
    pub(crate) fn new(viewer: Viewer, codec: CodecKind, wish: Wish, deliveries: mpsc::Sender<Delivery>) -> Self {
        let shared = Mutex::new(Shared { wish, input: None, actions: Vec::new(), skipped: Vec::new() });
        Self { viewer, codec, shared, left: AtomicBool::new(false), deliveries }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        // Only assignments happen under the lock, so a panic elsewhere leaves nothing half done.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_wish(&self, wish: Wish) {
        self.shared().wish = wish;
    }

    pub(crate) fn wish(&self) -> Wish {
        self.shared().wish
    }

    /// The newest input replaces an older one that no frame has used; actions add up.
    pub(crate) fn on_input(&self, mut input: ReceivedInput) {
        let mut shared = self.shared();
        shared.actions.append(&mut input.actions);
        let excess = shared.actions.len().saturating_sub(MAX_ACTIONS);
        shared.actions.drain(..excess);
        shared.input = Some(input);
    }

    pub(crate) fn take_input(&self) -> Option<ReceivedInput> {
        let mut shared = self.shared();
        let mut input = shared.input.take()?;
        input.actions = std::mem::take(&mut shared.actions);
        Some(input)
    }

    /// The studio left a frame out.
    pub(crate) fn on_skipped(&self, reason: &'static str) {
        let mut shared = self.shared();
        if shared.skipped.len() < MAX_ACTIONS {
            shared.skipped.push(reason);
        }
    }

    /// Why frames were left out since the last call, one reason each.
    pub(crate) fn take_skipped(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.shared().skipped)
    }

    /// False when the session is gone.
    pub(crate) fn deliver(&self, delivery: Delivery) -> bool {
        self.deliveries.blocking_send(delivery).is_ok()
    }

    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }
}
