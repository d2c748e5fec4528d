use super::*;

fn feedback(first: u32, arrived: &[bool]) -> Feedback {
    let at = |arrived: &bool| arrived.then(|| Time::from_millis(5));
    let arrivals = arrived.iter().map(at).collect();
    Feedback { sent_at: Time::from_millis(9), first: PacketSeq(first), arrivals, marked: Vec::new() }
}

fn named(nack: &Nack) -> Vec<(u32, u16)> {
    let pieces =
        |run: &Missing| (run.first..run.first + run.count).map(|index| (run.frame.0, index)).collect::<Vec<_>>();
    nack.missing.iter().flat_map(pieces).collect()
}

fn missed(sent_packets: &mut SentPackets, feedback: &Feedback) -> Vec<(u32, u16)> {
    named(&sent_packets.on_feedback(feedback, |_| None))
}

const ROUND_TRIP: Span = Span::from_millis(40);

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

impl SentPackets {
    fn on_piece(&mut self, seq: u32, frame: u32, index: u16) {
        let piece = (FrameId(frame), index);
        let again = self.known.iter().any(|known| known.left.piece() == Some(piece));
        self.on_sent(Time::ZERO, PacketSeq(seq), Content::Piece { piece, again });
    }

    fn on_other(&mut self, seq: u32) {
        self.on_sent(Time::ZERO, PacketSeq(seq), Content::Other);
    }
}

/// Frames of four pieces and two repairs: one of pieces 0 and 2, one of 1 and 3.
fn protected(frame: u32) -> SentPackets {
    let mut sent_packets = SentPackets::default();
    (0..4).for_each(|index| sent_packets.on_piece(u32::from(index), frame, index));
    (0..2).for_each(|repair| {
        sent_packets.on_sent(at(3), PacketSeq(4 + repair), Content::Repair(FrameId(frame), repair as u16));
    });
    (6..10).for_each(|seq| sent_packets.on_other(seq));
    sent_packets
}

const GROUPS: fn(FrameId) -> Option<Groups> = |_| Some(Groups::new(4, 2));

fn told(sent_packets: &mut SentPackets, arrived: &[u8]) -> Vec<(u32, u16)> {
    let arrived: Vec<bool> = arrived.iter().map(|came| *came == 1).collect();
    named(&sent_packets.on_feedback(&feedback(0, &arrived), GROUPS))
}

fn asked(sent_packets: &mut SentPackets, now: Time, pieces: &[u16]) -> Vec<(u32, u16)> {
    let missing = pieces.iter().map(|first| Missing { frame: FrameId(1), first: *first, count: 1 }).collect();
    named(&sent_packets.on_request(now, &Nack { missing }, ROUND_TRIP, GROUPS))
}

#[test]
fn what_a_repair_brings_is_not_sent_again() {
    let mut sent_packets = protected(1);
    assert!(asked(&mut sent_packets, at(5), &[1]).is_empty(), "its repair left 2 ms ago");
    assert!(told(&mut sent_packets, &[1, 0, 1, 1, 1, 1, 1, 1, 1, 1]).is_empty());
    assert!(sent_packets.awaited.is_empty(), "its repair came");
    // Nobody asked: feedback alone tells the same.
    assert!(told(&mut protected(1), &[1, 0, 1, 1, 1, 1, 1, 1, 1, 1]).is_empty());
    // One loss of each group.
    assert!(told(&mut protected(1), &[0, 0, 1, 1, 1, 1, 1, 1, 1, 1]).is_empty());
}

