//! From runs to a page: one section for each case and path, with all controllers side by side.

pub mod wifi;

use std::collections::{BTreeMap, BTreeSet};

use nearlight_events::{STAGES, Stage};
use nearlight_report::samples::{Samples, Values};
use nearlight_report::statistics::{Ecdf, compare};
use nearlight_report::{
    Axis, Bar, Bars, Better, Cell, Chart, Column, Corner, Document, Ecdfs, Lines, Plot, Row, Scatter, Section, Series,
    Stacks, Table,
};

use crate::plan::{PublishedFigure, published_figure};
use crate::record::{MediaRecord, RunRecord};
use crate::runner::Head;
use crate::summary::{CellSummary, STAGE_METRICS, run_means, summarise};

type Labels = BTreeMap<String, String>;

/// A metric as a table shows it.
struct Metric {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    better: Better,
    decimals: usize,
    wanted: Wanted,
    of: Of,
    /// It counts every captured frame, so that nothing is gained in it by frames that are not there.
    counts_all: bool,
}

/// Which of a metric's figures stands in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Mean,
    /// What 95 % do not exceed, of all samples of all runs.
    P95,
}

/// Where a metric has a column; wherever it is published it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// Where there is such a figure.
    Always,
    /// Where whole systems are compared, with their redundancy and recovery.
    OfSystems,
    /// Nowhere else.
    Published,
}

const fn metric(
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    better: Better,
    decimals: usize,
) -> Metric {
    Metric { name, title, unit, better, decimals, wanted: Wanted::Always, of: Of::Mean, counts_all: false }
}

const fn stage(place: usize) -> Metric {
    metric(STAGE_METRICS[place], STAGES[place].name(), "ms", Better::Lower, 2).wanted(Wanted::Published)
}

impl Metric {
    const fn wanted(self, wanted: Wanted) -> Self {
        Self { wanted, ..self }
    }

    const fn counts_all(self) -> Self {
        Self { counts_all: true, ..self }
    }
}

/// What serves the user comes first.
const METRICS: [Metric; 46] = [
    metric("in_time_ratio", "shown in time", "of all captures", Better::Higher, 4).counts_all(),
    metric("utility", "utility", "−1 to 1", Better::Higher, 3).counts_all(),
    metric("stall_ratio", "time in stalls", "", Better::Lower, 4).counts_all(),
    metric("stalls_per_minute", "stalls", "per minute", Better::Lower, 2).counts_all(),
    Metric {
        of: Of::P95,
        ..metric("frame_latency_all_ms", "capture to display, all", "ms at 95 %", Better::Lower, 1).counts_all()
    },
    metric("target_mbps", "target", "Mb/s", Better::Neither, 1),
    metric("received_mbps", "received", "Mb/s", Better::Higher, 1),
    metric("target_gap_mbps", "target minus received", "Mb/s", Better::Lower, 2),
    metric("utilisation", "share of capacity", "", Better::Higher, 3),
    metric("frame_network_latency_ms", "frame network latency", "ms", Better::Lower, 1),
    metric("frame_assembly_ms", "assembly delay", "ms", Better::Lower, 1),
    metric("frame_latency_ms", "capture to display", "ms", Better::Lower, 1),
    metric("motion_to_photon_ms", "motion to photon", "ms", Better::Lower, 1).wanted(Wanted::OfSystems),
    metric("network_latency_ms", "frame network latency", "ms", Better::Lower, 1).wanted(Wanted::Published),
    metric("one_way_delay_ms", "packet's way", "ms", Better::Lower, 2).wanted(Wanted::Published),
    metric("queue_delay_ms", "queueing", "ms", Better::Lower, 1),
    metric("frame_drop_ratio", "frames dropped", "", Better::Lower, 4),
    metric("frame_skip_ratio", "frames left out", "", Better::Lower, 4),
    metric("late_frame_ratio", "frames late", "", Better::Lower, 4),
    metric("redundancy_ratio", "redundancy", "", Better::Lower, 4).wanted(Wanted::OfSystems),
    metric("residual_frame_loss", "frames not whole in time", "", Better::Lower, 4).wanted(Wanted::OfSystems),
    metric("bad_frame_ratio", "frames bad", "", Better::Lower, 4).wanted(Wanted::OfSystems),
    metric("recovery_frames", "bad frames in a row", "", Better::Lower, 1).wanted(Wanted::OfSystems),
    metric("key_frames", "key frames", "", Better::Lower, 1),
    metric("jain", "fairness (Jain)", "", Better::Higher, 3),
    metric("tcp_share", "share of TCP", "", Better::Neither, 3),
    metric("convergence_s", "convergence", "s", Better::Lower, 1),
    metric("psnr_db", "PSNR", "dB", Better::Higher, 2),
    metric("ssim", "SSIM", "", Better::Higher, 4),
    stage(0),
    stage(1),
    stage(2),
    stage(3),
    stage(4),
    stage(5),
    stage(6),
    stage(7),
    stage(8),
    stage(9),
    metric("dl_packet_delay_ms", "packet down", "ms", Better::Lower, 2),
    metric("ul_packet_delay_ms", "packet up", "ms", Better::Lower, 2),
    metric("video_frame_delay_ms", "frame", "ms", Better::Lower, 2),
    metric("frames_within_10ms_ratio", "frames within 10 ms", "", Better::Higher, 4),
    metric("ampdu_mpdus", "A-MPDU", "packets", Better::Neither, 1),
    metric("airtime_ratio", "airtime", "", Better::Lower, 3),
    metric("delivered_mbps", "delivered", "Mb/s", Better::Higher, 1),
];

