//! The contents of packets in flight.

use nearlight_link::Packet;
use nearlight_units::Time;

/// The maximum that the link holds in one direction: 2^17 packets, 1 Gb/s of full packets for 1.6 seconds. Beyond, it drops.
const MAX_HELD_PACKETS: usize = 1 << 17;

/// Buffers of packets in flight, indexed by the packet's number in the path.
#[derive(Debug, Default)]
pub(crate) struct HeldPackets {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// One packet's contents.
#[derive(Debug)]
pub(crate) struct Slot {
    buffer: Vec<u8>,
    length: usize,
    /// The packet's sender, as identified by the end where it arrived.
    pub(crate) peer: u32,
    /// When the link read it.
    pub(crate) taken_at: Time,
    /// The part of [`Packet::PORTIONS`] that is still in flight.
    left: u64,
}

impl Slot {
    pub(crate) fn contents(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.length]
    }
}

impl HeldPackets {
    /// A buffer of `size` bytes for the next packet; None where too many are held. It stays free until [`HeldPackets::keep`].
    pub(crate) fn spare(&mut self, size: usize) -> Option<(u32, &mut [u8])> {
        if self.free.is_empty() {
            if self.slots.len() == MAX_HELD_PACKETS {
                return None;
            }
            self.free.push(self.slots.len() as u32);
            self.slots.push(Slot { buffer: vec![0; size], length: 0, peer: 0, taken_at: Time::ZERO, left: 0 });
        }
        let id = *self.free.last()?;
        Some((id, &mut self.slots[id as usize].buffer))
    }

    /// Marks the spare buffer `id` as holding a packet.
    pub(crate) fn keep(&mut self, now: Time, id: u32, length: usize, peer: u32) {
        debug_assert_eq!(self.free.last(), Some(&id), "only the spare buffer can be kept");
        self.free.pop();
        let slot = &mut self.slots[id as usize];
        (slot.length, slot.peer, slot.taken_at, slot.left) = (length, peer, now, Packet::PORTIONS);
    }

    pub(crate) fn slot(&mut self, id: u64) -> &mut Slot {
        &mut self.slots[id as usize]
    }

    /// The packet, or a copy of it, was delivered or dropped.
    pub(crate) fn on_exit(&mut self, packet: &Packet) {
        let slot = &mut self.slots[packet.id as usize];
        slot.left -= packet.portion();
        if slot.left == 0 {
            self.free.push(packet.id as u32);
        }
    }

    /// Returns the number of packets in flight.
    pub(crate) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use nearlight_link::{FlowId, Hop, PathSpec};
    use nearlight_units::Bytes;

    use super::*;

    #[test]
    fn buffers_come_back_when_the_last_copy_is_gone() {
        let spec: PathSpec = "duplicate=50%,loss=10%,duplicate=50%,reorder=20%/3ms,loss=10%".parse().expect("a path");
        let mut path = spec.build(3).expect("no files");
        let mut held = HeldPackets::default();
        for round in 0..10_000_u64 {
            let now = Time::from_micros(round * 100);
            let (id, buffer) = held.spare(8).expect("room");
            buffer.copy_from_slice(&round.to_be_bytes());
            held.keep(now, id, 8, 0);
            path.offer(now, Packet::new(id.into(), FlowId(0), Bytes::new(8)));
            while let Some(exit) = path.poll(now) {
                // No packet is held for longer than 3 ms, which is 30 rounds.
                let written = u64::from_be_bytes(held.slot(exit.packet.id).contents().try_into().expect("eight bytes"));
                assert!(written <= round && round - written <= 30, "{written} in round {round}");
                held.on_exit(&exit.packet);
            }
        }
        while let Some(exit) = path.poll(Time::FAR_FUTURE) {
            held.on_exit(&exit.packet);
        }
        assert_eq!(held.count(), 0);
        assert!(held.slots.len() <= 32, "{} buffers for at most 31 packets at a time", held.slots.len());
    }

    #[test]
    fn what_is_held_is_bounded() {
        let mut held = HeldPackets::default();
        for _ in 0..MAX_HELD_PACKETS {
            let (id, _) = held.spare(1).expect("room");
            held.keep(Time::ZERO, id, 1, 0);
        }
        assert!(held.spare(1).is_none());
        held.on_exit(&Packet::new(7, FlowId(0), Bytes::new(1)));
        assert_eq!(held.spare(1).map(|(id, _)| id), Some(7));
    }
}
