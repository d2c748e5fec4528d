//! Lanes of exchanges along time, and small matrices as colours.

use super::{Canvas, Chart, Lanes, Matrix};
use crate::scale::{Axis, AxisFit, Scale};
use crate::text::{coordinate as px, decimals_for, figure, number};

const LANE_HEIGHT: f64 = 30.0;
const TOP_MARGIN: f64 = 8.0;

pub(super) fn draw_lanes(mut canvas: Canvas<'_>, lanes: &Lanes, chart: &Chart) -> String {
    let left = canvas.room(lanes.lanes.iter().map(String::as_str));
    let bottom = TOP_MARGIN + LANE_HEIGHT * lanes.lanes.len().max(1) as f64;
    let values = lanes.spans.iter().flat_map(|span| [span.from, span.to]);
    let axis = Axis { logarithmic: false, ..lanes.x.clone() };
    let x = Scale::fit(&axis, AxisFit::Tight, values, (left, canvas.width - 14.0), 6);
    canvas.x_axis(&x, &axis.title(), (TOP_MARGIN, bottom), true);
    for (lane, name) in lanes.lanes.iter().enumerate() {
        let middle = TOP_MARGIN + LANE_HEIGHT * (lane as f64 + 0.5);
        canvas.line("grid", (left, middle), (x.end, middle));
        canvas.text("word end", left - 8.0, middle + 4.0, &Canvas::fitted(name, left - 12.0));
    }
    // Scripts read values off the y axis of lines; lanes have none.
    let y = Scale { low: 0.0, high: 1.0, logarithmic: false, start: bottom, end: TOP_MARGIN };
    canvas.open_zoom(&x, &y);
    for span in &lanes.spans {
        let (Some(from), Some(to)) = (x.at(span.from), x.at(span.to)) else { continue };
        if span.lane >= lanes.lanes.len() {
            continue;
        }
        let (top, width) = (TOP_MARGIN + LANE_HEIGHT * span.lane as f64 + 5.0, (to - from).max(0.6));
        // What begins at the very end still shows.
        let start = from.min(x.end - 0.6);
        let width = width.min(x.end - start);
        let note = format!("{}: {} to {}. {}", span.kind, figure(span.from), figure(span.to), span.note);
        canvas.open_series(&span.kind);
        let slab = format!(r#"x="{}" y="{}" width="{}" height="20""#, px(start), px(top), px(width));
        canvas.noted("rect", &format!(r#"class="bar span" {slab}"#), &note);
        if !span.note.is_empty() && span.note == Canvas::fitted(&span.note, width - 6.0) {
            canvas.text("on mid", start + width / 2.0, top + 14.0, &span.note);
        }
        canvas.close(1);
    }
    canvas.close(2);
    canvas.finish(chart, "lanes", bottom + 44.0, Some((&x, &y)))
}

pub(super) fn draw_matrix(mut canvas: Canvas<'_>, matrix: &Matrix, chart: &Chart) -> String {
    let cells = || matrix.cells.iter().flatten().flatten().copied().filter(|value| value.is_finite());
    let largest = cells().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    let scale = Scale::fit(&matrix.value, AxisFit::Tight, cells(), (0.0, 1.0), 2);
    let left = canvas.room(matrix.rows.iter().map(String::as_str));
    let columns = matrix.columns.len().max(1) as f64;
    let width = ((canvas.width - left - 10.0) / columns).min(110.0);
    let height = 30.0;
    let top = 38.0;
    canvas.text(
        "title",
        2.0,
        13.0,
        &format!("{}: {} by {}", matrix.value.title(), matrix.row_title, matrix.column_title),
    );
    for (column, name) in matrix.columns.iter().enumerate() {
        let middle = left + width * (column as f64 + 0.5);
        canvas.text("word mid", middle, top - 8.0, &Canvas::fitted(name, width - 2.0));
    }
    for (row, name) in matrix.rows.iter().enumerate() {
        let y = top + height * row as f64;
        canvas.text("word end", left - 8.0, y + 19.0, &Canvas::fitted(name, left - 12.0));
        for (column, column_name) in matrix.columns.iter().enumerate() {
            let x = left + width * column as f64;
            let place = format!(
                r#"x="{}" y="{}" width="{}" height="{}""#,
                px(x + 1.0),
                px(y + 1.0),
                px(width - 2.0),
                px(height - 2.0)
            );
            let value = matrix.cells.get(row).and_then(|cells| cells.get(column)).copied().flatten();
            let Some(share) = value.and_then(|value| scale.at(value)) else {
                canvas.shape("rect", &format!(r#"class="void" {place}"#));
                continue;
            };
            let value = value.unwrap_or(0.0);
            let opacity = px((6.0 + 90.0 * share).round());
            let note = format!("{name}, {column_name}: {}", figure(value));
            canvas.noted("rect", &format!(r#"class="heat" fill-opacity="{opacity}%" {place}"#), &note);
            let text = number(value, decimals_for(largest));
            if text == Canvas::fitted(&text, width) {
                let class = if share > 0.5 { "num mid on" } else { "num mid ink" };
                canvas.text(class, x + width / 2.0, y + 19.0, &text);
            }
        }
    }
    let bottom = top + height * matrix.rows.len().max(1) as f64;
    canvas.finish(chart, "matrix", bottom + 8.0, None)
}
