//! Captures an output of a compositor that uses wlroots (`zwlr_screencopy_manager_v1`, version 3).
//!
//! A request for a picture waits in the compositor until the output is damaged, so nothing is copied while nothing changes. The compositor
//! copies into one of two shared buffers. The other one holds the newest picture, so that encoders can refine it.

use std::path::Path;
use std::time::Duration;

use nearlight_scene::{Damage, PictureSink, PixelFormat, Pixels, SubmittedPicture};
use nearlight_units::{Span, Time};
use wayland_client::protocol::wl_buffer::WlBuffer;
use wayland_client::protocol::wl_output::WlOutput;
use wayland_client::protocol::wl_registry::WlRegistry;
use wayland_client::protocol::wl_shm::{Format, WlShm};
use wayland_client::protocol::wl_shm_pool::WlShmPool;
use wayland_client::{Connection, Dispatch, EventQueue, Proxy, QueueHandle, WEnum, delegate_noop, globals};
use wayland_protocols_wlr::screencopy::v1::client::zwlr_screencopy_frame_v1::{self, Flags, ZwlrScreencopyFrameV1};
use wayland_protocols_wlr::screencopy::v1::client::zwlr_screencopy_manager_v1::ZwlrScreencopyManagerV1;

use super::{bound, connect};
use crate::DisplayError;
use crate::shared_memory::SharedMemory;
use crate::x11::capture::{CaptureDecision, CaptureFlags, Schedule};
use crate::x11::connection::{ThreadError, WakePipe};

/// Delay before a request is repeated that has failed, as it does while the output is being resized. Guess: about a frame.
const RETRY_DELAY: Span = Span::from_millis(20);
/// Bytes per pixel.
const BYTES_PER_PIXEL: u32 = 4;

/// The layout of a picture in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BufferLayout {
    format: Format,
    width: u32,
    height: u32,
    stride: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Ready,
    Failed,
}

/// The compositor's events for the requested picture.
#[derive(Debug, Default)]
struct Frame {
    layout: Option<BufferLayout>,
    /// Whether the compositor has offered all layouts.
    offered: bool,
    upside_down: bool,
    outcome: Option<Outcome>,
}

/// A buffer that is shared with the compositor.
struct Buffer {
    memory: SharedMemory,
    pool: WlShmPool,
    handle: WlBuffer,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.handle.destroy();
        self.pool.destroy();
    }
}

pub(super) struct ScreenCopy {
    queue: EventQueue<Frame>,
    manager: ZwlrScreencopyManagerV1,
    output: WlOutput,
    shared: WlShm,
    /// The buffer into which the compositor copies, and the one with the newest picture.
    buffers: Option<(BufferLayout, [Buffer; 2])>,
    /// Whether the second buffer holds a picture.
    captured: bool,
    request: Option<ZwlrScreencopyFrameV1>,
    frame: Frame,
    /// Whether the next picture is requested regardless of damage.
    without_damage: bool,
    /// Earliest time of the next request.
    not_before: Time,
    max_size: (u16, u16),
    wake_pipe: WakePipe,
    flags: CaptureFlags,
    schedule: Schedule,
}

impl ScreenCopy {
    /// Connects to the compositor. Pictures are at most as large as `max_size`.
    pub(super) fn open(
        socket: &Path,
        max_size: (u16, u16),
        fps: u16,
        wake_pipe: WakePipe,
        flags: CaptureFlags,
    ) -> Result<Self, DisplayError> {
        let connection = connect(socket)?;
        let (list, queue) = globals::registry_queue_init::<Frame>(&connection)
            .map_err(|error| DisplayError::Display { name: socket.display().to_string(), reason: error.to_string() })?;
        let handle = queue.handle();
        let manager = bound(list.bind(&handle, 3..=3, ()))?;
        let output = bound(list.bind(&handle, 1..=4, ()))?;
        let shared = bound(list.bind(&handle, 1..=1, ()))?;
        let schedule = Schedule::new(Span::from_secs(1) / i64::from(fps.max(1)));
        Ok(Self {
            queue,
            manager,
            output,
            shared,
            buffers: None,
            captured: false,
            request: None,
            frame: Frame::default(),
            without_damage: true,
            not_before: Time::ZERO,
            max_size,
            wake_pipe,
            flags,
            schedule,
        })
    }

    /// Submits pictures until the source is gone.
    pub(super) fn run(mut self, sink: &dyn PictureSink) -> Result<(), ThreadError> {
        let mut was_watched = false;
        while !self.flags.is_closed() {
            let (watched, joined) = self.flags.poll();
            if watched && (!was_watched || joined) {
                // A new viewer gets the current picture.
                self.forget_request();
                (self.without_damage, self.captured) = (true, false);
            }
            was_watched = watched;
            let limit = if watched { self.advance(sink) } else { None };
            self.wait(limit)?;
            self.on_frame(sink.now(), watched)?;
        }
        Ok(())
    }

    /// Submits a picture if one is due, requests the next one, and returns how long there is nothing to do.
    fn advance(&mut self, sink: &dyn PictureSink) -> Option<Span> {
        let now = sink.now();
        let limit = match self.schedule.next(now) {
            CaptureDecision::Wait(limit) => limit,
            next => {
                if next == CaptureDecision::Capture || sink.is_coarse() {
                    self.submit(sink, now);
                }
                Some(Span::ZERO)
            }
        };
        if self.request.is_some() {
            return limit;
        }
        // A picture that is requested too early would be outdated when it is due.
        let earliest = self.schedule.earliest_capture().map_or(self.not_before, |time| time.max(self.not_before));
        if earliest > now {
            return Some(limit.map_or(earliest - now, |limit| limit.min(earliest - now)));
        }
        self.frame = Frame::default();
        self.request = Some(self.manager.capture_output(0, &self.output, &self.queue.handle(), ()));
        limit
    }

