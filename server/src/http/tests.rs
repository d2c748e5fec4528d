//! Connections over loopback to a site with short limits. Nothing asserts how soon something happens, only that it does.

use std::net::{Ipv4Addr, SocketAddr};

use axum::extract::Extension;
use axum::routing::get;
use nearlight_net::{Identity, ListenOptions, Listener};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

/// Nothing on loopback takes this long; a test that waits for it has failed.
const NEVER: Duration = Duration::from_secs(20);

const LARGE: usize = 4 << 20;

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(NEVER, future).await.expect("this never ends")
}

fn site(limits: Limits) -> Site {
    let router = Router::new().route("/", get(|| async { "here" })).route("/large", get(|| async { vec![7; LARGE] }));
    Site { limits, ..Site::new(router, Hosts::new(["machine.test".to_owned()]), true, Clock::start()) }
}

/// Starts a site with these limits, as [`serve`] does.
fn start(limits: Limits) -> SocketAddr {
    serve(site(limits))
}

/// Starts a site and returns the address that it listens on. The serving task ends with the test.
fn serve(site: Site) -> SocketAddr {
    let identity = Identity::self_signed(&[]).expect("a certificate");
    let site = Arc::new(site);
    let listener = Listener::bind(&ListenOptions::default(), &identity, site.clock).expect("a free port");
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), listener.port());
    tokio::spawn(async move {
        while let Some(stream) = listener.accept_page().await {
            tokio::spawn(Arc::clone(&site).serve(stream));
        }
    });
    address
}

const SHORT: Limits = Limits { first_request: Span::from_millis(300), idle: Span::from_millis(600) };
const LONG: Limits = Limits { first_request: FIRST_REQUEST_LIMIT, idle: IDLE_LIMIT };

type Client = (h2::client::SendRequest<axum::body::Bytes>, tokio::task::JoinHandle<Result<(), h2::Error>>);

