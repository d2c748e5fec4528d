//! The HTML page of a simulated cell.

use nearlight_lab::report::wifi;
use nearlight_report::{Axis, Cell, Chart, Column, Document, Ecdfs, Plot, Row, Section, Table, Tile};
use nearlight_wifi::{Report, Scenario, Tally};

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
    if let Some(section) = exchanges(report) {
        document = document.section(section);
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
    let record = &report.record;
    let delays = [
        (VIDEO_FRAME, &record.video_frame_delay),
        (VIDEO_PACKET, &record.dl_packet_delay),
        (POSE, &record.ul_packet_delay),
    ];
    let curves = delays.into_iter().filter_map(|(name, delays)| Some((name.to_owned(), wifi::delay_curve(delays)?)));
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

fn share_at(curve: &[(f64, f64)], value: f64) -> f64 {
    curve.iter().take_while(|point| point.0 <= value).last().map_or(0.0, |point| point.1)
}

fn aggregation(report: &Report) -> Section {
    let headsets = &report.headsets;
    let (down, up) = (&headsets.downlink.ampdu_mpdus, &headsets.uplink.ampdu_mpdus);
    let chart = |title: &str, tally: &Tally| {
        let caption = "How many packets a transmission carries, repetitions included. Longer ones spend less of their time on \
                       contention and preambles.";
        Chart::new(title, caption, Plot::Stacks(wifi::size_bars(tally)))
    };
    let mut charts = vec![chart("Downlink A-MPDUs", &report.record.downlink)];
    if up.count > 0 {
        charts.push(chart("Uplink A-MPDUs", &report.record.uplink));
    }
    Section::new("Aggregation")
        .question("How much goes into one transmission?")
        .answer(format!(
            "{:.1} packets on the average towards headsets, {:.1} of which get through at once; {:.1} from them.",
            down.mean, down.mean_delivered, up.mean
        ))
        .charts(charts)
}

fn airtime(report: &Report) -> Section {
    let cell = report.airtime_ratio * 100.0;
    Section::new("Airtime")
        .question("How full is the channel?")
        .answer(format!(
            "The cell is on the air for {cell:.1} % of the time and delivers {:.1} Mb/s to its headsets; two begin at once {:.1} times a second.",
            report.headsets.downlink.delivered_mbps, report.collisions_per_s
        ))
        .chart(wifi::airtime(&[("the channel".to_owned(), &report.record)]))
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

fn exchanges(report: &Report) -> Option<Section> {
    let chart = wifi::exchanges("On the air", &report.record)?;
    let shown = wifi::shown_exchanges(&report.record);
    let length = (shown.last()?.end - shown.first()?.start).as_millis_f64();
    let section = Section::new("Exchanges")
        .question("What does it look like on the air?")
        .answer(format!("These are the first {length:.1} ms of the first run."));
    Some(section.chart(chart))
}
