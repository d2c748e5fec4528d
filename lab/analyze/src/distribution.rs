//! Distributions of values.

use nearlight_report::statistics::{self, Ecdf};
use nearlight_units::Span;
use serde::Serialize;

/// Percentiles that stand for a curve: as many as a chart can show.
const CURVE_POINTS: usize = 500;

/// Figures of a set of values; type 7 percentiles.
#[derive(Clone, Debug, Serialize)]
pub struct Distribution {
    pub count: usize,
    pub mean: f64,
    pub min: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub p9999: f64,
    pub max: f64,
    /// Values at even steps of share, the smallest and the largest among them.
    #[serde(skip)]
    pub curve: Vec<f64>,
}

impl Distribution {
    /// `None` for no values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        let mean = statistics::mean(&values)?;
        let sorted = Ecdf::new(values)?;
        let count = sorted.samples().len();
        let curve = if count <= CURVE_POINTS {
            sorted.samples().to_vec()
        } else {
            (0..=CURVE_POINTS).map(|step| sorted.percentile(100.0 * step as f64 / CURVE_POINTS as f64)).collect()
        };
        Some(Self {
            count,
            mean,
            min: sorted.minimum(),
            p50: sorted.percentile(50.0),
            p95: sorted.percentile(95.0),
            p99: sorted.percentile(99.0),
            p9999: sorted.percentile(99.99),
            max: sorted.maximum(),
            curve,
        })
    }

    /// Returns the distribution of spans in milliseconds.
    pub fn of_spans(spans: impl IntoIterator<Item = Span>) -> Option<Self> {
        Self::of(spans.into_iter().map(Span::as_millis_f64))
    }
}
