//! Charts of Wi-Fi cells: delays, sizes of transmissions, use of the channel, and what was on the air when.

use std::collections::{BTreeMap, BTreeSet};

use nearlight_report::statistics::Ecdf;
use nearlight_report::{
    Axis, Cell, Chart, Column, Ecdfs, Lanes, Lines, Plot, Polarity, Row, Section, Series, Span, Stacks, Table,
};
use nearlight_wifi::{CellRecord, Direction, Distribution, Exchange, Kind, Tally};

use crate::record::RunRecord;
use crate::summary::CellSummary;
use crate::summary::wifi::MAX_UNDISTURBED_MS;

/// Samples that represent a distribution: enough for one in a thousand.
const DISTRIBUTION_SAMPLES: u64 = 5_000;
/// Length of a timeline: about two frames at 60 a second, as much as is readable.
const TIMELINE_LENGTH: nearlight_units::Span = nearlight_units::Span::from_millis(34);
/// Largest number of timelines in a section. Guess: more would not be read.
const MAX_TIMELINES: usize = 2;

/// Returns the distribution of delays in milliseconds. None without samples.
#[must_use]
pub fn delay_curve(delays: &Distribution) -> Option<Ecdf> {
    weighted(delays.iter().map(|(delay, count)| (delay.as_millis_f64(), count)), delays.count())
}

/// Returns the distribution of packets per transmission. None without transmissions.
#[must_use]
pub fn size_curve(tally: &Tally) -> Option<Ecdf> {
    let sizes = tally.aggregates.iter().enumerate().map(|(packets, count)| (packets as f64, *count));
    weighted(sizes, tally.transmissions())
}

/// Expands weighted values to samples at equal steps of the share.
fn weighted(values: impl Iterator<Item = (f64, u64)>, count: u64) -> Option<Ecdf> {
    let steps = count.min(DISTRIBUTION_SAMPLES);
    let (mut samples, mut seen, mut step) = (Vec::new(), 0, 0);
    for (value, times) in values {
        seen += times;
        // The middle of a step lies at or below what was seen.
        while step < steps && (2 * step + 1) * count <= 2 * steps * seen {
            samples.push(value);
            step += 1;
        }
    }
    Ecdf::new(samples)
}

/// Returns the packets per transmission in powers of two, in percent of all transmissions.
#[must_use]
pub fn size_bars(tally: &Tally) -> Stacks {
    let bounds = [1, 2, 4, 8, 16, 32, 64, 128, 256];
    let all = tally.transmissions().max(1) as f64;
    let mut from = 1;
    let mut rows = Vec::new();
    for to in bounds {
        let count: u64 = tally.aggregates.iter().take(to + 1).skip(from).sum();
        let name = if from == to { format!("{from}") } else { format!("{from} to {to}") };
        rows.push((name, vec![count as f64 / all * 100.0]));
        from = to + 1;
    }
    // Sizes at the long end that were never reached.
    while rows.len() > 1 && rows.last().is_some_and(|(_, shares)| shares[0] <= 0.0) {
        rows.pop();
    }
    Stacks { x: Axis::new("Share of transmissions", "%"), stages: vec!["transmissions".to_owned()], rows }
}

/// Plots what the channel's airtime is used for, one bar per record.
#[must_use]
pub fn airtime(records: &[(String, &CellRecord)]) -> Chart {
    let names =
        ["to headsets", "from headsets", "background stations", "collisions", "polls without answer", "neighbours"];
    let shares = |record: &CellRecord| {
        let percent = |part| record.share(part) * 100.0;
        let own = [record.downlink.airtime, record.uplink.airtime, record.others.airtime, record.cell.collided];
        let [down, up, others, collisions] = own.map(percent);
        let (cell, neighbours) = (percent(record.cell.airtime), percent(record.cell.neighbours));
        let polls = (cell - down - up - others - collisions).max(0.0);
        [down, up, others, collisions, polls, neighbours]
    };
    let rows: Vec<(String, [f64; 6])> = records.iter().map(|(name, record)| (name.clone(), shares(record))).collect();
    let shown: Vec<usize> = (0..names.len()).filter(|place| rows.iter().any(|row| row.1[*place] > 0.05)).collect();
    let stacks = Stacks {
        x: Axis::new("Share of the time", "%").range(0.0, 100.0),
        stages: shown.iter().map(|place| names[*place].to_owned()).collect(),
        rows: rows.iter().map(|(name, row)| (name.clone(), shown.iter().map(|place| row[*place]).collect())).collect(),
    };
    let caption = "What the channel is used for: exchanges count from their RTS to the end of their acknowledgement. The rest of the \
                   time it is idle, backoff included.";
    Chart::new("Use of the channel", caption, Plot::Stacks(stacks))
}

