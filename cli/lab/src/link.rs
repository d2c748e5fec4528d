//! `nearlight link`: runs a command behind an emulated link, and reports what happened to its packets.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::process::{Command, ExitCode};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use nearlight_emulate::{DirectionReport, Layer, Link, LinkMethod, LinkOptions, MethodChoice, Report};
use nearlight_link::{HopSpec, LoadedPath, PathSpec};
use nearlight_system::Supervisor;
use nearlight_wifi::load_path;

const AFTER_HELP: &str = "\
Examples:
  nearlight link --rate 10mbit --rtt 20ms --queue 100ms
  nearlight link --trace lte.mahi --rtt 40ms --loss 1%,25% -- nearlight view 'http://10.77.0.1:8090/#token=...' --headless
  nearlight link --down rate=35mbit/10mbit@40s,delay=10ms --up delay=10ms,loss=1% -- iperf3 -c 10.77.0.1

Paths: comma-separated key=value pairs, with hops in the order in which packets pass them; docs/link.md lists all keys.

Where the command runs: in its own network namespace, whose only connection is the link. In it, this machine has the address 10.77.0.1
(10.77.1.1 for a second link at the same time), which is printed and passed to the command in NEARLIGHT_LINK_HOST. If root runs the
link, a service must listen on all addresses or on that one. In a user namespace, TCP and UDP to any port of that address reach
127.0.0.1. `localhost` is the namespace's own.

Names and other machines: if root runs the link, packets to other addresses arrive at this machine, which forwards them if it is set up
to (sysctl net.ipv4.ip_forward=1, and for the way back: nft 'add table ip nat; add chain ip nat post { type nat hook postrouting
priority 100; }; add rule ip nat post ip saddr 10.77.0.0/16 masquerade'). The name server in /etc/resolv.conf is then reached through
the link, unless its address is local (127.0.0.53): inside the namespace nobody answers there. In a user namespace only this machine
can be reached.

Without namespaces, --service HOST:PORT starts a relay. Datagrams to its port, which is printed and passed in NEARLIGHT_LINK_PORT, cross
the link; TCP connections are forwarded unchanged.";

#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct LinkArguments {
    /// Capacity in each direction, such as 10mbit, or steps such as 35mbit/10mbit@40s
    #[arg(long, conflicts_with = "trace")]
    rate: Option<String>,
    /// Capacity in each direction from a trace file: Mahimahi's format, or CSV with seconds and Mb/s
    #[arg(long)]
    trace: Option<String>,
    /// Queue limit in front of the bottleneck: 100ms, 64kb, 50p (packets) or unlimited
    #[arg(long)]
    queue: Option<String>,
    /// Queue discipline: droptail, codel, pie, l4s-step or l4s-ramp
    #[arg(long)]
    aqm: Option<String>,
    /// Round-trip time, half of it in each direction
    #[arg(long)]
    rtt: Option<String>,
    /// Maximum additional delay of a packet in each direction
    #[arg(long)]
    jitter: Option<String>,
    /// Fraction of packets lost in each direction, optionally with the correlation of consecutive losses: 1%,25%
    #[arg(long)]
    loss: Option<String>,
    /// Complete path for both directions, such as rate=10mbit,delay=10ms,loss=1%,queue=100ms
    #[arg(long, value_name = "SPEC", conflicts_with_all = ["rate", "trace", "queue", "aqm", "rtt", "jitter", "loss"])]
    path: Option<PathSpec>,
    /// Path from the command to this machine, instead of the one for both directions
    #[arg(long, value_name = "SPEC")]
    up: Option<PathSpec>,
    /// Path from this machine to the command, instead of the one for both directions
    #[arg(long, value_name = "SPEC")]
    down: Option<PathSpec>,
    /// Random seed of both paths
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Carry Ethernet frames (TAP) rather than IP packets (TUN)
    #[arg(long)]
    ethernet: bool,
    /// Emulate the link only in this way
    #[arg(long, value_enum)]
    means: Option<MeansArgument>,
    /// Service to which a relay forwards if namespaces are not available
    #[arg(long, value_name = "HOST:PORT")]
    service: Option<SocketAddr>,
    /// Print packet counts as one JSON object to standard output at the end
    #[arg(long)]
    json: bool,
    /// The command and its arguments [default: your shell]
    #[arg(last = true)]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MeansArgument {
    Root,
    User,
    Relay,
}

impl From<MeansArgument> for LinkMethod {
    fn from(means: MeansArgument) -> Self {
        match means {
            MeansArgument::Root => Self::Root,
            MeansArgument::User => Self::User,
            MeansArgument::Relay => Self::Relay,
        }
    }
}

/// Exit status if the command cannot be run, as in a shell.
const CANNOT_RUN: u8 = 126;
/// Exit status if the command does not exist, as in a shell.
const NOT_FOUND: u8 = 127;

