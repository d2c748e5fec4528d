//! Frames over one kernel TCP connection, for `nearlight lab run --live`: the counterpart of `lab::world::Reliable` in virtual time.
//!
//! The encoding rate never changes, a frame is skipped before it is encoded if an earlier one has waited too long, and the kernel repairs
//! losses. Both ends are separate processes, share the machine's clock and write the same events as every end.

mod serve;
mod view;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use nearlight_events::{Event, Origin, Record, write_line};
use nearlight_net::Clock;
use nearlight_units::{Span, Time, lock};

use crate::stand_in::take_time;

pub(super) use serve::TcpServeArguments;
pub(super) use view::TcpViewArguments;
pub(super) use {serve::serve, view::view};

/// Interval at which both ends report the traffic on the connection.
const TRAFFIC_INTERVAL: Span = Span::from_millis(100);
/// Longest frame in bytes. A longer one means that the stream is not ours.
const MAX_FRAME_BYTES: u32 = 4 << 20;

/// The header in front of a frame's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameHeader {
    number: u32,
    /// The newest input that the server knew, from 1; 0 for none.
    input: u32,
    captured_at: Time,
    encoded_at: Time,
    /// Length of the bits in bytes.
    length: u32,
}

impl FrameHeader {
    const ENCODED_BYTES: usize = 28;

    fn to_bytes(self) -> [u8; Self::ENCODED_BYTES] {
        let mut bytes = [0; Self::ENCODED_BYTES];
        bytes[..4].copy_from_slice(&self.number.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.input.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.captured_at.as_nanos().to_be_bytes());
        bytes[16..24].copy_from_slice(&self.encoded_at.as_nanos().to_be_bytes());
        bytes[24..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Reads a header. None at the end of the stream.
    fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut bytes = [0; Self::ENCODED_BYTES];
        match from.read_exact(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let number = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let time = |at: usize| Time::from_nanos(u64::from(number(at)) << 32 | u64::from(number(at + 4)));
        let head = Self {
            number: number(0),
            input: number(4),
            captured_at: time(8),
            encoded_at: time(16),
            length: number(24),
        };
        if head.length > MAX_FRAME_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is longer than any that the server makes"));
        }
        Ok(Some(head))
    }
}

/// The events file of one end.
struct Journal {
    file: Mutex<BufWriter<File>>,
    origin: Origin,
}

impl Journal {
    fn create(path: &Path, origin: Origin) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(Self { file: Mutex::new(BufWriter::new(file)), origin })
    }

    fn write(&self, at: Time, event: &Event) -> anyhow::Result<()> {
        let record = Record { at, origin: self.origin, session: 1, event: Cow::Borrowed(event) };
        write_line(&mut *lock(&self.file), &record).context("cannot write events")
    }

    fn finish(self) -> anyhow::Result<()> {
        let mut file = self.file.into_inner().unwrap_or_else(PoisonError::into_inner);
        file.flush().context("cannot write events")
    }
}

fn sleep_until(clock: Clock, at: Time) {
    take_time(at - clock.now());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_as_they_were_written() {
        let head = FrameHeader {
            number: 7,
            input: u32::MAX,
            captured_at: Time::from_nanos(0x0102_0304_0506_0708),
            encoded_at: Time::from_millis(9),
            length: MAX_FRAME_BYTES,
        };
        let bytes = head.to_bytes();
        assert_eq!(FrameHeader::read(&mut &bytes[..]).expect("whole"), Some(head));
        for length in 0..bytes.len() {
            assert_eq!(FrameHeader::read(&mut &bytes[..length]).expect("an end"), None);
        }
        let long = FrameHeader { length: MAX_FRAME_BYTES + 1, ..head }.to_bytes();
        assert!(FrameHeader::read(&mut &long[..]).is_err());
    }
}
