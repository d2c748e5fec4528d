//! Sorted samples: percentiles, the empirical distribution function, boxes.

use super::all_finite;

/// Samples in order; at least one, all finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Ecdf {
    sorted: Vec<f64>,
}

impl Ecdf {
    /// `None` for no samples, or where one is not finite.
    pub fn new(mut samples: Vec<f64>) -> Option<Self> {
        if samples.is_empty() || !all_finite(&samples) {
            return None;
        }
        samples.sort_unstable_by(f64::total_cmp);
        Some(Self { sorted: samples })
    }

    /// Returns the samples in ascending order.
    pub fn samples(&self) -> &[f64] {
        &self.sorted
    }

    pub fn minimum(&self) -> f64 {
        self.sorted[0]
    }

    pub fn maximum(&self) -> f64 {
        self.sorted[self.sorted.len() - 1]
    }

    /// The value that `percent` % of the samples do not exceed: linear between order statistics, with (n - 1) steps from
    /// minimum to maximum. This is type 7 of Hyndman and Fan (The American Statistician 50(4), 1996), the default of R, of
    /// `NumPy` and of spreadsheets. `percent` is held within 0 to 100.
    pub fn percentile(&self, percent: f64) -> f64 {
        let last = self.sorted.len() - 1;
        let position = (percent.clamp(0.0, 100.0) / 100.0) * last as f64;
        let below = (position.floor() as usize).min(last);
        let (low, high) = (self.sorted[below], self.sorted[(below + 1).min(last)]);
        let share = position - below as f64;
        // The upper form keeps the result from passing `high` by rounding.
        if share < 0.5 { low + (high - low) * share } else { high - (high - low) * (1.0 - share) }
    }

    /// The share of samples that do not exceed `value`, 0 to 1.
    pub fn share_at_most(&self, value: f64) -> f64 {
        self.sorted.partition_point(|sample| *sample <= value) as f64 / self.sorted.len() as f64
    }

    /// The corners of the distribution function: each distinct value with the share of samples that do not exceed it.
    /// At most about `most` of them, spread over the shares, the first and the last always among them.
    pub fn steps(&self, most: usize) -> Vec<(f64, f64)> {
        let count = self.sorted.len();
        let stride = (count / most.max(2)).max(1);
        let mut steps: Vec<(f64, f64)> = Vec::with_capacity(most.min(count) + 2);
        let mut index = 0;
        while index < count {
            let value = self.sorted[index];
            let upto = index + self.sorted[index..].partition_point(|sample| *sample <= value);
            steps.push((value, upto as f64 / count as f64));
            if upto == count {
                break;
            }
            index = upto.max(index + stride).min(count - 1);
        }
        steps
    }
}

/// The statistics of a box plot (J. Tukey, Exploratory Data Analysis, 1977), with type 7 quartiles.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxStatistics {
    pub lower_quartile: f64,
    pub median: f64,
    pub upper_quartile: f64,
    /// The smallest sample within 1.5 interquartile ranges of the box.
    pub lower_whisker: f64,
    /// The largest sample within 1.5 interquartile ranges of the box.
    pub upper_whisker: f64,
    pub mean: f64,
    /// Samples beyond the whiskers, in ascending order.
    pub outliers: Vec<f64>,
    pub n: usize,
}

impl BoxStatistics {
    pub fn of(distribution: &Ecdf) -> Self {
        let (lower, upper) = (distribution.percentile(25.0), distribution.percentile(75.0));
        let reach = 1.5 * (upper - lower);
        let inside = |sample: &f64| *sample >= lower - reach && *sample <= upper + reach;
        let samples = distribution.samples();
        Self {
            lower_quartile: lower,
            median: distribution.percentile(50.0),
            upper_quartile: upper,
            // A quartile between two samples may leave none on its side of the box: the whisker then ends at the box.
            lower_whisker: samples.iter().copied().find(inside).unwrap_or(lower).min(lower),
            upper_whisker: samples.iter().copied().rfind(inside).unwrap_or(upper).max(upper),
            mean: super::mean(samples).unwrap_or(lower),
            outliers: samples.iter().copied().filter(|sample| !inside(sample)).collect(),
            n: samples.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `numpy.percentile([15, 20, 35, 40, 50], p)`.
    #[test]
    fn percentiles_are_of_type_seven() {
        let samples = Ecdf::new(vec![35.0, 20.0, 15.0, 50.0, 40.0]).unwrap();
        for (percent, expected) in [(0.0, 15.0), (5.0, 16.0), (30.0, 23.0), (40.0, 29.0), (95.0, 48.0), (100.0, 50.0)] {
            assert!((samples.percentile(percent) - expected).abs() < 1e-12, "p{percent}");
        }
    }

    #[test]
    fn steps_join_equal_values() {
        let samples = Ecdf::new(vec![1.0, 2.0, 2.0, 4.0]).unwrap();
        assert_eq!(samples.steps(100), [(1.0, 0.25), (2.0, 0.75), (4.0, 1.0)]);
        assert!((samples.share_at_most(3.0) - 0.75).abs() < 1e-12);
    }

    /// R: `boxplot.stats` differs only in its hinges; quartiles from `quantile(x)`.
    #[test]
    fn a_box_and_its_outlier() {
        let samples = Ecdf::new(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 30.0]).unwrap();
        let found = BoxStatistics::of(&samples);
        assert_eq!((found.lower_quartile, found.median, found.upper_quartile), (3.25, 5.5, 7.75));
        assert_eq!((found.lower_whisker, found.upper_whisker, found.outliers.as_slice()), (1.0, 9.0, &[30.0][..]));
    }

    proptest! {
        #[test]
        fn percentiles_rise_and_stay_within(samples in prop::collection::vec(-1e9..1e9_f64, 1..60),
            low in 0.0..100.0_f64, high in 0.0..100.0_f64) {
            let samples = Ecdf::new(samples).unwrap();
            let (low, high) = (low.min(high), low.max(high));
            prop_assert!(samples.percentile(low) <= samples.percentile(high));
            prop_assert!(samples.percentile(low) >= samples.minimum());
            prop_assert!(samples.percentile(high) <= samples.maximum());
        }

        #[test]
        fn steps_lie_on_the_distribution(samples in prop::collection::vec(-50..50_i32, 1..400), most in 2..50_usize) {
            let samples = Ecdf::new(samples.into_iter().map(f64::from).collect()).unwrap();
            let steps = samples.steps(most);
            prop_assert!(steps.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
            for (value, share) in &steps {
                prop_assert!((samples.share_at_most(*value) - share).abs() < 1e-12);
            }
            prop_assert!(steps[0].0 <= samples.minimum());
            prop_assert_eq!(*steps.last().unwrap(), (samples.maximum(), 1.0));
            prop_assert!(steps.len() <= most * 2 + 2);
        }

        #[test]
        fn a_box_keeps_its_order(samples in prop::collection::vec(-1e6..1e6_f64, 1..80)) {
            let found = BoxStatistics::of(&Ecdf::new(samples).unwrap());
            prop_assert!(found.lower_whisker <= found.lower_quartile && found.lower_quartile <= found.median);
            prop_assert!(found.median <= found.upper_quartile && found.upper_quartile <= found.upper_whisker);
        }
    }
}
