//! The results of a scenario, in the form that commands and plans print.

use nearlight_link::{FlowId, Packet};
use nearlight_units::{Bytes, Span, Time};
use serde::Serialize;

use crate::cell::{Cell, Lane};
use crate::config::{Adaptation, Category, CellConfig, Channel, DeliveredAt, Direction, StationConfig};
use crate::distribution::DelaySummary;
use crate::error::ConfigError;
use crate::ofdma::MultiUser;
use crate::record::CellRecord;
use crate::scenario::Delays;
use crate::tally::{CellTally, Exchange, Tally};

/// The result of a scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// All runs together, excluding warm-ups.
    pub simulated_s: f64,
    /// All headsets together.
    pub headsets: StationReport,
    /// Headsets first, then the cell's other stations.
    pub stations: Vec<StationReport>,
    /// Share of the time that the cell's exchanges held the medium, collisions included.
    pub airtime_ratio: f64,
    /// Share of the time that was lost when several began to send at once.
    pub collision_airtime_ratio: f64,
    /// Share of the time that neighbouring cells held it.
    pub neighbour_airtime_ratio: f64,
    pub collisions_per_s: f64,
    /// The first exchanges of the first run, as many as requested.
    pub exchanges: Vec<Exchange>,
    /// All headsets together, for plots.
    pub delay_curves: DelayCurves,
    /// The results in a form that can be merged with other runs.
    #[serde(skip)]
    pub record: CellRecord,
}

/// One station, or several together.
#[derive(Clone, Debug, Serialize)]
pub struct StationReport {
    /// None for several stations together.
    pub station: Option<usize>,
    /// Whether it streams; other stations have the cell's background traffic.
    pub is_headset: bool,
    pub dl_packet_delay_ms: DelaySummary,
    pub ul_packet_delay_ms: DelaySummary,
    pub video_frame_delay_ms: DelaySummary,
    /// Frames that lost a packet permanently.
    pub video_frames_lost: u64,
    pub downlink: LinkReport,
    pub uplink: LinkReport,
}

/// One direction of one station, or of several together.
#[derive(Clone, Debug, Serialize)]
pub struct LinkReport {
    pub offered: u64,
    pub delivered: u64,
    /// Packets that arrived at a full queue.
    pub overflowed: u64,
    /// Packets given up after the last retry.
    pub given_up: u64,
    pub delivered_mbps: f64,
    /// Share of the time on the air.
    pub airtime_ratio: f64,
    pub ampdu_mpdus: Aggregates,
}

/// Packets per transmission.
#[derive(Clone, Debug, Serialize)]
pub struct Aggregates {
    pub count: u64,
    /// Packets sent, repetitions included.
    pub mean: f64,
    /// Packets that got through.
    pub mean_delivered: f64,
    /// Pairs of a number of packets and how many transmissions carried it.
    pub histogram: Vec<(usize, u64)>,
}

/// Cumulative distributions of delay: milliseconds, and the share of delays up to that value. Empty without samples.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DelayCurves {
    pub dl_packet: Vec<(f64, f64)>,
    pub ul_packet: Vec<(f64, f64)>,
    pub video_frame: Vec<(f64, f64)>,
}

/// The duration of a packet's exchange in an idle cell without losses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SinglePacket {
    /// Time from its arrival to the end of its acknowledgement, in microseconds.
    pub exchange_us: f64,
}

impl SinglePacket {
    /// Sends a packet of `size` to the cell's first station, which is alone on the channel, and times it.
    pub fn measure(cell: &CellConfig, size: Bytes) -> Result<Self, ConfigError> {
        cell.check()?;
        let station = StationConfig {
            channel: Channel::Fixed { loss: 0.0 },
            adaptation: Adaptation::Fixed,
            scan: None,
            background: None,
            ..cell.stations[0].clone()
        };
        let longest = cell.longest_packet(&station)?;
        if size > longest || size == Bytes::ZERO {
            return Err(ConfigError::PacketTooLong { size, longest, mcs: station.mcs });
        }
        let alone = CellConfig {
            delivered_at: DeliveredAt::Acknowledgement,
            stations: vec![station],
            neighbours: Vec::new(),
            multi_user: MultiUser::default(),
            ..cell.clone()
        };
        // Long enough after the start for every interframe space to have passed, and at a slot boundary.
        let edca = &alone.edca[Category::BestEffort.index()];
        let start = Time::ZERO + edca.aifs(&alone.timing) + alone.timing.slot * 100;
        let mut cell = Cell::new(alone, 0)?;
        cell.offer(start, Lane::new(0, Direction::Downlink, Category::BestEffort), Packet::new(0, FlowId(0), size));
        let mut end = start;
        while let Some(next) = cell.poll_timeout() {
            if let Some(left) = cell.poll(next) {
                end = left.exit.at;
            }
        }
        Ok(Self { exchange_us: (end - start).as_nanos() as f64 / 1e3 })
    }
}

/// The samples of a scenario's runs so far.
pub(crate) struct Measurements {
    delays: Vec<Delays>,
    tallies: Vec<Tally>,
    tally: CellTally,
    at_start: Option<(Vec<Tally>, CellTally)>,
    exchanges: Vec<Exchange>,
}

