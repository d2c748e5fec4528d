//! Uplink transmissions that the access point solicits.
//!
//! A buffer status poll (BSRP) and answers in parallel; a trigger, data in parallel, and one acknowledgement for all. At an interval, both are one
//! channel access. After downlink transmissions they are two, and the access point solicits the stations that it believes to have packets, as ns-3's
//! `RrMultiUserScheduler` does.

use nearlight_units::{Bytes, Span, Time};

use crate::cell::{Cell, Lane};
use crate::config::{Category, Direction};
use crate::exchange::{StationShare, TransmissionTimes};
use crate::ofdma::{Candidate, TriggerTiming, UplinkTrigger};
use crate::phy::{Mode, Tones};
use crate::queue::AggregateLimits;
use crate::tally::Kind;
use crate::timing::Timing;

/// Size of an empty `QoS` frame with the buffer status (IEEE 802.11-2020, section 9.3.2.1).
const REPORT_FRAME: Bytes = Bytes::new(30);
/// Unit of reported buffer status in bytes; from [`MAX_REPORTED_UNITS`] on, a report says only that there is more (IEEE 802.11-2020, section
/// 9.2.4.5.6).
const REPORT_UNIT: u64 = 256;
const MAX_REPORTED_UNITS: u64 = 254;
/// Lifetime of a report, and the data requested of a station without one: `BsrLifetime` and `UlPsduSize` of ns-3 3.44. The standard leaves both to
/// the access point.
const REPORT_LIFETIME: Span = Span::from_millis(20);
const REQUEST_WITHOUT_REPORT: Bytes = Bytes::new(500);

/// The buffer status that stations reported.
#[derive(Clone, Debug)]
pub(crate) struct BufferReports {
    /// Units of [`REPORT_UNIT`] and time of each station's report. Data sent afterwards do not change it.
    by_station: Vec<Option<(u64, Time)>>,
    /// The access point's latest exchange was a poll, so data may be requested next.
    polled: bool,
}

impl BufferReports {
    pub(crate) fn new(stations: usize) -> Self {
        Self { by_station: vec![None; stations], polled: false }
    }

    /// Returns the bytes to request of a station. None for as much as it may send.
    fn wanted(&self, now: Time, station: usize) -> Option<Bytes> {
        match self.by_station[station] {
            Some((units, at)) if at + REPORT_LIFETIME >= now => {
                (units < MAX_REPORTED_UNITS).then(|| Bytes::new(units * REPORT_UNIT))
            }
            _ => Some(REQUEST_WITHOUT_REPORT),
        }
    }
}

/// How the access point uses its channel access.
#[derive(Clone, Debug)]
pub(crate) enum AccessPointAction {
    Downlink,
    /// Poll these stations.
    Poll(Vec<usize>),
    Data(SolicitedData),
    /// Poll, and request data, in the same access.
    Both(UplinkTrigger),
}

/// A triggered transmission of several stations.
#[derive(Clone, Debug)]
pub(crate) struct SolicitedData {
    category: Category,
    stations: Vec<usize>,
    /// Duration of the data, the same for all stations.
    length: Span,
    /// Start of the exchange.
    since: Time,
}

