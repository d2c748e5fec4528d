use crate::pace::Mode;
use nearlight_events::{STAGES, Stage};
use nearlight_units::{Span, Time};
use nearlight_wire::Key;

use super::path::{Conditions, SimulatedSession, presence};
use crate::{DeviceInput, Receiver, ReceiverConfig, Wake};

#[test]
fn a_clean_path_shows_every_frame_and_its_stages_sum_to_the_total() {
    let mut session = SimulatedSession::new(1);
    session.run(Span::from_secs(10));
    let received = session.received();
    assert_eq!((received.frames.lost, received.frames.late, received.loss.packets), (0, 0, 0));
    assert!(received.frames.displayed >= 300, "{received:?}");
    assert_eq!(session.sent().key_frames, 1);
    assert_eq!(session.sent().retransmissions, 0);
    for displayed in &session.displayed {
        let sum = STAGES.iter().fold(Span::ZERO, |sum, stage| sum + displayed.timeline.stage(*stage));
        assert_eq!(sum, displayed.timeline.total());
        assert_eq!(sum, displayed.total);
    }
    // An input waits at most for one frame and 10 ms, then takes 5 ms each way and 2 ms to decode.
    let slowest = session.displayed.iter().flat_map(|displayed| &displayed.inputs).map(|(_, span)| *span).max();
    assert!(slowest.expect("inputs") <= Span::from_millis(33 + 12), "{slowest:?}");
}

#[test]
fn a_key_frame_in_mid_stream_leaves_no_gap() {
    let mut session = SimulatedSession::new(13);
    for _ in 0..8 {
        session.run(Span::from_secs(1));
        session.sender.request_key_frame(Time::from_secs(1_005), "the picture's size changed");
    }
    session.run(Span::from_secs(1));
    // What left last is still in flight.
    let (sent, received) = (session.sent(), session.received());
    assert!(sent.key_frames == 9 && received.frames.displayed + 2 >= sent.frames, "{sent:?} {received:?}");
    assert_eq!((received.frames.lost, received.recovery.recoveries), (0, 0), "{received:?}");
}

#[test]
fn clocks_that_started_at_different_times_are_brought_together() {
    let mut session = SimulatedSession::new(2);
    session.run(Span::from_secs(3));
    let clock = session.receiver.clock(session.now).expect("pings were answered");
    assert!((clock.offset - session.clock_offset).abs() <= clock.error);
    let network = session.displayed.last().expect("frames").timeline.stage(Stage::Network);
    assert!((network - Span::from_millis(5)).abs() <= clock.error, "{network}");
}

#[test]
fn two_percent_loss_is_recovered_without_a_key_frame() {
    for seed in 0..5 {
        let mut session = SimulatedSession::new(seed).with(Conditions { loss: 0.02, ..Conditions::CLEAN });
        session.run(Span::from_secs(20));
        let received = session.received();
        let shown = received.frames.displayed as f64 / received.frames.sent as f64;
        assert!(shown >= 0.99, "seed {seed}: {received:?}");
        assert_eq!(session.sent().key_frames, 1, "seed {seed}: {received:?}");
        assert!(received.loss.retransmitted > 100, "seed {seed}: {received:?}");
    }
}

#[test]
fn five_percent_loss_on_a_long_path_keeps_the_picture_moving() {
    let long = Conditions { delay: Span::from_millis(40), loss: 0.05, ..Conditions::CLEAN };
    let mut session = SimulatedSession::new(3).with(long);
    session.run(Span::from_secs(20));
    let received = session.received();
    assert!(received.frames.decoded as f64 >= 0.95 * received.frames.sent as f64, "{received:?}");
}

#[test]
fn reordering_and_duplicates_cost_nothing() {
    let shuffled = Conditions { jitter: Span::from_micros(900), duplicates: 0.05, ..Conditions::CLEAN };
    let mut session = SimulatedSession::new(4).with(shuffled);
    session.run(Span::from_secs(10));
    let received = session.received();
    assert_eq!((received.frames.lost, received.loss.packets, session.sent().key_frames), (0, 0, 1), "{received:?}");
    assert_eq!(session.sent().retransmissions, 0, "nothing was lost, so nothing is sent twice");
}

#[test]
fn a_path_that_serves_others_in_between_is_not_taken_for_a_lossy_one() {
    for turn in [12, 15, 20] {
        let mut session = SimulatedSession::paced(4, Mode::Spread);
        session.conditions = Conditions { turn: Span::from_millis(turn), ..Conditions::CLEAN };
        session.run(Span::from_secs(10));
        let sent = session.sent();
        assert_eq!(sent.packets_lost, 0, "turns of {turn} ms");
        let again = sent.retransmissions as f64 / sent.packets as f64;
        assert!(again < 0.02, "turns of {turn} ms: {again:.3} of the packets were sent again");
    }
}

#[test]
fn a_two_second_outage_ends_with_one_key_frame() {
    let mut session = SimulatedSession::new(5);
    session.run(Span::from_secs(3));
    let resumed = session.outage(Span::from_secs(2));
    assert!(resumed <= Span::from_millis(150), "resumed after {resumed}");
    assert_eq!(session.sent().key_frames, 2);
}

