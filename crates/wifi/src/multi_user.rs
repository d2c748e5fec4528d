//! Exchanges that several stations share: downlink transmissions split by frequency, and uplink ones solicited by a trigger.
//!
//! Downlink: MU-RTS, CTS, data padded to the longest part, block acknowledgements in parallel. Uplink: a buffer status poll
//! (BSRP), answers in parallel, a trigger, data in parallel, one acknowledgement for all.

use nearlight_units::{Bytes, Span, Time};

use crate::cell::{Cell, Lane};
use crate::config::{Category, Direction};
use crate::exchange::{Moments, Part};
use crate::ofdma::{Candidate, MultiUser, Occasion, Triggered};
use crate::phy::{Mcs, Tones};
use crate::queue::{Load, Room};
use crate::tally::Kind;
use crate::timing::Timing;

/// An empty `QoS` frame with the buffer status (IEEE 802.11-2020, section 9.3.2.1).
const REPORT: Bytes = Bytes::new(30);
/// The request for a station's block acknowledgement, inside its data (IEEE 802.11ax-2021, section 9.3.1.22.4): a trigger for one
/// station, and the packets to be acknowledged.
const ACKNOWLEDGEMENT_REQUEST: Bytes = Bytes::new(37);

impl Cell {
    /// How many stations a downlink transmission of this many candidates has; less than two where it is an ordinary one.
    fn sharers(&self, candidates: usize) -> usize {
        let Some(places) = self.config.multi_user.downlink else { return 0 };
        let width = self.config.width;
        let places = width.filled_by(usize::from(places).min(self.config.stations.len()));
        width.filled_by(candidates.min(places))
    }

    /// The first frame of the access point's downlink transmission, from which others learn that it begins.
    pub(crate) fn downlink_opening(&self, category: Category) -> Span {
        let timing = &self.config.timing;
        if self.config.multi_user.downlink.is_none() {
            return timing.rts();
        }
        let sharers = self.sharers(self.candidates(Direction::Downlink, category).len());
        if sharers > 1 { timing.trigger(sharers) } else { timing.rts() }
    }

    /// Sends to several stations at once; false if fewer than two have packets or the cell does not support it.
    pub(crate) fn begin_multi_user(&mut self, now: Time, category: Category) -> bool {
        let MultiUser { downlink, always, .. } = self.config.multi_user;
        if downlink.is_none() {
            return false;
        }
        let candidates = self.candidates(Direction::Downlink, category);
        let sharers = self.sharers(candidates.len());
        if candidates.is_empty() || (sharers < 2 && !always) {
            return false;
        }
        let timing = self.config.timing;
        let lanes = self.pick(now, &candidates, sharers, Direction::Downlink, category);
        let request = Timing::control_bits(ACKNOWLEDGEMENT_REQUEST);
        let parts = self.share(now, lanes, 1, timing.protection(), request);
        if let [part] = parts.as_slice()
            && !always
        {
            self.begin_single(now, part.lane);
            return true;
        }
        let count = parts.len();
        let lead = match (self.config.rts_cts, count) {
            (false, _) => Span::ZERO,
            (true, 1) => timing.protection(),
            (true, _) => timing.trigger(count) + timing.sifs + timing.cts() + timing.sifs,
        };
        let slowest = parts.iter().map(|part| part.mode.mcs()).min().unwrap_or(Mcs::LOWEST);
        let data = parts.iter().map(|part| timing.data(part.mode, part.load.bits + request)).max();
        let begins = now + lead + timing.multi_user_preamble(self.config.width, count, slowest);
        let data_end = begins + data.unwrap_or(Span::ZERO);
        let answer = Timing::control_bits(timing.block_acknowledgement);
        let answers = parts.iter().map(|part| timing.triggered(part.mode, answer)).max();
        let end = data_end + timing.sifs + answers.unwrap_or(Span::ZERO);
        let served: Vec<usize> = parts.iter().map(|part| part.lane.station()).collect();
        self.scheduler.on_served(&served, self.config.stations.len(), data_end - begins);
        self.timers.on_shared_downlink();
        self.send_parts(&parts, Kind::MultiUser, Moments { start: now, data: begins, data_end, end });
        true
    }

