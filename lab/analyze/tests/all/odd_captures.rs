//! Captures that can be read and are not what they seem: what is told of them in words.

use crate::support;
use nearlight_analyze::{Limits, Study, Traffic, document};
use support::Datagram;
use support::file::{Form, block, pcap, pcapng};
use support::stream::Stream;

fn read(file: &[u8]) -> Traffic {
    Traffic::read(file, &Limits::default()).unwrap()
}

fn small() -> Vec<Datagram> {
    Stream { seconds: 0.5, ..Stream::default() }.make().datagrams
}

/// A pcap of whole frames, each with its time.
fn raw(link: u32, frames: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut file = pcap(&Form::default(), &[]);
    file[20..24].copy_from_slice(&link.to_le_bytes());
    for (number, frame) in frames.into_iter().enumerate() {
        let length = frame.len() as u32;
        for field in [1_700_000_000, number as u32 * 1_000, length, length] {
            file.extend(field.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// Frames with an IPv4 packet in each, changed.
fn frames(change: impl Fn(usize, &mut Vec<u8>)) -> Vec<Vec<u8>> {
    let frame = |(number, datagram)| {
        let mut bytes = Form::default().frame(datagram);
        change(number, &mut bytes);
        bytes
    };
    small().iter().enumerate().map(frame).collect()
}

#[test]
fn what_is_odd_is_reported() {
    let plain = small();
    let late = |from: usize, by: i64| -> Vec<Datagram> {
        let moved = |(number, of): (usize, &Datagram)| {
            let by = if number < from { 0 } else { by };
            Datagram { nanos: of.nanos + by, ..of.clone() }
        };
        plain.iter().enumerate().map(moved).collect()
    };
    let twice = |after: i64| -> Vec<Datagram> {
        let copy = |of: &Datagram| [of.clone(), Datagram { nanos: of.nanos + after, ..of.clone() }];
        let mut all: Vec<Datagram> = plain.iter().flat_map(copy).collect();
        all.sort_by_key(|of| of.nanos);
        all
    };
    // Every other packet of the sender's is a later fragment, at the 185th block of eight bytes.
    let fragments = frames(|number, bytes| bytes[20..22].copy_from_slice(&[0, 185 * (number % 2) as u8]));
    let file = |datagrams: &[Datagram]| pcap(&Form::default(), datagrams);
    for (name, file, expected) in [
        ("plain", file(&plain), &[][..]),
        ("a step back of milliseconds", file(&late(500, -30_000_000)), &["out of order: 1,", "order of their times"]),
        (
            "the clock set back",
            file(&late(500, -3_000_000_000)),
            &["out of order: 1,", "clock was set", "are meaningless"],
        ),
        ("the clock set forward", file(&late(500, 3_000_000_000)), &[]),
        ("every packet twice", file(&twice(3_000)), &["every packet twice", "count twice"]),
        ("sent again later", file(&twice(20_000_000)), &[]),
        ("fragments", raw(1, fragments), &["later IP fragments", "% of the bytes"]),
    ] {
        let traffic = read(&file);
        let warnings = traffic.capture.warnings();
        assert_eq!(warnings.len(), usize::from(!expected.is_empty()), "{name}: {warnings:?}");
        let study = Study::new(&traffic, None).unwrap();
        assert_eq!(study.warnings, warnings, "{name}");
        let page = document(&study, None).to_html();
        for words in expected {
            assert!(warnings[0].contains(words) && page.contains(words), "{name}: {warnings:?}");
        }
    }
}

#[test]
fn how_much_is_odd_is_counted() {
    let mut datagrams = small();
    for of in &mut datagrams[500..] {
        of.nanos -= 3_000_000_000;
    }
    let apart = (datagrams[499].nanos - datagrams[500].nanos) as f64 / 1e6;
    let found = read(&pcap(&Form::default(), &datagrams)).capture;
    assert_eq!(found.out_of_order, 1);
    assert!((found.step_back_ms - apart).abs() < 1e-6, "{}", found.step_back_ms);

    let fragments = frames(|number, bytes| bytes[20..22].copy_from_slice(&[0, u8::from(number % 4 > 0)]));
    let sizes = |later: bool| -> u64 {
        let own = fragments.iter().enumerate().filter(|frame| (frame.0 % 4 > 0) == later);
        own.map(|frame| frame.1.len() as u64).sum()
    };
    let found = read(&raw(1, fragments.clone())).capture;
    assert_eq!((found.bytes, found.fragment_bytes), (sizes(false), sizes(true)));
}

#[test]
fn a_tail_of_zeros_is_damage() {
    let whole = pcap(&Form::default(), &small());
    let packets = small().len() as u64;
    for zeros in [16, 17, 4_096] {
        let found = read(&[whole.clone(), vec![0; zeros]].concat()).capture;
        let damage = found.damage.as_ref().unwrap();
        assert_eq!((found.packets, damage.offset), (packets, whole.len() as u64), "{zeros}: {}", damage.reason);
        assert!(damage.reason.contains("zeros"), "{zeros}: {}", damage.reason);
        assert!(found.warnings()[0].contains(&format!("at byte {}", whole.len())), "{zeros}");
    }
    // A packet without bytes that has a time was captured.
    let found = read(&raw(1, [Vec::new()])).capture;
    assert_eq!((found.packets, found.damage), (1, None));
}

#[test]
fn why_there_is_nothing_to_study() {
    let simple = {
        let mut file = pcapng(&Form::default(), &[]);
        for bytes in frames(|_, _| ()).iter().take(3) {
            let body = [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat();
            block(&Form::default(), &mut file, 3, &body);
        }
        file
    };
    let within = |ether_type: [u8; 2]| frames(move |_, bytes| bytes[12..14].copy_from_slice(&ether_type));
    let count = small().len();
    let tcp = format!("holds {count} TCP packets");
    for (name, file, expected) in [
        ("simple packet blocks", simple, &["its 3 packets are stored without times", "simple packet blocks"][..]),
        ("nothing", pcap(&Form::default(), &[]), &["contains no packets"]),
        ("zeros", [pcap(&Form::default(), &[]), vec![0; 64]].concat(), &["damaged at byte 24", "zeros"]),
        ("TCP", raw(1, frames(|_, bytes| bytes[23] = 6)), &[tcp.as_str(), "no UDP"]),
        ("ICMP", raw(1, frames(|_, bytes| bytes[23] = 1)), &["is a UDP datagram", "the stream's own port"]),
        ("PPPoE", raw(1, within([0x88, 0x64])), &["inside PPPoE, which is not read"]),
        ("MPLS", raw(1, within([0x88, 0x47])), &["inside MPLS, which is not read"]),
        ("an unknown link", raw(195, frames(|_, _| ())), &["link type 195;"]),
        (
            "802.11",
            raw(105, frames(|_, _| ())),
            &["link type 105 (802.11)", "station's own network interface", "convert"],
        ),
        ("radiotap", raw(127, frames(|_, _| ())), &["link type 127 (802.11 with radiotap)", "own network interface"]),
        ("cut short", raw(1, frames(|_, bytes| bytes.truncate(30))), &["at least 80 bytes"]),
    ] {
        let error = Study::new(&read(&file), None).map(drop).unwrap_err().to_string();
        for words in expected {
            assert!(error.contains(words), "{name}: {error}");
        }
    }
}
