//! The interface of a competing flow to the driver of a shared bottleneck.

use nearlight_units::{Bitrate, Bytes, Span, Time};

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// In the direction of the data.
    Forward,
    /// In the direction of the acknowledgements.
    Back,
}

/// A packet that leaves now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The flow's handle, to be given back with the [`Arrival`].
    pub id: u64,
    pub direction: Direction,
    /// Size on IP.
    pub size: Bytes,
    /// Queues may mark it instead of dropping it (ECT(0), RFC 3168).
    pub ecn: bool,
}

/// A packet that arrived at the end its direction leads to. Dropped packets are never mentioned; a packet may arrive twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub id: u64,
    pub direction: Direction,
    pub size: Bytes,
    /// A queue marked it (CE).
    pub marked: bool,
}

/// Why a flow wants to be woken. Early calls are harmless; a late one delays what the reason names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowWake {
    /// The flow begins.
    Begin,
    /// The pacing rate, or a constant bit rate, lets a packet go.
    Pace,
    /// A segment that was overtaken counts as lost.
    Reordered,
    /// Silence: the end of the flight is probed.
    TailProbe,
    /// Silence: everything counts as lost.
    Timeout,
    /// An acknowledgement has been delayed for long enough.
    DelayedAck,
    /// A pause between two files is over.
    NextFile,
}

/// The sooner of two wakes, the first where they are at the same time. By hand: it is asked for with every packet, and an iterator over
/// wakes goes through memory.
#[inline]
pub(crate) fn sooner(one: Option<(Time, FlowWake)>, other: Option<(Time, FlowWake)>) -> Option<(Time, FlowWake)> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other.0 < one.0 { other } else { one }),
        (one, other) => one.or(other),
    }
}

/// When a flow sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub begins: Time,
    /// Nothing leaves from then on, acknowledgements included.
    pub ends: Time,
}

impl Default for Schedule {
    /// Always.
    fn default() -> Self {
        Self { begins: Time::ZERO, ends: Time::FAR_FUTURE }
    }
}

impl Schedule {
    #[must_use]
    pub fn contains(&self, now: Time) -> bool {
        self.begins <= now && now < self.ends
    }
}

/// A flow's state and counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Data handed to the receiving application, without headers.
    pub delivered: Bytes,
    /// Data packets that left, retransmissions included.
    pub packets: u64,
    pub retransmissions: u64,
    pub timeouts: u64,
    /// Responses to congestion.
    pub reductions: u64,
    /// Files that arrived whole.
    pub completed: u64,
    pub smoothed_round_trip: Option<Span>,
    /// Congestion window; zero if unlimited.
    pub window: Bytes,
    pub in_flight: Bytes,
    pub pacing: Option<Bitrate>,
}

impl Statistics {
    /// The rate of data delivered since an earlier look, `span` ago.
    #[must_use]
    pub fn goodput_since(&self, earlier: &Self, span: Span) -> Bitrate {
        self.delivered.saturating_sub(earlier.delivered).over(span)
    }
}

/// A competing flow with both its ends.
///
/// Facts come with non-decreasing `now`. After each, call [`Traffic::poll_transmit`] until None, then ask
/// [`Traffic::poll_timeout`] for the next moment that matters; at that moment call [`Traffic::on_timeout`].
pub trait Traffic: Send {
    /// Returns a name for tables and logs.
    fn name(&self) -> &'static str;

    /// A packet came through.
    fn on_delivered(&mut self, now: Time, arrival: Arrival);

    /// Returns the next packet that leaves now.
    fn poll_transmit(&mut self, now: Time) -> Option<Transmit>;

    fn poll_timeout(&self) -> Option<(Time, FlowWake)>;

    fn on_timeout(&mut self, now: Time);

    fn statistics(&self) -> Statistics;
}
