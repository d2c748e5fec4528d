//! The behaviour of all commands at a terminal: parse arguments, log to standard error, and report what fails while they run in one line.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser;

use crate::log;

/// The log filter without `NEARLIGHT_LOG`. WebRTC's protocols warn of every datagram that they refuse, from any sender, and WebTransport of
/// a session that ends without a closing capsule.
pub const DEFAULT_LOG_FILTER: &str = "warn,nearlight=info,nearlight_display=info,nearlight_server=info,rtc=error,rtc_dtls=error,rtc_ice=error,rtc_sctp=error,\
    web_transport_quinn=error";
/// Default log filter for users who want only warnings and errors.
pub const QUIET_LOG_FILTER: &str =
    "warn,rtc=error,rtc_dtls=error,rtc_ice=error,rtc_sctp=error,web_transport_quinn=error";
/// The exit status that a shell reports for a program ended by a closed output pipe: 128 plus the number of SIGPIPE.
const OUTPUT_CLOSED: i32 = 128 + 13;
/// The exit status of a command line that cannot be parsed, as in most programs that use clap.
const WRONG_USAGE: u8 = 2;

/// A command line that can be run.
pub trait CommandLine: Parser {
    /// The log filter where the environment sets none.
    fn default_log_filter(&self) -> &'static str;

    /// Libraries that connect to a Wayland display print errors where there is no session; the command may start others that need one.
    fn starts_other_programs(&self) -> bool;

    /// # Errors
    /// For people: what happened and what to do about it.
    fn run(self) -> anyhow::Result<ExitCode>;
}

/// The whole life of a command.
pub fn run<Line: CommandLine>() -> ExitCode {
    exit_when_output_closes();
    let arguments = match Line::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Requested help and the version go to standard output, wrong usage to standard error.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(WRONG_USAGE) } else { ExitCode::SUCCESS };
        }
    };
    if !arguments.starts_other_programs() {
        silence_wayland_errors();
    }
    // Results go to standard output, progress and diagnostics to standard error.
    let filter = tracing_subscriber::EnvFilter::try_from_env("NEARLIGHT_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(arguments.default_log_filter()));
    // A file or a pipe gets no colours.
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| log::Log)
        .with_ansi(colours)
        .with_target(false)
        .init();
    let done = arguments.run();
    log::release();
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("nearlight: {}", in_words(&error));
            ExitCode::FAILURE
        }
    }
}

/// `println!` panics if standard output fails. A reader that closes the pipe has read enough, as `head` does: the command then ends
/// silently, like other programs. A full disk is reported in one line.
fn exit_when_output_closes() {
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
pub fn in_words(error: &anyhow::Error) -> String {
    let join = |words: String, cause: String| if words.contains(&cause) { words } else { format!("{words}: {cause}") };
    error.chain().map(ToString::to_string).reduce(join).unwrap_or_default()
}

/// Enumerating adapters also connects to a Wayland display, whose library prints an error to the terminal if there is no session directory.
/// A directory that does not exist has the same effect silently.
#[expect(unsafe_code, reason = "the environment is changed before anything else runs")]
fn silence_wayland_errors() {
    const VARIABLE: &str = "XDG_RUNTIME_DIR";
    if std::env::var_os(VARIABLE).is_none() {
        // SAFETY: called first in `main`, while this is the only thread.
        unsafe { std::env::set_var(VARIABLE, "/nonexistent") };
    }
}
