//! The traffic of a cell over a period of time, in a form that can be stored and merged with others.

use nearlight_units::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::cell::{Cell, CellExit};
use crate::config::Direction;
use crate::distribution::Distribution;
use crate::tally::{CellTally, Exchange, Tally};

/// Maximum number of exchanges between two reads of the record.
const MAX_UNREAD_EXCHANGES: usize = 1_024;

/// The traffic of a cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CellRecord {
    pub simulated: Span,
    /// Number of sessions or headsets: the first stations. All others have background traffic.
    pub sessions: usize,
    /// Delay from a packet's arrival at its sender's queue to its delivery, all sessions together.
    pub dl_packet_delay: Distribution,
    pub ul_packet_delay: Distribution,
    /// Frame delays, if the cell's driver knows of frames.
    pub video_frame_delay: Distribution,
    pub video_frames_lost: u64,
    /// All sessions together.
    pub downlink: Tally,
    pub uplink: Tally,
    /// Background stations, both directions.
    pub others: Tally,
    pub cell: CellTally,
    /// The first exchanges.
    pub exchanges: Vec<Exchange>,
}

/// A record in progress.
pub(crate) struct Recording {
    from: Time,
    tallies: Vec<Tally>,
    cell: CellTally,
    /// By direction.
    delays: [Distribution; 2],
    exchanges: Vec<Exchange>,
    limit: usize,
}

impl Recording {
    pub(crate) fn start(cell: &mut Cell, now: Time, limit: usize) -> Self {
        cell.set_record(if limit > 0 { MAX_UNREAD_EXCHANGES } else { 0 });
        Self {
            from: now,
            tallies: cell.tallies.clone(),
            cell: cell.cell_tally(),
            delays: [Distribution::default(), Distribution::default()],
            exchanges: Vec::new(),
            limit,
        }
    }

    pub(crate) fn on_exit(&mut self, left: &CellExit) {
        if left.exit.is_delivered() && left.entered >= self.from {
            self.delays[left.lane.direction() as usize].add(left.exit.at - left.entered);
        }
    }

    pub(crate) fn on_exchanges(&mut self, cell: &mut Cell) {
        if self.exchanges.len() == self.limit {
            return;
        }
        while let Some(exchange) = cell.poll_exchange() {
            if self.exchanges.len() < self.limit {
                self.exchanges.push(exchange);
            }
        }
        if self.exchanges.len() == self.limit {
            cell.set_record(0);
        }
    }

    pub(crate) fn finish(self, cell: &Cell, now: Time, sessions: usize) -> CellRecord {
        let [dl_packet_delay, ul_packet_delay] = self.delays;
        let mut record = CellRecord {
            simulated: now - self.from,
            sessions,
            dl_packet_delay,
            ul_packet_delay,
            exchanges: self.exchanges,
            ..CellRecord::default()
        };
        record.add_tallies((&cell.tallies, cell.cell_tally()), (&self.tallies, self.cell));
        record
    }
}

impl CellRecord {
    /// Adds the counts of stations and cell from `start` to `end`.
    pub(crate) fn add_tallies(&mut self, end: (&[Tally], CellTally), start: (&[Tally], CellTally)) {
        for (link, (end, start)) in end.0.iter().zip(start.0).enumerate() {
            let is_downlink = link % 2 == Direction::Downlink as usize;
            let sum = match (link / 2 < self.sessions, is_downlink) {
                (true, true) => &mut self.downlink,
                (true, false) => &mut self.uplink,
                (false, _) => &mut self.others,
            };
            sum.add_difference(end, start);
        }
        self.cell.add_difference(&end.1, &start.1);
    }

    /// Returns the share of time in which the cell's exchanges held the medium, including collisions.
    #[must_use]
    pub fn airtime_ratio(&self) -> f64 {
        self.share(self.cell.airtime)
    }

    /// Returns `part` as a share of the simulated time.
    #[must_use]
    pub fn share(&self, part: Span) -> f64 {
        part.as_secs_f64() / self.simulated.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Returns the delivered rate of all sessions together in Mb/s.
    #[must_use]
    pub fn delivered_mbps(&self) -> f64 {
        self.downlink.delivered_bytes.over(self.simulated).as_mbps_f64()
    }

    /// Adds another run's record, without its exchanges.
    pub fn merge(&mut self, other: &Self) {
        self.simulated += other.simulated;
        self.sessions = self.sessions.max(other.sessions);
        self.dl_packet_delay.merge(&other.dl_packet_delay);
        self.ul_packet_delay.merge(&other.ul_packet_delay);
        self.video_frame_delay.merge(&other.video_frame_delay);
        self.video_frames_lost += other.video_frames_lost;
        let none = Tally::default();
        self.downlink.add_difference(&other.downlink, &none);
        self.uplink.add_difference(&other.uplink, &none);
        self.others.add_difference(&other.others, &none);
        self.cell.add_difference(&other.cell, &CellTally::default());
    }
}
