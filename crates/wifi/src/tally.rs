//! What a cell counts, and the record of its exchanges.

use nearlight_units::{Bytes, Span, Time};
use serde::{Deserialize, Serialize};

use crate::config::{Category, Direction, MOST_AGGREGATE};

/// One direction of one station, all categories together, since the cell began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub offered: u64,
    pub delivered: u64,
    pub delivered_bytes: Bytes,
    /// Packets that arrived at a full queue.
    pub overflowed: u64,
    /// Packets given up after the last retry.
    pub given_up: u64,
    /// Packets too long for a transmission.
    pub too_long: u64,
    /// Number of transmissions, by the number of packets they carried.
    pub aggregates: Vec<u64>,
    /// Packets that got through at their first or a later attempt, summed over transmissions.
    pub aggregates_delivered: u64,
    /// Exchanges from RTS to acknowledgement; if several stations shared one, each is charged its share.
    pub airtime: Span,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            offered: 0,
            delivered: 0,
            delivered_bytes: Bytes::ZERO,
            overflowed: 0,
            given_up: 0,
            too_long: 0,
            aggregates: vec![0; usize::from(MOST_AGGREGATE) + 1],
            aggregates_delivered: 0,
            airtime: Span::ZERO,
        }
    }
}

impl Tally {
    /// Adds what was counted from `start` to `end`.
    pub(crate) fn add_difference(&mut self, end: &Self, start: &Self) {
        self.offered += end.offered - start.offered;
        self.delivered += end.delivered - start.delivered;
        self.delivered_bytes += end.delivered_bytes.saturating_sub(start.delivered_bytes);
        self.overflowed += end.overflowed - start.overflowed;
        self.given_up += end.given_up - start.given_up;
        self.too_long += end.too_long - start.too_long;
        for ((sum, end), start) in self.aggregates.iter_mut().zip(&end.aggregates).zip(&start.aggregates) {
            *sum += end - start;
        }
        self.aggregates_delivered += end.aggregates_delivered - start.aggregates_delivered;
        self.airtime += end.airtime - start.airtime;
    }

    /// Transmissions that carried packets.
    pub fn transmissions(&self) -> u64 {
        self.aggregates.iter().sum()
    }

    /// Packets sent, repetitions included.
    pub fn sent(&self) -> u64 {
        self.aggregates.iter().zip(0..).map(|(count, packets): (&u64, u64)| count * packets).sum()
    }
}

/// The whole cell since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellTally {
    /// The cell's own exchanges, collisions included.
    pub airtime: Span,
    /// Exchanges of neighbouring cells.
    pub neighbours: Span,
    /// Number of times that two or more began to send at once.
    pub collisions: u64,
    /// Time lost in them.
    pub collided: Span,
}

impl CellTally {
    /// Adds what was counted from `start` to `end`.
    pub(crate) fn add_difference(&mut self, end: &Self, start: &Self) {
        self.airtime += end.airtime - start.airtime;
        self.neighbours += end.neighbours - start.neighbours;
        self.collisions += end.collisions - start.collisions;
        self.collided += end.collided - start.collided;
    }
}

/// What held the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One sender, one receiver.
    Single,
    /// The access point to several stations.
    MultiUser,
    /// Several stations, triggered by the access point; none had data if `packets` is 0.
    Triggered,
    /// Two or more began at once: one record for each of them, of the same span.
    Collision,
    /// A neighbouring cell.
    Neighbour,
}

/// One station's part of one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// Counts what held the medium; parts of the same have the same number.
    pub number: u64,
    pub kind: Kind,
    /// RTS begins.
    pub start: Time,
    /// The acknowledgement ends.
    pub end: Time,
    /// None: a neighbouring cell, or a trigger without answers.
    pub station: Option<usize>,
    pub direction: Direction,
    pub category: Category,
    pub packets: usize,
    pub delivered: usize,
}
