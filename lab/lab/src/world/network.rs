//! Links that flows share, and the packets in flight.

use nearlight_link::{DropReason, Exit, FlowId, Hop, Packet, PacketOutcome, Path};
use nearlight_units::{Bytes, Span, Time};

/// One end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) flow: u16,
    /// The end that receives data; otherwise the end that receives feedback.
    pub(crate) far: bool,
}

/// A packet sent by an end.
#[derive(Debug)]
pub(crate) struct OutgoingPacket {
    pub(crate) to: End,
    /// Size on IP.
    pub(crate) size: Bytes,
    /// The flow's own number of the packet.
    pub(crate) id: u64,
    pub(crate) ecn: nearlight_link::Ecn,
    pub(crate) bytes: Vec<u8>,
}

/// A delivered packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrival {
    pub(crate) id: u64,
    pub(crate) size: Bytes,
    pub(crate) bytes: Vec<u8>,
    pub(crate) sent_at: Time,
    pub(crate) queued: Span,
    pub(crate) marked: bool,
}

/// A packet that was dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LostPacket {
    pub(crate) to: End,
    pub(crate) reason: DropReason,
}

struct Lane {
    path: Path,
    due: Time,
}

/// The contents of a packet, kept while any copy is in flight.
#[derive(Default)]
struct Slot {
    bytes: Vec<u8>,
    id: u64,
    size: Bytes,
    sent_at: Time,
    /// Portions in flight, of [`Packet::PORTIONS`].
    left: u64,
}

/// Which lanes a flow's packets take, by direction.
struct Route {
    there: Vec<u16>,
    back: Vec<u16>,
}

/// A packet's id has its slot in the low bits and its position on the route above this bit.
const PLACE_SHIFT: u32 = 32;

/// All links, and the packets on them.
#[derive(Default)]
pub(crate) struct Network {
    lanes: Vec<Lane>,
    routes: Vec<Route>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    earliest: Time,
}

impl Network {
    pub(crate) fn new() -> Self {
        Self { earliest: Time::FAR_FUTURE, ..Self::default() }
    }

    pub(crate) fn add_lane(&mut self, path: Path) -> u16 {
        self.lanes.push(Lane { path, due: Time::FAR_FUTURE });
        (self.lanes.len() - 1) as u16
    }

    /// Adds the route of the next flow: lanes in order, for each direction.
    pub(crate) fn add_route(&mut self, there: Vec<u16>, back: Vec<u16>) -> u16 {
        self.routes.push(Route { there, back });
        (self.routes.len() - 1) as u16
    }

    pub(crate) fn path(&self, lane: u16) -> &Path {
        &self.lanes[usize::from(lane)].path
    }

    /// Returns when [`Network::poll`] has something to do.
    pub(crate) const fn due(&self) -> Time {
        self.earliest
    }

    fn lane_of(&self, to: End, place: usize) -> Option<usize> {
        let route = &self.routes[usize::from(to.flow)];
        let lanes = if to.far { &route.there } else { &route.back };
        lanes.get(place).map(|lane| usize::from(*lane))
    }

    /// Sends a packet and returns a buffer for reuse.
    pub(crate) fn send(&mut self, now: Time, parcel: OutgoingPacket) -> Vec<u8> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        let spent = std::mem::replace(&mut slot.bytes, parcel.bytes);
        (slot.id, slot.size, slot.sent_at, slot.left) = (parcel.id, parcel.size, now, Packet::PORTIONS);
        let flow = FlowId(u32::from(parcel.to.flow) << 1 | u32::from(parcel.to.far));
        let packet = Packet::new(u64::from(index), flow, parcel.size).with_ecn(parcel.ecn);
        // A route without lanes would deliver at once, but every route has at least its segment's lane.
        if let Some(lane) = self.lane_of(parcel.to, 0) {
            self.offer(now, lane, packet);
        }
        spent
    }

    fn offer(&mut self, now: Time, lane: usize, packet: Packet) {
        let lane = &mut self.lanes[lane];
        lane.path.offer(now, packet);
        // Checked once for all packets of a burst.
        lane.due = lane.due.min(now);
        self.earliest = self.earliest.min(now);
    }

    /// Returns the next arrival or loss up to `now`.
    pub(crate) fn poll(&mut self, now: Time, arrival: &mut Arrival) -> Option<Result<End, LostPacket>> {
        while self.earliest <= now {
            for index in 0..self.lanes.len() {
                if self.lanes[index].due > now {
                    continue;
                }
                while let Some(exit) = self.lanes[index].path.poll(now) {
                    if let Some(end) = self.on_exit(&exit, arrival) {
                        return Some(end);
                    }
                }
                let lane = &mut self.lanes[index];
                lane.due = lane.path.poll_timeout().unwrap_or(Time::FAR_FUTURE);
            }
            self.earliest = self.lanes.iter().map(|lane| lane.due).min().unwrap_or(Time::FAR_FUTURE);
        }
        None
    }

    fn on_exit(&mut self, exit: &Exit, arrival: &mut Arrival) -> Option<Result<End, LostPacket>> {
        let packet = &exit.packet;
        let to = End { flow: (packet.flow.0 >> 1) as u16, far: packet.flow.0 & 1 == 1 };
        let place = (packet.id >> PLACE_SHIFT) as usize + 1;
        let next = if exit.is_delivered() { self.lane_of(to, place) } else { None };
        if let Some(lane) = next {
            self.offer(exit.at, lane, Packet { id: packet.id + (1 << PLACE_SHIFT), ..*packet });
            return None;
        }
        let index = packet.id as u32;
        let slot = &mut self.slots[index as usize];
        slot.left -= packet.portion().min(slot.left);
        let last = slot.left == 0;
        if last {
            self.free.push(index);
        }
        match exit.outcome {
            // The loss of a duplicate is not counted.
            PacketOutcome::Dropped(_) if packet.duplicate => None,
            PacketOutcome::Dropped(reason) => Some(Err(LostPacket { to, reason })),
            PacketOutcome::Delivered => {
                if last {
                    std::mem::swap(&mut arrival.bytes, &mut slot.bytes);
                } else {
                    arrival.bytes.clear();
                    arrival.bytes.extend_from_slice(&slot.bytes);
                }
                (arrival.id, arrival.size, arrival.sent_at) = (slot.id, slot.size, slot.sent_at);
                (arrival.queued, arrival.marked) = (packet.queued, packet.ecn == nearlight_link::Ecn::Ce);
                Some(Ok(to))
            }
        }
    }
}
