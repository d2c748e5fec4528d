//! Ten milliseconds of somebody's voice.

use super::{Kind, MessageError, expect};
use crate::cursor::Reader;
use crate::state::MemberId;

/// The longest packet of a voice: ten milliseconds at 256 kb/s, which is more than a voice needs.
pub const MAX_VOICE_BYTES: usize = 320;

/// Whether a message is a voice: what a carrier does not take at once is better dropped.
#[must_use]
pub fn is_voice(bytes: &[u8]) -> bool {
    bytes.first() == Some(&Kind::Voice.first_byte())
}

/// What a member says: the number of the packet, and the packet. An empty one says only that the member wants to hear others.
#[must_use]
pub fn write_voice(number: u32, packet: &[u8]) -> Vec<u8> {
    let mut out = vec![Kind::Voice.first_byte()];
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(packet);
    out
}

/// What a member hears.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeardVoice<'a> {
    pub speaker: MemberId,
    /// Counts the speaker's packets and wraps around.
    pub number: u32,
    /// Where its mouth is, in metres.
    pub place: [f32; 3],
    pub packet: &'a [u8],
}

impl<'a> HeardVoice<'a> {
    /// Reads a message of the room's.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(bytes);
        expect(&mut reader, Kind::Voice)?;
        let (speaker, number) = (MemberId(reader.u32()?), reader.u32()?);
        let mut coordinate = || reader.u32().map(f32::from_bits);
        let place = [coordinate()?, coordinate()?, coordinate()?];
        Ok(Self { speaker, number, place, packet: read_packet(reader, bytes)? })
    }
}

/// Reads what [`write_voice`] writes: the number, and the packet.
pub(crate) fn read_voice(bytes: &[u8]) -> Result<(u32, &[u8]), MessageError> {
    let mut reader = Reader::new(bytes);
    expect(&mut reader, Kind::Voice)?;
    let number = reader.u32()?;
    Ok((number, read_packet(reader, bytes)?))
}

/// What is left of the message `bytes`.
fn read_packet<'a>(reader: Reader<'a>, bytes: &[u8]) -> Result<&'a [u8], MessageError> {
    let packet = reader.rest();
    if packet.len() > MAX_VOICE_BYTES { Err(MessageError::TooLong(bytes.len())) } else { Ok(packet) }
}

/// What others hear: who speaks, the number of the packet, where the mouth is, and the packet.
pub(crate) fn write_heard(member: MemberId, number: u32, place: [f32; 3], packet: &[u8]) -> Vec<u8> {
    let mut out = vec![Kind::Voice.first_byte()];
    out.extend_from_slice(&member.0.to_be_bytes());
    out.extend_from_slice(&number.to_be_bytes());
    out.extend(place.iter().flat_map(|coordinate| coordinate.to_be_bytes()));
    out.extend_from_slice(packet);
    out
}
