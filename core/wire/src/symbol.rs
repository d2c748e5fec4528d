//! A symbol: one datagram's share of a frame.

use nearlight_units::{FrameId, PacketSeq, RemoteTime};

use crate::cursor::Reader;
use crate::{Kind, WireError};

/// Bytes before the payload of a symbol datagram.
pub const SYMBOL_HEADER_BYTES: usize = 32;
/// Maximum size of a frame in bytes: a 4K key frame at visually lossless quality is about a third of this.
pub const MAX_FRAME_BYTES: u32 = 4 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SymbolFlags {
    /// Whether the frame decodes without any other frame.
    pub key: bool,
    /// Whether these bytes were sent before in another datagram.
    pub retransmission: bool,
    /// Whether it is padding for a bandwidth probe, which carries no frame: only its arrival is reported.
    pub probe: bool,
}

impl SymbolFlags {
    const KEY: u8 = 1;
    const RETRANSMISSION: u8 = 2;
    const PROBE: u8 = 4;

    fn from_bits(bits: u8) -> Result<Self, WireError> {
        if bits & !(Self::KEY | Self::RETRANSMISSION | Self::PROBE) != 0 {
            return Err(WireError::Field("flags"));
        }
        Ok(Self {
            key: bits & Self::KEY != 0,
            retransmission: bits & Self::RETRANSMISSION != 0,
            probe: bits & Self::PROBE != 0,
        })
    }

    const fn bits(self) -> u8 {
        (self.key as u8 * Self::KEY)
            | (self.retransmission as u8 * Self::RETRANSMISSION)
            | (self.probe as u8 * Self::PROBE)
    }
}

/// The header of a symbol, which is sufficient without any other part of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolHeader {
    pub flags: SymbolFlags,
    /// Distance to the frame that this one predicts from: its id minus the reference's id, 0 for a key frame.
    pub reference_distance: u8,
    /// Packet number, counted over every media datagram of the session, so that a gap is a loss.
    pub seq: PacketSeq,
    /// When this datagram left, on the server's clock.
    pub sent_at: RemoteTime,
    pub frame: FrameId,
    /// Index of the symbol in the frame, below `symbols`.
    pub index: u16,
    /// The number of source symbols that the frame was split into, at least 1.
    pub symbols: u16,
    /// Length of the complete frame. Every symbol but the last carries `frame_bytes / symbols` of them, rounded up.
    pub frame_bytes: u32,
    /// How long after `sent_at` the frame is still worth displaying, in microseconds; 0 if it is too late.
    pub deadline_after_send_us: u32,
}

/// The range of symbol `index` in a frame's bytes. Empty for an index that the frame does not have.
#[must_use]
#[inline]
pub fn symbol_range(frame_bytes: u32, symbols: u16, index: u16) -> std::ops::Range<usize> {
    let size = frame_bytes.div_ceil(u32::from(symbols.max(1)));
    let start = size.saturating_mul(u32::from(index)).min(frame_bytes);
    let end = start.saturating_add(size).min(frame_bytes);
    start as usize..end as usize
}

impl SymbolHeader {
    /// Appends the header. The payload follows it.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.push(Kind::Symbol.first_byte());
        bytes.push(self.flags.bits());
        bytes.push(self.reference_distance);
        bytes.push(0);
        bytes.extend_from_slice(&self.seq.0.to_be_bytes());
        bytes.extend_from_slice(&self.sent_at.as_micros().to_be_bytes());
        bytes.extend_from_slice(&self.frame.0.to_be_bytes());
        bytes.extend_from_slice(&self.index.to_be_bytes());
        bytes.extend_from_slice(&self.symbols.to_be_bytes());
        bytes.extend_from_slice(&self.frame_bytes.to_be_bytes());
        bytes.extend_from_slice(&self.deadline_after_send_us.to_be_bytes());
        debug_assert_eq!(bytes.len() - start, SYMBOL_HEADER_BYTES);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let flags = SymbolFlags::from_bits(reader.u8()?)?;
        let reference_distance = reader.u8()?;
        if reader.u8()? != 0 {
            return Err(WireError::Field("reserved"));
        }
        let header = Self {
            flags,
            reference_distance,
            seq: PacketSeq(reader.u32()?),
            sent_at: reader.time()?,
            frame: FrameId(reader.u32()?),
            index: reader.u16()?,
            symbols: reader.u16()?,
            frame_bytes: reader.u32()?,
            deadline_after_send_us: reader.u32()?,
        };
        if flags.probe {
            let idle = [header.frame.0, header.index.into(), header.symbols.into(), header.frame_bytes];
            if idle != [0; 4] || header.deadline_after_send_us != 0 {
                return Err(WireError::Field("probe padding"));
            }
        } else {
            if header.frame_bytes == 0 || header.frame_bytes > MAX_FRAME_BYTES {
                return Err(WireError::Field("frame_bytes"));
            }
            if header.symbols == 0 || header.index >= header.symbols {
                return Err(WireError::Field("index"));
            }
            if flags.key != (reference_distance == 0) {
                return Err(WireError::Field("reference_distance"));
            }
        }
        Ok(header)
    }

    pub(crate) fn check_payload(&self, length: usize) -> Result<(), WireError> {
        if self.flags.probe {
            return Ok(());
        }
        let range = symbol_range(self.frame_bytes, self.symbols, self.index);
        if length == range.len() && length > 0 { Ok(()) } else { Err(WireError::Field("payload length")) }
    }
}
