//! Captures an output of a compositor of wlroots' family (`zwlr_screencopy_manager_v1`, version 3).
//!
//! A request for a picture waits in the compositor until the output is damaged, so while nothing changes nothing is copied. The compositor
//! copies into one of two pieces of shared memory; the other one holds the newest picture, for encoders to spend more bits on.

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
use crate::capture::{Next, Schedule, Watch};
use crate::connection::{Bell, ThreadError};
use crate::shared_memory::SharedMemory;

/// After the compositor has failed to copy, as it does while its output changes its size, it is asked again so much later.
const RETRY: Span = Span::from_millis(20);
/// Bytes of a pixel.
const PIXEL: u32 = 4;

/// How a picture lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
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

/// What the compositor has said of the picture that it was asked for.
#[derive(Debug, Default)]
struct Frame {
    shape: Option<Shape>,
    /// It has said all shapes that it offers.
    offered: bool,
    upside_down: bool,
    outcome: Option<Outcome>,
}

/// One picture's memory, and how the compositor knows it.
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
    /// The one that the compositor copies into, and the one with the newest picture.
    buffers: Option<(Shape, [Buffer; 2])>,
    /// The newest picture is there.
    captured: bool,
    request: Option<ZwlrScreencopyFrameV1>,
    frame: Frame,
    /// The next picture is wanted whether or not there is damage.
    whole: bool,
    not_before: Time,
    largest: (u16, u16),
    bell: Bell,
    watch: Watch,
    schedule: Schedule,
}

impl ScreenCopy {
    /// Pictures are at most as large as `largest`.
    pub(super) fn open(
        socket: &Path,
        largest: (u16, u16),
        fps: u16,
        bell: Bell,
        watch: Watch,
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
            whole: true,
            not_before: Time::ZERO,
            largest,
            bell,
            watch,
            schedule,
        })
    }

    /// Submits pictures until the source is gone.
    pub(super) fn run(mut self, sink: &dyn PictureSink) -> Result<(), ThreadError> {
        let mut was_watched = false;
        while !self.watch.is_closed() {
            let (watched, joined) = self.watch.look();
            if watched && (!was_watched || joined) {
                // Whoever comes gets the display as it is now.
                self.forget_request();
                (self.whole, self.captured) = (true, false);
            }
            was_watched = watched;
            let limit = if watched { self.work(sink) } else { None };
            self.wait(limit)?;
            self.on_frame(sink.now(), watched)?;
        }
        Ok(())
    }

    /// Submits what is due, asks for the next picture, and returns how long there is nothing to do.
    fn work(&mut self, sink: &dyn PictureSink) -> Option<Span> {
        let now = sink.now();
        let limit = match self.schedule.next(now) {
            Next::Wait(limit) => limit,
            next => {
                if next == Next::Capture || sink.is_coarse() {
                    self.submit(sink, now);
                }
                Some(Span::ZERO)
            }
        };
        if self.request.is_some() {
            return limit;
        }
        // A picture that is asked for before its turn would be old when its turn comes.
        let opens = self.schedule.opens().map_or(self.not_before, |opens| opens.max(self.not_before));
        if opens > now {
            return Some(limit.map_or(opens - now, |limit| limit.min(opens - now)));
        }
        self.frame = Frame::default();
        self.request = Some(self.manager.capture_output(0, &self.output, &self.queue.handle(), ()));
        limit
    }

    /// `now` is a little later than when the picture was taken: by the time of one copy.
    fn submit(&self, sink: &dyn PictureSink, now: Time) {
        let Some((shape, [_, newest])) = self.buffers.as_ref().filter(|_| self.captured) else { return };
        let even = |side: u32| side as u16 & !1;
        let (width, height, stride) = (even(shape.width), even(shape.height), shape.stride as usize);
        let format = match shape.format {
            Format::Xbgr8888 | Format::Abgr8888 => PixelFormat::Rgba,
            _ => PixelFormat::Bgra,
        };
        let pixels = Pixels { bytes: newest.memory.bytes(), format, width, height, stride };
        sink.submit(&SubmittedPicture { pixels, captured_at: now, damage: Damage::Whole, views: &[] });
    }

    fn wait(&mut self, limit: Option<Span>) -> Result<(), ThreadError> {
        if self.queue.dispatch_pending(&mut self.frame)? > 0 {
            return Ok(());
        }
        self.queue.flush()?;
        if let Some(guard) = self.queue.prepare_read() {
            let limit = limit.map(|limit| Duration::from_nanos(limit.as_nanos().unsigned_abs()));
            self.bell.wait_for(&guard.connection_fd(), limit);
            super::read(guard)?;
        }
        self.queue.dispatch_pending(&mut self.frame)?;
        Ok(())
    }

    /// What follows from what the compositor has said of the picture that it was asked for.
    fn on_frame(&mut self, now: Time, watched: bool) -> Result<(), ThreadError> {
        if let (true, Some(request)) = (std::mem::take(&mut self.frame.offered), &self.request) {
            let shape = self.frame.shape.ok_or("the compositor offers no picture in shared memory")?;
            let known = self.buffers.as_ref().is_some_and(|(known, _)| *known == shape);
            if !known {
                self.captured = false;
                let buffers = [self.allocate(shape)?, self.allocate(shape)?];
                self.buffers = Some((shape, buffers));
            }
            if let Some((_, [next, _])) = &self.buffers {
                if std::mem::take(&mut self.whole) || !known {
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
                (self.whole, self.not_before) = (true, now + RETRY);
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

    fn allocate(&self, shape: Shape) -> Result<Buffer, ThreadError> {
        let Shape { format, width, height, stride } = shape;
        let known = [Format::Xrgb8888, Format::Argb8888, Format::Xbgr8888, Format::Abgr8888].contains(&format);
        // The program itself may have changed the output.
        let fits =
            (2..=u32::from(self.largest.0)).contains(&width) && (2..=u32::from(self.largest.1)).contains(&height);
        if !known || !fits || stride < width * PIXEL || stride > width * PIXEL * 2 {
            return Err(format!(
                "the compositor offers pictures of {width}x{height} in the format {format:?}; at most {}x{} in four bytes a pixel can be \
                 shown",
                self.largest.0, self.largest.1
            )
            .into());
        }
        let length = stride * height;
        let memory = SharedMemory::new(length as usize)?;
        let events = self.queue.handle();
        let pool = self.shared.create_pool(memory.file(), length as i32, &events, ());
        let handle = pool.create_buffer(0, width as i32, height as i32, stride as i32, format, &events, ());
        // The compositor has its own copy of the file from here on.
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
                frame.shape = Some(Shape { format, width, height, stride });
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
