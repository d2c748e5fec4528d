//! Queue of decoded pictures between the decoder's thread and the thread that displays them.

use std::sync::{Mutex, MutexGuard};

use nearlight_codec::{Picture, Size};
use nearlight_session::{DisplayOrder, DisplayQueue};
use nearlight_units::{Span, Time, lock};
use nearlight_viewer::player::{Decoded, Screen, Ticket};
use nearlight_wire::marker::Marker;

/// A picture that has not been shown yet.
#[derive(Debug)]
pub struct QueuedPicture {
    pub ticket: Ticket,
    pub marker: Option<Marker>,
    pub picture: Picture,
}

/// The queued pictures, and memory for further ones.
pub struct Pictures {
    state: Mutex<State>,
    in_turn: bool,
    /// Whether to keep the last picture displayed, for a screenshot.
    keep: bool,
    wake: Box<dyn Fn() + Send + Sync>,
}

struct State {
    queue: DisplayQueue<QueuedPicture>,
    /// Memory of pictures that were displayed or skipped. Bounded by the most pictures that were queued or displayed at once.
    spare: Vec<Picture>,
    last: Option<Picture>,
}

impl State {
    /// Reuses the memory of pictures that the queue has skipped.
    fn recycle_skipped(&mut self) {
        while let Some(skipped) = self.queue.poll_skipped() {
            self.spare.push(skipped.picture);
        }
    }
}

impl Pictures {
    /// Creates the queue of a display that refreshes at `display_hz`. `wake` is called when a picture enters the empty queue.
    pub fn new(order: DisplayOrder, display_hz: u16, keep: bool, wake: Box<dyn Fn() + Send + Sync>) -> Self {
        let mut queue = DisplayQueue::new(order);
        queue.set_refresh_interval((display_hz > 0).then(|| Span::from_secs(1) / i64::from(display_hz)));
        let state = Mutex::new(State { queue, spare: Vec::new(), last: None });
        Self { state, in_turn: order == DisplayOrder::InTurn, keep, wake }
    }

    /// Takes the next picture to display. The caller then passes it to [`Pictures::on_displayed`].
    pub fn take(&self, now: Time) -> Option<QueuedPicture> {
        let mut state = self.state();
        let taken = state.queue.take_ahead(now);
        state.recycle_skipped();
        taken
    }

    /// Records that the picture is on the display since `now`, and reuses the memory of the one before.
    pub fn on_displayed(&self, now: Time, shown: QueuedPicture) {
        let mut state = self.state();
        let spare = if self.keep { state.last.replace(shown.picture) } else { Some(shown.picture) };
        state.spare.extend(spare);
        state.queue.on_refresh(now);
    }

    /// Returns whether a picture is queued.
    pub fn has_waiting(&self) -> bool {
        !self.state().queue.is_empty()
    }

    /// Returns whether the next picture has to wait until the display has shown the one before.
    pub fn shows_in_turn(&self) -> bool {
        self.state().queue.shows_in_turn()
    }

    /// Takes the last picture displayed, if it was kept.
    pub fn take_last(&self) -> Option<Picture> {
        self.state().last.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Screen for Pictures {
    fn on_picture(&self, decoded: &Decoded<'_>) {
        let Decoded { ticket, marker, .. } = *decoded;
        let spare = self.state().spare.pop();
        let mut copy = spare.unwrap_or_else(|| Picture::new(Size { width: 16, height: 16 }));
        decoded.picture.copy_to(&mut copy);
        let (captured_at, deadline) = decoded.queue_times();
        let was_empty = {
            let mut state = self.state();
            let was_empty = state.queue.is_empty();
            state.queue.push(captured_at, deadline, QueuedPicture { ticket, marker, picture: copy });
            state.recycle_skipped();
            was_empty
        };
        if was_empty {
            (self.wake)();
        }
    }

    fn takes_every_picture(&self) -> bool {
        self.in_turn
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use nearlight_units::{FrameId, InputSeq, RemoteTime, Time};
    use nearlight_wire::FrameHeader;

    use super::*;

    fn header() -> FrameHeader<RemoteTime> {
        let never = RemoteTime::default();
        FrameHeader {
            width: 64,
            height: 32,
            input: InputSeq::default(),
            input_received_at: never,
            render_started_at: never,
            rendered_at: never,
            converted_at: never,
            encoded_at: never,
            display_at: never,
            deadline: never,
            views: Vec::new(),
        }
    }

    #[test]
    fn the_newest_wins_and_memory_goes_around() {
        let woken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        let pictures = Pictures::new(
            DisplayOrder::Newest,
            60,
            true,
            Box::new(move || {
                count.fetch_add(1, Ordering::Relaxed);
            }),
        );
        let picture = Picture::new(Size { width: 64, height: 32 });
        let header = header();
        for round in 0..10 {
            for frame in [2 * round, 2 * round + 1] {
                let ticket = Ticket { epoch: 1, frame: FrameId(frame) };
                pictures.on_picture(&Decoded {
                    ticket,
                    at: Time::ZERO,
                    picture: picture.view(),
                    marker: None,
                    header: &header,
                    clock: None,
                    key: true,
                    damaged: false,
                });
            }
            let newest = pictures.take(Time::ZERO).expect("waiting");
            assert_eq!(newest.ticket.frame, FrameId(2 * round + 1));
            pictures.on_displayed(Time::ZERO, newest);
            assert!(pictures.take(Time::ZERO).is_none());
        }
        assert_eq!(woken.load(Ordering::Relaxed), 10);
        assert!(pictures.state().spare.len() <= 2);
        assert_eq!(pictures.take_last(), Some(picture));
    }
}
