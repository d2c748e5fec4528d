//! The states of the four devices of the web client.

use nearlight_wire::Key;

use super::bytes::Reader;
use super::{InputError, four_letters};

const MOUSE: u32 = four_letters(*b"MOUS");
const KEYBOARD: u32 = four_letters(*b"KEYS");
const TOUCH: u32 = four_letters(*b"TOUC");
const GAMEPAD: u32 = four_letters(*b"GPAD");

/// Bits of [`MouseState::buttons`]. The web client never sets those for back and forward.
pub mod button {
    pub const LEFT: u16 = 1 << 0;
    pub const RIGHT: u16 = 1 << 1;
    pub const MIDDLE: u16 = 1 << 2;
}

/// Numbers of keys by position on the keyboard, as in Unity's `Key`.
pub mod key {
    pub const SPACE: u8 = 1;
    pub const A: u8 = 15;
    pub const C: u8 = 17;
    pub const D: u8 = 18;
    pub const E: u8 = 19;
    pub const F: u8 = 20;
    pub const Q: u8 = 31;
    pub const R: u8 = 32;
    pub const S: u8 = 33;
    pub const W: u8 = 37;
    pub const LEFT_SHIFT: u8 = 51;
    pub const RIGHT_SHIFT: u8 = 52;
    pub const LEFT_ARROW: u8 = 61;
    pub const RIGHT_ARROW: u8 = 62;
    pub const UP_ARROW: u8 = 63;
    pub const DOWN_ARROW: u8 = 64;
    /// The number of keys.
    pub const COUNT: u8 = 110;
    /// W3C codes of all but Unity's own last five keys, from number 1 on, in the order of Unity's `Key`.
    pub const CODES: [&str; 105] = [
        "Space",
        "Enter",
        "Tab",
        "Backquote",
        "Quote",
        "Semicolon",
        "Comma",
        "Period",
        "Slash",
        "Backslash",
        "BracketLeft",
        "BracketRight",
        "Minus",
        "Equal",
        "KeyA",
        "KeyB",
        "KeyC",
        "KeyD",
        "KeyE",
        "KeyF",
        "KeyG",
        "KeyH",
        "KeyI",
        "KeyJ",
        "KeyK",
        "KeyL",
        "KeyM",
        "KeyN",
        "KeyO",
        "KeyP",
        "KeyQ",
        "KeyR",
        "KeyS",
        "KeyT",
        "KeyU",
        "KeyV",
        "KeyW",
        "KeyX",
        "KeyY",
        "KeyZ",
        "Digit1",
        "Digit2",
        "Digit3",
        "Digit4",
        "Digit5",
        "Digit6",
        "Digit7",
        "Digit8",
        "Digit9",
        "Digit0",
        "ShiftLeft",
        "ShiftRight",
        "AltLeft",
        "AltRight",
        "ControlLeft",
        "ControlRight",
        "MetaLeft",
        "MetaRight",
        "ContextMenu",
        "Escape",
        "ArrowLeft",
        "ArrowRight",
        "ArrowUp",
        "ArrowDown",
        "Backspace",
        "PageDown",
        "PageUp",
        "Home",
        "End",
        "Insert",
        "Delete",
        "CapsLock",
        "NumLock",
        "PrintScreen",
        "ScrollLock",
        "Pause",
        "NumpadEnter",
        "NumpadDivide",
        "NumpadMultiply",
        "NumpadAdd",
        "NumpadSubtract",
        "NumpadDecimal",
        "NumpadEqual",
        "Numpad0",
        "Numpad1",
        "Numpad2",
        "Numpad3",
        "Numpad4",
        "Numpad5",
        "Numpad6",
        "Numpad7",
        "Numpad8",
        "Numpad9",
        "F1",
        "F2",
        "F3",
        "F4",
        "F5",
        "F6",
        "F7",
        "F8",
        "F9",
        "F10",
        "F11",
        "F12",
    ];

    /// The number of the key with this W3C code.
    pub fn number(code: &str) -> Option<u8> {
        CODES.iter().position(|known| *known == code).map(|place| place as u8 + 1)
    }
}

/// Bits of [`GamepadState::buttons`], as in Unity's `GamepadButton`.
pub mod pad {
    pub const NORTH: u32 = 1 << 4;
    pub const EAST: u32 = 1 << 5;
    pub const SOUTH: u32 = 1 << 6;
    pub const WEST: u32 = 1 << 7;
    pub const LEFT_STICK: u32 = 1 << 8;
    /// W3C numbers (Gamepad, "standard" mapping) of the buttons by their bits: the pad's four directions, the four letters, sticks,
    /// shoulders, start, select.
    pub const STANDARD: [u8; 14] = [12, 13, 14, 15, 3, 1, 0, 2, 10, 11, 4, 5, 9, 8];
}

/// A complete state of one device (of one finger, for a touch screen).
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    Mouse(MouseState),
    Keyboard(KeyboardState),
    Touch(TouchState),
    Gamepad(GamepadState),
    /// A format that is not needed here.
    Other(u32),
}

