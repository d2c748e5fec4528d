//! CUBIC (RFC 9438): after a loss the window follows a cubic function of time around the window at which the loss occurred.
//!
//! # Departures
//! * The window is reduced by proportional rate reduction (RFC 6937), as RFC 9438 section 4.6 recommends.
//! * Time during which the window does not limit the sender does not count as the cubic's time; section 4.2.1 requires this of idle
//!   time. An unused window does not decay (RFC 7661).
//! * The window of the Reno-friendly region keeps its slope of 0.529 beyond the window before the loss, where section 4.3 would make it 1:
//!   Linux 6.18 has no such change, and with it random losses made ours 7 % faster than Linux's over short round trips.
//! * A loss found to be spurious is not undone (section 4.9 makes it optional).
//! * Slow start ends by `HyStart++` (RFC 9406), which [`CubicOptions`] can switch off; Linux has the older `HyStart`.

use nearlight_units::{Bytes, Span, Time, smoothed_to_nearest};

use super::hystart::{Advice, HyStart};
use super::prr::Prr;
use super::{AckSample, Congestion, CongestionLaw, INITIAL_WINDOW};

/// The cubic's coefficient in packets per second cubed (RFC 9438, section 5, `C`).
const STEEPNESS: f64 = 0.4;
/// The share of the window that remains after a loss (RFC 9438, section 4.6, `beta_cubic`).
pub const BETA: f64 = 0.7;
/// Packets per round trip that give Reno's mean window with this `BETA` (section 4.3, `alpha_cubic`): 0.529.
const FRIENDLY_INCREASE: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// The maximum growth factor of the cubic in a round trip (section 4.2).
const MAX_GROWTH: f64 = 1.5;
/// The lowest threshold, in packets (section 4.6).
const MIN_THRESHOLD: f64 = 2.0;

/// Optional parts of the law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CubicOptions {
    /// Whether slow start ends when round trips grow (RFC 9406).
    pub hystart: bool,
    /// Whether a flow whose window shrinks yields more (section 4.7).
    pub fast_convergence: bool,
}

impl Default for CubicOptions {
    fn default() -> Self {
        Self { hystart: true, fast_convergence: true }
    }
}

/// One period of congestion avoidance. Windows are in packets.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Time,
    plateau: f64, // W_max
    /// Seconds from the beginning to the plateau.
    climb: f64, // K
    friendly: f64, // W_est
}

impl Epoch {
    /// The cubic's window this many seconds after the beginning.
    fn window(&self, seconds: f64) -> f64 {
        let from_plateau = seconds - self.climb;
        STEEPNESS * from_plateau * from_plateau * from_plateau + self.plateau
    }
}

/// The default law of most TCP implementations.
#[derive(Debug)]
pub struct Cubic {
    options: CubicOptions,
    packet: Bytes,
    /// The window in packets, like all windows here.
    window: f64, // cwnd
    threshold: f64,       // ssthresh
    plateau: Option<f64>, // W_max
    epoch: Option<Epoch>,
    hystart: Option<HyStart>,
    round_trip: Option<Span>,
    last_ack: Time,
    reducing: Option<Prr>,
}

impl Cubic {
    #[must_use]
    pub fn new(packet: Bytes, options: CubicOptions) -> Self {
        let packet = packet.max(Bytes::new(1));
        Self {
            options,
            packet,
            window: INITIAL_WINDOW as f64,
            threshold: f64::INFINITY,
            plateau: None,
            epoch: None,
            hystart: options.hystart.then(|| HyStart::new(packet)),
            round_trip: None,
            last_ack: Time::ZERO,
            reducing: None,
        }
    }

    fn packets(&self, bytes: f64) -> f64 {
        bytes / self.packet.get() as f64
    }

