//! Emulated paths for the sessions of a server or a viewer: one for each session, through shared Wi-Fi cells.

use std::fmt;
use std::sync::Mutex;

use nearlight_link::{LoadedPath, Path, PathSpec, SpecError};
use nearlight_net::{EmulatedPath, EmulatedPaths};
use nearlight_units::{Time, lock};
use nearlight_wifi::{Cells, ConfigError, Direction, Users, load_path};

use crate::impairment::PathInProcess;

/// The end of the sessions at which their paths are emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathEnd {
    /// The server's end, which sends on the downlink.
    Server,
    /// The viewer's end, which sends on the uplink.
    Viewer,
}

/// Paths of sessions that come and go.
pub struct SessionPaths {
    path: LoadedPath,
    /// Random seed of the paths; each session adds its number.
    seed: u64,
    end: PathEnd,
    stations: usize,
    cells: Mutex<Cells>,
}

impl fmt::Debug for SessionPaths {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SessionPaths")
            .field("path", &self.path)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl SessionPaths {
    /// Paths for at most `clients` simultaneous sessions.
    ///
    /// # Errors
    /// One of the path's cells is too small for them.
    pub fn new(path: LoadedPath, seed: u64, end: PathEnd, clients: usize) -> Result<Self, ConfigError> {
        // A session's place is freed a moment before its path is dropped.
        let stations = clients.saturating_mul(2);
        let paths = Self { path, seed, end, stations, cells: Mutex::new(Cells::new(stations, seed)) };
        paths.downlink_and_uplink(0, Time::ZERO).map(drop)?;
        Ok(paths)
    }

    /// Paths as [`Self::new`] makes them, from a text, such as `rate=10mbit,delay=10ms,loss=1%`; docs/link.md lists all keys.
    ///
    /// # Errors
    /// What is wrong with the text, with a file that it names, or with a cell.
    pub fn parse(path: &str, seed: u64, end: PathEnd, clients: usize) -> Result<Self, String> {
        let path: PathSpec = path.parse().map_err(|error: SpecError| error.to_string())?;
        let path = load_path(&path).map_err(|error| error.to_string())?;
        Self::new(path, seed, end, clients).map_err(|error| error.to_string())
    }

    /// What the path's trace files were taken for, one sentence for each file.
    pub fn describe_traces(&self) -> impl Iterator<Item = String> {
        self.path.describe_traces()
    }

    /// The downlink and the uplink of a session's path; their time begins at `now`.
    fn downlink_and_uplink(&self, session: u32, now: Time) -> Result<[Path; 2], ConfigError> {
        let seed = self.seed.wrapping_add(u64::from(session));
        let mut cells = lock(&self.cells);
        // A station is only taken in a shared cell.
        let user = Users::One(cells.vacant().unwrap_or(self.stations));
        let mut one = |seed, direction| cells.path_since(now - Time::ZERO, &self.path, seed, user, direction);
        // All seed bits differ, so that the directions share no random draws.
        Ok([one(seed, Direction::Downlink)?, one(!seed, Direction::Uplink)?])
    }
}

impl EmulatedPaths for SessionPaths {
    fn for_session(&self, session: u32, now: Time) -> Result<[Box<dyn EmulatedPath>; 2], String> {
        let [downlink, uplink] = self.downlink_and_uplink(session, now).map_err(|error| error.to_string())?;
        let ways = match self.end {
            PathEnd::Server => [downlink, uplink],
            PathEnd::Viewer => [uplink, downlink],
        };
        Ok(ways.map(|way| Box::new(PathInProcess(way)) as Box<dyn EmulatedPath>))
    }
}

#[cfg(test)]
mod tests {
    use nearlight_link::{FlowId, Hop as _, Packet};
    use nearlight_units::{Bytes, Span};

    use super::*;

    fn paths(text: &str, clients: usize) -> Result<SessionPaths, ConfigError> {
        let path: PathSpec = text.parse().expect(text);
        SessionPaths::new(load_path(&path).expect(text), 3, PathEnd::Server, clients)
    }

    /// The delay of the last of 200 packets that are sent to a session at once.
    fn takes(path: &mut Path) -> Span {
        for id in 0..200 {
            path.offer(Time::from_millis(1), Packet::new(id, FlowId(0), Bytes::new(1_200)));
        }
        let mut last = Time::ZERO;
        while let Some(next) = path.poll_timeout() {
            while let Some(exit) = path.poll(next) {
                last = exit.at;
            }
        }
        last - Time::from_millis(1)
    }

    #[test]
    fn sessions_share_a_cell_whenever_they_come() {
        let paths = paths("wifi=standard-11ax/mcs:0/streams:1/loss:0%", 2).expect("a cell");
        let [mut alone, _up] = paths.downlink_and_uplink(1, Time::from_secs(5)).expect("a path");
        let undisturbed = takes(&mut alone);
        // The other session's clock began 90 s later; its packets are on the air at the same time.
        let [mut other, _up] = paths.downlink_and_uplink(2, Time::from_secs(95)).expect("a path");
        for id in 0..200 {
            alone.offer(Time::from_secs(90) + Span::from_millis(1), Packet::new(id, FlowId(0), Bytes::new(1_200)));
        }
        let disturbed = takes(&mut other);
        assert!(disturbed > undisturbed * 3 / 2, "{disturbed} beside another, {undisturbed} alone");
    }

    #[test]
    fn stations_are_free_again_when_sessions_are_gone() {
        let paths = paths("delay=1ms,wifi=standard-11ax", 1).expect("a cell");
        let (first, second) = (paths.downlink_and_uplink(1, Time::ZERO), paths.downlink_and_uplink(2, Time::ZERO));
        assert!(first.is_ok() && second.is_ok());
        let error = paths.downlink_and_uplink(3, Time::ZERO).err().expect("two stations").to_string();
        assert!(error.contains("does not exist"), "{error}");
        drop(first);
        assert!(paths.downlink_and_uplink(3, Time::from_secs(9)).is_ok());
    }

    #[test]
    fn a_cell_that_cannot_hold_all_is_refused_and_other_paths_need_no_station() {
        assert!(paths("wifi=standard-11ax", 100).err().is_some_and(|error| error.to_string().contains("at most 128")));
        let paths = paths("delay=1ms,loss=1%", 1).expect("a path");
        let many: Vec<_> = (0..10).map(|session| paths.downlink_and_uplink(session, Time::ZERO)).collect();
        assert!(many.iter().all(Result::is_ok));
    }
}
