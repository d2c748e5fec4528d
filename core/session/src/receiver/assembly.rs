//! Reassembles frames from symbols and decides the order in which they go to the decoder.
//!
//! Memory is bounded: at most [`MAX_FRAMES`] frames and [`MAX_BYTES`] bytes are stored here, whatever the peer sends.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use nearlight_events::RecoveryKind;
use nearlight_fec::digest;
use nearlight_units::{FrameId, RemoteTime, Span, Time};
use nearlight_wire::{MAX_NACK_ENTRIES, MissingRun, SymbolHeader, symbol_range};

use crate::receiver::repair_decoder::RepairDecoder;

mod frame;
#[cfg(any(test, feature = "fuzzing"))]
mod inspection;
mod repairs;

pub(crate) use frame::RetransmissionPolicy;
use frame::{Assembly, REORDER_WAIT, Shape, Slot, TAIL_WAIT};
pub(crate) use repairs::ForgedFrame;

/// Maximum number of frames: half a second at 120 frames a second. A receiver that is farther behind needs a key frame.
const MAX_FRAMES: usize = 64;
/// Maximum bytes of all frames: four of the largest frames.
const MAX_BYTES: usize = 16 << 20;
/// A longer gap in frame ids is an outage, not a loss. Guess: half a second at 30 frames a second.
const MAX_GAP: u32 = 15;
/// Number of ids remembered of frames already delivered to the decoder.
const MAX_DELIVERED_IDS: usize = 256;
/// If symbols are spaced widely, a frame's end counts as missing after this many times their spacing: at 1 Mb/s one takes 10 ms. Guess.
const TAIL_SPACINGS: i64 = 2;
/// A longer gap is an outage, not the spacing of symbols.
const MAX_SPACING: Span = Span::from_millis(100);
/// Factor of the tolerated silence after a silence was mistaken for a loss. Guess.
const SILENCE_MARGIN: f64 = 1.5;
/// Each complete frame reduces the tolerated silence by one over this. Guess: half is forgotten in three seconds at 30 frames a second.
const SILENCE_DECAY: i64 = 128;
/// A narrower spacing reduces the recent maximum by one over this part of the difference. Guess: forgotten after a frame of 50 symbols.
const SPACING_DECAY: i64 = 16;

/// A complete frame in decoding order, with the properties of its transfer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AssembledFrame {
    pub(crate) id: FrameId,
    pub(crate) key: bool,
    /// How it was completed after losses, or how it lets the decoder continue.
    pub(crate) recovered_by: Option<RecoveryKind>,
    /// Number of frames before it that were given up in its favour.
    pub(crate) skipped: u32,
    /// Whether a frame that it depends on, directly or indirectly, was skipped.
    pub(crate) damaged: bool,
    pub(crate) bytes: Vec<u8>,
    pub(crate) transfer: Transfer,
}

/// When a frame's packets arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "a time is named after what happened at it, with `at`")]
pub(crate) struct Transfer {
    /// When the last first-time packet that arrived was sent, on the server's clock. The next field is when it arrived.
    pub(crate) last_sent_at: RemoteTime,
    pub(crate) last_arrived_at: Time,
    pub(crate) completed_at: Time,
}

/// Report of a frame that is now complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompletedFrame {
    pub(crate) frame: FrameId,
    pub(crate) key: bool,
    /// Symbols that arrived in a later datagram than their first.
    pub(crate) retransmitted: u32,
    /// Symbols that were computed from repairs.
    pub(crate) recovered: u32,
}

