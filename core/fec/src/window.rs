//! The frames that a receiver is reassembling, with the repairs that cover several of them.

use std::collections::VecDeque;

use nearlight_units::{Bytes, FrameId};

use crate::code::{Code, MAX_WINDOW_FRAMES, check_window, window_symbol_bytes};
use crate::coefficients::{block_row, window_row};
use crate::decoder::{Decoder, MAX_MISSING, Outcome, SymbolError};
use crate::kernel::Kernel;
use crate::solve::{Reduction, reduce};

/// Maximum number of pending multi-frame repairs. Guess: more were never useful before their frames were given up.
const MAX_PENDING_REPAIRS: usize = 128;

/// Number of decoders whose memory is kept for later frames.
const MAX_SPARE_DECODERS: usize = 4;

/// The frames that one repair covers, as its header lists them, and its number among the repairs of that window.
#[derive(Clone, Copy, Debug)]
pub struct Coverage<'a> {
    /// The covered frames, oldest first, consecutive.
    pub codes: &'a [Code],
    pub number: u16,
}

/// A repair over several frames, from which the known sources have been subtracted.
#[derive(Clone, Debug)]
struct WindowRepair {
    codes: Vec<Code>,
    number: u16,
    newest: FrameId,
    rest: Vec<u8>,
}

/// Decoders of a few consecutive frames.
///
/// Symbols go to their frame's decoder. A repair over several frames serves those that lack symbols. Unknowns that the equations of
/// all frames together determine are computed at once, so a late repair can complete an old frame that newer ones
/// predict from. Memory never exceeds the limit: the oldest frames are dropped first.
#[derive(Clone, Debug)]
pub struct Window {
    kernel: Kernel,
    limit: Bytes,
    frames: VecDeque<Decoder>,
    rows: Vec<WindowRepair>,
    spare: Vec<Decoder>,
    /// Frames that became complete and were not polled yet.
    completed: VecDeque<FrameId>,
    /// The newest frame that was dropped. It and older ones are not accepted again.
    dropped: Option<FrameId>,
}

impl Window {
    /// Makes a window of at most `limit` bytes and [`MAX_WINDOW_FRAMES`] frames.
    #[must_use]
    pub fn new(kernel: Kernel, limit: Bytes) -> Self {
        Self {
            kernel,
            limit,
            frames: VecDeque::new(),
            rows: Vec::new(),
            spare: Vec::new(),
            completed: VecDeque::new(),
            dropped: None,
        }
    }

    /// The frame's decoder, if the frame is in the window.
    #[must_use]
    pub fn decoder(&self, frame: FrameId) -> Option<&Decoder> {
        self.frames.iter().find(|decoder| decoder.code().frame() == frame)
    }

    /// Sets the sender's digest of the frame (see [`digest`](crate::digest)): a completed frame that differs is withheld.
    pub fn set_digest(&mut self, code: &Code, digest: u32) -> Result<(), SymbolError> {
        let position = self.open(code)?;
        self.frames[position].set_digest(digest)
    }

    /// Discards the frame's symbols, which were not the sender's, and the repairs of several frames from which they were subtracted.
    ///
    /// The frame may still be completed by other symbols that match `digest`.
    pub fn start_over(&mut self, frame: FrameId, digest: u32) {
        self.rows.retain(|row| !row.covers(frame));
        let Some(position) = self.position(frame) else { return };
        let decoder = &mut self.frames[position];
        let code = *decoder.code();
        if decoder.reset(code, self.limit).and_then(|()| decoder.set_digest(digest)).is_err() {
            decoder.withhold();
        }
    }

    /// Returns a frame that has become complete, in the order of completion. Each is returned once.
    pub fn poll_completed(&mut self) -> Option<FrameId> {
        self.completed.pop_front()
    }

