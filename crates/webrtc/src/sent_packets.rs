//! What left under which transport-wide number, so that feedback alone tells which pieces a client waits for.
//!
//! A client asks for what it misses at once, but only once in 100 ms (libwebrtc's `NackRequester`, as long as it knows no round
//! trip): where its request or the answer to it gets lost, its picture stands still for that long. Feedback comes sooner and tells
//! of both.
//!
//! It also asks for what a repair is about to bring. Such a piece is not sent again before feedback has told that the repair does not
//! bring it, or the client asks although it must have the repair.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};

use nearlight_units::{FrameId, PacketSeq, Span, Time};
use nearlight_wire::{Feedback, MAX_NACK_ENTRIES, Missing, Nack};

use crate::flexfec::Groups;

/// What is remembered: two seconds at 10 Mb/s. Feedback is never that late.
const MAX_REMEMBERED: usize = 2_048;
/// A number is lost when so many later ones have been told of (RFC 9002 section 6.1.1).
const REORDER: u32 = 3;
/// A busy client asks for a piece later than it could have, and before it looks at the repair that came meanwhile. Guess: twice what a
/// browser's busiest task takes.
const LATE: Span = Span::from_millis(20);
/// Pieces that wait for their repairs: more are an outage, which no repair mends.
const MAX_AWAITED: usize = 256;

type Piece = (FrameId, u16);

/// What leaves under a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Piece {
        piece: Piece,
        /// It has left before.
        again: bool,
    },
    /// Frame and number.
    Repair(FrameId, u16),
    Other,
}

impl Content {
    fn piece(self) -> Option<Piece> {
        match self {
            Self::Piece { piece, .. } => Some(piece),
            Self::Repair(..) | Self::Other => None,
        }
    }

    fn subject(self) -> Option<Subject> {
        match self {
            Self::Piece { piece, .. } => Some(Subject::Piece(piece)),
            Self::Repair(frame, number) => Some(Subject::Repair(frame, number)),
            Self::Other => None,
        }
    }
}

/// What may leave more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Subject {
    Piece(Piece),
    Repair(FrameId, u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Unknown,
    Lost,
    Arrived,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    left: Content,
    sent_at: Time,
    fate: Fate,
}

/// What is to be done about a piece that the client lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    SendAgain,
    /// Its repair is not known to have come.
    Wait,
    /// The client has it, or all that it needs to make it.
    Mended,
}

#[derive(Debug, Default)]
pub(crate) struct SentPackets {
    /// Number of the first of `known`.
    first: u32,
    known: VecDeque<Known>,
    /// The numbers of `known` under which each thing left, in order. A hostile client may ask for all of them at once.
    numbers: HashMap<Subject, VecDeque<u32>>,
    /// Every number below has been judged, and none is twice.
    judged: u32,
    /// Pieces that the client lacks and a repair may bring.
    awaited: BTreeSet<Piece>,
}

