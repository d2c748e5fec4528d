//! `nearlight hook`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use nearlight_codec::CodecKind;
use nearlight_embed::Options;
use nearlight_hook_wire::{HookedProcess, LIBRARY, Listener, Message, StreamSettings, find_library};
use nearlight_net::{Link, Token};
use nearlight_system::Supervisor;
use nearlight_units::{Bitrate, lock};

use crate::announcement::{Announcement, Style};
use crate::parse;

const AFTER_HELP: &str = "\
Examples:
  nearlight hook -- openarena
  nearlight hook --port 0 --fps 30 --json -- glxgears
  xvfb-run -s '-screen 0 1280x720x24' nearlight hook -- PROGRAM        on a machine without a display

The library is loaded into the program and into every process that it starts. The first window that shows a picture is streamed. If it
shows nothing for a second, another window takes its place. The server runs inside the program's process, so the stream ends with the
program. The exit status is the program's.

Viewers' input reaches the window through the X server's XTEST extension. It moves the pointer of the whole display, and keys and buttons
are pressed only while the window has the focus or is below the pointer. On a separate display (Xvfb), viewers and the machine's user do
not interfere with each other.

Not supported: programs that draw with anything other than Vulkan, or OpenGL or OpenGL ES through GLX or EGL; statically linked
programs; programs for another architecture; and programs that gain privileges when they start (set-uid).";

#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct HookArguments {
    /// Port for the page (TCP) and the media (UDP); 0 picks a free one
    #[arg(long, default_value_t = 8090)]
    port: u16,
    /// Port for WebRTC (UDP) [default: the one after --port]
    #[arg(long)]
    rtc_port: Option<u16>,
    /// Address to listen on [default: all addresses]
    #[arg(long)]
    address: Option<IpAddr>,
    /// Public address that forwards the same ports to this machine; repeatable
    #[arg(long = "announce", value_name = "ADDRESS")]
    announced: Vec<IpAddr>,
    /// Additional host name of this server; repeatable
    #[arg(long = "host", value_name = "NAME", value_parser = parse::host)]
    hosts: Vec<String>,
    /// Pairing token of at least 16 characters [default: a new random one at each start]
    #[arg(long, env = "NEARLIGHT_TOKEN", hide_env_values = true, value_parser = token)]
    token: Option<String>,
    /// PEM file with a certificate chain that browsers trust [default: a self-signed certificate]
    #[arg(long, requires = "key")]
    cert: Option<PathBuf>,
    /// PEM file with the private key of --cert
    #[arg(long, requires = "cert")]
    key: Option<PathBuf>,
    /// Maximum number of the program's frames per second to stream
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=240))]
    fps: u16,
    #[arg(long, default_value = "h264", help = format!("Preferred codec: {}", CodecKind::ALL.map(CodecKind::name).join(" or ")))]
    codec: CodecKind,
    /// Rate controller; `nearlight lab list` names all of them
    #[arg(long, default_value = nearlight_rate::PRESETS[0].name)]
    controller: String,
    /// Redundancy policy (FEC), as for `nearlight serve`
    #[arg(long, value_name = "POLICY", default_value = "planner")]
    fec: String,
    /// Initial rate; with `--controller fixed` the constant rate. Rates are upper limits: simple pictures need fewer bits
    #[arg(long, value_parser = parse::bitrate)]
    rate: Option<Bitrate>,
    /// Maximum rate, including redundancy [default: a quarter of a bit per pixel]
    #[arg(long, value_parser = parse::bitrate)]
    max_rate: Option<Bitrate>,
    /// Minimum rate
    #[arg(long, value_parser = parse::bitrate)]
    min_rate: Option<Bitrate>,
    /// Maximum number of simultaneous clients
    #[arg(long, default_value = "8", value_parser = parse::count)]
    max_clients: usize,
    /// Pass keyboard, mouse and touch input from clients to the program's window: on or off
    #[arg(long, default_value = "on", value_parser = parse::switch, value_name = "on|off", action = clap::ArgAction::Set)]
    input: bool,
    /// Write all events to this file as JSON lines
    #[arg(long)]
    events: Option<PathBuf>,
    /// Library to load into the program [default: `libnearlight_hook.so` beside this command, or in ../lib/nearlight]
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Print one JSON object with the links once clients can connect. The program's own output goes to standard output as well
    #[arg(long)]
    json: bool,
    /// Print only the links, one per line
    #[arg(long, short)]
    quiet: bool,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    program: Vec<OsString>,
}

