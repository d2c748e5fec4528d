//! Answers to what the receiver misses: symbols again and coded repairs, within a credit of their own.

use std::collections::VecDeque;

use nearlight_pace::Class;
use nearlight_units::{Bitrate, Bytes, FrameId, Span, Time};
use nearlight_wire::{Missing, Nack};

use super::{Departure, Sender, UNKNOWN_ROUND_TRIP};
use crate::protection::underway;

/// Symbols waiting to be sent again: more than the largest frame that a usual rate makes.
const MAX_REPAIRS: usize = 2_048;
/// Repairs may burst by what the target carries in this time, about one large key frame, within these bounds.
const REPAIR_BURST: Span = Span::from_millis(250);
const LEAST_BURST: Bytes = Bytes::new(64 * 1_024);
const MOST_BURST: Bytes = Bytes::new(512 * 1_024);

fn burst(target: Bitrate) -> Bytes {
    target.bytes_in(REPAIR_BURST).clamp(LEAST_BURST, MOST_BURST)
}

/// What leaves because the receiver asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    Symbol(FrameId, u16),
    /// One more repair of the frame.
    Coded(FrameId),
}

impl Repair {
    const fn piece(self) -> Option<(FrameId, u16)> {
        match self {
            Self::Symbol(frame, index) => Some((frame, index)),
            Self::Coded(_) => None,
        }
    }
}

/// Repairs that wait to leave, and how many bytes of them may.
pub(super) struct Repairs {
    queue: VecDeque<Repair>,
    credit: Bytes,
    credit_at: Time,
}

impl Repairs {
    pub(super) fn new(now: Time, target: Bitrate) -> Self {
        Self { queue: VecDeque::new(), credit: burst(target), credit_at: now }
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    fn room(&self) -> usize {
        MAX_REPAIRS.saturating_sub(self.queue.len())
    }

    /// Credit grows as fast as the media may.
    fn earn(&mut self, now: Time, target: Bitrate) {
        let earned = target.bytes_in(now.saturating_since(self.credit_at));
        if earned > Bytes::ZERO {
            self.credit = (self.credit + earned).min(burst(target));
            self.credit_at = now;
        }
    }

    /// Takes `size` from the credit; false where it is short: then nothing that waits leaves.
    fn spend(&mut self, size: Bytes) -> bool {
        if self.credit < size {
            self.queue.clear();
            return false;
        }
        self.credit = self.credit.saturating_sub(size);
        true
    }
}

impl Sender {
    /// The receiver misses these symbols.
    pub fn on_nack(&mut self, now: Time, nack: &Nack) {
        // What a client says of one frame stands together.
        for runs in nack.missing.chunk_by(|one, next| one.frame == next.frame) {
            self.on_missing(now, runs[0].frame, runs);
        }
    }

    fn on_missing(&mut self, now: Time, id: FrameId, runs: &[Missing]) {
        if self.restraint.is_hopeless(id) {
            self.statistics.repairs_refused += runs.len() as u64;
            return;
        }
        let round_trip = self.round_trip.unwrap_or(UNKNOWN_ROUND_TRIP);
        let path = self.path_facts();
        let under_way = underway(now, round_trip, &self.frames, id);
        let Some(frame) = self.frames.get_mut(id) else {
            self.statistics.repairs_refused += runs.len() as u64;
            return;
        };
        // What has not left yet is not missing.
        let sent = frame.sent;
        let indices = runs.iter().flat_map(|run| run.first..run.first.saturating_add(run.count).min(sent));
        let needed = indices.clone().count().min(usize::from(u16::MAX)) as u16;
        let answer =
            self.protection.as_mut().and_then(|protection| protection.answer(now, frame, needed, under_way, path));
        for index in indices.take(usize::from(answer.unwrap_or(u16::MAX))) {
            if self.repairs.room() > 0 && frame.on_resent(now, index, round_trip / 2) {
                self.repairs.queue.push_back(Repair::Symbol(id, index));
            } else {
                self.statistics.repairs_refused += 1;
            }
        }
        let extra = usize::from(answer.unwrap_or(0).saturating_sub(needed));
        let extra = extra.min(self.repairs.room());
        self.repairs.queue.extend(std::iter::repeat_n(Repair::Coded(id), extra));
    }

    pub(super) fn poll_repair(&mut self, now: Time) -> Option<Departure> {
        self.repairs.earn(now, self.decision.target);
        while let Some(repair) = self.repairs.queue.pop_front() {
            let (Repair::Symbol(id, _) | Repair::Coded(id)) = repair;
            if self.restraint.is_hopeless(id) {
                continue;
            }
            let Some(frame) = self.frames.get_mut(id) else { continue };
            let datagram = match (repair, &mut self.protection) {
                (Repair::Symbol(_, index), _) => {
                    Some(frame.datagram(now, self.next_seq, index, true, &mut self.spares))
                }
                (Repair::Coded(_), Some(protection)) => protection.repair(now, self.next_seq, frame),
                (Repair::Coded(_), None) => None,
            };
            let Some(datagram) = datagram else { continue };
            let size = match repair {
                Repair::Symbol(_, index) => frame.symbol_size(index),
                Repair::Coded(_) => Bytes::new(datagram.len() as u64),
            };
            if !self.repairs.spend(size) {
                self.statistics.repairs_refused += 1;
                return None;
            }
            self.pacer.poll(now, size, Class::Repair);
            match repair {
                Repair::Symbol(..) => self.statistics.repairs += 1,
                Repair::Coded(_) => self.statistics.coded_repairs += 1,
            }
            self.on_redundant(size);
            let (seq, piece) = (self.next_seq, repair.piece());
            self.on_sent(now, size, Some(id));
            return Some(Departure { seq, piece, repair: None, retransmission: piece.is_some(), bytes: datagram });
        }
        None
    }
}
