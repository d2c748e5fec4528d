//! Pages are complete, well-formed and deterministic for any samples and names.
//!
//! `NEARLIGHT_UPDATE=1 cargo test -p nearlight-report --test page` writes the snapshot anew.

use std::path::Path;

use nearlight_report::statistics::{BoxStatistics, Ecdf};
use nearlight_report::{
    Axis, Bar, Bars, Boxes, Cell, Chart, Column, Corner, Document, Ecdfs, Lanes, Lines, Matrix, Plot, Polarity, Row,
    Scatter, Section, Series, Span, Stacks, Table, Tile,
};
use proptest::prelude::*;

/// Everything within the page's body, which is written as XML so that a parser can vouch for it.
fn body(html: &str) -> &str {
    let start = html.find("<main>").expect("a page has a main part");
    let end = html.find("</main>").expect("a page has a main part") + "</main>".len();
    &html[start..end]
}

/// Parses the page and looks at every number of every picture.
fn check(html: &str) -> Result<(), TestCaseError> {
    let text = body(html);
    let document = roxmltree::Document::parse(text).map_err(|error| {
        TestCaseError::fail(format!("{error} in a page that begins {}", &text[..text.len().min(400)]))
    })?;
    for picture in document.descendants().filter(|node| node.has_tag_name("svg") || node.tag_name().name() == "svg") {
        let extent: Vec<f64> = numbers(picture.attribute("viewBox").unwrap_or_default());
        prop_assert_eq!(extent.len(), 4);
        for node in picture.descendants().filter(roxmltree::Node::is_element) {
            for attribute in node.attributes() {
                let value = attribute.value();
                if matches!(
                    attribute.name(),
                    "d" | "x" | "y" | "width" | "height" | "transform" | "cx" | "cy" | "points"
                ) {
                    prop_assert!(!value.contains("NaN") && !value.contains("inf"), "{} = {}", attribute.name(), value);
                }
            }
            inside(&node, extent[2], extent[3])?;
        }
    }
    Ok(())
}

fn inside(node: &roxmltree::Node<'_, '_>, width: f64, height: f64) -> Result<(), TestCaseError> {
    let number = |name: &str| node.attribute(name).and_then(|value| value.parse::<f64>().ok()).unwrap_or(0.0);
    let (mut dx, mut dy) = (0.0, 0.0);
    if let Some(transform) = node.attribute("transform") {
        let moved = numbers(transform);
        (dx, dy) = (moved[0], moved[1]);
    }
    let mut points = vec![(dx, dy)];
    match node.tag_name().name() {
        "rect" => {
            points.push((number("x"), number("y")));
            points.push((number("x") + number("width"), number("y") + number("height")));
        }
        "text" => points.push((number("x"), number("y"))),
        "circle" => points.push((number("cx"), number("cy"))),
        // Outlines of points stand around their origin; lines are in place.
        "path" if node.attribute("transform").is_none() => {
            points.extend(corners(node.attribute("d").unwrap_or_default()));
        }
        _ => {}
    }
    for (x, y) in points {
        // Strokes, whiskers and clip edges reach a pixel or two beyond.
        let within = (-3.0..=width + 3.0).contains(&x) && (-3.0..=height + 3.0).contains(&y);
        prop_assert!(within, "{x} {y} in {width} x {height}: {node:?}");
    }
    Ok(())
}

/// Every corner of a path of absolute M, L, H, V and Z.
fn corners(d: &str) -> Vec<(f64, f64)> {
    let mut found = Vec::new();
    let (mut x, mut y) = (0.0, 0.0);
    let mut rest = d;
    while let Some(command) = rest.chars().next() {
        let end = rest[1..].find(|c: char| c.is_ascii_alphabetic()).map_or(rest.len(), |end| end + 1);
        let values = numbers(&rest[1..end]);
        match (command, values.as_slice()) {
            ('H', [value]) => x = *value,
            ('V', [value]) => y = *value,
            ('M' | 'L', [to_x, to_y]) => (x, y) = (*to_x, *to_y),
            ('Z', []) => {}
            other => panic!("a path holds {other:?}: {d}"),
        }
        found.push((x, y));
        rest = &rest[end..];
    }
    found
}

