//! A receiver whose pictures arrive decoded, as in browsers over WebRTC.

use nearlight_events::{Event, STAGES};
use nearlight_units::{Bytes, FrameId, InputSeq, Span, Time};
use nearlight_wire::{Fov, FrameHeader, FrameNote, Pong, Pose, ToServer, View, marker::Marker};
use proptest::prelude::*;

use crate::{DisplayedFrame, PictureFacts, Presence, Receiver, ReceiverConfig, RtpCounts};

/// How far the server's clock is ahead.
const OFFSET: Span = Span::from_secs(500);
const FIRST: u32 = 100;
const TICKS: u32 = 3_000;

fn at(millis: u64) -> Time {
    Time::from_millis(10_000 + millis)
}

fn view() -> View {
    View { pose: Pose::default(), fov: Fov::symmetric(1.0, 1.0) }
}

/// The RTP timestamp of a frame; it wraps within the tests.
fn rtp_timestamp(frame: u32) -> u32 {
    (u32::MAX - 5 * TICKS).wrapping_add((frame - FIRST) * TICKS)
}

/// Frame `frame` was encoded at `millis` and left 2 ms later, its last packet after 5 ms.
fn note(frame: u32, millis: u64, last: bool) -> FrameNote {
    let encoded_at = at(millis) + OFFSET;
    let after = |millis: i64| encoded_at + Span::from_millis(millis);
    let header = FrameHeader {
        width: 64,
        height: 64,
        input: InputSeq(frame - FIRST),
        input_received_at: after(-9),
        render_started_at: after(-8),
        rendered_at: after(-4),
        converted_at: after(-3),
        encoded_at,
        display_at: after(30),
        deadline: after(60),
        views: vec![view()],
    };
    let sent_at = after(if last { 5 } else { 2 });
    FrameNote { key: frame == FIRST, last, frame: FrameId(frame), rtp_timestamp: rtp_timestamp(frame), sent_at, header }
}

/// The frame is on the display.
fn show(receiver: &mut Receiver, millis: u64, frame: u32) -> Option<DisplayedFrame> {
    let marker = Marker { frame: FrameId(frame), input: InputSeq(frame - FIRST) };
    receiver.rtp().on_displayed(at(millis), rtp_timestamp(frame), Some(marker))
}

fn facts(frame: u32) -> PictureFacts {
    PictureFacts { rtp_timestamp: rtp_timestamp(frame), received_at: None }
}

/// A receiver that knows the server's clock exactly and whose user moved once, at -10 ms.
fn receiver() -> Receiver {
    let mut receiver = Receiver::new(ReceiverConfig { events: true });
    let asked = at(0) - Span::from_millis(100);
    let there = (asked + OFFSET).for_peer();
    let pong = Pong { client_sent_at: asked.for_peer(), server_received_at: there, server_sent_at: there };
    receiver.on_datagram(asked, &pong.to_bytes());
    let presence = Presence::of_views(Pose::default(), vec![view()]);
    receiver.uplink().on_presence(at(0) - Span::from_millis(10), presence);
    receiver
}

fn on_note(receiver: &mut Receiver, millis: u64, note: &FrameNote) {
    receiver.on_datagram(at(millis), &note.to_bytes());
}

fn lengths(displayed: &DisplayedFrame) -> Vec<i64> {
    STAGES.map(|stage| displayed.timeline.stage(stage).as_micros() / 1_000).to_vec()
}

/// Something that may arrive for one frame, in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    First,
    Last,
    Picture,
}

