use nearlight_rate::SentPacket;
use nearlight_units::{Bytes, Time};

use super::*;

const ROUND_TRIP: Span = Span::from_millis(40);
const GROUPS: fn(FrameId) -> Option<ParityGroups> = |_| Some(ParityGroups::new(4, 2));

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn feedback(first: u32, arrived: &[u8]) -> Feedback {
    let arrivals = arrived.iter().map(|came| (*came == 1).then(|| at(5).for_peer())).collect();
    Feedback { sent_at: at(9).for_peer(), first: PacketSeq(first), arrivals, marked: Vec::new() }
}

fn named(nack: &Nack) -> Vec<(u32, u16)> {
    let pieces =
        |run: &MissingRun| (run.first..run.first + run.count).map(|index| (run.frame.0, index)).collect::<Vec<_>>();
    nack.missing.iter().flat_map(pieces).collect()
}

fn send(history: &mut PacketHistory, now: Time, seq: u32, content: Content) {
    let (seq, size, frame) = (PacketSeq(seq), Bytes::new(1_000), content.frame());
    history.on_sent(SentPacket { seq, sent_at: now, size, frame, probe: None, app_limited: false }, content);
}

/// Sends a frame's pieces, the first under this number.
fn send_pieces(history: &mut PacketHistory, first: u32, frame: u32, pieces: u16) {
    for index in 0..pieces {
        send(history, Time::ZERO, first + u32::from(index), Content::Piece((FrameId(frame), index)));
    }
}

fn send_others(history: &mut PacketHistory, numbers: std::ops::Range<u32>) {
    numbers.for_each(|seq| send(history, Time::ZERO, seq, Content::Other));
}

/// A frame of four pieces and two repairs: one of pieces 0 and 2, one of 1 and 3.
fn protected(frame: u32) -> PacketHistory {
    let mut history = PacketHistory::tracking_pieces();
    send_pieces(&mut history, 0, frame, 4);
    (0..2).for_each(|repair| send(&mut history, at(3), 4 + repair, Content::Repair(FrameId(frame), repair as u16)));
    send_others(&mut history, 6..10);
    history
}

/// The pieces to retransmit after feedback on packets from `first` on.
fn lost(
    history: &mut PacketHistory,
    first: u32,
    arrived: &[u8],
    groups: fn(FrameId) -> Option<ParityGroups>,
) -> Vec<(u32, u16)> {
    let feedback = feedback(first, arrived);
    history.on_feedback(&feedback);
    named(&history.poll_lost(&feedback, groups))
}

fn reported(history: &mut PacketHistory, arrived: &[u8]) -> Vec<(u32, u16)> {
    lost(history, 0, arrived, GROUPS)
}

fn asked(history: &mut PacketHistory, now: Time, pieces: &[u16]) -> Vec<(u32, u16)> {
    let missing = pieces.iter().map(|first| MissingRun { frame: FrameId(1), first: *first, count: 1 }).collect();
    let answered = history.on_request(now, &Nack { missing }, ROUND_TRIP, GROUPS);
    named(&answered.expect("pieces are followed"))
}

#[test]
fn what_a_repair_brings_is_not_sent_again() {
    let mut history = protected(1);
    assert!(asked(&mut history, at(5), &[1]).is_empty(), "its repair left 2 ms ago");
    assert!(reported(&mut history, &[1, 0, 1, 1, 1, 1, 1, 1, 1, 1]).is_empty());
    assert!(reported(&mut history, &[1, 0, 1, 1, 1, 0, 1, 1, 1, 1]).is_empty(), "nothing waits: its repair came");
    // Without a request, feedback alone reveals the same.
    assert!(reported(&mut protected(1), &[1, 0, 1, 1, 1, 1, 1, 1, 1, 1]).is_empty());
    // One loss in each group.
    assert!(reported(&mut protected(1), &[0, 0, 1, 1, 1, 1, 1, 1, 1, 1]).is_empty());
}

