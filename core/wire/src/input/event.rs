//! Events that must not be lost: presses and releases, starts and ends of touches, typed text; and the repeats of held keys.

use super::device::{PointerButton, ScreenPoint};
use super::{Hand, Key};
use crate::WireError;
use crate::cursor::Reader;

/// Maximum number of events in a sample.
pub const MAX_INPUT_EVENTS: usize = 32;
/// Maximum bytes of the events in a sample, so that the largest sample fits a datagram.
pub const MAX_EVENT_BYTES: usize = 320;
/// Maximum bytes of UTF-8 in one event. A longer text is several events.
pub const MAX_TEXT_BYTES: usize = 32;

/// An event, repeated in every sample until the server acknowledges it. The server hands each out once, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputEvent {
    Key {
        key: Key,
        pressed: bool,
    },
    /// A key that is down is repeated by the user's system. The text that it types follows, as after a press.
    KeyRepeated {
        key: Key,
    },
    /// The character that the next press of a key means in the user's layout. It precedes presses that type no text because they are
    /// commands, such as Control and a letter.
    KeyCharacter {
        key: Key,
        character: char,
    },
    /// Text typed by keys or an input method, at most [`MAX_TEXT_BYTES`] and not empty. It is sent in addition to the keys' own events.
    Text(String),
    Button {
        button: PointerButton,
        pressed: bool,
        /// The pointer's position.
        at: ScreenPoint,
    },
    TouchBegan {
        id: u32,
        at: ScreenPoint,
    },
    TouchEnded {
        id: u32,
        at: ScreenPoint,
        /// Whether the system cancelled the touch, and the finger was not lifted.
        cancelled: bool,
    },
    GamepadButton {
        /// The gamepad's number.
        gamepad: u8,
        button: u8,
        pressed: bool,
    },
    ControllerButton {
        hand: Hand,
        button: u8,
        pressed: bool,
    },
}

/// Codes on the wire. The code of "pressed" in each pair is odd.
mod code {
    pub(super) const KEY: u8 = 0;
    pub(super) const BUTTON: u8 = 2;
    pub(super) const GAMEPAD: u8 = 4;
    pub(super) const CONTROLLER: u8 = 6;
    pub(super) const TEXT: u8 = 8;
    pub(super) const TOUCH_BEGAN: u8 = 9;
    pub(super) const TOUCH_ENDED: u8 = 10;
    pub(super) const TOUCH_CANCELLED: u8 = 11;
    pub(super) const KEY_REPEATED: u8 = 12;
    pub(super) const KEY_CHARACTER: u8 = 13;
}

impl InputEvent {
    /// Bytes that it takes in a sample.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        match self {
            Self::Key { .. } | Self::KeyRepeated { .. } => 4,
            Self::KeyCharacter { .. } => 8,
            Self::Text(text) => 2 + text.len(),
            Self::Button { .. } => 6,
            Self::TouchBegan { .. } | Self::TouchEnded { .. } => 9,
            Self::GamepadButton { .. } | Self::ControllerButton { .. } => 3,
        }
    }

    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Key { key, pressed } => {
                bytes.push(code::KEY + u8::from(*pressed));
                key.write(bytes);
            }
            Self::KeyRepeated { key } => {
                bytes.push(code::KEY_REPEATED);
                key.write(bytes);
            }
            Self::KeyCharacter { key, character } => {
                bytes.push(code::KEY_CHARACTER);
                key.write(bytes);
                bytes.extend_from_slice(&u32::from(*character).to_be_bytes());
            }
            Self::Text(text) => {
                debug_assert!((1..=MAX_TEXT_BYTES).contains(&text.len()));
                bytes.extend([code::TEXT, text.len() as u8]);
                bytes.extend_from_slice(text.as_bytes());
            }
            Self::Button { button, pressed, at } => {
                bytes.extend([code::BUTTON + u8::from(*pressed), *button as u8]);
                at.write(bytes);
            }
            Self::TouchBegan { id, at } => write_touch(code::TOUCH_BEGAN, *id, *at, bytes),
            Self::TouchEnded { id, at, cancelled: false } => write_touch(code::TOUCH_ENDED, *id, *at, bytes),
            Self::TouchEnded { id, at, cancelled: true } => write_touch(code::TOUCH_CANCELLED, *id, *at, bytes),
            Self::GamepadButton { gamepad, button, pressed } => {
                bytes.extend([code::GAMEPAD + u8::from(*pressed), *gamepad, *button]);
            }
            Self::ControllerButton { hand, button, pressed } => {
                bytes.extend([code::CONTROLLER + u8::from(*pressed), hand.code(), *button]);
            }
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let kind = reader.u8()?;
        let pressed = kind & 1 == 1;
        let base = kind & !1;
        Ok(match kind {
            code::TEXT => {
                let length = reader.count(1, MAX_TEXT_BYTES, "text")?;
                let text = std::str::from_utf8(reader.take(length)?).map_err(|_| WireError::Field("text"))?;
                Self::Text(text.to_owned())
            }
            code::KEY_REPEATED => Self::KeyRepeated { key: Key::read(reader)? },
            code::KEY_CHARACTER => {
                let key = Key::read(reader)?;
                let character = char::from_u32(reader.u32()?).filter(|character| !character.is_control());
                Self::KeyCharacter { key, character: character.ok_or(WireError::Field("character"))? }
            }
            code::TOUCH_BEGAN => Self::TouchBegan { id: reader.u32()?, at: ScreenPoint::read(reader)? },
            code::TOUCH_ENDED | code::TOUCH_CANCELLED => Self::TouchEnded {
                id: reader.u32()?,
                at: ScreenPoint::read(reader)?,
                cancelled: kind == code::TOUCH_CANCELLED,
            },
            _ if base == code::KEY => Self::Key { key: Key::read(reader)?, pressed },
            _ if base == code::BUTTON => {
                Self::Button { button: PointerButton::read(reader)?, pressed, at: ScreenPoint::read(reader)? }
            }
            _ if base == code::GAMEPAD => {
                let gamepad = reader.bounded(super::MAX_GAMEPADS, "gamepad")?;
                Self::GamepadButton { gamepad, button: reader.bounded(super::MAX_GAMEPAD_BUTTONS, "button")?, pressed }
            }
            _ if base == code::CONTROLLER => {
                let hand = Hand::read(reader)?;
                let button = reader.bounded(super::MAX_CONTROLLER_BUTTONS, "button")?;
                Self::ControllerButton { hand, button, pressed }
            }
            _ => return Err(WireError::Field("event")),
        })
    }
}

fn write_touch(code: u8, id: u32, at: ScreenPoint, bytes: &mut Vec<u8>) {
    bytes.push(code);
    bytes.extend_from_slice(&id.to_be_bytes());
    at.write(bytes);
}
