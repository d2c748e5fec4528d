//! Redundancy in transit: what it saves on lossy paths, what it costs on clean ones, and that it never delivers wrong bytes.

use crate::pace::Mode;
use nearlight_events::{Event, RecoveryKind};
use nearlight_rate::{Bounds, new_controller};
use nearlight_units::{Bitrate, Bytes, FrameId, Span, Time};
use nearlight_wire::ToClient;
use proptest::prelude::*;

use super::path::{Conditions, SimulatedSession, frame_header, protected};
use crate::{Distortion, EncodedFrame, Receiver, ReceiverConfig, Sender, SenderConfig};

/// The first of several cases, or all where the code is optimised: a case takes seconds otherwise.
fn some<T: Copy>(cases: &[T]) -> Vec<T> {
    cases[..if cfg!(debug_assertions) { 1 } else { cases.len() }].to_vec()
}

/// The outcome of a run of 20 s.
#[derive(Debug)]
struct Outcome {
    shown: f64,
    /// Share of redundancy in all sent bytes.
    redundancy: f64,
    key_frames: u64,
}

fn run(policy: &str, round_trip: i64, loss: f64, burst: f64) -> Outcome {
    let conditions = Conditions { delay: Span::from_millis(round_trip) / 2, loss, burst, ..Conditions::CLEAN };
    let mut session = SimulatedSession::new(round_trip as u64).with(conditions).protected(policy);
    session.run(Span::from_secs(20));
    let (received, sent) = (session.received(), session.sent());
    Outcome {
        shown: received.frames.displayed as f64 / received.frames.sent as f64,
        redundancy: sent.redundant.get() as f64 / sent.sent.get() as f64,
        key_frames: sent.key_frames,
    }
}

#[test]
fn frames_are_shown_where_a_round_trip_is_too_long_for_repairs_on_request() {
    for (round_trip, loss, burst) in some(&[(50, 0.01, 1.33), (100, 0.03, 3.0), (50, 0.05, 3.0), (100, 0.01, 1.33)]) {
        let without = run("none", round_trip, loss, burst);
        let planned = run("planner", round_trip, loss, burst);
        assert!(without.shown < 0.95, "{without:?}");
        assert!(planned.shown > 0.985 && planned.key_frames == 1, "{round_trip} ms, {loss}: {planned:?}");
        assert!(planned.redundancy < 0.5, "{planned:?}");
    }
}

#[test]
fn repairs_on_request_are_few_where_a_round_trip_fits() {
    for (loss, most) in some(&[(0.01, 0.05), (0.03, 0.15)]) {
        let planned = run("planner", 20, loss, 1.33);
        assert!(planned.shown > 0.99 && planned.redundancy < most && planned.key_frames == 1, "{loss}: {planned:?}");
    }
}

#[test]
fn a_clean_path_pays_next_to_nothing() {
    for round_trip in some(&[100, 5, 20, 50]) {
        let planned = run("planner", round_trip, 0.0, 1.0);
        assert!(planned.redundancy < 0.01 && planned.shown > 0.999, "{round_trip} ms: {planned:?}");
    }
}

#[test]
fn redundancy_follows_what_the_pictures_would_lose() {
    let conditions = Conditions { delay: Span::from_millis(50), loss: 0.03, burst: 2.0, ..Conditions::CLEAN };
    let mut session = SimulatedSession::new(21).with(conditions).protected("planner");
    let mut before = session.sent();
    let mut share = |session: &mut SimulatedSession, coded, frozen| {
        session.distortion = Distortion { coded: Some(coded), frozen: Some(frozen) };
        session.run(Span::from_secs(6));
        let sent = session.sent();
        let since = |now: Bytes, then: Bytes| (now.get() - then.get()) as f64;
        let share = since(sent.redundant, before.redundant) / since(sent.sent, before.sent);
        before = sent;
        share
    };
    let moving = share(&mut session, 5.0, 500.0);
    let still = share(&mut session, 5.0, 0.0);
    let coarse = share(&mut session, 80.0, 500.0);
    let moving_again = share(&mut session, 5.0, 500.0);
    assert!(still < moving * 0.9 && coarse < moving * 0.95, "moving {moving}, still {still}, coarse {coarse}");
    assert!((moving_again / moving - 1.0).abs() < 0.1, "moving {moving}, again {moving_again}");
    // No request is left waiting while the picture is frozen.
    let received = session.received();
    assert!(received.frames.displayed * 100 >= received.frames.sent * 97, "{:?}", received.frames);
}

