//! The process that is the parent of the display server and the program: it starts them, reports on them, and ends them.
//!
//! The server gives up the privileges for starting programs before it opens its ports, so a separate process is needed. It also makes sure
//! that nothing keeps running when the server ends, in whatever way: the supervisor ends everything when its standard input closes.

pub(crate) mod control_group;
mod display_server;
pub(crate) mod environment;
mod fence;
mod gamepads;
mod graphics;
pub(crate) mod host;
mod launcher;
mod limits;
mod locale;
mod memory_namespace;
pub(crate) mod output_limit;
mod program;
pub(crate) mod sandbox;
mod sound;
pub(crate) mod users;
pub(crate) mod visible_files;

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, wait};

use self::display_server::{DisplayServer, check_socket_folder};
use self::fence::NetworkFence;
use self::gamepads::ProgramGamepads;
use self::graphics::name_renderer;
use self::launcher::Launcher;
use self::limits::{ProgramLimits, SharedOutputLimit};
use self::program::{Bubblewrap, RunningProgram};
use crate::clock::{now, pause};
use crate::input::gamepads::PadChange;
use crate::specification::{Compositor, ProgramExit, ProgramOptions, Report, SupervisorCommand, Task};
use crate::supervisor::host::{descendants, find_program};
use crate::supervisor::users::{ProgramUser, identity};

/// Interval of the checks for children that have ended. Guess: unnoticeable, and 20 checks a second cost nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time that processes have to end after SIGTERM before they are killed. Guess: programs that react to SIGTERM at all end within a second.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(1);
/// Time after SIGTERM after which nothing is waited for: the kernel kills what is left.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// Time that the display server has to end. Guess: Xvfb ends within a few milliseconds.
const DISPLAY_TIMEOUT: Duration = Duration::from_millis(250);
/// Delay before a program is restarted. It doubles after each run shorter than `MIN_STABLE_RUN`. Guess: viewers barely notice it.
const MIN_RESTART_DELAY: Duration = Duration::from_secs(1);
/// Longest delay before a program is restarted. Guess: a program that keeps crashing then costs little.
const MAX_RESTART_DELAY: Duration = Duration::from_secs(30);
/// Length of a run after which the delay is reset. Guess: programs that cannot start end earlier.
const MIN_STABLE_RUN: Duration = Duration::from_secs(5);
/// Maximum time that a program may block in a read of its gamepad, during which not even a signal ends it.
const MAX_BLOCKED_READ: Duration = Duration::from_secs(1);
/// Maximum time for which the end of a program waits for its output to be read. Guess: a process that is no descendant may hold the pipe.
const MAX_OUTPUT_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of events that wait for the supervisor. The threads that read output and commands wait beyond it. Guess: it handles
/// thousands a second.
const MAX_QUEUED_EVENTS: usize = 64;
/// The program's niceness, so that encoder and network have priority. Guess: it then has about a third of their weight.
const DEFAULT_NICENESS: u8 = 5;

/// Reads the options from the first line of standard input, runs the program, and reports on standard output, until standard input ends.
pub fn supervise() -> ExitCode {
    let (events, received) = sync_channel(MAX_QUEUED_EVENTS);
    let closing = Arc::new(AtomicBool::new(false));
    let mut lines = BufReader::new(io::stdin()).lines();
    let first = lines.next().and_then(Result::ok);
    let options = match first.and_then(|line| serde_json::from_str(&line).ok()) {
        Some(Task::Supervise(options)) => options,
        Some(Task::NameRenderer) => return name_renderer(),
        None => return ExitCode::FAILURE,
    };
    let (sender, closes) = (events.clone(), Arc::clone(&closing));
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
        // Whatever waits in the queue does not delay the end.
        closes.store(true, Ordering::Relaxed);
        let _ = sender.try_send(SupervisorEvent::Close);
    });
    let mut supervisor = Supervisor::new(options, (events, received), closing);
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
    events: SyncSender<SupervisorEvent>,
    received: Receiver<SupervisorEvent>,
    /// Whether standard input has closed.
    closing: Arc<AtomicBool>,
    server: Option<DisplayServer>,
    /// The folder with cookies and sockets. It is removed at the end.
    folder: Option<PathBuf>,
    user: ProgramUser,
    /// The program's gamepads, if it can have any.
    gamepads: Option<ProgramGamepads>,
    limits: ProgramLimits,
    output: Arc<SharedOutputLimit>,
    launcher: Option<Launcher>,
    fence: NetworkFence,
    bubblewrap: Bubblewrap,
    /// Lines for the log that follow the report that the display is ready.
    notes: Vec<String>,
}

