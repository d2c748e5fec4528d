//! What losses teach BBR of the path: bounds of bandwidth and flight, for a short and for a long time (section 5.5.10).

use nearlight_units::{Bitrate, Bytes};

use crate::{AckSample, SentPacket};

/// A larger share of losses means that too much was in flight (`BBR.LossThresh`).
const LOSS_THRESHOLD: f64 = 0.02;
/// What remains of a bound after a round with losses (`BBR.Beta`).
const BETA: f64 = 0.7;
/// Share of the long-term bound that is left to others (`BBR.Headroom`).
const HEADROOM: f64 = 0.15;
/// Doublings of the step by which the long-term bound rises.
const MOST_DOUBLINGS: u32 = 30;

/// Bounds from losses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    packet: u64,
    pub(super) bandwidth: Bitrate, // bw_shortterm
    pub(super) short_term: u64,    // inflight_shortterm
    pub(super) long_term: u64,     // inflight_longterm
    /// Losses are of what a probe sent (`bw_probe_samples`).
    pub(super) probing_samples: bool,
    latest_bandwidth: Bitrate,
    latest_flight: u64,
    /// Of the round at hand.
    lost: u64,
    delivered: u64,
    round_ends: Bytes, // loss_round_delivered
    newest: SentPacket,
    raise_every: u64, // probe_up_cnt, in bytes acknowledged for each packet of growth
    raise_acked: u64, // probe_up_acks
    doublings: u32,   // probe_up_rounds
}

impl Bounds {
    pub(super) fn new(packet: u64) -> Self {
        Self {
            packet,
            bandwidth: Bitrate::from_bps(u64::MAX),
            short_term: u64::MAX,
            long_term: u64::MAX,
            probing_samples: false,
            latest_bandwidth: Bitrate::ZERO,
            latest_flight: 0,
            lost: 0,
            delivered: 0,
            round_ends: Bytes::ZERO,
            newest: SentPacket::default(),
            raise_every: u64::MAX,
            raise_acked: 0,
            doublings: 0,
        }
    }

    pub(super) fn latest_flight(&self) -> u64 {
        self.latest_flight
    }

    pub(super) fn on_packet_acked(&mut self, packet: &SentPacket) {
        if packet.sent_at >= self.newest.sent_at {
            self.newest = *packet;
        }
    }

    /// Whether more was in flight than the path bears: then `target` is what is left of it at the least.
    pub(super) fn on_packet_lost(&mut self, packet: &SentPacket, target: u64) -> bool {
        self.lost += packet.size.get();
        if !self.probing_samples || !too_much(packet) {
            return false;
        }
        self.probing_samples = false;
        if !packet.app_limited {
            self.long_term = at_loss(packet).max((target as f64 * BETA) as u64).max(self.packet);
        }
        true
    }

    /// Whether the losses of this round are too large a share.
    pub(super) fn lost_too_much(&self) -> bool {
        self.lost as f64 > LOSS_THRESHOLD * (self.lost + self.delivered) as f64
    }

    /// The latest signals, and the short-term bounds after a round with losses (sections 5.5.10.3 and 5.5.10.4).
    pub(super) fn on_ack(&mut self, sample: &AckSample, probing: bool, maximum: Bitrate, window: u64) {
        self.delivered += sample.acked.get();
        if let Some(delivery) = sample.delivery {
            self.latest_bandwidth = self.latest_bandwidth.max(delivery.rate);
        }
        let delivered = sample.delivered.saturating_sub(sample.delivered_when_sent).get();
        self.latest_flight = self.latest_flight.max(delivered);
        if sample.delivered_when_sent < self.round_ends {
            return;
        }
        self.round_ends = sample.delivered;
        if self.lost > 0 && !probing {
            let before = if self.bandwidth == Bitrate::from_bps(u64::MAX) { maximum } else { self.bandwidth };
            self.bandwidth = self.latest_bandwidth.max(before.mul_f64(BETA));
            let before = if self.short_term == u64::MAX { window } else { self.short_term };
            self.short_term = self.latest_flight.max((before as f64 * BETA) as u64);
        }
        (self.lost, self.delivered) = (0, 0);
        self.latest_bandwidth = sample.delivery.map_or(Bitrate::ZERO, |delivery| delivery.rate);
        self.latest_flight = delivered;
    }

    /// The long-term bound rises with what was in flight without too many losses.
    pub(super) fn on_healthy(&mut self, sample: &AckSample, raising: bool, round_began: bool, window: u64) {
        if self.long_term == u64::MAX || sample.lost > Bytes::ZERO || too_much(&self.newest) {
            return;
        }
        self.long_term = self.long_term.max(self.newest.in_flight.get());
        if !raising {
            return;
        }
        self.raise_acked += sample.acked.get();
        if self.raise_acked >= self.raise_every {
            let packets = self.raise_acked / self.raise_every;
            self.raise_acked -= packets * self.raise_every;
            self.long_term = self.long_term.saturating_add(packets.saturating_mul(self.packet));
        }
        if round_began {
            self.raise_slope(window);
        }
    }

    pub(super) fn begin_raising(&mut self, window: u64) {
        (self.raise_acked, self.doublings) = (0, 0);
        self.raise_slope(window);
    }

    /// One packet more in the first round, and twice as many in each that follows.
    fn raise_slope(&mut self, window: u64) {
        self.raise_every = (window >> self.doublings.min(MOST_DOUBLINGS)).max(self.packet);
        self.doublings += 1;
    }

    pub(super) fn restart_probing(&mut self) {
        self.lost = 0;
        self.raise_every = u64::MAX;
    }

    pub(super) fn forget_short_term(&mut self) {
        (self.bandwidth, self.short_term) = (Bitrate::from_bps(u64::MAX), u64::MAX);
    }

    /// The long-term bound less what is left to others.
    pub(super) fn with_headroom(&self) -> u64 {
        if self.long_term == u64::MAX {
            return u64::MAX;
        }
        let headroom = ((self.long_term as f64 * HEADROOM) as u64).max(self.packet);
        self.long_term.saturating_sub(headroom)
    }
}

/// Section 5.5.10.2, `IsInflightTooHigh`.
fn too_much(packet: &SentPacket) -> bool {
    packet.lost_since.get() as f64 > packet.in_flight.get() as f64 * LOSS_THRESHOLD
}

/// The flight at which the share of losses reached the threshold (`BBRInflightAtLoss`).
fn at_loss(packet: &SentPacket) -> u64 {
    let size = packet.size.get() as f64;
    let (flight, lost) = (packet.in_flight.get() as f64 - size, packet.lost_since.get() as f64 - size);
    let prefix = (LOSS_THRESHOLD * flight - lost) / (1.0 - LOSS_THRESHOLD);
    (flight + prefix).max(0.0) as u64
}
