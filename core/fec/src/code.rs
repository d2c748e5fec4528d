//! Splits a frame into symbols and computes repairs from them.

use std::ops::Range;

use nearlight_units::FrameId;
use thiserror::Error;

use crate::coefficients::{block_row, window_row};
use crate::kernel::Kernel;

/// Maximum number of frames that one repair may cover. Guess: a group of pictures of half a second at 60 frames a second.
pub const MAX_WINDOW_FRAMES: usize = 32;

/// The error for a frame that cannot be split as its header specifies, or for frames that cannot be covered together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CodeError {
    #[error(
        "{bytes} bytes cannot be cut into {sources} symbols of one size that all carry something: the header is invalid"
    )]
    Shape { bytes: u32, sources: u16 },
    #[error("a repair covers 1 to {MAX_WINDOW_FRAMES} consecutive frames, not {0}: shorten the window")]
    Window(usize),
    #[error("the frame has {found} bytes where its code says {expected}: pass the frame that the code was made for")]
    Frame { expected: u32, found: usize },
    #[error("{found} bytes of buffer for repairs that take {expected}: pass a buffer for all repairs")]
    Room { expected: usize, found: usize },
}

/// The division of a frame into symbols. Both ends know it from any header of the frame. With a repair's number it determines the
/// coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    frame: FrameId,
    bytes: u32,
    sources: u16,
    symbol: u32,
}

impl Code {
    /// Divides the frame's bytes into `sources` symbols of `bytes / sources`, rounded up. Only the last may be shorter.
    pub fn new(frame: FrameId, bytes: u32, sources: u16) -> Result<Self, CodeError> {
        let count = u32::from(sources);
        let symbol = bytes.div_ceil(count.max(1));
        if bytes == 0 || count == 0 || u64::from(symbol) * u64::from(count - 1) >= u64::from(bytes) {
            return Err(CodeError::Shape { bytes, sources });
        }
        Ok(Self { frame, bytes, sources, symbol })
    }

    #[must_use]
    pub const fn frame(&self) -> FrameId {
        self.frame
    }

    /// Length of the frame in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Number of symbols into which the frame is divided.
    #[must_use]
    pub const fn sources(&self) -> u16 {
        self.sources
    }

    /// Length of every symbol and repair in bytes. The last symbol may be shorter.
    #[must_use]
    pub const fn symbol_bytes(&self) -> usize {
        self.symbol as usize
    }

    /// The range of source `index` in the frame. Empty for an index that the frame does not have.
    #[must_use]
    pub fn range(&self, index: u16) -> Range<usize> {
        let start = (self.symbol_bytes() * usize::from(index)).min(self.bytes());
        start..(start + self.symbol_bytes()).min(self.bytes())
    }

    fn check(&self, frame: &[u8]) -> Result<(), CodeError> {
        let expected = self.bytes;
        if frame.len() == self.bytes() { Ok(()) } else { Err(CodeError::Frame { expected, found: frame.len() }) }
    }
}

/// Generates repairs. Keeps its working memory, so use one per session.
#[derive(Clone, Debug)]
pub struct Encoder {
    kernel: Kernel,
    coefficients: Vec<u8>,
    /// The last symbol, padded with zeros.
    last: Vec<u8>,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new(Kernel::best())
    }
}

impl Encoder {
    #[must_use]
    pub fn new(kernel: Kernel) -> Self {
        Self { kernel, coefficients: Vec::new(), last: Vec::new() }
    }

