//! The trend of the queue: the slope of smoothed delay against an adaptive threshold.

use std::collections::VecDeque;

use nearlight_units::RemoteTime;

use super::detector::{Detector, DetectorOptions, Growth, Usage};
use super::groups::Delta;

/// Number of samples to which a slope is fitted (libwebrtc `kDefaultTrendlineWindowSize`).
const WINDOW_SAMPLES: usize = 20;
/// Weight of history in the smoothed delay (`kDefaultTrendlineSmoothingCoeff`).
const SMOOTHING: f64 = 0.9;
/// Factor from slope to metric (`kDefaultTrendlineThresholdGain`).
const GAIN: f64 = 4.0;

/// Fits a line through smoothed one-way delay: libwebrtc `TrendlineEstimator`.
#[derive(Clone, Debug)]
pub struct Trendline {
    first_arrival: Option<RemoteTime>,
    /// Sum of delay changes, in milliseconds.
    delay: f64,
    smoothed: f64,
    /// Arrival since the first one and smoothed delay, both in milliseconds.
    history: VecDeque<(f64, f64)>,
    slope: f64,
    detector: Detector,
}

impl Default for Trendline {
    fn default() -> Self {
        Self {
            first_arrival: None,
            delay: 0.0,
            smoothed: 0.0,
            history: VecDeque::with_capacity(WINDOW_SAMPLES + 1),
            slope: 0.0,
            detector: Detector::new(DetectorOptions::LIBWEBRTC),
        }
    }
}

impl Trendline {
    pub fn on_delta(&mut self, delta: &Delta) {
        let first_arrival = *self.first_arrival.get_or_insert(delta.arrived_at);
        self.delay += (delta.arrived - delta.sent).as_millis_f64();
        self.smoothed = SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * self.delay;
        let at = delta.arrived_at - first_arrival;
        self.history.push_back((at.as_millis_f64(), self.smoothed));
        if self.history.len() > WINDOW_SAMPLES {
            self.history.pop_front();
        }
        if self.history.len() == WINDOW_SAMPLES {
            self.slope = fitted_slope(&self.history).unwrap_or(self.slope);
        }
        self.detector.on_growth(&Growth { trend: self.slope, gain: GAIN, length: delta.sent, at });
    }

    /// Resets the growth counted so far, for example because feedback no longer covers it.
    pub fn drop_hypothesis(&mut self) {
        self.detector.drop_hypothesis();
    }

    #[must_use]
    pub fn usage(&self) -> Usage {
        self.detector.usage()
    }

    /// Growth of one-way delay per time; 0.1 is 100 ms a second (libwebrtc `trend`).
    #[must_use]
    pub fn slope(&self) -> f64 {
        self.slope
    }

    /// Number of samples in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.history.len()
    }
}

/// Returns the slope of a least-squares fit. None if all points have the same abscissa.
fn fitted_slope(points: &VecDeque<(f64, f64)>) -> Option<f64> {
    let count = points.len() as f64;
    let (sum_x, sum_y) = points.iter().fold((0.0, 0.0), |(xs, ys), (x, y)| (xs + x, ys + y));
    let (mean_x, mean_y) = (sum_x / count, sum_y / count);
    let (mut numerator, mut denominator) = (0.0, 0.0);
    for (x, y) in points {
        numerator += (x - mean_x) * (y - mean_y);
        denominator += (x - mean_x) * (x - mean_x);
    }
    (denominator > 0.0).then(|| numerator / denominator)
}

#[cfg(test)]
mod tests {
    use nearlight_units::Span;

    use super::*;

    /// Applies a path whose delay grows by `growth` microseconds with each group of 10 ms.
    fn ramp(trendline: &mut Trendline, from: u64, groups: u64, growth: i64) {
        for number in from..from + groups {
            let sent = Span::from_millis(10);
            let arrived = sent + Span::from_micros(growth);
            let arrived_at = RemoteTime::from_secs(1) + arrived * number as i64;
            trendline.on_delta(&Delta { sent, arrived, arrived_at });
        }
    }

    #[test]
    fn the_slope_of_a_ramp_is_its_growth_over_its_duration() {
        for growth in [-2_000_i64, -100, 0, 50, 1_000] {
            let mut trendline = Trendline::default();
            // The smoothing filter has forgotten its start after 200 samples: 0.9^200 < 1e-9.
            ramp(&mut trendline, 0, 200, growth);
            let expected = growth as f64 / (10_000.0 + growth as f64);
            assert!((trendline.slope() - expected).abs() < 1e-6, "{growth}: {} != {expected}", trendline.slope());
        }
    }

    #[test]
    fn growth_shrinkage_and_neither_are_distinguished() {
        // The metric is 60 * slope * 4: 5.2 % of growth is at the starting threshold of 12.5.
        for (growth, usage) in [(1_000, Usage::Over), (0, Usage::Normal), (-1_000, Usage::Under)] {
            let mut trendline = Trendline::default();
            ramp(&mut trendline, 0, 20, 0);
            let seen = (20..50).any(|number| {
                ramp(&mut trendline, number, 1, growth);
                trendline.usage() == usage
            });
            assert!(seen, "{growth}: {:?}", trendline.usage());
        }
    }

    #[test]
    fn over_use_is_seen_within_150_ms_of_a_queue_growing_by_a_fifth() {
        let mut trendline = Trendline::default();
        ramp(&mut trendline, 0, 60, 0);
        let seen = (0..15).position(|number| {
            ramp(&mut trendline, 60 + number, 1, 2_000);
            trendline.usage() == Usage::Over
        });
        assert!(seen.is_some());
    }

    #[test]
    fn the_threshold_falls_to_the_metric_exponentially_and_stays_in_its_bounds() {
        let mut trendline = Trendline::default();
        // A flat path: threshold *= 1 - 0.039 * 10 with each sample of 10 ms, from the third on, down to 6.
        ramp(&mut trendline, 0, 3, 0);
        let threshold = trendline.detector.threshold();
        assert!((threshold - 12.5 * 0.61).abs() < 1e-9, "{threshold}");
        ramp(&mut trendline, 3, 100, 0);
        assert!((trendline.detector.threshold() - 6.0).abs() < 1e-9);
    }

    #[test]
    fn a_dropped_hypothesis_must_build_up_again() {
        let mut trendline = Trendline::default();
        ramp(&mut trendline, 0, 60, 0);
        ramp(&mut trendline, 60, 15, 2_000);
        trendline.drop_hypothesis();
        assert_eq!(trendline.usage(), Usage::Normal);
        ramp(&mut trendline, 75, 1, 2_000);
        assert_eq!(trendline.usage(), Usage::Normal, "one sample is not enough");
    }
}
