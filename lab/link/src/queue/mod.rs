//! The queue in front of a bottleneck, and its policy of dropping and marking.

mod codel;
mod l4s;
mod pie;

use std::collections::VecDeque;

use nearlight_units::{Bitrate, Bytes, Span, Time};

pub use codel::CoDel;
pub use l4s::{Ramp, Step};
pub use pie::Pie;

use crate::hop::{DropReason, Ecn, Exit, Packet};
use crate::random::Random;

/// The packet size for which active queues are dimensioned.
const FULL_PACKET: Bytes = Bytes::new(1_500);

/// The queue limit. A packet in transmission no longer counts; one that waits for tokens does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Bytes(Bytes),
    Packets(u64),
    /// The bytes that the current capacity carries in this time. For traces this is the mean capacity, since a radio's buffer has a fixed size. In
    /// front of a token bucket, the burst is added, as with tc-tbf's `latency`.
    Time(Span),
    Unlimited,
}

impl Limit {
    /// RFC 8867 section 4.3: bottleneck queue size.
    pub const DEFAULT: Self = Self::Time(Span::from_millis(300));
}

/// The policy applied in addition to the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// First in, first out, dropped when full.
    DropTail,
    CoDel(CoDel),
    Pie(Pie),
    L4sStep(Step),
    L4sRamp(Ramp),
}

/// A queue's limit and policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueConfig {
    pub limit: Limit,
    pub policy: Policy,
}

impl QueueConfig {
    /// First in, first out, dropped when full.
    #[must_use]
    pub const fn drop_tail(limit: Limit) -> Self {
        Self { limit, policy: Policy::DropTail }
    }
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self::drop_tail(Limit::DEFAULT)
    }
}

/// A policy's decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    /// Signal congestion: by a mark where the packet can carry one.
    Signal,
}

#[derive(Clone, Debug)]
enum State {
    DropTail,
    CoDel(codel::State),
    Pie(pie::State),
    L4sStep(Step),
    L4sRamp(Ramp, Random),
}

#[derive(Clone, Copy, Debug)]
struct QueuedPacket {
    since: Time,
    packet: Packet,
}

/// The queued packets.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    waiting: VecDeque<QueuedPacket>,
    bytes: Bytes,
    limit: Limit,
    /// Added to a limit given as time.
    burst: Bytes,
    /// `limit` in bytes at the rate it was computed for.
    converted: (Bitrate, Bytes),
    state: State,
}

impl Queue {
    pub(crate) fn new(config: QueueConfig, burst: Bytes, mut random: Random) -> Self {
        let state = match config.policy {
            Policy::DropTail => State::DropTail,
            Policy::CoDel(codel) => State::CoDel(codel::State::new(codel)),
            Policy::Pie(pie) => State::Pie(pie::State::new(pie, Random::new(random.seed()))),
            Policy::L4sStep(step) => State::L4sStep(step),
            Policy::L4sRamp(ramp) => State::L4sRamp(ramp, Random::new(random.seed())),
        };
        let converted = (Bitrate::ZERO, Bytes::ZERO);
        Self { waiting: VecDeque::new(), bytes: Bytes::ZERO, limit: config.limit, burst, converted, state }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A packet that does not have to wait may bypass the policy.
    #[inline]
    pub(crate) fn is_indifferent(&self) -> bool {
        matches!(self.state, State::DropTail | State::L4sStep(_))
    }

    /// Returns whether `packet` still fits, at the link's `rate`, while `head` waits in front of the queue.
    #[inline]
    pub(crate) fn has_room(&mut self, packet: &Packet, head: Option<Bytes>, rate: Bitrate) -> bool {
        let bytes = self.bytes + head.unwrap_or(Bytes::ZERO) + packet.size;
        match self.limit {
            Limit::Unlimited => true,
            Limit::Packets(most) => (self.waiting.len() as u64 + u64::from(head.is_some())) < most,
            Limit::Bytes(most) => bytes <= most,
            Limit::Time(most) => {
                if self.converted.0 != rate {
                    self.converted = (rate, rate.bytes_in(most) + self.burst);
                }
                bytes <= self.converted.1
            }
        }
    }

    /// Takes the packet in, unless the policy drops on arrival.
    #[inline]
    pub(crate) fn push(&mut self, now: Time, mut packet: Packet) -> Result<(), DropReason> {
        let bytes = self.bytes;
        if let State::Pie(pie) = &mut self.state
            && pie.on_arrival(now, bytes, &packet) == Verdict::Signal
            && !mark(&mut packet, pie.may_mark())
        {
            return Err(DropReason::Aqm);
        }
        self.bytes += packet.size;
        self.waiting.push_back(QueuedPacket { since: now, packet });
        Ok(())
    }

    /// The next packet to send at `now`; packets that the policy drops on the way are passed to `dropped`.
    #[inline]
    pub(crate) fn pop(&mut self, now: Time, dropped: &mut VecDeque<Exit>) -> Option<Packet> {
        loop {
            let Some(mut packet) = self.take(now) else {
                if let State::CoDel(codel) = &mut self.state {
                    codel.on_empty();
                }
                return None;
            };
            let left = (self.bytes, self.waiting.is_empty());
            let sojourn = packet.1;
            let (verdict, may_mark) = match &mut self.state {
                State::DropTail => (Verdict::Pass, false),
                State::CoDel(codel) => (codel.on_departure(now, sojourn, left.0), true),
                State::Pie(pie) => {
                    pie.on_departure(now, sojourn, left.1);
                    (Verdict::Pass, false)
                }
                State::L4sStep(step) => (step.verdict(&packet.0, sojourn), true),
                State::L4sRamp(ramp, random) => (ramp.verdict(&packet.0, sojourn, random), true),
            };
            if verdict == Verdict::Pass || mark(&mut packet.0, may_mark) {
                return Some(packet.0);
            }
            dropped.push_back(Exit::dropped(now, packet.0, DropReason::Aqm));
        }
    }

    /// The packet at the head and how long it waited here.
    #[inline]
    fn take(&mut self, now: Time) -> Option<(Packet, Span)> {
        let QueuedPacket { since, mut packet } = self.waiting.pop_front()?;
        self.bytes = self.bytes.saturating_sub(packet.size);
        let sojourn = now - since;
        packet.queued += sojourn;
        Some((packet, sojourn))
    }
}

/// Marks the packet if it is ECN-capable and the policy signals; returns whether the packet is kept.
fn mark(packet: &mut Packet, wanted: bool) -> bool {
    let marks = wanted && packet.ecn.is_capable();
    if marks {
        packet.ecn = Ecn::Ce;
    }
    marks
}
