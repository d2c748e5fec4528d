//! The thread that carries out what viewers do, by the extension XTEST.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nearlight_scene::{Viewer, ViewerInput};
use nearlight_units::Time;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{self, ConnectionExt as _};
use x11rb::protocol::xtest::{self, ConnectionExt as _};
use x11rb::wrapper::ConnectionExt as _;

use crate::DisplayError;
use crate::connection::{Display, XError};
use crate::controls::{Action, BETWEEN_MOVES, Controls, Standing};
use crate::gamepad::PadState;
use crate::keyboard::{Keyboard, Keymap, Step};
use crate::screen::ScreenSize;

/// How long programs get to read a new keyboard map. Without a pause, they were seen to type other characters; with 5 ms, never.
const SETTLE: Duration = Duration::from_millis(5);

/// What the thread is told.
#[derive(Debug)]
pub(crate) enum Heard {
    Input {
        now: Time,
        viewer: Viewer,
        input: Box<ViewerInput>,
    },
    Left {
        now: Time,
        viewer: Viewer,
    },
    /// The viewer hands the controls on.
    Released {
        now: Time,
        viewer: Viewer,
    },
    /// The viewer would like the controls.
    Asked {
        now: Time,
        viewer: Viewer,
    },
    /// The viewer's window has this size, in CSS pixels.
    Window {
        viewer: Viewer,
        size: (u16, u16),
    },
}

/// What follows from it elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Consequence {
    /// Others have the controls, or want them.
    Standing(Standing),
    /// The program's gamepad, which is no device of the display's.
    Gamepad(PadState),
    /// The display is for a window of this size.
    Window((u16, u16)),
}

pub(crate) struct Injection {
    display: Display,
    controls: Controls,
    /// The program has captured the pointer.
    captured: Arc<AtomicBool>,
    size: ScreenSize,
    /// Relative movement that waits, and when the newest one was injected.
    waiting: [i32; 2],
    moved: Option<Instant>,
}

impl Injection {
    pub(crate) fn open(display: Display, captured: Arc<AtomicBool>, size: ScreenSize) -> Result<Self, DisplayError> {
        display.needs(xtest::X11_EXTENSION_NAME)?;
        let map = read_map(&display)
            .map_err(|error| DisplayError::Display { name: "of the program".into(), reason: error.to_string() })?;
        let controls = Controls::new(size.get(), Keyboard::new(map));
        Ok(Self { display, controls, captured, size, waiting: [0; 2], moved: None })
    }

    /// Carries out what it hears until the source is gone.
    pub(crate) fn run(mut self, heard: &Receiver<Heard>, tell: &dyn Fn(Consequence)) -> Result<(), XError> {
        let (mut actions, mut told, mut window) = (Vec::new(), Standing::default(), None);
        loop {
            let next = match self.next_move() {
                Some(wait) => heard.recv_timeout(wait),
                None => heard.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            self.controls.set_captured(self.captured.load(Ordering::Relaxed));
            self.controls.set_size(self.size.get());
            match next {
                Ok(Heard::Input { now, viewer, input }) => self.controls.on_input(now, viewer, &input, &mut actions),
                Ok(Heard::Left { now, viewer }) => self.controls.on_viewer_left(now, viewer, &mut actions),
                Ok(Heard::Released { now, viewer }) => self.controls.on_released(now, viewer, &mut actions),
                Ok(Heard::Asked { now, viewer }) => self.controls.on_asked(now, viewer, &mut actions),
                Ok(Heard::Window { viewer, size }) => self.controls.on_window(viewer, size),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.controls.close(&mut actions);
                    return self.carry_out(&mut actions, tell);
                }
            }
            self.carry_out(&mut actions, tell)?;
            let standing = self.controls.standing();
            if standing != told {
                tell(Consequence::Standing(standing.clone()));
                told = standing;
            }
            if let Some(size) = self.controls.window().filter(|size| window != Some(*size)) {
                tell(Consequence::Window(size));
                window = Some(size);
            }
        }
    }

    /// How long movement that waits has to wait.
    fn next_move(&self) -> Option<Duration> {
        let moved = self.moved.filter(|_| self.waiting != [0; 2])?;
        Some(BETWEEN_MOVES.saturating_sub(moved.elapsed()))
    }

    fn carry_out(&mut self, actions: &mut Vec<Action>, tell: &dyn Fn(Consequence)) -> Result<(), XError> {
        for action in actions.drain(..) {
            if let Action::MoveBy { right, down } = action {
                self.waiting = [self.waiting[0] + i32::from(right), self.waiting[1] + i32::from(down)];
                continue;
            }
            // What is done next is done where the movement led.
            move_by(&self.display, &mut self.waiting)?;
            match action {
                Action::Keyboard(step) => keyboard_step(&self.display, step)?,
                Action::Button { button, pressed } => {
                    let kind = if pressed { xproto::BUTTON_PRESS_EVENT } else { xproto::BUTTON_RELEASE_EVENT };
                    fake(&self.display, kind, button, (0, 0))?;
                }
                Action::MoveTo { x, y } => fake(&self.display, xproto::MOTION_NOTIFY_EVENT, 0, (x, y))?,
                Action::Gamepad(state) => tell(Consequence::Gamepad(state)),
                Action::MoveBy { .. } => {}
            }
        }
        if self.next_move().is_none_or(|wait| wait.is_zero()) && self.waiting != [0; 2] {
            move_by(&self.display, &mut self.waiting)?;
            self.moved = Some(now());
        }
        Ok(self.display.connection.flush()?)
    }
}

#[expect(clippy::disallowed_methods, reason = "this thread paces what it injects")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "programs read the keyboard map in their own time")]
fn settle() {
    std::thread::sleep(SETTLE);
}

fn read_map(display: &Display) -> Result<Keymap, XError> {
    let connection = &display.connection;
    connection.xtest_get_version(2, 2)?.reply()?;
    let setup = connection.setup();
    let (first, last) = (setup.min_keycode, setup.max_keycode);
    let map = connection.get_keyboard_mapping(first, last - first + 1)?.reply()?;
    Ok(Keymap::new(first, map.keysyms_per_keycode, &map.keysyms))
}

fn move_by(display: &Display, waiting: &mut [i32; 2]) -> Result<(), XError> {
    let [right, down] = std::mem::take(waiting).map(|pixels| pixels.clamp(i16::MIN.into(), i16::MAX.into()) as i16);
    if (right, down) != (0, 0) {
        // With a detail of 1, movement is relative.
        fake(display, xproto::MOTION_NOTIFY_EVENT, 1, (right, down))?;
    }
    Ok(())
}

fn keyboard_step(display: &Display, step: Step) -> Result<(), XError> {
    match step {
        Step::Key { code, pressed } => {
            let kind = if pressed { xproto::KEY_PRESS_EVENT } else { xproto::KEY_RELEASE_EVENT };
            fake(display, kind, code, (0, 0))?;
        }
        Step::Map { code, symbols } => {
            display.connection.change_keyboard_mapping(1, code, 2, &symbols)?;
        }
        Step::Settle => {
            display.connection.sync()?;
            settle();
        }
    }
    Ok(())
}

fn fake(display: &Display, kind: u8, detail: u8, (x, y): (i16, i16)) -> Result<(), XError> {
    display.connection.xtest_fake_input(kind, detail, x11rb::CURRENT_TIME, display.root, x, y, 0)?;
    Ok(())
}
