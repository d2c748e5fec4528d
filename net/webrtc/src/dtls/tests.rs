use proptest::prelude::*;

use super::*;

fn record(kind: u8, epoch: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    [&[kind, 254, 253, 0, epoch, 0, 0, 0, 0, 0, 1][..], &length, content].concat()
}

/// A part of a handshake message.
fn part(message: u8, length: u32, offset: u32, bytes: usize) -> Vec<u8> {
    let three = |number: u32| number.to_be_bytes()[1..].to_vec();
    [vec![1], three(length), vec![0, message], three(offset), three(bytes as u32), vec![7; bytes]].concat()
}

#[test]
fn a_handshake_passes_also_in_parts_and_sent_again() {
    let mut screen = Screen::default();
    for _ in 0..10 {
        let flight = [part(1, 300, 0, 300), part(2, 66, 0, 66), part(3, 0, 0, 0)].concat();
        assert!(screen.admits(false, &record(HANDSHAKE, 0, &flight)));
        for offset in [0, 1_000, 2_000] {
            assert!(screen.admits(false, &record(HANDSHAKE, 0, &part(4, 3_000, offset, 1_000))));
        }
        let last = [record(20, 0, &[1]), record(HANDSHAKE, 1, &[9; 40])].concat();
        assert!(screen.admits(false, &last));
    }
    assert!(screen.admits(true, &record(APPLICATION_DATA, 1, &[9; 40])));
}

#[test]
fn a_message_in_thousands_of_parts_is_discarded() {
    let mut screen = Screen::default();
    let admitted = (0..8_000).filter(|at| screen.admits(false, &record(HANDSHAKE, 0, &part(0, 8_000, *at, 1)))).count();
    assert_eq!(admitted, usize::from(MAX_FRAGMENTS));
    for parts in [
        part(MAX_MESSAGES as u8, 10, 0, 10),
        part(1, MAX_MESSAGE_BYTES + 1, 0, 10),
        part(1, 10, 5, 6),
        part(1, 10, 0, 0),
        part(1, 10, 0, 10)[..15].to_vec(),
        [part(1, 20, 0, 10), part(1, 20, 10, 10)].concat(),
        vec![],
    ] {
        assert!(!screen.admits(false, &record(HANDSHAKE, 0, &parts)), "{parts:?}");
    }
}

#[test]
fn records_of_epochs_to_come_are_bounded() {
    let mut screen = Screen::default();
    let early = record(APPLICATION_DATA, 1, &[9; 40]);
    let admitted = (0..10_000).filter(|_| screen.admits(false, &early)).count();
    assert_eq!(admitted, usize::from(MAX_EARLY_RECORDS));
    assert!(screen.admits(true, &early));
    assert!(!screen.admits(true, &record(APPLICATION_DATA, 2, &[9; 40])));
}

proptest! {
    #[test]
    fn any_bytes_are_admitted_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let mut screen = Screen::default();
        let _ = screen.admits(false, &bytes);
        let _ = screen.admits(true, &record(HANDSHAKE, 0, &bytes));
        let _ = Fragments::default().admit(&bytes);
    }
}
