//! Translates keys by position, and typed text, into key codes and key symbols of the display.
//!
//! A key is pressed by its position, for programs such as games that use positions. The viewer's layout determines the character that it
//! types, or that it means as a command: if the display's layout differs, the display's map is changed at that position before the key is
//! pressed. Held keys repeat when the viewer's system repeats them and never by the display's clock, because a late release would then type
//! more characters. Text without a key, as input methods and on-screen keyboards send it, is typed on the display's own keys if they have the
//! character, and otherwise on spare key codes to which it is assigned.

use std::collections::{BTreeMap, VecDeque};

use nearlight_wire::Key;
use nearlight_wire::key_codes::{EVDEV_OFFSET, key_code, keys};

const CAPS_LOCK: u8 = 58 + EVDEV_OFFSET;
const NUM_LOCK: u8 = 69 + EVDEV_OFFSET;
const SCROLL_LOCK: u8 = 70 + EVDEV_OFFSET;
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
    /// What the next press of a key means as a command.
    meaning: Option<(Key, char)>,
    /// The newest press, if it came without a text, and the character that the display makes of it. Clients that send text on its own may
    /// send it later.
    textless_press: Option<(Key, char)>,
    caps_lock: bool,
    num_lock: bool,
}

impl Keyboard {
    pub(crate) fn new(map: Keymap) -> Self {
        let is_key = |code: u8| keys().any(|key| key_code(key) == Some(code));
        let spares =
            map.codes().filter(|(code, symbols)| *symbols == [0, 0] && !is_key(*code)).map(|(code, _)| code).collect();
        let original = map.clone();
        let (held, caps_lock, num_lock) = (BTreeMap::new(), false, false);
        Self { original, map, spares, held, meaning: None, textless_press: None, caps_lock, num_lock }
    }

    /// Presses a key. `text` is the text that it types, if any.
    pub(crate) fn press(&mut self, key: Key, text: Option<&str>, steps: &mut Vec<Step>) {
        if self.held.contains_key(&key) {
            return;
        }
        let meaning = self.meaning.take().filter(|(known, _)| *known == key).map(|(_, character)| character);
        self.textless_press = None;
        let code = match (key_code(key), text) {
            (Some(code), None) => {
                self.on_lock(code);
                let code = meaning.map_or(code, |character| self.command_code(code, character, steps));
                self.textless_press =
                    self.typed_character(code).filter(|_| !self.holds(&COMMAND_KEYS)).map(|character| (key, character));
                Some(code)
            }
            (Some(code), Some(text)) => {
                let mapped = !self.holds(&COMMAND_KEYS)
                    && only_character(text).is_some_and(|character| self.map_key(code, character, steps));
                if !mapped {
                    self.type_text(text, steps);
                }
                mapped.then_some(code)
            }
            (None, Some(text)) => {
                self.type_text(text, steps);
                None
            }
            (None, None) => return,
        };
        if let Some(code) = code {
            steps.push(Step::Key { code, pressed: true });
        }
        self.held.insert(key, HeldKey { code, text: text.map(str::to_owned) });
    }

    /// Sets what the next press of a key means as a command, in the viewer's layout.
    pub(crate) fn on_character(&mut self, key: Key, character: char) {
        self.meaning = Some((key, character));
    }

    /// Repeats a key that is down, by a release and a press: displays drop the press of a key that is down, and programs recognise a
    /// repeat by the equal times of the two. `text` is the text that it types, if any.
    pub(crate) fn repeat(&mut self, key: Key, text: Option<&str>, steps: &mut Vec<Step>) {
        self.textless_press = None;
        let Some(HeldKey { code, text: held_text }) = self.held.get(&key).cloned() else { return };
        let text = text.or(held_text.as_deref());
        match (code, text) {
            (Some(code), _) if is_lock(code) || key.is_modifier() => return,
            (Some(code), Some(text)) if held_text.as_deref() != Some(text) => {
                // The modifiers have changed since the press.
                let mapped = only_character(text).is_some_and(|character| self.map_key(code, character, steps));
                if mapped { press_again(code, steps) } else { self.type_text(text, steps) }
            }
            (Some(code), _) => press_again(code, steps),
            (None, Some(text)) => self.type_text(text, steps),
            (None, None) => return,
        }
        let text = text.map(str::to_owned);
        if let Some(held) = self.held.get_mut(&key) {
            held.text = text;
        }
    }

