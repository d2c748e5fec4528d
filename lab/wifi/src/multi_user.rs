//! Exchanges that several stations share: what they have in common, and downlink transmissions split by frequency.
//!
//! MU-RTS, CTS, data padded to the longest part, block acknowledgements in parallel.

use nearlight_units::{Bytes, Span, Time};

use crate::cell::{Cell, Lane};
use crate::config::{Category, Direction};
use crate::exchange::{StationShare, TransmissionTimes};
use crate::ofdma::{Candidate, MultiUser};
use crate::phy::{Mcs, Tones};
use crate::queue::{AggregateLimits, AggregateSize};
use crate::tally::Kind;
use crate::timing::Timing;

/// Size of the request for a station's block acknowledgement, sent inside its data (IEEE 802.11ax-2021, section 9.3.1.22.4): a trigger for one
/// station, and the packets to be acknowledged.
const ACKNOWLEDGEMENT_REQUEST: Bytes = Bytes::new(37);

impl Cell {
    /// Returns the number of stations of a downlink transmission with this many candidates. Fewer than two mean an ordinary transmission.
    fn sharers(&self, candidates: usize) -> usize {
        let Some(places) = self.config.multi_user.downlink else { return 0 };
        let width = self.config.width;
        let places = width.filled_by(usize::from(places).min(self.config.stations.len()));
        width.filled_by(candidates.min(places))
    }

    /// Plans a downlink transmission to several stations. None if an ordinary transmission to one station is next.
    ///
    /// The scheduler counts it from now on, even if its first frame collides, as in ns-3.
    pub(crate) fn plan_multi_user(&mut self, now: Time, category: Category) -> Option<Vec<StationShare>> {
        let MultiUser { downlink, always, .. } = self.config.multi_user;
        downlink?;
        let candidates = self.candidates(Direction::Downlink, category);
        let sharers = self.sharers(candidates.len());
        if candidates.is_empty() || (sharers < 2 && !always) {
            return None;
        }
        let lanes = self.pick(now, &candidates, sharers, Direction::Downlink, category);
        let parts = self.share(now, lanes, 1, self.config.timing.protection());
        if parts.len() > 1 || always {
            let served: Vec<usize> = parts.iter().map(|part| part.lane.station()).collect();
            self.scheduler.on_served(&served, self.config.stations.len(), self.shared_data(&parts));
            self.timers.on_shared_downlink();
        }
        Some(parts)
    }

    /// Returns the duration of the first frame of a downlink transmission, by which others detect it.
    pub(crate) fn opening(&self, plan: Option<&[StationShare]>) -> Span {
        let timing = &self.config.timing;
        match plan {
            Some(parts) if parts.len() > 1 => timing.trigger(parts.len()),
            _ => timing.rts(),
        }
    }

    /// Returns the duration of the data to several stations, with preamble.
    fn shared_data(&self, parts: &[StationShare]) -> Span {
        let timing = &self.config.timing;
        let request = Timing::control_bits(ACKNOWLEDGEMENT_REQUEST);
        let slowest = parts.iter().map(|part| part.mode.mcs()).min().unwrap_or(Mcs::LOWEST);
        let data = parts.iter().map(|part| timing.data(part.mode, part.load.bits + request)).max();
        timing.multi_user_preamble(self.config.width, parts.len(), slowest) + data.unwrap_or(Span::ZERO)
    }

    /// Sends what [`Self::plan_multi_user`] has planned.
    pub(crate) fn begin_multi_user(&mut self, now: Time, parts: &[StationShare]) {
        if let [part] = parts
            && !self.config.multi_user.always
        {
            self.begin_single(now, part.lane);
            return;
        }
        let timing = self.config.timing;
        let count = parts.len();
        let lead = match (self.config.rts_cts, count) {
            (false, _) => Span::ZERO,
            (true, 1) => timing.protection(),
            (true, _) => self.shared_protection(count),
        };
        let slowest = parts.iter().map(|part| part.mode.mcs()).min().unwrap_or(Mcs::LOWEST);
        let begins = now + lead + timing.multi_user_preamble(self.config.width, count, slowest);
        let data_end = now + lead + self.shared_data(parts);
        let answer = Timing::control_bits(timing.block_acknowledgement);
        let answers = parts.iter().map(|part| timing.triggered(part.mode, answer)).max();
        let end = data_end + timing.sifs + answers.unwrap_or(Span::ZERO);
        self.send_parts(parts, Kind::MultiUser, TransmissionTimes { start: now, data: begins, data_end, end });
        // Stations answer the request among the packets, even where no packet got through.
        self.running.succeeded = true;
        self.running.end = end;
        self.tally.airtime += end - now;
    }

