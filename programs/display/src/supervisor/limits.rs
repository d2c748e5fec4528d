//! Limits of the program's processors, memory, processes and output.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nearlight_units::{Bytes, Span, Time, lock};

use super::{DEFAULT_NICENESS, Supervisor, SupervisorEvent};
use crate::clock::{now, pause};
use crate::specification::ProgramOptions;
use crate::supervisor::control_group::{ControlGroups, Limit};
use crate::supervisor::host::{machine_memory, threads_of};
use crate::supervisor::output_limit::{OutputLimit, Verdict};
use crate::supervisor::users::ProgramUser;

/// Maximum number of bytes of a line of output. Longer lines are split.
const MAX_LINE_BYTES: u64 = 2_048;
/// After so many bytes of output that are not logged, reading pauses for so long: a program that prints more than about a megabyte a second waits,
/// and costs the supervisor little.
const UNLOGGED_BYTES: usize = 64 << 10;
const UNLOGGED_PAUSE: Duration = Duration::from_millis(50);

/// The limits of a program.
pub(super) struct ProgramLimits {
    groups: ControlGroups,
    niceness: u8,
    /// The most memory, which is also that of the display server.
    pub(super) memory: Bytes,
    /// Arguments of `prlimit` for what control groups do not limit here.
    process_limits: Vec<OsString>,
}

impl ProgramLimits {
    /// Returns limits without control groups, until [`Supervisor::limit_resources`] has made them.
    pub(super) fn new(options: &ProgramOptions) -> Self {
        let memory = options.memory.of(machine_memory().unwrap_or(Bytes::new(i64::MAX as u64)));
        Self { groups: ControlGroups::default(), niceness: DEFAULT_NICENESS, memory, process_limits: Vec::new() }
    }

    /// Returns a command that runs what follows it within the limits. `prefix` are words that are run first, within the groups.
    pub(super) fn begin(&self, prefix: &[OsString]) -> Command {
        let words = [OsString::from("nice"), "-n".into(), self.niceness.to_string().into()];
        let mut words = prefix.iter().cloned().chain(words);
        let first = words.next().unwrap_or_default();
        let mut command = self.groups.join(&first);
        command.args(words);
        if !self.process_limits.is_empty() {
            command.arg("prlimit").args(&self.process_limits);
        }
        command
    }

    pub(super) fn kill(&self) {
        self.groups.kill();
    }
}

/// Returns the words that limit the memory of a process alone. Reservations that are not used do not count.
pub(super) fn data_limit(memory: Bytes) -> OsString {
    format!("--data={}", memory.get()).into()
}

impl Supervisor {
    /// Limits the program's resources. Returns a description for the log.
    pub(super) fn limit_resources(&mut self) -> String {
        let (memory, processes) = (self.limits.memory, self.options.processes.get());
        let share = self.options.cpu_share.map(|share| Limit::Processors(share.0.get()));
        let wanted: Vec<Limit> =
            share.into_iter().chain([Limit::Memory(memory), Limit::Processes(processes)]).collect();
        let (groups, refused) = ControlGroups::new(&wanted);
        self.limits.groups = groups;
        let mut words = Vec::new();
        for limit in wanted {
            let refusal = refused.iter().find(|(refused, _)| *refused == limit).map(|(_, error)| error);
            words.push(match (limit, refusal) {
                (Limit::Processors(percent), None) => format!(", at most {percent}% of the processors"),
                (Limit::Memory(memory), None) => format!(", at most {} of memory", megabytes(memory)),
                (Limit::Processes(count), None) => format!(", at most {count} processes and threads"),
                (limit, Some(error)) => format!(", {}", self.limit_without_group(limit, error)),
            });
        }
        words.concat()
    }

    fn limit_without_group(&mut self, limit: Limit, error: &std::io::Error) -> String {
        match limit {
            Limit::Processors(percent) => {
                self.limits.niceness = ((19 * (100 - u16::from(percent)) / 100) as u8).max(DEFAULT_NICENESS);
                let niceness = self.limits.niceness;
                format!("niceness {niceness} in place of {percent}% of the processors (no control group: {error})")
            }
            Limit::Memory(memory) => {
                self.limits.process_limits.push(data_limit(memory));
                format!("at most {} of memory in each process (no control group: {error})", megabytes(memory))
            }
            Limit::Processes(count) => {
                let user = match &self.user {
                    ProgramUser::Other(identity) => identity.user,
                    ProgramUser::Own | ProgramUser::OnlyRoot(_) => rustix::process::geteuid().as_raw(),
                };
                if user == 0 {
                    return format!("any number of processes (root is limited by control groups only: {error})");
                }
                // The kernel counts all processes of the user.
                let limit = threads_of(user) + u64::from(count);
                self.limits.process_limits.push(format!("--nproc={limit}").into());
                format!("at most {count} processes and threads (no control group: {error})")
            }
        }
    }

    /// Starts a thread that passes on lines until the pipe is closed. Lines beyond the limit of the log are counted.
    pub(super) fn read_lines(&self, pipe: Option<impl Read + Send + 'static>) -> Option<JoinHandle<()>> {
        let (pipe, events, limit) = (pipe?, self.events.clone(), Arc::clone(&self.output));
        let reading = thread::spawn(move || {
            let mut reader = BufReader::with_capacity(UNLOGGED_BYTES, pipe);
            let (mut line, mut unlogged) = (Vec::new(), 0);
            loop {
                line.clear();
                let read = reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
                if read.is_err() || line.is_empty() {
                    break;
                }
                let words = line.trim_ascii_end();
                let (notice, logged) = match limit.on_line(words.len()) {
                    Verdict::Log => (None, true),
                    Verdict::LogAfter(notice) => (Some(notice), true),
                    Verdict::Notice(notice) => (Some(notice), false),
                    Verdict::LeaveOut => (None, false),
                };
                let own = (logged && !words.is_empty()).then(|| String::from_utf8_lossy(words).into_owned());
                if notice.into_iter().chain(own).any(|line| events.send(SupervisorEvent::Line(line)).is_err()) {
                    return;
                }
                unlogged += if logged { 0 } else { line.len() };
                if unlogged >= UNLOGGED_BYTES {
                    unlogged = 0;
                    pause(UNLOGGED_PAUSE);
                }
            }
            if let Some(notice) = limit.take_notice() {
                let _ = events.send(SupervisorEvent::Line(notice));
            }
        });
        Some(reading)
    }
}

fn megabytes(bytes: Bytes) -> String {
    format!("{} MB", bytes.get() >> 20)
}

/// The limit of the output of the program's processes, which all of them share.
pub(super) struct SharedOutputLimit {
    begun: Instant,
    limit: Mutex<OutputLimit>,
}

impl SharedOutputLimit {
    pub(super) fn new() -> Self {
        Self { begun: now(), limit: Mutex::new(OutputLimit::new(Time::ZERO)) }
    }

    fn on_line(&self, length: usize) -> Verdict {
        lock(&self.limit).on_line(self.time(), length)
    }

    fn take_notice(&self) -> Option<String> {
        lock(&self.limit).take_notice(self.time())
    }

    fn time(&self) -> Time {
        Time::ZERO + Span::from_nanos(self.begun.elapsed().as_nanos() as i64)
    }
}