pub(crate) fn run(arguments: LinkArguments) -> anyhow::Result<ExitCode> {
    let options = arguments.options()?;
    // Both directions may have the same trace.
    let traces: BTreeSet<String> = options.up.describe_traces().chain(options.down.describe_traces()).collect();
    for trace in traces {
        eprintln!("nearlight: {trace}");
    }
    let link = Link::open(&options)?;
    announce(&link);
    let mut words = arguments.command.into_iter();
    let program = words.next().or_else(|| std::env::var_os("SHELL")).unwrap_or_else(|| "/bin/sh".into());
    let mut command = Command::new(&program);
    command.args(words);
    link.enter(&mut command);
    let supervisor = Supervisor::new()?;
    let code = match command.spawn() {
        Ok(child) => supervisor.wait(child).context("waiting for the command")?.code(),
        Err(error) => {
            eprintln!("nearlight: cannot run {}: {error}", program.display());
            if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN }
        }
    };
    let report = link.report();
    if arguments.json {
        let mut value = serde_json::to_value(&report)?;
        value["exit_status"] = code.into();
        println!("{value}");
    } else {
        summarise(&report);
    }
    Ok(ExitCode::from(code))
}

impl LinkArguments {
    fn options(&self) -> anyhow::Result<LinkOptions> {
        let both = match &self.path {
            Some(path) => path.clone(),
            None => self.simple_path()?,
        };
        let load = |own: &Option<PathSpec>, way: &'static str| -> anyhow::Result<LoadedPath> {
            load_path(own.as_ref().unwrap_or(&both)).context(way)
        };
        Ok(LinkOptions {
            up: load(&self.up, "the path up")?,
            down: load(&self.down, "the path down")?,
            seeds: [self.seed, self.seed.wrapping_add(1)],
            layer: if self.ethernet { Layer::Ethernet } else { Layer::Ip },
            wanted: self.means.map_or(MethodChoice::Any, |means| MethodChoice::Only(means.into())),
            service: self.service,
        })
    }

    /// The path that the short options describe.
    fn simple_path(&self) -> anyhow::Result<PathSpec> {
        let before = [("rate", &self.rate), ("trace", &self.trace), ("queue", &self.queue), ("aqm", &self.aqm)];
        let after = [("jitter", &self.jitter), ("loss", &self.loss)];
        let mut path = spec_of(&before)?;
        if let Some(rtt) = &self.rtt {
            let there_and_back = format!("delay={rtt}").parse::<PathSpec>().context("--rtt")?;
            path.hops.extend(there_and_back.hops.into_iter().map(|hop| match hop {
                HopSpec::Delay(rtt) => HopSpec::Delay(rtt / 2),
                other => other,
            }));
        }
        path.hops.extend(spec_of(&after)?.hops);
        Ok(path)
    }
}

fn spec_of(options: &[(&str, &Option<String>)]) -> anyhow::Result<PathSpec> {
    let given = options.iter().filter_map(|(key, value)| value.as_ref().map(|value| format!("{key}={value}")));
    Ok(given.collect::<Vec<_>>().join(",").parse()?)
}

fn announce(link: &Link) {
    for refusal in link.refused() {
        eprintln!("nearlight: cannot emulate a link with {}: {}", refusal.means, refusal.reason);
    }
    let place = match link.port() {
        Some(port) => format!("datagrams to {}:{port} cross it, TCP passes unchanged", link.host()),
        None => format!("behind it this machine is {}", link.host()),
    };
    eprintln!("nearlight: link emulated with {}; {place}", link.means());
    if !link.is_real_time() {
        eprintln!(
            "nearlight: no real-time priority (needs CAP_SYS_NICE): packets are late whenever the machine is busy"
        );
    }
}

fn summarise(report: &Report) {
    let share = 100.0 * report.cpu_seconds / report.seconds.max(1e-9);
    eprintln!("nearlight: the link ran for {:.1} s and used {share:.1} % of a processor", report.seconds);
    for (name, way) in [("up", &report.up), ("down", &report.down)] {
        let DirectionReport { offered, delivered, lateness_us: late, .. } = way;
        let path = if way.path.is_empty() { "unchanged" } else { &way.path };
        eprintln!("  {name}: {path}");
        eprintln!(
            "    {} packets offered ({:.2} MB), {} delivered, {} lost{}",
            offered.packets,
            offered.bytes as f64 / 1e6,
            delivered.packets,
            way.lost(),
            reasons(way)
        );
        eprintln!(
            "    lateness of packets: {:.0} us (p50), {:.0} us (p99), {:.0} us (max)",
            late.p50, late.p99, late.max
        );
    }
}

/// Describes why packets were lost, and what else is needed to interpret the numbers.
fn reasons(way: &DirectionReport) -> String {
    let lost = way.dropped.iter().map(|(reason, count)| (*count, *reason));
    let others = [
        (way.on_the_way, "still on the way"),
        (way.missed, "missed by the link, which was too slow"),
        (way.refused, "not taken at the end"),
        (way.duplicates, "delivered twice"),
        (way.marked, "marked"),
    ];
    let facts: Vec<String> =
        lost.chain(others).filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) }
}
