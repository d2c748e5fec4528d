//! What a sender releases. The sender decides what leaves and when. A framer writes the packet: [`crate::packets::symbols`] writes datagrams of our
//! own protocol, and the RTP driver writes RTP packets.

use nearlight_units::{FrameId, PacketSeq, Time};
use nearlight_wire::CoveredFrame;

/// A packet that leaves now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release<'a> {
    /// Number of the packet, counted from 0 over everything that leaves. Feedback refers to it.
    pub seq: PacketSeq,
    pub sent_at: Time,
    pub payload: Payload<'a>,
}

/// The content of a released packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    Piece {
        frame: FramePieces,
        /// Index of the piece, from 0.
        index: u16,
        /// Whether it was sent before.
        retransmission: bool,
        bytes: &'a [u8],
    },
    /// A repair that replaces a lost piece.
    Repair {
        /// The newest frame that it covers.
        frame: FrameId,
        deadline: Time,
        /// Its number among the repairs of `frame`, from 0.
        number: u16,
        /// Whether the receiver requested it. The others are planned.
        on_demand: bool,
        /// The frames that it covers, newest first. Empty if the protocol that carries the frames generates the repairs itself.
        covered: &'a [CoveredFrame],
        /// The repair's bytes. Empty if that protocol generates it.
        bytes: &'a [u8],
    },
    /// Fills the path for a probe.
    Padding {
        /// Size of the packet in bytes, with all headers of the protocol that carries the frames.
        size: usize,
    },
}

/// The properties of a frame that all of its pieces share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePieces {
    pub id: FrameId,
    /// The frame that it is predicted from. None for a key frame.
    pub reference: Option<FrameId>,
    pub deadline: Time,
    pub pieces: u16,
    /// Size of all pieces together.
    pub bytes: u32,
}
