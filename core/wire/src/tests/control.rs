//! Messages of the control stream.

use crate::*;

#[test]
fn a_hello_of_version_1_is_understood_so_that_it_can_be_refused_in_words() {
    let hello = r#"{"type":"hello","protocol":1,"token":"t","client":"c","display":"screen","codecs":["h264"],"display_hz":60}"#;
    let Ok(ClientMessage::Hello(hello)) = serde_json::from_str(hello) else { panic!("it is not a hello") };
    assert_eq!((hello.protocol, hello.sound, hello.proof, hello.name), (1, false, None, None));
}

#[test]
fn codecs_go_by_their_names_and_a_hello_may_have_others() {
    for codec in CodecKind::ALL {
        assert_eq!(serde_json::to_value(codec).unwrap(), codec.name());
        assert_eq!(codec.name().parse(), Ok(codec));
    }
    let hello = r#"{"type":"hello","protocol":2,"client":"c","display":"screen","codecs":["h277","vp8","h264"],"display_hz":60}"#;
    let Ok(ClientMessage::Hello(hello)) = serde_json::from_str(hello) else { panic!("it is not a hello") };
    assert_eq!(hello.codecs, [CodecKind::Vp8, CodecKind::H264]);
}

#[test]
fn proofs_in_control_messages_are_written_as_documented() {
    let (nonce, mac) = (Bytes32([0x22; 32]), Bytes32([0x33; 32]));
    for (proof, json) in [
        (TokenProof::Exporter { mac }, r#"{"binding":"exporter","mac":"MAC"}"#),
        (TokenProof::Certificate { nonce, mac }, r#"{"binding":"certificate","nonce":"NONCE","mac":"MAC"}"#),
        (TokenProof::Nonces { nonce, mac }, r#"{"binding":"nonces","nonce":"NONCE","mac":"MAC"}"#),
    ] {
        let json = json.replace("NONCE", &nonce.to_string()).replace("MAC", &mac.to_string());
        assert_eq!(serde_json::to_string(&proof).unwrap(), json);
        assert_eq!(serde_json::from_str::<TokenProof>(&json).unwrap(), proof);
        for broken in [json.replace("22", "2"), json.replace("33", "3g"), json.replace("binding", "bound")] {
            assert!(broken == json || serde_json::from_str::<TokenProof>(&broken).is_err(), "{broken}");
        }
    }
    let challenge = ServerMessage::Challenge { nonce };
    assert_eq!(serde_json::to_string(&challenge).unwrap(), format!(r#"{{"type":"challenge","nonce":"{nonce}"}}"#));
}

#[test]
fn control_messages_are_cut_out_of_the_stream() {
    let goodbye = ServerMessage::Goodbye { message: "bye".into() };
    let bytes = [write_control(&goodbye), write_control(&goodbye)].concat();
    let mut reader = ControlReader::default();
    let mut seen = 0;
    for byte in bytes {
        reader.on_bytes(&[byte]);
        while let Some(message) = reader.poll::<ServerMessage>().expect("well-formed") {
            assert_eq!(message, goodbye);
            seen += 1;
        }
    }
    assert_eq!(seen, 2);
    let mut hostile = ControlReader::default();
    hostile.on_bytes(&u32::MAX.to_be_bytes());
    assert_eq!(hostile.poll::<ServerMessage>(), Err(WireError::ControlTooLong(u32::MAX as usize)));
}

#[test]
fn messages_of_rooms_follow_texts_on_the_same_stream() {
    let goodbye = ServerMessage::Goodbye { message: "bye".into() };
    let mut reader = ControlReader::default();
    reader
        .on_bytes(&[write_control(&goodbye), write_message(&[0x16, 0]), write_message(&[]), vec![0, 0, 0, 3]].concat());
    assert_eq!(reader.poll(), Ok(Some(goodbye)));
    assert_eq!(reader.poll_bytes(2), Ok(Some(vec![0x16, 0])));
    assert_eq!(reader.poll_bytes(2), Ok(Some(Vec::new())));
    assert_eq!(reader.poll_bytes(3), Ok(None));
    assert_eq!(reader.poll_bytes(2), Err(WireError::ControlTooLong(3)), "before any of it has come");
}

#[test]
fn what_the_application_has_for_its_user_is_written_as_documented() {
    let shake = Haptics { target: HapticsTarget::Controller(Hand::Left), milliseconds: 40, strong: 0.5, weak: 1.0 };
    for (message, json) in [
        (
            ServerMessage::Haptics(shake),
            r#"{"type":"haptics","target":{"controller":"left"},"milliseconds":40,"strong":0.5,"weak":1.0}"#,
        ),
        (
            ServerMessage::Pointer { cursor: CursorShape::Named("grab".into()), captured: true },
            r#"{"type":"pointer","cursor":{"named":"grab"},"captured":true}"#,
        ),
        (
            ServerMessage::Pointer {
                cursor: CursorShape::Image { width: 1, height: 1, hotspot: [0, 0], rgba: Base64(vec![1, 2, 3, 255]) },
                captured: false,
            },
            r#"{"type":"pointer","cursor":{"image":{"width":1,"height":1,"hotspot":[0,0],"rgba":"AQID/w=="}},"captured":false}"#,
        ),
        (ServerMessage::Application { data: Base64(vec![0]) }, r#"{"type":"application","data":"AA=="}"#),
        (ServerMessage::Clipboard { text: "t".into(), more: false }, r#"{"type":"clipboard","text":"t"}"#),
        (ServerMessage::Clipboard { text: "t".into(), more: true }, r#"{"type":"clipboard","text":"t","more":true}"#),
    ] {
        assert_eq!(serde_json::to_string(&message).unwrap(), json);
        assert_eq!(serde_json::from_str::<ServerMessage>(json).unwrap(), message);
    }
    assert!(serde_json::from_str::<ClientMessage>(r#"{"type":"application","data":"%"}"#).is_err());
}
