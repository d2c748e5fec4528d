//! Key frames that do not get through: each is smaller than the previous one, and nothing delays it.

use crate::pace::Mode;
use nearlight_rate::{Bounds, new_controller};
use nearlight_units::{Bitrate, FrameId, PacketSeq, RemoteTime, Span, Time};
use nearlight_wire::{Feedback, FrameReport, KeyFrameRequest, MissingRun, Nack, Report, ToClient, ToServer};

use super::path::frame_header;
use crate::{Distortion, EncodedFrame, Sender, SenderConfig, SkipReason};

const INTERVAL: Span = Span::from_millis(20);
const RATE: Bitrate = Bitrate::from_mbps(20);
const ROUND_TRIP: Span = Span::from_millis(10);

/// A server whose client answers as instructed.
struct Server {
    now: Time,
    sender: Sender,
    sent: u32,
}

impl Server {
    /// The rate is the lowest and the highest that is allowed.
    fn led_by(controller: &str) -> Self {
        let now = Time::from_secs(1);
        let config = SenderConfig {
            max_datagram: 1_200,
            pacing: Mode::Burst,
            frame_interval: INTERVAL,
            events: false,
            ..SenderConfig::default()
        };
        let bounds = Bounds { minimum: RATE, start: RATE, maximum: RATE };
        let sender = Sender::new(now, config, new_controller(controller, bounds).expect("a preset"));
        Self { now, sender, sent: 0 }
    }

    /// A key frame was requested and left a moment ago.
    fn answered() -> Self {
        let mut server = Self::led_by("fixed");
        server.frame();
        server.now += Span::from_secs(1);
        server.ask();
        server.frame();
        server
    }

    /// One of eight packets arrives, of 1,200 bytes at most, this far from the next; the newest waited for 20 ms.
    fn overloaded(apart: Span) -> Self {
        let mut server = Self::answered();
        server.hear(ROUND_TRIP);
        for _ in 0..20 {
            server.now += INTERVAL;
            server.frame();
        }
        server.now += INTERVAL;
        server.arrive_in_part(apart / 8, 8);
        server.now += Span::from_millis(10);
        server
    }

    /// Encodes and sends the next frame; returns the frames whose symbols leave.
    fn frame(&mut self) -> Vec<u32> {
        self.encoded(self.sender.target().encoder.key)
    }

    /// Encodes a frame of this kind, whatever is requested.
    fn encoded(&mut self, key: bool) -> Vec<u32> {
        let id = self.sender.target().encoder.next;
        let reference = id.0.checked_sub(1).map(FrameId).filter(|_| !key);
        let header = frame_header(self.now);
        let bits = vec![7; 5_000].into();
        self.sender.on_frame(
            self.now,
            EncodedFrame { id, reference, header, bits, distortion: Distortion::UNKNOWN, group_index: None },
        );
        self.leaving()
    }

    fn leaving(&mut self) -> Vec<u32> {
        let mut frames = Vec::new();
        self.sender.on_timeout(self.now);
        while let Some(datagram) = self.sender.poll_transmit(self.now) {
            if let Ok(ToClient::Symbol(header, _)) = ToClient::parse(&datagram) {
                self.sent = header.seq.0 + 1;
                frames.push(header.frame.0);
            }
        }
        frames
    }

    /// The client has lost its picture.
    fn ask(&mut self) {
        let newest = FrameId(self.sender.target().encoder.next.0 - 1);
        self.sender.on_message(self.now, ToServer::KeyFrameRequest(KeyFrameRequest { newest }));
        self.leaving();
    }

    fn nack(&mut self, frame: u32) -> Vec<u32> {
        let missing = vec![MissingRun { frame: FrameId(frame), first: 0, count: 2 }];
        self.sender.on_message(self.now, ToServer::Nack(Nack { missing }));
        self.leaving()
    }

    /// Everything that has left arrived, spaced this far apart.
    fn arrive(&mut self, apart: Span) {
        self.arrive_in_part(apart, 1);
    }

