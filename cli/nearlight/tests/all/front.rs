//! Tests to which of two servers a front sends each client, with all three as processes. Timing is asserted only to within seconds.
#![cfg(feature = "fleet")]
#![expect(clippy::disallowed_methods, reason = "a test that waits for other processes")]

use crate::nats;
use crate::process;
use crate::support;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use nats::{Nats, terminate};
use process::Process;
use serde_json::Value;
use support::{TOKEN, nearlight};

/// Longer than a server's entry stays in the directory, by far.
const PATIENCE: Duration = Duration::from_secs(20);

struct Front {
    _running: Process,
    port: u16,
}

impl Front {
    fn start(nats: &Nats, further: &[&str]) -> Self {
        let url = format!("nats://127.0.0.1:{}", nats.port);
        let mut child = nearlight()
            .args(["front", "--json", "--port", "0", "--token", TOKEN, "--nats", &url])
            .args(further)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut line = String::new();
        let output = child.stdout.as_mut().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).expect("a first line");
        let first: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("`{line}` is not JSON: {error}"));
        assert!(first["guests"][0].as_str().is_some_and(|link| link.contains("#token=") && !link.contains(TOKEN)));
        Self { _running: Process(child), port: first["port"].as_u64().expect("a port") as u16 }
    }

    /// Status, the address of a redirect, and the body.
    fn ask(&self, path: &str, token: Option<&str>) -> (u16, String, String) {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("it listens");
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost:{}\r\n{token}Connection: close\r\n\r\n", self.port);
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer of HTTP");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let location = head.lines().find_map(|line| line.strip_prefix("location: ")).unwrap_or_default();
        (status, location.to_owned(), body.to_owned())
    }

    /// The servers that have a place for a member of this room, the best first.
    fn servers(&self, room: &str) -> Vec<Value> {
        let (status, _, body) = self.ask(&format!("/servers.json?place=member&room={room}"), Some(TOKEN));
        match status {
            200 => serde_json::from_str::<Value>(&body).expect("JSON")["servers"].as_array().cloned().expect("a list"),
            503 => Vec::new(),
            _ => panic!("{status}: {body}"),
        }
    }

    fn until(&self, room: &str, what: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let began = std::time::Instant::now();
        loop {
            let servers = self.servers(room);
            if what(&servers) {
                return servers;
            }
            assert!(began.elapsed() < PATIENCE, "in vain: {servers:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// The link's port, which tells servers of one machine apart.
fn port_of(link: &str) -> String {
    let link = link.split('#').next().unwrap_or_default().trim_end_matches('/');
    link.rsplit(':').next().unwrap_or_default().to_owned()
}

fn ports(servers: &[Value]) -> Vec<String> {
    servers.iter().map(|server| port_of(server["link"].as_str().expect("a link"))).collect()
}

#[test]
fn clients_go_to_their_room_and_to_no_server_that_has_died() {
    let nats = Nats::start("nats-front");
    let (mut first, mut second) = (nats.server(), nats.server());
    let front = Front::start(&nats, &[]);
    front.until("any", |servers| servers.len() == 2);
    let (status, location, _) = front.ask("/?transport=webrtc", None);
    let options = format!("/?transport=webrtc&front=http://localhost:{}", front.port);
    assert!(status == 307 && location.starts_with("https://") && location.ends_with(&options), "{location}");
    assert_eq!(front.ask("/servers.json", None).0, 401);

    // A crowd in a room of the second server.
    let crowd = nearlight()
        .args(["swarm", &second.1, "--clients", "6", "--room", "lab", "--seconds", "30"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command runs");
    let mut crowd = Process(crowd);
    let lab = front.until("lab", |servers| servers.first().is_some_and(|server| server["room_members"] == 6));
    assert_eq!(ports(&lab), [port_of(&second.1)], "the room is there");
    let (_, location, _) = front.ask("/r/lab", None);
    assert!(location.contains(&format!(":{}/?room=lab&front=", port_of(&second.1))), "{location}");
    let elsewhere = front.servers("elsewhere");
    let loads: Vec<_> = elsewhere.iter().filter_map(|server| server["load"].as_f64()).collect();
    assert!(loads.len() == 2 && loads[0] <= loads[1], "another room may be opened on either: {elsewhere:?}");
    crowd.kill();

    second.0.kill();
    // For as long as its entry lives, it has the room.
    front.until("lab", |servers| ports(servers) == [port_of(&first.1)]);
    terminate(&mut first.0);
    front.until("lab", <[Value]>::is_empty);
    let (status, _, body) = front.ask("/", None);
    assert!(status == 503 && body.contains("No server is running"), "{status}: {body}");
}

#[test]
fn a_restart_of_nats_turns_nobody_away() {
    let mut nats = Nats::start("nats-front-restart");
    let _server = nats.server();
    let front = Front::start(&nats, &["--everybody", "spectator"]);
    front.until("any", |servers| servers.len() == 1);
    nats.restart();
    for _ in 0..40 {
        assert_eq!(front.servers("any").len(), 1);
        std::thread::sleep(Duration::from_millis(100));
    }
    let (status, location, _) = front.ask("/", None);
    assert!(status == 307 && location.contains("#token=") && !location.contains(TOKEN), "{location}");
}
