//! One cell as the Wi-Fi hop of many paths.
//!
//! A session has two [`Port`]s of a cell, one in its downlink path and one in its uplink path; other sessions' ports lead into the
//! same cell, where they contend. The driver moves all paths of all sessions along one virtual time: at each instant it offers
//! before it moves on. Exits depend on offers and seed alone, so the order in which ports are polled changes nothing, and equal
//! runs are equal to the byte. What others offer makes no exit come sooner than a port's [`Hop::poll_timeout`] said.
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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearlight_link::{Backlog, Exit, Hop, Packet};
use nearlight_units::{Bitrate, Time};

use crate::cell::{Cell, CellExit, Lane};
use crate::config::{Category, Direction};
use crate::error::ConfigError;
use crate::spec::CellSpec;

/// A cell that several paths lead through. Clones are the same cell.
#[derive(Clone)]
pub struct SharedCell(Arc<Mutex<Shared>>);

struct Shared {
    cell: Cell,
    /// By lane.
    doors: Vec<Door>,
}

/// What a port sees of the cell.
#[derive(Clone, Default)]
struct Door {
    taken: bool,
    /// Exits that are certain, in order of time.
    exits: VecDeque<Exit>,
    /// Packets that have no exit yet.
    inside: usize,
}

/// The cells of one run, found by what is written about them: `wifi=` in the paths of its sessions.
pub struct Cells {
    sessions: usize,
    seed: u64,
    made: Vec<(CellSpec, SharedCell)>,
}

impl Cells {
    /// For so many sessions, each a station of its own in every cell.
    #[must_use]
    pub fn new(sessions: usize, seed: u64) -> Self {
        Self { sessions, seed, made: Vec::new() }
    }

    /// A session's hop in one direction through the cell that `spec` describes, which is made where there is none yet.
    pub fn hop(&mut self, spec: &CellSpec, session: usize, direction: Direction) -> Result<Port, ConfigError> {
        let same = self.made.iter().position(|(other, _)| other.is_same_cell(spec));
        let place = same.unwrap_or(self.made.len());
        if same.is_none() {
            // The golden ratio's bits: cells of one run differ, and so do those of the next.
            let seed = self.seed.wrapping_add((place as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            self.made.push((spec.clone(), SharedCell::new(Cell::new(spec.config(self.sessions), seed)?)));
        }
        self.made[place].1.port(session, direction, spec.category())
    }

    /// The cells made so far.
    pub fn cells(&self) -> impl Iterator<Item = (&CellSpec, &SharedCell)> {
        self.made.iter().map(|(spec, cell)| (spec, cell))
    }
}

/// One direction of one station, in one access category, as a hop.
pub struct Port {
    shared: SharedCell,
    lane: Lane,
}

impl SharedCell {
    pub fn new(cell: Cell) -> Self {
        let doors = vec![Door::default(); cell.config().stations.len() * 8];
        Self(Arc::new(Mutex::new(Shared { cell, doors })))
    }

    /// The hop of a station's packets; each is handed out once.
    pub fn port(&self, station: usize, direction: Direction, category: Category) -> Result<Port, ConfigError> {
        let mut shared = self.lock();
        let stations = shared.cell.config().stations.len();
        let lane = shared.cell.lane(station, direction, category);
        let lane = lane.ok_or(ConfigError::NoSuchStation { station, stations })?;
        if std::mem::replace(&mut shared.doors[lane.index()].taken, true) {
            return Err(ConfigError::PortTaken { station, direction, category });
        }
        Ok(Port { shared: self.clone(), lane })
    }

    /// Looks at the cell itself: counters, the record of exchanges. Exits belong to ports; polling them here loses them.
    pub fn with<T>(&self, look: impl FnOnce(&mut Cell) -> T) -> T {
        look(&mut self.lock().cell)
    }

    /// A panic elsewhere leaves the cell as it was between two calls.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Takes every exit that became certain by `now` to its port.
    fn advance(&mut self, now: Time) {
        while let Some(CellExit { lane, exit }) = self.cell.poll_certain(now) {
            let door = &mut self.doors[lane.index()];
            door.inside -= 1;
            // A packet that meets a full queue leaves before what is on the air.
            let place = door.exits.partition_point(|other| other.at <= exit.at);
            door.exits.insert(place, exit);
        }
    }
}

impl Hop for Port {
    fn offer(&mut self, now: Time, packet: Packet) {
        let mut shared = self.shared.lock();
        shared.doors[self.lane.index()].inside += 1;
        shared.cell.offer(now, self.lane, packet);
        shared.advance(now);
    }

    fn poll(&mut self, now: Time) -> Option<Exit> {
        let mut shared = self.shared.lock();
        shared.advance(now);
        shared.doors[self.lane.index()].exits.pop_front_if(|next| next.at <= now)
    }

    fn poll_timeout(&self) -> Option<Time> {
        let shared = self.shared.lock();
        let door = &shared.doors[self.lane.index()];
        let decision = if door.inside > 0 { shared.cell.next_decision() } else { None };
        let certain = door.exits.front().map(|exit| exit.at);
        [certain, decision].into_iter().flatten().min()
    }

    fn backlog(&self) -> Backlog {
        self.shared.lock().cell.backlog(self.lane)
    }

    /// What the station could carry with the medium to itself.
    fn capacity(&self, _now: Time) -> Option<Bitrate> {
        Some(self.shared.lock().cell.capacity(self.lane))
    }
}
