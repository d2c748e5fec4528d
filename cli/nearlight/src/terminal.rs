//! The behaviour of all commands at a terminal: parse arguments, log to standard error, and report what fails while they run in one line.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::log::format::{JournalLines, LogFormat};
use crate::{configuration, log};

/// The log filter without `NEARLIGHT_LOG`. WebTransport warns of a session that ends without a closing capsule.
pub const DEFAULT_LOG_FILTER: &str =
    "warn,nearlight=info,nearlight_display=info,nearlight_server=info,web_transport_quinn=error";
/// Default log filter for users who want only warnings and errors.
pub const QUIET_LOG_FILTER: &str = "warn,web_transport_quinn=error";
/// The targets of the library of WebRTC's protocols begin so. It reports as errors and warnings what peers do, such as leaving by an abort
/// of SCTP, which browsers do, or sending a datagram that it refuses. The end of each session is in the log with its reason anyway.
const PEER_PROTOCOLS: &str = "rtc";
/// The exit status that a shell reports for a program ended by a closed output pipe: 128 plus the number of SIGPIPE.
const OUTPUT_CLOSED: i32 = 128 + 13;
/// The exit status of a command line that cannot be parsed, as in most programs that use clap.
const WRONG_USAGE: u8 = 2;

/// A command line that can be run.
pub trait CommandLine: Parser {
    /// The log filter where the environment sets none.
    fn default_log_filter(&self) -> &'static str;

    /// The format of the log that the user has chosen; none leaves it to where standard error leads.
    fn log_format(&self) -> Option<LogFormat> {
        None
    }

    /// Libraries that connect to a Wayland display print errors where there is no session; the command may start others that need one.
    fn starts_other_programs(&self) -> bool;

    /// # Errors
    /// For people: what happened and what to do about it.
    fn run(self) -> anyhow::Result<ExitCode>;
}

/// The whole life of a command.
pub fn run<Line: CommandLine>() -> ExitCode {
    exit_when_output_closes();
    let line = configuration::complete(&Line::command(), std::env::args_os().collect());
    let arguments = match line.and_then(Line::try_parse_from) {
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
    let filter = log_filter(std::env::var("NEARLIGHT_LOG").ok().as_deref(), arguments.default_log_filter());
    // A file or a pipe gets no colours.
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let format = arguments.log_format().unwrap_or_else(LogFormat::of_standard_error);
    log::set_format(format);
    let lines = tracing_subscriber::fmt::layer().with_writer(|| log::Log);
    let lines = match format {
        LogFormat::Text => lines.with_ansi(colours).with_target(false).boxed(),
        LogFormat::Json => lines.json().with_current_span(false).with_span_list(false).boxed(),
        LogFormat::Journal => lines.with_ansi(false).event_format(JournalLines::new()).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines.with_filter(log::repeated::RepeatedLines)).init();
    let done = arguments.run();
    log::repeated::finish();
    log::release();
    match done {
        Ok(code) => code,
        Err(error) => {
            log::failure(&in_words(&error));
            ExitCode::FAILURE
        }
    }
}

/// Returns the filter of the log that the user has asked for, or the default one. What peers do is left out unless it is asked for.
fn log_filter(asked: Option<&str>, default: &str) -> EnvFilter {
    let filter = |text: &str| {
        let peers = if text.contains(PEER_PROTOCOLS) { String::new() } else { format!(",{PEER_PROTOCOLS}=off") };
        EnvFilter::try_new(format!("{text}{peers}"))
    };
    let asked = asked.filter(|asked| !asked.is_empty()).and_then(|asked| filter(asked).ok());
    asked.unwrap_or_else(|| filter(default).unwrap_or_default())
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
                log::failure(&format!("cannot write to standard output: {reason}"));
                std::process::exit(1);
            }
            None if log::is_for_people() => usual(panic),
            None => log::failure(&format!("this is a fault of the program, please report it: {panic}")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_peers_do_is_no_error_unless_it_is_asked_for() {
        for (asked, expected) in [
            (None, "rtc=off"),
            (Some(""), "rtc=off"),
            (Some("warn"), "rtc=off"),
            (Some("no such level=?"), "rtc=off"),
            (Some("rtc_sctp=debug"), "rtc_sctp=debug"),
        ] {
            let filter = log_filter(asked, DEFAULT_LOG_FILTER).to_string();
            assert!(filter.split(',').any(|directive| directive == expected), "{asked:?}: {filter}");
        }
        assert!(!log_filter(Some("rtc_sctp=debug"), DEFAULT_LOG_FILTER).to_string().contains("off"));
    }
}