    pub(crate) fn release(&mut self, key: Key, steps: &mut Vec<Step>) {
        if let Some(HeldKey { code: Some(code), .. }) = self.held.remove(&key) {
            steps.push(Step::Key { code, pressed: false });
        }
    }

    /// Types text that came without a key: from an input method, or from a client that sends the keys' text on its own.
    pub(crate) fn on_text(&mut self, text: &str, steps: &mut Vec<Step>) {
        let textless = self.textless_press.take().filter(|(_, character)| only_character(text) == Some(*character));
        if let Some(held) = textless.and_then(|(key, _)| self.held.get_mut(&key)) {
            held.text = Some(text.to_owned());
            return;
        }
        let repeats = |held: &HeldKey| held.code.is_some() && held.text.as_deref() == Some(text);
        match self.held.values().find(|held| repeats(held)).and_then(|held| held.code) {
            Some(code) => press_again(code, steps),
            None => self.type_text(text, steps),
        }
    }

    /// Releases all keys except these.
    pub(crate) fn keep_only(&mut self, keys: &[Key], steps: &mut Vec<Step>) {
        let gone: Vec<Key> = self.held.keys().filter(|key| !keys.contains(key)).copied().collect();
        for key in gone {
            self.release(key, steps);
        }
    }

    /// Releases all keys, and forgets what was announced for the next one.
    pub(crate) fn release_all(&mut self, steps: &mut Vec<Step>) {
        self.keep_only(&[], steps);
        (self.meaning, self.textless_press) = (None, None);
    }

    /// Releases all keys and restores the display's original map.
    pub(crate) fn restore(&mut self, steps: &mut Vec<Step>) {
        self.release_all(steps);
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

    /// Returns the key code that means this character as a command: that of the key's place, unless it types another character in the
    /// viewer's layout. Nothing is remapped twice, because a busy program may read the map only after the second change.
    fn command_code(&mut self, code: u8, character: char, steps: &mut Vec<Step>) -> u8 {
        // Programs know shortcuts by Latin letters. A key of another alphabet means the letter of its place.
        let place = character_of(self.original.symbols(code)[0]);
        let character = if is_latin(character) { character } else { place.unwrap_or(character) };
        let lower = character.to_lowercase().next().filter(|lower| lower.is_alphabetic()).unwrap_or(character);
        let Some(symbol) = symbol_of(lower) else { return code };
        let own = self.map.symbols(code);
        let symbols = match upper_of(symbol) {
            Some(upper) => [symbol, upper],
            None if own.contains(&symbol) => own,
            None if self.holds(&SHIFT_KEYS) => [own[0], symbol],
            None => [symbol, own[1]],
        };
        if own == symbols || is_number_pad(own) {
            return code;
        }
        if own == self.original.symbols(code) {
            self.assign(code, symbols, steps);
            steps.push(Step::Settle);
            return code;
        }
        let down = |code: u8| self.held.values().any(|held| held.code == Some(code));
        if let Some((other, _)) = self.map.codes().find(|(other, found)| *found == symbols && !down(*other)) {
            return other;
        }
        let Some(spare) = self.spares.pop_front() else { return code };
        self.spares.push_back(spare);
        self.assign(spare, symbols, steps);
        steps.push(Step::Settle);
        spare
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

/// Returns the character of a text that has no other.
fn only_character(text: &str) -> Option<char> {
    let mut characters = text.chars();
    characters.next().filter(|_| characters.next().is_none())
}

/// Returns whether a character is no letter of another alphabet than the Latin one (its blocks in Unicode up to Latin Extended-B, and
/// Latin Extended Additional).
fn is_latin(character: char) -> bool {
    !character.is_alphabetic() || matches!(character, '\0'..='\u{24f}' | '\u{1e00}'..='\u{1eff}')
}

const fn is_lock(code: u8) -> bool {
    matches!(code, CAPS_LOCK | NUM_LOCK | SCROLL_LOCK)
}

fn press_again(code: u8, steps: &mut Vec<Step>) {
    steps.extend([false, true].map(|pressed| Step::Key { code, pressed }));
}

/// Returns whether num lock determines what the key types.
fn is_number_pad(symbols: [u32; 2]) -> bool {
    (0xffaa..=0xffb9).contains(&symbols[1]) && symbols[0] != symbols[1]
}

#[cfg(test)]
mod tests;
