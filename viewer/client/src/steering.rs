//! Passes events to the user's controls and their inputs to the player. A window and a display without a window system share it.

use nearlight_net::Clock;
use nearlight_session::DeviceInput;
use nearlight_units::Time;
use nearlight_viewer::player::{Status, UserInput};
use nearlight_wire::{Gamepad, Pose};
use tokio::sync::{mpsc, watch};

use crate::controls::{ControlEffects, Controls};

/// A request of the controls to the window or display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlRequest {
    /// Capture the mouse, or release it.
    pub capture: Option<bool>,
    /// Read the clipboard, because the user pressed the shortcut for pasting.
    pub paste: bool,
}

pub struct Steering {
    /// `None` until the server has set the user's initial pose.
    controls: Option<Controls>,
    start: watch::Receiver<Option<Pose>>,
    inputs: mpsc::Sender<UserInput>,
    clock: Clock,
    /// The gamepads' last reported state, to be sent when the window gets the focus again.
    gamepads: Vec<Gamepad>,
    /// Whether the server does not know the gamepads, because there is no session or it is new.
    gamepads_unknown: bool,
    focused: bool,
}

impl Steering {
    pub fn new(start: watch::Receiver<Option<Pose>>, inputs: mpsc::Sender<UserInput>, clock: Clock) -> Self {
        Self { controls: None, start, inputs, clock, gamepads: Vec::new(), gamepads_unknown: true, focused: true }
    }

    pub fn has_captured_mouse(&self) -> bool {
        self.controls.as_ref().is_some_and(Controls::has_captured_mouse)
    }

    /// Passes an event to the user's controls, and the resulting inputs to the player.
    pub fn steer(&mut self, event: impl FnOnce(&mut Controls, Time) -> ControlEffects) -> ControlRequest {
        let now = self.clock.now();
        let Some(controls) = &mut self.controls else { return ControlRequest::default() };
        let ControlEffects { moved, inputs, capture, paste } = event(controls, now);
        if moved {
            let head = controls.pose();
            // A full queue means that there is no connection, so the sample can be dropped.
            let _ = self.inputs.try_send(UserInput::Moved { at: now, head });
        }
        if !inputs.is_empty() {
            let _ = self.inputs.try_send(UserInput::Devices { at: now, inputs });
        }
        ControlRequest { capture, paste }
    }

    /// Advances the user's movement. To be called at [`STEP_INTERVAL`](crate::controls::STEP_INTERVAL).
    pub fn step(&mut self) -> ControlRequest {
        if self.controls.is_none() {
            let start: Option<Pose> = *self.start.borrow();
            self.controls = start.map(|start| Controls::new(self.clock.now(), &start));
        }
        self.steer(Controls::on_step)
    }

    pub fn send(&self, input: DeviceInput) {
        let _ = self.inputs.try_send(UserInput::Device { at: self.clock.now(), input });
    }

    /// Sets whether the window has the keyboard focus. Without it, everything counts as released and gamepads are ignored.
    pub fn set_focused(&mut self, focused: bool) {
        self.focused = focused;
        if focused {
            self.send_gamepads();
        } else {
            self.steer(|controls, _| controls.on_unfocused());
        }
    }

    pub fn on_gamepads(&mut self, gamepads: Vec<Gamepad>) {
        self.gamepads = gamepads;
        self.send_gamepads();
    }

    pub fn on_status(&mut self, status: &Status) {
        match status {
            Status::Connecting { .. } => self.gamepads_unknown = true,
            Status::Watching(_) => {
                if std::mem::take(&mut self.gamepads_unknown) {
                    self.send_gamepads();
                }
            }
        }
    }

    fn send_gamepads(&mut self) {
        if self.focused {
            let gamepads = std::mem::take(&mut self.gamepads);
            self.steer(|controls, _| controls.on_gamepads(&gamepads));
            self.gamepads = gamepads;
        }
    }
}
