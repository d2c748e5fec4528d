//! Bytes that were sent and not yet reported.

use std::collections::VecDeque;

use nearlight_units::{Bytes, PacketSeq, Span, Time};

use crate::{MAX_PACKETS, SentPacket};

/// Counts bytes in flight. Packets up to the highest that feedback names have left the path, whether they arrived or not.
#[derive(Clone, Debug, Default)]
pub struct InFlight {
    packets: VecDeque<(PacketSeq, Bytes)>,
    sum: Bytes,
}

impl InFlight {
    pub fn on_packet_sent(&mut self, packet: &SentPacket) {
        if self.packets.len() == MAX_PACKETS
            && let Some((_, size)) = self.packets.pop_front()
        {
            self.sum = self.sum.saturating_sub(size);
        }
        self.packets.push_back((packet.seq, packet.size));
        self.sum += packet.size;
    }

    /// Handles feedback on packets up to this one. Returns the number of bytes that left with it.
    pub fn on_reported(&mut self, highest: PacketSeq) -> Bytes {
        let before = self.sum;
        while let Some((seq, size)) = self.packets.front().copied()
            && seq <= highest
        {
            self.packets.pop_front();
            self.sum = self.sum.saturating_sub(size);
        }
        before.saturating_sub(self.sum)
    }

    /// Clears the record: no further report is expected.
    pub fn forget(&mut self) {
        self.packets.clear();
        self.sum = Bytes::ZERO;
    }

    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.sum
    }

    /// Number of packets in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.packets.len()
    }
}

/// Tracks the maximum of bytes in flight over the last one to two intervals.
#[derive(Clone, Debug, Default)]
pub struct MaxInFlight {
    since: Time,
    before: Bytes,
    now: Bytes,
}

impl MaxInFlight {
    /// Records the bytes now in flight.
    pub fn on_bytes(&mut self, now: Time, bytes: Bytes, interval: Span) {
        if now.saturating_since(self.since) > interval {
            self.since = now;
            self.before = std::mem::take(&mut self.now);
        }
        self.now = self.now.max(bytes);
    }

    #[must_use]
    pub fn most(&self) -> Bytes {
        self.now.max(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_in_order_and_memory_is_bounded() {
        let packet = |seq: u32| SentPacket {
            seq: PacketSeq(seq),
            sent_at: Time::ZERO,
            size: Bytes::new(1_000),
            frame: None,
            probe: None,
            app_limited: false,
        };
        let mut in_flight = InFlight::default();
        (0..10).for_each(|seq| in_flight.on_packet_sent(&packet(seq)));
        assert_eq!((in_flight.on_reported(PacketSeq(3)), in_flight.bytes()), (Bytes::new(4_000), Bytes::new(6_000)));
        assert_eq!(in_flight.on_reported(PacketSeq(2)), Bytes::ZERO);
        (10..100_000).for_each(|seq| in_flight.on_packet_sent(&packet(seq)));
        assert_eq!((in_flight.held(), in_flight.bytes()), (MAX_PACKETS, Bytes::new(65_536_000)));
        in_flight.forget();
        assert_eq!((in_flight.held(), in_flight.bytes()), (0, Bytes::ZERO));
    }
}