    /// The maximum memory use of frames and repairs.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        let frames: Bytes = self.frames.iter().chain(&self.spare).map(Decoder::held).sum();
        frames + self.rows.iter().map(WindowRepair::bytes).sum()
    }

    /// Handles source `index` of the frame.
    pub fn on_source(&mut self, code: &Code, index: u16, symbol: &[u8]) -> Result<Outcome, SymbolError> {
        let position = self.open(code)?;
        let outcome = self.frames[position].on_source(index, symbol)?;
        self.after(position, Some(index), outcome);
        Ok(outcome)
    }

    /// Handles repair `number` of the frame.
    pub fn on_repair(&mut self, code: &Code, number: u16, symbol: &[u8]) -> Result<Outcome, SymbolError> {
        let position = self.open(code)?;
        let outcome = self.frames[position].on_repair(number, symbol)?;
        self.after(position, None, outcome);
        Ok(outcome)
    }

    /// Handles a repair that covers several frames.
    ///
    /// The outcome is that of the newest of them. Others may be complete too, see [`Window::poll_completed`].
    pub fn on_window_repair(&mut self, coverage: &Coverage<'_>, symbol: &[u8]) -> Result<Outcome, SymbolError> {
        let newest = check_window(coverage.codes.iter()).map_err(|_| SymbolError::Window)?;
        let expected = window_symbol_bytes(coverage.codes.iter());
        if symbol.len() != expected {
            return Err(SymbolError::Length { expected, found: symbol.len() });
        }
        // Opening a frame may push out an older one. So the newest are opened first, and the repair is dropped if one does not stay.
        for code in coverage.codes.iter().rev() {
            self.open(code)?;
        }
        if coverage.codes.iter().any(|code| self.position(code.frame()).is_none()) {
            return Err(SymbolError::TooOld);
        }
        let known = self.rows.iter().any(|row| row.newest == newest && row.number == coverage.number);
        if known
            || self.rows.len() >= MAX_PENDING_REPAIRS
            || coverage.codes.iter().all(|code| self.is_settled(code.frame()))
        {
            return Ok(Outcome::Redundant);
        }
        let mut row =
            WindowRepair { codes: coverage.codes.to_vec(), number: coverage.number, newest, rest: symbol.to_vec() };
        for decoder in &self.frames {
            row.subtract_known(self.kernel, decoder);
        }
        self.rows.push(row);
        self.evict();
        self.solve();
        Ok(self.decoder(newest).map_or(Outcome::Redundant, |decoder| match decoder {
            decoder if decoder.is_corrupt() => Outcome::Corrupt,
            decoder if decoder.is_complete() => Outcome::Complete { recovered: decoder.recovered() },
            decoder => Outcome::Waiting { needed: decoder.needed() },
        }))
    }

    /// Drops frames before `frame`, which are not needed any more.
    pub fn drop_before(&mut self, frame: FrameId) {
        while self.frames.front().is_some_and(|decoder| decoder.code().frame() < frame) {
            self.drop_oldest();
        }
        if let Some(last) = frame.0.checked_sub(1) {
            self.dropped = self.dropped.max(Some(FrameId(last)));
        }
    }

    /// The position of the frame's decoder, which is created if there is none yet.
    fn open(&mut self, code: &Code) -> Result<usize, SymbolError> {
        if let Some(position) = self.position(code.frame()) {
            let same = self.frames[position].code() == code;
            return if same { Ok(position) } else { Err(SymbolError::Inconsistent) };
        }
        let too_old = self.dropped.is_some_and(|dropped| code.frame() <= dropped)
            || self.frames.back().is_some_and(|newest| {
                (code.frame().0 as usize).saturating_add(MAX_WINDOW_FRAMES) <= newest.code().frame().0 as usize
            });
        if too_old {
            return Err(SymbolError::TooOld);
        }
        let decoder = match self.spare.pop() {
            Some(mut spare) => spare.reset(*code, self.limit).map(|()| spare)?,
            None => Decoder::new(self.kernel, *code, self.limit)?,
        };
        let position = self.frames.iter().take_while(|other| other.code().frame() < code.frame()).count();
        self.frames.insert(position, decoder);
        self.evict();
        self.position(code.frame()).ok_or(SymbolError::TooOld)
    }

    fn position(&self, frame: FrameId) -> Option<usize> {
        self.frames.iter().position(|decoder| decoder.code().frame() == frame)
    }

    /// Whether the frame is final: recovered or given up.
    fn is_settled(&self, frame: FrameId) -> bool {
        self.decoder(frame).is_none_or(|decoder| decoder.is_complete() || decoder.is_corrupt())
    }

    fn evict(&mut self) {
        let newest = self.frames.back().map_or(0, |decoder| decoder.code().frame().0);
        let oldest = newest.saturating_sub(MAX_WINDOW_FRAMES as u32 - 1);
        while self.frames.front().is_some_and(|decoder| decoder.code().frame().0 < oldest) {
            self.drop_oldest();
        }
        while self.bytes() > self.limit && self.spare.pop().is_some() {}
        while self.bytes() > self.limit && !self.frames.is_empty() {
            self.drop_oldest();
            self.spare.clear();
        }
    }

    fn drop_oldest(&mut self) {
        let Some(decoder) = self.frames.pop_front() else { return };
        let frame = decoder.code().frame();
        self.dropped = self.dropped.max(Some(frame));
        if self.spare.len() < MAX_SPARE_DECODERS {
            self.spare.push(decoder);
        }
        // The symbols of the dropped frame that such a repair lacks will never arrive.
        self.rows.retain(|row| !row.covers(frame));
    }

    /// Propagates sources of the frame at `position` that a symbol has revealed to the other equations, and uses them.
    fn after(&mut self, position: usize, source: Option<u16>, outcome: Outcome) {
        self.note(position, source, outcome);
        if !matches!(outcome, Outcome::Redundant | Outcome::Verified) {
            self.solve();
        }
    }

    fn note(&mut self, position: usize, source: Option<u16>, outcome: Outcome) {
        let decoder = &self.frames[position];
        let computed = match outcome {
            Outcome::Redundant | Outcome::Verified | Outcome::Corrupt => return,
            Outcome::Waiting { .. } => [].as_slice(),
            Outcome::Complete { .. } => {
                self.completed.push_back(decoder.code().frame());
                decoder.just_computed()
            }
        };
        for row in &mut self.rows {
            row.subtract(self.kernel, decoder, computed.iter().copied().chain(source));
        }
    }

    /// Computes every source that the equations of all frames together determine.
    fn solve(&mut self) {
        self.drop_settled_rows();
        while !self.rows.is_empty() {
            let Some(progress) = self.solve_once() else { return };
            if !progress {
                return;
            }
            self.drop_settled_rows();
        }
    }

    /// Drops repairs that are no longer useful, and those that cover a frame with contradictory symbols.
    fn drop_settled_rows(&mut self) {
        let mut rows = std::mem::take(&mut self.rows);
        let is_corrupt = |code: &Code| self.decoder(code.frame()).is_some_and(Decoder::is_corrupt);
        rows.retain(|row| {
            !row.codes.iter().any(is_corrupt) && !row.codes.iter().all(|code| self.is_settled(code.frame()))
        });
        self.rows = rows;
    }

    /// Performs one elimination. Returns whether it revealed a symbol. None: there cannot be enough equations yet.
    fn solve_once(&mut self) -> Option<bool> {
        let system = System::new(&mut self.frames, &self.rows)?;
        let reduction = reduce(self.kernel, &system.matrix, system.unknowns.len());
        if let Some(wrong) = system.contradiction(self.kernel, &reduction) {
            // Some symbol is wrong, and it is unknown which: the frames it may have affected are lost.
            for position in wrong {
                self.frames[position].withhold();
            }
            return Some(true);
        }
        let values = system.values(self.kernel, &reduction);
        for (position, index, value) in &values {
            let outcome = self.frames[*position].on_recovered(*index, value);
            self.note(*position, Some(*index), outcome);
        }
        Some(!values.is_empty())
    }
}

