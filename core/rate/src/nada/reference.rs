//! The sender's two laws of the reference rate (RFC 8698 section 4.3).

use nearlight_units::{Bitrate, Span};

/// Scaling of gradual updates (`KAPPA`), and of the signal's change (`ETA`).
const KAPPA: f64 = 0.5;
const ETA: f64 = 2.0;
/// Upper bound of the round trip in gradual updates (`TAU`).
const TAU: Span = Span::from_millis(500);
/// The highest gain of ramp-up over the arriving rate (`GAMMA_MAX`), the queue that it may cause (`QBOUND`), and the delay of filters
/// (`DFILT`).
const MAX_GAMMA: f64 = 0.5;
const QUEUE_BOUND: Span = Span::from_millis(50);
const FILTER_DELAY: Span = Span::from_millis(120);
/// Intended time between updates (`DELTA`).
pub const UPDATE_INTERVAL: Span = Span::from_millis(100);

/// The parameters that determine where the rate settles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Equilibrium {
    /// Weight of the flow (`PRIO`).
    pub priority: f64,
    /// The signal at which the highest rate is reached (`XREF`).
    pub signal: Span,
    /// The highest rate (`RMAX`): it tunes more than it limits, because the signal settles in proportion to it.
    pub maximum: Bitrate,
}

impl Equilibrium {
    /// The signal at which `rate` stays: `PRIO * XREF * RMAX / rate`.
    #[must_use]
    pub fn at(&self, rate: Bitrate) -> Span {
        let share = self.maximum.as_bps() as f64 / rate.as_bps().max(1) as f64;
        self.signal.mul_f64(self.priority * share)
    }
}

/// The relative amount by which ramp-up exceeds the arriving rate (`gamma`).
#[must_use]
pub fn ramp_up_gain(round_trip: Span) -> f64 {
    let wait = round_trip.max(Span::ZERO) + UPDATE_INTERVAL + FILTER_DELAY;
    (QUEUE_BOUND.as_secs_f64() / wait.as_secs_f64()).min(MAX_GAMMA)
}

/// The rate after an accelerated ramp-up.
#[must_use]
pub fn ramped_up(rate: Bitrate, arriving: Bitrate, gain: f64) -> Bitrate {
    rate.max(arriving.mul_f64(1.0 + gain))
}

/// The rate after a gradual update, `passed` after the previous one, with the present and the previous signal.
#[must_use]
pub fn gradual(rate: Bitrate, equilibrium: &Equilibrium, passed: Span, (now, before): (Span, Span)) -> Bitrate {
    let per_tau = |span: Span| span.as_secs_f64() / TAU.as_secs_f64();
    let offset = per_tau(now - equilibrium.at(rate));
    let change = per_tau(now - before);
    rate.mul_f64(1.0 - KAPPA * per_tau(passed) * offset - KAPPA * ETA * change)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EQUILIBRIUM: Equilibrium =
        Equilibrium { priority: 1.0, signal: Span::from_millis(10), maximum: Bitrate::from_mbps(70) };

    #[test]
    fn the_rate_stays_at_its_equilibrium_and_moves_towards_it() {
        let rate = Bitrate::from_mbps(35);
        let x = EQUILIBRIUM.at(rate);
        assert_eq!(x, Span::from_millis(20), "PRIO * XREF * RMAX / r");
        let updated = |signal: Span, before: Span| gradual(rate, &EQUILIBRIUM, UPDATE_INTERVAL, (signal, before));
        assert_eq!(updated(x, x), rate);
        // 0.5 * (100 / 500) * (10 / 500) of the rate.
        let more = x + Span::from_millis(10);
        assert_eq!(updated(more, more), Bitrate::from_kbps(34_930));
        // Besides, 0.5 * 2 * (10 / 500) of the rate for the change.
        assert_eq!(updated(more, x), Bitrate::from_kbps(34_230));
    }

    #[test]
    fn a_queue_in_a_closed_loop_settles_at_prio_xref_rmax_over_r() {
        // A fluid queue in front of 35 Mb/s, the rate applied at once, an update each 100 ms.
        for (maximum, priority) in [(50, 1.0), (70, 1.0), (150, 1.0), (70, 2.0)] {
            let equilibrium = Equilibrium { priority, maximum: Bitrate::from_mbps(maximum), ..EQUILIBRIUM };
            let capacity = 35e6;
            let (mut rate, mut queue, mut before) = (Bitrate::from_mbps(20), 0.0_f64, Span::ZERO);
            for _ in 0..3_000 {
                queue = (queue + (rate.as_bps() as f64 - capacity) * 0.1 / capacity).max(0.0);
                let signal = Span::from_secs_f64(queue);
                rate = gradual(rate, &equilibrium, UPDATE_INTERVAL, (signal, before));
                before = signal;
            }
            let expected = priority * 0.010 * maximum as f64 / 35.0;
            assert!((queue / expected - 1.0).abs() < 0.01, "{queue} {expected}");
            assert!((rate.as_bps() as f64 / capacity - 1.0).abs() < 0.01, "{rate}");
        }
    }

    #[test]
    fn ramp_up_dares_what_the_round_trip_allows() {
        assert!((ramp_up_gain(Span::from_millis(30)) - 0.2).abs() < 1e-12);
        assert!((ramp_up_gain(Span::ZERO) - 50.0 / 220.0).abs() < 1e-12);
        let mbps = Bitrate::from_mbps;
        assert_eq!(ramped_up(mbps(10), mbps(20), 0.2), mbps(24));
        assert_eq!(ramped_up(mbps(30), mbps(20), 0.2), mbps(30));
    }
}