/// A complete frame that waits for its turn in decoding order.
#[derive(Debug)]
struct PendingFrame {
    whole: AssembledFrame,
    shape: Shape,
    /// The digest announced by a repair, which the bytes match.
    digest: Option<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct Assembler {
    frames: BTreeMap<u32, Assembly>,
    whole: BTreeMap<u32, PendingFrame>,
    bytes: usize,
    /// Newest frame of which anything has arrived.
    newest: Option<u32>,
    /// Frames up to this id are finished: delivered or given up.
    done_to: Option<u32>,
    /// Ids of delivered frames, in ascending order.
    delivered: VecDeque<u32>,
    /// Whether only a key frame, or a frame that is predicted from a delivered one, can be decoded.
    broken: bool,
    /// Whether the decoder accepts frames whose reference was skipped. Then no frame waits for one that is predicted from a delivered
    /// frame.
    takes_damaged: bool,
    /// The first frame skipped since the newest key frame, if the decoder continues without it.
    damaged_from: Option<u32>,
    /// When symbols may become suspect, or patience may run out.
    check_at: Option<Time>,
    /// When the newest symbol of any frame arrived, which shows that the sender was alive.
    heard_at: Time,
    /// The recent maximum of the spacing between two symbols of a frame.
    spacing: Span,
    /// How long the path was recently silent before symbols arrived that had been given up too early, because a shared medium serves others
    /// meanwhile. RFC 8985 section 6.2 widens its reordering window after a needless retransmission in the same way.
    silence: Span,
    /// Number of frames that will never be delivered.
    pub(crate) lost: u64,
    /// The decoders of repairs, created when the first repair arrives.
    coded: Option<Box<RepairDecoder>>,
    completed: VecDeque<CompletedFrame>,
    forged: VecDeque<ForgedFrame>,
}

impl Assembler {
    pub(crate) fn newest(&self) -> Option<FrameId> {
        self.newest.map(FrameId)
    }

    /// When the newest symbol of any frame arrived.
    pub(crate) const fn heard_at(&self) -> Time {
        self.heard_at
    }

    pub(crate) const fn is_broken(&self) -> bool {
        self.broken
    }

    /// Sets whether the decoder continues after a skipped frame with what it has.
    pub(crate) const fn set_takes_damaged(&mut self, takes: bool) {
        self.takes_damaged = takes;
    }

    /// Whether only a key frame can restore the picture.
    pub(crate) const fn is_waiting_for_key_frame(&self) -> bool {
        self.broken || self.damaged_from.is_some()
    }

    /// The newest frame that was delivered or given up.
    pub(crate) fn done_to(&self) -> Option<FrameId> {
        self.done_to.map(FrameId)
    }

    /// Records that frame `id` will never be available.
    fn on_chain_broken(&mut self, id: u32) {
        if self.takes_damaged && !self.delivered.is_empty() {
            self.damaged_from.get_or_insert(id);
        } else {
            self.broken = true;
        }
    }

    /// Records that the decoder cannot continue and has lost its state: everything up to the next key frame is lost.
    pub(crate) fn set_broken(&mut self) {
        self.broken = true;
        self.delivered.clear();
    }

    /// Handles a symbol. A duplicate, and one that is too old or contradicts earlier ones, is discarded.
    pub(crate) fn on_symbol(&mut self, now: Time, header: &SymbolHeader, payload: &[u8]) {
        let id = header.frame.0;
        self.heard_at = now;
        if self.is_done(id) {
            return;
        }
        self.note_newest(now, id);
        let shape = Shape {
            key: header.flags.key,
            reference_distance: header.reference_distance,
            symbols: header.symbols,
            frame_bytes: header.frame_bytes,
        };
        let (mut spacing, known_silence) = (self.spacing, self.silence);
        let Some(assembly) = self.open(now, id, shape) else {
            // Without room for it the frame is still expected, and given up in time.
            self.schedule_check(now);
            return;
        };
        if assembly.is_refused() || assembly.slots[usize::from(header.index)].have {
            return;
        }
        assembly.put(symbol_range(header.frame_bytes, header.symbols, header.index), payload);
        if assembly.have_count > 0 && !header.flags.retransmission {
            spacing = (now - assembly.last_arrival_at).min(MAX_SPACING).max(spacing - spacing / SPACING_DECAY);
        }
        let came_anyway = !header.flags.retransmission && assembly.was_requested(header.index);
        let silence = if came_anyway { (now - assembly.last_arrival_at).min(MAX_SPACING) } else { Span::ZERO };
        let silence = silence.max(known_silence);
        assembly.tail_wait = TAIL_WAIT.max(spacing * TAIL_SPACINGS).max(silence.mul_f64(SILENCE_MARGIN));
        assembly.note_symbol(now, header);
        let whole = assembly.have_count == assembly.slots.len();
        let gap = !assembly.gaps.is_empty() || assembly.have_count == 1;
        let contradicted = assembly.digest.filter(|expected| whole && digest(&assembly.bytes) != *expected);
        self.spacing = spacing;
        self.silence = silence;
        if let Some(expected) = contradicted {
            self.start_over(now, id, expected);
        } else if whole {
            self.silence = silence - silence / SILENCE_DECAY;
            self.complete(now, id, header.sent_at, 0);
        } else if gap || self.check_at.is_none() {
            self.schedule_check(now);
        }
        if let Some(mut coded) = self.coded.take_if(|_| contradicted.is_none()) {
            coded.on_symbol(header, payload);
            self.take_recovered(now, &mut coded, header.sent_at);
            self.coded = Some(coded);
        }
    }

