//! PIE, the proportional integral controller enhanced, after RFC 8033 sections 4 and 5.
//!
//! Departures
//! - The queue delay is the wait of the packet that left last (section 4.3 leaves the choice), zero when the queue is empty.
//! - Marks instead of drops up to a drop probability of 10 % (section 5.1); capped steps (section 5.5) and evened-out drops
//!   (section 5.4) are on, the controller is always active (section 5.3 is omitted).

use nearlight_units::{Bytes, Span, Time};

use super::{FULL_PACKET, Verdict};
use crate::hop::Packet;
use crate::random::{Probability, Random};

/// PIE's target; the other constants are RFC 8033's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pie {
    /// `QDELAY_REF`
    pub target: Span,
}

impl Default for Pie {
    /// RFC 8033 section 4.2.
    fn default() -> Self {
        Self { target: Span::from_millis(15) }
    }
}

/// `T_UPDATE`, RFC 8033 section 4.2.
const UPDATE_INTERVAL: Span = Span::from_millis(15);
/// `MAX_BURST`, RFC 8033 section 4.4.
const MAX_BURST: Span = Span::from_millis(150);
/// `alpha` and `beta` in 1/s, RFC 8033 section 4.2.
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
/// The controller's steps shrink with the probability: RFC 8033 section 4.2.
const SCALES: [(f64, f64); 6] =
    [(0.000_001, 2_048.0), (0.000_01, 512.0), (0.000_1, 128.0), (0.001, 32.0), (0.01, 8.0), (0.1, 2.0)];
/// Decay of the probability per update while the queue is empty, RFC 8033 section 4.2.
const IDLE_DECAY: f64 = 0.98;
/// Maximum number of updates made up for after an idle period: over two minutes, after which the state no longer changes.
const MAX_UPDATES: i64 = 10_000;
/// Above this probability a step is at most the second number, RFC 8033 section 5.5.
const LARGE_PROBABILITY_STEP: (f64, f64) = (0.1, 0.02);
/// Up to this probability, an ECN-capable packet is marked, RFC 8033 section 5.1.
const MAX_MARK_PROBABILITY: f64 = 0.1;
/// Bounds of the accumulated probability between which drops are random, RFC 8033 section 5.4.
const DERANDOMIZATION_BOUNDS: (f64, f64) = (0.85, 8.5);

#[derive(Clone, Debug)]
pub(super) struct State {
    target: Span,
    random: Random,
    /// `drop_prob_`
    probability: f64,
    /// `accu_prob_`
    accumulated: f64,
    /// `current_qdelay`
    delay: Span,
    /// `qdelay_old_`
    old_delay: Span,
    /// `burst_allowance_`
    burst: Span,
    next_update: Time,
}

impl State {
    pub(super) fn new(config: Pie, random: Random) -> Self {
        Self {
            target: config.target,
            random,
            probability: 0.0,
            accumulated: 0.0,
            delay: Span::ZERO,
            old_delay: Span::ZERO,
            burst: MAX_BURST,
            next_update: Time::ZERO + UPDATE_INTERVAL,
        }
    }

    pub(super) fn may_mark(&self) -> bool {
        self.probability <= MAX_MARK_PROBABILITY
    }

    /// `packet` arrives at a queue of `bytes`.
    pub(super) fn on_arrival(&mut self, now: Time, bytes: Bytes, packet: &Packet) -> Verdict {
        self.catch_up(now);
        let half = self.target / 2;
        if self.probability == 0.0 && self.delay < half && self.old_delay < half {
            self.burst = MAX_BURST;
        }
        if self.burst > Span::ZERO || !self.drops_early(bytes, packet) { Verdict::Pass } else { Verdict::Signal }
    }

    /// A packet left after waiting for `sojourn`.
    pub(super) fn on_departure(&mut self, now: Time, sojourn: Span, empty: bool) {
        self.catch_up(now);
        self.delay = if empty { Span::ZERO } else { sojourn };
    }

    fn drops_early(&mut self, bytes: Bytes, packet: &Packet) -> bool {
        let calm = self.old_delay < self.target / 2 && self.probability < 0.2;
        if calm || bytes + packet.size <= FULL_PACKET + FULL_PACKET {
            return false;
        }
        self.accumulated = if self.probability == 0.0 { 0.0 } else { self.accumulated + self.probability };
        let drops = self.random.happens(Probability::clamped(self.probability));
        if self.accumulated < DERANDOMIZATION_BOUNDS.0 {
            return false;
        }
        let drops = drops || self.accumulated >= DERANDOMIZATION_BOUNDS.1;
        if drops {
            self.accumulated = 0.0;
        }
        drops
    }

    /// Runs the updates due by `now`; their input does not change between two events.
    fn catch_up(&mut self, now: Time) {
        if self.next_update > now {
            return;
        }
        let due = now.saturating_since(self.next_update).as_nanos() / UPDATE_INTERVAL.as_nanos() + 1;
        let mut run = 0;
        while run < due.min(MAX_UPDATES) && !self.is_at_rest() {
            self.update();
            run += 1;
        }
        self.burst = (self.burst - UPDATE_INTERVAL * (due - run)).max(Span::ZERO);
        self.next_update += UPDATE_INTERVAL * due;
    }

    /// Further updates would only count down the burst allowance.
    fn is_at_rest(&self) -> bool {
        self.probability == 0.0 && self.delay == Span::ZERO && self.old_delay == Span::ZERO
    }

    fn update(&mut self) {
        let above = (self.delay - self.target).as_secs_f64();
        let rising = (self.delay - self.old_delay).as_secs_f64();
        let step = ALPHA * above + BETA * rising;
        let scale = SCALES.iter().find(|(below, _)| self.probability < *below).map_or(1.0, |(_, scale)| *scale);
        let mut step = step / scale;
        if self.probability >= LARGE_PROBABILITY_STEP.0 {
            step = step.min(LARGE_PROBABILITY_STEP.1);
        }
        self.probability += step;
        if self.delay == Span::ZERO && self.old_delay == Span::ZERO {
            self.probability *= IDLE_DECAY;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.old_delay = self.delay;
        self.burst = (self.burst - UPDATE_INTERVAL).max(Span::ZERO);
    }
}
