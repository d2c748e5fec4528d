//! A picture under construction: frame, axes, marks. Everything that reaches the text is escaped or a number.

use std::fmt::Write;

use super::{Chart, Width};
use crate::palette::Palette;
use crate::scale::Scale;
use crate::text::{coordinate as px, escape};

/// About how wide a character is, in pixels, at the size of labels.
const CHARACTER_WIDTH: f64 = 6.8;

/// Number and height of the rows for labels of events.
const MOMENT_ROWS: usize = 2;
const MOMENT_ROW_HEIGHT: f64 = 14.0;

pub(crate) struct Canvas<'a> {
    pub width: f64,
    pub narrow: bool,
    pub palette: &'a Palette,
    id: String,
    body: String,
}

impl<'a> Canvas<'a> {
    pub fn new(width: Width, id: &str, palette: &'a Palette) -> Self {
        let narrow = width == Width::Narrow;
        let id = format!("{id}{}", if narrow { "n" } else { "w" });
        Self { width: if narrow { 360.0 } else { 720.0 }, narrow, palette, id, body: String::new() }
    }

    /// Height of charts that have no rows.
    pub fn height(&self) -> f64 {
        if self.narrow { 250.0 } else { 300.0 }
    }

    /// About how many ticks an axis of `length` pixels carries.
    pub fn ticks(&self, length: f64) -> usize {
        (length / if self.narrow { 62.0 } else { 80.0 }).round().max(2.0) as usize
    }