impl WindowRepair {
    fn bytes(&self) -> Bytes {
        Bytes::new((self.rest.len() + self.codes.len() * size_of::<Code>() + size_of::<Self>()) as u64)
    }

    fn covers(&self, frame: FrameId) -> bool {
        self.codes.iter().any(|code| code.frame() == frame)
    }

    /// The coefficients for the sources of a frame. None if the repair does not cover it.
    fn coefficients(&self, code: &Code) -> Option<Vec<u8>> {
        if !self.codes.contains(code) {
            return None;
        }
        let mut row = vec![0; usize::from(code.sources())];
        window_row(self.newest, self.number, code.frame(), &mut row);
        Some(row)
    }

    /// Subtracts the known sources of a frame.
    fn subtract_known(&mut self, kernel: Kernel, decoder: &Decoder) {
        let Some(row) = self.coefficients(decoder.code()) else { return };
        let (factors, symbols): (Vec<u8>, Vec<&[u8]>) =
            decoder.known().map(|(index, symbol)| (row[index], symbol)).unzip();
        let size = decoder.code().symbol_bytes();
        kernel.multiply_add(&factors, &symbols, &mut [&mut self.rest[..size]]);
    }

    /// Subtracts sources of a frame that have become known.
    fn subtract(&mut self, kernel: Kernel, decoder: &Decoder, sources: impl Iterator<Item = u16>) {
        let Some(row) = self.coefficients(decoder.code()) else { return };
        for index in sources {
            if let Some(symbol) = decoder.symbol(index) {
                kernel.multiply_add(&[row[usize::from(index)]], &[symbol], &mut [&mut self.rest[..symbol.len()]]);
            }
        }
    }
}