impl Cell {
    /// Returns how the access point uses the medium that it has won. Its schedule advances even if the first frame collides.
    pub(crate) fn next_turn(&mut self, now: Time, category: Category) -> AccessPointAction {
        let Some(triggered) = self.config.multi_user.uplink.filter(|_| self.is_triggers_turn(category)) else {
            return AccessPointAction::Downlink;
        };
        if let TriggerTiming::Every(_) = triggered.when {
            return AccessPointAction::Both(triggered);
        }
        if !self.reports.polled {
            self.reports.polled = true;
            return AccessPointAction::Poll(self.choose_stations(now, triggered, |_| true));
        }
        self.reports.polled = false;
        self.timers.on_triggered();
        let wanted: Vec<Option<Bytes>> =
            (0..self.present.len()).map(|station| self.reports.wanted(now, station)).collect();
        let stations = self.choose_stations(now, triggered, |station| wanted[station] != Some(Bytes::ZERO));
        if stations.is_empty() {
            return AccessPointAction::Downlink;
        }
        let timing = self.config.timing;
        // Without a limit, if one of them has none.
        let wanted: Option<Vec<Bytes>> = stations.iter().map(|station| wanted[*station]).collect();
        let wanted = wanted.and_then(|bytes| bytes.into_iter().max());
        let most = self.longest_solicited(triggered.category, stations.len());
        let needed = |bytes: Bytes| {
            let modes = stations.iter().map(|station| self.solicited_mode(*station, stations.len()));
            modes.map(|mode| timing.triggered(mode, bytes.bits())).max().unwrap_or(Span::ZERO)
        };
        let length = wanted.map_or(most, |bytes| needed(bytes).min(most));
        self.uplink_scheduler.on_served(&stations, self.config.stations.len(), length);
        AccessPointAction::Data(SolicitedData { category: triggered.category, stations, length, since: now })
    }

    /// Returns whether a trigger is next. Triggers and downlink packets alternate when both are pending.
    fn is_triggers_turn(&self, category: Category) -> bool {
        self.timers.trigger_is_due(category)
            && !(self.timers.trigger_contends(category)
                && self.timers.trigger_had_turn()
                && self.has_downlink(category))
    }

    /// Returns stations on the channel for which `wanted` holds, in the order of the uplink scheduler, as many as leave no resource unit empty.
    fn choose_stations(&mut self, now: Time, triggered: UplinkTrigger, wanted: impl Fn(usize) -> bool) -> Vec<usize> {
        let width = self.config.width;
        let present: Vec<usize> = (0..self.present.len()).filter(|station| self.present[*station]).collect();
        let most = width.filled_by(usize::from(triggered.stations).min(present.len()).max(1));
        let candidate =
            |station| Candidate { station, packets: 0, bytes: Bytes::ZERO, oldest: Time::ZERO, deadline: Time::ZERO };
        let candidates: Vec<_> = present.into_iter().filter(|station| wanted(*station)).map(candidate).collect();
        if candidates.is_empty() {
            return Vec::new();
        }
        let mut picked = Vec::new();
        self.uplink_scheduler.pick(now, &candidates, most, &mut picked);
        picked.truncate(width.filled_by(picked.len()));
        picked.into_iter().filter_map(|index| candidates.get(index)).map(|candidate| candidate.station).collect()
    }

    /// Returns a station's mode on one of as many resource units as `stations` need.
    fn solicited_mode(&self, station: usize, stations: usize) -> Mode {
        let tones = self.config.width.split(stations).unwrap_or(Tones::T26);
        self.radios[station].usual(Direction::Uplink).on(tones)
    }

    /// Returns the longest duration of data from this many stations.
    fn longest_solicited(&self, category: Category, stations: usize) -> Span {
        let timing = &self.config.timing;
        let around = self.protection_of(stations)
            + timing.data_trigger(stations)
            + timing.sifs
            + timing.sifs
            + timing.multi_acknowledgement(0, stations);
        self.config.edca[category.index()].txop.map_or(timing.longest, |txop| txop - around).min(timing.longest)
    }

    fn protection_of(&self, stations: usize) -> Span {
        if self.config.rts_cts { self.shared_protection(stations) } else { Span::ZERO }
    }

    /// Returns the duration of the first frame of an action other than [`AccessPointAction::Downlink`], and how long after it the access point gives
    /// up waiting for an answer.
    pub(crate) fn solicitation(&self, turn: &AccessPointAction) -> (Span, Span) {
        let timing = &self.config.timing;
        let answered_by = self.solicited_mode(0, 1);
        match turn {
            AccessPointAction::Data(data) if self.config.rts_cts => {
                (timing.trigger(data.stations.len()), timing.answer_timeout())
            }
            AccessPointAction::Data(data) => {
                (timing.data_trigger(data.stations.len()), timing.triggered_timeout(answered_by))
            }
            AccessPointAction::Poll(stations) => {
                (timing.trigger(stations.len()), timing.triggered_timeout(answered_by))
            }
            AccessPointAction::Both(_) | AccessPointAction::Downlink => {
                (timing.trigger(self.polled_at_once()), timing.triggered_timeout(answered_by))
            }
        }
    }

