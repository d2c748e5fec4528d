//! Every element of a page, with made-up data: `cargo run -p nearlight-report --example gallery [FILE]`.

use std::f64::consts::TAU;

use nearlight_report::statistics::{BoxStatistics, Ecdf, Summary, compare};
use nearlight_report::{
    Axis, Bar, Bars, Boxes, Cell, Chart, Column, Corner, Document, Ecdfs, Lanes, Lines, Matrix, Plot, Polarity, Row,
    Scatter, Section, Series, Span, Stacks, Table, Tile,
};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};

struct Dice(Pcg64Mcg);

impl Dice {
    /// 0 to 1.
    fn share(&mut self) -> f64 {
        self.0.next_u64() as f64 / u64::MAX as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.share()).max(1e-12).ln()).sqrt() * (TAU * self.share()).cos()
    }
}

/// A controller that does not exist: how it behaves, and what a paper might have printed about it.
struct Made {
    name: &'static str,
    rate: f64,
    latency: f64,
    wobble: f64,
    published: Option<f64>,
}

const MADE: [Made; 4] = [
    Made { name: "gcc-alvr-fork", rate: 23.4, latency: 14.0, wobble: 0.8, published: Some(23.3) },
    Made { name: "nada-alvr-fork", rate: 34.1, latency: 61.0, wobble: 2.2, published: Some(34.8) },
    Made { name: "alvr-abr-mm25", rate: 26.0, latency: 76.0, wobble: 6.5, published: Some(25.3) },
    Made { name: "scream-v2", rate: 31.6, latency: 19.0, wobble: 1.4, published: None },
];

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "gallery.html".into());
    let mut dice = Dice(Pcg64Mcg::seed_from_u64(7));
    let document = Document::new(
        "Four rate controllers on a steady 35 Mb/s link",
        "A gallery of every element that reports use. All figures are made up; nothing here was measured. A real report \
         says in this place what was asked, what was found, and how far to trust it.",
    )
    .fact("Plan", "gallery")
    .fact("Commit", "0000000")
    .fact("Seeds", "1 to 20")
    .fact("Machine", "none: made-up data")
    .colours(MADE.iter().map(|made| made.name))
    .section(overview(&mut dice))
    .section(over_time(&mut dice))
    .section(distributions(&mut dice))
    .section(stages(&mut dice))
    .section(medium(&mut dice))
    .section(many(&mut dice));
    std::fs::write(&path, document.to_html())?;
    println!("{path}");
    Ok(())
}

