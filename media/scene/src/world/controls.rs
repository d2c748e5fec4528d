//! Maps a viewer's devices to actions in this world.
//!
//! The primary button, a gamepad's A and a controller's squeeze grab; the secondary button, B and the trigger push; the auxiliary button,
//! F, X and a controller's A throw; R and Y put everything back; the wheel moves what is held. A finger that taps pushes, one that rests
//! grabs. The client controls the view, so the inputs for walking and looking (keys, sticks, a thumb on the left half) are ignored here.

use std::collections::BTreeMap;

use nearlight_units::{Span, Time};
use nearlight_wire::{Hand, HapticsTarget, InputEvent, Key, Pointer, PointerButton, ScreenPoint};

use super::{Action, HandAction};
use crate::ViewerInput;

/// Pixels of a wheel notch, as browsers count it, and the largest number of notches in one input.
const NOTCH_PIXELS: f32 = 100.0;
const MAX_NOTCHES: f32 = 8.0;
/// Largest movement of a finger that taps or presses, as a share of the picture's width.
const MAX_TAP_MOVEMENT: f32 = 0.015;
/// Height of a typical picture as a share of its width.
const TYPICAL_HEIGHT: f32 = 9.0 / 16.0;
/// Longest touch that is a tap, and shortest touch that is a press. Guesses.
const MAX_TAP_TIME: Span = Span::from_millis(260);
const MIN_PRESS_TIME: Span = Span::from_millis(380);

/// Buttons of a gamepad's standard mapping, and their actions when they go down.
const GAMEPAD_GRAB: u8 = 0;
const GAMEPAD: [(u8, Action); 5] =
    [(GAMEPAD_GRAB, Action::Grab), (1, Action::Push), (2, Action::Throw), (3, Action::Reset), (4, Action::HandOver)];
/// Buttons of a controller (`xr-standard`), and their actions when they go down.
const CONTROLLER_GRAB: u8 = 1;
const CONTROLLER: [(u8, Action); 4] =
    [(0, Action::Push), (CONTROLLER_GRAB, Action::Grab), (4, Action::Throw), (5, Action::HandOver)];

#[derive(Debug)]
struct Finger {
    start: ScreenPoint,
    began_at: Time,
    /// Whether the client uses the finger for walking, so that it triggers no actions.
    walks: bool,
    moved: bool,
}

/// One viewer's devices.
#[derive(Debug, Default)]
pub struct Controls {
    pointer: Pointer,
    /// Whether the primary button holds something, or tried to.
    grabbing: bool,
    /// Notches of the wheel towards the user since the last whole one.
    turned: f32,
    fingers: BTreeMap<u32, Finger>,
    /// The finger whose press holds something.
    holding: Option<u32>,
}

impl Controls {
    /// Returns what the viewer did, in order.
    pub fn on_input(&mut self, now: Time, input: &ViewerInput) -> Vec<HandAction> {
        let mut acts = Vec::new();
        let pointer = input.devices.pointer.unwrap_or_default();
        for event in &input.events {
            self.on_event(now, event, pointer.captured, &mut acts);
        }
        for touch in &input.devices.touches {
            if let Some(finger) = self.fingers.get_mut(&touch.id) {
                finger.moved |= distance(touch.at, finger.start) > MAX_TAP_MOVEMENT;
            }
        }
        self.turn_wheel(pointer, &mut acts);
        acts
    }

    /// Returns the grab of a finger that has rested long enough, if there is one.
    pub fn on_time(&mut self, now: Time) -> Option<HandAction> {
        if self.holding.is_some() {
            return None;
        }
        let pressed =
            |finger: &Finger| !finger.walks && !finger.moved && now.saturating_since(finger.began_at) >= MIN_PRESS_TIME;
        let (id, _) = self.fingers.iter().find(|(_, finger)| pressed(finger))?;
        self.holding = Some(*id);
        Some(by_head(Action::Grab))
    }

