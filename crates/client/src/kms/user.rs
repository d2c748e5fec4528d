//! What the user of a display does with the machine's input devices.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use nearlight_codec::Size;
use nearlight_viewer::player::{PointerRequest, Status};
use tokio::sync::watch;
use winit::keyboard::KeyCode;

use super::canvas::Place;
use super::cursor::Cursor;
use super::devices::DeviceActs;
use super::events::Act;
use crate::controls::{Answer, Controls};
use crate::fingers::FingerEvent;
use crate::steering::{Steering, Wish};

/// Keys that change what others mean.
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
    /// Size of the picture in pixels; none before the first.
    picture: Option<Size>,
    /// In pixels of the display; none before a mouse or tablet has moved.
    pointer: Option<[f32; 2]>,
    modifiers: BTreeSet<KeyCode>,
}

impl User {
    /// `display` is the part of the display that pictures may cover.
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

    /// Time passes; due sixty times a second.
    pub fn step(&mut self) {
        if self.request.has_changed().unwrap_or(false) {
            let captured = self.request.borrow_and_update().captured;
            if self.steering.has_mouse() && !captured {
                self.catch(false);
            } else {
                self.show_pointer();
            }
        }
        let wish = self.steering.step();
        self.follow(wish);
    }

    /// Breaks where the user ends the viewer.
    pub fn on_acts(&mut self, acts: &DeviceActs) -> ControlFlow<()> {
        acts.acts.iter().try_for_each(|act| self.on_act(acts.device, *act))
    }

    fn on_act(&mut self, device: u32, act: Act) -> ControlFlow<()> {
        match act {
            Act::Key { key, pressed } => {
                if MODIFIERS.contains(&key) {
                    if pressed {
                        self.modifiers.insert(key)
                    } else {
                        self.modifiers.remove(&key)
                    };
                }
                if pressed && ends(&self.modifiers, key) {
                    return ControlFlow::Break(());
                }
                self.steer(|controls, _| controls.on_key(key, pressed, None));
            }
            Act::Button { button, pressed } => {
                let catches = self.request.borrow().captured;
                self.steer(|controls, _| controls.on_button(button, pressed, catches));
            }
            Act::Moved([right, down]) => {
                if self.steering.has_mouse() {
                    self.steer(|controls, now| controls.on_motion(now, right, down));
                } else {
                    let [x, y] = self.pointer.unwrap_or_else(|| self.display_point([0.5, 0.5]));
                    self.point([x + right as f32, y + down as f32]);
                }
            }
            Act::At(at) => {
                let at = self.display_point(at);
                match self.pointer.filter(|_| self.steering.has_mouse()) {
                    Some([x, y]) => {
                        self.pointer = Some(at);
                        let [right, down] = [at[0] - x, at[1] - y].map(f64::from);
                        self.steer(|controls, now| controls.on_motion(now, right, down));
                    }
                    None => self.point(at),
                }
            }
            Act::Scrolled([right, down]) => self.steer(|controls, _| controls.on_wheel(right, down)),
            Act::Finger { id, phase, at, pressure } => {
                let id = u64::from(device) << 32 | u64::from(id);
                let Size { width, height } = self.place().size;
                let aspect = f32::from(width) / f32::from(height);
                let at = self.in_picture(self.display_point(at));
                self.steer(|controls, _| controls.on_finger(FingerEvent { id, phase, at, pressure, aspect }));
            }
        }
        ControlFlow::Continue(())
    }

    fn steer(&mut self, event: impl FnOnce(&mut Controls, nearlight_units::Time) -> Answer) {
        let wish = self.steering.steer(event);
        self.follow(wish);
    }

    /// The clipboard belongs to window systems.
    fn follow(&mut self, Wish { catch, paste: _ }: Wish) {
        if let Some(catch) = catch {
            self.catch(catch);
        }
    }

    fn catch(&mut self, catch: bool) {
        self.steering.steer(|controls, _| controls.set_caught(catch));
        self.show_pointer();
    }

    /// The pointer looks as the application requests, once there is a mouse, and unless it is captured.
    fn show_pointer(&mut self) {
        let shown = self.pointer.is_some() && !self.steering.has_mouse();
        let request = self.request.borrow();
        self.cursor.set_shape(Some(&request.cursor).filter(|_| shown));
    }

    /// The user points at this pixel of the display.
    fn point(&mut self, at: [f32; 2]) {
        let limits = [self.display.width, self.display.height].map(|side| f32::from(side) - 1.0);
        let at = [at[0].clamp(0.0, limits[0]), at[1].clamp(0.0, limits[1])];
        let first = self.pointer.replace(at).is_none();
        self.cursor.set_position(at.map(|way| way as i32));
        if first {
            self.show_pointer();
        }
        let [x, y] = self.in_picture(at);
        self.steer(|controls, _| controls.on_cursor(x, y));
    }

    fn display_point(&self, [across, down]: [f32; 2]) -> [f32; 2] {
        [across * f32::from(self.display.width), down * f32::from(self.display.height)]
    }

    /// Where a pixel of the display is in the picture, in fractions of its width and height.
    fn in_picture(&self, [x, y]: [f32; 2]) -> [f32; 2] {
        let Place { left, top, size } = self.place();
        [(x - f32::from(left)) / f32::from(size.width), (y - f32::from(top)) / f32::from(size.height)]
    }

    fn place(&self) -> Place {
        Place::of(self.picture.unwrap_or(self.display), self.display)
    }
}

/// Ctrl+C ends the viewer, as it ends any program on a text console, whose keyboard the viewer has taken.
fn ends(modifiers: &BTreeSet<KeyCode>, key: KeyCode) -> bool {
    let control = [KeyCode::ControlLeft, KeyCode::ControlRight];
    key == KeyCode::KeyC && !modifiers.is_empty() && modifiers.iter().all(|modifier| control.contains(modifier))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_control_and_c_end_the_viewer() {
        let with = |modifiers: &[KeyCode], key| ends(&modifiers.iter().copied().collect(), key);
        assert!(with(&[KeyCode::ControlRight], KeyCode::KeyC));
        assert!(!with(&[], KeyCode::KeyC) && !with(&[KeyCode::ControlLeft], KeyCode::KeyX));
        assert!(!with(&[KeyCode::ControlLeft, KeyCode::ShiftLeft], KeyCode::KeyC), "the application's");
    }
}
