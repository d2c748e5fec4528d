//! Maps mouse, keys, fingers and gamepads to the user's actions in the world.

use std::collections::BTreeSet;

use nearlight_session::DeviceInput;
use nearlight_units::{Span, Time};
use nearlight_wire::{Gamepad, Key, Pointer, PointerButton, Pose, ScreenPoint, WHEEL_UNITS_PER_PIXEL};
use winit::event::MouseButton;
use winit::keyboard::KeyCode;

use crate::camera::{Camera, Motion};
use crate::fingers::{FingerEvent, Fingers};

/// Between two steps of a walk; each is reported to the server.
pub const STEP: Span = Span::from_nanos(1_000_000_000 / 60);
/// Pixels that a notch of a wheel scrolls, as browsers count it.
pub const PIXELS_PER_NOTCH: f64 = 100.0;

/// Radians per unit that a mouse reports. Guess: a typical mouse turns a full circle on a forearm's length of table.
const MOUSE_RADIANS: f32 = 0.0022;
/// No server renders faster, and a gaming mouse reports 1,000 times a second.
const SHORTEST_GAP: Span = Span::from_nanos(1_000_000_000 / 240);

/// Sticks rest within this fraction of their travel; as on the page.
const DEAD_ZONE: f32 = 0.12;
/// Radians a second at full deflection, as on the page.
const STICK_TURN_SPEED: f32 = 2.4;
/// Indices in the standard mapping.
const STICK_RIGHT: usize = 0;
const STICK_DOWN: usize = 1;
const LOOK_RIGHT: usize = 2;
const LOOK_DOWN: usize = 3;
const DOWN_TRIGGER: usize = 6;
const UP_TRIGGER: usize = 7;
const RUN_BUTTON: u32 = 10;

/// What to do after an event, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Report the user's pose to the server.
    pub moved: bool,
    /// Report these inputs to the server.
    pub inputs: Vec<DeviceInput>,
    /// Capture the mouse, or release it.
    pub catch: Option<bool>,
    /// The user pastes.
    pub paste: bool,
}

impl Answer {
    fn of(input: DeviceInput) -> Self {
        Self { inputs: vec![input], ..Self::default() }
    }
}

/// The user of a window or a display. Keys are taken by position, so that they are under the same fingers in every layout.
#[derive(Debug)]
pub struct Controls {
    camera: Camera,
    held: BTreeSet<KeyCode>,
    pointer: Pointer,
    fingers: Fingers,
    /// The first gamepad, which walks and looks.
    gamepad: Option<Gamepad>,
    /// Fractions of a unit of movement and wheel.
    rest: [f64; 4],
    stepped_at: Time,
    reported_at: Time,
}

impl Controls {
    pub fn new(now: Time, start: &Pose) -> Self {
        Self {
            camera: Camera::at(start),
            held: BTreeSet::new(),
            pointer: Pointer::default(),
            fingers: Fingers::default(),
            gamepad: None,
            rest: [0.0; 4],
            stepped_at: now,
            reported_at: Time::ZERO,
        }
    }

    pub fn pose(&self) -> Pose {
        self.camera.pose()
    }

    /// The mouse is captured.
    pub fn has_mouse(&self) -> bool {
        self.pointer.captured
    }

    /// A key went down or up; `text` is what it typed.
    pub fn on_key(&mut self, code: KeyCode, pressed: bool, text: Option<&str>) -> Answer {
        let mut answer = Answer::default();
        let changed = if pressed { self.held.insert(code) } else { self.held.remove(&code) };
        // The system repeats held keys, which the server does not need; the text that they type it does.
        if let Some(key) = key(code).filter(|_| changed) {
            answer.inputs.push(DeviceInput::Key { key, pressed });
        }
        let typed = pressed && !self.commands();
        if let Some(text) = text.filter(|text| typed && !text.chars().any(char::is_control)) {
            answer.inputs.push(DeviceInput::Text(text.to_owned()));
        }
        // Escape releases the mouse, so the server gets it only while the mouse is free.
        if code == KeyCode::Escape && self.pointer.captured {
            return Answer { catch: pressed.then_some(false), ..Answer::default() };
        }
        answer.paste = changed && pressed && self.pastes(code);
        answer
    }

