//! What happened in a cell, as a page.

use nearlight_report::{
    Axis, Bar, Bars, Cell, Chart, Column, Document, Ecdfs, Lanes, Plot, Row, Section, Span, Stacks, Table, Tile,
    statistics,
};
use nearlight_wifi::{Aggregates, Direction, Exchange, Kind, Report, Scenario};

/// Samples that stand for a distribution: enough for one in a thousand.
const SAMPLES: u32 = 5_000;

pub(super) fn document(heading: &str, scenario: &Scenario, report: &Report) -> Document {
    let title = match scenario.headsets {
        1 => "One headset in a Wi-Fi cell".to_owned(),
        many => format!("{many} headsets in a Wi-Fi cell"),
    };
    let (cell, traffic) = heading.split_once('\n').unwrap_or((heading, ""));
    let seeds = scenario.seed..scenario.seed.saturating_add(u64::from(scenario.runs));
    let mut document = Document::new(title, traffic)
        .fact("Cell", cell)
        .fact("Seeds", format!("{} to {}", seeds.start, seeds.end - 1))
        .fact("Simulated", format!("{} s", report.simulated_s))
        .colours([VIDEO_FRAME, VIDEO_PACKET, POSE])
        .section(delays(scenario, report))
        .section(aggregation(report))
        .section(airtime(report));
    if scenario.headsets > 1 {
        document = document.section(headsets(report));
    }
    if !report.exchanges.is_empty() {
        document = document.section(exchanges(scenario, report));
    }
    document
}

const VIDEO_FRAME: &str = "video frame";
const VIDEO_PACKET: &str = "video packet";
const POSE: &str = "pose";

fn delays(scenario: &Scenario, report: &Report) -> Section {
    let headsets = &report.headsets;
    let frame = &headsets.video_frame_delay_ms;
    let tile = |name: &str, value: f64, note: String| Tile::new(name, format!("{value:.2}"), "ms").note(note);
    let tiles = vec![
        tile("Video frame, 99 %", frame.p99, format!("mean {:.2} ms, longest {:.2} ms", frame.mean, frame.max)),
        tile(
            "Video packet, mean",
            headsets.dl_packet_delay_ms.mean,
            format!("99.99 %: {:.2} ms", headsets.dl_packet_delay_ms.p9999),
        ),
        tile(
            "Pose, mean",
            headsets.ul_packet_delay_ms.mean,
            format!("99 %: {:.2} ms", headsets.ul_packet_delay_ms.p99),
        ),
    ];
    let period = scenario.video.map(|video| video.period().as_millis_f64());
    let late = period.map_or(String::new(), |period| {
        let in_time = share_at(&report.delay_curves.video_frame, period) * 100.0;
        format!(" {in_time:.2} % of frames are there before the next one begins.")
    });
    let curves = [
        (VIDEO_FRAME, &report.delay_curves.video_frame),
        (VIDEO_PACKET, &report.delay_curves.dl_packet),
        (POSE, &report.delay_curves.ul_packet),
    ];
    let curves = curves.into_iter().filter_map(|(name, curve)| {
        statistics::Ecdf::new(samples(curve)).map(|distribution| (name.to_owned(), distribution))
    });
    let plot = Ecdfs {
        x: Axis::new("Delay", "ms").logarithmic(),
        curves: curves.collect(),
        moments: period.map(|period| (period, "next frame".to_owned())).into_iter().collect(),
    };
    let caption = "Share of packets and frames that took at most so long, from their arrival at the sender's queue until they are \
                   delivered. A frame takes until its last packet is there, batches included. The further left, the better.";
    Section::new("Delay")
        .question("How long do frames, packets and poses take through the cell?")
        .answer(format!(
            "Half of all frames are whole after {:.2} ms, 99 % after {:.2} ms.{late} {} of them lost a packet for good.",
            frame.p50, frame.p99, headsets.video_frames_lost
        ))
        .tiles(tiles)
        .chart(Chart::new("Delay through the cell", caption, Plot::Ecdf(plot)))
}

