//! What viewers do, done to the program's window.
//!
//! Input goes through the X server's XTEST extension, so that the program cannot tell it from the machine's own. XTEST has no window: keys
//! go to the one that has the focus, and buttons to the one below the pointer. Presses are therefore made only while that is the program's
//! window, so that a viewer cannot act on the rest of a desktop.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nearlight_embed::{CursorShape, Event, Host, InputEvent, Viewer, What};
use nearlight_hook_wire::Message;
use nearlight_keyboard::key_code;
use nearlight_wire::{Pointer, PointerButton, ScreenPoint};

use crate::process;
use crate::stream::{RESIZED, SIZE_IS_WATCHED};
use crate::x11::{Change, XDisplay};

/// Events are waited for in turns, because a closed server ends the wait.
const WAIT: Duration = Duration::from_mins(1);
/// SDL drops a movement that equals the one before in the same millisecond.
const BETWEEN_MOVEMENTS: Duration = Duration::from_millis(1);
/// A notch of a wheel in CSS pixels, as browsers on Linux report it; X has a button for each.
const NOTCH: f32 = 100.0;
/// X's buttons for a notch to the left, right, up and down.
const WHEEL_BUTTONS: [[u8; 2]; 2] = [[6, 7], [4, 5]];
/// The window manager is asked for the focus this often, at most.
const BETWEEN_REQUESTS: Duration = Duration::from_millis(500);

/// The window of the program, once it is known.
#[derive(Debug)]
struct Target {
    display: XDisplay,
    window: Mutex<Option<u32>>,
    size: Mutex<(u16, u16)>,
}

static TARGET: Mutex<Option<Arc<Target>>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The display that input goes to.
#[derive(Debug)]
pub(crate) enum Display {
    /// Input is not wanted.
    None,
    /// The one in the environment.
    Usual,
    Named(String),
}

/// Takes the server's events from now on.
pub(crate) fn start(host: &Arc<Host>, display: Display, window: Option<u32>, size: (u16, u16)) {
    let display = match display {
        Display::None => None,
        Display::Usual => Some(XDisplay::open(None)),
        Display::Named(name) => Some(XDisplay::open(Some(&name))),
    };
    if let Some(opened) = display {
        match opened {
            Ok(display) => {
                let target = Arc::new(Target { display, window: Mutex::new(None), size: Mutex::new(size) });
                *lock(&TARGET) = Some(Arc::clone(&target));
                on_window(host, window, size);
                let watching = Arc::clone(host);
                let _ = thread::Builder::new().name("nearlight-x11".into()).spawn(move || watch(&target, &watching));
            }
            Err(reason) => {
                let text = format!("pictures are streamed, but input cannot be passed to the program: {reason}");
                process::tell(&Message::Note { text });
            }
        }
    }
    let host = Arc::clone(host);
    let _ = thread::Builder::new().name("nearlight-input".into()).spawn(move || Injector::default().run(&host));
}

/// Another window is streamed from now on.
pub(crate) fn on_window(_host: &Host, hint: Option<u32>, size: (u16, u16)) {
    let Some(target) = lock(&TARGET).clone() else { return };
    let find = move || {
        process::leave_signals_to_the_program();
        let window = target.display.find(hint, size);
        (*lock(&target.window), *lock(&target.size)) = (window, size);
        let watched = window.is_some_and(|window| target.display.watch(window));
        SIZE_IS_WATCHED.store(watched, Ordering::Relaxed);
        RESIZED.store(true, Ordering::Relaxed);
        if window.is_none() {
            let text = "pictures are streamed, but input cannot be passed to the program: the X server does not report which window they belong to";
            process::tell(&Message::Note { text: text.into() });
        }
    };
    // It asks the X server several times, and the caller may be the thread that draws.
    let _ = thread::Builder::new().name("nearlight-window".into()).spawn(find);
}

/// Passes on how the pointer looks.
fn watch(target: &Target, host: &Host) {
    process::leave_signals_to_the_program();
    let mut shown = None;
    while let Some(change) = target.display.wait() {
        match change {
            Change::Size => RESIZED.store(true, Ordering::Relaxed),
            Change::Cursor => {
                let shape = target.display.pointer_shape();
                if shape.is_some() && shape != shown {
                    shown.clone_from(&shape);
                    let (cursor, hidden) = shape
                        .map_or((CursorShape::Named("default".into()), false), |shape| (shape.cursor, shape.hidden));
                    // A server that has ended needs no pointer.
                    let _ = host.set_pointer(None, cursor, hidden);
                }
            }
            Change::Other => {}
        }
    }
    SIZE_IS_WATCHED.store(false, Ordering::Relaxed);
}

/// What a viewer holds down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Key(u8),
    Button(u8),
}

/// A viewer's devices as the program has seen them.
#[derive(Debug, Default)]
struct Hand {
    pointer: Option<Pointer>,
    /// Scrolled and not yet a notch, in CSS pixels.
    scrolled: [f32; 2],
    finger: Option<u32>,
    held: Vec<Held>,
}

#[derive(Debug, Default)]
struct Injector {
    by_viewer: BTreeMap<Viewer, Hand>,
    moved_at: Option<Instant>,
    asked_at: Option<Instant>,
}

impl Injector {
    fn run(&mut self, host: &Host) {
        process::leave_signals_to_the_program();
        while process::is_heard() {
            let Some(event) = host.wait_event(WAIT) else { continue };
            self.on_event(host, &event);
        }
    }

