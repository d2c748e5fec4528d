//! A section's charts of sessions: bars, clouds, distributions, stages, and rates over time.

use nearlight_events::{STAGES, Stage};
use nearlight_report::statistics::Ecdf;
use nearlight_report::{Axis, Bar, Bars, Chart, Corner, Ecdfs, Lines, Plot, Scatter, Series, Stacks};

use super::{Entry, mean, published};
use crate::histogram::Histogram;
use crate::plan::PublishedFigure;
use crate::record::{MediaRecord, RunRecord};
use crate::runner::ResultsHeader;
use crate::summary::{STAGE_METRICS, jain_by_second, run_means};

/// Points of a distribution function.
const ECDF_POINTS: usize = 400;

pub(super) fn in_time_bars(entries: &[Entry<'_>]) -> Chart {
    let bar = |entry: &Entry<'_>| {
        let figure = entry.summary.metrics.get("in_time_ratio")?;
        let ci95 = (figure.n > 1).then_some(figure.ci95 * 100.0);
        Some(Bar { name: entry.name.clone(), value: figure.mean * 100.0, ci95, published: None })
    };
    let bars = Bars { x: Axis::new("shown in time", "% of captures"), rows: entries.iter().filter_map(bar).collect() };
    let caption = "Of all captured frames, those that were left out before encoding included, how many were shown undamaged and by \
                   their deadline; longer is better.";
    Chart::new("What the user gets", caption, Plot::Bars(bars))
}

pub(super) fn rate_bars(head: &ResultsHeader, entries: &[Entry<'_>]) -> Chart {
    let bar = |entry: &Entry<'_>| {
        let figure = entry.summary.metrics.get("received_mbps");
        let published = published(head, entry, "received_mbps").and_then(PublishedFigure::exactly);
        Bar {
            name: entry.name.clone(),
            value: figure.map_or(0.0, |figure| figure.mean),
            ci95: figure.filter(|figure| figure.n > 1).map(|figure| figure.ci95),
            published,
        }
    };
    let bars = Bars { x: Axis::new("received", "Mb/s"), rows: entries.iter().map(bar).collect() };
    Chart::new(
        "What arrives",
        "Mean received rate of a session, whether its frames were of use or not. A diamond is a published figure.",
        Plot::Bars(bars),
    )
}

pub(super) fn latency_scatter(entries: &[Entry<'_>]) -> Chart {
    let cloud = |entry: &Entry<'_>| {
        let point = |run: &&RunRecord| {
            let means = run_means(run);
            Some((*means.get("frame_network_latency_ms")?, *means.get("received_mbps")?))
        };
        (entry.name.clone(), entry.runs.iter().filter_map(point).collect())
    };
    let scatter = Scatter {
        x: Axis::new("frame network latency", "ms"),
        y: Axis::new("received", "Mb/s"),
        clouds: entries.iter().map(cloud).collect(),
        better: Some(Corner::TopLeft),
    };
    let caption = "A point is a run; up and to the left is better, among those who show most frames in time: lost frames have no latency.";
    Chart::new("Latency against rate", caption, Plot::Scatter(scatter))
}

pub(super) fn latency_distribution(entries: &[Entry<'_>]) -> Chart {
    let curve = |entry: &Entry<'_>| {
        let mut all = Histogram::default();
        for media in entry.runs.iter().flat_map(|run| &run.media) {
            all.merge(&media.frame_network_latency);
        }
        Some((entry.name.clone(), ecdf(&all)?))
    };
    let ecdfs = Ecdfs {
        x: Axis::new("frame network latency", "ms").logarithmic(),
        curves: entries.iter().filter_map(curve).collect(),
        moments: Vec::new(),
    };
    let caption = "Share of whole frames that took at most so long from the encoder to the decoder. Steep and to the left is better; \
                   frames that never became whole are not in it.";
    Chart::new("How long frames take", caption, Plot::Ecdf(ecdfs))
}

