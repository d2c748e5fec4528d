//! One cell as the Wi-Fi hop of many paths.
//!
//! A session has two [`Port`]s of a cell, one in its downlink path and one in its uplink path; other sessions' ports lead into the
//! same cell, where they contend. The driver advances all paths of all sessions along one virtual time: at each instant it offers
//! before it advances. Exits depend on offers and seed alone, so the order in which ports are polled does not matter, and equal
//! runs are identical to the byte. Other ports' offers never cause an exit before a port's [`Hop::poll_timeout`].
//!
//! ```
//! use nearlight_link::{FlowId, Hop, Packet};
//! use nearlight_units::{Bytes, Span, Time};
//! use nearlight_wifi::{Category, Cell, CellConfig, Channel, Direction, Preset, SharedCell};
//!
//! let mut config = CellConfig::preset(Preset::KomondorVr).with_stations(2);
//! config.stations[0].channel = Channel::Fixed { loss: 0.0 };
//! let cell = SharedCell::new(Cell::new(config, 1)?);
//! let mut downlink = cell.port(0, Direction::Downlink, Category::BestEffort)?;
//! let start = Time::from_millis(1);
//! downlink.offer(start, Packet::new(7, FlowId(0), Bytes::new(1_243)));
//! let mut exit = None;
//! while let (None, Some(next)) = (exit, downlink.poll_timeout()) {
//!     exit = downlink.poll(next);
//! }
//! assert_eq!(exit.expect("it arrives").at, start + Span::from_micros(374));
//! # Ok::<(), nearlight_wifi::ConfigError>(())
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use nearlight_link::{Backlog, Exit, FlowId, Hop, LoadError, LoadedPath, Packet, Path, PathSpec, Stage};
use nearlight_units::{Bitrate, Span, Time, lock};

use crate::cell::{Cell, CellExit, Lane};
use crate::config::{Category, Direction};
use crate::error::ConfigError;
use crate::record::{CellRecord, Recording};
use crate::spec::CellSpec;

/// Longest interval between advances of a cell in real time. Simulating its other stations then takes a few microseconds.
const MAX_ADVANCE_INTERVAL: Span = Span::from_millis(10);

/// A cell shared by several paths. Clones refer to the same cell.
#[derive(Clone)]
pub struct SharedCell(Arc<Mutex<Shared>>);

struct Shared {
    cell: Cell,
    /// Ports, by lane.
    doors: Vec<PortState>,
    /// Offset of the drivers' clock from the cell's, which is paused while no port exists.
    behind: Span,
    recording: Option<Recording>,
}

/// A port's view of the cell.
#[derive(Clone, Default)]
struct PortState {
    taken: bool,
    /// Exits that are certain, in order of time.
    exits: VecDeque<Exit>,
    /// Packets that have no exit yet.
    inside: usize,
}

/// The sessions whose packets a hop carries.
#[derive(Clone, Copy)]
pub enum Users {
    /// Packets of one session.
    One(usize),
    /// Packets of all sessions; the function maps a flow to its session.
    All(fn(FlowId) -> usize),
}

/// The cells of one run, keyed by their settings: `wifi=` in the paths of its sessions.
pub struct Cells {
    sessions: usize,
    seed: u64,
    made: Vec<(CellSpec, SharedCell)>,
}

/// One direction of one station, or of all, in one access category, as a hop. Dropping it removes its packets from the cell.
pub struct Port {
    shared: SharedCell,
    lanes: Vec<Lane>,
    users: Users,
    /// Offset from the driver's clock to the cell's.
    ahead: Span,
}

/// Reads a path's files and its cell settings, for [`Cells::path`].
///
/// # Errors
///
/// A file or a cell's settings cannot be used.
pub fn load_path(path: &PathSpec) -> Result<LoadedPath, LoadError> {
    path.load_with(&mut |settings| settings.parse::<CellSpec>().map(drop).map_err(|error| error.to_string()))
}

impl Cells {
    /// Returns the cells of `sessions` sessions, each a station of its own in every cell.
    #[must_use]
    pub fn new(sessions: usize, seed: u64) -> Self {
        Self { sessions, seed, made: Vec::new() }
    }

