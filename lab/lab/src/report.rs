//! From runs to a page: one section for each case and path, with all controllers side by side.

mod charts;
mod metrics;
mod table;
pub mod wifi;

use std::collections::{BTreeMap, BTreeSet};

use nearlight_report::samples::{Samples, Values};
use nearlight_report::statistics::{compare, half_width_95};
use nearlight_report::{Document, Section};

use self::metrics::METRICS;
use crate::live::{IN_REAL_TIME, TIME_LABEL};
use crate::plan::{PublishedFigure, oracle, published_figure};
use crate::record::RunRecord;
use crate::runner::ResultsHeader;
use crate::summary::{CellSummary, OracleUtilities, run_means, summarise};

pub use self::metrics::can_show;

type Labels = BTreeMap<String, String>;

/// Figures that are compared across controllers by analysis of variance.
const COMPARED_METRICS: [&str; 4] = ["utility", "in_time_ratio", "frame_network_latency_ms", "flows_delay_ms"];

/// The congestion control law that plans without sessions compare with others.
const REFERENCE_LAW: &str = "hera";

/// The runs of one cell, under the name that tells it from others in its section.
struct Entry<'a> {
    name: String,
    runs: Vec<&'a RunRecord>,
    summary: CellSummary,
}

/// Returns the page of a plan's runs.
#[must_use]
pub fn document(head: &ResultsHeader, runs: &[RunRecord]) -> Document {
    let mut groups: BTreeMap<Labels, BTreeMap<String, Vec<&RunRecord>>> = BTreeMap::new();
    let mut compared: BTreeMap<Option<&String>, ComparedSystems> = BTreeMap::new();
    for run in runs {
        let case = run.labels.get("case");
        let contest = compared.entry(case).or_insert_with(|| ComparedSystems::of(runs, case));
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
    // A label that never varies is a fact of the plan and not part of titles.
    let reported = |name: &String| name == "path" || varies(runs.iter().map(|run| &run.labels), name);
    let fixed: BTreeMap<&String, &String> =
        runs.iter().flat_map(|run| &run.labels).filter(|label| !reported(label.0)).collect();
    for (name, value) in fixed {
        document = document.fact(name.clone(), value.clone());
    }
    let mut sections = Vec::new();
    let mut summaries = Vec::new();
    let utilities = OracleUtilities::of(runs);
    for (labels, by_name) in groups {
        let mut entries: Vec<Entry<'_>> = by_name
            .into_iter()
            .map(|(name, mut runs)| {
                runs.sort_by_key(|run| run.seed);
                let labels = runs[0].labels.clone();
                let mut summary = summarise(&labels, &runs);
                utilities.add_share(&mut summary, &runs);
                Entry { name, runs, summary }
            })
            .collect();
        entries.sort_by_cached_key(|entry| naturally(&entry.name));
        summaries.extend(entries.iter().map(|entry| entry.summary.clone()));
        let reported: Labels = labels.into_iter().filter(|(name, _)| reported(name)).collect();
        let contest = &compared[&entries[0].runs[0].labels.get("case")];
        sections.push(section(head, &reported, contest.title, &entries));
    }
    for section in wifi::overview(&summaries).into_iter().chain(sections) {
        document = document.section(section);
    }
    document
}

/// Labels that identify a system.
const SYSTEM_LABELS: [&str; 4] = ["controller", "fec", "recovery", "captures"];

/// The labels by which the sections of a case compare runs.
struct ComparedSystems {
    /// Labels that identify a system.
    labels: Vec<&'static str>,
    /// The labels among them that vary.
    telling: Vec<&'static str>,
    title: &'static str,
}

impl ComparedSystems {
    /// Compares systems if the runs have them, otherwise controllers, otherwise the first label with several values.
    fn of(runs: &[RunRecord], case: Option<&String>) -> Self {
        let of_case = || runs.iter().filter(|run| run.labels.get("case") == case).map(|run| &run.labels);
        let several = |label: &&str| varies(of_case(), label);
        if !of_case().any(|labels| labels.contains_key("recovery")) {
            let mut labels = ["controller", "law", "tau_ms", "fps", "headsets", "pacing"].into_iter();
            let usual = if of_case().any(|labels| labels.contains_key("controller")) { "controller" } else { "law" };
            let label = labels.find(several).unwrap_or(usual);
            let labels: Vec<&str> = [label].into_iter().chain(Some(TIME_LABEL).filter(several)).collect();
            return Self { telling: labels.clone(), labels, title: label };
        }
        let kinds = |telling: &[&str]| {
            of_case()
                .map(|labels| telling.iter().map(|label| labels.get(*label)).collect::<Vec<_>>())
                .collect::<BTreeSet<_>>()
                .len()
        };
        let mut telling: Vec<&'static str> = Vec::new();
        for label in SYSTEM_LABELS {
            if kinds(&[telling.as_slice(), &[label]].concat()) > kinds(&telling) {
                telling.push(label);
            }
        }
        if telling.is_empty() {
            telling.push("controller");
        }
        Self { labels: SYSTEM_LABELS.to_vec(), telling, title: "system" }
    }

    fn name(&self, labels: &Labels) -> String {
        let word = |label: &&str| {
            let value = labels.get(*label)?;
            if *label == TIME_LABEL {
                return Some(if value == IN_REAL_TIME { "live" } else { "in virtual time" }.to_owned());
            }
            // A controller, or a single value, needs no label.
            let plain =
                self.telling.iter().filter(|label| **label != TIME_LABEL).count() == 1 || *label == "controller";
            Some(if plain { value.clone() } else { format!("{label} {value}") })
        };
        self.telling.iter().filter_map(word).collect::<Vec<_>>().join(", ")
    }
}

/// Returns whether a label has several values. Runs without it are ignored.
fn varies<'a>(all: impl Iterator<Item = &'a Labels>, label: &str) -> bool {
    all.filter_map(|labels| labels.get(label)).collect::<BTreeSet<_>>().len() > 1
}

