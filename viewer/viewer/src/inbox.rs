//! Received pictures, events and sound, queued for a program that polls or waits.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use nearlight_sound::BLOCK_FRAMES;
use nearlight_units::{Span, Time, lock};
use nearlight_wire::{ApplicationMessage, Haptics, SOUND_RATE, StreamDescription, Welcome};

use crate::picture::ReceivedPicture;
use crate::player::PointerRequest;

/// Maximum number of queued events. Beyond it, the oldest are dropped and counted. Guess: several seconds of a busy application.
const MAX_EVENTS: usize = 1_024;
/// Maximum number of bytes of messages and texts in queued events. Guess: several of the longest clipboard texts.
const MAX_EVENT_BYTES: usize = 8 << 20;
/// Maximum number of queued samples of both channels: 200 ms. Guess: an audio device may be late by as much; queued sound is played late.
const MAX_SAMPLES: usize = 20 * BLOCK_FRAMES * CHANNELS;
const CHANNELS: usize = 2;

/// An event of the connection or of the application.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Time of the event on [`crate::Viewer::now`]'s clock.
    pub at: Time,
    pub kind: EventKind,
}

/// The kinds of events, with their contents.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// A server has welcomed the viewer, initially or after a loss of the connection.
    Connected(Box<Welcome>),
    /// The connection was lost for this reason, and the viewer opens another one. Keys and buttons count as released.
    ConnectionLost(String),
    /// The stream's coding has changed.
    Stream(StreamDescription),
    /// A gamepad or controller vibrates.
    Haptics(Haptics),
    /// The application has changed the pointer's mode.
    Pointer(PointerRequest),
    /// The application has put a text on the user's clipboard.
    Clipboard(String),
    /// The application has sent a message.
    Message(ApplicationMessage),
    /// No more pictures will come, for this reason; `None` if the viewer was closed.
    Ended(Option<String>),
}

impl EventKind {
    const fn bytes(&self) -> usize {
        match self {
            Self::Message(message) => message.data.len(),
            Self::Clipboard(text) => text.len(),
            _ => 0,
        }
    }
}

/// A picture or an event, as a callback gets it.
#[derive(Debug)]
pub enum Incoming {
    Picture(ReceivedPicture),
    Event(Event),
}

#[derive(Default)]
struct Queues {
    pictures: VecDeque<ReceivedPicture>,
    pictures_replaced: u64,
    events: VecDeque<Event>,
    bytes: usize,
    events_dropped: u64,
    samples: VecDeque<f32>,
    /// When the first queued sample is due.
    samples_at: Time,
    samples_dropped: u64,
    closed: bool,
}

impl Queues {
    fn take_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.bytes -= event.kind.bytes();
        Some(event)
    }
}

/// Bounded queues of received pictures, events and sound. The newest are kept.
pub(crate) struct Inbox {
    queues: Mutex<Queues>,
    changed: Condvar,
    max_pictures: usize,
}

impl Inbox {
    pub(crate) fn new(max_pictures: usize) -> Self {
        Self { queues: Mutex::default(), changed: Condvar::new(), max_pictures: max_pictures.max(1) }
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        lock(&self.queues)
    }

    pub(crate) fn push_picture(&self, picture: ReceivedPicture) {
        let mut queues = self.queues();
        queues.pictures.push_back(picture);
        let replaced = if queues.pictures.len() > self.max_pictures { queues.pictures.pop_front() } else { None };
        queues.pictures_replaced += u64::from(replaced.is_some());
        drop(queues);
        self.changed.notify_all();
    }

    pub(crate) fn push_event(&self, at: Time, kind: EventKind) {
        let mut queues = self.queues();
        queues.bytes += kind.bytes();
        queues.events.push_back(Event { at, kind });
        while queues.events.len() > MAX_EVENTS || queues.bytes > MAX_EVENT_BYTES {
            queues.take_event();
            queues.events_dropped += 1;
        }
        drop(queues);
        self.changed.notify_all();
    }

    /// Queues samples whose first one is due at `at`.
    pub(crate) fn push_sound(&self, at: Time, samples: &[f32]) {
        let mut queues = self.queues();
        if queues.samples.is_empty() {
            queues.samples_at = at;
        }
        queues.samples.extend(samples);
        let excess = queues.samples.len().saturating_sub(MAX_SAMPLES);
        if excess > 0 {
            queues.samples.drain(..excess);
            queues.samples_at += duration(excess);
            queues.samples_dropped += excess as u64;
        }
    }

