//! Ten milliseconds of sound, and a copy of the previous ten.

use nearlight_units::{BlockId, RemoteTime, Span};

use crate::cursor::Reader;
use crate::{Kind, WireError};

/// Length of a block.
pub const BLOCK: Span = Span::from_millis(10);
/// Samples per second of each channel.
pub const SOUND_RATE: u32 = 48_000;
/// Bytes before the packets.
pub const SOUND_HEADER_BYTES: usize = 19;
/// Maximum length of a packet of one Opus frame (RFC 6716, section 3.4, R2).
pub const MAX_SOUND_PACKET_BYTES: usize = 1_275;

/// Replaces a block's packet: the server is silent from this block on, until the next datagram with anything else. An Opus frame without
/// content (RFC 6716, section 3.1: 10 ms, stereo, all bands), as senders with discontinuous transmission use it (RFC 7587, section 3.1.3).
pub const SOUND_PAUSE: [u8; 1] = [0xf4];

/// Whether a packet announces silence: an Opus packet of one byte has nothing to decode.
#[must_use]
pub const fn is_pause(packet: &[u8]) -> bool {
    packet.len() == 1
}

/// A coded block of sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sound<'a> {
    /// Number of the block. Blocks made at the same time have the same number for all listeners.
    pub block: BlockId,
    /// The moment in the world of the packet's first decoded sample, on the server's clock.
    pub made_at: RemoteTime,
    /// A picture of the world at `made_at` is expected on the display this many microseconds later: that is when to play the block.
    pub due_after_us: u32,
    /// The packet: 1 to [`MAX_SOUND_PACKET_BYTES`] bytes.
    pub packet: &'a [u8],
    /// The packet of the previous block, in case it was lost. May be empty.
    pub before: &'a [u8],
}

impl<'a> Sound<'a> {
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SOUND_HEADER_BYTES + self.packet.len() + self.before.len());
        bytes.push(Kind::Sound.first_byte());
        bytes.extend_from_slice(&self.block.0.to_be_bytes());
        bytes.extend_from_slice(&self.made_at.as_micros().to_be_bytes());
        bytes.extend_from_slice(&self.due_after_us.to_be_bytes());
        bytes.extend_from_slice(&(self.packet.len() as u16).to_be_bytes());
        debug_assert_eq!(bytes.len(), SOUND_HEADER_BYTES);
        bytes.extend_from_slice(self.packet);
        bytes.extend_from_slice(self.before);
        bytes
    }

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let (block, made_at, due_after_us) = (BlockId(reader.u32()?), reader.time()?, reader.u32()?);
        let length = usize::from(reader.u16()?);
        if length == 0 || length > MAX_SOUND_PACKET_BYTES {
            return Err(WireError::Field("packet"));
        }
        let packet = reader.take(length)?;
        let before = reader.rest();
        if before.len() > MAX_SOUND_PACKET_BYTES || (block.0 == 0 && !before.is_empty()) {
            return Err(WireError::Field("before"));
        }
        Ok(Self { block, made_at, due_after_us, packet, before })
    }
}
