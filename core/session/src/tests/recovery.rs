//! Losses that retransmissions do not repair in time: the encoder predicts from a frame that the receiver has, and no key frame is
//! generated.

use nearlight_events::{Event, RecoveryKind};
use nearlight_units::{Span, Time};
use proptest::prelude::*;

use super::path::{Conditions, SimulatedSession};

/// Bursts of loss so long that answers are lost as well.
const BURSTS: Conditions = Conditions { delay: Span::from_millis(10), loss: 0.05, burst: 8.0, ..Conditions::CLEAN };

#[test]
fn bursts_on_every_path_are_recovered_without_a_key_frame() {
    for (seed, delay, loss, burst) in
        [(1, 10, 0.01, 1.33), (2, 10, 0.05, 8.0), (3, 25, 0.05, 3.0), (4, 50, 0.05, 8.0), (5, 5, 0.10, 20.0)]
    {
        let conditions = Conditions { delay: Span::from_millis(delay), loss, burst, ..Conditions::CLEAN };
        let mut session = SimulatedSession::new(seed).with(conditions).referring();
        session.run(Span::from_secs(30));
        let (sent, received) = (session.sent(), session.received());
        assert_eq!(sent.key_frames, 1, "{delay} ms, {loss}: {sent:?}\n{received:?}");
        let decoded = received.frames.decoded as f64 / received.frames.sent as f64;
        assert!(decoded > 0.9, "{delay} ms, {loss}: {received:?}");
    }
}

#[test]
fn short_outages_cost_key_frames_only_without_references() {
    let run = |referring: bool| {
        let mut session = if referring { SimulatedSession::new(6).referring() } else { SimulatedSession::new(6) };
        for _ in 0..10 {
            session.run(Span::from_millis(700));
            session.conditions.outage = true;
            session.run(Span::from_millis(600));
            session.conditions.outage = false;
        }
        session.run(Span::from_secs(1));
        (session.sent().key_frames, session.received())
    };
    let (keys, received) = run(true);
    assert_eq!((keys, received.recovery.by_reference, received.recovery.by_key_frame), (1, 10, 0), "{received:?}");
    let (keys, received) = run(false);
    assert_eq!((keys, received.recovery.by_reference, received.recovery.by_key_frame), (11, 0, 10), "{received:?}");
}

#[test]
fn an_outage_ends_without_a_key_frame() {
    let mut session = SimulatedSession::new(7).referring();
    session.run(Span::from_secs(3));
    let resumed = session.outage(Span::from_secs(2));
    assert!(resumed <= Span::from_millis(150), "resumed after {resumed}");
    assert_eq!((session.sent().key_frames, session.sent().recovery_frames), (1, 1));
}

#[test]
fn a_key_frame_comes_where_the_encoder_cannot_go_back() {
    let mut session = SimulatedSession::new(8).referring();
    session.run(Span::from_secs(1));
    // No frame that the receiver has is within reach of a one-byte distance, although few leave while nothing is heard.
    session.conditions.outage = true;
    session.run(Span::from_secs(30));
    session.conditions.outage = false;
    session.run(Span::from_secs(1));
    assert_eq!(session.sent().key_frames, 2, "{:?}", session.sent());
    assert!(matches!(session.received().recovered_by, Some((RecoveryKind::KeyFrame, _))), "{:?}", session.received());
}

#[test]
fn a_decoder_that_refused_a_frame_gets_a_key_frame() {
    let mut session = SimulatedSession::new(9).referring();
    session.run(Span::from_secs(1));
    let newest = session.displayed.last().expect("frames").timeline.frame;
    session.receiver.frames().on_decode_failed(session.now, newest);
    session.run(Span::from_secs(1));
    assert_eq!((session.sent().key_frames, session.sent().recovery_frames), (2, 0));
    assert!(session.received().frames.decoded > 50);
}

