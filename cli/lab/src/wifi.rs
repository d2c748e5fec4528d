//! `nearlight wifi`: headsets in a cell, in virtual time.

mod page;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use nearlight_units::{Bitrate, Bytes, Span};
use nearlight_wifi::traffic::{Batches, PeriodicConfig, VideoConfig};
use nearlight_wifi::{
    Category, CellSpec, DelaySummary, LinkReport, Phases, Preset, Report, Scenario, SinglePacket, words,
};
use serde_json::{Value, json};

use nearlight_cli::parse;

/// Exchanges that a page shows unless --exchanges is given: two frames of a crowded cell.
const DEFAULT_PAGE_EXCHANGES: usize = 120;

#[derive(Debug, Args)]
#[command(after_long_help = cell_help())]
pub(crate) struct WifiArguments {
    /// Timing and access rules: komondor-vr (as in the render-streaming study) or standard-11ax (as in ns-3)
    #[arg(long, default_value = "standard-11ax")]
    preset: Preset,
    /// Number of stations, each with its own stream
    #[arg(long, default_value_t = 1)]
    headsets: usize,
    /// Video rate of each headset
    #[arg(long, default_value = "50mbit", value_parser = parse::bitrate)]
    rate: Bitrate,
    /// Frames per second
    #[arg(long, default_value_t = 60)]
    fps: u32,
    /// Milliseconds between the batches of a frame
    #[arg(long, default_value_t = 5.56, allow_negative_numbers = true)]
    tau_ms: f64,
    /// Each frame has a random number of batches from 1 to this [default: as many as begin before the next frame]
    #[arg(long)]
    batches: Option<u32>,
    /// Pose packets per second from each headset; 0 for none
    #[arg(long, default_value_t = 240)]
    poses: u32,
    /// Add audio with the packet sizes and intervals of the study
    #[arg(long)]
    audio: bool,
    /// Relative phase of the headsets' frames: random, aligned or staggered
    #[arg(long, default_value = "random", value_parser = phases)]
    phases: Phases,
    /// Access category of video: voice, video, best-effort or background
    #[arg(long, default_value = "best-effort")]
    video_as: Category,
    /// Access category of poses
    #[arg(long, default_value = "best-effort")]
    poses_as: Category,
    /// Channel width in MHz: 20, 40, 80 or 160
    #[arg(long)]
    width: Option<u16>,
    /// Modulation and coding scheme, 0 to 11
    #[arg(long)]
    mcs: Option<u8>,
    /// Spatial streams, 1 to 4
    #[arg(long)]
    streams: Option<u8>,
    /// Guard interval in nanoseconds: 800, 1600 or 3200
    #[arg(long)]
    guard: Option<u16>,
    /// Fraction of packets lost in each transmission, such as 10%
    #[arg(long)]
    loss: Option<String>,
    /// Further settings of the cell, separated by slashes as in a path's wifi=; see below
    #[arg(long)]
    cell: Option<String>,
    /// Length of each run in seconds
    #[arg(long, default_value = "10", value_parser = parse::seconds)]
    seconds: Span,
    /// Number of runs, each with its own phases and random numbers
    #[arg(long, default_value_t = 10)]
    runs: u32,
    /// Seed of the first run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only print how long one packet of this many bytes takes in an idle cell without losses
    #[arg(long)]
    single_packet: Option<u64>,
    /// List up to this many of the first frame exchanges
    #[arg(long)]
    exchanges: Option<usize>,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
    /// Write an HTML page with charts: delays, aggregation, airtime, exchanges over time
    #[arg(long)]
    report: Option<PathBuf>,
}

