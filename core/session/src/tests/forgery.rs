//! Forged symbols and repairs: a frame comes out correct or not at all.

use crate::pace::Mode;
use nearlight_events::Event;
use nearlight_rate::{Bounds, new_controller};
use nearlight_units::{Bitrate, FrameId, Span, Time};
use nearlight_wire::{RepairHeader, ToClient};

use super::path::{frame_header, protected};
use crate::{Distortion, EncodedFrame, Receiver, ReceiverConfig, Sender, SenderConfig};

const FRAME_BYTES: usize = 5_000;

struct Path {
    now: Time,
    sender: Sender,
    receiver: Receiver,
}

impl Path {
    fn new() -> Self {
        let now = Time::from_secs(1);
        let rate = Bitrate::from_mbps(50);
        let config = SenderConfig {
            max_datagram: 1_200,
            pacing: Mode::Burst,
            frame_interval: Span::from_millis(16),
            events: false,
            ..SenderConfig::default()
        };
        let bounds = Bounds { minimum: rate, start: rate, maximum: rate };
        let controller = new_controller("fixed", bounds).expect("a preset");
        Self {
            now,
            sender: Sender::new(now, config, protected(controller, "fixed:50")),
            receiver: Receiver::new(ReceiverConfig { events: true }),
        }
    }

    /// A first frame has arrived, so long ago that a key frame may follow when it is requested.
    fn begun() -> Self {
        let mut path = Self::new();
        let (symbols, _) = path.frame();
        path.arrive(&symbols);
        assert_eq!(path.delivered(), [0]);
        path.ask(Span::from_secs(1));
        path
    }

    /// The symbols and the repairs of the next frame.
    fn frame(&mut self) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        self.now += Span::from_millis(16);
        let id = self.sender.target().encoder.next;
        let bits = bits(id).into();
        let reference = id.0.checked_sub(1).map(FrameId).filter(|_| !self.sender.target().encoder.key);
        let header = frame_header(self.now);
        self.sender.on_frame(
            self.now,
            EncodedFrame { id, reference, header, bits, distortion: Distortion::UNKNOWN, group_index: None },
        );
        self.left()
    }

    fn left(&mut self) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let all: Vec<Vec<u8>> = std::iter::from_fn(|| self.sender.poll_transmit(self.now)).collect();
        all.into_iter().partition(|datagram| matches!(ToClient::parse(datagram), Ok(ToClient::Symbol(..))))
    }

    fn arrive<'a>(&mut self, datagrams: impl IntoIterator<Item = &'a Vec<u8>>) {
        for datagram in datagrams {
            self.receiver.on_datagram(self.now, datagram);
        }
    }

    /// The receiver's requests reach the sender after `wait`; its answers are returned.
    fn ask(&mut self, wait: Span) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        self.now += wait;
        self.receiver.on_timeout(self.now);
        while let Some(datagram) = self.receiver.poll_transmit(self.now) {
            self.sender.on_datagram(self.now, &datagram);
        }
        self.left()
    }

    /// The frames that come out, each with the right bytes.
    fn delivered(&mut self) -> Vec<u32> {
        let frames = std::iter::from_fn(|| self.receiver.frames().poll(self.now));
        let checked = frames.inspect(|frame| assert!(frame.bits() == bits(frame.id), "frame {} is forged", frame.id));
        checked.map(|frame| frame.id.0).collect()
    }

    fn corrupt(&self) -> u64 {
        self.receiver.statistics(self.now).corrupt
    }
}

fn bits(frame: FrameId) -> Vec<u8> {
    (0..FRAME_BYTES).map(|at| (at as u32 * 31 + frame.0) as u8).collect()
}

fn forge(datagram: &mut [u8]) {
    *datagram.last_mut().expect("a payload") ^= 1;
}

