//! Tests of whether several groups differ, and which of them.

use statrs::distribution::{ContinuousCDF, FisherSnedecor};

use super::{StudentizedRange, all_finite, letters, mean};
use crate::text::{chance, figure};

/// One-way analysis of variance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Anova {
    /// Infinite where groups differ and no group varies within itself.
    pub f: f64,
    /// The chance of such an F where all groups have one mean.
    pub p: f64,
    pub degrees_between: usize,
    pub degrees_within: usize,
    /// Mean square within groups: the variance that all groups share by assumption.
    pub variance_within: f64,
    /// Share of the total variance that the groups explain (eta squared), 0 to 1.
    pub explained: f64,
}

impl Anova {
    /// Writes the result for a reader: "F(2, 12) = 7.14, p = 0.009; groups explain 54 % of the variance".
    pub fn in_words(&self) -> String {
        let (between, within, share) = (self.degrees_between, self.degrees_within, 100.0 * self.explained);
        let (f, p) = (figure(self.f), chance(self.p));
        format!("F({between}, {within}) = {f}, {p}; groups explain {share:.0}\u{a0}% of the variance")
    }
}

/// Two groups under Tukey's test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    pub first: usize,
    pub second: usize,
    /// Mean of `first` less mean of `second`.
    pub difference: f64,
    /// Half the width of the simultaneous 95 % confidence interval of `difference`.
    pub half_width: f64,
    /// The chance of such a difference between any two of the groups where all have one mean.
    pub p: f64,
}

/// Tukey's honestly significant differences; for groups of unequal sizes after Tukey and Kramer.
#[derive(Clone, Debug, PartialEq)]
pub struct Tukey {
    /// All pairs, `first` below `second`, in order.
    pub pairs: Vec<Pair>,
    /// One per group, a starting at the largest mean. Groups that share a letter do not differ at the 5 % level.
    pub letters: Vec<String>,
}

/// Both tests of the same groups.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    pub anova: Anova,
    pub tukey: Tukey,
}

/// Significance level of every test.
const SIGNIFICANCE_LEVEL: f64 = 0.05;

/// See [`one_way_anova`] and [`tukey_hsd`].
pub fn compare<Samples: AsRef<[f64]>>(groups: &[Samples]) -> Option<Comparison> {
    let anova = one_way_anova(groups)?;
    let tukey = tukey_hsd(groups)?;
    Some(Comparison { anova, tukey })
}

/// Are the means of `groups` one and the same? Samples must be independent: one figure per run, not per frame.
///
/// `None` for fewer than two groups, an empty group, no group of two, a value that is not finite, or where every value is
/// the same.
pub fn one_way_anova<Samples: AsRef<[f64]>>(groups: &[Samples]) -> Option<Anova> {
    let groups = Groups::new(groups)?;
    let degrees_between = groups.means.len() - 1;
    let degrees_within = groups.total - groups.means.len();
    let squares = groups.squares_between + groups.squares_within;
    let variance_within = groups.squares_within / degrees_within as f64;
    let f = groups.squares_between / degrees_between as f64 / variance_within;
    let p = if f.is_infinite() {
        0.0
    } else {
        FisherSnedecor::new(degrees_between as f64, degrees_within as f64).ok()?.sf(f)
    };
    let explained = groups.squares_between / squares;
    Some(Anova { f, p, degrees_between, degrees_within, variance_within, explained })
}

/// Tests which of `groups` differ in their means. `None` as for [`one_way_anova`].
pub fn tukey_hsd<Samples: AsRef<[f64]>>(groups: &[Samples]) -> Option<Tukey> {
    let sizes: Vec<f64> = groups.iter().map(|group| group.as_ref().len() as f64).collect();
    let groups = Groups::new(groups)?;
    let count = groups.means.len();
    let degrees_within = (groups.total - count) as f64;
    let variance_within = groups.squares_within / degrees_within;
    let range = StudentizedRange::new(count as u32, degrees_within)?;
    let critical = range.quantile(1.0 - SIGNIFICANCE_LEVEL)?;
    let mut pairs = Vec::with_capacity(count * (count - 1) / 2);
    for first in 0..count {
        for second in first + 1..count {
            let difference = groups.means[first] - groups.means[second];
            let deviation = (0.5 * variance_within * (1.0 / sizes[first] + 1.0 / sizes[second])).sqrt();
            let p = if difference == 0.0 { 1.0 } else { 1.0 - range.cdf(difference.abs() / deviation) };
            pairs.push(Pair { first, second, difference, half_width: critical * deviation, p });
        }
    }
    let letters = letters_by_mean(&groups.means, &pairs);
    Some(Tukey { pairs, letters })
}

fn letters_by_mean(means: &[f64], pairs: &[Pair]) -> Vec<String> {
    let mut order: Vec<usize> = (0..means.len()).collect();
    order.sort_by(|a, b| means[*b].total_cmp(&means[*a]).then(a.cmp(b)));
    let differ = |a: usize, b: usize| {
        let (first, second) = (order[a].min(order[b]), order[a].max(order[b]));
        pairs.iter().any(|pair| (pair.first, pair.second) == (first, second) && pair.p < SIGNIFICANCE_LEVEL)
    };
    let by_rank = letters(means.len(), differ);
    let mut found = vec![String::new(); means.len()];
    for (rank, group) in order.into_iter().enumerate() {
        found[group].clone_from(&by_rank[rank]);
    }
    found
}

