//! What happened, for a program that polls or waits.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearlight_scene::{ApplicationMessage, DevicesDescription, Viewer};
use nearlight_units::Time;
use nearlight_wire::InputEvent;

/// Events that a program has not taken; of more, the oldest are dropped and counted.
const MOST_EVENTS: usize = 4_096;
/// Bytes of messages and texts among them.
const MOST_BYTES: usize = 8 << 20;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When the program could hear of it first, on [`crate::Host::now`]'s clock.
    pub at: Time,
    /// None for what concerns no viewer.
    pub viewer: Option<Viewer>,
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Pictures go to this viewer from now on.
    ViewerJoined,
    /// Whatever it held counts as let go of.
    ViewerLeft,
    /// Head, pointer, sticks or hands moved: [`crate::Host::viewers`] has the state. Comes once for however many movements until it is
    /// taken.
    Moved,
    /// Pressed, released, touched or typed.
    Input(InputEvent),
    /// Its gamepads and controllers are these from now on.
    Devices(DevicesDescription),
    /// From the viewer's page or program.
    Message(ApplicationMessage),
    /// The viewer's clipboard has this text.
    Clipboard(String),
    /// The certificate was renewed: new viewers need one of the new links.
    LinksChanged,
    /// The server has ended. No picture leaves any more.
    Failed(String),
}

impl What {
    const fn bytes(&self) -> usize {
        match self {
            Self::Message(message) => message.data.len(),
            Self::Clipboard(text) => text.len(),
            _ => 0,
        }
    }
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Event>,
    bytes: usize,
    dropped: u64,
    closed: bool,
}

impl Waiting {
    fn take(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.bytes -= event.what.bytes();
        Some(event)
    }
}

/// Events on their way to the program.
#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: Mutex<Waiting>,
    came: Condvar,
}

impl Events {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, at: Time, viewer: Option<Viewer>, what: What) {
        let mut waiting = self.waiting();
        let repeats = |event: &Event| event.viewer == viewer && event.what == What::Moved;
        if what == What::Moved && waiting.events.iter().rev().any(repeats) {
            return;
        }
        waiting.bytes += what.bytes();
        waiting.events.push_back(Event { at, viewer, what });
        while waiting.events.len() > MOST_EVENTS || waiting.bytes > MOST_BYTES {
            waiting.take();
            waiting.dropped += 1;
        }
        drop(waiting);
        self.came.notify_one();
    }

    pub(crate) fn poll(&self) -> Option<Event> {
        self.waiting().take()
    }

    /// Waits until there is one, the time is over or no more will come.
    pub(crate) fn wait(&self, limit: Duration) -> Option<Event> {
        let nothing = |waiting: &mut Waiting| waiting.events.is_empty() && !waiting.closed;
        let waited = self.came.wait_timeout_while(self.waiting(), limit, nothing);
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }

    /// Nobody waits any longer.
    pub(crate) fn close(&self) {
        self.waiting().closed = true;
        self.came.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.waiting().closed
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.waiting().dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize) -> What {
        What::Message(ApplicationMessage { data: vec![7; bytes], reliable: true })
    }

    #[test]
    fn movements_of_one_viewer_are_reported_once_and_the_rest_in_order() {
        let events = Events::default();
        for (millis, viewer, what) in [
            (1, 1, What::ViewerJoined),
            (2, 1, What::Moved),
            (3, 1, message(1)),
            (4, 1, What::Moved),
            (5, 2, What::Moved),
        ] {
            events.push(Time::from_millis(millis), Some(Viewer(viewer)), what);
        }
        let taken: Vec<u64> = std::iter::from_fn(|| events.poll()).map(|event| event.at.as_micros() / 1_000).collect();
        assert_eq!(taken, [1, 2, 3, 5]);
    }

    #[test]
    fn a_program_that_never_polls_costs_bounded_memory() {
        let events = Events::default();
        for _ in 0..MOST_EVENTS + 10 {
            events.push(Time::ZERO, None, What::LinksChanged);
        }
        assert_eq!((events.dropped(), events.waiting().events.len()), (10, MOST_EVENTS));
        for _ in 0..20 {
            events.push(Time::ZERO, None, message(1 << 20));
        }
        assert!(events.waiting().bytes <= MOST_BYTES);
        while events.poll().is_some() {}
        assert_eq!(events.waiting().bytes, 0);
    }

    #[test]
    fn who_waits_is_woken_by_an_event_and_by_the_end() {
        let events = std::sync::Arc::new(Events::default());
        let waiting = std::sync::Arc::clone(&events);
        let thread = std::thread::spawn(move || {
            let long = Duration::from_hours(1);
            (waiting.wait(long).is_some(), waiting.wait(long).is_some())
        });
        events.push(Time::ZERO, None, What::LinksChanged);
        while events.waiting.lock().is_ok_and(|waiting| !waiting.events.is_empty()) {
            std::thread::yield_now();
        }
        events.close();
        assert_eq!(thread.join().expect("no panic"), (true, false));
    }
}
