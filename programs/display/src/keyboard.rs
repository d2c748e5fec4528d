//! Translates keys by position, and typed text, into key codes and key symbols of the display.
//!
//! A key is pressed by its position, for programs such as games that use positions. The viewer's layout determines the character that it
//! types: if the display's layout differs, the display's map is changed at that position before the key is pressed. Text without a key, as
//! input methods and on-screen keyboards send it, is typed on the display's own keys if they have the character, and otherwise on spare key
//! codes to which it is assigned.

use std::collections::{BTreeMap, VecDeque};

use nearlight_wire::Key;
use nearlight_wire::key_codes::{EVDEV_OFFSET, key_code, keys};

const CAPS_LOCK: u8 = 58 + EVDEV_OFFSET;
const NUM_LOCK: u8 = 69 + EVDEV_OFFSET;
const LEFT_SHIFT: u8 = 42 + EVDEV_OFFSET;
const SHIFT_KEYS: [u8; 2] = [LEFT_SHIFT, 54 + EVDEV_OFFSET];
/// Control, Alt and the system key, on both sides.
const COMMAND_KEYS: [u8; 6] = [
    29 + EVDEV_OFFSET,
    56 + EVDEV_OFFSET,
    125 + EVDEV_OFFSET,
    97 + EVDEV_OFFSET,
    100 + EVDEV_OFFSET,
    126 + EVDEV_OFFSET,
];

/// X's symbol of a character above Latin-1 is its code point plus this (`keysymdef.h`).
const UNICODE_BASE: u32 = 0x0100_0000;
const RETURN: u32 = 0xff0d;
const TAB: u32 = 0xff09;
const BACKSPACE: u32 = 0xff08;
/// X's symbol of a character on the number pad is its code plus this (`keysymdef.h`).
const NUMBER_PAD_BASE: u32 = 0xff80;

/// Returns the symbol that types a character; `None` for most control characters.
fn symbol_of(character: char) -> Option<u32> {
    match (character, u32::from(character)) {
        ('\n' | '\r', _) => Some(RETURN),
        ('\t', _) => Some(TAB),
        ('\u{8}', _) => Some(BACKSPACE),
        (_, code @ (0x20..=0x7e | 0xa0..=0xff)) => Some(code),
        (_, code) if code >= 0x100 => Some(UNICODE_BASE | code),
        _ => None,
    }
}

/// Returns the character that a symbol types.
fn character_of(symbol: u32) -> Option<char> {
    match symbol {
        0x20..=0x7e | 0xa0..=0xff => char::from_u32(symbol),
        0xffaa..=0xffb9 => char::from_u32(symbol - NUMBER_PAD_BASE),
        _ if symbol & 0xff00_0000 == UNICODE_BASE => char::from_u32(symbol & 0x00ff_ffff),
        _ => None,
    }
}

/// A step of typing on the display's keyboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key {
        code: u8,
        pressed: bool,
    },
    /// Assigns symbols to a key code, without and with shift.
    Map {
        code: u8,
        symbols: [u32; 2],
    },
    /// Waits until programs have read the new map.
    Settle,
}

/// A keyboard map: the symbols of each key code without and with shift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keymap {
    first: u8,
    symbols: Vec<[u32; 2]>,
}

impl Keymap {
    /// Creates a map from X's reply, which has `each` symbols for each key code from `first`.
    pub(crate) fn new(first: u8, each: u8, symbols: &[u32]) -> Self {
        let row = |row: &[u32]| {
            let base = row.first().copied().unwrap_or(0);
            let shifted = row.get(1).copied().filter(|symbol| *symbol != 0);
            [base, shifted.or_else(|| upper_of(base)).unwrap_or(base)]
        };
        Self { first, symbols: symbols.chunks(usize::from(each.max(1))).map(row).collect() }
    }

    fn symbols(&self, code: u8) -> [u32; 2] {
        code.checked_sub(self.first).and_then(|index| self.symbols.get(usize::from(index))).copied().unwrap_or_default()
    }

    fn set(&mut self, code: u8, symbols: [u32; 2]) {
        if let Some(row) = code.checked_sub(self.first).and_then(|index| self.symbols.get_mut(usize::from(index))) {
            *row = symbols;
        }
    }

