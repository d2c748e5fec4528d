//! Streams are told apart, and Table 3 is what was sent.

use crate::support;
use nearlight_analyze::{Kind, Limits, Study, Traffic};
use support::file::{Form, Link, pcap, pcapng};
use support::stream::{AUDIO_SSRC, ROUND_TRIP_MS, Stream, VIDEO_SSRC};
use support::{Datagram, Dice};

fn study(file: &[u8]) -> Study {
    Study::new(&Traffic::read(file, &Limits::default()).unwrap(), None).unwrap()
}

fn near(found: f64, expected: f64, relative: f64) {
    assert!((found / expected - 1.0).abs() <= relative, "{found} where {expected} was sent");
}

#[test]
fn table_three_of_a_known_stream() {
    let made = Stream { seconds: 10.0, ..Stream::default() }.make();
    let found = study(&pcap(&Form::default(), &made.datagrams));
    assert_eq!(found.sender, "192.168.0.2:50000");
    assert_eq!(found.receiver, "192.168.0.7:40000");
    let kinds: Vec<(bool, Kind)> = found.streams.iter().map(|row| (row.downlink, row.kind)).collect();
    let expected = [
        (true, Kind::RtpVideo),
        (true, Kind::RtpAudio),
        (true, Kind::Other),
        (true, Kind::Stun),
        (false, Kind::Dtls),
        (false, Kind::Rtcp),
        (false, Kind::Stun),
    ];
    assert_eq!(kinds, expected);
    let [video, audio, ..] = found.streams.as_slice() else { panic!("no two streams") };
    assert_eq!((video.ssrc, video.payload_type), (Some(VIDEO_SSRC), Some(96)));
    assert_eq!((audio.ssrc, audio.payload_type), (Some(AUDIO_SSRC), Some(111)));
    assert_eq!(video.packets, made.video_packets as u64);
    // 41 bytes of sound, 42 of headers: the study's 83.
    near(audio.mean_size, 83.0, 1e-9);
    near(audio.mean_gap_ms.unwrap(), 20.0, 1e-3);
    let video_bytes: usize = made
        .datagrams
        .iter()
        .filter(|datagram| datagram.payload.len() > 12 && datagram.payload[8..12] == VIDEO_SSRC.to_be_bytes())
        .map(|datagram| datagram.payload.len() + 42)
        .sum();
    assert_eq!(video.bytes, video_bytes as u64);
    near(video.load_mbps, video_bytes as f64 * 8e-6 / found.duration_s, 1e-6);
    let shares: f64 = found.streams.iter().filter(|row| row.downlink).map(|row| row.share).sum();
    near(shares, 1.0, 1e-9);
    near(found.downlink.share + found.uplink.share, 1.0, 1e-9);
    let round_trip = found.stun_sender_ms.unwrap();
    assert_eq!(round_trip.count, 4);
    near(round_trip.mean, ROUND_TRIP_MS, 1e-6);
    assert!(found.stun_receiver_ms.is_none());
    assert_eq!((video.sequence.as_ref().unwrap().missing, audio.sequence.as_ref().unwrap().missing), (0, 0));
}

#[test]
fn a_request_that_was_sent_again_tells_no_round_trip() {
    let mut made = Stream { seconds: 10.0, ..Stream::default() }.make();
    let is_stun = |datagram: &&mut Datagram| datagram.payload.get(4..8) == Some(&[0x21, 0x12, 0xa4, 0x42]);
    let mut checks = made.datagrams.iter_mut().filter(is_stun);
    let (request, answer) = (checks.next().unwrap(), checks.next().unwrap());
    answer.nanos += 600_000_000;
    let again = Datagram { nanos: request.nanos + 500_000_000, payload: request.payload.clone(), ..*request };
    made.datagrams.push(again);
    made.datagrams.sort_by_key(|datagram| datagram.nanos);
    let round_trip = study(&pcap(&Form::default(), &made.datagrams)).stun_sender_ms.unwrap();
    assert_eq!(round_trip.count, 3, "of four");
    near(round_trip.mean, ROUND_TRIP_MS, 1e-6);
}

