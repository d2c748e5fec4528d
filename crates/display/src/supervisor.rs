//! The process that has the X server and the program as children: starts them, reports on them, and ends them.
//!
//! It exists because the server gives up the rights that starting programs takes before it opens its ports, and because nothing must be
//! left running when the server ends, however it ends: the supervisor ends everything when its standard input closes.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, chown};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, wait};

use crate::host::{Identity, authority, descendants, find_program, identity, limit_by_cgroup, pid, random};
use crate::sandbox::{self, EMPTY_HOME, Needs, RUNTIME_FOLDER, Sandbox};
use crate::specification::{Ending, ProgramOptions, Report, SOUND_SOCKET, START};

/// How often it looks for children that have ended.
const LOOK: Duration = Duration::from_millis(50);
/// How long the X server may take to start. A cold disk included.
const X_LIMIT: Duration = Duration::from_secs(10);
/// How long a program may take to end after it was asked to.
const END_LIMIT: Duration = Duration::from_secs(1);
/// The pause before a program is started again; doubled after each run that was shorter than `SHORT_RUN`, up to `LONGEST_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const SHORT_RUN: Duration = Duration::from_secs(5);
/// Bytes of a line of output; longer lines are cut.
const MAX_LINE: u64 = 2_048;
/// How much the program gives way to encoder and network where processors are short (`nice`). Guess: a quarter of the weight.
const USUAL_NICENESS: u8 = 5;
/// Runs the program as the first process of its PID namespace, and stays until everything that it has started has ended, too: a launcher
/// that ends at once must not take its program with it.
const FIRST_PROCESS: &str = r#""$@"; status=$?; while kill -0 -1 2>/dev/null; do sleep 0.2; done; exit $status"#;
/// Variables that a strictly fenced program gets from the server's environment, besides those of graphics libraries and toolkits.
const PASSED_ON: [&str; 5] = ["PATH", "LANG", "LANGUAGE", "TZ", "TERM"];
const PASSED_ON_PREFIXES: [&str; 10] =
    ["LC_", "SDL_", "MESA_", "GALLIUM_", "LIBGL_", "LP_", "QT_", "GTK_", "GDK_", "__GL_"];
/// They lead to the desktop of the user who started the server, or are secrets of the server's.
const WITHHELD: [&str; 6] = [
    "WAYLAND_DISPLAY",
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
    let Some(options) = first.and_then(|line| serde_json::from_str::<ProgramOptions>(&line).ok()) else {
        return ExitCode::FAILURE;
    };
    let orders = news.clone();
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if line == START && orders.send(News::Start).is_err() {
                return;
            }
        }
        let _ = orders.send(News::Close);
    });
    let mut supervisor = Supervisor { options, news, heard, x: None, folder: None, identity: None };
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
}

struct XServer {
    process: Option<Pid>,
    display: OsString,
    cookie_file: Option<PathBuf>,
    socket: Option<PathBuf>,
}

struct Supervisor {
    options: ProgramOptions,
    news: Sender<News>,
    heard: Receiver<News>,
    x: Option<XServer>,
    /// Holds the cookie; removed at the end.
    folder: Option<PathBuf>,
    /// Whom the program runs as, if not as the server's own user.
    identity: Option<Identity>,
}

impl Supervisor {
    fn run(&mut self) -> Result<(), String> {
        // Whatever loses its parent becomes a child of this process.
        set_child_subreaper(Some(rustix::process::getpid())).map_err(|error| format!("no subreaper: {error}"))?;
        self.identity = identity(self.options.user.as_deref())?;
        self.check_tools()?;
        let (x, report_of_it) = match self.options.display.clone() {
            Some(display) => (existing(display), None),
            None => self.start_x()?,
        };
        self.x = Some(x);
        if let Some(display) = report_of_it {
            report(&display);
        }
        // The windows must be managed before the first of them is there.
        loop {
            match self.heard.recv() {
                Ok(News::Start) => break,
                Ok(News::Close) | Err(_) => return Ok(()),
                Ok(News::Line(line)) => report(&Report::Output { line }),
            }
        }
        if self.options.command.is_empty() {
            return self.wait_for_the_end();
        }
        let mut pause = FIRST_PAUSE;
        loop {
            let (process, how) = self.start_program()?;
            report(&Report::Started { how });
            let Some((ending, ran)) = self.wait_for(process)? else { return Ok(()) };
            let again = self.options.restart.applies(ending);
            report(&Report::Ended { ending, again });
            if !again {
                return self.wait_for_the_end();
            }
            pause = if ran < SHORT_RUN { pause } else { FIRST_PAUSE };
            match self.heard.recv_timeout(pause) {
                Ok(News::Close) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                _ => pause = (pause * 2).min(LONGEST_PAUSE),
            }
        }
    }

