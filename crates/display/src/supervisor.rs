//! The process that has the display server and the program as children: starts them, reports on them, and ends them.
//!
//! It exists because the server gives up the rights that starting programs takes before it opens its ports, and because nothing must be
//! left running when the server ends, however it ends: the supervisor ends everything when its standard input closes.

mod display_server;
mod gamepads;
mod graphics;

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
use crate::gamepads::PadChange;
use crate::host::{Identity, descendants, find_program, identity, pid};
use crate::processor_limit::ProcessorLimit;
use crate::sandbox::{self, EMPTY_HOME, Needs, RUNTIME_FOLDER, Sandbox, is_graphics_device};
use crate::specification::{Compositor, Demand, Ending, ProgramOptions, Report, SOUND_SOCKET, Task};

/// How often it looks for children that have ended.
const LOOK: Duration = Duration::from_millis(50);
/// How long a program may take to end after it was asked to.
const END_LIMIT: Duration = Duration::from_secs(1);
/// The pause before a program is started again; doubled after each run that was shorter than `SHORT_RUN`, up to `LONGEST_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const SHORT_RUN: Duration = Duration::from_secs(5);
/// How long a program may wait within a read of its gamepad: until then, not even a signal ends it.
const LONGEST_READ: Duration = Duration::from_secs(1);
/// Bytes of a line of output; longer lines are cut.
const MAX_LINE: u64 = 2_048;
/// How much the program gives way to encoder and network where processors are short (`nice`). Guess: a quarter of the weight.
const USUAL_NICENESS: u8 = 5;
/// Runs the program as the first process of its PID namespace, and stays until everything that it has started has ended, too: a launcher
/// that ends at once must not take its program with it.
const FIRST_PROCESS: &str = r#""$@"; status=$?; while kill -0 -1 2>/dev/null; do sleep 0.2; done; exit $status"#;
/// Variables that a strictly fenced program gets from the server's environment, besides those of graphics libraries and toolkits.
const PASSED_ON: [&str; 6] = ["PATH", "LANG", "LANGUAGE", "TZ", "TERM", "DRI_PRIME"];
const PASSED_ON_PREFIXES: [&str; 14] = [
    "LC_", "SDL_", "MESA_", "GALLIUM_", "LIBGL_", "LP_", "QT_", "GTK_", "GDK_", "VK_", "__GL_", "__GLX_", "__EGL_",
    "__NV_",
];
/// They lead to the desktop of the user who started the server, or are secrets of the server's.
const WITHHELD: [&str; 9] = [
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
    let (news, heard) = channel();
    let mut lines = BufReader::new(io::stdin()).lines();
    let first = lines.next().and_then(Result::ok);
    let options = match first.and_then(|line| serde_json::from_str(&line).ok()) {
        Some(Task::Supervise(options)) => options,
        Some(Task::NameRenderer) => return name_renderer(),
        None => return ExitCode::FAILURE,
    };
    let orders = news.clone();
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let news = match serde_json::from_str(&line) {
                Ok(Demand::Start) => News::Start,
                Ok(Demand::Gamepad(change)) => News::Gamepad(change),
                Err(_) => continue,
            };
            if orders.send(news).is_err() {
                return;
            }
        }
        let _ = orders.send(News::Close);
    });
    let (server, folder, identity, gamepads, limit) = (None, None, None, None, None);
    let niceness = USUAL_NICENESS;
    let mut supervisor = Supervisor { options, news, heard, server, folder, identity, gamepads, niceness, limit };
    let done = supervisor.run();
    supervisor.end_all();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            report(&Report::Failed { reason });
            ExitCode::FAILURE
        }
    }
}

enum News {
    Start,
    Close,
    Line(String),
    Gamepad(PadChange),
    /// The program wants something of a gamepad's motors.
    Rumble,
}

/// What is not dealt with where it is heard.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heard {
    Start,
    Close,
    Nothing,
}

struct Supervisor {
    options: ProgramOptions,
    news: Sender<News>,
    heard: Receiver<News>,
    server: Option<DisplayServer>,
    /// Holds cookies and sockets; removed at the end.
    folder: Option<PathBuf>,
    /// Whom the program runs as, if not as the server's own user.
    identity: Option<Identity>,
    /// The program's, if it has any.
    gamepads: Option<ProgramGamepads>,
    niceness: u8,
    /// Of the program's share of the processors.
    limit: Option<ProcessorLimit>,
}