    /// Returns the key codes and their symbols, in order.
    fn codes(&self) -> impl Iterator<Item = (u8, [u32; 2])> {
        (self.first..=u8::MAX).zip(self.symbols.iter().copied())
    }
}

fn upper_of(symbol: u32) -> Option<u32> {
    let character = character_of(symbol)?;
    let mut upper = character.to_uppercase();
    let first = upper.next().filter(|first| *first != character && upper.len() == 0)?;
    symbol_of(first)
}

/// A key that is down.
#[derive(Clone, Debug)]
struct HeldKey {
    /// The pressed key code; `None` if the key's text was typed in another way.
    code: Option<u8>,
    text: Option<String>,
}

/// State of the display's keyboard.
#[derive(Clone, Debug)]
pub(crate) struct Keyboard {
    original: Keymap,
    map: Keymap,
    /// Spare key codes, least recently used first.
    spares: VecDeque<u8>,
    held: BTreeMap<Key, HeldKey>,
    caps_lock: bool,
    num_lock: bool,
}

impl Keyboard {
    pub(crate) fn new(map: Keymap) -> Self {
        let is_key = |code: u8| keys().any(|key| key_code(key) == Some(code));
        let spares =
            map.codes().filter(|(code, symbols)| *symbols == [0, 0] && !is_key(*code)).map(|(code, _)| code).collect();
        Self { original: map.clone(), map, spares, held: BTreeMap::new(), caps_lock: false, num_lock: false }
    }

    /// Presses a key. `text` is the text that it types, if any.
    pub(crate) fn press(&mut self, key: Key, text: Option<&str>, steps: &mut Vec<Step>) {
        if self.held.contains_key(&key) {
            return;
        }
        let code = key_code(key);
        let typed = |text: &str, keyboard: &mut Self, steps: &mut Vec<Step>| {
            keyboard.type_text(text, steps);
            None
        };
        let code = match (code, text) {
            (Some(code), None) => {
                self.on_lock(code);
                Some(code)
            }
            (code, Some(text)) => {
                let mut characters = text.chars();
                match (code, characters.next(), characters.next()) {
                    (Some(code), Some(character), None) if !self.holds(&COMMAND_KEYS) => {
                        if self.map_key(code, character, steps) { Some(code) } else { typed(text, self, steps) }
                    }
                    _ => typed(text, self, steps),
                }
            }
            (None, None) => return,
        };
        if let Some(code) = code {
            steps.push(Step::Key { code, pressed: true });
        }
        self.held.insert(key, HeldKey { code, text: text.map(str::to_owned) });
    }

    pub(crate) fn release(&mut self, key: Key, steps: &mut Vec<Step>) {
        if let Some(HeldKey { code: Some(code), .. }) = self.held.remove(&key) {
            steps.push(Step::Key { code, pressed: false });
        }
    }

    /// Types text that does not belong to a key that has just gone down.
    pub(crate) fn on_text(&mut self, text: &str, steps: &mut Vec<Step>) {
        // The display repeats held keys by itself.
        let repeats = |held: &HeldKey| held.code.is_some() && held.text.as_deref() == Some(text);
        if !self.held.values().any(repeats) {
            self.type_text(text, steps);
        }
    }

    /// Releases all keys except these.
    pub(crate) fn keep_only(&mut self, keys: &[Key], steps: &mut Vec<Step>) {
        let gone: Vec<Key> = self.held.keys().filter(|key| !keys.contains(key)).copied().collect();
        for key in gone {
            self.release(key, steps);
        }
    }

    /// Releases all keys and restores the display's original map.
    pub(crate) fn restore(&mut self, steps: &mut Vec<Step>) {
        self.keep_only(&[], steps);
        for (code, symbols) in self.original.codes() {
            if self.map.symbols(code) != symbols {
                steps.push(Step::Map { code, symbols });
            }
        }
        self.map = self.original.clone();
    }

    fn holds(&self, codes: &[u8]) -> bool {
        self.held.values().any(|held| held.code.is_some_and(|code| codes.contains(&code)))
    }

    fn on_lock(&mut self, code: u8) {
        self.caps_lock ^= code == CAPS_LOCK;
        self.num_lock ^= code == NUM_LOCK;
    }

