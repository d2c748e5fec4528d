//! Derives the events between two states of the devices, and the state after or before an event.

use super::{Devices, InputEvent, MAX_KEYS, MAX_TEXT_BYTES, MAX_TOUCHES, PointerButton, ScreenPoint, Touch};

impl Devices {
    /// Returns the events that lead from `before` to this state. Releases come first, because their slots may have been reused since.
    #[must_use]
    pub fn changes_from(&self, before: &Self) -> Vec<InputEvent> {
        let mut events = Vec::new();
        before.pressed_beyond(self, false, &mut events);
        self.pressed_beyond(before, true, &mut events);
        events
    }

    /// Makes this state the one after `event`. Positions stay.
    pub fn apply(&mut self, event: &InputEvent) {
        self.set_pressed_by(event, true);
    }

    /// Makes this state the one before `event`. Positions stay.
    pub fn revert(&mut self, event: &InputEvent) {
        self.set_pressed_by(event, false);
    }

    /// Sets what the event presses to down if it happens (`forwards`), and to up if it is undone; the reverse for releases.
    fn set_pressed_by(&mut self, event: &InputEvent, forwards: bool) {
        let set = |bits: u32, bit: u8, down: bool| if down { bits | 1 << bit } else { bits & !(1 << bit) };
        match *event {
            InputEvent::Key { key, pressed } => {
                self.keys.retain(|held| *held != key);
                if pressed == forwards && self.keys.len() < MAX_KEYS {
                    self.keys.push(key);
                }
            }
            InputEvent::Button { button, pressed, .. } => {
                if let Some(pointer) = &mut self.pointer {
                    let bit = button.bit();
                    pointer.buttons = if pressed == forwards { pointer.buttons | bit } else { pointer.buttons & !bit };
                }
            }
            InputEvent::TouchBegan { id, at } => self.set_touch(id, at, forwards),
            InputEvent::TouchEnded { id, at, .. } => self.set_touch(id, at, !forwards),
            InputEvent::GamepadButton { gamepad, button, pressed } => {
                let has =
                    |known: &&mut super::Gamepad| known.index == gamepad && usize::from(button) < known.values.len();
                if let Some(known) = self.gamepads.iter_mut().find(has) {
                    known.pressed = set(known.pressed, button, pressed == forwards);
                }
            }
            InputEvent::ControllerButton { hand, button, pressed } => {
                let has =
                    |known: &&mut super::Controller| known.hand == hand && usize::from(button) < known.values.len();
                if let Some(known) = self.controllers.iter_mut().find(has) {
                    known.pressed = set(known.pressed.into(), button, pressed == forwards) as u16;
                }
            }
            InputEvent::KeyRepeated { .. } | InputEvent::KeyCharacter { .. } | InputEvent::Text(_) => {}
        }
    }

    fn set_touch(&mut self, id: u32, at: ScreenPoint, down: bool) {
        let known = self.touches.iter().any(|touch| touch.id == id);
        if !down {
            self.touches.retain(|touch| touch.id != id);
        } else if !known && self.touches.len() < MAX_TOUCHES {
            self.touches.push(Touch { id, at, pressure: u8::MAX });
        }
    }

    /// Adds what is down here and not in `other`, as events with the given value of `pressed`.
    fn pressed_beyond(&self, other: &Self, pressed: bool, events: &mut Vec<InputEvent>) {
        let keys = self.keys.iter().filter(|key| !other.keys.contains(key));
        events.extend(keys.map(|key| InputEvent::Key { key: *key, pressed }));
        let buttons = |devices: &Self| devices.pointer.map_or(0, |pointer| pointer.buttons);
        // The event happened at the newer position.
        let newer = if pressed { self } else { other };
        let at = newer.pointer.or(self.pointer).map_or(ScreenPoint::default(), |pointer| pointer.at);
        for button in PointerButton::ALL {
            if buttons(self) & !buttons(other) & button.bit() != 0 {
                events.push(InputEvent::Button { button, pressed, at });
            }
        }
        for Touch { id, at, .. } in self.touches.iter().copied() {
            if other.touches.iter().all(|touch| touch.id != id) {
                let ended = InputEvent::TouchEnded { id, at, cancelled: false };
                events.push(if pressed { InputEvent::TouchBegan { id, at } } else { ended });
            }
        }
        for gamepad in &self.gamepads {
            let known = other.gamepads.iter().find(|known| known.index == gamepad.index);
            let more = gamepad.pressed & !known.map_or(0, |known| known.pressed);
            let gamepad = gamepad.index;
            events.extend(bits(more).map(|button| InputEvent::GamepadButton { gamepad, button, pressed }));
        }
        for controller in &self.controllers {
            let known = other.controllers.iter().find(|known| known.hand == controller.hand);
            let more = controller.pressed & !known.map_or(0, |known| known.pressed);
            let hand = controller.hand;
            events.extend(bits(more.into()).map(|button| InputEvent::ControllerButton { hand, button, pressed }));
        }
    }
}

impl InputEvent {
    /// Splits a text into events, each with as many characters as it takes.
    pub fn typed(mut text: &str) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let (head, rest) = text.split_at(text.floor_char_boundary(MAX_TEXT_BYTES));
            text = rest;
            (!head.is_empty()).then(|| Self::Text(head.to_owned()))
        })
    }
}

/// The indices of the bits that are set.
fn bits(set: u32) -> impl Iterator<Item = u8> {
    (0..32).filter(move |bit| set >> bit & 1 == 1)
}
