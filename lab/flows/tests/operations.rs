//! Any sequence of sends, arrivals, losses, duplicates and time-outs: data arrives in order, exactly once, within bounds.

use std::collections::BTreeSet;

use nearlight_flows::bulk::{Ack, Config, Receiver, Segment, Sender};
use nearlight_flows::law::{LAWS, LawSpec};
use nearlight_units::{Bytes, Span, Time};
use proptest::prelude::*;

const PACKET: Bytes = Bytes::new(1_500);
const SEGMENTS: u64 = 400;
/// In packets.
const WINDOW: u64 = 64;

#[derive(Clone, Debug)]
enum Operation {
    /// The packet at this place of those under way arrives, or gets lost, or arrives and stays under way.
    Data(prop::sample::Index, Delivery),
    Ack(prop::sample::Index, Delivery),
    /// All under way arrive in order.
    Flush,
    Wait(u32),
    WakeUp,
    /// An acknowledgement that no receiver sent.
    Forge(u64, u64, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    Arrives,
    Marked,
    Lost,
    Doubled,
}

fn delivery() -> impl Strategy<Value = Delivery> {
    prop_oneof![6 => Just(Delivery::Arrives), 1 => Just(Delivery::Marked), 2 => Just(Delivery::Lost), 1 => Just(Delivery::Doubled)]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (any::<prop::sample::Index>(), delivery()).prop_map(|(index, delivery)| Operation::Data(index, delivery)),
        6 => (any::<prop::sample::Index>(), delivery()).prop_map(|(index, delivery)| Operation::Ack(index, delivery)),
        1 => Just(Operation::Flush),
        3 => (0..20_000_u32).prop_map(Operation::Wait),
        2 => Just(Operation::WakeUp),
    ]
}

fn forging() -> impl Strategy<Value = Operation> {
    prop_oneof![
        9 => operation(),
        1 => (prop_oneof![0..SEGMENTS + 9, any::<u64>()], any::<u64>(), 0..90_u64)
            .prop_map(|(next, start, length)| Operation::Forge(next, start % (SEGMENTS * 2), length)),
    ]
}

struct Pair {
    now: Time,
    sender: Sender,
    receiver: Receiver,
    data: Vec<Segment>,
    acks: Vec<Ack>,
    arrived: BTreeSet<u64>,
}

