//! Messages over one TCP connection, in order: how video is sent if only TCP is available.
//!
//! A message that loses a segment waits for its repair, and so do all later ones.
//!
//! # Departures
//! * A segment never carries the end of one message and the beginning of the next, as if each message were written when the one
//!   before it had left.

use std::collections::VecDeque;

use nearlight_units::{Bytes, Time};

use crate::bulk::{Config, Connection};
use crate::law::LawSpec;
use crate::{Arrival, Direction, FlowWake, Statistics, Traffic, Transmit};

/// The law of a name such as `tcp-cubic`: frames over one connection, in place of a rate controller.
#[must_use]
pub fn law_of(name: &str) -> Option<LawSpec> {
    name.strip_prefix("tcp-")?.parse().ok()
}

/// One connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    pub law: LawSpec,
    /// Properties of the transfer; its length is ignored.
    pub transfer: Config,
    /// Most bytes written and not yet received; more is refused (Linux, `tcp_wmem`: 4 MiB).
    pub send_buffer: Bytes,
    pub seed: u64,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self { law: LawSpec::Cubic, transfer: Config::default(), send_buffer: Bytes::new(4 * 1_024 * 1_024), seed: 0 }
    }
}

/// A message that arrived completely, after all earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Counted from 0 in the order of writing.
    pub number: u64,
    pub size: Bytes,
    pub written_at: Time,
    pub arrived_at: Time,
}

#[derive(Clone, Copy, Debug)]
struct WrittenMessage {
    size: Bytes,
    at: Time,
    /// The segment after its last one.
    end: u64,
}

/// A connection that carries what the caller writes.
pub struct Stream {
    connection: Connection,
    send_buffer: Bytes,
    /// Not yet received, the oldest first.
    written: VecDeque<WrittenMessage>,
    queued: u64,
    number: u64,
    arrived: VecDeque<Message>,
    delivered: Bytes,
    completed: u64,
}

impl Stream {
    #[must_use]
    pub fn new(config: StreamConfig) -> Self {
        let law = config.law.new_law(config.transfer.in_order().packet, config.seed);
        Self {
            connection: Connection::stream(config.transfer, law),
            send_buffer: config.send_buffer,
            written: VecDeque::new(),
            queued: 0,
            number: 0,
            arrived: VecDeque::new(),
            delivered: Bytes::ZERO,
            completed: 0,
        }
    }

    /// A message to send; poll for packets afterwards. Answers its number, or None where it is empty or does not fit into the send
    /// buffer.
    pub fn write(&mut self, now: Time, size: Bytes) -> Option<u64> {
        if size == Bytes::ZERO || self.queued.saturating_add(size.get()) > self.send_buffer.get() {
            return None;
        }
        self.queued += size.get();
        let end = self.connection.write(size);
        self.written.push_back(WrittenMessage { size, at: now, end });
        self.number += 1;
        Some(self.number - 1)
    }

    /// The next message that arrived.
    pub fn poll_message(&mut self) -> Option<Message> {
        self.arrived.pop_front()
    }

    /// Written and not yet received.
    #[must_use]
    pub fn queued(&self) -> Bytes {
        Bytes::new(self.queued)
    }

    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    fn note_arrivals(&mut self, now: Time) {
        let next = self.connection.receiver().next();
        while let Some(WrittenMessage { size, at, .. }) = self.written.pop_front_if(|written| written.end <= next) {
            self.queued -= size.get();
            self.delivered += size;
            self.arrived.push_back(Message { number: self.completed, size, written_at: at, arrived_at: now });
            self.completed += 1;
        }
    }
}

impl Traffic for Stream {
    fn name(&self) -> &'static str {
        "stream"
    }

    fn on_delivered(&mut self, now: Time, arrival: Arrival) {
        self.connection.on_delivered(now, arrival);
        if arrival.direction == Direction::Forward {
            self.note_arrivals(now);
        }
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        self.connection.poll_transmit(now)
    }

    fn poll_timeout(&self) -> Option<(Time, FlowWake)> {
        self.connection.poll_timeout()
    }

    fn on_timeout(&mut self, now: Time) {
        self.connection.on_timeout(now);
    }

    /// Returns statistics in which complete messages count as delivered, each as a file.
    fn statistics(&self) -> Statistics {
        Statistics { delivered: self.delivered, completed: self.completed, ..self.connection.statistics() }
    }
}
