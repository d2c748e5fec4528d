//! Sources that pace themselves: they submit a picture when there is a new one, with its capture time.
//!
//! A window submits its picture when the display server reports damage, a video when the next picture is due, an application when it has
//! drawn one. Unchanged content is not submitted. All viewers get the same pictures.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nearlight_sound::{Feed, SoundBlock};
use nearlight_units::{Span, Time, lock};
use nearlight_wire::View;

use crate::{Application, Pixels, SceneError};

/// Pictures by which a source may be late before it continues from now instead of catching up. Guess: a tenth of a second at 30 pictures
/// per second.
const MAX_LATE_PICTURES: u64 = 3;

/// A rectangle of a picture, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    pub left: u16,
    pub top: u16,
    pub width: u16,
    pub height: u16,
}

/// The changes of a picture since the previously submitted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage<'a> {
    /// Everything has changed, or the changes are not known.
    All,
    /// These rectangles have changed. If there are none, the picture is unchanged and is dropped.
    Areas(&'a [Area]),
}

/// A finished picture, borrowed for the duration of one call.
#[derive(Clone, Copy, Debug)]
pub struct SubmittedPicture<'a> {
    /// The pixels. The size may differ from that of the previous picture.
    pub pixels: Pixels<'a>,
    /// Capture time, on the clock of [`PictureSink::now`]. It is never earlier than that of the previous picture.
    pub captured_at: Time,
    pub damage: Damage<'a>,
    /// The views that the picture was rendered for; the left eye comes first and has the left half. Empty for a picture that does not
    /// depend on viewers' poses.
    pub views: &'a [View],
}

/// A picture's planes in 4:2:0, BT.709 matrix, limited range, rows without padding: the encoders' input format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planes {
    pub width: u16,
    pub height: u16,
    /// Luma, `width` by `height`.
    pub luma: Vec<u8>,
    /// Blue differences, half as wide and half as high.
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
    /// Whether the left half is the left eye's picture and the right half the right eye's.
    pub side_by_side: bool,
}

/// Takes the pictures of a source. Any thread may submit. A newer picture replaces one that was not taken, and calls never wait.
pub trait PictureSink: Send + Sync {
    /// Returns the time on the clock of capture times.
    fn now(&self) -> Time;

