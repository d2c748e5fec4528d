//! Per-flow packet counters.

use nearlight_units::{Bytes, Span};

use crate::hop::{DropReason, Exit, FlowId, Packet, PacketOutcome};

/// One flow's packets on one path, since it was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounters {
    pub flow: FlowId,
    pub offered: u64,
    pub offered_bytes: Bytes,
    /// Deliveries, excluding duplicates.
    pub delivered: u64,
    pub delivered_bytes: Bytes,
    /// Duplicates created and delivered by the network.
    pub duplicates: u64,
    /// Delivered packets that carry a congestion mark.
    pub marked: u64,
    /// Lost packets by [`DropReason::index`], excluding duplicates.
    pub dropped: [u64; DropReason::ALL.len()],
    /// Time that delivered packets spent in queues, summed.
    pub queued_total: Span,
    /// The longest time that a delivered packet spent in queues.
    pub queued_longest: Span,
}

impl FlowCounters {
    /// Lost packets, for all reasons.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Mean time that a delivered packet spent in queues.
    #[must_use]
    pub fn queued_mean(&self) -> Span {
        self.queued_total / self.delivered.max(1) as i64
    }
}

/// The counters of all flows, in order of their first packet. Few flows share a path, so a linear search is fast.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flows {
    counters: Vec<FlowCounters>,
}

impl Flows {
    pub(crate) fn all(&self) -> &[FlowCounters] {
        &self.counters
    }

    #[inline]
    fn of(&mut self, flow: FlowId) -> &mut FlowCounters {
        let known = self.counters.iter().position(|counters| counters.flow == flow);
        let index = known.unwrap_or_else(|| {
            self.counters.push(FlowCounters { flow, ..FlowCounters::default() });
            self.counters.len() - 1
        });
        &mut self.counters[index]
    }

    #[inline]
    pub(crate) fn on_offered(&mut self, packet: &Packet) {
        let counters = self.of(packet.flow);
        counters.offered += 1;
        counters.offered_bytes += packet.size;
    }

    #[inline]
    pub(crate) fn on_exit(&mut self, exit: &Exit) {
        let packet = &exit.packet;
        let counters = self.of(packet.flow);
        match exit.outcome {
            PacketOutcome::Delivered if packet.duplicate => counters.duplicates += 1,
            PacketOutcome::Delivered => {
                counters.delivered += 1;
                counters.delivered_bytes += packet.size;
                counters.marked += u64::from(packet.ecn == crate::hop::Ecn::Ce);
                counters.queued_total += packet.queued;
                counters.queued_longest = counters.queued_longest.max(packet.queued);
            }
            PacketOutcome::Dropped(_) if packet.duplicate => {}
            PacketOutcome::Dropped(reason) => counters.dropped[reason.index()] += 1,
        }
    }
}
