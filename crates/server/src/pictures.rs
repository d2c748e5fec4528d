//! Pictures that a source submits, converted in its own thread; of two that nobody has taken the newer one wins.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearlight_codec::{Picture, Size, convert};
use nearlight_net::Clock;
use nearlight_scene::{Damage, PictureSink, SceneError, SubmittedPicture};
use nearlight_units::Time;
use nearlight_wire::View;

use crate::fan_out::News;
use crate::studio::for_codec;

/// Pictures whose memory is kept for the next ones: the newest, and one in work for each of three layers and a viewer's own encoder.
const SPARES: usize = 5;

/// A submitted picture.
#[derive(Debug)]
pub(crate) struct SharedPicture {
    pub(crate) picture: Picture,
    pub(crate) captured_at: Time,
    pub(crate) converted_at: Time,
    /// What it was rendered for; empty where it does not depend on that.
    pub(crate) views: Vec<View>,
    /// Counts from 1.
    pub(crate) number: u64,
}

#[derive(Debug, Default)]
struct Kept {
    newest: Option<Arc<SharedPicture>>,
    /// Some are still in work.
    spares: Vec<Arc<SharedPicture>>,
    submitted: u64,
}

/// Where a source's pictures go and encoders take them from.
#[derive(Debug)]
pub(crate) struct Pictures {
    clock: Clock,
    news: Sender<News>,
    watched: AtomicBool,
    kept: Mutex<Kept>,
}

impl Pictures {
    pub(crate) fn new(clock: Clock, news: Sender<News>) -> Self {
        Self { clock, news, watched: AtomicBool::new(false), kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where nobody watches, pictures are dropped before they are converted.
    pub(crate) fn set_watched(&self, watched: bool) {
        self.watched.store(watched, Ordering::Relaxed);
    }

    pub(crate) fn newest(&self) -> Option<Arc<SharedPicture>> {
        self.kept().newest.clone()
    }

    /// A picture that nobody reads any more, or a new one.
    fn spare(&self) -> SharedPicture {
        let mut kept = self.kept();
        let free = kept.spares.iter().position(|spare| Arc::strong_count(spare) == 1);
        let spare = free.and_then(|index| Arc::into_inner(kept.spares.swap_remove(index)));
        spare.unwrap_or_else(|| SharedPicture {
            picture: Picture::new(Size { width: 16, height: 16 }),
            captured_at: Time::ZERO,
            converted_at: Time::ZERO,
            views: Vec::new(),
            number: 0,
        })
    }
}

impl PictureSink for Pictures {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn submit(&self, picture: &SubmittedPicture<'_>) {
        let is_news = picture.damage != Damage::Areas(&[]);
        if !is_news || !self.watched.load(Ordering::Relaxed) {
            return;
        }
        let mut captured = self.spare();
        if let Err(error) = convert::to_picture(for_codec(picture.pixels), &mut captured.picture) {
            return self.on_failed(SceneError::Adapter(format!("its picture cannot be converted: {error}")));
        }
        (captured.captured_at, captured.converted_at) = (picture.captured_at, self.clock.now());
        captured.views.clear();
        captured.views.extend_from_slice(picture.views);
        let mut kept = self.kept();
        // Another thread may have been faster with a newer one.
        if kept.newest.as_ref().is_some_and(|newest| newest.captured_at > captured.captured_at) {
            return;
        }
        kept.submitted += 1;
        captured.number = kept.submitted;
        let replaced = kept.newest.replace(Arc::new(captured));
        if kept.spares.len() < SPARES {
            kept.spares.extend(replaced);
        }
        drop(kept);
        let _ = self.news.send(News::Picture);
    }

    fn on_failed(&self, error: SceneError) {
        let _ = self.news.send(News::Failed(error));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use nearlight_scene::{PixelFormat, Pixels};

    use super::*;

    #[test]
    fn the_newest_picture_wins_and_what_is_no_news_is_dropped() {
        let (news, heard) = channel();
        let pictures = Pictures::new(Clock::start(), news);
        let bytes = vec![200; 32 * 16 * 4];
        let submit = |millis, damage| {
            let pixels = Pixels { bytes: &bytes, format: PixelFormat::Rgba, width: 32, height: 16, stride: 128 };
            let captured_at = Time::from_millis(millis);
            pictures.submit(&SubmittedPicture { pixels, captured_at, damage, views: &[] });
        };
        let newest = || pictures.newest().map(|newest| (newest.number, newest.captured_at.as_nanos() / 1_000_000));
        submit(10, Damage::Whole);
        assert_eq!(newest(), None, "nobody watches");
        pictures.set_watched(true);
        submit(20, Damage::Whole);
        submit(30, Damage::Areas(&[]));
        submit(15, Damage::Whole);
        assert_eq!(newest(), Some((1, 20)));
        let in_work = pictures.newest();
        for millis in 40..60 {
            submit(millis, Damage::Whole);
        }
        assert_eq!(newest(), Some((21, 59)));
        assert_eq!(in_work.map(|picture| picture.number), Some(1), "what is in work stays as it is");
        assert!(pictures.kept().spares.len() <= SPARES);
        assert_eq!(heard.try_iter().count(), 21);
    }
}