    /// Returns a frame that was completed since the last call.
    pub(crate) fn poll_completed(&mut self) -> Option<CompletedFrame> {
        self.completed.pop_front()
    }

    /// Whether a frame is delivered, given up, or waiting only for its turn.
    fn is_done(&self, id: u32) -> bool {
        self.done_to.is_some_and(|done| id <= done) || self.whole.contains_key(&id)
    }

    /// Returns the frame's assembly, creating it if there is none. None if there is no room or the header contradicts an earlier one.
    fn open(&mut self, now: Time, id: u32, shape: Shape) -> Option<&mut Assembly> {
        if !self.frames.contains_key(&id) && !self.make_room(id) {
            return None;
        }
        self.frames.entry(id).or_insert_with(|| Assembly::placeholder(now));
        self.shaped(id, shape)
    }

    /// Returns the frame's assembly if it has this shape. None if it has another one, or if there is no room for the frame's bytes.
    fn shaped(&mut self, id: u32, shape: Shape) -> Option<&mut Assembly> {
        let assembly = self.frames.get_mut(&id)?;
        if assembly.shape.is_none() {
            // A forged header may claim 4 MiB: the cost over all frames is checked before anything is allocated.
            let cost = shape.frame_bytes as usize + usize::from(shape.symbols) * size_of::<Slot>();
            if self.bytes + cost > MAX_BYTES {
                return None;
            }
            self.bytes += cost;
            assembly.bytes = Vec::with_capacity(shape.frame_bytes as usize);
            assembly.slots = vec![Slot::default(); usize::from(shape.symbols)];
            assembly.shape = Some(shape);
        }
        (assembly.shape == Some(shape)).then_some(assembly)
    }

    /// Schedules an early check, because something may have become suspect.
    fn schedule_check(&mut self, now: Time) {
        self.check_at = Some(self.check_at.map_or(now, |at| at.min(now + REORDER_WAIT)));
    }

    fn complete(&mut self, now: Time, id: u32, sent_at: RemoteTime, recovered: u32) {
        let Some(assembly) = self.frames.remove(&id) else { return };
        let Some(shape) = assembly.shape else { return };
        let key = shape.key;
        // A frame that was assembled from repairs alone has no first transmission to time.
        let (last_sent_at, last_arrived_at) = assembly.last_first_transmission.unwrap_or((sent_at, now));
        self.bytes -= assembly.cost() - assembly.frame_bytes();
        let retransmitted = assembly.retransmitted;
        let transfer = Transfer { last_sent_at, last_arrived_at, completed_at: now };
        let behind = self.newest.map_or(0, |newest| newest.saturating_sub(id));
        let recovered_by = match (recovered, retransmitted, behind) {
            (0, 0, _) => None,
            (0, _, _) => Some(RecoveryKind::Retransmission),
            (_, _, 0) => Some(RecoveryKind::Repair),
            _ => Some(RecoveryKind::LateRepair),
        };
        let whole = AssembledFrame {
            id: FrameId(id),
            key,
            recovered_by,
            skipped: 0,
            damaged: false,
            bytes: assembly.bytes,
            transfer,
        };
        self.whole.insert(id, PendingFrame { whole, shape, digest: assembly.digest });
        self.completed.push_back(CompletedFrame { frame: FrameId(id), key, retransmitted, recovered });
    }

