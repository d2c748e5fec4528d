//! Flows on one bottleneck in virtual time: a rate, a drop-tail queue, a delay each way, and what a test does to single packets.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nearlight_flows::bulk::Config;
use nearlight_flows::{Arrival, Bulk, BulkConfig, Direction, Schedule, Statistics, Traffic, Transmit};
use nearlight_units::{Bitrate, Bytes, Span, Time};

/// What happens to a packet before the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    Drop,
    Mark,
    /// It travels for longer than others.
    Late(Span),
    Twice,
}

/// What a test does to single packets.
pub type Judge = Box<dyn FnMut(Time, &Transmit) -> Verdict>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Travelling {
    at: Time,
    serial: u64,
    flow: usize,
    id: u64,
    size: Bytes,
    marked: bool,
}

/// One direction.
pub struct Pipe {
    pub rate: Bitrate,
    pub delay: Span,
    pub queue: Bytes,
    pub judge: Judge,
    free_at: Time,
    travelling: BinaryHeap<Reverse<Travelling>>,
    serial: u64,
    pub dropped: u64,
}

impl Pipe {
    pub fn new(rate: Bitrate, delay: Span, queue: Bytes) -> Self {
        Self {
            rate,
            delay,
            queue,
            judge: Box::new(|_, _| Verdict::Pass),
            free_at: Time::ZERO,
            travelling: BinaryHeap::new(),
            serial: 0,
            dropped: 0,
        }
    }

    pub fn backlog(&self, now: Time) -> Bytes {
        self.rate.bytes_in(self.free_at.saturating_since(now))
    }

    fn offer(&mut self, now: Time, flow: usize, packet: &Transmit) {
        let verdict = (self.judge)(now, packet);
        if verdict == Verdict::Drop || self.backlog(now) + packet.size > self.queue {
            self.dropped += 1;
            return;
        }
        self.free_at = self.free_at.max(now) + self.rate.time_to_send(packet.size);
        let late = if let Verdict::Late(late) = verdict { late } else { Span::ZERO };
        for _ in 0..if verdict == Verdict::Twice { 2 } else { 1 } {
            self.serial += 1;
            let marked = verdict == Verdict::Mark && packet.ecn;
            let at = self.free_at + self.delay + late;
            let (serial, id, size) = (self.serial, packet.id, packet.size);
            self.travelling.push(Reverse(Travelling { at, serial, flow, id, size, marked }));
        }
    }

    fn poll(&mut self, now: Time) -> Option<Travelling> {
        let Reverse(first) = *self.travelling.peek()?;
        if first.at > now {
            return None;
        }
        self.travelling.pop();
        Some(first)
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.travelling.peek().map(|Reverse(first)| first.at)
    }
}

pub struct World {
    pub forward: Pipe,
    pub back: Pipe,
    pub flows: Vec<Box<dyn Traffic>>,
    pub now: Time,
}

/// A link of `rate` with a queue of `queue` at that rate, half of `round_trip` each way.
pub fn world(rate: Bitrate, round_trip: Span, queue: Span) -> World {
    let (forward, back) = (Pipe::new(rate, round_trip / 2, rate.bytes_in(queue)), Bitrate::from_mbps(1_000));
    let back = Pipe::new(back, round_trip / 2, Bytes::new(1 << 30));
    World { forward, back, flows: Vec::new(), now: Time::ZERO }
}

/// An endless transfer.
pub fn bulk(law: &'static str, begins: Time, seed: u64) -> Box<dyn Traffic> {
    let schedule = Schedule { begins, ..Schedule::default() };
    Box::new(Bulk::new(BulkConfig { law: law.parse().expect(law), schedule, seed, transfer: Config::default() }))
}

/// A file of `length` and nothing more; at most 300 kB of it at a time.
pub fn file(law: &'static str, length: Bytes) -> Box<dyn Traffic> {
    let transfer = Config { length: Some(length), receive_window: Bytes::new(300_000), ..Config::default() };
    Box::new(Bulk::new(BulkConfig { law: law.parse().expect(law), transfer, ..BulkConfig::default() }))
}

impl World {
    pub fn with(mut self, flow: Box<dyn Traffic>) -> Self {
        self.flows.push(flow);
        self
    }

    fn drain(&mut self, index: usize) {
        while let Some(packet) = self.flows[index].poll_transmit(self.now) {
            let pipe = if packet.direction == Direction::Forward { &mut self.forward } else { &mut self.back };
            pipe.offer(self.now, index, &packet);
        }
    }

    fn next(&self) -> Option<Time> {
        let flows = self.flows.iter().filter_map(|flow| flow.poll_timeout()).map(|(at, _)| at);
        flows.chain(self.forward.poll_timeout()).chain(self.back.poll_timeout()).min()
    }

    /// Runs on, showing every moment to `watch`.
    pub fn watch(&mut self, length: Span, mut watch: impl FnMut(&Self)) {
        let until = self.now + length;
        let mut at_this_moment = 0;
        for index in 0..self.flows.len() {
            self.drain(index);
        }
        while let Some(next) = self.next().filter(|next| *next <= until) {
            at_this_moment = if next > self.now { 0 } else { at_this_moment + 1 };
            assert!(at_this_moment < 100_000, "time stands still at {:?}", self.now);
            self.now = self.now.max(next);
            self.deliver(Direction::Forward);
            self.deliver(Direction::Back);
            for index in 0..self.flows.len() {
                if self.flows[index].poll_timeout().is_some_and(|(at, _)| at <= self.now) {
                    self.flows[index].on_timeout(self.now);
                    self.drain(index);
                }
            }
            watch(self);
        }
        self.now = until;
    }

    fn deliver(&mut self, direction: Direction) {
        loop {
            let pipe = if direction == Direction::Forward { &mut self.forward } else { &mut self.back };
            let Some(Travelling { flow, id, size, marked, .. }) = pipe.poll(self.now) else { return };
            self.flows[flow].on_delivered(self.now, Arrival { id, direction, size, marked });
            self.drain(flow);
        }
    }

    pub fn run(&mut self, length: Span) {
        self.watch(length, |_| {});
    }

    pub fn statistics(&self) -> Vec<Statistics> {
        self.flows.iter().map(|flow| flow.statistics()).collect()
    }

    /// Runs on and answers each flow's goodput meanwhile.
    pub fn goodputs(&mut self, length: Span) -> Vec<Bitrate> {
        let before = self.statistics();
        self.run(length);
        let after = self.statistics();
        after.iter().zip(&before).map(|(after, before)| after.goodput_since(before, length)).collect()
    }
}

/// Jain's index of fairness.
pub fn jain(rates: &[Bitrate]) -> f64 {
    let rates: Vec<f64> = rates.iter().map(|rate| rate.as_mbps_f64()).collect();
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|rate| rate * rate).sum::<f64>());
    sum * sum / (rates.len() as f64 * squares)
}
