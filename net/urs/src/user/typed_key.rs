//! Text typed by the user. The client sends a letter for every key that goes down or repeats: the first of the key's name in W3C's
//! `KeyboardEvent.key`, so that `Shift` arrives as S and `ArrowUp` as A. The key itself distinguishes text from names.

use nearlight_wire::Key;

use crate::input::{KeyboardState, key};

/// The key that last went down, which is the one that repeats.
#[derive(Debug, Default)]
pub(super) struct TypedKey {
    newest: Option<u8>,
    /// Whether the letter of its press has arrived. Further ones are repeats.
    has_letter: bool,
}

impl TypedKey {
    pub(super) fn on_state(&mut self, before: &KeyboardState, now: &KeyboardState) {
        // Keys that type have the lower numbers.
        let pressed = (0..key::COUNT).find(|key| now.is_down(*key) && !before.is_down(*key));
        self.newest = pressed.or(self.newest.filter(|key| now.is_down(*key)));
        self.has_letter &= pressed.is_none();
    }

    /// Takes the letter of a key that went down or repeats. Returns the key if it repeats.
    pub(super) fn on_letter(&mut self) -> Option<Key> {
        let repeats = std::mem::replace(&mut self.has_letter, true);
        let newest = self.newest.filter(|_| repeats)?.checked_sub(1)?;
        key::CODES.get(usize::from(newest)).and_then(|code| Key::from_code(code)).filter(|key| !key.is_modifier())
    }

    /// The letter, if the key types one. Half of a UTF-16 surrogate pair is not a letter: the client sends no second half. Names of keys
    /// without a letter on this layout, such as `Dead`, cannot be distinguished from capitals.
    pub(super) fn letter(&self, keys: &KeyboardState, code: i32) -> Option<char> {
        let down = |codes: &[&str]| codes.iter().any(|code| key::number(code).is_some_and(|key| keys.is_down(key)));
        // The right Alt key is AltGr on many layouts, and types with Control as well.
        let commands = down(&["MetaLeft", "MetaRight", "AltLeft"]) || down(&["ControlLeft", "ControlRight"]);
        if commands && !down(&["AltRight"]) {
            return None;
        }
        let letter = u32::try_from(code).ok().and_then(char::from_u32).filter(|letter| !letter.is_control())?;
        let code = key::CODES[usize::from(self.newest?.checked_sub(1)?)..].first()?;
        let types = match code.strip_prefix("Numpad") {
            // Without NumLock these keys have names: Home, ArrowUp, Enter.
            Some(_) => !letter.is_alphabetic(),
            None => {
                code.len() == 4 && code.starts_with("Key")
                    || code.starts_with("Digit")
                    || ["Space", "Backquote", "Quote", "Semicolon", "Comma", "Period", "Slash", "Backslash"]
                        .contains(code)
                    || ["BracketLeft", "BracketRight", "Minus", "Equal"].contains(code)
            }
        };
        types.then_some(letter)
    }
}
