use proptest::prelude::*;

use super::*;

/// The envelope as the client writes it.
fn packet(kind: i32, data: &[u8]) -> Vec<u8> {
    let mut bytes = 0_i32.to_le_bytes().to_vec();
    bytes.extend_from_slice(&kind.to_le_bytes());
    bytes.extend_from_slice(&(data.len() as i32).to_le_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// An event as the client writes it: letters backwards, for the number is little-endian; the size once more as the event's number.
fn event(backwards: [u8; 4], device: u16, body: &[u8]) -> Vec<u8> {
    let size = (20 + body.len()) as u16;
    let mut bytes = backwards.to_vec();
    bytes.extend_from_slice(&size.to_le_bytes());
    bytes.extend_from_slice(&device.to_le_bytes());
    bytes.extend_from_slice(&1.25_f64.to_le_bytes());
    bytes.extend_from_slice(&u32::from(size).to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

fn state(backwards: [u8; 4], device: u16, body: &[u8]) -> Vec<u8> {
    event(*b"TATS", device, &[backwards.as_slice(), body].concat())
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn mouse_body(values: [f32; 6], buttons: u16) -> Vec<u8> {
    [floats(&values), buttons.to_le_bytes().to_vec(), vec![0; 4]].concat()
}

fn touch_body(finger: i32, place: [f32; 2], phase: u8) -> Vec<u8> {
    let mut body = finger.to_le_bytes().to_vec();
    body.extend(floats(&[place[0], place[1], 1.0, -1.0, 0.5, 11.0, 12.0]));
    body.extend([phase, 1, 0, 32]);
    body.extend([0; 4]);
    body.extend(0.75_f64.to_le_bytes());
    body.extend(floats(&[3.0, 4.0]));
    body
}

fn only_event(bytes: &[u8]) -> Event {
    let Message::NewEvents(events) = Packet::parse(bytes).expect("a packet").message else { panic!("events") };
    let events: Vec<_> = events.collect::<Result<_, _>>().expect("whole events");
    let [event] = events.as_slice() else { panic!("{events:?}") };
    event.clone()
}

#[test]
fn the_sizes_are_the_documented_ones() {
    assert_eq!(mouse_body([0.0; 6], 0).len(), 30);
    assert_eq!(touch_body(0, [0.0; 2], 1).len(), 56);
    assert_eq!((packet(0, &[]).len(), event(*b"TXET", 2, &[0; 4]).len()), (12, 24));
}

#[test]
fn each_type_is_read_as_what_it_is() {
    let text = b"{\"name\":\"Mouse\"}".as_slice();
    let device = Device { name: "Mouse".into(), ..Device::default() };
    for (kind, data, expected) in [
        (0, [].as_slice(), Message::Connect),
        (1, &[], Message::Disconnect),
        (2, text, Message::NewLayout(text)),
        (3, text, Message::NewDevice(device)),
        (5, &[4, 0, 0, 0], Message::RemoveDevice(4)),
        (6, text, Message::RemoveLayout(text)),
        (7, text, Message::ChangeUsages(text)),
        (8, &[], Message::StartSending),
        (9, &[], Message::StopSending),
    ] {
        assert_eq!(Packet::parse(&packet(kind, data)), Ok(Packet { participant: 0, message: expected }), "type {kind}");
    }
    let mut other = packet(8, &[]);
    other[0] = 7;
    assert_eq!(Packet::parse(&other).expect("a packet").participant, 7);
}

#[test]
fn a_device_is_read_from_a_buffer_that_is_twice_too_long() {
    let json = br#"{"name":"Keyboard","layout":"Keyboard","deviceId":2,"variants":"","description":{"m_InterfaceName":"RawInput","m_DeviceClass":"Keyboard","m_Manufacturer":"","m_Product":"","m_Serial":"","m_Version":"","m_Capabilities":""}}"#;
    let mut data = json.to_vec();
    data.resize(json.len() * 2, 0);
    let description =
        Description { interface_name: "RawInput".into(), device_class: "Keyboard".into(), ..Description::default() };
    let device = Device { name: "Keyboard".into(), layout: "Keyboard".into(), device_id: 2, description };
    assert_eq!(Packet::parse(&packet(3, &data)).expect("a packet").message, Message::NewDevice(device));
    // A letter beyond ASCII comes as one byte, and no letter at all is not a description.
    let latin = packet(3, b"{\"name\":\"Caf\xe9\",\"layout\":\"Mouse\"}\0\0\0");
    assert!(
        matches!(Packet::parse(&latin).expect("a packet").message, Message::NewDevice(device) if device.layout == "Mouse")
    );
    for data in [b"\0\0\0\0".as_slice(), b"", b"[7]", b"{\"name\":7}", b"{"] {
        assert_eq!(Packet::parse(&packet(3, data)), Err(InputError::DeviceSyntax), "{data:?}");
    }
}

#[test]
fn a_mouse_is_read_bit_by_bit() {
    let bytes = packet(4, &state(*b"SUOM", 1, &mouse_body([640.0, 360.5, 3.0, -2.0, 0.0, 100.0], 0b101)));
    assert_eq!(bytes.len(), 12 + 20 + 4 + 30);
    let expected = MouseState {
        position: [640.0, 360.5],
        delta: [3.0, -2.0],
        scroll: [0.0, 100.0],
        buttons: button::LEFT | button::MIDDLE,
        display: 0,
        clicks: 0,
    };
    assert_eq!(only_event(&bytes), Event { device: 1, seconds: 1.25, kind: EventKind::State(State::Mouse(expected)) });
    // Before the client knows the picture's size it divides by zero.
    let early = mouse_body([f32::NAN, f32::NEG_INFINITY, 1.0, f32::NAN, 0.0, 0.0], 0);
    let EventKind::State(State::Mouse(early)) = only_event(&packet(4, &state(*b"SUOM", 1, &early))).kind else {
        panic!()
    };
    assert_eq!((early.position, early.delta), ([0.0, 0.0], [1.0, 0.0]));
}

#[test]
fn keys_are_read_bit_by_bit() {
    for (byte, bit, number) in
        [(0, 1, key::SPACE), (4, 5, key::W), (1, 7, key::A), (6, 3, key::LEFT_SHIFT), (13, 5, 109)]
    {
        let mut body = [0; 14];
        body[byte] = 1 << bit;
        let EventKind::State(State::Keyboard(keys)) = only_event(&packet(4, &state(*b"SYEK", 2, &body))).kind else {
            panic!()
        };
        let down: Vec<u8> = (0..=u8::MAX).filter(|key| keys.is_down(*key)).collect();
        assert_eq!(down, [number]);
    }
}

#[test]
fn fingers_and_gamepads_are_read() {
    let EventKind::State(State::Touch(touch)) =
        only_event(&packet(4, &state(*b"CUOT", 4, &touch_body(7, [5.0, 6.0], 2)))).kind
    else {
        panic!()
    };
    let expected = TouchState {
        finger: 7,
        position: [5.0, 6.0],
        delta: [1.0, -1.0],
        pressure: 0.5,
        radius: [11.0, 12.0],
        phase: TouchPhase::Moved,
        taps: 1,
        display: 0,
        flags: 32,
        started_seconds: 0.75,
        started_position: [3.0, 4.0],
    };
    assert_eq!(touch, expected);
    let body = [(pad::SOUTH | pad::WEST).to_le_bytes().to_vec(), floats(&[0.1, 0.2, -0.3, -0.4, 0.5, 1.0])].concat();
    assert_eq!(body.len(), 28);
    let expected = GamepadState {
        buttons: pad::SOUTH | pad::WEST,
        left_stick: [0.1, 0.2],
        right_stick: [-0.3, -0.4],
        left_trigger: 0.5,
        right_trigger: 1.0,
    };
    assert_eq!(only_event(&packet(4, &state(*b"DAPG", 3, &body))).kind, EventKind::State(State::Gamepad(expected)));
}

#[test]
fn letters_other_formats_and_other_events_are_distinguished() {
    assert_eq!(only_event(&packet(4, &event(*b"TXET", 2, &[119, 0, 0, 0]))).kind, EventKind::Text(119));
    let other = u32::from_be_bytes(*b"TSCR");
    assert_eq!(only_event(&packet(4, &state(*b"RCST", 4, &[9; 40]))).kind, EventKind::State(State::Other(other)));
    let other = u32::from_be_bytes(*b"DLTA");
    assert_eq!(only_event(&packet(4, &event(*b"ATLD", 4, &[9; 11]))).kind, EventKind::Other(other));
}

#[test]
fn several_events_lie_at_multiples_of_four() {
    let mut data = state(*b"SUOM", 1, &mouse_body([0.0; 6], 1));
    assert_eq!(data.len() % 4, 2);
    data.extend([0; 2]);
    data.extend(event(*b"TXET", 2, &[65, 0, 0, 0]));
    let bytes = packet(4, &data);
    let Message::NewEvents(events) = Packet::parse(&bytes).expect("a packet").message else { panic!() };
    let kinds: Vec<_> = events.map(|event| event.expect("whole").kind).collect();
    assert!(matches!(kinds.as_slice(), [EventKind::State(State::Mouse(_)), EventKind::Text(65)]), "{kinds:?}");
}

#[test]
fn what_is_not_as_documented_is_refused_with_the_reason() {
    let mouse = state(*b"SUOM", 1, &mouse_body([0.0; 6], 0));
    let mut too_long = packet(2, &[0; 8]);
    too_long[8] = 9;
    let mut negative = packet(2, &[]);
    negative[11] = 0x80;
    let mut small = event(*b"TXET", 2, &[0; 4]);
    small[4] = 19;
    let mut beyond = event(*b"TXET", 2, &[0; 4]);
    beyond[4] = 25;
    let in_event = |data: &[u8]| match Packet::parse(&packet(4, data)) {
        Ok(Packet { message: Message::NewEvents(mut events), .. }) => {
            let error = events.find_map(Result::err).expect("refused");
            assert_eq!(events.next(), None, "nothing is read behind a fault");
            error
        }
        Ok(_) => panic!("events"),
        Err(error) => error,
    };
    for (found, expected) in [
        (Packet::parse(&[]).unwrap_err(), InputError::Truncated { need: 4, have: 0 }),
        (Packet::parse(&[0; 11]).unwrap_err(), InputError::Truncated { need: 12, have: 11 }),
        (Packet::parse(&too_long).unwrap_err(), InputError::Truncated { need: 21, have: 20 }),
        (Packet::parse(&negative).unwrap_err(), InputError::Field("length")),
        (Packet::parse(&[packet(8, &[]), vec![0]].concat()).unwrap_err(), InputError::Trailing(1)),
        (Packet::parse(&packet(10, &[])).unwrap_err(), InputError::Type(10)),
        (Packet::parse(&packet(-1, &[])).unwrap_err(), InputError::Type(-1)),
        (Packet::parse(&vec![0; MAX_MESSAGE_BYTES + 1]).unwrap_err(), InputError::TooLong(MAX_MESSAGE_BYTES + 1)),
        (Packet::parse(&packet(5, &[1, 0])).unwrap_err(), InputError::Truncated { need: 4, have: 2 }),
        (in_event(&[]), InputError::Truncated { need: 20, have: 0 }),
        (in_event(&mouse[..53]), InputError::Truncated { need: 54, have: 53 }),
        (in_event(&small), InputError::Field("event size")),
        (in_event(&beyond), InputError::Truncated { need: 25, have: 24 }),
        (in_event(&state(*b"SUOM", 1, &[0; 29])), InputError::Truncated { need: 34, have: 33 }),
        (in_event(&state(*b"SYEK", 1, &[0; 13])), InputError::Truncated { need: 18, have: 17 }),
        (in_event(&state(*b"CUOT", 1, &touch_body(0, [0.0; 2], 6))), InputError::Field("touch phase")),
        (in_event(&[mouse.as_slice(), &[0; 3]].concat()), InputError::Truncated { need: 4, have: 1 }),
    ] {
        assert_eq!(found, expected);
    }
}

/// Nearly valid packets: most random bytes would already fail at the type.
pub(crate) fn nearly_a_packet() -> impl Strategy<Value = Vec<u8>> {
    let body = prop::collection::vec(any::<u8>(), 0..80);
    let letters = prop::sample::select(vec![*b"SUOM", *b"SYEK", *b"CUOT", *b"DAPG", *b"RCST"]);
    let events =
        (letters, body.clone(), 0..5_u16).prop_map(|(letters, body, device)| packet(4, &state(letters, device, &body)));
    let text = (body.clone(), 0..5_u16).prop_map(|(body, device)| packet(4, &event(*b"TXET", device, &body)));
    let whole = (-1..11_i32, body).prop_map(|(kind, data)| packet(kind, &data));
    let damaged = prop_oneof![events, text, whole];
    (damaged, any::<prop::sample::Index>(), prop::option::of(any::<u8>()), 0..3_usize).prop_map(
        |(mut bytes, at, byte, cut)| {
            let at = at.index(bytes.len());
            if let Some(byte) = byte {
                bytes[at] = byte;
            }
            bytes.truncate(bytes.len() - cut);
            bytes
        },
    )
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in nearly_a_packet()) {
        if let Ok(Packet { message: Message::NewEvents(events), .. }) = Packet::parse(&bytes) {
            prop_assert!(events.count() <= bytes.len() / 20 + 1);
        }
    }
}