pub(super) fn stages(entries: &[Entry<'_>]) -> Chart {
    let part = |entry: &Entry<'_>, stage: Stage| {
        let measured = mean(entry, STAGE_METRICS[stage as usize]);
        measured.unwrap_or_else(|| estimated_stage(entry, stage))
    };
    let row = |entry: &Entry<'_>| (entry.name.clone(), STAGES.map(|stage| part(entry, stage)).to_vec());
    let stacks = Stacks {
        x: Axis::new("mean time", "ms"),
        stages: STAGES.map(|stage| stage.name().to_owned()).to_vec(),
        rows: entries.iter().map(row).collect(),
    };
    let caption = "From an input to the display, means over displayed frames; pace is waiting in the sender, reassemble what repairs \
                   and packets that were overtaken take. Over TCP inputs are left out, and network is all from encoded to whole.";
    Chart::new("Where a frame's time goes", caption, Plot::Stacks(stacks))
}

/// Estimates a stage for which no frame has a value, from the plan and from the frames' total times.
fn estimated_stage(entry: &Entry<'_>, stage: Stage) -> f64 {
    let run = entry.runs[0];
    let network = mean(entry, "frame_network_latency_ms").unwrap_or(0.0);
    let known = [run.render, run.encode, run.decode].map(nearlight_units::Span::as_millis_f64);
    match stage {
        Stage::Render => known[0],
        Stage::Encode => known[1],
        Stage::Network => network,
        Stage::Decode => known[2],
        Stage::Present => {
            let total = mean(entry, "frame_latency_ms").unwrap_or(0.0);
            // Frames that were received but not displayed have a network latency too, so this may be negative.
            (total - known.iter().sum::<f64>() - network).max(0.0)
        }
        Stage::Input | Stage::Wait | Stage::Convert | Stage::Pace | Stage::Reassemble => 0.0,
    }
}

/// Plots rate and delay of TCP flows without sessions.
pub(super) fn flows_scatter(entries: &[Entry<'_>]) -> Chart {
    let cloud = |entry: &Entry<'_>| {
        let point = |run: &&RunRecord| {
            let means = run_means(run);
            Some((*means.get("flows_delay_ms")?, *means.get("flows_mbps")?))
        };
        (entry.name.clone(), entry.runs.iter().filter_map(point).collect())
    };
    let scatter = Scatter {
        x: Axis::new("one-way delay", "ms"),
        y: Axis::new("data of all flows", "Mb/s"),
        clouds: entries.iter().map(cloud).collect(),
        better: Some(Corner::TopLeft),
    };
    let caption = "A point is a run, the mean delay of its packets and all data that its flows got through; up and to the left is better.";
    Chart::new("Delay against rate", caption, Plot::Scatter(scatter))
}

/// Plots each player's bit rate and stalls, one point per run.
pub(super) fn playback_scatter(entries: &[Entry<'_>]) -> Chart {
    let cloud = |entry: &Entry<'_>| {
        let point = |run: &&RunRecord| {
            let means = run_means(run);
            Some((*means.get("playback_stalled_s")?, *means.get("playback_mbps")?))
        };
        (entry.name.clone(), entry.runs.iter().filter_map(point).collect())
    };
    let scatter = Scatter {
        x: Axis::new("time in stalls", "s"),
        y: Axis::new("bit rate played", "Mb/s"),
        clouds: entries.iter().map(cloud).collect(),
        better: Some(Corner::TopLeft),
    };
    let caption = "A point is a run: how long a player stood on average, and the mean bit rate that it played; up and to the left is better.";
    Chart::new("Stalls against bit rate", caption, Plot::Scatter(scatter))
}

pub(super) fn flows_delay(entries: &[Entry<'_>]) -> Chart {
    let curve = |entry: &Entry<'_>| {
        let mut all = Histogram::default();
        for flow in entry.runs.iter().flat_map(|run| &run.rivals).filter(|flow| flow.elastic) {
            all.merge(&flow.delay);
        }
        Some((entry.name.clone(), ecdf(&all)?))
    };
    let ecdfs = Ecdfs {
        x: Axis::new("one-way delay", "ms").logarithmic(),
        curves: entries.iter().filter_map(curve).collect(),
        moments: Vec::new(),
    };
    let caption =
        "Share of packets that took at most so long from one end to the other. Steep and to the left is better.";
    Chart::new("How long packets take", caption, Plot::Ecdf(ecdfs))
}

