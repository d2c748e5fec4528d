//! One row per name: bars with intervals, stacked stages, boxes.

use std::fmt::Write;

use super::{Bars, Boxes, Canvas, Chart, Stacks};
use crate::palette::outline;
use crate::scale::{Axis, AxisFit, Scale};
use crate::statistics::BoxStatistics;
use crate::text::{coordinate as px, figure};

const ROW_HEIGHT: f64 = 30.0;
const TOP_MARGIN: f64 = 8.0;
/// Outliers drawn per side of a box; the rest would only make the line of dots denser.
const MAX_OUTLIERS: usize = 60;

/// The frame of a chart of rows.
struct Rows {
    x: Scale,
    bottom: f64,
}

impl Rows {
    fn new<'n>(
        canvas: &mut Canvas<'_>,
        axis: &Axis,
        names: impl Iterator<Item = &'n str> + Clone,
        values: impl Iterator<Item = f64>,
        ends: AxisFit,
    ) -> Self {
        let left = canvas.room(names.clone());
        let bottom = TOP_MARGIN + ROW_HEIGHT * names.clone().count().max(1) as f64;
        let ticks = canvas.ticks(canvas.width - left);
        let x = Scale::fit(axis, ends, values, (left, canvas.width - 18.0), ticks);
        canvas.x_axis(&x, &axis.title(), (TOP_MARGIN, bottom), true);
        for (row, name) in names.enumerate() {
            canvas.text("word end", left - 8.0, Self::middle(row) + 4.0, &Canvas::fitted(name, left - 12.0));
        }
        Self { x, bottom }
    }

    fn middle(row: usize) -> f64 {
        TOP_MARGIN + ROW_HEIGHT * (row as f64 + 0.5)
    }

    fn height(&self) -> f64 {
        self.bottom + 44.0
    }

    /// Attributes of a box of `size` between two values on `row`. `None` where a value is not a number.
    fn slab(&self, row: usize, from: f64, to: f64, size: f64) -> Option<String> {
        let (from, to) = (self.x.at(from)?, self.x.at(to)?);
        let (left, width, top) = (from.min(to), (to - from).abs(), Self::middle(row) - size / 2.0);
        Some(format!(r#"x="{}" y="{}" width="{}" height="{}""#, px(left), px(top), px(width), px(size)))
    }

    /// A line between two values with a cap at each end.
    fn whisker(&self, canvas: &mut Canvas<'_>, class: &str, row: usize, from: f64, to: f64) {
        if let (Some(from), Some(to)) = (self.x.at(from), self.x.at(to)) {
            let y = Self::middle(row);
            canvas.line(class, (from, y), (to, y));
            canvas.line(class, (from, y - 4.0), (from, y + 4.0));
            canvas.line(class, (to, y - 4.0), (to, y + 4.0));
        }
    }
}

pub(super) fn draw_bars(mut canvas: Canvas<'_>, bars: &Bars, chart: &Chart) -> String {
    let names = bars.rows.iter().map(|bar| bar.name.as_str());
    let values = bars.rows.iter().flat_map(|bar| {
        let half = bar.ci95.unwrap_or(0.0);
        [bar.value - half, bar.value + half, bar.published.unwrap_or(bar.value)]
    });
    let rows = Rows::new(&mut canvas, &bars.x, names, values, AxisFit::FromZero);
    let base = rows.x.low.max(0.0).min(rows.x.high);
    for (row, bar) in bars.rows.iter().enumerate() {
        let mut note = format!("{}: {}", bar.name, figure(bar.value));
        if let Some(half) = bar.ci95 {
            let _ = write!(note, " ± {}", figure(half));
        }
        if let Some(published) = bar.published {
            let _ = write!(note, ", published {}", figure(published));
        }
        canvas.open_series(&bar.name);
        if let Some(slab) = rows.slab(row, base, bar.value, 16.0) {
            canvas.noted("rect", &format!(r#"class="bar" {slab}"#), &note);
        }
        canvas.close(1);
        if let Some(half) = bar.ci95 {
            rows.whisker(&mut canvas, "interval", row, bar.value - half, bar.value + half);
        }
        if let Some(at) = bar.published.and_then(|published| rows.x.at(published)) {
            let place = format!("translate({} {})", px(at), px(Rows::middle(row)));
            canvas.noted("path", &format!(r#"class="published" transform="{place}" d="{}""#, outline(3, 11.0)), &note);
        }
    }
    let height = rows.height();
    canvas.finish(chart, "rows", height, None)
}

pub(super) fn draw_stacks(mut canvas: Canvas<'_>, stacks: &Stacks, chart: &Chart) -> String {
    let total = |values: &[f64]| usable(values).map(|(_, value)| value).sum::<f64>();
    let names = stacks.rows.iter().map(|row| row.0.as_str());
    let values = stacks.rows.iter().map(|row| total(&row.1));
    // Parts of a length need a length: a logarithmic axis has none.
    let axis = Axis { logarithmic: false, ..stacks.x.clone() };
    let rows = Rows::new(&mut canvas, &axis, names, values, AxisFit::FromZero);
    for (row, (name, values)) in stacks.rows.iter().enumerate() {
        let mut from = 0.0;
        for (stage, value) in usable(values) {
            let Some(stage) = stacks.stages.get(stage) else { break };
            let note = format!("{name}, {stage}: {} of {}", figure(value), figure(total(values)));
            if let Some(slab) = rows.slab(row, from, from + value, 18.0) {
                canvas.open_series(stage);
                canvas.noted("rect", &format!(r#"class="bar part" {slab}"#), &note);
                canvas.close(1);
            }
            from += value;
        }
        if let Some(end) = rows.x.at(from) {
            let inside = end > rows.x.end - 30.0;
            let at = if inside { end - 4.0 } else { end + 5.0 };
            canvas.text(if inside { "num end on" } else { "num" }, at, Rows::middle(row) + 4.0, &figure(from));
        }
    }
    let height = rows.height();
    canvas.finish(chart, "rows", height, None)
}

fn usable(values: &[f64]) -> impl Iterator<Item = (usize, f64)> + '_ {
    values.iter().copied().enumerate().filter(|(_, value)| value.is_finite() && *value > 0.0)
}

pub(super) fn draw_boxes(mut canvas: Canvas<'_>, boxes: &Boxes, chart: &Chart) -> String {
    let names = boxes.rows.iter().map(|row| row.0.as_str());
    let values = boxes.rows.iter().flat_map(|(_, found)| {
        let ends = [found.lower_whisker, found.upper_whisker];
        ends.into_iter().chain(found.outliers.first().copied()).chain(found.outliers.last().copied())
    });
    let rows = Rows::new(&mut canvas, &boxes.x, names, values, AxisFit::Loose);
    for (row, (name, found)) in boxes.rows.iter().enumerate() {
        canvas.open_series(name);
        draw_box(&mut canvas, &rows, row, name, found);
        canvas.close(1);
    }
    let height = rows.height();
    canvas.finish(chart, "rows", height, None)
}

fn draw_box(canvas: &mut Canvas<'_>, rows: &Rows, row: usize, name: &str, found: &BoxStatistics) {
    let y = Rows::middle(row);
    rows.whisker(canvas, "whisker", row, found.lower_whisker, found.upper_whisker);
    let note = format!(
        "{name}: median {}, quartiles {} and {}, mean {}, {} samples, {} of them beyond the whiskers",
        figure(found.median),
        figure(found.lower_quartile),
        figure(found.upper_quartile),
        figure(found.mean),
        found.n,
        found.outliers.len()
    );
    if let Some(slab) = rows.slab(row, found.lower_quartile, found.upper_quartile, 16.0) {
        canvas.noted("rect", &format!(r#"class="box" {slab}"#), &note);
    }
    if let Some(at) = rows.x.at(found.median) {
        canvas.line("median", (at, y - 8.0), (at, y + 8.0));
    }
    if let Some(at) = rows.x.at(found.mean) {
        let place = format!("translate({} {})", px(at), px(y));
        canvas.shape("path", &format!(r#"class="mean" transform="{place}" d="{}""#, outline(3, 7.0)));
    }
    let stride = found.outliers.len().div_ceil(2 * MAX_OUTLIERS).max(1);
    // The farthest is always among them.
    for value in found.outliers.iter().rev().step_by(stride) {
        if let Some(at) = rows.x.at(*value) {
            canvas.shape("circle", &format!(r#"class="outlier" cx="{}" cy="{}" r="1.8""#, px(at), px(y)));
        }
    }
}
