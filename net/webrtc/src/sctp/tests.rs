use proptest::prelude::*;

use super::*;

const FIRST: u32 = 1_000;

fn packet(chunks: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut packet = vec![0; COMMON_HEADER];
    for (kind, value) in chunks {
        packet.extend([*kind, 0]);
        packet.extend(((CHUNK_HEADER + value.len()) as u16).to_be_bytes());
        packet.extend(value);
        packet.resize(packet.len().next_multiple_of(4), 0);
    }
    packet
}

fn longs(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn init(tsn: u32) -> (u8, Vec<u8>) {
    (chunk::INIT, [longs(&[7, 65_536, 0x0400_0400, tsn]), vec![0x80, 8, 0, 6, 192, 130, 0, 0]].concat())
}

fn data(tsn: u32, stream: u16) -> (u8, Vec<u8>) {
    (chunk::DATA, [longs(&[tsn, u32::from(stream) << 16, 51]), vec![1]].concat())
}

fn reset(number: u32, tsn: u32) -> (u8, Vec<u8>) {
    (chunk::RECONFIG, [vec![0, 13, 0, 18], longs(&[number, 0, tsn]), vec![0, 1]].concat())
}

fn screen() -> Screen {
    let mut screen = Screen::default();
    assert!(screen.admits(&packet(&[init(FIRST)])));
    screen
}

#[test]
fn what_a_session_needs_passes() {
    let mut screen = screen();
    for chunks in [
        vec![(chunk::COOKIE_ECHO, vec![1; 32]), data(FIRST, 0)],
        vec![(chunk::SACK, longs(&[5, 65_536, 0x0001_0001, 0x0002_0003, 4])), data(FIRST + 1, 2)],
        vec![(chunk::HEARTBEAT, vec![0, 1, 0, 7, 1, 2, 3])],
        vec![(chunk::FORWARD_TSN, longs(&[FIRST + 9]))],
        vec![(chunk::FORWARD_TSN, longs(&[FIRST + 10, 0x0001_0002]))],
        vec![reset(1, FIRST + 10)],
        vec![(chunk::ABORT, vec![0, 12, 0, 9, b'g', b'o', b'n', b'e', b'!'])],
        vec![(chunk::ERROR, longs(&[0x0001_0008, 0x0001_0000, 0x000D_0004]))],
        vec![(chunk::SHUTDOWN, longs(&[1])), (chunk::SHUTDOWN_ACK, vec![]), (chunk::SHUTDOWN_COMPLETE, vec![])],
    ] {
        assert!(screen.admits(&packet(&chunks)), "{chunks:?}");
    }
}

#[test]
fn an_error_cause_that_claims_more_than_its_chunk_is_discarded() {
    for kind in [chunk::ABORT, chunk::ERROR] {
        for causes in [
            vec![0, 12, 0xff, 0xff],
            vec![0, 12, 0, 3],
            vec![0, 12, 0],
            vec![0, 1, 0, 4, 0, 12, 0, 5],
            // With padding, which the library does not skip: it would read a length of 0xff00.
            vec![0, 12, 0, 5, 1, 0, 0, 0xff, 0, 12, 0, 4],
        ] {
            assert!(!screen().admits(&packet(&[(kind, causes.clone())])), "{causes:?}");
        }
    }
}

/// An error cause that claims 256 bytes, as it would be read if the chunk around it were not read to its end.
#[test]
fn parameters_that_the_library_does_not_read_are_discarded() {
    let hidden = [chunk::ERROR, 0, 0, 8, 0, 1, 1, 0];
    let hide = |kind: u16, value: &[u8]| {
        let length = (4 + value.len() + hidden.len()) as u16;
        [&kind.to_be_bytes(), &length.to_be_bytes(), value, &hidden].concat()
    };
    let parameter =
        |kind: u16, value: &[u8]| [&kind.to_be_bytes()[..], &(4 + value.len() as u16).to_be_bytes(), value].concat();
    let behind = |first: Vec<u8>| [first, parameter(1, &hidden)].concat();
    let response = parameter(parameter::RECONFIG_RESPONSE, &longs(&[1, 0]));
    for (kind, value) in [
        (chunk::HEARTBEAT, behind(parameter(1, &[1, 2, 3, 4]))),
        (chunk::HEARTBEAT_ACK, behind(parameter(1, &[]))),
        (chunk::RECONFIG, behind([response.clone(), response].concat())),
        (chunk::RECONFIG, hide(parameter::RECONFIG_RESPONSE, &longs(&[1, 0]))),
        (chunk::INIT, [init(FIRST).1, hide(parameter::FORWARD_TSN_SUPPORTED, &[])].concat()),
    ] {
        assert!(!Screen::default().admits(&packet(&[init(FIRST), (kind, value.clone())])), "{kind}: {value:?}");
    }
}

#[test]
fn a_leap_of_sequence_numbers_is_discarded() {
    for far in [MAX_AHEAD + 1, 0x7fff_0000] {
        let tsn = FIRST - 1 + far;
        for chunk in [data(tsn, 0), (chunk::FORWARD_TSN, longs(&[tsn])), reset(1, tsn)] {
            assert!(!screen().admits(&packet(&[chunk])), "{far} ahead");
        }
    }
    let mut screen = screen();
    for step in 1..10 {
        assert!(screen.admits(&packet(&[(chunk::FORWARD_TSN, longs(&[FIRST - 1 + step * MAX_AHEAD]))])));
    }
    assert!(screen.admits(&packet(&[data(FIRST, 0)])), "an old one is harmless");
    // After an INIT, one with other numbers is rejected.
    assert!(!screen.admits(&packet(&[init(FIRST + 5)])));
    assert!(!Screen::default().admits(&packet(&[data(FIRST, 0)])), "before there is an association");
}

#[test]
fn what_the_library_would_keep_without_a_bound_is_discarded() {
    assert!(!screen().admits(&packet(&[(chunk::DATA, longs(&[FIRST, 0, 51]))])), "no user data");
    assert!(!screen().admits(&packet(&[data(FIRST, MAX_STREAMS)])), "a stream that nobody uses");
    let mut screen = screen();
    let admitted = (0..1_000).filter(|number| screen.admits(&packet(&[reset(*number, FIRST + 10)]))).count();
    assert_eq!(admitted as u32, MAX_EARLY_RESETS);
}

proptest! {
    #[test]
    fn any_bytes_are_admitted_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let mut screen = screen();
        let _ = screen.admits(&bytes);
        let _ = screen.admits(&[vec![0; COMMON_HEADER], bytes].concat());
    }
}
