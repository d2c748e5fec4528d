//! Captures an X display. A change is captured at once when the display reports damage, but in the long run at most once per frame
//! interval. Nothing is captured while nothing changes.
//!
//! One request makes the X server copy the whole picture into shared memory. The server executes requests one at a time, and programs put
//! each picture on the display with one request, so a captured picture is never torn. Encoders read the planes into which the picture is
//! converted, so no pixel is copied twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nearlight_scene::{Area, Damage, PictureSink, PixelFormat, Pixels, SubmittedPicture};
use nearlight_units::{Span, Time};
use x11rb::connection::Connection as _;
use x11rb::errors::ReplyError;
use x11rb::protocol::damage::{self, ConnectionExt as _, ReportLevel};
use x11rb::protocol::shm::{self, ConnectionExt as _};
use x11rb::protocol::xfixes::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{ImageFormat, Rectangle};
use x11rb::protocol::{ErrorKind, Event};
use x11rb::x11_utils::X11Error;

use crate::DisplayError;
use crate::shared_memory::SharedMemory;
use crate::x11::connection::{Display, WakePipe, XError};
use crate::x11::reconnection::Reconnection;
use crate::x11::screen::ScreenSize;

/// Times after the last change, in milliseconds, at which the picture is submitted again, so that an encoder can refine details for which a
/// moving picture left no bits. The last one is early enough for the picture to be sharp 300 ms after the change.
const SHARPENING_MS: [i64; 4] = [50, 100, 160, 230];
/// Bytes per pixel: the display has 24 bits in 32.
const BYTES_PER_PIXEL: usize = 4;

/// Decides when to capture.
///
/// It follows a virtual schedule with one picture per frame interval (the generic cell rate algorithm, ITU-T I.371). A picture may be half
/// an interval early, so that neither jitter nor a second change soon after the first one causes a delay, and the rate is still bounded in
/// the long run. A program that draws slightly faster than the schedule would be delayed by half an interval on average. Therefore the
/// interval is slightly shorter as long as no picture has to wait.
#[derive(Debug)]
pub(crate) struct Schedule {
    interval: Span,
    /// Whether the display has changed since the last capture.
    damaged: bool,
    /// Whether the change had to wait for the schedule.
    waited: bool,
    /// The scheduled time of the next picture.
    due: Option<Time>,
    /// Time of the last captured change, and how often its picture was submitted again since then.
    changed: Option<(Time, usize)>,
}

/// A program that draws faster than the schedule by up to one part in this many is captured at its own rate. Guess: timers of programs are
/// off by some per cent, and clocks differ by much less.
const RATE_TOLERANCE_DIVISOR: i64 = 16;

/// A decision of the [`Schedule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaptureDecision {
    /// Capture the picture, which has changed.
    Capture,
    /// Submit the unchanged picture again, to refine it.
    Sharpen,
    /// Wait for damage, at most this long.
    Wait(Option<Span>),
}

impl Schedule {
    pub(crate) const fn new(interval: Span) -> Self {
        Self { interval, damaged: false, waited: false, due: None, changed: None }
    }

    pub(crate) fn on_damage(&mut self) {
        self.damaged = true;
    }

    /// Returns the earliest time at which a change would be captured; `None` if at any time.
    pub(crate) fn earliest_capture(&self) -> Option<Time> {
        self.due.map(|due| due - self.interval / 2)
    }

    /// Decides what to do now. The caller must follow the decision.
    pub(crate) fn next(&mut self, now: Time) -> CaptureDecision {
        if self.damaged {
            let early = self.earliest_capture().unwrap_or(now);
            if early > now {
                self.waited = true;
                return CaptureDecision::Wait(Some(early - now));
            }
            let interval =
                if self.waited { self.interval } else { self.interval - self.interval / RATE_TOLERANCE_DIVISOR };
            self.advance(now, interval);
            (self.damaged, self.waited, self.changed) = (false, false, Some((now, 0)));
            return CaptureDecision::Capture;
        }
        let Some((changed, done)) = self.changed else { return CaptureDecision::Wait(None) };
        let Some(after) = SHARPENING_MS.get(done) else { return CaptureDecision::Wait(None) };
        let due = (changed + Span::from_millis(*after)).max(self.due.unwrap_or(now));
        if due > now {
            return CaptureDecision::Wait(Some(due - now));
        }
        // Sharpening does not advance the schedule, because it must not delay the next change.
        self.changed = Some((changed, done + 1));
        CaptureDecision::Sharpen
    }

