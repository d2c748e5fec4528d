//! Short TCP transfers as RFC 8868 (section 6) describes them: files of 30 to 50 KB, pauses of 10 s on average between them.
//!
//! # Departures
//! * Each file is a new connection, so that each begins in slow start; the handshake's round trip is left out.

use std::collections::VecDeque;

use nearlight_units::{Bytes, Span, Time};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use crate::bulk::{Config, Connection};
use crate::law::LawSpec;
use crate::{Arrival, Direction, FlowWake, Schedule, Statistics, Traffic, Transmit};

/// Most completions that wait to be polled. Guess: an hour of 30 connections.
const MAX_COMPLETIONS: usize = 1 << 14;
/// Room for segment numbers in a packet's id; beside it a file's number and a connection's.
const NUMBER_BITS: u32 = 32;
const FILE_BITS: u32 = 16;

/// Many short transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortConfig {
    pub law: LawSpec,
    pub connections: u16,
    /// Connections that begin with a file; the others begin with a pause (RFC 8867, section 5.7: 2 of 10).
    pub begin_busy: u16,
    /// File sizes are drawn evenly between the two, without headers.
    pub smallest: Bytes,
    pub largest: Bytes,
    /// Pauses are drawn exponentially.
    pub mean_pause: Span,
    /// Properties of each transfer; its length is ignored.
    pub transfer: Config,
    pub schedule: Schedule,
    pub seed: u64,
}

impl Default for ShortConfig {
    /// RFC 8868's 30 connections, all beginning with a pause.
    fn default() -> Self {
        Self {
            law: LawSpec::Cubic,
            connections: 30,
            begin_busy: 0,
            smallest: Bytes::new(30_000),
            largest: Bytes::new(50_000),
            mean_pause: Span::from_secs(10),
            transfer: Config::default(),
            schedule: Schedule::default(),
            seed: 0,
        }
    }
}

/// A file arrived completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub at: Time,
    pub size: Bytes,
    /// Time from sending the first segment to the arrival of the last.
    pub took: Span,
}

/// A file being transferred.
struct File {
    connection: Connection,
    size: Bytes,
    began: Time,
}

struct Client {
    /// Kept until the next one: its sender may still wait for acknowledgements.
    file: Option<File>,
    number: u16,
    /// Set while no file is under way.
    next: Option<Time>,
}

/// Many short transfers as one competing flow.
pub struct Short {
    config: ShortConfig,
    random: Pcg32,
    clients: Vec<Client>,
    completions: VecDeque<Completion>,
    /// Something may leave.
    pending: bool,
    /// When to wake up, worked out once per change.
    wake: Option<(Time, FlowWake)>,
    finished: Statistics,
}

impl Short {
    #[must_use]
    pub fn new(config: ShortConfig) -> Self {
        let mut random = Pcg32::seed_from_u64(config.seed);
        let begins = config.schedule.begins;
        let client = |index: u16| {
            let pause =
                if index < config.begin_busy { Span::ZERO } else { exponential(&mut random, config.mean_pause) };
            Client { file: None, number: 0, next: Some(begins + pause) }
        };
        let clients = (0..config.connections).map(client).collect();
        let (completions, finished) = (VecDeque::new(), Statistics::default());
        let mut short = Self { config, random, clients, completions, pending: false, wake: None, finished };
        short.plan();
        short
    }

