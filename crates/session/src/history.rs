//! What was sent: frames for repairs, packets for matching feedback.

use std::collections::VecDeque;

use nearlight_fec::{Code, digest};
use nearlight_rate::{PacketReport, SentPacket};
use nearlight_units::{Bytes, FrameId, PacketSeq, Span, Time};
use nearlight_wire::{CoveredFrame, Feedback, SYMBOL_HEADER_BYTES, SymbolFlags, SymbolHeader, symbol_range};

use crate::protection::{Planned, deadline_after};
use crate::sender::{Cut, Datagrams, Departure};
use crate::spares::Spares;

/// Frames that can be repaired: 0.5 s at 120 frames a second, and at 240 as long as a receiver waits for one over a short path.
const MAX_FRAMES: usize = 64;
/// Bytes that are kept for repairs, whatever the frames' size.
const MAX_BYTES: usize = 16 << 20;
/// A packet's fate may be reported for so long. Guess: a queue that is sized for a path's mean rate and drains at a twentieth of it takes
/// seconds, and a round trip longer than this is none that a session could work with.
const KEPT: Span = Span::from_secs(10);
/// Once it is known it stays for so long, as a late arrival may take a loss back. Guess: longer than packets overtake one another.
const KEPT_ONCE_KNOWN: Span = Span::from_secs(2);
/// Packets in memory, however fast they leave: [`KEPT`] at 100 Mb/s in datagrams of 1,000 bytes. What is kept follows from what was
/// sent and when, not from what the peer says.
const MAX_PACKETS: usize = 125_000;
/// A packet is lost when a report that leaves it out covers one sent this many later (RFC 9002 section 6.1.1).
const REORDER_PACKETS: u32 = 3;

/// A frame as it travels, and how much of it has left.
#[derive(Debug)]
pub(crate) struct KeptFrame {
    pub(crate) id: FrameId,
    pub(crate) key: bool,
    reference_distance: u8,
    pub(crate) bytes: Vec<u8>,
    pub(crate) symbols: u16,
    /// Symbols below this index have left at least once, or never will unless they are asked for.
    pub(crate) sent: u16,
    pub(crate) deadline: Time,
    pub(crate) queued_at: Time,
    pub(crate) render_started_at: Time,
    /// When the newest of its symbols left for the first time.
    pub(crate) last_sent_at: Time,
    resent_at: Vec<Option<Time>>,
    /// Repairs that leave behind it.
    pub(crate) planned: Option<Planned>,
    /// The next repair of this frame alone.
    pub(crate) next_repair: u16,
    digest: Option<u32>,
    /// Where another protocol prescribes it; none for symbols of equal size.
    cut: Option<Cut>,
}

impl KeptFrame {
    pub(crate) fn new(id: FrameId, reference: Option<FrameId>, bytes: Vec<u8>, payload: usize, deadline: Time) -> Self {
        let distance = reference.map_or(0, |reference| id.0.saturating_sub(reference.0));
        debug_assert!(reference.is_none() || (1..=255).contains(&distance), "frame {id} predicts from {reference:?}");
        let symbols = bytes.len().div_ceil(payload).clamp(1, usize::from(u16::MAX)) as u16;
        Self {
            id,
            key: reference.is_none(),
            reference_distance: distance.min(255) as u8,
            bytes,
            symbols,
            sent: 0,
            deadline,
            queued_at: Time::ZERO,
            render_started_at: Time::ZERO,
            last_sent_at: Time::ZERO,
            resent_at: Vec::new(),
            planned: None,
            next_repair: 0,
            digest: None,
            cut: None,
        }
    }

    /// A frame that another protocol cuts.
    pub(crate) fn given(id: FrameId, reference: Option<FrameId>, bytes: Vec<u8>, cut: Cut, deadline: Time) -> Self {
        debug_assert_eq!(cut.ends.last().map(|end| *end as usize), Some(bytes.len()), "frame {id}");
        let frame = Self::new(id, reference, bytes, usize::MAX, deadline);
        Self { symbols: cut.ends.len().min(usize::from(u16::MAX)) as u16, cut: Some(cut), ..frame }
    }

    /// The frame that it is predicted from; none for a key frame.
    pub(crate) fn reference(&self) -> Option<FrameId> {
        (!self.key).then(|| FrameId(self.id.0.saturating_sub(u32::from(self.reference_distance))))
    }