impl Measurements {
    pub(crate) fn new(stations: usize) -> Self {
        Self {
            delays: vec![Delays::default(); stations],
            tallies: vec![Tally::default(); stations * 2],
            tally: CellTally::default(),
            at_start: None,
            exchanges: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn on_packet(&mut self, lane: Lane, delay: Span) {
        let delays = &mut self.delays[lane.station()];
        match lane.direction() {
            Direction::Downlink => delays.downlink.add(delay),
            Direction::Uplink => delays.uplink.add(delay),
        }
    }

    /// A frame is complete after `delay`. None if it lost a packet.
    pub(crate) fn on_frame(&mut self, station: usize, delay: Option<Span>) {
        match delay {
            Some(delay) => self.delays[station].frames.add(delay),
            None => self.delays[station].frames_lost += 1,
        }
    }

    pub(crate) fn timeline_has_room(&self, limit: usize) -> bool {
        self.exchanges.len() < limit
    }

    pub(crate) fn on_exchanges(&mut self, cell: &mut Cell, limit: usize) {
        while let Some(exchange) = cell.poll_exchange() {
            if self.exchanges.len() < limit {
                self.exchanges.push(exchange);
            }
        }
    }

    pub(crate) fn on_start(&mut self, cell: &Cell) {
        self.at_start = Some((cell.tallies.clone(), cell.cell_tally()));
    }

    pub(crate) fn on_end(&mut self, cell: &Cell) {
        let Some((tallies, tally)) = self.at_start.take() else { return };
        for ((sum, end), start) in self.tallies.iter_mut().zip(&cell.tallies).zip(&tallies) {
            sum.add_difference(end, start);
        }
        self.tally.add_difference(&cell.cell_tally(), &tally);
    }

    pub(crate) fn record(&self, headsets: usize, simulated: Span) -> CellRecord {
        let mut record = CellRecord { simulated, sessions: headsets, ..CellRecord::default() };
        for delays in self.delays.iter().take(headsets) {
            record.dl_packet_delay.merge(&delays.downlink);
            record.ul_packet_delay.merge(&delays.uplink);
            record.video_frame_delay.merge(&delays.frames);
            record.video_frames_lost += delays.frames_lost;
        }
        let none = vec![Tally::default(); self.tallies.len()];
        record.add_tallies((&self.tallies, self.tally), (&none, CellTally::default()));
        record.exchanges.clone_from(&self.exchanges);
        record
    }

    pub(crate) fn report(self, headsets: usize, simulated: Span) -> Report {
        let seconds = simulated.as_secs_f64();
        let record = self.record(headsets, simulated);
        let stations: Vec<StationReport> = self
            .delays
            .iter()
            .zip(self.tallies.chunks(2))
            .enumerate()
            .map(|(station, (delays, links))| {
                let report = StationReport::new(Some(station), delays, &links[0], &links[1], simulated);
                StationReport { is_headset: station < headsets, ..report }
            })
            .collect();
        let mut all = Delays::default();
        let mut links = [Tally::default(), Tally::default()];
        for (delays, tallies) in self.delays.iter().zip(self.tallies.chunks(2)).take(headsets) {
            all.downlink.merge(&delays.downlink);
            all.uplink.merge(&delays.uplink);
            all.frames.merge(&delays.frames);
            all.frames_lost += delays.frames_lost;
            for (sum, tally) in links.iter_mut().zip(tallies) {
                sum.add_difference(tally, &Tally::default());
            }
        }
        Report {
            simulated_s: seconds,
            headsets: StationReport::new(None, &all, &links[0], &links[1], simulated),
            stations,
            airtime_ratio: self.tally.airtime.as_secs_f64() / seconds,
            collision_airtime_ratio: self.tally.collided.as_secs_f64() / seconds,
            neighbour_airtime_ratio: self.tally.neighbours.as_secs_f64() / seconds,
            collisions_per_s: self.tally.collisions as f64 / seconds,
            exchanges: self.exchanges,
            delay_curves: DelayCurves {
                dl_packet: all.downlink.curve(),
                ul_packet: all.uplink.curve(),
                video_frame: all.frames.curve(),
            },
            record,
        }
    }
}

impl StationReport {
    fn new(station: Option<usize>, delays: &Delays, downlink: &Tally, uplink: &Tally, simulated: Span) -> Self {
        Self {
            station,
            is_headset: true,
            dl_packet_delay_ms: delays.downlink.summary(),
            ul_packet_delay_ms: delays.uplink.summary(),
            video_frame_delay_ms: delays.frames.summary(),
            video_frames_lost: delays.frames_lost,
            downlink: LinkReport::new(downlink, simulated),
            uplink: LinkReport::new(uplink, simulated),
        }
    }
}

impl LinkReport {
    fn new(tally: &Tally, simulated: Span) -> Self {
        let transmissions = tally.transmissions();
        let per_transmission = |packets: u64| packets as f64 / transmissions.max(1) as f64;
        let filled = tally.aggregates.iter().copied().enumerate().filter(|(_, count)| *count > 0);
        Self {
            offered: tally.offered,
            delivered: tally.delivered,
            overflowed: tally.overflowed,
            given_up: tally.given_up,
            delivered_mbps: tally.delivered_bytes.over(simulated).as_mbps_f64(),
            airtime_ratio: tally.airtime.as_secs_f64() / simulated.as_secs_f64(),
            ampdu_mpdus: Aggregates {
                count: transmissions,
                mean: per_transmission(tally.sent()),
                mean_delivered: per_transmission(tally.aggregates_delivered),
                histogram: filled.collect(),
            },
        }
    }
}