fn overview(dice: &mut Dice) -> Section {
    let runs = |dice: &mut Dice, centre: f64, spread: f64| -> Vec<f64> {
        (0..20).map(|_| centre + spread * dice.normal()).collect()
    };
    let rates: Vec<Vec<f64>> = MADE.iter().map(|made| runs(dice, made.rate, made.wobble * 0.25)).collect();
    let latencies: Vec<Vec<f64>> = MADE.iter().map(|made| runs(dice, made.latency, made.latency * 0.06)).collect();
    let drops: Vec<Vec<f64>> = MADE.iter().map(|made| runs(dice, 0.8 + made.wobble * 2.4, 0.5)).collect();
    let tests: Vec<_> = [&rates, &latencies, &drops].into_iter().map(|groups| compare(groups)).collect();
    let rows = MADE.iter().enumerate().map(|(index, made)| {
        let cell = |groups: &[Vec<f64>], test: usize| {
            let found = Summary::of(&groups[index]).expect("samples are finite");
            let letters = tests[test].as_ref().map_or("", |test| test.tukey.letters[index].as_str());
            Cell::with_letters(found.mean, found.ci95, letters)
        };
        let published = Cell::figure_if(made.published);
        Row::new(made.name, vec![cell(&rates, 0), published, cell(&latencies, 1), cell(&drops, 2)])
    });
    let table = Table {
        caption: "Means over 20 runs of 300 s; the paper's figure beside ours".into(),
        corner: "Controller".into(),
        columns: vec![
            Column::new("Received rate", "Mb/s").polarity(Polarity::Higher),
            Column::new("Received, published", "Mb/s").published(),
            Column::new("Network latency", "ms").polarity(Polarity::Lower),
            Column::new("Frames dropped", "%").polarity(Polarity::Lower),
        ],
        rows: rows.collect(),
    };
    let words = tests[1].as_ref().map_or(String::new(), |test| test.anova.in_words());
    let bars = MADE.iter().zip(&rates).map(|(made, rates)| {
        let found = Summary::of(rates).expect("samples are finite");
        Bar { name: made.name.into(), value: found.mean, ci95: found.ci95, published: made.published }
    });
    Section::new("Who fills the link, and at what price?")
        .question("Which controller delivers most of a steady 35 Mb/s without making frames late?")
        .answer(
            "scream-v2 comes closest to both: 31.6 Mb/s at 19 ms. nada-alvr-fork delivers 2.5 Mb/s more, but its frames \
             wait three times as long in the network.",
        )
        .tiles(vec![
            Tile::new("Received, best", "34.1", "Mb/s").note("nada-alvr-fork; published 34.8"),
            Tile::new("Network latency, best", "14.0", "ms").note("gcc-alvr-fork; median over frames"),
            Tile::new("Frames dropped, worst", "16.4", "%").note("alvr-abr-mm25"),
            Tile::new("Simulated", "24 000", "s").note("in 61 s of CPU time"),
        ])
        .table(table)
        .paragraph(format!("The controllers differ in network latency: {words}."))
        .chart(Chart::new(
            "Received rate against the published one",
            "Diamonds are the paper's figures. Ours should lie within about one of its rounding steps: all three do.",
            Plot::Bars(Bars { x: Axis::new("Received rate", "Mb/s"), rows: bars.collect() }),
        ))
}

fn over_time(dice: &mut Dice) -> Section {
    let capacity = |at: f64| if (100.0..150.0).contains(&at) { 17.5 } else { 35.0 };
    let link = Series::steps("capacity", vec![(0.0, 35.0), (100.0, 17.5), (150.0, 35.0), (300.0, 35.0)]);
    let chart = |dice: &mut Dice, made: &Made| {
        let mut target = Vec::new();
        let mut received = Vec::new();
        let mut now = 3.0;
        for step in 0..3000 {
            let at = f64::from(step) * 0.1;
            let goal = (capacity(at) * made.rate / 35.0).min(made.rate);
            now += 0.02 * (goal - now) + 0.12 * made.wobble * dice.normal();
            let aim = (now + made.wobble * (at / 7.0).sin()).max(0.5);
            target.push((at, aim));
            received.push((at, aim.min(capacity(at)) * (0.97 + 0.02 * dice.normal())));
        }
        Chart::new(
            made.name,
            "Look at 100 s, when the link halves: how long does the target stay over the grey area?",
            Plot::Lines(Lines {
                x: Axis::new("Time", "s"),
                y: Axis::new("Rate", "Mb/s").range(0.0, 45.0),
                series: vec![Series::line("target", target), Series::line("received", received)],
                capacity: Some(link.clone()),
                moments: vec![(100.0, "link halves".into()), (150.0, "and recovers".into())],
            }),
        )
        .linked("time")
    };
    let queue: Vec<Series> = MADE
        .iter()
        .map(|made| {
            let points = (0..6000).map(|step| {
                let at = f64::from(step) * 0.05;
                let squeezed = if (100.0..104.0).contains(&at) { (104.0 - at) * made.wobble * 6.0 } else { 0.0 };
                (at, (made.latency * 0.4 + squeezed + made.wobble * dice.normal().abs()).max(0.0))
            });
            Series::line(made.name, points.collect())
        })
        .collect();
    Section::new("What happens when the link halves?")
        .question("How quickly does each controller notice a halved link, and does it come back?")
        .answer("All four come back within 20 s; the oscillating one overshoots for 4 s and fills the queue.")
        .charts(MADE.iter().map(|made| chart(dice, made)).collect())
        .chart(
            Chart::new(
                "Queue at the bottleneck",
                "One line per controller. Drag to zoom: all charts of this section follow. The spike at 100 s is the time it \
                 takes to notice.",
                Plot::Lines(Lines {
                    x: Axis::new("Time", "s"),
                    y: Axis::new("Queue delay", "ms"),
                    series: queue,
                    ..Lines::default()
                }),
            )
            .linked("time"),
        )
}

