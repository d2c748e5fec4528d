//! Injects the viewers' input into the program's window.
//!
//! Input is injected by the X extension XTEST, so that the program cannot distinguish it from the machine's own. XTEST has no target
//! window: keys go to the focused window, and buttons to the one below the pointer. Therefore presses are injected only while that is the
//! program's window, so that viewers cannot act on the rest of the desktop.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nearlight_embed::{CursorShape, Event, EventKind, Host, InputEvent, Viewer};
use nearlight_hook_wire::Message;
use nearlight_units::lock;
use nearlight_wire::key_codes::key_code;
use nearlight_wire::{Pointer, PointerButton, ScreenPoint};

use crate::process;
use crate::stream::{RESIZED, SIZE_IS_WATCHED};
use crate::x11::{Change, XDisplay};

/// Longest wait for an event. A closed server ends the wait, so its length does not matter.
const EVENT_TIMEOUT: Duration = Duration::from_mins(1);
/// Shortest interval between two movements. SDL drops a movement that equals the previous one within the same millisecond.
const MIN_MOVEMENT_INTERVAL: Duration = Duration::from_millis(1);
/// CSS pixels per notch of a wheel, as browsers on Linux report them.
const PIXELS_PER_NOTCH: f32 = 100.0;
/// X's buttons for a notch to the left, right, up and down.
const WHEEL_BUTTONS: [[u8; 2]; 2] = [[6, 7], [4, 5]];
/// Shortest interval between two requests to the window manager for the focus. Guess: window managers take less time to grant one.
const MIN_FOCUS_REQUEST_INTERVAL: Duration = Duration::from_millis(500);

/// The program's window, once it is known.
#[derive(Debug)]
struct Target {
    display: XDisplay,
    window: Mutex<Option<u32>>,
    size: Mutex<(u16, u16)>,
}

static TARGET: Mutex<Option<Arc<Target>>> = Mutex::new(None);

/// The display into which input is injected.
#[derive(Debug)]
pub(crate) enum InputDisplay {
    /// No input is injected.
    None,
    /// The display named in the environment.
    Default,
    Named(String),
}

/// Starts the threads that handle the server's events.
pub(crate) fn start(host: &Arc<Host>, display: InputDisplay, window: Option<u32>, size: (u16, u16)) {
    let display = match display {
        InputDisplay::None => None,
        InputDisplay::Default => Some(XDisplay::open(None)),
        InputDisplay::Named(name) => Some(XDisplay::open(Some(&name))),
    };
    if let Some(opened) = display {
        match opened {
            Ok(display) => {
                let target = Arc::new(Target { display, window: Mutex::new(None), size: Mutex::new(size) });
                *lock(&TARGET) = Some(Arc::clone(&target));
                on_window(host, window, size);
                let watched_host = Arc::clone(host);
                let _ =
                    thread::Builder::new().name("nearlight-x11".into()).spawn(move || watch(&target, &watched_host));
            }
            Err(reason) => {
                let text = format!("pictures are streamed, but input cannot be passed to the program: {reason}");
                process::send(&Message::Note { text });
            }
        }
    }
    let host = Arc::clone(host);
    let _ = thread::Builder::new().name("nearlight-input".into()).spawn(move || Injector::default().run(&host));
}

/// Finds the window that is streamed from now on.
pub(crate) fn on_window(_host: &Host, hint: Option<u32>, size: (u16, u16)) {
    let Some(target) = lock(&TARGET).clone() else { return };
    let find = move || {
        process::block_signals();
        let window = target.display.find_window(hint, size);
        (*lock(&target.window), *lock(&target.size)) = (window, size);
        let watched = window.is_some_and(|window| target.display.watch(window));
        SIZE_IS_WATCHED.store(watched, Ordering::Relaxed);
        RESIZED.store(true, Ordering::Relaxed);
        if window.is_none() {
            let text = "pictures are streamed, but input cannot be passed to the program: the X server does not report which window they belong to";
            process::send(&Message::Note { text: text.into() });
        }
    };
    // Finding the window takes several round trips to the X server, and the caller may be the thread that draws.
    let _ = thread::Builder::new().name("nearlight-window".into()).spawn(find);
}

