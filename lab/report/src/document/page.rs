//! The page as HTML.

use std::fmt::Write;

use super::{Block, Document, Section, Tile};
use crate::chart::{Chart, Mark, Plot, Width};
use crate::palette::{Palette, outline};
use crate::table::{Cell, Column, Polarity, Table};
use crate::text::{decimals_for, escape, number};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// A browser that enforces this loads and sends nothing, whatever a report's texts contain.
const CONTENT_SECURITY_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

pub(super) fn write(document: &Document) -> String {
    let palette = document.palette();
    let mut page = Page { html: String::new(), palette, charts: 0 };
    page.head(document);
    for (index, section) in document.sections.iter().enumerate() {
        page.section(index, section);
    }
    page.push("</main>\n<script>\n");
    page.push(SCRIPT);
    page.push("</script>\n</body>\n</html>\n");
    page.html
}

struct Page {
    html: String,
    palette: Palette,
    charts: usize,
}

impl Page {
    fn push(&mut self, markup: &str) {
        self.html.push_str(markup);
    }

    /// `<name class="class">text</name>`; nothing for an empty text.
    fn element(&mut self, name: &str, class: &str, text: &str) {
        if !text.is_empty() {
            let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
            let _ = writeln!(self.html, "<{name}{class}>{}</{name}>", escape(text));
        }
    }

