//! The table that `nearlight lab run` prints: a plan's figures, and published ones beside them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use nearlight_lab::plan::{Published, published_figure};
use nearlight_lab::{CellSummary, Figure, Plan, STAGE_METRICS, Summary};

/// A statistic of a cell's figures.
#[derive(Clone, Copy)]
enum Statistic {
    Mean,
    /// The 95 % or 99 % quantile.
    P95,
    P99,
}

impl Statistic {
    const fn figure(self, figure: &Figure) -> f64 {
        match self {
            Self::Mean => figure.mean,
            Self::P95 => figure.p95,
            Self::P99 => figure.p99,
        }
    }
}

/// The plans for which a column is shown. A plan with a published value always has it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ColumnRule {
    Always,
    /// Plans that compare systems with redundancy and recovery.
    Systems,
    /// All other plans.
    Others,
    Published,
}

struct MetricColumn {
    name: &'static str,
    title: &'static str,
    decimals: usize,
    of: Statistic,
    wanted: ColumnRule,
}

const fn shown(name: &'static str, title: &'static str, decimals: usize, wanted: ColumnRule) -> MetricColumn {
    MetricColumn { name, title, decimals, of: Statistic::Mean, wanted }
}

/// JSON has all metrics; columns without a value in any cell are omitted.
const COLUMNS: [MetricColumn; 47] = {
    use ColumnRule::{Always, Others, Published, Systems};
    [
        // Metrics that count every captured frame come first.
        shown("in_time_ratio", "in time", 4, Always),
        shown("utility", "utility", 3, Always),
        shown("oracle_share", "of the oracle's", 3, Always),
        shown("stall_ratio", "stalled", 4, Always),
        MetricColumn { of: Statistic::P95, ..shown("frame_latency_all_ms", "all 95 % ms", 1, Always) },
        shown("target_mbps", "target Mb/s", 1, Always),
        shown("received_mbps", "received Mb/s", 1, Always),
        shown("target_gap_mbps", "gap Mb/s", 2, Published),
        shown("utilisation", "used", 2, Others),
        shown("motion_to_photon_ms", "to photon ms", 1, Systems),
        MetricColumn { of: Statistic::P95, ..shown("motion_to_photon_ms", "95 % ms", 1, Systems) },
        shown("frame_network_latency_ms", "network ms", 1, Always),
        shown("frame_latency_ms", "to display ms", 1, Published),
        shown("frame_assembly_ms", "assembly ms", 2, Published),
        shown("one_way_delay_ms", "packet ms", 2, Published),
        shown("queue_delay_ms", "queue ms", 1, Others),
        shown("psnr_db", "PSNR dB", 2, Systems),
        shown("ssim", "SSIM", 4, Systems),
        shown("redundancy_ratio", "redundancy", 4, Systems),
        shown("residual_frame_loss", "not whole", 4, Systems),
        shown("bad_frame_ratio", "bad frames", 4, Systems),
        shown("recovery_frames", "in a row", 1, Systems),
        shown("damaged_frame_ratio", "damaged", 4, Systems),
        shown("longest_damage_ms", "longest damage ms", 0, Systems),
        shown("frame_drop_ratio", "dropped", 4, Others),
        shown("frame_skip_ratio", "left out", 4, Published),
        shown("late_frame_ratio", "late", 4, Others),
        shown("key_frames", "key frames", 1, Always),
        shown("dl_packet_delay_ms", "packet down ms", 3, Always),
        shown("ul_packet_delay_ms", "packet up ms", 3, Always),
        shown("video_frame_delay_ms", "frame ms", 2, Always),
        MetricColumn { of: Statistic::P99, ..shown("video_frame_delay_ms", "frame 99 % ms", 2, Always) },
        shown("frames_within_10ms_ratio", "in 10 ms", 4, Always),
        shown("ampdu_mpdus", "A-MPDU", 2, Always),
        shown("airtime_ratio", "airtime", 4, Always),
        shown("delivered_mbps", "delivered Mb/s", 1, Always),
        shown("flows_mbps", "flows Mb/s", 1, Always),
        shown("flows_utilisation", "flows used", 3, Always),
        shown("flows_delay_ms", "flows delay ms", 1, Always),
        shown("flows_jain", "Jain, 1 s", 3, Always),
        shown("flows_jain_whole", "Jain", 3, Always),
        shown("playback_startup_s", "start-up s", 2, Always),
        shown("playback_mbps", "played Mb/s", 2, Always),
        shown("playback_switches", "switches", 1, Always),
        shown("playback_stalls", "stalls", 2, Always),
        shown("playback_quality", "quality", 1, Always),
        shown("playback_jain", "Jain", 3, Always),
    ]
};

