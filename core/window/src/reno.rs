//! Reno (RFC 5681 and 6582), counting bytes (RFC 3465), with selective acknowledgements and proportional rate reduction.
//!
//! # Departures
//! * The window is reduced as in RFC 6937; RFC 6582's inflation by duplicate acknowledgements is for senders without SACK.
//! * The window does not grow while something else limits the sender, for the reason that RFC 7661 gives but without its decay.

use nearlight_units::{Bytes, Time};

use super::prr::Prr;
use super::{AckSample, Congestion, CongestionLaw, INITIAL_WINDOW};

/// The share of the flight that remains after a loss (RFC 5681, equation 4).
const BETA: f64 = 0.5;
/// The lowest threshold, in packets (RFC 5681, equation 4).
const MIN_THRESHOLD: f64 = 2.0;

/// Additive increase of one packet per round trip, halving on loss.
#[derive(Debug)]
pub struct Reno {
    packet: Bytes,
    window: f64,    // cwnd
    threshold: f64, // ssthresh
    reducing: Option<Prr>,
}

impl Reno {
    #[must_use]
    pub fn new(packet: Bytes) -> Self {
        let window = (INITIAL_WINDOW * packet.get()) as f64;
        Self { packet, window, threshold: f64::INFINITY, reducing: None }
    }

    fn cut(&mut self, flight: Bytes) {
        self.threshold = (flight.get() as f64 * BETA).max(MIN_THRESHOLD * self.packet.get() as f64);
    }
}

impl CongestionLaw for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    fn on_sent(&mut self, _now: Time, size: Bytes, _in_flight: Bytes) {
        if let Some(reducing) = &mut self.reducing {
            reducing.on_sent(size);
        }
    }

    fn on_ack(&mut self, _now: Time, sample: &AckSample) {
        if let Some(reducing) = &mut self.reducing {
            reducing.on_ack(sample.acked, sample.in_flight);
        } else if sample.window_limited {
            let acked = sample.acked.get() as f64;
            if self.window < self.threshold {
                self.window = (self.window + acked).min(self.threshold.max(self.window));
            } else {
                self.window += self.packet.get() as f64 * acked / self.window;
            }
        }
    }

    fn on_loss(&mut self, _now: Time, congestion: &Congestion) {
        self.cut(congestion.flight);
        self.window = self.threshold;
        let goal = self.threshold as u64;
        self.reducing = Some(Prr::new(goal, congestion.flight, congestion.in_flight, self.packet));
    }

    fn on_recovered(&mut self, _now: Time) {
        self.reducing = None;
    }

    fn on_timeout(&mut self, _now: Time, flight: Bytes) {
        self.cut(flight);
        self.window = self.packet.get() as f64;
        self.reducing = None;
    }

    fn window(&self) -> Bytes {
        Bytes::new(self.reducing.as_ref().map_or(self.window as u64, Prr::window))
    }
}
