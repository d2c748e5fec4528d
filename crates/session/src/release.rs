//! What a sender releases. The sender decides what leaves and when; a framer writes the packet: [`crate::symbols`] writes datagrams of our
//! own protocol, RTP packets are written by the RTP driver.

use nearlight_units::{FrameId, PacketSeq, Time};
use nearlight_wire::CoveredFrame;

/// A packet that leaves now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release<'a> {
    /// Counts everything that leaves, from 0; feedback refers to it.
    pub seq: PacketSeq,
    pub sent_at: Time,
    pub payload: Payload<'a>,
}

/// What a released packet carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    Piece {
        frame: FramePieces,
        /// From 0.
        index: u16,
        /// It was sent before.
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
        /// The receiver requested it; the others are planned.
        on_demand: bool,
        /// What it covers, newest first; empty where the protocol that carries the frames generates the repairs itself.
        covered: &'a [CoveredFrame],
        /// Also empty where that protocol generates it.
        bytes: &'a [u8],
    },
    /// Fills the path for a probe.
    Padding {
        /// Size of the packet in bytes, with all headers of the protocol that carries the frames.
        size: usize,
    },
}

/// The frame's properties that all of its pieces share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePieces {
    pub id: FrameId,
    /// The frame that it is predicted from; none for a key frame.
    pub reference: Option<FrameId>,
    pub deadline: Time,
    pub pieces: u16,
    /// All pieces together.
    pub bytes: u32,
}
