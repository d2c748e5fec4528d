//! The thread that injects the viewers' input into the display.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nearlight_scene::{Viewer, ViewerInput};
use nearlight_units::Time;

use crate::connection::ThreadError;
use crate::controls::{Action, ControlState, Controls, MIN_MOVE_INTERVAL};
use crate::gamepads::PadChange;
use crate::keyboard::{Keyboard, Keymap};
use crate::screen::ScreenSize;

/// A display's keyboard and pointer.
pub(crate) trait Devices: Send {
    /// Injects an action. Actions of gamepads are ignored, because they are not devices of the display.
    fn inject(&mut self, action: Action) -> Result<(), ThreadError>;

    /// Sends the injected actions to the display.
    fn flush(&mut self) -> Result<(), ThreadError>;
}

/// An event of a viewer, as the thread receives it.
#[derive(Debug)]
pub(crate) enum ViewerEvent {
    Input {
        now: Time,
        viewer: Viewer,
        input: Box<ViewerInput>,
    },
    /// The text of the viewer's clipboard.
    Clipboard {
        now: Time,
        viewer: Viewer,
        text: String,
    },
    Left {
        now: Time,
        viewer: Viewer,
    },
    /// The viewer releases the controls, or withdraws a request for them.
    Released {
        now: Time,
        viewer: Viewer,
    },
    /// The viewer requests the controls.
    Requested {
        now: Time,
        viewer: Viewer,
    },
    /// The size of the viewer's window, in CSS pixels.
    WindowSize {
        viewer: Viewer,
        size: (u16, u16),
    },
}

/// A change that the thread reports to the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InjectionEvent {
    /// The controls have passed to another viewer, or the requests for them have changed.
    Controls(ControlState),
    /// The viewer's input is refused, because another one has the controls.
    Refused(Viewer),
    /// The text of the driver's clipboard.
    Clipboard(String),
    /// The text of this viewer's clipboard is refused, because another one has the controls.
    ClipboardRefused(Viewer),
    /// The state of one of the program's gamepads.
    Gamepad(PadChange),
    /// The size of the window for which the display is meant.
    WindowSize((u16, u16)),
}

pub(crate) struct Injection {
    devices: Box<dyn Devices>,
    controls: Controls,
    /// Whether the program has captured the pointer.
    captured: Arc<AtomicBool>,
    size: ScreenSize,
    /// Relative movement that was not injected yet.
    pending_move: [i32; 2],
    /// When relative movement was last injected.
    moved: Option<Instant>,
}

impl Injection {
    /// Creates the thread's state. `map` is the keyboard's initial map.
    pub(crate) fn new(devices: Box<dyn Devices>, map: Keymap, captured: Arc<AtomicBool>, size: ScreenSize) -> Self {
        let controls = Controls::new(size.get(), Keyboard::new(map));
        Self { devices, controls, captured, size, pending_move: [0; 2], moved: None }
    }

    /// Handles the viewers' events until the source is gone. `gamepads` is the number of gamepads that the program can have.
    pub(crate) fn run(
        mut self,
        events: &Receiver<ViewerEvent>,
        gamepads: &AtomicU8,
        report: &dyn Fn(InjectionEvent),
    ) -> Result<(), ThreadError> {
        let (mut actions, mut reported, mut window) = (Vec::new(), ControlState::default(), None);
        loop {
            let next = match self.next_move() {
                Some(wait) => events.recv_timeout(wait),
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            self.controls.set_captured(self.captured.load(Ordering::Relaxed));
            self.controls.set_size(self.size.get());
            self.controls.set_gamepads(gamepads.load(Ordering::Relaxed));
            match next {
                Ok(ViewerEvent::Input { now, viewer, input }) => {
                    self.controls.on_input(now, viewer, &input, &mut actions);
                }
                Ok(ViewerEvent::Clipboard { now, viewer, text }) => {
                    let granted = self.controls.on_clipboard(now, viewer, &mut actions);
                    report(if granted {
                        InjectionEvent::Clipboard(text)
                    } else {
                        InjectionEvent::ClipboardRefused(viewer)
                    });
                }
                Ok(ViewerEvent::Left { now, viewer }) => self.controls.on_viewer_left(now, viewer, &mut actions),
                Ok(ViewerEvent::Released { now, viewer }) => self.controls.on_released(now, viewer, &mut actions),
                Ok(ViewerEvent::Requested { now, viewer }) => self.controls.on_requested(now, viewer, &mut actions),
                Ok(ViewerEvent::WindowSize { viewer, size }) => self.controls.on_window(viewer, size),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.controls.close(&mut actions);
                    return self.inject_all(&mut actions, report);
                }
            }
            self.inject_all(&mut actions, report)?;
            self.controls.take_refused().into_iter().map(InjectionEvent::Refused).for_each(report);
            let state = self.controls.state();
            if state != reported {
                report(InjectionEvent::Controls(state.clone()));
                reported = state;
            }
            if let Some(size) = self.controls.window().filter(|size| window != Some(*size)) {
                report(InjectionEvent::WindowSize(size));
                window = Some(size);
            }
        }
    }

    /// Returns how long pending movement has to wait; `None` if there is none.
    fn next_move(&self) -> Option<Duration> {
        let moved = self.moved.filter(|_| self.pending_move != [0; 2])?;
        Some(MIN_MOVE_INTERVAL.saturating_sub(moved.elapsed()))
    }

    fn inject_all(&mut self, actions: &mut Vec<Action>, report: &dyn Fn(InjectionEvent)) -> Result<(), ThreadError> {
        for action in actions.drain(..) {
            if let Action::MoveBy { right, down } = action {
                self.pending_move = [self.pending_move[0] + i32::from(right), self.pending_move[1] + i32::from(down)];
                continue;
            }
            // Later actions must happen at the position to which the pointer has moved.
            self.move_by()?;
            match action {
                Action::Gamepad(change) => report(InjectionEvent::Gamepad(change)),
                action => self.devices.inject(action)?,
            }
        }
        if self.next_move().is_none_or(|wait| wait.is_zero()) && self.pending_move != [0; 2] {
            self.move_by()?;
            self.moved = Some(now());
        }
        self.devices.flush()
    }

    fn move_by(&mut self) -> Result<(), ThreadError> {
        let movement = std::mem::take(&mut self.pending_move);
        let [right, down] = movement.map(|pixels| pixels.clamp(i16::MIN.into(), i16::MAX.into()) as i16);
        if (right, down) == (0, 0) { Ok(()) } else { self.devices.inject(Action::MoveBy { right, down }) }
    }
}

#[expect(clippy::disallowed_methods, reason = "this thread paces its injected movements")]
fn now() -> Instant {
    Instant::now()
}
