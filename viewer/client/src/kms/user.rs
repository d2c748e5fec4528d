//! Applies the actions of the machine's input devices to the user's controls and to the display's pointer.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use nearlight_codec::Size;
use nearlight_viewer::player::{PointerRequest, Status};
use tokio::sync::watch;
use winit::keyboard::KeyCode;

use super::canvas::Placement;
use super::cursor::Cursor;
use super::devices::DeviceActions;
use super::events::DeviceAction;
use crate::controls::{ControlEffects, Controls, KeyPress};
use crate::fingers::FingerEvent;
use crate::steering::{ControlRequest, Steering};

/// Keys that change the meaning of others.
const MODIFIERS: [KeyCode; 8] = [
    KeyCode::ControlLeft,
    KeyCode::ControlRight,
    KeyCode::ShiftLeft,
    KeyCode::ShiftRight,
    KeyCode::AltLeft,
    KeyCode::AltRight,
    KeyCode::SuperLeft,
    KeyCode::SuperRight,
];

pub struct User {
    steering: Steering,
    cursor: Cursor,
    request: watch::Receiver<PointerRequest>,
    display: Size,
    /// Size of the picture in pixels; `None` before the first one.
    picture: Option<Size>,
    /// Position of the pointer in pixels of the display; `None` until a mouse or tablet has moved.
    pointer: Option<[f32; 2]>,
    modifiers: BTreeSet<KeyCode>,
}

impl User {
    /// Creates the user's state. `display` is the size of the area that pictures may cover.
    pub fn new(steering: Steering, cursor: Cursor, request: watch::Receiver<PointerRequest>, display: Size) -> Self {
        Self { steering, cursor, request, display, picture: None, pointer: None, modifiers: BTreeSet::new() }
    }

    pub fn steering(&mut self) -> &mut Steering {
        &mut self.steering
    }

    pub fn on_status(&mut self, status: &Status) {
        if let Status::Watching(watching) = status {
            let (width, height) = watching.size;
            self.picture = Some(Size { width, height });
        }
        self.steering.on_status(status);
    }

    /// Advances the user's movement. To be called at [`STEP_INTERVAL`](crate::controls::STEP_INTERVAL).
    pub fn step(&mut self) {
        if self.request.has_changed().unwrap_or(false) {
            let captured = self.request.borrow_and_update().captured;
            if self.steering.has_captured_mouse() && !captured {
                self.set_captured(false);
            } else {
                self.show_pointer();
            }
        }
        let request = self.steering.step();
        self.apply(request);
    }

    /// Handles actions. Breaks if the user ends the viewer.
    pub fn on_actions(&mut self, actions: &DeviceActions) -> ControlFlow<()> {
        actions.actions.iter().try_for_each(|action| self.on_action(actions.device, *action))
    }

    fn on_action(&mut self, device: u32, action: DeviceAction) -> ControlFlow<()> {
        match action {
            DeviceAction::Key { key, pressed } => {
                if MODIFIERS.contains(&key) {
                    if pressed {
                        self.modifiers.insert(key)
                    } else {
                        self.modifiers.remove(&key)
                    };
                }
                if pressed && is_interrupt(&self.modifiers, key) {
                    return ControlFlow::Break(());
                }
                let press = KeyPress { code: key, pressed, text: None, character: None };
                self.steer(|controls, _| controls.on_key(press));
            }
            DeviceAction::Button { button, pressed } => {
                let captures = self.request.borrow().captured;
                self.steer(|controls, _| controls.on_button(button, pressed, captures));
            }
            DeviceAction::PointerMotion([right, down]) => {
                if self.steering.has_captured_mouse() {
                    self.steer(|controls, now| controls.on_motion(now, right, down));
                } else {
                    let [x, y] = self.pointer.unwrap_or_else(|| self.display_point([0.5, 0.5]));
                    self.point([x + right as f32, y + down as f32]);
                }
            }
            DeviceAction::PointerPosition(at) => {
                let at = self.display_point(at);
                match self.pointer.filter(|_| self.steering.has_captured_mouse()) {
                    Some([x, y]) => {
                        self.pointer = Some(at);
                        let [right, down] = [at[0] - x, at[1] - y].map(f64::from);
                        self.steer(|controls, now| controls.on_motion(now, right, down));
                    }
                    None => self.point(at),
                }
            }
            DeviceAction::Scroll([right, down]) => self.steer(|controls, _| controls.on_wheel(right, down)),
            DeviceAction::Finger { id, phase, at, pressure } => {
                let id = u64::from(device) << 32 | u64::from(id);
                let Size { width, height } = self.placement().size;
                let aspect = f32::from(width) / f32::from(height);
                let at = self.in_picture(self.display_point(at));
                self.steer(|controls, _| controls.on_finger(FingerEvent { id, phase, at, pressure, aspect }));
            }
        }
        ControlFlow::Continue(())
    }

