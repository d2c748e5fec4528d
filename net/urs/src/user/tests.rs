use nearlight_wire::{Key, PointerButton, ScreenPoint};
use proptest::prelude::*;

use super::*;

const PICTURE: (u16, u16) = (1_280, 720);
const START: Pose = Pose { position: [0.0, 1.6, 0.0], orientation: [0.0, 0.0, 0.0, 1.0] };

fn user() -> User {
    let mut user = User::new(Time::ZERO, START, PICTURE);
    assert_eq!(user.poll_sample(Time::ZERO).expect("its start").head, START);
    assert_eq!((user.poll_sample(Time::ZERO), user.poll_timeout()), (None, None), "a user at rest costs nothing");
    user
}

fn packet(kind: i32, data: &[u8]) -> Vec<u8> {
    [0_i32.to_le_bytes(), kind.to_le_bytes(), (data.len() as i32).to_le_bytes()]
        .concat()
        .into_iter()
        .chain(data.iter().copied())
        .collect()
}

fn state(letters: [u8; 4], body: &[u8]) -> Vec<u8> {
    let size = (24 + body.len()) as u16;
    let mut data = crate::input::four_letters(*b"STAT").to_le_bytes().to_vec();
    data.extend(size.to_le_bytes());
    data.extend(1_u16.to_le_bytes());
    data.extend([0; 12]);
    data.extend(crate::input::four_letters(letters).to_le_bytes());
    data.extend(body);
    packet(4, &data)
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn mouse(delta: [f32; 2], buttons: u16) -> Vec<u8> {
    mouse_and_wheel(delta, 0.0, buttons)
}

fn wheel(down: f32) -> Vec<u8> {
    mouse_and_wheel([0.0; 2], down, 0)
}

fn mouse_and_wheel(delta: [f32; 2], down: f32, buttons: u16) -> Vec<u8> {
    let moved = floats(&[0.0, 0.0, delta[0], delta[1], 0.0, down]);
    state(*b"MOUS", &[moved, buttons.to_le_bytes().to_vec(), vec![0; 4]].concat())
}

fn keys(down: &[u8]) -> Vec<u8> {
    let mut body = [0; 14];
    for key in down {
        body[usize::from(key / 8)] |= 1 << (key % 8);
    }
    state(*b"KEYS", &body)
}

/// A letter as the client sends it: the first UTF-16 code unit of the key's name.
fn letter(name: &str) -> Vec<u8> {
    let mut data = crate::input::four_letters(*b"TEXT").to_le_bytes().to_vec();
    data.extend(24_u16.to_le_bytes());
    data.extend(2_u16.to_le_bytes());
    data.extend([0; 12]);
    data.extend(i32::from(name.encode_utf16().next().expect("a name")).to_le_bytes());
    packet(4, &data)
}

fn finger(id: i32, place: [f32; 2], phase: u8) -> Vec<u8> {
    let mut body = id.to_le_bytes().to_vec();
    body.extend(floats(&[place[0], place[1], 0.0, 0.0, 0.0, 0.0, 0.0]));
    body.extend([phase, 0, 0, 0]);
    body.extend([0; 20]);
    state(*b"TOUC", &body)
}

fn gamepad(buttons: u32, axes: [f32; 6]) -> Vec<u8> {
    state(*b"GPAD", &[buttons.to_le_bytes().to_vec(), floats(&axes)].concat())
}

/// The events of the user's devices, and the user's position after them.
fn after(user: &mut User, millis: u64, messages: &[Vec<u8>]) -> (Vec<InputEvent>, Pose) {
    let now = Time::from_millis(millis);
    for message in messages {
        user.on_message(now, message).expect("a message");
    }
    let sample = user.poll_sample(now).expect("a change");
    (sample.events, sample.head)
}

fn w3c_key(code: &str, pressed: bool) -> InputEvent {
    InputEvent::Key { key: Key::from_code(code).expect("a key"), pressed }
}

#[test]
fn what_keys_type_is_text_and_their_names_are_not() {
    let typed = |strokes: &[(&[&str], &str)]| {
        let mut user = user();
        let mut texts = String::new();
        for (step, (codes, name)) in strokes.iter().enumerate() {
            let down: Vec<u8> = codes.iter().map(|code| key::number(code).expect("a key")).collect();
            let (events, _) = after(&mut user, step as u64 + 1, &[keys(&down), letter(name)]);
            texts.extend(events.into_iter().filter_map(|event| match event {
                InputEvent::Text(text) => Some(text),
                _ => None,
            }));
        }
        texts
    };
    let capital: [(&[&str], &str); 4] =
        [(&["ShiftLeft"], "Shift"), (&["ShiftLeft", "KeyS"], "S"), (&["ShiftLeft", "KeyS"], "S"), (&["KeyA"], "ä")];
    assert_eq!(typed(&capital), "SSä", "a held key repeats");
    for (code, name, text) in [
        ("Space", " ", " "),
        ("Digit1", "1", "1"),
        ("Numpad7", "7", "7"),
        ("Numpad7", "Home", ""),
        ("Enter", "Enter", ""),
        ("ArrowUp", "ArrowUp", ""),
        ("F1", "F1", ""),
        ("KeyE", "\u{1f600}", ""),
    ] {
        assert_eq!(typed(&[(&[code], name)]), text, "{code}: {name}");
    }
    assert_eq!(typed(&[(&["ControlLeft"], "Control"), (&["ControlLeft", "KeyC"], "c")]), "", "a command");
    assert_eq!(typed(&[(&["ControlLeft", "AltRight", "KeyQ"], "@")]), "@", "AltGr");
}

#[test]
fn a_held_key_repeats_when_the_browser_repeats_it() {
    let mut user = user();
    let mut repeats = Vec::new();
    for (step, (code, name)) in [
        ("ArrowUp", "ArrowUp"),
        ("ArrowUp", "ArrowUp"),
        ("ShiftLeft", "Shift"),
        ("ShiftLeft", "Shift"),
        ("KeyS", "S"),
        ("KeyS", "S"),
    ]
    .into_iter()
    .enumerate()
    {
        let down = [key::number(code).expect("a key")];
        let (events, _) = after(&mut user, step as u64 + 1, &[keys(&down), letter(name)]);
        repeats.extend(events.into_iter().filter_map(|event| match event {
            InputEvent::KeyRepeated { key } => key.code(),
            _ => None,
        }));
    }
    assert_eq!(repeats, ["ArrowUp", "KeyS"], "modifiers do not repeat");
}

/// The image of (0, 0, -1) under a rotation.
fn ahead(pose: Pose) -> [f32; 3] {
    let [x, y, z, w] = pose.orientation;
    [-2.0 * (x * z + w * y), -2.0 * (y * z - w * x), 2.0 * (x * x + y * y) - 1.0]
}

#[test]
fn a_mouse_that_moves_turns_the_view_the_way_it_moves() {
    for (delta, axis, sign) in
        [([100.0, 0.0], 0, 1.0), ([-100.0, 0.0], 0, -1.0), ([0.0, 100.0], 1, 1.0), ([0.0, -100.0], 1, -1.0)]
    {
        let (acts, pose) = after(&mut user(), 1, &[mouse(delta, 0)]);
        // 100 of 1,500 pixels to half a turn.
        let sine = (std::f32::consts::PI / 15.0).sin();
        assert!((ahead(pose)[axis] * sign - sine).abs() < 1e-4, "{delta:?}: {pose:?}");
        assert!(acts.is_empty());
    }
}

#[test]
fn buttons_and_keys_are_reported_once_when_they_go_down_and_up() {
    use crate::input::{button, pad};
    let still = [0.0; 2];
    let at = ScreenPoint::new(0.0, 1.0);
    let click = |button, pressed| InputEvent::Button { button, pressed, at };
    let press = |button, pressed| InputEvent::GamepadButton { gamepad: 0, button, pressed };
    for (name, messages, expected) in [
        ("left", vec![mouse(still, button::LEFT)], vec![click(PointerButton::Primary, true)]),
        (
            "left and up",
            vec![mouse(still, button::LEFT), mouse(still, button::LEFT), mouse(still, 0)],
            vec![click(PointerButton::Primary, true), click(PointerButton::Primary, false)],
        ),
        ("right", vec![mouse(still, button::RIGHT)], vec![click(PointerButton::Secondary, true)]),
        ("middle", vec![mouse(still, button::MIDDLE)], vec![click(PointerButton::Auxiliary, true)]),
        (
            "F, then W as well",
            vec![keys(&[key::F]), keys(&[key::F, key::W]), keys(&[])],
            vec![w3c_key("KeyF", true), w3c_key("KeyW", true), w3c_key("KeyF", false), w3c_key("KeyW", false)],
        ),
        (
            "A of a gamepad",
            vec![gamepad(pad::SOUTH, [0.0; 6]), gamepad(0, [0.0; 6])],
            vec![press(0, true), press(0, false)],
        ),
        (
            "B, X, Y and a trigger",
            vec![gamepad(pad::EAST | pad::WEST | pad::NORTH, [0.0, 0.0, 0.0, 0.0, 0.0, 0.5])],
            vec![press(1, true), press(2, true), press(3, true), press(7, true)],
        ),
        (
            "a channel that stops",
            vec![mouse(still, button::LEFT), packet(9, &[])],
            vec![click(PointerButton::Primary, true), click(PointerButton::Primary, false)],
        ),
        (
            "a letter",
            vec![packet(4, &[b"TXET".as_slice(), &[24, 0, 2, 0], &[0; 12], &[119, 0, 0, 0]].concat()), keys(&[])],
            vec![],
        ),
    ] {
        assert_eq!(after(&mut user(), 1, &messages).0, expected, "{name}");
    }
    for (number, code) in [(key::SPACE, "Space"), (key::W, "KeyW"), (key::DOWN_ARROW, "ArrowDown"), (105, "F12")] {
        assert_eq!(after(&mut user(), 1, &[keys(&[number])]).0, [w3c_key(code, true)]);
    }
}

#[test]
fn the_wheel_and_the_movement_add_up() {
    let mut user = user();
    for message in [wheel(-100.0), wheel(60.0), wheel(f32::NAN), mouse([3.0, 5.0], 0)] {
        user.on_message(Time::ZERO, &message).expect("a message");
    }
    let pointer = user.poll_sample(Time::ZERO).expect("a change").devices.pointer.expect("a mouse");
    assert_eq!((pointer.scrolled, pointer.moved, pointer.captured), ([0, -40 * 16], [3, -5], true));
}

#[test]
fn keys_walk_until_they_are_let_go_of() {
    let mut user = user();
    user.on_message(Time::ZERO, &keys(&[key::W])).expect("a message");
    let mut now = Time::ZERO;
    let mut newest = InputSeq(1);
    while now < Time::from_secs(1) {
        now = user.poll_timeout().expect("a walking user has a next step").max(now);
        if let Some(sample) = user.poll_sample(now) {
            assert!(sample.seq > newest, "numbers grow");
            newest = sample.seq;
        }
    }
    // 1.8 m in a second, less the 80 ms of the start.
    let walked = -after(&mut user, 1_000, &[keys(&[])]).1.position[2];
    assert!((walked - 1.8 * 0.92).abs() < 0.03, "{walked} m");
    while let Some(next) = user.poll_timeout() {
        now = next.max(now);
        user.poll_sample(now);
        assert!(now < Time::from_secs(3), "the user comes to rest");
    }
}

#[test]
fn a_held_stick_keeps_turning_and_a_pause_is_not_walked_through() {
    let mut user = user();
    let (_, before) = after(&mut user, 1, &[gamepad(0, [0.0, 0.0, 1.0, 0.0, 0.0, 0.0])]);
    // 100 ms at most are made up for: 0.24 radians to the right.
    let (_, pose) = after(&mut user, 5_000, &[]);
    assert!((ahead(pose)[0] - 0.24_f32.sin()).abs() < 1e-3, "{before:?} {pose:?}");
}

#[test]
fn fingers_walk_look_and_tap() {
    let mut user = user();
    // The left half is a stick: 7 % of the width up is full speed ahead.
    let (_, start) = after(&mut user, 1, &[finger(1, [100.0, 100.0], 1), finger(1, [100.0, 300.0], 2)]);
    let (_, walked) = after(&mut user, 90, &[]);
    assert!(walked.position[2] < start.position[2] && (walked.position[0]).abs() < 1e-6, "{walked:?}");
    after(&mut user, 91, &[finger(1, [100.0, 300.0], 3)]);
    // The right half looks: what is under the finger follows it, so a swipe to the left looks to the right.
    let (acts, looked) = after(
        &mut user,
        1_000,
        &[finger(2, [1_000.0, 300.0], 1), finger(2, [900.0, 300.0], 2), finger(2, [900.0, 300.0], 3)],
    );
    assert!(ahead(looked)[0] > 0.1 && acts.len() == 2, "{looked:?} {acts:?}");
    // A tap, reported again by the browser as a click and as a mouse.
    let tap = [
        finger(3, [1_000.0, 300.0], 1),
        finger(3, [1_000.0, 300.0], 3),
        mouse([0.0; 2], 1),
        mouse([0.0; 2], 0),
        finger(3, [1_000.0, 300.0], 3),
    ];
    let at = ScreenPoint::new(1_000.0 / 1_280.0, 1.0 - 300.0 / 720.0);
    let reported = [InputEvent::TouchBegan { id: 3, at }, InputEvent::TouchEnded { id: 3, at, cancelled: false }];
    assert_eq!(after(&mut user, 2_000, &tap).0, reported);
}

#[test]
fn a_refused_message_changes_nothing() {
    let mut user = user();
    let damaged = [packet(4, &[]), packet(10, &[]), {
        let mut bytes = mouse([9.0, 9.0], 1);
        bytes.extend(&[0; 2]);
        bytes
    }];
    for bytes in &damaged {
        user.on_message(Time::from_millis(1), bytes).expect_err("damaged");
    }
    // A complete event before a broken one does not count either.
    let data = [&mouse([9.0, 9.0], 1)[12..], &[0; 2], b"TXET"].concat();
    user.on_message(Time::from_millis(1), &packet(4, &data)).expect_err("damaged");
    assert_eq!((user.refused(), user.poll_sample(Time::from_millis(2))), (4, None));
}

#[test]
fn devices_are_remembered_within_a_bound() {
    let mut user = user();
    for id in 0..100 {
        let json = format!("{{\"layout\":\"L{id}\",\"deviceId\":{id}}}");
        user.on_message(Time::ZERO, &packet(3, json.as_bytes())).expect("a device");
    }
    user.on_message(Time::ZERO, &packet(3, b"{\"layout\":\"again\",\"deviceId\":99}")).expect("a device");
    user.on_message(Time::ZERO, &packet(5, &98_i32.to_le_bytes())).expect("a removal");
    let devices: Vec<_> = user.devices().collect();
    assert_eq!((devices.len(), devices[0], devices.last().copied()), (MAX_DEVICES - 1, "L84", Some("again")));
}

#[test]
fn the_view_has_the_pictures_shape() {
    let mut user = user();
    user.set_picture(Time::from_millis(1), (1_000, 500));
    let fov = user.poll_sample(Time::from_millis(1)).expect("a change").views[0].fov;
    assert!((fov.right / fov.up - 2.0).abs() < 1e-5 && (fov.up - (VIEW_HEIGHT / 2.0).tan()).abs() < 1e-5, "{fov:?}");
}

proptest! {
    #[test]
    fn any_messages_leave_a_user_that_the_wire_would_take(messages in prop::collection::vec(crate::input::tests::nearly_a_packet(), 0..40)) {
        let mut user = User::new(Time::ZERO, START, PICTURE);
        for (step, message) in messages.iter().enumerate() {
            let now = Time::from_millis(step as u64 * 37);
            let _ = user.on_message(now, message);
            if let Some(sample) = user.poll_sample(now) {
                let bytes = nearlight_wire::ToServer::Input(sample.clone()).to_bytes();
                prop_assert!(matches!(nearlight_wire::ToServer::parse(&bytes), Ok(nearlight_wire::ToServer::Input(_))), "{sample:?}");
            }
        }
        prop_assert!(user.devices.len() <= MAX_DEVICES);
    }
}