/// Watches the window's size and the pointer's shape.
fn watch(target: &Target, host: &Host) {
    process::block_signals();
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
                    // Fails only if the server has ended.
                    let _ = host.set_pointer(None, cursor, hidden);
                }
            }
            Change::Other => {}
        }
    }
    SIZE_IS_WATCHED.store(false, Ordering::Relaxed);
}

/// A key or button that a viewer can hold down, by its X code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeldInput {
    Key(u8),
    Button(u8),
}

/// The state of a viewer's devices as the program has seen it.
#[derive(Debug, Default)]
struct ViewerDevices {
    pointer: Option<Pointer>,
    /// CSS pixels of the wheel that do not make up a notch yet.
    scrolled: [f32; 2],
    finger: Option<u32>,
    held: Vec<HeldInput>,
}

#[derive(Debug, Default)]
struct Injector {
    by_viewer: BTreeMap<Viewer, ViewerDevices>,
    moved_at: Option<Instant>,
    focus_requested_at: Option<Instant>,
}

impl Injector {
    fn run(&mut self, host: &Host) {
        process::block_signals();
        while process::is_streamed() {
            let Some(event) = host.wait_event(EVENT_TIMEOUT) else { continue };
            self.on_event(host, &event);
        }
    }

    fn on_event(&mut self, host: &Host, event: &Event) {
        if let EventKind::Failed(reason) = &event.kind {
            return process::send(&Message::Failed { reason: reason.clone() });
        }
        let Some(target) = lock(&TARGET).clone() else { return };
        let (Some(window), Some(viewer)) = (*lock(&target.window), event.viewer) else { return };
        let injection = WindowInjection { display: &target.display, window };
        match &event.kind {
            EventKind::ViewerJoined => target.display.expose(window, *lock(&target.size)),
            EventKind::ViewerLeft => {
                for held in self.by_viewer.remove(&viewer).unwrap_or_default().held {
                    injection.set_held(held, false);
                }
            }
            EventKind::Moved => self.on_moved(host, viewer, injection),
            EventKind::Input(input) => self.on_input(viewer, input, injection),
            _ => {}
        }
    }

    fn on_moved(&mut self, host: &Host, viewer: Viewer, injection: WindowInjection<'_>) {
        let Some(state) = host.viewers().into_iter().find(|state| state.viewer == viewer) else { return };
        let devices = self.by_viewer.entry(viewer).or_default();
        if let Some(touch) = state.devices.touches.iter().find(|touch| Some(touch.id) == devices.finger) {
            injection.point(touch.at);
        }
        let Some(pointer) = state.devices.pointer else { return };
        // The first totals are the reference for later ones.
        let before = devices.pointer.replace(pointer);
        let Some(before) = before else {
            if !pointer.captured {
                injection.point(pointer.at);
            }
            return;
        };
        let (moved, scrolled) = pointer.since(&before);
        if pointer.captured {
            if moved != [0, 0] {
                wait_for_movement(&mut self.moved_at);
                injection.display.move_by(moved.map(|pixels| pixels.clamp(i16::MIN.into(), i16::MAX.into()) as i16));
            }
        } else if pointer.at != before.at {
            injection.point(pointer.at);
        }
        for (axis, pixels) in scrolled.iter().enumerate() {
            devices.scrolled[axis] += pixels;
            let notches = (devices.scrolled[axis] / PIXELS_PER_NOTCH).trunc();
            devices.scrolled[axis] -= notches * PIXELS_PER_NOTCH;
            let button = WHEEL_BUTTONS[axis][usize::from(notches > 0.0)];
            // Nobody turns a wheel further between two messages; more would only keep the program busy.
            for _ in 0..(notches.abs() as u32).min(10) {
                injection.click(button);
            }
        }
    }

