//! Answers requests for missing pieces: with the pieces again and repairs on demand, within a credit of their own.

use std::collections::VecDeque;

use crate::pace::Class;
use nearlight_units::{Bitrate, Bytes, FrameId, Span, Time};
use nearlight_wire::{MissingRun, Nack, RepairHeader};

use super::{INITIAL_ROUND_TRIP, Sender};
use crate::packets::history::{Content, Piece};
use crate::sender::protection::{OnDemandRepair, repairs_in_flight};

/// Maximum number of answers that wait to leave: more than the number of pieces in the largest frame at a usual rate.
const MAX_QUEUED: usize = 2_048;
/// The credit's burst is what the target carries in this time, about one large key frame, within the bounds that follow. Guess.
const BURST_TIME: Span = Span::from_millis(250);
const MIN_BURST: Bytes = Bytes::new(64 * 1_024);
const MAX_BURST: Bytes = Bytes::new(512 * 1_024);

fn burst(target: Bitrate) -> Bytes {
    target.bytes_in(BURST_TIME).clamp(MIN_BURST, MAX_BURST)
}

/// An answer to a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Piece(Piece),
    /// One more repair of the frame.
    Repair(FrameId),
}

/// Queued answers, and the credit in bytes for sending them.
pub(super) struct Retransmissions {
    queue: VecDeque<Answer>,
    credit: Bytes,
    credit_at: Time,
    /// The newest repair generated on request, and its frame.
    repair: Option<(FrameId, OnDemandRepair)>,
}

impl Retransmissions {
    pub(super) fn new(now: Time, target: Bitrate) -> Self {
        Self { queue: VecDeque::new(), credit: burst(target), credit_at: now, repair: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    fn room(&self) -> usize {
        MAX_QUEUED.saturating_sub(self.queue.len())
    }

    /// The repair with this number, if it is the newest generated on demand.
    pub(super) fn on_demand(&self, frame: FrameId, number: u16) -> Option<&OnDemandRepair> {
        self.repair.as_ref().filter(|(id, made)| *id == frame && made.number == number).map(|(_, made)| made)
    }

    /// Accrues credit at the media's rate.
    fn earn(&mut self, now: Time, target: Bitrate) {
        let earned = target.bytes_in(now.saturating_since(self.credit_at));
        if earned > Bytes::ZERO {
            self.credit = (self.credit + earned).min(burst(target));
            self.credit_at = now;
        }
    }

    /// Takes `size` from the credit. Returns false if it is short: then no queued answer leaves.
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
    /// Handles the receiver's request for pieces. If feedback reveals losses as well, a repair in flight may make the answer unnecessary.
    pub(super) fn on_nack(&mut self, now: Time, nack: &Nack) {
        let round_trip = self.round_trip_estimate.last().unwrap_or(INITIAL_ROUND_TRIP);
        let groups = |frame| self.frames.get(frame)?.parity_groups();
        match self.packets.on_request(now, nack, round_trip, groups) {
            Some(wanted) => self.retransmit(now, &wanted),
            None => self.retransmit(now, nack),
        }
    }

    /// Queues the pieces, or repairs in their place if the policy prefers them.
    pub(super) fn retransmit(&mut self, now: Time, nack: &Nack) {
        // A client's requests for one frame are adjacent.
        for runs in nack.missing.chunk_by(|one, next| one.frame == next.frame) {
            self.on_missing(now, runs[0].frame, runs);
        }
    }

    fn on_missing(&mut self, now: Time, id: FrameId, runs: &[MissingRun]) {
        if self.restraint.is_hopeless(id) {
            self.statistics.retransmissions_refused += runs.len() as u64;
            return;
        }
        let round_trip = self.round_trip.unwrap_or(INITIAL_ROUND_TRIP);
        let path = self.path_facts();
        let under_way = repairs_in_flight(now, round_trip, &self.frames, id);
        let Some(frame) = self.frames.get_mut(id) else {
            self.statistics.retransmissions_refused += runs.len() as u64;
            return;
        };
        // Pieces that have not left yet are not missing.
        let sent = frame.sent;
        let indices = runs.iter().flat_map(|run| run.first..run.first.saturating_add(run.count).min(sent));
        let needed = indices.clone().count().min(usize::from(u16::MAX)) as u16;
        let answer =
            self.protection.as_mut().and_then(|protection| protection.answer(now, frame, needed, under_way, path));
        for index in indices.take(usize::from(answer.unwrap_or(u16::MAX))) {
            if self.retransmissions.room() > 0 && frame.on_resent(now, index, round_trip / 2) {
                self.retransmissions.queue.push_back(Answer::Piece((id, index)));
            } else {
                self.statistics.retransmissions_refused += 1;
            }
        }
        let extra = usize::from(answer.unwrap_or(0).saturating_sub(needed));
        let extra = extra.min(self.retransmissions.room());
        self.retransmissions.queue.extend(std::iter::repeat_n(Answer::Repair(id), extra));
    }

    pub(super) fn poll_retransmission(&mut self, now: Time) -> Option<Content> {
        self.retransmissions.earn(now, self.decision.target);
        if self.pacer.ceiling_opens_at().is_some_and(|at| now < at) {
            return None;
        }
        while let Some(answer) = self.retransmissions.queue.pop_front() {
            let (Answer::Piece((id, _)) | Answer::Repair(id)) = answer;
            if self.restraint.is_hopeless(id) {
                continue;
            }
            let Some(frame) = self.frames.get_mut(id) else { continue };
            let (content, size) = match answer {
                Answer::Piece(piece) => (Content::Retransmission(piece), frame.symbol_size(piece.1)),
                Answer::Repair(_) => {
                    let made = self.protection.as_mut().and_then(|protection| protection.repair(frame));
                    let Some(made) = made else { continue };
                    let content = Content::Repair(id, made.number);
                    let size = Bytes::new((RepairHeader::bytes(1) + made.symbol.len()) as u64);
                    self.retransmissions.repair = Some((id, made));
                    (content, size)
                }
            };
            if !self.retransmissions.spend(size) {
                self.statistics.retransmissions_refused += 1;
                return None;
            }
            self.pacer.poll(now, size, Class::Retransmission);
            match answer {
                Answer::Piece(_) => self.statistics.retransmissions += 1,
                Answer::Repair(_) => self.statistics.repairs += 1,
            }
            self.on_redundant(size);
            self.on_sent(now, size, content);
            return Some(content);
        }
        None
    }
}