/// Sums of squares, from deviations of the means, to avoid cancellation.
struct Groups {
    means: Vec<f64>,
    total: usize,
    squares_between: f64,
    squares_within: f64,
}

impl Groups {
    fn new<Samples: AsRef<[f64]>>(groups: &[Samples]) -> Option<Self> {
        let means: Vec<f64> = groups.iter().map(|group| mean(group.as_ref())).collect::<Option<_>>()?;
        let total: usize = groups.iter().map(|group| group.as_ref().len()).sum();
        if means.len() < 2 || total <= means.len() {
            return None;
        }
        let all: Vec<f64> = groups.iter().flat_map(AsRef::as_ref).copied().collect();
        let overall = mean(&all)?;
        let (mut squares_between, mut squares_within) = (0.0, 0.0);
        for (group, mean) in groups.iter().zip(&means) {
            let group = group.as_ref();
            squares_between += group.len() as f64 * (mean - overall).powi(2);
            squares_within += group.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        }
        let varies = squares_between > 0.0 || squares_within > 0.0;
        (varies && all_finite(&[squares_between, squares_within])).then_some(Self {
            means,
            total,
            squares_between,
            squares_within,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64, tolerance: f64, what: &str) {
        assert!((found - expected).abs() <= tolerance, "{what}: {found}, expected {expected}");
    }

    /// The example in the documentation of `scipy.stats.tukey_hsd`; figures from scipy 1.17.
    #[test]
    fn equal_groups() {
        let groups = [[24.5, 23.5, 26.4, 27.1, 29.9], [28.4, 34.2, 29.5, 32.2, 30.1], [26.1, 28.3, 24.3, 26.2, 27.8]];
        let found = compare(&groups).unwrap();
        close(found.anova.f, 7.137_827_822_120_864, 1e-10, "F");
        close(found.anova.p, 0.009_073_317_468_563_076, 1e-10, "p");
        assert_eq!(found.anova.in_words(), "F(2, 12) = 7.14, p = 0.009; groups explain 54\u{a0}% of the variance");
        let expected = [(-4.6, 0.014_448_326), (-0.26, 0.980_310_724), (4.34, 0.020_331_137)];
        for (pair, (difference, p)) in found.tukey.pairs.iter().zip(expected) {
            close(pair.difference, difference, 1e-9, "difference");
            close(pair.p, p, 1e-7, "p of a pair");
            close(pair.half_width, 3.649_159, 1e-5, "half width");
        }
        assert_eq!(found.tukey.letters, ["b", "a", "b"]);
    }

    /// Tukey and Kramer for unequal groups; figures from scipy 1.17.
    #[test]
    fn unequal_groups() {
        let groups: [&[f64]; 4] = [
            &[1.0, 2.0, 3.0, 4.5],
            &[2.5, 3.5, 6.0, 7.0, 8.0, 9.5, 4.0],
            &[10.0, 11.5, 13.0],
            &[3.0, 3.2, 2.8, 3.1, 2.9, 3.3],
        ];
        let found = compare(&groups).unwrap();
        close(found.anova.f, 18.452_264_529_058_116, 1e-9, "F");
        close(found.anova.p, 1.908_601_848_675_247e-5, 1e-12, "p");
        let p = [0.053_025_685, 3.798_726e-5, 0.982_147_562, 0.001_377_814, 0.060_618_774, 2.726_222e-5];
        let low = [-6.355_721_862, -12.768_256_007, -3.715_401_879, -9.231_873_285, -0.100_255_479, 4.845_545_335];
        for ((pair, p), low) in found.tukey.pairs.iter().zip(p).zip(low) {
            close(pair.p, p, 2e-8, "p of a pair");
            close(pair.difference - pair.half_width, low, 1e-5, "lower bound");
        }
        assert_eq!(found.tukey.letters, ["b", "b", "a", "b"]);
    }

    #[test]
    fn groups_that_never_vary() {
        let found = compare(&[[1.0, 1.0], [2.0, 2.0], [2.0, 2.0]]).unwrap();
        assert!(found.anova.f.is_infinite());
        close(found.anova.p, 0.0, 0.0, "p");
        assert_eq!(found.tukey.letters, ["b", "a", "a"]);
        assert!(compare(&[[3.0, 3.0], [3.0, 3.0]]).is_none(), "nothing varies at all");
    }

    #[test]
    fn what_cannot_be_compared_is_none() {
        assert!(compare(&[vec![1.0, 2.0]]).is_none(), "one group");
        assert!(compare(&[vec![1.0], vec![2.0]]).is_none(), "no group of two");
        assert!(compare(&[vec![1.0, 2.0], vec![]]).is_none(), "an empty group");
        assert!(compare(&[vec![1.0, f64::NAN], vec![1.0, 2.0]]).is_none(), "not a number");
    }
}
