//! From runs to figures: what `lab run --json` prints.

mod flows_alone;
mod oracle_share;
mod playback;
pub(crate) mod wifi;

pub(crate) use self::oracle_share::OracleUtilities;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::histogram::Histogram;
use crate::record::{FrameLossCounts, LiveNote, MediaRecord, RunRecord, ServiceRecord, SideRecord};
use crate::utility::utility;
use nearlight_events::{STAGES, StallCounts};
use nearlight_report::statistics::{Ecdf, half_width_95, jain as jain_index, mean};
use nearlight_units::Span;

/// A metric of a cell. Infinite values, such as the latency of a frame that was never displayed, are null in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Mean of the runs' means.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of that mean; 0 for a single run.
    pub ci95: f64,
    /// Quantiles of all samples of all runs.
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    /// Number of runs.
    pub n: u64,
}

/// A cell's figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellSummary {
    pub labels: BTreeMap<String, String>,
    pub metrics: BTreeMap<&'static str, Figure>,
    /// Figures of each session and competing flow, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowSummary>,
}

/// One flow's figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowSummary {
    pub flow: String,
    pub metrics: BTreeMap<&'static str, Figure>,
}

/// The figures of a plan's runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub plan: String,
    pub commit: String,
    pub seeds: u32,
    /// The worst of all runs' notes. None in virtual time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveNote>,
    pub cells: Vec<CellSummary>,
}

/// Metric names of the time in each of [`STAGES`].
pub const STAGE_METRICS: [&str; STAGES.len()] = [
    "stage_input_ms",
    "stage_wait_ms",
    "stage_render_ms",
    "stage_convert_ms",
    "stage_encode_ms",
    "stage_pace_ms",
    "stage_network_ms",
    "stage_reassemble_ms",
    "stage_decode_ms",
    "stage_present_ms",
];

/// One run's samples of a metric.
pub(crate) enum Samples {
    Values(Vec<f64>),
    /// A histogram, and its unit as a factor.
    Counted(Histogram, f64),
    /// A histogram, its unit as a factor, and the number of infinite samples.
    CountedOf(Histogram, f64, u64),
}

/// Collects a metric over runs.
#[derive(Default)]
struct Pool {
    means: Vec<f64>,
    values: Vec<f64>,
    counted: Histogram,
    unit: f64,
    infinite: u64,
}

impl Pool {
    fn add(&mut self, samples: Samples) {
        match samples {
            Samples::Values(values) if values.is_empty() => {}
            Samples::Values(values) => {
                self.means.push(values.iter().sum::<f64>() / values.len() as f64);
                self.values.extend(values);
            }
            Samples::Counted(histogram, unit) => self.add(Samples::CountedOf(histogram, unit, 0)),
            Samples::CountedOf(histogram, unit, infinite) => {
                self.unit = unit;
                let finite = histogram.mean().map(|mean| mean * unit);
                self.means.extend(if infinite > 0 { Some(f64::INFINITY) } else { finite });
                self.counted.merge(&histogram);
                self.infinite += infinite;
            }
        }
    }

    /// Returns a quantile by nearest rank, with infinite samples last. None without counted samples.
    fn counted_quantile(&self, share: f64) -> Option<f64> {
        let finite = self.counted.count();
        if self.infinite == 0 {
            return self.counted.quantile(share).filter(|_| finite > 0).map(|value| value * self.unit);
        }
        let rank = ((finite + self.infinite) as f64 * share).ceil().max(1.0);
        if rank > finite as f64 {
            return Some(f64::INFINITY);
        }
        // In the middle of the rank, where no rounding leads to a neighbour.
        self.counted.quantile((rank - 0.5) / finite as f64).map(|value| value * self.unit)
    }

    fn figure(self) -> Option<Figure> {
        if self.means.is_empty() {
            return None;
        }
        let counted = |share| self.counted_quantile(share);
        let values = Ecdf::new(self.values.clone());
        let quantile = |share: f64| {
            let of_values = || values.as_ref().map_or(0.0, |values| values.percentile(share * 100.0));
            counted(share).unwrap_or_else(of_values)
        };
        let finite = self.means.iter().all(|mean| mean.is_finite());
        let (mean, ci95) = if finite {
            (mean(&self.means)?, half_width_95(&self.means).unwrap_or(0.0))
        } else {
            (f64::INFINITY, f64::INFINITY)
        };
        Some(Figure {
            mean: rounded(mean),
            ci95: rounded(ci95),
            p50: rounded(quantile(0.50)),
            p95: rounded(quantile(0.95)),
            p99: rounded(quantile(0.99)),
            n: self.means.len() as u64,
        })
    }
}

