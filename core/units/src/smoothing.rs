//! Moving averages of round trips and intervals (RFC 6298, section 2).

use crate::Span;

/// Returns the mean (SRTT) with one more sample, which has a weight of 1/8 (alpha). The first sample is the mean. The step towards the
/// sample is truncated to whole nanoseconds.
#[must_use]
#[inline]
pub fn smoothed(mean: impl Into<Option<Span>>, sample: Span) -> Span {
    mean.into().map_or(sample, |mean| mean + (sample - mean) / 8)
}

/// Returns the mean as [`smoothed`] does, with the step rounded to the nearest nanosecond. Results recorded with rate controllers and with
/// CUBIC depend on it.
#[must_use]
#[inline]
pub fn smoothed_to_nearest(mean: impl Into<Option<Span>>, sample: Span) -> Span {
    mean.into().map_or(sample, |mean| mean + (sample - mean).mul_f64(0.125))
}

/// Returns the mean deviation (RTTVAR) with one more sample, whose distance from the mean has a weight of 1/4 (beta).
#[must_use]
#[inline]
pub fn smoothed_deviation(deviation: Span, mean: Span, sample: Span) -> Span {
    deviation + ((sample - mean).abs() - deviation) / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_s_weights() {
        let [first, second] = [800, 1_600].map(Span::from_millis);
        assert_eq!(smoothed(None, first), first);
        assert_eq!(smoothed(first, second), Span::from_millis(900));
        assert_eq!(smoothed_deviation(first / 2, first, second), Span::from_millis(500));
    }

    #[test]
    fn a_step_is_truncated_or_rounded() {
        let [mean, sample] = [100, 106].map(Span::from_nanos);
        assert_eq!(smoothed(mean, sample), mean);
        assert_eq!(smoothed_to_nearest(mean, sample), Span::from_nanos(101));
        assert_eq!(smoothed_to_nearest(sample, mean), Span::from_nanos(105));
    }
}
