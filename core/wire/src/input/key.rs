//! Keys by their position on the keyboard.

/// A key: the page of the USB HID usage tables in the upper 16 bits (7 keyboard, 12 consumer), the usage in the lower ones.
///
/// It names a position, whatever is printed there: `KeyA` is the key next to caps lock on every layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u32);

/// HID usage page of keyboards.
const KEYBOARD: u32 = 7 << 16;
const FIRST_MODIFIER: u32 = KEYBOARD | 0xe0;
const LAST_MODIFIER: u32 = KEYBOARD | 0xe7;
/// HID usage page of media keys.
const CONSUMER: u32 = 12 << 16;

/// W3C `KeyboardEvent.code` values and their usages: "UI Events `KeyboardEvent` code Values" (W3C), HID Usage Tables 1.5 sections 10 and 15.
const CODES: &[(&str, u32)] = &[
    ("KeyA", KEYBOARD | 0x04),
    ("KeyB", KEYBOARD | 0x05),
    ("KeyC", KEYBOARD | 0x06),
    ("KeyD", KEYBOARD | 0x07),
    ("KeyE", KEYBOARD | 0x08),
    ("KeyF", KEYBOARD | 0x09),
    ("KeyG", KEYBOARD | 0x0a),
    ("KeyH", KEYBOARD | 0x0b),
    ("KeyI", KEYBOARD | 0x0c),
    ("KeyJ", KEYBOARD | 0x0d),
    ("KeyK", KEYBOARD | 0x0e),
    ("KeyL", KEYBOARD | 0x0f),
    ("KeyM", KEYBOARD | 0x10),
    ("KeyN", KEYBOARD | 0x11),
    ("KeyO", KEYBOARD | 0x12),
    ("KeyP", KEYBOARD | 0x13),
    ("KeyQ", KEYBOARD | 0x14),
    ("KeyR", KEYBOARD | 0x15),
    ("KeyS", KEYBOARD | 0x16),
    ("KeyT", KEYBOARD | 0x17),
    ("KeyU", KEYBOARD | 0x18),
    ("KeyV", KEYBOARD | 0x19),
    ("KeyW", KEYBOARD | 0x1a),
    ("KeyX", KEYBOARD | 0x1b),
    ("KeyY", KEYBOARD | 0x1c),
    ("KeyZ", KEYBOARD | 0x1d),
    ("Digit1", KEYBOARD | 0x1e),
    ("Digit2", KEYBOARD | 0x1f),
    ("Digit3", KEYBOARD | 0x20),
    ("Digit4", KEYBOARD | 0x21),
    ("Digit5", KEYBOARD | 0x22),
    ("Digit6", KEYBOARD | 0x23),
    ("Digit7", KEYBOARD | 0x24),
    ("Digit8", KEYBOARD | 0x25),
    ("Digit9", KEYBOARD | 0x26),
    ("Digit0", KEYBOARD | 0x27),
    ("Enter", KEYBOARD | 0x28),
    ("Escape", KEYBOARD | 0x29),
    ("Backspace", KEYBOARD | 0x2a),
    ("Tab", KEYBOARD | 0x2b),
    ("Space", KEYBOARD | 0x2c),
    ("Minus", KEYBOARD | 0x2d),
    ("Equal", KEYBOARD | 0x2e),
    ("BracketLeft", KEYBOARD | 0x2f),
    ("BracketRight", KEYBOARD | 0x30),
    ("Backslash", KEYBOARD | 0x31),
    ("Semicolon", KEYBOARD | 0x33),
    ("Quote", KEYBOARD | 0x34),
    ("Backquote", KEYBOARD | 0x35),
    ("Comma", KEYBOARD | 0x36),
    ("Period", KEYBOARD | 0x37),
    ("Slash", KEYBOARD | 0x38),
    ("CapsLock", KEYBOARD | 0x39),
    ("F1", KEYBOARD | 0x3a),
    ("F2", KEYBOARD | 0x3b),
    ("F3", KEYBOARD | 0x3c),
    ("F4", KEYBOARD | 0x3d),
    ("F5", KEYBOARD | 0x3e),
    ("F6", KEYBOARD | 0x3f),
    ("F7", KEYBOARD | 0x40),
    ("F8", KEYBOARD | 0x41),
    ("F9", KEYBOARD | 0x42),
    ("F10", KEYBOARD | 0x43),
    ("F11", KEYBOARD | 0x44),
    ("F12", KEYBOARD | 0x45),
    ("PrintScreen", KEYBOARD | 0x46),
    ("ScrollLock", KEYBOARD | 0x47),
    ("Pause", KEYBOARD | 0x48),
    ("Insert", KEYBOARD | 0x49),
    ("Home", KEYBOARD | 0x4a),
    ("PageUp", KEYBOARD | 0x4b),
    ("Delete", KEYBOARD | 0x4c),
    ("End", KEYBOARD | 0x4d),
    ("PageDown", KEYBOARD | 0x4e),
    ("ArrowRight", KEYBOARD | 0x4f),
    ("ArrowLeft", KEYBOARD | 0x50),
    ("ArrowDown", KEYBOARD | 0x51),
    ("ArrowUp", KEYBOARD | 0x52),
    ("NumLock", KEYBOARD | 0x53),
    ("NumpadDivide", KEYBOARD | 0x54),
    ("NumpadMultiply", KEYBOARD | 0x55),
    ("NumpadSubtract", KEYBOARD | 0x56),
    ("NumpadAdd", KEYBOARD | 0x57),
    ("NumpadEnter", KEYBOARD | 0x58),
    ("Numpad1", KEYBOARD | 0x59),
    ("Numpad2", KEYBOARD | 0x5a),
    ("Numpad3", KEYBOARD | 0x5b),
    ("Numpad4", KEYBOARD | 0x5c),
    ("Numpad5", KEYBOARD | 0x5d),
    ("Numpad6", KEYBOARD | 0x5e),
    ("Numpad7", KEYBOARD | 0x5f),
    ("Numpad8", KEYBOARD | 0x60),
    ("Numpad9", KEYBOARD | 0x61),
    ("Numpad0", KEYBOARD | 0x62),
    ("NumpadDecimal", KEYBOARD | 0x63),
    ("IntlBackslash", KEYBOARD | 0x64),
    ("ContextMenu", KEYBOARD | 0x65),
    ("Power", KEYBOARD | 0x66),
    ("NumpadEqual", KEYBOARD | 0x67),
    ("F13", KEYBOARD | 0x68),
    ("F14", KEYBOARD | 0x69),
    ("F15", KEYBOARD | 0x6a),
    ("F16", KEYBOARD | 0x6b),
    ("F17", KEYBOARD | 0x6c),
    ("F18", KEYBOARD | 0x6d),
    ("F19", KEYBOARD | 0x6e),
    ("F20", KEYBOARD | 0x6f),
    ("F21", KEYBOARD | 0x70),
    ("F22", KEYBOARD | 0x71),
    ("F23", KEYBOARD | 0x72),
    ("F24", KEYBOARD | 0x73),
    ("AudioVolumeMute", KEYBOARD | 0x7f),
    ("AudioVolumeUp", KEYBOARD | 0x80),
    ("AudioVolumeDown", KEYBOARD | 0x81),
    ("NumpadComma", KEYBOARD | 0x85),
    ("IntlRo", KEYBOARD | 0x87),
    ("KanaMode", KEYBOARD | 0x88),
    ("IntlYen", KEYBOARD | 0x89),
    ("Convert", KEYBOARD | 0x8a),
    ("NonConvert", KEYBOARD | 0x8b),
    ("Lang1", KEYBOARD | 0x90),
    ("Lang2", KEYBOARD | 0x91),
    ("ControlLeft", KEYBOARD | 0xe0),
    ("ShiftLeft", KEYBOARD | 0xe1),
    ("AltLeft", KEYBOARD | 0xe2),
    ("MetaLeft", KEYBOARD | 0xe3),
    ("ControlRight", KEYBOARD | 0xe4),
    ("ShiftRight", KEYBOARD | 0xe5),
    ("AltRight", KEYBOARD | 0xe6),
    ("MetaRight", KEYBOARD | 0xe7),
    ("MediaTrackNext", CONSUMER | 0xb5),
    ("MediaTrackPrevious", CONSUMER | 0xb6),
    ("MediaStop", CONSUMER | 0xb7),
    ("MediaPlayPause", CONSUMER | 0xcd),
    ("BrowserSearch", CONSUMER | 0x221),
    ("BrowserHome", CONSUMER | 0x223),
    ("BrowserBack", CONSUMER | 0x224),
    ("BrowserForward", CONSUMER | 0x225),
    ("BrowserRefresh", CONSUMER | 0x227),
];

impl Key {
    /// Returns the key of a W3C `KeyboardEvent.code`. None for a code without a usage.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        CODES.iter().find(|(name, _)| *name == code).map(|(_, usage)| Self(*usage))
    }

    /// The key's W3C `KeyboardEvent.code`, if it has one.
    #[must_use]
    pub fn code(self) -> Option<&'static str> {
        CODES.iter().find(|(_, usage)| *usage == self.0).map(|(name, _)| *name)
    }

    /// Whether this is a modifier: Control, Shift, Alt or the system's key (HID usages 0xe0 to 0xe7).
    #[must_use]
    pub const fn is_modifier(self) -> bool {
        matches!(self.0, FIRST_MODIFIER..=LAST_MODIFIER)
    }

    /// Whether this is the key of that W3C code.
    #[must_use]
    pub fn is(self, code: &str) -> bool {
        self.code() == Some(code)
    }
}
