//! Any sequence of facts, however odd: times that jump, feedback that is late, doubled, reordered or about nothing.

use nearlight_rate::{
    Bounds, Decision, Feedback, FrameOutcome, PRESETS, PacketReport, ProbeId, RateController, SentFrame, SentPacket,
    new_controller,
};
use nearlight_units::{Bitrate, Bytes, FrameId, PacketSeq, Span, Time};
use proptest::prelude::*;

/// The most that a controller may remember. 4,096 missing packets are the largest part.
const MAX_RECORDS: usize = 4_200;

#[derive(Clone, Debug)]
enum Operation {
    Send { packets: u32, size: u64, gap: i64, probe: bool },
    Arrive { packets: usize, delay: i64, gap: i64, round_trip: Option<i64> },
    Lose { packets: usize },
    Repeat,
    Reverse,
    Empty,
    Wait(u64),
    WakeUp,
    Timeout,
    Probe,
    Bounds { minimum: u64, start: u64, maximum: u64 },
    Frame { size: u64, key: bool, encode: i64 },
    Outcome { network: i64, decode: i64, motion_to_photon: Option<i64> },
    SenderQueue(u64),
    PlaybackBuffer(u32),
    Priority(f64),
    Jump(Time),
}

/// The size of a frame or a queue, usually a plausible one.
fn any_size() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..200_000_u64, 1 => any::<u64>()]
}

fn any_micros() -> impl Strategy<Value = i64> {
    prop_oneof![4 => 0..200_000_i64, 1 => -1_000_000_000..1_000_000_000_000_i64]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (1..60_u32, 0..2_000_u64, 0..2_000_i64, any::<bool>())
            .prop_map(|(packets, size, gap, probe)| Operation::Send { packets, size, gap, probe }),
        4 => (1..60_usize, -50_000..500_000_i64, 0..5_000_i64, prop::option::of(-1_000..3_000_000_i64))
            .prop_map(|(packets, delay, gap, round_trip)| Operation::Arrive { packets, delay, gap, round_trip }),
        1 => (1..80_usize).prop_map(|packets| Operation::Lose { packets }),
        1 => Just(Operation::Repeat),
        1 => Just(Operation::Reverse),
        1 => Just(Operation::Empty),
        3 => (0..60_000_u64).prop_map(Operation::Wait),
        2 => Just(Operation::WakeUp),
        1 => Just(Operation::Timeout),
        2 => Just(Operation::Probe),
        1 => (0..200_000_000_u64, 0..200_000_000_u64, 0..200_000_000_u64)
            .prop_map(|(minimum, start, maximum)| Operation::Bounds { minimum, start, maximum }),
        2 => (any_size(), any::<bool>(), any_micros())
            .prop_map(|(size, key, encode)| Operation::Frame { size, key, encode }),
        2 => (any_micros(), any_micros(), prop::option::of(any_micros()))
            .prop_map(|(network, decode, motion_to_photon)| Operation::Outcome { network, decode, motion_to_photon }),
        1 => any_size().prop_map(Operation::SenderQueue),
        1 => prop_oneof![0..20_u32, any::<u32>()].prop_map(Operation::PlaybackBuffer),
        1 => prop_oneof![0.0..4.0, any::<f64>()].prop_map(Operation::Priority),
        1 => prop_oneof![Just(u64::MAX), Just(0), any::<u64>(), 0..10_000_000_000_u64]
            .prop_map(|nanos| Operation::Jump(Time::from_nanos(nanos))),
    ]
}

struct Driver {
    now: Time,
    next: PacketSeq,
    outstanding: Vec<SentPacket>,
    last: Vec<PacketReport>,
    bounds: Bounds,
    probe: Option<ProbeId>,
}

impl Driver {
    fn new(bounds: Bounds) -> Self {
        Self { now: Time::ZERO, next: PacketSeq(0), outstanding: Vec::new(), last: Vec::new(), bounds, probe: None }
    }

    fn apply(&mut self, controller: &mut dyn RateController, operation: &Operation) {
        match *operation {
            Operation::Send { packets, size, gap, probe } => self.send(controller, packets, (size, gap, probe)),
            Operation::Arrive { packets, delay, gap, round_trip } => {
                let count = packets.min(self.outstanding.len());
                let at = self.now + Span::from_micros(delay);
                let arrived = self.outstanding.drain(..count).enumerate().map(|(number, packet)| PacketReport {
                    packet,
                    arrived_at: Some((at + Span::from_micros(gap * number as i64)).for_peer()),
                    ce: number % 7 == 0,
                });
                self.last = arrived.collect();
                self.feed_back(controller, round_trip.map(Span::from_micros));
            }
            Operation::Lose { packets } => {
                let count = packets.min(self.outstanding.len());
                let lost =
                    self.outstanding.drain(..count).map(|packet| PacketReport { packet, arrived_at: None, ce: false });
                self.last = lost.collect();
                self.feed_back(controller, None);
            }
            Operation::Repeat => self.feed_back(controller, None),
            Operation::Reverse => {
                self.last.reverse();
                self.feed_back(controller, None);
            }
            Operation::Empty => controller.on_feedback(self.now, &Feedback { packets: &[], round_trip: None }),
            Operation::Wait(micros) => self.now += Span::from_micros(micros as i64),
            Operation::WakeUp => {
                if let Some((at, _)) = controller.poll_timeout() {
                    self.now = self.now.max(at);
                    controller.on_timeout(self.now);
                }
            }
            Operation::Timeout => controller.on_timeout(self.now),
            Operation::Probe => self.probe = controller.poll_probe(self.now).map(|probe| probe.id).or(self.probe),
            Operation::Bounds { minimum, start, maximum } => {
                let rate = Bitrate::from_bps;
                let bounds = Bounds { minimum: rate(minimum), start: rate(start), maximum: rate(maximum) };
                self.bounds = bounds.in_order();
                controller.set_bounds(self.now, bounds);
            }
            Operation::Frame { size, key, encode } => {
                let frame = FrameId(self.next.0 / 10);
                let encode = Span::from_micros(encode);
                controller.on_frame_sent(self.now, &SentFrame { frame, size: Bytes::new(size), key, encode });
            }
            Operation::Outcome { network, decode, motion_to_photon } => {
                let outcome = FrameOutcome {
                    frame: FrameId(self.next.0 / 10),
                    network: Span::from_micros(network),
                    reassemble: Span::ZERO,
                    decode: Span::from_micros(decode),
                    motion_to_photon: motion_to_photon.map(Span::from_micros),
                    late: false,
                };
                controller.on_frame_outcome(self.now, &outcome);
            }
            Operation::SenderQueue(queued) => controller.on_sender_queue(self.now, Bytes::new(queued)),
            Operation::PlaybackBuffer(frames) => controller.on_playback_buffer(self.now, frames),
            Operation::Priority(weight) => controller.set_priority(self.now, weight),
            Operation::Jump(to) => self.now = to,
        }
    }