/// Returns the exchanges that a timeline shows: those within [`TIMELINE_LENGTH`] of the first.
#[must_use]
pub fn shown_exchanges(record: &CellRecord) -> &[Exchange] {
    let Some(first) = record.exchanges.first() else { return &[] };
    let end = record.exchanges.partition_point(|exchange| exchange.start - first.start < TIMELINE_LENGTH);
    &record.exchanges[..end]
}

/// Plots who held the channel when. None if no exchange was recorded.
#[must_use]
pub fn exchanges(title: impl Into<String>, record: &CellRecord) -> Option<Chart> {
    let shown = shown_exchanges(record);
    let first = shown.first()?.start;
    // A headset's two directions are adjacent; exchanges without a station come last.
    let place = |exchange: &Exchange| {
        (exchange.station.unwrap_or(usize::MAX), exchange.direction, exchange.kind == Kind::Neighbour)
    };
    let mut places: Vec<_> = shown.iter().map(|exchange| (place(exchange), lane(record.sessions, exchange))).collect();
    places.sort();
    places.dedup();
    let span = |exchange: &Exchange| Span {
        lane: places.iter().position(|other| other.0 == place(exchange)).unwrap_or(places.len()),
        from: (exchange.start - first).as_millis_f64(),
        to: (exchange.end - first).as_millis_f64(),
        kind: kind(record.sessions, exchange).to_owned(),
        note: note(exchange),
    };
    let spans: Vec<Span> = shown.iter().map(span).collect();
    let lanes = places.iter().map(|(_, name)| name.clone()).collect();
    let caption = "Who held the channel from when to when, from RTS to acknowledgement. Gaps are idle: interframe spaces, backoff, or \
                   nothing to send. Point at an exchange to read what it carried.";
    Some(Chart::new(title, caption, Plot::Lanes(Lanes { x: Axis::new("Time", "ms"), lanes, spans })))
}

fn lane(sessions: usize, exchange: &Exchange) -> String {
    let Some(station) = exchange.station else {
        return if exchange.kind == Kind::Neighbour { "neighbour" } else { "access point" }.to_owned();
    };
    let name = if station < sessions { format!("headset {station}") } else { format!("station {station}") };
    match exchange.direction {
        Direction::Downlink => format!("{name}, down"),
        Direction::Uplink => format!("{name}, up"),
    }
}

fn kind(sessions: usize, exchange: &Exchange) -> &'static str {
    let is_headset = exchange.station.is_some_and(|station| station < sessions);
    match (exchange.kind, exchange.direction) {
        (Kind::Single, _) if !is_headset => "background station",
        (Kind::Single, Direction::Downlink) => "to a headset",
        (Kind::Single, Direction::Uplink) => "from a headset",
        (Kind::MultiUser, _) => "to several at once",
        (Kind::Triggered, _) => "from several, asked",
        (Kind::Collision, _) => "collision",
        (Kind::Neighbour, _) => "neighbour",
    }
}

fn note(exchange: &Exchange) -> String {
    match (exchange.packets, exchange.delivered) {
        (0, _) => String::new(),
        (1, 1) => "1 packet".to_owned(),
        (packets, delivered) if packets == delivered => format!("{packets} packets"),
        (packets, delivered) => format!("{delivered} of {packets} packets"),
    }
}

/// The name of a compared system, and its runs.
pub(super) type NamedRuns<'a> = (&'a str, &'a [&'a RunRecord]);