/// The packets of a pcap file without options, as Ethernet frames.
fn change_packets(file: &mut [u8], mut change: impl FnMut(&mut [u8])) {
    let mut at = 24;
    while at < file.len() {
        let kept = u32::from_le_bytes(file[at + 8..at + 12].try_into().unwrap()) as usize;
        change(&mut file[at + 16..at + 16 + kept]);
        at += 16 + kept;
    }
}

#[test]
fn other_ports_of_the_same_two_machines_are_reported_beside_the_main_one() {
    let made = Stream { seconds: 4.0, ..Stream::default() }.make();
    let form = Form::default();
    let whole = study(&pcap(&form, &made.datagrams));
    assert!(whole.beside.is_empty());
    let mut file = pcap(&form, &made.datagrams);
    let mut elsewhere = 0;
    change_packets(&mut file, |packet| {
        let (headers, payload) = packet.split_at_mut(42);
        if payload.get(8..12) == Some(AUDIO_SSRC.to_be_bytes().as_slice()) {
            // From and to ports of their own.
            headers[34..38].copy_from_slice(&[50_002_u16.to_be_bytes(), 40_002_u16.to_be_bytes()].concat());
        } else if (20..64).contains(&payload[0]) {
            // To another machine.
            headers[33] = 9;
            elsewhere += 1;
        }
    });
    let found = study(&file);
    let [sound] = found.beside.as_slice() else { panic!("{:?}", found.beside) };
    assert_eq!((sound.sender.as_str(), sound.receiver.as_str()), ("192.168.0.2:50002", "192.168.0.7:40002"));
    let [row] = sound.streams.as_slice() else { panic!("{:?}", sound.streams) };
    let audio = |found: &Study| found.streams.iter().find(|row| row.kind == Kind::RtpAudio).cloned();
    let before = audio(&whole).unwrap();
    assert_eq!((row.kind, row.ssrc, row.packets, row.bytes), (before.kind, before.ssrc, before.packets, before.bytes));
    assert!(elsewhere > 0 && audio(&found).is_none());
    let text = nearlight_analyze::words(&found, None);
    assert!(text.contains("beside it 192.168.0.2:50002 to 192.168.0.7:40002"), "{text}");
    assert!(nearlight_analyze::document(&found, None).to_html().contains("port 50002: SRTP audio"));
}

/// A sender's report, or a receiver's that answers it after 20 ms.
fn report(answer: bool, number: u8) -> Vec<u8> {
    let middle = [number, 1, 2, 3];
    let mut payload = if answer { vec![0x81, 201, 0, 7, 0, 0, 0, 9] } else { vec![0x80, 200, 0, 6, 0, 0, 0, 1, 0, 0] };
    payload.resize(if answer { 24 } else { 10 }, 0);
    payload.extend(middle);
    // 20 ms in 1/65536 s.
    payload.extend(1_311_u32.to_be_bytes());
    payload.resize(if answer { 32 } else { 28 }, 0);
    payload
}

#[test]
fn reports_in_the_clear_tell_round_trips() {
    let mut datagrams = Stream { seconds: 10.0, ..Stream::default() }.make().datagrams;
    let origin = datagrams[0].nanos;
    for number in 1..=9 {
        let sent = origin + i64::from(number) * 1_000_000_000;
        datagrams.push(Datagram { nanos: sent, down: true, payload: report(false, number) });
        // The other one answers a report that was never sent.
        for (after, answers) in [(35, number), (600, 200)] {
            datagrams.push(Datagram { nanos: sent + after * 1_000_000, down: false, payload: report(true, answers) });
        }
    }
    datagrams.sort_by_key(|datagram| datagram.nanos);
    let found = study(&pcap(&Form::default(), &datagrams));
    let trips = found.rtcp_sender_ms.unwrap();
    assert_eq!(trips.count, 9);
    near(trips.min, 15.0, 1e-3);
    near(trips.max, 15.0, 1e-3);
    assert!(found.rtcp_receiver_ms.is_none());
    assert_eq!(found.stun_sender_ms.unwrap().count, 4);
}

