//! The `nearlight-kernel` command, which `nearlight kernel` runs: congestion control in the kernel.

#![forbid(unsafe_code)]

mod table;

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use nearlight_emulate::machine_time;
use nearlight_kernel::{DEFAULT_NAME, Group, LoadOptions, LoadedLaw, Parameters, load, unload};
use nearlight_net::tcp::{available_congestion_control, check_congestion_control};
use nearlight_system::{Supervisor, end_with_this_thread};
use nearlight_units::Span;
use nearlight_window::{HeraOptions, LossResponse, Reading, Step};
use tokio::signal::unix::{SignalKind, signal};

const AFTER_HELP: &str = "\
Examples:
  sudo nearlight kernel load hera                           until Ctrl-C; every socket on the machine may select it
  sudo nearlight kernel load hera --buckets 8 --pin         until `nearlight kernel unload hera`
  sudo nearlight kernel run hera -- iperf3 -c 192.0.2.7     only this command's connections
  sudo nearlight kernel status --watch
  nearlight serve --tcp-control hera                        once it is loaded: media over TCP

docs/kernel.md describes the rest.";

/// Interval at which a table is refreshed, and at which a loader checks that its law is still loaded.
const REFRESH_INTERVAL: Duration = Duration::from_millis(500);

/// Congestion control in the Linux kernel
#[derive(Debug, Parser)]
#[command(bin_name = "nearlight kernel", name = "nearlight-kernel", version, after_long_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: KernelCommand,
}

#[derive(Debug, Subcommand)]
enum KernelCommand {
    /// Load a congestion control until this command ends, or with --pin until `unload`
    Load(LoadArguments),
    /// Show what is loaded and its flows: window, round trips, histogram
    Status(StatusArguments),
    /// Remove a congestion control that nearlight has loaded
    Unload(UnloadArguments),
    /// Run a command whose TCP connections, and no others, have this congestion control
    Run(RunArguments),
}

/// A law that can be loaded.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Law {
    Hera,
}

#[derive(Debug, Args)]
struct LoadArguments {
    law: Law,
    /// Name by which sockets select it, up to 15 of a-z, 0-9, _ and .
    #[arg(long, default_value = DEFAULT_NAME)]
    name: String,
    /// Buckets of the histogram, an even number from 2 to 256: half of them times --bucket-ms is the round trip aimed at
    #[arg(long, default_value_t = HeraOptions::default().buckets)]
    buckets: u16,
    /// Milliseconds of round trip in a bucket, from 1 to 1000
    #[arg(long, default_value_t = 15)]
    bucket_ms: u16,
    /// Round trips in the mean, from 1 to 256
    #[arg(long, default_value_t = HeraOptions::default().backlog)]
    backlog: u16,
    /// Packets by which the window moves for each bucket of distance, from 1 to 1000
    #[arg(long, default_value_t = HeraOptions::default().max_delta)]
    max_delta: u16,
    /// Entries in the histogram, from 1 to 8192, or none to keep all counts
    #[arg(long, default_value = "1000", value_parser = limit)]
    limit: Limit,
    /// How far the window shrinks: symmetric, or as-printed in the paper
    #[arg(long, default_value = "symmetric")]
    reading: ReadingArgument,
    /// When the window moves
    #[arg(long, default_value = "round-trip")]
    step: StepArgument,
    /// Smallest window in packets
    #[arg(long, default_value_t = HeraOptions::default().least)]
    least: u32,
    /// Largest window in packets
    #[arg(long, default_value_t = HeraOptions::default().most)]
    most: u32,
    /// Keep it in the kernel when this command has ended, until `nearlight kernel unload` or the next boot
    #[arg(long)]
    pin: bool,
    /// Print one JSON object once it is loaded
    #[arg(long)]
    json: bool,
}

/// Number of counts to keep. None keeps all. This is a type of its own because clap takes an `Option` as an optional argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit(Option<u32>);

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReadingArgument {
    Symmetric,
    AsPrinted,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StepArgument {
    RoundTrip,
    Sample,
}

#[derive(Debug, Args)]
struct StatusArguments {
    /// Print one JSON object; with --watch one a line
    #[arg(long)]
    json: bool,
    /// Update twice a second until Ctrl-C
    #[arg(long)]
    watch: bool,
}

#[derive(Debug, Args)]
struct UnloadArguments {
    /// The name that it was loaded under
    #[arg(default_value = DEFAULT_NAME)]
    name: String,
}

#[derive(Debug, Args)]
struct RunArguments {
    /// Name of a congestion control. hera is loaded for as long as the command runs, if it is not yet; others must be in the kernel
    law: String,
    /// The command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit(None)),
        _ => match text.parse() {
            Ok(limit) if limit > 0 => Ok(Limit(Some(limit))),
            _ => Err("expected a number of entries of at least 1, or none".into()),
        },
    }
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        KernelCommand::Load(arguments) => load_law(&arguments),
        KernelCommand::Status(arguments) => show_status(&arguments),
        KernelCommand::Unload(arguments) => unload_law(&arguments),
        KernelCommand::Run(arguments) => run_command(arguments),
    };
    done.unwrap_or_else(|error| {
        eprintln!("nearlight: {error:#}");
        ExitCode::FAILURE
    })
}

