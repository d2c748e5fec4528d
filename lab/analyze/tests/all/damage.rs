//! Files that break off, lie, or were never captures.

use crate::support;
use nearlight_analyze::capture::CaptureError;
use nearlight_analyze::{Comparison, Limits, Study, StudyError, Traffic};
use proptest::prelude::*;
use support::file::{Form, pcap, pcapng};
use support::stream::Stream;

fn read(file: &[u8]) -> Result<Traffic, CaptureError> {
    Traffic::read(file, &Limits::default())
}

fn small() -> Vec<support::Datagram> {
    Stream { seconds: 0.2, ..Stream::default() }.make().datagrams
}

#[test]
fn a_file_that_breaks_off_is_read_up_to_there() {
    let datagrams = small();
    for (name, write, header, record) in [
        ("pcap", pcap as fn(&Form, &[support::Datagram]) -> Vec<u8>, 24, 16 + 96),
        ("pcapng", pcapng as fn(&Form, &[support::Datagram]) -> Vec<u8>, 28 + 32 + 24, 32 + 96),
    ] {
        let big: Vec<_> = datagrams.iter().filter(|datagram| datagram.payload.len() > 100).cloned().collect();
        let file = write(&Form::default(), &big);
        let cut = header + 10 * record + 40;
        let found = read(&file[..cut]).unwrap().capture;
        let damage = found.damage.unwrap();
        assert_eq!((found.packets, damage.offset), (10, (header + 10 * record) as u64), "{name}: {}", damage.reason);
        assert!(damage.reason.contains("ends within"), "{name}: {}", damage.reason);
        // Between records nothing tells that more was to come.
        let found = read(&file[..header + 10 * record]).unwrap().capture;
        assert_eq!((found.packets, found.damage), (10, None), "{name}");
        // A length that cannot be.
        let mut lying = file.clone();
        let at = header + 5 * record + if name == "pcap" { 8 } else { 20 };
        lying[at..at + 4].copy_from_slice(&0x7fff_ffff_u32.to_le_bytes());
        let found = read(&lying).unwrap().capture;
        assert_eq!((found.packets, found.damage.unwrap().offset), (5, (header + 5 * record) as u64), "{name}");
    }
}

#[test]
fn a_record_that_names_no_time_or_interface_is_passed_over() {
    let datagrams = small();
    let count = datagrams.len() as u64;
    for (name, write, header, field, impossible) in [
        ("pcap", pcap as fn(&Form, &[support::Datagram]) -> Vec<u8>, 24, 4, 2_000_000_000_u32),
        ("pcapng", pcapng as fn(&Form, &[support::Datagram]) -> Vec<u8>, 28 + 32 + 24, 8, 7),
    ] {
        let mut file = write(&Form::default(), &datagrams);
        file[header + field..header + field + 4].copy_from_slice(&impossible.to_le_bytes());
        let found = read(&file).unwrap().capture;
        assert_eq!((found.packets, found.unplaced, found.damage), (count - 1, 1, None), "{name}");
    }
}

#[test]
fn a_few_packets_tell_no_rate() {
    for (few, frames) in [(2, None), (5, Some(1)), (80, Some(2))] {
        let few: Vec<_> = small().into_iter().filter(|datagram| datagram.payload.len() > 100).take(few).collect();
        let traffic = read(&pcap(&Form::default(), &few)).unwrap();
        let study = Study::new(&traffic, None).unwrap();
        assert_eq!(study.video.as_ref().map(|video| video.frames.count), frames);
        assert!(study.video.iter().all(|video| (video.frames.fps, video.frames.source_fps) == (None, None)));
        nearlight_analyze::document(&study, None).to_html();
    }
}

#[test]
fn an_empty_capture_beside_another_says_so() {
    let (whole, empty) =
        (read(&pcap(&Form::default(), &small())).unwrap(), read(&pcap(&Form::default(), &[])).unwrap());
    let error = Comparison::new(&whole, &empty, None).map(drop).unwrap_err();
    assert!(matches!(error, nearlight_analyze::CompareError::Receiver(StudyError::NoDatagrams { packets: 0, .. })));
}

#[test]
fn what_is_no_capture_is_refused_in_words() {
    let refused = |file: &[u8]| read(file).unwrap_err().to_string();
    assert!(refused(b"").contains("empty"));
    assert!(refused(&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0]).contains("after 6 bytes"));
    assert!(refused(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0]).contains("compressed"));
    let empty = read(&pcap(&Form::default(), &[])).unwrap();
    assert!(matches!(Study::new(&empty, None), Err(StudyError::NoDatagrams { packets: 0, .. })));
}

#[test]
fn too_many_packets_are_counted() {
    let datagrams = small();
    let file = pcap(&Form::default(), &datagrams);
    let traffic = Traffic::read(file.as_slice(), &Limits { packets: 100 }).unwrap();
    assert_eq!(traffic.capture.beyond_limit, datagrams.len() as u64 - 100);
    let study = Study::new(&traffic, None).unwrap();
    let counted: u64 = study.streams.iter().map(|row| row.packets).sum();
    assert_eq!(counted, datagrams.len() as u64);
}

#[test]
fn snaplen_does_not_change_sizes() {
    let datagrams = small();
    let sizes = |snaplen| {
        let traffic = read(&pcap(&Form { snaplen, ..Form::default() }, &datagrams)).unwrap();
        let study = Study::new(&traffic, None).unwrap();
        study.streams.iter().map(|row| (row.kind, row.packets, row.bytes)).collect::<Vec<_>>()
    };
    // STUN's header is the longest that is looked at: 42 and 20 bytes.
    assert_eq!(sizes(62), sizes(65_535));
    let cut = read(&pcap(&Form { snaplen: 30, ..Form::default() }, &datagrams)).unwrap();
    assert_eq!(cut.capture.cut_short, datagrams.len() as u64);
}

fn study_of(file: &[u8]) {
    if let Ok(traffic) = read(file)
        && let Ok(study) = Study::new(&traffic, None)
    {
        serde_json::to_string(&study).unwrap();
        let comparison = Comparison::new(&traffic, &traffic, None).ok();
        nearlight_analyze::document(&study, comparison.as_ref()).to_html();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes(file in prop::collection::vec(any::<u8>(), 0..2_000)) {
        study_of(&file);
    }

    #[test]
    fn any_bytes_behind_a_header(
        newer in any::<bool>(),
        form in any::<(bool, bool)>(),
        body in prop::collection::vec(any::<u8>(), 0..2_000),
    ) {
        let form = Form { big_endian: form.0, nanoseconds: form.1, ..Form::default() };
        let mut file = if newer { pcapng(&form, &[]) } else { pcap(&form, &[]) };
        file.extend(body);
        study_of(&file);
    }

    #[test]
    fn a_capture_with_any_bytes_changed(
        newer in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let datagrams = &small()[..60];
        let mut file = if newer { pcapng(&Form::default(), datagrams) } else { pcap(&Form::default(), datagrams) };
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        study_of(&file);
    }
}
