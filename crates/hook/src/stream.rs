//! From a picture that is about to be shown to the server in this process.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use nearlight_embed::{Content, Host, Image, Layout, Options, Picture, Plane, Size, Span, Time};
use nearlight_hook_wire::{Answer, Message};

use crate::gl::Gl;
use crate::pace::Pace;
use crate::readback::{Read, Readback};
pub(crate) use crate::window::Surface;
use crate::{input, process};

/// Another window of the program takes over when the streamed one has shown nothing for so long: a launcher or a splash screen has gone.
const TAKE_OVER: Duration = Duration::from_secs(1);
/// A picture counts as drawn from the end of the one before, but not from longer ago than this: then the program has waited for
/// something. Guess.
const LONGEST_DRAWING: Span = Span::from_millis(100);
/// Sides that encoders take.
const SIDES: std::ops::RangeInclusive<u32> = 16..=4_096;

/// The server of this process.
enum Server {
    /// No picture was shown yet.
    None,
    /// A thread is opening it.
    Opening,
    Open {
        host: Arc<Host>,
        pace: Pace,
    },
    /// Nothing is streamed.
    Off,
}

/// The window that is streamed.
struct Chosen {
    surface: usize,
    context: usize,
    size: (u16, u16),
    last: Instant,
    readback: Option<Readback>,
    /// When the picture before this one had been shown.
    shown_at: Option<Time>,
    /// Said once.
    refused: bool,
}

struct State {
    server: Server,
    chosen: Option<Chosen>,
}

static STATE: Mutex<State> = Mutex::new(State { server: Server::None, chosen: None });
/// Windows of EGL surfaces, by surface.
static WINDOWS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());
/// The window's size may have changed. Set by whoever watches it; otherwise each picture asks.
pub(crate) static RESIZED: AtomicBool = AtomicBool::new(false);
pub(crate) static SIZE_IS_WATCHED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// A driver may implement one of the functions by another one.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Shows a picture by `real`, and streams it.
pub(crate) fn around<R>(surface: &Surface, real: impl FnOnce() -> R) -> R {
    if !process::is_heard() || INSIDE.replace(true) {
        return real();
    }
    let began = guarded(|| before(*surface));
    let answer = real();
    if began == Some(true) {
        guarded(after);
    }
    INSIDE.set(false);
    answer
}

/// A picture that Vulkan presents.
pub(crate) trait Presentation {
    /// Presents it. `drawn_from`: it is to be copied, and the program began to draw it then.
    fn present(&mut self, drawn_from: Option<Time>);

