//! A server under a stub of Agones' SDK. The stub answers as Agones' REST interface does (version 1.57), and records what it is asked: the watch
//! begins with the state as it is, each change follows, and a missing counter is status 500.
#![expect(clippy::disallowed_methods, reason = "a test that waits for another process")]

use crate::process;
use crate::support;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use process::Process;
use support::{nearlight, serve_in};

const NEVER: Duration = Duration::from_mins(1);

/// The state of the game server, as the SDK server tells it.
struct GameServer {
    state: String,
    /// Empty if it was never allocated.
    last_allocated: String,
    has_counter: bool,
    /// The connections that watch.
    watches: Vec<TcpStream>,
}

impl GameServer {
    fn line(&self) -> String {
        let (state, at) = (&self.state, &self.last_allocated);
        let annotations = if at.is_empty() { String::new() } else { format!(r#""agones.dev/last-allocated":"{at}""#) };
        format!(
            r#"{{"result":{{"object_meta":{{"name":"one","deletion_timestamp":"0","annotations":{{{annotations}}}}},"status":{{"state":"{state}"}}}}}}"#
        )
    }

    fn set(&mut self, state: &str) {
        state.clone_into(&mut self.state);
        if state == "Allocated" {
            self.last_allocated.push('1');
        }
        let line = self.line();
        self.watches.retain_mut(|watch| writeln!(watch, "{line}").is_ok());
    }
}

struct Stub {
    port: u16,
    /// Method and path, and body, of each request but watches.
    requests: Receiver<(String, String)>,
    server: Arc<Mutex<GameServer>>,
}

impl Stub {
    fn start(has_counter: bool) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (sender, requests) = channel();
        let server =
            GameServer { state: "Scheduled".into(), last_allocated: String::new(), has_counter, watches: Vec::new() };
        let server = Arc::new(Mutex::new(server));
        let shared = Arc::clone(&server);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, &sender, &mut shared.lock().expect("not poisoned"));
            }
        });
        Self { port, requests, server }
    }

    /// Waits for this request, whatever comes before it, and returns what came.
    fn expect(&self, request: &str, body: &str) -> Vec<(String, String)> {
        let mut others = Vec::new();
        loop {
            let next = self.requests.recv_timeout(NEVER);
            let next = next.unwrap_or_else(|_| panic!("no {request} {body}; but {others:?}"));
            if next == (request.to_owned(), body.to_owned()) {
                return others;
            }
            others.push(next);
        }
    }

    fn set(&self, state: &str) {
        self.server.lock().expect("not poisoned").set(state);
    }
}

fn answer(mut stream: TcpStream, requests: &Sender<(String, String)>, server: &mut GameServer) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).expect("a request");
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).expect("a head") <= 2 {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let request = first.rsplit_once(' ').map_or("", |(request, _)| request).to_owned();
    let (status, text) = match request.as_str() {
        "PATCH /v1beta1/counters/places" if !server.has_counter => {
            ("500 Internal Server Error", r#"{"code":2,"message":"counter not found: places","details":[]}"#.into())
        }
        "GET /watch/gameserver" => ("200 OK", format!("{}\n", server.line())),
        _ => ("200 OK", "{}".into()),
    };
    write!(stream, "HTTP/1.0 {status}\r\nContent-Type: application/json\r\n\r\n{text}").expect("it listens");
    match request.as_str() {
        "GET /watch/gameserver" => return server.watches.push(stream),
        "POST /ready" => server.set("Ready"),
        "POST /allocate" => server.set("Allocated"),
        _ => {}
    }
    let _ = requests.send((request, String::from_utf8(body).expect("text")));
}

const COUNTER: &str = "PATCH /v1beta1/counters/places";

#[test]
fn a_server_tells_agones_of_itself_is_allocated_by_its_first_member_and_ends_when_it_is_told_to() {
    let stub = Stub::start(true);
    let port = stub.port.to_string();
    let options = ["--fleet", "agones", "--max-clients", "2", "--max-members", "5"];
    let (child, first) = serve_in(&[("AGONES_SDK_HTTP_PORT", &port)], &options);
    let mut server = Process(child);
    stub.expect("POST /ready", "{}");
    stub.expect(COUNTER, r#"{"count":"0","capacity":"7"}"#);
    let before = stub.expect("POST /health", "{}");
    assert!(before.iter().all(|(request, _)| request != "POST /allocate"), "allocated before anybody came");
    let link = first["url"].as_str().expect("a link");
    let crowd = nearlight().args(["swarm", link, "--clients", "3", "--seconds", "2"]).output().expect("it runs");
    assert!(crowd.status.success(), "{}", String::from_utf8_lossy(&crowd.stderr));
    stub.expect("POST /allocate", "{}");
    stub.expect(COUNTER, r#"{"count":"3","capacity":"7"}"#);
    stub.expect(COUNTER, r#"{"count":"0","capacity":"7"}"#);
    stub.set("Shutdown");
    assert!(server.0.wait().expect("it ends").success());
}

#[test]
fn a_fleet_without_the_counter_is_asked_for_it_once() {
    let stub = Stub::start(false);
    let port = stub.port.to_string();
    let (child, _) = serve_in(&[("AGONES_SDK_HTTP_PORT", &port)], &["--fleet", "agones"]);
    let mut server = Process(child);
    stub.expect(COUNTER, r#"{"count":"0","capacity":"264"}"#);
    // Two signs of health are two seconds apart, and a failed update is repeated after one.
    stub.expect("POST /health", "{}");
    let between = stub.expect("POST /health", "{}");
    assert!(between.iter().all(|(request, _)| request != COUNTER), "{between:?}");
    stub.set("Shutdown");
    assert!(server.0.wait().expect("it ends").success());
}
