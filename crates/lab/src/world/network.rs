//! Links that flows share, and packets on their way over them.

use nearlight_link::{DropReason, Exit, Fate, FlowId, Hop, Packet, Path};
use nearlight_units::{Bytes, Span, Time};

/// One end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) flow: u16,
    /// Where data arrives; else where feedback does.
    pub(crate) far: bool,
}

/// A datagram sent by an end.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) to: End,
    /// On IP.
    pub(crate) size: Bytes,
    /// The flow's own number for it.
    pub(crate) id: u64,
    pub(crate) ecn: nearlight_link::Ecn,
    pub(crate) bytes: Vec<u8>,
}

/// A delivered datagram.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrival {
    pub(crate) id: u64,
    pub(crate) size: Bytes,
    pub(crate) bytes: Vec<u8>,
    pub(crate) sent_at: Time,
    pub(crate) queued: Span,
    pub(crate) marked: bool,
}

/// Packets that did not arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    pub(crate) to: End,
    pub(crate) reason: DropReason,
}

struct Lane {
    path: Path,
    due: Time,
}

/// A packet's contents, kept while any copy of it travels.
#[derive(Default)]
struct Slot {
    bytes: Vec<u8>,
    id: u64,
    size: Bytes,
    sent_at: Time,
    /// Of [`Packet::WHOLE`].
    left: u64,
}

/// Which lanes a flow's packets take, by direction.
struct Route {
    there: Vec<u16>,
    back: Vec<u16>,
}

/// A packet's id: its slot below, the place on its route above.
const PLACE: u32 = 32;

/// All links.
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

    /// The next flow's route: lanes in order, each way.
    pub(crate) fn add_route(&mut self, there: Vec<u16>, back: Vec<u16>) -> u16 {
        self.routes.push(Route { there, back });
        (self.routes.len() - 1) as u16
    }

    pub(crate) fn path(&self, lane: u16) -> &Path {
        &self.lanes[usize::from(lane)].path
    }

    /// When [`Network::poll`] has something to do.
    pub(crate) const fn due(&self) -> Time {
        self.earliest
    }

    fn lane_of(&self, to: End, place: usize) -> Option<usize> {
        let route = &self.routes[usize::from(to.flow)];
        let lanes = if to.far { &route.there } else { &route.back };
        lanes.get(place).map(|lane| usize::from(*lane))
    }

    /// Returns a buffer that is of no more use.
    pub(crate) fn send(&mut self, now: Time, parcel: Parcel) -> Vec<u8> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        let spent = std::mem::replace(&mut slot.bytes, parcel.bytes);
        (slot.id, slot.size, slot.sent_at, slot.left) = (parcel.id, parcel.size, now, Packet::WHOLE);
        let flow = FlowId(u32::from(parcel.to.flow) << 1 | u32::from(parcel.to.far));
        let packet = Packet::new(u64::from(index), flow, parcel.size).with_ecn(parcel.ecn);
        // A route of no lanes at all would deliver at once: every route has at least its segment's lane.
        if let Some(lane) = self.lane_of(parcel.to, 0) {
            self.offer(now, lane, packet);
        }
        spent
    }

    fn offer(&mut self, now: Time, lane: usize, packet: Packet) {
        let lane = &mut self.lanes[lane];
        lane.path.offer(now, packet);
        // Looked at once for all packets of a burst.
        lane.due = lane.due.min(now);
        self.earliest = self.earliest.min(now);
    }

    /// The next arrival or loss by `now`.
    pub(crate) fn poll(&mut self, now: Time, arrival: &mut Arrival) -> Option<Result<End, Lost>> {
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

    fn on_exit(&mut self, exit: &Exit, arrival: &mut Arrival) -> Option<Result<End, Lost>> {
        let packet = &exit.packet;
        let to = End { flow: (packet.flow.0 >> 1) as u16, far: packet.flow.0 & 1 == 1 };
        let place = (packet.id >> PLACE) as usize + 1;
        let next = if exit.is_delivered() { self.lane_of(to, place) } else { None };
        if let Some(lane) = next {
            self.offer(exit.at, lane, Packet { id: packet.id + (1 << PLACE), ..*packet });
            return None;
        }
        let index = packet.id as u32;
        let slot = &mut self.slots[index as usize];
        slot.left -= packet.portion().min(slot.left);
        let last = slot.left == 0;
        if last {
            self.free.push(index);
        }
        match exit.fate {
            // The loss of a duplicate is not counted.
            Fate::Dropped(_) if packet.duplicate => None,
            Fate::Dropped(reason) => Some(Err(Lost { to, reason })),
            Fate::Delivered => {
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
