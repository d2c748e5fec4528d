//! The process that has the X server and the program as children: starts them, reports on them, and ends them.
//!
//! It exists because the server gives up the rights that starting programs takes before it opens its ports, and because nothing must be
//! left running when the server ends, however it ends: the supervisor ends everything when its standard input closes.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, wait};

use crate::connection::{Place, x_socket};
use crate::gamepad::PadState;
use crate::gamepad_file::GamepadFile;
use crate::host::{Identity, authority, descendants, find_program, identity, pid, random};
use crate::processor_limit::ProcessorLimit;
use crate::sandbox::{self, EMPTY_HOME, Needs, RUNTIME_FOLDER, Sandbox};
use crate::specification::{Demand, Ending, ProgramOptions, Report, SOUND_SOCKET};

/// How often it looks for children that have ended.
const LOOK: Duration = Duration::from_millis(50);
/// Numbers of displays, above those of desktops and of X servers that look for a free one, which begin at 0.
const DISPLAYS: Range<u32> = 64..1_024;
/// Displays that are tried: of those that look free, some may be taken at the same moment, or have sockets left by other users.
const MOST_DISPLAYS: usize = 20;
/// How long the X server may take to start. A cold disk included.
const X_LIMIT: Duration = Duration::from_secs(10);
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
            let news = match serde_json::from_str(&line) {
                Ok(Demand::Start) => News::Start,
                Ok(Demand::Gamepad(state)) => News::Gamepad(state),
                Err(_) => continue,
            };
            if orders.send(news).is_err() {
                return;
            }
        }
        let _ = orders.send(News::Close);
    });
    let (x, folder, identity, gamepad, limit) = (None, None, None, None, None);
    let niceness = USUAL_NICENESS;
    let mut supervisor = Supervisor { options, news, heard, x, folder, identity, gamepad, niceness, limit };
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
    Gamepad(PadState),
}

/// What is not dealt with where it is heard.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heard {
    Start,
    Close,
    Nothing,
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
    /// The program's, if it has one.
    gamepad: Option<GamepadFile>,
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
            match self.hear(LOOK) {
                Heard::Start => break,
                Heard::Close => return Ok(()),
                Heard::Nothing => {}
            }
        }
        if self.options.command.is_empty() {
            return self.wait_for_the_end();
        }
        let (share, gamepads) = (self.limit_processor(), self.mount_gamepad());
        let mut pause = FIRST_PAUSE;
        loop {
            let (process, how) = self.start_program()?;
            report(&Report::Started { how: format!("{how}{share}, {gamepads}") });
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

    fn wait_for_the_end(&self) -> Result<(), String> {
        loop {
            if self.hear(LOOK * 4) == Heard::Close {
                return Ok(());
            }
            self.reap(None)?;
        }
    }

    /// Waits for so long at most. Output is passed on and the gamepad is set at once.
    fn hear(&self, limit: Duration) -> Heard {
        match self.heard.recv_timeout(limit) {
            Ok(News::Start) => return Heard::Start,
            Ok(News::Close) | Err(RecvTimeoutError::Disconnected) => return Heard::Close,
            Ok(News::Line(line)) => report(&Report::Output { line }),
            Ok(News::Gamepad(state)) => {
                if let Some(Err(error)) = self.gamepad.as_ref().map(|gamepad| gamepad.set(state)) {
                    report(&Report::Output { line: format!("the gamepad cannot be set: {error}") });
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        Heard::Nothing
    }

    /// Words about whether the program gets a gamepad.
    fn mount_gamepad(&mut self) -> String {
        if self.options.sandbox == Sandbox::Off {
            return "no gamepads (they need a sandbox)".into();
        }
        let Some(folder) = &self.folder else { return "no gamepads (they need a display of its own)".into() };
        match GamepadFile::mount(&folder.join("input")) {
            Ok(gamepad) => {
                self.gamepad = Some(gamepad);
                "one gamepad".into()
            }
            Err(error) => format!("no gamepads (a file system in user space cannot be mounted: {error})"),
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
        let mut said = "all numbers of displays are taken".to_owned();
        for number in DISPLAYS.filter(|number| UnixStream::connect(x_socket(*number)).is_err()).take(MOST_DISPLAYS) {
            match self.start_x_at(number, &cookie, &cookie_file)? {
                Ok(process) => {
                    let (display, socket) = (format!(":{number}").into(), Some(x_socket(number)));
                    let x = XServer { process, display, cookie_file: Some(cookie_file), socket };
                    return Ok((x, Some(Report::Display { number, cookie, folder })));
                }
                Err(words) => said = words,
            }
        }
        Err(format!("Xvfb did not start: {said}"))
    }

    /// Starts the X server for this display and waits until it answers to the cookie; or what it said when it ended.
    ///
    /// The number is chosen here: with `-displayfd`, Xvfb takes no lock, and as root removes the socket of whoever has the first one.
    fn start_x_at(
        &self,
        number: u32,
        cookie: &[u8],
        cookie_file: &Path,
    ) -> Result<Result<Option<Pid>, String>, String> {
        // Xvfb takes no size above that which it was started with.
        let (width, height) = self.options.largest.unwrap_or(self.options.size);
        let mut command = self.as_user(0, None);
        command.args(["Xvfb", &format!(":{number}"), "-screen", "0", &format!("{width}x{height}x24")]);
        command.args(["-nolisten", "tcp", "-nolisten", "local", "-noreset", "-auth"]).arg(cookie_file);
        // Repetition of held keys as on a desktop.
        command.args(["-ardelay", "500", "-arinterval", "33"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("Xvfb does not start: {error}"))?;
        let process = pid(child.id());
        self.read_lines(child.stderr.take());
        let place = Place::Own { number, cookie: cookie.to_vec() };
        let begun = now();
        loop {
            let ended = self.reap(process)?.is_some();
            if !ended && place.connect().is_ok() {
                return Ok(Ok(process));
            }
            if ended || begun.elapsed() > X_LIMIT {
                break;
            }
            pause(LOOK / 5);
        }
        if let Some(process) = process {
            let _ = kill_process(process, Signal::KILL);
        }
        // Its last words may still be on their way.
        pause(LOOK);
        let lines =
            self.heard.try_iter().filter_map(|news| if let News::Line(line) = news { Some(line) } else { None });
        Ok(Err(lines.last().unwrap_or_else(|| "it printed nothing".into())))
    }

    fn start_program(&self) -> Result<(Option<Pid>, String), String> {
        let program = self.options.command.first().ok_or("no program")?;
        let file = find_program(program).ok_or_else(|| format!("there is no program {}", program.display()))?;
        let mut command = self.as_user(self.niceness, self.limit.as_ref());
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
                let needs = Needs {
                    sandbox,
                    network,
                    home: &home,
                    directory: &directory,
                    program: &file,
                    sockets: &sockets,
                    input: self.gamepad.as_ref().map(GamepadFile::folder),
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
        if self.gamepad.is_some() {
            // Its service is not in the sandbox: SDL looks at the devices itself.
            command.env("SDL_JOYSTICK_DISABLE_UDEV", "1");
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
    fn wait_for(&self, process: Option<Pid>) -> Result<Option<(Ending, Duration)>, String> {
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
            let others = || descendants().iter().any(|(child, _)| Some(*child) != self.x_process());
            if let Some(ending) = ended.filter(|_| !others()) {
                return Ok(Some((ending, begun.elapsed())));
            }
        }
    }

    fn interrupt_reads(&self) {
        self.gamepad.iter().for_each(GamepadFile::interrupt_reads);
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
        // Unmounts the one, removes the other.
        (self.gamepad, self.limit) = (None, None);
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
