//! Determines which pieces a receiver lacks that reports packets but requests no pieces, as over RTP.
//!
//! A browser requests missing packets at once, but only once in 100 ms (libwebrtc's `NackRequester`, as long as it knows no round trip):
//! if its request or the answer is lost, its picture is frozen for that long. Feedback arrives sooner and reveals both losses.
//!
//! A browser also requests packets that a repair is about to recover. Such a piece is not retransmitted before feedback shows that the
//! repair does not recover it, or the receiver requests it although it must have the repair.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};

use nearlight_fec::ParityGroups;
use nearlight_units::{FrameId, PacketSeq, Span, Time};
use nearlight_wire::{Feedback, MAX_NACK_ENTRIES, MissingRun, Nack};

use super::packets::{PacketHistory, PacketRecord, PacketState, REORDER_PACKETS};
use super::{Content, Piece};

/// How late a busy client may request a piece, before it processes the repair that arrived meanwhile. Guess: twice a
/// browser's longest task.
const MAX_CLIENT_DELAY: Span = Span::from_millis(20);
/// Maximum number of pieces that wait for their repairs. More indicate an outage, from which no repair recovers.
const MAX_AWAITED: usize = 256;

/// Something that may be sent more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Subject {
    Piece(Piece),
    Repair(FrameId, u16),
}

impl Subject {
    const fn of(content: Content) -> Option<Self> {
        match content {
            Content::Piece(piece) | Content::Retransmission(piece) => Some(Self::Piece(piece)),
            Content::Repair(frame, number) => Some(Self::Repair(frame, number)),
            Content::Padding | Content::Other => None,
        }
    }
}

/// The decision on a piece that the receiver lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Retransmit,
    /// Its repair is not known to have arrived.
    Wait,
    /// The receiver has it, or everything needed to recover it.
    Recovered,
}

/// The packet numbers under which each piece and each repair left. Their fate is in the [`PacketHistory`] that owns this.
#[derive(Debug, Default)]
pub(super) struct PieceHistory {
    /// Numbers of packets that are remembered, in order. A hostile client may request all pieces at once.
    numbers: HashMap<Subject, VecDeque<u32>>,
    /// All smaller numbers have been evaluated. No number is evaluated twice.
    evaluated_to: u32,
    /// Pieces that the receiver lacks and a repair may recover.
    awaited: BTreeSet<Piece>,
}

impl PieceHistory {
    pub(super) fn on_sent(&mut self, seq: PacketSeq, content: Content) {
        if let Some(subject) = Subject::of(content) {
            self.numbers.entry(subject).or_default().push_back(seq.0);
        }
    }

    /// Handles the removal of the oldest packet, which carried this.
    pub(super) fn on_forgotten(&mut self, content: Content) {
        if let Some(Entry::Occupied(mut numbers)) = Subject::of(content).map(|subject| self.numbers.entry(subject)) {
            numbers.get_mut().pop_front();
            if numbers.get().is_empty() {
                numbers.remove();
            }
        }
    }

    /// All packets that carried the subject, latest first.
    fn packets<'a>(&'a self, packets: &'a PacketHistory, subject: Subject) -> impl Iterator<Item = &'a PacketRecord> {
        let numbers = self.numbers.get(&subject).into_iter().flatten().rev();
        numbers.filter_map(|number| packets.get(*number))
    }

    /// Returns pieces that did not arrive, have not been retransmitted since and will not be recovered by a repair. `groups` are a frame's
    /// repairs.
    pub(super) fn on_feedback(
        &mut self,
        packets: &PacketHistory,
        feedback: &Feedback,
        groups: impl Fn(FrameId) -> Option<ParityGroups>,
    ) -> Nack {
        let reported = feedback.first.0.saturating_add(feedback.arrivals.len() as u32);
        let mut lacking = std::mem::take(&mut self.awaited);
        for number in feedback.first.0.max(self.evaluated_to)..reported.saturating_sub(REORDER_PACKETS) {
            self.evaluated_to = number + 1;
            lacking.extend(self.lost(packets, number));
        }
        let mut again = BTreeSet::new();
        for piece in lacking {
            match self.verdict(packets, piece, &groups) {
                Verdict::Recovered => {}
                Verdict::Wait if self.awaited.len() < MAX_AWAITED => _ = self.awaited.insert(piece),
                Verdict::Wait | Verdict::Retransmit => _ = again.insert(piece),
            }
        }
        in_runs(again)
    }