    /// Creates placeholders for frames of which nothing has arrived. A gap that is too long to be filled breaks the chain.
    fn note_newest(&mut self, now: Time, id: u32) {
        let Some(newest) = self.newest else {
            self.newest = Some(id);
            // Frames before the first one seen were never meant for this receiver.
            self.done_to = id.checked_sub(1);
            return;
        };
        if id <= newest {
            return;
        }
        self.newest = Some(id);
        if id - newest > MAX_GAP {
            self.give_up_before(id);
            self.on_chain_broken(newest + 1);
        } else {
            for between in newest + 1..id {
                self.frames.insert(between, Assembly::placeholder(now));
            }
        }
        for (_, assembly) in self.frames.range_mut(..id) {
            assembly.overtaken_at.get_or_insert(now);
        }
        if self.frames.range(..id).next().is_some() {
            self.schedule_check(now);
        }
    }

    /// Makes room for one more frame by dropping the oldest incomplete one if necessary. Returns false if `id` is older than that one.
    fn make_room(&mut self, id: u32) -> bool {
        while self.frames.len() + self.whole.len() >= MAX_FRAMES {
            let oldest = self.frames.keys().chain(self.whole.keys()).min().copied();
            match oldest {
                Some(oldest) if oldest < id => {
                    self.give_up_before(oldest + 1);
                    self.on_chain_broken(oldest);
                }
                _ => return false,
            }
        }
        true
    }

    /// Gives up all frames older than `id` that have not been delivered.
    fn give_up_before(&mut self, id: u32) {
        let Some(first) = self.done_to.map_or(Some(0), |done| done.checked_add(1)) else { return };
        if id <= first {
            return;
        }
        self.lost += u64::from(id - first);
        self.done_to = Some(id - 1);
        let kept = self.frames.split_off(&id);
        self.bytes -= self.frames.values().map(Assembly::cost).sum::<usize>();
        self.frames = kept;
        let kept = self.whole.split_off(&id);
        self.bytes -= self.whole.values().map(|waiting| waiting.whole.bytes.len()).sum::<usize>();
        self.whole = kept;
    }

    /// Returns the next frame for the decoder, in order.
    ///
    /// A key frame is returned at once, any other frame once its reference has been delivered. All older frames are given up then.
    pub(crate) fn poll_whole(&mut self) -> Option<AssembledFrame> {
        let id = self.deliverable()?;
        let first = self.done_to.map_or(id, |done| done.saturating_add(1));
        self.give_up_before(id);
        let mut whole = self.whole.remove(&id)?.whole;
        whole.skipped = id - first.min(id);
        if self.takes_damaged {
            self.note_damage(&mut whole, first);
        } else if whole.skipped > 0 || self.broken {
            whole.recovered_by = Some(if whole.key { RecoveryKind::KeyFrame } else { RecoveryKind::Reference });
        }
        self.bytes -= whole.bytes.len();
        self.done_to = Some(id);
        self.broken = false;
        self.delivered.push_back(id);
        if self.delivered.len() > MAX_DELIVERED_IDS {
            self.delivered.pop_front();
        }
        Some(whole)
    }

    /// Tracks damage, if the decoder continues in spite of missing frames: a key frame ends it, and a gap before any other frame starts it.
    /// `first` is the oldest frame that was not finished.
    fn note_damage(&mut self, whole: &mut AssembledFrame, first: u32) {
        if whole.key {
            let from = self.damaged_from.take();
            if from.is_some() || self.broken || whole.skipped > 0 {
                whole.skipped = whole.id.0 - from.unwrap_or(first).min(whole.id.0);
                whole.recovered_by = Some(RecoveryKind::KeyFrame);
            }
        } else if whole.skipped > 0 {
            self.damaged_from.get_or_insert(first);
        }
        whole.damaged = self.damaged_from.is_some();
    }

    fn deliverable(&self) -> Option<u32> {
        self.whole.iter().find_map(|(id, waiting)| {
            // If only the order decides, a frame waits for those before it until they are given up.
            let waits = self.takes_damaged && !waiting.shape.key && self.frames.range(..id).next().is_some();
            (!waits && self.starts(*id, waiting.shape)).then_some(*id)
        })
    }