/// Values at equal steps of the share.
fn samples(curve: &[(f64, f64)]) -> Vec<f64> {
    let mut points = curve.iter().peekable();
    let at = |sample: u32| (f64::from(sample) + 0.5) / f64::from(SAMPLES);
    let value = |sample| {
        while points.next_if(|point| point.1 < at(sample)).is_some() {}
        points.peek().map(|point| point.0)
    };
    (0..SAMPLES).map_while(value).collect()
}

fn share_at(curve: &[(f64, f64)], value: f64) -> f64 {
    curve.iter().take_while(|point| point.0 <= value).last().map_or(0.0, |point| point.1)
}

fn aggregation(report: &Report) -> Section {
    let headsets = &report.headsets;
    let (down, up) = (&headsets.downlink.ampdu_mpdus, &headsets.uplink.ampdu_mpdus);
    let chart = |title: &str, aggregates: &Aggregates| {
        let caption = "How many packets a transmission carries, repetitions included. Longer ones spend less of their time on \
                       contention and preambles.";
        Chart::new(
            title,
            caption,
            Plot::Bars(Bars { x: Axis::new("Share of transmissions", "%"), rows: sizes(aggregates) }),
        )
    };
    let mut charts = vec![chart("Downlink A-MPDUs", down)];
    if up.count > 0 {
        charts.push(chart("Uplink A-MPDUs", up));
    }
    Section::new("Aggregation")
        .question("How much goes into one transmission?")
        .answer(format!(
            "{:.1} packets on the average towards headsets, {:.1} of which get through at once; {:.1} from them.",
            down.mean, down.mean_delivered, up.mean
        ))
        .charts(charts)
}

fn sizes(aggregates: &Aggregates) -> Vec<Bar> {
    let bounds = [1, 2, 4, 8, 16, 32, 64, 128, 256];
    let mut from = 1;
    let mut rows = Vec::new();
    for to in bounds {
        let within = aggregates.histogram.iter().filter(|(packets, _)| (from..=to).contains(packets));
        let count: u64 = within.map(|(_, count)| count).sum();
        let name = if from == to { format!("{from}") } else { format!("{from} to {to}") };
        let value = count as f64 / aggregates.count.max(1) as f64 * 100.0;
        rows.push(Bar { name, value, ..Bar::default() });
        from = to + 1;
    }
    // Sizes that nobody reached at the long end.
    while rows.len() > 1 && rows.last().is_some_and(|bar| bar.value <= 0.0) {
        rows.pop();
    }
    rows
}

fn airtime(report: &Report) -> Section {
    let sum = |of: fn(&nearlight_wifi::StationReport) -> f64, headsets: bool| -> f64 {
        report.stations.iter().filter(|station| station.is_headset == headsets).map(of).sum::<f64>() * 100.0
    };
    let down = sum(|station| station.downlink.airtime_ratio, true);
    let up = sum(|station| station.uplink.airtime_ratio, true);
    let others = sum(|station| station.downlink.airtime_ratio + station.uplink.airtime_ratio, false);
    let collisions = report.collision_airtime_ratio * 100.0;
    let neighbours = report.neighbour_airtime_ratio * 100.0;
    let cell = report.airtime_ratio * 100.0;
    let polls = (cell - down - up - others - collisions).max(0.0);
    let idle = (100.0 - cell - neighbours).max(0.0);
    let all = [
        ("to headsets", down),
        ("from headsets", up),
        ("background stations", others),
        ("collisions", collisions),
        ("polls without answer", polls),
        ("neighbours", neighbours),
        ("idle, backoff included", idle),
    ];
    let shown: Vec<(&str, f64)> = all.into_iter().filter(|(_, share)| *share > 0.05).collect();
    let stacks = Stacks {
        x: Axis::new("Share of the time", "%").range(0.0, 100.0),
        stages: shown.iter().map(|(name, _)| (*name).to_owned()).collect(),
        rows: vec![("the channel".to_owned(), shown.iter().map(|(_, share)| *share).collect())],
    };
    let caption = "What the channel is used for: exchanges count from their RTS to the end of their acknowledgement.";
    Section::new("Airtime")
        .question("How full is the channel?")
        .answer(format!(
            "The cell is on the air for {cell:.1} % of the time and delivers {:.1} Mb/s to its headsets; two begin at once {:.1} times a second.",
            report.headsets.downlink.delivered_mbps, report.collisions_per_s
        ))
        .chart(Chart::new("Use of the channel", caption, Plot::Stacks(stacks)))
}

