//! Supervises a command: forwards signals to it and reports how it ended.

use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

/// How long a command may take to exit after SIGTERM. Guess.
const GRACE: Duration = Duration::from_secs(2);

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitReport {
    status: ExitStatus,
}

impl ExitReport {
    /// The command's own code, or 128 and the signal's number, as in shells.
    #[must_use]
    pub fn code(self) -> u8 {
        let code = self.status.code().or_else(|| self.status.signal().map(|signal| 128 + signal));
        code.unwrap_or(1) as u8
    }
}

/// Makes `command` end with the calling thread, however the thread ends.
pub fn end_with_this_thread(command: &mut Command) {
    let parent = rustix::process::getpid();
    let bind = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() == Some(parent) { Ok(()) } else { Err(io::Error::from(Errno::SRCH)) }
    };
    // SAFETY: the closure makes system calls only.
    #[expect(unsafe_code, reason = "a process is bound to its parent between fork and exec")]
    unsafe {
        command.pre_exec(bind);
    }
}

/// Requests a command to terminate gracefully (SIGTERM).
pub fn ask_to_end(child: &Child) {
    if let Some(process) = Pid::from_raw(child.id() as i32) {
        // It may have exited in the meantime.
        let _ = kill_process(process, Signal::TERM);
    }
}

/// Signals that this process passes on to its command instead of obeying them.
///
/// Create it before the command starts: from then on none of them ends this process, and one that arrives while the command
/// starts is passed on once it has started.
#[derive(Debug)]
pub struct Supervisor {
    runtime: Runtime,
    interrupt: SignalStream,
    quit: SignalStream,
    terminate: SignalStream,
    hangup: SignalStream,
}

impl Supervisor {
    /// Fails if the process may open no more files.
    pub fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let [interrupt, quit] = [signal(SignalKind::interrupt())?, signal(SignalKind::quit())?];
        let [terminate, hangup] = [signal(SignalKind::terminate())?, signal(SignalKind::hangup())?];
        drop(entered);
        Ok(Self { runtime, interrupt, quit, terminate, hangup })
    }

    /// Waits for the command to end.
    ///
    /// Ctrl-C is the command's to handle: from a terminal both receive it, otherwise it is forwarded. On SIGTERM or
    /// SIGHUP, the signal is forwarded to the command, which is killed two seconds later.
    pub fn wait(self, mut child: Child) -> io::Result<ExitReport> {
        let process = Pid::from_raw(child.id() as i32).ok_or_else(|| io::Error::other("the command has no number"))?;
        let Self { runtime, mut interrupt, mut quit, mut terminate, mut hangup } = self;
        let status = runtime.block_on(async move {
            let mut ended = tokio::task::spawn_blocking(move || child.wait());
            let mut killed = false;
            loop {
                let (forwarded, patience) = tokio::select! {
                    status = &mut ended => return status.map_err(io::Error::other)?,
                    _ = interrupt.recv() => (Signal::INT, None),
                    _ = quit.recv() => (Signal::QUIT, None),
                    _ = terminate.recv() => (Signal::TERM, Some(GRACE)),
                    _ = hangup.recv() => (Signal::HUP, Some(GRACE)),
                };
                if patience.is_some() || !shares_terminal() {
                    // It may have exited in the meantime.
                    let _ = kill_process(process, forwarded);
                }
                if let Some(patience) = patience.filter(|_| !killed) {
                    tokio::select! {
                        status = &mut ended => return status.map_err(io::Error::other)?,
                        () = tokio::time::sleep(patience) => {}
                    }
                    let _ = kill_process(process, Signal::KILL);
                    killed = true;
                }
            }
        })?;
        Ok(ExitReport { status })
    }
}

/// Whether terminal signals reach both this process and the command.
fn shares_terminal() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else { return false };
    let foreground = rustix::termios::tcgetpgrp(&terminal);
    foreground.is_ok_and(|foreground| foreground == rustix::process::getpgrp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_arrives_before_the_command_starts_is_passed_on_to_it() {
        let supervisor = Supervisor::new().expect("handlers");
        kill_process(rustix::process::getpid(), Signal::TERM).expect("sent");
        let child = Command::new("sleep").arg("100").spawn().expect("it starts");
        assert_eq!(supervisor.wait(child).expect("it ends").code(), 143);
    }
}