    fn range(&self, index: u16) -> std::ops::Range<usize> {
        match &self.cut {
            Some(cut) => cut.range(index),
            None => symbol_range(self.bytes.len() as u32, self.symbols, index),
        }
    }

    /// How another protocol cuts it; none for symbols of equal size.
    pub(crate) const fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// How it was cut, for repairs; none for a frame that none of ours can cover.
    pub(crate) fn code(&mut self) -> Option<(Code, CoveredFrame)> {
        if self.cut.is_some() {
            return None;
        }
        let frame_bytes = self.bytes.len() as u32;
        let code = Code::new(self.id, frame_bytes, self.symbols).ok()?;
        let digest = *self.digest.get_or_insert_with(|| digest(&self.bytes));
        let reference_distance = self.reference_distance;
        Some((code, CoveredFrame { reference_distance, symbols: self.symbols, frame_bytes, digest }))
    }

    /// What it takes of the common bound.
    fn held(&self) -> usize {
        self.bytes.len() + self.planned.as_ref().map_or(0, Planned::held)
    }

    /// Size of the next datagram that leaves for the first time: a symbol, then the planned repairs.
    pub(crate) fn next_size(&self) -> Option<Bytes> {
        if self.sent < self.symbols {
            return Some(self.symbol_size(self.sent));
        }
        self.planned.as_ref().and_then(Planned::next_size)
    }

    /// What leaves as the next, of which [`KeptFrame::next_size`] spoke: a symbol, or a repair where no piece is named.
    pub(crate) fn next_departure(&mut self, now: Time, seq: PacketSeq, spares: &mut Datagrams) -> Option<Departure> {
        if self.sent < self.symbols {
            let bytes = self.datagram(now, seq, self.sent, false, spares);
            let piece = Some((self.id, self.sent));
            self.sent += 1;
            self.last_sent_at = now;
            return Some(Departure { seq, piece, repair: None, retransmission: false, bytes });
        }
        let planned = self.planned.as_mut().filter(|planned| planned.left() > 0)?;
        let repair = Some((self.id, planned.next_number()));
        let bytes = planned.datagram(now, seq, self.id, self.deadline);
        Some(Departure { seq, piece: None, repair, retransmission: false, bytes })
    }

    /// On the wire.
    pub(crate) fn symbol_size(&self, index: u16) -> Bytes {
        let overhead = self.cut.as_ref().map_or(SYMBOL_HEADER_BYTES, |cut| usize::from(cut.overhead));
        Bytes::new((overhead + self.range(index).len()) as u64)
    }