    /// Polls and requests data in one access.
    pub(crate) fn begin_both(&mut self, now: Time, triggered: UplinkTrigger) {
        self.timers.on_triggered();
        let timing = self.config.timing;
        let asking = self.asking(self.polled_at_once());
        let mut candidates = self.candidates(Direction::Uplink, triggered.category);
        candidates.truncate(Tones::T26.in_channel(self.config.width));
        if candidates.is_empty() {
            self.end_without_packets(now, now + asking);
            return;
        }
        let lanes = self.pick(now, &candidates, usize::from(triggered.stations), Direction::Uplink, triggered.category);
        let lead = asking + timing.sifs + timing.data_trigger(lanes.len()) + timing.sifs;
        let parts = self.share(now, lanes, 1, lead);
        let lead = asking + timing.sifs + timing.data_trigger(parts.len()) + timing.sifs;
        let data = parts.iter().map(|part| timing.triggered(part.mode, part.load.bits)).max().unwrap_or(Span::ZERO);
        let (requests, parts) = self.requests_instead(parts);
        self.collect(now, (now + lead, data), &parts, &requests);
    }

    fn polled_at_once(&self) -> usize {
        let most = Tones::T26.in_channel(self.config.width);
        self.present.iter().filter(|present| **present).count().clamp(1, most)
    }

    /// Polls the buffer status of stations.
    pub(crate) fn begin_poll(&mut self, now: Time, stations: Vec<usize>) {
        let timing = &self.config.timing;
        let answered = now + timing.trigger(stations.len()) + timing.sifs;
        let end = now + self.asking(stations.len());
        self.running.polled = Some((answered, stations));
        self.end_without_packets(now, end);
    }

    /// The answers to a poll have arrived.
    pub(crate) fn on_reports(&mut self, now: Time, answered: Time, stations: &[usize]) {
        let Some(triggered) = self.config.multi_user.uplink else { return };
        for station in stations.iter().copied() {
            self.report(now, answered, station, triggered.category);
        }
    }

    /// A station reports its backlog at `written`.
    fn report(&mut self, now: Time, written: Time, station: usize, category: Category) {
        let queue = &self.queues[Lane::new(station, Direction::Uplink, category).index()];
        let overhead = self.config.timing.packet_overhead;
        let waiting = queue.iter().filter(|mpdu| mpdu.entered <= written);
        let bytes: Bytes = waiting.map(|mpdu| mpdu.packet.size + overhead).sum();
        let units = bytes.get().div_ceil(REPORT_UNIT).min(MAX_REPORTED_UNITS);
        self.reports.by_station[station] = Some((units, now));
    }

    /// Requests data; what the stations send is known when the trigger ends.
    pub(crate) fn begin_data(&mut self, now: Time, data: SolicitedData) {
        let stations = data.stations.len();
        self.running.end = now + self.protection_of(stations) + self.config.timing.data_trigger(stations);
        self.running.solicited = Some(data);
    }

    /// The trigger has ended.
    pub(crate) fn send_solicited(&mut self, now: Time, data: &SolicitedData) {
        let timing = self.config.timing;
        let begins = now + timing.sifs;
        let mut parts = Vec::new();
        let mut requests = Vec::new();
        let mut empty = false;
        for station in data.stations.iter().copied() {
            if !self.present[station] {
                continue;
            }
            let lane = Lane::new(station, Direction::Uplink, data.category);
            let mode = self.solicited_mode(station, data.stations.len());
            let bits = timing.triggered_bits(mode, data.length);
            let room = AggregateLimits { bits, packets: usize::from(self.config.aggregate), window: self.window() };
            let load = self.queues[lane.index()].load(&timing, room);
            if self.queues[lane.index()].take_acknowledgement_request() {
                requests.push(lane);
            } else if load.packets > 0 {
                parts.push(StationShare { lane, mode, load, collides: false });
            } else {
                // The station reports its backlog instead.
                empty = true;
                self.report(begins, begins, station, data.category);
            }
        }
        self.collect(data.since, (begins, data.length), &parts, &requests);
        self.running.succeeded |= empty;
    }