/// Whether a page has a column for a metric that is published.
#[must_use]
pub fn can_show(metric: &str) -> bool {
    METRICS.iter().any(|known| known.name == metric)
}

/// Figures that are compared across controllers by analysis of variance.
const COMPARED: [&str; 3] = ["utility", "in_time_ratio", "frame_network_latency_ms"];

/// Points of a distribution function.
const ECDF_POINTS: usize = 400;

/// The runs of one cell, by the name of what its section compares.
struct Entry<'a> {
    name: String,
    runs: Vec<&'a RunRecord>,
    summary: CellSummary,
}

/// The page of a plan's runs.
#[must_use]
pub fn document(head: &Head, runs: &[RunRecord]) -> Document {
    let mut groups: BTreeMap<Labels, BTreeMap<String, Vec<&RunRecord>>> = BTreeMap::new();
    let mut compared: BTreeMap<Option<&String>, Contest> = BTreeMap::new();
    for run in runs {
        let case = run.labels.get("case");
        let contest = compared.entry(case).or_insert_with(|| Contest::of(runs, case));
        let mut labels = run.labels.clone();
        labels.retain(|name, _| !contest.labels.contains(&name.as_str()));
        groups.entry(labels).or_default().entry(contest.name(&run.labels)).or_default().push(run);
    }
    let seeds = runs.iter().map(|run| run.seed).max().unwrap_or(0);
    let mut document = Document::new(head.plan.clone(), head.question.clone())
        .fact("plan", head.plan.clone())
        .fact("commit", head.commit.clone())
        .fact("seeds", seeds.to_string())
        .fact("runs", runs.len().to_string());
    let mut names: Vec<String> = groups.values().flat_map(BTreeMap::keys).cloned().collect();
    names.sort_unstable();
    names.dedup();
    document = document.colours(names);
    if !head.notes.trim().is_empty() {
        document = document.section(Section::new("Set-up").paragraph(head.notes.trim().replace('\n', " ")));
    }
    let mut groups: Vec<(Labels, BTreeMap<String, Vec<&RunRecord>>)> = groups.into_iter().collect();
    groups.sort_by_cached_key(|(labels, _)| labels.values().map(|value| naturally(value)).collect::<Vec<_>>());
    // What never changes is a fact of the plan, and no part of titles.
    let told = |name: &String| name == "path" || varies(runs.iter().map(|run| &run.labels), name);
    let fixed: BTreeMap<&String, &String> =
        runs.iter().flat_map(|run| &run.labels).filter(|label| !told(label.0)).collect();
    for (name, value) in fixed {
        document = document.fact(name.clone(), value.clone());
    }
    let mut sections = Vec::new();
    let mut summaries = Vec::new();
    for (labels, by_name) in groups {
        let mut entries: Vec<Entry<'_>> = by_name
            .into_iter()
            .map(|(name, mut runs)| {
                runs.sort_by_key(|run| run.seed);
                let labels = runs[0].labels.clone();
                Entry { name, summary: summarise(&labels, &runs), runs }
            })
            .collect();
        entries.sort_by_cached_key(|entry| naturally(&entry.name));
        summaries.extend(entries.iter().map(|entry| entry.summary.clone()));
        let told: Labels = labels.into_iter().filter(|(name, _)| told(name)).collect();
        let contest = &compared[&entries[0].runs[0].labels.get("case")];
        sections.push(section(head, &told, contest.title, &entries));
    }
    for section in wifi::overview(&summaries).into_iter().chain(sections) {
        document = document.section(section);
    }
    document
}

