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
                let lock =
                    self.caps && character_of(symbols[0]).is_some_and(char::is_alphabetic) && symbols[0] != symbols[1];
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
        ("AltGr", &[("AltRight down", None), ("KeyE", Some("€")), ("AltRight up", None), ("KeyE", Some("e"))], "€e", 1),
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
fn a_held_key_repeats_when_the_viewer_s_does_and_a_late_release_repeats_nothing() {
    let mut keyboard = keyboard();
    let mut steps = Vec::new();
    keyboard.press(key("KeyA"), Some("a"), &mut steps);
    assert_eq!(steps.len(), 1, "however late the release is: {steps:?}");
    keyboard.repeat(key("KeyA"), Some("a"), &mut steps);
    keyboard.repeat(key("KeyA"), None, &mut steps);
    // Clients that send text on its own repeat the text.
    keyboard.on_text("a", &mut steps);
    keyboard.release(key("KeyA"), &mut steps);
    keyboard.repeat(key("KeyA"), Some("a"), &mut steps);
    assert_eq!(read(&keyboard, &steps), "aaaa");
    let arrow = key_code(key("ArrowLeft")).expect("has a code");
    steps.clear();
    keyboard.press(key("ArrowLeft"), None, &mut steps);
    keyboard.repeat(key("ArrowLeft"), None, &mut steps);
    keyboard.release(key("ArrowLeft"), &mut steps);
    assert_eq!(steps, [true, false, true, false].map(|pressed| Step::Key { code: arrow, pressed }));
    steps.clear();
    for name in ["ShiftLeft", "CapsLock"] {
        keyboard.press(key(name), None, &mut steps);
        keyboard.repeat(key(name), None, &mut steps);
        keyboard.release(key(name), &mut steps);
    }
    assert_eq!(steps.len(), 4, "modifiers and locks do not repeat: {steps:?}");
}

#[test]
fn a_repeat_types_what_the_viewer_s_keyboard_types_now() {
    let mut keyboard = keyboard();
    let mut steps = Vec::new();
    keyboard.press(key("KeyQ"), Some("a"), &mut steps);
    keyboard.press(key("ShiftLeft"), None, &mut steps);
    keyboard.repeat(key("KeyQ"), Some("A"), &mut steps);
    keyboard.release(key("ShiftLeft"), &mut steps);
    keyboard.repeat(key("KeyQ"), Some("a"), &mut steps);
    keyboard.release(key("KeyQ"), &mut steps);
    assert_eq!(read(&keyboard, &steps), "aAa");
}

#[test]
fn text_that_follows_its_key_late_is_typed_once() {
    let mut keyboard = keyboard();
    let mut steps = Vec::new();
    for _ in 0..2 {
        keyboard.press(key("KeyA"), None, &mut steps);
        keyboard.on_text("a", &mut steps);
        keyboard.release(key("KeyA"), &mut steps);
    }
    keyboard.on_text("a", &mut steps);
    assert_eq!(read(&keyboard, &steps), "aaa");
}

#[test]
fn a_shortcut_is_its_letter_in_the_viewer_s_layout_before_any_was_typed() {
    let press = |keyboard: &mut Keyboard, code: &str, meaning: char| {
        let mut steps = Vec::new();
        keyboard.press(key("ControlLeft"), None, &mut steps);
        keyboard.on_character(key(code), meaning);
        keyboard.press(key(code), None, &mut steps);
        let pressed = keyboard.held[&key(code)].code.expect("pressed");
        keyboard.release(key(code), &mut steps);
        keyboard.release(key("ControlLeft"), &mut steps);
        let maps = steps.iter().filter(|step| matches!(step, Step::Map { .. })).count();
        (pressed, keyboard.map.symbols(pressed).map(character_of), maps)
    };
    let place = |code| key_code(key(code)).expect("has a code");
    // AZERTY, QWERTZ and Dvorak.
    for (code, letter, upper) in [("KeyQ", 'a', 'A'), ("KeyY", 'z', 'Z'), ("KeyI", 'c', 'C')] {
        let mut keyboard = keyboard();
        assert_eq!(press(&mut keyboard, code, letter), (place(code), [Some(letter), Some(upper)], 1));
        assert_eq!(press(&mut keyboard, code, upper).2, 0, "with Shift or caps lock as well");
        let mut steps = Vec::new();
        keyboard.press(key(code), Some(&letter.to_string()), &mut steps);
        keyboard.release(key(code), &mut steps);
        assert_eq!(steps.len(), 2, "typing needs no further change: {steps:?}");
    }
    let mut keyboard = keyboard();
    assert_eq!(press(&mut keyboard, "KeyA", 'a').2, 0, "the display's own layout");
    // Cyrillic: a letter that was typed has changed the map at the key that means C.
    keyboard.press(key("KeyC"), Some("с"), &mut Vec::new());
    keyboard.release(key("KeyC"), &mut Vec::new());
    let (code, symbols, maps) = press(&mut keyboard, "KeyC", 'с');
    assert_eq!((symbols, maps), ([Some('c'), Some('C')], 1));
    assert_ne!(code, place("KeyC"), "the letter keeps its key");
    assert_eq!(press(&mut keyboard, "KeyC", 'c'), (code, symbols, 0), "and so does a Latin layout beside it");
}

#[test]
fn a_meaning_is_for_the_next_press_of_its_key() {
    let mut keyboard = keyboard();
    keyboard.on_character(key("KeyQ"), 'a');
    let mut steps = Vec::new();
    keyboard.press(key("KeyB"), None, &mut steps);
    keyboard.press(key("KeyQ"), None, &mut steps);
    keyboard.release_all(&mut steps);
    assert_eq!(read(&keyboard, &steps), "bq");
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
