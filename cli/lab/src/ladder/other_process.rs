//! Captures the picture of another process from an X server.
//!
//! The other process is another instance of this command. It puts each picture into its window through shared memory, with a stamp in the first
//! pixels that says when it was complete. The capturing end is notified by DAMAGE and fetches the whole window through shared memory (`AttachFd`), as
//! programs do that capture windows. That is the best case: `GamingAnywhere` looks at intervals of its own instead, which adds half an interval.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::os::fd::AsFd as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use memmap2::MmapMut;
use nearlight_codec::Size;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use x11rb::COPY_DEPTH_FROM_PARENT;
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::damage::{ConnectionExt as _, ReportLevel};
use x11rb::protocol::shm::{ConnectionExt as _, Seg};
use x11rb::protocol::xproto::{ConnectionExt as _, CreateGCAux, CreateWindowAux, ImageFormat, Window, WindowClass};
use x11rb::rust_connection::RustConnection;

use crate::ladder::device::StepTurn;
use crate::ladder::host::Host;
use crate::ladder::network::Calls;
use crate::ladder::pictures::TestPictures;
use crate::ladder::step::Step;
use crate::ladder::{clock, cpu};

/// Pixels of the stamp: three bytes each, of twelve.
const STAMP_PIXELS: usize = 4;
/// System calls of the capturing end for a picture: it waits for the event, reads it, asks for the picture, waits for the answer, reads it.
const CAPTURE_CALLS: Calls = 5;
const ALL_PLANES: u32 = !0;
/// Depth of the screen's pixels.
const SCREEN_DEPTH: u8 = 24;
/// Silence after which the other process counts as ended.
const MAX_SILENCE_NS: u64 = 3_000_000_000;

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("the X server: {error}"))
}

/// Memory that the X server shares.
struct Shared {
    segment: Seg,
    memory: MmapMut,
}

impl Shared {
    fn new(connection: &RustConnection, size: Size) -> io::Result<Self> {
        let bytes = size.pixels() * 4;
        let descriptor = memfd_create("nearlight-ladder", MemfdFlags::CLOEXEC)?;
        ftruncate(&descriptor, bytes as u64)?;
        let file = File::from(descriptor);
        // SAFETY: the file is anonymous and shared with the X server alone, which writes only between a request of ours and its answer.
        #[expect(unsafe_code, reason = "memory that is shared with the X server")]
        let memory = unsafe { MmapMut::map_mut(&file)? };
        let segment = connection.generate_id().map_err(failed)?;
        connection
            .shm_attach_fd(segment, file.as_fd().try_clone_to_owned()?, false)
            .map_err(failed)?
            .check()
            .map_err(failed)?;
        Ok(Self { segment, memory })
    }
}

fn write_stamp(pixels: &mut [u8], finished_at: u64, number: u32) {
    let mut stamp = [0; 12];
    stamp[..8].copy_from_slice(&finished_at.to_be_bytes());
    stamp[8..].copy_from_slice(&number.to_be_bytes());
    for (pixel, part) in pixels.chunks_exact_mut(4).zip(stamp.chunks_exact(3)) {
        pixel[..3].copy_from_slice(part);
    }
}

fn read_stamp(pixels: &[u8]) -> (u64, u32) {
    let mut stamp = [0; 12];
    for (pixel, part) in pixels.chunks_exact(4).zip(stamp.chunks_exact_mut(3)) {
        part.copy_from_slice(&pixel[..3]);
    }
    let (time, number) = stamp.split_at(8);
    (u64::from_be_bytes(time.try_into().unwrap_or_default()), u32::from_be_bytes(number.try_into().unwrap_or_default()))
}

/// The other process: for each line `FIRST FRAMES` on standard input it shows that many pictures. Says its window's number first.
pub fn draw(size: Size, fps: u16) -> io::Result<()> {
    let pictures = TestPictures::new(size, true);
    let (connection, screen) = RustConnection::connect(None).map_err(failed)?;
    let screen = &connection.setup().roots[screen];
    let (window, context) = (connection.generate_id().map_err(failed)?, connection.generate_id().map_err(failed)?);
    let (width, height) = (size.width, size.height);
    let class = WindowClass::INPUT_OUTPUT;
    let none = CreateWindowAux::new();
    connection
        .create_window(COPY_DEPTH_FROM_PARENT, window, screen.root, 0, 0, width, height, 0, class, 0, &none)
        .map_err(failed)?;
    connection.create_gc(context, window, &CreateGCAux::new().graphics_exposures(0)).map_err(failed)?;
    connection.map_window(window).map_err(failed)?;
    let mut shared = Shared::new(&connection, size)?;
    let mut output = io::stdout();
    writeln!(output, "{window}")?;
    output.flush()?;
    let interval = 1_000_000_000 / u64::from(fps);
    for line in io::stdin().lock().lines() {
        let line = line?;
        let numbers =
            line.split_once(' ').and_then(|(first, frames)| Some((first.parse().ok()?, frames.parse().ok()?)));
        let Some((first, frames)): Option<(u32, u32)> = numbers else { return Err(io::ErrorKind::InvalidInput.into()) };
        let start = clock::now() + interval;
        for number in first..first + frames {
            clock::wait_until(start + u64::from(number - first) * interval);
            // The program draws here; it is complete when that is done.
            shared.memory.copy_from_slice(pictures.pixels(number));
            write_stamp(&mut shared.memory[..STAMP_PIXELS * 4], clock::now(), number);
            let put = connection.shm_put_image(
                window,
                context,
                width,
                height,
                0,
                0,
                width,
                height,
                0,
                0,
                SCREEN_DEPTH,
                ImageFormat::Z_PIXMAP.into(),
                false,
                shared.segment,
                0,
            );
            // The memory is drawn into again only when the X server has read it.
            put.map_err(failed)?.check().map_err(failed)?;
        }
    }
    Ok(())
}