/// Labels of a whole system.
const SYSTEM: [&str; 4] = ["controller", "fec", "recovery", "captures"];

/// What the sections of a case compare.
struct Contest {
    /// These labels of a run say whose it is,
    labels: Vec<&'static str>,
    /// and these tell all of them apart.
    telling: Vec<&'static str>,
    title: &'static str,
}

impl Contest {
    /// Whole systems where there are any, or else controllers, or the first of these labels that has several values there.
    fn of(runs: &[RunRecord], case: Option<&String>) -> Self {
        let of_case = || runs.iter().filter(|run| run.labels.get("case") == case).map(|run| &run.labels);
        let several = |label: &&str| varies(of_case(), label);
        if !of_case().any(|labels| labels.contains_key("recovery")) {
            let mut labels = ["controller", "tau_ms", "fps", "headsets", "pacing"].into_iter();
            let label = labels.find(several).unwrap_or("controller");
            return Self { labels: vec![label], telling: vec![label], title: label };
        }
        let kinds = |telling: &[&str]| {
            of_case()
                .map(|labels| telling.iter().map(|label| labels.get(*label)).collect::<Vec<_>>())
                .collect::<BTreeSet<_>>()
                .len()
        };
        let mut telling: Vec<&'static str> = Vec::new();
        for label in SYSTEM {
            if kinds(&[telling.as_slice(), &[label]].concat()) > kinds(&telling) {
                telling.push(label);
            }
        }
        if telling.is_empty() {
            telling.push("controller");
        }
        Self { labels: SYSTEM.to_vec(), telling, title: "system" }
    }

    fn name(&self, labels: &Labels) -> String {
        let word = |label: &&str| {
            let value = labels.get(*label)?;
            // A controller and a value that stands alone need no word about what they are.
            let plain = self.telling.len() == 1 || *label == "controller";
            Some(if plain { value.clone() } else { format!("{label} {value}") })
        };
        self.telling.iter().filter_map(word).collect::<Vec<_>>().join(", ")
    }
}

/// Whether a label has several values; where it is missing it has none.
fn varies<'a>(all: impl Iterator<Item = &'a Labels>, label: &str) -> bool {
    all.filter_map(|labels| labels.get(label)).collect::<BTreeSet<_>>().len() > 1
}

/// Sorts 20ms before 100ms.
fn naturally(value: &str) -> (u64, String) {
    let end = value.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(value.len());
    (value[..end].parse().unwrap_or(0), value.to_owned())
}

fn in_words(label: &str) -> &str {
    match label {
        "controller" => "Controller",
        "system" => "System",
        "tau_ms" => "Between batches, ms",
        "fps" => "Frames a second",
        "headsets" => "Headsets",
        "pacing" => "Pacing",
        other => other,
    }
}

fn title(labels: &Labels) -> String {
    let part = |(name, value): (&String, &String)| {
        if name == "path" || name == "case" { value.clone() } else { format!("{name} {value}") }
    };
    let title = labels.iter().map(part).collect::<Vec<_>>().join(", ");
    if title.is_empty() { "All runs".to_owned() } else { title }
}

