//! One direction of a link.

use nearlight_link::{FlowId, Hop as _, Packet, Path};
use nearlight_net::Clock;
use nearlight_units::Time;

use crate::held::HeldPackets;
use crate::lateness::Lateness;
use crate::port::Port;

/// A path with the contents of its packets in flight.
pub(crate) struct Lane {
    pub(crate) path: Path,
    pub(crate) held: HeldPackets,
    pub(crate) lateness: Lateness,
    /// Time from when the link read a packet until it had left, and the part of it spent in queues.
    pub(crate) way: Lateness,
    pub(crate) queued: Lateness,
    /// Packets that arrived while too many were held.
    pub(crate) overflow: u64,
    /// Packets that the receiving end did not accept.
    pub(crate) refused: u64,
}

impl Lane {
    pub(crate) fn new(path: Path) -> Self {
        let (lateness, way, queued) = (Lateness::default(), Lateness::default(), Lateness::default());
        Self { path, held: HeldPackets::default(), lateness, way, queued, overflow: 0, refused: 0 }
    }

    /// Reads up to `most` packets that have arrived at `port`; returns whether there may be more.
    pub(crate) fn receive(&mut self, clock: Clock, port: &mut impl Port, most: usize) -> bool {
        for _ in 0..most {
            let Some((id, buffer)) = self.held.spare(port.buffer_size()) else {
                return self.discard(port, most);
            };
            let Some(arrived) = port.receive(buffer) else { return false };
            let now = clock.now();
            self.held.keep(now, id, arrived.length, arrived.peer);
            let packet = Packet::new(id.into(), FlowId(0), arrived.size).with_ecn(arrived.ecn);
            self.path.offer(now, packet);
        }
        true
    }

    fn discard(&mut self, port: &mut impl Port, most: usize) -> bool {
        let mut buffer = vec![0; port.buffer_size()];
        let thrown = (0..most).take_while(|_| port.receive(&mut buffer).is_some()).count();
        self.overflow += thrown as u64;
        thrown == most
    }

    /// Sends the packets that are due.
    pub(crate) fn release(&mut self, clock: Clock, port: &mut impl Port) {
        let now = clock.now();
        while let Some(exit) = self.path.poll(now) {
            if exit.is_delivered() {
                let slot = self.held.slot(exit.packet.id);
                let (peer, taken_at) = (slot.peer, slot.taken_at);
                if port.send(&exit.packet, peer, slot.contents()).is_err() {
                    self.refused += 1;
                }
                let left_at = clock.now();
                self.lateness.record(left_at - exit.at);
                self.way.record(left_at - taken_at);
                self.queued.record(exit.packet.queued);
            }
            self.held.on_exit(&exit.packet);
        }
    }

    /// When the next packet is due.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.path.poll_timeout()
    }
}