/// Rounds to four decimals: finer than any figure's meaning, coarser than errors from another order of summation.
fn rounded(value: f64) -> f64 {
    let rounded = (value * 1e4).round() / 1e4;
    // No negative zero.
    if rounded == 0.0 { 0.0 } else { rounded }
}

/// Returns the mean of each metric in a run.
#[must_use]
pub fn run_means(run: &RunRecord) -> BTreeMap<&'static str, f64> {
    let mut means = BTreeMap::new();
    metrics(run, &mut |name, samples| {
        let mut pool = Pool::default();
        pool.add(samples);
        if let Some(mean) = pool.means.first() {
            means.insert(name, *mean);
        }
    });
    means
}

/// Returns the figures of one cell's runs.
#[must_use]
pub fn summarise(labels: &BTreeMap<String, String>, runs: &[&RunRecord]) -> CellSummary {
    let mut pools: BTreeMap<&'static str, Pool> = BTreeMap::new();
    for run in runs {
        metrics(run, &mut |name, samples| pools.entry(name).or_default().add(samples));
    }
    CellSummary { labels: labels.clone(), metrics: figures(pools), flows: flows(runs) }
}

fn figures(pools: BTreeMap<&'static str, Pool>) -> BTreeMap<&'static str, Figure> {
    let mut figures: BTreeMap<&'static str, Figure> =
        pools.into_iter().filter_map(|(name, pool)| Some((name, pool.figure()?))).collect();
    // A run without bad frames does not count towards the length of damage. If no run has any, the length is zero.
    if let Some(bad) = figures.get("bad_frame_ratio").copied() {
        let none = Figure { mean: 0.0, ci95: 0.0, p50: 0.0, p95: 0.0, p99: 0.0, n: bad.n };
        figures.entry("recovery_frames").or_insert(none);
    }
    figures
}

fn flows(runs: &[&RunRecord]) -> Vec<FlowSummary> {
    let Some(first) = runs.first().filter(|run| run.media.len() + run.rivals.len() > 1) else { return Vec::new() };
    let media = first.media.iter().enumerate().map(|(index, media)| {
        let mut pools: BTreeMap<&'static str, Pool> = BTreeMap::new();
        for run in runs {
            let media = &run.media[index];
            of_media(run, media, &mut |name, samples| pools.entry(name).or_default().add(samples));
        }
        FlowSummary { flow: media.name.clone(), metrics: figures(pools) }
    });
    let rivals = first.rivals.iter().enumerate().map(|(index, rival)| {
        let mut pool = Pool::default();
        for run in runs {
            pool.add(Samples::Values(rival_rates(run, index)));
        }
        let mut pools = BTreeMap::from([("received_mbps", pool)]);
        for run in runs {
            let take = &mut |name, samples| pools.entry(name).or_default().add(samples);
            playback::of_player(&run.rivals[index], take);
        }
        FlowSummary { flow: rival.name.clone(), metrics: figures(pools) }
    });
    media.chain(rivals).collect()
}

fn mbps(kbps: u32) -> f64 {
    f64::from(kbps) / 1e3
}

/// Returns a test of whether a sample lies in a flow's measured time.
fn within(run: &RunRecord, from: f64, to: f64) -> impl Fn(usize) -> bool + '_ {
    let (sample, warm_up) = (run.sample.as_secs_f64(), run.warm_up.as_secs_f64());
    move |index| {
        let (begins, ends) = (index as f64 * sample, (index + 1) as f64 * sample);
        begins >= from.max(warm_up) - 1e-9 && ends <= to + 1e-9
    }
}

/// Returns a test of whether a session is measured and sending at a sample.
fn active<'a>(run: &'a RunRecord, media: &'a MediaRecord) -> impl Fn(usize) -> bool + 'a {
    let within = within(run, media.from, media.to);
    move |index| within(index) && media.target.get(index).is_some_and(|target| *target > 0)
}

fn rival_rates(run: &RunRecord, index: usize) -> Vec<f64> {
    let rival = &run.rivals[index];
    let within = within(run, rival.from, rival.to);
    rival.received.iter().enumerate().filter(|(index, _)| within(*index)).map(|(_, rate)| mbps(*rate)).collect()
}