fn headsets(report: &Report) -> Section {
    let columns = vec![
        Column::new("Frame, mean", "ms").decimals(2),
        Column::new("Frame, 99 %", "ms").decimals(2),
        Column::new("Frames lost", "").decimals(0),
        Column::new("Pose, mean", "ms").decimals(2),
        Column::new("Delivered", "Mb/s").decimals(1),
        Column::new("A-MPDU", "packets").decimals(1),
    ];
    let row = |(place, station): (usize, &nearlight_wifi::StationReport)| {
        let figures = [
            station.video_frame_delay_ms.mean,
            station.video_frame_delay_ms.p99,
            station.video_frames_lost as f64,
            station.ul_packet_delay_ms.mean,
            station.downlink.delivered_mbps,
            station.downlink.ampdu_mpdus.mean,
        ];
        Row::new(format!("headset {place}"), figures.map(Cell::figure).to_vec())
    };
    let stations = report.stations.iter().filter(|station| station.is_headset).enumerate();
    let table = Table {
        caption: "Each headset has its own stream; all contend for the same channel.".to_owned(),
        corner: "Headset".to_owned(),
        columns,
        rows: stations.map(row).collect(),
    };
    Section::new("Headsets").question("Is any of them worse off?").table(table)
}

fn exchanges(scenario: &Scenario, report: &Report) -> Section {
    let first = report.exchanges[0].start;
    // A headset's two directions lie together; what belongs to no station comes last.
    let place = |exchange: &Exchange| {
        (exchange.station.unwrap_or(usize::MAX), exchange.direction, exchange.kind == Kind::Neighbour)
    };
    let mut places: Vec<_> =
        report.exchanges.iter().map(|exchange| (place(exchange), lane(scenario, exchange))).collect();
    places.sort();
    places.dedup();
    let span = |exchange: &Exchange| Span {
        lane: places.iter().position(|other| other.0 == place(exchange)).unwrap_or(places.len()),
        from: (exchange.start - first).as_millis_f64(),
        to: (exchange.end - first).as_millis_f64(),
        kind: kind(scenario, exchange).to_owned(),
        note: note(exchange),
    };
    let spans: Vec<Span> = report.exchanges.iter().map(span).collect();
    let lanes = places.iter().map(|(_, name)| name.clone()).collect();
    let length = spans.iter().map(|span| span.to).fold(0.0, f64::max);
    let caption = "Who held the channel from when to when, from RTS to acknowledgement. Gaps are idle: interframe spaces, backoff, or \
                   nothing to send. Point at an exchange to read what it carried.";
    let plot = Lanes { x: Axis::new("Time", "ms"), lanes, spans };
    Section::new("Exchanges")
        .question("What does it look like on the air?")
        .answer(format!("These are the first {length:.1} ms of the first run."))
        .chart(Chart::new("On the air", caption, Plot::Lanes(plot)))
}

fn lane(scenario: &Scenario, exchange: &Exchange) -> String {
    let Some(station) = exchange.station else {
        return if exchange.kind == Kind::Neighbour { "neighbour" } else { "access point" }.to_owned();
    };
    let name = if station < scenario.headsets { format!("headset {station}") } else { format!("station {station}") };
    match exchange.direction {
        Direction::Downlink => format!("{name}, down"),
        Direction::Uplink => format!("{name}, up"),
    }
}

fn kind(scenario: &Scenario, exchange: &Exchange) -> &'static str {
    let is_headset = exchange.station.is_some_and(|station| station < scenario.headsets);
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
