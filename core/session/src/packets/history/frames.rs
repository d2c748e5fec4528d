//! Frames in transmitted form, stored as long as pieces of them may be requested.

use std::collections::VecDeque;
use std::ops::Range;

use nearlight_fec::{Code, ParityGroups, digest};
use nearlight_units::{Bytes, FrameId, Span, Time};
use nearlight_wire::{CoveredFrame, SYMBOL_HEADER_BYTES, symbol_range};

use super::Content;
use crate::packets::buffer_pool::BufferPool;
use crate::packets::release::FramePieces;
use crate::sender::protection::PlannedRepairs;

/// Maximum number of stored frames: 0.5 s at 120 frames a second, and at 240 as long as a receiver waits for one over a short path.
const MAX_FRAMES: usize = 64;
/// Memory bound of stored frames, whatever their size.
const MAX_BYTES: usize = 16 << 20;

/// How another protocol splits a frame. The pieces follow one another in the frame's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// Where each piece ends, in bytes, ascending. At least one; the last one is the total number of bytes.
    pub ends: Vec<u32>,
    /// Bytes that the protocol adds to each piece on the wire.
    pub overhead: u16,
    /// The overhead of the longest of the pieces that a repair replaces. None if the protocol has no repairs.
    pub repair_overhead: Option<u16>,
}

impl Segmentation {
    fn range(&self, index: u16) -> Range<usize> {
        let index = usize::from(index);
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[index] as usize
    }

    /// Maximum size of a repair on the wire. None if there are no repairs.
    pub(crate) fn repair_size(&self) -> Option<Bytes> {
        let starts = std::iter::once(&0).chain(&self.ends);
        let longest = starts.zip(&self.ends).map(|(start, end)| end - start).max()?;
        Some(Bytes::new(u64::from(longest) + u64::from(self.repair_overhead?)))
    }
}

/// A frame in transmitted form, and how much of it has left.
#[derive(Debug)]
pub(crate) struct StoredFrame {
    pub(crate) id: FrameId,
    pub(crate) key: bool,
    reference_distance: u8,
    pub(crate) bytes: Vec<u8>,
    pub(crate) symbols: u16,
    /// Symbols below this index have left at least once, or never will unless they are requested.
    pub(crate) sent: u16,
    pub(crate) deadline: Time,
    pub(crate) queued_at: Time,
    pub(crate) render_started_at: Time,
    /// When its first symbol left.
    first_sent_at: Option<Time>,
    /// When the newest of its symbols left for the first time.
    pub(crate) last_sent_at: Time,
    resent_at: Vec<Option<Time>>,
    /// Repairs that are sent after it.
    pub(crate) planned: Option<PlannedRepairs>,
    /// Its position in its group, as stated by the encoder.
    pub(crate) group_index: Option<u32>,
    /// Number of the next repair of this frame alone.
    pub(crate) next_repair: u16,
    digest: Option<u32>,
    /// How another protocol splits it. None for symbols of equal size.
    segmentation: Option<Segmentation>,
}

impl StoredFrame {
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
            first_sent_at: None,
            last_sent_at: Time::ZERO,
            resent_at: Vec::new(),
            planned: None,
            group_index: None,
            next_repair: 0,
            digest: None,
            segmentation: None,
        }
    }

    /// Makes a frame split by another protocol.
    pub(crate) fn with_segmentation(
        id: FrameId,
        reference: Option<FrameId>,
        bytes: Vec<u8>,
        segmentation: Segmentation,
        deadline: Time,
    ) -> Self {
        debug_assert_eq!(segmentation.ends.last().map(|end| *end as usize), Some(bytes.len()), "frame {id}");
        let frame = Self::new(id, reference, bytes, usize::MAX, deadline);
        Self {
            symbols: segmentation.ends.len().min(usize::from(u16::MAX)) as u16,
            segmentation: Some(segmentation),
            ..frame
        }
    }

    /// The frame that it is predicted from. None for a key frame.
    pub(crate) fn reference(&self) -> Option<FrameId> {
        (!self.key).then(|| FrameId(self.id.0.saturating_sub(u32::from(self.reference_distance))))
    }

    fn range(&self, index: u16) -> std::ops::Range<usize> {
        match &self.segmentation {
            Some(segmentation) => segmentation.range(index),
            None => symbol_range(self.bytes.len() as u32, self.symbols, index),
        }
    }

    /// How another protocol splits it. None for symbols of equal size.
    pub(crate) const fn segmentation(&self) -> Option<&Segmentation> {
        self.segmentation.as_ref()
    }

    /// How it was split, for repairs. None for a frame that none of our repairs can cover.
    pub(crate) fn code(&mut self) -> Option<(Code, CoveredFrame)> {
        if self.segmentation.is_some() {
            return None;
        }
        let frame_bytes = self.bytes.len() as u32;
        let code = Code::new(self.id, frame_bytes, self.symbols).ok()?;
        let digest = *self.digest.get_or_insert_with(|| digest(&self.bytes));
        let reference_distance = self.reference_distance;
        Some((code, CoveredFrame { reference_distance, symbols: self.symbols, frame_bytes, digest }))
    }

    /// Its share of the common memory bound.
    fn held(&self) -> usize {
        self.bytes.len() + self.planned.as_ref().map_or(0, PlannedRepairs::held)
    }

    /// Size of the next datagram that leaves for the first time: a symbol, then the planned repairs.
    pub(crate) fn next_size(&self) -> Option<Bytes> {
        if self.sent < self.symbols {
            return Some(self.symbol_size(self.sent));
        }
        self.planned.as_ref().and_then(PlannedRepairs::next_size)
    }

    /// Returns the next datagram, the one that [`StoredFrame::next_size`] measured, which leaves now.
    pub(crate) fn take_next(&mut self, now: Time) -> Option<Content> {
        if self.sent < self.symbols {
            let piece = (self.id, self.sent);
            self.sent += 1;
            self.first_sent_at = self.first_sent_at.or(Some(now));
            self.last_sent_at = now;
            return Some(Content::Piece(piece));
        }
        let number = self.planned.as_mut()?.take_next(now)?;
        Some(Content::Repair(self.id, number))
    }

    /// The symbol's size on the wire.
    pub(crate) fn symbol_size(&self, index: u16) -> Bytes {
        let overhead =
            self.segmentation.as_ref().map_or(SYMBOL_HEADER_BYTES, |segmentation| usize::from(segmentation.overhead));
        Bytes::new((overhead + self.range(index).len()) as u64)
    }

    /// The size of all symbols and planned repairs that have not left yet.
    pub(crate) fn unsent(&self) -> Bytes {
        let symbols: Bytes = (self.sent..self.symbols).map(|index| self.symbol_size(index)).sum();
        symbols + self.planned.as_ref().map_or(Bytes::ZERO, PlannedRepairs::unsent)
    }

    /// Records a retransmission. Returns false if the symbol was retransmitted within `hold`, so that the answer is still in flight.
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

    pub(crate) fn pieces(&self) -> FramePieces {
        FramePieces {
            id: self.id,
            reference: self.reference(),
            deadline: self.deadline,
            pieces: self.symbols,
            bytes: self.bytes.len() as u32,
        }
    }

    /// The bytes of piece `index`.
    pub(crate) fn piece(&self, index: u16) -> &[u8] {
        &self.bytes[self.range(index)]
    }

    /// Which pieces each of its repairs covers, if another protocol generates them.
    pub(crate) fn parity_groups(&self) -> Option<ParityGroups> {
        self.segmentation.as_ref()?;
        Some(ParityGroups::new(self.symbols, self.planned.as_ref().map_or(0, PlannedRepairs::count)))
    }
}