    fn advance(&mut self, now: Time, interval: Span) {
        self.due = Some(self.due.map_or(now, |due| due.max(now)) + interval);
    }
}

/// Captures an X display.
pub(crate) struct Capture {
    display: Display,
    size: ScreenSize,
    /// Size of the last captured picture; zero if the next one counts as changed everywhere.
    captured: (u16, u16),
    damage: damage::Damage,
    /// The damaged region that the display reports.
    region: xfixes::Region,
    /// The area that has changed since the picture was sharp; `None` if everything, or if it is unknown.
    changed: Option<Area>,
    segment: shm::Seg,
    memory: SharedMemory,
    wake_pipe: WakePipe,
    flags: CaptureFlags,
    schedule: Schedule,
}

/// Flags by which the source controls a capturing thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct CaptureFlags {
    /// Whether there are viewers.
    pub(crate) watched: Arc<AtomicBool>,
    /// Whether a viewer has joined since the last [`CaptureFlags::poll`].
    pub(crate) joined: Arc<AtomicBool>,
    /// Whether the source is gone.
    pub(crate) closed: Arc<AtomicBool>,
}

impl CaptureFlags {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Returns whether there are viewers, and whether one has joined since the last call.
    pub(crate) fn poll(&self) -> (bool, bool) {
        let joined = self.joined.swap(false, Ordering::Relaxed);
        (self.watched.load(Ordering::Relaxed), joined)
    }
}

impl Capture {
    pub(crate) fn open(
        display: Display,
        size: ScreenSize,
        fps: u16,
        wake_pipe: WakePipe,
        flags: CaptureFlags,
    ) -> Result<Self, DisplayError> {
        display.require(shm::X11_EXTENSION_NAME)?;
        display.require(damage::X11_EXTENSION_NAME)?;
        display.require(xfixes::X11_EXTENSION_NAME)?;
        // The display is now as large as it will get. Pages of the memory are allocated when pictures use them.
        let (width, height) = display.size;
        let memory = SharedMemory::new(usize::from(width) * usize::from(height) * BYTES_PER_PIXEL)
            .map_err(DisplayError::Memory)?;
        let opened = Self::prepare(&display, &memory);
        let (segment, damage, region) = opened
            .map_err(|error| DisplayError::Display { name: "of the program".into(), reason: error.to_string() })?;
        let schedule = Schedule::new(Span::from_secs(1) / i64::from(fps.max(1)));
        let (captured, changed) = ((0, 0), None);
        Ok(Self { display, size, captured, damage, region, changed, segment, memory, wake_pipe, flags, schedule })
    }

    fn prepare(display: &Display, memory: &SharedMemory) -> Result<(shm::Seg, damage::Damage, xfixes::Region), XError> {
        let connection = &display.connection;
        // Versions must be negotiated before other requests.
        connection.shm_query_version()?.reply()?;
        connection.xfixes_query_version(2, 0)?.reply()?;
        connection.damage_query_version(1, 1)?.reply()?;
        let segment = connection.generate_id()?;
        let file = memory.file().try_clone_to_owned().map_err(x11rb::errors::ConnectionError::IoError)?;
        connection.shm_attach_fd(segment, file, false)?.check()?;
        let damage = connection.generate_id()?;
        connection.damage_create(damage, display.root, ReportLevel::NON_EMPTY)?.check()?;
        let region = connection.generate_id()?;
        connection.xfixes_create_region(region, &[])?.check()?;
        Ok((segment, damage, region))
    }

    /// Submits pictures until the source is gone, over new connections if programs end them.
    pub(crate) fn run(mut self, sink: &dyn PictureSink, mut reconnection: Reconnection) -> Result<(), XError> {
        while let Err(error) = self.submit_pictures(sink) {
            (self.display, (self.segment, self.damage, self.region)) = reconnection.connect(error, |display| {
                let prepared = Self::prepare(&display, &self.memory)?;
                Ok::<_, XError>((display, prepared))
            })?;
            self.captured = (0, 0);
        }
        Ok(())
    }

