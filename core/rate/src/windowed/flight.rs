//! Packets in flight and the path's delivery rate (draft-cheng-iccrg-delivery-rate-estimation-02), for a sender that learns of
//! arrivals once per feedback message rather than packet by packet.

use std::collections::VecDeque;

use nearlight_units::{Bytes, PacketSeq, Span, Time};
use nearlight_window::{DeliveryRate, SentPacket as Sent};

use crate::{MAX_PACKETS, SentPacket};

#[derive(Clone, Copy, Debug)]
struct Record {
    seq: PacketSeq,
    size: Bytes,
    sent_at: Time,
    delivered: u64,      // P.delivered
    delivered_at: Time,  // P.delivered_time
    first_sent_at: Time, // P.first_sent_time
    /// Bytes in flight when it left, itself included.
    in_flight: u64,
    /// Bytes missing in all when it left.
    lost: u64,
    app_limited: bool,
    reported: bool,
}

impl Record {
    /// The packet as the law sees it, when this many bytes are missing in all.
    fn sent(&self, lost: u64) -> Sent {
        Sent {
            sent_at: self.sent_at,
            size: self.size,
            in_flight: Bytes::new(self.in_flight),
            lost_since: Bytes::new(lost.saturating_sub(self.lost)),
            app_limited: self.app_limited,
        }
    }
}

/// A packet sent this long before one that has arrived will not be reported any more. Guess: ten intervals of slow feedback.
const MAX_UNREPORTED_TIME: Span = Span::from_secs(1);

/// The result of one arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    pub packet: Sent,
    pub in_flight_before: Bytes,
    /// All bytes that had arrived when the packet was sent.
    pub delivered_when_sent: Bytes,
    /// The delivery rate. None if the sample spans no time.
    pub delivery: Option<DeliveryRate>,
}

/// The packets in flight.
#[derive(Clone, Debug, Default)]
pub struct Flight {
    records: VecDeque<Record>,
    under_way: u64,
    lost: u64,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// Packets sent before this many bytes were delivered count as limited by the application; 0 for none.
    app_limited_until: u64,
}

impl Flight {
    /// Records a sent packet. `app_limited` says that it was the last one available, with room for more.
    pub fn on_packet_sent(&mut self, packet: &SentPacket, app_limited: bool) {
        if self.records.len() == MAX_PACKETS
            && let Some(oldest) = self.records.pop_front()
        {
            self.leave(&oldest);
        }
        if self.under_way == 0 {
            self.first_sent_at = packet.sent_at;
            self.delivered_at = packet.sent_at;
        }
        self.under_way += packet.size.get();
        self.records.push_back(Record {
            seq: packet.seq,
            size: packet.size,
            sent_at: packet.sent_at,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            in_flight: self.under_way,
            lost: self.lost,
            app_limited: self.app_limited_until > 0,
            reported: false,
        });
        if app_limited {
            self.app_limited_until = (self.delivered + self.under_way).max(1);
        }
    }

    /// Records a packet's arrival, whose acknowledgement would be back at `back_at` by the sender's clock. Returns None for packets that
    /// are not in flight.
    pub fn on_arrived(&mut self, seq: PacketSeq, back_at: Time) -> Option<Acked> {
        let in_flight_before = Bytes::new(self.under_way);
        let record = self.take(seq)?;
        while let Some(oldest) =
            self.records.front().filter(|oldest| record.sent_at - oldest.sent_at > MAX_UNREPORTED_TIME).copied()
        {
            self.records.pop_front();
            self.leave(&oldest);
        }
        self.delivered += record.size.get();
        self.delivered_at = self.delivered_at.max(back_at);
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let sending = record.sent_at - record.first_sent_at;
        let arriving = back_at - record.delivered_at;
        let interval = sending.max(arriving);
        self.first_sent_at = record.sent_at;
        let delivered = Bytes::new(self.delivered - record.delivered);
        Some(Acked {
            packet: record.sent(self.lost),
            in_flight_before,
            delivered_when_sent: Bytes::new(record.delivered),
            delivery: (interval > Span::ZERO)
                .then(|| DeliveryRate { rate: delivered.over(interval), app_limited: record.app_limited }),
        })
    }

    /// Records a missing packet. Returns None if it is not in flight.
    pub fn on_missing(&mut self, seq: PacketSeq) -> Option<Sent> {
        let record = self.take(seq)?;
        self.lost = self.lost.saturating_add(record.size.get());
        Some(record.sent(self.lost))
    }

    /// Clears the record: nothing of it will be reported any more. Returns the bytes that were in flight.
    pub fn forget(&mut self) -> Bytes {
        self.records.clear();
        Bytes::new(std::mem::take(&mut self.under_way))
    }

    #[must_use]
    pub fn bytes(&self) -> Bytes {
        Bytes::new(self.under_way)
    }

