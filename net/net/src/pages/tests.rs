//! Crowds of idle connections over loopback.

use std::net::Ipv4Addr;

use nearlight_units::Span;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::{Identity, Limits, ListenOptions, Listener};

/// Nothing on loopback takes this long; a test that waits for it has failed.
const NEVER: Duration = Duration::from_secs(20);

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(NEVER, future).await.expect("this never ends")
}

fn listen(limits: Limits) -> (Arc<Listener>, SocketAddr) {
    let identity = Identity::self_signed(&[]).unwrap();
    let options = ListenOptions { limits, ..ListenOptions::default() };
    let listener = Arc::new(Listener::bind(&options, &identity, Clock::start()).unwrap());
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), listener.port());
    (listener, address)
}

/// Echoes each line, and keeps silent connections for ever.
fn serve(listener: &Arc<Listener>) {
    let listener = Arc::clone(listener);
    tokio::spawn(async move {
        while let Some(mut stream) = listener.accept_page().await {
            tokio::spawn(async move {
                let mut bytes = [0; 16];
                while let Ok(length) = stream.read(&mut bytes).await {
                    if length == 0 || stream.write_all(&bytes[..length]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
}

async fn is_answered(stream: &mut TcpStream) -> bool {
    let asked = async {
        stream.write_all(b"hello").await?;
        stream.read_exact(&mut [0; 5]).await
    };
    within(asked).await.is_ok()
}

/// A connection from one of loopback's addresses that has sent `bytes`.
async fn idle_from(last: u8, server: SocketAddr, bytes: &[u8]) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
    let mut stream = socket.connect(server).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

#[tokio::test]
async fn a_crowd_of_idle_connections_keeps_nobody_out() {
    // No deadline helps here.
    let limits =
        Limits { pages: 12, pages_per_address: 6, handshake_time: Span::from_secs(3_600), ..Limits::default() };
    let (listener, server) = listen(limits);
    serve(&listener);
    let mut early = TcpStream::connect(server).await.unwrap();
    let mut crowd = Vec::new();
    for number in 0..60 {
        // Nothing at all, a first byte of HTTP, of TLS, of a datagram.
        let bytes = [&b""[..], b"G", b"\x16", b"\0"][number % 4];
        crowd.push(idle_from(2 + (number % 3) as u8, server, bytes).await);
        if number % 10 == 9 {
            assert!(is_answered(&mut TcpStream::connect(server).await.unwrap()).await, "after {number}");
            assert!(is_answered(&mut idle_from(2, server, b"").await).await, "the crowd's own address, after {number}");
        }
    }
    assert!(is_answered(&mut early).await, "the idlest of all, but the only one from its address");
}

#[tokio::test]
async fn what_a_session_has_reserved_stays() {
    let (listener, server) = listen(Limits { pages: 4, pages_per_address: 4, ..Limits::default() });
    let mut client = TcpStream::connect(server).await.unwrap();
    client.write_all(b"hello").await.unwrap();
    let mut reserved = within(listener.accept_page()).await.unwrap();
    assert!(reserved.reservation().claim());
    let mut crowd = Vec::new();
    for _ in 0..12 {
        let mut newcomer = TcpStream::connect(server).await.unwrap();
        newcomer.write_all(b"hello").await.unwrap();
        crowd.push((newcomer, within(listener.accept_page()).await.unwrap()));
    }
    let (_, mut evicted) = crowd.remove(0);
    let error = evicted.read(&mut [0; 5]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted, "{error}");
    assert_eq!(evicted.write(b"more").await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    assert_eq!(reserved.read(&mut [0; 5]).await.unwrap(), 5);
    reserved.write_all(b"hello").await.unwrap();
    within(client.read_exact(&mut [0; 5])).await.unwrap();
}

#[tokio::test]
async fn a_peer_that_takes_nothing_is_given_up() {
    let (listener, server) = listen(Limits { write_time: Span::from_millis(300), ..Limits::default() });
    let mut client = TcpStream::connect(server).await.unwrap();
    client.write_all(b"GET").await.unwrap();
    let mut stream = within(listener.accept_page()).await.unwrap();
    let error = within(async {
        loop {
            if let Err(error) = stream.write_all(&vec![0; 1 << 16]).await {
                return error;
            }
        }
    });
    assert_eq!(error.await.kind(), io::ErrorKind::TimedOut);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_s_tcp_is_asked_and_configured_for_itself_until_it_closes() {
    let (listener, server) = listen(Limits::default());
    let mut streams = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..2 {
        clients.push(idle_from(1, server, b"GET /").await);
        let mut stream = within(listener.accept_page()).await.expect("a connection");
        within(stream.read_exact(&mut [0; 5])).await.unwrap();
        streams.push(stream);
    }
    let [chosen, other] = [streams[0].tcp(), streams[1].tcp()];
    let usual = other.congestion_control().unwrap();
    chosen.set_congestion_control("reno").unwrap();
    assert_eq!(chosen.congestion_control().unwrap(), "reno");
    assert_eq!(other.congestion_control().unwrap(), usual);
    assert_eq!(chosen.set_congestion_control("no-such").unwrap_err().kind(), io::ErrorKind::NotFound);
    let before = chosen.info().unwrap();
    within(streams[0].write_all(&[7; 5_000])).await.unwrap();
    within(clients[0].read_exact(&mut [0; 5_000])).await.unwrap();
    let sent = chosen.info().unwrap();
    assert!(sent.bytes_sent.get() >= before.bytes_sent.get() + 5_000, "{sent:?}");
    assert!(sent.rate_limit().is_some(), "{sent:?}");
    assert_eq!(other.info().unwrap().bytes_sent, before.bytes_sent);
    drop(streams);
    assert_eq!(chosen.info().unwrap_err().kind(), io::ErrorKind::NotConnected);
    assert_eq!(within(clients[1].read(&mut [0; 8])).await.unwrap(), 0, "the handle keeps nothing open");
}
