//! A competing flow in the simulation.

use crate::dash::{Client, Playback};
use nearlight_flows::{self as flows, Direction, Statistics, Traffic};
use nearlight_link::Ecn;
use nearlight_units::{Span, Time};

use super::network::{Arrival, End, Network, OutgoingPacket};
use crate::histogram::Histogram;

/// The traffic of a competing flow.
pub(crate) enum RivalTraffic {
    Plain(Box<dyn Traffic>),
    Dash(Box<Client>),
}

impl RivalTraffic {
    fn traffic(&self) -> &dyn Traffic {
        match self {
            Self::Plain(traffic) => &**traffic,
            Self::Dash(client) => &**client,
        }
    }

    fn traffic_mut(&mut self) -> &mut dyn Traffic {
        match self {
            Self::Plain(traffic) => &mut **traffic,
            Self::Dash(client) => &mut **client,
        }
    }
}

pub(crate) struct Rival {
    load: RivalTraffic,
    flow: u16,
    pub(crate) due: Time,
    /// Start of the measured time.
    measured_from: Time,
    pub(crate) delay: Histogram,
}

impl Rival {
    pub(crate) fn new(load: RivalTraffic, flow: u16, warm_up: Span) -> Self {
        let due = load.traffic().poll_timeout().map_or(Time::FAR_FUTURE, |(at, _)| at);
        Self { load, flow, due, measured_from: Time::ZERO + warm_up, delay: Histogram::default() }
    }

    pub(crate) fn on_arrival(&mut self, now: Time, far: bool, arrival: &Arrival, network: &mut Network) {
        let direction = if far { Direction::Forward } else { Direction::Back };
        let Arrival { id, size, marked, .. } = *arrival;
        if far && now >= self.measured_from {
            self.delay.add((now - arrival.sent_at).as_micros().max(0).cast_unsigned());
        }
        self.load.traffic_mut().on_delivered(now, flows::Arrival { id, direction, size, marked });
        self.drain(now, network);
    }

    pub(crate) fn on_wake(&mut self, now: Time, network: &mut Network) {
        self.load.traffic_mut().on_timeout(now);
        self.drain(now, network);
    }

    fn drain(&mut self, now: Time, network: &mut Network) {
        while let Some(packet) = self.load.traffic_mut().poll_transmit(now) {
            let to = End { flow: self.flow, far: packet.direction == Direction::Forward };
            let ecn = if packet.ecn { Ecn::Ect0 } else { Ecn::NotCapable };
            network.send(now, OutgoingPacket { to, size: packet.size, id: packet.id, ecn, bytes: Vec::new() });
        }
        self.due = self.load.traffic().poll_timeout().map_or(Time::FAR_FUTURE, |(at, _)| at);
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.load.traffic().statistics()
    }

    /// Returns a player's statistics until `now`. None for other traffic.
    pub(crate) fn playback(&mut self, now: Time) -> Option<Playback> {
        match &mut self.load {
            RivalTraffic::Plain(_) => None,
            RivalTraffic::Dash(client) => Some(client.playback(now).clone()),
        }
    }
}