    /// Whether keys are commands and type nothing. The right Alt key is `AltGr` on many layouts, and types with Control as well.
    fn commands(&self) -> bool {
        use KeyCode::{AltRight, ControlLeft, ControlRight, SuperLeft, SuperRight};
        let held = |code| self.held.contains(&code);
        [ControlLeft, ControlRight, SuperLeft, SuperRight].into_iter().any(held) && !held(AltRight)
    }

    /// The system's shortcut for pasting was completed.
    fn pastes(&self, code: KeyCode) -> bool {
        let held = |codes: [KeyCode; 2]| codes.iter().any(|code| self.held.contains(code));
        let command = if cfg!(target_os = "macos") {
            [KeyCode::SuperLeft, KeyCode::SuperRight]
        } else {
            [KeyCode::ControlLeft, KeyCode::ControlRight]
        };
        match code {
            KeyCode::KeyV => held(command),
            KeyCode::Insert => held([KeyCode::ShiftLeft, KeyCode::ShiftRight]),
            KeyCode::Paste => true,
            _ => false,
        }
    }

    /// Where the application wants the mouse captured (`catches`), the first click only does that; further ones act.
    pub fn on_button(&mut self, button: MouseButton, pressed: bool, catches: bool) -> Answer {
        if pressed && catches && !self.pointer.captured {
            return Answer { catch: Some(true), ..Answer::default() };
        }
        let button = match button {
            MouseButton::Left => PointerButton::Primary,
            MouseButton::Middle => PointerButton::Auxiliary,
            MouseButton::Right => PointerButton::Secondary,
            MouseButton::Back => PointerButton::Back,
            MouseButton::Forward => PointerButton::Forward,
            MouseButton::Other(_) => return Answer::default(),
        };
        let before = self.pointer.buttons;
        self.pointer.buttons = if pressed { before | button.bit() } else { before & !button.bit() };
        if self.pointer.buttons == before { Answer::default() } else { self.point() }
    }

    /// The wheel was turned by this many pixels to the right and down.
    pub fn on_wheel(&mut self, right: f64, down: f64) -> Answer {
        let units = f64::from(WHEEL_UNITS_PER_PIXEL);
        let way = [right * units, down * units];
        for ((total, rest), way) in self.pointer.scrolled.iter_mut().zip(&mut self.rest[2..]).zip(way) {
            add_whole(total, rest, way);
        }
        self.point()
    }

    /// A finger touched, moved or lifted.
    pub fn on_finger(&mut self, event: FingerEvent) -> Answer {
        let turned = self.fingers.on_event(event);
        if let Some([left, up]) = turned {
            self.camera.turn(left, up);
        }
        Answer { moved: turned.is_some(), ..Answer::of(DeviceInput::Touches(self.fingers.touches())) }
    }

    /// The gamepads' current state.
    pub fn on_gamepads(&mut self, gamepads: &[Gamepad]) -> Answer {
        self.gamepad = gamepads.first().cloned();
        Answer::of(DeviceInput::Gamepads(gamepads.to_vec()))
    }

    /// The pointer's position, in fractions of the picture's width and height.
    pub fn on_cursor(&mut self, x: f32, y: f32) -> Answer {
        self.pointer.at = ScreenPoint::new(x, y);
        if self.pointer.captured { Answer::default() } else { self.point() }
    }

    /// The mouse moved by this much to the right and down.
    pub fn on_motion(&mut self, now: Time, right: f64, down: f64) -> Answer {
        if !self.pointer.captured {
            return Answer::default();
        }
        self.camera.turn(-right as f32 * MOUSE_RADIANS, -down as f32 * MOUSE_RADIANS);
        for ((total, rest), way) in self.pointer.moved.iter_mut().zip(&mut self.rest[..2]).zip([right, down]) {
            add_whole(total, rest, way);
        }
        // What this sample does not report is reported by the next step.
        if now - self.reported_at < SHORTEST_GAP { Answer::default() } else { self.tell(now) }
    }

    /// The mouse is captured, or no longer: then its buttons count as released.
    pub fn set_caught(&mut self, caught: bool) -> Answer {
        self.pointer.captured = caught;
        if !caught {
            self.pointer.buttons = 0;
        }
        self.point()
    }

