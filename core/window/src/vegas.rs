//! Vegas (Brakmo and Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", JSAC 1995), as in Linux: keeps two to
//! four packets in the queue.
//!
//! Once a round trip, the number of queued packets is estimated as the window times the relative growth of the round trip over its
//! minimum.
//!
//! # Departures
//! From Linux (`tcp_vegas.c`):
//! * the minimum round trip is that of all time, as there, but a time-out resets it, because paths change;
//! * a round with two samples or fewer grows as Reno would, as there, but never in slow start.
//!
//! Losses are handled as in Reno.

use nearlight_units::{Bytes, Span, Time};

use super::prr::Prr;
use super::rounds::Rounds;
use super::{AckSample, Congestion, CongestionLaw, INITIAL_WINDOW};

/// Number of queued packets below which the window grows (`alpha`),
const MIN_QUEUED: f64 = 2.0;
/// and above which it shrinks (`beta`).
const MAX_QUEUED: f64 = 4.0;
/// Number of queued packets that ends slow start (`gamma`).
const SLOW_START_QUEUED: f64 = 1.0;
/// Minimum number of samples for a decision (`cntRTT`).
const MIN_SAMPLES: u32 = 3;
/// The share of the window that remains after a loss (RFC 5681).
const BETA: f64 = 0.5;
const MIN_WINDOW: f64 = 2.0;

/// Delay-based additive increase and decrease.
#[derive(Debug)]
pub struct Vegas {
    packet: Bytes,
    /// The window in packets.
    window: f64,
    threshold: f64,           // ssthresh
    lowest: Option<Span>,     // baseRTT
    this_round: Option<Span>, // minRTT
    samples: u32,
    rounds: Rounds,
    reducing: Option<Prr>,
}

impl Vegas {
    #[must_use]
    pub fn new(packet: Bytes) -> Self {
        Self {
            packet: packet.max(Bytes::new(1)),
            window: INITIAL_WINDOW as f64,
            threshold: f64::INFINITY,
            lowest: None,
            this_round: None,
            samples: 0,
            rounds: Rounds::default(),
            reducing: None,
        }
    }

    /// Adjusts the window once a round trip. `may_grow` says that the window limits the sender.
    fn on_round(&mut self, may_grow: bool) {
        let (Some(lowest), Some(round_trip)) = (self.lowest, self.this_round.take()) else { return };
        let enough = self.samples >= MIN_SAMPLES;
        self.samples = 0;
        if !enough {
            self.window += if may_grow && self.window >= self.threshold { 1.0 } else { 0.0 };
            return;
        }
        let (lowest, round_trip) = (lowest.as_secs_f64(), round_trip.as_secs_f64());
        let target = self.window * lowest / round_trip;
        let queued = self.window - target;
        if self.window < self.threshold {
            if queued > SLOW_START_QUEUED {
                self.window = self.window.min(target.floor() + 1.0);
                self.threshold = self.threshold.min(self.window - 1.0);
            }
        } else if queued > MAX_QUEUED {
            self.window -= 1.0;
            self.threshold = self.threshold.min(self.window - 1.0);
        } else if queued < MIN_QUEUED && may_grow {
            self.window += 1.0;
        }
        self.window = self.window.max(MIN_WINDOW);
        self.threshold = self.threshold.max(MIN_WINDOW);
    }
}

impl CongestionLaw for Vegas {
    fn name(&self) -> &'static str {
        "vegas"
    }

    fn on_sent(&mut self, _now: Time, size: Bytes, _in_flight: Bytes) {
        if let Some(reducing) = &mut self.reducing {
            reducing.on_sent(size);
        }
    }

    fn on_ack(&mut self, _now: Time, sample: &AckSample) {
        if let Some(round_trip) = sample.round_trip.map(|round_trip| round_trip.max(Span::from_nanos(1))) {
            let lower = |lowest: Option<Span>| Some(lowest.map_or(round_trip, |lowest| lowest.min(round_trip)));
            (self.lowest, self.this_round) = (lower(self.lowest), lower(self.this_round));
            self.samples += 1;
        }
        let round_began = self.rounds.on_ack(sample.delivered, sample.delivered_when_sent);
        if let Some(reducing) = &mut self.reducing {
            reducing.on_ack(sample.acked, sample.in_flight);
            return;
        }
        if round_began {
            self.on_round(sample.window_limited);
        }
        if self.window < self.threshold && sample.window_limited {
            let acked = sample.acked.get() as f64 / self.packet.get() as f64;
            self.window = (self.window + acked).min(self.threshold);
        }
    }

    fn on_loss(&mut self, _now: Time, congestion: &Congestion) {
        let flight = congestion.flight.get() as f64 / self.packet.get() as f64;
        self.threshold = (flight * BETA).max(MIN_WINDOW);
        self.window = self.threshold;
        let goal = (self.threshold * self.packet.get() as f64) as u64;
        self.reducing = Some(Prr::new(goal, congestion.flight, congestion.in_flight, self.packet));
    }

    fn on_recovered(&mut self, _now: Time) {
        self.reducing = None;
    }

    fn on_timeout(&mut self, _now: Time, flight: Bytes) {
        self.threshold = (flight.get() as f64 / self.packet.get() as f64 * BETA).max(MIN_WINDOW);
        self.window = 1.0;
        (self.lowest, self.this_round, self.reducing) = (None, None, None);
    }

    fn window(&self) -> Bytes {
        let window = (self.window * self.packet.get() as f64) as u64;
        Bytes::new(self.reducing.as_ref().map_or(window, Prr::window))
    }
}
