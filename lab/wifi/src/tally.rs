//! What a cell counts, and the record of its exchanges.

use nearlight_units::{Bytes, Span, Time};
use serde::{Deserialize, Serialize};

use crate::config::{Category, Direction, MAX_AGGREGATED_PACKETS};

/// Counters of one direction of one station over all categories, since the cell began.
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
    /// Airtime of exchanges, from RTS to acknowledgement. Stations that share an exchange are charged their share.
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
            aggregates: vec![0; usize::from(MAX_AGGREGATED_PACKETS) + 1],
            aggregates_delivered: 0,
            airtime: Span::ZERO,
        }
    }
}

impl Tally {
    /// Adds the counts from `start` to `end`.
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

    /// Returns the number of transmissions that carried packets.
    pub fn transmissions(&self) -> u64 {
        self.aggregates.iter().sum()
    }

    /// Returns the packets sent, including repetitions.
    pub fn sent(&self) -> u64 {
        self.aggregates.iter().zip(0..).map(|(count, packets): (&u64, u64)| count * packets).sum()
    }
}

/// Counters of the whole cell since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellTally {
    /// The cell's own exchanges, collisions included.
    pub airtime: Span,
    /// Exchanges of neighbouring cells.
    pub neighbours: Span,
    /// Number of collisions.
    pub collisions: u64,
    /// Time lost in collisions.
    pub collided: Span,
}

impl CellTally {
    /// Adds the counts from `start` to `end`.
    pub(crate) fn add_difference(&mut self, end: &Self, start: &Self) {
        self.airtime += end.airtime - start.airtime;
        self.neighbours += end.neighbours - start.neighbours;
        self.collisions += end.collisions - start.collisions;
        self.collided += end.collided - start.collided;
    }
}

/// What occupied the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One sender, one receiver.
    Single,
    /// The access point sent to several stations.
    MultiUser,
    /// Several stations sent, triggered by the access point; none had data if `packets` is 0.
    Triggered,
    /// Two or more senders collided; each has a record with the same span.
    Collision,
    /// A neighbouring cell.
    Neighbour,
}

/// One station's part of one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// Number of the occupation of the medium. Parts of the same one share it.
    pub number: u64,
    pub kind: Kind,
    /// Start of the RTS.
    pub start: Time,
    /// End of the acknowledgement.
    pub end: Time,
    /// None for a neighbouring cell, or a trigger without answers.
    pub station: Option<usize>,
    pub direction: Direction,
    pub category: Category,
    pub packets: usize,
    pub delivered: usize,
}
