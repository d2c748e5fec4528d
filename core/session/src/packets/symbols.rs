//! The framer of our own protocol: writes a sender's releases as datagrams of symbols and repairs, as specified in docs/wire.md.

use nearlight_units::{FrameId, Time};
use nearlight_wire::{RepairHeader, SYMBOL_HEADER_BYTES, SymbolFlags, SymbolHeader};

use crate::packets::buffer_pool::BufferPool;
use crate::packets::release::{FramePieces, Payload, Release};

/// Writes datagrams into recycled buffers.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    /// Datagrams returned by the driver: more than leave at once.
    buffer_pool: BufferPool<64>,
}

impl Symbols {
    /// Reuses the buffer of a datagram that is no longer needed.
    pub(crate) fn take_back(&mut self, datagram: Vec<u8>) {
        self.buffer_pool.give(datagram);
    }

    pub(crate) fn datagram(&mut self, release: &Release<'_>) -> Vec<u8> {
        let Release { seq, sent_at, ref payload } = *release;
        match *payload {
            Payload::Piece { frame, index, retransmission, bytes } => {
                let FramePieces { id, reference, deadline, pieces, bytes: frame_bytes } = frame;
                let distance = reference.map_or(0, |reference| id.0.saturating_sub(reference.0));
                let header = SymbolHeader {
                    flags: SymbolFlags { key: reference.is_none(), retransmission, probe: false },
                    reference_distance: distance.min(u32::from(u8::MAX)) as u8,
                    seq,
                    sent_at: sent_at.for_peer(),
                    frame: id,
                    index,
                    symbols: pieces,
                    frame_bytes,
                    deadline_after_send_us: deadline_after(sent_at, deadline),
                };
                let mut datagram = self.buffer_pool.take(SYMBOL_HEADER_BYTES + bytes.len());
                header.write(&mut datagram);
                datagram.extend_from_slice(bytes);
                datagram
            }
            Payload::Repair { frame, deadline, number, on_demand, covered, bytes } => {
                let header = RepairHeader {
                    on_demand,
                    seq,
                    sent_at: sent_at.for_peer(),
                    frame,
                    number,
                    deadline_after_send_us: deadline_after(sent_at, deadline),
                    covered: covered.to_vec(),
                };
                let mut datagram = self.buffer_pool.take(RepairHeader::bytes(covered.len()) + bytes.len());
                header.write(&mut datagram);
                datagram.extend_from_slice(bytes);
                datagram
            }
            Payload::Padding { size } => {
                let header = SymbolHeader {
                    flags: SymbolFlags { key: false, retransmission: false, probe: true },
                    reference_distance: 0,
                    seq,
                    sent_at: sent_at.for_peer(),
                    frame: FrameId(0),
                    index: 0,
                    symbols: 0,
                    frame_bytes: 0,
                    deadline_after_send_us: 0,
                };
                let mut datagram = self.buffer_pool.take(size);
                header.write(&mut datagram);
                datagram.resize(size, 0);
                datagram
            }
        }
    }
}

/// How long after `now` a frame is useful, as transmitted.
fn deadline_after(now: Time, deadline: Time) -> u32 {
    u32::try_from(deadline.saturating_since(now).as_micros()).unwrap_or(u32::MAX)
}
