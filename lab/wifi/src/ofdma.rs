//! Multi-user transmissions: which stations share one.
//!
//! Not modelled: units of different sizes in one transmission, MU-MIMO, random access to units, buffer reports outside of polls,
//! power control, fading that differs between units.

use nearlight_units::{Bytes, Span, Time};

use crate::config::{Adaptation, Category, CellConfig, length, within};
use crate::error::ConfigError;
use crate::phy::{Mode, Tones};

/// Multi-user operation; off by default, as in both presets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MultiUser {
    /// Largest number of stations that the access point sends to at once, when several have packets in the category that won.
    pub downlink: Option<u8>,
    /// The multi-user format is used even for a single station, as ns-3's scheduler does.
    pub always: bool,
    pub uplink: Option<UplinkTrigger>,
    pub order: SchedulerKind,
}

/// Uplink transmissions triggered by the access point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UplinkTrigger {
    pub when: TriggerTiming,
    /// The category that is requested, in which the trigger also contends.
    pub category: Category,
    /// Maximum number of stations that send at once.
    pub stations: u8,
    /// Stations also contend on their own; otherwise packets of that category wait for a trigger.
    pub contend: bool,
}

/// When stations are triggered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerTiming {
    /// Interval between attempts to win the medium. Buffer status and data are requested in the same access.
    Every(Span),
    /// ns-3's rule: after each downlink transmission to several stations, the access point's next access polls buffer status, and the one after that
    /// requests data, if any. It contends only for packets of its own.
    AfterDownlink,
}

/// The built-in schedulers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerKind {
    /// Stations in turn.
    #[default]
    RoundRobin,
    /// Stations whose oldest packet has the earliest deadline.
    DeadlineFirst,
    /// Stations with the least airtime used for their part of the channel, as in ns-3's round-robin scheduler.
    LeastServed,
}

impl MultiUser {
    pub(crate) fn check(&self, cell: &CellConfig) -> Result<(), ConfigError> {
        let most = Tones::T26.in_channel(cell.width) as u64;
        if let Some(stations) = self.downlink {
            within("the number of stations of a downlink transmission", stations, 1..=most)?;
        }
        if let Some(triggered) = self.uplink {
            within("the number of stations of a triggered transmission", triggered.stations, 1..=most)?;
            if let TriggerTiming::Every(interval) = triggered.when {
                length("the interval of triggers", interval, Span::from_micros(100), Span::from_secs(10))?;
            }
        }
        let places = self.downlink.max(self.uplink.map(|uplink| uplink.stations)).map_or(1, usize::from);
        let tones = cell.width.split(places.min(cell.stations.len())).unwrap_or(Tones::T26);
        // Rate adaptation finds another scheme. A fixed scheme has to fit the smallest unit that may be assigned.
        let fixed = cell.stations.iter().filter(|station| station.adaptation == Adaptation::Fixed);
        for station in fixed {
            Mode::new(tones, station.mcs, station.streams, station.guard)?;
        }
        Ok(())
    }
}

/// A candidate for a place in a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub station: usize,
    /// Backlog: downlink packets queued for the station, or what it reported for the uplink.
    pub packets: usize,
    pub bytes: Bytes,
    /// When the oldest of these packets arrived.
    pub oldest: Time,
    /// The deadline: its arrival plus the station's maximum delay.
    pub deadline: Time,
}

/// Chooses who shares a transmission.
pub trait Scheduler: Send {
    /// Writes the indices of at most `places` candidates, without repetition, the most important first: later ones lose their place where
    /// the channel cannot be split finely enough for a packet. `candidates` has at least one and is ordered by station.
    fn pick(&mut self, now: Time, candidates: &[Candidate], places: usize, picked: &mut Vec<usize>);

    /// Reports that these stations shared a transmission of this length. `stations` are all of the cell.
    fn on_served(&mut self, _served: &[usize], _stations: usize, _airtime: Span) {}
}

/// Stations in turn.
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

/// Earliest deadline first; the lower station wins a tie.
#[derive(Clone, Debug, Default)]
pub struct DeadlineFirst;

impl Scheduler for DeadlineFirst {
    fn pick(&mut self, _now: Time, candidates: &[Candidate], places: usize, picked: &mut Vec<usize>) {
        picked.extend(0..candidates.len());
        picked.sort_by_key(|&index| (candidates[index].deadline, candidates[index].station));
        picked.truncate(places);
    }
}

/// Every station earns an equal share of each transmission, and participants pay for it. The largest balance goes first.
#[derive(Clone, Debug, Default)]
pub struct LeastServed {
    /// Balance of each station, in nanoseconds of the full channel.
    credit: Vec<f64>,
}

impl Scheduler for LeastServed {
    fn pick(&mut self, _now: Time, candidates: &[Candidate], places: usize, picked: &mut Vec<usize>) {
        let credit = |index: &usize| self.credit.get(candidates[*index].station).copied().unwrap_or(0.0);
        picked.extend(0..candidates.len());
        picked.sort_by(|one, other| credit(other).total_cmp(&credit(one)));
        picked.truncate(places);
    }

    fn on_served(&mut self, served: &[usize], stations: usize, airtime: Span) {
        let airtime = airtime.as_nanos() as f64;
        self.credit.resize(stations, 0.0);
        for credit in &mut self.credit {
            *credit += airtime / stations as f64;
        }
        for station in served {
            self.credit[*station] -= airtime / served.len() as f64;
        }
    }
}

impl SchedulerKind {
    pub(crate) fn scheduler(self) -> Box<dyn Scheduler> {
        match self {
            Self::RoundRobin => Box::new(RoundRobin::default()),
            Self::DeadlineFirst => Box::new(DeadlineFirst),
            Self::LeastServed => Box::new(LeastServed::default()),
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

    #[test]
    fn those_that_had_least_of_the_channel_go_first() {
        let mut scheduler = LeastServed::default();
        let all = [(0, 5), (1, 4), (2, 3)];
        assert_eq!(stations(&mut scheduler, &all, 2), [0, 1]);
        scheduler.on_served(&[0, 1], 3, Span::from_micros(600));
        assert_eq!(stations(&mut scheduler, &all, 2), [2, 0]);
        scheduler.on_served(&[2, 0], 3, Span::from_micros(100));
        assert_eq!(stations(&mut scheduler, &all, 2), [2, 1]);
    }
}
