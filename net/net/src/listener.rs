//! The server's port: sessions over QUIC, the page over TCP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nearlight_units::{Span, lock};
use quinn::Runtime as _;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use web_transport_quinn::http::StatusCode;
use web_transport_quinn::{Request, ServerError};

use crate::address_proof::{AddressProofs, LimitedSocket};
use crate::clock::duration;
use crate::connection::CLOSING_LIMIT;
use crate::gate::{Gate, Pass};
use crate::identity::own_addresses;
use crate::pages::PageAcceptor;
use crate::sockets::Sockets;
use crate::transport::endpoint_config;
use crate::{Clock, Connection, Identity, NetError, PageStream, SessionKind};

/// Maximum number of sessions, and of page connections, that are accepted but not yet taken by the server.
const MAX_UNACCEPTED: usize = 16;

/// Connection attempts that quinn queues while we handle others, and the early bytes that it buffers for each and for all.
const WAITING_ATTEMPTS: usize = 256;
const EARLY_BYTES: u64 = 16 << 10;
const EARLY_BYTES_IN_ALL: u64 = 1 << 20;

/// Limits on the resources of strangers. When one is reached, a newcomer replaces the holder that has been idle longest of the address that
/// holds the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Unfinished handshakes of sessions, in total and from one address (an IPv6 /64 counts as one).
    pub handshakes: usize,
    pub handshakes_per_address: usize,
    /// From this many unfinished handshakes on, a client first proves its address (QUIC Retry), so that forged addresses
    /// cost us one small packet and no memory.
    pub retry_above: usize,
    /// Time limit for a handshake, of a session or of a page.
    pub handshake_time: Span,
    /// Open page connections, in total and from one address, and how many of them may be reserved for sessions ([`crate::Reservation`]).
    pub pages: usize,
    pub pages_per_address: usize,
    pub reserved_pages: usize,
    /// How long the peer of a page connection may accept none of the data written to it.
    pub write_time: Span,
}

impl Default for Limits {
    /// Guess: a class of 30 behind one address opens the link at the same moment, a browser opens six page connections, and each may have
    /// its media through one more. After an outage of a few seconds, a peer accepts data again within ten.
    fn default() -> Self {
        Self {
            handshakes: 64,
            handshakes_per_address: 32,
            retry_above: 16,
            handshake_time: Span::from_secs(5),
            pages: 512,
            pages_per_address: 192,
            reserved_pages: 128,
            write_time: Span::from_secs(10),
        }
    }
}

/// The address and port to listen on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListenOptions {
    /// The address. None listens on every address, IPv6 and IPv4.
    pub address: Option<IpAddr>,
    /// The port. 0 picks one that is free for UDP and TCP.
    pub port: u16,
    pub limits: Limits,
}

/// The server's end of one port number. Dropping it stops accepting; sessions continue until they are closed.
pub struct Listener {
    endpoint: quinn::Endpoint,
    local: SocketAddr,
    tls: Arc<Mutex<TlsAcceptor>>,
    handshakes: Arc<Gate>,
    sessions: tokio::sync::Mutex<mpsc::Receiver<Connection>>,
    pages: tokio::sync::Mutex<mpsc::Receiver<PageStream>>,
    tasks: [JoinHandle<()>; 2],
}

impl Listener {
    /// Opens the port for UDP and TCP and starts to accept. Call it inside a tokio runtime.
    pub fn bind(options: &ListenOptions, identity: &Identity, clock: Clock) -> Result<Self, NetError> {
        let Sockets { udp, tcp, local } = Sockets::open(options.address, options.port)?;
        let failed = |error| NetError::opening("the server's sockets", local.port(), error);
        let (config, tls) = (server_config(identity)?, page_tls(identity)?);
        let (runtime, proofs) = (Arc::new(quinn::TokioRuntime), Arc::<AddressProofs>::default());
        let udp = LimitedSocket::new(runtime.wrap_udp_socket(udp).map_err(failed)?, Arc::clone(&proofs));
        let endpoint =
            quinn::Endpoint::new_with_abstract_socket(endpoint_config(), Some(config), Arc::new(udp), runtime)
                .map_err(failed)?;
        let limits = &options.limits;
        let time_limit = duration(limits.handshake_time);
        let handshakes = Gate::new(limits.handshakes, limits.handshakes_per_address, 0);
        let (session_sender, sessions) = mpsc::channel(MAX_UNACCEPTED);
        let sessions_task = SessionAcceptor {
            endpoint: endpoint.clone(),
            proofs,
            gate: Arc::clone(&handshakes),
            retry_above: limits.retry_above,
            time_limit,
            clock,
            accepted: session_sender,
        };
        let tls = Arc::new(Mutex::new(tls));
        let (page_sender, pages) = mpsc::channel(MAX_UNACCEPTED);
        let pages_task = PageAcceptor {
            listener: tokio::net::TcpListener::from_std(tcp).map_err(failed)?,
            tls: Arc::clone(&tls),
            gate: Gate::new(limits.pages, limits.pages_per_address, limits.reserved_pages),
            clock,
            time_limit,
            write_limit: duration(limits.write_time),
            accepted: page_sender,
        };
        Ok(Self {
            endpoint,
            local,
            tls,
            handshakes,
            sessions: tokio::sync::Mutex::new(sessions),
            pages: tokio::sync::Mutex::new(pages),
            tasks: [tokio::spawn(sessions_task.run()), tokio::spawn(pages_task.run())],
        })
    }