    /// Returns a hop in one direction through the cell that `spec` describes. The cell is created if necessary.
    pub fn hop(&mut self, spec: &CellSpec, users: Users, direction: Direction) -> Result<Port, ConfigError> {
        let (sessions, category) = (self.sessions, spec.category());
        let cell = self.cell(spec)?;
        match users {
            Users::One(session) => cell.port(session, direction, category),
            Users::All(_) => cell.port_of(0..sessions, users, direction, category),
        }
    }

    /// Builds a path through these cells.
    pub fn path(
        &mut self,
        loaded: &LoadedPath,
        seed: u64,
        users: Users,
        direction: Direction,
    ) -> Result<Path, ConfigError> {
        self.path_since(Span::ZERO, loaded, seed, users, direction)
    }

    /// Builds a path for a driver whose clock shows `origin` when the path's time begins. The drivers of one run share a clock; a cell's clock is
    /// paused while no path leads through it.
    pub fn path_since(
        &mut self,
        origin: Span,
        loaded: &LoadedPath,
        seed: u64,
        users: Users,
        direction: Direction,
    ) -> Result<Path, ConfigError> {
        loaded.path_with(seed, &mut |settings| {
            let spec = settings.parse()?;
            let idle_since = self.cell(&spec)?.clock(origin);
            let mut port = self.hop(&spec, users, direction)?;
            port.ahead = idle_since;
            Ok(Stage::Other(Box::new(port)))
        })
    }

    /// Returns the lowest session without a hop in any cell.
    #[must_use]
    pub fn vacant(&self) -> Option<usize> {
        (0..self.sessions).find(|session| self.made.iter().all(|(_, cell)| cell.is_vacant(*session)))
    }

    /// Returns the cells created so far.
    pub fn cells(&self) -> impl Iterator<Item = (&CellSpec, &SharedCell)> {
        self.made.iter().map(|(spec, cell)| (spec, cell))
    }

