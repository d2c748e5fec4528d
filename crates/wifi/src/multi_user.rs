//! Exchanges that several stations share: downlink transmissions split by frequency, and uplink ones that a trigger asks for.
//!
//! Downlink: MU-RTS, CTS, data padded to the longest part, block acknowledgements side by side. Uplink: a poll for what waits
//! (BSRP), answers side by side, a trigger, data side by side, one acknowledgement for all.

use nearlight_units::{Bytes, Span, Time};

use crate::cell::{Cell, Lane};
use crate::config::{Category, Direction};
use crate::exchange::{Moments, Part};
use crate::ofdma::Candidate;
use crate::phy::{Mcs, Mode, Tones};
use crate::queue::{Load, Room};
use crate::tally::Kind;

/// Answers side by side are sent this fast at most. Guess: robust, as control is, yet not the slowest.
const ANSWER: u8 = 3;
/// An empty `QoS` frame with what waits (IEEE 802.11-2020, section 9.3.2.1).
const REPORT: Bytes = Bytes::new(34);
/// What asks a station for its block acknowledgement, inside its data (IEEE 802.11ax-2021, section 9.3.1.22.4).
const ACKNOWLEDGEMENT_REQUEST: u64 = 8 * 36;

impl Cell {
    /// Sends to several stations at once; false where fewer than two have packets or the cell does not do it.
    pub(crate) fn begin_multi_user(&mut self, now: Time, category: Category) -> bool {
        let Some(places) = self.config.multi_user.downlink else { return false };
        let candidates = self.candidates(Direction::Downlink, category);
        if candidates.len() < 2 {
            return false;
        }
        let lanes = self.pick(now, &candidates, usize::from(places), Direction::Downlink, category);
        let lead = if self.config.rts_cts { self.config.timing.protection() } else { Span::ZERO };
        let parts = self.share(now, lanes, lead, ACKNOWLEDGEMENT_REQUEST);
        if let [part] = parts.as_slice() {
            self.turn[category.index()] = (part.lane.station() + 1) % self.config.stations.len();
            self.begin_single(now, part.lane);
            return true;
        }
        let timing = self.config.timing;
        let count = parts.len();
        let lead = if self.config.rts_cts {
            timing.trigger(count) + timing.sifs + timing.cts() + timing.sifs
        } else {
            Span::ZERO
        };
        let data = parts.iter().map(|part| timing.data(part.mode, part.load.bits + ACKNOWLEDGEMENT_REQUEST)).max();
        let begins = now + lead + timing.multi_user_preamble(count);
        let data_end = begins + data.unwrap_or(Span::ZERO);
        let answers = parts.iter().map(|part| self.answer(part.mode, timing.block_acknowledgement)).max();
        let end = data_end + timing.sifs + answers.unwrap_or(Span::ZERO);
        self.send_parts(&parts, Kind::MultiUser, Moments { start: now, data: begins, data_end, end });
        true
    }

    /// Asks stations what waits, then for as much of it as fits.
    pub(crate) fn begin_triggered(&mut self, now: Time, category: Category) {
        self.timers.on_triggered();
        let Some(triggered) = self.config.multi_user.uplink else { return };
        let timing = self.config.timing;
        let most = Tones::T26.in_channel(self.config.width);
        let asked = self.present.iter().filter(|present| **present).count().clamp(1, most);
        let tones = self.config.width.split(asked).unwrap_or(Tones::T26);
        let modes = self.radios.iter().map(|radio| radio.usual(Direction::Uplink).on(tones));
        let report = modes.map(|mode| self.answer(mode, REPORT)).max().unwrap_or(Span::ZERO);
        let asking = timing.trigger(asked) + timing.sifs + report;
        let mut candidates = self.candidates(Direction::Uplink, category);
        candidates.truncate(most);
        if candidates.is_empty() {
            self.running.end = now + asking;
            self.running.succeeded = true;
            self.tally.airtime += asking;
            self.record_without_packets(now, self.running.end, Kind::Triggered, None);
            return;
        }
        let lanes = self.pick(now, &candidates, usize::from(triggered.stations), Direction::Uplink, category);
        let lead = asking + timing.sifs + timing.trigger(lanes.len()) + timing.sifs;
        let parts = self.share(now, lanes, lead, 0);
        let count = parts.len();
        let lead = asking + timing.sifs + timing.trigger(count) + timing.sifs;
        let data = parts.iter().map(|part| timing.data(part.mode, part.load.bits)).max().unwrap_or(Span::ZERO);
        let begins = now + lead + timing.multi_user_preamble(0);
        let data_end = begins + data;
        let end = data_end + timing.sifs + timing.multi_acknowledgement(count);
        self.send_parts(&parts, Kind::Triggered, Moments { start: now, data: begins, data_end, end });
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

    /// The scheduler's choice; what it must not answer is left out.
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

    /// Splits the channel into equal units for as many of these lanes as have a packet that fits into theirs.
    fn share(&mut self, now: Time, lanes: Vec<Lane>, lead: Span, extra: u64) -> Vec<Part> {
        let timing = self.config.timing;
        let category = lanes[0].category().index();
        let around =
            lead + timing.multi_user_preamble(lanes.len()) + timing.sifs + timing.multi_acknowledgement(lanes.len());
        let limit = self.config.edca[category].txop.map_or(timing.longest, |txop| txop - around).min(timing.longest);
        let choose = |lane: Lane| {
            let choice = self.radios[lane.station()].choose(now, lane.direction(), &mut self.random);
            (lane, choice)
        };
        let mut chosen: Vec<_> = lanes.into_iter().map(choose).collect();
        loop {
            let tones = match self.config.width.split(chosen.len()) {
                Some(tones) => tones,
                None => Tones::T26,
            };
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
            chosen.pop();
        }
    }

    /// An answer that a station sends next to others.
    fn answer(&self, mode: Mode, size: Bytes) -> Span {
        let mcs = mode.mcs().min(Mcs::try_from(ANSWER).unwrap_or(Mcs::LOWEST));
        self.config.timing.data(mode.with_mcs(mcs), self.config.timing.packet_bits(size))
            + self.config.timing.multi_user_preamble(0)
    }
}
