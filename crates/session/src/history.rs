//! What was sent: frames for repairs, packets for matching feedback.

use std::collections::VecDeque;

use nearlight_rate::{PacketReport, SentPacket};
use nearlight_units::{Bytes, FrameId, PacketSeq, Span, Time};
use nearlight_wire::{Feedback, SYMBOL_HEADER_BYTES, SymbolFlags, SymbolHeader, symbol_range};

/// Frames that can be repaired: longer than a receiver waits for one at 240 frames a second.
const MAX_FRAMES: usize = 64;
/// Bytes that are kept for repairs, whatever the frames' size.
const MAX_BYTES: usize = 16 << 20;
/// Packets whose fate may still be reported: 0.8 s at 100 Mb/s.
const MAX_PACKETS: usize = 8_192;
/// A packet is lost when a report that leaves it out covers one sent this many later (RFC 9002 section 6.1.1).
const REORDER_PACKETS: u32 = 3;

/// A frame as it travels, and how much of it has left.
#[derive(Debug)]
pub(crate) struct KeptFrame {
    pub(crate) id: FrameId,
    pub(crate) key: bool,
    pub(crate) bytes: Vec<u8>,
    pub(crate) symbols: u16,
    /// Symbols below this index have left at least once.
    pub(crate) sent: u16,
    pub(crate) deadline: Time,
    pub(crate) render_started_at: Time,
    /// When the newest of its symbols left for the first time.
    pub(crate) last_sent_at: Time,
    resent_at: Vec<Option<Time>>,
}

impl KeptFrame {
    pub(crate) fn new(id: FrameId, key: bool, bytes: Vec<u8>, payload: usize, deadline: Time) -> Self {
        let symbols = bytes.len().div_ceil(payload).clamp(1, usize::from(u16::MAX)) as u16;
        Self {
            id,
            key,
            bytes,
            symbols,
            sent: 0,
            deadline,
            render_started_at: Time::ZERO,
            last_sent_at: Time::ZERO,
            resent_at: Vec::new(),
        }
    }

    /// On the wire.
    pub(crate) fn symbol_size(&self, index: u16) -> Bytes {
        let payload = symbol_range(self.bytes.len() as u32, self.symbols, index).len();
        Bytes::new((SYMBOL_HEADER_BYTES + payload) as u64)
    }

    /// All symbols that have not left yet.
    pub(crate) fn unsent(&self) -> Bytes {
        (self.sent..self.symbols).map(|index| self.symbol_size(index)).sum()
    }

    /// Notes a retransmission; false where the symbol was sent again within `hold`, so that the answer is still under way.
    pub(crate) fn on_resent(&mut self, now: Time, index: u16, hold: Span) -> bool {
        if self.resent_at.is_empty() {
            self.resent_at = vec![None; usize::from(self.symbols)];
        }
        let slot = &mut self.resent_at[usize::from(index)];
        if slot.is_some_and(|at| now - at < hold) {
            return false;
        }
        *slot = Some(now);
        true
    }

    /// The datagram that carries symbol `index`.
    pub(crate) fn datagram(&self, now: Time, seq: PacketSeq, index: u16, retransmission: bool) -> Vec<u8> {
        let deadline_after_send = self.deadline.saturating_since(now).as_micros();
        let header = SymbolHeader {
            flags: SymbolFlags { key: self.key, retransmission, probe: false },
            reference_distance: u8::from(!self.key),
            seq,
            sent_at: now,
            frame: self.id,
            index,
            symbols: self.symbols,
            frame_bytes: self.bytes.len() as u32,
            deadline_after_send_us: u32::try_from(deadline_after_send).unwrap_or(u32::MAX),
        };
        let range = symbol_range(header.frame_bytes, header.symbols, index);
        let mut datagram = Vec::with_capacity(SYMBOL_HEADER_BYTES + range.len());
        header.write(&mut datagram);
        datagram.extend_from_slice(&self.bytes[range]);
        datagram
    }
}

/// Frames in sending order; the oldest go first where room is short.
#[derive(Debug, Default)]
pub(crate) struct FrameHistory {
    frames: VecDeque<KeptFrame>,
    bytes: usize,
}

impl FrameHistory {
    /// Returns what had not left of the frames that made room.
    pub(crate) fn push(&mut self, frame: KeptFrame) -> Bytes {
        self.bytes += frame.bytes.len();
        self.frames.push_back(frame);
        let mut dropped = Bytes::ZERO;
        while self.frames.len() > MAX_FRAMES || (self.bytes > MAX_BYTES && self.frames.len() > 1) {
            if let Some(oldest) = self.frames.pop_front() {
                self.bytes -= oldest.bytes.len();
                dropped += oldest.unsent();
            }
        }
        dropped
    }

