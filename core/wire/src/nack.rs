//! A receiver's requests for retransmissions and for key frames.

use nearlight_units::FrameId;

use crate::cursor::Reader;
use crate::{Kind, WireError};

/// Maximum number of runs of symbols in one request.
pub const MAX_NACK_ENTRIES: usize = 64;

/// A run of missing symbols of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingRun {
    pub frame: FrameId,
    pub first: u16,
    /// Number of symbols from `first` on, at least 1. `u16::MAX` with `first` 0 if nothing of the frame has arrived.
    pub count: u16,
}

impl MissingRun {
    /// Requests all symbols of a frame of which nothing has arrived.
    #[must_use]
    pub const fn whole(frame: FrameId) -> Self {
        Self { frame, first: 0, count: u16::MAX }
    }
}

/// A request to send symbols again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nack {
    /// The missing symbols: between 1 and [`MAX_NACK_ENTRIES`] entries.
    pub missing: Vec<MissingRun>,
}

impl Nack {
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        debug_assert!((1..=MAX_NACK_ENTRIES).contains(&self.missing.len()));
        bytes.push(Kind::Nack.first_byte());
        bytes.push(self.missing.len() as u8);
        for run in &self.missing {
            bytes.extend_from_slice(&run.frame.0.to_be_bytes());
            bytes.extend_from_slice(&run.first.to_be_bytes());
            bytes.extend_from_slice(&run.count.to_be_bytes());
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let count = usize::from(reader.u8()?);
        if count == 0 || count > MAX_NACK_ENTRIES {
            return Err(WireError::Field("count"));
        }
        let mut missing = Vec::with_capacity(count);
        for _ in 0..count {
            let run = MissingRun { frame: FrameId(reader.u32()?), first: reader.u16()?, count: reader.u16()? };
            if run.count == 0 {
                return Err(WireError::Field("count"));
            }
            missing.push(run);
        }
        Ok(Self { missing })
    }
}

/// A request for a key frame, because no repair can make the stream decodable again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFrameRequest {
    /// Newest frame id seen. A later key frame answers the request, so a repeated request costs nothing.
    pub newest: FrameId,
}

impl KeyFrameRequest {
    pub(crate) fn write(self, bytes: &mut Vec<u8>) {
        bytes.push(Kind::KeyFrameRequest.first_byte());
        bytes.extend_from_slice(&self.newest.0.to_be_bytes());
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { newest: FrameId(reader.u32()?) })
    }
}