/// The state of a mouse, 30 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MouseState {
    /// Position in pixels of the picture, y up from its lower edge.
    pub position: [f32; 2],
    /// Movement since the last event, in pixels of the client's page, y up.
    pub delta: [f32; 2],
    pub scroll: [f32; 2],
    /// Bits of the pressed buttons: see [`button`].
    pub buttons: u16,
    pub display: u16,
    pub clicks: u16,
}

/// The state of a keyboard, 14 bytes: a bit for each key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyboardState {
    bits: [u8; Self::BYTES],
}

/// The state of one finger, 56 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TouchState {
    pub finger: i32,
    /// Position in pixels of the picture, y up from its lower edge.
    pub position: [f32; 2],
    pub delta: [f32; 2],
    pub pressure: f32,
    pub radius: [f32; 2],
    pub phase: TouchPhase,
    pub taps: u8,
    pub display: u8,
    pub flags: u8,
    /// Time in seconds by the client's clock.
    pub started_seconds: f64,
    pub started_position: [f32; 2],
}

/// The phase of a touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TouchPhase {
    None,
    Began,
    Moved,
    Ended,
    Canceled,
    Stationary,
}

/// The state of a gamepad, 28 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GamepadState {
    /// Bits of the pressed buttons: see [`pad`].
    pub buttons: u32,
    /// Each axis from -1 to 1, right and up positive.
    pub left_stick: [f32; 2],
    pub right_stick: [f32; 2],
    /// Travel of the trigger, 0 to 1.
    pub left_trigger: f32,
    pub right_trigger: f32,
}

impl State {
    /// Parses the format's four letters and the state. A longer state is from a later version, which appends fields.
    pub(super) fn parse(body: &[u8]) -> Result<Self, InputError> {
        let mut reader = Reader::new(body);
        Ok(match reader.u32()? {
            MOUSE => Self::Mouse(MouseState::read(&mut reader)?),
            KEYBOARD => Self::Keyboard(KeyboardState::read(&mut reader)?),
            TOUCH => Self::Touch(TouchState::read(&mut reader)?),
            GAMEPAD => Self::Gamepad(GamepadState::read(&mut reader)?),
            format => Self::Other(format),
        })
    }
}

impl MouseState {
    fn read(reader: &mut Reader<'_>) -> Result<Self, InputError> {
        Ok(Self {
            position: reader.pair()?,
            delta: reader.pair()?,
            scroll: reader.pair()?,
            buttons: reader.u16()?,
            display: reader.u16()?,
            clicks: reader.u16()?,
        })
    }
}

impl KeyboardState {
    const BYTES: usize = (key::COUNT as usize).div_ceil(8);

    fn read(reader: &mut Reader<'_>) -> Result<Self, InputError> {
        let mut bits = [0; Self::BYTES];
        bits.copy_from_slice(reader.take(Self::BYTES)?);
        Ok(Self { bits })
    }

    /// Whether the key is down. A number beyond [`key::COUNT`] never is.
    #[must_use]
    pub fn is_down(&self, key: u8) -> bool {
        key < key::COUNT && self.bits[usize::from(key / 8)] >> (key % 8) & 1 == 1
    }
}

impl TouchState {
    fn read(reader: &mut Reader<'_>) -> Result<Self, InputError> {
        let finger = reader.i32()?;
        let (position, delta, pressure, radius) = (reader.pair()?, reader.pair()?, reader.f32()?, reader.pair()?);
        let phase = match reader.u8()? {
            0 => TouchPhase::None,
            1 => TouchPhase::Began,
            2 => TouchPhase::Moved,
            3 => TouchPhase::Ended,
            4 => TouchPhase::Canceled,
            5 => TouchPhase::Stationary,
            _ => return Err(InputError::Field("touch phase")),
        };
        let (taps, display, flags) = (reader.u8()?, reader.u8()?, reader.u8()?);
        let _padding = reader.u32()?;
        let (started_seconds, started_position) = (reader.f64()?, reader.pair()?);
        Ok(Self {
            finger,
            position,
            delta,
            pressure,
            radius,
            phase,
            taps,
            display,
            flags,
            started_seconds,
            started_position,
        })
    }
}

impl KeyboardState {
    /// All keys that are down, by their position.
    pub(crate) fn down(&self) -> impl Iterator<Item = Key> + '_ {
        (1..).zip(key::CODES).filter(|(number, _)| self.is_down(*number)).filter_map(|(_, code)| Key::from_code(code))
    }
}

impl GamepadState {
    fn read(reader: &mut Reader<'_>) -> Result<Self, InputError> {
        Ok(Self {
            buttons: reader.u32()?,
            left_stick: reader.pair()?,
            right_stick: reader.pair()?,
            left_trigger: reader.f32()?,
            right_trigger: reader.f32()?,
        })
    }
}
