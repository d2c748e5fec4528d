//! Decoded pictures on their way from the decoder's thread to the one that shows them: the newest wins.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nearlight_codec::{Picture, Size};
use nearlight_viewer::player::{Decoded, Screen, Ticket};
use nearlight_wire::marker::Marker;

/// A picture that has not been shown yet.
pub struct Waiting {
    pub ticket: Ticket,
    pub marker: Option<Marker>,
    pub picture: Picture,
}

/// One waiting picture, and memory for the next.
pub struct Pictures {
    shelf: Mutex<Shelf>,
    /// The last picture shown must survive the run.
    keep: bool,
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Shelf {
    newest: Option<Waiting>,
    /// At most the one that the decoder fills while another is shown.
    spare: Vec<Picture>,
    last: Option<Picture>,
}

impl Pictures {
    /// `wake` is called when a picture waits where none did before.
    pub fn new(keep: bool, wake: Box<dyn Fn() + Send + Sync>) -> Self {
        Self { shelf: Mutex::default(), keep, wake }
    }

    /// The newest picture, to be shown and given back.
    pub fn take(&self) -> Option<Waiting> {
        self.shelf().newest.take()
    }

    /// The picture was shown; its memory is reused.
    pub fn give_back(&self, shown: Waiting) {
        let mut shelf = self.shelf();
        let spare = if self.keep { shelf.last.replace(shown.picture) } else { Some(shown.picture) };
        shelf.spare.extend(spare);
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
        let passed_over = {
            let mut shelf = self.shelf();
            let passed_over = shelf.newest.replace(Waiting { ticket, marker, picture: copy });
            let woken = passed_over.is_some();
            shelf.spare.extend(passed_over.map(|waiting| waiting.picture));
            woken
        };
        if !passed_over {
            (self.wake)();
        }
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
            let newest = pictures.take().expect("waiting");
            assert_eq!(newest.ticket.frame, FrameId(2 * round + 1));
            pictures.give_back(newest);
            assert!(pictures.take().is_none());
        }
        assert_eq!(woken.load(Ordering::Relaxed), 10);
        assert!(pictures.shelf().spare.len() <= 2);
        assert_eq!(pictures.take_last(), Some(picture));
    }
}