    /// Splits off stations that have to request a block acknowledgement instead of sending packets.
    fn requests_instead(&mut self, parts: Vec<StationShare>) -> (Vec<Lane>, Vec<StationShare>) {
        let (asking, parts): (Vec<StationShare>, Vec<StationShare>) =
            parts.into_iter().partition(|part| self.queues[part.lane.index()].take_acknowledgement_request());
        (asking.into_iter().map(|part| part.lane).collect(), parts)
    }

    /// Sends data in parallel from `begins` on, and one acknowledgement for all. Stations in `requests` request a block acknowledgement instead.
    fn collect(&mut self, now: Time, (begins, length): (Time, Span), parts: &[StationShare], requests: &[Lane]) {
        let timing = self.config.timing;
        let data_end = begins + length;
        let answered = data_end + timing.sifs;
        let end = answered + timing.multi_acknowledgement(0, parts.len() + requests.len());
        let delivered =
            self.send_parts(parts, Kind::Triggered, TransmissionTimes { start: now, data: begins, data_end, end });
        let (mut whole, mut bitmaps) = (0, requests.len());
        for (part, arrived) in parts.iter().zip(delivered) {
            if arrived == part.load.packets {
                whole += 1;
            } else if arrived > 0 {
                bitmaps += 1;
            } else if self.running.returned.iter().any(|(lane, _)| *lane == part.lane) {
                // The acknowledgement does not name the station, so it does not know what arrived.
                self.queues[part.lane.index()].ask();
            }
        }
        self.running.succeeded = whole + bitmaps > 0;
        let end =
            if self.running.succeeded { answered + timing.multi_acknowledgement(whole, bitmaps) } else { data_end };
        for lane in requests {
            self.record_without_packets(now, end, Kind::Triggered, Some(*lane));
        }
        if parts.is_empty() && requests.is_empty() {
            self.record_without_packets(now, end, Kind::Triggered, None);
        }
        self.running.end = end;
        self.tally.airtime += end - now;
    }

    /// Begins a block acknowledgement request of a station that does not know which of its packets arrived (IEEE 802.11-2020, section 10.25.3).
    pub(crate) fn begin_request(&mut self, now: Time, lane: Lane) {
        let timing = &self.config.timing;
        let lead = if self.config.rts_cts { timing.protection() } else { Span::ZERO };
        let end = now + lead + timing.block_acknowledgement_request() + timing.sifs + timing.acknowledgement(2);
        self.running.end = end;
        self.running.succeeded = true;
        self.tallies[lane.link()].airtime += end - now;
        self.tally.airtime += end - now;
        self.record_without_packets(now, end, Kind::Single, Some(lane));
    }

    /// Returns the duration of a buffer status poll and its answers in parallel.
    fn asking(&self, stations: usize) -> Span {
        let timing = &self.config.timing;
        let tones = self.config.width.split(stations).unwrap_or(Tones::T26);
        let modes = self.radios.iter().map(|radio| radio.usual(Direction::Uplink).on(tones));
        let report = modes.map(|mode| timing.triggered(mode, Timing::control_bits(REPORT_FRAME))).max();
        timing.trigger(stations) + timing.sifs + report.unwrap_or(Span::ZERO)
    }

    fn end_without_packets(&mut self, now: Time, end: Time) {
        self.running.end = end;
        self.running.succeeded = true;
        self.tally.airtime += end - now;
        self.record_without_packets(now, end, Kind::Triggered, None);
    }
}