    fn cell(&mut self, spec: &CellSpec) -> Result<SharedCell, ConfigError> {
        if let Some((_, cell)) = self.made.iter().find(|(other, _)| other.is_same_cell(spec)) {
            return Ok(cell.clone());
        }
        // The golden ratio's bits: cells of one run differ, and so do those of the next.
        let seed = self.seed.wrapping_add((self.made.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let cell = SharedCell::new(Cell::new(spec.config(self.sessions), seed)?);
        self.made.push((spec.clone(), cell.clone()));
        Ok(cell)
    }
}

impl SharedCell {
    pub fn new(cell: Cell) -> Self {
        let doors = vec![PortState::default(); cell.config().stations.len() * 8];
        Self(Arc::new(Mutex::new(Shared { cell, doors, behind: Span::ZERO, recording: None })))
    }

    /// Returns the hop of a station's packets in one direction and category.
    pub fn port(&self, station: usize, direction: Direction, category: Category) -> Result<Port, ConfigError> {
        self.port_of(station..station + 1, Users::One(station), direction, category)
    }

    fn port_of(
        &self,
        stations: std::ops::Range<usize>,
        users: Users,
        direction: Direction,
        category: Category,
    ) -> Result<Port, ConfigError> {
        let mut shared = self.lock();
        let count = shared.cell.config().stations.len();
        let mut lanes = Vec::new();
        for station in stations {
            let lane = shared.cell.lane(station, direction, category);
            let lane = lane.ok_or(ConfigError::NoSuchStation { station, stations: count })?;
            if shared.doors[lane.index()].taken {
                return Err(ConfigError::PortTaken { station, direction, category });
            }
            lanes.push(lane);
        }
        for lane in &lanes {
            shared.doors[lane.index()].taken = true;
        }
        Ok(Port { shared: self.clone(), lanes, users, ahead: Span::ZERO })
    }

    /// Converts from the time of a path that begins at `origin` to the cell's time, which resumes where it stopped.
    fn clock(&self, origin: Span) -> Span {
        let mut shared = self.lock();
        if shared.doors.iter().all(|door| !door.taken) {
            let stopped = shared.cell.latest() - Time::ZERO;
            shared.behind = (origin - stopped).max(Span::ZERO);
        }
        origin - shared.behind
    }

    fn is_vacant(&self, station: usize) -> bool {
        let shared = self.lock();
        shared.doors.iter().skip(station * 8).take(8).all(|door| !door.taken)
    }

    /// Gives access to the cell, for counters and recorded exchanges. Do not poll exits: they belong to the ports.
    pub fn with<T>(&self, look: impl FnOnce(&mut Cell) -> T) -> T {
        look(&mut self.lock().cell)
    }

    /// Records the traffic from now on, and the first `exchanges` exchanges.
    pub fn start_recording(&self, now: Time, exchanges: usize) {
        let shared = &mut *self.lock();
        shared.advance(now);
        shared.recording = Some(Recording::start(&mut shared.cell, now, exchanges));
    }

    /// Returns the traffic since recording started. None if it was not started.
    pub fn finish_recording(&self, now: Time, sessions: usize) -> Option<CellRecord> {
        let shared = &mut *self.lock();
        shared.advance(now);
        shared.recording.take().map(|recording| recording.finish(&shared.cell, now, sessions))
    }

    /// A panic elsewhere leaves the cell as it was between two calls.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        lock(&self.0)
    }
}

impl Shared {
    /// Moves every exit that became certain by `now` to its port.
    fn advance(&mut self, now: Time) {
        while let Some(left) = self.cell.poll_certain(now) {
            if let Some(recording) = &mut self.recording {
                recording.on_exit(&left);
            }
            let CellExit { lane, exit, .. } = left;
            let door = &mut self.doors[lane.index()];
            door.inside -= 1;
            // A packet that meets a full queue leaves before what is on the air.
            let place = door.exits.partition_point(|other| other.at <= exit.at);
            door.exits.insert(place, exit);
        }
        if let Some(recording) = &mut self.recording {
            recording.on_exchanges(&mut self.cell);
        }
    }
}

impl Port {
    fn lane_of(&self, flow: FlowId) -> Lane {
        let place = match self.users {
            Users::One(_) => 0,
            Users::All(session_of) => session_of(flow),
        };
        // Flows without a session are assigned to the first one.
        self.lanes.get(place).copied().unwrap_or(self.lanes[0])
    }
}

impl Hop for Port {
    fn offer(&mut self, now: Time, packet: Packet) {
        let (now, lane) = (now + self.ahead, self.lane_of(packet.flow));
        let mut shared = self.shared.lock();
        shared.doors[lane.index()].inside += 1;
        shared.cell.offer(now, lane, packet);
        shared.advance(now);
    }

    fn poll(&mut self, now: Time) -> Option<Exit> {
        let now = now + self.ahead;
        let mut shared = self.shared.lock();
        shared.advance(now);
        let first = |lane: &&Lane| shared.doors[lane.index()].exits.front().map_or(Time::FAR_FUTURE, |exit| exit.at);
        let lane = self.lanes.iter().min_by_key(first).map(|lane| lane.index())?;
        let exit = shared.doors[lane].exits.pop_front_if(|next| next.at <= now)?;
        Some(Exit { at: exit.at - self.ahead, ..exit })
    }

    fn poll_timeout(&self) -> Option<Time> {
        let shared = self.shared.lock();
        let doors = || self.lanes.iter().map(|lane| &shared.doors[lane.index()]);
        let decision = if doors().any(|door| door.inside > 0) { shared.cell.next_decision() } else { None };
        let certain = doors().filter_map(|door| door.exits.front().map(|exit| exit.at)).min();
        [certain, decision].into_iter().flatten().min().map(|at| at - self.ahead)
    }

    fn backlog(&self) -> Backlog {
        let shared = self.shared.lock();
        let waiting = self.lanes.iter().map(|lane| shared.cell.backlog(*lane));
        waiting.fold(Backlog::default(), Backlog::and)
    }

    /// Returns the first station's capacity with the medium to itself.
    fn capacity(&self, _now: Time) -> Option<Bitrate> {
        Some(self.shared.lock().cell.capacity(self.lanes[0]))
    }

    fn max_poll_interval(&self) -> Option<Span> {
        Some(MAX_ADVANCE_INTERVAL)
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let shared = &mut *self.shared.lock();
        for lane in &self.lanes {
            shared.cell.forget(*lane);
            shared.doors[lane.index()] = PortState::default();
        }
    }
}