/// Plots Jain's fairness index second by second.
pub(super) fn jain_over_time(entries: &[Entry<'_>]) -> Chart {
    let line = |entry: &Entry<'_>| {
        let run = entry.runs[0];
        let received: Vec<&[u32]> =
            run.rivals.iter().filter(|flow| flow.elastic).map(|flow| flow.received.as_slice()).collect();
        let values = jain_by_second(run, &received, |_| true);
        let step = (1.0 / run.sample.as_secs_f64()).round().max(1.0) * run.sample.as_secs_f64();
        let points = values.into_iter().enumerate().map(|(index, value)| ((index + 1) as f64 * step, value)).collect();
        Series::line(entry.name.clone(), points)
    };
    let lines = Lines {
        x: Axis::new("time", "s"),
        y: Axis::new("Jain's index", "").range(0.0, 1.0),
        series: entries.iter().map(line).collect(),
        ..Lines::default()
    };
    let caption =
        "First seed: 1 where all flows received the same in a second, one over their number where one received all.";
    Chart::new("Fairness over time", caption, Plot::Lines(lines))
}

/// Converts a histogram of microseconds to milliseconds at equal steps of the share.
fn ecdf(histogram: &Histogram) -> Option<Ecdf> {
    let quantile = |step: usize| Some(histogram.quantile((step as f64 + 0.5) / ECDF_POINTS as f64)? / 1e3);
    let samples = (0..ECDF_POINTS).filter(|_| histogram.count() > 0).filter_map(quantile).collect();
    Ecdf::new(samples)
}

/// Returns the points of a series in seconds and Mb/s, each at the end of its sample.
fn points(run: &RunRecord, values: &[u32], scale: f64) -> Vec<(f64, f64)> {
    let sample = run.sample.as_secs_f64();
    values.iter().enumerate().map(|(index, value)| ((index + 1) as f64 * sample, f64::from(*value) * scale)).collect()
}

fn capacity(run: &RunRecord) -> Option<Series> {
    let side = &run.links.first()?.sides[0];
    let limited = side.capacity.iter().any(|capacity| *capacity > 0);
    limited.then(|| Series::steps("capacity", points(run, &side.capacity, 1e-3)))
}

pub(super) fn rates_over_time(entry: &Entry<'_>) -> Chart {
    let run = entry.runs[0];
    let none = MediaRecord::default();
    let media = run.media.first().unwrap_or(&none);
    let lines = Lines {
        x: Axis::new("time", "s"),
        y: Axis::new("rate", "Mb/s"),
        series: vec![
            Series::line("target", points(run, &media.target, 1e-3)),
            Series::line("sent", points(run, &media.sent, 1e-3)),
            Series::line("received", points(run, &media.received, 1e-3)),
        ],
        capacity: capacity(run),
        moments: Vec::new(),
    };
    let caption = format!("Seed {}: what the controller wants, what leaves and what arrives.", run.seed);
    Chart::new(entry.name.clone(), caption, Plot::Lines(lines)).linked("time")
}

pub(super) fn flows_over_time(entry: &Entry<'_>) -> Chart {
    let run = entry.runs[0];
    let media = run.media.iter().map(|media| Series::line(media.name.clone(), points(run, &media.received, 1e-3)));
    // Barely visible series, such as audio, only clutter the chart.
    let visible = |received: &[u32]| received.iter().max().is_some_and(|most| *most > 100);
    let rivals = run
        .rivals
        .iter()
        .filter(|rival| visible(&rival.received))
        .map(|rival| Series::line(rival.name.clone(), points(run, &rival.received, 1e-3)));
    let lines = Lines {
        x: Axis::new("time", "s"),
        y: Axis::new("received", "Mb/s"),
        series: media.chain(rivals).collect(),
        capacity: capacity(run),
        moments: Vec::new(),
    };
    let caption = format!("Seed {}: what each flow receives.", run.seed);
    Chart::new(entry.name.clone(), caption, Plot::Lines(lines)).linked("time")
}
