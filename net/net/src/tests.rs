//! Both ends over loopback. No test asserts durations; time limits only end what would never end.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use nearlight_units::{Span, Time};
use nearlight_wire::{ClientMessage, DisplayKind, RefusalReason, Role, ServerMessage};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, UdpSocket};
use url::Url;
use web_transport_quinn::Session;

use crate::trust::ClientTls;
use crate::*;
use http::http_get;

mod http;
mod paths;
mod rooms;

/// Nothing on loopback takes this long; a test that waits for it has failed.
const NEVER: Duration = Duration::from_secs(20);

struct Server {
    listener: Arc<Listener>,
    identity: Identity,
    clock: Clock,
}

impl Server {
    fn start() -> Self {
        Self::start_with(Limits::default())
    }

    fn start_with(limits: Limits) -> Self {
        let clock = Clock::start();
        let identity = Identity::self_signed(&[]).unwrap();
        let listener = Listener::bind(&ListenOptions { limits, ..ListenOptions::default() }, &identity, clock).unwrap();
        Self { listener: Arc::new(listener), identity, clock }
    }

    fn trust(&self) -> Trust {
        Trust::Certificate(self.identity.certificate_sha256())
    }

    fn options(&self, trust: Trust) -> ConnectOptions {
        let (host, port) = ("127.0.0.1".into(), self.listener.port());
        ConnectOptions { host, port, trust, kind: SessionKind::Media, time_limit: Span::from_secs(10) }
    }

    fn link(&self, secure: bool) -> Link {
        Link {
            secure,
            host: "127.0.0.1".into(),
            port: self.listener.port(),
            path: "/".into(),
            token: None,
            certificate: None,
        }
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::new(Ipv4Addr::LOCALHOST.into(), self.listener.port())
    }

    /// A session, as both of its ends see it: the client's and the server's.
    async fn pair(&self) -> (Connection, Connection) {
        let options = self.options(self.trust());
        let (client, server) = tokio::join!(within(connect(&options, self.clock)), within(self.listener.accept()));
        (client.unwrap(), server.unwrap())
    }

    /// A QUIC connection that has not requested a session.
    async fn silent(&self) -> Result<(quinn::Endpoint, quinn::Connection), quinn::ConnectionError> {
        let tls = ClientTls::new(&self.trust(), web_transport_quinn::ALPN);
        let endpoint = client::endpoint(self.address()).unwrap();
        let connecting = endpoint.connect_with(client::quic_config(&tls), self.address(), "127.0.0.1").unwrap();
        connecting.await.map(|connection| (endpoint, connection))
    }

    /// Answers every page request with whether it arrived encrypted.
    fn serve_pages(&self) {
        let listener = Arc::clone(&self.listener);
        tokio::spawn(async move {
            while let Some(stream) = listener.accept_page().await {
                tokio::spawn(serve_page(stream));
            }
        });
    }
}

async fn serve_page(stream: PageStream) {
    let secure = stream.secure();
    assert_eq!(stream.peer().ip(), IpAddr::from(Ipv4Addr::LOCALHOST));
    let answer = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| async move {
        let body = match request.uri().path() {
            "/large" => "x".repeat(1 << 20),
            _ => format!("secure: {secure}"),
        };
        Ok::<_, std::convert::Infallible>(hyper::Response::new(Full::new(Bytes::from(body))))
    });
    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(NEVER, future).await.expect("this never ends")
}

/// A relay between a client and a server that forwards what `passes` accepts; its first argument says whether the server sent it.
async fn relay(socket: UdpSocket, server: SocketAddr, passes: impl Fn(bool, &[u8]) -> bool) {
    let mut client = None;
    let mut bytes = [0; 2_048];
    while let Ok((length, from)) = socket.recv_from(&mut bytes).await {
        if from != server {
            client = Some(from);
        }
        let to = if from == server { client } else { Some(server) };
        if let Some(to) = to.filter(|_| passes(from == server, &bytes[..length])) {
            let _ = socket.send_to(&bytes[..length], to).await;
        }
    }
}

