//! The thread that injects the viewers' input into the display.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nearlight_scene::{Viewer, ViewerInput};
use nearlight_units::Time;

use crate::clock::now;
use crate::input::controls::{Action, ControlState, Controls, MIN_MOVE_INTERVAL};
use crate::input::gamepads::PadChange;
use crate::input::keyboard::{Keyboard, Keymap};
use crate::watchdog::Activity;
use crate::x11::connection::ThreadError;
use crate::x11::screen::ScreenSize;

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
    /// What the thread does.
    activity: Activity,
}

/// What the thread asks of the source.
pub(crate) trait InjectionHost {
    /// Handles a change.
    fn report(&self, event: InjectionEvent);

    /// Returns how many gamepads the program can have.
    fn gamepads(&self) -> u8;

    /// Returns the viewers who are present if events were lost since the last call, because the thread took none for too long.
    fn take_events_lost(&self) -> Option<BTreeSet<Viewer>>;
}

impl Injection {
    /// Creates the thread's state. `map` is the keyboard's initial map.
    pub(crate) fn new(
        devices: Box<dyn Devices>,
        map: Keymap,
        captured: Arc<AtomicBool>,
        size: ScreenSize,
        activity: Activity,
    ) -> Self {
        let controls = Controls::new(size.get(), Keyboard::new(map));
        Self { devices, controls, captured, size, pending_move: [0; 2], moved: None, activity }
    }

    /// Handles the viewers' events until the source is gone.
    pub(crate) fn run(mut self, events: &Receiver<ViewerEvent>, host: &dyn InjectionHost) -> Result<(), ThreadError> {
        let (mut actions, mut reported, mut window) = (Vec::new(), ControlState::default(), None);
        loop {
            self.activity.on_wait();
            let next = match self.next_move() {
                Some(wait) => events.recv_timeout(wait),
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            self.activity.on_work();
            if let Some(present) = host.take_events_lost() {
                // What waits is older than what was lost, and its time has passed.
                while events.try_recv().is_ok() {}
                self.controls.on_events_lost(|viewer| present.contains(&viewer), &mut actions);
                self.inject_all(&mut actions, host)?;
                reported = self.controls.state();
                host.report(InjectionEvent::Controls(reported.clone()));
                continue;
            }
            self.controls.set_captured(self.captured.load(Ordering::Relaxed));
            self.controls.set_size(self.size.get());
            self.controls.set_gamepads(host.gamepads());
            match next {
                Ok(ViewerEvent::Input { now, viewer, input }) => {
                    self.controls.on_input(now, viewer, &input, &mut actions);
                }
                Ok(ViewerEvent::Clipboard { now, viewer, text }) => {
                    let granted = self.controls.on_clipboard(now, viewer, &mut actions);
                    host.report(if granted {
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
                    return self.inject_all(&mut actions, host);
                }
            }
            self.inject_all(&mut actions, host)?;
            self.controls.take_refused().into_iter().map(InjectionEvent::Refused).for_each(|event| host.report(event));
            let state = self.controls.state();
            if state != reported {
                host.report(InjectionEvent::Controls(state.clone()));
                reported = state;
            }
            if let Some(size) = self.controls.window().filter(|size| window != Some(*size)) {
                host.report(InjectionEvent::WindowSize(size));
                window = Some(size);
            }
        }
    }

    /// Returns how long pending movement has to wait; `None` if there is none.
    fn next_move(&self) -> Option<Duration> {
        let moved = self.moved.filter(|_| self.pending_move != [0; 2])?;
        Some(MIN_MOVE_INTERVAL.saturating_sub(moved.elapsed()))
    }

    fn inject_all(&mut self, actions: &mut Vec<Action>, host: &dyn InjectionHost) -> Result<(), ThreadError> {
        for action in actions.drain(..) {
            if let Action::MoveBy { right, down } = action {
                self.pending_move = [self.pending_move[0] + i32::from(right), self.pending_move[1] + i32::from(down)];
                continue;
            }
            // Later actions must happen at the position to which the pointer has moved.
            self.move_by()?;
            match action {
                Action::Gamepad(change) => host.report(InjectionEvent::Gamepad(change)),
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Mutex;
    use std::sync::mpsc::sync_channel;

    use nearlight_wire::{Devices as DevicesState, InputEvent, Key};

    use super::*;
    use crate::input::keyboard::Step;

    const ONE: Viewer = Viewer(1);

    /// Records which keys go down and up.
    struct RecordedKeys(Arc<Mutex<Vec<bool>>>);

    impl Devices for RecordedKeys {
        fn inject(&mut self, action: Action) -> Result<(), ThreadError> {
            if let Action::Keyboard(Step::Key { pressed, .. }) = action {
                self.0.lock().expect("no panic").push(pressed);
            }
            Ok(())
        }

        fn flush(&mut self) -> Result<(), ThreadError> {
            Ok(())
        }
    }

    /// Says that events were lost when it is asked for the second time.
    struct ForgetfulHost {
        asked: Cell<u32>,
        drivers: Cell<Vec<Option<Viewer>>>,
    }

    impl InjectionHost for ForgetfulHost {
        fn report(&self, event: InjectionEvent) {
            if let InjectionEvent::Controls(controls) = event {
                let mut drivers = self.drivers.take();
                drivers.push(controls.driver);
                self.drivers.set(drivers);
            }
        }

        fn gamepads(&self) -> u8 {
            0
        }

        fn take_events_lost(&self) -> Option<BTreeSet<Viewer>> {
            self.asked.set(self.asked.get() + 1);
            (self.asked.get() == 2).then(|| BTreeSet::from([ONE]))
        }
    }

    #[test]
    fn after_input_was_lost_what_waits_is_dropped_and_nothing_stays_pressed() {
        let keys = Arc::<Mutex<Vec<bool>>>::default();
        let symbols: Vec<u32> = (8..=255).flat_map(|code| [code, 0]).collect();
        let map = Keymap::new(8, 2, &symbols);
        let (captured, size) = (Arc::default(), ScreenSize::new((640, 480)));
        let devices = Box::new(RecordedKeys(Arc::clone(&keys)));
        let injection = Injection::new(devices, map, captured, size, Activity::default());
        let (sender, events) = sync_channel(8);
        let press = |name: &str| {
            let key = Key::from_code(name).expect("a key");
            let devices = DevicesState { keys: vec![key], ..DevicesState::default() };
            let events = vec![InputEvent::Key { key, pressed: true }];
            let input = Box::new(ViewerInput { devices, events, ..ViewerInput::default() });
            ViewerEvent::Input { now: Time::ZERO, viewer: ONE, input }
        };
        for name in ["KeyA", "KeyB", "KeyC"] {
            sender.send(press(name)).expect("there is room");
        }
        drop(sender);
        let host = ForgetfulHost { asked: Cell::new(0), drivers: Cell::default() };
        injection.run(&events, &host).expect("the devices work");
        assert_eq!(*keys.lock().expect("no panic"), [true, false], "only the first key goes down, and goes up again");
        assert_eq!(host.drivers.take(), [Some(ONE), None]);
    }
}
