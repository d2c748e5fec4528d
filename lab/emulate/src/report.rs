//! Statistics of a link.

use std::collections::BTreeMap;

use nearlight_link::{DropReason, FlowCounters};
use nearlight_units::Bytes;
use serde::Serialize;

use crate::lane::Lane;
use crate::lateness::{Lateness, LatenessSummary};

/// Packets, and their total size at the network layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    pub packets: u64,
    pub bytes: u64,
}

/// A link's statistics so far.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The method that created the link: `root`, `user` or `relay`.
    pub means: &'static str,
    /// The host's address, seen from inside.
    pub host: String,
    pub seconds: f64,
    /// Processor time that the link took, the kernel's part included.
    pub cpu_seconds: f64,
    /// The link's thread had real-time priority over ordinary programs.
    pub real_time: bool,
    /// From the command to the host.
    pub up: DirectionReport,
    /// From the host to the command.
    pub down: DirectionReport,
}

/// Packet counts of one direction: offered packets are delivered, dropped or in flight.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DirectionReport {
    /// The hops, in their written form.
    pub path: String,
    pub offered: Amount,
    pub delivered: Amount,
    /// Drops by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Duplicates created and delivered by the path, in addition.
    pub duplicates: u64,
    /// Delivered with a congestion mark.
    pub marked: u64,
    /// Still in flight.
    pub on_the_way: u64,
    /// Never offered: the kernel dropped them because the link did not read fast enough, or the link held too many.
    pub missed: u64,
    /// Delivered, but not accepted by the interface or socket at the end.
    pub refused: u64,
    /// Queueing time of delivered packets, in milliseconds.
    pub queued_ms: QueuedSummary,
    /// Lateness: how long after their computed time packets left, in microseconds.
    pub lateness_us: LatenessSummary,
    /// Time from when the link read a packet until it had left, and the part of it spent in queues.
    #[serde(skip)]
    pub way: Lateness,
    #[serde(skip)]
    pub queued: Lateness,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct QueuedSummary {
    pub mean: f64,
    pub max: f64,
}

impl DirectionReport {
    /// Drops for this reason.
    #[must_use]
    pub fn dropped_for(&self, reason: DropReason) -> u64 {
        self.dropped.get(reason.name()).copied().unwrap_or(0)
    }

    /// All drops.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.dropped.values().sum()
    }
}

/// The pump's counters of one direction.
#[derive(Clone, Debug)]
pub(crate) struct LaneCounters {
    counters: FlowCounters,
    on_the_way: u64,
    overflow: u64,
    refused: u64,
    lateness: LatenessSummary,
    way: Lateness,
    queued: Lateness,
}

/// The pump's counters.
#[derive(Clone, Debug)]
pub(crate) struct PumpCounters {
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) up: LaneCounters,
    pub(crate) down: LaneCounters,
}

impl From<&Lane> for LaneCounters {
    fn from(lane: &Lane) -> Self {
        Self {
            counters: lane.path.flows().first().copied().unwrap_or_default(),
            on_the_way: lane.held.count() as u64,
            overflow: lane.overflow,
            refused: lane.refused,
            lateness: lane.lateness.summary(),
            way: lane.way.clone(),
            queued: lane.queued.clone(),
        }
    }
}

impl LaneCounters {
    /// Returns the report of a direction, with the packets that the kernel dropped before the link could read them.
    pub(crate) fn report(&self, path: &str, unread: u64) -> DirectionReport {
        let FlowCounters { offered, offered_bytes, delivered, delivered_bytes, duplicates, marked, .. } = self.counters;
        let amount = |packets, bytes: Bytes| Amount { packets, bytes: bytes.get() };
        let dropped = DropReason::ALL.map(|reason| (reason.name(), self.counters.dropped[reason.index()]));
        DirectionReport {
            path: path.to_owned(),
            offered: amount(offered, offered_bytes),
            delivered: amount(delivered, delivered_bytes),
            dropped: dropped.into(),
            duplicates,
            marked,
            on_the_way: self.on_the_way,
            missed: unread + self.overflow,
            refused: self.refused,
            queued_ms: QueuedSummary {
                mean: self.counters.queued_mean().as_millis_f64(),
                max: self.counters.queued_longest.as_millis_f64(),
            },
            lateness_us: self.lateness,
            way: self.way.clone(),
            queued: self.queued.clone(),
        }
    }
}
