//! Detects over-use and under-use: compares the growth of delay with a threshold that adapts.

use nearlight_units::Span;

/// The initial threshold, and its bounds, in the metric's milliseconds (draft section 5.4 `del_var_th`; libwebrtc `threshold_`).
const INITIAL_THRESHOLD: f64 = 12.5;
const THRESHOLD_BOUNDS: (f64, f64) = (6.0, 600.0);
/// A metric further above the threshold than this is an outlier and does not change it (`kMaxAdaptOffsetMs`).
const MAX_ADAPT_OFFSET: f64 = 15.0;
/// The longest time that counts when one sample adapts the threshold (`kMaxTimeDeltaMs`).
const MAX_ADAPT_INTERVAL: Span = Span::from_millis(100);
/// Growth must last this long to count as over-use (`overuse_time_th`, `kOverUsingTimeThreshold`).
const OVER_USE_TIME: Span = Span::from_millis(10);
/// The metric grows with the number of samples up to this many (`kMinNumDeltas`).
const MAX_SAMPLE_COUNT: u32 = 60;

/// The state of the path, inferred from delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Usage {
    #[default]
    Normal,
    /// The queue grows.
    Over,
    /// The queue drains.
    Under,
}

/// The parameters in which variants differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DetectorOptions {
    /// Adaptation speed of the threshold per millisecond, when the metric is above and below it.
    pub up: f64,
    pub down: f64,
    /// Whether over-use lasts until the metric is below the threshold, with the count of growth restarting at each detection. Otherwise
    /// it lasts only for samples that still grow.
    pub lasting: bool,
}

impl DetectorOptions {
    /// The parameters of libwebrtc (`k_up_`, `k_down_`).
    pub const LIBWEBRTC: Self = Self { up: 0.0087, down: 0.039, lasting: true };

    /// The parameters of draft-ietf-rmcat-gcc-02 section 5.4 (`K_u`, `K_d`).
    pub const DRAFT: Self = Self { up: 0.01, down: 0.000_18, lasting: false };
}

/// One measurement of how delay grows.
#[derive(Clone, Copy, Debug)]
pub struct Growth {
    /// The growth as measured.
    pub trend: f64,
    /// The factor, beside the number of samples, that makes the trend comparable with the threshold.
    pub gain: f64,
    /// The time that the sample covers.
    pub length: Span,
    /// When it was measured, since an origin common to all samples.
    pub at: Span,
}

/// Compares growth with the threshold.
#[derive(Clone, Debug)]
pub struct Detector {
    options: DetectorOptions,
    samples: u32,
    previous: f64,
    threshold: f64,
    adapted_at: Option<Span>,
    over_for: Option<Span>,
    over_samples: u32,
    usage: Usage,
}

impl Detector {
    #[must_use]
    pub fn new(options: DetectorOptions) -> Self {
        Self {
            options,
            samples: 0,
            previous: 0.0,
            threshold: INITIAL_THRESHOLD,
            adapted_at: None,
            over_for: None,
            over_samples: 0,
            usage: Usage::Normal,
        }
    }

    pub fn on_growth(&mut self, growth: &Growth) {
        self.samples = (self.samples + 1).min(MAX_SAMPLE_COUNT);
        if self.samples < 2 {
            return;
        }
        let metric = f64::from(self.samples) * growth.trend * growth.gain;
        if metric > self.threshold {
            self.on_high(growth);
        } else {
            self.over_for = None;
            self.over_samples = 0;
            self.usage = if metric < -self.threshold { Usage::Under } else { Usage::Normal };
        }
        self.previous = growth.trend;
        self.adapt(metric.abs(), growth.at);
    }

    /// Resets the growth counted so far, for example because feedback no longer covers it.
    pub fn drop_hypothesis(&mut self) {
        self.over_for = None;
        self.over_samples = 0;
        self.usage = Usage::Normal;
    }

    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The threshold, in the unit of the scaled trend.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    fn on_high(&mut self, growth: &Growth) {
        let over_for = self.over_for.map_or(growth.length / 2, |over_for| over_for + growth.length);
        self.over_for = Some(over_for);
        self.over_samples = self.over_samples.saturating_add(1);
        let found = over_for > OVER_USE_TIME && self.over_samples > 1 && growth.trend >= self.previous;
        if !self.options.lasting {
            self.usage = if found { Usage::Over } else { Usage::Normal };
        } else if found {
            self.over_for = Some(Span::ZERO);
            self.over_samples = 0;
            self.usage = Usage::Over;
        }
    }

    fn adapt(&mut self, metric: f64, at: Span) {
        let since = (at - self.adapted_at.unwrap_or(at)).max(Span::ZERO).min(MAX_ADAPT_INTERVAL);
        self.adapted_at = Some(at);
        if metric > self.threshold + MAX_ADAPT_OFFSET {
            return;
        }
        let speed = if metric < self.threshold { self.options.down } else { self.options.up };
        self.threshold += speed * (metric - self.threshold) * since.as_millis_f64();
        self.threshold = self.threshold.clamp(THRESHOLD_BOUNDS.0, THRESHOLD_BOUNDS.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies samples of 10 ms each, after 60 calm ones have brought the count to its full weight.
    fn usages(options: DetectorOptions, trends: &[f64]) -> Vec<Usage> {
        let mut detector = Detector::new(options);
        let mut at = Span::from_secs(1);
        let mut feed = |trend: f64| {
            at += Span::from_millis(10);
            detector.on_growth(&Growth { trend, gain: 1.0, length: Span::from_millis(10), at });
            detector.usage()
        };
        for _ in 0..60 {
            feed(0.0);
        }
        trends.iter().map(|&trend| feed(trend)).collect()
    }

    #[test]
    fn growth_must_last_and_over_use_holds_as_long_as_each_variant_says() {
        use Usage::{Normal, Over, Under};
        // In the draft's terms: the threshold is near 12.5, so a trend of 0.25 is 15 at full weight.
        let trends = [0.25, 0.25, 0.26, 0.25, 0.27, 0.1, -0.3];
        assert_eq!(usages(DetectorOptions::DRAFT, &trends), [Normal, Over, Over, Normal, Over, Normal, Under]);
        // In libwebrtc the threshold has come down to 6 meanwhile.
        let trends = [0.25, 0.25, 0.26, 0.25, 0.27, 0.05, -0.3];
        assert_eq!(usages(DetectorOptions::LIBWEBRTC, &trends), [Normal, Over, Over, Over, Over, Normal, Under]);
    }

    #[test]
    fn the_threshold_moves_by_its_speed_times_the_distance_times_the_time() {
        let mut detector = Detector::new(DetectorOptions::DRAFT);
        let mut feed = |millis: i64, metric: f64| {
            // Two samples: the count is 2 from the second on.
            let trend = metric / 2.0;
            let length = Span::from_millis(10);
            detector.samples = 1;
            detector.on_growth(&Growth { trend, gain: 1.0, length, at: Span::from_millis(millis) });
            detector.threshold()
        };
        feed(1_000, 0.0);
        let below = feed(1_050, 2.5);
        assert!((below - (12.5 - 0.000_18 * 10.0 * 50.0)).abs() < 1e-9, "{below}");
        let above = feed(1_070, below + 10.0);
        assert!((above - (below + 0.01 * 10.0 * 20.0)).abs() < 1e-9, "{above}");
        assert!((feed(1_100, above + 16.0) - above).abs() < 1e-12, "an outlier does not move it");
        let capped = feed(5_000, above + 10.0);
        assert!((capped - (above + 0.01 * 10.0 * 100.0)).abs() < 1e-9, "100 ms at most");
    }
}
