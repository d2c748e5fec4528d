//! Mouse and keys: what they mean to the user in the world.

use std::collections::BTreeSet;

use nearlight_units::{Span, Time};
use nearlight_wire::{Action, Pose};
use winit::event::MouseButton;
use winit::keyboard::KeyCode;

use crate::camera::{Camera, Motion};

/// Radians per unit that a mouse reports. Guess: a usual mouse turns a full circle on a forearm's length of table.
const MOUSE_RADIANS: f32 = 0.0022;
/// No server renders faster, and a gaming mouse reports 1,000 times a second.
const SHORTEST_GAP: Span = Span::from_nanos(1_000_000_000 / 240);

/// What an event asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answer {
    Nothing,
    /// Tell the server where the user is.
    Move,
    Act(Action),
    /// Catch the mouse, or let it go.
    Catch(bool),
}

/// The user of a window. Keys are taken by position, so that it is the same hand on every layout.
#[derive(Debug)]
pub struct Controls {
    camera: Camera,
    held: BTreeSet<KeyCode>,
    caught: bool,
    grabbing: bool,
    /// Notches of the wheel since the last step of what is held.
    turned: f32,
    stepped_at: Time,
    told_at: Time,
}

impl Controls {
    pub fn new(now: Time, start: &Pose) -> Self {
        Self {
            camera: Camera::at(start),
            held: BTreeSet::new(),
            caught: false,
            grabbing: false,
            turned: 0.0,
            stepped_at: now,
            told_at: Time::ZERO,
        }
    }

    pub fn pose(&self) -> Pose {
        self.camera.pose()
    }

    pub fn on_key(&mut self, key: KeyCode, pressed: bool) -> Answer {
        if !pressed {
            self.held.remove(&key);
            return Answer::Nothing;
        }
        if !self.held.insert(key) {
            return Answer::Nothing;
        }
        match key {
            KeyCode::KeyF => Answer::Act(Action::Throw),
            KeyCode::KeyR => Answer::Act(Action::Reset),
            KeyCode::Escape => Answer::Catch(false),
            _ => Answer::Nothing,
        }
    }

    /// The first click catches the mouse; further ones act.
    pub fn on_button(&mut self, button: MouseButton, pressed: bool) -> Answer {
        match (button, pressed) {
            (_, true) if !self.caught => Answer::Catch(true),
            (MouseButton::Left, true) => {
                self.grabbing = true;
                self.turned = 0.0;
                Answer::Act(Action::Grab)
            }
            (MouseButton::Left, false) => self.let_go(),
            (MouseButton::Middle, true) => Answer::Act(Action::Throw),
            (MouseButton::Right, true) => Answer::Act(Action::Push),
            _ => Answer::Nothing,
        }
    }

    /// The wheel was turned by so many notches away from the user, less than one at a time on touch pads. One step an event is enough.
    pub fn on_wheel(&mut self, away: f32) -> Answer {
        self.turned += away;
        if !self.grabbing || self.turned.abs() < 1.0 {
            return Answer::Nothing;
        }
        let action = if self.turned > 0.0 { Action::Farther } else { Action::Nearer };
        self.turned = 0.0;
        Answer::Act(action)
    }

    /// The mouse moved by so much to the right and down.
    pub fn on_motion(&mut self, now: Time, right: f64, down: f64) -> Answer {
        if !self.caught {
            return Answer::Nothing;
        }
        self.camera.turn(-right as f32 * MOUSE_RADIANS, -down as f32 * MOUSE_RADIANS);
        // What this sample does not tell the next step does.
        if now - self.told_at < SHORTEST_GAP { Answer::Nothing } else { self.tell(now) }
    }

    /// The window has the mouse now, or no longer. Answers with what has to be let go.
    pub fn set_caught(&mut self, caught: bool) -> Answer {
        self.caught = caught;
        if caught { Answer::Nothing } else { self.let_go() }
    }

    /// The window is no longer the one that gets the keys.
    pub fn on_unfocused(&mut self) {
        self.held.clear();
    }

