//! One incomplete frame: which symbols have arrived, and which of the missing ones to request.

use std::collections::VecDeque;
use std::ops::Range;

use nearlight_units::{FrameId, RemoteTime, Span, Time};
use nearlight_wire::{MAX_NACK_ENTRIES, MissingRun, SymbolHeader};

/// Symbols older than the newest one by this count as missing. Packets are reordered by less on real paths; RFC 9002 section 6.1.2 allows
/// an eighth of a round trip.
pub(super) const REORDER_WAIT: Span = Span::from_millis(1);
/// A frame's last symbols are requested when nothing of it has arrived for this long: twice the 5 ms at which WebRTC-like pacing releases
/// its groups.
pub(super) const TAIL_WAIT: Span = Span::from_millis(10);

/// A frame whose bytes failed the digest this many times is given up: an attacker that forges symbols may do so again.
const MAX_MISMATCHES: u8 = 2;

/// When to request symbols again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetransmissionPolicy {
    /// Time without an answer after which a request is repeated.
    pub(crate) retry: Span,
    /// Time after which a missing frame is given up.
    pub(crate) give_up: Span,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slot {
    pub(super) have: bool,
    requested_at: Option<Time>,
}

#[derive(Clone, Debug)]
pub(super) struct Assembly {
    /// The frame's shape. None until the first symbol has arrived: then only the id is known.
    pub(super) shape: Option<Shape>,
    /// The frame up to the end of its last symbol that has arrived. Complete when all have.
    pub(super) bytes: Vec<u8>,
    pub(super) slots: Vec<Slot>,
    pub(super) have_count: usize,
    /// Ends of gaps and when each was detected: missing symbols below such an index become suspect after [`REORDER_WAIT`].
    pub(super) gaps: VecDeque<(usize, Time)>,
    /// Missing symbols below this index are suspect.
    suspect_to: usize,
    highest: Option<usize>,
    pub(super) last_arrival_at: Time,
    pub(super) tail_wait: Span,
    pub(super) last_first_transmission: Option<(RemoteTime, Time)>,
    pub(super) retransmitted: u32,
    /// When a newer frame was seen: everything missing from this one becomes suspect soon after.
    pub(super) overtaken_at: Option<Time>,
    pub(super) suspect_since: Option<Time>,
    /// When the whole frame was requested, while nothing of it is known.
    requested_at: Option<Time>,
    pub(super) attempts: u32,
    /// Whether a symbol was requested again because no answer had arrived.
    pub(super) request_failed: bool,
    /// When something may have to be requested again.
    retry_at: Option<Time>,
    /// Digest of the whole frame, from the first repair that covers it.
    pub(super) digest: Option<u32>,
    /// How often the frame was complete and did not match its digest.
    mismatches: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) key: bool,
    pub(super) reference_distance: u8,
    pub(super) symbols: u16,
    pub(super) frame_bytes: u32,
}

impl Assembly {
    pub(super) fn placeholder(now: Time) -> Self {
        Self {
            shape: None,
            bytes: Vec::new(),
            slots: Vec::new(),
            have_count: 0,
            gaps: VecDeque::new(),
            suspect_to: 0,
            highest: None,
            last_arrival_at: now,
            tail_wait: TAIL_WAIT,
            last_first_transmission: None,
            retransmitted: 0,
            overtaken_at: None,
            suspect_since: None,
            requested_at: None,
            attempts: 0,
            request_failed: false,
            retry_at: None,
            digest: None,
            mismatches: 0,
        }
    }

    /// Discards all symbols and makes them suspect, because the frame does not match its digest and any of them may be forged.
    pub(super) fn start_over(&mut self, digest: u32) {
        self.digest = Some(digest);
        self.mismatches += 1;
        self.bytes.clear();
        self.slots.fill(Slot::default());
        self.have_count = 0;
        self.gaps.clear();
        self.suspect_to = self.slots.len();
        self.request_failed |= self.is_refused();
    }

    /// Whether the digest failed too often: no more symbols are accepted, and the frame is about to be given up.
    pub(super) const fn is_refused(&self) -> bool {
        self.mismatches >= MAX_MISMATCHES
    }

    /// Whether the receiver has requested this symbol.
    pub(super) fn was_requested(&self, index: u16) -> bool {
        self.slots[usize::from(index)].requested_at.is_some()
    }

    /// Its share of the common memory bound.
    pub(super) fn cost(&self) -> usize {
        self.frame_bytes() + self.slots.len() * size_of::<Slot>()
    }

    pub(super) fn frame_bytes(&self) -> usize {
        self.shape.map_or(0, |shape| shape.frame_bytes as usize)
    }

