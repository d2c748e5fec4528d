//! The real command while strangers hold as many connections as they can, or guess tokens: a client with the link is admitted.

use crate::support;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Child;
use std::time::Duration;

use nearlight_net::{Clock, ConnectOptions, Link, Trust, connect};
use nearlight_units::Span;
use nearlight_wire::{ClientMessage, CodecKind, Hello, RefusalReason, Role, ServerMessage, TokenProof};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use support::{TOKEN, nearlight, serve};

/// A server that is killed when the test ends, however it ends.
struct Server {
    child: Child,
    url: String,
    port: u16,
}

impl Server {
    fn start() -> Self {
        let (child, first) = serve(&["--test-card"]);
        let url = first["url"].as_str().expect("url").to_owned();
        let port = first["port"].as_u64().expect("port") as u16;
        Self { child, url, port }
    }

    /// A session of the owner's, from its first packet to its last.
    fn is_open_to_its_owner(&self) -> bool {
        let view = nearlight().args(["view", &self.url, "--headless", "--json", "--seconds", "1"]).output();
        view.expect("the command runs").status.success()
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the page's port is open");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer
    }

    /// To its certificate, as a link names it.
    fn link(&self) -> Link {
        Link {
            secure: true,
            host: "127.0.0.1".into(),
            port: self.port,
            path: "/".into(),
            token: None,
            certificate: None,
        }
    }

    fn connect_options(&self) -> ConnectOptions {
        ConnectOptions { time_limit: Span::from_secs(20), ..ConnectOptions::new(&self.link(), Trust::Any) }
    }
}

/// The server's answer to a client that connects and proves this token in its `hello`.
async fn answer_to_hello(options: &ConnectOptions, clock: Clock, token: &str) -> Result<ServerMessage, String> {
    let connection = connect(options, clock).await.map_err(|error| error.to_string())?;
    let mac = connection.exporter().prove(token, Role::Client);
    let hello = Hello {
        codecs: vec![CodecKind::Vp8],
        display_hz: 60,
        ..Hello::without_media("a test".to_owned(), Some(TokenProof::Exporter { mac }))
    };
    let (mut to_server, mut from_server) = connection.open_control().await.map_err(|error| error.to_string())?;
    to_server.send(&ClientMessage::Hello(hello)).await.map_err(|error| error.to_string())?;
    let answer = from_server.recv().await.map_err(|error| error.to_string())?;
    connection.finish(0, "that was all").await;
    Ok(answer)
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn idle_connections_of_three_addresses_keep_nobody_out() {
    let server = Server::start();
    let address = SocketAddr::from(([127, 0, 0, 1], server.port));
    let mut crowd = Vec::new();
    // A first byte of HTTP, and not one more.
    for number in 0..540_usize {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from(([127, 0, 0, 2 + (number % 3) as u8], 0))).expect("an address of loopback's");
        let mut stream = socket.connect(address).await.expect("the port is open");
        stream.write_all(b"G").await.expect("sent");
        crowd.push(stream);
    }
    assert!(server.is_open_to_its_owner());
    assert!(server.get("/").starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn silent_sessions_of_the_owner_s_own_address_keep_nobody_out() {
    let server = Server::start();
    let options = server.connect_options();
    let clock = Clock::start();
    let mut crowd = Vec::new();
    for _ in 0..40 {
        crowd.push(connect(&options, clock).await.expect("a session"));
    }
    assert!(server.is_open_to_its_owner());
    assert!(!server.get("/metrics").contains("reason=\"Full\""), "somebody was turned away because others were silent");
    drop(crowd);
}

/// A place is given back when the session ends, so that the owner may come again and again.
#[tokio::test]
async fn a_flood_of_wrong_proofs_from_the_owner_s_own_address_keeps_nobody_out() {
    const ENTRIES: usize = 9;
    // A guess waits a tenth of a second for its refusal to be read.
    const MOST_AT_ONCE: usize = 24;
    let server = Server::start();
    let (options, clock) = (server.connect_options(), Clock::start());
    let mut guesses = JoinSet::new();
    let mut guess_times = interval(Duration::from_millis(10));
    guess_times.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut refused = Vec::new();
    let owner = {
        let options = options.clone();
        async move {
            let mut waits = Vec::new();
            for _ in 0..ENTRIES {
                tokio::time::sleep(Duration::from_millis(200)).await;
                let started = clock.now();
                let answer = answer_to_hello(&options, clock, TOKEN).await;
                assert!(matches!(answer, Ok(ServerMessage::Welcome(_))), "{answer:?}");
                waits.push(clock.now() - started);
            }
            waits
        }
    };
    let mut owner = std::pin::pin!(owner);
    let mut waits = loop {
        tokio::select! {
            waits = &mut owner => break waits,
            Some(guess) = guesses.join_next() => refused.push(guess.expect("no panic")),
            _ = guess_times.tick(), if guesses.len() < MOST_AT_ONCE => {
                let options = options.clone();
                guesses.spawn(async move { answer_to_hello(&options, clock, "another-token-than-the-owner-s").await });
            }
        }
    };
    refused.extend(guesses.join_all().await);
    assert!(refused.len() > 50, "{} guesses are no flood", refused.len());
    let is_told = |reason| move |answer: &&Result<ServerMessage, String>| matches!(answer, Ok(ServerMessage::Refused { reason: told, .. }) if *told == reason);
    let told = |reason| refused.iter().filter(is_told(reason)).count();
    let (wrong, too_often) = (told(RefusalReason::Token), told(RefusalReason::TooManyAttempts));
    assert_eq!(wrong + too_often, refused.len(), "{refused:?}");
    assert!(too_often > wrong, "{too_often} of {} guesses were told to wait", refused.len());
    waits.sort_unstable();
    assert!(waits[ENTRIES / 2] < Span::from_secs(1), "the owner waited {waits:?}");
}