    fn send(&mut self, controller: &mut dyn RateController, packets: u32, (size, gap, probe): (u64, i64, bool)) {
        for number in 0..packets {
            let packet = SentPacket {
                seq: self.next,
                sent_at: self.now + Span::from_micros(gap * i64::from(number)),
                size: Bytes::new(size),
                frame: Some(FrameId(self.next.0 / 10)),
                probe: self.probe.filter(|_| probe),
                app_limited: number + 1 == packets,
            };
            self.next = self.next.next();
            controller.on_packet_sent(&packet);
            self.outstanding.push(packet);
        }
    }

    fn feed_back(&self, controller: &mut dyn RateController, round_trip: Option<Span>) {
        controller.on_feedback(self.now, &Feedback { packets: &self.last, round_trip });
    }
}

fn check(decision: &Decision, bounds: Bounds) -> Result<(), TestCaseError> {
    let Bounds { minimum, maximum, .. } = bounds;
    prop_assert!((minimum..=maximum).contains(&decision.target), "{:?} in {:?}", decision, bounds);
    prop_assert!(decision.pacing >= decision.target, "{:?}", decision);
    prop_assert!(decision.window.is_none_or(|window| window > Bytes::ZERO), "{:?}", decision);
    if let Some(step) = decision.step {
        let shares = [step.scale, step.frame_rate];
        prop_assert!(shares.iter().all(|share| *share > 0.0 && *share <= 1.0), "{:?}", decision);
    }
    if let Some(redundancy) = decision.redundancy {
        prop_assert!((0.0..1.0).contains(&redundancy.share), "{:?}", decision);
        prop_assert!((0.0..=1.0).contains(&redundancy.loss), "{:?}", decision);
    }
    prop_assert!(decision.limits.iter().any(|(limit, _)| *limit == decision.binding), "{:?}", decision);
    Ok(())
}

/// Packets that were sent near the end of time and come near its beginning: a bandwidth-delay product beyond all numbers.
#[test]
fn a_clock_that_falls_back_breaks_nothing() {
    let send = |packets, size, gap| Operation::Send { packets, size, gap, probe: false };
    let arrive = |packets, round_trip| Operation::Arrive { packets, delay: 0, gap: 0, round_trip };
    let story = [
        Operation::Jump(Time::from_nanos(9_223_372_036_827_739_807)),
        send(25, 0, 0),
        Operation::WakeUp,
        send(10, 1_161, 521),
        send(2, 435, 1),
        Operation::Jump(Time::ZERO),
        arrive(9, Some(0)),
        send(1, 1, 0),
        arrive(29, None),
    ];
    for preset in PRESETS {
        live(preset.name, &story, |controller, bounds| check(&controller.decision(), bounds)).unwrap();
    }
}

/// A controller that has lived through the operations; `look` is called after each with it and the present bounds.
fn live(
    name: &str,
    operations: &[Operation],
    mut look: impl FnMut(&dyn RateController, Bounds) -> Result<(), TestCaseError>,
) -> Result<Box<dyn RateController>, TestCaseError> {
    let bounds = Bounds::up_to(Bitrate::from_mbps(50));
    let mut controller = new_controller(name, bounds).expect("a preset");
    let mut driver = Driver::new(bounds);
    for operation in operations {
        driver.apply(controller.as_mut(), operation);
        look(controller.as_ref(), driver.bounds).map_err(|error| TestCaseError::fail(format!("{name}: {error}")))?;
    }
    Ok(controller)
}

proptest! {
    #[test]
    fn any_sequence_keeps_the_bounds_and_names_its_reason(operations in prop::collection::vec(operation(), 0..120)) {
        for preset in PRESETS {
            live(preset.name, &operations, |controller, bounds| {
                let decision = controller.decision();
                check(&decision, bounds)?;
                prop_assert_eq!(decision, controller.decision(), "reading changes nothing");
                Ok(())
            })?;
        }
    }

    #[test]
    fn memory_is_bounded(operations in prop::collection::vec(operation(), 0..120)) {
        for preset in PRESETS {
            live(preset.name, &operations, |controller, _| {
                let held = controller.held();
                prop_assert!(held <= MAX_RECORDS, "{} records", held);
                Ok(())
            })?;
        }
    }

    #[test]
    fn equal_facts_give_equal_decisions(operations in prop::collection::vec(operation(), 0..60)) {
        for preset in PRESETS {
            let run = || live(preset.name, &operations, |_, _| Ok(())).map(|controller| controller.decision());
            prop_assert_eq!(run()?, run()?, "{}", preset.name);
        }
    }
}
