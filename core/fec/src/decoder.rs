//! The decoder of one frame.

use nearlight_units::Bytes;
use thiserror::Error;

use crate::code::Code;
use crate::coefficients::{block_row, invert_cauchy, is_cauchy};
use crate::digest::digest;
use crate::kernel::Kernel;
use crate::solve::reduce;

/// A frame that lacks more symbols than this waits for sources. Solving 512 takes a millisecond, and more grow with the cube. A
/// frame with that many losses came over a path that needs a lower rate rather than repairs.
pub const MAX_MISSING: usize = 512;

/// Number of repairs from which the known sources are subtracted in one pass. Measured: with 12, a frame of 100 that lost 10 is decoded
/// in one pass, and one of 400 that lost 100 takes a third less time than with 6. The last pass has 12 rows at most.
const REPAIRS_PER_PASS: usize = 12;

/// A protocol error of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SymbolError {
    #[error("symbol {index} of a frame that has {sources}: dropped")]
    Index { index: u16, sources: u16 },
    #[error("a symbol of {found} bytes where {expected} are due: dropped")]
    Length { expected: usize, found: usize },
    #[error("two headers describe one frame differently: the later one is dropped")]
    Inconsistent,
    #[error("a frame that takes {needed} bytes to decode, above the limit of {limit}: dropped")]
    TooLarge { needed: u64, limit: u64 },
    #[error("a repair of an invalid window: dropped")]
    Window,
    #[error("a symbol of a frame that is no longer needed: dropped")]
    TooOld,
}

/// The effect of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The symbol was stored. This many symbols are still needed.
    Waiting { needed: u16 },
    /// The symbol was the last one needed. This many sources were computed from repairs.
    Complete { recovered: u16 },
    /// The symbol was known, or not needed any more.
    Redundant,
    /// The symbol was not needed any more and agrees with a frame that was computed from repairs.
    Verified,
    /// The symbol contradicts others: some symbol differs from what the sender sent. The frame is withheld.
    Corrupt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Complete,
    /// Completed with repairs, and confirmed by a symbol that was not used for that.
    Verified,
    Corrupt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Missing,
    Received,
    Recovered,
}

/// Collects one frame's symbols and completes it in place.
///
/// Repairs wait until a kernel's worth of them has arrived. Then all known sources are subtracted in one pass, and a source that arrives
/// later is subtracted at once. So when the last symbol arrives, little work remains.
#[derive(Clone, Debug)]
pub struct Decoder {
    kernel: Kernel,
    code: Code,
    state: State,
    /// The symbols one after the other. The last one is padded with zeros.
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    missing: usize,
    recovered: u16,
    /// Numbers of the repairs in `syndromes`.
    repairs: Vec<u16>,
    /// The repairs. The known sources have been subtracted from the first `folded` of them.
    syndromes: Vec<u8>,
    folded: usize,
    digest: Option<u32>,
    /// The sources that the last elimination yielded.
    computed: Vec<u16>,
}

/// Maximum size of the coefficients and inverses of a decode. A frame needs them once, so they are not part of its state.
fn scratch_bytes(code: &Code) -> u64 {
    let sources = u64::from(code.sources());
    let missing = sources.min(MAX_MISSING as u64);
    missing * (sources + 3 * missing)
}

/// The memory needed to decode a frame in the worst case.
#[must_use]
pub fn decoder_bytes(code: &Code) -> Bytes {
    let sources = u64::from(code.sources());
    let repairs = sources.min(MAX_MISSING as u64);
    Bytes::new((sources + repairs) * (code.symbol_bytes() as u64 + 40) + scratch_bytes(code))
}

impl Decoder {
    /// Makes a decoder for the symbols of `code`, if it takes no more memory than `limit`.
    pub fn new(kernel: Kernel, code: Code, limit: Bytes) -> Result<Self, SymbolError> {
        let mut decoder = Self {
            kernel,
            code,
            state: State::Waiting,
            bytes: Vec::new(),
            slots: Vec::new(),
            missing: 0,
            recovered: 0,
            repairs: Vec::new(),
            syndromes: Vec::new(),
            folded: 0,
            digest: None,
            computed: Vec::new(),
        };
        decoder.reset(code, limit)?;
        Ok(decoder)
    }

    /// Starts over with another frame in the same memory.
    pub fn reset(&mut self, code: Code, limit: Bytes) -> Result<(), SymbolError> {
        let needed = decoder_bytes(&code);
        if needed > limit {
            return Err(SymbolError::TooLarge { needed: needed.get(), limit: limit.get() });
        }
        self.code = code;
        self.state = State::Waiting;
        let sources = usize::from(code.sources());
        // Data of an earlier frame is overwritten before it is read.
        self.bytes.resize(sources * code.symbol_bytes(), 0);
        self.slots.clear();
        self.slots.resize(sources, Slot::Missing);
        self.missing = sources;
        self.recovered = 0;
        self.repairs.clear();
        self.syndromes.clear();
        self.folded = 0;
        self.digest = None;
        self.computed.clear();
        Ok(())
    }

