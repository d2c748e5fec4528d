//! Time series and distribution functions.

use super::{Canvas, Chart, Ecdfs, Lines, Series, Shape};
use crate::scale::{Axis, AxisFit, Scale};
use crate::statistics::{largest_triangles, minima_and_maxima};
use crate::text::coordinate as px;

type Moments = [(f64, String)];

/// The position of a plot with two axes.
struct PlotArea {
    x: Scale,
    y: Scale,
    height: f64,
    ticks: usize,
}

impl PlotArea {
    fn new(
        canvas: &Canvas<'_>,
        (x, y): (&Axis, &Axis),
        all: &[&[(f64, f64)]],
        ends: AxisFit,
        moments: &Moments,
    ) -> Self {
        let room = Canvas::moments_room(moments);
        let height = canvas.height() + room;
        let ticks = if canvas.narrow { 4 } else { 5 };
        let values = all.iter().flat_map(|points| points.iter());
        let y = Scale::fit(y, ends, values.clone().map(|point| point.1), (height - 44.0, 24.0 + room), ticks);
        let left = Canvas::y_room(&y, ticks);
        let xs = values.filter(|point| !point.1.is_nan()).map(|point| point.0);
        let x = Scale::fit(x, AxisFit::Tight, xs, (left, canvas.width - 14.0), 6);
        Self { x, y, height, ticks }
    }

    fn axes(&self, canvas: &mut Canvas<'_>, x: &Axis, y: &Axis) {
        canvas.y_axis(&self.y, &y.title(), (self.x.start, self.x.end), self.ticks);
        canvas.x_axis(&self.x, &x.title(), (self.y.end, self.y.start), false);
        canvas.line("base", (self.x.start, self.y.start), (self.x.end, self.y.start));
    }
}