impl Supervisor {
    fn new(
        options: ProgramOptions,
        (events, received): (SyncSender<SupervisorEvent>, Receiver<SupervisorEvent>),
        closing: Arc<AtomicBool>,
    ) -> Self {
        Self {
            limits: ProgramLimits::new(&options),
            options,
            events,
            received,
            closing,
            server: None,
            folder: None,
            user: ProgramUser::Own,
            gamepads: None,
            output: Arc::new(SharedOutputLimit::new()),
            launcher: None,
            fence: NetworkFence::default(),
            bubblewrap: Bubblewrap::default(),
            notes: Vec::new(),
        }
    }

    fn run(&mut self) -> Result<(), String> {
        // Orphaned descendants become children of this process.
        set_child_subreaper(Some(rustix::process::getpid())).map_err(|error| format!("no subreaper: {error}"))?;
        self.user = identity(self.options.user.as_deref())?;
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
        for line in std::mem::take(&mut self.notes) {
            report(&Report::Output { line });
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
        let files = self.find_files()?;
        let limits = self.limit_resources();
        let mut pause = MIN_RESTART_DELAY;
        loop {
            let program = self.start_program(&files)?;
            let count = self.gamepads.as_ref().map_or(0, ProgramGamepads::count);
            let how = format!("{}{limits}, {gamepads}", program.description);
            report(&Report::Started { how, gamepads: count });
            let Some((ending, ran)) = self.wait_for(&program)? else { return Ok(()) };
            self.hint_after(ending, ran < MIN_STABLE_RUN);
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
        if self.closing.load(Ordering::Relaxed) {
            return Request::Close;
        }
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

    fn check_display_server(&self) -> Result<(), String> {
        let (server, words) = match self.options.compositor {
            Compositor::X11 => ("Xvfb", "Xvfb, the program's X display, is missing (Debian: apt install xvfb)"),
            Compositor::Sway => ("sway", "sway, the program's Wayland display, is missing (Debian: apt install sway)"),
        };
        find_program(OsStr::new(server)).ok_or(words)?;
        if self.options.compositor == Compositor::X11 { check_socket_folder() } else { Ok(()) }
    }

    /// Waits for the program's end and reports what it has printed until then. Returns how it ended and how long it ran; `None` if the server
    /// closes before.
    fn wait_for(&mut self, program: &RunningProgram) -> Result<Option<(ProgramExit, Duration)>, String> {
        let (begun, mut ended, mut over_since) = (now(), None, None);
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
            ended = self.reap(program.process)?.or(ended);
            let others = || descendants().iter().any(|(child, _)| Some(*child) != self.server_process());
            let Some(ending) = ended.filter(|_| !others()) else { continue };
            let over_since = over_since.get_or_insert(looked);
            if program.is_output_read() || over_since.elapsed() >= MAX_OUTPUT_DELAY {
                let ran = begun.elapsed();
                return Ok(if self.handle_queued() == Request::Close { None } else { Some((ending, ran)) });
            }
        }
    }

    /// Handles the events that wait in the queue.
    fn handle_queued(&mut self) -> Request {
        for _ in 0..MAX_QUEUED_EVENTS {
            if self.handle_event(Duration::ZERO) == Request::Close {
                return Request::Close;
            }
        }
        Request::None
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
        let begun = now();
        loop {
            let _ = self.reap(None);
            let left = program(descendants());
            self.interrupt_reads();
            if left.is_empty() || begun.elapsed() >= KILL_TIMEOUT {
                break;
            }
            if begun.elapsed() >= TERMINATION_TIMEOUT {
                self.limits.kill();
                for (child, _) in left {
                    let _ = kill_process(child, Signal::KILL);
                }
            }
            pause(POLL_INTERVAL);
        }
        if let Some(server) = server {
            let _ = kill_process(server, Signal::TERM);
            let begun = now();
            while self.reap(None).is_ok() && begun.elapsed() < DISPLAY_TIMEOUT {
                pause(POLL_INTERVAL / 5);
            }
            let _ = kill_process(server, Signal::KILL);
        }
        // Dropping them unmounts the gamepads' folder and removes the control groups.
        self.gamepads = None;
        self.limits = ProgramLimits::new(&self.options);
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Writes a report to standard output. An error is ignored, because standard input closes too if the server is gone.
fn report(report: &Report) {
    if let Ok(line) = serde_json::to_string(report) {
        let mut output = io::stdout().lock();
        let _ = writeln!(output, "{line}").and_then(|()| output.flush());
    }
}
