//! The links of a run: shared segments, the flows' own hops, and the Wi-Fi cells on any of them.
//!
//! Every flow is a station of every cell, media sessions first. Forward packets are sent by the access point, packets back by the stations.

use nearlight_flows::Direction;
use nearlight_link::{FlowId, LoadedPath, Random};
use nearlight_units::{Span, Time};
use nearlight_wifi::{Cells, ConfigError, Direction as Way, Users};

use super::network::Network;
use crate::plan::{Cell, Route};
use crate::record::WifiRecord;

/// Exchanges recorded for the first seed: about two frames in a crowded cell.
pub(crate) const RECORDED_EXCHANGES: usize = 120;

/// The two lanes of a shared link, one per direction.
pub(crate) struct Link {
    pub(crate) lanes: [u16; 2],
}

/// The links that flows traverse.
pub(crate) struct Links {
    pub(crate) network: Network,
    pub(crate) shared: Vec<Link>,
    cells: Cells,
    sessions: usize,
}

/// Draws the seeds of the segments' paths, both directions: the first draws of a run.
pub(crate) fn segment_seeds(random: &mut Random, segments: usize) -> Vec<[u64; 2]> {
    (0..segments).map(|_| [random.seed(), random.seed()]).collect()
}

/// Returns where the traces of a run begin, as a share of their length. It is the same for all traces of a run, so that simultaneous recordings stay
/// aligned.
pub(crate) fn trace_start(seed: u64) -> f64 {
    // Drawn separately, so that the run's other draws do not change.
    Random::new(seed ^ 0x7472_6163_6573_7461).unit()
}

struct Builder<'a> {
    network: Network,
    cells: Cells,
    trace_start: f64,
    random: &'a mut Random,
}

fn session_of(flow: FlowId) -> usize {
    (flow.0 >> 1) as usize
}

impl Links {
    /// Builds all links. Routes are numbered by media session, then by competing flow.
    pub(crate) fn new(cell: &Cell, seed: u64, random: &mut Random) -> Result<Self, ConfigError> {
        let stations = cell.media.len() + cell.flows.len();
        let (network, cells) = (Network::new(), Cells::new(stations, seed));
        let mut builder = Builder { network, cells, trace_start: trace_start(seed), random };
        let mut shared = Vec::new();
        for (segment, seeds) in cell.segments.iter().zip(segment_seeds(builder.random, cell.segments.len())) {
            let forward = builder.lane(&segment.forward, seeds[0], 0, Users::All(session_of))?;
            let feedback = builder.lane(&segment.feedback, seeds[1], 1, Users::All(session_of))?;
            shared.push(Link { lanes: [forward, feedback] });
        }
        let media = cell.media.iter().map(|media| &media.route);
        for (flow, route) in media.chain(cell.flows.iter().map(|flow| &flow.route)).enumerate() {
            builder.route(route, flow, &shared)?;
        }
        Ok(Self { network: builder.network, shared, cells: builder.cells, sessions: cell.media.len() })
    }

    pub(crate) fn has_cells(&self) -> bool {
        self.cells.cells().next().is_some()
    }

    pub(crate) fn start_recording(&self, now: Time, exchanges: usize) {
        for (_, cell) in self.cells.cells() {
            cell.start_recording(now, exchanges);
        }
    }

    pub(crate) fn finish_recording(&self, now: Time) -> Vec<WifiRecord> {
        let finish = |(spec, cell): (&nearlight_wifi::CellSpec, &nearlight_wifi::SharedCell)| {
            cell.finish_recording(now, self.sessions).map(|record| WifiRecord { cell: spec.to_string(), record })
        };
        self.cells.cells().filter_map(finish).collect()
    }
}

impl Builder<'_> {
    fn lane(&mut self, path: &LoadedPath, seed: u64, side: usize, users: Users) -> Result<u16, ConfigError> {
        let way = [Way::Downlink, Way::Uplink][side];
        let path = self.cells.path(&path.starting_at(self.trace_start), seed, users, way)?;
        Ok(self.network.add_lane(path))
    }

    fn route(&mut self, route: &Route, flow: usize, links: &[Link]) -> Result<(), ConfigError> {
        let (there, back) = if route.direction == Direction::Forward { (0, 1) } else { (1, 0) };
        let mut lanes = |own: &Option<LoadedPath>, side: usize, reversed: bool| {
            let own = own.as_ref().map(|path| {
                let seed = self.random.seed();
                self.lane(path, seed, side, Users::One(flow))
            });
            let own = own.transpose()?;
            let through = route.through.iter().map(|link| links[*link].lanes[side]);
            // The forward path begins with the flow's own access; the path back takes the segments in reverse order.
            Ok(if reversed == (route.direction == Direction::Back) {
                own.into_iter().chain(through).collect::<Vec<_>>()
            } else {
                own.into_iter().chain(through.rev()).collect()
            })
        };
        let (out, home) = (lanes(&route.access, there, false)?, lanes(&route.access_feedback, back, true)?);
        self.network.add_route(out, home);
        Ok(())
    }
}

/// Returns when a session's display refreshes for the first time. Displays that share a cell are not synchronised.
pub(crate) fn refresh_phase(interval: Span, seed: u64, session: usize) -> Span {
    // The golden ratio's bits, so that sessions differ.
    let mut random = Random::new(!seed ^ (session as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    interval.mul_f64(random.unit())
}
