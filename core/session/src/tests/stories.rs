use crate::pace::Mode;
use nearlight_events::{STAGES, Stage};
use nearlight_units::{Span, Time};
use nearlight_wire::Key;

use super::path::{Conditions, Story, presence};
use crate::{DeviceInput, Receiver, ReceiverConfig, Wake};

#[test]
fn a_clean_path_shows_every_frame_and_its_stages_sum_to_the_total() {
    let mut story = Story::new(1);
    story.run(Span::from_secs(10));
    let received = story.received();
    assert_eq!((received.frames.lost, received.frames.late, received.loss.packets), (0, 0, 0));
    assert!(received.frames.displayed >= 300, "{received:?}");
    assert_eq!(story.sent().key_frames, 1);
    assert_eq!(story.sent().retransmissions, 0);
    for displayed in &story.displayed {
        let sum = STAGES.iter().fold(Span::ZERO, |sum, stage| sum + displayed.timeline.stage(*stage));
        assert_eq!(sum, displayed.timeline.total());
        assert_eq!(sum, displayed.total);
    }
    // An input waits at most for one frame and 10 ms, then takes 5 ms each way and 2 ms to decode.
    let slowest = story.displayed.iter().flat_map(|displayed| &displayed.inputs).map(|(_, span)| *span).max();
    assert!(slowest.expect("inputs") <= Span::from_millis(33 + 12), "{slowest:?}");
}

#[test]
fn a_key_frame_in_mid_stream_leaves_no_gap() {
    let mut story = Story::new(13);
    for _ in 0..8 {
        story.run(Span::from_secs(1));
        story.sender.request_key_frame(Time::from_secs(1_005), "the picture's size changed");
    }
    story.run(Span::from_secs(1));
    // What left last is still in flight.
    let (sent, received) = (story.sent(), story.received());
    assert!(sent.key_frames == 9 && received.frames.displayed + 2 >= sent.frames, "{sent:?} {received:?}");
    assert_eq!((received.frames.lost, received.recovery.recoveries), (0, 0), "{received:?}");
}

#[test]
fn clocks_that_started_at_different_times_are_brought_together() {
    let mut story = Story::new(2);
    story.run(Span::from_secs(3));
    let clock = story.receiver.clock(story.now).expect("pings were answered");
    assert!((clock.offset - story.clock_offset).abs() <= clock.error);
    let network = story.displayed.last().expect("frames").timeline.stage(Stage::Network);
    assert!((network - Span::from_millis(5)).abs() <= clock.error, "{network}");
}

#[test]
fn two_percent_loss_is_recovered_without_a_key_frame() {
    for seed in 0..5 {
        let mut story = Story::new(seed).with(Conditions { loss: 0.02, ..Conditions::CLEAN });
        story.run(Span::from_secs(20));
        let received = story.received();
        let shown = received.frames.displayed as f64 / received.frames.sent as f64;
        assert!(shown >= 0.99, "seed {seed}: {received:?}");
        assert_eq!(story.sent().key_frames, 1, "seed {seed}: {received:?}");
        assert!(received.loss.retransmitted > 100, "seed {seed}: {received:?}");
    }
}

#[test]
fn five_percent_loss_on_a_long_path_keeps_the_picture_moving() {
    let long = Conditions { delay: Span::from_millis(40), loss: 0.05, ..Conditions::CLEAN };
    let mut story = Story::new(3).with(long);
    story.run(Span::from_secs(20));
    let received = story.received();
    assert!(received.frames.decoded as f64 >= 0.95 * received.frames.sent as f64, "{received:?}");
}

#[test]
fn reordering_and_duplicates_cost_nothing() {
    let shuffled = Conditions { jitter: Span::from_micros(900), duplicates: 0.05, ..Conditions::CLEAN };
    let mut story = Story::new(4).with(shuffled);
    story.run(Span::from_secs(10));
    let received = story.received();
    assert_eq!((received.frames.lost, received.loss.packets, story.sent().key_frames), (0, 0, 1), "{received:?}");
    assert_eq!(story.sent().retransmissions, 0, "nothing was lost, so nothing is sent twice");
}

#[test]
fn a_path_that_serves_others_in_between_is_not_taken_for_a_lossy_one() {
    for turn in [12, 15, 20] {
        let mut story = Story::paced(4, Mode::Spread);
        story.conditions = Conditions { turn: Span::from_millis(turn), ..Conditions::CLEAN };
        story.run(Span::from_secs(10));
        let sent = story.sent();
        assert_eq!(sent.packets_lost, 0, "turns of {turn} ms");
        let again = sent.retransmissions as f64 / sent.packets as f64;
        assert!(again < 0.02, "turns of {turn} ms: {again:.3} of the packets were sent again");
    }
}

