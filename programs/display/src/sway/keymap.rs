//! The keyboard map of a virtual keyboard, in XKB's text format (version 1).
//!
//! It is the layout `us` of the machine's XKB data, which compositors require anyway, with some symbols replaced: characters of other
//! layouts at their positions, and arbitrary characters on spare key codes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

use crate::input::keyboard::Keymap;

/// The smallest key code.
const FIRST_CODE: u8 = 8;
/// Spare key codes for text. `evdev` names them after their numbers.
const SPARE_CODES: RangeInclusive<u8> = 208..=240;
/// A symbol that types nothing (`XKB_KEY_VoidSymbol`).
const VOID_SYMBOL: u32 = 0x00ff_ffff;

/// Rows of keys in the layout `us`: the first key's code, and the characters without and with shift.
const CHARACTER_ROWS: [(u8, &str, &str); 6] = [
    (10, "1234567890-=", "!@#$%^&*()_+"),
    (24, "qwertyuiop[]", "QWERTYUIOP{}"),
    (38, "asdfghjkl;'`", "ASDFGHJKL:\"~"),
    (51, "\\zxcvbnm,./", "|ZXCVBNM<>?"),
    (65, " ", " "),
    (94, "<", ">"),
];
/// Keys whose symbols are not characters, or depend on num lock.
const OTHER_KEYS: [(u8, [u32; 2]); 18] = [
    // Backspace, tab, enter.
    (22, [0xff08; 2]),
    (23, [0xff09, 0xfe20]),
    (36, [0xff0d; 2]),
    // The number pad.
    (63, [0xffaa; 2]),
    (79, [0xff95, 0xffb7]),
    (80, [0xff97, 0xffb8]),
    (81, [0xff9a, 0xffb9]),
    (82, [0xffad; 2]),
    (83, [0xff96, 0xffb4]),
    (84, [0xff9d, 0xffb5]),
    (85, [0xff98, 0xffb6]),
    (86, [0xffab; 2]),
    (87, [0xff9c, 0xffb1]),
    (88, [0xff99, 0xffb2]),
    (89, [0xff9b, 0xffb3]),
    (90, [0xff9e, 0xffb0]),
    (91, [0xff9f, 0xffae]),
    (106, [0xffaf; 2]),
];

/// Returns the map without replacements.
pub(super) fn us() -> Keymap {
    let mut symbols = vec![[VOID_SYMBOL; 2]; usize::from(u8::MAX - FIRST_CODE) + 1];
    let mut set = |code: u8, pair: [u32; 2]| symbols[usize::from(code - FIRST_CODE)] = pair;
    for (first, plain, shifted) in CHARACTER_ROWS {
        for ((code, plain), shifted) in (first..).zip(plain.chars()).zip(shifted.chars()) {
            set(code, [plain.into(), shifted.into()]);
        }
    }
    for (code, pair) in OTHER_KEYS {
        set(code, pair);
    }
    for code in SPARE_CODES {
        set(code, [0; 2]);
    }
    Keymap::new(FIRST_CODE, 2, symbols.as_flattened())
}

/// The symbols that were replaced.
#[derive(Debug, Default)]
pub(super) struct ReplacedSymbols(BTreeMap<u8, [u32; 2]>);

impl ReplacedSymbols {
    /// Replaces the symbols of a key. Returns false if they cannot be replaced.
    pub(super) fn set(&mut self, code: u8, symbols: [u32; 2]) -> bool {
        name_of(code).is_some() && {
            self.0.insert(code, symbols);
            true
        }
    }

    /// Returns the complete map.
    pub(super) fn text(&self) -> String {
        let mut keys = String::new();
        for (code, symbols) in &self.0 {
            let Some(name) = name_of(*code) else { continue };
            let [plain, shifted] =
                symbols.map(|symbol| if symbol == 0 { "NoSymbol".into() } else { format!("{symbol:#x}") });
            let _ = writeln!(keys, "replace key <{name}> {{ [ {plain}, {shifted} ] }};");
        }
        format!(
            r#"xkb_keymap {{
xkb_keycodes {{ include "evdev+aliases(qwerty)" }};
xkb_types {{ include "complete" }};
xkb_compat {{ include "complete" }};
xkb_symbols {{ include "pc+us+inet(evdev)"
{keys}}};
}};
"#
        )
    }
}

/// Returns the name in XKB's `evdev` of a key that types a character; `None` for other keys.
fn name_of(code: u8) -> Option<String> {
    let at = |row: &str, first: u8| format!("{row}{:02}", code - first + 1);
    Some(match code {
        10..=21 => at("AE", 10),
        24..=35 => at("AD", 24),
        38..=48 => at("AC", 38),
        49 => "TLDE".into(),
        51 => "BKSL".into(),
        52..=61 => at("AB", 52),
        65 => "SPCE".into(),
        91 => "KPDL".into(),
        94 => "LSGT".into(),
        _ if SPARE_CODES.contains(&code) => format!("I{code}"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use nearlight_wire::Key;
    use nearlight_wire::key_codes::key_code;

    use super::*;
    use crate::input::keyboard::{Keyboard, Step};

    #[test]
    fn keys_have_the_names_of_their_places() {
        let code = |name| key_code(Key::from_code(name).expect(name)).expect(name);
        for (key, name) in [
            ("Digit1", "AE01"),
            ("Equal", "AE12"),
            ("KeyQ", "AD01"),
            ("KeyA", "AC01"),
            ("Semicolon", "AC10"),
            ("Backquote", "TLDE"),
            ("Backslash", "BKSL"),
            ("KeyZ", "AB01"),
            ("Slash", "AB10"),
            ("IntlBackslash", "LSGT"),
        ] {
            assert_eq!(name_of(code(key)).as_deref(), Some(name), "{key}");
        }
        assert_eq!(name_of(code("Enter")), None);
    }

    #[test]
    fn text_is_typed_by_its_keys_and_by_spare_codes() {
        let mut keyboard = Keyboard::new(us());
        let (mut steps, mut replaced) = (Vec::new(), ReplacedSymbols::default());
        keyboard.on_text("Az9?~\n", &mut steps);
        assert!(!steps.iter().any(|step| matches!(step, Step::Map { .. })), "the layout has all of them: {steps:?}");
        keyboard.on_text("漢🙂", &mut steps);
        for step in steps {
            if let Step::Map { code, symbols } = step {
                assert!(SPARE_CODES.contains(&code) && replaced.set(code, symbols), "{code}");
            }
        }
        let text = replaced.text();
        assert!(text.contains("{ [ 0x1006f22, 0x1006f22 ] };") && text.contains("0x101f642"), "{text}");
    }
}
