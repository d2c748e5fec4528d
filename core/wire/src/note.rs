//! The server's note on a frame whose picture travels as RTP, which has no field for it.

use nearlight_units::{FrameId, RemoteTime, Time};

use crate::cursor::Reader;
use crate::{FrameHeader, Kind, WireError};

/// Bits of the flags byte.
const KEY_FLAG: u8 = 1;
const LAST_FLAG: u8 = 2;

/// Identifies a frame for clients that receive only RTP. It is sent with the frame's first packet, and again with its last.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameNote<T = Time> {
    pub frame: FrameId,
    pub key: bool,
    /// Whether it was sent with the frame's last packet, which may be its first.
    pub last: bool,
    /// The timestamp of all the frame's RTP packets, in ticks of 1/90,000 s.
    pub rtp_timestamp: u32,
    /// When that packet left, on the server's clock.
    pub sent_at: T,
    pub header: FrameHeader<T>,
}

impl FrameNote {
    /// Writes the datagram that [`crate::ToClient::parse`] reads back.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let flags = if self.key { KEY_FLAG } else { 0 } | if self.last { LAST_FLAG } else { 0 };
        let mut bytes = vec![Kind::FrameNote.first_byte(), flags];
        bytes.extend_from_slice(&self.frame.0.to_be_bytes());
        bytes.extend_from_slice(&self.rtp_timestamp.to_be_bytes());
        bytes.extend_from_slice(&self.sent_at.as_micros().to_be_bytes());
        self.header.write(&mut bytes);
        bytes
    }

    /// The note as the client parses it.
    #[must_use]
    pub fn for_peer(self) -> FrameNote<RemoteTime> {
        self.map_times(Time::for_peer)
    }
}

impl<T> FrameNote<T> {
    /// Converts each time with `map`.
    #[must_use]
    pub fn map_times<U>(self, map: impl Fn(T) -> U) -> FrameNote<U> {
        let Self { frame, key, last, rtp_timestamp, sent_at, header } = self;
        FrameNote { frame, key, last, rtp_timestamp, sent_at: map(sent_at), header: header.map_times(map) }
    }
}

impl FrameNote<RemoteTime> {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let flags = reader.u8()?;
        if flags & !(KEY_FLAG | LAST_FLAG) != 0 {
            return Err(WireError::Field("flags"));
        }
        let (frame, rtp_timestamp, sent_at) = (FrameId(reader.u32()?), reader.u32()?, reader.time()?);
        let (header, left) = FrameHeader::parse(reader.rest())?;
        if !left.is_empty() {
            return Err(WireError::Trailing(left.len()));
        }
        Ok(Self { frame, key: flags & KEY_FLAG != 0, last: flags & LAST_FLAG != 0, rtp_timestamp, sent_at, header })
    }
}