/// Sends numbered datagrams one by one until `receiver` receives one.
async fn reaches(sender: &Connection, receiver: &Connection) -> ReceivedDatagram {
    let send = async {
        for number in 0_u32.. {
            let _ = sender.send_datagram(Bytes::copy_from_slice(&number.to_be_bytes()));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(async {
        tokio::select! { () = send => unreachable!(), received = receiver.recv_datagram() => received }
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn datagrams_go_both_ways_with_times() {
    let server = Server::start();
    let (client, accepted) = server.pair().await;
    for (sender, receiver) in [(&client, &accepted), (&accepted, &client)] {
        let largest = Bytes::from(vec![7; sender.max_datagram_size()]);
        assert!(largest.len() >= 1_100, "{}", largest.len());
        let before = server.clock.now();
        sender.send_datagram(largest.clone()).unwrap();
        let received = within(receiver.recv_datagram()).await.unwrap();
        assert_eq!(received.datagram, largest);
        assert!(received.at >= before && received.at <= server.clock.now());
    }
    assert_eq!(accepted.peer().ip(), IpAddr::from(Ipv4Addr::LOCALHOST), "IPv4 is shown as such");
    let statistics = client.statistics();
    assert_eq!((statistics.datagrams_sent, statistics.datagrams_received), (1, 1));
    assert!(statistics.rtt > Span::ZERO && statistics.packets_sent > 0);
}

#[tokio::test]
async fn what_does_not_fit_is_dropped_and_counted() {
    let server = Server::start();
    let (client, _accepted) = server.pair().await;
    assert_eq!(client.send_datagram(Bytes::from(vec![0; 2_000])), Err(DropReason::TooLarge));
    // No await: the transport gets no chance to drain its queue.
    let datagram = Bytes::from(vec![0; 1_000]);
    let outcomes: Vec<_> = (0..10_000).map(|_| client.send_datagram(datagram.clone())).collect();
    let kept = outcomes.iter().filter(|outcome| outcome.is_ok()).count() as u64;
    assert_eq!(outcomes.last(), Some(&Err(DropReason::QueueFull)));
    client.finish(0, "").await;
    assert_eq!(client.send_datagram(datagram), Err(DropReason::Closed));
    let statistics = client.statistics();
    assert_eq!(statistics.datagrams_sent, kept);
    assert_eq!(statistics.dropped_queue_full, 10_000 - kept);
    assert_eq!((statistics.dropped_too_large, statistics.dropped_closed), (1, 1));
}

#[tokio::test]
async fn control_messages_arrive_whole_and_in_order() {
    let server = Server::start();
    let (client, accepted) = server.pair().await;
    let (mut to_server, mut from_server) = client.open_control().await.unwrap();
    let display = |display_hz| ClientMessage::Display { display: DisplayKind::Headset, display_hz };
    to_server.send(&display(0)).await.unwrap();
    let (mut to_client, mut from_client) = within(accepted.accept_control()).await.unwrap();
    let sending = async {
        for hz in 1..2_000 {
            to_server.send(&display(hz)).await.unwrap();
        }
        to_server.send(&ClientMessage::Goodbye).await.unwrap();
    };
    let receiving = async {
        for hz in 0..2_000 {
            assert_eq!(from_client.recv().await.unwrap(), display(hz));
        }
        assert_eq!(from_client.recv().await.unwrap(), ClientMessage::Goodbye);
    };
    within(async { tokio::join!(sending, receiving) }).await;
    // The largest message that the protocol allows, give or take its frame.
    let message = "m".repeat(60_000);
    let refused = ServerMessage::Refused { reason: RefusalReason::Full, message };
    to_client.send(&refused).await.unwrap();
    assert_eq!(within(from_server.recv()).await.unwrap(), refused);
}

#[tokio::test]
async fn a_message_that_does_not_parse_ends_the_stream_not_the_server() {
    let server = Server::start();
    let (client, accepted) = server.pair().await;
    let (mut to_server, _from_server) = client.open_control().await.unwrap();
    to_server.send_raw(&[0xff; 8]).await;
    let (_to_client, mut from_client) = within(accepted.accept_control()).await.unwrap();
    assert!(matches!(within(from_client.recv()).await, Err(NetError::Control(_))));
    reaches(&client, &accepted).await;
}

#[tokio::test]
async fn the_end_of_a_session_is_reported_with_its_reason() {
    let server = Server::start();
    let (client, accepted) = server.pair().await;
    let (reported, ()) = within(async { tokio::join!(client.closed(), accepted.finish(3, "the show is over")) }).await;
    assert_eq!(reported, CloseReason::Peer { code: 3, reason: "the show is over".into() });
    assert_eq!(accepted.closed().await, CloseReason::Here);

    let (client, accepted) = server.pair().await;
    drop(client);
    assert!(matches!(within(accepted.closed()).await, CloseReason::Peer { code: 0, .. }));

    let (client, _accepted) = server.pair().await;
    server.listener.shutdown("restarting").await;
    assert!(matches!(within(client.closed()).await, CloseReason::Peer { .. } | CloseReason::Failed(_)));
    assert!(within(server.listener.accept()).await.is_none());
    assert!(within(server.listener.accept_page()).await.is_none());
}

#[tokio::test]
async fn another_path_is_refused() {
    let server = Server::start();
    let (_endpoint, connection) = within(server.silent()).await.unwrap();
    let url = Url::parse(&format!("https://127.0.0.1:{}/elsewhere", server.listener.port())).unwrap();
    let refusal = within(Session::connect(connection, url)).await.err().unwrap();
    let error = client::explain(refusal, "the server".into());
    assert!(matches!(error, NetError::WrongPath { status: 404, .. }), "{error}");
    server.pair().await;
}

#[tokio::test]
async fn another_certificate_is_refused_and_both_are_named() {
    let server = Server::start();
    server.serve_pages();
    let expected = Identity::self_signed(&[]).unwrap().certificate_sha256();
    let trust = Trust::Certificate(expected);
    let over_quic = within(connect(&server.options(trust.clone()), server.clock)).await.err().unwrap();
    let over_tcp = within(http_get(&server.link(true), "/", &trust)).await.unwrap_err();
    let own = [server.identity.certificate_sha256(), server.identity.page_certificate_sha256()];
    for (error, own) in [over_quic, over_tcp].into_iter().zip(own) {
        let NetError::CertificateMismatch { expected: named, presented } = error else { panic!("{error}") };
        assert_eq!((named, presented), (expected, own));
    }
}

#[tokio::test]
async fn a_replaced_certificate_is_shown_from_then_on() {
    let server = Server::start();
    let (client, accepted) = server.pair().await;
    let fresh = Identity::self_signed(&[]).unwrap();
    server.listener.set_identity(&fresh).unwrap();
    let options = server.options(Trust::Certificate(fresh.certificate_sha256()));
    within(connect(&options, server.clock)).await.unwrap();
    let old = within(connect(&server.options(server.trust()), server.clock)).await.err().unwrap();
    assert!(matches!(old, NetError::CertificateMismatch { .. }), "{old}");
    reaches(&client, &accepted).await;
}

#[tokio::test]
async fn nobody_there_is_said_plainly() {
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let link = Link { secure: false, host: "127.0.0.1".into(), port, path: "/".into(), token: None, certificate: None };
    let error = within(http_get(&link, "/", &Trust::Any)).await.unwrap_err();
    assert!(matches!(error, NetError::NoAnswer { .. }), "{error}");
    let options = ConnectOptions { time_limit: Span::from_millis(200), ..ConnectOptions::new(&link, Trust::Any) };
    let error = within(connect(&options, Clock::start())).await.err().unwrap();
    assert!(error.to_string().contains(&format!("127.0.0.1:{port} does not answer")), "{error}");
}

#[tokio::test]
async fn http_and_https_share_the_port() {
    let server = Server::start();
    server.serve_pages();
    let get = async |secure, path, trust| within(http_get(&server.link(secure), path, &trust)).await;
    assert_eq!(get(false, "/", Trust::Any).await.unwrap(), "secure: false");
    let trust = Trust::Certificate(server.identity.page_certificate_sha256());
    assert_eq!(get(true, "/", trust).await.unwrap(), "secure: true");
    assert_eq!(get(true, "/", Trust::Any).await.unwrap(), "secure: true");
    assert!(matches!(get(false, "/large", Trust::Any).await, Err(NetError::Protocol { .. })), "the answer is bounded");
}

#[tokio::test]
async fn a_session_is_opened_to_the_named_certificate_or_to_any() {
    let server = Server::start();
    for trust in [server.trust(), Trust::Any] {
        within(connect(&server.options(trust), server.clock)).await.unwrap();
    }
}

#[tokio::test]
async fn a_proof_is_worth_nothing_on_another_connection() {
    let server = Server::start();
    let token = Token::generate().unwrap();
    let (one, other) = (server.pair().await, server.pair().await);
    let proof = token.prove(&one.0.exporter(), Role::Client);
    assert!(token.verify(&one.1.exporter(), Role::Client, &proof), "both ends export the same");
    assert!(!token.verify(&other.1.exporter(), Role::Client, &proof), "what was recorded opens no other connection");
    assert!(!Token::generate().unwrap().verify(&one.1.exporter(), Role::Client, &proof));
}

#[tokio::test]
async fn a_challenge_comes_before_the_client_has_said_anything() {
    let server = Server::start();
    let (client, accepted) = server.pair().await;
    let nonce = nonce().unwrap();
    within(accepted.send_challenge(nonce)).await.unwrap();
    let mut challenge = ControlReceiver::<ServerMessage>::new(within(client.session().accept_uni()).await.unwrap());
    assert_eq!(within(challenge.recv()).await.unwrap(), ServerMessage::Challenge { nonce });
    assert!(matches!(within(challenge.recv()).await, Err(NetError::ControlEnded)), "it is alone on its stream");
}

#[tokio::test]
async fn garbage_disturbs_nobody() {
    let server = Server::start();
    server.serve_pages();
    let (client, accepted) = server.pair().await;
    let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for number in 0..1_000_u32 {
        // Short and long, with and without QUIC's header bits.
        let bytes: Vec<u8> =
            (0..number % 1_400).map(|index| (index.wrapping_mul(31) ^ number.wrapping_mul(197)) as u8).collect();
        stranger.send_to(&bytes, server.address()).await.unwrap();
    }
    for bytes in [&b"\x16"[..], b"\x16\x03\x01\xff\xff garbage", b"\0\0\0\0", b"no HTTP at all\r\n\r\n"] {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
    }
    reaches(&client, &accepted).await;
    reaches(&accepted, &client).await;
    server.pair().await;
    assert_eq!(within(http_get(&server.link(false), "/", &Trust::Any)).await.unwrap(), "secure: false");
}

#[tokio::test]
async fn a_silent_handshake_makes_room_for_a_newcomer_and_ends_in_time() {
    let limits = Limits { handshakes: 2, handshake_time: Span::from_millis(1_500), ..Limits::default() };
    let server = Server::start_with(limits);
    let first = within(server.silent()).await.unwrap();
    let second = within(server.silent()).await.unwrap();
    assert_eq!(server.listener.pending_handshakes(), 2);
    let (_client, _accepted) = server.pair().await;
    assert!(server.listener.pending_handshakes() < 2, "the newcomer took a place");
    within(async { tokio::join!(first.1.closed(), second.1.closed()) }).await;
    server.pair().await;
    assert_eq!(server.listener.pending_handshakes(), 0);
}

#[tokio::test]
async fn a_crowd_of_silent_handshakes_keeps_nobody_out() {
    let limits = Limits { handshakes: 8, handshakes_per_address: 4, ..Limits::default() };
    let server = Server::start_with(Limits { handshake_time: Span::from_secs(60), ..limits });
    let mut crowd = Vec::new();
    for _ in 0..12 {
        crowd.push(within(server.silent()).await.unwrap());
        assert!(server.listener.pending_handshakes() <= 4, "more than one address' share");
    }
    for _ in 0..3 {
        let (client, accepted) = server.pair().await;
        reaches(&client, &accepted).await;
    }
}

#[tokio::test]
async fn a_busy_server_asks_for_proof_of_address() {
    let server = Server::start_with(Limits { retry_above: 0, ..Limits::default() });
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    let retries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&retries);
    tokio::spawn(relay(socket, server.address(), move |from_server, bytes| {
        // A long header of type 3 is a Retry (RFC 9000 section 17.2.5).
        counted.fetch_add(usize::from(from_server && bytes[0] & 0xb0 == 0xb0), Ordering::Relaxed);
        true
    }));
    let options = ConnectOptions { port, ..server.options(server.trust()) };
    let (client, accepted) = tokio::join!(within(connect(&options, server.clock)), within(server.listener.accept()));
    let (client, accepted) = (client.unwrap(), accepted.unwrap());
    reaches(&client, &accepted).await;
    assert!(retries.load(Ordering::Relaxed) > 0, "no Retry packet passed");
}

#[tokio::test]
async fn page_connections_are_bounded_and_silent_ones_dropped() {
    let limits = Limits { pages: 2, handshake_time: Span::from_millis(500), ..Limits::default() };
    let server = Server::start_with(limits);
    server.serve_pages();
    let silent =
        [TcpStream::connect(server.address()).await.unwrap(), TcpStream::connect(server.address()).await.unwrap()];
    let mut beyond = TcpStream::connect(server.address()).await.unwrap();
    for stream in [&mut beyond].into_iter().chain(&mut Vec::from(silent)) {
        let read = within(tokio::io::AsyncReadExt::read(stream, &mut [0])).await;
        assert!(matches!(read, Ok(0) | Err(_)), "a stranger's connection was kept");
    }
    assert_eq!(within(http_get(&server.link(false), "/", &Trust::Any)).await.unwrap(), "secure: false");
}
