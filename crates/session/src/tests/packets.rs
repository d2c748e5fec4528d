//! Frames that another protocol cuts: the same decisions, other pieces.

use nearlight_fec::policy::new_policy;
use nearlight_pace::Mode;
use nearlight_rate::{Bounds, new_controller};
use nearlight_units::{Bitrate, Bytes, FrameId, PacketSeq, Span, Time};
use nearlight_wire::{Feedback, Missing, Nack};

use super::path::frame_header;
use crate::{Cut, Departure, Distortion, EncodedFrame, Sender, SenderConfig};

fn sender(now: Time) -> Sender {
    let config = SenderConfig {
        max_datagram: 1_200,
        pacing: Mode::Burst,
        frame_interval: Span::from_millis(33),
        events: false,
        ..SenderConfig::default()
    };
    Sender::new(now, config, new_controller("fixed", Bounds::up_to(Bitrate::from_mbps(8))).expect("a preset"))
}

fn frame(now: Time, id: u32, bits: &[u8]) -> EncodedFrame<'_> {
    let reference = id.checked_sub(1).map(FrameId);
    EncodedFrame {
        id: FrameId(id),
        reference,
        header: frame_header(now),
        bits: bits.into(),
        distortion: Distortion::UNKNOWN,
    }
}

fn departures(sender: &mut Sender, now: Time) -> Vec<Departure> {
    std::iter::from_fn(|| sender.poll_departure(now)).collect()
}

#[test]
fn pieces_leave_as_they_were_cut_and_again_when_they_are_missing() {
    let now = Time::from_secs(1);
    let mut sender = sender(now);
    sender.on_cut_frame(
        now,
        frame(now, 0, b"abcdef"),
        Cut { ends: vec![1, 3, 6], overhead: 30, repair_overhead: None },
    );
    let left = departures(&mut sender, now);
    let pieces: Vec<_> = left.iter().map(|piece| (piece.seq.0, piece.piece, &piece.bytes[..])).collect();
    let piece = |index| Some((FrameId(0), index));
    assert_eq!(pieces, [(0, piece(0), &b"a"[..]), (1, piece(1), b"bc"), (2, piece(2), b"def")]);
    assert!(left.iter().all(|piece| !piece.retransmission));
    assert_eq!(sender.statistics(now).sent, Bytes::new(3 * 30 + 6), "with what the protocol adds");

    let later = now + Span::from_millis(100);
    sender.on_nack(later, &Nack { missing: vec![Missing { frame: FrameId(0), first: 1, count: 2 }] });
    let again = departures(&mut sender, later);
    let pieces: Vec<_> = again.iter().map(|piece| (piece.seq.0, piece.retransmission, &piece.bytes[..])).collect();
    assert_eq!(pieces, [(3, true, &b"bc"[..]), (4, true, b"def")]);
    assert_eq!(sender.newest_seq(), Some(PacketSeq(4)));
}

#[test]
fn what_goes_beside_shares_the_count_and_feedback_brings_its_own_round_trip() {
    let now = Time::from_secs(1);
    let mut sender = sender(now);
    sender.on_cut_frame(now, frame(now, 0, &[7; 10]), Cut { ends: vec![10], overhead: 30, repair_overhead: None });
    assert_eq!(departures(&mut sender, now).len(), 1);
    assert_eq!(sender.on_beside(now, Bytes::new(90)), PacketSeq(1));
    let later = now + Span::from_millis(60);
    let arrivals = vec![Some(Time::from_secs(77)); 2];
    let feedback = Feedback { sent_at: Time::from_secs(77), first: PacketSeq(0), arrivals, marked: vec![] };
    sender.on_arrivals(later, &feedback);
    assert_eq!(sender.statistics(later).round_trip, None, "not guessed from a report of unknown age");
    sender.on_cut_frame(later, frame(later, 1, &[7; 10]), Cut { ends: vec![10], overhead: 30, repair_overhead: None });
    departures(&mut sender, later);
    sender.on_round_trip(later, Span::from_millis(20));
    // Its way took 5 ms longer than that of the packets before.
    let arrived_at = Time::from_secs(77) + Span::from_millis(65);
    let feedback = Feedback { first: PacketSeq(2), arrivals: vec![Some(arrived_at)], ..feedback };
    sender.on_arrivals(later, &feedback);
    assert_eq!(sender.statistics(later).round_trip, Some(Span::from_millis(25)));
}

#[test]
fn repairs_that_another_protocol_makes_leave_behind_their_frame() {
    let now = Time::from_secs(1);
    let policy = new_policy("fixed:50").expect("a policy");
    let mut sender = sender(now).with_fec(policy);
    assert!(sender.is_protected());
    let cut = Cut { ends: vec![1, 3, 6], overhead: 30, repair_overhead: Some(70) };
    assert_eq!(sender.on_cut_frame(now, frame(now, 0, b"abcdef"), cut), 2);
    let left = departures(&mut sender, now);
    assert_eq!(left.iter().filter(|departure| departure.piece.is_some()).count(), 3);
    let repairs: Vec<_> = left[3..].iter().map(|repair| (repair.seq.0, repair.repair, repair.bytes.len())).collect();
    assert_eq!(repairs, [(3, Some((FrameId(0), 0)), 0), (4, Some((FrameId(0), 1)), 0)]);
    let statistics = sender.statistics(now);
    assert_eq!((statistics.coded_repairs, statistics.redundant), (2, Bytes::new(2 * (70 + 3))));
    assert_eq!(statistics.sent, Bytes::new(3 * 30 + 6 + 2 * 73));

    // More than one for each piece would say nothing new.
    let mut most = self::sender(now).with_fec(new_policy("fixed:200").expect("a policy"));
    let cut = Cut { ends: vec![1, 3], overhead: 30, repair_overhead: Some(70) };
    assert_eq!(most.on_cut_frame(now, frame(now, 0, b"abc"), cut), 2);

    let cut = Cut { ends: vec![6], overhead: 30, repair_overhead: None };
    assert_eq!(sender.on_cut_frame(now, frame(now, 1, b"abcdef"), cut), 0, "the protocol knows none");
    sender.set_unprotected();
    assert_eq!(sender.fec_name(), "none");
}
