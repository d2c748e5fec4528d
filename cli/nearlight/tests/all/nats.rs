//! A NATS server, and servers that share their rooms through it.
//!
//! It is the one that `scripts/go-program.sh` builds. Where it could not be built, tests fail rather than pass.
#![expect(clippy::disallowed_methods, reason = "a test that waits for another process")]

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::process::Process;
use super::support::serve;

/// Terminates the process by SIGTERM.
pub(crate) fn terminate(process: &mut Process) {
    let id = process.0.id().to_string();
    assert!(Command::new("kill").arg(id).status().expect("kill runs").success());
    let _ = process.0.wait();
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("bound").port()
}

/// A NATS server of the test's own.
pub(crate) struct Nats {
    running: Process,
    pub(crate) port: u16,
    store: PathBuf,
}

impl Nats {
    /// Starts a NATS server that is open to all.
    pub(crate) fn start(name: &str) -> Self {
        Self::with_config(name, "")
    }

    /// Starts a NATS server with these lines of configuration.
    pub(crate) fn with_config(name: &str, config: &str) -> Self {
        Self::at_port(free_port(), name, config)
    }

    pub(crate) fn at_port(port: u16, name: &str, config: &str) -> Self {
        let store = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&store);
        std::fs::create_dir_all(&store).expect("a folder");
        std::fs::write(store.join("nats.conf"), config).expect("it can be written");
        Self { running: Self::run(port, &store), port, store }
    }

    fn run(port: u16, store: &Path) -> Process {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/go-program.sh");
        let built = Command::new(script).arg("nats-server").stderr(Stdio::inherit()).output().expect("the script runs");
        assert!(built.status.success(), "there is no NATS server to test with: see above");
        let program = String::from_utf8(built.stdout).expect("a path");
        let mut command = Command::new(program.trim());
        command.args(["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "-sd"]).arg(store);
        command.arg("-c").arg(store.join("nats.conf"));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let running = Process(child);
        for _ in 0..200 {
            if std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return running;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the NATS server does not listen");
    }

    pub(crate) fn restart(&mut self) {
        terminate(&mut self.running);
        self.running = Self::run(self.port, &self.store);
    }

    pub(crate) fn server(&self) -> (Process, String) {
        Self::server_at(&format!("nats://127.0.0.1:{}", self.port), &[])
    }

    /// Starts a server that reaches NATS by this URL, and returns its link.
    pub(crate) fn server_at(url: &str, further: &[&str]) -> (Process, String) {
        let (child, first) = serve(&[&["--nats", url], further].concat());
        let link = first["url"].as_str().expect("a link").to_owned();
        (Process(child), link)
    }
}
