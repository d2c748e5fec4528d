//! The thread that carries out what viewers do at the display's devices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nearlight_scene::{Viewer, ViewerInput};
use nearlight_units::Time;

use crate::connection::ThreadError;
use crate::controls::{Action, BETWEEN_MOVES, Controls, Standing};
use crate::gamepads::PadChange;
use crate::keyboard::{Keyboard, Keymap};
use crate::screen::ScreenSize;

/// Keyboard and pointer of a display.
pub(crate) trait Devices: Send {
    /// Of a display's devices, gamepads are none: nothing is to be done for them.
    fn carry_out(&mut self, action: Action) -> Result<(), ThreadError>;

    /// Programs are to see what was carried out.
    fn flush(&mut self) -> Result<(), ThreadError>;
}

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
    /// One of the program's gamepads, which are no devices of the display's.
    Gamepad(PadChange),
    /// The display is for a window of this size.
    Window((u16, u16)),
}

pub(crate) struct Injection {
    devices: Box<dyn Devices>,
    controls: Controls,
    /// The program has captured the pointer.
    captured: Arc<AtomicBool>,
    size: ScreenSize,
    /// Relative movement that waits, and when the newest one was injected.
    waiting: [i32; 2],
    moved: Option<Instant>,
}

impl Injection {
    /// `map` is the keyboard's before anything is typed.
    pub(crate) fn new(devices: Box<dyn Devices>, map: Keymap, captured: Arc<AtomicBool>, size: ScreenSize) -> Self {
        let controls = Controls::new(size.get(), Keyboard::new(map));
        Self { devices, controls, captured, size, waiting: [0; 2], moved: None }
    }

    /// Carries out what it hears until the source is gone. `gamepads` is how many the program can have.
    pub(crate) fn run(
        mut self,
        heard: &Receiver<Heard>,
        gamepads: &AtomicU8,
        tell: &dyn Fn(Consequence),
    ) -> Result<(), ThreadError> {
        let (mut actions, mut told, mut window) = (Vec::new(), Standing::default(), None);
        loop {
            let next = match self.next_move() {
                Some(wait) => heard.recv_timeout(wait),
                None => heard.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            self.controls.set_captured(self.captured.load(Ordering::Relaxed));
            self.controls.set_size(self.size.get());
            self.controls.set_gamepads(gamepads.load(Ordering::Relaxed));
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

    fn carry_out(&mut self, actions: &mut Vec<Action>, tell: &dyn Fn(Consequence)) -> Result<(), ThreadError> {
        for action in actions.drain(..) {
            if let Action::MoveBy { right, down } = action {
                self.waiting = [self.waiting[0] + i32::from(right), self.waiting[1] + i32::from(down)];
                continue;
            }
            // What is done next is done where the movement led.
            self.move_by()?;
            match action {
                Action::Gamepad(change) => tell(Consequence::Gamepad(change)),
                action => self.devices.carry_out(action)?,
            }
        }
        if self.next_move().is_none_or(|wait| wait.is_zero()) && self.waiting != [0; 2] {
            self.move_by()?;
            self.moved = Some(now());
        }
        self.devices.flush()
    }

    fn move_by(&mut self) -> Result<(), ThreadError> {
        let way = std::mem::take(&mut self.waiting);
        let [right, down] = way.map(|pixels| pixels.clamp(i16::MIN.into(), i16::MAX.into()) as i16);
        if (right, down) == (0, 0) { Ok(()) } else { self.devices.carry_out(Action::MoveBy { right, down }) }
    }
}

#[expect(clippy::disallowed_methods, reason = "this thread paces what it injects")]
fn now() -> Instant {
    Instant::now()
}
