use crate::pace::Mode;
use nearlight_rate::{Bounds, new_controller};
use nearlight_units::{Bitrate, FrameId, InputSeq, RemoteTime, Span};
use nearlight_wire::{Feedback, InputSample, Pose, ToClient, ToServer};

use super::*;
use crate::tests::frame_header;
use crate::{Distortion, SenderConfig};

const START: Time = Time::from_secs(3);
const RATE: Bitrate = Bitrate::from_mbps(8);

/// Notes what is called, in order.
struct End {
    sender: Sender,
    calls: Vec<&'static str>,
    sent: Vec<Vec<u8>>,
}

impl End {
    fn new(pacing: Mode) -> Self {
        let bounds = Bounds { minimum: RATE, start: RATE, maximum: RATE };
        let config = SenderConfig { pacing, events: true, ..SenderConfig::default() };
        let sender = Sender::new(START, config, new_controller("fixed", bounds).expect("a preset"));
        Self { sender, calls: Vec::new(), sent: Vec::new() }
    }

    fn frame(&mut self, now: Time) {
        let id = self.sender.target().encoder.next;
        let reference = id.0.checked_sub(1).map(FrameId);
        let (header, bits) = (frame_header(now), vec![7; 12_000].into());
        let distortion = Distortion::UNKNOWN;
        self.on_frame(now, EncodedFrame { id, reference, header, bits, distortion, group_index: None });
    }

    fn input(&mut self, now: Time, seq: u32) {
        let at = RemoteTime::from_secs(1);
        let sample = InputSample::of_views(InputSeq(seq), at, Pose::default(), Vec::new());
        self.sender.on_message(now, ToServer::Input(sample));
    }
}

impl ServerEnd for End {
    fn sender(&self) -> &Sender {
        &self.sender
    }

    fn sender_mut(&mut self) -> &mut Sender {
        &mut self.sender
    }

    fn on_timeout(&mut self, now: Time) {
        self.calls.push("timeout");
        self.sender.on_timeout(now);
    }

    fn transmit(&mut self, now: Time) {
        self.calls.push("transmit");
        self.sent.extend(std::iter::from_fn(|| self.sender.poll_transmit(now)));
    }
}

#[derive(Default)]
struct Producer {
    skipped: Vec<SkipReason>,
    inputs: Vec<InputSeq>,
    target: Option<MediaTarget>,
    events: Vec<Event>,
}

impl FrameProducer for Producer {
    fn on_input(&mut self, input: ReceivedInput) {
        self.inputs.push(input.sample.seq);
    }

    fn poll_skipped(&mut self) -> Option<SkipReason> {
        self.skipped.pop()
    }

    fn set_target(&mut self, target: MediaTarget) {
        self.target = Some(target);
    }

    fn on_event(&mut self, _: Time, event: Event) {
        self.events.push(event);
    }
}

const NOBODY: Option<&mut Producer> = None;

#[test]
fn timers_are_handled_when_they_are_due_and_before_anything_is_sent() {
    let (mut end, mut driver, mut producer) =
        (End::new(Mode::Compressed), SessionDriver::default(), Producer::default());
    assert_eq!(driver.step(START, &mut end, Some(&mut producer)), None);
    end.frame(START);
    assert_eq!(driver.step(START, &mut end, Some(&mut producer)), None);
    let (at, wake) = driver.due().expect("packets wait for the pacer");
    assert_eq!((at > START, wake), (true, Wake::Pace));
    let early = START + (at - START) / 2;
    assert_eq!(driver.step(early, &mut end, Some(&mut producer)), None);
    assert_eq!(driver.due(), Some((at, wake)), "an early step changes nothing");
    let before = end.sent.len();
    assert_eq!(driver.step(at, &mut end, Some(&mut producer)), Some(Wake::Pace));
    assert!(end.sent.len() > before);
    assert_eq!(end.calls, ["transmit", "transmit", "transmit", "timeout", "transmit"]);
}

#[test]
fn the_session_is_informed_of_skipped_frames_and_the_producer_of_everything_else() {
    let (mut end, mut driver, mut producer) = (End::new(Mode::Burst), SessionDriver::default(), Producer::default());
    end.input(START, 4);
    end.input(START, 5);
    producer.skipped = vec![SkipReason::EncoderBehind, SkipReason::FrameRate];
    driver.step(START, &mut end, Some(&mut producer));
    assert_eq!(end.sender.statistics(START).skipped, 2);
    assert_eq!(producer.inputs, [InputSeq(5)], "the newest");
    assert_eq!(producer.target, Some(end.sender.target()));
    let skips = producer.events.iter().filter(|event| matches!(event, Event::FrameSkipped { .. })).count();
    assert_eq!((skips, producer.events.len()), (2, 3), "{:?}", producer.events);
    end.frame(START);
    driver.step(START, &mut end, Some(&mut producer));
    assert_eq!(producer.target.map(|target| target.encoder.next), Some(FrameId(1)));
    assert!(producer.skipped.is_empty() && end.sent.len() > 5);
}

#[test]
fn what_the_session_knows_waits_for_a_producer() {
    let (mut end, mut driver, mut producer) = (End::new(Mode::Burst), SessionDriver::default(), Producer::default());
    end.input(START, 9);
    driver.step(START, &mut end, NOBODY);
    assert_eq!(end.calls, ["transmit"], "answers leave all the same");
    driver.step(START, &mut end, Some(&mut producer));
    assert_eq!((producer.inputs.as_slice(), producer.target), (&[InputSeq(9)][..], Some(end.sender.target())));
}

/// The feedback itself frees the path: no timer has to come first.
#[test]
fn a_path_is_free_in_the_step_in_which_the_session_hears_so() {
    let (mut end, mut driver, mut producer) = (End::new(Mode::Burst), SessionDriver::default(), Producer::default());
    let mut now = START;
    let mut frame = |end: &mut End, now| {
        end.frame(now);
        driver.step(now, end, Some(&mut producer));
        producer.target.and_then(|target| target.refusal)
    };
    frame(&mut end, now);
    let report = |end: &mut End, now: Time, first: usize| {
        let numbers = end.sent[first..].iter().filter_map(|datagram| match ToClient::parse(datagram) {
            Ok(ToClient::Symbol(header, _)) => Some(header.seq),
            _ => None,
        });
        let numbers: Vec<_> = numbers.collect();
        let at = RemoteTime::from_secs(60) + (now - START);
        let arrivals = vec![Some(at); numbers.len()];
        let feedback = Feedback { sent_at: at, first: numbers[0], arrivals, marked: Vec::new() };
        end.sender.on_message(now, ToServer::Feedback(feedback));
    };
    now += Span::from_millis(10);
    report(&mut end, now, 0);
    let first = end.sent.len();
    assert_eq!(frame(&mut end, now), None);
    now += Span::from_secs(1);
    assert_eq!(frame(&mut end, now), Some(SkipReason::PathBlocked));
    now += Span::from_millis(1);
    report(&mut end, now, first);
    driver.step(now, &mut end, Some(&mut producer));
    assert_eq!(producer.target.and_then(|target| target.refusal), None);
}
