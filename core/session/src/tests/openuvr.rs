//! OpenUVR's feedback: a key frame is requested after each frame until one arrives, and the sender ignores repeats for a while.

use nearlight_events::Event;
use nearlight_units::{FrameId, Span};
use nearlight_wire::RecoveryPolicy;
use proptest::prelude::*;

use super::path::{Conditions, SimulatedSession};

/// A round trip of three frames: requests are on their way while the key frame comes.
const FAR: Conditions = Conditions { delay: Span::from_millis(50), ..Conditions::CLEAN };

fn far(ignored_frames: u16) -> SimulatedSession {
    SimulatedSession::new(1).with(FAR).recovering(RecoveryPolicy::OpenUvr { ignored_frames })
}

/// Lets `span` pass, and returns the receiver's events in that time.
fn run(session: &mut SimulatedSession, span: Span) -> Vec<Event> {
    let mut events = Vec::new();
    let end = session.now + span;
    while session.now < end {
        session.run(Span::from_millis(50));
        events.extend(std::iter::from_fn(|| session.receiver.poll_event()).map(|(_, event)| event));
    }
    events
}

fn requests(events: &[Event]) -> u64 {
    events.iter().filter(|event| matches!(event, Event::KeyFrameRequested { .. })).count() as u64
}

/// After a second, selects a frame that has not been sent yet to be lost.
fn leave_out_one(session: &mut SimulatedSession) -> FrameId {
    run(session, Span::from_secs(1));
    // The frames before it are on their way.
    let left_out = FrameId(session.displayed.last().expect("frames").timeline.frame.0 + 5);
    session.left_out.insert(left_out);
    left_out
}

#[test]
fn after_each_frame_a_key_frame_is_asked_for_until_it_comes() {
    let mut session = far(RecoveryPolicy::OPENUVR_IGNORED_FRAMES);
    let left_out = leave_out_one(&mut session);
    let events = run(&mut session, Span::from_secs(2));
    let (sent, received) = (session.sent(), session.received());
    // One for the frame that was dropped, and one for each that was damaged; a key frame of four times the size comes a frame later.
    let damaged = received.frames.damaged;
    assert_eq!(requests(&events), 1 + damaged, "{received:?}");
    assert!((3..=5).contains(&damaged), "a round trip of three frames: {received:?}");
    assert_eq!((sent.key_frames, sent.retransmissions, received.frames.lost), (2, 0, 1), "{sent:?} {received:?}");
    // The damage is visible, and it ends with the key frame.
    let shown: Vec<u32> = session.displayed.iter().map(|displayed| displayed.timeline.frame.0).collect();
    let after: Vec<u32> = shown.iter().copied().filter(|frame| *frame > left_out.0).collect();
    assert!(after.windows(2).all(|pair| pair[1] == pair[0] + 1) && after[0] == left_out.0 + 1, "{after:?}");
    let recovered = events.iter().find_map(|event| match event {
        Event::PictureRecovered { frames, .. } => Some(u64::from(*frames)),
        _ => None,
    });
    assert_eq!(recovered, Some(1 + damaged), "the frame that was dropped and those that were damaged");
}

#[test]
fn repeats_are_ignored_for_as_many_frames_as_was_said() {
    let key_frames = |ignored_frames: u16| {
        let mut session = far(ignored_frames);
        leave_out_one(&mut session);
        session.run(Span::from_secs(2));
        session.sent().key_frames
    };
    assert_eq!([key_frames(6), key_frames(12)], [2, 2]);
    assert!(key_frames(0) > 3, "each request on its way makes one more: {}", key_frames(0));
    // One is still ignored, the next is answered.
    assert_eq!(key_frames(1), 3);
}

#[test]
fn a_key_frame_that_is_lost_is_followed_by_another_when_the_period_has_ended() {
    let mut session = far(RecoveryPolicy::OPENUVR_IGNORED_FRAMES);
    let left_out = leave_out_one(&mut session);
    // The first answer is among these.
    session.left_out.extend((1..=6).map(|after| FrameId(left_out.0 + after)));
    session.run(Span::from_secs(3));
    let (sent, received) = (session.sent(), session.received());
    assert_eq!(sent.key_frames, 3, "{sent:?} {received:?}");
    assert_eq!((received.recovery.by_key_frame, received.frames.lost), (1, 7), "{received:?}");
    assert!(!session.receiver.is_stuck() && session.receiver.frames().poll(session.now).is_none());
}

#[test]
fn a_request_is_repeated_where_no_frame_follows() {
    let mut session = far(RecoveryPolicy::OPENUVR_IGNORED_FRAMES);
    leave_out_one(&mut session);
    run(&mut session, Span::from_millis(200));
    session.pause_server(Span::from_secs(2));
    // What had left arrives, and the key frame that is generated then does not leave.
    run(&mut session, Span::from_millis(100));
    let events = run(&mut session, Span::from_millis(1_500));
    assert!(requests(&events) >= 5, "a round trip and 53 ms apart: {}", requests(&events));
    session.run(Span::from_secs(2));
    assert_eq!(session.received().recovery.by_key_frame, 1, "{:?}", session.received());
}

#[test]
fn a_decoder_that_refuses_damage_gets_nothing_before_the_key_frame() {
    let mut session = far(RecoveryPolicy::OPENUVR_IGNORED_FRAMES);
    run(&mut session, Span::from_secs(1));
    let newest = session.displayed.last().expect("frames").timeline.frame;
    session.receiver.frames().on_decode_failed(session.now, newest);
    let before = session.received().frames;
    let events = run(&mut session, Span::from_secs(2));
    let received = session.received();
    assert_eq!((session.sent().key_frames, received.frames.damaged), (2, 0), "{received:?}");
    let lost = received.frames.lost - before.lost;
    assert!((3..=5).contains(&lost), "those of a round trip: {received:?}");
    assert_eq!(requests(&events), 1 + lost);
}

#[test]
fn frames_that_overtake_one_another_are_no_losses() {
    let shuffled = Conditions { jitter: Span::from_micros(900), duplicates: 0.05, ..Conditions::CLEAN };
    let mut session = SimulatedSession::new(4).with(shuffled).recovering(RecoveryPolicy::OPENUVR);
    session.run(Span::from_secs(10));
    let received = session.received();
    let frames = received.frames;
    assert_eq!((frames.lost, frames.damaged, session.sent().key_frames), (0, 0, 1), "{received:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Damage is determined by the chain of references (the simulated session checks each frame), and however much is lost, the picture recovers.
    #[test]
    fn whatever_is_lost_the_picture_comes_back_whole(
        seed in any::<u64>(),
        delay in 1_i64..80,
        loss in 0.0_f64..0.3,
        burst in 1.0_f64..20.0,
        ignored_frames in 0_u16..12,
    ) {
        let conditions = Conditions { delay: Span::from_millis(delay), loss, burst, ..Conditions::CLEAN };
        let mut session = SimulatedSession::new(seed).with(conditions).recovering(RecoveryPolicy::OpenUvr { ignored_frames });
        for _ in 0..50 {
            session.run(Span::from_millis(100));
            prop_assert!(!session.receiver.is_stuck());
        }
        session.conditions.loss = 0.0;
        session.conditions.burst = 1.0;
        session.run(Span::from_secs(2));
        let before = session.received().frames;
        session.run(Span::from_secs(1));
        let after = session.received().frames;
        prop_assert!(after.displayed >= before.displayed + 28, "{:?} {:?}", before, after);
        prop_assert_eq!((after.lost, after.damaged), (before.lost, before.damaged));
    }
}
