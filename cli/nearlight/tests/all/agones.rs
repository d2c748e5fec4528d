//! A server under a stub of Agones' SDK. The stub answers as Agones' REST interface does, and records what it is asked.
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

struct Stub {
    port: u16,
    /// Method, path and body of each request but watches.
    asked: Receiver<(String, String)>,
    /// The connections that watch.
    watches: Arc<Mutex<Vec<TcpStream>>>,
}

impl Stub {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (asks, asked) = channel();
        let watches = Arc::new(Mutex::new(Vec::new()));
        let watching = Arc::clone(&watches);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, &asks, &watching);
            }
        });
        Self { port, asked, watches }
    }

    /// Waits for this request, whatever comes before it.
    fn expect(&self, request: &str, body: &str) {
        let mut others = Vec::new();
        loop {
            let asked =
                self.asked.recv_timeout(NEVER).unwrap_or_else(|_| panic!("no {request} {body}; but {others:?}"));
            if asked == (request.to_owned(), body.to_owned()) {
                return;
            }
            others.push(asked);
        }
    }

    fn tell(&self, state: &str) {
        let told = format!(
            r#"{{"result":{{"object_meta":{{"name":"one","deletion_timestamp":"0"}},"status":{{"state":"{state}"}}}}}}"#
        );
        for _ in 0..600 {
            let mut watches = self.watches.lock().expect("not poisoned");
            if !watches.is_empty() {
                watches.iter_mut().for_each(|watch| writeln!(watch, "{told}").expect("it listens"));
                return;
            }
            drop(watches);
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("nobody watches");
    }
}

fn answer(mut stream: TcpStream, asks: &Sender<(String, String)>, watches: &Mutex<Vec<TcpStream>>) {
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
    stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n").expect("it listens");
    let request = first.rsplit_once(' ').map_or("", |(request, _)| request).to_owned();
    if request == "GET /watch/gameserver" {
        watches.lock().expect("not poisoned").push(stream);
    } else {
        stream.write_all(b"{}").expect("it listens");
        let _ = asks.send((request, String::from_utf8(body).expect("text")));
    }
}

#[test]
fn a_server_tells_agones_of_itself_and_ends_when_it_is_told_to() {
    let stub = Stub::start();
    let port = stub.port.to_string();
    let options = ["--fleet", "agones", "--max-clients", "2", "--max-members", "5"];
    let (child, first) = serve_in(&[("AGONES_SDK_HTTP_PORT", &port)], &options);
    let mut server = Process(child);
    stub.expect("POST /ready", "{}");
    stub.expect("PATCH /v1beta1/counters/places", r#"{"count":"0","capacity":"7"}"#);
    stub.expect("POST /health", "{}");
    stub.tell("Allocated");
    let link = first["url"].as_str().expect("a link");
    let crowd = nearlight().args(["swarm", link, "--clients", "3", "--seconds", "2"]).output().expect("it runs");
    assert!(crowd.status.success(), "{}", String::from_utf8_lossy(&crowd.stderr));
    stub.expect("PATCH /v1beta1/counters/places", r#"{"count":"3","capacity":"7"}"#);
    stub.expect("PATCH /v1beta1/counters/places", r#"{"count":"0","capacity":"7"}"#);
    stub.tell("Shutdown");
    assert!(server.0.wait().expect("it ends").success());
}
