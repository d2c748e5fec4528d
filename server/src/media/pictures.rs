//! Pictures that a source submits, converted in the source's thread. A newer picture replaces one that was not taken.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use nearlight_codec::{Picture, PictureView, Size, convert};
use nearlight_net::Clock;
use nearlight_scene::{Area, Damage, PictureSink, Planes, PlanesContent, SceneError, SubmittedPicture};
use nearlight_units::{Time, lock};
use nearlight_wire::View;

use crate::media::fan_out::FanOutEvent;
use crate::media::studio::for_codec;

/// Pictures whose memory is kept for reuse: two being encoded for each of three layers, and one being made.
const MAX_SPARE_PICTURES: usize = 7;

/// Largest mean squared error of luma, in squared levels, of a coded picture that counts as sharp. Guess: an error of one level is
/// invisible.
const MAX_SHARP_ERROR: f64 = 1.0;

/// Whether encoders have reproduced a picture's details.
#[derive(Debug, Default)]
struct Sharpness(AtomicU8);

impl Sharpness {
    const UNKNOWN: u8 = 0;
    const SHARP: u8 = 1;
    const COARSE: u8 = 2;

    /// Records the result of one of the encoders, which have different rates. The coarsest result counts.
    fn note(&self, sharp: bool) {
        self.0.fetch_max(if sharp { Self::SHARP } else { Self::COARSE }, Ordering::Relaxed);
    }

    fn is_sharp(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::SHARP
    }

    fn forget(&mut self) {
        *self.0.get_mut() = Self::UNKNOWN;
    }
}

/// A submitted picture.
#[derive(Debug)]
pub(crate) struct SharedPicture {
    /// The pixels. Encoders read them; an encoder for the only viewer writes the marker below them while it encodes.
    picture: RwLock<Picture>,
    pub(crate) size: Size,
    pub(crate) captured_at: Time,
    pub(crate) converted_at: Time,
    /// The views that it was rendered for; empty if it does not depend on views.
    pub(crate) views: Vec<View>,
    /// Whether the picture has a half for each eye.
    side_by_side: bool,
    /// Number of the picture, counted from 1.
    pub(crate) number: u64,
    /// Share of the picture that has changed since it was sharp, 0 to 1.
    changed: f64,
    sharpness: Sharpness,
}

impl SharedPicture {
    fn new() -> Self {
        Self {
            picture: RwLock::new(picture_of(Planes::default())),
            size: Size { width: 0, height: 0 },
            captured_at: Time::ZERO,
            converted_at: Time::ZERO,
            views: Vec::new(),
            side_by_side: false,
            number: 0,
            changed: 1.0,
            sharpness: Sharpness::default(),
        }
    }

    /// Records the mean squared error of luma of a frame that was encoded from the picture, in squared levels, if it is known. All of the
    /// error is attributed to the part that has changed.
    pub(crate) fn on_coded(&self, error: Option<f64>) {
        self.sharpness.note(error.is_some_and(|error| error <= MAX_SHARP_ERROR * self.changed));
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Picture> {
        self.picture.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the picture to write rows below it, which the caller must remove again.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Picture> {
        self.picture.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the size of the part that each of this many eyes sees, and how many copies of the part lie side by side. A single eye gets
    /// the left half.
    pub(crate) fn for_eyes(&self, eyes: u8) -> (Size, u8) {
        match (self.side_by_side, eyes) {
            (false, _) => (self.size, eyes),
            (true, 0 | 1) => (self.size.left_half(), 1),
            (true, _) => (self.size, 1),
        }
    }

    /// Returns the part of `picture`, from [`SharedPicture::read`], that this many eyes see.
    pub(crate) fn part<'a>(&self, picture: &'a Picture, eyes: u8) -> PictureView<'a> {
        let whole = picture.view().top(self.size.height);
        PictureView { size: self.for_eyes(eyes).0, ..whole }
    }
}

#[derive(Debug)]
struct PicturePool {
    newest: Option<Arc<SharedPicture>>,
    /// Replaced pictures. Some are still being encoded; the memory of the others is reused.
    spares: Vec<Arc<SharedPicture>>,
    /// Free memory that belongs to no picture.
    planes: Vec<Planes>,
    submitted: u64,
}

/// Takes pictures from a source and provides the newest one to encoders.
#[derive(Debug)]
pub(crate) struct Pictures {
    clock: Clock,
    events: SyncSender<FanOutEvent>,
    /// Whether the studio was notified of a picture and has not taken it yet.
    event_pending: AtomicBool,
    watched: AtomicBool,
    pool: Mutex<PicturePool>,
}

impl Pictures {
    pub(crate) fn new(clock: Clock, events: SyncSender<FanOutEvent>) -> Self {
        let pool = PicturePool {
            newest: None,
            spares: Vec::with_capacity(MAX_SPARE_PICTURES),
            planes: Vec::with_capacity(MAX_SPARE_PICTURES),
            submitted: 0,
        };
        let (event_pending, watched) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { clock, events, event_pending, watched, pool: Mutex::new(pool) }
    }

