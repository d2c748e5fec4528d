//! Moving averages of round trips and intervals (RFC 6298).

use nearlight_units::Span;

/// Weight of a new sample (RFC 6298, alpha).
pub(crate) const WEIGHT: f64 = 0.125;

/// Returns the mean updated by a sample. The first sample is the mean.
pub(crate) fn smoothed(mean: Option<Span>, sample: Span) -> Span {
    mean.map_or(sample, |mean| mean + (sample - mean).mul_f64(WEIGHT))
}