#[test]
fn each_recovery_says_what_and_how_long() {
    let mut session = SimulatedSession::new(10)
        .with(Conditions { loss: 0.1, burst: 20.0, ..BURSTS })
        .referring()
        .protected("planner");
    let (mut recoveries, mut kinds, mut longest) = (0, Vec::new(), 0);
    for _ in 0..100 {
        session.run(Span::from_millis(300));
        while let Some((_, event)) = session.receiver.poll_event() {
            if let Event::PictureRecovered { by, frames, .. } = event {
                recoveries += 1;
                kinds.push(by);
                longest = longest.max(frames);
            }
        }
    }
    let counts = session.received().recovery;
    assert_eq!((recoveries, longest), (counts.recoveries, counts.longest_recovery));
    let referred = kinds.iter().filter(|kind| **kind == RecoveryKind::Reference).count() as u64;
    // Some answers arrive after a retransmission has succeeded after all.
    assert!(
        referred > 0 && referred == counts.by_reference && referred <= session.sent().recovery_frames,
        "{counts:?}"
    );
    assert!(kinds.contains(&RecoveryKind::Retransmission) || kinds.contains(&RecoveryKind::LateRepair));
    assert_eq!(counts.by_key_frame, 0);
}

#[test]
fn a_clean_path_is_told_of_no_loss() {
    let mut session =
        SimulatedSession::new(11).with(Conditions { jitter: Span::from_millis(2), ..Conditions::CLEAN }).referring();
    session.run(Span::from_secs(10));
    let (sent, received) = (session.sent(), session.received());
    assert_eq!((sent.recovery_frames, sent.key_frames, received.recovery.recoveries), (0, 1, 0), "{received:?}");
}

#[test]
fn a_server_that_knows_no_references_gets_no_acknowledgement() {
    let mut session = SimulatedSession::new(12).with(BURSTS);
    session.run(Span::from_secs(5));
    assert_eq!((session.sent().malformed, session.sent().recovery_frames), (0, 0));
    assert!(session.sender.target().encoder.acknowledged.is_none() && session.now > Time::ZERO);
}

/// Half of a key frame's packets are lost by chance, so that the rate at which packets arrive follows any ceiling down.
#[test]
fn a_path_that_loses_by_chance_shows_a_picture_as_soon_as_it_is_clean() {
    let chance = Conditions {
        delay: Span::from_millis(32),
        jitter: Span::from_millis(17),
        loss: 0.24,
        burst: 3.8,
        duplicates: 0.15,
        ..Conditions::CLEAN
    };
    for seed in (0..40).chain([2_073_141_145_300_020_605]) {
        let mut session = SimulatedSession::new(seed).with(chance).referring().protected("none");
        session.run(Span::from_secs(8));
        session.conditions = Conditions::CLEAN;
        session.run(Span::from_secs(1));
        let before = session.displayed.len();
        session.run(Span::from_secs(1));
        assert!(session.displayed.len() - before >= 3, "seed {seed}: {:?}", session.received());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the path does, including lost and late acknowledgements: no frame reaches the decoder before its reference or after a newer
    /// one (the simulated session asserts both), and the picture recovers.
    #[test]
    fn the_decoder_never_gets_what_it_cannot_decode(
        seed in any::<u64>(),
        delay in 1_i64..80,
        jitter in 0_i64..20,
        loss in 0.0_f64..0.3,
        burst in 1.0_f64..30.0,
        duplicates in 0.0_f64..0.2,
        policy in prop::sample::select(vec!["none", "planner", "nebula", "escot-gop"]),
    ) {
        let (delay, jitter) = (Span::from_millis(delay), Span::from_millis(jitter));
        let conditions = Conditions { delay, jitter, loss, burst, duplicates, ..Conditions::CLEAN };
        let mut session = SimulatedSession::new(seed).with(conditions).referring().protected(policy);
        session.run(Span::from_secs(8));
        session.conditions = Conditions::CLEAN;
        session.run(Span::from_secs(2));
        let (before, lost) = (session.displayed.len(), session.received().frames.lost);
        session.run(Span::from_secs(1));
        // The sender may still skip frames for a decoder that it considers slow, down to every eighth frame.
        prop_assert!(session.displayed.len() - before >= 3, "{:?}", session.received());
        prop_assert_eq!(session.received().frames.lost, lost);
    }
}