    fn head(&mut self, document: &Document) {
        let title = escape(&document.title);
        let _ = write!(
            self.html,
            concat!(
                "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
                "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n",
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
                "<meta name=\"color-scheme\" content=\"light dark\">\n",
                "<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{title}</h1>\n"
            ),
            policy = CONTENT_SECURITY_POLICY,
            title = title,
            style = STYLE
        );
        self.element("p", "lead", &document.lead);
        if !document.facts.is_empty() {
            self.push("<dl class=\"facts\">\n");
            for (name, value) in &document.facts {
                let _ = writeln!(self.html, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value));
            }
            self.push("</dl>\n");
        }
        if document.sections.len() > 2 {
            self.push("<nav aria-label=\"Sections\"><ol>\n");
            for (index, section) in document.sections.iter().enumerate() {
                let _ = writeln!(self.html, "<li><a href=\"#s{}\">{}</a></li>", index + 1, escape(&section.title));
            }
            self.push("</ol></nav>\n");
        }
        self.push("</header>\n");
    }

    fn section(&mut self, index: usize, section: &Section) {
        let _ = writeln!(self.html, "<section id=\"s{}\">", index + 1);
        self.element("h2", "", &section.title);
        self.element("p", "question", &section.question);
        self.element("p", "answer", &section.answer);
        for block in &section.blocks {
            match block {
                Block::Paragraph(text) => self.element("p", "", text),
                Block::Note(text) => self.element("p", "note", text),
                Block::Tiles(tiles) => self.tiles(tiles),
                Block::Table(table) => {
                    self.push("<figure class=\"tabular\">\n");
                    self.table(table, true);
                    self.push("</figure>\n");
                }
                Block::Chart(chart) => self.chart(chart),
                Block::Charts(charts) => {
                    self.push("<div class=\"charts\">\n");
                    for chart in charts {
                        self.chart(chart);
                    }
                    self.push("</div>\n");
                }
            }
        }
        self.push("</section>\n");
    }

    fn tiles(&mut self, tiles: &[Tile]) {
        self.push("<ul class=\"tiles\">\n");
        for tile in tiles {
            self.push("<li>");
            self.element("span", "name", &tile.name);
            let unit =
                if tile.unit.is_empty() { String::new() } else { format!(" <small>{}</small>", escape(&tile.unit)) };
            let _ = writeln!(self.html, "<strong>{}{unit}</strong>", escape(&tile.value));
            self.element("span", "remark", &tile.note);
            self.push("</li>\n");
        }
        self.push("</ul>\n");
    }

    fn chart(&mut self, chart: &Chart) {
        self.charts += 1;
        let id = format!("f{}", self.charts);
        let _ = writeln!(self.html, "<figure class=\"chart\" id=\"{id}\">\n<figcaption>");
        let _ = writeln!(self.html, "<b>{}</b>", escape(&chart.title));
        self.element("p", "", &chart.caption);
        self.push("</figcaption>\n");
        self.legend(chart);
        for width in [Width::Wide, Width::Narrow] {
            let picture = chart.draw(width, &id, &self.palette);
            self.push(&picture);
        }
        self.push("<details><summary>The figures as a table</summary>\n");
        self.table(&chart.data(), false);
        self.push("</details>\n</figure>\n");
    }

    fn legend(&mut self, chart: &Chart) {
        let mut entries: Vec<(String, String, &str)> = Vec::new();
        for (name, mark) in chart.names() {
            let class = if mark == Mark::Capacity { "capacity".to_owned() } else { self.palette.class(name) };
            let key = match mark {
                Mark::Line => r#"<path class="line" d="M1 6H25"/>"#.to_owned(),
                Mark::Dot => r#"<path class="dots" d="M5 8H5M13 4H13M21 7H21"/>"#.to_owned(),
                Mark::Area => r#"<rect class="bar" x="5" y="1" width="12" height="10"/>"#.to_owned(),
                Mark::Capacity => {
                    r#"<path class="capacity" d="M1 3H25V11H1Z"/><path class="limit line" d="M1 3H25"/>"#.to_owned()
                }
                Mark::Point => {
                    let d = outline(self.palette.shape(name), 10.0);
                    format!(r#"<path class="centre" transform="translate(13 6)" d="{d}"/>"#)
                }
            };
            entries.push((class, key, name));
        }
        // Elements without a name of their own that need a label.
        match &chart.plot {
            Plot::Bars(bars) => {
                if bars.rows.iter().any(|bar| bar.ci95.is_some()) {
                    let key = r#"<path class="interval" d="M3 6H23M3 2V10M23 2V10"/>"#;
                    entries.push((String::new(), key.to_owned(), "95 % confidence interval"));
                }
                if bars.rows.iter().any(|bar| bar.published.is_some()) {
                    let d = outline(3, 10.0);
                    let key = format!(r#"<path class="published" transform="translate(13 6)" d="{d}"/>"#);
                    entries.push((String::new(), key, "published"));
                }
            }
            Plot::Boxes(_) => {
                let key = concat!(
                    r#"<path class="whisker" d="M1 6H25"/><rect class="box" x="6" y="1" width="14" height="10"/>"#,
                    r#"<path class="median" d="M12 1V11"/>"#
                );
                let word = "half of the samples, median; whiskers: 1.5 box lengths";
                entries.push(("c0 d0".into(), key.to_owned(), word));
                let d = outline(3, 7.0);
                let key = format!(r#"<path class="mean" transform="translate(13 6)" d="{d}"/>"#);
                entries.push(("c0 d0".into(), key, "mean"));
            }
            _ => {}
        }
        if entries.is_empty() {
            return;
        }
        let hideable =
            if matches!(chart.plot, Plot::Lines(_) | Plot::Ecdf(_) | Plot::Scatter(_)) { " hideable" } else { "" };
        let _ = writeln!(self.html, "<ul class=\"legend{hideable}\">");
        for (class, key, name) in entries {
            let name = escape(name);
            let _ = writeln!(
                self.html,
                "<li data-key=\"{name}\"><svg class=\"{class}\" viewBox=\"0 0 26 12\" aria-hidden=\"true\">{key}</svg>{name}</li>"
            );
        }
        self.push("</ul>\n");
    }

    /// A sortable one says with each column which end is better, and with each figure its value.
    fn table(&mut self, table: &Table, sortable: bool) {
        self.element("p", "heading", &table.caption);
        let _ = writeln!(
            self.html,
            "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{0}\"><table{1} aria-label=\"{0}\">",
            escape(&table.caption),
            if sortable && table.rows.len() > 1 { " class=\"sortable\"" } else { "" }
        );
        let _ = write!(self.html, "<thead><tr><th scope=\"col\">{}</th>", escape(&table.corner));
        for column in &table.columns {
            let mut class = if column.published { " class=\"published\"" } else { "" }.to_owned();
            if sortable && column.polarity == Polarity::Higher {
                class.push_str(" data-better=\"higher\"");
            }
            let unit = if column.unit.is_empty() {
                String::new()
            } else {
                format!(" <small>{}</small>", escape(&column.unit))
            };
            let _ = write!(self.html, "<th scope=\"col\"{class}>{}{unit}</th>", escape(&column.name));
        }
        self.push("</tr></thead>\n<tbody>\n");
        let looks: Vec<NumberFormat> = (0..table.columns.len()).map(|column| NumberFormat::of(table, column)).collect();
        for row in &table.rows {
            let _ = write!(self.html, "<tr><th scope=\"row\">{}</th>", escape(&row.name));
            for (index, look) in looks.iter().enumerate() {
                let value = sortable.then(|| value_of(row.cells.get(index))).flatten();
                self.cell(row.cells.get(index).unwrap_or(&Cell::Empty), &table.columns[index], look, value);
            }
            self.push("</tr>\n");
        }
        self.push("</tbody></table></div>\n");
        let marked = looks.iter().any(|look| look.best.is_some());
        let mut words = Vec::new();
        if marked {
            words.push("The best value of a column is bold and underlined.");
        }
        if table.rows.iter().any(|row| row.cells.iter().any(|cell| matches!(cell, Cell::Figure { ci95: Some(_), .. })))
        {
            words.push("± is half of the 95 % confidence interval over runs.");
        }
        if table.has_letters() {
            words.push("Values of a column that share a letter do not differ at the 5 % level (Tukey's HSD).");
        }
        self.element("p", "key", &words.join(" "));
    }

    fn cell(&mut self, cell: &Cell, column: &Column, look: &NumberFormat, value: Option<f64>) {
        let mut class = String::new();
        if column.published {
            class.push_str("published ");
        }
        let content = match cell {
            Cell::Empty => "–".to_owned(),
            Cell::Text(text) => {
                class.push_str("text ");
                escape(text)
            }
            Cell::Figure { value, ci95, letters } => {
                let decimals =
                    if column.decimals.is_none() && value.fract() == 0.0 && look.whole { 0 } else { look.decimals };
                let mut content = number(*value, decimals);
                if look.best.is_some_and(|best| (best - value).abs() <= 1e-12 * best.abs()) {
                    content = format!("<b>{content}</b>");
                }
                if let Some(half) = ci95 {
                    let _ = write!(content, " <small>± {}</small>", number(*half, decimals));
                }
                if !letters.is_empty() {
                    let _ = write!(content, " <sup>{}</sup>", escape(letters));
                }
                content
            }
        };
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{}\"", class.trim_end()) };
        // The spelling in JavaScript.
        let value = value.map(|value| if value.is_finite() { value.to_string() } else { "Infinity".to_owned() });
        let value = value.map_or_else(String::new, |value| format!(" data-value=\"{value}\""));
        let _ = write!(self.html, "<td{class}{value}>{content}</td>");
    }
}

/// A cell's sort key; none if it holds no number.
fn value_of(cell: Option<&Cell>) -> Option<f64> {
    match cell {
        Some(Cell::Figure { value, .. }) if !value.is_nan() => Some(*value),
        _ => None,
    }
}

/// The number format of a column.
struct NumberFormat {
    decimals: usize,
    best: Option<f64>,
    /// All values are integers.
    whole: bool,
}

impl NumberFormat {
    fn of(table: &Table, column: usize) -> Self {
        let largest = table.values(column).fold(0.0, |largest: f64, value| largest.max(value.abs()));
        let whole = table.values(column).all(|value| value.fract() == 0.0);
        let decimals = table.columns[column].decimals.unwrap_or_else(|| decimals_for(largest));
        Self { decimals, best: table.best(column), whole }
    }
}