#[test]
fn every_policy_delivers_what_was_sent() {
    for policy in some(&["escot-gop", "nebula", "fixed:10", "planner"]) {
        let outcome = run(policy, 20, 0.03, 3.0);
        assert!(outcome.shown > 0.9 && outcome.key_frames <= 2, "{policy}: {outcome:?}");
    }
}

#[test]
fn all_that_is_sent_stays_within_the_highest_rate() {
    let maximum = Bitrate::from_mbps(20);
    for policy in ["none", "planner", "nebula", "fixed:50"] {
        let lossy = Conditions { loss: 0.4, burst: 3.0, ..Conditions::CLEAN };
        let config = SenderConfig { maximum: Some(maximum), pacing: Mode::Burst, ..SenderConfig::default() };
        let mut session = SimulatedSession::configured(17, config).with(lossy).protected(policy);
        let interval = Span::from_millis(33);
        let run = |session: &mut SimulatedSession, frames: u32| {
            let before = session.sent().sent;
            for _ in 0..frames {
                // An encoder that follows its target rate.
                session.frame_bytes = session.sender.target().encoder.rate.bytes_in(interval).get() as usize;
                session.run(interval);
            }
            (session.sent().sent.get() - before.get()) as f64
                / maximum.bytes_in(interval * i64::from(frames)).get() as f64
        };
        run(&mut session, 150);
        let used = run(&mut session, 150);
        // Key frames, four times as large, are not requested.
        assert!((0.5..1.15).contains(&used), "{policy}: {used} of the highest rate");
    }
}

#[test]
fn without_redundancy_nothing_on_the_wire_changes() {
    let lossy = Conditions { loss: 0.02, ..Conditions::CLEAN };
    let mut stories = [SimulatedSession::new(11).with(lossy), SimulatedSession::new(11).with(lossy).protected("none")];
    for session in &mut stories {
        session.run(Span::from_secs(5));
    }
    let [plain, none] = stories;
    assert_eq!((plain.sent(), plain.received()), (none.sent(), none.received()));
    assert_eq!((none.sent().repairs, none.sender.names().redundancy), (0, None));
}

#[test]
fn plans_and_recoveries_are_reported() {
    let conditions = Conditions { delay: Span::from_millis(50), loss: 0.03, burst: 2.0, ..Conditions::CLEAN };
    let mut session = SimulatedSession::new(12).with(conditions).protected("planner");
    session.run(Span::from_secs(5));
    let planned = std::iter::from_fn(|| session.sender.poll_event());
    let weighed = planned.filter(|(_, event)| {
        matches!(event, Event::FrameProtected { candidates, expected_loss: Some(_), .. } if candidates.len() > 1)
    });
    assert!(weighed.count() > 50);
    let recovered = std::iter::from_fn(|| session.receiver.poll_event())
        .filter(|(_, event)| matches!(event, Event::FrameRecovered { by: RecoveryKind::Repair, .. }))
        .count();
    let counts = session.received().recovery;
    assert!(recovered > 0 && counts.by_repair > 0 && counts.symbols >= counts.by_repair, "{counts:?}");
    assert!(counts.redundant_bytes < counts.media_bytes && session.received().recovered_by.is_some());
    let losses = session.sender.losses().expect("a policy");
    assert!((0.01..0.06).contains(&losses.random.loss), "{losses:?}");
}

/// A sender and a receiver without a return path: what is lost stays lost except for planned repairs.
struct OneWay {
    now: Time,
    sender: Sender,
    receiver: Receiver,
}