impl Pair {
    fn new(law: &str) -> Self {
        let config = Config {
            length: Some(Bytes::new(1_448 * SEGMENTS - 7)),
            receive_window: Bytes::new(PACKET.get() * WINDOW),
            ecn: true,
            ..Config::default()
        };
        let sender = Sender::new(config, law.parse::<LawSpec>().expect(law).new_law(PACKET, 7));
        let receiver = Receiver::new(config);
        let (data, acks, arrived) = (Vec::new(), Vec::new(), BTreeSet::new());
        Self { now: Time::from_secs(1), sender, receiver, data, acks, arrived }
    }

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Data(ref index, delivery) if !self.data.is_empty() => {
                let place = index.index(self.data.len());
                let segment = if delivery == Delivery::Doubled { self.data[place] } else { self.data.remove(place) };
                if delivery != Delivery::Lost {
                    self.deliver(segment, delivery == Delivery::Marked);
                }
            }
            Operation::Ack(ref index, delivery) if !self.acks.is_empty() => {
                let place = index.index(self.acks.len());
                let ack = if delivery == Delivery::Doubled { self.acks[place] } else { self.acks.remove(place) };
                if delivery != Delivery::Lost {
                    self.sender.on_ack(self.now, &ack);
                }
            }
            Operation::Flush => self.flush(),
            Operation::Wait(micros) => self.now += Span::from_micros(i64::from(micros)),
            Operation::WakeUp => self.wake_up(),
            Operation::Forge(next, start, length) => {
                let mut ack = Ack { next, ..Ack::default() };
                ack.blocks[0].start = start;
                ack.blocks[0].end = start.saturating_add(length);
                self.sender.on_ack(self.now, &ack);
            }
            _ => {}
        }
        self.drain();
    }

    fn deliver(&mut self, segment: Segment, marked: bool) {
        self.arrived.insert(segment.number);
        self.receiver.on_segment(self.now, segment.number, marked);
    }

    fn flush(&mut self) {
        for segment in std::mem::take(&mut self.data) {
            self.deliver(segment, false);
            self.acks.extend(self.receiver.poll_ack(self.now));
        }
        for ack in std::mem::take(&mut self.acks) {
            self.sender.on_ack(self.now, &ack);
        }
    }

    fn wake_up(&mut self) {
        let next =
            [self.sender.poll_timeout(), self.receiver.poll_timeout()].into_iter().flatten().map(|(at, _)| at).min();
        if let Some(at) = next {
            self.now = self.now.max(at);
            self.sender.on_timeout(self.now);
        }
    }

    fn drain(&mut self) {
        self.acks.extend(self.receiver.poll_ack(self.now));
        let mut sent = 0;
        while let Some(segment) = self.sender.poll_transmit(self.now) {
            self.data.push(segment);
            sent += 1;
            assert!(sent <= 2 * WINDOW, "sends without end");
        }
    }

    fn check(&self, honest: bool) -> Result<(), TestCaseError> {
        prop_assert!(self.sender.in_flight().get() <= WINDOW * PACKET.get(), "beyond the receive window");
        prop_assert!(self.sender.held() as u64 <= 8 * WINDOW, "{} records", self.sender.held());
        prop_assert!(self.receiver.held() <= WINDOW);
        let in_order = (0..SEGMENTS).take_while(|number| self.arrived.contains(number)).count() as u64;
        prop_assert_eq!(self.receiver.next(), in_order);
        let data = (in_order * 1_448).min(1_448 * SEGMENTS - 7);
        prop_assert_eq!(self.receiver.delivered(), Bytes::new(data));
        if honest {
            prop_assert!(self.sender.first_unacknowledged() <= self.receiver.next(), "believes what nobody said");
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn data_arrives_in_order_and_exactly_once_and_all_of_it(operations in prop::collection::vec(operation(), 0..400)) {
        for law in LAWS {
            let mut pair = Pair::new(law);
            pair.drain();
            for operation in &operations {
                let before = pair.sender.in_flight();
                let window = pair.sender.law().window();
                pair.apply(operation);
                pair.check(true)?;
                // New flight stays within the larger of the windows before and after, but for one tail probe (RFC 8985, 7.3).
                let window = window.max(pair.sender.law().window());
                let in_flight = pair.sender.in_flight();
                prop_assert!(in_flight <= before.max(window) + PACKET, "{}: {:?} in a window of {:?}", law, in_flight, window);
            }
            // From here on nothing gets lost: it ends, and soon.
            let mut steps = 0;
            while !pair.sender.is_done() {
                pair.flush();
                pair.drain();
                if pair.data.is_empty() && pair.acks.is_empty() {
                    pair.wake_up();
                    pair.drain();
                }
                steps += 1;
                prop_assert!(steps < 10_000, "{} stands still: {:?}", law, pair.sender.counters());
            }
            prop_assert_eq!(pair.receiver.delivered(), Bytes::new(1_448 * SEGMENTS - 7));
            prop_assert_eq!(pair.sender.in_flight(), Bytes::ZERO);
        }
    }

    #[test]
    fn forged_acknowledgements_break_nothing(operations in prop::collection::vec(forging(), 0..200)) {
        for law in LAWS {
            let mut pair = Pair::new(law);
            pair.drain();
            for operation in &operations {
                pair.apply(operation);
                prop_assert!(pair.sender.in_flight().get() <= (2 * WINDOW + 1) * PACKET.get());
                prop_assert!(pair.sender.held() as u64 <= 8 * WINDOW, "{} records", pair.sender.held());
            }
        }
    }

    #[test]
    fn equal_facts_give_equal_senders(operations in prop::collection::vec(operation(), 0..100)) {
        for law in LAWS {
            let run = || {
                let mut pair = Pair::new(law);
                pair.drain();
                for operation in &operations {
 pair.apply(operation);
}
                (pair.sender.counters(), pair.sender.law().window(), pair.sender.poll_timeout(), pair.data, pair.acks)
            };
            prop_assert_eq!(run(), run());
        }
    }
}
