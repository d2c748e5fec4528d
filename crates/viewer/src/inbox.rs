//! What came, for a program that polls or waits: pictures, events, sound.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearlight_sound::BLOCK_FRAMES;
use nearlight_units::{Span, Time};
use nearlight_wire::{ApplicationMessage, Haptics, SOUND_RATE, StreamDescription, Welcome};

use crate::picture::ReceivedPicture;
use crate::player::PointerRequest;

/// Events that a program has not taken; of more, the oldest are dropped and counted.
const MOST_EVENTS: usize = 1_024;
/// Bytes of messages and texts among them.
const MOST_BYTES: usize = 8 << 20;
/// Samples of sound that a program has not taken, left and right: 200 ms. Guess: what an audio device may be late by, and no more, for what
/// waits is heard late.
const MOST_SAMPLES: usize = 20 * BLOCK_FRAMES * CHANNELS;
const CHANNELS: usize = 2;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// On [`crate::Viewer::now`]'s clock.
    pub at: Time,
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A server has welcomed the viewer: at first, and after each loss of the connection.
    Connected(Box<Welcome>),
    /// The connection was lost, and the viewer tries to open another one. What was held counts as let go of.
    Lost(String),
    /// The stream is coded so from now on.
    Stream(StreamDescription),
    /// A gamepad or controller shakes.
    Haptics(Haptics),
    /// How the application wants the pointer.
    Pointer(PointerRequest),
    /// A text for the user's clipboard.
    Clipboard(String),
    /// From the application.
    Message(ApplicationMessage),
    /// No picture comes any more: why, or none where the viewer was closed.
    Ended(Option<String>),
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

/// What a callback gets.
#[derive(Debug)]
pub enum Incoming {
    Picture(ReceivedPicture),
    Event(Event),
}

#[derive(Default)]
struct Waiting {
    pictures: VecDeque<ReceivedPicture>,
    passed_over: u64,
    events: VecDeque<Event>,
    bytes: usize,
    dropped: u64,
    samples: VecDeque<f32>,
    /// When the first of them is due.
    samples_at: Time,
    samples_dropped: u64,
    closed: bool,
}

impl Waiting {
    fn take_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.bytes -= event.what.bytes();
        Some(event)
    }
}

/// What came and was not taken. Bounded: the newest is kept.
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    came: Condvar,
    most_pictures: usize,
}

impl Inbox {
    pub(crate) fn new(most_pictures: usize) -> Self {
        Self { waiting: Mutex::default(), came: Condvar::new(), most_pictures: most_pictures.max(1) }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push_picture(&self, picture: ReceivedPicture) {
        let mut waiting = self.waiting();
        waiting.pictures.push_back(picture);
        let passed_over = if waiting.pictures.len() > self.most_pictures { waiting.pictures.pop_front() } else { None };
        waiting.passed_over += u64::from(passed_over.is_some());
        drop(waiting);
        self.came.notify_all();
    }

    pub(crate) fn push_event(&self, at: Time, what: What) {
        let mut waiting = self.waiting();
        waiting.bytes += what.bytes();
        waiting.events.push_back(Event { at, what });
        while waiting.events.len() > MOST_EVENTS || waiting.bytes > MOST_BYTES {
            waiting.take_event();
            waiting.dropped += 1;
        }
        drop(waiting);
        self.came.notify_all();
    }

    /// These samples are due at `at`.
    pub(crate) fn push_sound(&self, at: Time, samples: &[f32]) {
        let mut waiting = self.waiting();
        if waiting.samples.is_empty() {
            waiting.samples_at = at;
        }
        waiting.samples.extend(samples);
        let over = waiting.samples.len().saturating_sub(MOST_SAMPLES);
        if over > 0 {
            waiting.samples.drain(..over);
            waiting.samples_at += length_of(over);
            waiting.samples_dropped += over as u64;
        }
    }

    /// Fills `samples` as far as there are any; answers how many it filled, and when the first one was due.
    pub(crate) fn read_sound(&self, samples: &mut [f32]) -> (usize, Time) {
        let mut waiting = self.waiting();
        let at = waiting.samples_at;
        // Left and right stay together.
        let count = waiting.samples.len().min(samples.len()) / CHANNELS * CHANNELS;
        for (place, sample) in samples.iter_mut().zip(waiting.samples.drain(..count)) {
            *place = sample;
        }
        waiting.samples_at += length_of(count);
        (count, at)
    }

    pub(crate) fn wait_picture(&self, limit: Duration) -> Option<ReceivedPicture> {
        self.wait(limit, |waiting| waiting.pictures.pop_front())
    }

    pub(crate) fn wait_event(&self, limit: Duration) -> Option<Event> {
        self.wait(limit, Waiting::take_event)
    }

    /// Events come before pictures: they say what is seen.
    pub(crate) fn wait_any(&self, limit: Duration) -> Option<Incoming> {
        self.wait(limit, |waiting| {
            let event = waiting.take_event().map(Incoming::Event);
            event.or_else(|| waiting.pictures.pop_front().map(Incoming::Picture))
        })
    }

    /// Waits until `take` takes something, the time is over or no more will come.
    fn wait<T>(&self, limit: Duration, mut take: impl FnMut(&mut Waiting) -> Option<T>) -> Option<T> {
        let mut taken = None;
        let nothing = |waiting: &mut Waiting| {
            taken = take(waiting);
            taken.is_none() && !waiting.closed
        };
        drop(self.came.wait_timeout_while(self.waiting(), limit, nothing));
        taken
    }

    /// Nothing more will come, and nobody waits any longer.
    pub(crate) fn close(&self) {
        self.waiting().closed = true;
        self.came.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.waiting().closed
    }

    /// Pictures that newer ones replaced, events and sample frames that nobody took.
    pub(crate) fn untaken(&self) -> [u64; 3] {
        let waiting = self.waiting();
        [waiting.passed_over, waiting.dropped, waiting.samples_dropped / CHANNELS as u64]
    }
}

/// How long so many samples of both channels last.
fn length_of(samples: usize) -> Span {
    Span::from_nanos((samples / CHANNELS) as i64 * 1_000_000_000 / i64::from(SOUND_RATE))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_program_that_never_polls_costs_bounded_memory() {
        let inbox = Inbox::new(1);
        for _ in 0..MOST_EVENTS + 10 {
            inbox.push_event(Time::ZERO, What::Ended(None));
        }
        assert_eq!(inbox.untaken(), [0, 10, 0]);
        for _ in 0..20 {
            inbox.push_event(Time::ZERO, What::Clipboard("x".repeat(1 << 20)));
        }
        assert!(inbox.waiting().bytes <= MOST_BYTES);
        while inbox.wait_event(Duration::ZERO).is_some() {}
        assert_eq!(inbox.waiting().bytes, 0);
    }

    #[test]
    fn sound_is_read_in_any_portion_and_keeps_its_time() {
        let inbox = Inbox::new(1);
        let block: Vec<f32> = (0..BLOCK_FRAMES * CHANNELS).map(|index| index as f32).collect();
        for number in 0..30 {
            inbox.push_sound(Time::from_millis(1_000 + 10 * number), &block);
        }
        assert_eq!(inbox.untaken(), [0, 0, 10 * BLOCK_FRAMES as u64]);
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
        inbox.push_event(Time::ZERO, What::Lost("a test".into()));
        inbox.close();
        assert_eq!(thread.join().expect("no panic"), (true, false));
        assert!(inbox.is_closed() && inbox.wait_any(Duration::from_hours(1)).is_none());
    }
}