    fn slow_start(&mut self, sample: &AckSample) {
        let advice = match &mut self.hystart {
            Some(hystart) if self.plateau.is_none() => hystart.on_ack(sample),
            _ => Advice::Grow(sample.acked.get() as f64),
        };
        match advice {
            Advice::Grow(bytes) if sample.window_limited => {
                self.window = (self.window + self.packets(bytes)).min(self.threshold.max(self.window));
            }
            Advice::Grow(_) => {}
            Advice::Leave => self.threshold = self.window,
        }
    }

    fn begin_epoch(&self, now: Time) -> Epoch {
        // Without a loss to remember, the cubic starts on its plateau (section 4.10).
        let plateau = self.plateau.unwrap_or(self.window).max(self.window);
        // The portable cube root: the platform's own differs in the last digit between machines.
        let climb = libm::cbrt((plateau - self.window) / STEEPNESS);
        Epoch { began: now, plateau, climb, friendly: self.window }
    }

    fn avoid_congestion(&mut self, now: Time, sample: &AckSample) {
        let mut epoch = self.epoch.unwrap_or_else(|| self.begin_epoch(now));
        if !sample.window_limited {
            epoch.began += now.saturating_since(self.last_ack.max(epoch.began));
            self.epoch = Some(epoch);
            return;
        }
        let acked = self.packets(sample.acked.get() as f64);
        epoch.friendly += FRIENDLY_INCREASE * acked / self.window;
        let seconds = now.saturating_since(epoch.began).as_secs_f64();
        if epoch.window(seconds) < epoch.friendly {
            self.window = self.window.max(epoch.friendly);
        } else {
            let ahead = self.round_trip.unwrap_or(Span::ZERO).as_secs_f64();
            let target = epoch.window(seconds + ahead).clamp(self.window, MAX_GROWTH * self.window);
            self.window += (target - self.window) / self.window * acked;
        }
        self.epoch = Some(epoch);
    }

    fn cut(&mut self, flight: Bytes) {
        self.threshold = (self.packets(flight.get() as f64) * BETA).max(MIN_THRESHOLD);
        self.epoch = None;
    }
}

impl CongestionLaw for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn on_sent(&mut self, _now: Time, size: Bytes, _in_flight: Bytes) {
        if let Some(reducing) = &mut self.reducing {
            reducing.on_sent(size);
        }
    }

    fn on_ack(&mut self, now: Time, sample: &AckSample) {
        if let Some(round_trip) = sample.round_trip {
            self.round_trip = Some(smoothed_to_nearest(self.round_trip, round_trip));
        }
        if let Some(reducing) = &mut self.reducing {
            reducing.on_ack(sample.acked, sample.in_flight);
        } else if self.window < self.threshold {
            self.slow_start(sample);
        } else {
            self.avoid_congestion(now, sample);
        }
        self.last_ack = now;
    }

    fn on_loss(&mut self, _now: Time, congestion: &Congestion) {
        let shrinking = self.options.fast_convergence && self.plateau.is_some_and(|plateau| self.window < plateau);
        self.plateau = Some(if shrinking { self.window * (1.0 + BETA) / 2.0 } else { self.window });
        self.cut(congestion.flight);
        self.window = self.threshold;
        let goal = (self.threshold * self.packet.get() as f64) as u64;
        self.reducing = Some(Prr::new(goal, congestion.flight, congestion.in_flight, self.packet));
    }

    fn on_recovered(&mut self, _now: Time) {
        self.reducing = None;
    }

    fn on_timeout(&mut self, _now: Time, flight: Bytes) {
        self.cut(flight);
        // The next congestion avoidance starts on its plateau (section 4.8).
        self.plateau = None;
        self.hystart = None;
        self.window = 1.0;
        self.reducing = None;
    }

    fn window(&self) -> Bytes {
        let window = (self.window * self.packet.get() as f64) as u64;
        Bytes::new(self.reducing.as_ref().map_or(window, Prr::window))
    }
}

#[cfg(test)]
#[path = "cubic_tests.rs"]
mod tests;
