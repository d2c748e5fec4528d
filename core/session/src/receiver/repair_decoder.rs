//! The receiver's half of redundancy: symbols and repairs of the newest frames, decoded in place as they arrive.

use nearlight_fec::{Code, Coverage, Decoder, Kernel, Outcome, SymbolError, Window};
use nearlight_units::{Bytes, FrameId};
use nearlight_wire::{RepairHeader, SymbolHeader};

/// Memory bound for the decoders of all frames: frames of half a second at 100 Mb/s, and as many repairs.
pub(crate) const MAX_DECODER_BYTES: Bytes = Bytes::new(16 << 20);

/// The decoders of the newest frames, alongside their assembly. They are created when the first repair arrives, so streams without redundancy
/// do not pay for them.
#[derive(Debug)]
pub(crate) struct RepairDecoder {
    window: Window,
    /// The frames of the current repair, oldest first.
    codes: Vec<Code>,
}

impl RepairDecoder {
    pub(crate) fn new() -> Self {
        Self { window: Window::new(Kernel::best(), MAX_DECODER_BYTES), codes: Vec::new() }
    }

    /// Handles a source symbol. Symbols that do not fit are left to the assembly.
    pub(crate) fn on_symbol(&mut self, header: &SymbolHeader, payload: &[u8]) {
        if let Ok(code) = Code::new(header.frame, header.frame_bytes, header.symbols) {
            let _ = self.window.on_source(&code, header.index, payload);
        }
    }

    /// Handles a symbol that arrived before the first repair.
    pub(crate) fn on_known(&mut self, code: &Code, index: u16, symbol: &[u8]) {
        let _ = self.window.on_source(code, index, symbol);
    }

    /// Handles a repair. An error means that it contradicts what is known, or is too late.
    pub(crate) fn on_repair(&mut self, header: &RepairHeader, payload: &[u8]) -> Result<Outcome, SymbolError> {
        self.codes.clear();
        for (age, covered) in header.covered.iter().enumerate().rev() {
            let frame = FrameId(header.frame.0 - age as u32);
            let code = Code::new(frame, covered.frame_bytes, covered.symbols).map_err(|_| SymbolError::Window)?;
            self.codes.push(code);
        }
        // The newest first: opening one may push out an old one.
        for (code, covered) in self.codes.iter().rev().zip(&header.covered) {
            self.window.set_digest(code, covered.digest)?;
        }
        match self.codes.as_slice() {
            [code] => self.window.on_repair(code, header.number, payload),
            codes => self.window.on_window_repair(&Coverage { codes, number: header.number }, payload),
        }
    }

    /// Discards a frame's symbols, because they failed the digest.
    pub(crate) fn start_over(&mut self, frame: FrameId, digest: u32) {
        self.window.start_over(frame, digest);
    }

    /// Returns a completed frame, with all its bytes and the number of symbols that were recovered.
    pub(crate) fn poll_recovered(&mut self) -> Option<(FrameId, &[u8], u16)> {
        loop {
            let frame = self.window.poll_completed()?;
            // It may have been dropped since.
            if self.window.decoder(frame).is_some_and(Decoder::is_complete) {
                let decoder = self.window.decoder(frame)?;
                return Some((frame, decoder.frame()?, decoder.recovered()));
            }
        }
    }

    /// Number of repairs of this frame alone that wait for further symbols.
    pub(crate) fn waiting(&self, frame: FrameId) -> usize {
        let Some(decoder) = self.window.decoder(frame) else { return 0 };
        let missing = decoder.missing().count();
        if decoder.is_corrupt() { 0 } else { missing.saturating_sub(usize::from(decoder.needed())) }
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn bytes(&self) -> Bytes {
        self.window.bytes()
    }
}