/// The equations of all incomplete frames that are covered by repairs over several frames.
struct System {
    /// Position of the frame, and index of the source in it.
    unknowns: Vec<(usize, u16)>,
    /// A row of coefficients of the unknowns for each equation.
    matrix: Vec<u8>,
    /// The value of each equation, all of one length.
    values: Vec<Vec<u8>>,
}

impl System {
    /// Makes the system. None if there cannot be enough equations to determine anything.
    fn new(frames: &mut VecDeque<Decoder>, rows: &[WindowRepair]) -> Option<Self> {
        let touched = |code: &Code| rows.iter().any(|row| row.codes.contains(code));
        let open: Vec<usize> = (0..frames.len())
            .filter(|position| {
                let decoder = &frames[*position];
                !decoder.is_complete() && !decoder.is_corrupt() && touched(decoder.code())
            })
            .collect();
        let fewest = open.iter().map(|position| usize::from(frames[*position].needed())).min()?;
        let unknowns: Vec<(usize, u16)> = open
            .iter()
            .flat_map(|position| frames[*position].missing().map(|index| (*position, index)).collect::<Vec<_>>())
            .collect();
        if rows.len() < fewest || unknowns.len() > MAX_MISSING {
            return None;
        }
        let longest = rows.iter().map(|row| row.rest.len()).max()?;
        let mut system = Self { unknowns, matrix: Vec::new(), values: Vec::new() };
        for row in rows {
            system.add(&row.rest, longest, |position, sources: &mut Vec<u8>| {
                if let Some(coefficients) = row.coefficients(frames[position].code()) {
                    *sources = coefficients;
                }
            });
        }
        for position in open {
            let code = *frames[position].code();
            for (number, rest) in frames[position].equations() {
                system.add(rest, longest, |other, sources: &mut Vec<u8>| {
                    if other == position {
                        sources.resize(usize::from(code.sources()), 0);
                        block_row(code.frame(), number, sources);
                    }
                });
            }
        }
        Some(system)
    }

    /// Adds an equation. `fill` sets the coefficients for a frame's sources, and leaves those of other frames empty.
    fn add(&mut self, rest: &[u8], longest: usize, fill: impl Fn(usize, &mut Vec<u8>)) {
        let mut value = rest.to_vec();
        value.resize(longest, 0);
        self.values.push(value);
        for group in self.unknowns.chunk_by(|left, right| left.0 == right.0) {
            let mut sources = Vec::new();
            fill(group[0].0, &mut sources);
            let coefficient = |index: u16| sources.get(usize::from(index)).copied().unwrap_or(0);
            self.matrix.extend(group.iter().map(|(_, index)| coefficient(*index)));
        }
    }

    fn combine(&self, kernel: Kernel, combination: &[u8]) -> Vec<u8> {
        let values: Vec<&[u8]> = self.values.iter().map(Vec::as_slice).collect();
        let mut sum = vec![0; values.first().map_or(0, |value| value.len())];
        kernel.multiply(combination, &values, &mut [&mut sum]);
        sum
    }

    /// The frames in doubt, if equations that should cancel do not.
    fn contradiction(&self, kernel: Kernel, reduction: &Reduction) -> Option<Vec<usize>> {
        let cancels = |combination: &[u8]| self.combine(kernel, combination).iter().all(|byte| *byte == 0);
        if reduction.checks().all(cancels) {
            return None;
        }
        let mut frames: Vec<usize> = self.unknowns.iter().map(|(position, _)| *position).collect();
        frames.dedup();
        Some(frames)
    }

    /// The determined sources: position of the frame, index, symbol.
    fn values(&self, kernel: Kernel, reduction: &Reduction) -> Vec<(usize, u16, Vec<u8>)> {
        let value = |(column, combination): (usize, &[u8])| {
            let (position, index) = self.unknowns[column];
            (position, index, self.combine(kernel, combination))
        };
        reduction.determined().map(value).collect()
    }
}
