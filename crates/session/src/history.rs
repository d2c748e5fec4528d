//! What was sent: frames, from which lost pieces are retransmitted, and packets, by which feedback is interpreted.

use nearlight_units::FrameId;

mod frames;
mod packets;
mod pieces;

pub use frames::Cut;
pub(crate) use frames::{FrameHistory, KeptFrame};
pub(crate) use packets::PacketHistory;
pub use packets::{MOST_PACKETS_KEPT, PACKETS_KEPT_FOR};

/// A piece of a frame: which frame, and its index there.
pub(crate) type Piece = (FrameId, u16);

/// What a packet carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A piece for the first time.
    Piece(Piece),
    Retransmission(Piece),
    /// The newest frame that a repair covers, and the repair's number.
    Repair(FrameId, u16),
    Padding,
    /// Not part of a frame, such as sound.
    Other,
}

impl Content {
    pub(crate) const fn frame(self) -> Option<FrameId> {
        match self {
            Self::Piece((frame, _)) | Self::Retransmission((frame, _)) | Self::Repair(frame, _) => Some(frame),
            Self::Padding | Self::Other => None,
        }
    }
}