    /// The port number of both UDP and TCP.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.local.port()
    }

    /// The addresses under which other machines may reach this one, the likeliest first. Empty without a network.
    #[must_use]
    pub fn reachable_addresses(&self) -> Vec<IpAddr> {
        let bound = self.local.ip();
        if !bound.is_unspecified() {
            return if bound.is_loopback() { Vec::new() } else { vec![bound] };
        }
        own_addresses().into_iter().filter(|address| bound.is_ipv6() || address.is_ipv4()).collect()
    }

    /// The address of a listener that listens on a single one and cannot be reached at localhost.
    #[must_use]
    pub fn only_address(&self) -> Option<IpAddr> {
        let localhost = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
        Some(self.local.ip()).filter(|bound| !bound.is_unspecified() && !localhost.contains(bound))
    }

    /// Returns the next session, already opened on the path of its kind. None once the listener has shut down. Its client has not proved
    /// the token yet: limit the number of such sessions and the time they take.
    pub async fn accept(&self) -> Option<Connection> {
        self.sessions.lock().await.recv().await
    }

    /// Returns the next connection to serve the page on. None once the listener has shut down.
    pub async fn accept_page(&self) -> Option<PageStream> {
        self.pages.lock().await.recv().await
    }

    /// Number of handshakes of sessions in progress, for metrics.
    #[must_use]
    pub fn pending_handshakes(&self) -> usize {
        self.handshakes.held()
    }

    /// Presents another certificate from now on. Open sessions continue. A self-signed one expires after 12 days.
    pub fn set_identity(&self, identity: &Identity) -> Result<(), NetError> {
        let (config, tls) = (server_config(identity)?, page_tls(identity)?);
        self.endpoint.set_server_config(Some(config));
        *lock(&self.tls) = tls;
        Ok(())
    }

    /// Stops accepting, closes the remaining sessions with `reason`, and waits at most a second until the peers know.
    pub async fn shutdown(&self, reason: &str) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.endpoint.close(quinn::VarInt::from_u32(0), reason.as_bytes());
        let _ = tokio::time::timeout(CLOSING_LIMIT, self.endpoint.wait_idle()).await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        // Attempts that arrive while sessions continue are refused at once.
        self.endpoint.set_server_config(None);
    }
}

fn server_config(identity: &Identity) -> Result<quinn::ServerConfig, NetError> {
    let mut config = identity.quic()?;
    config
        .max_incoming(WAITING_ATTEMPTS)
        .incoming_buffer_size(EARLY_BYTES)
        .incoming_buffer_size_total(EARLY_BYTES_IN_ALL);
    Ok(config)
}

fn page_tls(identity: &Identity) -> Result<TlsAcceptor, NetError> {
    Ok(TlsAcceptor::from(Arc::new(identity.page_tls()?)))
}

struct SessionAcceptor {
    endpoint: quinn::Endpoint,
    proofs: Arc<AddressProofs>,
    gate: Arc<Gate>,
    retry_above: usize,
    time_limit: Duration,
    clock: Clock,
    accepted: mpsc::Sender<Connection>,
}

impl SessionAcceptor {
    /// Handles every attempt at once and runs each handshake in its own task, so that a slow one delays no other.
    async fn run(self) {
        while let Some(incoming) = self.endpoint.accept().await {
            let peer = incoming.remote_address();
            if !incoming.remote_address_validated() && incoming.may_retry() && self.gate.held() >= self.retry_above {
                // Fails only if a retry is not allowed, which was just checked.
                let _ = incoming.retry();
                continue;
            }
            let Some(mut pass) = self.gate.enter(self.clock.now(), peer.ip()) else {
                tracing::debug!(%peer, "too many handshakes under way; refused");
                incoming.refuse();
                continue;
            };
            let (time_limit, clock, accepted) = (self.time_limit, self.clock, self.accepted.clone());
            let proofs = Arc::clone(&self.proofs);
            tokio::spawn(async move {
                let opened = tokio::select! {
                    opened = tokio::time::timeout(time_limit, open(incoming, &proofs, clock)) => opened,
                    () = pass.evicted() => {
                        tracing::debug!(%peer, "a handshake was slow, and its place was needed");
                        return;
                    }
                };
                match opened {
                    Ok(Ok(Some(connection))) => hand_over(connection, pass, &accepted).await,
                    Ok(Ok(None)) => tracing::debug!(%peer, "session asked for another path; refused"),
                    Ok(Err(error)) => tracing::debug!(%peer, %error, "handshake failed"),
                    Err(_) => tracing::debug!(%peer, "handshake took too long; dropped"),
                }
            });
        }
    }
}

/// Holds the handshake's pass until the server accepts the session, so that sessions that wait to be accepted are limited too.
async fn hand_over(connection: Connection, pass: Pass, accepted: &mpsc::Sender<Connection>) {
    let _ = accepted.send(connection).await;
    drop(pass);
}

/// Returns the session that `incoming` opens. None if it requested anything other than one of the protocol's paths.
async fn open(
    incoming: quinn::Incoming,
    proofs: &Arc<AddressProofs>,
    clock: Clock,
) -> Result<Option<Connection>, ServerError> {
    let connection = incoming.accept()?.await?;
    // A client that completes the handshake has received the server's part of it.
    proofs.prove(connection.remote_address());
    let request = Request::accept(connection).await?;
    if let Some(kind) = SessionKind::from_path(request.url.path()) {
        let followed = request.conn().clone();
        let session = Connection::new(request.ok().await?, kind, clock, None);
        // It ends with the session, which is closed explicitly.
        tokio::spawn(Arc::clone(proofs).follow(followed));
        return Ok(Some(session));
    }
    let connection = request.conn().clone();
    request.reject(StatusCode::NOT_FOUND).await?;
    // Dropping the connection now would lose the answer. The client closes it once it has read that.
    let _ = tokio::time::timeout(CLOSING_LIMIT, connection.closed()).await;
    Ok(None)
}
