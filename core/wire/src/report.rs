//! The fate of frames at the client and the fill level of its playback buffer, for the server's metrics and for rate controllers.

use nearlight_units::{FrameId, Span};

use crate::cursor::{Reader, write_varint};
use crate::{Kind, WireError};

/// Maximum number of frames in one report.
pub const MAX_FRAME_REPORTS: usize = 32;
/// Flag in the count byte: the number of buffered frames follows.
const BUFFERED_FLAG: u8 = 0x80;

/// The client's share of one displayed frame's timeline, each length in microseconds on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameReport {
    pub frame: FrameId,
    /// Time from sending the last packet of the first transmission to its arrival.
    pub network: Span,
    pub reassemble: Span,
    pub decode: Span,
    pub present: Span,
    /// Time from the input event to the first displayed pixels that show it. None if the frame showed no new input.
    pub motion_to_photon: Option<Span>,
    /// Whether the frame was displayed after its deadline.
    pub late: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Number of complete frames that wait in the client's playback buffer for their display time. None for a client without one.
    pub buffered: Option<u8>,
    /// Reports of at most [`MAX_FRAME_REPORTS`] frames. Empty only if `buffered` is given.
    pub frames: Vec<FrameReport>,
}

impl Report {
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        debug_assert!(self.frames.len() <= MAX_FRAME_REPORTS && (self.buffered.is_some() || !self.frames.is_empty()));
        bytes.push(Kind::Report.first_byte());
        bytes.push(self.frames.len() as u8 | if self.buffered.is_some() { BUFFERED_FLAG } else { 0 });
        bytes.extend(self.buffered);
        for frame in &self.frames {
            bytes.extend_from_slice(&frame.frame.0.to_be_bytes());
            bytes.push(u8::from(frame.late) | (u8::from(frame.motion_to_photon.is_some()) << 1));
            let spans = [frame.network, frame.reassemble, frame.decode, frame.present];
            for span in spans.into_iter().chain(frame.motion_to_photon) {
                write_varint(bytes, u32::try_from(span.as_micros().max(0)).unwrap_or(u32::MAX));
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let first = reader.u8()?;
        let buffered = if first & BUFFERED_FLAG != 0 { Some(reader.u8()?) } else { None };
        let count = usize::from(first & !BUFFERED_FLAG);
        if count > MAX_FRAME_REPORTS || (count == 0 && buffered.is_none()) {
            return Err(WireError::Field("count"));
        }
        let mut frames = Vec::with_capacity(count);
        for _ in 0..count {
            let frame = FrameId(reader.u32()?);
            let flags = reader.u8()?;
            if flags > 3 {
                return Err(WireError::Field("flags"));
            }
            let mut span = || reader.varint().map(|micros| Span::from_micros(i64::from(micros)));
            let (network, reassemble, decode, present) = (span()?, span()?, span()?, span()?);
            let motion_to_photon = if flags & 2 != 0 { Some(span()?) } else { None };
            frames.push(FrameReport {
                frame,
                network,
                reassemble,
                decode,
                present,
                motion_to_photon,
                late: flags & 1 != 0,
            });
        }
        Ok(Self { buffered, frames })
    }
}
