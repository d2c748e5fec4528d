//! The effect of repairs: they complete frames, and their digests expose forged frames.

use nearlight_fec::{Code, digest};
use nearlight_units::{FrameId, RemoteTime, Time};
use nearlight_wire::{CoveredFrame, RepairHeader};

use super::frame::{Assembly, Shape};
use super::{Assembler, PendingFrame};
use crate::receiver::repair_decoder::RepairDecoder;

/// A frame that was complete and did not match the digest that a repair announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ForgedFrame {
    pub(crate) frame: FrameId,
    /// Whether it had been reported as complete before its digest arrived.
    pub(crate) completed: bool,
}

const fn shape(covered: &CoveredFrame) -> Shape {
    Shape {
        key: covered.reference_distance == 0,
        reference_distance: covered.reference_distance,
        symbols: covered.symbols,
        frame_bytes: covered.frame_bytes,
    }
}

impl Assembler {
    /// Handles a repair.
    pub(crate) fn on_repair(&mut self, now: Time, header: &RepairHeader, payload: &[u8]) {
        self.heard_at = now;
        if self.coded.is_none() {
            self.coded = Some(Box::new(self.first_repair()));
        }
        // A header that is false about one frame is not trusted about any.
        if !self.agrees(header) {
            return;
        }
        self.check_waiting(now, header);
        if self.covered(header).all(|(id, _)| self.is_done(id)) {
            return;
        }
        if !self.is_done(header.frame.0) {
            self.note_newest(now, header.frame.0);
        }
        let mut room = true;
        for (id, covered) in self.covered(header) {
            room &= self.is_done(id) || self.open(now, id, shape(covered)).is_some();
        }
        if let Some(assembly) = self.frames.get_mut(&header.frame.0).filter(|_| !header.on_demand) {
            assembly.note_repair(now);
        }
        self.schedule_check(now);
        if let Some(mut coded) = self.coded.take_if(|_| room) {
            for (id, covered) in self.covered(header) {
                if let Some(assembly) = self.frames.get_mut(&id) {
                    assembly.digest = Some(covered.digest);
                }
            }
            // A repair that contradicts the other symbols proves nothing: the frame may still be completed without it.
            let _ = coded.on_repair(header, payload);
            self.take_recovered(now, &mut coded, header.sent_at);
            self.coded = Some(coded);
        }
    }

    /// Returns a forged frame detected since the last call.
    pub(crate) fn poll_forged(&mut self) -> Option<ForgedFrame> {
        self.forged.pop_front()
    }

    /// The frames that a repair covers, except those delivered or given up, newest first.
    fn covered<'a>(&self, header: &'a RepairHeader) -> impl Iterator<Item = (u32, &'a CoveredFrame)> + use<'a> {
        let done_to = self.done_to;
        let frames = (0..).zip(&header.covered).map(|(age, covered)| (header.frame.0 - age, covered));
        frames.take_while(move |(id, _)| done_to < Some(*id))
    }

    /// Whether the header is consistent with everything that is known of its frames.
    fn agrees(&self, header: &RepairHeader) -> bool {
        self.covered(header).all(|(id, covered)| {
            let (known, digest) = match (self.frames.get(&id), self.whole.get(&id)) {
                (Some(assembly), _) => (assembly.shape, assembly.digest),
                (None, Some(waiting)) => (Some(waiting.shape), waiting.digest),
                (None, None) => return true,
            };
            known.is_none_or(|known| known == shape(covered)) && digest.is_none_or(|digest| digest == covered.digest)
        })
    }

    /// Checks frames that were completed before their first repair arrived and wait for their reference. A frame that waits for nothing
    /// counts as delivered.
    fn check_waiting(&mut self, now: Time, header: &RepairHeader) {
        for (id, covered) in self.covered(header) {
            let unchecked = self.whole.get(&id).filter(|waiting| waiting.digest.is_none());
            let Some(PendingFrame { whole, shape, .. }) = unchecked.filter(|waiting| !self.starts(id, waiting.shape))
            else {
                continue;
            };
            if digest(&whole.bytes) != covered.digest {
                let (shape, bytes) = (*shape, whole.bytes.len());
                self.whole.remove(&id);
                self.bytes -= bytes;
                let mut assembly = Assembly::placeholder(now);
                assembly.overtaken_at = Some(now);
                self.frames.insert(id, assembly);
                // Without room for its symbols the frame remains a placeholder.
                self.shaped(id, shape);
                self.forget(now, id, covered.digest, true);
            } else if let Some(waiting) = self.whole.get_mut(&id) {
                waiting.digest = Some(covered.digest);
            }
        }
    }

    /// Handles a frame whose symbols have all arrived but do not match its digest.
    pub(super) fn start_over(&mut self, now: Time, id: u32, digest: u32) {
        self.forget(now, id, digest, false);
    }

    fn forget(&mut self, now: Time, id: u32, digest: u32, completed: bool) {
        if let Some(assembly) = self.frames.get_mut(&id) {
            assembly.start_over(digest);
        }
        if let Some(coded) = &mut self.coded {
            coded.start_over(FrameId(id), digest);
        }
        self.forged.push_back(ForgedFrame { frame: FrameId(id), completed });
        self.schedule_check(now);
    }

    /// Creates the decoders, with all symbols that arrived before the first repair.
    fn first_repair(&self) -> RepairDecoder {
        let mut coded = RepairDecoder::new();
        for (id, assembly) in &self.frames {
            let Some(Shape { symbols, frame_bytes, .. }) = assembly.shape else { continue };
            let Ok(code) = Code::new(FrameId(*id), frame_bytes, symbols) else { continue };
            for (index, _) in (0..).zip(&assembly.slots).filter(|(_, slot)| slot.have) {
                coded.on_known(&code, index, &assembly.bytes[code.range(index)]);
            }
        }
        coded
    }

    /// Adopts frames that repairs have completed.
    pub(super) fn take_recovered(&mut self, now: Time, coded: &mut RepairDecoder, sent_at: RemoteTime) {
        while let Some((frame, bytes, recovered)) = coded.poll_recovered() {
            let Some(assembly) = self.frames.get_mut(&frame.0) else { continue };
            if assembly.frame_bytes() == bytes.len() && !assembly.is_refused() {
                assembly.put(0..bytes.len(), bytes);
                self.complete(now, frame.0, sent_at, u32::from(recovered));
            }
        }
    }
}