    /// Returns the character that a key types with the current modifiers and locks.
    fn typed_character(&self, code: u8) -> Option<char> {
        let symbols = self.map.symbols(code);
        let base = character_of(symbols[0]);
        let shifted = self.holds(&SHIFT_KEYS);
        if is_number_pad(symbols) {
            return if self.num_lock == shifted { None } else { character_of(symbols[1]) };
        }
        let lock = self.caps_lock && base.is_some_and(char::is_alphabetic);
        character_of(symbols[usize::from(shifted != lock)])
    }

    /// Makes the key type this character when it is pressed. Returns false if no symbol types it.
    fn map_key(&mut self, code: u8, character: char, steps: &mut Vec<Step>) -> bool {
        if self.typed_character(code) == Some(character) {
            return true;
        }
        let Some(symbol) = symbol_of(character) else { return false };
        let symbols = self.map.symbols(code);
        if is_number_pad(symbols) && character_of(symbols[1]) == Some(character) {
            // The state of the viewer's num lock differs.
            self.tap(NUM_LOCK, steps);
            return true;
        }
        self.caps_lock = !self.caps_lock;
        if character.is_alphabetic() && self.typed_character(code) == Some(character) {
            self.caps_lock = !self.caps_lock;
            self.tap(CAPS_LOCK, steps);
            return true;
        }
        self.caps_lock = !self.caps_lock;
        let shifted = self.holds(&SHIFT_KEYS);
        let symbols = match (shifted, self.caps_lock && character.is_alphabetic()) {
            (false, false) => [symbol, upper_of(symbol).unwrap_or(symbols[1])],
            (true, false) => [symbols[0], symbol],
            // With caps lock on, it depends on the program which symbol it uses, so both are assigned.
            _ => [symbol; 2],
        };
        self.assign(code, symbols, steps);
        steps.push(Step::Settle);
        true
    }

    fn tap(&mut self, code: u8, steps: &mut Vec<Step>) {
        self.on_lock(code);
        steps.extend([true, false].map(|pressed| Step::Key { code, pressed }));
    }

    fn assign(&mut self, code: u8, symbols: [u32; 2], steps: &mut Vec<Step>) {
        self.map.set(code, symbols);
        steps.push(Step::Map { code, symbols });
    }

    fn type_text(&mut self, text: &str, steps: &mut Vec<Step>) {
        let symbols: Vec<u32> = text.chars().filter_map(symbol_of).collect();
        // Modifiers are released, or the text would be taken for commands.
        let held: Vec<u8> = self
            .held
            .values()
            .filter_map(|held| held.code)
            .filter(|code| COMMAND_KEYS.contains(code) || SHIFT_KEYS.contains(code))
            .collect();
        steps.extend(held.iter().map(|code| Step::Key { code: *code, pressed: false }));
        // Symbols are assigned in batches of the spare codes, so that programs read the map once per batch.
        for batch in symbols.chunks(self.spares.len().max(1)) {
            let mut assigned = false;
            let keys: Vec<(u8, bool)> =
                batch.iter().filter_map(|symbol| self.find_code(*symbol, &mut assigned, steps)).collect();
            if assigned {
                steps.push(Step::Settle);
            }
            for (code, shift) in keys {
                let mut press = |code, pressed| steps.push(Step::Key { code, pressed });
                if shift {
                    press(LEFT_SHIFT, true);
                }
                press(code, true);
                press(code, false);
                if shift {
                    press(LEFT_SHIFT, false);
                }
            }
        }
        steps.extend(held.iter().map(|code| Step::Key { code: *code, pressed: true }));
    }