    /// Returns the duration of MU-RTS to this many stations, their CTS, and the gaps after both.
    pub(crate) fn shared_protection(&self, stations: usize) -> Span {
        let timing = &self.config.timing;
        timing.trigger(stations) + timing.sifs + timing.cts() + timing.sifs
    }

    /// Sends each part; returns how many packets of each get through.
    pub(crate) fn send_parts(&mut self, parts: &[StationShare], kind: Kind, moments: TransmissionTimes) -> Vec<usize> {
        let mut delivered = Vec::with_capacity(parts.len());
        for part in parts {
            let arrived = self.transmit(part, moments);
            self.account(part, kind, moments, arrived, parts.len() as i64);
            delivered.push(arrived);
        }
        self.give_up(moments.end);
        delivered
    }

    /// Returns the stations with packets in a category, in order of station.
    pub(crate) fn candidates(&self, direction: Direction, category: Category) -> Vec<Candidate> {
        let stations = self.config.stations.iter().enumerate();
        let candidate = |(station, settings): (usize, &crate::config::StationConfig)| {
            let lane = Lane::new(station, direction, category);
            let queue = &self.queues[lane.index()];
            let oldest = queue.head().filter(|_| self.can_send(lane))?.entered;
            let bytes = queue.iter().map(|mpdu| mpdu.packet.size).sum();
            let deadline = oldest + settings.patience;
            Some(Candidate { station, packets: queue.len(), bytes, oldest, deadline })
        };
        stations.filter_map(candidate).collect()
    }

    /// Returns the scheduler's choice. Invalid choices are skipped.
    pub(crate) fn pick(
        &mut self,
        now: Time,
        candidates: &[Candidate],
        places: usize,
        direction: Direction,
        category: Category,
    ) -> Vec<Lane> {
        let mut picked = Vec::new();
        self.scheduler.pick(now, candidates, places, &mut picked);
        let mut lanes: Vec<Lane> = Vec::new();
        for candidate in picked.into_iter().filter_map(|index| candidates.get(index)) {
            let lane = Lane::new(candidate.station, direction, category);
            if lanes.len() < places && !lanes.contains(&lane) {
                lanes.push(lane);
            }
        }
        if lanes.is_empty() {
            lanes.push(Lane::new(candidates[0].station, direction, category));
        }
        lanes
    }

    /// Splits the channel into at least `units` equal resource units, and assigns them to as many of these lanes as have a packet that fits.
    pub(crate) fn share(&mut self, now: Time, lanes: Vec<Lane>, units: usize, lead: Span) -> Vec<StationShare> {
        let timing = self.config.timing;
        let category = lanes[0].category().index();
        let extra = match lanes[0].direction() {
            Direction::Downlink => Timing::control_bits(ACKNOWLEDGEMENT_REQUEST),
            Direction::Uplink => 0,
        };
        // The longest possible preamble and answer.
        let preamble = timing.multi_user_preamble(self.config.width, lanes.len(), Mcs::LOWEST);
        let answer = timing.multi_acknowledgement(0, lanes.len());
        let around = lead + preamble + timing.sifs + answer;
        let limit = self.config.edca[category].txop.map_or(timing.longest, |txop| txop - around).min(timing.longest);
        let choose = |lane: Lane| {
            let choice = self.radios[lane.station()].choose(now, lane.direction(), &mut self.random);
            (lane, choice)
        };
        let mut chosen: Vec<_> = lanes.into_iter().map(choose).collect();
        loop {
            let tones = self.config.width.split(chosen.len().max(units)).unwrap_or(Tones::T26);
            let alone = chosen.len() == 1;
            let part = |&(lane, choice): &(Lane, crate::radio::RateChoice)| {
                let mode = choice.mode.on(tones);
                let packets = choice.packets.min(usize::from(self.config.aggregate));
                let limit = if alone { timing.longest } else { limit };
                let bits = timing.data_bits(mode, limit).saturating_sub(extra);
                let room = AggregateLimits { bits, packets, window: self.window() };
                let load = self.queues[lane.index()].load(&timing, room);
                StationShare { lane, mode, load, collides: false }
            };
            let parts: Vec<StationShare> = chosen.iter().map(part).collect();
            if alone || parts.iter().all(|part| part.load != AggregateSize::default()) {
                return parts;
            }
            chosen.truncate(self.config.width.filled_by(chosen.len() - 1));
        }
    }
}