/// An HTTP/2 client that answers pings.
async fn http2(server: SocketAddr) -> Client {
    let stream = TcpStream::connect(server).await.expect("the port is open");
    let (requests, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    (requests, tokio::spawn(connection))
}

fn request(path: &str) -> axum::http::Request<()> {
    axum::http::Request::get(format!("http://localhost{path}")).body(()).expect("a request")
}

#[tokio::test]
async fn who_asks_nothing_is_not_kept() {
    let server = start(SHORT);
    for bytes in [&b"G"[..], b"GET / HTTP/1.1\r\nHost: local", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"]
    {
        let mut stream = TcpStream::connect(server).await.expect("the port is open");
        stream.write_all(bytes).await.expect("sent");
        let read = within(stream.read_to_end(&mut Vec::new())).await;
        assert!(read.is_ok() || read.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset));
    }
}

#[tokio::test]
async fn idle_http2_ends_although_its_client_answers_pings() {
    let server = start(SHORT);
    let (_silent, connection) = http2(server).await;
    within(connection).await.expect("a task").ok();
    let (mut requests, connection) = http2(server).await;
    let (response, _) = requests.send_request(request("/"), true).expect("an open connection");
    assert_eq!(within(response).await.expect("an answer").status(), StatusCode::OK);
    within(connection).await.expect("a task").ok();
}

#[tokio::test]
async fn an_answer_that_nobody_reads_is_not_kept() {
    let server = start(SHORT);
    let (mut requests, connection) = http2(server).await;
    let (response, _) = requests.send_request(request("/large"), true).expect("an open connection");
    let mut body = within(response).await.expect("an answer").into_body();
    // The server sends as much as the client's window allows, and the client requests no more.
    let mut received = 0;
    while let Some(Ok(piece)) = within(body.data()).await {
        assert!(piece.len() <= CHUNK_BYTES);
        received += piece.len();
    }
    assert!(received < LARGE, "{received} bytes");
    within(connection).await.expect("a task").ok();
    let mut stream = TcpStream::connect(server).await.expect("the port is open");
    let head = "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(64);
    stream.write_all(head.as_bytes()).await.expect("sent");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut read = Vec::new();
    let _ = within(stream.read_to_end(&mut read)).await;
    assert!(read.len() < 64 * LARGE, "{} bytes", read.len());
}

#[tokio::test]
async fn who_reads_slowly_but_steadily_gets_everything() {
    let server = start(Limits { idle: Span::from_secs(2), ..LONG });
    let (mut requests, _connection) = http2(server).await;
    let (response, _) = requests.send_request(request("/large"), true).expect("an open connection");
    let mut body = within(response).await.expect("an answer").into_body();
    let (mut received, mut unread, mut pauses) = (0, 0, 0);
    while let Some(piece) = within(body.data()).await {
        let length = piece.expect("the connection stays").len();
        received += length;
        unread += length;
        // In total this takes longer than an idle connection is kept.
        if unread >= 60_000 {
            body.flow_control().release_capacity(unread).expect("it was received");
            unread = 0;
            pauses += 1;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    assert_eq!(received, LARGE);
    assert!(pauses > 60, "{pauses} pauses");
}

#[tokio::test]
async fn one_http2_connection_has_few_requests_under_way() {
    let server = start(LONG);
    let (mut requests, _connection) = http2(server).await;
    // The server's settings have arrived with its first response.
    let (response, _) = requests.send_request(request("/"), true).expect("an open connection");
    within(response).await.expect("an answer");
    assert_eq!(requests.current_max_send_streams(), MAX_HTTP2_STREAMS as usize);
}

/// The response, in lower case.
async fn ask(server: SocketAddr, host: &str, path: &str) -> String {
    ask_with(server, host, path, "").await
}

/// As [`ask`], with further lines of the request's head.
async fn ask_with(server: SocketAddr, host: &str, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(server).await.expect("the port is open");
    let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    within(stream.read_to_end(&mut answer)).await.expect("an answer");
    String::from_utf8_lossy(&answer).to_ascii_lowercase()
}

#[tokio::test]
async fn other_sites_names_are_not_answered_and_other_sites_cannot_embed() {
    let server = start(LONG);
    for (host, status) in [
        ("localhost", "200"),
        ("127.0.0.1:8090", "200"),
        ("machine.test", "200"),
        ("attacker.example", "421"),
        ("attacker.example:8090", "421"),
        ("192.0.2.1", "421"),
        ("", "400"),
    ] {
        let answer = ask(server, host, "/").await;
        assert!(answer.starts_with(&format!("http/1.1 {status} ")), "{host}: {answer}");
        for header in [
            "cross-origin-opener-policy: same-origin",
            "cross-origin-resource-policy: same-origin",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "frame-ancestors 'none'",
        ] {
            assert!(answer.contains(header), "{host}: {header} is missing in {answer}");
        }
    }
}

#[test]
fn plain_http_from_another_machine_reaches_unity_s_routes_alone() {
    let site = site(LONG);
    let origin = |secure| {
        let peer = [192, 0, 2, 9].into();
        Origin { client: Requester { address: peer, secure }, peer, local: [192, 0, 2, 7].into() }
    };
    let websocket = [("upgrade", "websocket"), ("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA==")];
    for (path, headers, is_let_in) in [
        ("/", &[][..], false),
        ("/metrics", &[], false),
        ("/metrics", &[("upgrade", "x")], false),
        ("/session.json", &websocket, false),
        ("/whep", &[("upgrade", "h2c")], false),
        ("/", &[("upgrade", "x")], false),
        ("/", &[("upgrade", "websocket")], false),
        ("/", &websocket, true),
        ("/config", &[], true),
        ("/signaling/offer", &[], true),
        ("/unity/", &[], true),
    ] {
        let mut request = Request::get(path).header("host", "192.0.2.7:8090");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).expect("a request");
        assert!(site.refusal(origin(true), &request).is_none(), "{path} over TLS");
        match site.refusal(origin(false), &request) {
            None => assert!(is_let_in, "{path} {headers:?}"),
            Some(response) => {
                assert!(!is_let_in, "{path} {headers:?}");
                assert_eq!(response.status(), StatusCode::TEMPORARY_REDIRECT);
                assert_eq!(response.headers()[header::LOCATION], format!("https://192.0.2.7:8090{path}"));
            }
        }
    }
    let foreign = Request::get("/").header("host", "attacker.example").body(Body::empty()).expect("a request");
    let refused = site.refusal(origin(false), &foreign).expect("another site's name");
    assert_eq!(refused.status(), StatusCode::MISDIRECTED_REQUEST);
    assert!(!refused.headers().contains_key(header::LOCATION), "nobody is sent to a name that a stranger chose");
}

#[tokio::test]
async fn a_trusted_proxy_s_client_is_named_and_its_path_is_removed() {
    let router = || {
        let describe = async |Extension(super::Client(client)): Extension<super::Client>,
                              Extension(scheme): Extension<Scheme>| {
            format!("{client} {scheme};")
        };
        let here = async || (StatusCode::SEE_OTHER, [(header::LOCATION, "/whep/1")]);
        Router::new().route("/", get(describe)).route("/whep", get(here))
    };
    let behind = |proxies: &[&str]| {
        let proxies = proxies.iter().map(|proxy| proxy.parse().expect("a prefix")).collect();
        let site = Site::new(router(), Hosts::new(["desk.example.net".to_owned()]), false, Clock::start());
        serve(site.behind(TrustedProxies::new(proxies), PathPrefix::new("/world/")))
    };
    let (trusted, other) = (behind(&["127.0.0.0/8"]), behind(&["192.0.2.0/24"]));
    let headers = "X-Forwarded-For: 203.0.113.9, 198.51.100.7\r\nX-Forwarded-Proto: https\r\n";
    for (server, path, expected) in [
        (trusted, "/", "198.51.100.7 https;"),
        (trusted, "/world/", "198.51.100.7 https;"),
        (trusted, "/world", "location: /world/\r\n"),
        (trusted, "/world/whep", "location: /world/whep/1\r\n"),
        (trusted, "/whep", "location: /world/whep/1\r\n"),
        (other, "/world/", "127.0.0.1 http;"),
    ] {
        let answer = ask_with(server, "desk.example.net", path, headers).await;
        assert!(answer.contains(expected), "{path}: {answer}");
    }
    let mut long = "X-Forwarded-For: ".to_owned();
    long.extend(std::iter::repeat_n("203.0.113.9,", 3_000));
    let answer = ask_with(trusted, "desk.example.net", "/", &format!("{long}198.51.100.7\r\n")).await;
    assert!(answer.contains("198.51.100.7 http;"), "{answer}");
}

#[test]
fn refusals_are_logged_and_a_stranger_fills_no_log() {
    let site = site(LONG);
    let refused = HttpRefusal::new(StatusCode::UNAUTHORIZED, "wrong");
    assert!(refused.clone().into_response().extensions().get::<HttpRefusal>().is_some(), "a route's refusal is seen");
    let (guesser, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
    for _ in 0..1_000 {
        site.log(guesser, "/whep", &refused);
    }
    site.log(other, "/signaling/offer", &refused);
    let left_out = &site.refusal_log.lock().expect("no panic").left_out;
    assert!((900..=984).contains(&left_out[&guesser]), "{left_out:?}");
    assert!(!left_out.contains_key(&other));
}
