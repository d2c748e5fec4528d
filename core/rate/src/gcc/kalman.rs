//! The growth of delay from group to group: a Kalman filter with one state (draft-ietf-rmcat-gcc-02 section 5.3).

use std::collections::VecDeque;

use nearlight_units::Span;

/// Variance that the state gains with each group (draft `q`), and that of the initial state (`e(0)`).
const STATE_NOISE: f64 = 1e-3;
const INITIAL_ERROR: f64 = 0.1;
/// The lowest variance of measurements, in square milliseconds (the `max` in `var_v_hat`).
const MIN_NOISE: f64 = 1.0;
/// A change further from the state than this many standard deviations counts as no more than that in the variance (draft section 5.3).
const OUTLIER_DEVIATIONS: f64 = 3.0;
/// Number of groups over which the highest rate is taken, which determines how fast variance is forgotten (`K`; the draft's recommended
/// value).
const RATE_WINDOW: usize = 60;

/// How fast the variance of measurements is forgotten.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Forgetting {
    /// The share `(1 - chi)^(30 / (1000 f_max))` is kept, with the highest recent rate `f_max` in groups per millisecond.
    ByRate { chi: f64 },
    /// A constant share is kept.
    Constant(f64),
}

/// The filter. All values are in milliseconds.
#[derive(Clone, Debug)]
pub struct Kalman {
    forgetting: Forgetting,
    estimate: f64,
    error: f64,
    noise: f64,
    /// Times between groups as sent, newest last.
    intervals: VecDeque<Span>,
}

impl Kalman {
    #[must_use]
    pub fn new(forgetting: Forgetting) -> Self {
        Self {
            forgetting,
            estimate: 0.0,
            error: INITIAL_ERROR,
            noise: MIN_NOISE,
            intervals: VecDeque::with_capacity(RATE_WINDOW + 1),
        }
    }

    /// Handles a change of delay from one group to the next, which was sent `interval` later. Returns the growth per group (`m`).
    pub fn on_change(&mut self, change: Span, interval: Span) -> f64 {
        let residual = change.as_millis_f64() - self.estimate;
        let kept = self.kept(interval);
        let counted = residual.min(OUTLIER_DEVIATIONS * self.noise.sqrt());
        self.noise = (kept * self.noise + (1.0 - kept) * counted * counted).max(MIN_NOISE);
        let uncertainty = self.error + STATE_NOISE;
        let gain = uncertainty / (self.noise + uncertainty);
        self.estimate += gain * residual;
        self.error = (1.0 - gain) * uncertainty;
        self.estimate
    }

    /// Number of samples in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.intervals.len()
    }

    /// The share of the variance that is kept after this group (`alpha`).
    fn kept(&mut self, interval: Span) -> f64 {
        let Forgetting::ByRate { chi } = self.forgetting else {
            let Forgetting::Constant(kept) = self.forgetting else { return 1.0 };
            return kept;
        };
        if self.intervals.len() == RATE_WINDOW {
            self.intervals.pop_front();
        }
        self.intervals.push_back(interval);
        let shortest = self.intervals.iter().min().map_or(0.0, |shortest| shortest.as_millis_f64().max(0.0));
        (1.0 - chi).powf(30.0 * shortest / 1_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: Span = Span::from_millis(33);

    #[test]
    fn the_first_steps_are_those_of_the_formulas() {
        let mut kalman = Kalman::new(Forgetting::ByRate { chi: 0.01 });
        // z = 2: alpha = 0.99^0.99, var = max(alpha + (1 - alpha) * 4, 1), k = 0.101 / (var + 0.101).
        let alpha = 0.99_f64.powf(0.99);
        let noise = alpha + (1.0 - alpha) * 4.0;
        let gain = 0.101 / (noise + 0.101);
        assert!((kalman.on_change(Span::from_millis(2), GROUP) - 2.0 * gain).abs() < 1e-12);
        assert!((kalman.error - (1.0 - gain) * 0.101).abs() < 1e-12);
        // z = 100 counts as three standard deviations in the variance, but moves the state as it is.
        let before = kalman.estimate;
        let uncertainty = kalman.error + 1e-3;
        let noise = alpha * noise + (1.0 - alpha) * 9.0 * noise;
        let gain = uncertainty / (noise + uncertainty);
        let change = Span::from_secs_f64((100.0 + before) / 1e3);
        assert!((kalman.on_change(change, GROUP) - (before + 100.0 * gain)).abs() < 1e-4);
    }

    #[test]
    fn with_the_least_noise_the_gain_settles_where_error_gained_equals_error_lost() {
        let mut kalman = Kalman::new(Forgetting::Constant(1.0));
        for _ in 0..2_000 {
            kalman.on_change(Span::ZERO, GROUP);
        }
        // E = e + q solves E = E / (E + 1) + q.
        let settled = f64::midpoint(1e-3, (1e-6_f64 + 4e-3).sqrt());
        assert!((kalman.error + 1e-3 - settled).abs() < 1e-9, "{}", kalman.error);
        let step = kalman.on_change(Span::from_millis(1), GROUP);
        assert!((step - settled / (settled + 1.0)).abs() < 1e-9, "{step}");
    }

    #[test]
    fn steady_growth_is_found_exactly() {
        for growth in [-1_500, 0, 300, 2_000] {
            let mut kalman = Kalman::new(Forgetting::ByRate { chi: 0.01 });
            let change = Span::from_micros(growth);
            let found = (0..1_000).map(|_| kalman.on_change(change, GROUP)).last().expect("a thousand");
            assert!((found - change.as_millis_f64()).abs() < 1e-6, "{growth}: {found}");
        }
    }

    #[test]
    fn groups_that_come_faster_forget_slower() {
        let mut slow = Kalman::new(Forgetting::ByRate { chi: 0.1 });
        let mut fast = slow.clone();
        slow.on_change(Span::from_millis(3), Span::from_millis(50));
        fast.on_change(Span::from_millis(3), Span::from_millis(10));
        assert!(slow.noise > fast.noise && fast.noise > 1.0, "{} {}", slow.noise, fast.noise);
        // The variances after one step are alpha + (1 - alpha) * 9, with 0.9 to the power of 1.5 and 0.3.
        assert!((slow.noise - (9.0 - 8.0 * 0.9_f64.powf(1.5))).abs() < 1e-12);
        assert!((fast.noise - (9.0 - 8.0 * 0.9_f64.powf(0.3))).abs() < 1e-12);
    }
}