    fn steer(&mut self, event: impl FnOnce(&mut Controls, nearlight_units::Time) -> ControlEffects) {
        let request = self.steering.steer(event);
        self.apply(request);
    }

    /// Captures or releases the mouse. Pasting is ignored, because there is no clipboard without a window system.
    fn apply(&mut self, ControlRequest { capture, paste: _ }: ControlRequest) {
        if let Some(capture) = capture {
            self.set_captured(capture);
        }
    }

    fn set_captured(&mut self, captured: bool) {
        self.steering.steer(|controls, _| controls.set_captured(captured));
        self.show_pointer();
    }

    /// Shows the pointer that the application requests, or none if there is no mouse or it is captured.
    fn show_pointer(&mut self) {
        let shown = self.pointer.is_some() && !self.steering.has_captured_mouse();
        let request = self.request.borrow();
        self.cursor.set_shape(Some(&request.cursor).filter(|_| shown));
    }

    /// Moves the pointer to this pixel of the display.
    fn point(&mut self, at: [f32; 2]) {
        let limits = [self.display.width, self.display.height].map(|side| f32::from(side) - 1.0);
        let at = [at[0].clamp(0.0, limits[0]), at[1].clamp(0.0, limits[1])];
        let first = self.pointer.replace(at).is_none();
        self.cursor.set_position(at.map(|coordinate| coordinate as i32));
        if first {
            self.show_pointer();
        }
        let [x, y] = self.in_picture(at);
        self.steer(|controls, _| controls.on_cursor(x, y));
    }

    fn display_point(&self, [across, down]: [f32; 2]) -> [f32; 2] {
        [across * f32::from(self.display.width), down * f32::from(self.display.height)]
    }

    /// Converts a position on the display into fractions of the picture's width and height.
    fn in_picture(&self, [x, y]: [f32; 2]) -> [f32; 2] {
        let Placement { left, top, size } = self.placement();
        [(x - f32::from(left)) / f32::from(size.width), (y - f32::from(top)) / f32::from(size.height)]
    }

    fn placement(&self) -> Placement {
        Placement::centred(self.picture.unwrap_or(self.display), self.display)
    }
}

/// Returns whether `key` completes Ctrl+C, which ends the viewer as it ends any program on a text console.
fn is_interrupt(modifiers: &BTreeSet<KeyCode>, key: KeyCode) -> bool {
    let control = [KeyCode::ControlLeft, KeyCode::ControlRight];
    key == KeyCode::KeyC && !modifiers.is_empty() && modifiers.iter().all(|modifier| control.contains(modifier))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_control_and_c_end_the_viewer() {
        let with = |modifiers: &[KeyCode], key| is_interrupt(&modifiers.iter().copied().collect(), key);
        assert!(with(&[KeyCode::ControlRight], KeyCode::KeyC));
        assert!(!with(&[], KeyCode::KeyC) && !with(&[KeyCode::ControlLeft], KeyCode::KeyX));
        assert!(!with(&[KeyCode::ControlLeft, KeyCode::ShiftLeft], KeyCode::KeyC), "the application's");
    }
}
