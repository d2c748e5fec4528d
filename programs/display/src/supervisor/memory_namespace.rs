//! `SysV` shared memory that the program shares with its X server and with no other process of the machine.
//!
//! Programs that render in software pass their pictures to the X server in such memory (MIT-SHM). It belongs to an IPC namespace, so the program
//! must be in that of its X server. The rest of the machine must not be in it: any process of the same user can write such memory.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::Stdio;

use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;

use super::Supervisor;
use crate::supervisor::sandbox::Sandbox;

/// The IPC namespace of a display server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryNamespace {
    /// The display needs no such memory, so the sandbox gives the program a namespace of its own.
    Unused,
    /// The machine's namespace.
    Machine,
    /// The namespace in which the X server was started. `in_user_namespace` is set if it belongs to a user namespace of the X server's.
    Display { server: Option<Pid>, in_user_namespace: bool },
}

impl MemoryNamespace {
    /// Returns the command that starts the X server in a new namespace.
    fn create(self) -> Vec<OsString> {
        let words: &[&str] = match self {
            Self::Unused | Self::Machine => &[],
            Self::Display { in_user_namespace: false, .. } => &["unshare", "--ipc"],
            Self::Display { in_user_namespace: true, .. } => &["unshare", "--user", "--map-current-user", "--ipc"],
        };
        words.iter().map(OsString::from).collect()
    }

    /// Returns the command that starts the program in the namespace, and the files that it inherits for that. A process that Landlock scopes
    /// may not open the namespaces of others.
    pub(super) fn enter(self) -> io::Result<(Vec<OsString>, Vec<OwnedFd>)> {
        let Self::Display { server: Some(server), in_user_namespace } = self else {
            return Ok((Vec::new(), Vec::new()));
        };
        let (mut words, mut files) = (vec!["nsenter".into()], Vec::new());
        let names = ["ipc", "user"].into_iter().take(if in_user_namespace { 2 } else { 1 });
        for name in names {
            let path = format!("/proc/{}/ns/{name}", server.as_raw_pid());
            // Without `CLOEXEC`.
            let file = rustix::fs::open(path, OFlags::RDONLY, Mode::empty())?;
            words.push(format!("--{name}=/proc/self/fd/{}", file.as_raw_fd()).into());
            files.push(file);
        }
        if in_user_namespace {
            words.push("--preserve-credentials".into());
        }
        Ok((words, files))
    }

    pub(super) const fn with_server(self, server: Option<Pid>) -> Self {
        match self {
            Self::Display { in_user_namespace, .. } => Self::Display { server, in_user_namespace },
            other => other,
        }
    }

    /// Returns whether programs can have a namespace of their own.
    pub(super) const fn is_empty_for_programs(self) -> bool {
        matches!(self, Self::Unused)
    }

    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::Unused | Self::Display { .. } => "",
            Self::Machine => ", SysV shared memory of its user's other programs within reach",
        }
    }
}

impl Supervisor {
    /// Chooses the namespace of an X server, and returns the command that starts it there.
    pub(super) fn new_memory_namespace(&self) -> (MemoryNamespace, Vec<OsString>) {
        if self.options.sandbox == Sandbox::Off {
            return (MemoryNamespace::Machine, Vec::new());
        }
        let candidates =
            [false, true].map(|in_user_namespace| MemoryNamespace::Display { server: None, in_user_namespace });
        let found =
            candidates.into_iter().find(|namespace| self.can_create(*namespace)).unwrap_or(MemoryNamespace::Machine);
        (found, found.create())
    }

    /// Whether the system permits it is known only after trying.
    fn can_create(&self, namespace: MemoryNamespace) -> bool {
        // A user namespace of root's would not have the program's user in it.
        if matches!(namespace, MemoryNamespace::Display { in_user_namespace: true, .. }) && self.identity().is_some() {
            return false;
        }
        let mut test = self.as_user_after(&namespace.create());
        test.arg("true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        test.status().is_ok_and(|status| status.success())
    }
}
