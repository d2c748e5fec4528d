//! Any sequence of facts, however odd: round trips of nothing and of ten seconds, times that jump, acknowledgements out of order.

use nearlight_units::{Bitrate, Bytes, Span, Time};
use nearlight_window::{AckSample, Cause, Congestion, CongestionLaw, DeliveryRate, LAWS, LawSpec, SentPacket};
use proptest::prelude::*;

const PACKET: u64 = 1_500;
/// No law may ask for more: 2^20 packets of 64 KiB, and what a rate of 100 Gb/s has in flight over two round trips of ten seconds.
const MAX_WINDOW: u64 = 1 << 40;

#[derive(Clone, Debug)]
enum Operation {
    Send(u16),
    /// Packets; microseconds of round trip, if known; bits per second delivered; whether the window limited.
    Ack {
        packets: u64,
        round_trip: Option<i64>,
        rate: Option<u64>,
        limited: bool,
        order: u64,
    },
    Lose {
        packets: u64,
        mark: bool,
    },
    Recover,
    Timeout,
    Wait(u64),
    Jump(u64),
}

fn round_trip() -> impl Strategy<Value = Option<i64>> {
    prop::option::of(prop_oneof![
        4 => 1_000..200_000_i64,
        1 => Just(0),
        1 => Just(10_000_000),
        1 => -1_000..10_000_000_i64,
    ])
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (1..50_u16).prop_map(Operation::Send),
        8 => (0..40_u64, round_trip(), prop::option::of(any::<u64>()), any::<bool>(), prop_oneof![Just(0), any::<u64>()])
            .prop_map(|(packets, round_trip, rate, limited, order)| {
                Operation::Ack { packets, round_trip, rate, limited, order }
            }),
        2 => (1..40_u64, any::<bool>()).prop_map(|(packets, mark)| Operation::Lose { packets, mark }),
        1 => Just(Operation::Recover),
        1 => Just(Operation::Timeout),
        4 => (0..200_000_u64).prop_map(Operation::Wait),
        1 => prop_oneof![any::<u64>(), 0..100_000_000_000_u64].prop_map(Operation::Jump),
    ]
}

/// Feeds a law, with the records of a sender.
struct Driver {
    law: Box<dyn CongestionLaw>,
    now: Time,
    in_flight: u64,
    delivered: u64,
}

impl Driver {
    fn new(name: &str) -> Self {
        let law = name.parse::<LawSpec>().expect(name).new_law(Bytes::new(PACKET), 5);
        Self { law, now: Time::from_secs(1), in_flight: 0, delivered: 0 }
    }

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Send(packets) => {
                for _ in 0..packets {
                    self.in_flight += PACKET;
                    self.law.on_sent(self.now, Bytes::new(PACKET), Bytes::new(self.in_flight));
                }
            }
            Operation::Ack { packets, round_trip, rate, limited, order } => {
                let round_trip = round_trip.map(Span::from_micros);
                let before = self.in_flight;
                for _ in 0..packets {
                    self.law.on_packet_acked(self.now, &self.packet(round_trip, 0), round_trip);
                }
                self.in_flight = before.saturating_sub(packets * PACKET);
                self.delivered += packets * PACKET;
                let sample = AckSample {
                    acked: Bytes::new(packets * PACKET),
                    lost: Bytes::ZERO,
                    in_flight_before: Bytes::new(before),
                    in_flight: Bytes::new(self.in_flight),
                    delivered: Bytes::new(self.delivered),
                    delivered_when_sent: Bytes::new(self.delivered.saturating_sub(order % (before + 1))),
                    round_trip,
                    delivery: rate.map(|rate| DeliveryRate { rate: Bitrate::from_bps(rate), app_limited: !limited }),
                    window_limited: limited,
                    marked: false,
                };
                self.law.on_ack(self.now, &sample);
            }
            Operation::Lose { packets, mark } => {
                for number in 1..=packets {
                    self.law.on_packet_lost(self.now, &self.packet(None, number * PACKET));
                }
                let flight = Bytes::new(self.in_flight);
                self.in_flight = self.in_flight.saturating_sub(packets * PACKET);
                let cause = if mark { Cause::Mark } else { Cause::Loss };
                let in_flight = Bytes::new(self.in_flight);
                self.law.on_loss(self.now, &Congestion { cause, flight, in_flight });
            }
            Operation::Recover => self.law.on_recovered(self.now),
            Operation::Timeout => {
                self.law.on_timeout(self.now, Bytes::new(self.in_flight));
                self.in_flight = 0;
            }
            Operation::Wait(micros) => self.now += Span::from_micros(micros.cast_signed()),
            Operation::Jump(nanos) => self.now = self.now.max(Time::from_nanos(nanos)),
        }
    }

    fn packet(&self, round_trip: Option<Span>, lost: u64) -> SentPacket {
        SentPacket {
            sent_at: self.now - round_trip.unwrap_or(Span::ZERO),
            size: Bytes::new(PACKET),
            in_flight: Bytes::new(self.in_flight),
            lost_since: Bytes::new(lost),
            app_limited: false,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_happens_a_packet_may_leave_and_nothing_is_without_bound(
        operations in prop::collection::vec(operation(), 0..300),
    ) {
        for name in LAWS.into_iter().chain(["hera/buckets:2/limit:none/step:sample", "hera-as-printed/backlog:1", "hera/loss:halve"]) {
            let mut driver = Driver::new(name);
            for operation in &operations {
                driver.apply(operation);
                let window = driver.law.window().get();
                prop_assert!((1..=MAX_WINDOW).contains(&window), "{}: {} after {:?}", name, window, operation);
                if let Some(pacing) = driver.law.pacing() {
                    prop_assert!(pacing > Bitrate::ZERO, "{}: {:?}", name, operation);
                }
            }
            // It recovers: after a time-out and a hundred ordinary round trips a window of packets may leave again.
            driver.apply(&Operation::Timeout);
            driver.law.on_recovered(driver.now);
            for _ in 0..100 {
                driver.apply(&Operation::Send(4));
                driver.apply(&Operation::Wait(20_000));
                driver.apply(&Operation::Ack { packets: 4, round_trip: Some(20_000), rate: Some(2_400_000), limited: true, order: 0 });
            }
            prop_assert!(driver.law.window().get() >= PACKET, "{}: {:?}", name, driver.law.window());
        }
    }

    #[test]
    fn equal_facts_give_equal_laws(operations in prop::collection::vec(operation(), 0..200)) {
        for name in LAWS {
            let run = || {
                let mut driver = Driver::new(name);
                for operation in &operations {
                    driver.apply(operation);
                }
                (driver.law.window(), driver.law.pacing(), driver.law.burst())
            };
            prop_assert_eq!(run(), run());
        }
    }
}

#[test]
fn a_million_acknowledgements_with_odd_round_trips_change_nothing_for_the_worse() {
    let odd = [0, 1, 10_000_000, 20_000, 3, 999_999];
    for name in LAWS {
        let mut driver = Driver::new(name);
        for number in 0..1_000_000_usize {
            driver.apply(&Operation::Send(1));
            driver.apply(&Operation::Wait(50));
            let round_trip = Some(odd[number % odd.len()]);
            driver.apply(&Operation::Ack { packets: 1, round_trip, rate: Some(240_000_000), limited: true, order: 0 });
        }
        let window = driver.law.window().get();
        assert!((PACKET..=MAX_WINDOW).contains(&window), "{name}: {window}");
    }
}
