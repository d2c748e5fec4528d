//! What leaves: frames' symbols as the pacer lets them go, and padding where the controller probes.

use nearlight_events::Event;
use nearlight_pace::Class;
use nearlight_rate::SentPacket;
use nearlight_units::{Bytes, FrameId, Time};
use nearlight_wire::{SymbolFlags, SymbolHeader};

use super::{Departure, Sender, SenderStatistics};

impl Sender {
    pub(super) fn poll_media(&mut self, now: Time) -> Option<Departure> {
        let frame = self.frames.first_unsent()?;
        let size = frame.next_size()?;
        if !self.window.is_open(now, self.decision.window) {
            return None;
        }
        if !self.pacer.poll(now, size, Class::Media) {
            return None;
        }
        let departure = frame.next_departure(now, self.next_seq, &mut self.spares)?;
        let id = frame.id;
        if departure.piece.is_none() {
            self.statistics.coded_repairs += 1;
            self.on_redundant(size);
        }
        self.on_sent(now, size, Some(id));
        Some(departure)
    }

    pub(super) fn on_redundant(&mut self, size: Bytes) {
        self.statistics.redundant += size;
        self.redundant.on_redundant(size);
    }

    pub(super) fn poll_padding(&mut self, now: Time) -> Option<Departure> {
        let size = Bytes::new(self.config.max_datagram as u64);
        if self.probe.is_none() || !self.pacer.poll(now, size, Class::Padding) {
            return None;
        }
        let header = SymbolHeader {
            flags: SymbolFlags { key: false, retransmission: false, probe: true },
            reference_distance: 0,
            seq: self.next_seq,
            sent_at: now,
            frame: FrameId(0),
            index: 0,
            symbols: 0,
            frame_bytes: 0,
            deadline_after_send_us: 0,
        };
        let mut datagram = Vec::with_capacity(self.config.max_datagram);
        header.write(&mut datagram);
        datagram.resize(self.config.max_datagram, 0);
        self.statistics.probe_packets += 1;
        let seq = self.next_seq;
        self.on_sent(now, size, None);
        Some(Departure { seq, piece: None, repair: None, retransmission: false, bytes: datagram })
    }

    pub(super) fn on_sent(&mut self, now: Time, size: Bytes, frame: Option<FrameId>) {
        let packet = SentPacket {
            seq: self.next_seq,
            sent_at: now,
            size,
            frame,
            probe: self.probe,
            app_limited: self.pacer.queued() == Bytes::ZERO,
        };
        self.next_seq = self.next_seq.next();
        self.packets.on_sent(packet);
        if self.decision.window.is_some() {
            self.window.on_sent(&packet);
        }
        self.controller.on_packet_sent(&packet);
        self.recent.on_bytes(now, size);
        self.statistics.packets += 1;
        self.statistics.sent += size;
        if self.config.events && self.recent.is_due(now) {
            let SenderStatistics { packets, sent: bytes, repairs, coded_repairs, .. } = self.statistics;
            self.emit(now, || Event::Traffic { packets, bytes, repairs: repairs + coded_repairs });
        }
    }
}
