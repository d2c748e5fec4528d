//! The acknowledgement of decoded frames, which also says whether decoding cannot continue.

use nearlight_units::FrameId;

use crate::cursor::Reader;
use crate::{Kind, WireError};

const LOST_FLAG: u8 = 1;

/// Names a frame that a sender may predict from although others were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The newest decoded frame. The frame that it predicts from was decoded as well, and so on.
    pub decoded: FrameId,
    /// Newest frame id seen, not below `decoded`. A later frame that predicts from a decoded one answers a loss.
    pub newest: FrameId,
    /// Whether a frame is missing and requests for it had no effect.
    pub lost: bool,
}

impl Acknowledgement {
    pub(crate) fn write(self, bytes: &mut Vec<u8>) {
        bytes.push(Kind::Acknowledgement.first_byte());
        bytes.push(if self.lost { LOST_FLAG } else { 0 });
        bytes.extend_from_slice(&self.decoded.0.to_be_bytes());
        bytes.extend_from_slice(&self.newest.0.to_be_bytes());
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let flags = reader.u8()?;
        if flags & !LOST_FLAG != 0 {
            return Err(WireError::Field("flags"));
        }
        let (decoded, newest) = (FrameId(reader.u32()?), FrameId(reader.u32()?));
        if newest < decoded {
            return Err(WireError::Field("newest"));
        }
        Ok(Self { decoded, newest, lost: flags == LOST_FLAG })
    }
}