#[test]
fn what_no_repair_brings_is_sent_again_as_soon_as_that_is_known() {
    assert_eq!(told(&mut protected(1), &[1, 0, 1, 1, 1, 0, 1, 1, 1, 1]), [(1, 1)], "the repair is lost as well");
    assert_eq!(told(&mut protected(1), &[1, 0, 1, 0, 1, 1, 1, 1, 1, 1]), [(1, 1), (1, 3)], "two of one group");
    let mut sent_packets = protected(1);
    assert!(told(&mut sent_packets, &[1, 0, 1, 1, 1]).is_empty(), "of the repair nothing is known");
    assert_eq!(told(&mut sent_packets, &[1, 0, 1, 1, 1, 0, 1, 1, 1, 1]), [(1, 1)]);
    assert!(told(&mut sent_packets, &[1, 0, 1, 1, 1, 0, 1, 1, 1, 1]).is_empty(), "once");
}

#[test]
fn a_client_that_must_have_the_repair_is_answered() {
    let mut sent_packets = protected(1);
    assert!(asked(&mut sent_packets, at(62), &[1]).is_empty());
    assert_eq!(asked(&mut sent_packets, at(63), &[1]), [(1, 1)], "more than a round trip after the repair");
    assert!(sent_packets.awaited.is_empty());
    let mut sent_packets = protected(1);
    assert_eq!(asked(&mut sent_packets, at(5), &[1, 3]), [(1, 1), (1, 3)], "two of one group");
    assert!(asked(&mut sent_packets, at(5), &[0]).is_empty());
    assert_eq!(asked(&mut sent_packets, at(6), &[2]), [(1, 0), (1, 2)], "the second of a group frees the first");
    let unprotected = |_: FrameId| Some(Groups::new(4, 0));
    let nack = Nack { missing: vec![Missing { frame: FrameId(1), first: 0, count: 4 }] };
    assert_eq!(protected(1).on_request(at(5), &nack, ROUND_TRIP, unprotected), nack);
}

#[test]
fn what_waits_is_bounded() {
    let mut sent_packets = SentPackets::default();
    let groups = |_: FrameId| Some(Groups::new(2, 1));
    for frame in 0..1_000 {
        let nack = Nack { missing: vec![Missing { frame: FrameId(frame), first: 0, count: 1 }] };
        let answered = sent_packets.on_request(at(1), &nack, ROUND_TRIP, groups);
        assert_eq!(answered.missing.is_empty(), frame < 256);
    }
}

#[test]
fn a_lost_piece_is_named_once_and_not_while_its_repetition_is_under_way() {
    let mut sent_packets = SentPackets::default();
    (0..6).for_each(|index| sent_packets.on_piece(u32::from(index), 1, index));
    // Number 4 may only be late, 1 is lost.
    assert_eq!(missed(&mut sent_packets, &feedback(0, &[true, false, true, true, false, true])), [(1, 1)]);
    assert!(missed(&mut sent_packets, &feedback(0, &[true, false, true, true, false, true])).is_empty());
    // The client has asked for 4 meanwhile; its repetition is number 6.
    sent_packets.on_piece(6, 1, 4);
    (7..11).for_each(|seq| sent_packets.on_other(seq));
    assert!(missed(&mut sent_packets, &feedback(3, &[true, false, true, false, true])).is_empty());
    // The repetition is lost too.
    assert_eq!(missed(&mut sent_packets, &feedback(4, &[false, true, false, true, true, true])), [(1, 4)]);
}

#[test]
fn what_has_no_piece_and_what_is_forgotten_is_not_asked_for() {
    let mut sent_packets = SentPackets::default();
    (0..5_000)
        .for_each(|seq| if seq % 2 == 0 { sent_packets.on_piece(seq, seq, 0) } else { sent_packets.on_other(seq) });
    assert!(sent_packets.known.len() <= MAX_REMEMBERED);
    assert!(missed(&mut sent_packets, &feedback(0, &[false; 100])).is_empty());
    assert_eq!(missed(&mut sent_packets, &feedback(4_980, &[false; 8])), [(4_980, 0), (4_982, 0), (4_984, 0)]);
    assert!(missed(&mut sent_packets, &feedback(u32::MAX - 2, &[false; 8])).is_empty());
}