    /// Time passes: the user walks, and the server hears where the user stands also when nothing moved.
    pub fn on_step(&mut self, now: Time) -> Answer {
        let span = now - self.stepped_at;
        self.stepped_at = now;
        self.camera.walk(self.motion(), span);
        self.tell(now)
    }

    fn tell(&mut self, now: Time) -> Answer {
        self.told_at = now;
        Answer::Move
    }

    fn let_go(&mut self) -> Answer {
        if std::mem::take(&mut self.grabbing) { Answer::Act(Action::Release) } else { Answer::Nothing }
    }

    fn motion(&self) -> Motion {
        let mut motion = Motion::default();
        for key in &self.held {
            match key {
                KeyCode::KeyW | KeyCode::ArrowUp => motion.forward += 1.0,
                KeyCode::KeyS | KeyCode::ArrowDown => motion.forward -= 1.0,
                KeyCode::KeyD | KeyCode::ArrowRight => motion.right += 1.0,
                KeyCode::KeyA | KeyCode::ArrowLeft => motion.right -= 1.0,
                KeyCode::KeyE | KeyCode::Space => motion.up += 1.0,
                KeyCode::KeyQ | KeyCode::KeyC => motion.up -= 1.0,
                KeyCode::ShiftLeft | KeyCode::ShiftRight => motion.run = true,
                _ => {}
            }
        }
        let unit = |value: f32| value.clamp(-1.0, 1.0);
        Motion { right: unit(motion.right), up: unit(motion.up), forward: unit(motion.forward), run: motion.run }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controls() -> Controls {
        Controls::new(Time::ZERO, &Pose::default())
    }

    #[test]
    fn the_first_click_only_catches_the_mouse() {
        let mut controls = controls();
        assert_eq!(controls.on_motion(Time::from_secs(1), 9.0, 9.0), Answer::Nothing);
        assert_eq!(controls.on_button(MouseButton::Left, true), Answer::Catch(true));
        controls.set_caught(true);
        assert_eq!(controls.on_button(MouseButton::Left, true), Answer::Act(Action::Grab));
        assert_eq!(controls.on_button(MouseButton::Left, false), Answer::Act(Action::Release));
        assert_eq!(controls.on_button(MouseButton::Right, true), Answer::Act(Action::Push));
        controls.on_button(MouseButton::Left, true);
        assert_eq!(controls.on_key(KeyCode::Escape, true), Answer::Catch(false));
        assert_eq!(controls.set_caught(false), Answer::Act(Action::Release));
    }

    #[test]
    fn the_wheel_moves_what_is_held_and_nothing_else() {
        let mut controls = controls();
        controls.set_caught(true);
        assert_eq!(controls.on_wheel(2.0), Answer::Nothing);
        controls.on_button(MouseButton::Left, true);
        assert_eq!([0.4, 0.4].map(|part| controls.on_wheel(part)), [Answer::Nothing, Answer::Nothing]);
        assert_eq!(controls.on_wheel(0.4), Answer::Act(Action::Farther));
        assert_eq!(controls.on_wheel(-1.0), Answer::Act(Action::Nearer));
    }

    #[test]
    fn a_held_key_acts_once_and_walks_on() {
        let mut controls = controls();
        assert_eq!(controls.on_key(KeyCode::KeyF, true), Answer::Act(Action::Throw));
        assert_eq!(controls.on_key(KeyCode::KeyF, true), Answer::Nothing, "the keyboard repeats");
        controls.on_key(KeyCode::KeyF, false);
        assert_eq!(controls.on_key(KeyCode::KeyF, true), Answer::Act(Action::Throw));
        controls.on_key(KeyCode::KeyW, true);
        for step in 1..=60 {
            assert_eq!(controls.on_step(Time::from_millis(step * 16)), Answer::Move);
        }
        assert!(controls.pose().position[2] < -1.0);
        controls.on_unfocused();
        assert_eq!(controls.motion(), Motion::default());
    }

    #[test]
    fn a_fast_mouse_does_not_flood_the_server() {
        let mut controls = controls();
        controls.set_caught(true);
        let told =
            (1..=1_000).filter(|at| controls.on_motion(Time::from_millis(*at), 1.0, 0.0) == Answer::Move).count();
        assert!((190..=241).contains(&told), "{told} samples in a second");
    }
}
