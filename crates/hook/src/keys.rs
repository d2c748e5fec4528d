//! Keys as X servers on Linux number them.

use nearlight_embed::Key;

/// The codes of keys in the order of their X keycodes (`evdev` rules of XKB: the kernel's number and 8), in runs of successive ones.
/// W3C's "UI Events `KeyboardEvent` code Values" names the keys, `linux/input-event-codes.h` numbers them.
const RUNS: [(u8, &str); 14] = [
    (9, "Escape Digit1 Digit2 Digit3 Digit4 Digit5 Digit6 Digit7 Digit8 Digit9 Digit0 Minus Equal Backspace Tab"),
    (24, "KeyQ KeyW KeyE KeyR KeyT KeyY KeyU KeyI KeyO KeyP BracketLeft BracketRight Enter ControlLeft"),
    (38, "KeyA KeyS KeyD KeyF KeyG KeyH KeyJ KeyK KeyL Semicolon Quote Backquote ShiftLeft Backslash"),
    (52, "KeyZ KeyX KeyC KeyV KeyB KeyN KeyM Comma Period Slash ShiftRight NumpadMultiply AltLeft Space CapsLock"),
    (67, "F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 NumLock ScrollLock Numpad7 Numpad8 Numpad9 NumpadSubtract"),
    (83, "Numpad4 Numpad5 Numpad6 NumpadAdd Numpad1 Numpad2 Numpad3 Numpad0 NumpadDecimal"),
    (94, "IntlBackslash F11 F12 IntlRo"),
    (100, "Convert KanaMode NonConvert"),
    (104, "NumpadEnter ControlRight NumpadDivide PrintScreen AltRight"),
    (110, "Home ArrowUp PageUp ArrowLeft ArrowRight End ArrowDown PageDown Insert Delete"),
    (121, "AudioVolumeMute AudioVolumeDown AudioVolumeUp Power NumpadEqual"),
    (127, "Pause"),
    (129, "NumpadComma Lang1 Lang2 IntlYen MetaLeft MetaRight ContextMenu"),
    (191, "F13 F14 F15 F16 F17 F18 F19 F20 F21 F22 F23 F24"),
];

/// The X keycode of a key; none for one that keyboards of X do not have.
pub(crate) fn keycode(key: Key) -> Option<u8> {
    let code = key.code()?;
    RUNS.iter().find_map(|(first, run)| {
        let place = run.split(' ').position(|name| name == code)?;
        Some(first + place as u8)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_numbers() {
        for (code, number) in [
            ("Escape", 9),
            ("Tab", 23),
            ("KeyW", 25),
            ("ControlLeft", 37),
            ("KeyA", 38),
            ("Backslash", 51),
            ("Space", 65),
            ("F10", 76),
            ("NumpadSubtract", 82),
            ("NumpadDecimal", 91),
            ("F12", 96),
            ("AltRight", 108),
            ("ArrowDown", 116),
            ("Delete", 119),
            ("MetaLeft", 133),
            ("F24", 202),
        ] {
            assert_eq!(Key::from_code(code).and_then(keycode), Some(number), "{code}");
        }
        assert_eq!(Key::from_code("BrowserBack").and_then(keycode), None);
    }

    #[test]
    fn every_name_is_that_of_a_key_and_comes_once() {
        let mut names: Vec<_> = RUNS.iter().flat_map(|(_, run)| run.split(' ')).collect();
        assert!(names.iter().all(|name| Key::from_code(name).is_some()), "{names:?}");
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for pair in RUNS.windows(2) {
            let end = usize::from(pair[0].0) + pair[0].1.split(' ').count();
            assert!(end <= usize::from(pair[1].0), "{pair:?}");
        }
    }
}