    /// Returns a key code that has the symbol, and whether it requires shift. If there is none, assigns the symbol to a spare code.
    fn find_code(&mut self, symbol: u32, assigned: &mut bool, steps: &mut Vec<Step>) -> Option<(u8, bool)> {
        if let Some(index) = self.spares.iter().position(|code| self.map.symbols(*code) == [symbol; 2]) {
            let code = self.spares.remove(index)?;
            self.spares.push_back(code);
            return Some((code, false));
        }
        let down = |code: u8| self.held.values().any(|held| held.code == Some(code));
        let own = self.map.codes().find_map(|(code, symbols)| {
            let level = symbols.iter().position(|found| *found == symbol)?;
            (!down(code) && !self.spares.contains(&code) && !is_number_pad(symbols)).then_some((code, level))
        });
        if let Some((code, level)) = own {
            let lock = self.caps_lock && character_of(symbol).is_some_and(char::is_alphabetic);
            return Some((code, (level == 1) != lock));
        }
        let code = self.spares.pop_front()?;
        self.spares.push_back(code);
        self.assign(code, [symbol; 2], steps);
        *assigned = true;
        Some((code, false))
    }
}

/// Returns whether num lock determines what the key types.
fn is_number_pad(symbols: [u32; 2]) -> bool {
    (0xffaa..=0xffb9).contains(&symbols[1]) && symbols[0] != symbols[1]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part of the map that Xvfb has: letters, digits, some signs, a key of the number pad, and three spare key codes.
    fn keyboard() -> Keyboard {
        let mut symbols = vec![0; 248 * 2];
        let mut set = |code: &str, pair: [u32; 2]| {
            let code = key_code(Key::from_code(code).expect(code)).expect("has a code");
            symbols[usize::from(code - 8) * 2..][..2].copy_from_slice(&pair);
        };
        for letter in 'a'..='z' {
            set(&format!("Key{}", letter.to_ascii_uppercase()), [u32::from(letter), 0]);
        }
        set("Digit1", [0x31, 0x21]);
        set("Semicolon", [0x3b, 0x3a]);
        set("Space", [0x20, 0]);
        set("ShiftLeft", [0xffe1, 0]);
        set("ControlLeft", [0xffe3, 0]);
        set("AltRight", [0xffea, 0]);
        set("CapsLock", [0xffe5, 0]);
        set("NumLock", [0xff7f, 0]);
        set("Enter", [RETURN, 0]);
        set("Numpad7", [0xff95, 0xffb7]);
        for code in 8..=255_u8 {
            if ![92, 120, 128].contains(&code) && symbols[usize::from(code - 8) * 2] == 0 {
                symbols[usize::from(code - 8) * 2] = 0x1008_ff00;
            }
        }
        Keyboard::new(Keymap::new(8, 2, &symbols))
    }

    fn key(code: &str) -> Key {
        Key::from_code(code).expect(code)
    }

    /// What programs get to read: characters by the map at that moment, other keys in angle brackets, `^` before what is released.
    struct Program {
        map: Keymap,
        down: Vec<u8>,
        caps: bool,
        num: bool,
        read: String,
    }

    fn read(keyboard: &Keyboard, steps: &[Step]) -> String {
        let (map, down) = (keyboard.original.clone(), Vec::new());
        let mut program = Program { map, down, caps: false, num: false, read: String::new() };
        for step in steps {
            program.on_step(*step);
        }
        assert!(program.down.is_empty(), "left down: {:?}", program.down);
        program.read
    }

    impl Program {
        fn on_step(&mut self, step: Step) {
            match step {
                Step::Settle => {}
                Step::Map { code, symbols } => self.map.set(code, symbols),
                Step::Key { code, pressed: false } => self.down.retain(|down| *down != code),
                Step::Key { code, pressed: true } => {
                    self.caps ^= code == CAPS_LOCK;
                    self.num ^= code == NUM_LOCK;
                    let shift = self.down.iter().any(|down| SHIFT_KEYS.contains(down));
                    self.down.push(code);
                    let symbols = self.map.symbols(code);
                    let lock = self.caps
                        && character_of(symbols[0]).is_some_and(char::is_alphabetic)
                        && symbols[0] != symbols[1];
                    let level = if is_number_pad(symbols) { self.num != shift } else { shift != lock };
                    match symbols[usize::from(level)] {
                        RETURN => self.read.push('\n'),
                        symbol => self.read.extend(character_of(symbol)),
                    }
                }
            }
        }
    }

    /// Types keys, each with the text that the viewer's layout makes of it.
    fn type_keys(keys: &[(&str, Option<&str>)]) -> (String, usize) {
        let mut keyboard = keyboard();
        let mut steps = Vec::new();
        for (code, text) in keys {
            let (code, down) = code.split_once(' ').unwrap_or((code, "tap"));
            if down != "up" {
                keyboard.press(key(code), *text, &mut steps);
            }
            if down != "down" {
                keyboard.release(key(code), &mut steps);
            }
        }
        let waits = steps.iter().filter(|step| **step == Step::Settle).count();
        (read(&keyboard, &steps), waits)
    }

    /// Keys with their texts, what is read, and how often programs get time for a new map.
    type Case<'a> = (&'a str, &'a [(&'a str, Option<&'a str>)], &'a str, usize);

    #[test]
    fn keys_type_what_the_viewer_s_layout_makes_of_them() {
        let shift = ("ShiftLeft down", None);
        let unshift = ("ShiftLeft up", None);
        let cases: &[Case<'_>] = &[
            (
                "the display's own layout",
                &[("KeyA", Some("a")), shift, ("KeyA", Some("A")), ("Digit1", Some("!")), unshift],
                "aA!",
                0,
            ),
            ("French, twice", &[("KeyQ", Some("a")), ("KeyQ", Some("a")), ("KeyA", Some("q"))], "aaq", 2),
            ("Spanish", &[("Semicolon", Some("ñ")), shift, ("Semicolon", Some("Ñ")), unshift], "ñÑ", 1),
            (
                "digits with shift",
                &[("Digit1", Some("&")), shift, ("Digit1", Some("1")), unshift, ("Digit1", Some("&"))],
                "&1&",
                2,
            ),
            (
                "caps lock that was on before",
                &[("KeyA", Some("A")), ("KeyB", Some("B")), shift, ("KeyC", Some("c")), unshift],
                "ABc",
                0,
            ),
            ("caps lock", &[("CapsLock", None), ("KeyA", Some("A")), ("CapsLock", None), ("KeyA", Some("a"))], "Aa", 0),
            (
                "AltGr",
                &[("AltRight down", None), ("KeyE", Some("€")), ("AltRight up", None), ("KeyE", Some("e"))],
                "€e",
                1,
            ),
            ("the number pad", &[("Numpad7", Some("7")), ("Numpad7", Some("7"))], "77", 0),
            ("enter", &[("KeyA", Some("a")), ("Enter", None)], "a\n", 0),
        ];
        for (name, keys, wanted, waits) in cases {
            assert_eq!(type_keys(keys), ((*wanted).to_owned(), *waits), "{name}");
        }
    }

    #[test]
    fn any_text_is_typed_with_three_spare_codes() {
        let mut keyboard = keyboard();
        let mut steps = Vec::new();
        keyboard.press(key("ShiftLeft"), None, &mut steps);
        for text in ["ñ 漢 🙂", "漢字 Ab!", "éèêë ë"] {
            keyboard.on_text(text, &mut steps);
        }
        keyboard.release(key("ShiftLeft"), &mut steps);
        assert_eq!(read(&keyboard, &steps), "ñ 漢 🙂漢字 Ab!éèêë ë");
    }

    #[test]
    fn a_repeated_key_is_the_display_s_to_repeat() {
        let mut keyboard = keyboard();
        let mut steps = Vec::new();
        keyboard.press(key("KeyA"), Some("a"), &mut steps);
        keyboard.on_text("a", &mut steps);
        keyboard.on_text("a", &mut steps);
        keyboard.release(key("KeyA"), &mut steps);
        keyboard.on_text("a", &mut steps);
        assert_eq!(read(&keyboard, &steps), "aa");
    }

    #[test]
    fn whoever_leaves_lets_go_and_the_map_is_restored() {
        let mut keyboard = keyboard();
        let mut steps = Vec::new();
        keyboard.press(key("ControlLeft"), None, &mut steps);
        keyboard.press(key("KeyC"), None, &mut steps);
        keyboard.on_text("漢", &mut steps);
        keyboard.keep_only(&[key("KeyC")], &mut steps);
        keyboard.restore(&mut steps);
        read(&keyboard, &steps);
        assert_eq!(keyboard.map, keyboard.original);
        assert_eq!(steps.iter().filter(|step| matches!(step, Step::Map { symbols: [0, 0], .. })).count(), 1);
    }
}
