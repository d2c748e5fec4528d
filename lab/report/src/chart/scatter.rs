//! Clouds of points with their ellipses.

use super::{Canvas, Chart, Corner, Scatter};
use crate::palette::outline;
use crate::scale::{AxisFit, Scale};
use crate::statistics::Ellipse;
use crate::text::{coordinate as px, figure};

/// Larger clouds are thinned to about this many points: the shape stays visible, the page small.
const MAX_POINTS: usize = 400;

pub(super) fn draw(mut canvas: Canvas<'_>, scatter: &Scatter, chart: &Chart) -> String {
    let height = if canvas.narrow { 290.0 } else { 400.0 };
    let ticks = if canvas.narrow { 5 } else { 6 };
    let ellipses: Vec<Option<Ellipse>> = scatter.clouds.iter().map(|cloud| Ellipse::of(&cloud.1)).collect();
    let outlines: Vec<(f64, f64)> = ellipses.iter().flatten().flat_map(|ellipse| ellipse.outline(16)).collect();
    let drawn = scatter.clouds.iter().flat_map(|cloud| sampled(&cloud.1)).chain(outlines.iter());
    let xs = drawn.clone().map(|point| point.0);
    let y = Scale::fit(&scatter.y, AxisFit::Loose, drawn.map(|point| point.1), (height - 44.0, 24.0), ticks);
    let left = Canvas::y_room(&y, ticks);
    let x = Scale::fit(&scatter.x, AxisFit::Loose, xs, (left, canvas.width - 14.0), canvas.ticks(canvas.width - left));
    canvas.y_axis(&y, &scatter.y.title(), (x.start, x.end), ticks);
    canvas.x_axis(&x, &scatter.x.title(), (y.end, y.start), true);
    for ((name, points), ellipse) in scatter.clouds.iter().zip(&ellipses) {
        cloud(&mut canvas, name, points, ellipse.as_ref(), (&x, &y));
    }
    if let Some(corner) = scatter.better {
        better(&mut canvas, corner, &x, &y);
    }
    canvas.finish(chart, "scatter", height, Some((&x, &y)))
}

fn sampled(points: &[(f64, f64)]) -> impl Iterator<Item = &(f64, f64)> + Clone {
    points.iter().step_by(points.len().div_ceil(MAX_POINTS).max(1))
}

fn cloud(
    canvas: &mut Canvas<'_>,
    name: &str,
    points: &[(f64, f64)],
    ellipse: Option<&Ellipse>,
    (x, y): (&Scale, &Scale),
) {
    let shape = canvas.palette.shape(name);
    let place = |point: &(f64, f64)| Some((x.at(point.0)?, y.at(point.1)?));
    canvas.open_series(name);
    if let Some(ellipse) = ellipse {
        let corners: Vec<String> =
            ellipse.outline(48).iter().filter_map(place).map(|(x, y)| format!("{} {}", px(x), px(y))).collect();
        // Deviations of values near the end of the range of numbers overflow.
        if !corners.is_empty() {
            canvas.shape("path", &format!(r#"class="ellipse" d="M{}Z""#, corners.join("L")));
        }
    }
    let dot = outline(shape, if points.len() > 60 { 4.0 } else { 6.0 });
    for (px_x, px_y) in sampled(points).filter_map(place) {
        let (at_x, at_y) = (px(px_x), px(px_y));
        canvas.shape("path", &format!(r#"class="dot" transform="translate({at_x} {at_y})" d="{dot}""#));
    }
    let centre = ellipse.map(|ellipse| (ellipse.x, ellipse.y)).or_else(|| points.first().copied());
    if let Some((at_x, at_y)) = centre.as_ref().and_then(place) {
        let (mean_x, mean_y) = centre.unwrap_or_default();
        let note = format!("{name}: mean {} and {}", figure(mean_x), figure(mean_y));
        let place = format!("translate({} {})", px(at_x), px(at_y));
        let d = outline(shape, 12.0);
        canvas.noted("path", &format!(r#"class="centre" transform="{place}" d="{d}""#), &note);
        if !canvas.narrow {
            let left = at_x > x.end - 110.0;
            canvas.text(
                if left { "word name end" } else { "word name" },
                at_x + if left { -10.0 } else { 10.0 },
                at_y - 8.0,
                name,
            );
        }
    }
    canvas.close(1);
}

fn better(canvas: &mut Canvas<'_>, corner: Corner, x: &Scale, y: &Scale) {
    let (word, left, top) = match corner {
        Corner::TopLeft => ("↖ better", true, true),
        Corner::TopRight => ("better ↗", false, true),
        Corner::BottomLeft => ("↙ better", true, false),
        Corner::BottomRight => ("better ↘", false, false),
    };
    let at = (if left { x.start + 6.0 } else { x.end - 6.0 }, if top { y.end + 15.0 } else { y.start - 8.0 });
    canvas.text(if left { "word better" } else { "word better end" }, at.0, at.1, word);
}