    fn on_input(&mut self, viewer: Viewer, input: &InputEvent, injection: WindowInjection<'_>) {
        let devices = self.by_viewer.entry(viewer).or_default();
        let (held, pressed) = match *input {
            InputEvent::Key { key, pressed } => match key_code(key) {
                Some(keycode) => (HeldInput::Key(keycode), pressed),
                None => return,
            },
            InputEvent::KeyRepeated { key } => {
                // A program that has captured the pointer is a game, to which a repeat would be a key that goes up.
                let repeats = !key.is_modifier() && !devices.pointer.is_some_and(|pointer| pointer.captured);
                let held = key_code(key).map(HeldInput::Key).filter(|held| repeats && devices.held.contains(held));
                return held.into_iter().for_each(|held| injection.repeat(held, &mut self.focus_requested_at));
            }
            InputEvent::Button { button, pressed, at } => {
                if !devices.pointer.is_some_and(|pointer| pointer.captured) {
                    injection.point(at);
                }
                (HeldInput::Button(button_number(button)), pressed)
            }
            // The first finger acts as a pointer with one button.
            InputEvent::TouchBegan { id, at } if devices.finger.is_none() => {
                devices.finger = Some(id);
                injection.point(at);
                (HeldInput::Button(button_number(PointerButton::Primary)), true)
            }
            InputEvent::TouchEnded { id, at, .. } if devices.finger == Some(id) => {
                devices.finger = None;
                injection.point(at);
                (HeldInput::Button(button_number(PointerButton::Primary)), false)
            }
            _ => return,
        };
        let was_held = devices.held.contains(&held);
        if pressed == was_held {
            return;
        }
        if pressed && !injection.may_press(held, &mut self.focus_requested_at) {
            return;
        }
        let devices = self.by_viewer.entry(viewer).or_default();
        if pressed {
            devices.held.push(held);
        } else {
            devices.held.retain(|other| *other != held);
        }
        injection.set_held(held, pressed);
    }
}

/// Waits until another movement may be injected.
#[expect(clippy::disallowed_methods, reason = "the program compares movements by real time")]
fn wait_for_movement(moved_at: &mut Option<Instant>) {
    let now = Instant::now();
    let wait =
        moved_at.map_or(Duration::ZERO, |moved_at| (moved_at + MIN_MOVEMENT_INTERVAL).saturating_duration_since(now));
    if !wait.is_zero() {
        thread::sleep(wait);
    }
    *moved_at = Some(now + wait);
}

/// Returns X's number of a button.
const fn button_number(button: PointerButton) -> u8 {
    match button {
        PointerButton::Primary => 1,
        PointerButton::Auxiliary => 2,
        PointerButton::Secondary => 3,
        PointerButton::Back => 8,
        PointerButton::Forward => 9,
    }
}

/// Injects input into a window.
#[derive(Clone, Copy, Debug)]
struct WindowInjection<'a> {
    display: &'a XDisplay,
    window: u32,
}

impl WindowInjection<'_> {
    fn point(self, at: ScreenPoint) {
        self.display.move_to(self.window, at.fractions());
    }

    fn click(self, button: u8) {
        if self.display.is_below_pointer(self.window) {
            self.set_held(HeldInput::Button(button), true);
            self.set_held(HeldInput::Button(button), false);
        }
    }

    fn set_held(self, held: HeldInput, pressed: bool) {
        match held {
            HeldInput::Key(keycode) => self.display.key(keycode, pressed),
            HeldInput::Button(number) => self.display.button(number, pressed),
        }
    }

    /// Releases a key and presses it again, which programs recognise as a repeat by the equal times. Without the focus it does nothing.
    fn repeat(self, held: HeldInput, focus_requested_at: &mut Option<Instant>) {
        if self.may_press(held, focus_requested_at) {
            self.set_held(held, false);
            self.set_held(held, true);
        }
    }

    /// Returns whether a press would go to the program's window. Requests the focus if it does not have it.
    #[expect(clippy::disallowed_methods, reason = "requests to the window manager are paced")]
    fn may_press(self, held: HeldInput, requested_at: &mut Option<Instant>) -> bool {
        let has_focus = self.display.has_focus(self.window);
        let now = Instant::now();
        if !has_focus && requested_at.is_none_or(|requested_at| now >= requested_at + MIN_FOCUS_REQUEST_INTERVAL) {
            *requested_at = Some(now);
            self.display.focus(self.window);
        }
        match held {
            HeldInput::Key(_) => has_focus || self.display.has_focus(self.window),
            HeldInput::Button(_) => self.display.is_below_pointer(self.window),
        }
    }
}
