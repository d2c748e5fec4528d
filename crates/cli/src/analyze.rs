//! `nearlight analyze`: the traffic study of a packet capture.

use std::fmt::Write as _;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use nearlight_analyze::{
    Comparison, Disruption, Distribution, Limits, Stalls, Study, Together, Traffic, Way, document,
};
use serde_json::json;

#[derive(Debug, Args)]
pub(crate) struct AnalyzeArguments {
    /// pcap or pcapng, whole or cut off, of any length of packets
    capture: PathBuf,
    /// Look at the conversation of this end; without it at the largest one, whose sender sends most
    #[arg(long, value_name = "IP:PORT")]
    sender: Option<SocketAddr>,
    /// The same traffic captured at its receiver: tells delays, losses and what the network did to the timing
    #[arg(long, value_name = "CAPTURE")]
    receiver: Option<PathBuf>,
    /// Packets that frames, batches and delays are looked for in, of each capture; 32 bytes of memory each
    #[arg(long, value_name = "COUNT")]
    packets: Option<usize>,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
    /// Write a page with the figures
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(crate) fn run(arguments: &AnalyzeArguments) -> anyhow::Result<ExitCode> {
    let limits = arguments.packets.map_or_else(Limits::default, |packets| Limits { packets });
    let traffic = read(&arguments.capture, limits)?;
    let study = Study::new(&traffic, arguments.sender).with_context(|| arguments.capture.display().to_string())?;
    let comparison = match &arguments.receiver {
        Some(path) => {
            let compared = Comparison::new(&traffic, &read(path, limits)?, arguments.sender);
            Some(compared.with_context(|| format!("{} beside {}", path.display(), arguments.capture.display()))?)
        }
        None => None,
    };
    if let Some(file) = &arguments.html {
        std::fs::write(file, document(&study, comparison.as_ref()).to_html())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    if arguments.json {
        println!("{}", json!({ "study": study, "comparison": comparison }));
    } else {
        print!("{}", words(&study, comparison.as_ref()));
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path, limits: Limits) -> anyhow::Result<Traffic> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let traffic = Traffic::read(file, &limits).with_context(|| path.display().to_string())?;
    for warning in traffic.capture.warnings() {
        eprintln!("nearlight: {}: {warning}", path.display());
    }
    Ok(traffic)
}

fn words(study: &Study, comparison: Option<&Comparison>) -> String {
    let mut text = format!("{} to {}, {:.1} s\n\n", study.sender, study.receiver, study.duration_s);
    let _ = writeln!(text, "{:<50}{:>10}{:>10}{:>10}{:>12}{:>9}", "", "packets", "mean B", "ms apart", "Mb/s", "share");
    for (down, heading) in [(true, "downlink"), (false, "uplink")] {
        let _ = writeln!(text, "{heading}");
        for row in study.streams.iter().filter(|row| row.downlink == down) {
            let gap = row.mean_gap_ms.map_or_else(|| "-".to_owned(), |gap| format!("{gap:.2}"));
            let _ = writeln!(
                text,
                "  {:<48}{:>10}{:>10.2}{gap:>10}{:>12.4}{:>7.1} %",
                row.name(),
                row.packets,
                row.mean_size,
                row.load_mbps,
                row.share * 100.0
            );
        }
    }
    let round_trips = study.round_trips();
    if round_trips.iter().any(|(.., trip)| trip.is_some()) {
        text.push_str("\nround trips, by what tells them and who asked\n");
    }
    for (name, who, trip) in round_trips {
        line(&mut text, &format!("{name}, the {who}"), "ms", trip.as_ref());
    }
    if let Some(video) = &study.video {
        let (frames, batches) = (&video.frames, &video.batches);
        let rate = frames.fps.map_or_else(|| "too few to tell a rate".to_owned(), |fps| format!("{fps:.3} fps"));
        let _ = writeln!(text, "\nvideo: {} frames, {rate}", frames.count);
        line(&mut text, "frame size", "B", Some(&frames.size_bytes));
        line(&mut text, "between frames", "ms", frames.interval_ms.as_ref());
        line(&mut text, "assembly delay", "ms", Some(&frames.assembly_ms));
        line(&mut text, "batches of a frame", "", batches.per_frame.as_ref());
        line(&mut text, "packets of a batch", "", Some(&batches.packets));
        line(&mut text, "packets that came as one", "", Some(&video.together.group));
        match batches.interval_ms {
            Some(interval) => {
                let idle = batches.idle_ratio * 100.0;
                let _ =
                    writeln!(text, "batches every {interval:.3} ms; {idle:.1} % of {} instants idle", batches.instants);
            }
            None => text.push_str("batches in no rhythm\n"),
        }
    }
    if let Some(comparison) = comparison {
        let clock = &comparison.clock;
        let _ = writeln!(
            text,
            "\nreceiver: its clock is {:.3} ms ahead and runs {:+.2} ppm fast",
            clock.offset_ms, clock.drift_ppm
        );
        way(&mut text, "downlink", &comparison.downlink);
        way(&mut text, "uplink", &comparison.uplink);
    }
    text
}

fn way(text: &mut String, name: &str, way: &Way) {
    let _ = writeln!(
        text,
        "{name}: {} of {} lost, {} doubled, {} sent again, {} out of order",
        way.lost, way.sent, way.duplicated, way.repeated, way.reordered
    );
    line(text, "delay", "ms", way.delay_ms.as_ref());
    let Disruption { gap_change_ms, sent_together, received_together, stalls, lost_in_a_row } = &way.disruption;
    line(text, "gaps changed by", "ms", gap_change_ms.as_ref());
    line(text, "lost in a row", "", lost_in_a_row.as_ref());
    let simultaneous = |of: &Option<Together>| of.as_ref().map_or(0.0, |of| of.simultaneous_ratio * 100.0);
    let _ = writeln!(
        text,
        "  simultaneous              {:.1} % where sent, {:.1} % where received",
        simultaneous(sent_together),
        simultaneous(received_together)
    );
    let Stalls { over_ms, count, longest_ms, time_ratio } = stalls;
    let _ = writeln!(
        text,
        "  stalls over {over_ms:.1} ms       {count}, the longest {longest_ms:.1} ms, {:.2} % of the time",
        time_ratio * 100.0
    );
}

fn line(text: &mut String, name: &str, unit: &str, of: Option<&Distribution>) {
    if let Some(of) = of {
        let Distribution { mean, p50, p99, max, .. } = of;
        let _ = writeln!(text, "  {name:<26}mean {mean:.2} {unit}, median {p50:.2}, 99 % {p99:.2}, most {max:.2}");
    }
}
