//! The real command while strangers hold as many connections as they can: a client with the link is admitted.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Child;

use nearlight_net::{Clock, ConnectOptions, Link, Trust, connect};
use nearlight_units::Span;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpSocket;

mod support;

use support::{nearlight, serve};

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
        let answer = self.get("/session.json");
        let hash = answer.split('"').find(|text| text.len() == 64).expect("a certificate's hash");
        Link {
            secure: true,
            host: "127.0.0.1".into(),
            port: self.port,
            token: None,
            certificate: Some(hash.parse().expect("a hash")),
        }
    }
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
    let link = server.link();
    let options = ConnectOptions {
        time_limit: Span::from_secs(20),
        ..ConnectOptions::new(&link, Trust::Certificate(link.certificate.expect("a hash")))
    };
    let clock = Clock::start();
    let mut crowd = Vec::new();
    for _ in 0..40 {
        crowd.push(connect(&options, clock).await.expect("a session"));
    }
    assert!(server.is_open_to_its_owner());
    assert!(!server.get("/metrics").contains("reason=\"Full\""), "somebody was turned away because others were silent");
    drop(crowd);
}