    /// Polls the stations' buffer status and requests as much data as fits, in the same access or a separate one; false if there is
    /// nothing to request.
    pub(crate) fn begin_triggered(&mut self, now: Time) -> bool {
        let Some(triggered) = self.config.multi_user.uplink else { return false };
        match (triggered.when, self.reported.take()) {
            (Occasion::Every(_), _) => self.ask_at_once(now, triggered),
            (Occasion::AfterDownlink, None) => self.ask_what_waits(now, triggered),
            (Occasion::AfterDownlink, Some(reported)) => {
                self.timers.on_triggered();
                if reported.is_empty() {
                    return false;
                }
                self.ask_for_data(now, triggered, &reported);
            }
        }
        true
    }

    fn ask_at_once(&mut self, now: Time, triggered: Triggered) {
        self.timers.on_triggered();
        let timing = self.config.timing;
        let most = Tones::T26.in_channel(self.config.width);
        let asked = self.present.iter().filter(|present| **present).count().clamp(1, most);
        let asking = self.asking(asked);
        let mut candidates = self.candidates(Direction::Uplink, triggered.category);
        candidates.truncate(most);
        if candidates.is_empty() {
            self.end_without_packets(now, now + asking);
            return;
        }
        let lanes = self.pick(now, &candidates, usize::from(triggered.stations), Direction::Uplink, triggered.category);
        let lead = asking + timing.sifs + timing.data_trigger(lanes.len()) + timing.sifs;
        let parts = self.share(now, lanes, 1, lead, 0);
        let lead = asking + timing.sifs + timing.data_trigger(parts.len()) + timing.sifs;
        self.collect(now, lead, &parts, Span::ZERO);
    }

    /// Buffer status reports, of the stations from which data would be requested.
    fn ask_what_waits(&mut self, now: Time, triggered: Triggered) {
        let present = (0..self.present.len()).filter(|station| self.present[*station]).count();
        let asked = self.config.width.filled_by(usize::from(triggered.stations).min(present).max(1));
        let candidate =
            |station| Candidate { station, packets: 0, bytes: Bytes::ZERO, oldest: Time::ZERO, deadline: Time::ZERO };
        let candidates: Vec<_> =
            (0..self.present.len()).filter(|station| self.present[*station]).map(candidate).collect();
        let mut picked = Vec::new();
        self.uplink_scheduler.pick(now, &candidates, asked, &mut picked);
        let stations = picked.into_iter().filter_map(|index| candidates.get(index)).map(|candidate| candidate.station);
        let has_packets = |station: &usize| self.can_send(Lane::new(*station, Direction::Uplink, triggered.category));
        self.reported = Some(stations.filter(has_packets).collect());
        self.end_without_packets(now, now + self.asking(asked));
    }

    fn ask_for_data(&mut self, now: Time, triggered: Triggered, reported: &[usize]) {
        let timing = self.config.timing;
        let sharers = self.config.width.filled_by(reported.len());
        let asked: Vec<usize> = reported.iter().copied().take(sharers).collect();
        let lanes = asked.iter().map(|station| Lane::new(*station, Direction::Uplink, triggered.category));
        let lanes: Vec<Lane> = lanes.filter(|lane| self.can_send(*lane)).collect();
        let protection = if self.config.rts_cts {
            timing.trigger(sharers) + timing.sifs + timing.cts() + timing.sifs
        } else {
            Span::ZERO
        };
        let lead = protection + timing.data_trigger(sharers) + timing.sifs;
        // A station that has sent its packets in the meantime reports an empty buffer.
        let tones = self.config.width.split(sharers).unwrap_or(Tones::T26);
        let nothing = |station: &usize| {
            timing.triggered(self.radios[*station].usual(Direction::Uplink).on(tones), Timing::control_bits(REPORT))
        };
        let shortest = asked.iter().map(nothing).max().unwrap_or(Span::ZERO);
        self.uplink_scheduler.on_served(&asked, self.config.stations.len(), shortest);
        if lanes.is_empty() {
            self.end_without_packets(now, now + lead + shortest);
            return;
        }
        let parts = self.share(now, lanes, sharers, lead, 0);
        self.collect(now, lead, &parts, shortest);
    }