    /// Bytes that have arrived since the start.
    #[must_use]
    pub fn delivered(&self) -> Bytes {
        Bytes::new(self.delivered)
    }

    /// The newest packet that was sent and may still be reported.
    #[must_use]
    pub fn newest(&self) -> Option<PacketSeq> {
        self.records.back().map(|record| record.seq)
    }

    /// Number of packets in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.records.len()
    }

    /// Removes a packet's record. Packets leave memory in order: those reported out of order wait for their predecessors.
    fn take(&mut self, seq: PacketSeq) -> Option<Record> {
        let index = match self.records.front() {
            Some(first) if first.seq == seq => 0,
            _ => self.records.binary_search_by_key(&seq, |record| record.seq).ok()?,
        };
        let record = &mut self.records[index];
        if std::mem::replace(&mut record.reported, true) {
            return None;
        }
        let taken = *record;
        self.under_way = self.under_way.saturating_sub(taken.size.get());
        while self.records.front().is_some_and(|first| first.reported) {
            self.records.pop_front();
        }
        Some(taken)
    }

    fn leave(&mut self, record: &Record) {
        if !record.reported {
            self.under_way = self.under_way.saturating_sub(record.size.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Bytes = Bytes::new(1_250);

    fn packet(seq: u32, micros: u64) -> SentPacket {
        SentPacket {
            seq: PacketSeq(seq),
            sent_at: Time::from_micros(micros),
            size: PACKET,
            frame: None,
            probe: None,
            app_limited: false,
        }
    }

    #[test]
    fn the_rate_is_the_slower_of_sending_and_the_path() {
        // From packet to packet in microseconds, as sent and through the bottleneck; packets of 10,000 bits, a way of 20 ms and back.
        for (sent, service, mbps) in [(500, 100, 20.0), (500, 500, 20.0), (100, 500, 20.0), (200, 1_000, 10.0)] {
            let mut flight = Flight::default();
            let (mut back_at, mut reported, mut last) = (0, 0_u32, None);
            for seq in 0..2_000_u32 {
                let now = u64::from(seq) * sent;
                loop {
                    let next = (back_at + service).max(u64::from(reported) * sent + 20_000);
                    if next > now {
                        break;
                    }
                    last = flight.on_arrived(PacketSeq(reported), Time::from_micros(next)).expect("sent").delivery;
                    (back_at, reported) = (next, reported + 1);
                }
                flight.on_packet_sent(&packet(seq, now), false);
            }
            let delivery = last.expect("measured");
            let found = delivery.rate.as_mbps_f64();
            assert!((found - mbps).abs() < 1e-6 && !delivery.app_limited, "{sent} {service}: {found}");
        }
    }

    #[test]
    fn what_follows_an_application_limited_packet_is_limited_until_it_has_arrived() {
        let mut flight = Flight::default();
        flight.on_packet_sent(&packet(0, 0), true);
        flight.on_packet_sent(&packet(1, 10), false);
        let limited = |acked: Option<Acked>| acked.expect("sent").delivery.expect("measured").app_limited;
        assert!(!limited(flight.on_arrived(PacketSeq(0), Time::from_millis(20))));
        assert!(limited(flight.on_arrived(PacketSeq(1), Time::from_millis(21))));
        flight.on_packet_sent(&packet(2, 22_000), false);
        assert!(!limited(flight.on_arrived(PacketSeq(2), Time::from_millis(42))));
    }

    #[test]
    fn packets_are_reported_once_in_any_order_and_memory_is_bounded() {
        let mut flight = Flight::default();
        (0..10).for_each(|seq| flight.on_packet_sent(&packet(seq, 0), false));
        let at = Time::from_millis(20);
        assert!(flight.on_arrived(PacketSeq(5), at).is_some() && flight.on_arrived(PacketSeq(5), at).is_none());
        assert_eq!(flight.on_missing(PacketSeq(0)).map(|packet| packet.size), Some(PACKET));
        assert_eq!((flight.on_missing(PacketSeq(5)), flight.on_missing(PacketSeq(77))), (None, None));
        assert_eq!((flight.bytes(), flight.held()), (Bytes::new(8 * 1_250), 9));
        (1..5).for_each(|seq| assert!(flight.on_arrived(PacketSeq(seq), at).is_some()));
        assert_eq!((flight.held(), flight.delivered()), (4, Bytes::new(5 * 1_250)));
        (10..100_000).for_each(|seq| flight.on_packet_sent(&packet(seq, 0), false));
        assert_eq!((flight.held(), flight.bytes()), (MAX_PACKETS, Bytes::new(MAX_PACKETS as u64 * 1_250)));
        assert_eq!((flight.forget(), flight.bytes()), (Bytes::new(MAX_PACKETS as u64 * 1_250), Bytes::ZERO));
    }
}
