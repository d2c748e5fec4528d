//! Charts: what they show, and a caption that says what to look at.

mod bars;
mod canvas;
mod data;
mod grid;
mod lines;
mod scatter;

use crate::palette::Palette;
use crate::scale::Axis;
use crate::statistics::{BoxStatistics, Ecdf};
use crate::table::Table;
pub(crate) use canvas::Canvas;

/// A figure of the page.
#[derive(Clone, Debug)]
pub struct Chart {
    pub title: String,
    /// What to look at, and what it means: read before the picture.
    pub caption: String,
    pub plot: Plot,
    /// Charts with the same name zoom together along x.
    pub linked: Option<String>,
}

impl Chart {
    pub fn new(title: impl Into<String>, caption: impl Into<String>, plot: Plot) -> Self {
        Self { title: title.into(), caption: caption.into(), plot, linked: None }
    }

    /// See [`Chart::linked`].
    #[must_use]
    pub fn linked(mut self, name: impl Into<String>) -> Self {
        self.linked = Some(name.into());
        self
    }

    pub(crate) fn names(&self) -> Vec<(&str, Mark)> {
        match &self.plot {
            Plot::Lines(lines) => lines.names(),
            Plot::Ecdf(ecdfs) => ecdfs.curves.iter().map(|curve| (curve.0.as_str(), Mark::Line)).collect(),
            Plot::Scatter(scatter) => scatter.clouds.iter().map(|cloud| (cloud.0.as_str(), Mark::Point)).collect(),
            Plot::Stacks(stacks) => stacks.stages.iter().map(|stage| (stage.as_str(), Mark::Area)).collect(),
            Plot::Lanes(lanes) => {
                let mut kinds: Vec<(&str, Mark)> = Vec::new();
                for span in &lanes.spans {
                    if kinds.iter().all(|kind| kind.0 != span.kind) {
                        kinds.push((&span.kind, Mark::Area));
                    }
                }
                kinds
            }
            Plot::Bars(_) | Plot::Boxes(_) | Plot::Matrix(_) => Vec::new(),
        }
    }

    /// Names that need colours which differ.
    pub(crate) fn coloured(&self) -> Vec<&str> {
        match &self.plot {
            Plot::Bars(bars) => bars.rows.iter().map(|bar| bar.name.as_str()).collect(),
            Plot::Boxes(boxes) => boxes.rows.iter().map(|row| row.0.as_str()).collect(),
            _ => self.names().into_iter().filter(|name| name.1 != Mark::Capacity).map(|name| name.0).collect(),
        }
    }

    /// The picture, for a page of one of two widths.
    pub(crate) fn draw(&self, width: Width, id: &str, palette: &Palette) -> String {
        let canvas = Canvas::new(width, id, palette);
        match &self.plot {
            Plot::Lines(lines) => lines::draw(canvas, lines, self),
            Plot::Ecdf(ecdfs) => lines::draw_ecdf(canvas, ecdfs, self),
            Plot::Scatter(scatter) => scatter::draw(canvas, scatter, self),
            Plot::Stacks(stacks) => bars::draw_stacks(canvas, stacks, self),
            Plot::Bars(bars) => bars::draw_bars(canvas, bars, self),
            Plot::Boxes(boxes) => bars::draw_boxes(canvas, boxes, self),
            Plot::Lanes(lanes) => grid::draw_lanes(canvas, lanes, self),
            Plot::Matrix(matrix) => grid::draw_matrix(canvas, matrix, self),
        }
    }

    /// The figures behind the picture, for those who cannot see it or want to quote it.
    pub(crate) fn data(&self) -> Table {
        data::table(self)
    }
}

/// The mark of a name in a legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Line,
    /// The mark of a series of dots.
    Dot,
    Point,
    Area,
    /// A link's capacity: grey behind the lines.
    Capacity,
}

/// Pages pick the picture that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Wide,
    Narrow,
}

/// What a chart shows. Names (of series, clouds, stages, kinds) keep their colour through the whole document.
#[derive(Clone, Debug)]
pub enum Plot {
    Lines(Lines),
    Ecdf(Ecdfs),
    Scatter(Scatter),
    Stacks(Stacks),
    Bars(Bars),
    Boxes(Boxes),
    Lanes(Lanes),
    Matrix(Matrix),
}