    fn submit_pictures(&mut self, sink: &dyn PictureSink) -> Result<(), XError> {
        let mut was_watched = false;
        loop {
            if self.flags.is_closed() {
                return Ok(());
            }
            let (watched, joined) = self.flags.poll();
            // A new viewer gets the current picture. A display with a new size may not report damage.
            if watched && !was_watched || joined || self.captured != even(self.size.get()) {
                self.captured = (0, 0);
                self.schedule.on_damage();
            }
            was_watched = watched;
            let next = if watched { self.schedule.next(sink.now()) } else { CaptureDecision::Wait(None) };
            match next {
                CaptureDecision::Wait(limit) => {
                    let limit = limit.map(|limit| Duration::from_nanos(limit.as_nanos().unsigned_abs()));
                    if let Some(Event::DamageNotify(_)) = self.wake_pipe.wait(&self.display, limit)? {
                        self.schedule.on_damage();
                    }
                }
                CaptureDecision::Capture => self.capture(sink)?,
                CaptureDecision::Sharpen if sink.is_coarse() => self.capture(sink)?,
                CaptureDecision::Sharpen => {}
            }
        }
    }

    fn capture(&mut self, sink: &dyn PictureSink) -> Result<(), XError> {
        let (connection, (width, height)) = (&self.display.connection, even(self.size.get()));
        let (captured_at, was_sharp) = (sink.now(), !sink.is_coarse());
        // Resets the damage, so that later changes are reported again.
        connection.damage_subtract(self.damage, x11rb::NONE, self.region)?;
        let damaged = connection.xfixes_fetch_region(self.region)?;
        let format = ImageFormat::Z_PIXMAP.into();
        let image = connection.shm_get_image(self.display.root, 0, 0, width, height, !0, format, self.segment, 0)?;
        let damaged = damaged.reply()?.extents;
        match image.reply() {
            Ok(_) if self.captured == (width, height) => {
                let before = if was_sharp { Some(Area::default()) } else { self.changed };
                self.changed = before.map(|before| bounding_box(before, damaged)).filter(|area| area.width > 0);
            }
            Ok(_) => (self.captured, self.changed) = ((width, height), None),
            // The display has become smaller, but this thread has not been notified yet.
            Err(ReplyError::X11Error(X11Error { error_kind: ErrorKind::Match, .. })) => {
                self.captured = (0, 0);
                self.schedule.on_damage();
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        let stride = usize::from(width) * BYTES_PER_PIXEL;
        let pixels = Pixels { bytes: self.memory.bytes(), format: PixelFormat::Bgra, width, height, stride };
        let damage = self.changed.as_ref().map_or(Damage::All, |area| Damage::Areas(std::slice::from_ref(area)));
        sink.submit(&SubmittedPicture { pixels, captured_at, damage, views: &[] });
        Ok(())
    }
}

/// Returns the bounding box of two areas, either of which may be empty.
fn bounding_box(one: Area, other: Rectangle) -> Area {
    let clipped = |at: i16| at.max(0).unsigned_abs();
    let other = Area { left: clipped(other.x), top: clipped(other.y), width: other.width, height: other.height };
    let is_empty = |area: Area| area.width == 0 || area.height == 0;
    if is_empty(one) || is_empty(other) {
        return if is_empty(one) { other } else { one };
    }
    let side = |[from, length]: [u16; 2], [start, extent]: [u16; 2]| {
        let begin = from.min(start);
        (begin, from.saturating_add(length).max(start.saturating_add(extent)) - begin)
    };
    let (left, width) = side([one.left, one.width], [other.left, other.width]);
    let (top, height) = side([one.top, one.height], [other.top, other.height]);
    Area { left, top, width, height }
}

/// Rounds a size down to even numbers, as pictures require.
const fn even((width, height): (u16, u16)) -> (u16, u16) {
    (width & !1, height & !1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(at: i64) -> Time {
        Time::ZERO + Span::from_millis(at)
    }

    #[test]
    fn a_change_is_captured_at_once_and_the_next_at_the_earliest_half_an_interval_later() {
        let mut schedule = Schedule::new(Span::from_millis(32));
        assert_eq!(schedule.next(millis(5)), CaptureDecision::Wait(None), "nothing has changed");
        schedule.on_damage();
        assert_eq!(schedule.next(millis(6)), CaptureDecision::Capture);
        schedule.on_damage();
        assert_eq!(schedule.next(millis(10)), CaptureDecision::Wait(Some(Span::from_millis(10))));
        assert_eq!(schedule.next(millis(20)), CaptureDecision::Capture);
        schedule.on_damage();
        assert_eq!(
            schedule.next(millis(21)),
            CaptureDecision::Wait(Some(Span::from_millis(31))),
            "the schedule's turn"
        );
        assert_eq!(schedule.next(millis(52)), CaptureDecision::Capture);
        schedule.on_damage();
        assert_eq!(schedule.next(millis(190)), CaptureDecision::Capture, "an idle display waits for nothing");
    }

    /// How long changes wait at 60 pictures a second, in microseconds, sorted, and pictures per second, for a program that draws every so
    /// many microseconds, each up to `jitter` late.
    fn waits(period: i64, jitter: i64) -> (Vec<i64>, f64) {
        const SECONDS: i64 = 20;
        let mut schedule = Schedule::new(Span::from_secs(1) / 60);
        let mut random = 1_u64;
        let mut changes = (0..SECONDS * 1_000_000 / period).map(|drawn| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            drawn * period + (random >> 33) as i64 % (jitter + 1)
        });
        let (mut now, mut waits, mut newest) = (0, Vec::new(), None);
        let mut next = changes.next();
        while next.is_some() || newest.is_some() {
            let limit = match schedule.next(Time::ZERO + Span::from_micros(now)) {
                CaptureDecision::Capture => {
                    waits.extend(newest.take().map(|newest: i64| now - newest));
                    continue;
                }
                CaptureDecision::Sharpen => continue,
                CaptureDecision::Wait(limit) => limit.map_or(i64::MAX, |limit| now + (limit.as_nanos() + 999) / 1_000),
            };
            match next.filter(|change| *change <= limit) {
                Some(change) => {
                    now = now.max(change);
                    newest = Some(now);
                    schedule.on_damage();
                    next = changes.next();
                }
                None => now = limit,
            }
        }
        let rate = waits.len() as f64 / SECONDS as f64;
        waits.sort_unstable();
        (waits, rate)
    }

    #[test]
    fn programs_that_keep_a_rate_near_the_schedules_wait_for_nothing() {
        for hundredths in [2_000, 5_000, 5_994, 6_000, 6_006, 6_100, 6_200] {
            for jitter in [0, 500, 2_000] {
                let (waits, rate) = waits(100_000_000 / hundredths, jitter);
                let part = |percent: usize| waits[waits.len() * percent / 100];
                assert_eq!((part(50), part(95)), (0, 0), "{hundredths} hundredths of a hertz, {jitter} us late");
                assert!((rate - hundredths as f64 / 100.0).abs() < 1.0, "{rate} of {hundredths}");
            }
        }
    }

    #[test]
    fn faster_programs_are_captured_at_the_schedules_rate() {
        for (hertz, most) in [(75, 14_000), (144, 7_000), (1_000, 1_000)] {
            let (waits, rate) = waits(1_000_000 / hertz, 0);
            assert!((59.0..64.5).contains(&rate), "{rate} of {hertz}");
            assert!(waits[waits.len() / 2] <= most, "{hertz}: {}", waits[waits.len() / 2]);
        }
    }

    #[test]
    fn what_has_changed_is_the_rectangle_around_it() {
        let area = |left, top, width, height| Area { left, top, width, height };
        let damaged = |x, y, width, height| Rectangle { x, y, width, height };
        let nothing = damaged(5, 5, 0, 0);
        assert_eq!(bounding_box(Area::default(), nothing).width, 0);
        assert_eq!(bounding_box(area(8, 4, 2, 2), nothing), area(8, 4, 2, 2));
        assert_eq!(bounding_box(Area::default(), damaged(8, 4, 2, 2)), area(8, 4, 2, 2));
        assert_eq!(bounding_box(area(8, 4, 2, 2), damaged(0, 5, 4, 10)), area(0, 4, 10, 11));
        assert_eq!(bounding_box(area(0, 0, 10, 10), damaged(3, 3, 2, 2)), area(0, 0, 10, 10));
    }

    #[test]
    fn a_still_picture_is_sharpened_within_300_milliseconds_and_then_costs_nothing() {
        let mut schedule = Schedule::new(Span::from_millis(20));
        schedule.on_damage();
        assert_eq!(schedule.next(millis(0)), CaptureDecision::Capture);
        let mut sharpened = Vec::new();
        let mut now = 0;
        while let CaptureDecision::Wait(Some(wait)) = schedule.next(millis(now)) {
            now += wait.as_nanos() / 1_000_000;
            assert_eq!(schedule.next(millis(now)), CaptureDecision::Sharpen);
            sharpened.push(now);
        }
        assert_eq!(sharpened, SHARPENING_MS);
        assert_eq!(schedule.next(millis(9_999)), CaptureDecision::Wait(None));
        schedule.on_damage();
        assert_eq!(schedule.next(millis(10_000)), CaptureDecision::Capture);
    }
}