fn latencies(dice: &mut Dice, made: &Made, count: usize) -> Vec<f64> {
    (0..count).map(|_| made.latency * (0.35 + 0.3 * dice.share()) * (0.45 * dice.normal()).exp() + 4.0).collect()
}

fn distributions(dice: &mut Dice) -> Section {
    let samples: Vec<(String, Ecdf)> = MADE
        .iter()
        .map(|made| (made.name.to_owned(), Ecdf::new(latencies(dice, made, 20_000)).expect("samples are finite")))
        .collect();
    let clouds = MADE.iter().map(|made| {
        let points = (0..120).map(|_| {
            let shared = dice.normal();
            let latency = made.latency * (0.22 * shared + 0.06 * dice.normal()).exp();
            (latency, made.rate + made.wobble * (0.4 * shared + 0.25 * dice.normal()))
        });
        (made.name.to_owned(), points.collect::<Vec<_>>())
    });
    let scatter = Scatter {
        x: Axis::new("Frame network latency", "ms"),
        y: Axis::new("Received rate", "Mb/s"),
        clouds: clouds.collect(),
        better: Some(Corner::TopLeft),
    };
    let rows = samples.iter().map(|(name, of)| (name.clone(), BoxStatistics::of(of))).collect();
    let moments = vec![(13.9, "one frame at 72 Hz".to_owned()), (27.8, "two frames".to_owned())];
    let curves = samples;
    Section::new("How late are frames?")
        .question("How many frames reach the headset within one and two display intervals?")
        .answer("With gcc-alvr-fork and scream-v2 nine in ten frames arrive within two intervals; with the others hardly any.")
        .chart(Chart::new(
            "Frame network latency",
            "Read upwards at a dotted line: the share of frames that made that deadline. Curves further left are better.",
            Plot::Ecdf(Ecdfs { x: Axis::new("Latency", "ms").range(0.0, 150.0), curves, moments }),
        ))
        .charts(vec![
            Chart::new(
                "Rate against latency",
                "One point per 10 s. The ellipse spans one standard deviation; a tilted one says that latency rises with rate.",
                Plot::Scatter(scatter),
            ),
            Chart::new(
                "The same latencies as boxes",
                "The box holds half of the frames. Dots are frames beyond the whiskers: the stutters that a mean hides.",
                Plot::Boxes(Boxes { x: Axis::new("Latency", "ms").logarithmic(), rows }),
            ),
        ])
}

fn stages(dice: &mut Dice) -> Section {
    let rows = MADE.iter().map(|made| {
        let stages = [4.2, 6.1, 1.5, made.latency, 5.3, 0.4 + dice.share(), 6.9];
        (made.name.to_owned(), stages.to_vec())
    });
    let stacks = Stacks {
        x: Axis::new("Mean latency", "ms"),
        stages: ["render", "encode", "pace", "network", "decode", "decoder queue", "display slot"]
            .map(Into::into)
            .to_vec(),
        rows: rows.collect(),
    };
    Section::new("Where does the time go?")
        .question("Which stage of a frame's way decides how late it is seen?")
        .answer("The network, wherever the controller keeps a queue; otherwise waiting for the display slot.")
        .chart(Chart::new(
            "From motion to photon, by stage",
            "Stages add up to the number at the end of a bar. Only the network part differs between controllers.",
            Plot::Stacks(stacks),
        ))
        .note("Rendering and decoding are charged as configured; they are not part of what was simulated.")
}

