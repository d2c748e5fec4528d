//! Frames that another protocol splits and carries: the same decisions, different packets.

use crate::pace::Mode;
use nearlight_fec::policy::new_policy;
use nearlight_rate::{Bounds, new_controller};
use nearlight_units::{Bitrate, Bytes, FrameId, PacketSeq, RemoteTime, Span, Time};
use nearlight_wire::{Feedback, MissingRun, Nack};

use super::path::frame_header;
use crate::{
    Algorithms, Distortion, EncodedFrame, Framing, Payload, ReceiverFeedback, Segmentation, Sender, SenderConfig,
    SenderNames,
};

/// A sender at 8 Mb/s, with a redundancy policy.
fn sender(now: Time, policy: &str) -> Sender {
    let config = SenderConfig {
        framing: Framing::Rtp,
        pacing: Mode::Burst,
        frame_interval: Span::from_millis(33),
        ..SenderConfig::default()
    };
    let controller = new_controller("fixed", Bounds::up_to(Bitrate::from_mbps(8))).expect("a preset");
    Sender::new(now, config, Algorithms { controller, redundancy: Some(new_policy(policy).expect("a policy")) })
}

fn frame(now: Time, id: u32, bits: &[u8]) -> EncodedFrame<'_> {
    let reference = id.checked_sub(1).map(FrameId);
    EncodedFrame {
        id: FrameId(id),
        reference,
        header: frame_header(now),
        bits: bits.into(),
        distortion: Distortion::UNKNOWN,
        group_index: None,
    }
}

/// A packet that left.
#[derive(Debug, PartialEq, Eq)]
enum Packet {
    Piece(u32, u16, Vec<u8>),
    Again(u32, u16, Vec<u8>),
    Repair(u32, u16),
    Padding,
}

use Packet::{Again, Piece, Repair};

/// The packets that leave now, by number.
fn leaving(sender: &mut Sender, now: Time) -> Vec<(u32, Packet)> {
    sender.on_timeout(now);
    let mut packets = Vec::new();
    while let Some(release) = sender.rtp().poll_release(now) {
        let packet = match release.payload {
            Payload::Piece { frame, index, retransmission: false, bytes } => Piece(frame.id.0, index, bytes.to_vec()),
            Payload::Piece { frame, index, retransmission: true, bytes } => Again(frame.id.0, index, bytes.to_vec()),
            Payload::Repair { frame, number, covered: [], bytes: [], .. } => Repair(frame.0, number),
            Payload::Repair { .. } => panic!("a repair of our own"),
            Payload::Padding { .. } => Packet::Padding,
        };
        packets.push((release.seq.0, packet));
    }
    packets
}

fn cut(ends: &[u32], repair_overhead: Option<u16>) -> Segmentation {
    Segmentation { ends: ends.to_vec(), overhead: 30, repair_overhead }
}

/// Feedback on packets from `first` on, with times of the receiver's own clock.
fn arrivals(first: u32, arrived: &[bool]) -> Feedback {
    let at = RemoteTime::from_secs(77);
    let arrivals = arrived.iter().map(|came| came.then_some(at)).collect();
    Feedback { sent_at: at, first: PacketSeq(first), arrivals, marked: Vec::new() }
}

#[test]
fn pieces_leave_as_they_were_cut_and_again_when_they_are_missing() {
    let now = Time::from_secs(1);
    let mut sender = sender(now, "none");
    sender.rtp().on_segmented_frame(now, frame(now, 0, b"abcdef"), cut(&[1, 3, 6], None));
    let left = leaving(&mut sender, now);
    let piece = |index, bytes: &[u8]| Piece(0, index, bytes.to_vec());
    assert_eq!(left, [(0, piece(0, b"a")), (1, piece(1, b"bc")), (2, piece(2, b"def"))]);
    assert_eq!(sender.statistics(now).sent, Bytes::new(3 * 30 + 6), "with what the protocol adds");

    let later = now + Span::from_millis(100);
    let nack = Nack { missing: vec![MissingRun { frame: FrameId(0), first: 1, count: 2 }] };
    sender.rtp().on_feedback(later, ReceiverFeedback::Missing(&nack));
    let again = |index, bytes: &[u8]| Again(0, index, bytes.to_vec());
    assert_eq!(leaving(&mut sender, later), [(3, again(1, b"bc")), (4, again(2, b"def"))]);
    assert_eq!(sender.statistics(later).retransmissions, 2);
}

