//! The user's input on its way from the session to the application.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use nearlight_scene::START;
use nearlight_session::ReceivedInput;
use nearlight_units::lock;
use nearlight_wire::{InputEvent, Pose};

use super::notifier::StudioNotifier;

/// Maximum number of events that wait for the next frame. A client that sends more between two frames loses the oldest.
const MAX_EVENTS: usize = 1_024;

/// The newest input that no frame has used, and the events until then.
#[derive(Debug)]
pub(crate) struct InputQueue {
    waiting: Mutex<WaitingInput>,
    /// Whether the user has done something, such as pressing a key, since the last call of [`InputQueue::take_acted`].
    acted: AtomicBool,
    notifier: Arc<StudioNotifier>,
}

#[derive(Debug)]
struct WaitingInput {
    newest: Option<ReceivedInput>,
    /// At most [`MAX_EVENTS`] events.
    events: Vec<InputEvent>,
    head: Pose,
    /// Whether any input has arrived.
    moved: bool,
}

impl InputQueue {
    pub(super) const fn new(notifier: Arc<StudioNotifier>) -> Self {
        let waiting = Mutex::new(WaitingInput { newest: None, events: Vec::new(), head: START, moved: false });
        Self { waiting, acted: AtomicBool::new(false), notifier }
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingInput> {
        // Only assignments happen under the lock, so a panic elsewhere leaves no inconsistent state.
        lock(&self.waiting)
    }

    /// Takes the newest input. It replaces an older one that no frame has used, and events accumulate.
    pub(crate) fn on_input(&self, mut input: ReceivedInput) {
        if !input.events.is_empty() {
            self.acted.store(true, Ordering::Relaxed);
        }
        let mut waiting = self.waiting();
        waiting.events.append(&mut input.events);
        let excess = waiting.events.len().saturating_sub(MAX_EVENTS);
        waiting.events.drain(..excess);
        (waiting.head, waiting.moved) = (input.sample.head, true);
        let is_first = waiting.newest.replace(input).is_none();
        drop(waiting);
        if is_first {
            self.notifier.notify();
        }
    }

    /// Returns whether the user has done something since the last call.
    pub(crate) fn take_acted(&self) -> bool {
        self.acted.swap(false, Ordering::Relaxed)
    }

    /// Returns the newest input since the last call, with all events since then.
    pub(crate) fn take(&self) -> Option<ReceivedInput> {
        let mut waiting = self.waiting();
        let mut input = waiting.newest.take()?;
        input.events = std::mem::take(&mut waiting.events);
        Some(input)
    }

    /// Sets the pose of the head until the first input.
    pub(crate) fn set_start(&self, start: Pose) {
        let mut waiting = self.waiting();
        if !waiting.moved {
            waiting.head = start;
        }
    }

    /// Returns the latest pose of the client's head.
    pub(crate) fn head(&self) -> Pose {
        self.waiting().head
    }
}
