//! Pictures that a source submits, converted in its own thread; an untaken picture is replaced by a newer one.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use nearlight_codec::{Picture, PictureView, Size, convert};
use nearlight_net::Clock;
use nearlight_scene::{Area, Damage, PictureSink, Planes, PlanesContent, SceneError, SubmittedPicture};
use nearlight_units::Time;
use nearlight_wire::View;

use crate::fan_out::FanOutEvent;
use crate::studio::for_codec;

/// Pictures whose memory is kept for reuse: two being encoded for each of three layers, and one being made.
const SPARES: usize = 7;

/// Mean squared error of luma, in squared levels, up to which a coded picture counts as sharp. Guess: an error of one level is seen by nobody.
const SHARP: f64 = 1.0;

/// What encoders have made of a picture.
#[derive(Debug, Default)]
struct Sharpness(AtomicU8);

impl Sharpness {
    const UNKNOWN: u8 = 0;
    const SHARP: u8 = 1;
    const COARSE: u8 = 2;

    /// By one of the encoders, which have different rates.
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
    /// Encoders read it. One that adds the marker below it, for the only viewer, writes there while it encodes.
    picture: RwLock<Picture>,
    pub(crate) size: Size,
    pub(crate) captured_at: Time,
    pub(crate) converted_at: Time,
    /// The views that it was rendered for; empty if it does not depend on views.
    pub(crate) views: Vec<View>,
    /// It has a half for each eye.
    side_by_side: bool,
    /// Counts from 1.
    pub(crate) number: u64,
    /// Part of it that has changed since it was sharp, 0 to 1.
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

    /// A frame was coded of it with this mean squared error of luma, in squared levels, if that is known. All of the error is taken to lie in
    /// what has changed.
    pub(crate) fn on_coded(&self, error: Option<f64>) {
        self.sharpness.note(error.is_some_and(|error| error <= SHARP * self.changed));
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Picture> {
        self.picture.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// For rows below the picture, which are to be removed again.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Picture> {
        self.picture.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The size of what this many eyes see of it, and how many copies of that side by side make their picture: a single eye gets the left
    /// half.
    pub(crate) fn for_eyes(&self, eyes: u8) -> (Size, u8) {
        match (self.side_by_side, eyes) {
            (false, _) => (self.size, eyes),
            (true, 0 | 1) => (self.size.left_half(), 1),
            (true, _) => (self.size, 1),
        }
    }

    /// That part of the picture, which [`SharedPicture::read`] has given.
    pub(crate) fn part<'a>(&self, picture: &'a Picture, eyes: u8) -> PictureView<'a> {
        let whole = picture.view().top(self.size.height);
        PictureView { size: self.for_eyes(eyes).0, ..whole }
    }
}

#[derive(Debug)]
struct Kept {
    newest: Option<Arc<SharedPicture>>,
    /// Some are still being encoded. The memory of the others is lent.
    spares: Vec<Arc<SharedPicture>>,
    /// Memory that belongs to none of them.
    planes: Vec<Planes>,
    submitted: u64,
}

/// Where a source's pictures go and encoders take them from.
#[derive(Debug)]
pub(crate) struct Pictures {
    clock: Clock,
    events: SyncSender<FanOutEvent>,
    /// The studio has been notified of a picture and has not taken it yet.
    event_pending: AtomicBool,
    watched: AtomicBool,
    kept: Mutex<Kept>,
}

impl Pictures {
    pub(crate) fn new(clock: Clock, events: SyncSender<FanOutEvent>) -> Self {
        let kept =
            Kept { newest: None, spares: Vec::with_capacity(SPARES), planes: Vec::with_capacity(SPARES), submitted: 0 };
        let (event_pending, watched) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { clock, events, event_pending, watched, kept: Mutex::new(kept) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Without viewers, pictures are dropped before they are converted.
    pub(crate) fn set_watched(&self, watched: bool) {
        self.watched.store(watched, Ordering::Relaxed);
    }

    /// Keeps a picture as the newest one. False if it is none, or nobody watches.
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
            Damage::Whole => 1.0,
            Damage::Areas(areas) => part_of(areas, converted.size),
        };
        self.keep_planes(planes_of(converted), &content, changed)
    }

