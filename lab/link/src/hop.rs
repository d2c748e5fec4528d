//! The interface of every hop: packets in, exits out, in virtual time.

use nearlight_units::{Bitrate, Bytes, Span, Time};

/// The flow that a packet belongs to. The driver numbers flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// The two ECN bits of the IP header (RFC 3168; ECT(1) asks for L4S treatment, RFC 9331).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ecn {
    /// A queue can signal congestion only by dropping.
    #[default]
    NotCapable,
    Ect0,
    Ect1,
    /// Congestion was experienced.
    Ce,
}

impl Ecn {
    /// A queue may mark such a packet instead of dropping it.
    #[must_use]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotCapable)
    }
}

/// A packet as a path sees it, without its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The driver's handle.
    pub id: u64,
    pub flow: FlowId,
    /// The IP length on this link.
    pub size: Bytes,
    pub ecn: Ecn,
    /// A copy created by the network: its exit is in addition to those of offered packets.
    pub duplicate: bool,
    /// Number of times that this packet has been duplicated; see [`Packet::portion`].
    pub splits: u8,
    /// Time spent in queues so far, excluding its own transmission. Queueing hops add to it.
    pub queued: Span,
}

impl Packet {
    /// A packet as created by a sender, not ECN-capable.
    #[must_use]
    pub const fn new(id: u64, flow: FlowId, size: Bytes) -> Self {
        Self { id, flow, size, ecn: Ecn::NotCapable, duplicate: false, splits: 0, queued: Span::ZERO }
    }

    #[must_use]
    pub const fn with_ecn(self, ecn: Ecn) -> Self {
        Self { ecn, ..self }
    }

    /// The portions of an offered packet and its copies sum to this, which limits the number of copies of one packet.
    pub const PORTIONS: u64 = 64;

    /// A copy takes part of the original's portion, so that a driver that stores contents can tell when no copy is left.
    #[must_use]
    pub const fn portion(&self) -> u64 {
        Self::PORTIONS >> self.splits
    }

    /// The packet and its copy; no copy if the portion cannot be split further.
    pub(crate) fn split(self) -> Option<(Self, Self)> {
        let splits = self.splits + 1;
        (self.portion() > 1).then_some((Self { splits, ..self }, Self { splits, duplicate: true, ..self }))
    }
}

/// Why a packet did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// A queue was full.
    QueueFull,
    /// An active queue (`CoDel`, PIE, L4S) signalled congestion by dropping.
    Aqm,
    /// A policer found no tokens.
    Policed,
    /// Larger than a token bucket can ever pay for, so it could never leave.
    TooLarge,
    /// Random loss.
    Loss,
    /// The link was down.
    Outage,
    /// The last retry at the link layer failed (Wi-Fi).
    Retries,
}

impl DropReason {
    /// All reasons, in the order of [`DropReason::index`].
    pub const ALL: [Self; 7] =
        [Self::QueueFull, Self::Aqm, Self::Policed, Self::TooLarge, Self::Loss, Self::Outage, Self::Retries];

    /// Returns its index in [`DropReason::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// A short name for tables and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::Aqm => "aqm",
            Self::Policed => "policed",
            Self::TooLarge => "too-large",
            Self::Loss => "loss",
            Self::Outage => "outage",
            Self::Retries => "retries",
        }
    }
}

/// The outcome of a packet at a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketOutcome {
    Delivered,
    Dropped(DropReason),
}

/// A packet leaves a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// When it left, computed by the hop, independent of when it was polled.
    pub at: Time,
    pub packet: Packet,
    pub outcome: PacketOutcome,
}

impl Exit {
    #[must_use]
    pub const fn delivered(at: Time, packet: Packet) -> Self {
        Self { at, packet, outcome: PacketOutcome::Delivered }
    }

    #[must_use]
    pub const fn dropped(at: Time, packet: Packet, reason: DropReason) -> Self {
        Self { at, packet, outcome: PacketOutcome::Dropped(reason) }
    }

    #[must_use]
    pub const fn is_delivered(&self) -> bool {
        matches!(self.outcome, PacketOutcome::Delivered)
    }
}

/// The backlog in a hop's queues as of the latest call; packets in propagation do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    pub bytes: Bytes,
    pub packets: u64,
    /// Time that a packet offered now would wait, at the current capacity.
    pub delay: Span,
}

impl Backlog {
    /// Both queues, one after the other.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, packets: self.packets + other.packets, delay: self.delay + other.delay }
    }
}

/// One stage of a path, one direction.
///
/// Every packet that is offered comes out exactly once, delivered or dropped; duplicates come out in addition, marked as such.
/// Calls carry non-decreasing `now` (an earlier one counts as the latest so far), and exits come in the order of their `at`.
/// Exit times are computed from offers and seed alone: polling late, early or often changes no exit.
pub trait Hop: Send {
    /// The packet arrives at the hop.
    fn offer(&mut self, now: Time, packet: Packet);

    /// Returns the next exit with `at` up to `now`. Call until None.
    fn poll(&mut self, now: Time) -> Option<Exit>;

    /// Returns when to poll next. There may be no exit at that time, but no delivery comes earlier unless more is offered.
    fn poll_timeout(&self) -> Option<Time>;

    /// Returns the backlog as of the latest call.
    fn backlog(&self) -> Backlog {
        Backlog::default()
    }

    /// Returns the hop's capacity around `now`. None if it does not limit the rate.
    fn capacity(&self, now: Time) -> Option<Bitrate> {
        let _ = now;
        None
    }

    /// Returns the shortest time in which a packet passes. It lets a path wake its driver for deliveries only.
    fn min_delay(&self) -> Span {
        Span::ZERO
    }

    /// Returns the longest interval between polls in real time, even if the hop is empty: events other than offers happen in it, and would all have
    /// to be processed at the next offer. None if there are no such events.
    fn max_poll_interval(&self) -> Option<Span> {
        None
    }
}