/// A shell's exit status if a program cannot be run, and if it cannot be found.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;
/// Time without a picture after which a hint is printed.
const HINT_DELAY: Duration = Duration::from_secs(20);

/// Checks a token and keeps its text, which the program's process is given.
fn token(text: &str) -> Result<String, String> {
    text.parse::<Token>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("{} is not a path", path.display()))
}

impl HookArguments {
    /// The program may change its folder before it shows anything, so paths become absolute.
    fn options(&self) -> anyhow::Result<Options> {
        let path = |path: &Option<PathBuf>| path.as_deref().map(absolute).transpose();
        let mbps = |rate: Option<Bitrate>| rate.map(|rate| rate.as_bps() as f64 / 1e6);
        let options = Options {
            address: self.address,
            port: self.port,
            rtc_port: self.rtc_port,
            announce: self.announced.clone(),
            hosts: self.hosts.clone(),
            token: self.token.clone(),
            certificate: path(&self.cert)?,
            key: path(&self.key)?,
            fps: self.fps,
            codec: self.codec,
            controller: self.controller.clone(),
            fec: self.fec.clone(),
            rate_mbps: mbps(self.rate),
            min_rate_mbps: mbps(self.min_rate),
            max_rate_mbps: mbps(self.max_rate),
            max_clients: self.max_clients,
            events: path(&self.events)?,
            ..Options::default()
        };
        options.check()?;
        Ok(options)
    }

    fn library(&self) -> anyhow::Result<PathBuf> {
        match &self.library {
            Some(library) if library.is_file() => absolute(library),
            Some(library) => anyhow::bail!("--library: {} does not exist", library.display()),
            None => {
                let command = std::env::current_exe().context("cannot find this command's own file")?;
                find_library(&command).with_context(|| {
                    format!(
                        "{LIBRARY} is neither beside {} nor in ../lib/nearlight: build it with `cargo build --release -p \
                         nearlight-hook`, or name it with --library",
                        command.display()
                    )
                })
            }
        }
    }
}

/// The reports of the program's processes so far.
#[derive(Debug, Default)]
struct HookStatus {
    /// Processes with the library in them.
    loaded: BTreeMap<u32, String>,
    /// The process that is streamed.
    streamed: Option<u32>,
    opened: bool,
    failed: bool,
    ended: bool,
}

#[derive(Debug)]
struct HookWatch {
    options: String,
    input: bool,
    style: Style,
    heard: Mutex<HookStatus>,
    ended: Condvar,
}

impl HookWatch {
    fn heard(&self) -> MutexGuard<'_, HookStatus> {
        lock(&self.heard)
    }

    fn on_message(&self, message: Message) -> Option<StreamSettings> {
        let mut heard = self.heard();
        match message {
            Message::Loaded(HookedProcess { process, name }) => {
                heard.loaded.insert(process, name);
            }
            Message::Opening { speaker: HookedProcess { process, name }, interface, width, height } => {
                let other = heard.streamed.filter(|other| *other != process && is_running(*other));
                if other.is_none() {
                    heard.streamed = Some(process);
                    eprintln!("nearlight: {name} presents pictures of {width}x{height} through {interface}");
                } else {
                    eprintln!("nearlight: {name} presents pictures as well; only one process at a time is streamed");
                }
                return Some(StreamSettings {
                    options: other.is_none().then(|| self.options.clone()),
                    input: self.input,
                });
            }
            Message::Opened { links } => {
                heard.opened = true;
                drop(heard);
                if let Err(error) = announce(&links, self.style) {
                    eprintln!("nearlight: {error:#}");
                }
            }
            Message::Failed { reason } => {
                heard.failed = true;
                eprintln!("nearlight: the program is not streamed: {reason}");
            }
            Message::Note { text } => eprintln!("nearlight: {text}"),
        }
        None
    }

    /// Says so where a program runs and shows nothing.
    fn remind(&self, program: &str) {
        let heard = self.heard();
        let waits = |heard: &mut HookStatus| !heard.ended && !heard.opened && !heard.failed;
        let waited = self.ended.wait_timeout_while(heard, HINT_DELAY, waits);
        let (heard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            eprintln!(
                "nearlight: {program} is running and has presented no picture through OpenGL or Vulkan yet{}",
                hint(&heard)
            );
        }
    }
}