#[test]
fn a_two_second_outage_ends_with_one_key_frame() {
    let mut story = Story::new(5);
    story.run(Span::from_secs(3));
    let resumed = story.outage(Span::from_secs(2));
    assert!(resumed <= Span::from_millis(150), "resumed after {resumed}");
    assert_eq!(story.sent().key_frames, 2);
}

#[test]
fn a_sender_that_pauses_in_the_middle_of_a_frame_is_waited_for() {
    let mut story = Story::new(9);
    story.run(Span::from_secs(2));
    // Half a frame arrives, then nothing for 400 ms: longer than a repair may take, but there was no refusal.
    story.conditions.loss = 0.5;
    story.run(Span::from_millis(10));
    story.conditions = Conditions { outage: true, ..Conditions::CLEAN };
    story.pause_server(Span::from_millis(400));
    story.run(Span::from_millis(400));
    story.conditions.outage = false;
    story.run(Span::from_secs(1));
    assert_eq!((story.received().frames.lost, story.sent().key_frames), (0, 1), "{:?}", story.received());
}

#[test]
fn an_event_survives_loss_and_is_applied_once() {
    for seed in 0..20 {
        let mut story = Story::new(seed).with(Conditions { loss: 0.5, ..Conditions::CLEAN });
        story.run(Span::from_millis(500));
        story
            .receiver
            .uplink()
            .on_device(story.now, DeviceInput::Key { key: Key(0x7_0009), pressed: true })
            .expect("the user is present");
        let mut applied = 0;
        for _ in 0..100 {
            story.run(Span::from_millis(10));
            if let Some(input) = story.sender.poll_input(story.now) {
                applied += input.events.len();
            }
        }
        // The story's own encoder polls inputs too, so the event may have gone there instead.
        assert!(applied <= 1, "seed {seed}: applied {applied} times");
        assert!(story.receiver.poll_timeout().is_some());
    }
}

#[test]
fn frames_that_would_only_wait_are_left_out_before_they_are_encoded() {
    // 72 Mb/s of frames at a fixed 20 Mb/s, in the mode that does not speed up where the path is wide.
    let mut story = Story::paced(6, Mode::Interval(Span::from_millis(5)));
    story.frame_bytes = 300_000;
    story.run(Span::from_secs(5));
    let (sent, received) = (story.sent(), story.received());
    assert!(sent.skipped > 30, "{sent:?}");
    assert_eq!((received.frames.lost, sent.key_frames), (0, 1), "{received:?}");
    let slowest = story.displayed.iter().map(|displayed| displayed.timeline.stage(Stage::Pace)).max();
    assert!(slowest.expect("frames") <= Span::from_millis(33 * 15), "{slowest:?}");
}

#[test]
fn a_slow_decoder_gets_fewer_frames_instead_of_a_longer_queue() {
    let mut story = Story::new(10);
    story.decode_time = Span::from_millis(50);
    story.run(Span::from_secs(10));
    let longest = story.displayed[60..].iter().map(|displayed| displayed.timeline.stage(Stage::Decode)).max();
    assert!(longest.expect("frames") < Span::from_millis(400), "{longest:?}");
    assert!(
        story.sent().skipped > 50 && story.received().frames.decoded > 120,
        "{:?} {:?}",
        story.sent(),
        story.received()
    );
    assert_eq!((story.received().frames.lost, story.sent().key_frames), (0, 1));
    story.decode_time = Span::from_millis(5);
    story.run(Span::from_secs(5));
    let before = story.sent().skipped;
    story.run(Span::from_secs(2));
    assert_eq!(story.sent().skipped, before, "a decoder that follows again gets every frame");
}

#[test]
fn same_seed_same_story() {
    let run = || {
        let lossy = Conditions { loss: 0.05, jitter: Span::from_millis(2), duplicates: 0.01, ..Conditions::CLEAN };
        let mut story = Story::new(7).with(lossy);
        story.run(Span::from_secs(5));
        (story.received(), story.sent(), story.displayed.len())
    };
    assert_eq!(run(), run());
}

#[test]
fn a_garbled_stream_is_counted_and_dropped() {
    let mut story = Story::new(8);
    story.run(Span::from_secs(1));
    for length in 0..100 {
        story.receiver.on_datagram(story.now, &vec![0xff; length]);
        story.sender.on_datagram(Time::from_secs(1_006), &vec![0xff; length]);
    }
    assert_eq!((story.received().malformed, story.sent().malformed), (100, 100));
    story.run(Span::from_secs(1));
    assert_eq!(story.received().frames.lost, 0);
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