    /// The window has lost the keyboard focus.
    pub fn on_unfocused(&mut self) -> Answer {
        self.held.clear();
        self.pointer.buttons = 0;
        self.fingers.release_all();
        self.gamepad = None;
        Answer::of(DeviceInput::ReleaseAll)
    }

    /// Time passes: the user walks, and the pose is reported to the server even when nothing moved.
    pub fn on_step(&mut self, now: Time) -> Answer {
        let span = now - self.stepped_at;
        self.stepped_at = now;
        let seconds = span.as_secs_f64() as f32;
        let turn = |axis| -self.stick(axis) * STICK_TURN_SPEED * seconds;
        let (left, up) = (turn(LOOK_RIGHT), turn(LOOK_DOWN));
        self.camera.turn(left, up);
        self.camera.walk(self.motion(), span);
        self.tell(now)
    }

    fn tell(&mut self, now: Time) -> Answer {
        self.reported_at = now;
        Answer { moved: true, ..self.point() }
    }

    fn point(&self) -> Answer {
        Answer::of(DeviceInput::Pointer(Some(self.pointer)))
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
        self.fingers.add_to(&mut motion);
        motion.right += self.stick(STICK_RIGHT);
        motion.forward -= self.stick(STICK_DOWN);
        if let Some(Gamepad { values, pressed, .. }) = &self.gamepad {
            let trigger =
                |button: usize| values.get(button).map_or(0.0, |value| f32::from(*value) / f32::from(u8::MAX));
            motion.up += trigger(UP_TRIGGER) - trigger(DOWN_TRIGGER);
            motion.run |= pressed >> RUN_BUTTON & 1 == 1;
        }
        let unit = |value: f32| value.clamp(-1.0, 1.0);
        Motion { right: unit(motion.right), up: unit(motion.up), forward: unit(motion.forward), run: motion.run }
    }
}

impl Controls {
    /// A stick's deflection: zero in the dead zone, then a soft start to full deflection.
    fn stick(&self, axis: usize) -> f32 {
        let value = self.gamepad.as_ref().and_then(|gamepad| gamepad.axes.get(axis)).copied().unwrap_or(0);
        let value = f32::from(value) / f32::from(i16::MAX);
        let size = (value.abs() - DEAD_ZONE).max(0.0) / (1.0 - DEAD_ZONE);
        value.signum() * size * size
    }
}

/// Adds to a total in whole units; the fraction is kept in `rest`.
fn add_whole(total: &mut i32, rest: &mut f64, way: f64) {
    *rest += way;
    let whole = rest.trunc();
    *rest -= whole;
    *total = total.wrapping_add(whole as i32);
}