#[test]
fn feedback_alone_brings_a_lost_piece_back_unless_its_repair_does() {
    let now = Time::from_secs(1);
    let later = now + Span::from_millis(60);
    let mut sender = self::sender(now, "none");
    sender.rtp().on_segmented_frame(now, frame(now, 0, b"abcdef"), cut(&[1, 2, 3, 4, 5, 6], None));
    assert_eq!(leaving(&mut sender, now).len(), 6);
    let first_lost = arrivals(0, &[false, true, true, true, true, false]);
    sender.rtp().on_feedback(later, ReceiverFeedback::Arrivals(&first_lost));
    let again = leaving(&mut sender, later);
    assert_eq!(again, [(6, Again(0, 0, b"a".to_vec()))], "the last one may only be late");
    sender.rtp().on_feedback(later, ReceiverFeedback::Arrivals(&first_lost));
    assert!(leaving(&mut sender, later).is_empty(), "once");

    let mut sender = self::sender(now, "fixed:30");
    assert_eq!(sender.rtp().on_segmented_frame(now, frame(now, 0, b"abcdef"), cut(&[1, 2, 3, 4, 5, 6], Some(70))), 2);
    assert_eq!(leaving(&mut sender, now).len(), 8);
    for number in 8..12 {
        assert_eq!(sender.rtp().on_other_sent(now, Bytes::new(90)), PacketSeq(number));
    }
    let all_but_first: Vec<bool> = (0..12).map(|number| number > 0).collect();
    sender.rtp().on_feedback(later, ReceiverFeedback::Arrivals(&arrivals(0, &all_but_first)));
    assert!(leaving(&mut sender, later).is_empty(), "its repair has arrived");
}

#[test]
fn a_receiver_that_lost_its_picture_gets_one_key_frame() {
    let now = Time::from_secs(1);
    let mut sender = sender(now, "none");
    sender.rtp().on_segmented_frame(now, frame(now, 0, &[7; 10]), cut(&[10], None));
    leaving(&mut sender, now);
    assert!(!sender.target().encoder.key);
    sender.rtp().on_feedback(now + Span::from_millis(50), ReceiverFeedback::PictureLost);
    assert!(!sender.target().encoder.key, "the key frame may still be on its way");
    let later = now + Span::from_secs(1);
    sender.rtp().on_feedback(later, ReceiverFeedback::PictureLost);
    assert!(sender.target().encoder.key);
}

#[test]
fn what_goes_beside_shares_the_count_and_feedback_brings_its_own_round_trip() {
    let now = Time::from_secs(1);
    let mut sender = sender(now, "none");
    sender.rtp().on_segmented_frame(now, frame(now, 0, &[7; 10]), cut(&[10], None));
    assert_eq!(leaving(&mut sender, now).len(), 1);
    assert_eq!(sender.rtp().on_other_sent(now, Bytes::new(90)), PacketSeq(1));
    let later = now + Span::from_millis(60);
    sender.rtp().on_feedback(later, ReceiverFeedback::Arrivals(&arrivals(0, &[true, true])));
    assert_eq!(sender.statistics(later).round_trip, None, "not guessed from a report of unknown age");
    sender.rtp().on_segmented_frame(later, frame(later, 1, &[7; 10]), cut(&[10], None));
    leaving(&mut sender, later);
    sender.rtp().on_feedback(later, ReceiverFeedback::RoundTrip(Span::from_millis(20)));
    // Its transit took 5 ms longer than that of the packets before.
    let arrived_at = RemoteTime::from_secs(77) + Span::from_millis(65);
    let feedback = Feedback { arrivals: vec![Some(arrived_at)], ..arrivals(2, &[]) };
    sender.rtp().on_feedback(later, ReceiverFeedback::Arrivals(&feedback));
    assert_eq!(sender.statistics(later).round_trip, Some(Span::from_millis(25)));
}

#[test]
fn repairs_that_another_protocol_makes_leave_behind_their_frame() {
    let now = Time::from_secs(1);
    let mut sender = self::sender(now, "fixed:50");
    assert_eq!(sender.names(), SenderNames { controller: "fixed", redundancy: Some("fixed:50".into()) });
    assert_eq!(sender.rtp().on_segmented_frame(now, frame(now, 0, b"abcdef"), cut(&[1, 3, 6], Some(70))), 2);
    let left = leaving(&mut sender, now);
    assert!(left[..3].iter().all(|(_, packet)| matches!(packet, Piece(..))));
    assert_eq!(left[3..], [(3, Repair(0, 0)), (4, Repair(0, 1))]);
    let statistics = sender.statistics(now);
    assert_eq!((statistics.repairs, statistics.redundant), (2, Bytes::new(2 * (70 + 3))));
    assert_eq!(statistics.sent, Bytes::new(3 * 30 + 6 + 2 * 73));

    let mut most = self::sender(now, "fixed:200");
    let repairs = most.rtp().on_segmented_frame(now, frame(now, 0, b"abc"), cut(&[1, 3], Some(70)));
    assert_eq!(repairs, 2, "more than one for each piece would say nothing new");

    let repairs = sender.rtp().on_segmented_frame(now, frame(now, 1, b"abcdef"), cut(&[6], None));
    assert_eq!(repairs, 0, "the protocol knows none");
    sender.rtp().set_unprotected();
    assert_eq!(sender.names().redundancy, None);
}
