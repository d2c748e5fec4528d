//! BBR's response to losses: bounds of bandwidth and flight, short-term and long-term (section 5.5.10).

use nearlight_units::{Bitrate, Bytes};

use crate::{AckSample, SentPacket};

/// A larger share of losses means that too much was in flight (`BBR.LossThresh`).
const LOSS_THRESHOLD: f64 = 0.02;
/// The share of a bound that remains after a round with losses (`BBR.Beta`).
const BETA: f64 = 0.7;
/// Share of the long-term bound that is left to other flows (`BBR.Headroom`).
const HEADROOM: f64 = 0.15;
/// Maximum number of doublings of the step by which the long-term bound rises (section 5.3.3.6).
const MAX_DOUBLINGS: u32 = 30;

/// Bounds of bandwidth and flight that follow from losses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    packet: u64,
    pub(super) bandwidth: Bitrate, // bw_shortterm
    pub(super) short_term: u64,    // inflight_shortterm
    pub(super) long_term: u64,     // inflight_longterm
    /// Whether losses are of packets that a probe sent (`bw_probe_samples`).
    pub(super) probing_samples: bool,
    latest_bandwidth: Bitrate,
    latest_flight: u64,
    /// Bytes lost in the current round.
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

    /// Handles a lost packet. Returns whether too much was in flight; the long-term bound is then lowered, but not below a share of
    /// `target`.
    pub(super) fn on_packet_lost(&mut self, packet: &SentPacket, target: u64) -> bool {
        self.lost += packet.size.get();
        if !self.probing_samples || !is_flight_too_high(packet) {
            return false;
        }
        self.probing_samples = false;
        if !packet.app_limited {
            self.long_term = flight_at_loss(packet).max((target as f64 * BETA) as u64).max(self.packet);
        }
        true
    }

    /// Whether the share of losses in this round is too large.
    pub(super) fn lost_too_much(&self) -> bool {
        self.lost as f64 > LOSS_THRESHOLD * (self.lost + self.delivered) as f64
    }

    /// Updates the latest signals, and the short-term bounds after a round with losses (sections 5.5.10.3 and 5.5.10.4).
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

    /// Raises the long-term bound to the bytes in flight without too many losses.
    pub(super) fn on_healthy(&mut self, sample: &AckSample, raising: bool, round_began: bool, window: u64) {
        if self.long_term == u64::MAX || sample.lost > Bytes::ZERO || is_flight_too_high(&self.newest) {
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

    /// Sets the slope of growth: one packet in the first round, and twice as many in each further one.
    fn raise_slope(&mut self, window: u64) {
        self.raise_every = (window >> self.doublings.min(MAX_DOUBLINGS)).max(self.packet);
        self.doublings += 1;
    }

    pub(super) fn restart_probing(&mut self) {
        self.lost = 0;
        self.raise_every = u64::MAX;
    }

    pub(super) fn forget_short_term(&mut self) {
        (self.bandwidth, self.short_term) = (Bitrate::from_bps(u64::MAX), u64::MAX);
    }

    /// The long-term bound minus the share that is left to other flows.
    pub(super) fn with_headroom(&self) -> u64 {
        if self.long_term == u64::MAX {
            return u64::MAX;
        }
        let headroom = ((self.long_term as f64 * HEADROOM) as u64).max(self.packet);
        self.long_term.saturating_sub(headroom)
    }
}

/// Whether losses show that too much was in flight (section 5.5.10.2, `IsInflightTooHigh`).
fn is_flight_too_high(packet: &SentPacket) -> bool {
    packet.lost_since.get() as f64 > packet.in_flight.get() as f64 * LOSS_THRESHOLD
}

/// The flight at which the share of losses reached the threshold (`BBRInflightAtLoss`).
fn flight_at_loss(packet: &SentPacket) -> u64 {
    let size = packet.size.get() as f64;
    let (flight, lost) = (packet.in_flight.get() as f64 - size, packet.lost_since.get() as f64 - size);
    let prefix = (LOSS_THRESHOLD * flight - lost) / (1.0 - LOSS_THRESHOLD);
    (flight + prefix).max(0.0) as u64
}