    fn on_event(&mut self, now: Time, event: &InputEvent, captured: bool, acts: &mut Vec<HandAction>) {
        match event {
            InputEvent::Key { key, pressed: true } => acts.extend(by_key(*key)),
            // A click that only captures the pointer is not meant for the world.
            InputEvent::Button { button, pressed: true, .. } if captured => {
                let action = match button {
                    PointerButton::Primary => Action::Grab,
                    PointerButton::Auxiliary => Action::Throw,
                    PointerButton::Secondary => Action::Push,
                    PointerButton::Back | PointerButton::Forward => return,
                };
                if action == Action::Grab {
                    (self.grabbing, self.turned) = (true, 0.0);
                }
                acts.push(by_head(action));
            }
            InputEvent::Button { button: PointerButton::Primary, pressed: false, .. } => {
                if std::mem::take(&mut self.grabbing) {
                    acts.push(by_head(Action::Release));
                }
            }
            InputEvent::TouchBegan { id, at } => {
                let walks = at.x <= u16::MAX / 2 && self.fingers.values().all(|finger| !finger.walks);
                self.fingers.insert(*id, Finger { start: *at, began_at: now, walks, moved: false });
            }
            InputEvent::TouchEnded { id, at, cancelled } => {
                let Some(finger) = self.fingers.remove(id) else { return };
                let tapped = now.saturating_since(finger.began_at) < MAX_TAP_TIME
                    && distance(*at, finger.start) <= MAX_TAP_MOVEMENT;
                if self.holding == Some(*id) {
                    self.holding = None;
                    acts.push(by_head(Action::Release));
                } else if tapped && !finger.walks && !finger.moved && !cancelled {
                    acts.push(by_head(Action::Push));
                }
            }
            InputEvent::GamepadButton { gamepad, button, pressed } => {
                let shakes = Some(HapticsTarget::Gamepad(*gamepad));
                let action = action_of(&GAMEPAD, *button, *pressed, GAMEPAD_GRAB);
                acts.extend(action.map(|action| HandAction { shakes, ..by_head(action) }));
            }
            InputEvent::ControllerButton { hand, button, pressed } => {
                let shakes = Some(HapticsTarget::Controller(*hand));
                let action = action_of(&CONTROLLER, *button, *pressed, CONTROLLER_GRAB);
                acts.extend(action.map(|action| HandAction { hand: *hand, action, shakes }));
            }
            InputEvent::Key { .. }
            | InputEvent::KeyRepeated { .. }
            | InputEvent::KeyCharacter { .. }
            | InputEvent::Button { .. }
            | InputEvent::Text(_) => {}
        }
    }

    fn turn_wheel(&mut self, pointer: Pointer, acts: &mut Vec<HandAction>) {
        let (_, [_, down]) = pointer.since(&self.pointer);
        self.pointer = pointer;
        if !self.grabbing {
            return;
        }
        self.turned += (down / NOTCH_PIXELS).clamp(-MAX_NOTCHES, MAX_NOTCHES);
        let notches = self.turned.trunc();
        self.turned -= notches;
        let action = if notches > 0.0 { Action::Nearer } else { Action::Farther };
        acts.extend((0..notches.abs() as u8).map(|_| by_head(action)));
    }
}

const fn by_head(action: Action) -> HandAction {
    HandAction { hand: Hand::None, action, shakes: None }
}

fn by_key(key: Key) -> Option<HandAction> {
    match key.code()? {
        "KeyF" => Some(by_head(Action::Throw)),
        "KeyR" => Some(by_head(Action::Reset)),
        "KeyG" => Some(by_head(Action::HandOver)),
        _ => None,
    }
}

fn action_of(meanings: &[(u8, Action)], button: u8, pressed: bool, grab: u8) -> Option<Action> {
    if !pressed {
        return (button == grab).then_some(Action::Release);
    }
    meanings.iter().find(|(known, _)| *known == button).map(|(_, action)| *action)
}

/// Returns a distance in widths of the picture.
fn distance(one: ScreenPoint, other: ScreenPoint) -> f32 {
    let ([x, y], [from_x, from_y]) = (one.fractions(), other.fractions());
    (x - from_x).hypot((y - from_y) * TYPICAL_HEIGHT)
}

#[cfg(test)]
mod tests {
    use nearlight_wire::{Devices, Touch, WHEEL_UNITS_PER_PIXEL};

    use super::*;

    fn actions(acts: &[HandAction]) -> Vec<Action> {
        acts.iter().map(|act| act.action).collect()
    }

    fn input(devices: &Devices, before: &Devices) -> ViewerInput {
        ViewerInput { devices: devices.clone(), events: devices.changes_from(before), ..ViewerInput::default() }
    }