#[test]
fn note_and_picture_are_joined_whichever_comes_first() {
    use Arrival::{First, Last, Picture};
    // Stages from `pace` on, in milliseconds: the first note arrives 1 ms after it left, the last after 2 ms, the picture 10 ms after the
    // encoder; each step in another order takes another millisecond.
    let cases: [(&[Arrival], [i64; 4]); 6] = [
        (&[First, Last, Picture], [5, 6, 0, 1]),
        (&[Last, First, Picture], [5, 5, 0, 2]),
        (&[First, Picture], [2, 8, 0, 1]),
        (&[Last, Picture], [5, 5, 0, 1]),
        // A note behind its picture cannot say when the frame arrived.
        (&[Picture, Last], [5, 5, 0, 0]),
        (&[First, Picture, Last], [2, 8, 0, 1]),
    ];
    for (order, expected) in cases {
        let mut receiver = receiver();
        for (turn, arrival) in (10..).zip(order) {
            match arrival {
                First => on_note(&mut receiver, turn, &note(FIRST + 1, 0, false)),
                Last => on_note(&mut receiver, turn, &note(FIRST + 1, 0, true)),
                Picture => receiver.rtp().on_picture(at(turn), facts(FIRST + 1)),
            }
        }
        assert_eq!(receiver.picture_header(rtp_timestamp(FIRST + 1)).map(|header| header.views.len()), Some(1));
        let displayed = show(&mut receiver, 20, FIRST + 1);
        let displayed = displayed.unwrap_or_else(|| panic!("{order:?} has no timeline"));
        assert_eq!(lengths(&displayed)[5..9], expected, "{order:?}");
        let sum = STAGES.iter().fold(Span::ZERO, |sum, stage| sum + displayed.timeline.stage(*stage));
        assert_eq!((sum, displayed.total), (Span::from_millis(30), Span::from_millis(30)), "{order:?}");
        assert_eq!(displayed.inputs, [(InputSeq(1), Span::from_millis(30))], "{order:?}");
        let frames = receiver.statistics(at(21)).frames;
        assert_eq!((frames.sent, frames.decoded, frames.displayed, frames.lost, frames.late), (1, 1, 1, 0, 0));
    }
}

#[test]
fn where_the_machinery_tells_when_a_frame_was_whole_it_is_believed_within_reason() {
    // Received at, network, reassemble, decode, in milliseconds: the note arrived at 7, the picture at 12.
    for (received, expected) in [(9, [2, 2, 3]), (6, [1, 0, 6]), (40, [2, 5, 0])] {
        let mut receiver = receiver();
        on_note(&mut receiver, 7, &note(FIRST + 1, 0, true));
        receiver.rtp().on_picture(at(12), PictureFacts { received_at: Some(at(received)), ..facts(FIRST + 1) });
        let displayed = show(&mut receiver, 20, FIRST + 1);
        assert_eq!(lengths(&displayed.expect("noted"))[6..9], expected, "received at {received}");
    }
}

#[test]
fn a_frame_without_any_note_is_shown_and_not_lost() {
    let mut receiver = receiver();
    // The channel opens after the first pictures: nothing is known of these.
    receiver.rtp().on_picture(at(0), facts(FIRST));
    assert_eq!(show(&mut receiver, 1, FIRST), None);
    assert_eq!(receiver.statistics(at(1)).frames.displayed, 0);
    for frame in [1, 2, 3] {
        let millis = u64::from(frame) * 33;
        if frame != 2 {
            on_note(&mut receiver, millis, &note(FIRST + frame, millis, true));
        }
        receiver.rtp().on_picture(at(millis + 5), facts(FIRST + frame));
        assert_eq!(receiver.picture_header(rtp_timestamp(FIRST + frame)).is_some(), frame != 2);
        let displayed = show(&mut receiver, millis + 8, FIRST + frame);
        assert_eq!(displayed.is_some(), frame != 2);
    }
    // A note that still arrives later changes nothing.
    on_note(&mut receiver, 120, &note(FIRST + 2, 66, true));
    let frames = receiver.statistics(at(121)).frames;
    assert_eq!((frames.sent, frames.decoded, frames.displayed, frames.lost, frames.late), (3, 3, 3, 0, 0));
}

