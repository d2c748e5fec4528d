//! A chart's data as a table.

use super::{Bars, Boxes, Chart, Ecdfs, Lanes, Lines, Matrix, Plot, Scatter, Stacks};
use crate::statistics::{Ecdf, Ellipse};
use crate::table::{Cell, Column, Row, Table};

/// Maximum number of spans listed individually, to keep pages readable.
const MAX_SPANS: usize = 200;

pub(super) fn table(chart: &Chart) -> Table {
    match &chart.plot {
        Plot::Lines(lines) => of_lines(lines),
        Plot::Ecdf(ecdfs) => of_ecdfs(ecdfs),
        Plot::Scatter(scatter) => of_scatter(scatter),
        Plot::Stacks(stacks) => of_stacks(stacks),
        Plot::Bars(bars) => of_bars(bars),
        Plot::Boxes(boxes) => of_boxes(boxes),
        Plot::Lanes(lanes) => of_lanes(lanes),
        Plot::Matrix(matrix) => of_matrix(matrix),
    }
}

fn plain(caption: impl Into<String>, corner: &str, columns: &[(&str, &str)], rows: Vec<Row>) -> Table {
    let columns = columns.iter().map(|(name, unit)| Column::new(*name, *unit)).collect();
    Table { caption: caption.into(), corner: corner.into(), columns, rows }
}

fn figures(values: impl IntoIterator<Item = f64>) -> Vec<Cell> {
    values.into_iter().map(Cell::figure).collect()
}

fn of_lines(lines: &Lines) -> Table {
    let unit = lines.y.unit.as_str();
    let rows = lines
        .capacity
        .iter()
        .chain(&lines.series)
        .map(|series| {
            let finite: Vec<f64> = series.points.iter().map(|point| point.1).filter(|y| y.is_finite()).collect();
            let last = finite.last().copied().unwrap_or(f64::NAN);
            let count = finite.len() as f64;
            let cells = crate::statistics::mean(&finite).zip(Ecdf::new(finite)).map_or_else(Vec::new, |(mean, of)| {
                figures([mean, of.minimum(), of.percentile(50.0), of.percentile(95.0), of.maximum(), last, count])
            });
            Row::new(&series.name, cells)
        })
        .collect();
    let columns = [
        ("Mean of points", unit),
        ("Lowest", unit),
        ("Median", unit),
        ("95th percentile", unit),
        ("Highest", unit),
        ("Last", unit),
        ("Points", ""),
    ];
    plain(format!("{} over {}", lines.y.name, lines.x.name), "Series", &columns, rows)
}

fn of_ecdfs(ecdfs: &Ecdfs) -> Table {
    let unit = ecdfs.x.unit.as_str();
    let percents = [1.0, 5.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9];
    let rows = ecdfs
        .curves
        .iter()
        .map(|(name, of)| {
            let count = of.samples().len() as f64;
            Row::new(name, figures(percents.map(|percent| of.percentile(percent)).into_iter().chain([count])))
        })
        .collect();
    let names = ["1 %", "5 %", "25 %", "50 %", "75 %", "90 %", "95 %", "99 %", "99.9 %"];
    let mut columns: Vec<(&str, &str)> = names.map(|name| (name, unit)).to_vec();
    columns.push(("Samples", ""));
    plain(format!("Percentiles of {} (type 7)", ecdfs.x.name), "Series", &columns, rows)
}

fn of_scatter(scatter: &Scatter) -> Table {
    let (x, y) = (&scatter.x, &scatter.y);
    let rows = scatter
        .clouds
        .iter()
        .map(|(name, points)| {
            let count = points.len() as f64;
            let cells = Ellipse::of(points).map_or_else(
                || points.first().map_or_else(Vec::new, |point| figures([point.0, 0.0, point.1, 0.0, 0.0, count])),
                |of| figures([of.x, of.x_deviation, of.y, of.y_deviation, of.correlation, count]),
            );
            Row::new(name, cells)
        })
        .collect();
    let (x_mean, x_deviation) = (format!("{}, mean", x.name), format!("{}, deviation", x.name));
    let (y_mean, y_deviation) = (format!("{}, mean", y.name), format!("{}, deviation", y.name));
    let columns = [
        (x_mean.as_str(), x.unit.as_str()),
        (&x_deviation, &x.unit),
        (&y_mean, &y.unit),
        (&y_deviation, &y.unit),
        ("Correlation", ""),
        ("Points", ""),
    ];
    plain("Mean and standard deviation of each cloud", "Series", &columns, rows)
}

