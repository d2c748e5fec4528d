//! The process that is the parent of the display server and the program: it starts them, reports on them, and ends them.
//!
//! The server gives up the privileges for starting programs before it opens its ports, so a separate process is needed. It also makes sure
//! that nothing keeps running when the server ends, in whatever way: the supervisor ends everything when its standard input closes.

mod display_server;
mod gamepads;
mod graphics;
mod locale;
mod sound;

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, wait};

use self::display_server::DisplayServer;
use self::gamepads::ProgramGamepads;
use self::graphics::name_renderer;
use self::locale::set_locale;
use crate::gamepads::PadChange;
use crate::host::{Identity, descendants, find_program, identity, pid};
use crate::processor_limit::ProcessorLimit;
use crate::sandbox::{self, EMPTY_HOME, RUNTIME_FOLDER, Requirements, Sandbox, is_graphics_device};
use crate::specification::{Compositor, ProgramExit, ProgramOptions, Report, SupervisorCommand, Task};

/// Interval of the checks for children that have ended. Guess: unnoticeable, and 20 checks a second cost nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time that processes have to end after SIGTERM before they are killed. Guess: programs that react to SIGTERM at all end within a second.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(1);
/// Delay before a program is restarted. It doubles after each run shorter than `MIN_STABLE_RUN`. Guess: viewers barely notice it.
const MIN_RESTART_DELAY: Duration = Duration::from_secs(1);
/// Longest delay before a program is restarted. Guess: a program that keeps crashing then costs little.
const MAX_RESTART_DELAY: Duration = Duration::from_secs(30);
/// Length of a run after which the delay is reset. Guess: programs that cannot start end earlier.
const MIN_STABLE_RUN: Duration = Duration::from_secs(5);
/// Maximum time that a program may block in a read of its gamepad, during which not even a signal ends it.
const MAX_BLOCKED_READ: Duration = Duration::from_secs(1);
/// Maximum number of bytes of a line of output. Longer lines are split.
const MAX_LINE_BYTES: u64 = 2_048;
/// The program's niceness, so that encoder and network have priority. Guess: it then has about a third of their weight.
const DEFAULT_NICENESS: u8 = 5;
/// The shell command that is the first process of the program's PID namespace. It waits until all processes in it have ended, because a
/// launcher that ends at once must not take its program with it.
const INIT_SCRIPT: &str = r#""$@"; status=$?; while kill -0 -1 2>/dev/null; do sleep 0.2; done; exit $status"#;
/// Variables of the server's environment that a program in a strict sandbox gets.
const PASSED_VARIABLES: [&str; 6] = ["PATH", "LANG", "LANGUAGE", "TZ", "TERM", "DRI_PRIME"];
/// Prefixes of further variables that it gets: those of graphics libraries and toolkits.
const PASSED_PREFIXES: [&str; 14] = [
    "LC_", "SDL_", "MESA_", "GALLIUM_", "LIBGL_", "LP_", "QT_", "GTK_", "GDK_", "VK_", "__GL_", "__GLX_", "__EGL_",
    "__NV_",
];
/// Variables that the program does not get, because they refer to the desktop of the user who started the server, or are secrets.
const WITHHELD_VARIABLES: [&str; 9] = [
    "DISPLAY",
    "XAUTHORITY",
    "WAYLAND_DISPLAY",
    "SWAYSOCK",
    "DBUS_SESSION_BUS_ADDRESS",
    "NEARLIGHT_TOKEN",
    "XDG_RUNTIME_DIR",
    "SESSION_MANAGER",
    "PULSE_SERVER",
];

