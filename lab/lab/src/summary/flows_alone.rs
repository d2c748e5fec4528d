//! Figures of runs that have TCP flows and no session.

use nearlight_report::statistics::jain as jain_index;

use super::{MILLISECONDS, Samples, Take, jain_by_second, mbps, within};
use crate::histogram::Histogram;
use crate::record::{RivalRecord, RunRecord};

/// Takes the metrics of all flows that respond to congestion.
pub(super) fn metrics(run: &RunRecord, take: Take<'_>) {
    let flows: Vec<&RivalRecord> = run.rivals.iter().filter(|rival| rival.elastic).collect();
    if flows.is_empty() {
        return;
    }
    let delivered: u64 = flows.iter().map(|flow| flow.delivered).sum();
    take("flows_mbps", Samples::Values(vec![delivered as f64 / 1e3]));
    let mut delay = Histogram::default();
    for flow in &flows {
        delay.merge(&flow.delay);
    }
    take("flows_delay_ms", Samples::Counted(delay, MILLISECONDS));
    if let Some(capacity) = capacity(run) {
        take("flows_utilisation", Samples::Values(vec![delivered as f64 / 1e3 / capacity]));
    }
    // Players that pause do not compete for all that they could get.
    if flows.len() > 1 && flows.iter().all(|flow| flow.playback.is_none()) {
        let all: Vec<_> = flows.iter().map(|flow| within(run, flow.from, flow.to)).collect();
        let received: Vec<&[u32]> = flows.iter().map(|flow| flow.received.as_slice()).collect();
        take("flows_jain", Samples::Values(jain_by_second(run, &received, |index| all.iter().all(|of| of(index)))));
        let rates: Vec<f64> = flows.iter().map(|flow| flow.delivered as f64).collect();
        take("flows_jain_whole", Samples::Values(jain_index(&rates).into_iter().collect()));
    }
}

/// Returns the mean capacity of the first link in Mb/s. None if it is unlimited.
fn capacity(run: &RunRecord) -> Option<f64> {
    let side = &run.links.first()?.sides[0];
    let within = within(run, 0.0, f64::INFINITY);
    let measured: Vec<f64> =
        side.capacity.iter().enumerate().filter(|(index, _)| within(*index)).map(|(_, rate)| mbps(*rate)).collect();
    let mean = measured.iter().sum::<f64>() / measured.len().max(1) as f64;
    (mean > 0.0).then_some(mean)
}
