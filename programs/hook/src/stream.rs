//! Passes pictures that are about to be shown to the server in this process.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use nearlight_embed::{Content, Host, Image, Layout, Options, Picture, Plane, Size, Span, Time};
use nearlight_hook_wire::{Message, StreamSettings};
use nearlight_units::lock;

use crate::gl::Gl;
use crate::pace::RateLimiter;
use crate::readback::{CopiedPicture, Readback};
pub(crate) use crate::window::Surface;
use crate::{input, process};

/// Time without pictures of the streamed window, such as a launcher or a splash screen, after which another window is streamed. Guess:
/// programs that draw continuously do not pause so long.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest drawing time of a picture. Drawing counts from the end of the previous picture, unless the program has been waiting for longer.
/// Guess: a longer time is a pause of the program.
const MAX_DRAW_TIME: Span = Span::from_millis(100);
/// Widths and heights that encoders support, in pixels.
const SUPPORTED_SIDES: std::ops::RangeInclusive<u32> = 16..=4_096;

/// The server of this process.
enum Server {
    /// No picture was shown yet.
    None,
    /// A thread is opening it.
    Opening,
    Open {
        host: Arc<Host>,
        limiter: RateLimiter,
    },
    /// Nothing is streamed any more.
    Off,
}

/// The window that is streamed.
struct StreamedWindow {
    surface: usize,
    context: usize,
    size: (u16, u16),
    last_shown_at: Instant,
    readback: Option<Readback>,
    /// When the previous picture was shown.
    shown_at: Option<Time>,
    /// Whether an unsupported size was reported.
    size_refused: bool,
}

struct State {
    server: Server,
    streamed: Option<StreamedWindow>,
}

static STATE: Mutex<State> = Mutex::new(State { server: Server::None, streamed: None });
/// Windows of EGL surfaces, by surface.
static WINDOWS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());
/// Whether the window's size may have changed. Set by the thread that watches the window.
pub(crate) static RESIZED: AtomicBool = AtomicBool::new(false);
/// Whether a thread watches the window's size. Otherwise the size is queried for each picture.
pub(crate) static SIZE_IS_WATCHED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether the thread is within a hooked function. A driver may implement one of them by calling another.
    static IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// Shows a picture by calling `real`, and streams it.
pub(crate) fn swap<R>(surface: &Surface, real: impl FnOnce() -> R) -> R {
    if !process::is_streamed() || IN_HOOK.replace(true) {
        return real();
    }
    let is_streamed = guarded(|| before_swap(*surface));
    let result = real();
    if is_streamed == Some(true) {
        guarded(after_swap);
    }
    IN_HOOK.set(false);
    result
}

/// A presentation of a picture by Vulkan.
pub(crate) trait Presentation {
    /// Presents the picture. With `draw_started_at`, the picture is copied first; it is the time at which the program began to draw it.
    fn present(&mut self, draw_started_at: Option<Time>);