/// Reads the options from the first line of standard input, runs the program, and reports on standard output, until standard input ends.
pub fn supervise() -> ExitCode {
    let (events, received) = channel();
    let mut lines = BufReader::new(io::stdin()).lines();
    let first = lines.next().and_then(Result::ok);
    let options = match first.and_then(|line| serde_json::from_str(&line).ok()) {
        Some(Task::Supervise(options)) => options,
        Some(Task::NameRenderer) => return name_renderer(),
        None => return ExitCode::FAILURE,
    };
    let sender = events.clone();
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let event = match serde_json::from_str(&line) {
                Ok(SupervisorCommand::Start) => SupervisorEvent::Start,
                Ok(SupervisorCommand::Gamepad(change)) => SupervisorEvent::Gamepad(change),
                Err(_) => continue,
            };
            if sender.send(event).is_err() {
                return;
            }
        }
        let _ = sender.send(SupervisorEvent::Close);
    });
    let (server, folder, identity, gamepads, limit) = (None, None, None, None, None);
    let niceness = DEFAULT_NICENESS;
    let mut supervisor = Supervisor { options, events, received, server, folder, identity, gamepads, niceness, limit };
    let outcome = supervisor.run();
    supervisor.end_all();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            report(&Report::Failed { reason });
            ExitCode::FAILURE
        }
    }
}

/// An event that the supervisor handles.
enum SupervisorEvent {
    /// The server starts the program.
    Start,
    /// Standard input has closed.
    Close,
    /// A line of output.
    Line(String),
    Gamepad(PadChange),
    /// A gamepad has a new effect, which is to be polled.
    Rumble,
}

/// A request of the server that the caller of [`Supervisor::handle_event`] must carry out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Request {
    Start,
    Close,
    None,
}

struct Supervisor {
    options: ProgramOptions,
    events: Sender<SupervisorEvent>,
    received: Receiver<SupervisorEvent>,
    server: Option<DisplayServer>,
    /// The folder with cookies and sockets. It is removed at the end.
    folder: Option<PathBuf>,
    /// The user as whom the program runs, if it is not the server's.
    identity: Option<Identity>,
    /// The program's gamepads, if it can have any.
    gamepads: Option<ProgramGamepads>,
    niceness: u8,
    /// The limit of the program's processor time, if there is one.
    limit: Option<ProcessorLimit>,
}

impl Supervisor {
    fn run(&mut self) -> Result<(), String> {
        // Orphaned descendants become children of this process.
        set_child_subreaper(Some(rustix::process::getpid())).map_err(|error| format!("no subreaper: {error}"))?;
        self.identity = identity(self.options.user.as_deref())?;
        self.check_tools()?;
        let gamepads = self.make_gamepads()?;
        let (server, ready) = match (self.options.display.clone(), self.options.compositor) {
            (Some(display), _) => (DisplayServer::existing(display), None),
            (None, Compositor::X11) => self.start_x().map(|(server, report)| (server, Some(report)))?,
            (None, Compositor::Sway) => self.start_sway().map(|(server, report)| (server, Some(report)))?,
        };
        self.server = Some(server);
        if let Some(ready) = ready {
            report(&ready);
        }
        // The server must manage the windows before the program opens the first one.
        loop {
            match self.handle_event(POLL_INTERVAL) {
                Request::Start => break,
                Request::Close => return Ok(()),
                Request::None => {}
            }
        }
        if self.options.command.is_empty() {
            return self.wait_for_close();
        }
        let share = self.limit_processor();
        let mut pause = MIN_RESTART_DELAY;
        loop {
            let (process, how) = self.start_program()?;
            let count = self.gamepads.as_ref().map_or(0, ProgramGamepads::count);
            report(&Report::Started { how: format!("{how}{share}, {gamepads}"), gamepads: count });
            let Some((ending, ran)) = self.wait_for(process)? else { return Ok(()) };
            let again = self.options.restart.applies(ending);
            report(&Report::Ended { ending, again });
            if !again {
                return self.wait_for_close();
            }
            pause = if ran < MIN_STABLE_RUN { pause } else { MIN_RESTART_DELAY };
            let begun = now();
            while let Some(left) = pause.checked_sub(begun.elapsed()) {
                if self.handle_event(left) == Request::Close {
                    return Ok(());
                }
            }
            pause = (pause * 2).min(MAX_RESTART_DELAY);
        }
    }

    fn wait_for_close(&mut self) -> Result<(), String> {
        loop {
            if self.handle_event(POLL_INTERVAL * 4) == Request::Close {
                return Ok(());
            }
            self.reap(None)?;
        }
    }