impl OneWay {
    fn new(policy: &str) -> Self {
        let now = Time::from_secs(1);
        let rate = Bitrate::from_mbps(50);
        let bounds = Bounds { minimum: rate, start: rate, maximum: rate };
        let config = SenderConfig {
            max_datagram: 1_200,
            pacing: Mode::Burst,
            frame_interval: Span::from_millis(16),
            events: false,
            ..SenderConfig::default()
        };
        let controller = new_controller("fixed", bounds).expect("a preset");
        Self {
            now,
            sender: Sender::new(now, config, protected(controller, policy)),
            receiver: Receiver::new(ReceiverConfig { events: false }),
        }
    }

    /// Sends a frame of `bytes`; those of its datagrams that `keeps` selects arrive, in that order.
    fn frame(&mut self, bytes: usize, keeps: impl FnOnce(usize, usize) -> Vec<usize>) {
        self.now += Span::from_millis(16);
        let id = self.sender.target().encoder.next;
        let bits = (0..bytes).map(|at| (at as u32 * 31 + id.0) as u8).collect::<Vec<u8>>().into();
        let reference = id.0.checked_sub(1).map(FrameId).filter(|_| !self.sender.target().encoder.key);
        let frame = EncodedFrame {
            id,
            reference,
            header: frame_header(self.now),
            bits,
            distortion: Distortion::UNKNOWN,
            group_index: None,
        };
        self.sender.on_frame(self.now, frame);
        let datagrams: Vec<Vec<u8>> = std::iter::from_fn(|| self.sender.poll_transmit(self.now)).collect();
        let sources = datagrams.iter().filter(|datagram| matches!(ToClient::parse(datagram), Ok(ToClient::Symbol(..))));
        for index in keeps(sources.count(), datagrams.len()) {
            self.receiver.on_datagram(self.now, &datagrams[index]);
        }
    }

    /// Frames that came out, each checked.
    fn delivered(&mut self) -> usize {
        let frames = std::iter::from_fn(|| self.receiver.frames().poll(self.now));
        let checked = frames.map(|frame| {
            let expected = |at: usize| (at as u32 * 31 + frame.id.0) as u8;
            assert!(frame.bits().iter().enumerate().all(|(at, byte)| *byte == expected(at)), "frame {}", frame.id);
        });
        checked.count()
    }
}

proptest! {
    /// Whatever is lost and in whatever order the rest arrives: if as many datagrams of a frame arrive as it has symbols, it is delivered
    /// at once.
    #[test]
    fn losses_within_the_capacity_of_the_code_lose_no_frame(
        percent in 5_u16..60,
        frames in proptest::collection::vec((1_usize..60_000, any::<u64>()), 1..12),
    ) {
        let mut path = OneWay::new(&format!("fixed:{percent}"));
        for (bytes, seed) in frames {
            path.frame(bytes, |sources, all| {
                let mut order: Vec<usize> = (0..all).collect();
                // A fixed shuffle of each seed: multiply and sort.
                order.sort_by_key(|index| (*index as u64 + 1).wrapping_mul(seed | 1).rotate_left(29));
                order.truncate(sources);
                order
            });
            prop_assert_eq!(path.delivered(), 1);
        }
    }
}

/// A third of everything is lost: repairs behind a group complete frames that arrived long before them.
#[test]
fn repairs_of_later_frames_complete_earlier_ones() {
    let mut path = OneWay::new("escot-gop");
    for number in 0..30 {
        path.frame(9_000, |_, all| (0..all).filter(|index| index % 3 != number % 3).collect());
        path.receiver.on_timeout(path.now);
        while let Some(datagram) = path.receiver.poll_transmit(path.now) {
            path.sender.on_datagram(path.now, &datagram);
        }
        path.delivered();
    }
    assert!(path.receiver.statistics(path.now).recovery.by_late_repair > 0, "{:?}", path.receiver.statistics(path.now));
}
