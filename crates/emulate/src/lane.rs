//! One direction of a link.

use nearlight_link::{FlowId, Hop as _, Packet, Path};
use nearlight_units::Time;

use crate::clock::Clock;
use crate::held::Held;
use crate::lateness::Lateness;
use crate::port::Port;

/// A path with the contents of what is on it.
pub(crate) struct Lane {
    pub(crate) path: Path,
    pub(crate) held: Held,
    pub(crate) lateness: Lateness,
    /// Packets that came while too many were held.
    pub(crate) overflow: u64,
    /// Packets that the receiving end did not take.
    pub(crate) refused: u64,
}

impl Lane {
    pub(crate) fn new(path: Path) -> Self {
        Self { path, held: Held::default(), lateness: Lateness::default(), overflow: 0, refused: 0 }
    }

    /// Takes in what has come at `port`, `most` packets of it; whether there may be more.
    pub(crate) fn receive(&mut self, clock: Clock, port: &mut impl Port, most: usize) -> bool {
        for _ in 0..most {
            let Some((id, buffer)) = self.held.spare(port.buffer_size()) else {
                return self.throw_away(port, most);
            };
            let Some(arrived) = port.receive(buffer) else { return false };
            self.held.keep(id, arrived.length, arrived.peer);
            let packet = Packet::new(id.into(), FlowId(0), arrived.size).with_ecn(arrived.ecn);
            self.path.offer(clock.now(), packet);
        }
        true
    }

    fn throw_away(&mut self, port: &mut impl Port, most: usize) -> bool {
        let mut buffer = vec![0; port.buffer_size()];
        let thrown = (0..most).take_while(|_| port.receive(&mut buffer).is_some()).count();
        self.overflow += thrown as u64;
        thrown == most
    }

    /// Lets out what is due.
    pub(crate) fn release(&mut self, clock: Clock, port: &mut impl Port) {
        let now = clock.now();
        while let Some(exit) = self.path.poll(now) {
            if exit.is_delivered() {
                let slot = self.held.slot(exit.packet.id);
                let peer = slot.peer;
                if port.send(&exit.packet, peer, slot.contents()).is_err() {
                    self.refused += 1;
                }
                self.lateness.record(clock.now() - exit.at);
            }
            self.held.on_exit(&exit.packet);
        }
    }

    /// When something is due next.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.path.poll_timeout()
    }
}
