//! Whether the queue grows: the slope of smoothed delay against an adaptive threshold.

use std::collections::VecDeque;

use nearlight_units::{Span, Time};

use super::groups::Delta;

/// Samples that a slope is fitted to (libwebrtc `kDefaultTrendlineWindowSize`).
const WINDOW: usize = 20;
/// Weight of history in smoothed delay (`kDefaultTrendlineSmoothingCoeff`).
const SMOOTHING: f64 = 0.9;
/// Slope to metric (`kDefaultTrendlineThresholdGain`).
const GAIN: f64 = 4.0;
/// The count of samples scales the metric up to this many (`kMinNumDeltas`).
const MOST_COUNTED: f64 = 60.0;
/// Samples counted at all (`kDeltaCounterMax`).
const COUNTER_MAXIMUM: u32 = 1_000;
/// Threshold at start, and its bounds, in the metric's milliseconds (`threshold_`, `UpdateThreshold`).
const THRESHOLD_START: f64 = 12.5;
const THRESHOLD_BOUNDS: (f64, f64) = (6.0, 600.0);
/// Speed of the threshold per millisecond, above and below it (`k_up_`, `k_down_`).
const THRESHOLD_UP: f64 = 0.0087;
const THRESHOLD_DOWN: f64 = 0.039;
/// A metric further above the threshold than this is an outlier and does not move it (`kMaxAdaptOffsetMs`).
const FURTHEST_ADAPTED: f64 = 15.0;
/// The longest time by which one sample moves the threshold (`kMaxTimeDeltaMs`).
const LONGEST_ADAPTION: Span = Span::from_millis(100);
/// Growth must last this long to count (`kOverUsingTimeThreshold`).
const SUSTAINED: Span = Span::from_millis(10);

/// What the delay says of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Usage {
    #[default]
    Normal,
    /// The queue grows.
    Over,
    /// The queue drains.
    Under,
}

/// Fits a line through smoothed one-way delay: libwebrtc `TrendlineEstimator`.
#[derive(Clone, Debug)]
pub struct Trendline {
    samples: u32,
    first_arrival: Option<Time>,
    /// Sum of delay changes, in milliseconds.
    delay: f64,
    smoothed: f64,
    /// Arrival since the first one and smoothed delay, both in milliseconds.
    history: VecDeque<(f64, f64)>,
    slope: f64,
    previous_slope: f64,
    threshold: f64,
    adapted_at: Option<Time>,
    over_for: Option<Span>,
    over_samples: u32,
    usage: Usage,
}

impl Default for Trendline {
    fn default() -> Self {
        Self {
            samples: 0,
            first_arrival: None,
            delay: 0.0,
            smoothed: 0.0,
            history: VecDeque::with_capacity(WINDOW + 1),
            slope: 0.0,
            previous_slope: 0.0,
            threshold: THRESHOLD_START,
            adapted_at: None,
            over_for: None,
            over_samples: 0,
            usage: Usage::Normal,
        }
    }
}

impl Trendline {
    pub fn on_delta(&mut self, delta: &Delta) {
        let first_arrival = *self.first_arrival.get_or_insert(delta.arrived_at);
        self.samples = (self.samples + 1).min(COUNTER_MAXIMUM);
        self.delay += (delta.arrived - delta.sent).as_millis_f64();
        self.smoothed = SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * self.delay;
        self.history.push_back(((delta.arrived_at - first_arrival).as_millis_f64(), self.smoothed));
        if self.history.len() > WINDOW {
            self.history.pop_front();
        }
        if self.history.len() == WINDOW {
            self.slope = fitted_slope(&self.history).unwrap_or(self.slope);
        }
        self.detect(delta);
    }

    /// Growth that was being counted is forgotten, for example because no feedback tells of it any more.
    pub fn drop_hypothesis(&mut self) {
        self.over_for = None;
        self.over_samples = 0;
        self.usage = Usage::Normal;
    }

    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Growth of one-way delay per time: 0.1 is 100 ms a second: libwebrtc `trend`.
    #[must_use]
    pub fn slope(&self) -> f64 {
        self.slope
    }

    /// In the unit of the scaled slope.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// Samples in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.history.len()
    }

    fn detect(&mut self, delta: &Delta) {
        if self.samples < 2 {
            return;
        }
        let metric = f64::from(self.samples).min(MOST_COUNTED) * self.slope * GAIN;
        if metric > self.threshold {
            let over_for = self.over_for.map_or(delta.sent / 2, |over_for| over_for + delta.sent);
            self.over_for = Some(over_for);
            self.over_samples += 1;
            if over_for > SUSTAINED && self.over_samples > 1 && self.slope >= self.previous_slope {
                self.over_for = Some(Span::ZERO);
                self.over_samples = 0;
                self.usage = Usage::Over;
            }
        } else {
            self.over_for = None;
            self.over_samples = 0;
            self.usage = if metric < -self.threshold { Usage::Under } else { Usage::Normal };
        }
        self.previous_slope = self.slope;
        self.adapt(metric.abs(), delta.arrived_at);
    }

    fn adapt(&mut self, metric: f64, now: Time) {
        let since = now.saturating_since(self.adapted_at.unwrap_or(now)).min(LONGEST_ADAPTION);
        self.adapted_at = Some(now);
        if metric > self.threshold + FURTHEST_ADAPTED {
            return;
        }
        let speed = if metric < self.threshold { THRESHOLD_DOWN } else { THRESHOLD_UP };
        self.threshold += speed * (metric - self.threshold) * since.as_millis_f64();
        self.threshold = self.threshold.clamp(THRESHOLD_BOUNDS.0, THRESHOLD_BOUNDS.1);
    }
}

/// Least squares; None where all points lie above each other.
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
    use super::*;

    /// A path whose delay grows by `growth` microseconds with each group of 10 ms.
    fn ramp(trendline: &mut Trendline, from: u64, groups: u64, growth: i64) {
        for number in from..from + groups {
            let sent = Span::from_millis(10);
            let arrived = sent + Span::from_micros(growth);
            let arrived_at = Time::from_secs(1) + arrived * number as i64;
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
    fn growth_shrinkage_and_neither_are_told_apart() {
        // The metric is 60 * slope * 4: 5.2 % of growth is at the starting threshold of 12.5.
        for (growth, usage) in [(1_000, Usage::Over), (0, Usage::Normal), (-1_000, Usage::Under)] {
            let mut trendline = Trendline::default();
            ramp(&mut trendline, 0, 20, 0);
            ramp(&mut trendline, 20, 30, growth);
            let reached = if usage == Usage::Over { trendline.over_for.is_some() } else { trendline.usage() == usage };
            assert!(reached, "{growth}: {:?}", trendline.usage());
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
        assert!((trendline.threshold() - 12.5 * 0.61).abs() < 1e-9, "{}", trendline.threshold());
        ramp(&mut trendline, 3, 100, 0);
        assert!((trendline.threshold() - 6.0).abs() < 1e-9);
    }

    #[test]
    fn a_dropped_hypothesis_must_build_up_again() {
        let mut trendline = Trendline::default();
        ramp(&mut trendline, 0, 60, 0);
        ramp(&mut trendline, 60, 15, 2_000);
        trendline.drop_hypothesis();
        assert_eq!((trendline.usage(), trendline.over_samples), (Usage::Normal, 0));
    }
}
