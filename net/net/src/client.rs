//! Opens a session to a server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nearlight_units::Span;
use quinn::crypto::rustls::QuicClientConfig;
use quinn_proto::TransportErrorCode;
use tokio::task::JoinSet;
use url::Url;
use web_transport_quinn::{ClientError, ConnectError, Session, proto};

use crate::clock::duration;
use crate::sockets::{local_for, udp_socket};
use crate::transport::endpoint_config;
use crate::trust::ClientTls;
use crate::{Clock, Connection, Link, NetError, SessionKind, Trust};

/// Delay between attempts to connect to a name's addresses (RFC 8305 section 5, "Connection Attempt Delay").
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Maximum number of a name's addresses that are tried. Guess.
const MAX_ADDRESSES: usize = 4;

/// The server to which a session is opened, and the session's options.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// A name or an address, IPv6 without brackets.
    pub host: String,
    pub port: u16,
    pub trust: Trust,
    pub kind: SessionKind,
    /// Time limit for opening the session.
    pub time_limit: Span,
}

impl ConnectOptions {
    /// Options for a media session with the server of `link`, opened within 5 s.
    #[must_use]
    pub fn new(link: &Link, trust: Trust) -> Self {
        Self {
            host: link.host.clone(),
            port: link.port,
            trust,
            kind: SessionKind::Media,
            time_limit: Span::from_secs(5),
        }
    }

    pub(crate) fn target(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

/// Opens a session. Tries the addresses of a name in turn, each a delay after the previous one.
pub async fn connect(options: &ConnectOptions, clock: Clock) -> Result<Connection, NetError> {
    let limit = duration(options.time_limit);
    let opened = tokio::time::timeout(limit, open_any(options, clock)).await;
    opened.unwrap_or_else(|_| Err(NetError::NoAnswer { target: options.target() }))
}

/// Returns the addresses of a name, or the address itself.
pub(crate) async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, NetError> {
    let found = tokio::net::lookup_host((host, port)).await;
    found.map(Iterator::collect).map_err(|_| NetError::Name { host: host.to_owned() })
}

async fn open_any(options: &ConnectOptions, clock: Clock) -> Result<Connection, NetError> {
    let addresses = resolve(&options.host, options.port).await?;
    let mut attempts = JoinSet::new();
    for (remote, turn) in addresses.into_iter().take(MAX_ADDRESSES).zip(0_u32..) {
        let options = options.clone();
        attempts.spawn(async move {
            tokio::time::sleep(ATTEMPT_DELAY * turn).await;
            open(&options, remote, clock).await
        });
    }
    let mut failure = NetError::Name { host: options.host.clone() };
    while let Some(attempt) = attempts.join_next().await {
        match attempt {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => failure = error,
            Err(error) => failure = NetError::Protocol { target: options.target(), reason: error.to_string() },
        }
    }
    Err(failure)
}

async fn open(options: &ConnectOptions, remote: SocketAddr, clock: Clock) -> Result<Connection, NetError> {
    let tls = ClientTls::new(&options.trust, web_transport_quinn::ALPN);
    let endpoint = endpoint(remote)?;
    let failed = |error| tls.mismatch().unwrap_or_else(|| explain(error, options.target()));
    let connecting =
        endpoint.connect_with(quic_config(&tls), remote, &options.host).map_err(|error| failed(error.into()))?;
    let connection = connecting.await.map_err(|error| failed(error.into()))?;
    let address = format!("https://{}{}", options.target(), options.kind.path());
    let url = Url::parse(&address).map_err(|_| NetError::Link(options.target()))?;
    let session = Session::connect(connection, url).await.map_err(failed)?;
    Ok(Connection::new(session, options.kind, clock, Some(endpoint)))
}

/// Makes a client's own endpoint, on a free port from which `remote` can be reached.
pub(crate) fn endpoint(remote: SocketAddr) -> Result<quinn::Endpoint, NetError> {
    let failed = |source| NetError::Socket { what: "a UDP socket to reach the server".into(), source };
    let socket = udp_socket(local_for(remote)).map_err(failed)?;
    quinn::Endpoint::new(endpoint_config(), None, socket, Arc::new(quinn::TokioRuntime)).map_err(failed)
}

/// Returns QUIC settings of a client with these TLS settings.
pub(crate) fn quic_config(tls: &ClientTls) -> quinn::ClientConfig {
    let crypto =
        QuicClientConfig::try_from(tls.config.clone()).expect("TLS 1.3 with ring has QUIC's first cipher suite");
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(crate::transport_config()));
    config
}

/// Explains a failure to open a session to the person at the client.
pub(crate) fn explain(error: ClientError, target: String) -> NetError {
    match error {
        ClientError::HttpError(
            ConnectError::ErrorStatus(status)
            | ConnectError::ProtoError(proto::ConnectError::WrongStatus(Some(status))),
        ) => NetError::WrongPath { target, status: status.as_u16() },
        ClientError::Connection(quinn::ConnectionError::TimedOut) => NetError::NoAnswer { target },
        ClientError::Connection(quinn::ConnectionError::ConnectionClosed(close))
            if close.error_code == TransportErrorCode::CONNECTION_REFUSED =>
        {
            NetError::Refused { target, reason: "it has too many others to answer".into() }
        }
        other => NetError::Protocol { target, reason: other.to_string() },
    }
}