    fn pool(&self) -> MutexGuard<'_, PicturePool> {
        lock(&self.pool)
    }

    /// Sets whether there are viewers. Without viewers, pictures are dropped before they are converted.
    pub(crate) fn set_watched(&self, watched: bool) {
        self.watched.store(watched, Ordering::Relaxed);
    }

    /// Keeps a picture as the newest one. Returns false if it is not the newest one or nobody watches.
    pub(crate) fn keep(&self, picture: &SubmittedPicture<'_>) -> bool {
        let is_new = picture.damage != Damage::Areas(&[]);
        if !is_new || !self.watched.load(Ordering::Relaxed) {
            return false;
        }
        let mut converted = picture_of(self.lend((picture.pixels.width, picture.pixels.height)));
        if let Err(error) = convert::to_picture(for_codec(picture.pixels), &mut converted) {
            self.on_failed(SceneError::Adapter(format!("its picture cannot be converted: {error}")));
            return false;
        }
        let SubmittedPicture { captured_at, views, .. } = *picture;
        let content = PlanesContent { captured_at, views, side_by_side: views.len() == 2 };
        let changed = match picture.damage {
            Damage::All => 1.0,
            Damage::Areas(areas) => part_of(areas, converted.size),
        };
        self.keep_planes(planes_of(converted), &content, changed)
    }

    /// Keeps submitted planes as the newest picture. Returns false if they are not the newest ones or nobody watches.
    pub(crate) fn keep_submitted(&self, planes: Planes, content: &PlanesContent<'_>) -> bool {
        self.keep_planes(planes, content, 1.0)
    }

    fn keep_planes(&self, planes: Planes, content: &PlanesContent<'_>, changed: f64) -> bool {
        let PlanesContent { captured_at, views, side_by_side } = *content;
        let picture = picture_of(planes);
        if let Err(error) = picture.view().check() {
            self.on_failed(SceneError::Adapter(format!("its planes cannot be coded: {error}")));
            return false;
        }
        let mut pool = self.pool();
        // Another thread may have submitted a newer picture meanwhile.
        let is_older = pool.newest.as_ref().is_some_and(|newest| newest.captured_at > captured_at);
        if is_older || !self.watched.load(Ordering::Relaxed) {
            pool.keep_planes(planes_of(picture));
            return false;
        }
        let mut shared = pool.free(|_| true).unwrap_or_else(|| Arc::new(SharedPicture::new()));
        pool.submitted += 1;
        let number = pool.submitted;
        if let Some(shared) = Arc::get_mut(&mut shared) {
            shared.size = picture.size;
            let old = std::mem::replace(shared.picture.get_mut().unwrap_or_else(PoisonError::into_inner), picture);
            pool.keep_planes(planes_of(old));
            shared.views.clear();
            shared.views.extend_from_slice(views);
            (shared.captured_at, shared.converted_at) = (captured_at, self.clock.now());
            (shared.side_by_side, shared.number, shared.changed) = (side_by_side, number, changed);
            shared.sharpness.forget();
        }
        let replaced = pool.newest.replace(shared);
        pool.keep(replaced);
        true
    }

    /// Notifies the studio of a picture.
    fn notify_studio(&self) {
        if !self.event_pending.swap(true, Ordering::SeqCst) {
            // If its queue is full, the studio will look for pictures anyway.
            let _ = self.events.try_send(FanOutEvent::Picture);
        }
    }

    pub(crate) fn newest(&self) -> Option<Arc<SharedPicture>> {
        // Cleared before the picture is read, so that later pictures trigger a new notification.
        self.event_pending.store(false, Ordering::SeqCst);
        self.pool().newest.clone()
    }
}