    /// Fills `samples` with queued sound. Returns how many samples it filled, and when the first one was due.
    pub(crate) fn read_sound(&self, samples: &mut [f32]) -> (usize, Time) {
        let mut queues = self.queues();
        let at = queues.samples_at;
        // A frame's left and right samples are not separated.
        let count = queues.samples.len().min(samples.len()) / CHANNELS * CHANNELS;
        for (place, sample) in samples.iter_mut().zip(queues.samples.drain(..count)) {
            *place = sample;
        }
        queues.samples_at += duration(count);
        (count, at)
    }

    pub(crate) fn wait_picture(&self, limit: Duration) -> Option<ReceivedPicture> {
        self.wait(limit, |queues| queues.pictures.pop_front())
    }

    pub(crate) fn wait_event(&self, limit: Duration) -> Option<Event> {
        self.wait(limit, Queues::take_event)
    }

    /// Waits for an event or a picture. Events come first, because they describe the pictures that follow.
    pub(crate) fn wait_any(&self, limit: Duration) -> Option<Incoming> {
        self.wait(limit, |queues| {
            let event = queues.take_event().map(Incoming::Event);
            event.or_else(|| queues.pictures.pop_front().map(Incoming::Picture))
        })
    }

    /// Waits until `take` returns something, `limit` has passed, or the inbox is closed.
    fn wait<T>(&self, limit: Duration, mut take: impl FnMut(&mut Queues) -> Option<T>) -> Option<T> {
        let mut taken = None;
        let nothing = |queues: &mut Queues| {
            taken = take(queues);
            taken.is_none() && !queues.closed
        };
        drop(self.changed.wait_timeout_while(self.queues(), limit, nothing));
        taken
    }

    /// Closes the inbox, because nothing more will come, and wakes all waiting threads.
    pub(crate) fn close(&self) {
        self.queues().closed = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.queues().closed
    }

    /// Returns the numbers of pictures that newer ones replaced, and of events and sample frames that were dropped.
    pub(crate) fn dropped(&self) -> [u64; 3] {
        let queues = self.queues();
        [queues.pictures_replaced, queues.events_dropped, queues.samples_dropped / CHANNELS as u64]
    }
}

/// Returns the duration of this many samples of both channels.
fn duration(samples: usize) -> Span {
    Span::from_nanos((samples / CHANNELS) as i64 * 1_000_000_000 / i64::from(SOUND_RATE))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_program_that_never_polls_costs_bounded_memory() {
        let inbox = Inbox::new(1);
        for _ in 0..MAX_EVENTS + 10 {
            inbox.push_event(Time::ZERO, EventKind::Ended(None));
        }
        assert_eq!(inbox.dropped(), [0, 10, 0]);
        for _ in 0..20 {
            inbox.push_event(Time::ZERO, EventKind::Clipboard("x".repeat(1 << 20)));
        }
        assert!(inbox.queues().bytes <= MAX_EVENT_BYTES);
        while inbox.wait_event(Duration::ZERO).is_some() {}
        assert_eq!(inbox.queues().bytes, 0);
    }

    #[test]
    fn sound_is_read_in_any_portion_and_keeps_its_time() {
        let inbox = Inbox::new(1);
        let block: Vec<f32> = (0..BLOCK_FRAMES * CHANNELS).map(|index| index as f32).collect();
        for number in 0..30 {
            inbox.push_sound(Time::from_millis(1_000 + 10 * number), &block);
        }
        assert_eq!(inbox.dropped(), [0, 0, 10 * BLOCK_FRAMES as u64]);
        let mut portion = [0.0; 961];
        let (count, at) = inbox.read_sound(&mut portion);
        assert_eq!((count, at), (960, Time::from_millis(1_100)));
        assert_eq!(portion[..960], block);
        assert_eq!(inbox.read_sound(&mut portion[..480]), (480, Time::from_millis(1_110)));
        assert_eq!(inbox.read_sound(&mut portion[..2]), (2, Time::from_millis(1_115)));
        assert_eq!(portion[..2], block[480..482]);
        while inbox.read_sound(&mut portion).0 > 0 {}
        inbox.push_sound(Time::from_secs(9), &block);
        assert_eq!(inbox.read_sound(&mut portion), (960, Time::from_secs(9)));
    }

    #[test]
    fn who_waits_is_woken_by_the_end() {
        let inbox = Arc::new(Inbox::new(1));
        let waiting = Arc::clone(&inbox);
        let thread = std::thread::spawn(move || {
            let hour = Duration::from_hours(1);
            (waiting.wait_event(hour).is_some(), waiting.wait_picture(hour).is_some())
        });
        inbox.push_event(Time::ZERO, EventKind::ConnectionLost("a test".into()));
        inbox.close();
        assert_eq!(thread.join().expect("no panic"), (true, false));
        assert!(inbox.is_closed() && inbox.wait_any(Duration::from_hours(1)).is_none());
    }
}
