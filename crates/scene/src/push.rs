//! Sources that pace themselves: they submit a picture when there is a new one, and say when it was captured.
//!
//! A window submits what its display server reports as damaged, a film what is due, an application each picture that it has drawn.
//! Unchanged content is not submitted. All viewers get the same pictures.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nearlight_sound::{Feed, SoundBlock};
use nearlight_units::{Span, Time};
use nearlight_wire::View;

use crate::{Application, Pixels, SceneError};

/// A source that is late by more than this many pictures continues from now instead of catching up. Guess: a tenth of a second at 30
/// pictures a second.
const MOST_BEHIND: u64 = 3;

/// A rectangle of a picture, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    pub left: u16,
    pub top: u16,
    pub width: u16,
    pub height: u16,
}

/// What has changed in a picture since the previously submitted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage<'a> {
    /// All of it, or unknown.
    Whole,
    /// These rectangles. If there are none, the picture is unchanged and is dropped.
    Areas(&'a [Area]),
}

/// A finished picture, borrowed for the duration of one call.
#[derive(Clone, Copy, Debug)]
pub struct SubmittedPicture<'a> {
    /// May have another size than the one before.
    pub pixels: Pixels<'a>,
    /// The time of its contents, on the clock of [`PictureSink::now`]; never earlier than that of the previous picture.
    pub captured_at: Time,
    pub damage: Damage<'a>,
    /// The views that it was rendered for, left eye first in the left half; empty for a picture that does not depend on viewers' poses.
    pub views: &'a [View],
}

/// A picture's planes in 4:2:0, BT.709 matrix, limited range, rows without padding: the encoders' input format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planes {
    pub width: u16,
    pub height: u16,
    /// `width` by `height`.
    pub luma: Vec<u8>,
    /// Half as wide and half as high.
    pub blue: Vec<u8>,
    pub red: Vec<u8>,
}

/// Metadata of a picture whose planes are submitted.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanesContent<'a> {
    /// As in [`SubmittedPicture`].
    pub captured_at: Time,
    /// As in [`SubmittedPicture`].
    pub views: &'a [View],
    /// The left half is the left eye's picture, the right half the right eye's.
    pub side_by_side: bool,
}

/// Where a source's pictures go. Any thread may submit; an untaken picture is replaced by a newer one, and calls never wait.
pub trait PictureSink: Send + Sync {
    /// The clock that pictures are stamped with.
    fn now(&self) -> Time;

    /// A new picture. A sink without viewers drops it.
    fn submit(&self, picture: &SubmittedPicture<'_>);

    /// Planes of this size for [`PictureSink::submit_planes`], with an old picture in them: where one is free, no memory is allocated.
    fn lend(&self, size: (u16, u16)) -> Planes;

    /// A new picture in the encoders' own format, which is not copied. Planes whose lengths do not match their size are a failure of the
    /// source.
    fn submit_planes(&self, planes: Planes, content: &PlanesContent<'_>);

    /// Takes back lent planes that will not be shown.
    fn put_back(&self, planes: Planes);

    /// Whether the newest picture would look better if it were submitted again, so that encoders could spend more on its details. False where
    /// what they made of it cannot be told from it.
    fn is_coarse(&self) -> bool {
        true
    }

    /// [`Application::poll_output`] has an output that need not wait for the next picture.
    fn on_output(&self);

    /// No more pictures will be submitted.
    fn on_failed(&self, error: SceneError);
}

/// Sound that a source makes itself: the same for all listeners.
pub trait SoundFeed: Send {
    /// The next ten milliseconds, and how long their sound has waited for being taken.
    fn next_block(&mut self) -> (SoundBlock, Span);

    /// The first listener comes, and wants nothing that was submitted for nobody.
    fn on_first_listener(&mut self) {}

    /// Whether blocks are to be taken every ten milliseconds even while nobody listens: programs wait until what they play has been played.
    fn plays_unheard(&self) -> bool {
        false
    }

    /// There is nothing that could make a sound within the next fifty milliseconds. Blocks are then taken five at a time.
    fn is_idle(&self) -> bool {
        false
    }
}

impl SoundFeed for Arc<Mutex<Feed>> {
    fn next_block(&mut self) -> (SoundBlock, Span) {
        self.lock().unwrap_or_else(PoisonError::into_inner).next_block()
    }

    fn on_first_listener(&mut self) {
        self.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A source that paces itself. Its pictures are the same for all viewers.
pub trait PushSource: Application {
    /// Starts submitting pictures to `sink` while there are viewers. Called once, before anything below.
    fn start(&mut self, sink: Arc<dyn PictureSink>) -> std::io::Result<()>;

    /// Whether there are viewers; without viewers a source may stop rendering.
    fn set_watched(&mut self, watched: bool);

    /// The sound that it makes itself, in place of [`Application::poll_cues`]; none for a source without one. Called once, before
    /// [`PushSource::start`].
    fn sound(&mut self) -> Option<Box<dyn SoundFeed>> {
        None
    }
}

/// Informs a source's thread whether there are viewers; the thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch(Sender<bool>);

impl Watch {
    pub(crate) fn set(&self, watched: bool) {
        // A thread that has ended has reported why.
        let _ = self.0.send(watched);
    }
}

/// The moments of a source with a constant rate, in its own thread.
#[derive(Debug)]
pub(crate) struct Beat {
    watch: Receiver<bool>,
    watched: bool,
    fps: u16,
    first: Option<Time>,
    count: u64,
}

impl Beat {
    pub(crate) fn new(fps: u16) -> (Watch, Self) {
        let (sender, watch) = channel();
        (Watch(sender), Self { watch, watched: false, fps: fps.max(1), first: None, count: 0 })
    }

    /// Waits for the next moment with viewers; none when the source is gone.
    pub(crate) fn wait(&mut self, now: &dyn Fn() -> Time) -> Option<Time> {
        loop {
            if !self.watched {
                self.first = None;
                self.watched = self.watch.recv().ok()?;
                continue;
            }
            let at = now();
            let late = self.first.is_none_or(|first| at > first + self.after(self.count + MOST_BEHIND));
            if late {
                (self.first, self.count) = (Some(at), 0);
            }
            let due = self.first.unwrap_or(at) + self.after(self.count);
            let wait = Duration::from_nanos(due.saturating_since(at).as_nanos().unsigned_abs());
            match self.watch.recv_timeout(wait) {
                Ok(watched) => self.watched = watched,
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    self.count += 1;
                    return Some(due);
                }
            }
        }
    }

    /// This many intervals, counted from the first so that rounding errors do not accumulate.
    fn after(&self, count: u64) -> Span {
        Span::from_nanos((count * 1_000_000_000 / u64::from(self.fps)) as i64)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn moments_are_even_and_what_is_missed_is_not_caught_up() {
        let (watch, mut beat) = Beat::new(100);
        watch.set(true);
        let clock = Cell::new(Time::from_millis(5));
        let mut next = |late: i64| {
            let due = beat.wait(&|| clock.get()).expect("the source is there");
            clock.set(due + Span::from_millis(late));
            due - Time::ZERO
        };
        let moments = [0, 0, 25, 0, 60, 0, 0].map(&mut next).map(|moment| moment.as_nanos() / 1_000_000);
        // 25 ms late: the moments missed pass at once. 60 ms late: the next is now, and others follow from there.
        assert_eq!(moments, [5, 15, 25, 35, 45, 105, 115]);
    }

    #[test]
    fn nobody_waits_for_a_source_that_is_gone() {
        let (watch, mut beat) = Beat::new(30);
        drop(watch);
        assert_eq!(beat.wait(&|| Time::ZERO), None);
    }
}
