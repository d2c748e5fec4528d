//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus-01): less than best effort, by keeping the queueing delay below 60 ms.
//!
//! The delay is the round trip's excess over the lowest of the last ten minutes. The window grows as Reno's, but slower on short paths, and
//! shrinks in proportion to the window and to the excess of the delay over the target. From time to time it is reduced to two packets, so
//! that the path's own round trip can be measured.
//!
//! # Departures
//! * The window does not grow while something else limits the sender.
//! * After losses the window is reduced over a round trip (RFC 6937), to half of the flight.

use nearlight_units::{Bytes, Span, Time, smoothed};

use super::prr::Prr;
use super::rounds::Rounds;
use super::timed_minimum::TimedMinimum;
use super::{AckSample, Congestion, CongestionLaw, INITIAL_WINDOW};

/// The target queueing delay (section 4.2, `TARGET`).
const TARGET: Span = Span::from_millis(60);
/// Time over which the minimum round trip is taken (RFC 6817, `BASE_HISTORY`).
const MIN_ROUND_TRIP_WINDOW: Span = Span::from_secs(600);
/// The gain is at least one over this (section 4.2).
const MAX_GAIN_DIVISOR: i64 = 16;
/// Slow start ends at this share of the target delay (section 4.4).
const SLOW_START_SHARE: f64 = 0.75;
/// The window during a slow-down, in packets, and the number of round trips it stays there (section 4.4).
const SLOW_WINDOW: f64 = 2.0;
const SLOW_ROUNDS: i64 = 2;
/// The time between two slow-downs, in lengths of the last one (section 4.4).
const SLOW_DOWN_INTERVAL: i64 = 9;
/// The share of the window that remains after a loss (RFC 5681).
const BETA: f64 = 0.5;

/// The state of the slow-downs, which measure the path's own round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlowDown {
    /// Before the first slow-down, which comes two round trips after slow start.
    Never,
    /// No slow-down until then.
    Waiting { until: Time },
    /// The window is two packets until then.
    Down { began: Time, until: Time },
    /// Slow start back to the threshold.
    Regaining { began: Time },
}

/// Background transfer.
#[derive(Debug)]
pub struct LedbatPlusPlus {
    packet: Bytes,
    /// The window in packets.
    window: f64,
    threshold: f64,
    smoothed: Option<Span>,
    lowest: TimedMinimum,
    /// The lowest round trip of the last round trip's time.
    current: TimedMinimum,
    rounds: Rounds,
    slow: SlowDown,
    reducing: Option<Prr>,
}

impl LedbatPlusPlus {
    #[must_use]
    pub fn new(packet: Bytes) -> Self {
        Self {
            packet: packet.max(Bytes::new(1)),
            window: INITIAL_WINDOW as f64,
            threshold: f64::INFINITY,
            smoothed: None,
            lowest: TimedMinimum::default(),
            current: TimedMinimum::default(),
            rounds: Rounds::default(),
            slow: SlowDown::Never,
            reducing: None,
        }
    }

    /// The factor of growth (section 4.2, `GAIN`).
    fn gain(&self) -> f64 {
        let Some(lowest) = self.lowest.value() else { return 1.0 };
        let divisor = ((TARGET * 2).as_nanos() as u64).div_ceil(lowest.as_nanos().max(1).cast_unsigned());
        1.0 / divisor.clamp(1, MAX_GAIN_DIVISOR.cast_unsigned()) as f64
    }

    fn delay(&self) -> Span {
        match (self.current.value(), self.lowest.value()) {
            (Some(current), Some(lowest)) => current - lowest,
            _ => Span::ZERO,
        }
    }

    fn update_slow(&mut self, now: Time) {
        let round_trip = self.smoothed.unwrap_or(Span::ZERO);
        match self.slow {
            SlowDown::Never if self.window >= self.threshold => {
                self.slow = SlowDown::Waiting { until: now + round_trip * 2 }
            }
            SlowDown::Waiting { until } if now >= until => {
                self.threshold = self.window.max(SLOW_WINDOW);
                self.window = SLOW_WINDOW;
                self.slow = SlowDown::Down { began: now, until: now + round_trip * SLOW_ROUNDS };
            }
            SlowDown::Down { began, until } if now >= until => self.slow = SlowDown::Regaining { began },
            SlowDown::Regaining { began } if self.window >= self.threshold => {
                self.slow = SlowDown::Waiting { until: now + (now - began) * SLOW_DOWN_INTERVAL };
            }
            _ => {}
        }
    }

    fn grow(&mut self, sample: &AckSample, round_began: bool) {
        let acked = sample.acked.get() as f64 / self.packet.get() as f64;
        let delay = self.delay();
        if self.window < self.threshold {
            // Only the first slow start considers the delay: later ones return to the former window.
            if self.slow == SlowDown::Never && delay > TARGET.mul_f64(SLOW_START_SHARE) {
                self.threshold = self.window;
            } else if sample.window_limited {
                self.window = (self.window + acked * self.gain()).min(self.threshold);
            }
            return;
        }
        let over = delay.as_secs_f64() / TARGET.as_secs_f64();
        if over < 1.0 {
            self.window += if sample.window_limited { self.gain() * acked / self.window } else { 0.0 };
        } else if round_began {
            let change = (self.gain() - self.window * (over - 1.0)).max(-self.window / 2.0);
            self.window = (self.window + change).max(SLOW_WINDOW);
        }
    }
}

impl CongestionLaw for LedbatPlusPlus {
    fn name(&self) -> &'static str {
        "ledbat++"
    }

    fn on_sent(&mut self, _now: Time, size: Bytes, _in_flight: Bytes) {
        if let Some(reducing) = &mut self.reducing {
            reducing.on_sent(size);
        }
    }

    fn on_ack(&mut self, now: Time, sample: &AckSample) {
        if let Some(round_trip) = sample.round_trip.map(|round_trip| round_trip.max(Span::from_nanos(1))) {
            let smoothed = smoothed(self.smoothed, round_trip);
            self.smoothed = Some(smoothed);
            self.lowest.on_value(now, round_trip, MIN_ROUND_TRIP_WINDOW);
            self.current.on_value(now, round_trip, smoothed);
        }
        let round_began = self.rounds.on_ack(sample.delivered, sample.delivered_when_sent);
        if let Some(reducing) = &mut self.reducing {
            reducing.on_ack(sample.acked, sample.in_flight);
            return;
        }
        self.update_slow(now);
        if !matches!(self.slow, SlowDown::Down { .. }) {
            self.grow(sample, round_began);
        }
    }

    fn on_loss(&mut self, _now: Time, congestion: &Congestion) {
        let flight = congestion.flight.get() as f64 / self.packet.get() as f64;
        self.threshold = (flight * BETA).max(SLOW_WINDOW);
        self.window = self.threshold;
        let goal = (self.threshold * self.packet.get() as f64) as u64;
        self.reducing = Some(Prr::new(goal, congestion.flight, congestion.in_flight, self.packet));
    }

    fn on_recovered(&mut self, _now: Time) {
        self.reducing = None;
    }

    fn on_timeout(&mut self, _now: Time, flight: Bytes) {
        self.threshold = (flight.get() as f64 / self.packet.get() as f64 * BETA).max(SLOW_WINDOW);
        self.window = 1.0;
        self.reducing = None;
    }

    fn window(&self) -> Bytes {
        let window = (self.window * self.packet.get() as f64) as u64;
        Bytes::new(self.reducing.as_ref().map_or(window, Prr::window))
    }
}