/// A label that only systems have.
const SYSTEM_LABEL: &str = "recovery";

/// A column of text.
struct Column {
    title: String,
    cells: Vec<String>,
}

impl Column {
    fn width(&self) -> usize {
        self.cells.iter().chain([&self.title]).map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

pub(super) fn table(plan: &Plan, summary: &Summary) -> String {
    let cells = &summary.cells;
    let mut text = format!("{}\n\n", plan.question);
    let columns = COLUMNS.iter().filter(|column| is_wanted(column, cells, &plan.published));
    write(
        &mut text,
        cells,
        &columns.flat_map(|column| with_published(column, cells, &plan.published)).collect::<Vec<_>>(),
    );
    if STAGE_METRICS.iter().any(|stage| is_published(stage, cells, &plan.published)) {
        text.push_str("\nStages of displayed frames, ms: mean, 95 %\n\n");
        let known = |stage: &&&str| cells.iter().any(|cell| cell.metrics.contains_key(**stage));
        let stages = STAGE_METRICS.iter().filter(|stage| known(stage) || is_published(stage, cells, &plan.published));
        write(
            &mut text,
            cells,
            &stages.flat_map(|stage| stage_columns(stage, cells, &plan.published)).collect::<Vec<_>>(),
        );
    }
    text
}

fn is_wanted(column: &MetricColumn, cells: &[CellSummary], published: &[Published]) -> bool {
    let systems = cells.iter().any(|cell| cell.labels.contains_key(SYSTEM_LABEL));
    let known = || cells.iter().any(|cell| cell.metrics.contains_key(column.name));
    let wanted = match column.wanted {
        ColumnRule::Always => true,
        ColumnRule::Systems => systems,
        ColumnRule::Others => !systems,
        ColumnRule::Published => false,
    };
    wanted && known() || is_published(column.name, cells, published)
}

fn is_published(metric: &str, cells: &[CellSummary], published: &[Published]) -> bool {
    cells.iter().any(|cell| published_figure(published, &cell.labels, metric).is_some())
}

/// A column, and what is published of it, beside its mean.
fn with_published(column: &MetricColumn, cells: &[CellSummary], published: &[Published]) -> Vec<Column> {
    let MetricColumn { name, title, decimals, of, .. } = *column;
    let ours = |cell: &CellSummary| {
        let value = cell.metrics.get(name).map(|figure| of.figure(figure));
        value.map_or_else(missing, |value| format!("{value:.decimals$}"))
    };
    let theirs = matches!(of, Statistic::Mean).then(|| theirs(name, cells, published)).flatten();
    columns(title, cells, ours, theirs)
}

/// Ours and, where anything is published, theirs.
fn columns(
    title: &str,
    cells: &[CellSummary],
    ours: impl Fn(&CellSummary) -> String,
    theirs: Option<Column>,
) -> Vec<Column> {
    let ours = Column { title: title.to_owned(), cells: cells.iter().map(ours).collect() };
    [ours].into_iter().chain(theirs).collect()
}

/// The published values of a metric; none if there are none.
fn theirs(metric: &str, cells: &[CellSummary], published: &[Published]) -> Option<Column> {
    let cell = |cell: &CellSummary| {
        let figure = published_figure(published, &cell.labels, metric);
        figure.map_or_else(missing, |figure| figure.to_string())
    };
    let column = || Column { title: "published".to_owned(), cells: cells.iter().map(cell).collect() };
    is_published(metric, cells, published).then(column)
}

fn stage_columns(metric: &str, cells: &[CellSummary], published: &[Published]) -> Vec<Column> {
    let ours = |cell: &CellSummary| {
        let figure = cell.metrics.get(metric);
        figure.map_or_else(missing, |figure| format!("{:.1} {:.1}", figure.mean, figure.p95))
    };
    let title = metric.trim_start_matches("stage_").trim_end_matches("_ms");
    columns(title, cells, ours, theirs(metric, cells, published))
}

fn missing() -> String {
    "-".to_owned()
}

/// Cells by their labels, and these columns.
fn write(text: &mut String, cells: &[CellSummary], columns: &[Column]) {
    let names: BTreeSet<&String> = cells.iter().flat_map(|cell| cell.labels.keys()).collect();
    let label = |name: &&String| {
        let value = |cell: &CellSummary| cell.labels.get(*name).cloned().unwrap_or_else(missing);
        Column { title: (*name).clone(), cells: cells.iter().map(value).collect() }
    };
    let labels: Vec<Column> = names.iter().map(label).collect();
    let columns = labels.iter().map(|column| (column, true)).chain(columns.iter().map(|column| (column, false)));
    let columns: Vec<(&Column, bool, usize)> = columns.map(|(column, left)| (column, left, column.width())).collect();
    let mut line = |cell_of: &dyn Fn(&Column) -> String| {
        let padded = |(column, left, width): &(&Column, bool, usize)| {
            let cell = cell_of(column);
            if *left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        };
        let cells: Vec<String> = columns.iter().map(padded).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    };
    line(&|column| column.title.clone());
    for row in 0..cells.len() {
        line(&|column| column.cells[row].clone());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;

    fn shipped() -> Vec<Plan> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
        let files = std::fs::read_dir(folder).expect("plans/").map(|entry| entry.expect("an entry").path());
        let plans = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
        plans.map(|path| Plan::read(&path).unwrap_or_else(|error| panic!("{error}"))).collect()
    }

    /// A summary in which every cell has the same figures.
    fn summary(plan: &Plan, metrics: &[&'static str]) -> Summary {
        let figure = Figure { mean: 1.5, ci95: 0.0, p50: 1.5, p95: 2.5, p99: 3.5, n: 1 };
        let cell = |cell: &nearlight_lab::Cell| CellSummary {
            labels: cell.labels.clone(),
            metrics: metrics.iter().map(|name| (*name, figure)).collect(),
            flows: Vec::new(),
        };
        let cells = plan.cells.iter().map(cell).collect();
        Summary { plan: plan.name.clone(), commit: String::new(), seeds: 1, live: None, cells }
    }

    #[test]
    fn every_published_figure_is_printed_in_its_row() {
        for plan in shipped() {
            let summary = summary(&plan, &[]);
            let text = table(&plan, &summary);
            let words = |line: &str| -> Vec<String> {
                line.split("  ").map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
            };
            let lines: Vec<Vec<String>> = text.lines().map(words).collect();
            let names: BTreeSet<&String> = plan.cells.iter().flat_map(|cell| cell.labels.keys()).collect();
            for cell in &plan.cells {
                let labels: Vec<String> =
                    names.iter().map(|name| cell.labels.get(*name).cloned().unwrap_or_else(missing)).collect();
                let published = plan.published.iter().filter(|published| published.belongs_to(&cell.labels));
                for figure in published.flat_map(|published| published.metrics.values()).map(ToString::to_string) {
                    let mut of_cell = lines.iter().filter(|line| line.starts_with(&labels));
                    assert!(of_cell.any(|line| line.contains(&figure)), "{}: no {figure} for {labels:?}", plan.name);
                }
            }
        }
    }

    #[test]
    fn plans_show_what_they_are_about() {
        let metrics =
            ["in_time_ratio", "target_mbps", "motion_to_photon_ms", "psnr_db", "queue_delay_ms", "stage_encode_ms"];
        let plans: BTreeMap<String, Plan> = shipped().into_iter().map(|plan| (plan.name.clone(), plan)).collect();
        for (name, present, absent) in [
            ("nebula-emulated", vec!["to photon ms", "95 % ms", "PSNR dB", "published"], vec!["queue ms", "Stages"]),
            ("nebula-pipeline", vec!["to photon ms", "Stages", "encode"], vec!["queue ms"]),
            (
                "rfc8867",
                vec!["in time", "target Mb/s", "queue ms"],
                vec!["to photon ms", "PSNR dB", "published", "Stages"],
            ),
        ] {
            let plan = &plans[name];
            let text = table(plan, &summary(plan, &metrics));
            assert!(present.iter().all(|word| text.contains(word)), "{name}: {text}");
            let place = |word| text.find(word).unwrap_or(usize::MAX);
            assert!(place("in time") < place("target Mb/s"), "{name}: what serves the user leads");
            assert!(!absent.iter().any(|word| text.contains(word)), "{name}: {text}");
        }
    }
}