    /// Submits the completed copies.
    fn finish(&mut self, submit: &mut dyn FnMut(&CopiedPicture<'_>));
}

/// Presents a picture of Vulkan, and streams it.
pub(crate) fn present(surface: &Surface, presentation: &mut dyn Presentation) {
    if !process::is_streamed() || IN_HOOK.replace(true) {
        return presentation.present(None);
    }
    let decision = guarded(|| with_state(|state| state.decide(*surface, 0))).flatten();
    presentation.present(match decision {
        Some(PictureDecision::Stream(draw_started_at)) => Some(draw_started_at),
        _ => None,
    });
    if !matches!(decision, None | Some(PictureDecision::OtherWindow)) {
        guarded(|| with_state(|state| state.finish(|submit| presentation.finish(submit))));
    }
    IN_HOOK.set(false);
}

/// Runs `act`. A panic ends the streaming, but not the program.
fn guarded<R>(act: impl FnOnce() -> R) -> Option<R> {
    let outcome = catch_unwind(AssertUnwindSafe(act));
    if outcome.is_err() {
        process::stop_streaming();
        process::send(&Message::Failed { reason: "the library panicked; see the program's standard error".into() });
    }
    outcome.ok()
}

/// Runs `act` unless another thread, which shows another window, uses the state. Never waits.
fn with_state<R>(act: impl FnOnce(&mut State) -> R) -> Option<R> {
    match STATE.try_lock() {
        Ok(mut state) => Some(act(&mut state)),
        Err(TryLockError::Poisoned(poisoned)) => Some(act(&mut poisoned.into_inner())),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Prepares for a swap. Returns whether this is the streamed window.
fn before_swap(surface: Surface) -> bool {
    let Some(context) = surface.context() else { return false };
    with_state(|state| state.before_swap(surface, context)).unwrap_or(false)
}

fn after_swap() {
    with_state(State::after_swap);
}

/// Returns the size that is streamed of a window, with even sides; `None` if encoders do not support it.
pub(crate) fn streamed_size((width, height): (u32, u32)) -> Option<(u16, u16)> {
    let fits = [width, height].iter().all(|side| SUPPORTED_SIDES.contains(side));
    fits.then_some(((width & !1) as u16, (height & !1) as u16))
}

impl State {
    /// Decides about a picture. Opens the server with the first one.
    fn decide(&mut self, surface: Surface, context: usize) -> PictureDecision {
        if matches!(self.server, Server::Off) || !self.select(surface, context) {
            return PictureDecision::OtherWindow;
        }
        let Some(streamed) = &mut self.streamed else { return PictureDecision::OtherWindow };
        if matches!(self.server, Server::None) {
            self.server = Server::Opening;
            open(surface, streamed.size);
        }
        let Server::Open { host, limiter } = &mut self.server else { return PictureDecision::Skip };
        if !host.is_watched() || !limiter.accepts(streamed.last_shown_at) {
            return PictureDecision::Skip;
        }
        let now = host.now();
        PictureDecision::Stream(streamed.shown_at.map_or(now, |shown_at| shown_at.max(now - MAX_DRAW_TIME)))
    }

    /// Starts copying the picture. Returns whether this is the streamed window.
    fn before_swap(&mut self, surface: Surface, context: usize) -> bool {
        let draw_started_at = match self.decide(surface, context) {
            PictureDecision::OtherWindow => return false,
            PictureDecision::Skip => return true,
            PictureDecision::Stream(draw_started_at) => draw_started_at,
        };
        let (Server::Open { host, .. }, Some(streamed)) = (&self.server, &mut self.streamed) else { return true };
        if streamed.readback.is_none() {
            // SAFETY: the context is current, as `Surface::context` has checked.
            let gl = surface.loader().and_then(|loader| unsafe { Gl::load(loader) });
            streamed.readback = gl.map(Readback::new);
            if streamed.readback.is_none() {
                fail("its OpenGL lacks the functions to read a picture back");
                self.server = Server::Off;
                return false;
            }
        }
        let StreamedWindow { readback, size, .. } = streamed;
        if let Some(readback) = readback {
            readback.start(*size, draw_started_at, &mut |picture| submit(host, picture));
        }
        true
    }

    /// Returns whether this surface is the streamed one from now on.
    #[expect(clippy::disallowed_methods, reason = "pictures are shown in real time")]
    fn select(&mut self, surface: Surface, context: usize) -> bool {
        let now = Instant::now();
        let key = surface.key();
        let known = self.streamed.as_ref().filter(|streamed| streamed.surface == key && streamed.context == context);
        let is_new = known.is_none();
        if is_new
            && self
                .streamed
                .as_ref()
                .is_some_and(|other| other.surface != key && now < other.last_shown_at + TAKEOVER_TIMEOUT)
        {
            return false;
        }
        let asks = is_new
            || RESIZED.swap(false, Ordering::Relaxed)
            || !SIZE_IS_WATCHED.load(Ordering::Relaxed)
            || !matches!(surface, Surface::Glx { .. });
        let size = if asks { surface.size().map(streamed_size) } else { known.map(|known| Some(known.size)) };
        let Some(size) = size else { return false };
        if is_new {
            if let (Server::Open { host, .. }, Some(size)) = (&self.server, size) {
                input::on_window(host, x_window(surface), size);
            }
            // Buffers of another context cannot be deleted here. They are deleted with it.
            self.streamed = Some(StreamedWindow {
                surface: key,
                context,
                size: size.unwrap_or_default(),
                last_shown_at: now,
                readback: None,
                shown_at: None,
                size_refused: false,
            });
        }
        let Some(streamed) = &mut self.streamed else { return false };
        streamed.last_shown_at = now;
        let Some(size) = size else {
            if !std::mem::replace(&mut streamed.size_refused, true) {
                let text = "the window is not streamed at this size: width and height must be 16 to 4096 pixels";
                thread::spawn(move || {
                    process::block_signals();
                    process::send(&Message::Note { text: text.into() });
                });
            }
            return false;
        };
        (streamed.size, streamed.size_refused) = (size, false);
        true
    }

    fn after_swap(&mut self) {
        let mut readback = self.streamed.as_mut().and_then(|streamed| streamed.readback.take());
        self.finish(|submit| {
            if let Some(readback) = &mut readback {
                readback.finish(submit);
            }
        });
        if let Some(streamed) = &mut self.streamed {
            streamed.readback = readback;
        }
    }

    /// Records that the picture was shown, and submits the completed copies that `finish` provides.
    fn finish(&mut self, finish: impl FnOnce(&mut dyn FnMut(&CopiedPicture<'_>))) {
        let (Server::Open { host, .. }, Some(streamed)) = (&self.server, &mut self.streamed) else { return };
        streamed.shown_at = Some(host.now());
        finish(&mut |picture| submit(host, picture));
    }
}

/// The decision about a picture that is about to be shown.
enum PictureDecision {
    /// It belongs to another window than the streamed one.
    OtherWindow,
    /// It is not streamed, because nobody watches or the rate is limited.
    Skip,
    /// It is streamed. The program began to draw it at this time.
    Stream(Time),
}

fn submit(host: &Host, copied: &CopiedPicture<'_>) {
    let &CopiedPicture { bytes, order, rows, size: (width, height), draw_started_at } = copied;
    let layout = Layout::Packed(order, Plane { bytes, stride: usize::from(width) * 4 });
    let picture = Picture {
        content: Content { captured_at: Some(draw_started_at), ..Content::default() },
        ..Picture::new(Image { size: Size { width, height }, layout, rows })
    };
    // Fails only if the server has ended, which it reports itself.
    let _ = host.submit(&picture);
}

fn fail(reason: &str) {
    process::stop_streaming();
    process::send(&Message::Failed { reason: reason.to_owned() });
}

/// Returns the id of the surface's X window, if it is one.
fn x_window(surface: Surface) -> Option<u32> {
    let number = match surface {
        Surface::Glx { drawable, .. } => Some(drawable as usize),
        Surface::Vulkan { window, .. } => window.map(|window| window as usize),
        Surface::Egl { .. } => lock(&WINDOWS).get(&surface.key()).copied(),
    };
    number.and_then(|number| number.try_into().ok())
}

/// Records the window of an EGL surface.
pub(crate) fn on_surface(surface: *mut std::ffi::c_void, window: usize) {
    if process::is_streamed() && !surface.is_null() {
        lock(&WINDOWS).insert(surface as usize, window);
    }
}

/// Opens the server in a separate thread, while the program continues drawing.
fn open(surface: Surface, size: (u16, u16)) {
    let (interface, window, display) = (surface.interface(), x_window(surface), surface.display_name());
    let opening = thread::Builder::new().name("nearlight-open".into()).spawn(move || {
        process::block_signals();
        let opened = catch_unwind(|| open_server(interface, size)).unwrap_or_else(|_| Err("it panicked".into()));
        let server = match opened {
            Ok((host, fps, takes_input)) => {
                let host = Arc::new(host);
                let links = host.links().iter().map(ToString::to_string).collect();
                let display = match display {
                    _ if !takes_input => input::InputDisplay::None,
                    None => input::InputDisplay::Default,
                    Some(name) => input::InputDisplay::Named(name),
                };
                input::start(&host, display, window, size);
                process::send(&Message::Opened { links });
                Server::Open { host, limiter: RateLimiter::new(fps) }
            }
            Err(reason) => {
                process::stop_streaming();
                if !reason.is_empty() {
                    process::send(&Message::Failed { reason });
                }
                Server::Off
            }
        };
        lock(&STATE).server = server;
    });
    if opening.is_err() {
        fail("the system cannot create a thread");
    }
}

/// Opens the server. Returns it, its maximum frame rate and whether it accepts input. An empty error means that another process is
/// streamed.
fn open_server(interface: &str, (width, height): (u16, u16)) -> Result<(Host, u16, bool), String> {
    let StreamSettings { options, input } = process::request_settings(interface, (width, height))
        .map_err(|error| format!("`nearlight hook` does not answer: {error}"))?;
    let options = options.ok_or_else(String::new)?;
    let options = Options::from_toml(&options).map_err(|error| error.to_string())?;
    let options = Options { name: format!("{}, {interface}", process::name()), width, height, ..options };
    let host = Host::open(&options).map_err(|error| error.to_string())?;
    Ok((host, options.fps, input))
}

/// Says goodbye to the viewers, because the program is ending.
pub(crate) fn close() {
    if !process::is_streamed() {
        return;
    }
    process::stop_streaming();
    let server = with_state(|state| std::mem::replace(&mut state.server, Server::Off));
    if let Some(Server::Open { host, .. }) = server {
        let _ = host.close();
    }
}

/// Ends streaming in a forked child, which does not have the server's threads.
pub(crate) fn on_fork() {
    process::stop_streaming();
}
