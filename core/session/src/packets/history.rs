//! What was sent: frames, from which lost pieces are retransmitted, and packets, by which feedback is interpreted.

use nearlight_units::FrameId;

mod frames;
mod packets;
mod pieces;

pub use frames::Segmentation;
pub(crate) use frames::{FrameHistory, StoredFrame};
pub(crate) use packets::PacketHistory;
pub use packets::{MAX_PACKETS_KEPT, PACKET_RETENTION};

/// A piece of a frame: the frame, and the piece's index in it.
pub(crate) type Piece = (FrameId, u16);

/// The content of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A piece that is sent for the first time.
    Piece(Piece),
    Retransmission(Piece),
    /// The newest frame that a repair covers, and the repair's number.
    Repair(FrameId, u16),
    Padding,
    /// Data that is not part of a frame, such as sound.
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