    /// Waits up to `limit` for an event and handles it. Returns requests that the caller must carry out.
    fn handle_event(&mut self, limit: Duration) -> Request {
        match self.received.recv_timeout(limit) {
            Ok(SupervisorEvent::Start) => return Request::Start,
            Ok(SupervisorEvent::Close) | Err(RecvTimeoutError::Disconnected) => return Request::Close,
            Ok(SupervisorEvent::Line(line)) => report(&Report::Output { line }),
            Ok(SupervisorEvent::Gamepad(change)) => self.set_gamepad(change),
            Ok(SupervisorEvent::Rumble) | Err(RecvTimeoutError::Timeout) => {}
        }
        self.report_rumble();
        Request::None
    }

    fn check_tools(&self) -> Result<(), String> {
        let find = |name: &str| find_program(OsStr::new(name));
        let (server, words) = match self.options.compositor {
            Compositor::X11 => ("Xvfb", "Xvfb, the program's X display, is missing (Debian: apt install xvfb)"),
            Compositor::Sway => ("sway", "sway, the program's Wayland display, is missing (Debian: apt install sway)"),
        };
        if self.options.display.is_none() && find(server).is_none() {
            return Err(words.into());
        }
        let Some(program) = self.options.command.first() else { return Ok(()) };
        if find_program(program).is_none() {
            let name = program.display();
            return Err(format!("there is no program {name}: check its name, or give its path"));
        }
        if self.options.sandbox == Sandbox::Off {
            return Ok(());
        }
        if find("bwrap").is_none() {
            return Err("bubblewrap, which isolates the program from this machine's files, is missing (Debian: apt install bubblewrap); \
                        --program-sandbox off runs the program without it"
                .into());
        }
        if self.options.sandbox == Sandbox::Home && !self.home().is_dir() {
            let name = self.identity.as_ref().map_or_else(String::new, |identity| format!(" {}", identity.name));
            return Err(format!(
                "the home of the user{name}, {}, is no folder, and --program-sandbox home needs one: name a user that has one with \
                 --program-user (only root can), or leave out --program-sandbox",
                self.home().display()
            ));
        }
        let mut test = self.as_user(0, None);
        test.args([
            "bwrap",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
            "--unshare-pid",
            "--",
            "/bin/true",
        ]);
        let output = test.stdin(Stdio::null()).output().map_err(|error| format!("cannot start setpriv: {error}"))?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "bubblewrap cannot make a sandbox on this machine ({}); --program-sandbox off runs the program without one",
                words.trim()
            ));
        }
        Ok(())
    }

    fn home(&self) -> PathBuf {
        let own = || std::env::home_dir().unwrap_or_else(|| PathBuf::from("/"));
        self.identity.as_ref().map_or_else(own, |identity| identity.home.clone())
    }

    /// A command that runs as the program's user, and is killed if this process is.
    fn as_user(&self, niceness: u8, limit: Option<&ProcessorLimit>) -> Command {
        let mut command = limit.map_or_else(|| Command::new("nice"), |limit| limit.join("nice"));
        command.args(["-n", &niceness.to_string(), "setpriv", "--pdeathsig", "KILL"]);
        if let Some(Identity { user, group, .. }) = self.identity {
            command.args([
                "--reuid",
                &user.to_string(),
                "--regid",
                &group.to_string(),
                "--init-groups",
                "--inh-caps=-all",
            ]);
        }
        command
    }

    fn start_program(&self) -> Result<(Option<Pid>, String), String> {
        let program = self.options.command.first().ok_or("no program")?;
        let file = find_program(program).ok_or_else(|| format!("there is no program {}", program.display()))?;
        let mut command = self.as_user(self.niceness, self.limit.as_ref());
        let server = self.server.as_ref().ok_or("no display")?;
        let strict = self.options.sandbox == Sandbox::Strict;
        self.set_environment(&mut command, server);
        let (alsa_configuration, without_alsa) = self.write_alsa_configuration();
        self.set_sound_variables(&mut command, alsa_configuration.as_deref());
        let directory = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let (home, network) = (self.home(), self.options.network);
        let how = match self.options.sandbox {
            Sandbox::Off => {
                command.arg(&file).args(&self.options.command[1..]);
                "no sandbox (--program-sandbox off)".to_owned()
            }
            sandbox => {
                let sound = self.sound_socket();
                let sockets: Vec<PathBuf> =
                    server.files.iter().chain(&sound).chain(&alsa_configuration).cloned().collect();
                let devices = graphics_devices();
                let requirements = Requirements {
                    sandbox,
                    network,
                    devices: &devices,
                    home: &home,
                    directory: &directory,
                    program: &file,
                    sockets: &sockets,
                    input: self.input(),
                };
                command.arg("bwrap").args(sandbox::arguments(&requirements));
                command.args(["/bin/sh", "-c", INIT_SCRIPT, "sh"]).arg(&file).args(&self.options.command[1..]);
                let files = if strict {
                    "system folders read-only, an empty home"
                } else {
                    "system folders read-only, its user's home"
                };
                let reach = if network { "with network" } else { "no network (--program-network on)" };
                format!("{files}, {reach}")
            }
        };
        let user = self.identity.as_ref().map_or_else(String::new, |identity| format!("as {}, ", identity.name));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{} does not start: {error}", file.display()))?;
        self.read_lines(child.stdout.take());
        self.read_lines(child.stderr.take());
        let without_alsa = without_alsa.map_or_else(String::new, |reason| format!(", {reason}"));
        Ok((pid(child.id()), format!("{user}{how}{without_alsa}")))
    }

    fn set_environment(&self, command: &mut Command, server: &DisplayServer) {
        if self.options.sandbox == Sandbox::Strict {
            command.env_clear();
            let passes = |name: &OsStr| {
                PASSED_VARIABLES.iter().any(|passed| name == *passed)
                    || PASSED_PREFIXES.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()))
            };
            command.envs(std::env::vars_os().filter(|(name, _)| passes(name)));
        }
        if self.options.display.is_none() {
            for name in WITHHELD_VARIABLES {
                command.env_remove(name);
            }
        }
        command.env_remove("NEARLIGHT_TOKEN");
        command.envs(server.variables.iter().map(|(name, value)| (name, value)));
        set_locale(command);
        // Assistive technology and portals need D-Bus, which the program does not have.
        command.env("NO_AT_BRIDGE", "1").env("GTK_USE_PORTAL", "0");
        if self.gamepads.is_some() {
            // The sandbox has no udev service, so SDL must scan the devices itself.
            command.env("SDL_JOYSTICK_DISABLE_UDEV", "1");
        }
        let home = if self.options.sandbox == Sandbox::Strict { PathBuf::from(EMPTY_HOME) } else { self.home() };
        command.env("HOME", home);
        if let Some(identity) = &self.identity {
            command.env("USER", &identity.name).env("LOGNAME", &identity.name).env("SHELL", &identity.shell);
        }
        if self.options.sandbox != Sandbox::Off {
            // The default backend of settings is a service that the program does not have.
            command.env("XDG_RUNTIME_DIR", RUNTIME_FOLDER).env("GSETTINGS_BACKEND", "memory");
        }
    }

    /// Limits the program's processor time. Returns a description for the log.
    fn limit_processor(&mut self) -> String {
        let Some(share) = self.options.cpu_share else { return String::new() };
        let percent = share.0.get();
        match ProcessorLimit::new(percent) {
            Ok(limit) => {
                self.limit = Some(limit);
                format!(", at most {percent}% of the processors")
            }
            Err(error) => {
                self.niceness = ((19 * (100 - u16::from(percent)) / 100) as u8).max(DEFAULT_NICENESS);
                let niceness = self.niceness;
                format!(", niceness {niceness} in place of {percent}% of the processors (no control group: {error})")
            }
        }
    }

    /// Starts a thread that passes on lines until the pipe is closed.
    fn read_lines(&self, pipe: Option<impl Read + Send + 'static>) {
        let (Some(pipe), events) = (pipe, self.events.clone()) else { return };
        thread::spawn(move || {
            let mut reader = BufReader::new(pipe);
            let mut line = Vec::new();
            loop {
                line.clear();
                let read = reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
                if read.is_err() || line.is_empty() {
                    return;
                }
                let words = String::from_utf8_lossy(&line).trim_end().to_owned();
                if !words.is_empty() && events.send(SupervisorEvent::Line(words)).is_err() {
                    return;
                }
            }
        });
    }

    /// Waits for the program's end. Returns how it ended and how long it ran; `None` if the server closes before.
    fn wait_for(&mut self, process: Option<Pid>) -> Result<Option<(ProgramExit, Duration)>, String> {
        let (begun, mut ended) = (now(), None);
        let (mut looked, mut interrupted) = (begun, begun);
        loop {
            if self.handle_event(POLL_INTERVAL) == Request::Close {
                return Ok(None);
            }
            if looked.elapsed() < POLL_INTERVAL {
                continue;
            }
            looked = now();
            if interrupted.elapsed() > MAX_BLOCKED_READ {
                self.interrupt_reads();
                interrupted = looked;
            }
            ended = self.reap(process)?.or(ended);
            let others = || descendants().iter().any(|(child, _)| Some(*child) != self.server_process());
            if let Some(ending) = ended.filter(|_| !others()) {
                return Ok(Some((ending, begun.elapsed())));
            }
        }
    }

    fn interrupt_reads(&self) {
        self.gamepads.iter().for_each(ProgramGamepads::interrupt_reads);
    }

    fn server_process(&self) -> Option<Pid> {
        self.server.as_ref().and_then(|server| server.process)
    }

    /// Reaps children that have ended. Returns how `process` ended, if it is among them.
    fn reap(&self, process: Option<Pid>) -> Result<Option<ProgramExit>, String> {
        let mut ended = None;
        while let Ok(Some((child, status))) = wait(WaitOptions::NOHANG) {
            if Some(child) == self.server_process() {
                return Err("the program's display server has ended".into());
            }
            if Some(child) == process {
                let signal = status.terminating_signal().map(|signal| ProgramExit::Signal(signal as u8));
                ended = signal.or(status.exit_status().map(|status| ProgramExit::from_status(status as u8)));
            }
        }
        Ok(ended)
    }

    /// Terminates all processes, then kills those that remain. The display server ends last.
    fn end_all(&mut self) {
        let server = self.server_process();
        let program = |all: Vec<(Pid, bool)>| {
            all.into_iter().filter(move |(child, zombie)| Some(*child) != server && !zombie).collect::<Vec<_>>()
        };
        for (child, _) in program(descendants()) {
            let _ = kill_process(child, Signal::TERM);
        }
        let mut waited = Duration::ZERO;
        loop {
            let _ = self.reap(None);
            let left = program(descendants());
            self.interrupt_reads();
            if left.is_empty() || waited >= TERMINATION_TIMEOUT * 3 {
                break;
            }
            if waited >= TERMINATION_TIMEOUT {
                for (child, _) in left {
                    let _ = kill_process(child, Signal::KILL);
                }
            }
            pause(POLL_INTERVAL);
            waited += POLL_INTERVAL;
        }
        if let Some(server) = server {
            let _ = kill_process(server, Signal::TERM);
            for _ in 0..10 {
                if self.reap(None).is_err() {
                    break;
                }
                pause(POLL_INTERVAL);
            }
            let _ = kill_process(server, Signal::KILL);
        }
        // Dropping them unmounts the gamepads' folder and removes the control group.
        (self.gamepads, self.limit) = (None, None);
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this process waits for other processes")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "this process waits for other processes")]
fn pause(time: Duration) {
    thread::sleep(time);
}

/// Returns the device files of this machine's graphics cards.
fn graphics_devices() -> Vec<PathBuf> {
    let files = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    files.filter(|file| is_graphics_device(&file.file_name())).map(|file| file.path()).collect()
}

/// Writes a report to standard output. An error is ignored, because standard input closes too if the server is gone.
fn report(report: &Report) {
    if let Ok(line) = serde_json::to_string(report) {
        let mut output = io::stdout().lock();
        let _ = writeln!(output, "{line}").and_then(|()| output.flush());
    }
}