    /// All symbols and planned repairs that have not left yet.
    pub(crate) fn unsent(&self) -> Bytes {
        let symbols: Bytes = (self.sent..self.symbols).map(|index| self.symbol_size(index)).sum();
        symbols + self.planned.as_ref().map_or(Bytes::ZERO, Planned::unsent)
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

    /// The datagram that carries symbol `index`; where the cut was given, the piece alone.
    pub(crate) fn datagram(
        &self,
        now: Time,
        seq: PacketSeq,
        index: u16,
        retransmission: bool,
        spares: &mut Datagrams,
    ) -> Vec<u8> {
        let range = self.range(index);
        if self.cut.is_some() {
            return self.bytes[range].to_vec();
        }
        let header = SymbolHeader {
            flags: SymbolFlags { key: self.key, retransmission, probe: false },
            reference_distance: self.reference_distance,
            seq,
            sent_at: now,
            frame: self.id,
            index,
            symbols: self.symbols,
            frame_bytes: self.bytes.len() as u32,
            deadline_after_send_us: deadline_after(now, self.deadline),
        };
        let mut datagram = spares.take(SYMBOL_HEADER_BYTES + range.len());
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
    /// What the oldest frame lay in, for the next one.
    spares: Spares<1>,
}

impl FrameHistory {
    /// Returns what had not left of the frames that made room.
    pub(crate) fn push(&mut self, frame: KeptFrame) -> Bytes {
        self.bytes += frame.held();
        self.frames.push_back(frame);
        let mut dropped = Bytes::ZERO;
        while self.frames.len() > MAX_FRAMES || (self.bytes > MAX_BYTES && self.frames.len() > 1) {
            if let Some(oldest) = self.frames.pop_front() {
                self.bytes -= oldest.held();
                dropped += oldest.unsent();
                self.spares.give(oldest.bytes);
            }
        }
        dropped
    }

    /// An empty buffer for a frame's bytes.
    pub(crate) fn spare(&mut self, bytes: usize) -> Vec<u8> {
        self.spares.take(bytes)
    }

    pub(crate) fn get_mut(&mut self, id: FrameId) -> Option<&mut KeptFrame> {
        let first = self.frames.front()?.id.0;
        // Ids are consecutive, so a frame's place follows from its id.
        self.frames.get_mut(id.0.checked_sub(first)? as usize)
    }

    /// The first frame that has something left to send: frames leave in order, so those that have are the newest.
    pub(crate) fn first_unsent(&mut self) -> Option<&mut KeptFrame> {
        self.frames.iter_mut().rev().take_while(|frame| frame.next_size().is_some()).last()
    }

    /// What has not left of any frame never will. Returns how much that was. Pieces that another protocol has numbered stay: its
    /// receiver would ask for the numbers that are missing.
    pub(crate) fn abandon_unsent(&mut self) -> Bytes {
        let mut abandoned = Bytes::ZERO;
        let unsent =
            self.frames.iter_mut().rev().take_while(|frame| frame.next_size().is_some() && frame.cut.is_none());
        for frame in unsent {
            abandoned += frame.unsent();
            self.bytes -= frame.held();
            (frame.sent, frame.planned) = (frame.symbols, None);
            self.bytes += frame.held();
        }
        abandoned
    }

    /// The newest frames, newest first.
    pub(crate) fn newest(&mut self, count: usize) -> impl Iterator<Item = &mut KeptFrame> {
        self.frames.iter_mut().rev().take(count)
    }

    /// The frame and those after it.
    pub(crate) fn from(&self, id: FrameId) -> impl Iterator<Item = &KeptFrame> {
        let first = self.frames.front().map_or(0, |frame| frame.id.0);
        let place = id.0.checked_sub(first).map_or(self.frames.len(), |place| place as usize);
        self.frames.range(place.min(self.frames.len())..)
    }

    /// How many frames there are right before `id`.
    pub(crate) fn before(&self, id: FrameId) -> usize {
        let consecutive = self.frames.back().is_some_and(|newest| newest.id.next() == id);
        if consecutive { self.frames.len() } else { 0 }
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
    Arrived(Time),
}

/// A packet of which nothing was heard is taken as unreported when so many later ones were: their reports were lost.
const UNREPORTED_PACKETS: u32 = 256;

/// Matches feedback with what was sent; every packet is reported as lost at most once and as arrived at most once.
#[derive(Debug, Default)]
pub(crate) struct PacketHistory {
    packets: VecDeque<(SentPacket, Fate)>,
    reports: Vec<PacketReport>,
    pub(crate) lost: u64,
    /// The next packet whose fate [`PacketHistory::poll_settled`] tells.
    settled_to: u32,
    newest_covered: u32,
    /// The newest packet that was forgotten before anything was heard of it.
    forgotten: Option<u32>,
}

/// What one feedback message said that was not known before.
pub(crate) struct Matched<'a> {
    pub(crate) reports: &'a [PacketReport],
    /// When the newest of them was sent and when it arrived (the latter on the client's clock).
    pub(crate) newest_arrival: Option<(Time, Time)>,
    /// It tells of packets that left so long ago that they are forgotten, and of no others.
    pub(crate) outdated: bool,
}

impl PacketHistory {
    pub(crate) fn on_sent(&mut self, packet: SentPacket) {
        self.packets.push_back((packet, Fate::Unknown));
        while let Some((oldest, fate)) = self.packets.front() {
            let kept = if *fate == Fate::Unknown { KEPT } else { KEPT_ONCE_KNOWN };
            if packet.sent_at - oldest.sent_at <= kept && self.packets.len() <= MAX_PACKETS {
                break;
            }
            if *fate == Fate::Unknown {
                self.forgotten = Some(oldest.seq.0);
            }
            self.packets.pop_front();
        }
    }

    pub(crate) fn on_feedback(&mut self, feedback: &Feedback) -> Matched<'_> {
        self.reports.clear();
        let mut newest_arrival = None;
        let Some(first) = self.packets.front().map(|(packet, _)| packet.seq.0) else {
            return Matched { reports: &[], newest_arrival, outdated: false };
        };
        let newest_covered = feedback.first.0.saturating_add(feedback.arrivals.len() as u32 - 1);
        let newest_sent = first + (self.packets.len() as u32 - 1);
        self.newest_covered = self.newest_covered.max(newest_covered.min(newest_sent));
        for arrival in feedback.iter() {
            let Some(index) = arrival.seq.0.checked_sub(first) else { continue };
            let Some((packet, fate)) = self.packets.get_mut(index as usize) else { break };
            let known = *fate;
            *fate = match arrival.at {
                Some(_) if matches!(known, Fate::Arrived(_)) => known,
                Some(at) => Fate::Arrived(at),
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
            let arrived_at = arrival.at;
            self.reports.push(PacketReport { packet: *packet, arrived_at, ce: arrival.ce });
            if let Some(at) = arrived_at {
                newest_arrival = Some((packet.sent_at, at));
            }
        }
        let names_forgotten =
            |forgotten: u32| feedback.iter().any(|arrival| arrival.at.is_some() && arrival.seq.0 <= forgotten);
        let outdated = self.reports.is_empty() && self.forgotten.is_some_and(names_forgotten);
        Matched { reports: &self.reports, newest_arrival, outdated }
    }

    /// When the oldest packet left that is newer than all that feedback has told of.
    pub(crate) fn oldest_untold(&self) -> Option<Time> {
        let first = self.packets.front()?.0.seq.0;
        let next = (self.newest_covered + 1).saturating_sub(first);
        self.packets.get(next as usize).map(|(packet, _)| packet.sent_at)
    }

    /// The newest packet that was sent and that feedback has told of; the first before any feedback.
    pub(crate) const fn newest_covered(&self) -> PacketSeq {
        PacketSeq(self.newest_covered)
    }

    /// The next packet whose fate is settled, in the order of sending, with its arrival on the receiver's clock if it did arrive.
    pub(crate) fn poll_settled(&mut self) -> Option<(SentPacket, Option<Time>)> {
        let first = self.packets.front()?.0.seq.0;
        self.settled_to = self.settled_to.max(first);
        loop {
            let (packet, fate) = self.packets.get((self.settled_to - first) as usize)?;
            let arrived_at = match *fate {
                Fate::Arrived(at) => Some(at),
                Fate::Lost => None,
                Fate::Unknown if self.newest_covered.saturating_sub(packet.seq.0) > UNREPORTED_PACKETS => {
                    self.settled_to += 1;
                    continue;
                }
                Fate::Unknown => return None,
            };
            self.settled_to += 1;
            return Some((*packet, arrived_at));
        }
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
            marked: Vec::new(),
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
    fn packets_are_remembered_for_seconds_at_any_rate_and_then_outdated() {
        let mut history = PacketHistory::default();
        // 100 Mb/s in packets of 1,250 bytes.
        let send = |history: &mut PacketHistory, from: u32, to: u32| {
            (from..to).for_each(|seq| {
                history.on_sent(SentPacket { sent_at: Time::from_micros(u64::from(seq) * 100), ..sent(seq) });
            });
        };
        let report = |seq: u32| Feedback {
            sent_at: Time::from_secs(20),
            first: PacketSeq(seq),
            arrivals: vec![Some(Time::from_secs(19))],
            marked: Vec::new(),
        };
        send(&mut history, 0, 80_000);
        assert_eq!(history.on_feedback(&report(0)).reports.len(), 1, "8 s later");
        send(&mut history, 80_000, 110_000);
        let matched = history.on_feedback(&report(500));
        assert!(matched.reports.is_empty() && matched.outdated, "11 s later");
        send(&mut history, 110_000, 300_000);
        assert!(history.held() <= MAX_PACKETS);
        assert!(!history.on_feedback(&report(299_999)).outdated);
    }

    #[test]
    fn feedback_of_packets_that_were_never_sent_says_nothing() {
        let mut history = PacketHistory::default();
        history.on_sent(sent(0));
        let feedback = Feedback {
            sent_at: Time::ZERO,
            first: PacketSeq(u32::MAX - 1),
            arrivals: vec![Some(Time::ZERO), Some(Time::ZERO)],
            marked: vec![1],
        };
        assert!(history.on_feedback(&feedback).reports.is_empty());
    }
}