impl PicturePool {
    /// Removes and returns a spare picture that nobody reads any more.
    fn free(&mut self, usable: impl Fn(&SharedPicture) -> bool) -> Option<Arc<SharedPicture>> {
        let free = |spare: &Arc<SharedPicture>| Arc::strong_count(spare) == 1 && usable(spare);
        self.spares.iter().position(free).map(|index| self.spares.swap_remove(index))
    }

    fn keep(&mut self, spare: Option<Arc<SharedPicture>>) {
        let room = MAX_SPARE_PICTURES - self.spares.len().min(MAX_SPARE_PICTURES);
        self.spares.extend(spare.into_iter().take(room));
    }

    fn keep_planes(&mut self, planes: Planes) {
        if !planes.luma.is_empty() && self.planes.len() < MAX_SPARE_PICTURES {
            self.planes.push(planes);
        }
    }
}

/// Returns the share of a picture that these areas cover, 0 to 1.
fn part_of(areas: &[Area], size: Size) -> f64 {
    let pixels: f64 = areas.iter().map(|area| f64::from(area.width) * f64::from(area.height)).sum();
    (pixels / (size.pixels() as f64).max(1.0)).min(1.0)
}

/// Moves planes into a picture without copying them.
fn picture_of(planes: Planes) -> Picture {
    let Planes { width, height, luma, blue, red } = planes;
    Picture { size: Size { width, height }, luma, blue, red }
}

fn planes_of(picture: Picture) -> Planes {
    let Picture { size: Size { width, height }, luma, blue, red } = picture;
    Planes { width, height, luma, blue, red }
}

impl PictureSink for Pictures {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn submit(&self, picture: &SubmittedPicture<'_>) {
        if self.keep(picture) {
            self.notify_studio();
        }
    }

    fn lend(&self, (width, height): (u16, u16)) -> Planes {
        let mut pool = self.pool();
        let planes = pool.planes.pop().or_else(|| {
            let mut spare = pool.free(|spare| spare.size.pixels() > 0)?;
            let planes = Arc::get_mut(&mut spare).map(|spare| {
                spare.size = Size { width: 0, height: 0 };
                let picture = spare.picture.get_mut().unwrap_or_else(PoisonError::into_inner);
                std::mem::replace(picture, picture_of(Planes::default()))
            });
            pool.keep(Some(spare));
            planes.map(planes_of)
        });
        drop(pool);
        let mut picture = picture_of(planes.unwrap_or_default());
        picture.set_size(Size { width, height });
        planes_of(picture)
    }

    fn submit_planes(&self, planes: Planes, content: &PlanesContent<'_>) {
        if self.keep_submitted(planes, content) {
            self.notify_studio();
        }
    }

    fn put_back(&self, planes: Planes) {
        self.pool().keep_planes(planes);
    }

    fn is_coarse(&self) -> bool {
        self.pool().newest.as_ref().is_none_or(|newest| !newest.sharpness.is_sharp())
    }

    fn on_output(&self) {
        let _ = self.events.try_send(FanOutEvent::Input);
    }

