//! `nearlight swarm`: a synthetic crowd in rooms.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, ensure};
use clap::{Args, ValueEnum};
use nearlight_link::{LoadedPath, PathSpec};
use nearlight_net::Link;
use nearlight_rooms::{MAX_MEMBERS, RoomConfig, default_objects, is_room_name};
use nearlight_swarm::live::{self, Progress};
use nearlight_swarm::{Behaviour, Carrier, NaiveBroadcast, Profile, Quantiles, Summary, Video, page, virtual_time};
use nearlight_units::Span;

use nearlight_cli::parse;

/// A room's members in virtual time unless --rooms is given.
const DEFAULT_ROOM_MEMBERS: usize = 20;
/// Guess: an access network of a city, with a little loss.
const DEFAULT_PATH: &str = "delay=10ms,loss=0.1%";

/// What rooms are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Baseline {
    /// A server in this program sends every pose as JSON over `WebSocket` to everybody in the room
    Naive,
}

/// What carries members' messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CarrierName {
    /// TCP, like browsers without WebTransport
    #[value(name = "websocket")]
    WebSocket,
    /// QUIC, with poses in datagrams and everything else on a stream
    #[value(name = "webtransport")]
    WebTransport,
}

impl From<CarrierName> for Carrier {
    fn from(name: CarrierName) -> Self {
        match name {
            CarrierName::WebSocket => Self::WebSocket,
            CarrierName::WebTransport => Self::WebTransport,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct SwarmArguments {
    /// The link that `nearlight serve` printed. With links of several servers that share their rooms, members spread over the servers
    /// and move to the next one if theirs fails
    #[arg(required_unless_present = "in_virtual_time", conflicts_with = "in_virtual_time", value_name = "LINK")]
    links: Vec<String>,
    /// Number of synthetic members
    #[arg(long, short = 'n', default_value = "20", value_parser = parse::count)]
    clients: usize,
    /// Number of rooms; members join them in turn [default: 1; in virtual time, one for every 20 members]
    #[arg(long, value_parser = parse::count)]
    rooms: Option<usize>,
    /// Name of the first room; the others are NAME-2, NAME-3 and so on
    #[arg(long, default_value = "main", value_name = "NAME")]
    room: String,
    /// Transport of members' messages
    #[arg(long, value_name = "NAME", default_value = "websocket", conflicts_with = "in_virtual_time")]
    carrier: CarrierName,
    /// TOML file with the crowd's profile; docs/rooms.md lists its fields
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Behaviours, assigned to members in turn: stand, walk, gather, collaborate, flash-crowd [default: the profile's, or walk]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = behaviour)]
    behaviour: Option<Vec<Behaviour>>,
    /// Seconds for which the crowd moves and acts after the last member has joined [default: the profile's, or 20]
    #[arg(long, value_parser = parse::seconds)]
    seconds: Option<Span>,
    /// Random seed of movements, think times and links
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Measure the processor time of the server with this process ID on this machine (Linux)
    #[arg(long, value_name = "PID", conflicts_with = "in_virtual_time")]
    server_pid: Option<u32>,
    /// Afterwards, measure the same crowd with another way of sharing poses, for comparison
    #[arg(long, conflicts_with = "in_virtual_time")]
    baseline: Option<Baseline>,
    /// Simulate rooms and members over emulated links, without a server; the same arguments give the same figures
    #[arg(long)]
    in_virtual_time: bool,
    /// In virtual time: the link between each member and its room, each way
    #[arg(long, value_name = "SPEC", default_value = DEFAULT_PATH)]
    path: PathSpec,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
    /// Write an HTML page with charts
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

fn behaviour(text: &str) -> Result<Behaviour, String> {
    serde_json::from_value(text.into()).map_err(|_| "expected stand, walk, gather, collaborate or flash-crowd".into())
}

pub(crate) fn run(arguments: &SwarmArguments) -> anyhow::Result<ExitCode> {
    let profile = Arc::new(profile(arguments)?);
    let clients = arguments.clients;
    let usual = if arguments.in_virtual_time { clients.div_ceil(DEFAULT_ROOM_MEMBERS) } else { 1 };
    let rooms = arguments.rooms.unwrap_or(usual);
    ensure!(rooms <= clients, "--rooms {rooms} is more than --clients {clients}: each room needs a member");
    ensure!(
        clients.div_ceil(rooms) <= MAX_MEMBERS,
        "a room has at most {MAX_MEMBERS} members: spread {clients} over more --rooms"
    );
    ensure!(
        (0..rooms).all(|room| is_room_name(&live::room_name(&arguments.room, room))),
        "--room {}: write 1 to 32 letters a-z, digits or `-`, with room for the numbers of further rooms",
        arguments.room
    );
    let (summary, fact) = if arguments.in_virtual_time {
        simulate(arguments, profile, rooms)?
    } else {
        visit(arguments, profile, rooms)?
    };
    if let Some(file) = &arguments.report {
        let html = page::document(&summary, &fact).to_html();
        std::fs::write(file, html).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if arguments.json {
        println!("{}", serde_json::to_string(&summary)?);
    } else {
        print!("{}", words(&summary));
    }
    Ok(ExitCode::SUCCESS)
}

fn profile(arguments: &SwarmArguments) -> anyhow::Result<Profile> {
    let mut profile = match &arguments.profile {
        Some(file) => {
            let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            Profile::parse(&text).with_context(|| format!("{}", file.display()))?
        }
        None => Profile::default(),
    };
    if let Some(behaviours) = &arguments.behaviour {
        profile.behaviours.clone_from(behaviours);
    }
    if let Some(length) = arguments.seconds {
        profile.active_seconds = length.as_secs_f64();
    }
    profile.check()?;
    Ok(profile)
}

fn simulate(arguments: &SwarmArguments, profile: Arc<Profile>, rooms: usize) -> anyhow::Result<(Summary, String)> {
    ensure!(
        profile.video_share == 0.0,
        "the profile's `video_share` is {}: in virtual time there is no server that sends video, so leave it out",
        profile.video_share
    );
    let path: LoadedPath = arguments.path.load().context("--path")?;
    for trace in path.describe_traces() {
        eprintln!("nearlight: {trace}");
    }
    let fact = path.spec().to_string();
    let options = virtual_time::Options {
        profile,
        members: arguments.clients,
        rooms,
        seed: arguments.seed,
        path,
        room: RoomConfig::default(),
        objects: default_objects(),
    };
    let stopped = stop_flag()?;
    let mut line = ProgressLine::new();
    let summary = virtual_time::run(&options, |done, members| {
        line.print(&format!("{done} of {rooms} rooms, {members} members"));
        !stopped.load(Ordering::Relaxed)
    });
    line.end();
    Ok((summary, fact))
}

/// Becomes true with the first Ctrl-C.
fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stopped = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let seen = Arc::clone(&stopped);
    std::thread::spawn(move || {
        runtime.block_on(async {
            if tokio::signal::ctrl_c().await.is_ok() {
                seen.store(true, Ordering::Relaxed);
            }
        });
    });
    Ok(stopped)
}

fn visit(arguments: &SwarmArguments, profile: Arc<Profile>, rooms: usize) -> anyhow::Result<(Summary, String)> {
    let links = arguments.links.iter().map(|link| Link::parse(link)).collect::<Result<Vec<_>, _>>()?;
    let fact = links.iter().map(Link::authority).collect::<Vec<_>>().join(", ");
    let options = live::Options {
        profile,
        links,
        carrier: arguments.carrier.into(),
        members: arguments.clients,
        rooms,
        room: arguments.room.clone(),
        seed: arguments.seed,
        server_process: arguments.server_pid,
        naive: arguments.baseline == Some(Baseline::Naive),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build()?;
    let members = options.members;
    let mut line = ProgressLine::new();
    let stop = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        eprintln!("\nnearlight: stopping; the measurements so far are kept");
    };
    let summary = runtime.block_on(live::run(options, stop, |progress| {
        let Progress { after, joined, actions, delivery_ms, stalls } = progress;
        let delay = delivery_ms
            .map_or_else(String::new, |delay| format!(", seen after {:.1} ms (99 %: {:.1} ms)", delay.p50, delay.p99));
        let seconds = after.as_secs_f64();
        line.print(&format!(
            "{seconds:.0} s: {joined} of {members} members, {actions} actions{delay}, {stalls} stalls"
        ));
    }));
    line.end();
    Ok((summary?, fact))
}

/// Progress on standard error: one line that changes on a terminal, nothing elsewhere.
struct ProgressLine {
    shown: bool,
}

impl ProgressLine {
    fn new() -> Self {
        Self { shown: std::io::stderr().is_terminal() }
    }

    fn print(&mut self, words: &str) {
        if self.shown {
            let mut out = std::io::stderr();
            let _ = write!(out, "\r\x1b[K{words}");
            let _ = out.flush();
        }
    }

    fn end(&self) {
        if self.shown {
            eprintln!();
        }
    }
}

/// The figures for people.
fn words(summary: &Summary) -> String {
    let mut lines = vec![format!(
        "{} of {} members in {} room{}{}, {:.0} s{}{}\n",
        summary.joined,
        summary.members,
        summary.rooms,
        if summary.rooms == 1 { "" } else { "s" },
        summary.carrier.map_or_else(String::new, |carrier| format!(" over {}", carrier.name())),
        summary.seconds,
        if summary.virtual_time { " of virtual time" } else { "" },
        if summary.complete { "" } else { ", stopped early" },
    )];
    lines.push(delay("Interaction latency (until all have seen it)", summary.interaction_ms));
    if let Some(fluency) = summary.fluency {
        lines.push(format!(
            "Collaborative fluency: {:.2} % of {} shared actions seen by all within 100 ms\n",
            fluency * 100.0,
            summary.shared_actions
        ));
    }
    lines.push(delay("Start-up", summary.startup_ms));
    if summary.retries > 0 {
        lines.push(format!("Attempts to join after the server had asked to come again: {}\n", summary.retries));
    }
    if summary.moved_ms.is_some() {
        lines.push(delay("On another server after", summary.moved_ms));
    }
    lines.push(format!(
        "Stalls: {} ({:.2} s)\nLost events: {}\nDisagreeing at rest: {} of {}\nActions: {}, of which {} refused, {} unanswered\n",
        summary.stalls,
        summary.stalled_seconds,
        summary.lost_events,
        summary.disagreeing,
        summary.compared,
        summary.actions,
        summary.refused_actions,
        summary.unanswered_actions
    ));
    lines.push(format!(
        "A member receives {:.2} KiB/s ({:.3} KiB/s for each neighbour) and sends {:.2} KiB/s\n",
        kibibytes(summary.received_bytes_per_second),
        kibibytes(summary.received_bytes_per_neighbour_per_second),
        kibibytes(summary.sent_bytes_per_second)
    ));
    if let Some(voices) = &summary.voices {
        lines
            .push(delay(&format!("Voices, {} packets sent, until one member heard one", voices.sent), voices.delay_ms));
    }
    lines.extend(summary.video.as_ref().map(video_lines));
    for (whose, cores) in [("This program", summary.swarm_cores), ("The server", summary.server_cores)] {
        if let Some(cores) = cores {
            lines.push(format!("{whose} used {:.1} % of a core\n", cores * 100.0));
        }
    }
    lines.extend(summary.naive.as_ref().map(naive_lines));
    for (reason, count) in &summary.ended {
        lines.push(format!("{count} left early or could not join: {reason}\n"));
    }
    lines.concat()
}

fn delay(name: &str, quantiles: Option<Quantiles>) -> String {
    match quantiles {
        Some(Quantiles { count, p50, p95, p99, max }) => {
            format!("{name}: median {p50:.1} ms, 95 % {p95:.1} ms, 99 % {p99:.1} ms, longest {max:.1} ms, of {count}\n")
        }
        None => format!("{name}: none\n"),
    }
}

fn kibibytes(bytes: f64) -> f64 {
    bytes / 1_024.0
}

fn video_lines(video: &Video) -> String {
    let mut lines = vec![
        format!(
            "Video: {} of {} clients got pictures, {:.1} a second and {:.2} Mb/s each; {} late, {} lost, stalled {:.2} % of the time\n",
            video.watched,
            video.clients,
            video.fps,
            video.received_mbps,
            video.late,
            video.lost,
            video.stall_ratio * 100.0
        ),
        delay("Video, until the first picture", video.startup_ms),
        delay("Video, from capture to the decoder", video.frame_ms),
    ];
    lines.extend(video.failed.iter().map(|(reason, count)| format!("{count} got no video: {reason}\n")));
    lines.concat()
}

fn naive_lines(naive: &NaiveBroadcast) -> String {
    let delays = delay("Naive broadcast, until all have seen it", naive.interaction_ms);
    let ratio = naive.bytes_ratio.map_or_else(String::new, |ratio| format!(", {ratio:.1} times as much"));
    let cores = naive.server_cores.map(|cores| format!("; its server used {:.1} % of a core", cores * 100.0));
    format!(
        "{delays}Naive broadcast: a member receives {:.2} KiB/s{ratio}; {} messages dropped{}\n",
        kibibytes(naive.received_bytes_per_second),
        naive.dropped,
        cores.unwrap_or_default()
    )
}
