//! Quantities that wander: log-normal, with a memory.

use nearlight_units::Span;

use crate::random::Random;

/// A first-order autoregression that starts in its long-run state.
#[derive(Clone, Debug)]
pub(crate) struct Autoregression {
    deviation: f64,
    value: f64,
}

impl Autoregression {
    pub(crate) fn new(deviation: f64, random: &mut Random) -> Self {
        Self { deviation, value: deviation * random.normal() }
    }

    /// The next value, which keeps the fraction `kept` (0 to 1) of the previous one.
    pub(crate) fn next(&mut self, kept: f64, random: &mut Random) -> f64 {
        let fresh = (1.0 - kept * kept).max(0.0).sqrt() * self.deviation;
        self.value = kept * self.value + fresh * random.normal();
        self.value
    }
}

/// The fraction of the logarithm's value retained after `elapsed`; it falls to 1/e within `memory`.
pub(crate) fn kept(elapsed: Span, memory: Span) -> f64 {
    libm::exp(-elapsed.as_secs_f64() / memory.as_secs_f64().max(1e-9))
}

/// Deviation of the logarithm of a log-normal quantity whose own deviation is `variation` times its mean.
pub(crate) fn logarithm_deviation(variation: f64) -> f64 {
    libm::log(1.0 + variation * variation).sqrt()
}
