//! Requests never cease: while packets arrive and the picture is frozen, something that can unfreeze it is requested.

use nearlight_units::{FrameId, PacketSeq, Span, Time};
use nearlight_wire::{KeyFrameRequest, SymbolFlags, SymbolHeader, ToServer};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::path::{Conditions, SimulatedSession, frame_header};
use crate::{Receiver, ReceiverConfig};

/// A receiver that gets single symbols of frames that each predict from the one before.
struct Listener {
    receiver: Receiver,
    now: Time,
    seq: u32,
    /// Whether each frame that went to the decoder is to be shown.
    shows: Vec<bool>,
}

impl Listener {
    fn new() -> Self {
        let receiver = Receiver::new(ReceiverConfig { events: false });
        Self { receiver, now: Time::from_secs(1), seq: 0, shows: Vec::new() }
    }

    /// Symbol 0 of a frame of this many; none of the others arrives.
    fn gets(&mut self, frame: u32, distance: u8, symbols: u16) {
        let mut bytes = Vec::new();
        frame_header(self.now).write(&mut bytes);
        let per_symbol = bytes.len();
        bytes.resize(per_symbol * usize::from(symbols), 0);
        let header = SymbolHeader {
            flags: SymbolFlags { key: distance == 0, retransmission: false, probe: false },
            reference_distance: distance,
            seq: PacketSeq(self.seq),
            sent_at: self.now.for_peer(),
            frame: FrameId(frame),
            index: 0,
            symbols,
            frame_bytes: bytes.len() as u32,
            deadline_after_send_us: 0,
        };
        self.seq += 1;
        let mut datagram = Vec::new();
        header.write(&mut datagram);
        datagram.extend_from_slice(&bytes[..per_symbol]);
        self.receiver.on_datagram(self.now, &datagram);
        while let Some(frame) = self.receiver.frames().poll(self.now) {
            self.receiver.frames().on_decoded(self.now, frame.id);
            self.shows.push(frame.show);
        }
    }

    /// Lets time pass without sending anything, and returns how many messages wait then.
    fn waits_after(&mut self, seconds: i64) -> usize {
        for _ in 0..seconds {
            self.now += Span::from_secs(1);
            self.receiver.on_timeout(self.now);
        }
        std::iter::from_fn(|| self.receiver.poll_transmit(self.now)).count()
    }

    /// The newest frame that each request for a key frame names; all other messages are ignored.
    fn asks(&mut self) -> Vec<u32> {
        let mut asked = Vec::new();
        self.receiver.on_timeout(self.now);
        while let Some(datagram) = self.receiver.poll_transmit(self.now) {
            if let Ok(ToServer::KeyFrameRequest(KeyFrameRequest { newest })) = ToServer::parse(&datagram) {
                asked.push(newest.0);
            }
        }
        assert!(!self.receiver.is_stuck());
        asked
    }
}

#[test]
fn a_one_packet_frame_behind_a_long_gap_asks_for_a_key_frame() {
    let mut listener = Listener::new();
    listener.gets(0, 0, 1);
    assert!(listener.asks().is_empty());
    listener.gets(40, 1, 1);
    assert_eq!(listener.asks(), [40]);
}

#[test]
fn frames_that_fill_the_memory_behind_a_missing_one_ask_for_a_key_frame() {
    let mut listener = Listener::new();
    listener.gets(0, 0, 1);
    // A millisecond apart: all that may wait is there long before patience runs out.
    let mut asked = Vec::new();
    for frame in 2..90 {
        listener.now += Span::from_millis(1);
        listener.gets(frame, 1, 1);
        asked.extend(listener.asks());
    }
    assert_eq!(asked.len(), 1, "{asked:?}");
}

#[test]
fn a_picture_moves_while_many_frames_that_waited_for_one_are_decoded() {
    let mut listener = Listener::new();
    listener.gets(0, 0, 1);
    for frame in 2..=30 {
        listener.gets(frame, 1, 1);
    }
    assert_eq!(listener.shows, [true], "all wait for the second one");
    listener.gets(1, 1, 1);
    let shown: Vec<_> = (0..).zip(&listener.shows).filter(|(_, show)| **show).map(|(frame, _)| frame).collect();
    assert_eq!((listener.shows.len(), shown), (31, vec![0, 8, 16, 24, 30]));
}

#[test]
fn a_stream_whose_first_frame_never_came_asks_for_a_key_frame() {
    let mut listener = Listener::new();
    listener.gets(3, 1, 1);
    assert_eq!(listener.asks(), [3]);
}

#[test]
fn a_frame_that_predicts_from_one_given_up_asks_for_a_key_frame() {
    let mut listener = Listener::new();
    listener.gets(0, 0, 1);
    listener.gets(40, 0, 1);
    assert!(listener.asks().is_empty());
    listener.gets(41, 7, 1);
    assert_eq!(listener.asks(), [41]);
}

#[test]
fn a_lost_request_is_repeated_as_long_as_nothing_answers() {
    let mut listener = Listener::new();
    listener.gets(0, 0, 1);
    let mut asked = Vec::new();
    for frame in 40..140 {
        listener.now += Span::from_millis(14);
        listener.gets(frame, 1, 1);
        asked.extend(listener.asks());
    }
    // 1.4 s, a round trip that is not known and 53 ms apart.
    assert!((8..=10).contains(&asked.len()), "{asked:?}");
    // A partial answer is awaited, but no longer than its repair may take.
    listener.gets(140, 0, 2);
    assert!(listener.asks().is_empty());
    let before = listener.now;
    let again = std::iter::from_fn(|| {
        listener.now += Span::from_millis(1);
        Some(listener.asks()).filter(|_| listener.now - before < Span::from_secs(1))
    });
    let waited = again.take_while(Vec::is_empty).count();
    assert!((150..=320).contains(&waited), "{waited} ms");
}

