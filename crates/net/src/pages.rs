//! The TCP side of the port: HTTP, HTTPS and datagrams behind their lengths told apart by the first byte.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::gate::{Gate, Pass};

/// The content type of a TLS record with a handshake message (RFC 8446 section 5.1), never the first byte of HTTP.
const TLS_HANDSHAKE: u8 = 0x16;

/// A datagram behind its length of two bytes (RFC 4571) begins with this if it is no longer than 511 bytes, as the requests of ICE that
/// begin such a connection are (RFC 6544); never the first byte of HTTP.
const SHORT_DATAGRAM: std::ops::RangeInclusive<u8> = 0..=1;

/// Pause after the platform refused to accept, usually for want of file handles: some close meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection to serve the page on, encrypted or not.
pub struct PageStream {
    stream: Stream,
    peer: SocketAddr,
    framed: bool,
    /// Given back when the stream closes.
    _pass: Pass,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl PageStream {
    /// Whether the peer speaks TLS.
    #[must_use]
    pub const fn secure(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }

    /// Whether the peer sends datagrams, each behind its length, and no HTTP.
    #[must_use]
    pub const fn framed(&self) -> bool {
        self.framed
    }

    /// The peer's address; IPv4 as such.
    #[must_use]
    pub const fn peer(&self) -> SocketAddr {
        self.peer
    }
}

/// What the accepting task needs.
pub(crate) struct PageAcceptor {
    pub(crate) listener: TcpListener,
    pub(crate) tls: Arc<Mutex<TlsAcceptor>>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) time_limit: Duration,
    pub(crate) accepted: mpsc::Sender<PageStream>,
}

impl PageAcceptor {
    /// Accepts until nobody takes the streams any more. A connection beyond the bounds is closed at once.
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
            let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
            let Some(pass) = self.gate.enter(peer.ip()) else {
                tracing::debug!(%peer, "too many page connections; closed");
                continue;
            };
            let (accepted, time_limit) = (self.accepted.clone(), self.time_limit);
            let tls = self.tls.lock().unwrap_or_else(PoisonError::into_inner).clone();
            tokio::spawn(async move {
                match tokio::time::timeout(time_limit, greet(stream, tls)).await {
                    Ok(Ok((stream, framed))) => {
                        let _ = accepted.send(PageStream { stream, peer, framed, _pass: pass }).await;
                    }
                    Ok(Err(error)) => tracing::debug!(%peer, %error, "page connection failed"),
                    Err(_) => tracing::debug!(%peer, "page connection said nothing in time"),
                }
            });
        }
    }
}

/// The stream, and whether it brings datagrams.
async fn greet(stream: TcpStream, tls: TlsAcceptor) -> io::Result<(Stream, bool)> {
    stream.set_nodelay(true)?;
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if first[0] == TLS_HANDSHAKE {
        Ok((Stream::Tls(Box::new(tls.accept(stream).await?)), false))
    } else {
        Ok((Stream::Plain(stream), SHORT_DATAGRAM.contains(&first[0])))
    }
}

impl AsyncRead for PageStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for PageStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