    /// Returns the actions that these successive states of the devices cause.
    fn story(states: &[Devices]) -> Vec<Action> {
        let (mut controls, mut before, mut acts) = (Controls::default(), Devices::default(), Vec::new());
        for devices in states {
            acts.extend(controls.on_input(Time::ZERO, &input(devices, &before)));
            before = devices.clone();
        }
        actions(&acts)
    }

    fn mouse(buttons: u8, notches: i32) -> Devices {
        let scrolled = [0, notches * 100 * WHEEL_UNITS_PER_PIXEL];
        Devices {
            pointer: Some(Pointer { captured: true, buttons, scrolled, ..Pointer::default() }),
            ..Devices::default()
        }
    }

    #[test]
    fn buttons_and_keys_act_once_when_they_go_down() {
        let key = |code: &str| Devices { keys: Key::from_code(code).into_iter().collect(), ..Devices::default() };
        let none = Devices::default;
        for (name, states, expected) in [
            ("left", vec![mouse(1, 0), mouse(1, 0), mouse(0, 0)], vec![Action::Grab, Action::Release]),
            ("right", vec![mouse(4, 0), mouse(0, 0)], vec![Action::Push]),
            ("middle", vec![mouse(2, 0)], vec![Action::Throw]),
            ("F, R, W", vec![key("KeyF"), none(), key("KeyR"), key("KeyW")], vec![Action::Throw, Action::Reset]),
            ("wheel with empty hands", vec![mouse(0, 3)], vec![]),
            (
                "wheel",
                vec![mouse(1, 3), mouse(1, 4), mouse(1, 2)],
                vec![
                    Action::Grab,
                    Action::Nearer,
                    Action::Nearer,
                    Action::Nearer,
                    Action::Nearer,
                    Action::Farther,
                    Action::Farther,
                ],
            ),
            (
                "a wheel gone mad",
                vec![mouse(1, 0), mouse(1, -1_000)],
                [vec![Action::Grab], vec![Action::Farther; 8]].concat(),
            ),
        ] {
            assert_eq!(story(&states), expected, "{name}");
        }
        let mut click = mouse(1, 0);
        click.pointer.as_mut().expect("a mouse").captured = false;
        assert_eq!(story(&[click, mouse(0, 0)]), [], "a click that captures");
    }

    #[test]
    fn devices_that_shake_are_named() {
        let mut controls = Controls::default();
        let event = InputEvent::ControllerButton { hand: Hand::Left, button: 1, pressed: true };
        let pad = InputEvent::GamepadButton { gamepad: 2, button: 2, pressed: true };
        let acts = controls.on_input(Time::ZERO, &ViewerInput { events: vec![event, pad], ..ViewerInput::default() });
        let by_hand =
            HandAction { hand: Hand::Left, action: Action::Grab, shakes: Some(HapticsTarget::Controller(Hand::Left)) };
        assert_eq!(acts, [by_hand, HandAction { shakes: Some(HapticsTarget::Gamepad(2)), ..by_head(Action::Throw) }]);
    }

    #[test]
    fn fingers_tap_and_hold_but_not_the_one_that_walks() {
        let finger = |id: u32, x: f32| Devices {
            touches: vec![Touch { id, at: ScreenPoint::new(x, 0.5), pressure: 255 }],
            ..Devices::default()
        };
        let none = Devices::default();
        let mut controls = Controls::default();
        let mut at = |millis: u64, devices: &Devices, before: &Devices| {
            let now = Time::from_millis(millis);
            let mut acts = controls.on_input(now, &input(devices, before));
            acts.extend(controls.on_time(now));
            actions(&acts)
        };
        let right = finger(1, 0.8);
        assert_eq!([at(0, &right, &none), at(100, &none, &right)], [vec![], vec![Action::Push]]);
        let left = finger(2, 0.2);
        assert_eq!([at(200, &left, &none), at(300, &none, &left)], [vec![], vec![]], "a stick");
        let (still, moved) = (finger(3, 0.8), finger(3, 0.7));
        assert_eq!(
            [at(1_000, &still, &none), at(1_050, &moved, &still), at(1_100, &none, &moved)],
            [vec![], vec![], vec![]],
            "a look"
        );
        let rests = finger(4, 0.8);
        assert_eq!([at(2_000, &rests, &none), at(2_379, &rests, &rests)], [vec![], vec![]]);
        assert_eq!([at(2_380, &rests, &rests), at(2_500, &none, &rests)], [vec![Action::Grab], vec![Action::Release]]);
    }
}