    /// Has one packet of so many arrive. The others were lost.
    fn arrive_in_part(&mut self, apart: Span, of: i64) {
        let count = self.sent.min(100);
        let first = RemoteTime::from_secs(70) + (self.now - Time::ZERO);
        let arrived = |place: i64| (place % of == 0).then(|| first + apart * place);
        let arrivals: Vec<_> = (0..i64::from(count)).map(arrived).collect();
        let sent_at = first + apart * i64::from(count);
        let first = PacketSeq(self.sent - count);
        let feedback = Feedback { sent_at, first, arrivals, marked: vec![] };
        self.sender.on_datagram(self.now, &ToServer::Feedback(feedback).to_bytes());
    }

    /// A frame leaves, and feedback on it arrives after this.
    fn hear(&mut self, round_trip: Span) {
        self.frame();
        self.now += round_trip;
        self.arrive(Span::ZERO);
    }

    fn is_held(&self) -> bool {
        self.sender.target().refusal == Some(SkipReason::PathBlocked)
    }

    fn display(&mut self, frame: u32) {
        let frame = FrameReport {
            frame: FrameId(frame),
            network: ROUND_TRIP / 2,
            reassemble: Span::ZERO,
            decode: Span::ZERO,
            present: Span::ZERO,
            motion_to_photon: None,
            late: false,
        };
        let datagram = ToServer::Report(Report { buffered: None, frames: vec![frame] }).to_bytes();
        self.sender.on_datagram(self.now, &datagram);
    }
}

#[test]
fn frames_wait_until_a_key_frame_that_failed_before_is_displayed() {
    let mut server = Server::answered();
    server.hear(ROUND_TRIP);
    assert!(!server.is_held(), "the first is trusted");
    let usual = server.sender.target().encoder.rate;
    for halvings in 1..=3 {
        server.now += Span::from_millis(110);
        server.ask();
        let most = usual.mul_f64(0.501_f64.powi(halvings));
        assert!(
            server.sender.target().encoder.key && server.sender.target().encoder.rate <= most,
            "{:?}",
            server.sender.target().encoder
        );
        assert!(!server.is_held(), "the key frame itself");
        server.frame();
        server.now += ROUND_TRIP + Span::from_millis(50);
        server.leaving();
        assert!(server.is_held(), "it may still arrive");
    }
    server.display(server.sender.target().encoder.next.0 - 1);
    server.leaving();
    assert!(!server.is_held());
    assert_eq!(server.sender.target().encoder.rate, usual);
}

#[test]
fn what_is_held_goes_on_where_nothing_is_heard_of_the_key_frame() {
    let mut server = Server::answered();
    server.hear(ROUND_TRIP);
    server.now += Span::from_millis(110);
    server.ask();
    server.frame();
    server.leaving();
    assert!(server.is_held());
    server.now += ROUND_TRIP + Span::from_millis(54);
    server.leaving();
    assert!(!server.is_held());
}

/// If packets queue, the key frame's missing symbols are awaited.
#[test]
fn what_is_held_waits_longer_where_packets_queue() {
    let mut server = Server::answered();
    server.hear(ROUND_TRIP);
    server.hear(ROUND_TRIP * 8);
    server.now += Span::from_millis(110);
    server.ask();
    server.frame();
    server.now += ROUND_TRIP * 2 + Span::from_millis(54);
    server.leaving();
    assert!(server.is_held());
}

#[test]
fn frames_before_a_key_frame_that_failed_are_not_retransmitted() {
    let mut server = Server::answered();
    server.hear(ROUND_TRIP);
    server.hear(ROUND_TRIP * 8);
    let old = server.sender.target().encoder.next.0;
    server.frame();
    server.now += Span::from_millis(110);
    assert_eq!(server.nack(old), [old, old]);
    server.ask();
    server.now += ROUND_TRIP;
    assert!(server.nack(old).is_empty(), "its place is the key frame's");
    let key = server.sender.target().encoder.next.0;
    server.frame();
    server.now += Span::from_millis(110);
    assert!(server.nack(old).is_empty());
    assert_eq!(server.nack(key), [key, key]);
    assert_eq!(server.sender.statistics(server.now).retransmissions_refused, 2);
}