    /// The same for planes.
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
        let mut kept = self.kept();
        // Another thread may have been faster with a newer one.
        let is_older = kept.newest.as_ref().is_some_and(|newest| newest.captured_at > captured_at);
        if is_older || !self.watched.load(Ordering::Relaxed) {
            kept.keep_planes(planes_of(picture));
            return false;
        }
        let mut shared = kept.free(|_| true).unwrap_or_else(|| Arc::new(SharedPicture::new()));
        kept.submitted += 1;
        let number = kept.submitted;
        if let Some(shared) = Arc::get_mut(&mut shared) {
            shared.size = picture.size;
            let old = std::mem::replace(shared.picture.get_mut().unwrap_or_else(PoisonError::into_inner), picture);
            kept.keep_planes(planes_of(old));
            shared.views.clear();
            shared.views.extend_from_slice(views);
            (shared.captured_at, shared.converted_at) = (captured_at, self.clock.now());
            (shared.side_by_side, shared.number, shared.changed) = (side_by_side, number, changed);
            shared.sharpness.forget();
        }
        let replaced = kept.newest.replace(shared);
        kept.keep(replaced);
        true
    }

    /// Notifies the studio of a picture.
    fn tell(&self) {
        if !self.event_pending.swap(true, Ordering::SeqCst) {
            // A studio whose queue is full looks for pictures at once anyway.
            let _ = self.events.try_send(FanOutEvent::Picture);
        }
    }

    pub(crate) fn newest(&self) -> Option<Arc<SharedPicture>> {
        // Cleared before it looks: pictures from now on trigger a new notification.
        self.event_pending.store(false, Ordering::SeqCst);
        self.kept().newest.clone()
    }
}

impl Kept {
    /// A picture that is no longer read by anyone.
    fn free(&mut self, usable: impl Fn(&SharedPicture) -> bool) -> Option<Arc<SharedPicture>> {
        let free = |spare: &Arc<SharedPicture>| Arc::strong_count(spare) == 1 && usable(spare);
        self.spares.iter().position(free).map(|index| self.spares.swap_remove(index))
    }

    fn keep(&mut self, spare: Option<Arc<SharedPicture>>) {
        let room = SPARES - self.spares.len().min(SPARES);
        self.spares.extend(spare.into_iter().take(room));
    }

    fn keep_planes(&mut self, planes: Planes) {
        if !planes.luma.is_empty() && self.planes.len() < SPARES {
            self.planes.push(planes);
        }
    }
}

/// The part of a picture that these areas cover, 0 to 1.
fn part_of(areas: &[Area], size: Size) -> f64 {
    let pixels: f64 = areas.iter().map(|area| f64::from(area.width) * f64::from(area.height)).sum();
    (pixels / (size.pixels() as f64).max(1.0)).min(1.0)
}

/// Moves the planes; nothing is copied.
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
            self.tell();
        }
    }

    fn lend(&self, (width, height): (u16, u16)) -> Planes {
        let mut kept = self.kept();
        let planes = kept.planes.pop().or_else(|| {
            let mut spare = kept.free(|spare| spare.size.pixels() > 0)?;
            let planes = Arc::get_mut(&mut spare).map(|spare| {
                spare.size = Size { width: 0, height: 0 };
                let picture = spare.picture.get_mut().unwrap_or_else(PoisonError::into_inner);
                std::mem::replace(picture, picture_of(Planes::default()))
            });
            kept.keep(Some(spare));
            planes.map(planes_of)
        });
        drop(kept);
        let mut picture = picture_of(planes.unwrap_or_default());
        picture.set_size(Size { width, height });
        planes_of(picture)
    }

    fn submit_planes(&self, planes: Planes, content: &PlanesContent<'_>) {
        if self.keep_submitted(planes, content) {
            self.tell();
        }
    }

    fn put_back(&self, planes: Planes) {
        self.kept().keep_planes(planes);
    }

    fn is_coarse(&self) -> bool {
        self.kept().newest.as_ref().is_none_or(|newest| !newest.sharpness.is_sharp())
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
        let whole = submit(1, Damage::Whole);
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
        submit(4, Damage::Whole).on_coded(None);
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
