//! What waits for one receiver in one access category, and what the receiver holds back.

use std::collections::VecDeque;

use nearlight_link::Packet;
use nearlight_units::Time;

use crate::timing::Timing;

/// A packet on its way through the cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mpdu {
    pub packet: Packet,
    pub entered: Time,
    pub sequence: u64,
    /// How often it was sent in vain.
    pub attempts: u8,
    /// Made by the cell itself: counted, but nobody waits for it.
    pub background: bool,
}

/// What may go into one transmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub bits: u64,
    pub packets: usize,
    /// Sequence numbers beyond the first one's.
    pub window: u64,
}

/// Packets from the head of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub packets: usize,
    pub bits: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Queue {
    waiting: VecDeque<Mpdu>,
    on_air: usize,
    limit: usize,
    next_sequence: u64,
    /// Arrived ahead of others, in order of sequence.
    held: VecDeque<Mpdu>,
}

impl Queue {
    pub(crate) fn new(limit: u16) -> Self {
        let (waiting, held) = (VecDeque::new(), VecDeque::new());
        Self { waiting, on_air: 0, limit: usize::from(limit), next_sequence: 0, held }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Packets that wait, those on the air left out.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn head(&self) -> Option<&Mpdu> {
        self.waiting.front()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Mpdu> {
        self.waiting.iter()
    }

    /// Packets that occupy the buffer: those that wait and those on the air.
    pub(crate) fn occupied(&self) -> usize {
        self.waiting.len() + self.on_air
    }

    /// Appends the packet; false if there is no room for it.
    #[inline]
    pub(crate) fn push(&mut self, packet: Packet, now: Time, background: bool) -> bool {
        if self.occupied() >= self.limit {
            return false;
        }
        let mpdu = Mpdu { packet, entered: now, sequence: self.next_sequence, attempts: 0, background };
        self.next_sequence += 1;
        self.waiting.push_back(mpdu);
        true
    }

    /// What fits from the head; nothing if not even the first does.
    pub(crate) fn load(&self, timing: &Timing, room: Room) -> Load {
        let mut load = Load::default();
        let Some(head) = self.head() else { return load };
        let beyond = head.sequence + room.window;
        for mpdu in self.waiting.iter().take(room.packets) {
            let bits = load.bits + timing.packet_bits(mpdu.packet.size);
            if bits > room.bits || mpdu.sequence >= beyond {
                break;
            }
            load = Load { packets: load.packets + 1, bits };
        }
        load
    }

    /// The head goes on the air; it occupies the buffer until [`Self::on_acknowledged`].
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Mpdu> {
        let mpdu = self.waiting.pop_front()?;
        self.on_air += 1;
        Some(mpdu)
    }

    /// What was on the air is through, given up or about to be put back.
    pub(crate) fn on_acknowledged(&mut self) {
        self.on_air = 0;
    }

    /// Empties it; answers how many packets were in it that somebody waits for, those on the air left out.
    pub(crate) fn clear(&mut self) -> usize {
        let gone = self.waiting.drain(..).chain(self.held.drain(..));
        gone.filter(|mpdu| !mpdu.background).count()
    }

    /// Puts back what did not get through; the last one first.
    pub(crate) fn put_back(&mut self, mpdu: Mpdu) {
        self.waiting.push_front(mpdu);
    }

    /// Holds back what arrived.
    pub(crate) fn hold(&mut self, mpdu: Mpdu) {
        let place = self.held.partition_point(|held| held.sequence < mpdu.sequence);
        self.held.insert(place, mpdu);
    }

    /// What was held back and comes before everything that waits, in order.
    pub(crate) fn release(&mut self) -> Option<Mpdu> {
        let next = self.waiting.front().map_or(u64::MAX, |mpdu| mpdu.sequence);
        self.held.pop_front_if(|held| held.sequence < next)
    }
}