/// Returns a sorting key that orders numbers by value: 20ms before 100ms.
fn naturally(value: &str) -> (u64, String) {
    let end = value.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(value.len());
    (value[..end].parse().unwrap_or(0), value.to_owned())
}

fn in_words(label: &str) -> &str {
    match label {
        "controller" => "Controller",
        "system" => "System",
        "law" => "Law",
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

fn section(head: &ResultsHeader, labels: &Labels, label: &str, entries: &[Entry<'_>]) -> Section {
    let section = Section::new(title(labels)).answer(answer(entries, label)).table(table::table(head, label, entries));
    let compared: Vec<wifi::NamedRuns<'_>> =
        entries.iter().map(|entry| (entry.name.as_str(), entry.runs.as_slice())).collect();
    if entries.iter().all(|entry| entry.runs[0].media.is_empty()) {
        return wifi::add_charts(flow_charts(section, entries), &compared);
    }
    wifi::add_charts(session_charts(section, head, label, entries), &compared)
}

/// Compares the reference law's delay and rate with each other law's, as ratios over the same path and seed.
fn compare_with_reference(entries: &[Entry<'_>]) -> Option<String> {
    let reference = entries.iter().find(|entry| entry.name == REFERENCE_LAW)?;
    let ratio = |other: &Entry<'_>, name: &str| {
        let pairs = reference.runs.iter().filter_map(|run| {
            let other = other.runs.iter().find(|other| other.seed == run.seed)?;
            Some(run_means(run).get(name)? / run_means(other).get(name)?)
        });
        let ratios: Vec<f64> = pairs.filter(|ratio| ratio.is_finite()).collect();
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        half_width_95(&ratios).map(|half| format!("{mean:.3} ± {half:.3}"))
    };
    let others = entries.iter().filter(|entry| entry.name != REFERENCE_LAW);
    let all: Vec<String> = others
        .filter_map(|other| {
            Some(format!("{} {}, {}", other.name, ratio(other, "flows_delay_ms")?, ratio(other, "flows_mbps")?))
        })
        .collect();
    (!all.is_empty()).then(|| {
        format!(
            "Delay and rate of {REFERENCE_LAW} as ratios to those of the others, means over seeds with their 95 % confidence intervals: {}.",
            all.join("; ")
        )
    })
}

/// Adds charts of TCP flows without sessions.
fn flow_charts(section: Section, entries: &[Entry<'_>]) -> Section {
    if entries.iter().all(|entry| entry.runs[0].rivals.is_empty()) {
        return section;
    }
    let section = compare_with_reference(entries).into_iter().fold(section, Section::note);
    let mut section = section.charts(vec![charts::flows_scatter(entries), charts::flows_delay(entries)]);
    if entries.iter().all(|entry| mean(entry, "playback_quality").is_some()) {
        section = section.chart(charts::playback_scatter(entries));
    }
    if entries.iter().any(|entry| mean(entry, "flows_jain").is_some()) {
        section = section.chart(charts::jain_over_time(entries));
    }
    for pair in entries.chunks(2) {
        section = section.charts(pair.iter().map(charts::flows_over_time).collect());
    }
    section
}

fn session_charts(section: Section, head: &ResultsHeader, label: &str, entries: &[Entry<'_>]) -> Section {
    let mut section = section;
    for name in COMPARED_METRICS {
        if let Some(words) = differences(name, label, entries) {
            section = section.note(words);
        }
    }
    section = section.charts(vec![charts::in_time_bars(entries), charts::rate_bars(head, entries)]);
    section = section.charts(vec![charts::latency_scatter(entries), charts::latency_distribution(entries)]);
    section = section.chart(charts::stages(entries));
    let several = entries.iter().any(|entry| entry.runs[0].media.len() + entry.runs[0].rivals.len() > 1);
    for pair in entries.chunks(2) {
        let charts = pair
            .iter()
            .map(|entry| if several { charts::flows_over_time(entry) } else { charts::rates_over_time(entry) });
        section = section.charts(charts.collect());
    }
    section
}

fn mean(entry: &Entry<'_>, name: &str) -> Option<f64> {
    entry.summary.metrics.get(name).map(|figure| figure.mean)
}

/// Writes which system serves the user best, with its figures. The oracle, which knows the link's future, is a bound and not a system.
fn answer(entries: &[Entry<'_>], label: &str) -> String {
    let alone = !entries.iter().any(is_system);
    let best = |name: &str, sign: f64| {
        entries
            .iter()
            .filter(|entry| alone || is_system(entry))
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
    if let Some((entry, quality)) = best("playback_quality", 1.0) {
        let of = |name| mean(entry, name).unwrap_or(f64::NAN);
        return format!(
            "{label} {} shows the best pictures: average quality {quality:.1} of 100, {:.2} Mb/s, {:.1} stalls and {:.1} switches of the bit \
             rate for each player.",
            entry.name,
            of("playback_mbps"),
            of("playback_stalls"),
            of("playback_switches")
        );
    }
    if let Some((entry, delay)) = best("flows_delay_ms", -1.0) {
        let of = |entry: &Entry<'_>, name| mean(entry, name).unwrap_or(f64::NAN);
        let (rate, most) = (of(entry, "flows_mbps"), best("flows_mbps", 1.0));
        let most = most.map_or_else(String::new, |(entry, rate)| {
            format!(" {} gets most through, {rate:.1} Mb/s at {:.1} ms.", entry.name, of(entry, "flows_delay_ms"))
        });
        return format!(
            "Packets arrive soonest with {label} {}, after {delay:.1} ms at {rate:.1} Mb/s.{most}",
            entry.name
        );
    }
    let soonest = best("video_frame_delay_ms", -1.0).map(|(entry, delay)| {
        format!("Frames are there soonest with {label} {}, after {delay:.2} ms on average.", entry.name)
    });
    soonest.unwrap_or_default()
}

/// Returns whether the entry is a system that could be used.
fn is_system(entry: &Entry<'_>) -> bool {
    entry.summary.labels.get("controller").is_none_or(|controller| controller != oracle::NAME)
}

fn service(entries: &[Entry<'_>], best: &Entry<'_>, utility: f64) -> String {
    let of = |name| mean(best, name).unwrap_or(f64::NAN);
    let (in_time, stalled) = (100.0 * of("in_time_ratio"), 100.0 * of("stall_ratio"));
    let facts = format!(
        "{in_time:.1} % of all captured frames shown in time, {stalled:.1} % of the time in stalls, {:.1} Mb/s received",
        of("received_mbps")
    );
    let systems = entries.iter().filter(|entry| is_system(entry)).count();
    if systems < 2 {
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
            systems - 1
        ),
    }
}

/// Returns the names of systems that do not differ significantly from the best one (same Tukey letter).
fn tied_with<'a>(best: &Entry<'_>, entries: &'a [Entry<'_>]) -> Vec<&'a str> {
    let found = groups("utility", entries).and_then(|groups| compare(&groups));
    let (Some(found), Some(place)) = (found, entries.iter().position(|entry| entry.name == best.name)) else {
        return Vec::new();
    };
    let letters = &found.tukey.letters;
    let shares = |index: usize| index != place && letters[index].chars().any(|letter| letters[place].contains(letter));
    let others = entries.iter().enumerate().filter(|(_, entry)| is_system(entry));
    others.filter(|(index, _)| shares(*index)).map(|(_, entry)| entry.name.as_str()).collect()
}

fn published(head: &ResultsHeader, entry: &Entry<'_>, metric: &str) -> Option<PublishedFigure> {
    published_figure(&head.published, &entry.summary.labels, metric)
}

/// Returns each run's mean of a metric, grouped by controller. None unless every controller has it.
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

/// Returns every run's figures, one row per run.
#[must_use]
pub fn samples(runs: &[RunRecord]) -> Samples {
    let means: Vec<BTreeMap<&'static str, f64>> = runs.iter().map(run_means).collect();
    let mut samples = Samples::default();
    let labels: BTreeSet<&String> = runs.iter().flat_map(|run| run.labels.keys()).collect();
    let mut add = |name: &str, values: Values| {
        // Names are keys of maps and lengths are those of runs, so nothing can be rejected.
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