    /// Writes the frame's repairs of these numbers one after the other into `repairs`, each as long as a symbol.
    ///
    /// Any repair can be generated at any time, whatever was generated before. To answer a receiver that lacks more, use the numbers that
    /// follow. Up to 256 sources and repairs together, any `sources` of them recover the frame. Beyond that, all but 0.4 % of such sets do
    /// (1 / 255, with one more symbol 1 / 65,025).
    pub fn repairs(
        &mut self,
        code: &Code,
        frame: &[u8],
        numbers: Range<u16>,
        repairs: &mut [u8],
    ) -> Result<(), CodeError> {
        code.check(frame)?;
        let mut outputs = rows(repairs, numbers.len(), code.symbol_bytes())?;
        let sources = usize::from(code.sources);
        self.coefficients.resize(outputs.len() * sources, 0);
        for (number, row) in numbers.zip(self.coefficients.chunks_mut(sources)) {
            block_row(code.frame, number, row);
        }
        let symbols = symbols(code, frame, &mut self.last);
        self.kernel.multiply(&self.coefficients, &symbols, &mut outputs);
        Ok(())
    }

    /// Writes repairs that cover all of `frames`, oldest first and consecutive, each as long as the longest symbol among them.
    ///
    /// If only one of the frames is incomplete, such a repair is equivalent to one of its own. If several are, it can still
    /// complete an old frame that later ones predict from.
    pub fn window_repairs(
        &mut self,
        frames: &[(Code, &[u8])],
        numbers: Range<u16>,
        repairs: &mut [u8],
    ) -> Result<(), CodeError> {
        let newest = check_window(frames.iter().map(|(code, _)| code))?;
        let longest = window_symbol_bytes(frames.iter().map(|(code, _)| code));
        let mut outputs = rows(repairs, numbers.len(), longest)?;
        for output in &mut outputs {
            output.fill(0);
        }
        for (code, frame) in frames {
            code.check(frame)?;
            let sources = usize::from(code.sources);
            self.coefficients.resize(outputs.len() * sources, 0);
            for (number, row) in numbers.clone().zip(self.coefficients.chunks_mut(sources)) {
                window_row(newest, number, code.frame, row);
            }
            let symbols = symbols(code, frame, &mut self.last);
            let mut outputs: Vec<&mut [u8]> =
                outputs.iter_mut().map(|output| &mut output[..code.symbol_bytes()]).collect();
            self.kernel.multiply_add(&self.coefficients, &symbols, &mut outputs);
        }
        Ok(())
    }
}

/// Returns the newest frame of a window, if one repair may cover it.
pub(crate) fn check_window<'a>(codes: impl Iterator<Item = &'a Code>) -> Result<FrameId, CodeError> {
    let mut newest: Option<FrameId> = None;
    let mut count = 0;
    for code in codes {
        if newest.is_some_and(|frame| frame.next() != code.frame) {
            return Err(CodeError::Window(count));
        }
        newest = Some(code.frame);
        count += 1;
    }
    match newest {
        Some(frame) if count <= MAX_WINDOW_FRAMES => Ok(frame),
        _ => Err(CodeError::Window(count)),
    }
}

/// Length of a repair that covers these frames.
pub(crate) fn window_symbol_bytes<'a>(codes: impl Iterator<Item = &'a Code>) -> usize {
    codes.map(Code::symbol_bytes).max().unwrap_or(0)
}

fn rows(repairs: &mut [u8], count: usize, length: usize) -> Result<Vec<&mut [u8]>, CodeError> {
    let expected = count * length;
    if repairs.len() != expected {
        return Err(CodeError::Room { expected, found: repairs.len() });
    }
    Ok(repairs.chunks_mut(length.max(1)).collect())
}

/// The frame's symbols, all of one length: the last one is copied and padded with zeros.
fn symbols<'a>(code: &Code, frame: &'a [u8], last: &'a mut Vec<u8>) -> Vec<&'a [u8]> {
    let size = code.symbol_bytes();
    let whole = frame.chunks_exact(size);
    last.clear();
    last.extend_from_slice(whole.remainder());
    let short = !last.is_empty();
    last.resize(size, 0);
    let mut symbols = Vec::with_capacity(usize::from(code.sources));
    symbols.extend(whole);
    if short {
        symbols.push(last.as_slice());
    }
    symbols
}
