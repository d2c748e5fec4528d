use nearlight_units::{BlockId, FrameId, InputSeq, PacketSeq, RemoteTime, Span, Time};
use proptest::prelude::*;

use super::*;

mod control;

fn symbol_bytes(header: &SymbolHeader, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    header.write(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

fn sample_symbol() -> SymbolHeader {
    SymbolHeader {
        flags: SymbolFlags { key: false, retransmission: true, probe: false },
        reference_distance: 1,
        seq: PacketSeq(7),
        sent_at: RemoteTime::from_micros(123_456),
        frame: FrameId(42),
        index: 2,
        symbols: 3,
        frame_bytes: 3_001,
        deadline_after_send_us: 90_000,
    }
}

fn sample_repair() -> RepairHeader {
    let covered = CoveredFrame { reference_distance: 1, symbols: 3, frame_bytes: 3_001, digest: 0xDEAD_BEEF };
    RepairHeader {
        on_demand: true,
        seq: PacketSeq(8),
        sent_at: RemoteTime::from_micros(123_789),
        frame: FrameId(42),
        number: 300,
        deadline_after_send_us: 90_000,
        covered: vec![covered, CoveredFrame { reference_distance: 0, symbols: 4, frame_bytes: 4_400, digest: 7 }],
    }
}

fn repair_bytes(header: &RepairHeader, payload: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    header.write(&mut bytes);
    bytes.resize(bytes.len() + payload, 9);
    bytes
}

fn sample_input() -> InputSample {
    let view = View { pose: Pose::default(), fov: Fov::symmetric(1.2, 16.0 / 9.0) };
    let mut sample = InputSample::of_views(
        InputSeq(9),
        RemoteTime::from_micros(55),
        Pose { position: [1.0, 1.6, -3.0], ..Pose::default() },
        vec![view, view],
    );
    sample.devices = Devices {
        gaze: Some(Pose::default()),
        controllers: vec![Controller {
            grip: Some(Pose::default()),
            pressed: 2,
            touched: 3,
            values: vec![0, 65_535],
            axes: vec![-32_767, 9],
            ..Controller::pointing(Hand::Left, Pose::default())
        }],
        keys: vec![Key(0x7_0004), Key(0xc_00cd)],
        pointer: Some(Pointer {
            at: ScreenPoint { x: 1, y: 2 },
            captured: true,
            moved: [3, -4],
            scrolled: [-5, 6],
            buttons: 5,
        }),
        touches: vec![Touch { id: 70_000, at: ScreenPoint { x: 7, y: 8 }, pressure: 9 }],
        gamepads: vec![Gamepad { index: 3, pressed: 1 << 16, values: vec![9; 17], axes: vec![1, -2, 3, -4] }],
        hands: [false, true],
    };
    sample.first_event = 77;
    sample.events = all_events();
    sample
}

fn all_events() -> Vec<InputEvent> {
    let at = ScreenPoint { x: 300, y: 65_535 };
    let mut events = vec![
        InputEvent::Text("ß€".into()),
        InputEvent::KeyRepeated { key: Key(0x7_0050) },
        InputEvent::KeyCharacter { key: Key(0x7_0014), character: 'é' },
        InputEvent::TouchBegan { id: 70_000, at },
        InputEvent::TouchEnded { id: 70_000, at, cancelled: false },
        InputEvent::TouchEnded { id: 70_001, at, cancelled: true },
    ];
    for pressed in [true, false] {
        events.push(InputEvent::Key { key: Key(0x7_0004), pressed });
        events.push(InputEvent::Button { button: PointerButton::Forward, pressed, at });
        events.push(InputEvent::GamepadButton { gamepad: 3, button: 19, pressed });
        events.push(InputEvent::ControllerButton { hand: Hand::Right, button: 9, pressed });
    }
    events
}

fn sample_hand() -> HandSample {
    let joint = Joint { offset: [1.0, -1.0, 0.0], radius: 0.01, ..Joint::default() };
    HandSample {
        seq: InputSeq(9),
        joints: HandJoints { hand: Hand::Left, wrist: [9_000.0, 1.0, 0.5], joints: [joint; JOINTS] },
    }
}

#[test]
fn symbol_layout_is_the_documented_one() {
    let payload = vec![5; symbol_range(3_001, 3, 2).len()];
    let bytes = symbol_bytes(&sample_symbol(), &payload);
    assert_eq!(bytes.len(), SYMBOL_HEADER_BYTES + 999);
    assert_eq!(bytes[..8], [0x31, 2, 1, 0, 0, 0, 0, 7]);
    assert_eq!(ToClient::parse(&bytes), Ok(ToClient::Symbol(sample_symbol(), &payload)));
}

#[test]
fn repair_layout_is_the_documented_one() {
    let bytes = repair_bytes(&sample_repair(), 1_100);
    assert_eq!((REPAIR_HEADER_BYTES, COVERED_FRAME_BYTES), (26, 11));
    assert_eq!(bytes.len(), 26 + 2 * 11 + 1_100);
    assert_eq!(bytes[..8], [0x39, 1, 2, 0, 0, 0, 0, 8]);
    assert_eq!(bytes[16..26], [0, 0, 0, 42, 1, 44, 0, 1, 0x5f, 0x90]);
    assert_eq!(bytes[26..37], [1, 0, 3, 0, 0, 11, 0xb9, 0xde, 0xad, 0xbe, 0xef]);
    assert_eq!(ToClient::parse(&bytes), Ok(ToClient::Repair(sample_repair(), &[9; 1_100])));
}

#[test]
fn malformed_repairs_are_refused() {
    type Break = fn(&mut RepairHeader);
    let cases: [(Break, WireError); 6] = [
        (|header| header.covered[1].frame_bytes = MAX_FRAME_BYTES + 1, WireError::Field("frame_bytes")),
        (|header| header.covered[0].frame_bytes = 0, WireError::Field("frame_bytes")),
        (|header| header.covered[0].symbols = 0, WireError::Field("symbols")),
        // 3,001 bytes in 1,600 symbols of 2: the last ones would be empty.
        (|header| header.covered[0].symbols = 1_600, WireError::Field("symbols")),
        (|header| header.frame = FrameId(0), WireError::Field("count")),
        (|header| header.covered.truncate(1), WireError::Field("payload length")),
    ];
    for (break_header, error) in cases {
        let mut header = sample_repair();
        break_header(&mut header);
        assert_eq!(ToClient::parse(&repair_bytes(&header, 1_100)), Err(error));
    }
    let bytes = repair_bytes(&sample_repair(), 1_100);
    for (at, value, error) in [(1, 2, "flags"), (2, 0, "count"), (2, 33, "count"), (3, 1, "reserved")] {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        assert_eq!(ToClient::parse(&bytes), Err(WireError::Field(error)));
    }
    for end in 0..bytes.len() {
        assert!(ToClient::parse(&bytes[..end]).is_err(), "cut to {end} bytes");
    }
}

#[test]
fn sound_layout_is_the_documented_one() {
    let (packet, before) = ([1, 2, 3], [4, 5]);
    let made_at = RemoteTime::from_micros(0x0102_0304);
    let sound = Sound { block: BlockId(7), made_at, due_after_us: 40_000, packet: &packet, before: &before };
    let bytes = sound.to_bytes();
    assert_eq!(bytes, [0x3c, 0, 0, 0, 7, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0x9c, 0x40, 0, 3, 1, 2, 3, 4, 5]);
    assert_eq!(ToClient::parse(&bytes), Ok(ToClient::Sound(sound)));
    let alone = Sound { before: &[], ..sound };
    assert_eq!(ToClient::parse(&alone.to_bytes()), Ok(ToClient::Sound(alone)));
    for end in 0..SOUND_HEADER_BYTES + packet.len() {
        assert!(ToClient::parse(&bytes[..end]).is_err(), "cut to {end} bytes");
    }
    let long = [0; MAX_SOUND_PACKET_BYTES + 1];
    for (sound, field) in [
        (Sound { packet: &[], ..sound }, "packet"),
        (Sound { packet: &long, ..sound }, "packet"),
        (Sound { before: &long, ..sound }, "before"),
        (Sound { block: BlockId(0), ..sound }, "before"),
    ] {
        assert_eq!(ToClient::parse(&sound.to_bytes()), Err(WireError::Field(field)));
    }
}

#[test]
fn symbols_tile_the_frame() {
    for (frame_bytes, symbols) in [(1, 1), (10, 3), (1_200, 2), (4_000_000, 4_000)] {
        let mut end = 0;
        for index in 0..symbols {
            let range = symbol_range(frame_bytes, symbols, index);
            assert_eq!(range.start, end);
            end = range.end;
        }
        assert_eq!(end, frame_bytes as usize);
    }
}

#[test]
fn malformed_symbols_are_refused() {
    type Break = fn(&mut SymbolHeader);
    let payload = vec![5; 999];
    let cases: [(Break, WireError); 4] = [
        (|header| header.frame_bytes = MAX_FRAME_BYTES + 1, WireError::Field("frame_bytes")),
        (|header| header.index = 3, WireError::Field("index")),
        (|header| header.reference_distance = 0, WireError::Field("reference_distance")),
        (|header| header.frame_bytes = 900, WireError::Field("payload length")),
    ];
    for (break_header, error) in cases {
        let mut header = sample_symbol();
        break_header(&mut header);
        assert_eq!(ToClient::parse(&symbol_bytes(&header, &payload)), Err(error));
    }
    assert_eq!(ToClient::parse(&[0x11]), Err(WireError::Version(1)));
    assert_eq!(ToClient::parse(&[0x30]), Err(WireError::Kind(0)));
    assert_eq!(ToClient::parse(&[0x3f, 9]), Err(WireError::Kind(15)));
}

#[test]
fn every_uplink_message_survives_the_wire() {
    let messages = [
        ToServer::Input(sample_input()),
        ToServer::Hand(sample_hand().into()),
        ToServer::Feedback(Feedback {
            sent_at: RemoteTime::from_micros(10_000),
            first: PacketSeq(3),
            arrivals: vec![Some(RemoteTime::from_micros(9_001)), None, Some(RemoteTime::from_micros(8_999)), None],
            marked: Vec::new(),
        }),
        ToServer::Feedback(Feedback {
            sent_at: RemoteTime::from_micros(10_000),
            first: PacketSeq(3),
            arrivals: [Some(RemoteTime::from_micros(9_001)), None, None, None].repeat(3),
            marked: vec![0, 8],
        }),
        ToServer::Nack(Nack {
            missing: vec![MissingRun { frame: FrameId(1), first: 4, count: 2 }, MissingRun::whole(FrameId(2))],
        }),
        ToServer::KeyFrameRequest(KeyFrameRequest { newest: FrameId(12) }),
        ToServer::Acknowledgement(Acknowledgement { decoded: FrameId(12), newest: FrameId(14), lost: true }),
        ToServer::Ping(Ping { client_sent_at: RemoteTime::from_micros(1) }),
        ToServer::Report(Report { buffered: Some(11), frames: Vec::new() }),
        ToServer::Report(Report {
            buffered: None,
            frames: vec![FrameReport {
                frame: FrameId(1),
                network: Span::from_micros(300),
                reassemble: Span::from_micros(200),
                decode: Span::from_micros(2_000),
                present: Span::ZERO,
                motion_to_photon: Some(Span::from_micros(41_000)),
                late: false,
            }],
        }),
    ];
    for message in messages {
        let bytes = message.to_bytes();
        assert!(bytes.len() <= 1_200, "{message:?} takes {} bytes", bytes.len());
        assert_eq!(ToServer::parse(&bytes), Ok(message.clone()));
        for end in 0..bytes.len() {
            assert!(ToServer::parse(&bytes[..end]).is_err(), "{message:?} cut to {end} bytes was accepted");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(ToServer::parse(&longer), Err(WireError::Trailing(1)));
    }
}

#[test]
fn a_report_says_something() {
    let report = |frames: usize, buffered| {
        let (network, reassemble, decode, present) = (Span::ZERO, Span::ZERO, Span::ZERO, Span::ZERO);
        let frame = FrameId(1);
        let frame = FrameReport { frame, network, reassemble, decode, present, motion_to_photon: None, late: false };
        ToServer::Report(Report { buffered, frames: vec![frame; frames] }).to_bytes()
    };
    assert_eq!(report(0, Some(7)).len(), 3);
    for (frames, buffered) in [(1, Some(0)), (32, Some(255)), (32, None)] {
        assert!(ToServer::parse(&report(frames, buffered)).is_ok());
    }
    let mut nothing = report(1, None);
    nothing.truncate(2);
    for count in [0, 33, 0x7F, 0xA1, 0xFF] {
        nothing[1] = count;
        assert_eq!(ToServer::parse(&[&nothing[..], &[1]].concat()), Err(WireError::Field("count")), "{count}");
    }
}

#[test]
fn contradictory_devices_are_refused() {
    type Break = fn(&mut InputSample);
    let cases: [(Break, &str); 8] = [
        (|sample| sample.devices.controllers.push(Controller::pointing(Hand::Left, Pose::default())), "controllers"),
        (|sample| sample.devices.keys.push(Key(0x7_0004)), "keys"),
        (|sample| sample.devices.touches.push(sample.devices.touches[0]), "touches"),
        (|sample| sample.devices.gamepads.push(sample.devices.gamepads[0].clone()), "gamepads"),
        (|sample| sample.devices.gamepads[0].pressed = 1 << 17, "gamepad buttons"),
        (|sample| sample.devices.gamepads[0].axes[0] = i16::MIN, "fraction"),
        (|sample| sample.devices.controllers[0].touched = 4, "controller buttons"),
        (|sample| sample.first_event = u32::MAX, "events"),
    ];
    for (break_sample, field) in cases {
        let mut sample = sample_input();
        break_sample(&mut sample);
        assert_eq!(ToServer::parse(&ToServer::Input(sample).to_bytes()), Err(WireError::Field(field)));
    }
    let mut hand = sample_hand();
    hand.joints.hand = Hand::None;
    assert_eq!(ToServer::parse(&ToServer::Hand(hand.into()).to_bytes()), Err(WireError::Field("hand")));
}

#[test]
fn a_sample_of_a_screen_without_devices_has_the_documented_size() {
    let view = View { pose: Pose::default(), fov: Fov::symmetric(1.2, 16.0 / 9.0) };
    let sample = |views| InputSample::of_views(InputSeq(1), RemoteTime::ZERO, Pose::default(), views);
    assert_eq!(ToServer::Input(sample(vec![view])).to_bytes().len(), 88);
    assert_eq!(ToServer::Input(sample(vec![view; 2])).to_bytes().len(), 132);
    assert_eq!(ToServer::Hand(sample_hand().into()).to_bytes().len(), 394);
}

#[test]
fn joints_are_rounded_as_documented() {
    let mut hand = sample_hand();
    for (index, joint) in hand.joints.joints.iter_mut().enumerate() {
        let angle = index as f32 * 0.1;
        joint.offset = [0.0071 * index as f32, -0.0033, 0.05];
        joint.orientation = [angle.sin(), 0.0, 0.0, angle.cos()];
    }
    let ToServer::Hand(read) = ToServer::parse(&ToServer::Hand(hand.clone().into()).to_bytes()).unwrap() else {
        panic!()
    };
    for (was, is) in hand.joints.joints.iter().zip(&read.joints.joints) {
        let pairs = was.offset.iter().chain(&was.orientation).zip(is.offset.iter().chain(&is.orientation));
        for (was, is) in pairs {
            assert!((was - is).abs() < 1.6e-5, "{was} {is}");
        }
    }
    assert_eq!(ToServer::parse(&ToServer::Hand(read.clone()).to_bytes()), Ok(ToServer::Hand(read)), "rounded once");
}

#[test]
fn keys_have_one_code_and_codes_one_key() {
    for (code, usage) in
        [("KeyA", 0x7_0004), ("Enter", 0x7_0028), ("MetaRight", 0x7_00e7), ("MediaPlayPause", 0xc_00cd)]
    {
        assert_eq!(Key::from_code(code), Some(Key(usage)));
        assert_eq!(Key(usage).code(), Some(code));
    }
    let codes: Vec<_> = (0..0x10_0000).filter_map(|usage| Key(usage).code()).collect();
    assert!(codes.iter().all(|code| Key::from_code(code).and_then(Key::code) == Some(code)), "{codes:?}");
    assert_eq!(Key::from_code("Unidentified"), None);
}

#[test]
fn a_text_is_cut_between_characters() {
    let text = "€".repeat(50);
    let parts: Vec<_> = InputEvent::typed(&text).collect();
    let joined: String =
        parts.iter().map(|part| if let InputEvent::Text(text) = part { text.as_str() } else { panic!() }).collect();
    assert!(joined == text && parts.iter().all(|part| part.bytes() <= 2 + MAX_TEXT_BYTES));
    assert_eq!(InputEvent::typed("").count(), 0);
}

#[test]
fn the_largest_messages_fit_a_datagram() {
    let mut input = sample_input();
    let Devices { controllers, keys, touches, gamepads, .. } = &mut input.devices;
    let controller = Controller {
        values: vec![0; MAX_CONTROLLER_BUTTONS],
        axes: vec![0; MAX_CONTROLLER_AXES],
        ..controllers[0].clone()
    };
    *controllers = Hand::ALL.map(|hand| Controller { hand, ..controller.clone() }).to_vec();
    *keys = (0..MAX_KEYS as u32).map(Key).collect();
    *touches = (0..MAX_TOUCHES as u32).map(|id| Touch { id, ..touches[0] }).collect();
    let gamepad =
        Gamepad { values: vec![0; MAX_GAMEPAD_BUTTONS], axes: vec![0; MAX_GAMEPAD_AXES], ..gamepads[0].clone() };
    *gamepads = (0..MAX_GAMEPADS as u8).map(|index| Gamepad { index, ..gamepad.clone() }).collect();
    let text = InputEvent::Text("x".repeat(MAX_TEXT_BYTES));
    input.events = vec![text.clone(); MAX_EVENT_BYTES / text.bytes()];
    let bytes = ToServer::Input(input.clone()).to_bytes();
    assert!(bytes.len() <= 1_150, "{}", bytes.len());
    assert_eq!(ToServer::parse(&bytes), Ok(ToServer::Input(input.clone())));
    input.events.push(text);
    assert_eq!(ToServer::parse(&ToServer::Input(input).to_bytes()), Err(WireError::Field("events")));
    let message = UnreliableMessage(vec![7; MAX_UNRELIABLE_MESSAGE_BYTES].into());
    assert!(message.to_bytes().len() <= 1_150);
    assert_eq!(ToClient::parse(&message.to_bytes()), Ok(ToClient::Application(message.clone())));
    assert_eq!(ToServer::parse(&[message.to_bytes(), vec![0]].concat()), Err(WireError::Field("application message")));
    // Three bytes an arrival cover gaps of a second in either direction.
    let arrivals =
        (0..MAX_FEEDBACK_PACKETS as u64).map(|offset| Some(RemoteTime::from_micros(900_000 * offset))).collect();
    let marked = (0..MAX_FEEDBACK_PACKETS as u8).collect();
    let feedback = Feedback { sent_at: RemoteTime::from_secs(200), first: PacketSeq(0), arrivals, marked };
    assert!(ToServer::Feedback(feedback).to_bytes().len() <= 1_150);
}

#[test]
fn acknowledgements_that_contradict_themselves_are_refused() {
    let message = Acknowledgement { decoded: FrameId(12), newest: FrameId(12), lost: false };
    let mut bytes = ToServer::Acknowledgement(message).to_bytes();
    assert_eq!(bytes.len(), 10);
    bytes[5] += 1;
    assert_eq!(ToServer::parse(&bytes), Err(WireError::Field("newest")));
    (bytes[5], bytes[1]) = (0, 2);
    assert_eq!(ToServer::parse(&bytes), Err(WireError::Field("flags")));
}

#[test]
fn hostile_poses_are_refused() {
    for position in [f32::NAN, f32::INFINITY, 1e9] {
        let mut input = sample_input();
        input.head.position[1] = position;
        assert_eq!(ToServer::parse(&ToServer::Input(input).to_bytes()), Err(WireError::Field("position")));
    }
    let mut input = sample_input();
    input.head.orientation = [0.0; 4];
    assert_eq!(ToServer::parse(&ToServer::Input(input).to_bytes()), Err(WireError::Field("orientation")));
}

fn sample_frame_header() -> FrameHeader {
    FrameHeader {
        width: 1_280,
        height: 720,
        input: InputSeq(5),
        input_received_at: Time::from_micros(1),
        render_started_at: Time::from_micros(2),
        rendered_at: Time::from_micros(3),
        converted_at: Time::from_micros(4),
        encoded_at: Time::from_micros(5),
        display_at: Time::from_micros(6),
        deadline: Time::from_micros(7),
        views: sample_input().views,
    }
}

#[test]
fn notes_name_a_frame_by_its_timestamp() {
    let (sent_at, header) = (Time::from_micros(9), sample_frame_header());
    let note = FrameNote { frame: FrameId(3), key: true, last: true, rtp_timestamp: 0xFFFF_FFFE, sent_at, header };
    let bytes = note.to_bytes();
    assert_eq!(bytes.len(), 18 + MAX_FRAME_HEADER_BYTES);
    assert_eq!(bytes[..18], [0x3b, 3, 0, 0, 0, 3, 255, 255, 255, 254, 0, 0, 0, 0, 0, 0, 0, 9]);
    assert_eq!(ToClient::parse(&bytes), Ok(ToClient::Note(note.for_peer())));
    for end in 0..bytes.len() {
        assert!(ToClient::parse(&bytes[..end]).is_err(), "cut to {end} bytes");
    }
    assert_eq!(ToClient::parse(&[&bytes[..], &[0]].concat()), Err(WireError::Trailing(1)));
    assert_eq!(ToClient::parse(&[&[0x3b, 4], &bytes[2..]].concat()), Err(WireError::Field("flags")));
}

#[test]
fn frame_header_precedes_the_picture() {
    let header = sample_frame_header();
    let mut frame = Vec::new();
    header.write(&mut frame);
    assert_eq!(frame.len(), MAX_FRAME_HEADER_BYTES);
    frame.extend_from_slice(b"picture");
    assert_eq!(FrameHeader::parse(&frame), Ok((header.for_peer(), &b"picture"[..])));
}

#[test]
fn probe_padding_says_nothing_of_frames() {
    let flags = SymbolFlags { key: false, retransmission: false, probe: true };
    let probe = SymbolHeader {
        flags,
        reference_distance: 0,
        frame: FrameId(0),
        index: 0,
        symbols: 0,
        frame_bytes: 0,
        deadline_after_send_us: 0,
        ..sample_symbol()
    };
    assert_eq!(ToClient::parse(&symbol_bytes(&probe, &[0; 9])), Ok(ToClient::Symbol(probe, &[0; 9])));
    let hostile = SymbolHeader { index: u16::MAX, frame_bytes: u32::MAX, ..probe };
    assert_eq!(ToClient::parse(&symbol_bytes(&hostile, &[0; 9])), Err(WireError::Field("probe padding")));
}

#[test]
fn hands_are_numbered_in_their_order() {
    for (code, hand) in (0..).zip(Hand::ALL) {
        assert_eq!((hand as u8, Hand::from_code(code)), (code, Some(hand)));
    }
    assert_eq!(Hand::from_code(3), None);
}

#[test]
fn the_server_acknowledges_inputs() {
    let acknowledgement = InputAcknowledgement { seq: InputSeq(0x0102_0304) };
    assert_eq!(acknowledgement.to_bytes(), [0x3e, 1, 2, 3, 4]);
    assert_eq!(ToClient::parse(&[0x3e, 1, 2, 3, 4]), Ok(ToClient::InputAcknowledgement(acknowledgement)));
    assert_eq!(ToClient::parse(&[0x3e, 1, 2, 3, 4, 0]), Err(WireError::Trailing(1)));
}

#[test]
fn times_beyond_any_clock_are_refused() {
    let mut bytes = ToServer::Ping(Ping { client_sent_at: RemoteTime::from_micros(1) }).to_bytes();
    bytes[1..].fill(0xff);
    assert_eq!(ToServer::parse(&bytes), Err(WireError::Field("time")));
}

proptest! {
    #[test]
    fn parsers_accept_or_refuse_but_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0u8..16) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = PROTOCOL_VERSION << 4 | kind;
        }
        match ToClient::parse(&bytes) {
            Ok(ToClient::Note(note)) => {
                prop_assert_eq!(note.map_times(RemoteTime::on_shared_clock).to_bytes(), &bytes[..]);
            }
            Ok(ToClient::Sound(sound)) => prop_assert_eq!(sound.to_bytes(), &bytes[..]),
            _ => {}
        }
        if let Ok(message) = ToServer::parse(&bytes) {
            prop_assert_eq!(ToServer::parse(&message.to_bytes()), Ok(message));
        }
        let _ = FrameHeader::parse(&bytes);
        let mut control = ControlReader::default();
        control.on_bytes(&bytes);
        let _ = control.poll::<ClientMessage>();
    }
}