/// Half of a key frame at 20 Mb/s would take 100 ms of a path that carries 2 Mb/s.
#[test]
fn a_key_frame_that_failed_is_as_large_as_what_arrives_in_50_ms() {
    let mut server = Server::answered();
    for _ in 0..20 {
        server.now += INTERVAL;
        server.frame();
    }
    // Of 1,200 bytes at most.
    server.arrive(Span::from_micros(4_800));
    server.now += Span::from_millis(10);
    server.ask();
    let most = Bitrate::from_mbps(2).mul_f64(50.0 / 20.0);
    let rate = server.sender.target().encoder.rate;
    assert!(rate > most.mul_f64(0.8) && rate <= most, "{rate:?} where {most:?} arrive");
}

/// A short queue keeps only a few packets of a burst, also of a retransmission.
#[test]
fn a_key_frame_that_failed_leaves_no_faster_than_packets_arrive() {
    let apart = Span::from_micros(4_800);
    let mut server = Server::overloaded(apart);
    let old = server.sender.target().encoder.next.0 - 1;
    assert_eq!(server.nack(old).len(), 2, "nothing has failed yet");
    server.ask();
    assert!(server.encoded(false).is_empty(), "a frame that was being encoded would fill the queue");
    let key = server.sender.target().encoder.next.0;
    let began = server.now;
    let mut left = server.encoded(true).len();
    while left < 5 {
        let (at, _) = server.sender.poll_timeout().expect("symbols wait");
        server.now = server.now.max(at);
        let more = server.leaving();
        assert!(more.len() <= 1 && more.iter().all(|frame| *frame == key), "{more:?} at once");
        left += more.len();
    }
    assert!(server.now - began >= apart * 3, "{left} symbols in {}", server.now - began);
    assert_eq!(server.sender.target().refusal, Some(SkipReason::PathBlocked));

    server.now += INTERVAL;
    assert_eq!(server.nack(key).len(), 1);
    let (at, _) = server.sender.poll_timeout().expect("the other one waits");
    assert!(at > server.now && at - server.now <= apart, "{}", at - server.now);
    server.now = at;
    assert_eq!(server.leaving(), [key]);

    server.now += INTERVAL * 2;
    server.display(key);
    assert_eq!(server.nack(key).len(), 2, "the picture is back");
}

/// Chance may take as much as a full queue does, and what arrives then follows the ceiling down.
#[test]
fn after_four_key_frames_that_failed_under_a_ceiling_the_next_one_leaves_at_once() {
    let mut server = Server::overloaded(Span::from_micros(4_800));
    for _ in 0..4 {
        server.ask();
        assert!(server.sender.target().encoder.key);
        assert!(server.encoded(true).len() <= 1);
        server.now += Span::from_millis(200);
    }
    server.ask();
    assert_eq!(server.encoded(true).len(), 5);
}

#[test]
fn a_rate_that_cannot_fall_sends_fewer_frames_into_a_queue() {
    // Nothing arrives any more, after so many frames: when further ones leave, in ms.
    let sends = |controller: &str, heard: usize| -> Vec<i64> {
        let mut server = Server::led_by(controller);
        for _ in 0..heard {
            server.hear(ROUND_TRIP);
            server.now += INTERVAL - ROUND_TRIP;
        }
        let times = (0..20).map(|frame| INTERVAL * frame);
        let begin = server.now;
        let leaves = times.filter(|time| {
            server.now = begin + *time;
            server.sender.on_timeout(server.now);
            let leaves = server.sender.target().refusal.is_none();
            if leaves {
                server.frame();
            }
            leaves
        });
        leaves.map(|time| time.as_micros() / 1_000).collect()
    };
    assert_eq!(sends("frame-clocked", 30), [0, 20, 40, 60, 80, 100, 120, 140, 160, 260, 360]);
    let lately = sends("frame-clocked", 10);
    assert_eq!(
        (lately.len(), &lately[14..]),
        (16, &[280, 380][..]),
        "the rate has been the lowest for less than half a second"
    );
    assert_eq!(sends("fixed", 30).len(), 20, "a constant is sent whatever happens");
}
