//! A repair, which replaces any one lost symbol of the frames that it covers.

use nearlight_units::{FrameId, PacketSeq, RemoteTime};

use crate::cursor::Reader;
use crate::symbol::{MAX_FRAME_BYTES, symbol_range};
use crate::{Kind, WireError};

/// Bytes before the list of covered frames.
pub const REPAIR_HEADER_BYTES: usize = 26;
/// Bytes for each covered frame.
pub const COVERED_FRAME_BYTES: usize = 11;
/// Maximum number of frames that one repair covers.
pub const MAX_COVERED_FRAMES: usize = 32;

/// A frame that a repair covers, with what is needed to split it into symbols, to identify it and to place it in the chain of references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoveredFrame {
    /// Distance to the frame that this one predicts from: 0 for a key frame and only for it.
    pub reference_distance: u8,
    /// The number of source symbols that the frame was split into, at least 1.
    pub symbols: u16,
    /// Length of the complete frame, 1 to [`MAX_FRAME_BYTES`].
    pub frame_bytes: u32,
    /// Digest of the complete frame, to detect wrong reassembly.
    pub digest: u32,
}

/// The header of a repair. The coefficients follow from the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairHeader {
    /// Whether it was made because the receiver requested it. Otherwise it was planned with the frame.
    pub on_demand: bool,
    /// Packet number, counted together with the symbols.
    pub seq: PacketSeq,
    /// When this datagram left, on the server's clock.
    pub sent_at: RemoteTime,
    /// The newest frame that it covers.
    pub frame: FrameId,
    /// Number of the repair of this frame, or of the frames that end with it, from 0.
    pub number: u16,
    /// How long after `sent_at` the newest frame is still worth displaying, in microseconds; 0 if it is too late.
    pub deadline_after_send_us: u32,
    /// The covered frames, newest first, consecutive: 1 to [`MAX_COVERED_FRAMES`].
    pub covered: Vec<CoveredFrame>,
}

impl CoveredFrame {
    /// Bytes of its longest symbol.
    #[must_use]
    pub fn symbol_bytes(&self) -> usize {
        symbol_range(self.frame_bytes, self.symbols, 0).len()
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let frame = Self {
            reference_distance: reader.u8()?,
            symbols: reader.u16()?,
            frame_bytes: reader.u32()?,
            digest: reader.u32()?,
        };
        if frame.frame_bytes == 0 || frame.frame_bytes > MAX_FRAME_BYTES {
            return Err(WireError::Field("frame_bytes"));
        }
        // The last symbol is not empty, so no symbol is.
        if frame.symbols == 0 || symbol_range(frame.frame_bytes, frame.symbols, frame.symbols - 1).is_empty() {
            return Err(WireError::Field("symbols"));
        }
        Ok(frame)
    }
}

impl RepairHeader {
    /// Bytes before the payload of a repair that covers this many frames.
    #[must_use]
    pub const fn bytes(covered: usize) -> usize {
        REPAIR_HEADER_BYTES + COVERED_FRAME_BYTES * covered
    }

    /// Bytes of the payload: the longest symbol among the covered frames.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.covered.iter().map(CoveredFrame::symbol_bytes).max().unwrap_or(0)
    }

    /// Appends the header. The payload follows it.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        debug_assert!((1..=MAX_COVERED_FRAMES).contains(&self.covered.len()));
        let start = bytes.len();
        bytes.push(Kind::Repair.first_byte());
        bytes.push(u8::from(self.on_demand));
        bytes.push(self.covered.len() as u8);
        bytes.push(0);
        bytes.extend_from_slice(&self.seq.0.to_be_bytes());
        bytes.extend_from_slice(&self.sent_at.as_micros().to_be_bytes());
        bytes.extend_from_slice(&self.frame.0.to_be_bytes());
        bytes.extend_from_slice(&self.number.to_be_bytes());
        bytes.extend_from_slice(&self.deadline_after_send_us.to_be_bytes());
        for frame in &self.covered {
            bytes.push(frame.reference_distance);
            bytes.extend_from_slice(&frame.symbols.to_be_bytes());
            bytes.extend_from_slice(&frame.frame_bytes.to_be_bytes());
            bytes.extend_from_slice(&frame.digest.to_be_bytes());
        }
        debug_assert_eq!(bytes.len() - start, Self::bytes(self.covered.len()));
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let flags = reader.u8()?;
        if flags > 1 {
            return Err(WireError::Field("flags"));
        }
        let count = usize::from(reader.u8()?);
        if reader.u8()? != 0 {
            return Err(WireError::Field("reserved"));
        }
        let mut header = Self {
            on_demand: flags == 1,
            seq: PacketSeq(reader.u32()?),
            sent_at: reader.time()?,
            frame: FrameId(reader.u32()?),
            number: reader.u16()?,
            deadline_after_send_us: reader.u32()?,
            covered: Vec::new(),
        };
        if !(1..=MAX_COVERED_FRAMES).contains(&count) || count - 1 > header.frame.0 as usize {
            return Err(WireError::Field("count"));
        }
        header.covered.reserve_exact(count);
        for _ in 0..count {
            header.covered.push(CoveredFrame::read(reader)?);
        }
        Ok(header)
    }
}
