//! The `nearlight` command.

#![deny(unsafe_code)]

mod agones;
mod analyze;
mod announcement;
mod doctor;
mod fleet;
mod front;
mod hook;
mod kernel;
mod lab;
mod link;
mod log;
mod memory;
mod parse;
#[cfg(target_os = "linux")]
mod program;
mod sandbox;
mod serve;
mod stand_in;
mod swarm;
mod view;
mod wifi;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Rendered far away, felt near by.
#[derive(Debug, Parser)]
#[command(name = "nearlight", version, long_about = None)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a page with an interactive 3D world and print the link to it
    Serve(Box<serve::ServeArguments>),
    /// Send clients to the server of a fleet that has a place for them
    Front(Box<front::FrontArguments>),
    /// Run a program that draws by OpenGL or Vulkan, and stream its window from within the program
    Hook(Box<hook::HookArguments>),
    /// Show a stream in a window, or measure it without one
    View(Box<view::ViewArguments>),
    /// Run a command, or a shell, behind an emulated link
    Link(Box<link::LinkArguments>),
    /// Run experiments in virtual time, and list plans, rate controllers and redundancy policies
    Lab(lab::LabArguments),
    /// Send a crowd of synthetic members into a server's rooms, or simulate it in virtual time, and report what they notice
    Swarm(Box<swarm::SwarmArguments>),
    /// Simulate headsets in an 802.11ax cell in virtual time
    Wifi(Box<wifi::WifiArguments>),
    /// Analyse a packet capture of a stream: contents, frame timing, effects of the network
    Analyze(analyze::AnalyzeArguments),
    /// Load Hera's congestion control into the kernel, for any TCP connection of this machine (Linux, root)
    Kernel(kernel::KernelArguments),
    /// Check what this machine can do, and what to install or change
    Doctor(doctor::DoctorArguments),
    /// What a served program runs under
    #[cfg(target_os = "linux")]
    #[command(name = program::SUPERVISOR, hide = true)]
    ProgramSupervisor,
}

/// The log filter without `NEARLIGHT_LOG`. WebRTC's protocols warn of every datagram that they refuse, from any sender, and WebTransport of
/// a session that ends without a closing capsule.
const USUAL_WORDS: &str = "warn,nearlight=info,nearlight_display=info,nearlight_server=info,rtc=error,rtc_dtls=error,rtc_ice=error,rtc_sctp=error,\
    web_transport_quinn=error";
/// The same for users who want only warnings and errors.
const QUIET_WORDS: &str = "warn,rtc=error,rtc_dtls=error,rtc_ice=error,rtc_sctp=error,web_transport_quinn=error";
/// The exit status that a shell reports for a program ended by a closed output pipe: 128 plus the number of SIGPIPE.
const OUTPUT_CLOSED: i32 = 128 + 13;

fn main() -> ExitCode {
    end_with_the_output();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(words) => {
            // Exit status 2, which clap would use, means that a server refused.
            if !words.use_stderr() {
                let _ = words.print();
                return ExitCode::SUCCESS;
            }
            eprintln!("nearlight: {}", one_line(&words.to_string()));
            return ExitCode::FAILURE;
        }
    };
    if !matches!(arguments.command, Command::Link(_)) {
        quieten_wayland();
    }
    // Results go to standard output, progress and diagnostics to standard error.
    let filter = tracing_subscriber::EnvFilter::try_from_env("NEARLIGHT_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(arguments.command.usual_words()));
    // A file or a pipe gets no colours.
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| log::Log)
        .with_ansi(colours)
        .with_target(false)
        .init();
    let done = match arguments.command {
        Command::Serve(serve) => serve::run(*serve),
        Command::Front(front) => front::run(*front),
        Command::Hook(hook) => hook::run(*hook),
        Command::View(view) => view::run(*view),
        Command::Link(link) => link::run(*link),
        Command::Lab(lab) => lab::run(&lab),
        Command::Swarm(swarm) => swarm::run(&swarm),
        Command::Wifi(wifi) => wifi::run(&wifi),
        Command::Analyze(analyze) => analyze::run(&analyze),
        Command::Kernel(kernel) => kernel::run(kernel),
        Command::Doctor(doctor) => doctor::run(&doctor),
        #[cfg(target_os = "linux")]
        Command::ProgramSupervisor => Ok(program::supervise()),
    };
    log::release();
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("nearlight: {}", in_words(&error));
            ExitCode::FAILURE
        }
    }
}

/// Joins clap's multi-line message into one line, without the hint about help.
fn one_line(words: &str) -> String {
    let lines =
        words.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let line = lines.collect::<Vec<_>>().join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

impl Command {
    /// The default log filter.
    const fn usual_words(&self) -> &'static str {
        match self {
            Self::Serve(serve) if serve.is_quiet() => QUIET_WORDS,
            Self::Front(front) if front.is_quiet() => QUIET_WORDS,
            // Its result counts what its many connections would say.
            Self::Swarm(_) => QUIET_WORDS,
            _ => USUAL_WORDS,
        }
    }
}

/// `println!` panics if standard output fails. A reader that closes the pipe has read enough, as `head` does: the command then ends
/// silently, like other programs. A full disk is reported in one line.
fn end_with_the_output() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let words = panic.payload_as_str().unwrap_or_default();
        match words.strip_prefix("failed printing to stdout: ") {
            // EPIPE, which the panic only describes in text.
            Some(reason) if reason.ends_with("(os error 32)") => std::process::exit(OUTPUT_CLOSED),
            Some(reason) => {
                eprintln!("nearlight: cannot write to standard output: {reason}");
                std::process::exit(1);
            }
            None => usual(panic),
        }
    }));
}

/// The error and its causes, without those that its text already contains.
fn in_words(error: &anyhow::Error) -> String {
    let join = |words: String, cause: String| if words.contains(&cause) { words } else { format!("{words}: {cause}") };
    error.chain().map(ToString::to_string).reduce(join).unwrap_or_default()
}

/// Enumerating adapters also connects to a Wayland display, whose library prints an error to the terminal if there is no session directory.
/// A directory that does not exist has the same effect silently.
#[expect(unsafe_code, reason = "the environment is changed before anything else runs")]
fn quieten_wayland() {
    const VARIABLE: &str = "XDG_RUNTIME_DIR";
    if std::env::var_os(VARIABLE).is_none() {
        // SAFETY: called first in `main`, while this is the only thread.
        unsafe { std::env::set_var(VARIABLE, "/nonexistent") };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_arguments_are_reported_in_one_line() {
        for line in
            ["nearlight serve --drop 3", "nearlight view", "nearlight nothing", "nearlight analyze a --packets x"]
        {
            let words = Arguments::try_parse_from(line.split(' ')).expect_err(line).to_string();
            let reported = one_line(&words);
            assert!(words.lines().count() > 1 && !reported.contains('\n'), "{reported}");
            assert!(!reported.starts_with("error") && !reported.contains("try '--help'"), "{reported}");
        }
    }
}