    pub(crate) fn get_mut(&mut self, id: FrameId) -> Option<&mut KeptFrame> {
        let first = self.frames.front()?.id.0;
        // Ids are consecutive, so a frame's place follows from its id.
        self.frames.get_mut(id.0.checked_sub(first)? as usize)
    }

    /// The first frame that has symbols left to send.
    pub(crate) fn first_unsent(&mut self) -> Option<&mut KeptFrame> {
        self.frames.iter_mut().find(|frame| frame.sent < frame.symbols)
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.frames.len(), self.bytes)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Unknown,
    Lost,
    Arrived,
}

/// Matches feedback with what was sent; every packet is reported as lost at most once and as arrived at most once.
#[derive(Debug, Default)]
pub(crate) struct PacketHistory {
    packets: VecDeque<(SentPacket, Fate)>,
    reports: Vec<PacketReport>,
    pub(crate) lost: u64,
}

/// What one feedback message said that was not known before.
pub(crate) struct Matched<'a> {
    pub(crate) reports: &'a [PacketReport],
    /// When the newest of them was sent and when it arrived (the latter on the client's clock).
    pub(crate) newest_arrival: Option<(Time, Time)>,
}

impl PacketHistory {
    pub(crate) fn on_sent(&mut self, packet: SentPacket) {
        self.packets.push_back((packet, Fate::Unknown));
        if self.packets.len() > MAX_PACKETS {
            self.packets.pop_front();
        }
    }

    pub(crate) fn on_feedback(&mut self, feedback: &Feedback) -> Matched<'_> {
        self.reports.clear();
        let mut newest_arrival = None;
        let Some(first) = self.packets.front().map(|(packet, _)| packet.seq.0) else {
            return Matched { reports: &[], newest_arrival };
        };
        let newest_covered = feedback.first.0.saturating_add(feedback.arrivals.len() as u32 - 1);
        for arrival in feedback.iter() {
            let Some(index) = arrival.seq.0.checked_sub(first) else { continue };
            let Some((packet, fate)) = self.packets.get_mut(index as usize) else { break };
            let known = *fate;
            *fate = match arrival.at {
                Some(_) => Fate::Arrived,
                None if known == Fate::Unknown && newest_covered - packet.seq.0 >= REORDER_PACKETS => Fate::Lost,
                None => known,
            };
            if *fate == known {
                continue;
            }
            match known {
                Fate::Unknown if *fate == Fate::Lost => self.lost += 1,
                Fate::Lost => self.lost -= 1,
                _ => {}
            }
            let arrived_at = arrival.at.filter(|_| *fate == Fate::Arrived);
            self.reports.push(PacketReport { packet: *packet, arrived_at, ce: false });
            if let Some(at) = arrived_at {
                newest_arrival = Some((packet.sent_at, at));
            }
        }
        Matched { reports: &self.reports, newest_arrival }
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn held(&self) -> usize {
        self.packets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(seq: u32) -> SentPacket {
        SentPacket {
            seq: PacketSeq(seq),
            sent_at: Time::from_millis(u64::from(seq)),
            size: Bytes::new(1_000),
            frame: None,
            probe: None,
            app_limited: false,
        }
    }

    #[test]
    fn reports_are_new_and_losses_may_be_taken_back() {
        let mut history = PacketHistory::default();
        (0..10).for_each(|seq| history.on_sent(sent(seq)));
        let at = Some(Time::from_millis(50));
        let mut arrivals = vec![at, None, at, at, None];
        let feedback = |arrivals: &[Option<Time>]| Feedback {
            sent_at: Time::from_millis(60),
            first: PacketSeq(0),
            arrivals: arrivals.to_vec(),
        };
        let fates = |matched: Matched<'_>| {
            matched.reports.iter().map(|report| (report.packet.seq.0, report.arrived_at.is_some())).collect::<Vec<_>>()
        };
        // Packet 4 is missing but may merely be late: nothing after it is known.
        assert_eq!(fates(history.on_feedback(&feedback(&arrivals))), [(0, true), (1, false), (2, true), (3, true)]);
        assert_eq!(history.lost, 1);
        arrivals[1] = at;
        assert_eq!(fates(history.on_feedback(&feedback(&arrivals))), [(1, true)]);
        assert_eq!(history.lost, 0);
        assert!(fates(history.on_feedback(&feedback(&arrivals))).is_empty());
    }

    #[test]
    fn feedback_of_packets_that_were_never_sent_says_nothing() {
        let mut history = PacketHistory::default();
        history.on_sent(sent(0));
        let feedback = Feedback {
            sent_at: Time::ZERO,
            first: PacketSeq(u32::MAX - 1),
            arrivals: vec![Some(Time::ZERO), Some(Time::ZERO)],
        };
        assert!(history.on_feedback(&feedback).reports.is_empty());
    }
}