fn of_stacks(stacks: &Stacks) -> Table {
    let unit = stacks.x.unit.as_str();
    let mut columns: Vec<(&str, &str)> = stacks.stages.iter().map(|stage| (stage.as_str(), unit)).collect();
    columns.push(("Sum", unit));
    let row = |(name, values): &(String, Vec<f64>)| {
        let stages = (0..stacks.stages.len()).map(|stage| values.get(stage).copied().unwrap_or(0.0));
        Row::new(name, figures(stages.clone().chain([stages.sum()])))
    };
    plain(format!("{} by stage", stacks.x.name), "Row", &columns, stacks.rows.iter().map(row).collect())
}

fn of_bars(bars: &Bars) -> Table {
    let unit = bars.x.unit.as_str();
    let published = bars.rows.iter().any(|bar| bar.published.is_some());
    let mut table =
        plain(format!("{}, 95 % intervals", bars.x.name), "Row", &[(bars.x.name.as_str(), unit)], Vec::new());
    if published {
        table.columns.push(Column::new("Published", unit).published());
    }
    table.rows = bars
        .rows
        .iter()
        .map(|bar| {
            let published = bar.published.map(Cell::figure);
            Row::new(&bar.name, [Cell::with_interval(bar.value, bar.ci95)].into_iter().chain(published).collect())
        })
        .collect();
    table
}

fn of_boxes(boxes: &Boxes) -> Table {
    let unit = boxes.x.unit.as_str();
    let rows = boxes
        .rows
        .iter()
        .map(|(name, of)| {
            let (low, high) = (of.lower_whisker, of.upper_whisker);
            let cells = [low, of.lower_quartile, of.median, of.upper_quartile, high, of.mean];
            Row::new(name, figures(cells.into_iter().chain([of.outliers.len() as f64, of.n as f64])))
        })
        .collect();
    let columns = [
        ("Lower whisker", unit),
        ("25 %", unit),
        ("Median", unit),
        ("75 %", unit),
        ("Upper whisker", unit),
        ("Mean", unit),
        ("Beyond", ""),
        ("Samples", ""),
    ];
    plain(format!("Boxes of {}", boxes.x.name), "Row", &columns, rows)
}

fn of_lanes(lanes: &Lanes) -> Table {
    let unit = lanes.x.unit.as_str();
    let rows = lanes
        .spans
        .iter()
        .take(MAX_SPANS)
        .filter_map(|span| {
            let times = figures([span.from, span.to, span.to - span.from]);
            let words = [Cell::text(&span.kind), Cell::text(&span.note)];
            Some(Row::new(lanes.lanes.get(span.lane)?, times.into_iter().chain(words).collect()))
        })
        .collect();
    let caption = if lanes.spans.len() > MAX_SPANS {
        format!("The first {MAX_SPANS} of {} spans", lanes.spans.len())
    } else {
        "Every span".to_owned()
    };
    plain(caption, "Lane", &[("From", unit), ("To", unit), ("Length", unit), ("What", ""), ("Note", "")], rows)
}

fn of_matrix(matrix: &Matrix) -> Table {
    let columns: Vec<(&str, &str)> =
        matrix.columns.iter().map(|name| (name.as_str(), matrix.value.unit.as_str())).collect();
    let rows = matrix
        .rows
        .iter()
        .zip(&matrix.cells)
        .map(|(name, cells)| Row::new(name, cells.iter().copied().map(Cell::figure_if).collect()))
        .collect();
    let caption = format!("{}: {} by {}", matrix.value.name, matrix.row_title, matrix.column_title);
    plain(caption, &matrix.row_title, &columns, rows)
}