    /// Submits a picture. A sink without viewers drops it.
    fn submit(&self, picture: &SubmittedPicture<'_>);

    /// Lends planes of this size for [`PictureSink::submit_planes`]. They contain an old picture. If planes are free, no memory is
    /// allocated.
    fn lend(&self, size: (u16, u16)) -> Planes;

    /// Submits a picture in the encoders' own format, which is not copied. Planes whose lengths do not match their size are a failure of
    /// the source.
    fn submit_planes(&self, planes: Planes, content: &PlanesContent<'_>);

    /// Takes back lent planes that will not be shown.
    fn put_back(&self, planes: Planes);

    /// Returns whether the newest picture would look better if it were submitted again, so that encoders could spend more bits on its
    /// details. False if the encoded picture cannot be distinguished from the original.
    fn is_coarse(&self) -> bool {
        true
    }

    /// Reports that [`Application::poll_output`] has an output that need not wait for the next picture.
    fn on_output(&self);

    /// Reports that the source has failed and will submit no more pictures.
    fn on_failed(&self, error: SceneError);
}

/// Sound that a source makes itself, which is the same for all listeners.
pub trait SoundFeed: Send {
    /// Returns the next ten milliseconds, and how long their sound has waited to be taken.
    fn next_block(&mut self) -> (SoundBlock, Span);

    /// Drops sound that was submitted while nobody listened, because the first listener has joined.
    fn on_first_listener(&mut self) {}

    /// Returns whether blocks must be taken every ten milliseconds even while nobody listens, because the program waits until its sound has
    /// been played.
    fn plays_without_listeners(&self) -> bool {
        false
    }

    /// Returns whether nothing can sound within the next fifty milliseconds. Blocks are then taken five at a time.
    fn is_idle(&self) -> bool {
        false
    }
}

impl SoundFeed for Arc<Mutex<Feed>> {
    fn next_block(&mut self) -> (SoundBlock, Span) {
        lock(self).next_block()
    }

    fn on_first_listener(&mut self) {
        lock(self).clear();
    }
}

/// A source that paces itself. Its pictures are the same for all viewers.
pub trait PushSource: Application {
    /// Starts submitting pictures to `sink` while there are viewers. Called once, before anything below.
    fn start(&mut self, sink: Arc<dyn PictureSink>) -> std::io::Result<()>;

    /// Sets whether there are viewers. Without viewers a source may stop rendering.
    fn set_watched(&mut self, watched: bool);

    /// Returns the sound that the source makes itself, instead of [`Application::poll_cues`], or none. Called once, before
    /// [`PushSource::start`].
    fn sound(&mut self) -> Option<Box<dyn SoundFeed>> {
        None
    }
}

/// Informs a source's thread whether there are viewers. The thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    watched: Arc<AtomicBool>,
    wake: SyncSender<()>,
}

impl Watch {
    pub(crate) fn set(&self, watched: bool) {
        self.watched.store(watched, Ordering::Release);
        // If it is full, the thread will look anyway. A thread that has ended has reported why.
        let _ = self.wake.try_send(());
    }
}

/// The timer of a source with a constant frame rate, for the source's own thread.
#[derive(Debug)]
pub(crate) struct FrameTimer {
    wakes: Receiver<()>,
    watched: Arc<AtomicBool>,
    fps: u16,
    first: Option<Time>,
    count: u64,
}

impl FrameTimer {
    pub(crate) fn new(fps: u16) -> (Watch, Self) {
        let (wake, wakes) = sync_channel(1);
        let watched = Arc::<AtomicBool>::default();
        let watch = Watch { watched: Arc::clone(&watched), wake };
        (watch, Self { wakes, watched, fps: fps.max(1), first: None, count: 0 })
    }

    /// Waits for the next capture time with viewers. Returns none when the source is gone.
    pub(crate) fn wait(&mut self, now: &dyn Fn() -> Time) -> Option<Time> {
        loop {
            if !self.watched.load(Ordering::Acquire) {
                self.first = None;
                self.wakes.recv().ok()?;
                continue;
            }
            let at = now();
            let late = self.first.is_none_or(|first| at > first + self.after(self.count + MAX_LATE_PICTURES));
            if late {
                (self.first, self.count) = (Some(at), 0);
            }
            let due = self.first.unwrap_or(at) + self.after(self.count);
            let wait = Duration::from_nanos(due.saturating_since(at).as_nanos().unsigned_abs());
            match self.wakes.recv_timeout(wait) {
                Ok(()) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    self.count += 1;
                    return Some(due);
                }
            }
        }
    }

    /// Returns the duration of this many intervals. Counting from the first keeps rounding errors from accumulating.
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
        let (watch, mut timer) = FrameTimer::new(100);
        watch.set(true);
        let clock = Cell::new(Time::from_millis(5));
        let mut next = |late: i64| {
            let due = timer.wait(&|| clock.get()).expect("the source is there");
            clock.set(due + Span::from_millis(late));
            due - Time::ZERO
        };
        let moments = [0, 0, 25, 0, 60, 0, 0].map(&mut next).map(|moment| moment.as_nanos() / 1_000_000);
        // If it is 25 ms late, the missed times pass at once. If it is 60 ms late, the next time is now, and others follow from there.
        assert_eq!(moments, [5, 15, 25, 35, 45, 105, 115]);
    }

    #[test]
    fn nobody_waits_for_a_source_that_is_gone() {
        let (watch, mut timer) = FrameTimer::new(30);
        drop(watch);
        assert_eq!(timer.wait(&|| Time::ZERO), None);
    }
}
