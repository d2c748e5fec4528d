//! Captures what the program draws: at once when the display reports damage, in the long run one picture in a frame interval, and nothing
//! while nothing changes.
//!
//! One request makes the X server copy the whole picture into memory that both share. A request is carried out between those of other
//! clients, so a picture is never torn: programs put each of theirs on the display with one request. Encoders read the planes that the
//! picture is converted into, so no pixel is copied twice.

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
use crate::connection::{Bell, Display, XError};
use crate::screen::ScreenSize;
use crate::shared_memory::SharedMemory;

/// After its last change a picture is submitted again at these times, in milliseconds, so that an encoder can spend on its details what
/// the moving picture did not leave. The last one is early enough for the picture to be sharp 300 ms after the change.
const SHARPENING: [i64; 4] = [50, 100, 160, 230];
/// Bytes of a pixel: the display has 24 bits in 32.
const PIXEL: usize = 4;

/// When to capture.
///
/// A virtual schedule with one picture for each frame interval (the generic cell rate algorithm, ITU-T I.371): a picture may be early by half
/// an interval, so that neither jitter nor a second change soon after the first waits, while no more are captured in the long run. A
/// schedule that only counted from one capture to the next would be passed by a program that draws a little faster than it, and then delay
/// its pictures by half an interval on average: so a program that did not have to wait has a slightly shorter interval.
#[derive(Debug)]
pub(crate) struct Schedule {
    interval: Span,
    /// The display has changed since the newest capture.
    damaged: bool,
    /// The change has waited for its turn.
    waited: bool,
    /// When the next picture is due by the schedule.
    due: Option<Time>,
    /// When the display changed last, and how many times its picture was submitted again since.
    changed: Option<(Time, usize)>,
}

/// The part of an interval that a program may be faster by and is still captured at its own pace. Guess: clocks differ by much less, timers of
/// programs by some per cent.
const FASTER: i64 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The picture has changed.
    Capture,
    /// It has not, but will be sharper.
    Sharpen,
    Wait(Option<Span>),
}

impl Schedule {
    pub(crate) const fn new(interval: Span) -> Self {
        Self { interval, damaged: false, waited: false, due: None, changed: None }
    }

    pub(crate) fn on_damage(&mut self) {
        self.damaged = true;
    }

    /// When a change would be captured at the earliest; none: at any time.
    pub(crate) fn opens(&self) -> Option<Time> {
        self.due.map(|due| due - self.interval / 2)
    }

    /// What to do now; whoever is told to capture does.
    pub(crate) fn next(&mut self, now: Time) -> Next {
        if self.damaged {
            let early = self.opens().unwrap_or(now);
            if early > now {
                self.waited = true;
                return Next::Wait(Some(early - now));
            }
            let interval = if self.waited { self.interval } else { self.interval - self.interval / FASTER };
            self.spend(now, interval);
            (self.damaged, self.waited, self.changed) = (false, false, Some((now, 0)));
            return Next::Capture;
        }
        let Some((changed, done)) = self.changed else { return Next::Wait(None) };
        let Some(after) = SHARPENING.get(done) else { return Next::Wait(None) };
        let due = (changed + Span::from_millis(*after)).max(self.due.unwrap_or(now));
        if due > now {
            return Next::Wait(Some(due - now));
        }
        // It takes no turn: a change that comes next must not wait for what only improves the picture before.
        self.changed = Some((changed, done + 1));
        Next::Sharpen
    }

    fn spend(&mut self, now: Time, interval: Span) {
        self.due = Some(self.due.map_or(now, |due| due.max(now)) + interval);
    }
}

pub(crate) struct Capture {
    display: Display,
    size: ScreenSize,
    /// Of the newest picture; no size where the next one counts as changed everywhere.
    captured: (u16, u16),
    damage: damage::Damage,
    /// What was damaged, as the display tells.
    region: xfixes::Region,
    /// What has changed since the picture was sharp; none: all of it, or unknown.
    changed: Option<Area>,
    segment: shm::Seg,
    memory: SharedMemory,
    bell: Bell,
    watch: Watch,
    schedule: Schedule,
}