    #[must_use]
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// Sets the sender's digest of the frame (see [`digest`]): a completed frame that differs is withheld.
    pub fn set_digest(&mut self, digest: u32) -> Result<(), SymbolError> {
        if self.digest.is_some_and(|known| known != digest) {
            return Err(SymbolError::Inconsistent);
        }
        let known = self.digest.replace(digest).is_some();
        if !known && self.is_complete() && !self.has_digest() {
            self.withhold();
        }
        Ok(())
    }

    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Complete | State::Verified)
    }

    /// Whether some symbol differs from what the sender sent. Then this frame is lost.
    #[must_use]
    pub fn is_corrupt(&self) -> bool {
        self.state == State::Corrupt
    }

    /// Number of symbols still needed, repairs or missing sources.
    #[must_use]
    pub fn needed(&self) -> u16 {
        if self.state == State::Waiting { self.missing.saturating_sub(self.repairs.len()) as u16 } else { 0 }
    }

    /// Sources that have neither arrived nor been computed.
    pub fn missing(&self) -> impl Iterator<Item = u16> {
        self.slots.iter().enumerate().filter(|(_, slot)| **slot == Slot::Missing).map(|(index, _)| index as u16)
    }

    /// Sources that were computed from repairs.
    #[must_use]
    pub fn recovered(&self) -> u16 {
        self.recovered
    }

    /// The frame, once it is complete.
    #[must_use]
    pub fn frame(&self) -> Option<&[u8]> {
        self.is_complete().then(|| &self.bytes[..self.code.bytes()])
    }

    /// Returns the frame, once it is complete. Later symbols can no longer be checked against it.
    pub fn into_frame(mut self) -> Option<Vec<u8>> {
        self.bytes.truncate(self.code.bytes());
        self.is_complete().then_some(self.bytes)
    }

    /// Handles source `index`.
    pub fn on_source(&mut self, index: u16, symbol: &[u8]) -> Result<Outcome, SymbolError> {
        if index >= self.code.sources() {
            return Err(SymbolError::Index { index, sources: self.code.sources() });
        }
        let expected = self.code.range(index).len();
        if symbol.len() != expected {
            return Err(SymbolError::Length { expected, found: symbol.len() });
        }
        let slot = usize::from(index);
        match self.slots[slot] {
            _ if self.state == State::Corrupt => Ok(Outcome::Redundant),
            Slot::Received => Ok(Outcome::Redundant),
            Slot::Recovered => {
                self.slots[slot] = Slot::Received;
                let agrees = &self.bytes[self.code.range(index)] == symbol;
                Ok(self.confirm(agrees))
            }
            Slot::Missing => {
                let start = slot * self.code.symbol_bytes();
                self.bytes[start..start + expected].copy_from_slice(symbol);
                self.bytes[start + expected..start + self.code.symbol_bytes()].fill(0);
                Ok(self.on_known(slot, Slot::Received))
            }
        }
    }

    /// Handles repair `number`.
    pub fn on_repair(&mut self, number: u16, symbol: &[u8]) -> Result<Outcome, SymbolError> {
        let expected = self.code.symbol_bytes();
        if symbol.len() != expected {
            return Err(SymbolError::Length { expected, found: symbol.len() });
        }
        match self.state {
            State::Complete if self.recovered > 0 => {
                let agrees = self.agrees(number, symbol);
                return Ok(self.confirm(agrees));
            }
            State::Complete | State::Verified | State::Corrupt => return Ok(Outcome::Redundant),
            State::Waiting => {}
        }
        if self.repairs.contains(&number) || self.repairs.len() >= self.missing.min(MAX_MISSING) {
            return Ok(Outcome::Redundant);
        }
        self.repairs.push(number);
        self.syndromes.extend_from_slice(symbol);
        if self.repairs.len() - self.folded >= REPAIRS_PER_PASS {
            self.fold();
        }
        Ok(self.try_to_complete())
    }

    /// Handles a source that was computed from repairs that cover several frames. It is as long as those repairs.
    pub(crate) fn on_recovered(&mut self, index: u16, symbol: &[u8]) -> Outcome {
        let slot = usize::from(index);
        if self.state != State::Waiting || self.slots.get(slot) != Some(&Slot::Missing) {
            return Outcome::Redundant;
        }
        let size = self.code.symbol_bytes();
        self.bytes[slot * size..][..size].copy_from_slice(&symbol[..size]);
        self.recovered += 1;
        let beyond = symbol[size..].iter().any(|byte| *byte != 0);
        if beyond || self.has_bytes_after_the_end() { self.withhold() } else { self.on_known(slot, Slot::Recovered) }
    }

    /// The sources that this frame's own repairs yielded when it became complete.
    pub(crate) fn just_computed(&self) -> &[u16] {
        &self.computed
    }

    /// The frame's maximum memory use.
    pub(crate) fn held(&self) -> Bytes {
        let held =
            self.bytes.capacity() + self.syndromes.capacity() + self.slots.capacity() + 4 * self.repairs.capacity();
        decoder_bytes(&self.code).max(Bytes::new(held as u64))
    }

    /// All known symbols, each of full length, with their indices.
    pub(crate) fn known(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let symbols = self.bytes.chunks(self.code.symbol_bytes()).enumerate();
        symbols.filter(|(index, _)| self.slots[*index] != Slot::Missing)
    }

    /// Symbol `index` in full length, if it is known.
    pub(crate) fn symbol(&self, index: u16) -> Option<&[u8]> {
        let slot = usize::from(index);
        let known = *self.slots.get(slot)? != Slot::Missing;
        known.then(|| &self.bytes[slot * self.code.symbol_bytes()..][..self.code.symbol_bytes()])
    }

    /// The repairs that wait, without the known sources: number and remainder.
    pub(crate) fn equations(&mut self) -> impl Iterator<Item = (u16, &[u8])> {
        self.fold();
        self.repairs.iter().copied().zip(self.syndromes.chunks(self.code.symbol_bytes()))
    }

    /// Withholds the frame: some of its symbols are unusable, and no repair can complete it undetected any more.
    pub(crate) fn withhold(&mut self) -> Outcome {
        self.state = State::Corrupt;
        Outcome::Corrupt
    }

    fn confirm(&mut self, agrees: bool) -> Outcome {
        if !agrees {
            return self.withhold();
        }
        if self.is_complete() {
            self.state = State::Verified;
        }
        Outcome::Verified
    }

    /// Handles a slot that has been filled.
    fn on_known(&mut self, slot: usize, how: Slot) -> Outcome {
        self.slots[slot] = how;
        self.missing -= 1;
        self.subtract(slot);
        self.try_to_complete()
    }

    /// Subtracts one source from the repairs from which the others have been subtracted.
    fn subtract(&mut self, slot: usize) {
        if self.folded == 0 {
            return;
        }
        let size = self.code.symbol_bytes();
        let mut row = vec![0; self.slots.len()];
        let mut factors = Vec::with_capacity(self.folded);
        for repair in &self.repairs[..self.folded] {
            block_row(self.code.frame(), *repair, &mut row);
            factors.push(row[slot]);
        }
        let mut outputs: Vec<&mut [u8]> = self.syndromes.chunks_mut(size).take(self.folded).collect();
        self.kernel.multiply_add(&factors, &[&self.bytes[slot * size..][..size]], &mut outputs);
    }

    /// Subtracts all known sources from the repairs to which they have not been applied yet.
    fn fold(&mut self) {
        let new = self.folded..self.repairs.len();
        if new.is_empty() {
            return;
        }
        let size = self.code.symbol_bytes();
        let mut row = vec![0; self.slots.len()];
        let known: Vec<usize> = self.known().map(|(slot, _)| slot).collect();
        let mut coefficients = Vec::with_capacity(new.len() * known.len());
        for repair in &self.repairs[new] {
            block_row(self.code.frame(), *repair, &mut row);
            coefficients.extend(known.iter().map(|slot| row[*slot]));
        }
        let symbols: Vec<&[u8]> = known.iter().map(|slot| &self.bytes[slot * size..][..size]).collect();
        let mut outputs: Vec<&mut [u8]> = self.syndromes.chunks_exact_mut(size).skip(self.folded).collect();
        self.kernel.multiply_add(&coefficients, &symbols, &mut outputs);
        self.folded = self.repairs.len();
    }

    fn try_to_complete(&mut self) -> Outcome {
        if self.state == State::Waiting && self.missing > 0 && self.repairs.len() >= self.missing {
            self.solve();
        }
        if self.state == State::Corrupt {
            return Outcome::Corrupt;
        }
        if self.missing > 0 {
            return Outcome::Waiting { needed: self.needed() };
        }
        if !self.has_digest() {
            return self.withhold();
        }
        self.state = State::Complete;
        Outcome::Complete { recovered: self.recovered }
    }

    /// Whether the frame has the sender's digest, if that is known.
    fn has_digest(&self) -> bool {
        self.digest.is_none_or(|expected| digest(&self.bytes[..self.code.bytes()]) == expected)
    }

    /// Computes the missing sources from as many repairs, unless these depend on each other.
    fn solve(&mut self) {
        self.fold();
        let missing: Vec<u16> = self.missing().collect();
        let all_cauchy = self.repairs.iter().all(|repair| is_cauchy(self.slots.len(), *repair));
        let mut inverse = Vec::new();
        let mut picked: Vec<usize> = (0..missing.len()).collect();
        if all_cauchy {
            invert_cauchy(&self.repairs[..missing.len()], &missing, &mut inverse);
        } else {
            let Some(found) = self.invert(&missing, &mut inverse) else { return };
            picked = found;
        }
        let size = self.code.symbol_bytes();
        let syndromes: Vec<&[u8]> = picked.iter().map(|row| &self.syndromes[row * size..][..size]).collect();
        let slots = self.bytes.chunks_mut(size).zip(&mut self.slots).filter(|(_, slot)| **slot == Slot::Missing);
        let mut outputs = Vec::with_capacity(missing.len());
        for (symbol, slot) in slots {
            *slot = Slot::Recovered;
            outputs.push(symbol);
        }
        self.kernel.multiply(&inverse, &syndromes, &mut outputs);
        self.recovered += missing.len() as u16;
        self.missing = 0;
        self.computed = missing;
        if self.has_bytes_after_the_end() || self.contradicts(&picked) {
            self.withhold();
        }
    }

    /// Returns the inverse of rows that may depend on each other, and all rows' numbers. None drops a redundant row.
    fn invert(&mut self, missing: &[u16], inverse: &mut Vec<u8>) -> Option<Vec<usize>> {
        let mut row = vec![0; self.slots.len()];
        let mut matrix = Vec::with_capacity(self.repairs.len() * missing.len());
        for repair in &self.repairs {
            block_row(self.code.frame(), *repair, &mut row);
            matrix.extend(missing.iter().map(|index| row[usize::from(*index)]));
        }
        let reduction = reduce(self.kernel, &matrix, missing.len());
        if reduction.checks().any(|combination| !self.cancels(combination)) {
            self.withhold();
            return None;
        }
        if reduction.rank() == missing.len() {
            for (_, combination) in reduction.determined() {
                inverse.extend_from_slice(combination);
            }
            return Some((0..self.repairs.len()).collect());
        }
        // Any repair of a dependent set may be dropped: the others contain the same information.
        let dependent = reduction.checks().next().and_then(|set| set.iter().rposition(|factor| *factor != 0));
        if let Some(row) = dependent {
            let size = self.code.symbol_bytes();
            self.repairs.remove(row);
            self.syndromes.drain(row * size..(row + 1) * size);
            self.folded = self.repairs.len();
        }
        None
    }

    /// Whether a combination of repairs without a missing source is zero, as it should be.
    fn cancels(&self, combination: &[u8]) -> bool {
        let size = self.code.symbol_bytes();
        let syndromes: Vec<&[u8]> = self.syndromes.chunks(size).collect();
        let mut rest = vec![0; size];
        self.kernel.multiply(combination, &syndromes, &mut [&mut rest]);
        rest.iter().all(|byte| *byte == 0)
    }

    /// Whether a repair that was not needed to complete the frame disagrees with it.
    fn contradicts(&mut self, picked: &[usize]) -> bool {
        let size = self.code.symbol_bytes();
        let Some(spare) = (0..self.repairs.len()).find(|row| !picked.contains(row)) else { return false };
        let number = self.repairs[spare];
        let mut row = vec![0; self.slots.len()];
        block_row(self.code.frame(), number, &mut row);
        let mut rest = self.syndromes[spare * size..][..size].to_vec();
        for (index, symbol) in self.bytes.chunks(size).enumerate() {
            if self.slots[index] == Slot::Recovered {
                self.kernel.multiply_add(&[row[index]], &[symbol], &mut [&mut rest]);
            }
        }
        rest.iter().any(|byte| *byte != 0)
    }

    /// Whether a repair that arrived after completion is the frame's.
    fn agrees(&self, number: u16, symbol: &[u8]) -> bool {
        let mut row = vec![0; self.slots.len()];
        block_row(self.code.frame(), number, &mut row);
        let symbols: Vec<&[u8]> = self.bytes.chunks(self.code.symbol_bytes()).collect();
        let mut rest = symbol.to_vec();
        self.kernel.multiply_add(&row, &symbols, &mut [&mut rest]);
        rest.iter().all(|byte| *byte == 0)
    }

    /// Whether the padding of the last symbol is not zero, which shows that a computed symbol is wrong.
    fn has_bytes_after_the_end(&self) -> bool {
        self.slots.last() == Some(&Slot::Recovered) && self.bytes[self.code.bytes()..].iter().any(|byte| *byte != 0)
    }
}
