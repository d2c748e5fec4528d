//! Both ends of one transfer, and the acknowledgements in flight between them.

use std::collections::VecDeque;

use nearlight_units::{Bytes, Time};

use super::{Ack, Config, Receiver, Sender};
use crate::law::CongestionLaw;
use crate::traffic::sooner;
use crate::{Arrival, Direction, FlowWake, Statistics, Transmit};

/// Most acknowledgements that a later one may overtake before they are dropped. Guess: 60 ms at 400 Mb/s.
const MAX_OVERTAKEN_ACKS: u64 = 1 << 10;
/// Most acknowledgements in flight: one for each segment of the largest window.
const MAX_ACKS_IN_FLIGHT: usize = super::MAX_WINDOW as usize;

/// A sender and its receiver. The path between them is the driver's.
pub struct Connection {
    sender: Sender,
    receiver: Receiver,
    acks: VecDeque<Ack>,
    first_ack: u64,
    ecn: bool,
}

impl Connection {
    #[must_use]
    pub fn new(config: Config, law: Box<dyn CongestionLaw>) -> Self {
        Self::of(Sender::new(config, law), config)
    }

    fn of(sender: Sender, config: Config) -> Self {
        Self { sender, receiver: Receiver::new(config), acks: VecDeque::new(), first_ack: 0, ecn: config.ecn }
    }

    /// A connection for messages that are written one after the other.
    #[must_use]
    pub fn stream(config: Config, law: Box<dyn CongestionLaw>) -> Self {
        let config = Config { length: None, ..config };
        Self::of(Sender::stream(config, law), config)
    }

    /// A packet came through. Ids that were never handed out are ignored.
    #[inline]
    pub fn on_delivered(&mut self, now: Time, arrival: Arrival) {
        match arrival.direction {
            Direction::Forward => self.receiver.on_segment(now, arrival.id, arrival.marked),
            Direction::Back => {
                let Some(index) = arrival.id.checked_sub(self.first_ack) else { return };
                let Some(&ack) = self.acks.get(index as usize) else { return };
                if index > MAX_OVERTAKEN_ACKS {
                    self.acks.drain(..(index - MAX_OVERTAKEN_ACKS) as usize);
                    self.first_ack = arrival.id - MAX_OVERTAKEN_ACKS;
                }
                self.sender.on_ack(now, &ack);
            }
        }
    }

    /// The next packet that leaves now, from either end.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if let Some(ack) = self.receiver.poll_ack(now) {
            let id = self.first_ack + self.acks.len() as u64;
            self.acks.push_back(ack);
            if self.acks.len() > MAX_ACKS_IN_FLIGHT {
                self.acks.pop_front();
                self.first_ack += 1;
            }
            return Some(Transmit { id, direction: Direction::Back, size: ack.size(), ecn: false });
        }
        let segment = self.sender.poll_transmit(now)?;
        // A retransmission must not be marked (RFC 3168, section 6.1.5).
        let ecn = self.ecn && !segment.retransmission;
        Some(Transmit { id: segment.number, direction: Direction::Forward, size: segment.size, ecn })
    }

    /// A message to send after all before it: see [`Sender::write`].
    pub fn write(&mut self, message: Bytes) -> u64 {
        self.sender.write(message)
    }

    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Time, FlowWake)> {
        sooner(self.receiver.poll_timeout(), self.sender.poll_timeout())
    }

    pub fn on_timeout(&mut self, now: Time) {
        self.sender.on_timeout(now);
    }

    #[must_use]
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    #[must_use]
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let counters = self.sender.counters();
        Statistics {
            delivered: self.receiver.delivered(),
            packets: counters.segments,
            retransmissions: counters.retransmissions,
            timeouts: counters.timeouts,
            reductions: counters.reductions,
            completed: 0,
            smoothed_round_trip: self.sender.smoothed_round_trip(),
            window: self.sender.law().window(),
            in_flight: self.sender.in_flight(),
            pacing: self.sender.law().pacing(),
        }
    }
}
