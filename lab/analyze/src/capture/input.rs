//! Bytes of a file in order, through one buffer.

use std::io::{ErrorKind, Read};

/// Bytes held at a time: several thousand packets, and always one whole record.
const BUFFER_BYTES: usize = 1 << 20;

/// Why requested bytes are unavailable.
#[derive(Debug)]
pub(super) enum Shortage {
    /// The file ends at a valid place.
    End,
    /// The file ends within the request; this many bytes of it are available.
    Within(usize),
    Failed(std::io::Error),
}

/// Bytes that were taken and still lie in the buffer.
#[derive(Clone, Debug)]
pub(super) struct BufferRange(std::ops::Range<usize>);

#[derive(Debug)]
pub(super) struct Input<R> {
    source: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Position in the file of `start`.
    offset: u64,
}

impl<R: Read> Input<R> {
    /// Most bytes that [`Input::take`] returns at once.
    pub const MAX_TAKE: usize = BUFFER_BYTES / 2;

    pub fn new(source: R) -> Self {
        Self { source, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0, offset: 0 }
    }

    /// Returns the position of the next byte in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the next `count` bytes, at most [`Input::MAX_TAKE`], without taking them.
    pub fn peek(&mut self, count: usize) -> Result<&[u8], Shortage> {
        if self.end - self.start < count {
            self.fill(count)?;
        }
        Ok(&self.buffer[self.start..self.start + count])
    }

    /// Takes the next `count` bytes, at most [`Input::MAX_TAKE`].
    pub fn take(&mut self, count: usize) -> Result<&[u8], Shortage> {
        self.peek(count)?;
        let from = self.start;
        self.start += count;
        self.offset += count as u64;
        Ok(&self.buffer[from..from + count])
    }

    /// Takes `count` bytes, of which those in `part` are wanted until the next call.
    pub fn hold(&mut self, count: usize, part: std::ops::Range<usize>) -> Result<BufferRange, Shortage> {
        self.take(count)?;
        let begun = self.start - count;
        Ok(BufferRange(begun + part.start..begun + part.end))
    }

    /// Returns the bytes that [`Input::hold`] took last.
    pub fn held(&self, held: BufferRange) -> &[u8] {
        &self.buffer[held.0]
    }

    /// Passes over `count` bytes, however many they are.
    pub fn skip(&mut self, mut count: u64) -> Result<(), Shortage> {
        while count > 0 {
            let step = count.min(Self::MAX_TAKE as u64) as usize;
            self.take(step)?;
            count -= step as u64;
        }
        Ok(())
    }

    fn fill(&mut self, count: usize) -> Result<(), Shortage> {
        debug_assert!(count <= Self::MAX_TAKE);
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        while self.end < count {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) if self.end == 0 => return Err(Shortage::End),
                Ok(0) => return Err(Shortage::Within(self.end)),
                Ok(more) => self.end += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Shortage::Failed(error)),
            }
        }
        Ok(())
    }
}
