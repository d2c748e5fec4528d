//! A client's TCP connection to the page's port, for a WebSocket.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client::resolve;
use crate::clock::duration;
use crate::trust::ClientTls;
use crate::{ConnectOptions, NetError};

/// The application protocol: a WebSocket is opened by a request of HTTP/1.1 (RFC 6455 section 4.1).
const ALPN: &str = "http/1.1";

/// A connection to the page's port, encrypted or not.
pub enum ClientStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Connects to the page's port by TCP, with TLS if `secure`. Small writes are sent at once.
pub async fn connect_page(options: &ConnectOptions, secure: bool) -> Result<ClientStream, NetError> {
    let limit = duration(options.time_limit);
    let opened = tokio::time::timeout(limit, open(options, secure)).await;
    opened.unwrap_or_else(|_| Err(NetError::NoAnswer { target: options.target() }))
}

async fn open(options: &ConnectOptions, secure: bool) -> Result<ClientStream, NetError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused => NetError::NoAnswer { target: options.target() },
        _ => NetError::Protocol { target: options.target(), reason: error.to_string() },
    };
    let addresses = resolve(&options.host, options.port).await?;
    let stream = TcpStream::connect(&*addresses).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    if !secure {
        return Ok(ClientStream::Plain(stream));
    }
    let tls = ClientTls::new(&options.trust, ALPN);
    let name = ServerName::try_from(options.host.clone()).map_err(|_| NetError::Link(options.target()))?;
    let connector = TlsConnector::from(Arc::new(tls.config.clone()));
    let stream = connector.connect(name, stream).await;
    let stream = stream.map_err(|error| tls.mismatch().unwrap_or_else(|| failed(error)))?;
    Ok(ClientStream::Tls(Box::new(stream)))
}

macro_rules! each_stream {
    ($own:expr, $stream:ident => $call:expr) => {
        match $own.get_mut() {
            ClientStream::Plain(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
            ClientStream::Tls(stream) => {
                let $stream = Pin::new(&mut **stream);
                $call
            }
        }
    };
}

impl AsyncRead for ClientStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each_stream!(self, stream => stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        each_stream!(self, stream => stream.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each_stream!(self, stream => stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each_stream!(self, stream => stream.poll_shutdown(context))
    }
}
