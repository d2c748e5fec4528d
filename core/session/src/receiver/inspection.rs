//! Accessors for the fuzzers.

use nearlight_units::{FrameId, PacketSeq, Time};

use super::Receiver;

/// Read access to the state of a receiver's parts; see [`Receiver::inspect`].
pub(crate) struct Inspection<'a>(&'a Receiver);

impl Receiver {
    pub(crate) const fn inspect(&self) -> Inspection<'_> {
        Inspection(self)
    }
}

impl Inspection<'_> {
    /// Returns the number of incomplete and waiting frames, and their bytes.
    pub(crate) fn held(&self) -> (usize, usize) {
        let pictures = self.0.pictures.held();
        assert!(pictures <= 256, "{pictures} notes and pictures are held");
        self.0.frames.assembler().held()
    }

    /// Returns the number of frames that wait for their play time, and their bytes.
    pub(crate) fn held_playback(&self) -> (usize, usize) {
        self.0.frames.held_playback()
    }

    /// Returns the numbers of packets, decoded blocks and samples of sound that are held.
    pub(crate) fn held_sound(&self) -> (usize, usize, usize) {
        self.0.sound.held()
    }

    pub(crate) fn newest(&self) -> Option<FrameId> {
        self.0.frames.assembler().newest()
    }

    /// Returns the digest of a frame, if it is known.
    pub(crate) fn digest(&self, frame: FrameId) -> Option<u32> {
        self.0.frames.assembler().digest(frame)
    }

    /// Returns whether pieces of a frame are missing.
    pub(crate) fn lacks(&self, frame: FrameId) -> bool {
        self.0.frames.assembler().lacks(frame)
    }

    /// Returns whether a frame with which the decoder can continue should have been requested by now.
    pub(crate) fn owes_request(&self, now: Time) -> bool {
        self.0.frames.owes_request(now, &self.0.context.clock)
    }

    /// Returns a sequence number that no datagram has used yet, as long as there is one.
    pub(crate) fn next_seq(&self) -> PacketSeq {
        PacketSeq(self.0.arrivals.highest().map_or(0, |highest| (highest as u32).wrapping_add(1)))
    }
}
