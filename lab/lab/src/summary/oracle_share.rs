//! The share of the oracle's utility that runs reach.

use std::collections::BTreeMap;

use super::{CellSummary, Pool, Samples, run_utility};
use crate::plan::oracle::NAME;
use crate::record::RunRecord;

type Labels = BTreeMap<String, String>;

/// Labels of the system under test; all others describe its conditions.
const SYSTEM_LABELS: [&str; 4] = ["controller", "fec", "recovery", "captures"];

/// The utility of each run of the oracle, by the labels of its conditions and its seed.
#[derive(Clone, Debug, Default)]
pub(crate) struct OracleUtilities(BTreeMap<(Labels, u64), f64>);

/// Returns the conditions of a run: its labels without those of the system, and its seed.
fn conditions(run: &RunRecord) -> (Labels, u64) {
    let labels = run.labels.iter().filter(|(name, _)| !SYSTEM_LABELS.contains(&name.as_str()));
    (labels.map(|(name, value)| (name.clone(), value.clone())).collect(), run.seed)
}

impl OracleUtilities {
    pub(crate) fn of<'a>(runs: impl IntoIterator<Item = &'a RunRecord>) -> Self {
        let oracles = runs.into_iter().filter(|run| run.labels.get("controller").is_some_and(|name| name == NAME));
        Self(oracles.filter_map(|run| Some((conditions(run), run_utility(run)?))).collect())
    }

    /// Adds the share of the oracle's utility, if the oracle has a run with the same path and seed and a utility above 0.
    pub(crate) fn add_share(&self, summary: &mut CellSummary, runs: &[&RunRecord]) {
        if self.0.is_empty() {
            return;
        }
        let mut pool = Pool::default();
        for run in runs {
            let best = self.0.get(&conditions(run)).copied().filter(|best| *best > 0.0);
            pool.add(Samples::Values(run_utility(run).zip(best).map(|(own, best)| own / best).into_iter().collect()));
        }
        if let Some(figure) = pool.figure() {
            summary.metrics.insert("oracle_share", figure);
        }
    }
}
