//! Starts the program from a thread of its own, whose restrictions it inherits.
//!
//! Landlock restricts the thread that asks for it and the processes that it starts. The supervisor's other processes are not restricted: the
//! helpers of file systems in user space gain privileges when they start, which a restricted process cannot.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use landlock::{
    ABI, Access as _, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, RulesetCreated, RulesetError, Scope,
};

/// The thread that starts programs. It lives as long as the supervisor, because the kernel ends its children with it.
pub(super) struct Launcher {
    commands: SyncSender<Command>,
    children: Receiver<io::Result<Child>>,
}

impl Launcher {
    /// Starts the thread. If `scoped` is set, the programs that it starts reach abstract sockets and send signals only among themselves.
    pub(super) fn start(scoped: bool) -> io::Result<Self> {
        let (commands, received) = sync_channel::<Command>(1);
        let (started, children) = sync_channel(1);
        let (restricted, outcome) = sync_channel(1);
        thread::Builder::new().name("launcher".into()).spawn(move || {
            let scope = if scoped { scope_sockets().and_then(|scope| scope.restrict_self().map(drop)) } else { Ok(()) };
            if restricted.send(scope.map_err(io::Error::other)).is_err() {
                return;
            }
            for mut command in received {
                if started.send(command.spawn()).is_err() {
                    return;
                }
            }
        })?;
        outcome.recv().map_err(io::Error::other)??;
        Ok(Self { commands, children })
    }

    /// Starts a process.
    pub(super) fn spawn(&self, command: Command) -> io::Result<Child> {
        self.commands.send(command).map_err(|_| io::Error::other("the thread that starts programs has ended"))?;
        self.children.recv().map_err(io::Error::other)?
    }
}

/// Returns whether the kernel can keep programs from abstract sockets (Linux 6.12).
pub(super) fn can_scope_sockets() -> bool {
    scope_sockets().is_ok()
}

fn scope_sockets() -> Result<RulesetCreated, RulesetError> {
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    rules.scope(Scope::from_all(ABI::V6))?.create()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixListener};
    use std::process::Stdio;

    use super::*;

    /// Needs Perl, which Debian always has, and Linux 6.12.
    #[test]
    fn a_scoped_program_does_not_reach_an_abstract_socket_of_another_process() {
        if !can_scope_sockets() {
            let _ = writeln!(io::stderr(), "skipped: this kernel's Landlock has no scopes (Linux 6.12)");
            return;
        }
        let name = format!("nearlight-launcher-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let _listener = UnixListener::bind_addr(&address).expect("a socket");
        let reaches = |scoped| {
            let script = r#"use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); exit(connect(S, pack_sockaddr_un("\0$ARGV[0]")) ? 0 : 1)"#;
            let mut command = Command::new("perl");
            command.args(["-e", script, &name]).stdin(Stdio::null());
            let mut child = Launcher::start(scoped).expect("a thread").spawn(command).expect("perl");
            child.wait().expect("an end").success()
        };
        assert!(reaches(false), "the socket is there");
        assert!(!reaches(true));
    }
}