pub(crate) fn run(arguments: &WifiArguments) -> anyhow::Result<ExitCode> {
    let cell = cell(arguments)?;
    if let Some(size) = arguments.single_packet {
        let single = SinglePacket::measure(&cell.config(1), Bytes::new(size))?;
        if arguments.json {
            println!("{}", serde_json::to_string(&single)?);
        } else {
            println!(
                "{size} bytes take {} us from their arrival to the end of their acknowledgement",
                single.exchange_us
            );
        }
        return Ok(ExitCode::SUCCESS);
    }
    let scenario = scenario(arguments, &cell)?;
    let report = scenario.run()?;
    if let Some(file) = &arguments.report {
        let html = page::document(&heading(arguments, &cell, &scenario), &scenario, &report).to_html();
        std::fs::write(file, html).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if arguments.json {
        println!("{}", json(arguments, &cell, &report)?);
    } else {
        print!("{}", table(&heading(arguments, &cell, &scenario), &report));
    }
    Ok(ExitCode::SUCCESS)
}

/// The cell's settings from all options.
fn cell(arguments: &WifiArguments) -> anyhow::Result<CellSpec> {
    let mut text = arguments.preset.to_string();
    let numbers = [
        ("width", arguments.width.map(u64::from)),
        ("mcs", arguments.mcs.map(u64::from)),
        ("streams", arguments.streams.map(u64::from)),
        ("guard", arguments.guard.map(u64::from)),
    ];
    for (word, number) in numbers {
        if let Some(number) = number {
            write!(text, "/{word}:{number}")?;
        }
    }
    if let Some(loss) = &arguments.loss {
        write!(text, "/loss:{loss}")?;
    }
    if let Some(cell) = &arguments.cell {
        write!(text, "/{cell}")?;
    }
    Ok(text.parse()?)
}

fn scenario(arguments: &WifiArguments, cell: &CellSpec) -> anyhow::Result<Scenario> {
    anyhow::ensure!(arguments.headsets > 0, "--headsets must be at least 1");
    let exchanges = if arguments.report.is_some() { DEFAULT_PAGE_EXCHANGES } else { 0 };
    let video = VideoConfig {
        frame_rate: arguments.fps,
        interval: Span::from_secs_f64(arguments.tau_ms / 1e3),
        batches: arguments.batches.map_or(Batches::Period, Batches::UpTo),
        ..VideoConfig::study(arguments.rate)
    };
    Ok(Scenario {
        headsets: arguments.headsets,
        poses: (arguments.poses > 0).then(|| PeriodicConfig::poses_at(arguments.poses)),
        audio: arguments.audio,
        phases: arguments.phases,
        video_category: arguments.video_as,
        pose_category: arguments.poses_as,
        duration: arguments.seconds,
        runs: arguments.runs,
        seed: arguments.seed,
        timeline: arguments.exchanges.unwrap_or(exchanges),
        ..Scenario::study(cell.config(arguments.headsets), video)
    })
}

fn phases(text: &str) -> Result<Phases, String> {
    match text {
        "random" => Ok(Phases::Random),
        "aligned" => Ok(Phases::Aligned),
        "staggered" => Ok(Phases::Staggered),
        _ => Err("expected random, aligned or staggered".into()),
    }
}

fn cell_help() -> String {
    let mut help = "Words for --cell, each with a colon and its value:\n".to_owned();
    for (word, form) in words() {
        let _ = writeln!(help, "  {word:<20} {form}");
    }
    help
}

/// Describes the simulation in a line or two.
fn heading(arguments: &WifiArguments, cell: &CellSpec, scenario: &Scenario) -> String {
    let config = &scenario.cell;
    let station = &config.stations[0];
    let plural = if arguments.headsets == 1 { "" } else { "s" };
    format!(
        "{cell}: {} MHz, MCS {}, {} streams\n{} headset{plural} with {} Mb/s at {} fps, batches {} ms apart, {} poses a second; {} runs of {} s",
        config.width.mhz(),
        station.mcs,
        station.streams,
        arguments.headsets,
        arguments.rate.as_mbps_f64(),
        arguments.fps,
        arguments.tau_ms,
        arguments.poses,
        arguments.runs,
        arguments.seconds.as_secs_f64(),
    )
}

fn json(arguments: &WifiArguments, cell: &CellSpec, report: &Report) -> anyhow::Result<Value> {
    let headsets = &report.headsets;
    let mut object = json!({
        "preset": arguments.preset,
        "cell": cell.to_string(),
        "fps": arguments.fps,
        "rate_mbps": arguments.rate.as_mbps_f64(),
        "tau_ms": arguments.tau_ms,
        "batches": arguments.batches,
        "poses": arguments.poses,
        "headsets": arguments.headsets,
        "phases": format!("{:?}", arguments.phases).to_ascii_lowercase(),
        "seed": arguments.seed,
        "runs": arguments.runs,
        "simulated_s": report.simulated_s,
        "dl_packet_delay_ms": headsets.dl_packet_delay_ms,
        "ul_packet_delay_ms": headsets.ul_packet_delay_ms,
        "video_frame_delay_ms": headsets.video_frame_delay_ms,
        "video_frames_lost": headsets.video_frames_lost,
        "ampdu_mpdus": headsets.downlink.ampdu_mpdus,
        "airtime_ratio": report.airtime_ratio,
        "collision_airtime_ratio": report.collision_airtime_ratio,
        "neighbour_airtime_ratio": report.neighbour_airtime_ratio,
        "collisions_per_s": report.collisions_per_s,
        "delivered_mbps": headsets.downlink.delivered_mbps,
        "downlink": headsets.downlink,
        "uplink": headsets.uplink,
        "stations": report.stations,
        "delay_curves": report.delay_curves,
    });
    if arguments.exchanges.is_some() {
        object["exchanges"] = serde_json::to_value(&report.exchanges)?;
    }
    Ok(object)
}

fn table(heading: &str, report: &Report) -> String {
    let headsets = &report.headsets;
    let mut text = format!("{heading}\n\n");
    let head = ["mean", "median", "95 %", "99 %", "99.99 %", "longest"].map(|name| format!("{name:>9}")).concat();
    let _ = writeln!(text, "{:<22}{head}", "delay in ms");
    let delays = [
        ("video packet", &headsets.dl_packet_delay_ms),
        ("video frame", &headsets.video_frame_delay_ms),
        ("pose", &headsets.ul_packet_delay_ms),
    ];
    for (name, delay) in delays {
        let _ = writeln!(text, "{name:<22}{}", delay_row(delay));
    }
    let head =
        ["Mb/s", "airtime", "A-MPDUs", "packets", "arrived", "dropped"].map(|name| format!("{name:>9}")).concat();
    let _ = writeln!(text, "\n{:<22}{head}", "all headsets");
    for (name, link) in [("downlink", &headsets.downlink), ("uplink", &headsets.uplink)] {
        let _ = writeln!(text, "{name:<22}{}", link_row(link, report.simulated_s));
    }
    if report.stations.len() > 1 {
        let head = ["mean", "99 %", "lost", "Mb/s down", "Mb/s up"].map(|name| format!("{name:>11}")).concat();
        let _ = writeln!(text, "\n{:<22}{head}", "frame delay in ms");
        for (place, station) in report.stations.iter().enumerate() {
            let kind = if station.is_headset { "headset" } else { "background" };
            let delay = &station.video_frame_delay_ms;
            let delays = if station.is_headset {
                format!("{:>11.2}{:>11.2}{:>11}", delay.mean, delay.p99, station.video_frames_lost)
            } else {
                " ".repeat(33)
            };
            let rates = format!("{:>11.1}{:>11.1}", station.downlink.delivered_mbps, station.uplink.delivered_mbps);
            let _ = writeln!(text, "{:<22}{delays}{rates}", format!("{kind} {place}"));
        }
    }
    let _ = writeln!(
        text,
        "\nThe cell is on the air for {:.1} % of the time, {:.1} % of it in collisions ({:.1} a second); neighbours for {:.1} %.",
        report.airtime_ratio * 100.0,
        report.collision_airtime_ratio / report.airtime_ratio.max(f64::MIN_POSITIVE) * 100.0,
        report.collisions_per_s,
        report.neighbour_airtime_ratio * 100.0,
    );
    if headsets.video_frames_lost > 0 {
        let _ = writeln!(text, "{} frames lost a packet for good.", headsets.video_frames_lost);
    }
    text
}

fn delay_row(delay: &DelaySummary) -> String {
    if delay.count == 0 {
        return format!("{:>9}", "-");
    }
    let values = [delay.mean, delay.p50, delay.p95, delay.p99, delay.p9999, delay.max];
    values.map(|value| format!("{value:>9.3}")).concat()
}

/// A-MPDUs a second, and of each the packets it carried and those that got through.
fn link_row(link: &LinkReport, seconds: f64) -> String {
    let aggregates = &link.ampdu_mpdus;
    format!(
        "{:>9.2}{:>8.1}%{:>9.1}{:>9.2}{:>9.2}{:>9}",
        link.delivered_mbps,
        link.airtime_ratio * 100.0,
        aggregates.count as f64 / seconds,
        aggregates.mean,
        aggregates.mean_delivered,
        link.overflowed + link.given_up,
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        wifi: WifiArguments,
    }

    fn arguments(line: &str) -> WifiArguments {
        Line::try_parse_from(std::iter::once("wifi").chain(line.split_whitespace())).expect(line).wifi
    }

    fn simulated(line: &str) -> (WifiArguments, CellSpec, Scenario, Report) {
        let arguments = arguments(line);
        let cell = cell(&arguments).expect(line);
        let scenario = scenario(&arguments, &cell).expect(line);
        let report = scenario.run().expect(line);
        (arguments, cell, scenario, report)
    }

    #[test]
    fn the_object_has_the_names_that_are_promised() {
        let (arguments, cell, _, report) = simulated(
            "--preset komondor-vr --headsets 2 --runs 1 --seconds 1 --exchanges 5 --cell background:saturated-up",
        );
        let object = json(&arguments, &cell, &report).expect("an object");
        for (label, value) in
            [("preset", json!("komondor-vr")), ("fps", json!(60)), ("tau_ms", json!(5.56)), ("headsets", json!(2))]
        {
            assert_eq!(object[label], value, "{label}");
        }
        for metric in ["dl_packet_delay_ms", "ul_packet_delay_ms", "video_frame_delay_ms"] {
            let delay =
                ["mean", "p50", "p95", "p99", "p9999", "max"].map(|name| object[metric][name].as_f64().expect(metric));
            assert!(delay[1..].is_sorted() && delay.iter().all(|value| *value > 0.0), "{metric}: {delay:?}");
        }
        assert!(object["ampdu_mpdus"]["mean"].as_f64().expect("a mean") > 1.0);
        assert!((0.3..1.0).contains(&object["airtime_ratio"].as_f64().expect("a share")));
        assert!((90.0..101.0).contains(&object["delivered_mbps"].as_f64().expect("a rate")));
        assert_eq!(object["exchanges"].as_array().map(Vec::len), Some(5));
        assert_eq!(object["stations"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn table_and_page_name_every_headset_and_all_that_was_on_the_air() {
        let (arguments, cell, scenario, report) =
            simulated("--headsets 2 --rate 20mbit --runs 1 --seconds 1 --report x --cell neighbour:20%");
        let heading = heading(&arguments, &cell, &scenario);
        let text = table(&heading, &report);
        for words in ["2 headsets with 20 Mb/s", "video frame", "headset 1", "neighbours for"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let html = page::document(&heading, &scenario, &report).to_html();
        for words in ["Delay through the cell", "Downlink A-MPDUs", "Use of the channel", "headset 1, up", "neighbour"]
        {
            assert!(html.contains(words), "{words}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        let cases = [
            ("--headsets 0", "at least 1"),
            ("--mcs 12", "0 to 11"),
            ("--width 60", "20, 40, 80 or 160"),
            ("--headsets 16 --cell downlink-ofdma:16", "MCS 11 needs 242"),
            ("--tau-ms -1", "between batches"),
            ("--cell speed:5", "is not a setting of a cell"),
        ];
        for (line, words) in cases {
            let arguments = arguments(line);
            let refused = cell(&arguments).and_then(|cell| Ok(scenario(&arguments, &cell)?.run()?));
            let reason = refused.expect_err(line).to_string();
            assert!(reason.contains(words), "{line}: {reason}");
        }
    }
}