#[test]
fn frames_of_which_no_picture_comes_are_lost_and_named() {
    let mut receiver = receiver();
    for frame in [0, 1, 2, 3, 4] {
        let millis = 100 + u64::from(frame) * 33;
        on_note(&mut receiver, millis, &note(FIRST + frame, millis, true));
        if ![2, 3].contains(&frame) {
            receiver.rtp().on_picture(at(millis + 5), facts(FIRST + frame));
            // A media stack that hands out a picture twice does not thereby hide a loss.
            receiver.rtp().on_picture(at(millis + 6), facts(FIRST + frame));
            show(&mut receiver, millis + 9, FIRST + frame);
        }
    }
    let frames = receiver.statistics(at(300)).frames;
    assert_eq!((frames.sent, frames.displayed, frames.lost), (5, 3, 2));
    let lost = std::iter::from_fn(|| receiver.poll_event()).filter_map(|(_, event)| match event {
        Event::FrameLost { frame, .. } => Some(frame.0 - FIRST),
        _ => None,
    });
    assert_eq!(lost.collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn pictures_that_newer_ones_overtake_on_the_way_to_the_display_are_late() {
    let mut receiver = receiver();
    for frame in [0, 1] {
        on_note(&mut receiver, 100, &note(FIRST + frame, 100, true));
        receiver.rtp().on_picture(at(105), facts(FIRST + frame));
    }
    assert!(show(&mut receiver, 110, FIRST + 1).is_some());
    let frames = receiver.statistics(at(111)).frames;
    assert_eq!((frames.decoded, frames.displayed, frames.late, frames.lost), (2, 1, 1, 0));
}

#[test]
fn the_machinerys_counts_become_the_sessions() {
    let mut receiver = receiver();
    let counts = |factor: u64| RtpCounts {
        packets_lost: factor,
        packets: 100 * factor,
        bytes: Bytes::new(100_000 * factor),
        repeated_packets: 3 * factor,
        redundant_bytes: Bytes::new(3_000 * factor),
        repairs: 4 * factor,
        key_frames: factor,
    };
    receiver.rtp().on_counts(at(0), counts(1));
    receiver.rtp().on_counts(at(500), counts(2));
    let statistics = receiver.statistics(at(600));
    assert_eq!((statistics.loss.packets, statistics.loss.retransmitted, statistics.loss.key_frames), (2, 6, 1));
    assert_eq!(statistics.received, Bytes::new(200_000));
    assert_eq!(statistics.received_rate.as_bps(), 1_600_000);
    assert_eq!((statistics.recovery.media_bytes, statistics.recovery.redundant_bytes), (200_000, 6_000));
    assert_eq!(statistics.recovery.repairs, 8);
}

#[test]
fn only_what_the_server_takes_over_webrtc_is_sent() {
    let mut receiver = receiver();
    for frame in 0..60 {
        let millis = 100 + u64::from(frame) * 33;
        on_note(&mut receiver, millis, &note(FIRST + frame, millis, true));
        if frame % 7 != 3 {
            receiver.rtp().on_picture(at(millis + 5), facts(FIRST + frame));
            show(&mut receiver, millis + 9, FIRST + frame);
        }
        receiver.on_timeout(at(millis + 10));
        while let Some(datagram) = receiver.poll_transmit(at(millis + 10)) {
            let message = ToServer::parse(&datagram).expect("well-formed");
            let taken = matches!(message, ToServer::Input(_) | ToServer::Ping(_) | ToServer::Report(_));
            assert!(taken, "{message:?}");
        }
    }
}

proptest! {
    /// Each frame's two notes and its picture arrive or not: every picture after the first note counts once, and exactly the frames without
    /// a picture between the first and the newest identifiable picture are lost.
    #[test]
    fn nothing_is_counted_twice_or_forgotten(fates in proptest::collection::vec(any::<[bool; 4]>(), 1..80)) {
        let mut receiver = receiver();
        let (mut known, mut shown, mut noted) = (false, 0, Vec::new());
        for (frame, [first, last, picture, slow]) in (0..).zip(&fates) {
            let millis = 100 + u64::from(frame) * 33;
            known |= first | last;
            for (sent, is_last, delay) in [(first, false, 1), (last, true, if *slow { 7 } else { 3 })] {
                if *picture && delay == 7 {
                    receiver.rtp().on_picture(at(millis + 5), facts(FIRST + frame));
                }
                if *sent {
                    on_note(&mut receiver, millis + delay, &note(FIRST + frame, millis, is_last));
                }
            }
            if *picture && !slow {
                receiver.rtp().on_picture(at(millis + 5), facts(FIRST + frame));
            }
            if *picture {
                shown += u64::from(known);
                if *first || *last {
                    noted.push(frame);
                }
                let displayed =
                    show(&mut receiver, millis + 9, FIRST + frame);
                prop_assert_eq!(displayed.is_some(), *first || *last);
            }
        }
        let range = noted.first().copied().unwrap_or(0)..noted.last().copied().unwrap_or(0);
        let missing = range.filter(|frame| !fates[*frame as usize][2]).count() as u64;
        let frames = receiver.statistics(at(10_000)).frames;
        prop_assert_eq!((frames.displayed, frames.decoded, frames.lost), (shown, shown, missing));
        prop_assert!(frames.sent >= frames.displayed);
    }
}