/// Factor from the microseconds of histograms to milliseconds.
pub(crate) const MILLISECONDS: f64 = 1e-3;

pub(crate) type Take<'a> = &'a mut dyn FnMut(&'static str, Samples);

fn metrics(run: &RunRecord, take: Take<'_>) {
    // A metric of several sessions is the mean over them.
    let mut of_each: BTreeMap<&'static str, (Vec<f64>, Histogram, f64, u64)> = BTreeMap::new();
    for media in &run.media {
        of_media(run, media, &mut |name, samples| {
            let entry = of_each.entry(name).or_default();
            match samples {
                Samples::Values(values) => entry.0.extend(values),
                Samples::Counted(histogram, unit) => {
                    entry.1.merge(&histogram);
                    entry.2 = unit;
                }
                Samples::CountedOf(histogram, unit, infinite) => {
                    entry.1.merge(&histogram);
                    (entry.2, entry.3) = (unit, entry.3 + infinite);
                }
            }
        });
    }
    for (name, (values, histogram, unit, infinite)) in of_each {
        if histogram.count() + infinite > 0 {
            take(name, Samples::CountedOf(histogram, unit, infinite));
        } else {
            take(name, Samples::Values(values));
        }
    }
    let utilisation: Vec<f64> =
        run.links.iter().flat_map(|link| &link.sides).filter_map(|side| utilisation(run, side)).collect();
    take("utilisation", Samples::Values(utilisation));
    wifi::metrics(run, take);
    if run.media.len() > 1 {
        take("jain", Samples::Values(jain(run)));
    }
    if run.media.is_empty() {
        flows_alone::metrics(run, take);
        playback::metrics(run, take);
    } else if run.rivals.iter().any(|rival| rival.elastic) {
        take("tcp_share", Samples::Values(tcp_share(run)));
    }
}

fn of_media(run: &RunRecord, media: &MediaRecord, take: Take<'_>) {
    let active = active(run, media);
    let series = |values: &[u32]| -> Vec<f64> {
        values.iter().enumerate().filter(|(index, _)| active(*index)).map(|(_, rate)| mbps(*rate)).collect()
    };
    let (target, received) = (series(&media.target), series(&media.received));
    let gap = target.iter().zip(&received).map(|(target, received)| target - received).collect();
    of_service(media, take);
    take("target_mbps", Samples::Values(target));
    take("sent_mbps", Samples::Values(series(&media.sent)));
    take("received_mbps", Samples::Values(received));
    take("target_gap_mbps", Samples::Values(gap));
    take("frame_network_latency_ms", Samples::Counted(media.frame_network_latency.clone(), MILLISECONDS));
    take("frame_assembly_ms", Samples::Counted(media.frame_assembly.clone(), MILLISECONDS));
    take("network_latency_ms", Samples::Counted(media.frame_network_latency.clone(), MILLISECONDS));
    take("frame_latency_ms", Samples::Counted(media.frame_latency.clone(), MILLISECONDS));
    take("one_way_delay_ms", Samples::Counted(media.one_way_delay.clone(), MILLISECONDS));
    take("queue_delay_ms", Samples::Counted(media.queue_delay.clone(), MILLISECONDS));
    take("motion_to_photon_ms", Samples::Counted(media.motion_to_photon.clone(), MILLISECONDS));
    take("input_to_photon_ms", Samples::Counted(media.input_to_photon.clone(), MILLISECONDS));
    for (name, stage) in STAGE_METRICS.into_iter().zip(&media.stages) {
        take(name, Samples::Counted(stage.clone(), MILLISECONDS));
    }
    take("psnr_db", Samples::Counted(media.psnr.clone(), 1e-3));
    take("ssim", Samples::Counted(media.ssim.clone(), 1e-6));
    let share = |part: u64, whole: u64| if whole == 0 { Vec::new() } else { vec![part as f64 / whole as f64] };
    let lost = media.sent_frames.saturating_sub(media.received_frames);
    take("frame_drop_ratio", Samples::Values(share(lost, media.sent_frames)));
    if let Some(longest) = media.longest_damage {
        take("damaged_frame_ratio", Samples::Values(share(media.damaged, media.displayed)));
        take("longest_damage_ms", Samples::Values(vec![longest as f64 / 1e3]));
    }
    take("frame_skip_ratio", Samples::Values(share(media.skipped, media.captured)));
    take("late_frame_ratio", Samples::Values(share(media.late + media.passed_over, media.sent_frames)));
    take("packet_loss_ratio", Samples::Values(share(media.packets_lost, media.packets_sent)));
    take("retransmission_ratio", Samples::Values(share(media.retransmissions, media.packets_sent)));
    take("redundancy_ratio", Samples::Values(share(media.redundant_bytes, media.other_bytes)));
    if let Some(FrameLossCounts { residual, bad, runs }) = media.frame_losses {
        take("residual_frame_loss", Samples::Values(share(residual, media.sent_frames)));
        take("bad_frame_ratio", Samples::Values(share(bad, media.sent_frames)));
        take("recovery_frames", Samples::Values(share(bad, runs)));
    }
    if let Some(recovery) = media.recovery {
        for (name, times) in [
            ("recovered_by_repair", recovery.by_repair),
            ("recovered_by_late_repair", recovery.by_late_repair),
            ("recovered_by_retransmission", recovery.by_retransmission),
            ("recovered_by_reference", recovery.by_reference),
            ("recovered_by_key_frame", recovery.by_key_frame),
        ] {
            take(name, Samples::Values(vec![times as f64]));
        }
        take("frames_to_recover", Samples::Values(share(recovery.frames_to_recover, recovery.recoveries)));
    }
    if let Some((longest, overlong)) = media.longest_standstill.zip(media.overlong_standstills) {
        take("longest_standstill_ms", Samples::Values(vec![longest as f64 / 1e3]));
        take("overlong_standstills", Samples::Values(vec![overlong as f64]));
    }
    take("key_frames", Samples::Values(vec![media.key_frames as f64]));
    take("convergence_s", Samples::Values(convergence(run, media).into_iter().collect()));
}

/// Takes metrics that count every captured frame, whether it was sent or not.
fn of_service(media: &MediaRecord, take: Take<'_>) {
    let Some(ServiceRecord { in_time, quality, stalls, stalled, watched }) = media.service else { return };
    take("in_time_ratio", Samples::Values(vec![in_time as f64 / media.captured.max(1) as f64]));
    let counts = StallCounts { stalls, stalled, watched, longest: Span::ZERO };
    take("stalls_per_minute", Samples::Values(counts.per_minute().into_iter().collect()));
    if let Some(ratio) = counts.ratio() {
        take("stall_ratio", Samples::Values(vec![ratio]));
        take("utility", Samples::Values(vec![utility(quality, media.captured, ratio)]));
    }
    let never = media.captured.saturating_sub(media.frame_latency.count());
    take("frame_latency_all_ms", Samples::CountedOf(media.frame_latency.clone(), MILLISECONDS, never));
}

/// Returns the utility of a run's first session.
fn run_utility(run: &RunRecord) -> Option<f64> {
    let media = run.media.first()?;
    let ServiceRecord { quality, stalls, stalled, watched, .. } = media.service?;
    let ratio = StallCounts { stalls, stalled, watched, longest: Span::ZERO }.ratio()?;
    Some(utility(quality, media.captured, ratio))
}

/// Returns delivered media over capacity. None unless the direction has a limit and carries media.
fn utilisation(run: &RunRecord, side: &SideRecord) -> Option<f64> {
    let within = within(run, 0.0, f64::INFINITY);
    let capacity: Vec<f64> = side
        .capacity
        .iter()
        .enumerate()
        .filter(|(index, _)| within(*index))
        .map(|(_, rate)| f64::from(*rate))
        .collect();
    let mean = capacity.iter().sum::<f64>() / capacity.len().max(1) as f64;
    (mean > 0.0 && side.delivered > 0).then(|| side.delivered as f64 / mean)
}

/// Returns Jain's index of the sessions' received rates for each second in which all of them send.
fn jain(run: &RunRecord) -> Vec<f64> {
    let all_active: Vec<_> = run.media.iter().map(|media| active(run, media)).collect();
    let received: Vec<&[u32]> = run.media.iter().map(|media| media.received.as_slice()).collect();
    jain_by_second(run, &received, |index| all_active.iter().all(|active| active(index)))
}

/// Returns Jain's index of series of rates for each second in which all samples count.
pub(crate) fn jain_by_second(run: &RunRecord, received: &[&[u32]], counts: impl Fn(usize) -> bool) -> Vec<f64> {
    let samples = received.iter().map(|rates| rates.len()).min().unwrap_or(0);
    let step = ((1.0 / run.sample.as_secs_f64()).round() as usize).max(1);
    let second = |from: usize| {
        let indices = from..(from + step).min(samples);
        if !indices.clone().all(&counts) {
            return None;
        }
        let rates: Vec<f64> =
            received.iter().map(|rates| indices.clone().map(|index| f64::from(rates[index])).sum()).collect();
        jain_index(&rates)
    };
    (0..samples).step_by(step).filter_map(second).collect()
}

/// Returns the elastic flows' share of everything that arrived, for each sample in which both they and a session send.
fn tcp_share(run: &RunRecord) -> Vec<f64> {
    let media: Vec<_> = run.media.iter().map(|media| (media, active(run, media))).collect();
    let rivals: Vec<_> = run
        .rivals
        .iter()
        .filter(|rival| rival.elastic)
        .map(|rival| (rival, within(run, rival.from, rival.to)))
        .collect();
    let samples = run.media.iter().map(|media| media.received.len()).min().unwrap_or(0);
    let share = |index: usize| {
        let theirs: Vec<f64> = rivals
            .iter()
            .filter(|(_, within)| within(index))
            .filter_map(|(rival, _)| rival.received.get(index).map(|rate| f64::from(*rate)))
            .collect();
        let ours: Vec<f64> = media
            .iter()
            .filter(|(_, active)| active(index))
            .map(|(media, _)| f64::from(media.received[index]))
            .collect();
        let (theirs, ours) = ((theirs.len(), theirs.iter().sum::<f64>()), (ours.len(), ours.iter().sum::<f64>()));
        (theirs.0 > 0 && ours.0 > 0 && theirs.1 + ours.1 > 0.0).then(|| theirs.1 / (theirs.1 + ours.1))
    };
    (0..samples).filter_map(share).collect()
}

/// Returns the seconds until the received rate stays within 10 % of its median over the second half, for two seconds at least. None if it never does.
///
/// None where it never does.
fn convergence(run: &RunRecord, media: &MediaRecord) -> Option<f64> {
    const TOLERANCE: f64 = 0.10;
    let sample = run.sample.as_secs_f64();
    let first = media.target.iter().position(|target| *target > 0)?;
    let last = ((media.to / sample).round() as usize).min(media.received.len());
    let step = ((1.0 / sample).round() as usize).max(1);
    let rates: Vec<f64> = media
        .received
        .get(first..last)?
        .chunks_exact(step)
        .map(|chunk| chunk.iter().map(|rate| f64::from(*rate)).sum::<f64>() / step as f64)
        .collect();
    let steady = Ecdf::new(rates.get(rates.len() / 2..)?.to_vec())?.percentile(50.0);
    let near = |rate: &f64| (rate - steady).abs() <= TOLERANCE * steady;
    let at = rates.windows(2).position(|pair| pair.iter().all(near))?;
    Some(at as f64 * step as f64 * sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_were_never_displayed_have_an_infinite_latency() {
        let run = |displayed: u64, captured: u64| {
            let mut frame_latency = Histogram::default();
            (1..=displayed).for_each(|latency| frame_latency.add(latency * 1_000));
            let service = Some(ServiceRecord { watched: Span::from_secs(1), ..ServiceRecord::default() });
            let media = MediaRecord { captured, service, frame_latency, ..MediaRecord::default() };
            let mut pools: BTreeMap<&'static str, Pool> = BTreeMap::new();
            of_service(&media, &mut |name, samples| pools.entry(name).or_default().add(samples));
            figures(pools)["frame_latency_all_ms"]
        };
        let whole = run(50, 50);
        assert!((whole.mean - 25.5).abs() < 1e-9 && (whole.p95 - 48.0).abs() < 1.0, "{whole:?}");
        // 94 of 100 were displayed: the median is theirs, and 95 % of all were never that fast.
        let some = run(94, 100);
        assert!((some.p50 - 50.0).abs() < 1.0 && some.p95.is_infinite() && some.mean.is_infinite(), "{some:?}");
        let json = serde_json::to_value(some).expect("plain figures");
        assert!(json["mean"].is_null() && json["p95"].is_null() && json["p50"].as_f64() == Some(some.p50), "{json}");
        assert!(run(95, 100).p95.is_finite() && run(0, 100).p50.is_infinite());
    }
}