    fn on_event(&mut self, host: &Host, event: &Event) {
        match &event.what {
            What::LinksChanged => {
                let links = host.links().iter().map(ToString::to_string).collect();
                return process::tell(&Message::Opened { links });
            }
            What::Failed(reason) => return process::tell(&Message::Failed { reason: reason.clone() }),
            _ => {}
        }
        let Some(target) = lock(&TARGET).clone() else { return };
        let (Some(window), Some(viewer)) = (*lock(&target.window), event.viewer) else { return };
        let act = Act { display: &target.display, window };
        match &event.what {
            What::ViewerJoined => target.display.expose(window, *lock(&target.size)),
            What::ViewerLeft => {
                for held in self.by_viewer.remove(&viewer).unwrap_or_default().held {
                    act.hold(held, false);
                }
            }
            What::Moved => self.on_moved(host, viewer, act),
            What::Input(input) => self.on_input(viewer, input, act),
            _ => {}
        }
    }

    fn on_moved(&mut self, host: &Host, viewer: Viewer, act: Act<'_>) {
        let Some(state) = host.viewers().into_iter().find(|state| state.viewer == viewer) else { return };
        let hand = self.by_viewer.entry(viewer).or_default();
        if let Some(touch) = state.devices.touches.iter().find(|touch| Some(touch.id) == hand.finger) {
            act.point(touch.at);
        }
        let Some(pointer) = state.devices.pointer else { return };
        // The first position moves nothing: the totals began before this.
        let before = hand.pointer.replace(pointer);
        let Some(before) = before else {
            if !pointer.captured {
                act.point(pointer.at);
            }
            return;
        };
        let (moved, scrolled) = pointer.since(&before);
        if pointer.captured {
            if moved != [0, 0] {
                pause(&mut self.moved_at);
                act.display.move_by(moved.map(|pixels| pixels.clamp(i16::MIN.into(), i16::MAX.into()) as i16));
            }
        } else if pointer.at != before.at {
            act.point(pointer.at);
        }
        for (axis, pixels) in scrolled.iter().enumerate() {
            hand.scrolled[axis] += pixels;
            let notches = (hand.scrolled[axis] / NOTCH).trunc();
            hand.scrolled[axis] -= notches * NOTCH;
            let button = WHEEL_BUTTONS[axis][usize::from(notches > 0.0)];
            // More than a hand turns between two messages would only keep the program busy.
            for _ in 0..(notches.abs() as u32).min(10) {
                act.click(button);
            }
        }
    }

    fn on_input(&mut self, viewer: Viewer, input: &InputEvent, act: Act<'_>) {
        let hand = self.by_viewer.entry(viewer).or_default();
        let (held, pressed) = match *input {
            InputEvent::Key { key, pressed } => match key_code(key) {
                Some(keycode) => (Held::Key(keycode), pressed),
                None => return,
            },
            InputEvent::Button { button, pressed, at } => {
                if !hand.pointer.is_some_and(|pointer| pointer.captured) {
                    act.point(at);
                }
                (Held::Button(number(button)), pressed)
            }
            // A finger is a pointer with one button.
            InputEvent::TouchBegan { id, at } if hand.finger.is_none() => {
                hand.finger = Some(id);
                act.point(at);
                (Held::Button(number(PointerButton::Primary)), true)
            }
            InputEvent::TouchEnded { id, at, .. } if hand.finger == Some(id) => {
                hand.finger = None;
                act.point(at);
                (Held::Button(number(PointerButton::Primary)), false)
            }
            _ => return,
        };
        let was_held = hand.held.contains(&held);
        if pressed == was_held {
            return;
        }
        if pressed && !act.reaches(held, &mut self.asked_at) {
            return;
        }
        let hand = self.by_viewer.entry(viewer).or_default();
        if pressed {
            hand.held.push(held);
        } else {
            hand.held.retain(|other| *other != held);
        }
        act.hold(held, pressed);
    }
}

/// Waits until a movement may follow the last one.
#[expect(clippy::disallowed_methods, reason = "the program's own clock decides what it drops")]
fn pause(moved_at: &mut Option<Instant>) {
    let now = Instant::now();
    let wait =
        moved_at.map_or(Duration::ZERO, |moved_at| (moved_at + BETWEEN_MOVEMENTS).saturating_duration_since(now));
    if !wait.is_zero() {
        thread::sleep(wait);
    }
    *moved_at = Some(now + wait);
}

/// X's number of a button.
const fn number(button: PointerButton) -> u8 {
    match button {
        PointerButton::Primary => 1,
        PointerButton::Auxiliary => 2,
        PointerButton::Secondary => 3,
        PointerButton::Back => 8,
        PointerButton::Forward => 9,
    }
}

#[derive(Clone, Copy, Debug)]
struct Act<'a> {
    display: &'a XDisplay,
    window: u32,
}

impl Act<'_> {
    fn point(self, at: ScreenPoint) {
        self.display.move_to(self.window, at.fractions());
    }

    fn click(self, button: u8) {
        if self.display.is_below_pointer(self.window) {
            self.hold(Held::Button(button), true);
            self.hold(Held::Button(button), false);
        }
    }

    fn hold(self, held: Held, pressed: bool) {
        match held {
            Held::Key(keycode) => self.display.key(keycode, pressed),
            Held::Button(number) => self.display.button(number, pressed),
        }
    }

    /// Whether a press goes to the program's window. Asks for the focus where it does not have it.
    #[expect(clippy::disallowed_methods, reason = "a window manager is not asked all the time")]
    fn reaches(self, held: Held, asked_at: &mut Option<Instant>) -> bool {
        let has_focus = self.display.has_focus(self.window);
        let now = Instant::now();
        if !has_focus && asked_at.is_none_or(|asked_at| now >= asked_at + BETWEEN_REQUESTS) {
            *asked_at = Some(now);
            self.display.focus(self.window);
        }
        match held {
            Held::Key(_) => has_focus || self.display.has_focus(self.window),
            Held::Button(_) => self.display.is_below_pointer(self.window),
        }
    }
}
