//! Several stations in one transmission: who shares it.
//!
//! Leaves out: units of different sizes in one transmission, MU-MIMO, random access to units, buffer reports outside of polls,
//! power control, fading that differs between units.

use nearlight_units::{Bytes, Span, Time};

use crate::config::{Adaptation, Category, CellConfig, length, within};
use crate::error::ConfigError;
use crate::phy::{Mode, Tones};

/// Multi-user operation; off by default, as in both presets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MultiUser {
    /// The access point sends to this many stations at once at most, when several have packets in the category that won.
    pub downlink: Option<u8>,
    pub uplink: Option<Triggered>,
    pub order: Order,
}

/// The access point asks stations for their packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triggered {
    /// From one attempt to win the medium for a trigger to the next.
    pub interval: Span,
    /// What is asked for, and the category that the trigger contends in.
    pub category: Category,
    /// The most stations that send at once.
    pub stations: u8,
    /// Stations contend for themselves as well; otherwise packets of that category wait for a trigger.
    pub contend: bool,
}

/// The built-in schedulers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Stations take turns.
    #[default]
    RoundRobin,
    /// Those whose oldest packet has to arrive first.
    DeadlineFirst,
}

impl MultiUser {
    pub(crate) fn check(&self, cell: &CellConfig) -> Result<(), ConfigError> {
        let most = Tones::T26.in_channel(cell.width) as u64;
        if let Some(stations) = self.downlink {
            within("the number of stations of a downlink transmission", stations, 1..=most)?;
        }
        if let Some(triggered) = self.uplink {
            within("the number of stations of a triggered transmission", triggered.stations, 1..=most)?;
            length("the interval of triggers", triggered.interval, Span::from_micros(100), Span::from_secs(10))?;
        }
        let places = self.downlink.max(self.uplink.map(|uplink| uplink.stations)).map_or(1, usize::from);
        let tones = cell.width.split(places.min(cell.stations.len())).unwrap_or(Tones::T26);
        // Rate adaptation finds another scheme; a fixed one has to be carried by the smallest unit that may be handed out.
        let fixed = cell.stations.iter().filter(|station| station.adaptation == Adaptation::Fixed);
        for station in fixed {
            Mode::new(tones, station.mcs, station.streams, station.guard)?;
        }
        Ok(())
    }
}

/// A station that could have a place in a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub station: usize,
    /// What waits for it, or what it said waits at its side.
    pub packets: usize,
    pub bytes: Bytes,
    /// When the oldest of these packets arrived.
    pub oldest: Time,
    /// When it has to be there: its arrival and the station's patience.
    pub deadline: Time,
}

/// Chooses who shares a transmission.
pub trait Scheduler: Send {
    /// Writes the indices of at most `places` candidates, none twice, the most important first: later ones lose their place where
    /// the channel cannot be split finely enough for a packet. `candidates` has at least one and is ordered by station.
    fn pick(&mut self, now: Time, candidates: &[Candidate], places: usize, picked: &mut Vec<usize>);
}

/// Stations take turns.
#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    next: usize,
}

impl Scheduler for RoundRobin {
    fn pick(&mut self, _now: Time, candidates: &[Candidate], places: usize, picked: &mut Vec<usize>) {
        let first = candidates.iter().position(|candidate| candidate.station >= self.next).unwrap_or(0);
        let turns = (0..candidates.len()).map(|turn| (first + turn) % candidates.len());
        picked.extend(turns.take(places));
        if let Some(&last) = picked.last() {
            self.next = candidates[last].station + 1;
        }
    }
}

/// The earliest deadlines first; between equal ones the lower station.
#[derive(Clone, Debug, Default)]
pub struct DeadlineFirst;

impl Scheduler for DeadlineFirst {
    fn pick(&mut self, _now: Time, candidates: &[Candidate], places: usize, picked: &mut Vec<usize>) {
        picked.extend(0..candidates.len());
        picked.sort_by_key(|&index| (candidates[index].deadline, candidates[index].station));
        picked.truncate(places);
    }
}

impl Order {
    pub(crate) fn scheduler(self) -> Box<dyn Scheduler> {
        match self {
            Self::RoundRobin => Box::new(RoundRobin::default()),
            Self::DeadlineFirst => Box::new(DeadlineFirst),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(deadlines: &[(usize, u64)]) -> Vec<Candidate> {
        let candidate = |&(station, deadline): &(usize, u64)| Candidate {
            station,
            packets: 1,
            bytes: Bytes::new(1_200),
            oldest: Time::ZERO,
            deadline: Time::from_micros(deadline),
        };
        deadlines.iter().map(candidate).collect()
    }

    fn stations(scheduler: &mut dyn Scheduler, waiting: &[(usize, u64)], places: usize) -> Vec<usize> {
        let candidates = candidates(waiting);
        let mut picked = Vec::new();
        scheduler.pick(Time::ZERO, &candidates, places, &mut picked);
        picked.into_iter().map(|index| candidates[index].station).collect()
    }

    #[test]
    fn turns_go_round_and_skip_those_with_nothing_to_send() {
        let mut scheduler = RoundRobin::default();
        let all = [(0, 5), (1, 4), (2, 3), (5, 2)];
        assert_eq!(stations(&mut scheduler, &all, 2), [0, 1]);
        assert_eq!(stations(&mut scheduler, &all, 3), [2, 5, 0]);
        assert_eq!(stations(&mut scheduler, &[(0, 1), (3, 1)], 1), [3]);
        assert_eq!(stations(&mut scheduler, &[(0, 1), (3, 1)], 4), [0, 3]);
    }

    #[test]
    fn deadlines_decide_and_stations_break_ties() {
        let all = [(0, 5), (1, 4), (2, 3), (5, 4)];
        assert_eq!(stations(&mut DeadlineFirst, &all, 3), [2, 1, 5]);
    }
}
