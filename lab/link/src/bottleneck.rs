//! The hop that limits the rate: a queue, and a server that empties it.

use std::collections::VecDeque;

use nearlight_units::{Bitrate, Bytes, Span, Time};

use crate::capacity::{Capacity, HEADER, MAX_WORK, Meter, Reader, Slots, Work, work_of};
use crate::hop::{Backlog, DropReason, Exit, Hop, Packet};
use crate::queue::{Queue, QueueConfig};
use crate::random::Random;

/// The service discipline of a bottleneck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// Serially, each for a time proportional to its size: a wire.
    #[default]
    Serial,
    /// Tokens up to `burst`; a packet leaves as soon as there are enough for all of it (tc-tbf). Larger packets than `burst` can
    /// never leave and are dropped.
    TokenBucket { burst: Bytes },
    /// Tokens up to `burst`; a packet leaves while there is no debt and may leave one behind (a class of tc-htb).
    Borrowing { burst: Bytes },
}

/// The configuration of a bottleneck.
#[derive(Clone, Debug, PartialEq)]
pub struct BottleneckConfig {
    pub capacity: Capacity,
    /// A trace or a slotted capacity has its own way of serving packets and therefore requires [`Service::Serial`].
    pub service: Service,
    pub queue: QueueConfig,
}

impl BottleneckConfig {
    /// A wire with the default queue.
    #[must_use]
    pub fn wire(rate: Bitrate) -> Self {
        Self { capacity: Capacity::constant(rate), service: Service::Serial, queue: QueueConfig::default() }
    }
}

/// A link of limited capacity behind a queue; flows share both.
///
/// All departures due by then happen before a new packet is accepted.
#[derive(Clone, Debug)]
pub struct Bottleneck {
    server: Server,
    queue: Queue,
    /// The packet that is being sent.
    head: Option<Head>,
    ready: VecDeque<Exit>,
    latest: Time,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    packet: Packet,
    /// When its transmission ends; for slotted servers, when the last transmission took place.
    at: Time,
    /// Slotted servers: the part of it that remains to be sent.
    left: Bytes,
}

#[derive(Clone, Debug)]
enum Server {
    Fluid(Fluid),
    Slots(Slots),
    Trace(Reader),
}

impl Service {
    /// Maximum credit accumulated while idle.
    fn burst(self) -> Bytes {
        match self {
            Self::Serial => Bytes::ZERO,
            Self::TokenBucket { burst } | Self::Borrowing { burst } => burst,
        }
    }
}

impl Server {
    /// The packet at the head waits for tokens; else it is on the wire.
    fn keeps_head_waiting(&self) -> bool {
        matches!(self, Self::Fluid(fluid) if fluid.service != Service::Serial)
    }
}

impl Bottleneck {
    #[must_use]
    pub fn new(config: BottleneckConfig, mut random: Random) -> Self {
        let queue = Queue::new(config.queue, config.service.burst(), Random::new(random.seed()));
        let server = match config.capacity {
            Capacity::Trace(trace, scale) => Server::Trace(Reader::new(trace, scale)),
            Capacity::Rates(rates, fine) => match Slots::new(rates.clone(), fine, random) {
                Some(slots) => Server::Slots(slots),
                None => Server::Fluid(Fluid::new(Meter::new(rates), config.service)),
            },
        };
        Self { server, queue, head: None, ready: VecDeque::new(), latest: Time::ZERO }
    }

    /// Moves all departures up to `now` to the ready queue.
    #[inline]
    fn run(&mut self, now: Time) {
        self.latest = self.latest.max(now);
        match &mut self.server {
            Server::Fluid(fluid) => {
                while let Some(head) = self.head.filter(|head| head.at <= now) {
                    self.ready.push_back(Exit::delivered(head.at, head.packet));
                    self.head = fluid.start(head.at, &mut self.queue, &mut self.ready);
                }
            }
            Server::Slots(slots) => {
                while (self.head.is_some() || !self.queue.is_empty()) && slots.next_at() <= now {
                    let (at, budget) = (slots.next_at(), slots.budget());
                    spend(at, budget, Bytes::ZERO, &mut self.head, &mut self.queue, &mut self.ready);
                    slots.advance();
                }
            }
            Server::Trace(reader) => {
                while (self.head.is_some() || !self.queue.is_empty()) && reader.next_at() <= now {
                    let at = reader.next_at();
                    spend(at, reader.budget, HEADER, &mut self.head, &mut self.queue, &mut self.ready);
                    reader.advance();
                }
            }
        }
    }

    /// The rate to which the queue's limit relates, as of the latest call.
    #[inline]
    fn nominal(&mut self) -> Bitrate {
        match &mut self.server {
            Server::Fluid(fluid) => {
                fluid.meter.segment(self.latest);
                fluid.meter.nominal()
            }
            Server::Slots(slots) => slots.nominal(),
            Server::Trace(reader) => reader.trace.mean().mul_f64(reader.scale),
        }
    }

    fn take_in(&mut self, now: Time, packet: Packet) -> Result<(), DropReason> {
        if let Server::Fluid(fluid) = &self.server
            && !fluid.can_ever_send(&packet)
        {
            return Err(DropReason::TooLarge);
        }
        // An idle wire takes the packet at once, regardless of the queue's limit.
        let waits = self.head.is_some() || !matches!(self.server, Server::Fluid(_));
        if waits {
            let rate = self.nominal();
            let head = self.head.filter(|_| self.server.keeps_head_waiting()).map(|head| head.packet.size);
            if !self.queue.has_room(&packet, head, rate) {
                return Err(DropReason::QueueFull);
            }
        }
        self.queue.push(now, packet)
    }
}

