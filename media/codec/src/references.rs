//! Tracks which encoded frames the receiver is known to have, so that a loss needs no key frame.
//!
//! An encoder keeps at most two frames beyond the newest: one that the receiver has decoded, from which it can predict at any time, and a
//! candidate that replaces it when the receiver has decoded the candidate.

use std::collections::VecDeque;

use nearlight_units::FrameId;

/// Largest distance of a reference, in frames. On the wire the distance is a byte.
pub const MAX_REFERENCE_DISTANCE: u32 = 255;

/// A frame that the encoder keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptReference {
    /// The frame whose picture is kept.
    pub(crate) frame: FrameId,
    /// The frame that instructs the decoder to keep it: the frame itself or a later one.
    pub(crate) announced_by: FrameId,
    /// The slot in which encoder and decoder keep the frame.
    pub(crate) slot: u8,
}

/// The outcome of the candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CandidateOutcome {
    /// The receiver has the candidate, which is the acknowledged frame now.
    Acknowledged(KeptReference),
    /// The receiver has continued without the candidate.
    Abandoned(KeptReference),
}

#[derive(Debug, Default)]
pub(crate) struct References {
    /// Frames since the newest key frame and their references, oldest first.
    coded: VecDeque<(FrameId, Option<FrameId>)>,
    pub(crate) acknowledged: Option<KeptReference>,
    pub(crate) candidate: Option<KeptReference>,
}

impl References {
    /// Records an encoded frame, which is a key frame if it has no reference.
    pub(crate) fn on_coded(&mut self, frame: FrameId, reference: Option<FrameId>) {
        if reference.is_none() {
            *self = Self::default();
        }
        self.coded.push_back((frame, reference));
        if self.coded.len() > MAX_REFERENCE_DISTANCE as usize {
            self.coded.pop_front();
        }
    }

    /// Returns the acknowledged frame, unless `frame` is too far from it.
    pub(crate) fn usable(&self, frame: FrameId) -> Option<KeptReference> {
        self.acknowledged.filter(|kept| frame.0.saturating_sub(kept.frame.0) <= MAX_REFERENCE_DISTANCE)
    }

    /// Records that the receiver has decoded a frame, and therefore everything that it depends on. Returns the outcome of the candidate, if
    /// it is decided now.
    pub(crate) fn on_decoded(&mut self, frame: FrameId) -> Option<CandidateOutcome> {
        let candidate = self.candidate.filter(|candidate| frame >= candidate.announced_by)?;
        let mut at = frame;
        for (coded, reference) in self.coded.iter().rev() {
            if *coded != at {
                continue;
            }
            if at == candidate.announced_by {
                self.candidate = None;
                self.acknowledged = Some(candidate);
                return Some(CandidateOutcome::Acknowledged(candidate));
            }
            match reference {
                Some(reference) if *reference >= candidate.announced_by => at = *reference,
                _ => {
                    self.candidate = None;
                    return Some(CandidateOutcome::Abandoned(candidate));
                }
            }
        }
        // The frame was never encoded, or so long ago that it reveals nothing.
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(frame: u32, announced_by: u32) -> KeptReference {
        KeptReference { frame: FrameId(frame), announced_by: FrameId(announced_by), slot: 1 }
    }

    /// Returns references with key frame 0, a chain to 5, then 6 predicted from 2 and a chain to 9.
    fn chain(candidate: KeptReference) -> References {
        let mut references = References::default();
        references.on_coded(FrameId(0), None);
        for frame in 1..10 {
            references.on_coded(FrameId(frame), Some(FrameId(if frame == 6 { 2 } else { frame - 1 })));
        }
        references.candidate = Some(candidate);
        references
    }

    #[test]
    fn a_decoded_frame_vouches_for_its_own_chain_alone() {
        let acknowledged = |candidate| Some(CandidateOutcome::Acknowledged(candidate));
        let passed_over = |candidate| Some(CandidateOutcome::Abandoned(candidate));
        let cases = [
            (kept(4, 4), 3, None),
            (kept(4, 4), 4, acknowledged(kept(4, 4))),
            (kept(4, 4), 5, acknowledged(kept(4, 4))),
            (kept(4, 4), 6, passed_over(kept(4, 4))),
            (kept(4, 4), 9, passed_over(kept(4, 4))),
            (kept(1, 2), 9, acknowledged(kept(1, 2))),
            // The frame itself arrived, but not the one that instructs the decoder to keep it.
            (kept(2, 3), 9, passed_over(kept(2, 3))),
            (kept(6, 6), 9, acknowledged(kept(6, 6))),
            (kept(4, 4), 77, None),
        ];
        for (candidate, decoded, wanted) in cases {
            let mut references = chain(candidate);
            assert_eq!(references.on_decoded(FrameId(decoded)), wanted, "{candidate:?}, {decoded}");
            assert_eq!(references.candidate.is_none(), wanted.is_some());
            assert_eq!(
                references.acknowledged,
                wanted.filter(|wanted| *wanted == CandidateOutcome::Acknowledged(candidate)).map(|_| candidate)
            );
        }
    }

    #[test]
    fn a_key_frame_starts_anew_and_the_chain_is_bounded() {
        let mut references = chain(kept(4, 4));
        references.on_decoded(FrameId(5));
        assert!(references.usable(FrameId(259)).is_some());
        assert_eq!(references.usable(FrameId(260)), None);
        references.on_coded(FrameId(10), None);
        assert_eq!((references.acknowledged, references.candidate), (None, None));
        for frame in 11..2_000 {
            references.on_coded(FrameId(frame), Some(FrameId(frame - 1)));
        }
        assert_eq!(references.coded.len(), 255);
    }
}