pub(super) fn draw(mut canvas: Canvas<'_>, lines: &Lines, chart: &Chart) -> String {
    let columns = if canvas.narrow { 180 } else { 400 };
    let thinned = |series: &Series| thin(series, columns);
    let series: Vec<Vec<(f64, f64)>> = lines.series.iter().map(thinned).collect();
    let capacity: Option<Vec<(f64, f64)>> = lines.capacity.as_ref().map(thinned);
    let all: Vec<&[(f64, f64)]> = series.iter().chain(&capacity).map(Vec::as_slice).collect();
    let lowest = all.iter().flat_map(|points| points.iter()).map(|point| point.1).fold(f64::INFINITY, f64::min);
    let highest = all.iter().flat_map(|points| points.iter()).map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
    // Zero belongs into the picture unless all happens far above it.
    let ends = if lowest >= 0.0 && lowest < 0.6 * highest { AxisFit::FromZero } else { AxisFit::Loose };
    let plan = PlotArea::new(&canvas, (&lines.x, &lines.y), &all, ends, &lines.moments);
    plan.axes(&mut canvas, &lines.x, &lines.y);
    canvas.open_zoom(&plan.x, &plan.y);
    if let (Some(points), Some(of)) = (&capacity, &lines.capacity) {
        let outline = path(points, Shape::Steps, &plan);
        let name = crate::text::escape(&of.name);
        canvas.shape("path", &format!(r#"class="capacity" data-name="{name}" d="{}""#, area(&outline, &plan)));
        canvas.shape("path", &format!(r#"class="limit line step" data-name="{name}" d="{outline}""#));
    }
    for (points, of) in series.iter().zip(&lines.series) {
        curve(&mut canvas, &of.name, of.shape, points, &plan);
    }
    canvas.close(2);
    canvas.moments(&plan.x, &lines.moments, (plan.y.end, plan.y.start));
    let height = plan.height;
    canvas.finish(chart, "lines", height, Some((&plan.x, &plan.y)))
}

pub(super) fn draw_ecdf(mut canvas: Canvas<'_>, ecdfs: &Ecdfs, chart: &Chart) -> String {
    let most = if canvas.narrow { 120 } else { 250 };
    let curves: Vec<Vec<(f64, f64)>> = ecdfs
        .curves
        .iter()
        .map(|(_, distribution)| {
            let mut points = distribution.steps(most);
            points.insert(0, (distribution.minimum(), 0.0));
            points
        })
        .collect();
    let all: Vec<&[(f64, f64)]> = curves.iter().map(Vec::as_slice).collect();
    let y = Axis::new("Share of samples at or below", "").range(0.0, 1.0);
    let mut plan = PlotArea::new(&canvas, (&ecdfs.x, &y), &all, AxisFit::Loose, &ecdfs.moments);
    if ecdfs.x.from.is_none() && !ecdfs.x.logarithmic && plan.x.low > 0.0 && plan.x.low < 0.5 * plan.x.high {
        plan.x.low = 0.0;
    }
    plan.axes(&mut canvas, &ecdfs.x, &y);
    canvas.open_zoom(&plan.x, &plan.y);
    for (points, (name, _)) in curves.iter().zip(&ecdfs.curves) {
        curve(&mut canvas, name, Shape::Steps, points, &plan);
    }
    canvas.close(2);
    canvas.moments(&plan.x, &ecdfs.moments, (plan.y.end, plan.y.start));
    let height = plan.height;
    canvas.finish(chart, "lines ecdf", height, Some((&plan.x, &plan.y)))
}

fn curve(canvas: &mut Canvas<'_>, name: &str, shape: Shape, points: &[(f64, f64)], plan: &PlotArea) {
    canvas.open_series(name);
    let class = match shape {
        Shape::Line => "line",
        Shape::Steps => "line step",
        Shape::Dots => "dots",
    };
    canvas.shape("path", &format!(r#"class="{class}" d="{}""#, path(points, shape, plan)));
    canvas.close(1);
}

/// A series reduced to screen resolution.
fn thin(series: &Series, columns: usize) -> Vec<(f64, f64)> {
    // Gaps would count as triangles and extremes; a series with gaps is short enough or is kept whole.
    if series.points.iter().any(|point| !point.0.is_finite() || !point.1.is_finite()) {
        return series.points.clone();
    }
    match series.shape {
        Shape::Line => largest_triangles(&series.points, columns * 3),
        Shape::Steps | Shape::Dots => minima_and_maxima(&series.points, columns),
    }
}

fn path(points: &[(f64, f64)], shape: Shape, plan: &PlotArea) -> String {
    let mut d = String::new();
    let mut before: Option<(String, String)> = None;
    for (x, y) in points {
        let (Some(x), Some(y)) = (plan.x.at(*x), plan.y.at(*y)) else {
            before = None;
            continue;
        };
        let (x, y) = (px(x), px(y));
        match &before {
            Some((old_x, old_y)) if *old_x == x && *old_y == y => continue,
            // A line of no length with round ends is a dot.
            _ if shape == Shape::Dots => d.extend(["M", &x, " ", &y, "H", &x]),
            None => d.extend(["M", &x, " ", &y]),
            Some((old_x, old_y)) if shape == Shape::Steps => {
                if *old_x != x {
                    d.extend(["H", &x]);
                }
                if *old_y != y {
                    d.extend(["V", &y]);
                }
            }
            Some(_) => d.extend(["L", &x, " ", &y]),
        }
        before = Some((x, y));
    }
    // An empty path is not drawn, but its attribute must hold a command.
    if d.is_empty() { "M0 0".into() } else { d }
}

/// `outline` down to the base, each unbroken part by itself.
fn area(outline: &str, plan: &PlotArea) -> String {
    let base = px(plan.y.start);
    let mut d = String::new();
    for part in outline.split('M').filter(|part| !part.is_empty()) {
        let start = part.split(' ').next().unwrap_or("0");
        d.extend(["M", part, "V", &base, "H", start, "Z"]);
    }
    d
}
