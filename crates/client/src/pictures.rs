//! Decoded pictures on their way from the decoder's thread to the one that shows them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nearlight_codec::{Picture, Size};
use nearlight_session::{DisplayOrder, DisplayQueue};
use nearlight_units::{Span, Time};
use nearlight_viewer::player::{Decoded, Screen, Ticket};
use nearlight_wire::marker::Marker;

/// A picture that has not been shown yet.
#[derive(Debug)]
pub struct Waiting {
    pub ticket: Ticket,
    pub marker: Option<Marker>,
    pub picture: Picture,
}

/// The pictures that wait, and memory for the next.
pub struct Pictures {
    shelf: Mutex<Shelf>,
    in_turn: bool,
    /// The last picture shown must survive the run.
    keep: bool,
    wake: Box<dyn Fn() + Send + Sync>,
}

struct Shelf {
    queue: DisplayQueue<Waiting>,
    /// Not more than have waited at once, and the one that is shown.
    spare: Vec<Picture>,
    last: Option<Picture>,
}

impl Shelf {
    fn keep_skipped(&mut self) {
        while let Some(skipped) = self.queue.poll_skipped() {
            self.spare.push(skipped.picture);
        }
    }
}

impl Pictures {
    /// For a display that refreshes at `display_hz`. `wake` is called when a picture waits where none did before.
    pub fn new(order: DisplayOrder, display_hz: u16, keep: bool, wake: Box<dyn Fn() + Send + Sync>) -> Self {
        let mut queue = DisplayQueue::new(order);
        queue.set_refresh_interval((display_hz > 0).then(|| Span::from_secs(1) / i64::from(display_hz)));
        let shelf = Mutex::new(Shelf { queue, spare: Vec::new(), last: None });
        Self { shelf, in_turn: order == DisplayOrder::InTurn, keep, wake }
    }

    /// The next picture, to be shown and given back.
    pub fn take(&self, now: Time) -> Option<Waiting> {
        let mut shelf = self.shelf();
        let taken = shelf.queue.take_ahead(now);
        shelf.keep_skipped();
        taken
    }

    /// The picture is on the display since `now`; its memory is reused.
    pub fn give_back(&self, now: Time, shown: Waiting) {
        let mut shelf = self.shelf();
        let spare = if self.keep { shelf.last.replace(shown.picture) } else { Some(shown.picture) };
        shelf.spare.extend(spare);
        shelf.queue.on_refresh(now);
    }

    /// Whether pictures wait.
    pub fn has_waiting(&self) -> bool {
        !self.shelf().queue.is_empty()
    }

    /// Whether the next picture waits until the display has shown the one before.
    pub fn shows_in_turn(&self) -> bool {
        self.shelf().queue.shows_in_turn()
    }

    /// The last picture shown, where it was kept.
    pub fn take_last(&self) -> Option<Picture> {
        self.shelf().last.take()
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Screen for Pictures {
    fn on_picture(&self, decoded: &Decoded<'_>) {
        let Decoded { ticket, marker, .. } = *decoded;
        let spare = self.shelf().spare.pop();
        let mut copy = spare.unwrap_or_else(|| Picture::new(Size { width: 16, height: 16 }));
        decoded.picture.copy_to(&mut copy);
        let (captured_at, deadline) = decoded.queue_times();
        let was_empty = {
            let mut shelf = self.shelf();
            let was_empty = shelf.queue.is_empty();
            shelf.queue.push(captured_at, deadline, Waiting { ticket, marker, picture: copy });
            shelf.keep_skipped();
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
            pictures.give_back(Time::ZERO, newest);
            assert!(pictures.take(Time::ZERO).is_none());
        }
        assert_eq!(woken.load(Ordering::Relaxed), 10);
        assert!(pictures.shelf().spare.len() <= 2);
        assert_eq!(pictures.take_last(), Some(picture));
    }
}
