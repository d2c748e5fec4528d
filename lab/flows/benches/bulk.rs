//! Segments per second of one bulk transfer through a rate-limited loop: both ends, acknowledgements and the link included.

use std::collections::VecDeque;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nearlight_flows::bulk::{Config, Connection};
use nearlight_flows::law::{LAWS, LawSpec};
use nearlight_flows::{Arrival, Direction};
use nearlight_units::{Bitrate, Bytes, Span, Time};

const RATE: Bitrate = Bitrate::from_mbps(100);
const ONE_WAY: Span = Span::from_millis(10);
/// What the bottleneck's queue holds.
const QUEUE: Span = Span::from_millis(50);
const SEGMENTS: u64 = 100_000;

/// A drop-tail bottleneck forward, plain delay back.
struct Loop {
    connection: Connection,
    now: Time,
    free_at: Time,
    forward: VecDeque<(Time, Arrival)>,
    back: VecDeque<(Time, Arrival)>,
}

impl Loop {
    fn new(law: &'static str) -> Self {
        let law = law.parse::<LawSpec>().expect("a law").new_law(Bytes::new(1_500), 1);
        let connection = Connection::new(Config::default(), law);
        Self { connection, now: Time::ZERO, free_at: Time::ZERO, forward: VecDeque::new(), back: VecDeque::new() }
    }

    fn drain(&mut self) {
        while let Some(packet) = self.connection.poll_transmit(self.now) {
            let arrival = Arrival { id: packet.id, direction: packet.direction, size: packet.size, marked: false };
            if packet.direction == Direction::Back {
                self.back.push_back((self.now + ONE_WAY, arrival));
            } else if self.free_at.saturating_since(self.now) < QUEUE {
                self.free_at = self.free_at.max(self.now) + RATE.time_to_send(packet.size);
                self.forward.push_back((self.free_at + ONE_WAY, arrival));
            }
        }
    }

    fn run(&mut self, segments: u64) {
        let until = self.connection.receiver().next() + segments;
        self.drain();
        while self.connection.receiver().next() < until {
            let head = |pipe: &VecDeque<(Time, Arrival)>| pipe.front().map_or(Time::FAR_FUTURE, |(at, _)| *at);
            let (forward, back) = (head(&self.forward), head(&self.back));
            let timer = self.connection.poll_timeout().map_or(Time::FAR_FUTURE, |(at, _)| at);
            let next = forward.min(back);
            self.now = self.now.max(next.min(timer));
            if timer < next {
                self.connection.on_timeout(self.now);
            } else {
                let pipe = if forward <= back { &mut self.forward } else { &mut self.back };
                let Some((_, arrival)) = pipe.pop_front() else { return };
                self.connection.on_delivered(self.now, arrival);
            }
            self.drain();
        }
    }
}

fn bulk(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("bulk");
    group.throughput(Throughput::Elements(SEGMENTS)).sample_size(20);
    for law in LAWS {
        let mut world = Loop::new(law);
        world.run(SEGMENTS);
        group.bench_function(BenchmarkId::from_parameter(law), |bencher| bencher.iter(|| world.run(SEGMENTS)));
    }
    group.finish();
}

criterion_group!(benches, bulk);
criterion_main!(benches);