fn with_header(datagram: &[u8], change: impl FnOnce(&mut RepairHeader)) -> Vec<u8> {
    let Ok(ToClient::Repair(mut header, payload)) = ToClient::parse(datagram) else { panic!("no repair") };
    change(&mut header);
    let mut bytes = Vec::new();
    header.write(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

#[test]
fn a_forged_symbol_is_reported_by_a_repair_and_the_frame_asked_for_again() {
    let mut path = Path::new();
    let (mut symbols, repairs) = path.frame();
    assert_eq!((symbols.len(), repairs.len()), (5, 3));
    forge(&mut symbols[2]);
    path.arrive(&repairs[..1]);
    path.arrive(&symbols);
    assert_eq!((path.delivered(), path.corrupt()), (vec![], 1));
    let reported = std::iter::from_fn(|| path.receiver.poll_event());
    assert_eq!(reported.filter(|(_, event)| matches!(event, Event::FrameCorrupt { frame: FrameId(0) })).count(), 1);

    let (again, _) = path.ask(Span::from_millis(1));
    assert_eq!(again.len(), 5, "any of them may be the wrong one");
    path.arrive(&again);
    assert_eq!((path.delivered(), path.corrupt()), (vec![0], 1));
    let statistics = path.receiver.statistics(path.now);
    assert_eq!((statistics.frames.completed, statistics.frames.lost), (1, 0));
}

#[test]
fn repairs_complete_what_was_asked_for_again() {
    let mut path = Path::new();
    let (mut symbols, repairs) = path.frame();
    forge(&mut symbols[2]);
    path.arrive(&repairs[..1]);
    path.arrive(&symbols);
    let (again, _) = path.ask(Span::from_millis(1));
    path.arrive(&again[..3]);
    assert!(path.delivered().is_empty());
    path.arrive(&repairs[1..]);
    assert_eq!((path.delivered(), path.corrupt()), (vec![0], 1));
}

#[test]
fn a_frame_that_is_forged_once_more_is_given_up_for_a_key_frame() {
    let mut path = Path::begun();
    let (mut symbols, repairs) = path.frame();
    path.arrive(&repairs);
    forge(&mut symbols[0]);
    path.arrive(&symbols);
    let (mut again, _) = path.ask(Span::from_millis(1));
    forge(&mut again[4]);
    path.arrive(&again);
    assert_eq!((path.delivered(), path.corrupt()), (vec![], 2));
    // Nothing of it is accepted any more, not even genuine symbols.
    let (none, _) = path.ask(Span::from_millis(1));
    path.arrive(&none);
    path.arrive(&repairs);
    assert!(none.is_empty() && path.sender.target().encoder.key);
    let (symbols, _) = path.frame();
    path.arrive(&symbols);
    assert_eq!((path.delivered(), path.corrupt()), (vec![2], 2));
    assert_eq!(path.receiver.statistics(path.now).frames.lost, 1);
}

#[test]
fn a_frame_that_waits_for_its_reference_is_checked_when_a_repair_comes() {
    let mut path = Path::new();
    let (first, _) = path.frame();
    let (mut second, repairs) = path.frame();
    path.arrive(&first[1..]);
    forge(&mut second[3]);
    path.arrive(&second);
    assert_eq!(path.receiver.statistics(path.now).frames.completed, 1);
    path.arrive(&repairs[..1]);
    assert_eq!((path.receiver.statistics(path.now).frames.completed, path.corrupt()), (0, 1));
    path.arrive(&first[..1]);
    assert_eq!(path.delivered(), [0], "its successor is not what it was taken for");
    let (again, _) = path.ask(Span::from_millis(1));
    path.arrive(&again);
    assert_eq!((path.delivered(), path.receiver.statistics(path.now).frames.completed), (vec![1], 2));
}

#[test]
fn a_digest_that_lies_costs_its_frame_and_nothing_else() {
    let mut path = Path::begun();
    let (symbols, repairs) = path.frame();
    path.arrive(&[with_header(&repairs[0], |header| header.covered[0].digest ^= 1)]);
    path.arrive(&repairs[1..]);
    path.arrive(&symbols);
    let (again, _) = path.ask(Span::from_millis(1));
    path.arrive(&again);
    assert_eq!((path.delivered(), path.corrupt()), (vec![], 2));
    path.ask(Span::from_millis(1));
    let (symbols, repairs) = path.frame();
    path.arrive(repairs.iter().chain(&symbols));
    assert_eq!((path.delivered(), path.corrupt()), (vec![2], 2));
}

#[test]
fn a_header_that_lies_about_one_frame_is_believed_about_none() {
    let mut path = Path::new();
    let (first, repairs) = path.frame();
    let (second, _) = path.frame();
    path.arrive(&first[1..]);
    path.arrive(&second[1..]);
    // It covers the second frame with a wrong digest, and the first with a number of symbols that its symbols contradict.
    let liar = with_header(&repairs[0], |header| {
        header.frame = FrameId(1);
        let truth = header.covered[0];
        let lies = [(1, truth.symbols, !truth.digest), (0, truth.symbols + 1, truth.digest)];
        let lie = |(reference_distance, symbols, digest)| nearlight_wire::CoveredFrame {
            reference_distance,
            symbols,
            digest,
            ..truth
        };
        header.covered = lies.map(lie).to_vec();
    });
    path.arrive(&[liar]);
    path.arrive(&first[..1]);
    path.arrive(&second[..1]);
    assert_eq!((path.delivered(), path.corrupt()), (vec![0, 1], 0));
}