    fn on_failed(&self, error: SceneError) {
        let _ = self.events.send(FanOutEvent::Failed(error));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use nearlight_scene::{PixelFormat, Pixels};

    use super::*;

    #[test]
    fn the_newest_picture_wins_and_unchanged_ones_are_dropped() {
        let (events, heard) = sync_channel(64);
        let pictures = Pictures::new(Clock::start(), events);
        let bytes = vec![200; 32 * 16 * 4];
        let submit = |millis, damage| {
            let pixels = Pixels { bytes: &bytes, format: PixelFormat::Rgba, width: 32, height: 16, stride: 128 };
            let captured_at = Time::from_millis(millis);
            pictures.submit(&SubmittedPicture { pixels, captured_at, damage, views: &[] });
        };
        let newest = || pictures.newest().map(|newest| (newest.number, newest.captured_at.as_nanos() / 1_000_000));
        submit(10, Damage::All);
        assert_eq!(newest(), None, "nobody watches");
        pictures.set_watched(true);
        submit(20, Damage::All);
        submit(30, Damage::Areas(&[]));
        submit(15, Damage::All);
        assert_eq!(newest(), Some((1, 20)));
        let in_work = pictures.newest();
        for millis in 40..60 {
            submit(millis, Damage::All);
        }
        assert_eq!(newest(), Some((21, 59)));
        assert_eq!(in_work.map(|picture| picture.number), Some(1), "what is in work stays as it is");
        assert!(pictures.pool().spares.len() <= MAX_SPARE_PICTURES);
        // One for the first picture and one for all that arrived between two looks.
        assert_eq!(heard.try_iter().count(), 2);
    }

    #[test]
    fn a_picture_is_sharp_once_every_encoder_has_coded_what_has_changed_well() {
        const CORNER: [Area; 1] = [Area { left: 0, top: 0, width: 8, height: 8 }];
        let (events, _heard) = sync_channel(64);
        let pictures = Pictures::new(Clock::start(), events);
        pictures.set_watched(true);
        let bytes = vec![200; 32 * 16 * 4];
        let submit = |millis, damage| {
            let pixels = Pixels { bytes: &bytes, format: PixelFormat::Rgba, width: 32, height: 16, stride: 128 };
            pictures.submit(&SubmittedPicture { pixels, captured_at: Time::from_millis(millis), damage, views: &[] });
            pictures.newest().expect("a picture")
        };
        assert!(pictures.is_coarse(), "there is none");
        let whole = submit(1, Damage::All);
        assert!(pictures.is_coarse(), "nobody has coded it");
        whole.on_coded(Some(0.9));
        assert!(!pictures.is_coarse());
        whole.on_coded(Some(2.0));
        assert!(pictures.is_coarse(), "another viewer has it at a lower rate");
        let part = submit(2, Damage::Areas(&CORNER));
        assert!(pictures.is_coarse(), "a new one");
        part.on_coded(Some(0.1));
        assert!(!pictures.is_coarse(), "an eighth has changed");
        submit(3, Damage::Areas(&CORNER)).on_coded(Some(0.2));
        assert!(pictures.is_coarse(), "which is seen there");
        submit(4, Damage::All).on_coded(None);
        assert!(pictures.is_coarse(), "an encoder that does not tell");
    }

    #[test]
    fn planes_are_lent_and_handed_over_without_a_copy() {
        let (events, heard) = sync_channel(64);
        let pictures = Pictures::new(Clock::start(), events);
        pictures.set_watched(true);
        let mut seen = std::collections::BTreeSet::new();
        for millis in 0..20 {
            let mut planes = pictures.lend((64, 32));
            assert_eq!((planes.luma.len(), planes.blue.len(), planes.red.len()), (2_048, 512, 512));
            planes.luma.fill(millis);
            let place = planes.luma.as_ptr();
            seen.insert(place);
            let captured_at = Time::from_millis(millis.into());
            pictures.submit_planes(planes, &PlanesContent { captured_at, ..PlanesContent::default() });
            let newest = pictures.newest().expect("a picture");
            assert_eq!((newest.read().luma.as_ptr(), newest.read().luma[9]), (place, millis));
        }
        assert!(seen.len() <= 3, "memory is used again: {}", seen.len());
        // Returned planes are lent next, and planes of a wrong length are the source's failure.
        let planes = pictures.lend((64, 32));
        let place = planes.luma.as_ptr();
        pictures.put_back(planes);
        let mut planes = pictures.lend((64, 32));
        assert_eq!(planes.luma.as_ptr(), place);
        planes.red.pop();
        pictures
            .submit_planes(planes, &PlanesContent { captured_at: Time::from_millis(99), ..PlanesContent::default() });
        assert!(heard.try_iter().any(|event| matches!(event, FanOutEvent::Failed(_))));
    }

    #[test]
    fn a_picture_for_two_eyes_is_halved_for_one_and_one_for_one_eye_is_doubled_for_two() {
        let mut shared = SharedPicture::new();
        shared.size = Size { width: 64, height: 32 };
        shared.picture = RwLock::new(Picture::new(shared.size));
        let shape = |shared: &SharedPicture, eyes| {
            let (size, copies) = shared.for_eyes(eyes);
            assert_eq!(shared.part(&shared.read(), eyes).size, size);
            (size.width, copies)
        };
        assert_eq!([1, 2].map(|eyes| shape(&shared, eyes)), [(64, 1), (64, 2)]);
        shared.side_by_side = true;
        assert_eq!([1, 2].map(|eyes| shape(&shared, eyes)), [(32, 1), (64, 1)]);
    }
}
