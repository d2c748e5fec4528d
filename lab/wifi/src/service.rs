//! The order in which the access point serves stations.

use nearlight_units::Span;

use crate::cell::{Cell, Lane};
use crate::config::{Category, Direction, Service};

/// Quantum of a station under airtime fairness: the default weight of Linux's mac80211, in microseconds.
const AIRTIME_QUANTUM: Span = Span::from_micros(256);

/// The order in which the access point serves the stations of one category.
#[derive(Clone, Debug)]
pub(crate) struct ServiceOrder {
    /// The station whose turn it is.
    next: usize,
    /// Airtime that each station may still use; negative if it had more than its share.
    credit: Vec<Span>,
}

impl ServiceOrder {
    pub(crate) fn new(stations: usize) -> Self {
        Self { next: 0, credit: vec![Span::ZERO; stations] }
    }
}

impl Cell {
    /// Returns the station that the access point sends to next. A collision does not change it.
    pub(crate) fn next_receiver(&mut self, category: Category) -> Lane {
        let lane = |station| Lane::new(station, Direction::Downlink, category);
        let stations = self.config.stations.len();
        let first = self.turns[category.index()].next;
        match self.config.service {
            Service::OldestFirst => {
                let waiting = (0..stations).map(lane).filter(|lane| self.can_send(*lane));
                let arrival = |lane: &Lane| self.queues[lane.index()].head().map(|mpdu| mpdu.entered);
                waiting.min_by_key(arrival).unwrap_or(lane(0))
            }
            Service::InTurn => {
                let waiting = (first..first + stations).map(|turn| lane(turn % stations));
                waiting.clone().find(|lane| self.can_send(*lane)).unwrap_or(lane(first))
            }
            Service::AirtimeFair => {
                if !self.has_downlink(category) {
                    return lane(first);
                }
                let mut station = first;
                loop {
                    if self.can_send(lane(station)) {
                        let credit = &mut self.turns[category.index()].credit[station];
                        if *credit >= Span::ZERO {
                            break;
                        }
                        *credit += AIRTIME_QUANTUM;
                    }
                    station = (station + 1) % stations;
                }
                self.turns[category.index()].next = station;
                lane(station)
            }
        }
    }

    /// Charges a station for a transmission of this length.
    pub(crate) fn on_served(&mut self, lane: Lane, airtime: Span) {
        let turns = &mut self.turns[lane.category().index()];
        match self.config.service {
            Service::OldestFirst => {}
            Service::InTurn => turns.next = (lane.station() + 1) % turns.credit.len(),
            Service::AirtimeFair => turns.credit[lane.station()] -= airtime,
        }
    }
}