impl LoadArguments {
    fn options(&self) -> anyhow::Result<LoadOptions> {
        let Law::Hera = self.law;
        let hera = HeraOptions {
            reading: match self.reading {
                ReadingArgument::Symmetric => Reading::Symmetric,
                ReadingArgument::AsPrinted => Reading::AsPrinted,
            },
            step: match self.step {
                StepArgument::RoundTrip => Step::RoundTrip,
                StepArgument::Sample => Step::Sample,
            },
            on_loss: LossResponse::Ignore,
            buckets: self.buckets,
            bucket_size: Span::from_millis(i64::from(self.bucket_ms)),
            backlog: self.backlog,
            max_delta: self.max_delta,
            limit: self.limit.0,
            least: self.least,
            most: self.most,
            // The kernel's Hera ignores losses.
            ..HeraOptions::default()
        };
        if hera.in_order() != hera {
            bail!(
                "a parameter is out of its range; the nearest valid value is {}. `nearlight kernel load --help` lists the ranges",
                table::words(&hera.in_order().into())
            );
        }
        Ok(LoadOptions { name: self.name.clone(), hera, pin: self.pin })
    }
}

fn load_law(arguments: &LoadArguments) -> anyhow::Result<ExitCode> {
    let options = arguments.options()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Before it is loaded, so that a signal in between removes it in order.
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let before = machine_time();
        let loaded = load(&options)?;
        announce(&options, machine_time() - before, arguments.json)?;
        if options.pin {
            return Ok(ExitCode::SUCCESS);
        }
        loop {
            tokio::select! {
                _ = interrupt.recv() => break,
                _ = terminate.recv() => break,
                _ = hangup.recv() => break,
                () = tokio::time::sleep(REFRESH_INTERVAL) => {
                    if !loaded.is_registered() {
                        eprintln!("nearlight: {} was unloaded by another command", options.name);
                        return Ok(ExitCode::SUCCESS);
                    }
                }
            }
        }
        drop(loaded);
        eprintln!("nearlight: {} is unloaded; connections that use it keep it until they end", options.name);
        Ok(ExitCode::SUCCESS)
    })
}

fn announce(options: &LoadOptions, took: Span, json: bool) -> anyhow::Result<()> {
    let parameters = Parameters::from(options.hera);
    let mut output = std::io::stdout().lock();
    if json {
        let load_ms = took.as_millis_f64();
        let object = serde_json::json!({
            "name": options.name, "load_ms": load_ms, "pinned": options.pin, "parameters": parameters,
        });
        writeln!(output, "{object}")?;
    } else {
        let name = &options.name;
        let until =
            if options.pin { format!("until `nearlight kernel unload {name}`") } else { "until Ctrl-C".to_owned() };
        let words = table::words(&parameters);
        writeln!(output, "{name} is loaded ({:.0} ms), {until}: {words}", took.as_millis_f64())?;
    }
    output.flush().context("standard output")
}

fn show_status(arguments: &StatusArguments) -> anyhow::Result<ExitCode> {
    let terminal = std::io::stdout().is_terminal();
    loop {
        let laws = nearlight_kernel::status()?;
        let mut output = std::io::stdout().lock();
        if arguments.json {
            writeln!(output, "{}", serde_json::json!({ "laws": laws }))?;
        } else {
            if arguments.watch && terminal {
                // Clears the screen and goes to its beginning.
                write!(output, "\x1b[2J\x1b[H")?;
            }
            write!(output, "{}", table::table(&laws))?;
        }
        output.flush()?;
        drop(output);
        if !arguments.watch {
            return Ok(ExitCode::SUCCESS);
        }
        #[expect(clippy::disallowed_methods, reason = "a table that is drawn in real time")]
        std::thread::sleep(REFRESH_INTERVAL);
    }
}

fn unload_law(arguments: &UnloadArguments) -> anyhow::Result<ExitCode> {
    let unloaded = unload(&arguments.name)?;
    let name = &arguments.name;
    match unloaded.flows {
        0 => println!("{name} is unloaded"),
        1 => println!("{name} is unloaded; one connection keeps it until it ends"),
        flows => println!("{name} is unloaded; {flows} connections keep it until they end"),
    }
    Ok(ExitCode::SUCCESS)
}

fn run_command(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    let law = &arguments.law;
    let loaded = load_for(law)?;
    check_congestion_control(law)?;
    let group = Group::create(law)?;
    let mut words = arguments.command.into_iter();
    let program = words.next().context("no command")?;
    let mut command = Command::new(&program);
    command.args(words);
    end_with_this_thread(&mut command);
    let supervisor = Supervisor::new()?;
    let child = group.enter(|| command.spawn())?;
    let child = child.with_context(|| format!("cannot run {}", program.display()))?;
    let ended = supervisor.wait(child).context("waiting for the command")?;
    let (given, refused) = group.counts();
    drop(group);
    drop(loaded);
    eprintln!("nearlight: {given} sockets used {law}");
    if refused > 0 {
        eprintln!(
            "nearlight: {refused} sockets kept the default congestion control, because the kernel refused to change it"
        );
    }
    Ok(ExitCode::from(ended.code()))
}

/// Loads Hera if it is asked for and not there.
fn load_for(law: &str) -> anyhow::Result<Option<LoadedLaw>> {
    let known = available_congestion_control().is_ok_and(|available| available.iter().any(|name| name == law));
    if known || law != DEFAULT_NAME { Ok(None) } else { Ok(Some(load(&LoadOptions::default())?)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_or_none() {
        assert_eq!((limit("none"), limit("7")), (Ok(Limit(None)), Ok(Limit(Some(7)))));
        for wrong in ["0", "-1", "all", ""] {
            assert!(limit(wrong).expect_err(wrong).contains("none"), "{wrong}");
        }
    }
}
