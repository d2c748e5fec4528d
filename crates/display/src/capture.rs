//! Captures what the program draws: at once when the display reports damage, at most one picture in a frame interval, and nothing while
//! nothing changes.
//!
//! One request makes the X server copy the whole picture into memory that both share. A request is carried out between those of other
//! clients, so a picture is never torn: programs put each of theirs on the display with one request. Encoders read the planes that the
//! picture is converted into, so no pixel is copied twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nearlight_scene::{Damage, PictureSink, PixelFormat, Pixels, SubmittedPicture};
use nearlight_units::{Span, Time};
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::damage::{self, ConnectionExt as _, ReportLevel};
use x11rb::protocol::shm::{self, ConnectionExt as _};
use x11rb::protocol::xproto::ImageFormat;

use crate::DisplayError;
use crate::connection::{Bell, Display, XError};
use crate::shared_memory::SharedMemory;

/// After its last change a picture is submitted again at these times, in milliseconds, so that an encoder can spend on its details what
/// the moving picture did not leave. The last one is early enough for the picture to be sharp 300 ms after the change.
const SHARPENING: [i64; 4] = [50, 100, 160, 230];
/// Bytes of a pixel: the display has 24 bits in 32.
const PIXEL: usize = 4;

/// When to capture.
#[derive(Debug)]
pub(crate) struct Schedule {
    interval: Span,
    /// The display has changed since the newest capture.
    damaged: bool,
    newest: Option<Time>,
    /// When the display changed last, and how many times its picture was submitted again since.
    changed: Option<(Time, usize)>,
}

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
        Self { interval, damaged: false, newest: None, changed: None }
    }

    pub(crate) fn on_damage(&mut self) {
        self.damaged = true;
    }

    /// What to do now; whoever is told to capture does.
    pub(crate) fn next(&mut self, now: Time) -> Next {
        let due = self.newest.map_or(now, |newest| newest + self.interval);
        if self.damaged {
            if due > now {
                return Next::Wait(Some(due - now));
            }
            (self.damaged, self.newest, self.changed) = (false, Some(now), Some((now, 0)));
            return Next::Capture;
        }
        let Some((changed, done)) = self.changed else { return Next::Wait(None) };
        let Some(after) = SHARPENING.get(done) else { return Next::Wait(None) };
        let due = (changed + Span::from_millis(*after)).max(due);
        if due > now {
            return Next::Wait(Some(due - now));
        }
        (self.newest, self.changed) = (Some(now), Some((changed, done + 1)));
        Next::Sharpen
    }
}

pub(crate) struct Capture {
    display: Display,
    /// Even, as pictures have to be.
    size: (u16, u16),
    damage: damage::Damage,
    segment: shm::Seg,
    memory: SharedMemory,
    bell: Bell,
    watched: Arc<AtomicBool>,
    closed: Arc<AtomicBool>,
    schedule: Schedule,
}

impl Capture {
    pub(crate) fn open(
        display: Display,
        fps: u16,
        bell: Bell,
        (watched, closed): (Arc<AtomicBool>, Arc<AtomicBool>),
    ) -> Result<Self, DisplayError> {
        display.needs(shm::X11_EXTENSION_NAME)?;
        display.needs(damage::X11_EXTENSION_NAME)?;
        let (width, height) = (display.size.0 & !1, display.size.1 & !1);
        let memory =
            SharedMemory::new(usize::from(width) * usize::from(height) * PIXEL).map_err(DisplayError::Memory)?;
        let opened = Self::prepare(&display, &memory);
        let (segment, damage) = opened
            .map_err(|error| DisplayError::Display { name: "of the program".into(), reason: error.to_string() })?;
        let schedule = Schedule::new(Span::from_secs(1) / i64::from(fps.max(1)));
        Ok(Self { display, size: (width, height), damage, segment, memory, bell, watched, closed, schedule })
    }

    fn prepare(display: &Display, memory: &SharedMemory) -> Result<(shm::Seg, damage::Damage), XError> {
        let connection = &display.connection;
        // Versions must be negotiated before anything else is asked.
        connection.shm_query_version()?.reply()?;
        connection.damage_query_version(1, 1)?.reply()?;
        let segment = connection.generate_id()?;
        let file = memory.file().try_clone_to_owned().map_err(x11rb::errors::ConnectionError::IoError)?;
        connection.shm_attach_fd(segment, file, false)?.check()?;
        let damage = connection.generate_id()?;
        connection.damage_create(damage, display.root, ReportLevel::NON_EMPTY)?.check()?;
        Ok((segment, damage))
    }

    pub(crate) const fn size(&self) -> (u16, u16) {
        self.size
    }

    /// Submits pictures until the source is gone.
    pub(crate) fn run(mut self, sink: &dyn PictureSink) -> Result<(), XError> {
        let mut was_watched = false;
        loop {
            if self.closed.load(Ordering::Relaxed) {
                return Ok(());
            }
            let watched = self.watched.load(Ordering::Relaxed);
            // Whoever comes gets the display as it is now.
            if watched && !was_watched {
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
                Next::Capture | Next::Sharpen => self.capture(sink)?,
            }
        }
    }

    fn capture(&mut self, sink: &dyn PictureSink) -> Result<(), XError> {
        let (connection, (width, height)) = (&self.display.connection, self.size);
        let captured_at = sink.now();
        // Damage from here on is reported anew.
        connection.damage_subtract(self.damage, x11rb::NONE, x11rb::NONE)?;
        let format = ImageFormat::Z_PIXMAP.into();
        connection.shm_get_image(self.display.root, 0, 0, width, height, !0, format, self.segment, 0)?.reply()?;
        let stride = usize::from(width) * PIXEL;
        let pixels = Pixels { bytes: self.memory.bytes(), format: PixelFormat::Bgra, width, height, stride };
        sink.submit(&SubmittedPicture { pixels, captured_at, damage: Damage::Whole, views: &[] });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(at: i64) -> Time {
        Time::ZERO + Span::from_millis(at)
    }

    #[test]
    fn a_change_is_captured_at_once_and_the_next_after_a_frame_interval() {
        let mut schedule = Schedule::new(Span::from_millis(20));
        assert_eq!(schedule.next(millis(5)), Next::Wait(None), "nothing has changed");
        schedule.on_damage();
        assert_eq!(schedule.next(millis(6)), Next::Capture);
        schedule.on_damage();
        assert_eq!(schedule.next(millis(10)), Next::Wait(Some(Span::from_millis(16))));
        assert_eq!(schedule.next(millis(26)), Next::Capture);
        schedule.on_damage();
        assert_eq!(schedule.next(millis(90)), Next::Capture, "an idle display waits for nothing");
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
