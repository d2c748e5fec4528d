//! Derives the events between two states of the devices.

use super::{Devices, InputEvent, MAX_TEXT_BYTES, PointerButton, ScreenPoint, Touch};

impl Devices {
    /// Returns the events that lead from `before` to this state. Releases come first, because their slots may have been reused since.
    #[must_use]
    pub fn changes_from(&self, before: &Self) -> Vec<InputEvent> {
        let mut events = Vec::new();
        before.pressed_beyond(self, false, &mut events);
        self.pressed_beyond(before, true, &mut events);
        events
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