fn numbers(text: &str) -> Vec<f64> {
    text.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-')).filter_map(|part| part.parse().ok()).collect()
}

/// One document with every element.
fn everything(names: &[String], values: &[f64], logarithmic: bool) -> Document {
    let name = |index: usize| names[index % names.len()].clone();
    let value = |index: usize| values[index % values.len()];
    let axis = |title: usize| Axis { logarithmic, ..Axis::new(name(title), name(title + 1)) };
    let points: Vec<(f64, f64)> = values.iter().enumerate().map(|(index, y)| (index as f64, *y)).collect();
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let ecdf = Ecdf::new(finite).unwrap_or_else(|| Ecdf::new(vec![1.0]).expect("one is finite"));
    let cloud: Vec<(f64, f64)> = values.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let plots = vec![
        Plot::Lines(Lines {
            x: axis(0),
            y: axis(1),
            series: vec![
                Series::line(name(0), points.clone()),
                Series::steps(name(1), points.clone()),
                Series::dots(name(3), points.clone()),
            ],
            capacity: Some(Series::steps(name(2), points.clone())),
            moments: (0..4).map(|index| (value(index), name(index))).collect(),
        }),
        Plot::Ecdf(Ecdfs { x: axis(2), curves: vec![(name(0), ecdf.clone())], moments: vec![(value(0), name(1))] }),
        Plot::Scatter(Scatter {
            x: axis(0),
            y: axis(1),
            clouds: vec![(name(0), cloud), (name(1), points), (name(2), vec![])],
            better: Some(Corner::BottomRight),
        }),
        Plot::Stacks(Stacks {
            x: axis(0),
            stages: names.to_vec(),
            rows: vec![(name(0), values.to_vec()), (name(1), vec![])],
        }),
        Plot::Bars(Bars {
            x: axis(1),
            rows: (0..3)
                .map(|index| Bar {
                    name: name(index),
                    value: value(index),
                    ci95: (index > 0).then(|| value(index + 1)),
                    published: (index > 1).then(|| value(index + 2)),
                })
                .collect(),
        }),
        Plot::Boxes(Boxes { x: axis(0), rows: vec![(name(0), BoxStatistics::of(&ecdf))] }),
        Plot::Lanes(Lanes {
            x: axis(0),
            lanes: names.to_vec(),
            spans: (0..8)
                .map(|index| Span {
                    lane: index,
                    from: value(index),
                    to: value(index + 1),
                    kind: name(index),
                    note: name(index + 1),
                })
                .collect(),
        }),
        Plot::Matrix(Matrix {
            rows: names.to_vec(),
            columns: names.to_vec(),
            row_title: name(0),
            column_title: name(1),
            value: axis(2),
            cells: vec![values.iter().copied().map(Some).collect(), vec![None], vec![]],
        }),
    ];
    let charts = plots.into_iter().map(|plot| Chart::new(name(0), name(1), plot).linked(name(2))).collect();
    let cells =
        vec![Cell::with_letters(value(0), Some(value(1)), name(0)), Cell::text(name(1)), Cell::figure(value(2))];
    let columns = vec![
        Column::new(name(0), name(1)).polarity(Polarity::Lower),
        Column::new(name(1), "").published(),
        Column::new(name(2), ""),
        Column::new("one more than cells", ""),
    ];
    let table = Table { caption: name(0), corner: name(1), columns, rows: vec![Row::new(name(2), cells)] };
    let section = Section::new(name(0)).question(name(1)).answer(name(2)).paragraph(name(0)).note(name(1));
    let tiles = vec![Tile::new(name(0), name(1), name(2)).note(name(0))];
    Document::new(name(0), name(1)).fact(name(0), name(2)).section(section.tiles(tiles).table(table).charts(charts))
}

fn odd_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => -100.0..100.0_f64,
        2 => 0.0..1.0e6_f64,
        1 => prop::num::f64::ANY,
        1 => prop_oneof![Just(0.0), Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(f64::MIN_POSITIVE)],
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pages_are_well_formed_whatever_they_hold(
        names in prop::collection::vec("\\PC{0,12}|[<>&\"'\\]\u{0}-\u{1f}]{0,6}|[a-z-]{1,40}", 3..12),
        values in prop::collection::vec(odd_number(), 1..60),
        logarithmic in any::<bool>(),
    ) {
        let document = everything(&names, &values, logarithmic);
        let html = document.to_html();
        check(&html)?;
        prop_assert_eq!(html, document.to_html());
    }
}

