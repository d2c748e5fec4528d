//! Voice messages, each with ten milliseconds of sound.

use super::{Kind, MessageError, expect};
use crate::cursor::Reader;
use crate::state::MemberId;

/// Bytes of the longest voice packet: ten milliseconds at 256 kb/s, which is more than a voice needs.
pub const MAX_VOICE_BYTES: usize = 320;

/// Returns whether a message is a voice packet, which a carrier should drop if it cannot send it at once.
#[must_use]
pub fn is_voice(bytes: &[u8]) -> bool {
    bytes.first() == Some(&Kind::Voice.first_byte())
}

/// Returns a member's voice message. An empty packet says only that the member wants to hear others.
#[must_use]
pub fn write_voice(number: u32, packet: &[u8]) -> Vec<u8> {
    let mut out = vec![Kind::Voice.first_byte()];
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(packet);
    out
}

/// A voice message to a member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeardVoice<'a> {
    pub speaker: MemberId,
    /// Number of the speaker's packet, which wraps around.
    pub number: u32,
    /// Position of the speaker's mouth, in metres.
    pub place: [f32; 3],
    pub packet: &'a [u8],
}

impl<'a> HeardVoice<'a> {
    /// Parses a message of a room.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(bytes);
        expect(&mut reader, Kind::Voice)?;
        let (speaker, number) = (MemberId(reader.u32()?), reader.u32()?);
        let mut coordinate = || reader.u32().map(f32::from_bits);
        let place = [coordinate()?, coordinate()?, coordinate()?];
        Ok(Self { speaker, number, place, packet: read_packet(reader, bytes)? })
    }
}

/// Parses a message from [`write_voice`]: the number, and the packet.
pub(crate) fn read_voice(bytes: &[u8]) -> Result<(u32, &[u8]), MessageError> {
    let mut reader = Reader::new(bytes);
    expect(&mut reader, Kind::Voice)?;
    let number = reader.u32()?;
    Ok((number, read_packet(reader, bytes)?))
}

/// Reads the rest of the message `bytes` as a packet.
fn read_packet<'a>(reader: Reader<'a>, bytes: &[u8]) -> Result<&'a [u8], MessageError> {
    let packet = reader.rest();
    if packet.len() > MAX_VOICE_BYTES { Err(MessageError::TooLong(bytes.len())) } else { Ok(packet) }
}

/// Returns a voice message for listeners: speaker, number of the packet, position of the mouth, and the packet.
pub(crate) fn write_heard(member: MemberId, number: u32, place: [f32; 3], packet: &[u8]) -> Vec<u8> {
    let mut out = vec![Kind::Voice.first_byte()];
    out.extend_from_slice(&member.0.to_be_bytes());
    out.extend_from_slice(&number.to_be_bytes());
    out.extend(place.iter().flat_map(|coordinate| coordinate.to_be_bytes()));
    out.extend_from_slice(packet);
    out
}