/// Adds charts of the Wi-Fi cells of these runs, if they have any.
pub(super) fn add_charts(section: Section, compared: &[NamedRuns<'_>]) -> Section {
    let record = |runs: &[&RunRecord]| {
        let mut records = runs.iter().flat_map(|run| &run.wifi).map(|wifi| &wifi.record);
        let mut all = records.next()?.clone();
        records.for_each(|record| all.merge(record));
        Some(all)
    };
    let records: Vec<(String, CellRecord)> =
        compared.iter().filter_map(|(name, runs)| Some(((*name).to_owned(), record(runs)?))).collect();
    if records.is_empty() {
        return section;
    }
    let curves = |of: &dyn Fn(&CellRecord) -> Option<Ecdf>| -> Vec<(String, Ecdf)> {
        records.iter().filter_map(|(name, record)| Some((name.clone(), of(record)?))).collect()
    };
    let delays = |title: &str, caption: &str, curves: Vec<(String, Ecdf)>| {
        let plot = Ecdfs { x: Axis::new("delay", "ms").logarithmic(), curves, moments: Vec::new() };
        Chart::new(title, caption, Plot::Ecdf(plot))
    };
    let arrival =
        "Share of packets that took at most so long from their arrival at the sender's queue until they are delivered.";
    let whole = "Share of frames whose last packet was delivered at most so long after their first one was there.";
    let all = [
        ("Packets to headsets", arrival, curves(&|record| delay_curve(&record.dl_packet_delay))),
        ("Packets from headsets", arrival, curves(&|record| delay_curve(&record.ul_packet_delay))),
        ("Frames", whole, curves(&|record| delay_curve(&record.video_frame_delay))),
    ];
    let seen = all.into_iter().filter(|(_, _, curves)| !curves.is_empty());
    let mut charts: Vec<Chart> = seen.map(|(title, caption, curves)| delays(title, caption, curves)).collect();
    let sizes = Ecdfs {
        x: Axis::new("packets", "").logarithmic(),
        curves: curves(&|record| size_curve(&record.downlink)),
        moments: Vec::new(),
    };
    let caption = "Share of the access point's transmissions to headsets that carried at most so many packets, repetitions included.";
    charts.push(Chart::new("A-MPDU sizes", caption, Plot::Ecdf(sizes)));
    let rows: Vec<(String, &CellRecord)> = records.iter().map(|(name, record)| (name.clone(), record)).collect();
    let mut section = section;
    for pair in charts.chunks(2) {
        section = section.charts(pair.to_vec());
    }
    section = section.chart(airtime(&rows));
    // The two ends of what is compared differ most.
    let mut shown: Vec<&(String, CellRecord)> = records.iter().take(1).chain(records.iter().skip(1).last()).collect();
    shown.truncate(MAX_TIMELINES);
    let timelines = shown.into_iter().filter_map(|(name, record)| exchanges(format!("On the air: {name}"), record));
    timelines.fold(section, Section::chart)
}

/// Labels that distinguish policies; all others name a chart.
const POLICY_LABELS: [&str; 4] = ["case", "pacing", "category", "tau_ms"];

/// Results with this many headsets.
struct Point {
    headsets: u32,
    /// The 99 % quantile of complete frames' delay, in ms.
    delay: f64,
    /// Share of frames that arrived in time.
    in_time: f64,
}

/// Points of each policy, by increasing number of headsets.
type Policies = BTreeMap<String, Vec<Point>>;

/// Returns each policy's results over the number of headsets. None unless the plan varies that number.
pub(super) fn overview(cells: &[CellSummary]) -> Option<Section> {
    let numbers: BTreeSet<u32> = cells.iter().filter_map(headsets).collect();
    if numbers.len() < 3 {
        return None;
    }
    let groups = policies(cells);
    let charts: Vec<Chart> = groups.iter().map(|(name, policies)| delays_over_headsets(name, policies)).collect();
    let section = Section::new("Ever more headsets")
        .question("How many headsets does the cell carry under each policy?")
        .table(carried_table(&groups));
    Some(charts.chunks(2).fold(section, |section, pair| section.charts(pair.to_vec())))
}

fn headsets(cell: &CellSummary) -> Option<u32> {
    cell.labels.get("headsets")?.parse().ok()
}

/// Groups cells by chart and policy.
fn policies(cells: &[CellSummary]) -> BTreeMap<String, Policies> {
    let varies = |name: &str| name != "headsets" && super::varies(cells.iter().map(|cell| &cell.labels), name);
    let words = |cell: &CellSummary, policy: bool| {
        let shown =
            cell.labels.iter().filter(|(name, _)| POLICY_LABELS.contains(&name.as_str()) == policy && varies(name));
        shown.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ")
    };
    let mut groups: BTreeMap<String, Policies> = BTreeMap::new();
    for cell in cells {
        let point = || {
            Some(Point {
                headsets: headsets(cell)?,
                delay: cell.metrics.get("video_frame_delay_ms")?.p99,
                in_time: cell.metrics.get("frames_within_10ms_ratio")?.mean,
            })
        };
        if let Some(point) = point() {
            groups.entry(words(cell, false)).or_default().entry(words(cell, true)).or_default().push(point);
        }
    }
    for points in groups.values_mut().flat_map(BTreeMap::values_mut) {
        points.sort_by_key(|point| point.headsets);
    }
    groups
}

fn carried_table(groups: &BTreeMap<String, Policies>) -> Table {
    let names: BTreeSet<&String> = groups.values().flat_map(BTreeMap::keys).collect();
    let row = |(name, policies): (&String, &Policies)| {
        let cell = |policy: &&String| {
            policies.get(*policy).map_or(Cell::Empty, |points| Cell::figure(f64::from(max_headsets(points))))
        };
        Row::new(or_all(name), names.iter().map(cell).collect())
    };
    let column = |policy: &&String| Column::new(or_all(policy), "").polarity(Polarity::Higher).decimals(0);
    Table {
        caption: format!(
            "The most headsets of which 99 % of frames are there within {MAX_UNDISTURBED_MS} ms, frames that are lost counted as late."
        ),
        corner: "Headsets carried".to_owned(),
        columns: names.iter().map(column).collect(),
        rows: groups.iter().map(row).collect(),
    }
}

/// Returns a name for an empty group.
fn or_all(name: &str) -> &str {
    if name.is_empty() { "all" } else { name }
}

fn delays_over_headsets(name: &str, policies: &Policies) -> Chart {
    let line = |(policy, points): (&String, &Vec<Point>)| {
        let points = points.iter().map(|point| (f64::from(point.headsets), point.delay)).collect();
        Series::line(or_all(policy), points)
    };
    let lines = Lines {
        x: Axis::new("headsets", ""),
        y: Axis::new("frame delay, 99 %", "ms").logarithmic(),
        series: policies.iter().map(line).collect(),
        ..Lines::default()
    };
    let caption = "The delay that 99 % of the frames that become whole do not exceed; lower is better.";
    Chart::new(or_all(name), caption, Plot::Lines(lines))
}

/// Returns the largest number of headsets for which enough frames arrive in time.
fn max_headsets(points: &[Point]) -> u32 {
    points.iter().take_while(|point| point.in_time >= 0.99).last().map_or(0, |point| point.headsets)
}

#[cfg(test)]
mod tests {
    use nearlight_units::Span;

    use super::*;

    #[test]
    fn curves_keep_their_quantiles() {
        let mut delays = Distribution::default();
        assert!(delay_curve(&delays).is_none());
        for micros in 1..=20_000 {
            delays.add(Span::from_micros(micros));
        }
        let curve = delay_curve(&delays).expect("samples");
        for percent in [1.0, 50.0, 99.0] {
            let (found, exact) = (curve.percentile(percent), percent / 5.0);
            assert!((found - exact).abs() < exact / 100.0 + 0.005, "{percent} %: {found} instead of {exact}");
        }
        let mut few = Tally::default();
        few.aggregates[3] = 2;
        few.aggregates[200] = 1;
        let sizes = size_curve(&few).expect("transmissions");
        assert_eq!([10.0, 100.0].map(|percent| sizes.percentile(percent).round() as u32), [3, 200]);
        let bars = size_bars(&few);
        assert_eq!(
            bars.rows.iter().map(|(_, shares)| shares[0].round() as u32).collect::<Vec<_>>(),
            [0, 0, 67, 0, 0, 0, 0, 0, 33]
        );
    }

    #[test]
    fn a_policy_carries_as_many_as_are_served_without_a_gap() {
        let points = |shares: &[f64]| -> Vec<Point> {
            shares.iter().zip(1..).map(|(&in_time, headsets)| Point { headsets, delay: 1.0, in_time }).collect()
        };
        assert_eq!(max_headsets(&points(&[1.0, 0.995, 0.98, 0.991])), 2);
        assert_eq!(max_headsets(&points(&[0.2])), 0);
    }
}
