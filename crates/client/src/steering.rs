//! The user's controls, and the way of their inputs to the player: the same in a window and on a display without one.

use nearlight_net::Clock;
use nearlight_session::DeviceInput;
use nearlight_units::Time;
use nearlight_viewer::player::{Status, UserInput};
use nearlight_wire::{Gamepad, Pose};
use tokio::sync::{mpsc, watch};

use crate::controls::{Answer, Controls};

/// What the controls ask of whoever shows the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Capture the mouse, or release it.
    pub catch: Option<bool>,
    /// The user pastes.
    pub paste: bool,
}

pub struct Steering {
    /// None before the server has set the user's initial pose.
    controls: Option<Controls>,
    start: watch::Receiver<Option<Pose>>,
    inputs: mpsc::Sender<UserInput>,
    clock: Clock,
    /// Their last reported state, for when the user's attention returns.
    gamepads: Vec<Gamepad>,
    /// The server does not know the gamepads: there is no session, or it is new.
    gamepads_unknown: bool,
    focused: bool,
}

impl Steering {
    pub fn new(start: watch::Receiver<Option<Pose>>, inputs: mpsc::Sender<UserInput>, clock: Clock) -> Self {
        Self { controls: None, start, inputs, clock, gamepads: Vec::new(), gamepads_unknown: true, focused: true }
    }

    pub fn has_mouse(&self) -> bool {
        self.controls.as_ref().is_some_and(Controls::has_mouse)
    }

    /// Passes an event to the user's controls, and their inputs to the server.
    pub fn steer(&mut self, event: impl FnOnce(&mut Controls, Time) -> Answer) -> Wish {
        let now = self.clock.now();
        let Some(controls) = &mut self.controls else { return Wish::default() };
        let Answer { moved, inputs, catch, paste } = event(controls, now);
        if moved {
            let head = controls.pose();
            // A full queue means that there is no connection; then the sample may be dropped.
            let _ = self.inputs.try_send(UserInput::Moved { at: now, head });
        }
        for input in inputs {
            self.send(input);
        }
        Wish { catch, paste }
    }

    /// Time passes; due sixty times a second.
    pub fn step(&mut self) -> Wish {
        if self.controls.is_none() {
            let start: Option<Pose> = *self.start.borrow();
            self.controls = start.map(|start| Controls::new(self.clock.now(), &start));
        }
        self.steer(Controls::on_step)
    }

    pub fn send(&self, input: DeviceInput) {
        let _ = self.inputs.try_send(UserInput::Device { at: self.clock.now(), input });
    }

    /// Gamepads belong to the window that has the keyboard focus.
    pub fn set_focused(&mut self, focused: bool) {
        self.focused = focused;
        if focused {
            self.tell_gamepads();
        } else {
            self.steer(|controls, _| controls.on_unfocused());
        }
    }

    pub fn on_gamepads(&mut self, gamepads: Vec<Gamepad>) {
        self.gamepads = gamepads;
        self.tell_gamepads();
    }

    pub fn on_status(&mut self, status: &Status) {
        match status {
            Status::Connecting { .. } => self.gamepads_unknown = true,
            Status::Watching(_) => {
                if std::mem::take(&mut self.gamepads_unknown) {
                    self.tell_gamepads();
                }
            }
        }
    }

    fn tell_gamepads(&mut self) {
        if self.focused {
            let gamepads = std::mem::take(&mut self.gamepads);
            self.steer(|controls, _| controls.on_gamepads(&gamepads));
            self.gamepads = gamepads;
        }
    }
}