#[test]
fn what_no_repair_brings_is_sent_again_as_soon_as_that_is_known() {
    assert_eq!(reported(&mut protected(1), &[1, 0, 1, 1, 1, 0, 1, 1, 1, 1]), [(1, 1)], "the repair is lost as well");
    assert_eq!(reported(&mut protected(1), &[1, 0, 1, 0, 1, 1, 1, 1, 1, 1]), [(1, 1), (1, 3)], "two of one group");
    let mut history = protected(1);
    assert!(reported(&mut history, &[1, 0, 1, 1, 1]).is_empty(), "of the repair nothing is known");
    assert_eq!(reported(&mut history, &[1, 0, 1, 1, 1, 0, 1, 1, 1, 1]), [(1, 1)]);
    assert!(reported(&mut history, &[1, 0, 1, 1, 1, 0, 1, 1, 1, 1]).is_empty(), "once");
}

#[test]
fn a_receiver_that_must_have_the_repair_is_answered() {
    let mut history = protected(1);
    assert!(asked(&mut history, at(62), &[1]).is_empty());
    assert_eq!(asked(&mut history, at(63), &[1]), [(1, 1)], "more than a round trip after the repair");
    let mut history = protected(1);
    assert_eq!(asked(&mut history, at(5), &[1, 3]), [(1, 1), (1, 3)], "two of one group");
    assert!(asked(&mut history, at(5), &[0]).is_empty());
    assert_eq!(asked(&mut history, at(6), &[2]), [(1, 0), (1, 2)], "the second of a group frees the first");
    let nack = Nack { missing: vec![MissingRun { frame: FrameId(1), first: 0, count: 4 }] };
    let unprotected = protected(1).on_request(at(5), &nack, ROUND_TRIP, |_| Some(ParityGroups::new(4, 0)));
    assert_eq!(unprotected, Some(nack));
}

#[test]
fn what_waits_is_bounded() {
    let mut history = PacketHistory::tracking_pieces();
    for frame in 0..1_000 {
        let nack = Nack { missing: vec![MissingRun { frame: FrameId(frame), first: 0, count: 1 }] };
        let answered = history.on_request(at(1), &nack, ROUND_TRIP, |_| Some(ParityGroups::new(2, 1)));
        assert_eq!(answered.expect("pieces are followed").missing.is_empty(), frame < 256);
    }
}

#[test]
fn a_lost_piece_is_named_once_and_not_while_its_retransmission_is_under_way() {
    let mut history = PacketHistory::tracking_pieces();
    send_pieces(&mut history, 0, 1, 6);
    // Number 4 may only be late, 1 is lost.
    assert_eq!(lost(&mut history, 0, &[1, 0, 1, 1, 0, 1], |_| None), [(1, 1)]);
    assert!(lost(&mut history, 0, &[1, 0, 1, 1, 0, 1], |_| None).is_empty());
    // The receiver has requested 4 meanwhile; its retransmission is number 6.
    send(&mut history, Time::ZERO, 6, Content::Retransmission((FrameId(1), 4)));
    send_others(&mut history, 7..11);
    assert!(lost(&mut history, 3, &[1, 0, 1, 0, 1], |_| None).is_empty());
    // The retransmission is lost too.
    assert_eq!(lost(&mut history, 4, &[0, 1, 0, 1, 1, 1], |_| None), [(1, 4)]);
}

#[test]
fn what_has_no_piece_and_what_is_forgotten_is_not_asked_for() {
    let mut history = PacketHistory::tracking_pieces();
    for seq in 0..5_000 {
        let content = if seq % 2 == 0 { Content::Piece((FrameId(seq), 0)) } else { Content::Other };
        // The newest is 11 s younger than the first hundred.
        send(&mut history, Time::from_millis(u64::from(seq.max(100)) * 3), seq, content);
    }
    assert!(lost(&mut history, 0, &[0; 100], |_| None).is_empty());
    assert_eq!(lost(&mut history, 4_980, &[0; 8], |_| None), [(4_980, 0), (4_982, 0), (4_984, 0)]);
    assert!(lost(&mut history, u32::MAX - 2, &[0; 8], |_| None).is_empty());
}
