//! What tests and fuzzing ask of the assembler.

use nearlight_units::FrameId;

use super::Assembler;
use crate::receiver::repair_decoder::MAX_DECODER_BYTES;

impl Assembler {
    /// The digest that the frame must have, if it is known and the frame has not been delivered.
    pub(crate) fn digest(&self, frame: FrameId) -> Option<u32> {
        let waiting = self.whole.get(&frame.0).and_then(|waiting| waiting.digest);
        self.frames.get(&frame.0).and_then(|assembly| assembly.digest).or(waiting)
    }

    /// Whether the frame is expected and incomplete.
    pub(crate) fn lacks(&self, frame: FrameId) -> bool {
        self.frames.contains_key(&frame.0)
    }

    /// Frames that are held, and their bytes. Decoders hold no more than they may.
    pub(crate) fn held(&self) -> (usize, usize) {
        let coded = self.coded.as_ref().map_or(0, |coded| coded.bytes().get() as usize);
        assert!(coded <= MAX_DECODER_BYTES.get() as usize, "decoders hold {coded} bytes");
        (self.frames.len() + self.whole.len(), self.bytes)
    }
}