fn medium(dice: &mut Dice) -> Section {
    let mut spans = Vec::new();
    let mut at = 12.0;
    for round in 0..9 {
        let lane = usize::from(round % 3 == 1) + 2 * usize::from(round % 4 == 3);
        let mut add = |lane: usize, length: f64, kind: &str, note: String| {
            spans.push(Span { lane, from: at, to: at + length, kind: kind.into(), note });
            at += length + 16.0;
        };
        add(lane, 20.0 + 30.0 * dice.share(), "backoff", String::new());
        add(lane, 36.0, "RTS/CTS", String::new());
        let packets = 1 + (dice.share() * 32.0) as u32;
        add(lane, 60.0 + 14.0 * f64::from(packets), "A-MPDU", format!("{packets} packets"));
        add(usize::from(lane == 0), 32.0, "block ack", String::new());
    }
    let names = ["access point", "headset 1", "laptop"].map(String::from).to_vec();
    let cells = (0..4).map(|row| {
        (0..6).map(|column| (row + column < 9).then(|| 3.0 + f64::from(row * column) * 1.7 + dice.share())).collect()
    });
    let matrix = Matrix {
        rows: ["burst", "5 ms", "2 ms", "compressed"].map(Into::into).to_vec(),
        columns: (1..=6).map(|count| count.to_string()).collect(),
        row_title: "pacing".into(),
        column_title: "headsets".into(),
        value: Axis::new("99th percentile of frame delay", "ms"),
        cells: cells.collect(),
    };
    Section::new("What is on the air?")
        .question("Who holds the medium, and how many headsets fit?")
        .answer("One exchange carries up to 32 packets; with compressed pacing four headsets stay below 20 ms.")
        .chart(Chart::new(
            "The first 4 ms of the cell",
            "One lane per station. A long block carries many packets at once: the overhead around it is paid only once.",
            Plot::Lanes(Lanes { x: Axis::new("Time", "µs"), lanes: names, spans }),
        ))
        .chart(Chart::new(
            "Packets of three frames",
            "Each dot is a packet. Dots above each other left in one batch; the gaps between batches are the pacing interval.",
            Plot::Lines(Lines {
                x: Axis::new("Time", "ms"),
                y: Axis::new("Packet size", "B").range(0.0, 1500.0),
                series: vec![Series::dots("video", packets(dice, 0.0, 1200.0)), Series::dots("sound", packets(dice, 0.35, 160.0))],
                ..Lines::default()
            }),
        ))
        .chart(Chart::new(
            "Frame delay by pacing and number of headsets",
            "Darker is slower (in the dark scheme: brighter). Empty cells were not run.",
            Plot::Matrix(matrix),
        ))
}

fn packets(dice: &mut Dice, offset: f64, size: f64) -> Vec<(f64, f64)> {
    (0..9)
        .flat_map(|batch| (0..6).map(move |packet| f64::from(batch) * 5.56 + f64::from(packet) * 0.02))
        .map(|at| (at + offset, if dice.share() < 0.8 { size } else { size * dice.share() }))
        .collect()
}

fn many(dice: &mut Dice) -> Section {
    let names = [
        "gcc-draft02",
        "gcc-libwebrtc",
        "gcc-pion",
        "gcc-alvr-fork",
        "nada-rfc8698",
        "nada-alvr-fork",
        "alvr-abr-mm25",
        "alvr-abr-2026",
        "scream-v2",
        "cubic",
        "bbr",
    ];
    let series = names.iter().enumerate().map(|(index, name)| {
        let mut level = 12.0 + 2.0 * index as f64;
        let points = (0..200).map(|second| {
            level += 0.5 * dice.normal();
            (f64::from(second), if (90..96).contains(&second) && index == 4 { f64::NAN } else { level.max(0.0) })
        });
        Series::line(*name, points.collect())
    });
    let series = series.collect();
    Section::new("Many series, odd names and gaps")
        .question("Does the page hold when a plan compares eleven controllers?")
        .answer("Dashes tell names apart where colours come round again; a gap is a gap.")
        .chart(Chart::new(
            "Eleven lines & <escapes>",
            "Names keep their colours from the charts above. Press a name in the legend to hide its line.",
            Plot::Lines(Lines { x: Axis::new("Time", "s"), y: Axis::new("Rate", "Mb/s"), series, ..Lines::default() }),
        ))
}
