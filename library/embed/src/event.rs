//! Events for a program that polls or waits for them.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearlight_scene::{ApplicationMessage, DevicesDescription, Viewer};
use nearlight_units::{Time, lock};
use nearlight_wire::InputEvent;

/// Maximum number of queued events. When there are more, the oldest are dropped and counted. Guess: many seconds of a busy viewer's input.
const MAX_EVENTS: usize = 4_096;
/// Maximum number of bytes of messages and texts among the queued events. Guess: 8 MiB is little for the process.
const MAX_EVENT_BYTES: usize = 8 << 20;

/// An event for the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The time when the event was queued, on the clock of [`crate::Host::now`].
    pub at: Time,
    /// The viewer that the event concerns; `None` when it concerns the server.
    pub viewer: Option<Viewer>,
    pub kind: EventKind,
}

/// The kind of an event, with its data.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// The viewer has connected and receives pictures from now on.
    ViewerJoined,
    /// The viewer has left. Keys and buttons that it held count as released.
    ViewerLeft,
    /// Head, pointer, sticks or hands have moved: [`crate::Host::viewers`] returns the state. At most one such event of a viewer is queued,
    /// however many movements there are.
    Moved,
    /// The user has pressed, released, touched or typed something.
    Input(InputEvent),
    /// The viewer's gamepads and controllers have changed; these are all of them.
    Devices(DevicesDescription),
    /// The viewer's page or program has sent a message.
    Message(ApplicationMessage),
    /// The viewer's clipboard has a new text.
    Clipboard(String),
    /// The server has ended and sends no more pictures. The text is the reason.
    Failed(String),
}

impl EventKind {
    /// Returns the number of bytes that count towards [`MAX_EVENT_BYTES`].
    const fn bytes(&self) -> usize {
        match self {
            Self::Message(message) => message.data.len(),
            Self::Clipboard(text) => text.len(),
            _ => 0,
        }
    }
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Event>,
    bytes: usize,
    dropped: u64,
    closed: bool,
}

impl Queue {
    fn take(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.bytes -= event.kind.bytes();
        Some(event)
    }
}

/// The queue of events from the server's threads to the program.
#[derive(Debug, Default)]
pub(crate) struct Events {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

impl Events {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    pub(crate) fn push(&self, at: Time, viewer: Option<Viewer>, kind: EventKind) {
        let mut queue = self.queue();
        let repeats = |event: &Event| event.viewer == viewer && event.kind == EventKind::Moved;
        if kind == EventKind::Moved && queue.events.iter().rev().any(repeats) {
            return;
        }
        queue.bytes += kind.bytes();
        queue.events.push_back(Event { at, viewer, kind });
        while queue.events.len() > MAX_EVENTS || queue.bytes > MAX_EVENT_BYTES {
            queue.take();
            queue.dropped += 1;
        }
        drop(queue);
        self.arrived.notify_one();
    }

    pub(crate) fn poll(&self) -> Option<Event> {
        self.queue().take()
    }

    /// Waits until there is an event, `limit` has passed or the queue is closed. Returns the oldest event, if any.
    pub(crate) fn wait(&self, limit: Duration) -> Option<Event> {
        let is_idle = |queue: &mut Queue| queue.events.is_empty() && !queue.closed;
        let waited = self.arrived.wait_timeout_while(self.queue(), limit, is_idle);
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }

    /// Closes the queue and wakes every thread that waits.
    pub(crate) fn close(&self) {
        self.queue().closed = true;
        self.arrived.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.queue().closed
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.queue().dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize) -> EventKind {
        EventKind::Message(ApplicationMessage { data: vec![7; bytes], reliable: true })
    }

    #[test]
    fn movements_of_one_viewer_are_reported_once_and_the_rest_in_order() {
        let events = Events::default();
        for (millis, viewer, kind) in [
            (1, 1, EventKind::ViewerJoined),
            (2, 1, EventKind::Moved),
            (3, 1, message(1)),
            (4, 1, EventKind::Moved),
            (5, 2, EventKind::Moved),
        ] {
            events.push(Time::from_millis(millis), Some(Viewer(viewer)), kind);
        }
        let taken: Vec<u64> = std::iter::from_fn(|| events.poll()).map(|event| event.at.as_micros() / 1_000).collect();
        assert_eq!(taken, [1, 2, 3, 5]);
    }

    #[test]
    fn a_program_that_never_polls_costs_bounded_memory() {
        let events = Events::default();
        for _ in 0..MAX_EVENTS + 10 {
            events.push(Time::ZERO, None, EventKind::ViewerJoined);
        }
        assert_eq!((events.dropped(), events.queue().events.len()), (10, MAX_EVENTS));
        for _ in 0..20 {
            events.push(Time::ZERO, None, message(1 << 20));
        }
        assert!(events.queue().bytes <= MAX_EVENT_BYTES);
        while events.poll().is_some() {}
        assert_eq!(events.queue().bytes, 0);
    }

    #[test]
    fn who_waits_is_woken_by_an_event_and_by_the_end() {
        let events = std::sync::Arc::new(Events::default());
        let in_thread = std::sync::Arc::clone(&events);
        let thread = std::thread::spawn(move || {
            let long = Duration::from_hours(1);
            (in_thread.wait(long).is_some(), in_thread.wait(long).is_some())
        });
        events.push(Time::ZERO, None, EventKind::ViewerJoined);
        while events.queue.lock().is_ok_and(|queue| !queue.events.is_empty()) {
            std::thread::yield_now();
        }
        events.close();
        assert_eq!(thread.join().expect("no panic"), (true, false));
    }
}