    fn wait_for_the_end(&self) -> Result<(), String> {
        loop {
            match self.heard.recv_timeout(LOOK * 4) {
                Ok(News::Close) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Ok(News::Line(line)) => report(&Report::Output { line }),
                Ok(News::Start) | Err(RecvTimeoutError::Timeout) => {}
            }
            self.reap(None)?;
        }
    }

    fn check_tools(&self) -> Result<(), String> {
        let find = |name: &str| find_program(OsStr::new(name));
        if self.options.display.is_none() && find("Xvfb").is_none() {
            return Err("Xvfb, the program's X display, is missing (Debian: apt install xvfb)".into());
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
            let (home, name) = (self.home(), self.identity.as_ref().map_or("this user", |identity| &identity.name));
            return Err(format!("{name} has no home {}: name another user with --program-user", home.display()));
        }
        let mut test = self.as_user(0);
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
    fn as_user(&self, niceness: u8) -> Command {
        let mut command = Command::new("nice");
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

    fn start_x(&mut self) -> Result<(XServer, Option<Report>), String> {
        let wrong = |error: io::Error| format!("cannot prepare the display: {error}");
        let cookie = random(16).map_err(wrong)?;
        let name = random(8).map_err(wrong)?.into_iter().fold(0_u64, |name, byte| name << 8 | u64::from(byte));
        let folder = std::env::temp_dir().join(format!("nearlight-{name:016x}"));
        std::fs::DirBuilder::new().mode(0o700).create(&folder).map_err(wrong)?;
        self.folder = Some(folder.clone());
        let cookie_file = folder.join("Xauthority");
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&cookie_file).map_err(wrong)?;
        file.write_all(&authority(&cookie)).map_err(wrong)?;
        if let Some(Identity { user, group, .. }) = self.identity {
            for path in [&folder, &cookie_file] {
                chown(path, Some(user), Some(group)).map_err(wrong)?;
            }
        }
        let (width, height) = self.options.size;
        let mut command = self.as_user(0);
        command.args(["Xvfb", "-displayfd", "1", "-screen", "0", &format!("{width}x{height}x24")]);
        command.args(["-nolisten", "tcp", "-nolisten", "local", "-noreset", "-auth"]).arg(&cookie_file);
        // Repetition of held keys as on a desktop.
        command.args(["-ardelay", "500", "-arinterval", "33"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("Xvfb does not start: {error}"))?;
        let process = pid(child.id());
        let (number_to, number) = channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                let mut line = String::new();
                // What is no number is reported below.
                let _ = BufReader::new(stdout).read_line(&mut line);
                let _ = number_to.send(line.trim().parse::<u32>().ok());
            });
        }
        self.read_lines(child.stderr.take());
        let Some(number) = number.recv_timeout(X_LIMIT).ok().flatten() else {
            let said: Vec<String> = self
                .heard
                .try_iter()
                .filter_map(|news| if let News::Line(line) = news { Some(line) } else { None })
                .collect();
            return Err(format!("Xvfb did not start: {}", said.last().map_or("it printed nothing", String::as_str)));
        };
        let socket = PathBuf::from(format!("/tmp/.X11-unix/X{number}"));
        let display = OsString::from(format!(":{number}"));
        let x = XServer { process, display, cookie_file: Some(cookie_file), socket: Some(socket) };
        Ok((x, Some(Report::Display { number, cookie, folder })))
    }

    fn start_program(&self) -> Result<(Option<Pid>, String), String> {
        let program = self.options.command.first().ok_or("no program")?;
        let file = find_program(program).ok_or_else(|| format!("there is no program {}", program.display()))?;
        let (niceness, share) = self.limit_processor();
        let mut command = self.as_user(niceness);
        let x = self.x.as_ref().ok_or("no display")?;
        let strict = self.options.sandbox == Sandbox::Strict;
        self.set_environment(&mut command, x);
        let directory = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let (home, network) = (self.home(), self.options.network);
        let how = match self.options.sandbox {
            Sandbox::Off => {
                command.arg(&file).args(&self.options.command[1..]);
                "no sandbox (--program-sandbox off)".to_owned()
            }
            sandbox => {
                let sound = self.sound_socket();
                let sockets: Vec<PathBuf> = x.socket.iter().chain(&x.cookie_file).chain(&sound).cloned().collect();
                let needs =
                    Needs { sandbox, network, home: &home, directory: &directory, program: &file, sockets: &sockets };
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
        Ok((pid(child.id()), format!("{user}{how}{share}")))
    }

    fn set_environment(&self, command: &mut Command, x: &XServer) {
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
        command.env("DISPLAY", &x.display).env("XDG_SESSION_TYPE", "x11");
        // Assistive technology would be reached through D-Bus, which the program does not have.
        command.env("NO_AT_BRIDGE", "1").env("GTK_USE_PORTAL", "0");
        if let Some(file) = &x.cookie_file {
            command.env("XAUTHORITY", file);
        }
        if let Some(socket) = self.sound_socket() {
            command.env("PULSE_SERVER", format!("unix:{}", socket.display()));
        }
        let home = if self.options.sandbox == Sandbox::Strict { PathBuf::from(EMPTY_HOME) } else { self.home() };
        command.env("HOME", home);
        if let Some(identity) = &self.identity {
            command.env("USER", &identity.name).env("LOGNAME", &identity.name);
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

    /// The program's niceness, and words about its share of the processors.
    fn limit_processor(&self) -> (u8, String) {
        let Some(share) = self.options.cpu_share else { return (USUAL_NICENESS, String::new()) };
        let percent = share.0.get();
        match limit_by_cgroup(percent) {
            Ok(()) => (USUAL_NICENESS, format!(", at most {percent}% of the processors")),
            Err(error) => {
                let niceness = (19 * (100 - u16::from(percent)) / 100) as u8;
                let words = format!(
                    ", niceness {niceness} in place of {percent}% of the processors (no control group: {error})"
                );
                (niceness.max(1), words)
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
    fn wait_for(&self, process: Option<Pid>) -> Result<Option<(Ending, Duration)>, String> {
        let (mut ended, mut ran) = (None, Duration::ZERO);
        loop {
            match self.heard.recv_timeout(LOOK) {
                Ok(News::Close) | Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Ok(News::Line(line)) => {
                    report(&Report::Output { line });
                    continue;
                }
                Ok(News::Start) => {}
                Err(RecvTimeoutError::Timeout) => ran += LOOK,
            }
            ended = self.reap(process)?.or(ended);
            let others = || descendants().iter().any(|(child, _)| Some(*child) != self.x_process());
            if let Some(ending) = ended.filter(|_| !others()) {
                return Ok(Some((ending, ran)));
            }
        }
    }

    fn x_process(&self) -> Option<Pid> {
        self.x.as_ref().and_then(|x| x.process)
    }

    /// Takes note of children that have ended. Returns how this one did.
    fn reap(&self, process: Option<Pid>) -> Result<Option<Ending>, String> {
        let mut ended = None;
        while let Ok(Some((child, status))) = wait(WaitOptions::NOHANG) {
            if Some(child) == self.x_process() {
                return Err("the program's X server has ended".into());
            }
            if Some(child) == process {
                let signal = status.terminating_signal().map(|signal| Ending::Signal(signal as u8));
                ended = signal.or(status.exit_status().map(|status| Ending::from_status(status as u8)));
            }
        }
        Ok(ended)
    }

    /// Asks everything to end, then kills it, the X server last.
    fn end_all(&mut self) {
        let x = self.x_process();
        let program = |all: Vec<(Pid, bool)>| {
            all.into_iter().filter(move |(child, zombie)| Some(*child) != x && !zombie).collect::<Vec<_>>()
        };
        for (child, _) in program(descendants()) {
            let _ = kill_process(child, Signal::TERM);
        }
        let mut waited = Duration::ZERO;
        loop {
            let _ = self.reap(None);
            let left = program(descendants());
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
        if let Some(x) = x {
            let _ = kill_process(x, Signal::TERM);
            for _ in 0..10 {
                if self.reap(None).is_err() {
                    break;
                }
                pause(LOOK);
            }
            let _ = kill_process(x, Signal::KILL);
        }
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this process waits for others")]
fn pause(time: Duration) {
    thread::sleep(time);
}

fn existing(display: String) -> XServer {
    XServer {
        process: None,
        display: display.into(),
        cookie_file: std::env::var_os("XAUTHORITY").map(PathBuf::from),
        socket: None,
    }
}

/// Standard output is the server's: if it is gone, standard input ends as well.
fn report(report: &Report) {
    if let Ok(line) = serde_json::to_string(report) {
        let mut output = io::stdout().lock();
        let _ = writeln!(output, "{line}").and_then(|()| output.flush());
    }
}
