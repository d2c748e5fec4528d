//! A TCP-like bulk transfer without sockets: sender and receiver as state machines, with real loss recovery.
//!
//! Segments are numbered from 0 and retransmitted whole. The sender keeps a selective-acknowledgement scoreboard, finds losses by time (RACK-TLP, RFC
//! 8985) and, where everything is silent, by retransmission time-out (RFC 6298); the receiver delivers in order and delays acknowledgements. A
//! [`crate::law::CongestionLaw`] limits what may be in flight.
//!
//! # Departures
//! * Retransmission time-outs have Linux's floor of 200 ms above the smoothed round trip rather than RFC 6298's second.
//! * At a time-out everything in flight counts as lost (RFC 6675); RFC 8985 would keep what was sent within the last round trip.
//! * An acknowledgement counts for a retransmission from half of the lowest round trip on; time stamps would tell exactly.
//! * Reductions found to be spurious are not undone (no Eifel, no F-RTO); duplicates do widen the reordering window.
//! * Left out: handshake, closing, the window field (the receiver's buffer has a fixed size and its application reads at once),
//!   Nagle's algorithm, congestion window validation after idle times.

mod connection;
mod ranges;
mod receiver;
mod round_trip;
mod scoreboard;
mod sender;

pub use connection::Connection;
pub use receiver::Receiver;
pub use sender::{Sender, SenderCounters};

use nearlight_units::{Bytes, Span};

/// IP, TCP and time stamps: 20 + 20 + 12 bytes (RFC 791, 9293, 7323).
pub const HEADERS: Bytes = Bytes::new(52);

/// Selective-acknowledgement blocks that fit beside time stamps (RFC 2018, section 3).
pub const MAX_SACK_BLOCKS: usize = 3;

/// The largest receive window in packets: bounds the memory of both ends. Guess: 10 Gb/s over 30 ms.
const MAX_WINDOW: u64 = 1 << 15;

/// A data segment on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Counted from 0 in the order of the data.
    pub number: u64,
    /// Size on IP.
    pub size: Bytes,
    pub retransmission: bool,
}

/// Segments from `start` up to but not including `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    pub start: u64,
    pub end: u64,
}

impl Block {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }
}

/// An acknowledgement on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// All segments before this one have arrived.
    pub next: u64,
    /// Blocks that arrived beyond, the newest first; unused ones are empty.
    pub blocks: [Block; MAX_SACK_BLOCKS],
    /// A segment that arrived again (RFC 2883).
    pub duplicate: Option<u64>,
    /// Congestion marks arrived since the last acknowledgement.
    pub marked: bool,
}

impl Ack {
    /// Returns the size on IP: headers and the option of RFC 2018, section 3.
    #[must_use]
    pub fn size(&self) -> Bytes {
        let blocks =
            self.blocks.iter().filter(|block| !block.is_empty()).count() + usize::from(self.duplicate.is_some());
        let option = if blocks == 0 { 0 } else { 4 + 8 * blocks.min(MAX_SACK_BLOCKS) as u64 };
        HEADERS + Bytes::new(option)
    }
}

/// A transfer's fixed properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// A full segment on IP.
    pub packet: Bytes,
    /// Receive window: nothing beyond it is sent.
    pub receive_window: Bytes,
    /// Length of the data without headers. None never ends.
    pub length: Option<Bytes>,
    /// Segments ask for congestion marks instead of drops (RFC 3168).
    pub ecn: bool,
    /// Longest time that the receiver waits for a second segment before it acknowledges the first (RFC 5681: at most 500 ms; Linux waits for 40 ms).
    pub ack_delay: Span,
}

impl Default for Config {
    /// An endless transfer over Ethernet with Linux's default buffer.
    fn default() -> Self {
        Self {
            packet: Bytes::new(1_500),
            receive_window: Bytes::new(6 * 1_024 * 1_024),
            length: None,
            ecn: false,
            ack_delay: Span::from_millis(40),
        }
    }
}

impl Config {
    /// The nearest that works: packets that hold data, a window that bounds memory.
    #[must_use]
    pub fn in_order(self) -> Self {
        let packet = Bytes::new(self.packet.get().clamp(HEADERS.get() + 1, 65_535));
        let ack_delay = self.ack_delay.clamp(Span::ZERO, Span::from_millis(500));
        Self { packet, ack_delay, ..self }
    }

    /// Data in a full segment.
    fn payload(&self) -> u64 {
        self.packet.get() - HEADERS.get()
    }

    /// Segments of the whole transfer.
    fn segments(&self) -> u64 {
        self.length.map_or(u64::MAX, |length| length.get().div_ceil(self.payload()))
    }

    /// Segments that may be beyond the first unacknowledged one.
    fn window(&self) -> u64 {
        (self.receive_window.get() / self.packet.get()).clamp(2, MAX_WINDOW)
    }

    /// Data in all segments before this one.
    fn data_before(&self, number: u64) -> Bytes {
        let data = Bytes::new(number.saturating_mul(self.payload()));
        self.length.map_or(data, |length| length.min(data))
    }

    /// Returns the size of a segment on IP. Only the last one may be short.
    fn size(&self, number: u64) -> Bytes {
        let full = self.payload();
        let left = self.length.map_or(full, |length| length.get().saturating_sub(number.saturating_mul(full)));
        HEADERS + Bytes::new(left.min(full))
    }
}