/// One opportunity of a slotted server: `budget` bytes, splitting packets where it ends.
fn spend(
    at: Time,
    budget: Bytes,
    header: Bytes,
    head: &mut Option<Head>,
    queue: &mut Queue,
    ready: &mut VecDeque<Exit>,
) {
    let mut budget = budget;
    while budget > Bytes::ZERO {
        let Some(mut sending) = head.take().or_else(|| {
            let packet = queue.pop(at, ready)?;
            Some(Head { packet, at, left: packet.size + header })
        }) else {
            return;
        };
        let now = sending.left.min(budget);
        sending.left = sending.left.saturating_sub(now);
        budget = budget.saturating_sub(now);
        if sending.left == Bytes::ZERO {
            ready.push_back(Exit::delivered(at, sending.packet));
        } else {
            *head = Some(sending);
        }
    }
}

impl Hop for Bottleneck {
    #[inline]
    fn offer(&mut self, now: Time, packet: Packet) {
        self.run(now);
        if let Server::Fluid(fluid) = &mut self.server
            && self.head.is_none()
            && self.queue.is_indifferent()
            && fluid.can_ever_send(&packet)
        {
            // The queue is empty, and no policy needs to see the packet.
            self.head = Some(fluid.begin(now, packet));
            return;
        }
        if self.head.is_none() && self.queue.is_empty() {
            // Opportunities up to now passed unused.
            match &mut self.server {
                Server::Fluid(_) => {}
                Server::Slots(slots) => slots.skip(now),
                Server::Trace(reader) => reader.skip(now),
            }
        }
        if let Err(reason) = self.take_in(now, packet) {
            self.ready.push_back(Exit::dropped(now, packet, reason));
            return;
        }
        if let Server::Fluid(fluid) = &mut self.server
            && self.head.is_none()
        {
            self.head = fluid.start(now, &mut self.queue, &mut self.ready);
        }
    }

    #[inline]
    fn poll(&mut self, now: Time) -> Option<Exit> {
        if self.ready.is_empty() {
            if let Server::Fluid(fluid) = &mut self.server {
                // The fast path of almost every packet: from the wire straight to the caller.
                self.latest = self.latest.max(now);
                let Head { at, packet, .. } = self.head.filter(|head| head.at <= now)?;
                self.head = fluid.start(at, &mut self.queue, &mut self.ready);
                return Some(Exit::delivered(at, packet));
            }
            self.run(now);
        }
        self.ready.pop_front_if(|exit| exit.at <= now)
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Time> {
        if let Some(exit) = self.ready.front() {
            return Some(exit.at);
        }
        match &self.server {
            Server::Fluid(_) => self.head.map(|head| head.at),
            _ if self.head.is_none() && self.queue.is_empty() => None,
            Server::Slots(slots) => Some(slots.next_at()),
            Server::Trace(reader) => Some(reader.next_at()),
        }
    }

    fn backlog(&self) -> Backlog {
        let bytes = self.queue.bytes();
        let rate = self.capacity(self.latest).unwrap_or(Bitrate::ZERO);
        let sending = match &self.server {
            Server::Fluid(_) => self.head.map_or(Span::ZERO, |head| head.at.saturating_since(self.latest)),
            _ => self.head.map_or(Span::ZERO, |head| rate.time_to_send(head.left)),
        };
        let waiting = if bytes == Bytes::ZERO { Span::ZERO } else { rate.time_to_send(bytes) };
        Backlog { bytes, packets: self.queue.len() as u64, delay: sending + waiting }
    }

    fn capacity(&self, now: Time) -> Option<Bitrate> {
        Some(match &self.server {
            Server::Fluid(fluid) => fluid.meter.rates().at(now),
            Server::Slots(slots) => slots.rates().at(now),
            Server::Trace(reader) => reader.trace.around(now).mul_f64(reader.scale),
        })
    }
}

/// A server whose capacity flows evenly.
#[derive(Clone, Debug)]
struct Fluid {
    meter: Meter,
    service: Service,
    /// Maximum credit accumulated while idle.
    fullest: Work,
    /// Credit for the next packet; a negative value is a debt. A wire keeps only fractions of a nanosecond.
    credit: Work,
    /// When `credit` was true.
    at: Time,
}

impl Fluid {
    fn new(meter: Meter, service: Service) -> Self {
        let fullest = work_of(service.burst());
        Self { meter, service, fullest, credit: fullest, at: Time::ZERO }
    }

    fn can_ever_send(&self, packet: &Packet) -> bool {
        match self.service {
            Service::TokenBucket { burst } => packet.size <= burst,
            Service::Serial | Service::Borrowing { .. } => true,
        }
    }

    /// The packet that is sent from `now` on, if one waits.
    #[inline]
    fn start(&mut self, now: Time, queue: &mut Queue, dropped: &mut VecDeque<Exit>) -> Option<Head> {
        queue.pop(now, dropped).map(|packet| self.begin(now, packet))
    }

    /// The packet is next, at `now`.
    #[inline]
    fn begin(&mut self, now: Time, mut packet: Packet) -> Head {
        let work = work_of(packet.size);
        if now > self.at {
            let earned = self.meter.done(self.at, now, self.fullest - self.credit);
            // A wire's fraction of a nanosecond is gone too.
            self.credit = (self.credit + earned).min(self.fullest);
        }
        let needed = if matches!(self.service, Service::Borrowing { .. }) { 0 } else { work };
        let (at, beyond) = if self.credit >= needed {
            (now, self.credit - needed)
        } else {
            self.meter.finish(now, needed - self.credit)
        };
        self.credit = (beyond + needed - work).max(-MAX_WORK);
        self.at = at;
        if self.service != Service::Serial {
            packet.queued += at - now;
        }
        Head { packet, at, left: Bytes::ZERO }
    }
}