    /// A buffer status poll, and the answers in parallel.
    fn asking(&self, stations: usize) -> Span {
        let timing = &self.config.timing;
        let tones = self.config.width.split(stations).unwrap_or(Tones::T26);
        let modes = self.radios.iter().map(|radio| radio.usual(Direction::Uplink).on(tones));
        let report = modes.map(|mode| timing.triggered(mode, Timing::control_bits(REPORT))).max();
        timing.trigger(stations) + timing.sifs + report.unwrap_or(Span::ZERO)
    }

    fn end_without_packets(&mut self, now: Time, end: Time) {
        self.running.end = end;
        self.running.succeeded = true;
        self.tally.airtime += end - now;
        self.record_without_packets(now, end, Kind::Triggered, None);
    }

    /// Data in parallel, lasting at least `shortest`, and one acknowledgement for all.
    fn collect(&mut self, now: Time, lead: Span, parts: &[Part], shortest: Span) {
        let timing = self.config.timing;
        let data = parts.iter().map(|part| timing.triggered(part.mode, part.load.bits)).max().unwrap_or(Span::ZERO);
        let begins = now + lead;
        let data_end = begins + data.max(shortest);
        let acknowledged = parts.iter().map(|part| part.load.packets);
        let end = data_end + timing.sifs + timing.multi_acknowledgement(acknowledged);
        self.send_parts(parts, Kind::Triggered, Moments { start: now, data: begins, data_end, end });
    }

    fn send_parts(&mut self, parts: &[Part], kind: Kind, moments: Moments) {
        self.running.succeeded = false;
        for part in parts {
            let delivered = self.transmit(part, moments);
            self.running.succeeded |= delivered > 0;
            self.account(part, kind, moments, delivered, parts.len() as i64);
        }
        self.give_up(moments.end);
        self.running.end = moments.end;
        self.tally.airtime += moments.end - moments.start;
    }

    /// Stations with packets in a category, in order of station.
    fn candidates(&self, direction: Direction, category: Category) -> Vec<Candidate> {
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

    /// The scheduler's choice; invalid choices are skipped.
    fn pick(
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

    /// Splits the channel into equal units, `units` of them at least, for as many of these lanes as have a packet that fits into theirs.
    fn share(&mut self, now: Time, lanes: Vec<Lane>, units: usize, lead: Span, extra: u64) -> Vec<Part> {
        let timing = self.config.timing;
        let category = lanes[0].category().index();
        // The longest possible preamble and answer.
        let preamble = timing.multi_user_preamble(self.config.width, lanes.len(), Mcs::LOWEST);
        let answer = timing.multi_acknowledgement(lanes.iter().map(|_| 2));
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
            let part = |&(lane, choice): &(Lane, crate::radio::Choice)| {
                let mode = choice.mode.on(tones);
                let packets = choice.packets.min(usize::from(self.config.aggregate));
                let limit = if alone { timing.longest } else { limit };
                let bits = timing.data_bits(mode, limit).saturating_sub(extra);
                let room = Room { bits, packets, window: self.window() };
                let load = self.queues[lane.index()].load(&timing, room);
                Part { lane, mode, load, collides: false }
            };
            let parts: Vec<Part> = chosen.iter().map(part).collect();
            if alone || parts.iter().all(|part| part.load != Load::default()) {
                return parts;
            }
            chosen.truncate(self.config.width.filled_by(chosen.len() - 1));
        }
    }
}
