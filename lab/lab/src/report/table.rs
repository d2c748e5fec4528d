//! A section's table: a column for each metric that its entries have, with published figures beside ours.

use nearlight_report::statistics::compare;
use nearlight_report::{Cell, Column, Row, Table};

use super::metrics::{ColumnRule, METRICS, Metric, Statistic};
use super::{COMPARED_METRICS, Entry, groups, in_words, mean, published};
use crate::plan::PublishedFigure;
use crate::runner::ResultsHeader;

pub(super) fn table(head: &ResultsHeader, label: &str, entries: &[Entry<'_>]) -> Table {
    let has_published = |metric: &Metric| entries.iter().any(|entry| published(head, entry, metric.name).is_some());
    let wanted = |metric: &Metric| match metric.wanted {
        ColumnRule::Always => true,
        ColumnRule::Systems => label == "system" || has_published(metric),
        ColumnRule::Published => has_published(metric),
    };
    // If there is a published figure, a column shows that ours is missing.
    let has_any =
        |metric: &Metric| has_published(metric) || entries.iter().any(|entry| mean(entry, metric.name).is_some());
    let shown: Vec<&Metric> = METRICS.iter().filter(|metric| wanted(metric) && has_any(metric)).collect();
    let letters: Vec<Option<Vec<String>>> = shown
        .iter()
        .map(|metric| COMPARED_METRICS.contains(&metric.name).then(|| groups(metric.name, entries)).flatten())
        .map(|groups| groups.and_then(|groups| compare(&groups)).map(|found| found.tukey.letters))
        .collect();
    // If sessions can skip frames, only metrics that count all frames rank them.
    let of_sessions = entries.iter().any(|entry| !entry.runs[0].media.is_empty());
    let mut columns = Vec::new();
    for metric in &shown {
        let column = Column::new(metric.title, metric.unit).polarity(metric.polarity).decimals(metric.decimals);
        columns.push(if of_sessions && !metric.counts_all { column.unmarked() } else { column });
        if has_published(metric) {
            let title = format!("{}, published", metric.title);
            columns.push(Column::new(title, metric.unit).published().decimals(metric.decimals));
        }
    }
    let row = |(index, entry): (usize, &Entry<'_>)| {
        let mut cells = Vec::new();
        for (metric, letters) in shown.iter().zip(&letters) {
            cells.push(match entry.summary.metrics.get(metric.name) {
                None => Cell::Empty,
                Some(figure) if metric.of == Statistic::P95 => Cell::figure(figure.p95),
                Some(figure) => {
                    let ci95 = (figure.n > 1).then_some(figure.ci95);
                    match letters.as_ref().and_then(|letters| letters.get(index)) {
                        Some(letters) => Cell::with_letters(figure.mean, ci95, letters.clone()),
                        None => Cell::with_interval(figure.mean, ci95),
                    }
                }
            });
            if has_published(metric) {
                cells.push(published(head, entry, metric.name).map_or(Cell::Empty, published_cell));
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

fn published_cell(figure: PublishedFigure) -> Cell {
    figure.exactly().map_or_else(|| Cell::text(figure.to_string()), Cell::figure)
}