    /// Room for names at the left, never more than a third of the width.
    pub fn room<'n>(&self, names: impl Iterator<Item = &'n str>) -> f64 {
        let longest = names.map(|name| name.chars().count()).max().unwrap_or(0);
        (longest as f64 * CHARACTER_WIDTH + 16.0).clamp(40.0, self.width / 3.0)
    }

    /// `name` cut to `room` pixels.
    pub fn fitted(name: &str, room: f64) -> String {
        let most = (room / CHARACTER_WIDTH).floor().max(1.0) as usize;
        if name.chars().count() <= most {
            return name.to_owned();
        }
        name.chars().take(most.saturating_sub(1)).chain(['…']).collect()
    }

    /// An element without children. `attributes` hold numbers and our own words only.
    pub fn shape(&mut self, name: &str, attributes: &str) {
        let _ = writeln!(self.body, "<{name} {attributes}/>");
    }

    /// An element that shows `note` on hover.
    pub fn noted(&mut self, name: &str, attributes: &str, note: &str) {
        let _ = writeln!(self.body, "<{name} {attributes}><title>{}</title></{name}>", escape(note));
    }

    pub fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let _ = writeln!(self.body, r#"<text class="{class}" x="{}" y="{}">{}</text>"#, px(x), px(y), escape(text));
    }

    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ = writeln!(self.body, r#"<path class="{class}" d="M{} {}L{} {}"/>"#, px(x1), px(y1), px(x2), px(y2));
    }

    /// Opens a group that belongs to the series `name`, so that the legend can hide it.
    pub fn open_series(&mut self, name: &str) {
        let _ = writeln!(self.body, r#"<g class="{}" data-name="{}">"#, self.palette.class(name), escape(name));
    }

    /// Opens a group that moves and stretches when the reader zooms, cut at the plot's edges.
    pub fn open_zoom(&mut self, x: &Scale, y: &Scale) {
        let (left, top) = (x.start, y.end.min(y.start));
        let (width, height) = (x.end - x.start, (y.end - y.start).abs());
        let _ = writeln!(
            self.body,
            concat!(
                r#"<clipPath id="{0}c"><rect x="{1}" y="{2}" width="{3}" height="{4}"/></clipPath>"#,
                "\n",
                r#"<g clip-path="url(#{0}c)"><g class="zoom">"#
            ),
            self.id,
            px(left),
            px(top - 1.0),
            px(width),
            px(height + 2.0),
        );
    }

    pub fn close(&mut self, groups: usize) {
        for _ in 0..groups {
            self.body.push_str("</g>");
        }
        self.body.push('\n');
    }

    /// Ticks and title below the plot, and vertical lines through it if `lines` is set.
    pub fn x_axis(&mut self, x: &Scale, title: &str, (top, bottom): (f64, f64), lines: bool) {
        self.body.push_str("<g class=\"xticks\">\n");
        for (value, text) in x.ticks(self.ticks(x.end - x.start)) {
            let Some(at) = x.at(value) else { continue };
            if lines {
                self.line("grid", (at, top), (at, bottom));
            } else {
                self.line("tick", (at, bottom), (at, bottom + 4.0));
            }
            self.text("num mid", at, bottom + 16.0, &text);
        }
        self.body.push_str("</g>\n");
        self.text("title mid", f64::midpoint(x.start, x.end), bottom + 34.0, title);
    }

    /// Horizontal lines with their ticks at the left, and the title over them, where it needs no turned head.
    pub fn y_axis(&mut self, y: &Scale, title: &str, (left, right): (f64, f64), ticks: usize) {
        for (value, text) in y.ticks(ticks) {
            let Some(at) = y.at(value) else { continue };
            self.line("grid", (left, at), (right, at));
            self.text("num end", left - 6.0, at + 4.0, &text);
        }
        self.text("title", 2.0, 13.0, title);
    }

    /// Room for the ticks of `y`.
    pub fn y_room(y: &Scale, ticks: usize) -> f64 {
        let longest = y.ticks(ticks).iter().map(|tick| tick.1.chars().count()).max().unwrap_or(1);
        longest as f64 * CHARACTER_WIDTH + 14.0
    }

    /// Vertical lines at moments worth one, with their words above the plot, dodging each other.
    pub fn moments(&mut self, x: &Scale, moments: &[(f64, String)], (top, bottom): (f64, f64)) {
        let rows = moments.len().clamp(1, MOMENT_ROWS);
        let mut taken = [f64::NEG_INFINITY; MOMENT_ROWS];
        for (value, word) in moments {
            let Some(at) = x.at(*value) else { continue };
            let word = Self::fitted(word, self.width / 2.0);
            let length = word.chars().count() as f64 * CHARACTER_WIDTH;
            let left = at + length + 8.0 > self.width;
            let begin = if left { at - length - 6.0 } else { at };
            let row = taken[..rows].iter().position(|end| *end < begin).unwrap_or(rows - 1);
            taken[row] = begin + length + 10.0;
            let _ = writeln!(self.body, r#"<g class="moment" data-at="{}">"#, px(at));
            // The first label is placed highest, so that no later line crosses it.
            let y = top - 5.0 - MOMENT_ROW_HEIGHT * (rows - 1 - row) as f64;
            self.line("rule", (at, y - 8.0), (at, bottom));
            self.text(if left { "word end" } else { "word" }, if left { at - 4.0 } else { at + 4.0 }, y, &word);
            self.close(1);
        }
    }

    /// Room above a plot with `moments`.
    pub fn moments_room(moments: &[(f64, String)]) -> f64 {
        MOMENT_ROW_HEIGHT * moments.len().min(MOMENT_ROWS) as f64
    }

    /// The whole picture. `axes` lets scripts turn pixels back into values.
    pub fn finish(self, chart: &Chart, kind: &str, height: f64, axes: Option<(&Scale, &Scale)>) -> String {
        let mut data = String::new();
        if let Some((x, y)) = axes {
            for (name, scale) in [("x", x), ("y", y)] {
                let log = if scale.logarithmic { " log" } else { "" };
                let _ = write!(
                    data,
                    r#" data-{name}="{:?} {:?} {} {}{log}""#,
                    scale.low,
                    scale.high,
                    px(scale.start),
                    px(scale.end)
                );
            }
        }
        if let Some(linked) = &chart.linked {
            let _ = write!(data, r#" data-linked="{}""#, escape(linked));
        }
        let (id, width) = (&self.id, if self.narrow { "narrow" } else { "wide" });
        format!(
            concat!(
                r#"<svg class="{} {}" viewBox="0 0 {} {}" role="img" aria-labelledby="{}t {}d" "#,
                r#"xmlns="http://www.w3.org/2000/svg"{}>"#,
                "\n<title id=\"{}t\">{}</title><desc id=\"{}d\">{}</desc>\n{}</svg>\n"
            ),
            width,
            kind,
            px(self.width),
            px(height),
            id,
            id,
            data,
            id,
            escape(&chart.title),
            id,
            escape(&chart.caption),
            self.body
        )
    }
}
