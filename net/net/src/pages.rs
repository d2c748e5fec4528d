//! The TCP side of the port: HTTP, HTTPS and length-prefixed datagrams, distinguished by the first byte.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nearlight_units::{Time, lock};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::Clock;
use crate::gate::{Gate, Pass, Reservation};
use crate::shared_tcp::{SharedTcp, TcpSocket};

/// The content type of a TLS record with a handshake message (RFC 8446 section 5.1), never the first byte of HTTP.
const TLS_HANDSHAKE: u8 = 0x16;

/// First byte of a datagram of at most 511 bytes with a two-byte length prefix (RFC 4571), like the ICE requests that begin
/// such a connection (RFC 6544). Never the first byte of HTTP.
const SHORT_DATAGRAM: std::ops::RangeInclusive<u8> = 0..=1;

/// Pause after the platform refused to accept, usually for lack of file handles: some are closed meanwhile. Guess.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of unsent bytes of a connection in the kernel before it accepts no more, and as many again in TLS: queued data can
/// neither be dropped nor overtaken. Guess: a frame of 4 Mb/s at 30 frames a second.
const MAX_UNSENT_BYTES: u32 = 16 << 10;

/// A connection to serve the page on, encrypted or not.
///
/// Reading and writing fail once its place was given to a newcomer. Writing also fails if the peer accepts nothing for
/// [`crate::Limits::write_time`].
pub struct PageStream {
    stream: Stream,
    local: SocketAddr,
    peer: SocketAddr,
    framed: bool,
    accepted_at: Time,
    clock: Clock,
    /// The pass, returned when the stream closes.
    pass: Pass,
    write_limit: Duration,
    /// A timer that runs while the peer accepts nothing.
    stuck: Option<Pin<Box<Sleep>>>,
}

enum Stream {
    Plain(SharedTcp),
    Tls(Box<TlsStream<SharedTcp>>),
}

impl PageStream {
    /// Whether the peer uses TLS.
    #[must_use]
    pub const fn secure(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }

    /// Whether the peer sends length-prefixed datagrams instead of HTTP.
    #[must_use]
    pub const fn framed(&self) -> bool {
        self.framed
    }

    /// The peer's address. IPv4-mapped addresses are returned as IPv4.
    #[must_use]
    pub const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// This machine's address that the peer connected to. IPv4-mapped addresses are returned as IPv4.
    #[must_use]
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// When the connection was accepted, before its first byte.
    #[must_use]
    pub const fn accepted_at(&self) -> Time {
        self.accepted_at
    }

    /// The clock of [`PageStream::accepted_at`].
    #[must_use]
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// The connection's TCP socket, for as long as it is open.
    #[must_use]
    pub fn tcp(&self) -> TcpSocket {
        match &self.stream {
            Stream::Plain(stream) => stream.socket(),
            Stream::Tls(stream) => stream.get_ref().0.socket(),
        }
    }

    /// Returns a reservation that keeps the connection's place for a session.
    #[must_use]
    pub fn reservation(&self) -> Reservation {
        self.pass.reservation()
    }

    fn poll_evicted(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        self.pass.poll_evicted(context).map(|()| {
            io::Error::new(io::ErrorKind::ConnectionAborted, "idle, and its place was needed for another connection")
        })
    }

    /// Returns the result of a write, or an error if the peer has accepted nothing for too long.
    fn progress<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let limit = self.write_limit;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(stuck.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer accepts no data")))
    }
}

/// The state of the accepting task.
pub(crate) struct PageAcceptor {
    pub(crate) listener: TcpListener,
    pub(crate) tls: Arc<Mutex<TlsAcceptor>>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) clock: Clock,
    pub(crate) time_limit: Duration,
    pub(crate) write_limit: Duration,
    pub(crate) accepted: mpsc::Sender<PageStream>,
}

impl PageAcceptor {
    /// Accepts until the receiver of the streams is dropped. When a limit is reached, the connection that has been idle longest is evicted.
    pub(crate) async fn run(self) {
        while !self.accepted.is_closed() {
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "accepting a page connection failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let peer = canonical(peer);
            let accepted_at = self.clock.now();
            let Some(mut pass) = self.gate.enter(accepted_at, peer.ip()) else {
                tracing::debug!(%peer, "all page connections are those of sessions; closed");
                continue;
            };
            let (accepted, clock) = (self.accepted.clone(), self.clock);
            let (time_limit, write_limit) = (self.time_limit, self.write_limit);
            let tls = lock(&self.tls).clone();
            tokio::spawn(async move {
                let opened = tokio::select! {
                    opened = tokio::time::timeout(time_limit, accept(stream, tls)) => opened,
                    () = pass.evicted() => {
                        tracing::debug!(%peer, "a page connection was idle, and its place was needed");
                        return;
                    }
                };
                match opened {
                    Ok(Ok(AcceptedStream { stream, local, framed })) => {
                        pass.on_activity(clock.now());
                        let stuck = None;
                        let stream =
                            PageStream { stream, local, peer, framed, accepted_at, clock, pass, write_limit, stuck };
                        let _ = accepted.send(stream).await;
                    }
                    Ok(Err(error)) => tracing::debug!(%peer, %error, "page connection failed"),
                    Err(_) => tracing::debug!(%peer, "page connection sent nothing in time"),
                }
            });
        }
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

struct AcceptedStream {
    stream: Stream,
    local: SocketAddr,
    /// Whether it carries datagrams.
    framed: bool,
}

async fn accept(stream: TcpStream, tls: TlsAcceptor) -> io::Result<AcceptedStream> {
    stream.set_nodelay(true)?;
    limit_unsent(&stream)?;
    let local = canonical(stream.local_addr()?);
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let framed = SHORT_DATAGRAM.contains(&first[0]);
    let stream = SharedTcp::new(stream);
    let stream = if first[0] == TLS_HANDSHAKE {
        let mut stream = tls.accept(stream).await?;
        stream.get_mut().1.set_buffer_limit(Some(MAX_UNSENT_BYTES as usize));
        Stream::Tls(Box::new(stream))
    } else {
        Stream::Plain(stream)
    };
    Ok(AcceptedStream { stream, local, framed })
}

/// Limits unsent data: the kernel accepts more only when little is left that TCP has not sent.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn limit_unsent(stream: &TcpStream) -> io::Result<()> {
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(MAX_UNSENT_BYTES)
}

/// Does nothing: other systems have no such limit, or not under this name, so more of a session's data is queued in the kernel there.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn limit_unsent(_: &TcpStream) -> io::Result<()> {
    Ok(())
}

impl AsyncRead for PageStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        if let Poll::Ready(error) = own.poll_evicted(context) {
            return Poll::Ready(Err(error));
        }
        let read = match &mut own.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        };
        if read.is_ready() {
            own.pass.on_activity(own.clock.now());
        }
        read
    }
}

impl AsyncWrite for PageStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        if let Poll::Ready(error) = own.poll_evicted(context) {
            return Poll::Ready(Err(error));
        }
        let written = match &mut own.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        };
        if written.is_ready() {
            own.pass.on_activity(own.clock.now());
        }
        own.progress(context, written)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        if let Poll::Ready(error) = own.poll_evicted(context) {
            return Poll::Ready(Err(error));
        }
        let flushed = match &mut own.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        };
        own.progress(context, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let ended = match &mut own.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        };
        own.progress(context, ended)
    }
}

#[cfg(test)]
mod tests;