#[test]
fn long_series_make_small_pages() {
    let points: Vec<(f64, f64)> =
        (0..1_000_000).map(|i| (f64::from(i) * 0.001, f64::from(i % 1000 * 7919 % 1000))).collect();
    let lines =
        Lines { series: vec![Series::line("a", points.clone()), Series::steps("b", points)], ..Lines::default() };
    let chart = Chart::new("A million points", "Twice.", Plot::Lines(lines));
    let html = Document::new("Long", "").section(Section::new("Long").chart(chart)).to_html();
    assert!(html.len() < 150_000, "{} bytes", html.len());
    check(&html).unwrap();
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    let html = everything(&["a".into()], &[1.0, 2.0], false).to_html();
    let outside = html.replace("http://www.w3.org/2000/svg", "");
    for forbidden in ["http:", "https:", "src=", "url(//", "@import", "<link"] {
        assert!(!outside.contains(forbidden), "{forbidden}");
    }
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn a_small_page_as_it_should_be() {
    let section = Section::new("Is it fast?")
        .question("Which is faster?")
        .answer("a, by a third.")
        .tiles(vec![Tile::new("Rate", "35.0", "Mb/s").note("± 0.2")])
        .table(Table {
            caption: "Two controllers".into(),
            corner: "Controller".into(),
            columns: vec![
                Column::new("Rate", "Mb/s").polarity(Polarity::Higher),
                Column::new("Published", "Mb/s").published(),
            ],
            rows: vec![
                Row::new("a", vec![Cell::with_letters(35.04, Some(0.21), "a"), Cell::figure(34.8)]),
                Row::new("b <x>", vec![Cell::with_letters(23.0, None, "b"), Cell::Empty]),
            ],
        })
        .chart(Chart::new(
            "Rate over time",
            "The line should stay below the grey.",
            Plot::Lines(Lines {
                x: Axis::new("Time", "s"),
                y: Axis::new("Rate", "Mb/s"),
                series: vec![Series::line("a", vec![(0.0, 0.0), (5.0, 30.0), (10.0, 35.0)])],
                capacity: Some(Series::steps("capacity", vec![(0.0, 35.0), (6.0, 40.0), (10.0, 40.0)])),
                moments: vec![(6.0, "more".into())],
            }),
        ));
    let html = Document::new("Small", "One of each.").fact("Seeds", "1").section(section).to_html();
    check(&html).unwrap();
    let found = body(&html);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/small.html");
    if std::env::var_os("NEARLIGHT_UPDATE").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "the page reads differently:\n{found}\nIf that is meant: NEARLIGHT_UPDATE=1 cargo test -p nearlight-report --test page"
    );
}

#[test]
fn tables_of_figures_sort_and_keep_their_first_column_in_sight() {
    let column = |name: &str| Column::new(name, "");
    let table = Table {
        caption: "Two".into(),
        corner: "Controller".into(),
        columns: vec![
            column("In time").polarity(Polarity::Higher),
            column("Rate").polarity(Polarity::Higher).unmarked(),
        ],
        rows: vec![
            Row::new("mild", vec![Cell::figure(0.9), Cell::figure(7.0)]),
            Row::new("wild", vec![Cell::figure(0.1), Cell::figure(f64::INFINITY)]),
        ],
    };
    let html = Document::new("Sorted", "").section(Section::new("?").table(table)).to_html();
    check(&html).unwrap();
    for words in [
        "<table class=\"sortable\"",
        "<th scope=\"col\" data-better=\"higher\">In time</th>",
        "<td data-value=\"0.9\"><b>0.900</b></td><td data-value=\"7\">7</td>",
        "<td data-value=\"Infinity\">∞</td>",
        "table.sortable",
        "setAttribute(\"aria-sort\"",
        "position: sticky; left: 0",
    ] {
        assert!(html.contains(words), "{words}\n{}", body(&html));
    }
    assert_eq!(html.matches("<b>").count(), 1, "an unmarked column has no best");
}