/// The names of winit's keys are W3C's codes, except for the one with a logo.
fn key(code: KeyCode) -> Option<Key> {
    match code {
        KeyCode::SuperLeft => Key::from_code("MetaLeft"),
        KeyCode::SuperRight => Key::from_code("MetaRight"),
        code => Key::from_code(&format!("{code:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controls() -> Controls {
        Controls::new(Time::ZERO, &Pose::default())
    }

    fn pointer(answer: &Answer) -> Pointer {
        let [.., DeviceInput::Pointer(Some(pointer))] = answer.inputs.as_slice() else { panic!("{answer:?}") };
        *pointer
    }

    #[test]
    fn the_first_click_only_catches_the_mouse() {
        let mut controls = controls();
        assert_eq!(controls.on_motion(Time::from_secs(1), 9.0, 9.0), Answer::default());
        let catch = |catch| Answer { catch: Some(catch), ..Answer::default() };
        assert_eq!(controls.on_button(MouseButton::Left, true, true), catch(true));
        assert!(pointer(&controls.set_caught(true)).captured);
        assert_eq!(pointer(&controls.on_button(MouseButton::Left, true, true)).buttons, 1);
        assert_eq!(pointer(&controls.on_button(MouseButton::Right, true, true)).buttons, 5);
        assert_eq!(pointer(&controls.on_button(MouseButton::Left, false, true)).buttons, 4);
        assert_eq!(controls.on_key(KeyCode::Escape, true, None), catch(false));
        let free = pointer(&controls.set_caught(false));
        assert_eq!((free.captured, free.buttons), (false, 0));
    }

    #[test]
    fn an_application_that_wants_no_caught_mouse_gets_the_first_click() {
        let mut controls = controls();
        controls.on_cursor(0.5, 1.0);
        let clicked = pointer(&controls.on_button(MouseButton::Left, true, false));
        assert_eq!((clicked.buttons, clicked.at.y), (1, u16::MAX));
    }

    #[test]
    fn parts_of_a_pixel_add_up() {
        let mut controls = controls();
        let ways = [0.4, 0.4, 0.4].map(|part| pointer(&controls.on_wheel(0.0, part / 16.0)).scrolled[1]);
        assert_eq!(ways, [0, 0, 1]);
        assert_eq!(pointer(&controls.on_wheel(-1.0, 0.0)).scrolled[0], -16);
    }

    #[test]
    fn a_held_key_is_reported_once_and_walks_on() {
        let mut controls = controls();
        let key = |pressed| DeviceInput::Key { key: Key(0x7_0009), pressed };
        let typed = DeviceInput::Text("f".into());
        assert_eq!(controls.on_key(KeyCode::KeyF, true, Some("f")).inputs, [key(true), typed.clone()]);
        assert_eq!(controls.on_key(KeyCode::KeyF, true, Some("f")).inputs, [typed], "the keyboard repeats");
        assert_eq!(controls.on_key(KeyCode::KeyF, false, None).inputs, [key(false)]);
        controls.on_key(KeyCode::KeyW, true, Some("w"));
        for step in 1..=60 {
            assert!(controls.on_step(Time::from_millis(step * 16)).moved);
        }
        assert!(controls.pose().position[2] < -1.0);
        assert_eq!(controls.on_unfocused().inputs, [DeviceInput::ReleaseAll]);
        assert_eq!(controls.motion(), Motion::default());
    }

    #[test]
    fn a_fast_mouse_does_not_flood_the_server() {
        let mut controls = controls();
        controls.set_caught(true);
        let reported = (1..=1_000).filter(|at| controls.on_motion(Time::from_millis(*at), 1.0, 0.0).moved).count();
        assert!((190..=241).contains(&reported), "{reported} samples in a second");
    }

    #[test]
    fn a_gamepads_sticks_walk_and_look_until_the_window_loses_the_user() {
        let mut controls = controls();
        let axes = vec![0, -i16::MAX, i16::MAX / 2, 3_000];
        let gamepad = Gamepad { index: 0, pressed: 0, values: vec![0; 17], axes };
        let reported = controls.on_gamepads(std::slice::from_ref(&gamepad)).inputs;
        assert_eq!(reported, [DeviceInput::Gamepads(vec![gamepad])]);
        let before = controls.pose();
        for step in 1..=60 {
            assert!(controls.on_step(Time::from_millis(step * 16)).moved);
        }
        let after = controls.pose();
        assert!(after.position[2] < before.position[2] - 0.5, "{after:?}");
        let [x, y, ..] = after.orientation;
        assert!(y < -0.05 && x.abs() < 1e-6, "to the right, and the resting axis does nothing: {after:?}");
        controls.on_unfocused();
        assert_eq!(controls.motion(), Motion::default());
    }

    #[test]
    fn pasting_is_asked_for_once() {
        let mut controls = controls();
        assert!(!controls.on_key(KeyCode::KeyV, true, Some("v")).paste);
        controls.on_key(KeyCode::KeyV, false, None);
        controls.on_key(KeyCode::ControlLeft, true, None);
        let pressed = controls.on_key(KeyCode::KeyV, true, Some("v"));
        assert_eq!(pressed.paste, !cfg!(target_os = "macos"));
        let key = Key::from_code("KeyV").expect("a key");
        assert_eq!(pressed.inputs, [DeviceInput::Key { key, pressed: true }], "a command types nothing");
        assert!(!controls.on_key(KeyCode::KeyV, true, Some("v")).paste, "the keyboard repeats");
        controls.on_key(KeyCode::ShiftRight, true, None);
        assert!(controls.on_key(KeyCode::Insert, true, None).paste);
    }

    #[test]
    fn keys_have_their_w3c_codes() {
        for (code, usage) in [(KeyCode::KeyA, 0x7_0004), (KeyCode::Digit0, 0x7_0027), (KeyCode::SuperLeft, 0x7_00e3)] {
            assert_eq!(key(code), Some(Key(usage)), "{code:?}");
        }
    }
}
