//! Rooms that two servers share through a NATS server, as processes. No timing is asserted but that of seconds.
//!
//! The NATS server is the one that `scripts/go-program.sh` builds. Where it could not be built, these tests fail rather than pass.
#![cfg(feature = "fleet")]
#![expect(clippy::disallowed_methods, reason = "a test that waits for other processes")]

#[path = "support/process.rs"]
mod process;
mod support;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use process::Process;
use serde_json::Value;
use support::{nearlight, serve};

/// As by SIGTERM.
fn terminate(process: &mut Process) {
    let id = process.0.id().to_string();
    assert!(Command::new("kill").arg(id).status().expect("kill runs").success());
    let _ = process.0.wait();
}

/// A NATS server of the test's own.
struct Nats {
    running: Process,
    port: u16,
    store: PathBuf,
}

impl Nats {
    fn start(name: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let store = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&store);
        Self { running: Self::run(port, &store), port, store }
    }

    fn run(port: u16, store: &Path) -> Process {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/go-program.sh");
        let built = Command::new(script).arg("nats-server").stderr(Stdio::inherit()).output().expect("the script runs");
        assert!(built.status.success(), "there is no NATS server to test with: see above");
        let program = String::from_utf8(built.stdout).expect("a path");
        let mut command = Command::new(program.trim());
        command.args(["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "-sd"]).arg(store);
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

    fn restart(&mut self) {
        terminate(&mut self.running);
        self.running = Self::run(self.port, &self.store);
    }

    fn server(&self) -> (Process, String) {
        let (child, first) = serve(&["--nats", &format!("nats://127.0.0.1:{}", self.port)]);
        let link = first["url"].as_str().expect("a link").to_owned();
        (Process(child), link)
    }
}

/// A crowd on all of these servers, while `meanwhile` happens.
fn crowd(links: &[&str], seconds: &str, meanwhile: impl FnOnce()) -> Value {
    let child = nearlight()
        .arg("swarm")
        .args(links)
        .args(["--json", "--clients", "8", "--behaviour", "collaborate,walk", "--seconds", seconds])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    meanwhile();
    let output = child.wait_with_output().expect("it ends");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("no JSON: {error}: {words}"))
}

fn count(figures: &Value, name: &str) -> u64 {
    figures[name].as_u64().unwrap_or_else(|| panic!("{name} of {figures}"))
}

#[test]
fn members_of_two_servers_see_the_same_room() {
    let nats = Nats::start("nats-shared");
    let (first, second) = (nats.server(), nats.server());
    let figures = crowd(&[&first.1, &second.1], "5", || {});
    assert_eq!((count(&figures, "joined"), count(&figures, "compared")), (8, 8), "{figures}");
    assert_eq!(count(&figures, "disagreeing"), 0, "{figures}");
    // An action counts as shared by all when every member has seen it, on whichever server.
    assert_eq!(count(&figures, "lost_events"), 0, "{figures}");
    assert!(count(&figures, "shared_actions") > 8, "{figures}");
    assert_eq!(figures["moved_ms"], Value::Null, "{figures}");
}

#[test]
fn members_survive_the_death_of_the_owner_and_a_restart_of_nats() {
    let mut nats = Nats::start("nats-failing");
    let (mut first, second) = (nats.server(), nats.server());
    let figures = crowd(&[&first.1, &second.1], "14", || {
        std::thread::sleep(Duration::from_secs(6));
        nats.restart();
        std::thread::sleep(Duration::from_secs(4));
        // Its members came first, so it owns the room.
        first.0.kill();
    });
    assert_eq!((count(&figures, "joined"), count(&figures, "compared")), (8, 8), "{figures}");
    assert_eq!(count(&figures, "disagreeing"), 0, "{figures}");
    assert_eq!(figures["ended"].as_object().map(serde_json::Map::len), Some(0), "{figures}");
    assert_eq!(figures["moved_ms"]["count"], 4, "those of the server that was killed: {figures}");
    assert!(figures["moved_ms"]["max"].as_f64().is_some_and(|longest| longest < 10_000.0), "{figures}");
}

#[test]
fn a_server_that_closes_hands_its_members_over() {
    let nats = Nats::start("nats-draining");
    let (mut first, second) = (nats.server(), nats.server());
    let figures = crowd(&[&first.1, &second.1], "8", || {
        std::thread::sleep(Duration::from_secs(6));
        terminate(&mut first.0);
    });
    assert_eq!((count(&figures, "joined"), count(&figures, "compared")), (8, 8), "{figures}");
    assert_eq!(count(&figures, "disagreeing"), 0, "{figures}");
    assert_eq!(figures["moved_ms"]["count"], 4, "{figures}");
}