    /// Whether the frame `distance` before this one was delivered to the decoder.
    fn is_delivered(&self, id: u32, distance: u8) -> bool {
        let reference = id.checked_sub(distance.into());
        reference.is_some_and(|reference| self.delivered.binary_search(&reference).is_ok())
    }

    /// Whether the decoder could continue with this frame once it is complete.
    fn starts(&self, id: u32, shape: Shape) -> bool {
        shape.key
            || if self.takes_damaged {
                !self.delivered.is_empty()
            } else {
                self.is_delivered(id, shape.reference_distance)
            }
    }

    /// Incomplete frames with which the decoder could continue.
    fn incomplete_restarts(&self) -> impl Iterator<Item = (u32, &Assembly)> {
        let starts = |(id, assembly): &(&u32, &Assembly)| assembly.shape.is_some_and(|shape| self.starts(**id, shape));
        self.frames.iter().filter(starts).map(|(id, assembly)| (*id, assembly))
    }

    /// The oldest frame that can be decoded now, or could if it were complete.
    fn next_start(&self) -> Option<u32> {
        self.deliverable().into_iter().chain(self.incomplete_restarts().next().map(|(id, _)| id)).min()
    }

    /// Whether the decoder waits for symbols that were requested without success, and no incomplete frame can be decoded without them.
    pub(crate) fn is_stalled(&self) -> bool {
        let waits = self.broken || self.frames.values().next().is_some_and(|oldest| oldest.request_failed);
        waits && !self.has_deliverable() && self.incomplete_restarts().all(|(_, assembly)| assembly.request_failed)
    }

    /// When to request a frame with which the decoder can continue whatever is missing: at once if no such frame is on its way,
    /// otherwise when `patience` has run out with all that are. None if nothing is known to be missing.
    pub(crate) fn restart_due(&self, patience: Span) -> Option<Time> {
        if self.has_deliverable() {
            return None;
        }
        let next = self.frames.values().next().filter(|_| !self.broken);
        let waited_for = next.into_iter().chain(self.incomplete_restarts().map(|(_, assembly)| assembly));
        let mut due = self.broken.then_some(Time::ZERO);
        for assembly in waited_for {
            due = due.max(Some(assembly.suspect_since? + patience));
        }
        due
    }

    /// Whether something newer than the decoder's last frame is known, and none of it can be decoded.
    pub(crate) fn is_frozen(&self) -> bool {
        let behind = self.broken || !self.frames.is_empty() || !self.whole.is_empty();
        self.newest.is_some() && behind && !self.has_deliverable()
    }

    /// Whether a frame newer than those delivered could be delivered as well.
    pub(crate) fn has_deliverable(&self) -> bool {
        self.deliverable().is_some()
    }

    /// Returns what to request now, with the number of attempts per frame. Costs nothing before it is due.
    pub(crate) fn poll_missing(
        &mut self,
        now: Time,
        policy: RetransmissionPolicy,
    ) -> Vec<(FrameId, u32, Vec<MissingRun>)> {
        let mut asked = Vec::new();
        if self.check_at.is_none_or(|at| now < at) {
            return asked;
        }
        let mut next_check: Option<Time> = None;
        let mut room = MAX_NACK_ENTRIES;
        for (&id, assembly) in &mut self.frames {
            if room == 0 {
                next_check = Some(now + REORDER_WAIT);
                break;
            }
            let waiting = self.coded.as_ref().map_or(0, |coded| coded.waiting(FrameId(id)));
            let mut missing = assembly.missing(now, FrameId(id), policy.retry, waiting);
            missing.truncate(room);
            room -= missing.len();
            if !missing.is_empty() {
                assembly.attempts += 1;
                asked.push((FrameId(id), assembly.attempts, missing));
            }
            next_check = next_check.into_iter().chain(assembly.next_check(now, policy)).min();
        }
        // All incomplete frames are checked again.
        let again = (!self.frames.is_empty()).then(|| now + policy.retry);
        self.check_at = next_check.or(again);
        asked
    }