/// Frames in sending order. The oldest are dropped first when memory is short.
#[derive(Debug, Default)]
pub(crate) struct FrameHistory {
    frames: VecDeque<StoredFrame>,
    bytes: usize,
    /// The buffer of the oldest frame, for reuse.
    buffer_pool: BufferPool<1>,
}

impl FrameHistory {
    /// Adds a frame. Returns the unsent size of the frames that made room.
    pub(crate) fn push(&mut self, frame: StoredFrame) -> Bytes {
        self.bytes += frame.held();
        self.frames.push_back(frame);
        let mut dropped = Bytes::ZERO;
        while self.frames.len() > MAX_FRAMES || (self.bytes > MAX_BYTES && self.frames.len() > 1) {
            if let Some(oldest) = self.frames.pop_front() {
                self.bytes -= oldest.held();
                dropped += oldest.unsent();
                self.buffer_pool.give(oldest.bytes);
            }
        }
        dropped
    }

    /// Returns an empty buffer for a frame's bytes.
    pub(crate) fn spare_buffer(&mut self, bytes: usize) -> Vec<u8> {
        self.buffer_pool.take(bytes)
    }

    /// The frame's index. Ids are consecutive, so it follows from the id.
    fn place(&self, id: FrameId) -> Option<usize> {
        id.0.checked_sub(self.frames.front()?.id.0).map(|place| place as usize)
    }

    pub(crate) fn get(&self, id: FrameId) -> Option<&StoredFrame> {
        self.frames.get(self.place(id)?)
    }

    pub(crate) fn get_mut(&mut self, id: FrameId) -> Option<&mut StoredFrame> {
        let place = self.place(id)?;
        self.frames.get_mut(place)
    }

    /// The newest frame that had begun to leave by then.
    pub(crate) fn newest_begun(&self, by: Time) -> Option<FrameId> {
        self.frames.iter().rev().find(|frame| frame.first_sent_at.is_some_and(|at| at <= by)).map(|frame| frame.id)
    }

    /// The first frame that has something left to send. Frames leave in order, so all later ones have, too.
    pub(crate) fn first_unsent(&mut self) -> Option<&mut StoredFrame> {
        self.frames.iter_mut().rev().take_while(|frame| frame.next_size().is_some()).last()
    }

    /// Discards the unsent part of all frames. Returns its size. Pieces that another protocol has numbered stay, because its receiver would
    /// request the missing numbers.
    pub(crate) fn abandon_unsent(&mut self) -> Bytes {
        let mut abandoned = Bytes::ZERO;
        let unsent = self
            .frames
            .iter_mut()
            .rev()
            .take_while(|frame| frame.next_size().is_some() && frame.segmentation.is_none());
        for frame in unsent {
            abandoned += frame.unsent();
            self.bytes -= frame.held();
            (frame.sent, frame.planned) = (frame.symbols, None);
            self.bytes += frame.held();
        }
        abandoned
    }

    /// The newest frames, newest first.
    pub(crate) fn newest(&mut self, count: usize) -> impl Iterator<Item = &mut StoredFrame> {
        self.frames.iter_mut().rev().take(count)
    }

    /// The frame and those after it.
    pub(crate) fn from(&self, id: FrameId) -> impl Iterator<Item = &StoredFrame> {
        let first = self.frames.front().map_or(0, |frame| frame.id.0);
        let place = id.0.checked_sub(first).map_or(self.frames.len(), |place| place as usize);
        self.frames.range(place.min(self.frames.len())..)
    }

    /// Number of stored frames that directly precede `id`.
    pub(crate) fn before(&self, id: FrameId) -> usize {
        let consecutive = self.frames.back().is_some_and(|newest| newest.id.next() == id);
        if consecutive { self.frames.len() } else { 0 }
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.frames.len(), self.bytes)
    }
}