    /// Hands over the copies that have been made by now.
    fn finish(&mut self, submit: &mut dyn FnMut(&Read<'_>));
}

/// The same for Vulkan.
pub(crate) fn around_presentation(surface: &Surface, presentation: &mut dyn Presentation) {
    if !process::is_heard() || INSIDE.replace(true) {
        return presentation.present(None);
    }
    let turn = guarded(|| with_state(|state| state.begin(*surface, 0))).flatten();
    presentation.present(match turn {
        Some(Turn::Wanted(drawn_from)) => Some(drawn_from),
        _ => None,
    });
    if !matches!(turn, None | Some(Turn::Other)) {
        guarded(|| with_state(|state| state.finish(|submit| presentation.finish(submit))));
    }
    INSIDE.set(false);
}

/// A failure of ours ends the streaming, not the program.
fn guarded<R>(act: impl FnOnce() -> R) -> Option<R> {
    let done = catch_unwind(AssertUnwindSafe(act));
    if done.is_err() {
        process::mute();
        process::tell(&Message::Failed { reason: "the library panicked; see the program's standard error".into() });
    }
    done.ok()
}

/// Another thread that shows another window does not wait for this one.
fn with_state<R>(act: impl FnOnce(&mut State) -> R) -> Option<R> {
    match STATE.try_lock() {
        Ok(mut state) => Some(act(&mut state)),
        Err(TryLockError::Poisoned(poisoned)) => Some(act(&mut poisoned.into_inner())),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Answers whether this is the streamed window.
fn before(surface: Surface) -> bool {
    let Some(context) = surface.context() else { return false };
    with_state(|state| state.before(surface, context)).unwrap_or(false)
}

fn after() {
    with_state(State::after);
}

/// What encoders take of a window of this size: even sides.
pub(crate) fn streamed_size((width, height): (u32, u32)) -> Option<(u16, u16)> {
    let fits = [width, height].iter().all(|side| SIDES.contains(side));
    fits.then_some(((width & !1) as u16, (height & !1) as u16))
}

impl State {
    /// Chooses, opens and paces.
    fn begin(&mut self, surface: Surface, context: usize) -> Turn {
        if matches!(self.server, Server::Off) || !self.choose(surface, context) {
            return Turn::Other;
        }
        let Some(chosen) = &mut self.chosen else { return Turn::Other };
        if matches!(self.server, Server::None) {
            self.server = Server::Opening;
            open(surface, chosen.size);
        }
        let Server::Open { host, pace } = &mut self.server else { return Turn::LeftOut };
        if !host.is_watched() || !pace.takes(chosen.last) {
            return Turn::LeftOut;
        }
        let now = host.now();
        Turn::Wanted(chosen.shown_at.map_or(now, |shown_at| shown_at.max(now - LONGEST_DRAWING)))
    }

    /// Answers whether this is the streamed window.
    fn before(&mut self, surface: Surface, context: usize) -> bool {
        let drawn_from = match self.begin(surface, context) {
            Turn::Other => return false,
            Turn::LeftOut => return true,
            Turn::Wanted(drawn_from) => drawn_from,
        };
        let (Server::Open { host, .. }, Some(chosen)) = (&self.server, &mut self.chosen) else { return true };
        if chosen.readback.is_none() {
            // SAFETY: the context is current: `Surface::context` has looked.
            let gl = surface.loader().and_then(|loader| unsafe { Gl::load(loader) });
            chosen.readback = gl.map(Readback::new);
            if chosen.readback.is_none() {
                give_up("its OpenGL lacks the functions to read a picture back");
                self.server = Server::Off;
                return false;
            }
        }
        let Chosen { readback, size, .. } = chosen;
        if let Some(readback) = readback {
            readback.start(*size, drawn_from, &mut |read| submit(host, read));
        }
        true
    }

    /// Whether this surface is the streamed one from now on.
    #[expect(clippy::disallowed_methods, reason = "pictures are shown in real time")]
    fn choose(&mut self, surface: Surface, context: usize) -> bool {
        let now = Instant::now();
        let key = surface.key();
        let known = self.chosen.as_ref().filter(|chosen| chosen.surface == key && chosen.context == context);
        let is_new = known.is_none();
        if is_new && self.chosen.as_ref().is_some_and(|other| other.surface != key && now < other.last + TAKE_OVER) {
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
                input::on_window(host, window_of(surface), size);
            }
            // Buffers of another context cannot be given back here; they go with it.
            self.chosen = Some(Chosen {
                surface: key,
                context,
                size: size.unwrap_or_default(),
                last: now,
                readback: None,
                shown_at: None,
                refused: false,
            });
        }
        let Some(chosen) = &mut self.chosen else { return false };
        chosen.last = now;
        let Some(size) = size else {
            if !std::mem::replace(&mut chosen.refused, true) {
                let text = "the window is not streamed at this size: width and height must be 16 to 4096 pixels";
                thread::spawn(move || {
                    process::leave_signals_to_the_program();
                    process::tell(&Message::Note { text: text.into() });
                });
            }
            return false;
        };
        (chosen.size, chosen.refused) = (size, false);
        true
    }

    fn after(&mut self) {
        let mut readback = self.chosen.as_mut().and_then(|chosen| chosen.readback.take());
        self.finish(|submit| {
            if let Some(readback) = &mut readback {
                readback.finish(submit);
            }
        });
        if let Some(chosen) = &mut self.chosen {
            chosen.readback = readback;
        }
    }

    /// The picture has been shown; `finish` hands over what has been copied by now.
    fn finish(&mut self, finish: impl FnOnce(&mut dyn FnMut(&Read<'_>))) {
        let (Server::Open { host, .. }, Some(chosen)) = (&self.server, &mut self.chosen) else { return };
        chosen.shown_at = Some(host.now());
        finish(&mut |read| submit(host, read));
    }
}

/// What becomes of a picture that is about to be shown.
enum Turn {
    /// It is not the streamed window's.
    Other,
    /// It is not streamed: nobody watches, or too little time has passed.
    LeftOut,
    /// It is streamed; the program began to draw it then.
    Wanted(Time),
}

fn submit(host: &Host, read: &Read<'_>) {
    let &Read { bytes, order, rows, size: (width, height), drawn_from } = read;
    let layout = Layout::Packed(order, Plane { bytes, stride: usize::from(width) * 4 });
    let picture = Picture {
        content: Content { captured_at: Some(drawn_from), ..Content::default() },
        ..Picture::new(Image { size: Size { width, height }, layout, rows })
    };
    // What it could refuse has been checked; a server that has ended says so itself.
    let _ = host.submit(&picture);
}

fn give_up(reason: &str) {
    process::mute();
    process::tell(&Message::Failed { reason: reason.to_owned() });
}

/// The number of the surface's X window, if that is what it is.
fn window_of(surface: Surface) -> Option<u32> {
    let number = match surface {
        Surface::Glx { drawable, .. } => Some(drawable as usize),
        Surface::Vulkan { window, .. } => window.map(|window| window as usize),
        Surface::Egl { .. } => WINDOWS.lock().unwrap_or_else(PoisonError::into_inner).get(&surface.key()).copied(),
    };
    number.and_then(|number| number.try_into().ok())
}

/// An EGL surface was made for this window.
pub(crate) fn on_surface(surface: *mut std::ffi::c_void, window: usize) {
    if process::is_heard() && !surface.is_null() {
        WINDOWS.lock().unwrap_or_else(PoisonError::into_inner).insert(surface as usize, window);
    }
}

/// Opens the server in a thread of its own: the program goes on drawing.
fn open(surface: Surface, size: (u16, u16)) {
    let (interface, window, display) = (surface.interface(), window_of(surface), surface.display_name());
    let opening = thread::Builder::new().name("nearlight-open".into()).spawn(move || {
        process::leave_signals_to_the_program();
        let opened = catch_unwind(|| open_server(interface, size)).unwrap_or_else(|_| Err("it panicked".into()));
        let server = match opened {
            Ok((host, fps, takes_input)) => {
                let host = Arc::new(host);
                let links = host.links().iter().map(ToString::to_string).collect();
                let display = match display {
                    _ if !takes_input => input::Display::None,
                    None => input::Display::Usual,
                    Some(name) => input::Display::Named(name),
                };
                input::start(&host, display, window, size);
                process::tell(&Message::Opened { links });
                Server::Open { host, pace: Pace::new(fps) }
            }
            Err(reason) => {
                process::mute();
                if !reason.is_empty() {
                    process::tell(&Message::Failed { reason });
                }
                Server::Off
            }
        };
        STATE.lock().unwrap_or_else(PoisonError::into_inner).server = server;
    });
    if opening.is_err() {
        give_up("the system gives no thread");
    }
}

/// The server, the most pictures a second and whether it takes input. An empty reason needs no words: another process is streamed.
fn open_server(interface: &str, (width, height): (u16, u16)) -> Result<(Host, u16, bool), String> {
    let Answer { options, input } = process::ask(interface, (width, height))
        .map_err(|error| format!("`nearlight hook` does not answer: {error}"))?;
    let options = options.ok_or_else(String::new)?;
    let options = Options::from_toml(&options).map_err(|error| error.to_string())?;
    let options = Options { name: format!("{}, {interface}", process::name()), width, height, ..options };
    let host = Host::open(&options).map_err(|error| error.to_string())?;
    Ok((host, options.fps, input))
}

/// Says goodbye to the viewers. The program is ending.
pub(crate) fn close() {
    if !process::is_heard() {
        return;
    }
    process::mute();
    let server = with_state(|state| std::mem::replace(&mut state.server, Server::Off));
    if let Some(Server::Open { host, .. }) = server {
        let _ = host.close();
    }
}

/// The threads of the server were not copied into this child.
pub(crate) fn disown() {
    process::mute();
}