    /// Gives up what is missing as soon as something newer reveals it, for receivers that never send requests. From then on only a key
    /// frame helps.
    pub(crate) fn give_up_lost(&mut self, now: Time) {
        if self.check_at.is_none_or(|at| now < at) {
            return;
        }
        let shown_at = |assembly: &Assembly| {
            let is_open = |end: usize| assembly.slots[..end].iter().any(|slot| !slot.have);
            if assembly.is_refused() {
                return Some(now);
            }
            let gap = assembly.gaps.iter().find(|(end, _)| is_open(*end)).map(|(_, at)| *at);
            gap.into_iter().chain(assembly.overtaken_at).min().map(|at| at + REORDER_WAIT)
        };
        let mut lost = None;
        let mut next: Option<Time> = None;
        for (&id, assembly) in &self.frames {
            match shown_at(assembly) {
                Some(at) if at <= now => lost = Some(id),
                Some(at) => next = Some(next.map_or(at, |next| next.min(at))),
                None => {}
            }
        }
        self.check_at = next;
        let Some(id) = lost else { return };
        self.give_up_before(id.saturating_add(1));
        self.set_broken();
    }

    /// Gives up frames that have been missing for too long: the chain is broken from then on.
    pub(crate) fn expire(&mut self, now: Time, policy: RetransmissionPolicy) {
        // Silence is not a refusal: while nothing arrives at all, the sender or the path has paused and may still answer.
        let (heard_at, takes_damaged) = (self.heard_at, self.takes_damaged);
        let overdue = |assembly: &Assembly| {
            let heard = |since: Time| takes_damaged || heard_at - since >= policy.retry;
            let patience = |since: Time| now - since >= policy.give_up && heard(since);
            assembly.is_refused() || assembly.suspect_since.is_some_and(patience)
        };
        if self.check_at.is_none_or(|at| now < at) {
            return;
        }
        if self.takes_damaged && !self.delivered.is_empty() {
            self.drop_overdue(overdue);
            return;
        }
        let Some(id) = self.frames.iter().rev().find_map(|(id, assembly)| overdue(assembly).then_some(*id)) else {
            return;
        };
        // While the chain is broken, the remaining frames start with one that would restore it: that one is given up too.
        let end = self.newest.filter(|_| self.broken).unwrap_or(id);
        self.give_up_before(end.saturating_add(1));
        self.broken = true;
    }

    /// Gives up the overdue frames before the next complete one, with which the decoder continues.
    fn drop_overdue(&mut self, overdue: impl Fn(&Assembly) -> bool) {
        while let Some((&id, assembly)) = self.frames.first_key_value() {
            let next_whole = self.whole.keys().next().copied();
            if next_whole.is_some_and(|whole| whole < id) || !overdue(assembly) {
                return;
            }
            self.give_up_before(id.saturating_add(1));
            self.on_chain_broken(id);
        }
    }

    /// Detects a broken chain: the next frame depends on one that will never be available. While the chain is broken, all
    /// frames before the one that restores it are lost: drops them.
    pub(crate) fn drop_useless(&mut self) {
        self.broken |= self.next_is_orphan();
        if !self.broken {
            return;
        }
        let end = self.next_start().or(self.newest.and_then(|newest| newest.checked_add(1)));
        if let Some(end) = end {
            self.give_up_before(end);
        }
    }

    fn next_is_orphan(&self) -> bool {
        let incomplete = self.frames.first_key_value().map(|(id, assembly)| (*id, assembly.shape));
        let whole = self.whole.first_key_value().map(|(id, waiting)| (*id, Some(waiting.shape)));
        let next = match (incomplete, whole) {
            (Some(one), Some(other)) => Some(if one.0 < other.0 { one } else { other }),
            (one, other) => one.or(other),
        };
        let Some((id, Some(shape))) = next else { return false };
        let reference = id.checked_sub(shape.reference_distance.into());
        let pending = reference.is_some_and(|reference| self.done_to.is_none_or(|done| reference > done));
        !pending && !self.starts(id, shape)
    }

    /// When [`Assembler::poll_missing`] or [`Assembler::expire`] has to be called.
    pub(crate) const fn poll_timeout(&self) -> Option<Time> {
        self.check_at
    }
}