/// A process that is ended when this is dropped.
struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A virtual screen with the other process's window, and the capturing end. The process ends before the screen does.
pub(crate) struct OtherProcess {
    _program: ChildGuard,
    server: ChildGuard,
    orders: ChildStdin,
    connection: RustConnection,
    window: Window,
    damage: u32,
    shared: Shared,
    size: Size,
}

fn first_line(output: Option<ChildStdout>) -> io::Result<String> {
    let mut line = String::new();
    let output = output.ok_or(io::ErrorKind::BrokenPipe)?;
    BufReader::new(output.take(64)).read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

impl OtherProcess {
    /// `program` starts this command so that it calls [`draw`] with the size and rate.
    pub(crate) fn start(size: Size, program: &mut Command) -> io::Result<Self> {
        let screen = format!("{}x{}x{SCREEN_DEPTH}", size.width, size.height);
        let server = Command::new("Xvfb")
            .args(["-displayfd", "1", "-screen", "0", &screen, "-nolisten", "tcp", "-noreset"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("Xvfb does not start: {error}; apt install xvfb")))?;
        let mut server = ChildGuard(server);
        let display = format!(":{}", first_line(server.0.stdout.take())?);
        let program = program.env("DISPLAY", &display).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut program = ChildGuard(program);
        let orders = program.0.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let window = first_line(program.0.stdout.take())?.parse().map_err(failed)?;
        let (connection, _) = RustConnection::connect(Some(&display)).map_err(failed)?;
        let shared = Shared::new(&connection, size)?;
        connection.damage_query_version(1, 1).map_err(failed)?.reply().map_err(failed)?;
        let damage = connection.generate_id().map_err(failed)?;
        let created = connection.damage_create(damage, window, ReportLevel::NON_EMPTY).map_err(failed)?;
        created.check().map_err(failed)?;
        Ok(Self { _program: program, server, orders, connection, window, damage, shared, size })
    }

    /// Processor time of the X server, which the in-process steps do without.
    pub(crate) fn server_time(&self) -> u64 {
        cpu::of_process(self.server.0.id())
    }

    /// A turn of the first step.
    pub(crate) fn run(&mut self, turn: StepTurn, host: &mut Host) -> io::Result<()> {
        let last = turn.first + turn.frames - 1;
        writeln!(self.orders, "{} {}", turn.first, turn.frames)?;
        self.orders.flush()?;
        let mut heard_at = clock::now();
        let mut newest = None;
        loop {
            match self.connection.poll_for_event().map_err(failed)? {
                Some(Event::DamageNotify(_)) => {}
                Some(_) => continue,
                None => {
                    if clock::now() > heard_at + MAX_SILENCE_NS {
                        return Err(io::Error::new(io::ErrorKind::TimedOut, "the drawing process shows nothing"));
                    }
                    self.wait()?;
                    continue;
                }
            }
            heard_at = clock::now();
            self.connection.damage_subtract(self.damage, x11rb::NONE, x11rb::NONE).map_err(failed)?;
            let Size { width, height } = self.size;
            let format = ImageFormat::Z_PIXMAP.into();
            let got = self.connection.shm_get_image(
                self.window,
                0,
                0,
                width,
                height,
                ALL_PLANES,
                format,
                self.shared.segment,
                0,
            );
            got.map_err(failed)?.reply().map_err(failed)?;
            let (finished_at, number) = read_stamp(&self.shared.memory[..STAMP_PIXELS * 4]);
            if newest == Some(number) || number < turn.first || number > last {
                continue;
            }
            newest = Some(number);
            host.on_picture(Step::OtherProcess, number, finished_at, CAPTURE_CALLS, Some(&self.shared.memory))?;
            if number == last {
                return Ok(());
            }
        }
    }

    fn wait(&self) -> io::Result<()> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let limit = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let stream = self.connection.stream().as_fd();
        poll(&mut [PollFd::from_borrowed_fd(stream, PollFlags::IN)], Some(&limit))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_passes_through_pixels_without_a_fourth_byte() {
        let mut pixels = vec![0xAA; 20];
        write_stamp(&mut pixels, 0x0123_4567_89AB_CDEF, 77);
        pixels.chunks_exact_mut(4).for_each(|pixel| pixel[3] = 0);
        assert_eq!(read_stamp(&pixels[..16]), (0x0123_4567_89AB_CDEF, 77));
    }
}
