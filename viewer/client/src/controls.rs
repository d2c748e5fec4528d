//! Maps mouse, keys, fingers and gamepads to the user's actions in the world.

use std::collections::BTreeSet;

use nearlight_session::DeviceInput;
use nearlight_units::{Span, Time};
use nearlight_wire::{Gamepad, Key, Pointer, PointerButton, Pose, ScreenPoint, WHEEL_UNITS_PER_PIXEL};
use winit::event::MouseButton;
use winit::keyboard::KeyCode;

use crate::camera::{Camera, Motion};
use crate::fingers::{FingerEvent, Fingers};

/// Interval between two steps of a walk. The server gets a report of each.
pub const STEP_INTERVAL: Span = Span::from_nanos(1_000_000_000 / 60);
/// Pixels that one notch of a wheel scrolls, as in browsers.
pub const PIXELS_PER_NOTCH: f64 = 100.0;

/// Radians that the view turns per unit of mouse movement. Guess: a typical mouse then turns a full circle within a forearm's length.
const MOUSE_SENSITIVITY: f32 = 0.0022;
/// Shortest interval between two reports of mouse movement. No server renders faster, but a gaming mouse reports 1,000 times a second.
const MIN_REPORT_INTERVAL: Span = Span::from_nanos(1_000_000_000 / 240);

/// Fraction of a stick's travel within which it counts as at rest, as on the page.
const DEAD_ZONE: f32 = 0.12;
/// Turning speed at full deflection in radians per second, as on the page.
const STICK_TURN_SPEED: f32 = 2.4;
// Indices in the standard mapping ("Gamepad", W3C, section 7).
const LEFT_STICK_X: usize = 0;
const LEFT_STICK_Y: usize = 1;
const RIGHT_STICK_X: usize = 2;
const RIGHT_STICK_Y: usize = 3;
const LEFT_TRIGGER: usize = 6;
const RIGHT_TRIGGER: usize = 7;
const RUN_BUTTON: u32 = 10;

/// What an event requires of the window and the player, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ControlEffects {
    /// Report the user's pose to the server.
    pub moved: bool,
    /// Report these inputs to the server.
    pub inputs: Vec<DeviceInput>,
    /// Capture the mouse, or release it.
    pub capture: Option<bool>,
    /// Whether the user pressed the shortcut for pasting.
    pub paste: bool,
}

/// A key that went down or up, or that the system repeats: then it goes down once more.
#[derive(Clone, Copy, Debug)]
pub struct KeyPress<'a> {
    pub code: KeyCode,
    pub pressed: bool,
    /// What it types.
    pub text: Option<&'a str>,
    /// The character that the key has in the user's layout without modifiers.
    pub character: Option<char>,
}

impl ControlEffects {
    fn with_input(input: DeviceInput) -> Self {
        Self { inputs: vec![input], ..Self::default() }
    }
}

