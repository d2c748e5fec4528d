//! Deliberately impaired paths: one per session, through shared Wi-Fi cells.

use std::sync::{Mutex, PoisonError};

use nearlight_link::{LoadedPath, Path};
use nearlight_units::Time;
use nearlight_wifi::{Cells, ConfigError, Direction, Users};

use crate::options::Impairment;

/// Paths of sessions that come and go.
pub(crate) struct BadPaths {
    impairment: Impairment,
    stations: usize,
    cells: Mutex<Cells>,
}

impl BadPaths {
    /// For this many simultaneous clients; refuses cells that are too small for them.
    pub(crate) fn new(impairment: Impairment, clients: usize) -> Result<Self, ConfigError> {
        // A session's place is freed a moment before its path is dropped.
        let stations = clients.saturating_mul(2);
        let cells = Cells::new(stations, impairment.seed);
        let paths = Self { impairment, stations, cells: Mutex::new(cells) };
        paths.of_session(0, Time::ZERO).map(drop)?;
        Ok(paths)
    }

    /// The downlink and the uplink of a session's path; their time begins at `now`.
    pub(crate) fn of_session(&self, session: u32, now: Time) -> Result<[Path; 2], ConfigError> {
        let Impairment { path, seed } = &self.impairment;
        let seed = seed.wrapping_add(u64::from(session));
        let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        // A station is only taken in a shared cell.
        let user = Users::One(cells.vacant().unwrap_or(self.stations));
        let mut way =
            |path: &LoadedPath, seed, direction| cells.path_since(now - Time::ZERO, path, seed, user, direction);
        // All seed bits differ, so that the directions share no random draws.
        Ok([way(path, seed, Direction::Downlink)?, way(path, !seed, Direction::Uplink)?])
    }
}

#[cfg(test)]
mod tests {
    use nearlight_link::{FlowId, Hop as _, Packet, PathSpec};
    use nearlight_units::{Bytes, Span};
    use nearlight_wifi::load_path;

    use super::*;

    fn paths(text: &str, clients: usize) -> Result<BadPaths, ConfigError> {
        let path: PathSpec = text.parse().expect(text);
        BadPaths::new(Impairment { path: load_path(&path).expect(text), seed: 3 }, clients)
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
        let [mut alone, _up] = paths.of_session(1, Time::from_secs(5)).expect("a path");
        let undisturbed = takes(&mut alone);
        // The other session's clock began 90 s later; its packets are on the air at the same time.
        let [mut other, _up] = paths.of_session(2, Time::from_secs(95)).expect("a path");
        for id in 0..200 {
            alone.offer(Time::from_secs(90) + Span::from_millis(1), Packet::new(id, FlowId(0), Bytes::new(1_200)));
        }
        let disturbed = takes(&mut other);
        assert!(disturbed > undisturbed * 3 / 2, "{disturbed} beside another, {undisturbed} alone");
    }

    #[test]
    fn stations_are_free_again_when_sessions_are_gone() {
        let paths = paths("delay=1ms,wifi=standard-11ax", 1).expect("a cell");
        let (first, second) = (paths.of_session(1, Time::ZERO), paths.of_session(2, Time::ZERO));
        assert!(first.is_ok() && second.is_ok());
        let error = paths.of_session(3, Time::ZERO).err().expect("two stations").to_string();
        assert!(error.contains("does not exist"), "{error}");
        drop(first);
        assert!(paths.of_session(3, Time::from_secs(9)).is_ok());
    }

    #[test]
    fn a_cell_that_cannot_hold_all_is_refused_and_other_paths_need_no_station() {
        assert!(paths("wifi=standard-11ax", 100).err().is_some_and(|error| error.to_string().contains("at most 128")));
        let paths = paths("delay=1ms,loss=1%", 1).expect("a path");
        let many: Vec<_> = (0..10).map(|session| paths.of_session(session, Time::ZERO)).collect();
        assert!(many.iter().all(Result::is_ok));
    }
}