#[test]
fn a_sender_that_pauses_in_the_middle_of_a_frame_is_waited_for() {
    let mut session = SimulatedSession::new(9);
    session.run(Span::from_secs(2));
    // Half a frame arrives, then nothing for 400 ms: longer than a repair may take, but there was no refusal.
    session.conditions.loss = 0.5;
    session.run(Span::from_millis(10));
    session.conditions = Conditions { outage: true, ..Conditions::CLEAN };
    session.pause_server(Span::from_millis(400));
    session.run(Span::from_millis(400));
    session.conditions.outage = false;
    session.run(Span::from_secs(1));
    assert_eq!((session.received().frames.lost, session.sent().key_frames), (0, 1), "{:?}", session.received());
}

#[test]
fn an_event_survives_loss_and_is_applied_once() {
    for seed in 0..20 {
        let mut session = SimulatedSession::new(seed).with(Conditions { loss: 0.5, ..Conditions::CLEAN });
        session.run(Span::from_millis(500));
        session
            .receiver
            .uplink()
            .on_device(session.now, DeviceInput::Key { key: Key(0x7_0009), pressed: true })
            .expect("the user is present");
        let mut applied = 0;
        for _ in 0..100 {
            session.run(Span::from_millis(10));
            if let Some(input) = session.sender.poll_input(session.now) {
                applied += input.events.len();
            }
        }
        // The simulated session's own encoder polls inputs too, so the event may have gone there instead.
        assert!(applied <= 1, "seed {seed}: applied {applied} times");
        assert!(session.receiver.poll_timeout().is_some());
    }
}

#[test]
fn frames_that_would_only_wait_are_left_out_before_they_are_encoded() {
    // 72 Mb/s of frames at a fixed 20 Mb/s, in the mode that does not speed up where the path is wide.
    let mut session = SimulatedSession::paced(6, Mode::Interval(Span::from_millis(5)));
    session.frame_bytes = 300_000;
    session.run(Span::from_secs(5));
    let (sent, received) = (session.sent(), session.received());
    assert!(sent.skipped > 30, "{sent:?}");
    assert_eq!((received.frames.lost, sent.key_frames), (0, 1), "{received:?}");
    let slowest = session.displayed.iter().map(|displayed| displayed.timeline.stage(Stage::Pace)).max();
    assert!(slowest.expect("frames") <= Span::from_millis(33 * 15), "{slowest:?}");
}

#[test]
fn a_slow_decoder_gets_fewer_frames_instead_of_a_longer_queue() {
    let mut session = SimulatedSession::new(10);
    session.decode_time = Span::from_millis(50);
    session.run(Span::from_secs(10));
    let longest = session.displayed[60..].iter().map(|displayed| displayed.timeline.stage(Stage::Decode)).max();
    assert!(longest.expect("frames") < Span::from_millis(400), "{longest:?}");
    assert!(
        session.sent().skipped > 50 && session.received().frames.decoded > 120,
        "{:?} {:?}",
        session.sent(),
        session.received()
    );
    assert_eq!((session.received().frames.lost, session.sent().key_frames), (0, 1));
    session.decode_time = Span::from_millis(5);
    session.run(Span::from_secs(5));
    let before = session.sent().skipped;
    session.run(Span::from_secs(2));
    assert_eq!(session.sent().skipped, before, "a decoder that follows again gets every frame");
}

#[test]
fn same_seed_same_story() {
    let run = || {
        let lossy = Conditions { loss: 0.05, jitter: Span::from_millis(2), duplicates: 0.01, ..Conditions::CLEAN };
        let mut session = SimulatedSession::new(7).with(lossy);
        session.run(Span::from_secs(5));
        (session.received(), session.sent(), session.displayed.len())
    };
    assert_eq!(run(), run());
}

#[test]
fn a_garbled_stream_is_counted_and_dropped() {
    let mut session = SimulatedSession::new(8);
    session.run(Span::from_secs(1));
    for length in 0..100 {
        session.receiver.on_datagram(session.now, &vec![0xff; length]);
        session.sender.on_datagram(Time::from_secs(1_006), &vec![0xff; length]);
    }
    assert_eq!((session.received().malformed, session.sent().malformed), (100, 100));
    session.run(Span::from_secs(1));
    assert_eq!(session.received().frames.lost, 0);
}

#[test]
fn an_event_that_is_not_acknowledged_is_a_reason_of_its_own_to_wake() {
    let mut now = Time::from_secs(1);
    let mut receiver = Receiver::new(ReceiverConfig { events: false });
    receiver.uplink().on_presence(now, presence());
    receiver
        .uplink()
        .on_device(now, DeviceInput::Key { key: Key(0x7_0009), pressed: true })
        .expect("an input was made");
    let repeated_at = now + Span::from_millis(33);
    loop {
        receiver.on_timeout(now);
        while receiver.poll_transmit(now).is_some() {}
        let (at, wake) = receiver.poll_timeout().expect("the clock is asked again and again");
        if wake == Wake::Input {
            assert_eq!(at, repeated_at);
            return;
        }
        assert!(at < repeated_at, "{wake:?}");
        now = at;
    }
}