/// How long a picture may be frozen at most while packets arrive.
fn bound(delay: Span) -> Span {
    delay * 8 + Span::from_millis(250)
}

/// The longest time without a new picture, excluding outages.
fn longest_standstill(session: &SimulatedSession, outages: &[(Time, Time)]) -> Span {
    let shown = session.displayed.iter().map(|displayed| displayed.timeline.displayed_at());
    let times: Vec<Time> = shown.collect();
    let without = |from: Time, to: Time| {
        let out = |(begins, ends): &(Time, Time)| ((*ends).min(to) - (*begins).max(from)).max(Span::ZERO);
        (to - from) - outages.iter().map(out).fold(Span::ZERO, |sum, span| sum + span)
    };
    times.windows(2).map(|pair| without(pair[0], pair[1])).max().expect("pictures")
}

#[test]
fn after_outages_of_any_length_small_frames_come_back_as_soon_as_large_ones() {
    for bytes in [300, 3_000, 30_000] {
        for millis in [100, 300, 700, 1_500, 3_000] {
            let mut session = SimulatedSession::new(31);
            session.frame_bytes = bytes;
            session.run(Span::from_secs(1));
            let resumed = session.outage(Span::from_millis(millis));
            assert!(resumed <= Span::from_millis(150), "{bytes} bytes, {millis} ms: resumed after {resumed}");
        }
    }
}

/// A full queue loses packets before the path stops, and requests are outstanding: the round trip that was measured then says nothing about
/// the path when it is back.
#[test]
fn after_an_outage_the_queue_before_it_delays_no_request() {
    for seed in 0..10 {
        for (queue, outage) in [(1_000, 5_000), (2_000, 5_000), (4_000, 20_000)] {
            let mut session = SimulatedSession::new(seed);
            session.frame_bytes = 2_000;
            session.run(Span::from_secs(1));
            (session.conditions.queue, session.conditions.loss) = (Span::from_millis(queue), 0.4);
            session.run(Span::from_millis(queue + 1_000));
            session.conditions.outage = true;
            session.run(Span::from_millis(queue));
            (session.conditions.queue, session.conditions.loss) = (Span::ZERO, 0.0);
            let resumed = session.outage(Span::from_millis(outage));
            assert!(
                resumed <= bound(Span::from_millis(5)),
                "seed {seed}, {queue} ms, {outage} ms: resumed after {resumed}"
            );
        }
    }
}

/// Over paths of any length that lose packets and fail now and then. What repairs a picture may be lost itself, several times over: that
/// happens on one path in hundreds, and none of them is frozen for twice as long.
#[test]
fn no_picture_stands_while_packets_come() {
    let mut longer = Vec::new();
    for seed in 0..200 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let delay = Span::from_millis(random.random_range(1..60));
        // Bursts of a few packets: during longer ones nothing arrives for that long.
        let (loss, burst) = (random.random_range(0.0..0.05), random.random_range(1.0..3.0));
        let mut session = SimulatedSession::new(seed).with(Conditions { delay, loss, burst, ..Conditions::CLEAN });
        session.frame_bytes = *[2_000, 5_000, 20_000].choose(&mut random).expect("three sizes");
        let outage = Span::from_millis(random.random_range(20..2_000));
        let mut outages = Vec::new();
        for _ in 0..4 {
            session.run(Span::from_secs(2));
            session.conditions.outage = true;
            let begins = session.now;
            session.run(outage);
            session.conditions.outage = false;
            // What left before the path recovered is lost, so nothing arrives for a while longer.
            outages.push((begins, session.now + delay));
        }
        session.run(Span::from_secs(2));
        let longest = longest_standstill(&session, &outages);
        assert!(longest <= bound(delay) * 2, "seed {seed}: {longest} {:?}", session.received());
        if longest > bound(delay) {
            longer.push((seed, longest));
        }
    }
    assert!(longer.len() <= 2, "seeds and how long the picture stood: {longer:?}");
}

#[test]
fn draining_asks_for_nothing_and_a_timeout_does() {
    let mut listener = Listener::new();
    listener.gets(0, 0, 1);
    while listener.receiver.poll_transmit(listener.now).is_some() {}
    listener.gets(40, 1, 1);
    let due = listener.receiver.poll_timeout().expect("a request is due");
    assert_eq!(due, (Time::ZERO, crate::Wake::KeyFrame));
    let said = std::iter::from_fn(|| listener.receiver.poll_transmit(listener.now));
    let said: Vec<_> = said.map(|datagram| ToServer::parse(&datagram).expect("its own writing")).collect();
    assert!(!said.iter().any(|message| matches!(message, ToServer::KeyFrameRequest(_))), "{said:?}");
    assert_eq!(listener.asks(), [40]);
    assert!(listener.receiver.poll_timeout().is_none_or(|(at, _)| at > listener.now), "it is served");
}

#[test]
fn requests_that_nobody_sends_do_not_pile_up() {
    let mut listener = Listener::new();
    listener.gets(0, 0, 1);
    listener.gets(1, 1, 3);
    listener.gets(2, 1, 3);
    let (after_a_minute, after_an_hour) = (listener.waits_after(60), listener.waits_after(3_600));
    assert!(after_a_minute > 8, "they are repeated: {after_a_minute}");
    // Besides requests, a report of arrivals and a clock's ping may wait.
    assert!(after_an_hour <= 40, "{after_an_hour} messages");
}
