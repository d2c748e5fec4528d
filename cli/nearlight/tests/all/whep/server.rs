//! A server of this test's, and requests to it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard};

use nearlight_units::lock;

use crate::support::serve_with_log;

/// Servers draw and encode at the same time: five of them on two cores starve their players.
static TURN: Mutex<()> = Mutex::new(());

/// A server that is killed when the test ends, however it ends. There is one at a time.
pub(crate) struct Server {
    child: Child,
    _turn: MutexGuard<'static, ()>,
    pub(crate) port: u16,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let of = |line: &'_ str| line.split_once(':').is_some_and(|(key, _)| key.eq_ignore_ascii_case(name));
        let line = self.head.lines().find(|line| of(line))?;
        Some(line.split_once(':')?.1.trim())
    }
}

impl Server {
    pub(crate) fn start(further: &[&str]) -> Self {
        Self::start_with_log(Stdio::inherit(), further)
    }

    /// Starts a server whose log goes elsewhere.
    pub(crate) fn start_with_log(log: Stdio, further: &[&str]) -> Self {
        // A failed test leaves no state that could affect another one.
        let turn = lock(&TURN);
        let (child, first) = serve_with_log(log, further);
        assert!(first["rtc_port"].as_u64().is_some_and(|port| port > 0), "{first}");
        Self { child, _turn: turn, port: first["port"].as_u64().expect("port") as u16 }
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the page's port is open");
        let headers: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}Content-Length: {}\r\n\r\n{body}",
            headers.concat(),
            body.len()
        );
        // A server that refuses before it has read everything closes while we write.
        let _ = stream.write_all(request.as_bytes());
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        Answer { status, head: head.into(), body: body.into() }
    }

    pub(crate) fn offer(&self, token: &str, sdp: &str) -> Answer {
        self.offer_to("/whep", token, sdp)
    }

    pub(crate) fn offer_to(&self, path: &str, token: &str, sdp: &str) -> Answer {
        let authorization = format!("Bearer {token}");
        self.ask("POST", path, &[("Content-Type", "application/sdp"), ("Authorization", &authorization)], sdp)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
