//! The server's memory while clients connect and disconnect.

use crate::process;
use crate::support;
use std::process::{Child, Stdio};

use process::Process;
use support::{nearlight, serve};

/// Clients at the same time.
const CLIENTS: usize = 4;

struct Server(Process);

impl Server {
    /// What is in memory, in KiB.
    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.0.id())).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

/// All clients connect at once, receive pictures, and disconnect.
fn visit(url: &str) {
    let mut clients: Vec<Child> = (0..CLIENTS)
        .map(|_| {
            let mut view = nearlight();
            view.args(["view", url, "--headless", "--seconds", "1"]).stdout(Stdio::null());
            view.spawn().expect("the command starts")
        })
        .collect();
    for client in &mut clients {
        assert!(client.wait().expect("a child").success(), "a client saw nothing");
    }
}

/// With a heap for each encoder's thread, and large buffers among small ones, the allocator would keep twice as much.
#[test]
fn sessions_that_have_ended_leave_no_memory_behind() {
    let (child, first) = serve(&["--test-card"]);
    let server = Server(Process(child));
    let url = first["url"].as_str().expect("url");
    let after = |rounds| {
        for _ in 0..rounds {
            visit(url);
        }
        server.resident()
    };
    // The first sessions fill what the allocator keeps.
    let few = after(4);
    let many = after(10);
    assert!(many * 100 <= few * 120, "{few} KiB after {} sessions, {many} KiB after {}", 4 * CLIENTS, 14 * CLIENTS);
}