/// For whom a thread captures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    pub(crate) watched: Arc<AtomicBool>,
    /// A viewer has come.
    pub(crate) joined: Arc<AtomicBool>,
    pub(crate) closed: Arc<AtomicBool>,
}

impl Watch {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Whether somebody watches, and whether somebody is new since the last call.
    pub(crate) fn look(&self) -> (bool, bool) {
        let joined = self.joined.swap(false, Ordering::Relaxed);
        (self.watched.load(Ordering::Relaxed), joined)
    }
}

impl Capture {
    pub(crate) fn open(
        display: Display,
        size: ScreenSize,
        fps: u16,
        bell: Bell,
        watch: Watch,
    ) -> Result<Self, DisplayError> {
        display.needs(shm::X11_EXTENSION_NAME)?;
        display.needs(damage::X11_EXTENSION_NAME)?;
        display.needs(xfixes::X11_EXTENSION_NAME)?;
        // The largest that the display will have. Pages are used as pictures reach them.
        let (width, height) = display.size;
        let memory =
            SharedMemory::new(usize::from(width) * usize::from(height) * PIXEL).map_err(DisplayError::Memory)?;
        let opened = Self::prepare(&display, &memory);
        let (segment, damage, region) = opened
            .map_err(|error| DisplayError::Display { name: "of the program".into(), reason: error.to_string() })?;
        let schedule = Schedule::new(Span::from_secs(1) / i64::from(fps.max(1)));
        let (captured, changed) = ((0, 0), None);
        Ok(Self { display, size, captured, damage, region, changed, segment, memory, bell, watch, schedule })
    }