    /// Returns the part of a receiver's request to answer now: a repair that the receiver did not know of may recover the rest.
    pub(super) fn on_request(
        &mut self,
        packets: &PacketHistory,
        now: Time,
        nack: &Nack,
        round_trip: Span,
        groups: impl Fn(FrameId) -> Option<ParityGroups>,
    ) -> Nack {
        let pieces = |run: &MissingRun| {
            let frame = run.frame;
            (run.first..run.first.saturating_add(run.count)).map(move |index| (frame, index))
        };
        let asked: BTreeSet<Piece> = nack.missing.iter().flat_map(pieces).collect();
        let mut again = BTreeSet::new();
        for piece @ (frame, _) in asked.iter().copied() {
            let group = group_of(piece, &groups);
            let others =
                group.into_iter().flat_map(|(groups, repair)| groups.covered(repair)).map(|other| (frame, other));
            let lacks = |other: &Piece| asked.contains(other) || self.lacks(packets, *other);
            let lacking: Vec<Piece> = others.filter(|other| *other != piece && lacks(other)).collect();
            let is_coming = group.is_some_and(|(_, repair)| self.is_coming(packets, now, (frame, repair), round_trip));
            if is_coming && lacking.is_empty() && self.awaited.len() < MAX_AWAITED {
                self.awaited.insert(piece);
                continue;
            }
            // One repair recovers one piece, so no other piece waits for it any more.
            again.extend(lacking.into_iter().filter(|other| self.awaited.remove(other)));
            self.awaited.remove(&piece);
            again.insert(piece);
        }
        in_runs(again)
    }

    /// Whether the receiver is known to lack the first transmission of a piece.
    fn lacks(&self, packets: &PacketHistory, piece: Piece) -> bool {
        self.awaited.contains(&piece) || self.first_state(packets, piece) == Some(PacketState::Lost)
    }

    fn first_state(&self, packets: &PacketHistory, piece: Piece) -> Option<PacketState> {
        let mut sent = self.packets(packets, Subject::Piece(piece));
        sent.find(|kept| kept.content == Content::Piece(piece)).map(|kept| kept.state)
    }

    /// The piece that left under this number, if it is lost and has not been retransmitted since.
    fn lost(&self, packets: &PacketHistory, number: u32) -> Option<Piece> {
        let kept = packets.get(number).filter(|kept| kept.state == PacketState::Lost)?;
        let subject @ Subject::Piece(piece) = Subject::of(kept.content)? else { return None };
        let is_latest = self.numbers.get(&subject)?.back() == Some(&number);
        is_latest.then_some(piece)
    }

    fn verdict(
        &self,
        packets: &PacketHistory,
        piece: Piece,
        groups: impl Fn(FrameId) -> Option<ParityGroups>,
    ) -> Verdict {
        let (frame, index) = piece;
        if self.packets(packets, Subject::Piece(piece)).any(|kept| matches!(kept.state, PacketState::Arrived(_))) {
            return Verdict::Recovered;
        }
        let Some((groups, repair)) = group_of(piece, groups) else { return Verdict::Retransmit };
        match self.repair(packets, (frame, repair)).map(|kept| kept.state) {
            None | Some(PacketState::Unknown) => Verdict::Wait,
            Some(PacketState::Lost) => Verdict::Retransmit,
            Some(PacketState::Arrived(_)) => {
                // Clients do not use retransmitted pieces for recovery (libwebrtc's `FlexfecReceiver`).
                let came = |other| matches!(self.first_state(packets, (frame, other)), Some(PacketState::Arrived(_)));
                let recovered = groups.covered(repair).all(|other| other == index || came(other));
                if recovered { Verdict::Recovered } else { Verdict::Retransmit }
            }
        }
    }

    fn repair<'a>(&'a self, packets: &'a PacketHistory, (frame, number): (FrameId, u16)) -> Option<&'a PacketRecord> {
        self.packets(packets, Subject::Repair(frame, number)).next()
    }

    /// Whether the receiver may not have processed a repair yet when it sent its request, half a round trip ago.
    fn is_coming(&self, packets: &PacketHistory, now: Time, repair: (FrameId, u16), round_trip: Span) -> bool {
        self.repair(packets, repair).is_none_or(|kept| {
            kept.state == PacketState::Unknown
                && now.saturating_since(kept.packet.sent_at) < round_trip + MAX_CLIENT_DELAY
        })
    }
}

/// The groups of a piece's frame, and the repair that covers it.
fn group_of((frame, index): Piece, groups: impl Fn(FrameId) -> Option<ParityGroups>) -> Option<(ParityGroups, u16)> {
    let groups = groups(frame)?;
    Some((groups, groups.repair_of(index)?))
}

fn in_runs(pieces: BTreeSet<Piece>) -> Nack {
    let mut missing: Vec<MissingRun> = Vec::new();
    for (frame, index) in pieces {
        let full = missing.len() == MAX_NACK_ENTRIES;
        match missing.last_mut() {
            Some(run) if run.frame == frame && run.first + run.count == index => run.count += 1,
            _ if full => break,
            _ => missing.push(MissingRun { frame, first: index, count: 1 }),
        }
    }
    Nack { missing }
}

#[cfg(test)]
mod tests;
