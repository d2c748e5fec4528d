//! Key codes of X servers on Linux for the keys that viewers press.

use super::Key;

/// Difference between an X server's key code and the Linux kernel's code of the same key.
pub const EVDEV_OFFSET: u8 = 8;
/// HID usage pages.
const KEYBOARD: u32 = 7;
const CONSUMER: u32 = 12;
/// The kernel's codes of keyboard usages 0x04 to 0x94 (`input-event-codes.h`; HID Usage Tables 1.5, section 10); 0 for none.
const KERNEL_CODES: [u8; 0x91] = [
    // Letters from A.
    30, 48, 46, 32, 18, 33, 34, 35, 23, 36, 37, 38, 50, 49, 24, 25, 16, 19, 31, 20, 22, 47, 17, 45, 21, 44,
    // Digits from 1, then Enter to Slash and caps lock.
    2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 28, 1, 14, 15, 57, 12, 13, 26, 27, 43, 43, 39, 40, 41, 51, 52, 53, 58,
    // F1 to F12, print, scroll lock, pause; the block of six; arrows.
    59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 87, 88, 99, 70, 119, 110, 102, 104, 111, 107, 109, 106, 105, 108, 103,
    // The number pad; the key next to the left shift; menu, power, equals of the number pad.
    69, 98, 55, 74, 78, 96, 79, 80, 81, 75, 76, 77, 71, 72, 73, 82, 83, 86, 127, 116, 117,
    // F13 to F24, then keys of workstations, volume, locks, and comma of the number pad.
    183, 184, 185, 186, 187, 188, 189, 190, 191, 192, 193, 194, 134, 138, 130, 132, 128, 129, 131, 137, 133, 135, 136,
    113, 115, 114, 0, 0, 0, 121, 0, // Japanese and Korean keys.
    89, 93, 124, 92, 94, 95, 0, 0, 0, 122, 123, 90, 91, 85,
];
/// The kernel's codes of keyboard usages 0xe0 to 0xe7.
const MODIFIER_CODES: [u8; 8] = [29, 42, 56, 125, 97, 54, 100, 126];
const CONSUMER_CODES: [(u16, u8); 9] = [
    (0xb5, 163),
    (0xb6, 165),
    (0xb7, 166),
    (0xcd, 164),
    (0x221, 217),
    (0x223, 172),
    (0x224, 158),
    (0x225, 159),
    (0x227, 173),
];

/// Returns the key code of a key. None for a key for which X has no code.
#[must_use]
pub fn key_code(key: Key) -> Option<u8> {
    let usage = key.0 & 0xffff;
    let code = match key.0 >> 16 {
        KEYBOARD if usage >= 0xe0 => MODIFIER_CODES.get(usage as usize - 0xe0).copied(),
        KEYBOARD => KERNEL_CODES.get((usage as usize).checked_sub(4)?).copied(),
        CONSUMER => CONSUMER_CODES.iter().find(|(known, _)| u32::from(*known) == usage).map(|(_, code)| *code),
        _ => None,
    };
    code.filter(|code| *code != 0).map(|code| code + EVDEV_OFFSET)
}

/// All keys that may have a code.
pub fn keys() -> impl Iterator<Item = Key> {
    let usages = (4..0x95).chain(0xe0..0xe8).map(|usage| Key(KEYBOARD << 16 | usage));
    usages.chain(CONSUMER_CODES.iter().map(|(usage, _)| Key(CONSUMER << 16 | u32::from(*usage))))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn keys_have_the_codes_of_linux() {
        for (code, number) in [
            ("Escape", 9),
            ("Tab", 23),
            ("KeyW", 25),
            ("Enter", 36),
            ("ControlLeft", 37),
            ("KeyA", 38),
            ("Backslash", 51),
            ("Space", 65),
            ("F10", 76),
            ("NumpadSubtract", 82),
            ("Numpad0", 90),
            ("NumpadDecimal", 91),
            ("F12", 96),
            ("NonConvert", 102),
            ("AltRight", 108),
            ("ArrowUp", 111),
            ("ArrowDown", 116),
            ("Delete", 119),
            ("MetaLeft", 133),
            ("BrowserBack", 166),
            ("F24", 202),
        ] {
            assert_eq!(Key::from_code(code).and_then(key_code), Some(number), "{code}");
        }
        assert_eq!(Key::from_code("Lang5").and_then(key_code), None);
        assert_eq!(key_code(Key(u32::MAX)), None);
    }

    /// Two positions of an ISO keyboard share the kernel's code 43, and so do the two usages of the key next to Enter.
    #[test]
    fn no_two_keys_share_a_code_but_for_the_key_beside_enter() {
        let mut by_code: BTreeMap<u8, Vec<Key>> = BTreeMap::new();
        for key in keys() {
            if let Some(code) = key_code(key) {
                by_code.entry(code).or_default().push(key);
            }
        }
        let shared: Vec<_> = by_code.into_iter().filter(|(_, keys)| keys.len() > 1).collect();
        assert_eq!(shared, [(43 + EVDEV_OFFSET, vec![Key(0x7_0031), Key(0x7_0032)])]);
    }
}