/// State of the input devices of a window's or display's user, and the camera that they move. Keys are identified by position, so that
/// they lie under the same fingers in every layout.
#[derive(Debug)]
pub struct Controls {
    camera: Camera,
    held: BTreeSet<KeyCode>,
    pointer: Pointer,
    fingers: Fingers,
    /// The first gamepad, which moves the camera.
    gamepad: Option<Gamepad>,
    /// Fractions of a unit that were not reported yet: movement right and down, wheel right and down.
    remainders: [f64; 4],
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
            remainders: [0.0; 4],
            stepped_at: now,
            reported_at: Time::ZERO,
        }
    }

    pub fn pose(&self) -> Pose {
        self.camera.pose()
    }

    /// Returns whether the mouse is captured.
    pub fn has_captured_mouse(&self) -> bool {
        self.pointer.captured
    }

    /// Handles a key that went down or up, or that the system repeats.
    pub fn on_key(&mut self, KeyPress { code, pressed, text, character }: KeyPress<'_>) -> ControlEffects {
        let mut answer = ControlEffects::default();
        let changed = if pressed { self.held.insert(code) } else { self.held.remove(&code) };
        let commands = self.has_command_modifier();
        let text = text.filter(|text| pressed && !commands && !text.chars().any(char::is_control));
        match (key(code), text) {
            (Some(key), text) if pressed && !changed => {
                let text = text.unwrap_or_default().to_owned();
                answer.inputs.push(DeviceInput::KeyRepeat { key, text });
            }
            (key, text) => {
                let key = key.filter(|_| changed);
                let means = character.filter(|_| pressed && commands);
                let means = key.zip(means).map(|(key, character)| DeviceInput::KeyCharacter { key, character });
                answer.inputs.extend(means);
                answer.inputs.extend(key.map(|key| DeviceInput::Key { key, pressed }));
                answer.inputs.extend(text.map(|text| DeviceInput::Text(text.to_owned())));
            }
        }
        // Escape releases the mouse, so the server gets it only while the mouse is free.
        if code == KeyCode::Escape && self.pointer.captured {
            return ControlEffects { capture: pressed.then_some(false), ..ControlEffects::default() };
        }
        answer.paste = changed && pressed && self.is_paste_shortcut(code);
        answer
    }

    /// Returns whether keys are commands and type no text. The right Alt key is `AltGr` on many layouts, and types text with Control too.
    fn has_command_modifier(&self) -> bool {
        use KeyCode::{AltLeft, AltRight, ControlLeft, ControlRight, SuperLeft, SuperRight};
        let held = |code| self.held.contains(&code);
        // On macOS the left Alt key types further characters, as the right one does.
        let alt = held(AltLeft) && !cfg!(target_os = "macos");
        (alt || [ControlLeft, ControlRight, SuperLeft, SuperRight].into_iter().any(held)) && !held(AltRight)
    }

    /// Returns whether `code` completes the system's shortcut for pasting.
    fn is_paste_shortcut(&self, code: KeyCode) -> bool {
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

    /// Handles a mouse button. If the application wants the mouse captured (`captures`), the first click only captures it.
    pub fn on_button(&mut self, button: MouseButton, pressed: bool, captures: bool) -> ControlEffects {
        if pressed && captures && !self.pointer.captured {
            return ControlEffects { capture: Some(true), ..ControlEffects::default() };
        }
        let button = match button {
            MouseButton::Left => PointerButton::Primary,
            MouseButton::Middle => PointerButton::Auxiliary,
            MouseButton::Right => PointerButton::Secondary,
            MouseButton::Back => PointerButton::Back,
            MouseButton::Forward => PointerButton::Forward,
            MouseButton::Other(_) => return ControlEffects::default(),
        };
        let before = self.pointer.buttons;
        self.pointer.buttons = if pressed { before | button.bit() } else { before & !button.bit() };
        if self.pointer.buttons == before { ControlEffects::default() } else { self.point() }
    }

    /// Handles a turn of the wheel by this many pixels to the right and down.
    pub fn on_wheel(&mut self, right: f64, down: f64) -> ControlEffects {
        let units = f64::from(WHEEL_UNITS_PER_PIXEL);
        let distances = [right * units, down * units];
        for ((total, remainder), distance) in
            self.pointer.scrolled.iter_mut().zip(&mut self.remainders[2..]).zip(distances)
        {
            add_whole(total, remainder, distance);
        }
        self.point()
    }

    /// Handles a finger that touched, moved or was lifted.
    pub fn on_finger(&mut self, event: FingerEvent) -> ControlEffects {
        let turned = self.fingers.on_event(event);
        if let Some([left, up]) = turned {
            self.camera.turn(left, up);
        }
        ControlEffects {
            moved: turned.is_some(),
            ..ControlEffects::with_input(DeviceInput::Touches(self.fingers.touches()))
        }
    }

    /// Sets the gamepads' current state.
    pub fn on_gamepads(&mut self, gamepads: &[Gamepad]) -> ControlEffects {
        self.gamepad = gamepads.first().cloned();
        ControlEffects::with_input(DeviceInput::Gamepads(gamepads.to_vec()))
    }

    /// Sets the pointer's position, in fractions of the picture's width and height.
    pub fn on_cursor(&mut self, x: f32, y: f32) -> ControlEffects {
        self.pointer.at = ScreenPoint::new(x, y);
        if self.pointer.captured { ControlEffects::default() } else { self.point() }
    }

    /// Handles a movement of the mouse, in its own units.
    pub fn on_motion(&mut self, now: Time, right: f64, down: f64) -> ControlEffects {
        if !self.pointer.captured {
            return ControlEffects::default();
        }
        self.camera.turn(-right as f32 * MOUSE_SENSITIVITY, -down as f32 * MOUSE_SENSITIVITY);
        for ((total, remainder), distance) in
            self.pointer.moved.iter_mut().zip(&mut self.remainders[..2]).zip([right, down])
        {
            add_whole(total, remainder, distance);
        }
        // The next step reports movement that is not reported here.
        if now - self.reported_at < MIN_REPORT_INTERVAL { ControlEffects::default() } else { self.report(now) }
    }

    /// Sets whether the mouse is captured. On release its buttons count as released too.
    pub fn set_captured(&mut self, captured: bool) -> ControlEffects {
        self.pointer.captured = captured;
        if !captured {
            self.pointer.buttons = 0;
        }
        self.point()
    }

    /// Releases everything because the window has lost the keyboard focus.
    pub fn on_unfocused(&mut self) -> ControlEffects {
        self.held.clear();
        self.pointer.buttons = 0;
        self.fingers.release_all();
        self.gamepad = None;
        ControlEffects::with_input(DeviceInput::ReleaseAll)
    }

    /// Advances the walk to `now`. The pose is reported to the server even if it has not changed.
    pub fn on_step(&mut self, now: Time) -> ControlEffects {
        let span = now - self.stepped_at;
        self.stepped_at = now;
        let seconds = span.as_secs_f64() as f32;
        let turn = |axis| -self.stick(axis) * STICK_TURN_SPEED * seconds;
        let (left, up) = (turn(RIGHT_STICK_X), turn(RIGHT_STICK_Y));
        self.camera.turn(left, up);
        self.camera.walk(self.motion(), span);
        self.report(now)
    }

    fn report(&mut self, now: Time) -> ControlEffects {
        self.reported_at = now;
        ControlEffects { moved: true, ..self.point() }
    }

    fn point(&self) -> ControlEffects {
        ControlEffects::with_input(DeviceInput::Pointer(Some(self.pointer)))
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
        motion.right += self.stick(LEFT_STICK_X);
        motion.forward -= self.stick(LEFT_STICK_Y);
        if let Some(Gamepad { values, pressed, .. }) = &self.gamepad {
            let trigger =
                |button: usize| values.get(button).map_or(0.0, |value| f32::from(*value) / f32::from(u8::MAX));
            motion.up += trigger(RIGHT_TRIGGER) - trigger(LEFT_TRIGGER);
            motion.run |= pressed >> RUN_BUTTON & 1 == 1;
        }
        let unit = |value: f32| value.clamp(-1.0, 1.0);
        Motion { right: unit(motion.right), up: unit(motion.up), forward: unit(motion.forward), run: motion.run }
    }
}