    /// Stores a symbol at its position. In-order symbols are only copied.
    pub(super) fn put(&mut self, place: Range<usize>, payload: &[u8]) {
        if self.bytes.len() == place.start {
            self.bytes.extend_from_slice(payload);
            return;
        }
        if self.bytes.len() < place.end {
            self.bytes.resize(place.end, 0);
        }
        self.bytes[place].copy_from_slice(payload);
    }

    pub(super) fn note_symbol(&mut self, now: Time, header: &SymbolHeader) {
        let index = usize::from(header.index);
        self.slots[index].have = true;
        self.have_count += 1;
        self.last_arrival_at = now;
        if header.flags.retransmission {
            self.retransmitted += 1;
            return;
        }
        if index > self.highest.map_or(0, |highest| highest + 1) {
            self.gaps.push_back((index, now));
        }
        self.highest = self.highest.max(Some(index));
        if self.last_first_transmission.is_none_or(|(sent_at, _)| sent_at <= header.sent_at) {
            self.last_first_transmission = Some((header.sent_at, now));
        }
    }

    /// When everything missing becomes suspect, unless it already is.
    fn tail_suspect_at(&self) -> Time {
        let tail = self.last_arrival_at + self.tail_wait;
        self.overtaken_at.map_or(tail, |at| tail.min(at + REORDER_WAIT))
    }

    /// Records a planned repair: all symbols had left before it.
    pub(super) fn note_repair(&mut self, now: Time) {
        self.last_arrival_at = now;
        let end = self.slots.len();
        let noted = self.gaps.back().is_some_and(|(noted, _)| *noted == end);
        if !noted && self.highest.is_none_or(|highest| highest + 1 < end) {
            self.gaps.push_back((end, now));
        }
    }

    /// Updates which missing symbols are suspect, and returns those to request. `waiting` repairs replace as many symbols.
    pub(super) fn missing(&mut self, now: Time, id: FrameId, retry: Span, waiting: usize) -> Vec<MissingRun> {
        if self.is_refused() {
            return Vec::new();
        }
        while self.gaps.front().is_some_and(|(_, at)| now - *at >= REORDER_WAIT) {
            self.suspect_to = self.gaps.pop_front().map_or(0, |(end, _)| end.max(self.suspect_to));
        }
        let everything = now >= self.tail_suspect_at();
        self.retry_at = None;
        let due = |requested_at: Option<Time>| requested_at.is_none_or(|at| now - at >= retry);
        if self.shape.is_none() {
            if !everything {
                return Vec::new();
            }
            self.suspect_since.get_or_insert(now);
            if due(self.requested_at) {
                self.request_failed |= self.requested_at.is_some();
                self.requested_at = Some(now);
                self.retry_at = Some(now + retry);
                return vec![MissingRun::whole(id)];
            }
            self.retry_at = self.requested_at.map(|at| at + retry);
            return Vec::new();
        }
        if everything {
            self.suspect_to = self.slots.len();
        }
        let mut runs: Vec<MissingRun> = Vec::new();
        let mut oldest_asked = None;
        let needed = (self.slots.len() - self.have_count).saturating_sub(waiting);
        let missing = self.slots[..self.suspect_to].iter_mut().enumerate().filter(|(_, slot)| !slot.have);
        for (index, slot) in missing.take(needed) {
            self.suspect_since.get_or_insert(now);
            if due(slot.requested_at) && runs.len() < MAX_NACK_ENTRIES {
                self.request_failed |= slot.requested_at.is_some();
                slot.requested_at = Some(now);
                match runs.last_mut() {
                    Some(run) if usize::from(run.first + run.count) == index => run.count += 1,
                    _ => runs.push(MissingRun { frame: id, first: index as u16, count: 1 }),
                }
            }
            let requested_at = slot.requested_at.unwrap_or(now);
            oldest_asked = Some(oldest_asked.map_or(requested_at, |oldest: Time| oldest.min(requested_at)));
        }
        self.retry_at = oldest_asked.map(|at| at + retry);
        runs
    }

    /// When [`Assembly::missing`] is due next, or patience runs out.
    pub(super) fn next_check(&self, now: Time, policy: RetransmissionPolicy) -> Option<Time> {
        let gap = self.gaps.front().map(|(_, at)| *at + REORDER_WAIT);
        let all_suspect =
            if self.shape.is_none() { self.suspect_since.is_some() } else { self.suspect_to == self.slots.len() };
        let tail = (!all_suspect).then(|| self.tail_suspect_at());
        // After its due time it is checked with every retry: patience ends only while the sender is alive.
        let give_up = self.suspect_since.map(|since| since + policy.give_up).filter(|at| *at > now);
        [gap, tail, self.retry_at, give_up].into_iter().flatten().min()
    }
}
