//! From samples to figures with their uncertainty. Every function is pure: the same samples give the same bits.
//!
//! Samples are finite numbers. If one is not, or there are too few, a function returns `None` instead of silently omitting samples: the caller
//! decides what a missing value means.

mod comparison;
mod ecdf;
mod ellipse;
mod letters;
mod studentized_range;
mod summary;
mod thin;

pub use comparison::{Anova, Comparison, Pair, Tukey, compare, one_way_anova, tukey_hsd};
pub use ecdf::{BoxStatistics, Ecdf};
pub use ellipse::Ellipse;
pub use letters::letters;
pub use studentized_range::StudentizedRange;
pub use summary::{Summary, half_width_95, mean, variance};
pub use thin::{largest_triangles, minima_and_maxima};

/// Jain's fairness index of `shares`: 1 where all are equal, 1/n where one has everything.
///
/// R. Jain, D. Chiu, W. Hawe: A Quantitative Measure of Fairness, DEC-TR-301, 1984. `None` for no shares, for shares that
/// are negative or not finite, and where all are zero.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let most = shares.iter().copied().fold(0.0, f64::max);
    if most == 0.0 || !shares.iter().all(|share| share.is_finite() && *share >= 0.0) {
        return None;
    }
    // Relative to the largest, so that squares neither overflow nor vanish.
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), share| {
        let share = share / most;
        (sum + share, squares + share * share)
    });
    Some(sum * sum / (shares.len() as f64 * squares))
}

fn all_finite(values: &[f64]) -> bool {
    values.iter().all(|value| value.is_finite())
}