#[test]
fn every_form_of_file_says_the_same() {
    let made = Stream { seconds: 0.6, ..Stream::default() }.make();
    let expected = study(&pcap(&Form::default(), &made.datagrams));
    let table = |study: &Study| -> Vec<(bool, Kind, u64, u64)> {
        study.streams.iter().map(|row| (row.downlink, row.kind, row.packets, row.bytes)).collect()
    };
    for link in [Link::Ethernet, Link::Vlan, Link::RawIp, Link::Null, Link::Sll, Link::Sll2] {
        for (big_endian, nanoseconds) in [(false, false), (false, true), (true, false), (true, true)] {
            let form = Form { link, big_endian, nanoseconds, ..Form::default() };
            for file in [pcap(&form, &made.datagrams), pcapng(&form, &made.datagrams)] {
                let found = study(&file);
                assert_eq!(table(&found), table(&expected), "{form:?}");
                assert!(found.capture.damage.is_none(), "{form:?}: {:?}", found.capture.damage);
                assert!((found.duration_s - expected.duration_s).abs() < 2e-6);
            }
        }
    }
    let six = study(&pcapng(&Form { ipv6: true, ..Form::default() }, &made.datagrams));
    assert_eq!(six.sender, "[fd00::c0a8:2]:50000");
    assert_eq!(six.capture.dropped, 3);
    assert_eq!(six.streams[0].packets, expected.streams[0].packets);
    near(six.streams[0].mean_size, expected.streams[0].mean_size + 20.0, 1e-9);
}

#[test]
fn quic_is_known_by_its_handshake() {
    let made = Stream { seconds: 4.0, quic: true, ..Stream::default() }.make();
    let found = study(&pcap(&Form::default(), &made.datagrams));
    let kinds: Vec<(bool, Kind)> = found.streams.iter().map(|row| (row.downlink, row.kind)).collect();
    assert_eq!(kinds, [(true, Kind::QuicShort), (false, Kind::QuicShort), (false, Kind::QuicLong)]);
}

#[test]
fn bytes_without_any_shape_are_one_stream() {
    let mut dice = Dice::new(7);
    let packet = |frame: i64, place: i64, dice: &mut Dice| {
        let payload = (0..1_200).map(|_| dice.number() as u8).collect();
        Datagram { nanos: frame * 16_666_667 + place * 20_000, down: true, payload }
    };
    let datagrams: Vec<Datagram> = (0..120)
        .flat_map(|frame| (0..20).map(move |place| (frame, place)))
        .map(|(frame, place)| packet(frame, place, &mut dice))
        .collect();
    let study = study(&pcap(&Form::default(), &datagrams));
    let kinds: Vec<Kind> = study.streams.iter().map(|row| row.kind).collect();
    assert_eq!(kinds, [Kind::Other]);
    let frames = study.video.expect("video").frames;
    near(frames.fps.expect("a rate"), 60.0, 1e-3);
    near(frames.packets.mean, 20.0, 1e-9);
}

#[test]
fn the_named_sender_is_looked_at() {
    let made = Stream { seconds: 1.0, ..Stream::default() }.make();
    let file = pcap(&Form::default(), &made.datagrams);
    let traffic = Traffic::read(file.as_slice(), &Limits::default()).unwrap();
    let found = Study::new(&traffic, Some("192.168.0.7:40000".parse().unwrap())).unwrap();
    assert_eq!(found.sender, "192.168.0.7:40000");
    assert!(found.uplink.bytes > found.downlink.bytes);
    let error = Study::new(&traffic, Some("10.0.0.1:1".parse().unwrap())).unwrap_err().to_string();
    assert!(error.contains("10.0.0.1:1") && error.contains("192.168.0.2:50000"), "{error}");
}