fn section(head: &Head, labels: &Labels, label: &str, entries: &[Entry<'_>]) -> Section {
    let section = Section::new(title(labels)).answer(answer(entries, label)).table(table(head, label, entries));
    let compared: Vec<wifi::Compared<'_>> =
        entries.iter().map(|entry| (entry.name.as_str(), entry.runs.as_slice())).collect();
    if entries.iter().all(|entry| entry.runs[0].media.is_empty()) {
        return wifi::add_charts(section, &compared);
    }
    wifi::add_charts(session_charts(section, head, label, entries), &compared)
}

fn session_charts(section: Section, head: &Head, label: &str, entries: &[Entry<'_>]) -> Section {
    let mut section = section;
    for name in COMPARED {
        if let Some(words) = differences(name, label, entries) {
            section = section.note(words);
        }
    }
    section = section.charts(vec![in_time_bars(entries), rate_bars(head, entries)]);
    section = section.charts(vec![latency_scatter(entries), latency_distribution(entries)]);
    section = section.chart(stages(entries));
    let several = entries.iter().any(|entry| entry.runs[0].media.len() + entry.runs[0].rivals.len() > 1);
    for pair in entries.chunks(2) {
        let charts = pair.iter().map(|entry| if several { flows_over_time(entry) } else { rates_over_time(entry) });
        section = section.charts(charts.collect());
    }
    section
}

fn mean(entry: &Entry<'_>, name: &str) -> Option<f64> {
    entry.summary.metrics.get(name).map(|figure| figure.mean)
}

/// Who serves the user best, and at what.
fn answer(entries: &[Entry<'_>], label: &str) -> String {
    let best = |name: &str, sign: f64| {
        entries
            .iter()
            .filter_map(|entry| Some((entry, mean(entry, name)?)))
            .max_by(|one, other| (sign * one.1).total_cmp(&(sign * other.1)))
    };
    if let Some((entry, utility)) = best("utility", 1.0) {
        return service(entries, entry, utility);
    }
    if entries.iter().any(|entry| !entry.runs[0].media.is_empty()) {
        return "These results do not tell how many captured frames were shown in time; run the plan again to compare what serves the \
                user."
            .to_owned();
    }
    let soonest = best("video_frame_delay_ms", -1.0).map(|(entry, delay)| {
        format!("Frames are there soonest with {label} {}, after {delay:.2} ms on average.", entry.name)
    });
    soonest.unwrap_or_default()
}

fn service(entries: &[Entry<'_>], best: &Entry<'_>, utility: f64) -> String {
    let of = |name| mean(best, name).unwrap_or(f64::NAN);
    let (in_time, stalled) = (100.0 * of("in_time_ratio"), 100.0 * of("stall_ratio"));
    let facts = format!(
        "{in_time:.1} % of all captured frames shown in time, {stalled:.1} % of the time in stalls, {:.1} Mb/s received",
        of("received_mbps")
    );
    if entries.len() < 2 {
        return format!("{}: utility {utility:.3}, {facts}.", best.name);
    }
    let tied = tied_with(best, entries);
    let words = format!("{} serves the user best, with a utility of {utility:.3}: {facts}.", best.name);
    match &tied[..] {
        [] => words,
        [one] => format!("{words} {one} does not differ from it in utility by Tukey's test at the 5 % level."),
        [one, other] => {
            format!("{words} {one} and {other} do not differ from it in utility by Tukey's test at the 5 % level.")
        }
        more => format!(
            "{words} {} of the {} others do not differ from it in utility by Tukey's test at the 5 % level: they share a letter with it.",
            more.len(),
            entries.len() - 1
        ),
    }
}

/// Those who share a letter with the best.
fn tied_with<'a>(best: &Entry<'_>, entries: &'a [Entry<'_>]) -> Vec<&'a str> {
    let found = groups("utility", entries).and_then(|groups| compare(&groups));
    let (Some(found), Some(place)) = (found, entries.iter().position(|entry| entry.name == best.name)) else {
        return Vec::new();
    };
    let letters = &found.tukey.letters;
    let shares = |index: usize| index != place && letters[index].chars().any(|letter| letters[place].contains(letter));
    entries.iter().enumerate().filter(|(index, _)| shares(*index)).map(|(_, entry)| entry.name.as_str()).collect()
}

fn published(head: &Head, entry: &Entry<'_>, metric: &str) -> Option<PublishedFigure> {
    published_figure(&head.published, &entry.summary.labels, metric)
}

fn table(head: &Head, label: &str, entries: &[Entry<'_>]) -> Table {
    let has_theirs = |metric: &Metric| entries.iter().any(|entry| published(head, entry, metric.name).is_some());
    let wanted = |metric: &Metric| match metric.wanted {
        Wanted::Always => true,
        Wanted::OfSystems => label == "system" || has_theirs(metric),
        Wanted::Published => has_theirs(metric),
    };
    // Where there is a published figure, that ours is missing is worth a column.
    let has_any =
        |metric: &Metric| has_theirs(metric) || entries.iter().any(|entry| mean(entry, metric.name).is_some());
    let shown: Vec<&Metric> = METRICS.iter().filter(|metric| wanted(metric) && has_any(metric)).collect();
    let letters: Vec<Option<Vec<String>>> = shown
        .iter()
        .map(|metric| COMPARED.contains(&metric.name).then(|| groups(metric.name, entries)).flatten())
        .map(|groups| groups.and_then(|groups| compare(&groups)).map(|found| found.tukey.letters))
        .collect();
    // Where sessions could leave frames out, only what counts all of them says who is best.
    let of_sessions = entries.iter().any(|entry| !entry.runs[0].media.is_empty());
    let mut columns = Vec::new();
    for metric in &shown {
        let column = Column::new(metric.title, metric.unit).better(metric.better).decimals(metric.decimals);
        columns.push(if of_sessions && !metric.counts_all { column.unmarked() } else { column });
        if has_theirs(metric) {
            let title = format!("{}, published", metric.title);
            columns.push(Column::new(title, metric.unit).published().decimals(metric.decimals));
        }
    }
    let row = |(index, entry): (usize, &Entry<'_>)| {
        let mut cells = Vec::new();
        for (metric, letters) in shown.iter().zip(&letters) {
            cells.push(match entry.summary.metrics.get(metric.name) {
                None => Cell::Empty,
                Some(figure) if metric.of == Of::P95 => Cell::figure(figure.p95),
                Some(figure) => {
                    let ci95 = (figure.n > 1).then_some(figure.ci95);
                    match letters.as_ref().and_then(|letters| letters.get(index)) {
                        Some(letters) => Cell::with_letters(figure.mean, ci95, letters.clone()),
                        None => Cell::with_interval(figure.mean, ci95),
                    }
                }
            });
            if has_theirs(metric) {
                cells.push(published(head, entry, metric.name).map_or(Cell::Empty, their_cell));
            }
        }
        Row::new(entry.name.clone(), cells)
    };
    Table {
        caption: caption(of_sessions),
        corner: in_words(label).to_owned(),
        columns,
        rows: entries.iter().enumerate().map(row).collect(),
    }
}

fn caption(of_sessions: bool) -> String {
    let means = "Means over the runs with their 95 % confidence intervals. Rows that share a letter do not differ by Tukey's test at \
                 the 5 % level.";
    if !of_sessions {
        return means.to_owned();
    }
    format!(
        "{means} Only figures that count every captured frame are marked: in the others a session can look good by the frames that it \
         leaves out or loses."
    )
}

fn their_cell(figure: PublishedFigure) -> Cell {
    figure.exactly().map_or_else(|| Cell::text(figure.to_string()), Cell::figure)
}

/// Each run's mean of a metric, by controller; none unless every controller has it.
fn groups(name: &str, entries: &[Entry<'_>]) -> Option<Vec<Vec<f64>>> {
    let of_entry = |entry: &Entry<'_>| {
        let means: Vec<f64> = entry.runs.iter().filter_map(|run| run_means(run).get(name).copied()).collect();
        (!means.is_empty()).then_some(means)
    };
    entries.iter().map(of_entry).collect()
}

fn differences(name: &str, label: &str, entries: &[Entry<'_>]) -> Option<String> {
    let metric = METRICS.iter().find(|metric| metric.name == name)?;
    let found = compare(&groups(name, entries)?)?;
    Some(format!(
        "Does the {label} make a difference to {}? One-way analysis of variance: {}.",
        metric.title,
        found.anova.in_words()
    ))
}

fn in_time_bars(entries: &[Entry<'_>]) -> Chart {
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

fn rate_bars(head: &Head, entries: &[Entry<'_>]) -> Chart {
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

fn latency_scatter(entries: &[Entry<'_>]) -> Chart {
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

fn latency_distribution(entries: &[Entry<'_>]) -> Chart {
    let curve = |entry: &Entry<'_>| {
        let mut all = crate::Histogram::default();
        for media in entry.runs.iter().flat_map(|run| &run.media) {
            all.merge(&media.frame_network_latency);
        }
        let quantile = |step: usize| Some(all.quantile((step as f64 + 0.5) / ECDF_POINTS as f64)? / 1e3);
        let samples: Vec<f64> = (0..ECDF_POINTS).filter(|_| all.count() > 0).filter_map(quantile).collect();
        Some((entry.name.clone(), Ecdf::new(samples)?))
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

fn stages(entries: &[Entry<'_>]) -> Chart {
    let part = |entry: &Entry<'_>, stage: Stage| {
        let measured = mean(entry, STAGE_METRICS[stage as usize]);
        measured.unwrap_or_else(|| roughly(entry, stage))
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

/// A stage where no frame's own is known: from the plan, and from what is known of whole frames.
fn roughly(entry: &Entry<'_>, stage: Stage) -> f64 {
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
            // Frames that were received and not displayed have a network latency too, so that this may come out below zero.
            (total - known.iter().sum::<f64>() - network).max(0.0)
        }
        Stage::Input | Stage::Wait | Stage::Convert | Stage::Pace | Stage::Reassemble => 0.0,
    }
}

/// Series points at the ends of their samples, in seconds and Mb/s.
fn points(run: &RunRecord, values: &[u32], scale: f64) -> Vec<(f64, f64)> {
    let sample = run.sample.as_secs_f64();
    values.iter().enumerate().map(|(index, value)| ((index + 1) as f64 * sample, f64::from(*value) * scale)).collect()
}

fn capacity(run: &RunRecord) -> Option<Series> {
    let side = &run.links.first()?.sides[0];
    let limited = side.capacity.iter().any(|capacity| *capacity > 0);
    limited.then(|| Series::steps("capacity", points(run, &side.capacity, 1e-3)))
}

fn rates_over_time(entry: &Entry<'_>) -> Chart {
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

fn flows_over_time(entry: &Entry<'_>) -> Chart {
    let run = entry.runs[0];
    let media = run.media.iter().map(|media| Series::line(media.name.clone(), points(run, &media.received, 1e-3)));
    // What hardly shows, such as audio, only crowds the picture.
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

/// Every run's figures: a row for each.
#[must_use]
pub fn samples(runs: &[RunRecord]) -> Samples {
    let means: Vec<BTreeMap<&'static str, f64>> = runs.iter().map(run_means).collect();
    let mut samples = Samples::default();
    let labels: BTreeSet<&String> = runs.iter().flat_map(|run| run.labels.keys()).collect();
    let mut add = |name: &str, values: Values| {
        // Names are those of maps and lengths those of runs: nothing to refuse.
        samples.column(name, values).expect("distinct names and one value for each run");
    };
    for label in labels {
        let values = runs.iter().map(|run| run.labels.get(label).cloned().unwrap_or_default());
        add(label, Values::Words(values.collect()));
    }
    add("seed", Values::Integers(runs.iter().map(|run| run.seed.cast_signed()).collect()));
    let names: BTreeSet<&'static str> = means.iter().flat_map(BTreeMap::keys).copied().collect();
    for name in names {
        add(name, Values::Numbers(means.iter().map(|means| means.get(name).copied().unwrap_or(f64::NAN)).collect()));
    }
    samples
}
