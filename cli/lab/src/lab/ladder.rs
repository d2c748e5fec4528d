//! `nearlight lab ladder`.

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ladder::{Figures, Ladder, LadderError, Options, Rung, SizeReport, Step, draw, run};
use anyhow::Context as _;
use clap::Args;
use nearlight_codec::Size;
use nearlight_server::PictureSize;
use tokio::signal::unix::{SignalKind, signal};

use nearlight_cli::parse;

const AFTER_HELP: &str = "\
The steps are measured in turn, a second at a time, so that other load on the machine affects all of them equally. Compare medians. This
needs root and iproute2 for two network namespaces, and Xvfb for the first step. docs/results/openuvr.md describes each step.";

#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct LadderArguments {
    /// Picture size; repeatable [default: 1920x1080 and 1280x720]
    #[arg(long = "size", value_name = "SIZE", value_parser = size)]
    sizes: Vec<Size>,
    /// Frames per second
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=240))]
    fps: u16,
    /// How often each step is measured
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Frames of each measurement
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    frames: u32,
    /// Print the results as one JSON object
    #[arg(long)]
    json: bool,
    /// Run as the other process of the first step
    #[arg(long, hide = true)]
    draw: bool,
}

fn size(text: &str) -> Result<Size, String> {
    match parse::picture_size(text)? {
        PictureSize::Fixed { width, height } => Ok(Size { width, height }),
        PictureSize::Auto => Err("expected a size such as 1280x720".into()),
    }
}

pub(super) fn ladder(arguments: &LadderArguments) -> anyhow::Result<ExitCode> {
    let (full, smaller) = (Size { width: 1_920, height: 1_080 }, Size { width: 1_280, height: 720 });
    let sizes = if arguments.sizes.is_empty() { vec![full, smaller] } else { arguments.sizes.clone() };
    if arguments.draw {
        draw(sizes[0], arguments.fps)?;
        return Ok(ExitCode::SUCCESS);
    }
    let itself = std::env::current_exe().context("cannot find this command's own file")?;
    let other = |size: Size, fps: u16| {
        let mut command = Command::new(&itself);
        let size = format!("{}x{}", size.width, size.height);
        command.args(["lab", "ladder", "--draw", "--size", &size, "--fps", &fps.to_string()]);
        command
    };
    let stop = stop_by_signal()?;
    let LadderArguments { fps, rounds, frames, .. } = *arguments;
    let options = Options { sizes, fps, rounds, frames, stop: Arc::clone(&stop) };
    // Ctrl-C reaches the processes of a step too, so that it may fail first.
    let ladder = run(&options, &other, &mut |words| eprintln!("nearlight: {words}"))
        .map_err(|error| if stop.load(Ordering::Relaxed) { LadderError::Interrupted } else { error })?;
    if arguments.json {
        println!("{}", serde_json::to_string(&ladder)?);
    } else {
        print(&ladder);
    }
    Ok(ExitCode::SUCCESS)
}

/// Set once SIGINT or SIGTERM has come: what was set up outside this process is to be removed.
fn stop_by_signal() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        let _context = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let heard = Arc::clone(&stop);
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
            heard.store(true, Ordering::Relaxed);
        });
    })?;
    Ok(stop)
}

fn print(ladder: &Ladder) {
    for report in &ladder.sizes {
        print_size(report, ladder.published_ssim_mean);
        print_total(report, ladder.published_total_ms);
    }
    if let Some(report) = ladder.sizes.first() {
        println!("\nWhy the differences are not the paper's:");
        for rung in &report.rungs {
            println!("  {}: {}", name(rung.step), rung.reason);
        }
    }
}

const fn name(step: Step) -> &'static str {
    match step {
        Step::OtherProcess => "another process, conversion, UDP",
        Step::InProcess => "+ in process",
        Step::NoConversion => "+ no conversion",
        Step::Batched => "+ batched (GSO, GRO)",
        Step::LinkLayer => "+ link layer",
        Step::PeerToPeer => "+ peer to peer (virtual)",
        Step::Feedback => "+ feedback",
        Step::Synchronous => "+ synchronous",
    }
}

fn print_size(report: &SizeReport, published_ssim: f64) {
    let SizeReport { width, height, fps, rate_mbps, packets, ssim_mean, ssim_worst, rungs, .. } = report;
    println!(
        "\n{width}x{height} at {fps} fps, {rate_mbps:.1} Mb/s, {packets} packets a frame; microseconds, median / 95th percentile"
    );
    println!(
        "{:<33} {:>13} {:>13} {:>13} {:>13} {:>13} {:>6} {:>6} {:>11} {:>7}  difference, published",
        "", "host", "encoder", "network", "device", "total", "copies", "calls", "CPU", "missing"
    );
    for rung in rungs {
        print_rung(rung);
    }
    if let (Some(mean), Some(worst)) = (ssim_mean, ssim_worst) {
        println!("SSIM: mean {mean:.3}, worst {worst:.3} (published: mean {published_ssim:.3})");
    }
}

/// Prints the totals of the first and the last measured step.
fn print_total(report: &SizeReport, [before, after]: [f64; 2]) {
    let mut totals = report.rungs.iter().filter_map(|rung| Some((rung.step, rung.total_us.as_ref()?.median)));
    let Some((first, slowest)) = totals.next() else { return };
    if let Some((last, us)) = totals.next_back() {
        println!(
            "In all, encoder and decoder included: {:.2} ms ({}), {:.2} ms ({}); published: {before} ms, {after} ms",
            slowest / 1e3,
            name(first),
            us / 1e3,
            name(last)
        );
    }
}

fn print_rung(rung: &Rung) {
    let pair = |figures: &Option<Figures>| {
        figures.as_ref().map_or("–".to_owned(), |figures| format!("{:.0} / {:.0}", figures.median, figures.p95))
    };
    // Ours, then theirs.
    let differences = [
        ("host", rung.host_difference_us, rung.published.host_us),
        ("network", rung.network_difference_us, rung.published.network_us),
        ("device", rung.device_difference_us, rung.published.device_us),
    ];
    let either = |us: Option<f64>| us.map_or("–".to_owned(), |us| format!("{us:+.0}"));
    let published: Vec<_> = differences
        .iter()
        .filter(|(_, ours, theirs)| ours.is_some() || theirs.is_some())
        .map(|(name, ours, theirs)| format!("{name} {}, {}", either(*ours), either(*theirs)))
        .collect();
    if let Some(reason) = &rung.not_measured {
        println!("{:<33} not measured: {reason}", name(rung.step));
        return;
    }
    let calls = rung.host_calls.as_ref().map_or("–".to_owned(), |calls| format!("{:.0}", calls.median));
    let cpu = [rung.host_cpu_us, rung.device_cpu_us].map(|us| us.map_or("–".to_owned(), |us| format!("{us:.0}")));
    println!(
        "{:<33} {:>13} {:>13} {:>13} {:>13} {:>13} {:>6} {:>6} {:>11} {:>7}  {}",
        name(rung.step),
        pair(&rung.host_us),
        pair(&rung.encode_us),
        pair(&rung.network_us),
        pair(&rung.device_us),
        pair(&rung.total_us),
        rung.picture_copies,
        calls,
        cpu.join("+"),
        rung.missing,
        published.join("; "),
    );
}