impl SentPackets {
    /// Something left under this number: one more than the one before.
    pub(crate) fn on_sent(&mut self, now: Time, seq: PacketSeq, left: Content) {
        if self.known.is_empty() || seq.0 != self.first + self.known.len() as u32 {
            self.known.clear();
            self.numbers.clear();
            self.first = seq.0;
        }
        self.known.push_back(Known { left, sent_at: now, fate: Fate::Unknown });
        if let Some(subject) = left.subject() {
            self.numbers.entry(subject).or_default().push_back(seq.0);
        }
        if self.known.len() > MAX_REMEMBERED {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let subject = self.known.pop_front().and_then(|known| known.left.subject());
        if let Some(Entry::Occupied(mut numbers)) = subject.map(|subject| self.numbers.entry(subject)) {
            numbers.get_mut().pop_front();
            if numbers.get().is_empty() {
                numbers.remove();
            }
        }
        self.first += 1;
    }

    /// Every time that something left, the latest first.
    fn departures(&self, subject: Subject) -> impl Iterator<Item = &Known> {
        let numbers = self.numbers.get(&subject).into_iter().flatten().rev();
        numbers.filter_map(|number| self.known.get(number.checked_sub(self.first)? as usize))
    }

    /// Pieces that did not arrive, that have not left again since and that no repair brings; `groups` are those of a frame.
    pub(crate) fn on_feedback(&mut self, feedback: &Feedback, groups: impl Fn(FrameId) -> Option<Groups>) -> Nack {
        let told = feedback.first.0.saturating_add(feedback.arrivals.len() as u32);
        let is_certain = |number: u32| number.saturating_add(REORDER) < told;
        for arrival in feedback.iter() {
            let place = arrival.seq.0.checked_sub(self.first).map(|place| place as usize);
            let Some(known) = place.and_then(|place| self.known.get_mut(place)) else { continue };
            known.fate = match arrival.at {
                Some(_) => Fate::Arrived,
                None if known.fate == Fate::Unknown && is_certain(arrival.seq.0) => Fate::Lost,
                None => known.fate,
            };
        }
        let mut lacking = std::mem::take(&mut self.awaited);
        for number in feedback.first.0.max(self.judged)..told.saturating_sub(REORDER) {
            self.judged = number + 1;
            lacking.extend(self.lost(number));
        }
        let mut again = BTreeSet::new();
        for piece in lacking {
            match self.verdict(piece, &groups) {
                Verdict::Mended => {}
                Verdict::Wait if self.awaited.len() < MAX_AWAITED => _ = self.awaited.insert(piece),
                Verdict::Wait | Verdict::SendAgain => _ = again.insert(piece),
            }
        }
        in_runs(again)
    }

    /// What of a client's request is to be answered now: the rest a repair may bring that the client did not know of.
    pub(crate) fn on_request(
        &mut self,
        now: Time,
        nack: &Nack,
        round_trip: Span,
        groups: impl Fn(FrameId) -> Option<Groups>,
    ) -> Nack {
        let pieces = |run: &Missing| {
            let frame = run.frame;
            (run.first..run.first.saturating_add(run.count)).map(move |index| (frame, index))
        };
        let asked: BTreeSet<Piece> = nack.missing.iter().flat_map(pieces).collect();
        let mut again = BTreeSet::new();
        for piece @ (frame, _) in asked.iter().copied() {
            let group = group_of(piece, &groups);
            let others =
                group.into_iter().flat_map(|(groups, repair)| groups.covered(repair)).map(|other| (frame, other));
            let lacking: Vec<Piece> =
                others.filter(|other| *other != piece && (asked.contains(other) || self.lacks(*other))).collect();
            let is_coming = group.is_some_and(|(_, repair)| self.is_coming(now, frame, repair, round_trip));
            if is_coming && lacking.is_empty() && self.awaited.len() < MAX_AWAITED {
                self.awaited.insert(piece);
                continue;
            }
            // One repair mends one loss: nothing waits for it any more.
            again.extend(lacking.into_iter().filter(|other| self.awaited.remove(other)));
            self.awaited.remove(&piece);
            again.insert(piece);
        }
        in_runs(again)
    }

    /// Whether the client is known to lack a piece as it left first.
    fn lacks(&self, piece: Piece) -> bool {
        self.awaited.contains(&piece) || self.first_fate(piece) == Some(Fate::Lost)
    }

    fn first_fate(&self, piece: Piece) -> Option<Fate> {
        let left = Content::Piece { piece, again: false };
        self.departures(Subject::Piece(piece)).find(|known| known.left == left).map(|known| known.fate)
    }

    /// The piece that left under this number, where it is lost and has not left again since.
    fn lost(&self, number: u32) -> Option<Piece> {
        let place = number.checked_sub(self.first)? as usize;
        let known = self.known.get(place).filter(|known| known.fate == Fate::Lost)?;
        let piece = known.left.piece()?;
        let is_latest = self.numbers.get(&Subject::Piece(piece))?.back() == Some(&number);
        is_latest.then_some(piece)
    }

    fn verdict(&self, piece: Piece, groups: impl Fn(FrameId) -> Option<Groups>) -> Verdict {
        let (frame, index) = piece;
        if self.departures(Subject::Piece(piece)).any(|known| known.fate == Fate::Arrived) {
            return Verdict::Mended;
        }
        let Some((groups, repair)) = group_of(piece, groups) else { return Verdict::SendAgain };
        match self.repair(frame, repair).map(|known| known.fate) {
            None | Some(Fate::Unknown) => Verdict::Wait,
            Some(Fate::Lost) => Verdict::SendAgain,
            Some(Fate::Arrived) => {
                // Clients make nothing of pieces that were sent again (libwebrtc's `FlexfecReceiver`).
                let came = |other| self.first_fate((frame, other)) == Some(Fate::Arrived);
                let mended = groups.covered(repair).all(|other| other == index || came(other));
                if mended { Verdict::Mended } else { Verdict::SendAgain }
            }
        }
    }

    fn repair(&self, frame: FrameId, number: u16) -> Option<&Known> {
        self.departures(Subject::Repair(frame, number)).next()
    }

    /// Whether the client may not have looked at a repair when it asked, half a round trip ago.
    fn is_coming(&self, now: Time, frame: FrameId, number: u16, round_trip: Span) -> bool {
        self.repair(frame, number)
            .is_none_or(|known| known.fate == Fate::Unknown && now.saturating_since(known.sent_at) < round_trip + LATE)
    }
}

/// The groups of a piece's frame, and the repair that covers it.
fn group_of((frame, index): Piece, groups: impl Fn(FrameId) -> Option<Groups>) -> Option<(Groups, u16)> {
    let groups = groups(frame)?;
    Some((groups, groups.repair_of(index)?))
}

fn in_runs(pieces: BTreeSet<Piece>) -> Nack {
    let mut missing: Vec<Missing> = Vec::new();
    for (frame, index) in pieces {
        let full = missing.len() == MAX_NACK_ENTRIES;
        match missing.last_mut() {
            Some(run) if run.frame == frame && run.first + run.count == index => run.count += 1,
            _ if full => break,
            _ => missing.push(Missing { frame, first: index, count: 1 }),
        }
    }
    Nack { missing }
}

#[cfg(test)]
mod tests;