impl Supervisor {
    fn run(&mut self) -> Result<(), String> {
        // Whatever loses its parent becomes a child of this process.
        set_child_subreaper(Some(rustix::process::getpid())).map_err(|error| format!("no subreaper: {error}"))?;
        self.identity = identity(self.options.user.as_deref())?;
        self.check_tools()?;
        let gamepads = self.make_gamepads()?;
        let (server, report_of_it) = match (self.options.display.clone(), self.options.compositor) {
            (Some(display), _) => (DisplayServer::existing(display), None),
            (None, Compositor::X11) => self.start_x().map(|(server, report)| (server, Some(report)))?,
            (None, Compositor::Sway) => self.start_sway().map(|(server, report)| (server, Some(report)))?,
        };
        self.server = Some(server);
        if let Some(display) = report_of_it {
            report(&display);
        }
        // The windows must be managed before the first of them is there.
        loop {
            match self.hear(LOOK) {
                Heard::Start => break,
                Heard::Close => return Ok(()),
                Heard::Nothing => {}
            }
        }
        if self.options.command.is_empty() {
            return self.wait_for_the_end();
        }
        let share = self.limit_processor();
        let mut pause = FIRST_PAUSE;
        loop {
            let (process, how) = self.start_program()?;
            let count = self.gamepads.as_ref().map_or(0, ProgramGamepads::count);
            report(&Report::Started { how: format!("{how}{share}, {gamepads}"), gamepads: count });
            let Some((ending, ran)) = self.wait_for(process)? else { return Ok(()) };
            let again = self.options.restart.applies(ending);
            report(&Report::Ended { ending, again });
            if !again {
                return self.wait_for_the_end();
            }
            pause = if ran < SHORT_RUN { pause } else { FIRST_PAUSE };
            let begun = now();
            while let Some(left) = pause.checked_sub(begun.elapsed()) {
                if self.hear(left) == Heard::Close {
                    return Ok(());
                }
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn wait_for_the_end(&mut self) -> Result<(), String> {
        loop {
            if self.hear(LOOK * 4) == Heard::Close {
                return Ok(());
            }
            self.reap(None)?;
        }
    }

    /// Waits for so long at most. Output is passed on and gamepads are set at once.
    fn hear(&mut self, limit: Duration) -> Heard {
        match self.heard.recv_timeout(limit) {
            Ok(News::Start) => return Heard::Start,
            Ok(News::Close) | Err(RecvTimeoutError::Disconnected) => return Heard::Close,
            Ok(News::Line(line)) => report(&Report::Output { line }),
            Ok(News::Gamepad(change)) => self.set_gamepad(change),
            Ok(News::Rumble) | Err(RecvTimeoutError::Timeout) => {}
        }
        self.report_rumble();
        Heard::Nothing
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
        let directory = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let (home, network) = (self.home(), self.options.network);
        let how = match self.options.sandbox {
            Sandbox::Off => {
                command.arg(&file).args(&self.options.command[1..]);
                "no sandbox (--program-sandbox off)".to_owned()
            }
            sandbox => {
                let sound = self.sound_socket();
                let sockets: Vec<PathBuf> = server.files.iter().chain(&sound).cloned().collect();
                let devices = graphics_devices();
                let needs = Needs {
                    sandbox,
                    network,
                    devices: &devices,
                    home: &home,
                    directory: &directory,
                    program: &file,
                    sockets: &sockets,
                    input: self.input(),
                };
                command.arg("bwrap").args(sandbox::arguments(&needs));
                command.args(["/bin/sh", "-c", FIRST_PROCESS, "sh"]).arg(&file).args(&self.options.command[1..]);
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
        Ok((pid(child.id()), format!("{user}{how}")))
    }

    fn set_environment(&self, command: &mut Command, server: &DisplayServer) {
        if self.options.sandbox == Sandbox::Strict {
            command.env_clear();
            let passes = |name: &OsStr| {
                PASSED_ON.iter().any(|passed| name == *passed)
                    || PASSED_ON_PREFIXES.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()))
            };
            command.envs(std::env::vars_os().filter(|(name, _)| passes(name)));
        }
        if self.options.display.is_none() {
            for name in WITHHELD {
                command.env_remove(name);
            }
        }
        command.env_remove("NEARLIGHT_TOKEN");
        command.envs(server.variables.iter().map(|(name, value)| (name, value)));
        // Assistive technology would be reached through D-Bus, which the program does not have.
        command.env("NO_AT_BRIDGE", "1").env("GTK_USE_PORTAL", "0");
        if let Some(socket) = self.sound_socket() {
            command.env("PULSE_SERVER", format!("unix:{}", socket.display()));
        }
        if self.gamepads.is_some() {
            // Its service is not in the sandbox: SDL looks at the devices itself.
            command.env("SDL_JOYSTICK_DISABLE_UDEV", "1");
        }
        let home = if self.options.sandbox == Sandbox::Strict { PathBuf::from(EMPTY_HOME) } else { self.home() };
        command.env("HOME", home);
        if let Some(identity) = &self.identity {
            command.env("USER", &identity.name).env("LOGNAME", &identity.name).env("SHELL", &identity.shell);
        }
        if self.options.sandbox != Sandbox::Off {
            // Settings are kept by a service that the program does not have.
            command.env("XDG_RUNTIME_DIR", RUNTIME_FOLDER).env("GSETTINGS_BACKEND", "memory");
        }
    }

    /// Where the server takes what the program plays; the server has opened it by now.
    fn sound_socket(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(SOUND_SOCKET)).filter(|socket| socket.exists())
    }

    /// Limits the program's share of the processors, and says how.
    fn limit_processor(&mut self) -> String {
        let Some(share) = self.options.cpu_share else { return String::new() };
        let percent = share.0.get();
        match ProcessorLimit::new(percent) {
            Ok(limit) => {
                self.limit = Some(limit);
                format!(", at most {percent}% of the processors")
            }
            Err(error) => {
                self.niceness = ((19 * (100 - u16::from(percent)) / 100) as u8).max(USUAL_NICENESS);
                let niceness = self.niceness;
                format!(", niceness {niceness} in place of {percent}% of the processors (no control group: {error})")
            }
        }
    }

    /// Passes lines on until the pipe is closed.
    fn read_lines(&self, pipe: Option<impl Read + Send + 'static>) {
        let (Some(pipe), news) = (pipe, self.news.clone()) else { return };
        thread::spawn(move || {
            let mut reader = BufReader::new(pipe);
            let mut line = Vec::new();
            loop {
                line.clear();
                let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
                if read.is_err() || line.is_empty() {
                    return;
                }
                let words = String::from_utf8_lossy(&line).trim_end().to_owned();
                if !words.is_empty() && news.send(News::Line(words)).is_err() {
                    return;
                }
            }
        });
    }

    /// How the program ended and how long it ran; none if the server closes before.
    fn wait_for(&mut self, process: Option<Pid>) -> Result<Option<(Ending, Duration)>, String> {
        let (begun, mut ended) = (now(), None);
        let (mut looked, mut interrupted) = (begun, begun);
        loop {
            if self.hear(LOOK) == Heard::Close {
                return Ok(None);
            }
            if looked.elapsed() < LOOK {
                continue;
            }
            looked = now();
            if interrupted.elapsed() > LONGEST_READ {
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

    /// Takes note of children that have ended. Returns how this one did.
    fn reap(&self, process: Option<Pid>) -> Result<Option<Ending>, String> {
        let mut ended = None;
        while let Ok(Some((child, status))) = wait(WaitOptions::NOHANG) {
            if Some(child) == self.server_process() {
                return Err("the program's display server has ended".into());
            }
            if Some(child) == process {
                let signal = status.terminating_signal().map(|signal| Ending::Signal(signal as u8));
                ended = signal.or(status.exit_status().map(|status| Ending::from_status(status as u8)));
            }
        }
        Ok(ended)
    }

    /// Asks everything to end, then kills it, the display server last.
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
            if left.is_empty() || waited >= END_LIMIT * 3 {
                break;
            }
            if waited >= END_LIMIT {
                for (child, _) in left {
                    let _ = kill_process(child, Signal::KILL);
                }
            }
            pause(LOOK);
            waited += LOOK;
        }
        if let Some(server) = server {
            let _ = kill_process(server, Signal::TERM);
            for _ in 0..10 {
                if self.reap(None).is_err() {
                    break;
                }
                pause(LOOK);
            }
            let _ = kill_process(server, Signal::KILL);
        }
        // Unmounts the one, removes the other.
        (self.gamepads, self.limit) = (None, None);
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this process waits for others")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "this process waits for others")]
fn pause(time: Duration) {
    thread::sleep(time);
}

/// Those of this machine.
fn graphics_devices() -> Vec<PathBuf> {
    let files = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    files.filter(|file| is_graphics_device(&file.file_name())).map(|file| file.path()).collect()
}

/// Standard output is the server's: if it is gone, standard input ends as well.
fn report(report: &Report) {
    if let Ok(line) = serde_json::to_string(report) {
        let mut output = io::stdout().lock();
        let _ = writeln!(output, "{line}").and_then(|()| output.flush());
    }
}
