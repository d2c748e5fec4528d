//! Vivace: the gradient of the utility between two trials determines the next step.

use nearlight_units::Bitrate;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use super::{Chooser, IntervalResult, clamp_rate};

/// Exponent of the rate, weight of the round trip's growth, and weight of losses (section 4.2).
const EXPONENT: f64 = 0.9;
const GRADIENT_WEIGHT: f64 = 900.0;
const LOSS_WEIGHT: f64 = 11.35;
/// Growth of the round trip that counts as zero (section 5: tolerated for noise).
const DEAD_ZONE: f64 = 0.01;
/// Difference between the rates of a pair and the base, as a share (section 4.3).
const TRIAL_STEP: f64 = 0.05;
/// Change of the rate in Mb/s for each unit of the gradient (section 5, theta).
const CONVERSION: f64 = 1.0;
/// The largest change of the rate, as a share, and its growth with each change that it limits (section 5, omega and delta).
const BOUNDARY: f64 = 0.05;
const BOUNDARY_STEP: f64 = 0.1;
/// The maximum of that limit. Guess: at most doubles the rate.
const MAX_BOUNDARY: f64 = 1.0;

/// Mark of a trial that is not part of a pair.
const SINGLE: u32 = 0;
/// Marks of a pair's lower and higher rate.
const LOWER: u32 = 1;
const HIGHER: u32 = 2;

/// Gradient ascent on a utility of rate, loss and the round trip's growth.
#[derive(Debug)]
pub struct Vivace {
    random: Pcg32,
    base: Bitrate,
    /// While the rate is doubled until the utility falls: the last utility.
    #[expect(clippy::option_option, reason = "starting or not; while it is, the last utility may not be known yet")]
    starting: Option<Option<f64>>,
    waiting: Vec<(Bitrate, u32)>,
    /// Utility and rate of the pair's trials.
    lower: Option<(f64, f64)>,
    higher: Option<(f64, f64)>,
    /// Number of changes in one direction, and the direction.
    streak: u32,
    up: bool,
    boundary: f64,
}

impl Vivace {
    pub(super) fn new(base: Bitrate, seed: u64) -> Self {
        let base = clamp_rate(base);
        Self {
            random: Pcg32::seed_from_u64(seed),
            base,
            starting: Some(None),
            waiting: vec![(base, SINGLE)],
            lower: None,
            higher: None,
            streak: 0,
            up: true,
            boundary: BOUNDARY,
        }
    }

    fn rate_of(&self, mark: u32) -> Bitrate {
        clamp_rate(match mark {
            LOWER => self.base.mul_f64(1.0 - TRIAL_STEP),
            HIGHER => self.base.mul_f64(1.0 + TRIAL_STEP),
            _ => self.base,
        })
    }

    fn try_pair(&mut self) {
        (self.starting, self.lower, self.higher) = (None, None, None);
        let marks = if self.random.random::<bool>() { [LOWER, HIGHER] } else { [HIGHER, LOWER] };
        self.waiting.clear();
        for mark in marks {
            self.waiting.push((self.rate_of(mark), mark));
        }
    }

    fn on_start(&mut self, before: Option<f64>, utility: f64) {
        let next = clamp_rate(self.base.mul_f64(2.0));
        if before.is_none_or(|before| utility > before) && next > self.base {
            (self.starting, self.base) = (Some(Some(utility)), next);
            self.waiting.clear();
            self.waiting.push((next, SINGLE));
        } else {
            self.base = clamp_rate(self.base.mul_f64(0.5));
            self.try_pair();
        }
    }

    /// The amplifier of changes, which grows with changes in the same direction (section 5: m).
    fn amplifier(&self) -> f64 {
        f64::from(if self.streak <= 3 { self.streak.max(1) } else { 2 * self.streak - 3 })
    }

    fn on_pair(&mut self) {
        let (Some(lower), Some(higher)) = (self.lower, self.higher) else { return };
        let apart = higher.1 - lower.1;
        if apart <= 0.0 {
            self.try_pair();
            return;
        }
        let gradient = (higher.0 - lower.0) / apart;
        let up = gradient > 0.0;
        self.streak = if up == self.up { (self.streak + 1).min(100) } else { 1 };
        if up != self.up {
            self.boundary = BOUNDARY;
        }
        self.up = up;
        let rate = self.base.as_mbps_f64();
        let wanted = self.amplifier() * CONVERSION * gradient;
        let most = self.boundary * rate;
        if wanted.abs() > most {
            self.boundary = (self.boundary + BOUNDARY_STEP).min(MAX_BOUNDARY);
        } else {
            self.boundary = BOUNDARY;
        }
        let next = rate + wanted.clamp(-most, most);
        self.base = clamp_rate(Bitrate::from_bps((next.max(0.0) * 1e6) as u64));
        self.try_pair();
    }
}

impl Chooser for Vivace {
    fn name(&self) -> &'static str {
        "pcc-vivace"
    }

    fn poll_trial(&mut self) -> Option<(Bitrate, u32)> {
        self.waiting.pop()
    }

    fn base(&self) -> Bitrate {
        self.base
    }

    /// The utility (section 4.2, equation 1).
    fn utility(&self, result: &IntervalResult) -> f64 {
        let growth = if result.gradient > DEAD_ZONE { result.gradient } else { 0.0 };
        let rate = result.mbps();
        libm::pow(rate, EXPONENT) - GRADIENT_WEIGHT * rate * growth - LOSS_WEIGHT * rate * result.loss
    }

    fn on_result(&mut self, mark: u32, result: &IntervalResult) {
        let utility = self.utility(result);
        match (mark, self.starting) {
            (LOWER, None) => self.lower = Some((utility, result.mbps())),
            (HIGHER, None) => self.higher = Some((utility, result.mbps())),
            (SINGLE, Some(before)) => return self.on_start(before, utility),
            _ => return,
        }
        self.on_pair();
    }

    fn on_void(&mut self, mark: u32) {
        self.waiting.push((self.rate_of(mark), mark));
    }

    fn on_timeout(&mut self) {
        self.base = clamp_rate(self.base.mul_f64(0.5));
        (self.streak, self.boundary) = (0, BOUNDARY);
        self.try_pair();
    }
}