/// Quantities over time, or over any other quantity.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// Drawn as a filled area behind all lines, as steps.
    pub capacity: Option<Series>,
    /// Moments worth a vertical line, with a word about each.
    pub moments: Vec<(f64, String)>,
}

impl Lines {
    fn names(&self) -> Vec<(&str, Mark)> {
        let capacity = self.capacity.iter().map(|series| (series.name.as_str(), Mark::Capacity));
        let mark = |series: &Series| if series.shape == Shape::Dots { Mark::Dot } else { Mark::Line };
        capacity.chain(self.series.iter().map(|series| (series.name.as_str(), mark(series)))).collect()
    }
}

/// Points with x ascending. A y that is not a number leaves a gap.
#[derive(Clone, Debug, Default)]
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    pub shape: Shape,
}

impl Series {
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, shape: Shape::Line }
    }

    /// Each value holds until the next point.
    pub fn steps(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, shape: Shape::Steps }
    }

    /// Points that are not joined.
    pub fn dots(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, shape: Shape::Dots }
    }
}

/// How points are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    #[default]
    Line,
    /// A value holds until the next point.
    Steps,
    /// Points that are not joined: single packets, single frames.
    Dots,
}

/// Distribution functions: for each value the share of samples that do not exceed it.
#[derive(Clone, Debug, Default)]
pub struct Ecdfs {
    pub x: Axis,
    /// Name and samples.
    pub curves: Vec<(String, Ecdf)>,
    /// Values worth a vertical line (a deadline, a frame interval), with a word about each.
    pub moments: Vec<(f64, String)>,
}

/// Clouds of points, each with its mean and its ellipse of one standard deviation.
#[derive(Clone, Debug, Default)]
pub struct Scatter {
    pub x: Axis,
    pub y: Axis,
    /// Name and points.
    pub clouds: Vec<(String, Vec<(f64, f64)>)>,
    /// The better corner, such as low latency and high rate.
    pub better: Option<Corner>,
}

/// The corner of a scatter where both axes are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corner {
    TopLeft,
    TopRight,
    BottomLeft,
    BottomRight,
}

/// One bar per row, made of stages that add up (the stages of a frame's latency, shares of airtime).
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    pub x: Axis,
    pub stages: Vec<String>,
    /// Name and one value per stage, none negative; missing values are zero.
    pub rows: Vec<(String, Vec<f64>)>,
}

/// One bar per row with its confidence interval, and a published figure where there is one.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    pub x: Axis,
    pub rows: Vec<Bar>,
}

/// A row of [`Bars`].
#[derive(Clone, Debug, Default)]
pub struct Bar {
    pub name: String,
    pub value: f64,
    /// Half the width of the interval.
    pub ci95: Option<f64>,
    /// Drawn as a diamond.
    pub published: Option<f64>,
}

/// One box per row: quartiles, median, mean, whiskers and outliers.
#[derive(Clone, Debug, Default)]
pub struct Boxes {
    pub x: Axis,
    pub rows: Vec<(String, BoxStatistics)>,
}

/// The activities of several parties over time, each on its own lane.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    pub x: Axis,
    /// Lanes from top to bottom.
    pub lanes: Vec<String>,
    pub spans: Vec<Span>,
}

/// Something that took from `from` to `to` on a lane.
#[derive(Clone, Debug, Default)]
pub struct Span {
    /// Index into [`Lanes::lanes`]; a span without a lane is omitted.
    pub lane: usize,
    pub from: f64,
    pub to: f64,
    /// Its colour and its entry in the legend.
    pub kind: String,
    /// Read out when pointed at, and written into the span where it fits.
    pub note: String,
}

/// A small table of values as colours.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    pub rows: Vec<String>,
    pub columns: Vec<String>,
    /// Titles of rows and columns, such as "sender" and "receiver".
    pub row_title: String,
    pub column_title: String,
    /// The quantity and its unit.
    pub value: Axis,
    /// Values by row; missing values and `None` stay empty.
    pub cells: Vec<Vec<Option<f64>>>,
}