    fn prepare(display: &Display, memory: &SharedMemory) -> Result<(shm::Seg, damage::Damage, xfixes::Region), XError> {
        let connection = &display.connection;
        // Versions must be negotiated before anything else is asked.
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

    /// Submits pictures until the source is gone.
    pub(crate) fn run(mut self, sink: &dyn PictureSink) -> Result<(), XError> {
        let mut was_watched = false;
        loop {
            if self.watch.is_closed() {
                return Ok(());
            }
            let (watched, joined) = self.watch.look();
            // Whoever comes gets the display as it is now. One of another size need not be drawn on.
            if watched && !was_watched || joined || self.captured != even(self.size.get()) {
                self.captured = (0, 0);
                self.schedule.on_damage();
            }
            was_watched = watched;
            let next = if watched { self.schedule.next(sink.now()) } else { Next::Wait(None) };
            match next {
                Next::Wait(limit) => {
                    let limit = limit.map(|limit| Duration::from_nanos(limit.as_nanos().unsigned_abs()));
                    if let Some(Event::DamageNotify(_)) = self.bell.wait(&self.display, limit)? {
                        self.schedule.on_damage();
                    }
                }
                Next::Capture => self.capture(sink)?,
                Next::Sharpen if sink.is_coarse() => self.capture(sink)?,
                Next::Sharpen => {}
            }
        }
    }

    fn capture(&mut self, sink: &dyn PictureSink) -> Result<(), XError> {
        let (connection, (width, height)) = (&self.display.connection, even(self.size.get()));
        let (captured_at, was_sharp) = (sink.now(), !sink.is_coarse());
        // Damage from here on is reported anew.
        connection.damage_subtract(self.damage, x11rb::NONE, self.region)?;
        let damaged = connection.xfixes_fetch_region(self.region)?;
        let format = ImageFormat::Z_PIXMAP.into();
        let image = connection.shm_get_image(self.display.root, 0, 0, width, height, !0, format, self.segment, 0)?;
        let damaged = damaged.reply()?.extents;
        match image.reply() {
            Ok(_) if self.captured == (width, height) => {
                let before = if was_sharp { Some(Area::default()) } else { self.changed };
                self.changed = before.map(|before| together(before, damaged)).filter(|area| area.width > 0);
            }
            Ok(_) => (self.captured, self.changed) = ((width, height), None),
            // The display has become smaller, which this thread is not told yet.
            Err(ReplyError::X11Error(X11Error { error_kind: ErrorKind::Match, .. })) => {
                self.captured = (0, 0);
                self.schedule.on_damage();
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        let stride = usize::from(width) * PIXEL;
        let pixels = Pixels { bytes: self.memory.bytes(), format: PixelFormat::Bgra, width, height, stride };
        let damage = self.changed.as_ref().map_or(Damage::Whole, |area| Damage::Areas(std::slice::from_ref(area)));
        sink.submit(&SubmittedPicture { pixels, captured_at, damage, views: &[] });
        Ok(())
    }
}

/// The rectangle around both, of which any may be empty.
fn together(one: Area, other: Rectangle) -> Area {
    let whole = |at: i16| at.max(0).unsigned_abs();
    let other = Area { left: whole(other.x), top: whole(other.y), width: other.width, height: other.height };
    let is_empty = |area: Area| area.width == 0 || area.height == 0;
    if is_empty(one) || is_empty(other) {
        return if is_empty(one) { other } else { one };
    }
    let side = |[from, length]: [u16; 2], [start, extent]: [u16; 2]| {
        let least = from.min(start);
        (least, from.saturating_add(length).max(start.saturating_add(extent)) - least)
    };
    let (left, width) = side([one.left, one.width], [other.left, other.width]);
    let (top, height) = side([one.top, one.height], [other.top, other.height]);
    Area { left, top, width, height }
}

/// As pictures have to be.
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
        assert_eq!(schedule.next(millis(5)), Next::Wait(None), "nothing has changed");
        schedule.on_damage();
        assert_eq!(schedule.next(millis(6)), Next::Capture);
        schedule.on_damage();
        assert_eq!(schedule.next(millis(10)), Next::Wait(Some(Span::from_millis(10))));
        assert_eq!(schedule.next(millis(20)), Next::Capture);
        schedule.on_damage();
        assert_eq!(schedule.next(millis(21)), Next::Wait(Some(Span::from_millis(31))), "the schedule's turn");
        assert_eq!(schedule.next(millis(52)), Next::Capture);
        schedule.on_damage();
        assert_eq!(schedule.next(millis(190)), Next::Capture, "an idle display waits for nothing");
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
                Next::Capture => {
                    waits.extend(newest.take().map(|newest: i64| now - newest));
                    continue;
                }
                Next::Sharpen => continue,
                Next::Wait(limit) => limit.map_or(i64::MAX, |limit| now + (limit.as_nanos() + 999) / 1_000),
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
        assert_eq!(together(Area::default(), nothing).width, 0);
        assert_eq!(together(area(8, 4, 2, 2), nothing), area(8, 4, 2, 2));
        assert_eq!(together(Area::default(), damaged(8, 4, 2, 2)), area(8, 4, 2, 2));
        assert_eq!(together(area(8, 4, 2, 2), damaged(0, 5, 4, 10)), area(0, 4, 10, 11));
        assert_eq!(together(area(0, 0, 10, 10), damaged(3, 3, 2, 2)), area(0, 0, 10, 10));
    }

    #[test]
    fn a_still_picture_is_sharpened_within_300_milliseconds_and_then_costs_nothing() {
        let mut schedule = Schedule::new(Span::from_millis(20));
        schedule.on_damage();
        assert_eq!(schedule.next(millis(0)), Next::Capture);
        let mut sharpened = Vec::new();
        let mut now = 0;
        while let Next::Wait(Some(wait)) = schedule.next(millis(now)) {
            now += wait.as_nanos() / 1_000_000;
            assert_eq!(schedule.next(millis(now)), Next::Sharpen);
            sharpened.push(now);
        }
        assert_eq!(sharpened, SHARPENING);
        assert_eq!(schedule.next(millis(9_999)), Next::Wait(None));
        schedule.on_damage();
        assert_eq!(schedule.next(millis(10_000)), Next::Capture);
    }
}