impl Controls {
    /// Returns the deflection along a stick's axis, -1 to 1: zero in the dead zone, then rising quadratically.
    fn stick(&self, axis: usize) -> f32 {
        let value = self.gamepad.as_ref().and_then(|gamepad| gamepad.axes.get(axis)).copied().unwrap_or(0);
        let value = f32::from(value) / f32::from(i16::MAX);
        let size = (value.abs() - DEAD_ZONE).max(0.0) / (1.0 - DEAD_ZONE);
        value.signum() * size * size
    }
}

/// Adds `distance` to a total in whole units; the fraction is kept in `remainder`.
fn add_whole(total: &mut i32, remainder: &mut f64, distance: f64) {
    *remainder += distance;
    let whole = remainder.trunc();
    *remainder -= whole;
    *total = total.wrapping_add(whole as i32);
}

/// Converts a key of winit. Its names are W3C's codes, except for the keys with a logo.
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

    fn press(controls: &mut Controls, code: KeyCode, pressed: bool, text: Option<&str>) -> ControlEffects {
        controls.on_key(KeyPress { code, pressed, text, character: text.and_then(|text| text.chars().next()) })
    }

    fn pointer(answer: &ControlEffects) -> Pointer {
        let [.., DeviceInput::Pointer(Some(pointer))] = answer.inputs.as_slice() else { panic!("{answer:?}") };
        *pointer
    }

    #[test]
    fn the_first_click_only_catches_the_mouse() {
        let mut controls = controls();
        assert_eq!(controls.on_motion(Time::from_secs(1), 9.0, 9.0), ControlEffects::default());
        let catch = |catch| ControlEffects { capture: Some(catch), ..ControlEffects::default() };
        assert_eq!(controls.on_button(MouseButton::Left, true, true), catch(true));
        assert!(pointer(&controls.set_captured(true)).captured);
        assert_eq!(pointer(&controls.on_button(MouseButton::Left, true, true)).buttons, 1);
        assert_eq!(pointer(&controls.on_button(MouseButton::Right, true, true)).buttons, 5);
        assert_eq!(pointer(&controls.on_button(MouseButton::Left, false, true)).buttons, 4);
        assert_eq!(press(&mut controls, KeyCode::Escape, true, None), catch(false));
        let free = pointer(&controls.set_captured(false));
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
        assert_eq!(press(&mut controls, KeyCode::KeyF, true, Some("f")).inputs, [key(true), typed]);
        let repeated = DeviceInput::KeyRepeat { key: Key(0x7_0009), text: "f".into() };
        assert_eq!(press(&mut controls, KeyCode::KeyF, true, Some("f")).inputs, [repeated]);
        assert_eq!(press(&mut controls, KeyCode::KeyF, false, None).inputs, [key(false)]);
        press(&mut controls, KeyCode::KeyW, true, Some("w"));
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
        controls.set_captured(true);
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
        assert!(!press(&mut controls, KeyCode::KeyV, true, Some("v")).paste);
        press(&mut controls, KeyCode::KeyV, false, None);
        press(&mut controls, KeyCode::ControlLeft, true, None);
        let pressed = press(&mut controls, KeyCode::KeyV, true, Some("v"));
        assert_eq!(pressed.paste, !cfg!(target_os = "macos"));
        let key = Key::from_code("KeyV").expect("a key");
        let means = DeviceInput::KeyCharacter { key, character: 'v' };
        assert_eq!(pressed.inputs, [means, DeviceInput::Key { key, pressed: true }], "a command types nothing");
        assert!(!press(&mut controls, KeyCode::KeyV, true, Some("v")).paste, "the keyboard repeats");
        press(&mut controls, KeyCode::ShiftRight, true, None);
        assert!(press(&mut controls, KeyCode::Insert, true, None).paste);
    }

    #[test]
    fn keys_have_their_w3c_codes() {
        for (code, usage) in [(KeyCode::KeyA, 0x7_0004), (KeyCode::Digit0, 0x7_0027), (KeyCode::SuperLeft, 0x7_00e3)] {
            assert_eq!(key(code), Some(Key(usage)), "{code:?}");
        }
    }
}
