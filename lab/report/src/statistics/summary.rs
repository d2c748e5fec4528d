//! Means, their confidence intervals, and the summary that every metric of a report carries.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{Ecdf, all_finite};

/// One metric over repeated runs, in the metric's unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Mean of the runs' means: each run counts once, however many samples it brought.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of `mean`, by Student's t over runs. `None` for one run.
    pub ci95: Option<f64>,
    /// Percentiles of all runs' samples together (type 7, see [`Ecdf::percentile`]).
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    /// Independent runs, not samples: samples of one run depend on each other and say nothing about the next run.
    pub n: usize,
}

impl Summary {
    /// Each value is one run's figure. `None` for no values, or where one is not finite.
    pub fn of(values: &[f64]) -> Option<Self> {
        let distribution = Ecdf::new(values.to_vec())?;
        Some(Self::joined(values, &distribution))
    }

    /// Each slice holds one run's samples (every frame's latency, say). Runs without samples are left out of `n`, since a
    /// run in which the thing measured never happened has no mean of it.
    pub fn pooled<Samples: AsRef<[f64]>>(runs: &[Samples]) -> Option<Self> {
        let means: Vec<f64> = runs.iter().filter_map(|run| mean(run.as_ref())).collect();
        let distribution = Ecdf::new(runs.iter().flat_map(AsRef::as_ref).copied().collect())?;
        Some(Self::joined(&means, &distribution))
    }

    fn joined(means: &[f64], distribution: &Ecdf) -> Self {
        Self {
            mean: mean(means).unwrap_or(f64::NAN),
            ci95: half_width_95(means),
            p50: distribution.percentile(50.0),
            p95: distribution.percentile(95.0),
            p99: distribution.percentile(99.0),
            n: means.len(),
        }
    }
}

/// Arithmetic mean. `None` for no values, or where one is not finite.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || !all_finite(values) {
        return None;
    }
    let count = values.len() as f64;
    let first = values.iter().sum::<f64>() / count;
    // A second pass takes out the rounding of the first, which matters for a million samples far from zero.
    Some(first + values.iter().map(|value| value - first).sum::<f64>() / count)
}

/// Sample variance (divided by n - 1). `None` for fewer than two values, or where one is not finite.
pub fn variance(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values)?;
    Some(values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64)
}

/// Half the width of the 95 % confidence interval of the mean of independent `values`, by Student's t.
///
/// `None` for fewer than two values, or where one is not finite.
pub fn half_width_95(values: &[f64]) -> Option<f64> {
    let variance = variance(values)?;
    let quantile = student_t_quantile(0.975, (values.len() - 1) as f64)?;
    Some(quantile * (variance / values.len() as f64).sqrt())
}

fn student_t_quantile(probability: f64, degrees: f64) -> Option<f64> {
    StudentsT::new(0.0, 1.0, degrees).ok().map(|distribution| distribution.inverse_cdf(probability))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quantiles from R 4 (`qt(0.975, df)`), as printed in every table.
    #[test]
    fn quantiles_of_student_t() {
        for (degrees, expected) in [
            (1.0, 12.706_204_736),
            (2.0, 4.302_652_730),
            (4.0, 2.776_445_105),
            (9.0, 2.262_157_163),
            (19.0, 2.093_024_054),
            (120.0, 1.979_930_405),
            (10_000.0, 1.960_201_264),
        ] {
            let found = student_t_quantile(0.975, degrees).unwrap();
            assert!((found - expected).abs() < 1e-6, "{degrees} degrees: {found}, expected {expected}");
        }
    }

    #[test]
    fn a_run_counts_once_however_long_it_is() {
        let summary = Summary::pooled(&[vec![1.0; 10], vec![3.0; 1000]]).unwrap();
        assert!((summary.mean - 2.0).abs() < 1e-12);
        assert!((summary.p50 - 3.0).abs() < 1e-12);
        assert_eq!(summary.n, 2);
        // t(0.975, 1) times the standard error of {1, 3}, which is 1.
        assert!((summary.ci95.unwrap() - 12.706_204_736).abs() < 1e-6);
    }

    #[test]
    fn one_run_has_no_interval_and_says_null() {
        let summary = Summary::pooled(&[vec![4.0, 6.0], vec![]]).unwrap();
        assert_eq!(
            serde_json::to_string(&summary).unwrap(),
            r#"{"mean":5.0,"ci95":null,"p50":5.0,"p95":5.9,"p99":5.98,"n":1}"#
        );
    }

    #[test]
    fn what_cannot_be_summarised_is_none() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
        assert_eq!(Summary::pooled(&[vec![1.0], vec![f64::INFINITY]]), None);
        assert_eq!(variance(&[1.0]), None);
        assert_eq!(half_width_95(&[1.0]), None);
    }

    #[test]
    fn far_from_zero_the_mean_stays_exact() {
        let values: Vec<f64> = (0..1_000_000).map(|i| 1e9 + f64::from(i % 7)).collect();
        let expected = 1e9 + f64::from((0..1_000_000).map(|i| i % 7).sum::<i32>()) / 1e6;
        assert!((mean(&values).unwrap() - expected).abs() < 2e-7);
    }
}