fn is_running(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

/// Why nothing may have been streamed.
fn hint(heard: &HookStatus) -> &'static str {
    if heard.loaded.is_empty() {
        ". The library was not loaded: the program is statically linked, of another architecture, or gains privileges when it starts"
    } else {
        ""
    }
}

fn announce(links: &[String], style: Style) -> anyhow::Result<()> {
    let links = links.iter().map(|link| Link::parse(link)).collect::<Result<Vec<_>, _>>()?;
    let [local, others @ ..] = links.as_slice() else { anyhow::bail!("the server has no link") };
    let announcement = Announcement {
        local: local.clone(),
        others: others.to_vec(),
        guests: Vec::new(),
        spectators: Vec::new(),
        ethernet: Vec::new(),
        port: local.port,
        rtc_port: None,
    };
    announcement.print(style)
}

pub(crate) fn run(arguments: HookArguments) -> anyhow::Result<ExitCode> {
    let options = arguments.options()?.to_toml()?;
    let library = arguments.library()?;
    let style = Style::new(arguments.json, arguments.quiet);
    let (heard, ended) = (Mutex::new(HookStatus::default()), Condvar::new());
    let watch = Arc::new(HookWatch { options, input: arguments.input, style, heard, ended });
    let hears = Arc::clone(&watch);
    let listener = Listener::open(&library, move |message| hears.on_message(message))?;
    let mut words = arguments.program.into_iter();
    let program = words.next().context("name a program after `--`")?;
    let mut command = Command::new(&program);
    command.args(words);
    listener.configure(&mut command);
    let name = Path::new(&program).file_name().unwrap_or(&program).to_string_lossy().into_owned();
    let supervisor = Supervisor::new()?;
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("nearlight: cannot run {}: {error}", program.display());
            let code = if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN };
            return Ok(code.into());
        }
    };
    let (reminds, of) = (Arc::clone(&watch), name.clone());
    let reminding = thread::Builder::new().name("remind".into()).spawn(move || reminds.remind(&of))?;
    let code = supervisor.wait(child).context("waiting for the program")?.code();
    watch.heard().ended = true;
    watch.ended.notify_all();
    // The thread cannot have panicked: it only writes.
    let _ = reminding.join();
    let heard = watch.heard();
    if !heard.opened && !heard.failed {
        eprintln!(
            "nearlight: {name} has ended and nothing was streamed: it presented no picture through OpenGL or Vulkan{}",
            hint(&heard)
        );
    }
    Ok(code.into())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        hook: HookArguments,
    }

    fn parsed(words: &[&str]) -> HookArguments {
        Line::try_parse_from(["hook"].iter().chain(words)).expect("arguments").hook
    }

    #[test]
    fn options_reach_the_program_whole() {
        let line = [
            "--port",
            "0",
            "--fps",
            "30",
            "--max-rate",
            "2500kbps",
            "--events",
            "log.jsonl",
            "--",
            "game",
            "--fps",
            "9",
        ];
        let arguments = parsed(&line);
        let options = arguments.options().expect("they fit together");
        let read = Options::from_toml(&options.to_toml().expect("a document")).expect("options");
        assert_eq!((read.port, read.fps, read.max_rate_mbps), (0, 30, Some(2.5)));
        assert!(read.events.is_some_and(|events| events.is_absolute()));
        assert_eq!(arguments.program, ["game", "--fps", "9"]);
    }

    #[test]
    fn a_second_process_is_not_streamed_while_the_first_one_runs() {
        let watch = HookWatch {
            options: "port = 0".into(),
            input: true,
            style: Style::Json,
            heard: Mutex::new(HookStatus::default()),
            ended: Condvar::new(),
        };
        let ask = |process| {
            let speaker = HookedProcess { process, name: "a test".into() };
            let opening = Message::Opening { speaker, interface: "EGL".into(), width: 2, height: 2 };
            watch.on_message(opening).expect("an answer").options.is_some()
        };
        let (this, gone) = (std::process::id(), u32::MAX);
        assert!(ask(gone) && ask(this), "the first one has ended");
        assert!(!ask(gone) && ask(this));
    }
}