    /// The next file that arrived whole; the oldest are forgotten if nobody asks.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    fn plan(&mut self) {
        let wake = |client: &Client| {
            let next = client.next.map(|at| (at, FlowWake::NextFile));
            let file = client.file.as_ref().and_then(|file| file.connection.poll_timeout());
            [next, file].into_iter().flatten().min_by_key(|(at, _)| *at)
        };
        let first = self.clients.iter().filter_map(wake).min_by_key(|(at, _)| *at);
        self.wake = first.filter(|(at, _)| *at < self.config.schedule.ends);
    }

    fn begin_file(&mut self, now: Time, index: usize) {
        let (smallest, largest) = (self.config.smallest.get(), self.config.largest.get());
        let size = Bytes::new(self.random.random_range(smallest..=largest.max(smallest)).max(1));
        let transfer = Config { length: Some(size), ..self.config.transfer };
        let law = self.config.law.new_law(transfer.in_order().packet, self.random.random());
        let client = &mut self.clients[index];
        if let Some(old) = client.file.take() {
            self.finished = sum(&self.finished, &old.connection.statistics());
        }
        client.number = client.number.wrapping_add(1);
        client.next = None;
        client.file = Some(File { connection: Connection::new(transfer, law), size, began: now });
    }

    fn note_completion(&mut self, now: Time, index: usize) {
        let client = &mut self.clients[index];
        let Some(file) = client.file.as_ref().filter(|file| file.connection.receiver().delivered() >= file.size) else {
            return;
        };
        if client.next.is_some() {
            return;
        }
        if self.completions.len() == MAX_COMPLETIONS {
            self.completions.pop_front();
        }
        self.completions.push_back(Completion { at: now, size: file.size, took: now - file.began });
        self.finished.completed += 1;
        client.next = Some(now + exponential(&mut self.random, self.config.mean_pause));
    }
}

impl Traffic for Short {
    fn name(&self) -> &'static str {
        "short"
    }

    fn on_delivered(&mut self, now: Time, arrival: Arrival) {
        let index = (arrival.id >> (NUMBER_BITS + FILE_BITS)) as usize;
        let Some(client) = self.clients.get_mut(index) else { return };
        let of_this_file = (arrival.id >> NUMBER_BITS) as u16 == client.number;
        let Some(file) = client.file.as_mut().filter(|_| of_this_file) else { return };
        let id = arrival.id & ((1 << NUMBER_BITS) - 1);
        file.connection.on_delivered(now, Arrival { id, ..arrival });
        self.pending = true;
        if arrival.direction == Direction::Forward {
            self.note_completion(now, index);
        }
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if !self.pending || now >= self.config.schedule.ends {
            return None;
        }
        for (index, client) in self.clients.iter_mut().enumerate() {
            let Some(file) = &mut client.file else { continue };
            if let Some(packet) = file.connection.poll_transmit(now) {
                let tag = ((index as u64) << FILE_BITS) | u64::from(client.number);
                return Some(Transmit { id: (tag << NUMBER_BITS) | packet.id, ..packet });
            }
        }
        self.pending = false;
        self.plan();
        None
    }

    fn poll_timeout(&self) -> Option<(Time, FlowWake)> {
        self.wake
    }

    fn on_timeout(&mut self, now: Time) {
        for index in 0..self.clients.len() {
            if self.clients[index].next.is_some_and(|at| at <= now) {
                self.begin_file(now, index);
            } else if let Some(file) = &mut self.clients[index].file {
                file.connection.on_timeout(now);
            }
        }
        self.pending = true;
    }

    fn statistics(&self) -> Statistics {
        let running = self.clients.iter().filter_map(|client| client.file.as_ref());
        running.fold(self.finished, |total, file| sum(&total, &file.connection.statistics()))
    }
}

/// All files together; what describes one of them only is left out.
fn sum(total: &Statistics, file: &Statistics) -> Statistics {
    Statistics {
        delivered: total.delivered + file.delivered,
        packets: total.packets + file.packets,
        retransmissions: total.retransmissions + file.retransmissions,
        timeouts: total.timeouts + file.timeouts,
        reductions: total.reductions + file.reductions,
        completed: total.completed + file.completed,
        ..Statistics::default()
    }
}

/// An exponentially distributed span. The logarithm is the portable one: the same on every machine.
fn exponential(random: &mut Pcg32, mean: Span) -> Span {
    mean.mul_f64(-libm::log(1.0 - random.random::<f64>()))
}
