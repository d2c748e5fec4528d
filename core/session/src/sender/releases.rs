//! Releases packets: frames' pieces when the pacer allows, retransmissions, repairs, and padding for probes.

use crate::pace::Class;
use nearlight_events::Event;
use nearlight_rate::SentPacket;
use nearlight_units::{Bytes, PacketSeq, Time};

use super::{Framing, Sender, SenderStatistics};
use crate::packets::history::Content;
use crate::packets::release::{Payload, Release};

impl Sender {
    /// Returns the next packet to send, for a framer to write. Answers to pings and sound of our own protocol are datagrams of their own,
    /// see [`Sender::poll_transmit`].
    pub(super) fn poll_release(&mut self, now: Time) -> Option<Release<'_>> {
        let seq = self.next_seq;
        let content = self.poll_retransmission(now).or_else(|| self.poll_media(now)).or_else(|| self.poll_padding(now));
        let payload = self.payload_of(content?)?;
        Some(Release { seq, sent_at: now, payload })
    }

    /// Returns the next datagram of our own protocol to send. Call it until None.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Vec<u8>> {
        debug_assert_eq!(self.config.framing, Framing::Symbols);
        if let Some(datagram) = self.poll_non_media(now).or_else(|| self.poll_sound(now)) {
            return Some(datagram);
        }
        let mut symbols = std::mem::take(&mut self.symbols);
        let datagram = self.poll_release(now).map(|release| symbols.datagram(&release));
        self.symbols = symbols;
        datagram
    }

    fn poll_media(&mut self, now: Time) -> Option<Content> {
        let frame = self.frames.first_unsent()?;
        let size = frame.next_size()?;
        if !self.window.is_open(now, self.decision.window) {
            return None;
        }
        if !self.pacer.poll(now, size, Class::Media) {
            return None;
        }
        let content = frame.take_next(now)?;
        if let Content::Repair(..) = content {
            self.statistics.repairs += 1;
            self.on_redundant(size);
        }
        self.on_sent(now, size, content);
        Some(content)
    }

    fn poll_padding(&mut self, now: Time) -> Option<Content> {
        let size = Bytes::new(self.config.max_datagram as u64);
        if self.probe.is_none() || !self.pacer.poll(now, size, Class::Padding) {
            return None;
        }
        self.statistics.probe_packets += 1;
        self.on_sent(now, size, Content::Padding);
        Some(Content::Padding)
    }

    /// The payload of the packet that has just been released.
    fn payload_of(&self, content: Content) -> Option<Payload<'_>> {
        Some(match content {
            Content::Piece((id, index)) | Content::Retransmission((id, index)) => {
                let frame = self.frames.get(id)?;
                let retransmission = matches!(content, Content::Retransmission(_));
                Payload::Piece { frame: frame.pieces(), index, retransmission, bytes: frame.piece(index) }
            }
            Content::Repair(id, number) => {
                let frame = self.frames.get(id)?;
                let deadline = frame.deadline;
                let on_demand = self.retransmissions.on_demand(id, number);
                let (covered, bytes) = match (on_demand, &frame.planned) {
                    (Some(repair), _) => (std::slice::from_ref(&repair.covered), &repair.symbol[..]),
                    (None, planned) => {
                        let planned = planned.as_ref()?;
                        (planned.covered(), planned.symbol(number))
                    }
                };
                Payload::Repair { frame: id, deadline, number, on_demand: on_demand.is_some(), covered, bytes }
            }
            Content::Padding => Payload::Padding { size: self.config.max_datagram },
            Content::Other => return None,
        })
    }

    pub(super) fn on_redundant(&mut self, size: Bytes) {
        self.statistics.redundant += size;
        self.redundant.on_redundant(size);
    }

    /// Accounts for a packet that leaves now. Returns its number.
    pub(super) fn on_sent(&mut self, now: Time, size: Bytes, content: Content) -> PacketSeq {
        let seq = self.next_seq;
        let packet = SentPacket {
            seq,
            sent_at: now,
            size,
            frame: content.frame(),
            probe: self.probe,
            app_limited: self.pacer.queued() == Bytes::ZERO,
        };
        self.next_seq = seq.next();
        self.packets.on_sent(packet, content);
        if self.decision.window.is_some() {
            self.window.on_sent(&packet);
        }
        self.controller.on_packet_sent(&packet);
        self.recent.on_bytes(now, size);
        self.statistics.packets += 1;
        self.statistics.sent += size;
        if self.config.events && self.recent.is_due(now) {
            let SenderStatistics { packets, sent: bytes, retransmissions, repairs, .. } = self.statistics;
            self.emit(now, || Event::Traffic { packets, bytes, retransmissions, repairs });
        }
        self.update_probe(now);
        seq
    }
}