    /// Submits the newest picture. `now` is later than its capture by the duration of one copy.
    fn submit(&self, sink: &dyn PictureSink, now: Time) {
        let Some((layout, [_, newest])) = self.buffers.as_ref().filter(|_| self.captured) else { return };
        let even = |side: u32| side as u16 & !1;
        let (width, height, stride) = (even(layout.width), even(layout.height), layout.stride as usize);
        let format = match layout.format {
            Format::Xbgr8888 | Format::Abgr8888 => PixelFormat::Rgba,
            _ => PixelFormat::Bgra,
        };
        let pixels = Pixels { bytes: newest.memory.bytes(), format, width, height, stride };
        sink.submit(&SubmittedPicture { pixels, captured_at: now, damage: Damage::All, views: &[] });
    }

    fn wait(&mut self, limit: Option<Span>) -> Result<(), ThreadError> {
        if self.queue.dispatch_pending(&mut self.frame)? > 0 {
            return Ok(());
        }
        self.queue.flush()?;
        if let Some(guard) = self.queue.prepare_read() {
            let limit = limit.map(|limit| Duration::from_nanos(limit.as_nanos().unsigned_abs()));
            self.wake_pipe.wait_for(&guard.connection_fd(), limit);
            super::read(guard)?;
        }
        self.queue.dispatch_pending(&mut self.frame)?;
        Ok(())
    }

    /// Handles the compositor's events for the requested picture.
    fn on_frame(&mut self, now: Time, watched: bool) -> Result<(), ThreadError> {
        if let (true, Some(request)) = (std::mem::take(&mut self.frame.offered), &self.request) {
            let layout = self.frame.layout.ok_or("the compositor offers no picture in shared memory")?;
            let known = self.buffers.as_ref().is_some_and(|(known, _)| *known == layout);
            if !known {
                self.captured = false;
                let buffers = [self.allocate(layout)?, self.allocate(layout)?];
                self.buffers = Some((layout, buffers));
            }
            if let Some((_, [next, _])) = &self.buffers {
                if std::mem::take(&mut self.without_damage) || !known {
                    request.copy(&next.handle);
                } else {
                    request.copy_with_damage(&next.handle);
                }
            }
        }
        match self.frame.outcome.take() {
            Some(Outcome::Ready) if self.frame.upside_down => {
                return Err("the compositor's pictures are upside down".into());
            }
            Some(Outcome::Ready) => {
                if let Some((_, buffers)) = &mut self.buffers {
                    buffers.swap(0, 1);
                }
                self.forget_request();
                if watched {
                    self.captured = true;
                    self.schedule.on_damage();
                }
            }
            Some(Outcome::Failed) => {
                self.forget_request();
                (self.without_damage, self.not_before) = (true, now + RETRY_DELAY);
            }
            None => {}
        }
        Ok(())
    }

    fn forget_request(&mut self) {
        self.frame = Frame::default();
        if let Some(request) = self.request.take() {
            request.destroy();
        }
    }

    fn allocate(&self, layout: BufferLayout) -> Result<Buffer, ThreadError> {
        let BufferLayout { format, width, height, stride } = layout;
        let known = [Format::Xrgb8888, Format::Argb8888, Format::Xbgr8888, Format::Abgr8888].contains(&format);
        // The program may have resized the output itself.
        let fits =
            (2..=u32::from(self.max_size.0)).contains(&width) && (2..=u32::from(self.max_size.1)).contains(&height);
        if !known || !fits || stride < width * BYTES_PER_PIXEL || stride > width * BYTES_PER_PIXEL * 2 {
            return Err(format!(
                "the compositor offers pictures of {width}x{height} in the format {format:?}; at most {}x{} in four bytes a pixel can be \
                 shown",
                self.max_size.0, self.max_size.1
            )
            .into());
        }
        let length = stride * height;
        let memory = SharedMemory::new(length as usize)?;
        let events = self.queue.handle();
        let pool = self.shared.create_pool(memory.file(), length as i32, &events, ());
        let handle = pool.create_buffer(0, width as i32, height as i32, stride as i32, format, &events, ());
        // The compositor has a duplicate of the file descriptor after this.
        self.queue.flush()?;
        Ok(Buffer { memory, pool, handle })
    }
}

impl Dispatch<ZwlrScreencopyFrameV1, ()> for Frame {
    fn event(
        frame: &mut Self,
        _: &ZwlrScreencopyFrameV1,
        event: zwlr_screencopy_frame_v1::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<Self>,
    ) {
        use zwlr_screencopy_frame_v1::Event;
        match event {
            Event::Buffer { format: WEnum::Value(format), width, height, stride } => {
                frame.layout = Some(BufferLayout { format, width, height, stride });
            }
            Event::BufferDone => frame.offered = true,
            Event::Flags { flags: WEnum::Value(flags) } => frame.upside_down = flags.contains(Flags::YInvert),
            Event::Ready { .. } => frame.outcome = Some(Outcome::Ready),
            Event::Failed => frame.outcome = Some(Outcome::Failed),
            _ => {}
        }
    }
}

impl Dispatch<WlRegistry, globals::GlobalListContents> for Frame {
    fn event(
        _: &mut Self,
        _: &WlRegistry,
        _: <WlRegistry as Proxy>::Event,
        _: &globals::GlobalListContents,
        _: &Connection,
        _: &QueueHandle<Self>,
    ) {
    }
}
delegate_noop!(Frame: ignore WlOutput);
delegate_noop!(Frame: ignore WlShm);
delegate_noop!(Frame: ignore WlBuffer);
delegate_noop!(Frame: WlShmPool);
delegate_noop!(Frame: ZwlrScreencopyManagerV1);
