//! One session over WebTransport or Ethernet frames, the same at both ends.

mod congestion;

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use nearlight_units::{Span, Time, lock};
use nearlight_wire::{Binding, Bytes32, ClientMessage, EXPORTER_LABEL, ROOMS_PATH, ServerMessage, WEBTRANSPORT_PATH};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use web_transport_quinn::{Session, SessionError, WebTransportError};

use crate::address::station_address;
use crate::clock::span;
use crate::ethernet::EthernetSession;
use crate::sockets::{local_for, udp_socket};
use crate::{Clock, ControlReceiver, ControlSender, EmulatedPath, NetError, PathEntrance};

pub(crate) use congestion::Congestion;

/// How long an orderly end may take before the idle timeout has to end the session. Guess: three long round trips.
pub(crate) const CLOSING_LIMIT: Duration = Duration::from_secs(1);

/// Maximum number of datagrams that have left an emulated path and wait for the session. Further ones are lost and counted with the path's.
/// Guess: a tenth of a second at 500 Mbit/s, which a session takes unless it is stuck.
const MAX_QUEUED_ARRIVALS: usize = 4096;

/// A session with one peer. Clones share it. When the last one is dropped, the session is closed with code 0.
#[derive(Clone)]
pub struct Connection {
    inner: Arc<Inner>,
}

struct Inner {
    transport: Transport,
    kind: SessionKind,
    clock: Clock,
    /// The client's own endpoint. None on the server, where all sessions share one.
    endpoint: Option<quinn::Endpoint>,
    closed_here: AtomicBool,
    /// Whether the path was ever impaired, so that a clean one costs no lock.
    impaired: AtomicBool,
    path: Mutex<PathImpairment>,
    /// Datagrams that left an impaired path and have not been handed out yet, at most as many as the path held.
    arrivals: tokio::sync::Mutex<mpsc::Receiver<ReceivedDatagram>>,
    arrived: mpsc::Sender<ReceivedDatagram>,
    counters: Arc<Counters>,
}

/// The purpose of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionKind {
    #[default]
    Media,
    /// Membership of a room.
    Room,
}

impl SessionKind {
    const ALL: [Self; 2] = [Self::Media, Self::Room];

    /// The path of the request that opens it.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Media => WEBTRANSPORT_PATH,
            Self::Room => ROOMS_PATH,
        }
    }

    pub(crate) fn from_path(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.path() == path)
    }
}

/// The carrier of the session.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "one for each session, never moved in a hot path")]
enum Transport {
    Quic(Session),
    Ethernet(Arc<EthernetSession>),
}

#[derive(Default)]
struct PathImpairment {
    outage: bool,
    send: Option<Box<dyn PathEntrance>>,
    receive: Option<Box<dyn PathEntrance>>,
}

#[derive(Default)]
struct Counters {
    sent: AtomicU64,
    received: AtomicU64,
    queue_full: AtomicU64,
    too_large: AtomicU64,
    closed: AtomicU64,
    impaired: AtomicU64,
}

/// A datagram with the time at which the driver received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedDatagram {
    pub at: Time,
    pub datagram: Bytes,
}

/// The direction of datagrams, seen from this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Send,
    Receive,
}

/// Why a datagram was dropped before it reached the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DropReason {
    #[error("the send queue is full")]
    QueueFull,
    #[error("it is larger than the path's maximum datagram size")]
    TooLarge,
    #[error("the session has ended")]
    Closed,
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// This end closed it.
    Here,
    /// The peer closed it, with its code and reason.
    Peer { code: u32, reason: String },
    /// Nothing came from the peer for the idle limit.
    TimedOut,
    /// The transport gave up.
    Failed(String),
}

/// Counts and measurements of a session, for logs and metrics. The session's own control does not use them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The transport's smoothed round trip. Zero if it has measured none.
    pub rtt: Span,
    /// QUIC packets or Ethernet frames. Most of them carry datagrams.
    pub packets_sent: u64,
    /// QUIC packets that the path lost, according to acknowledgements. 0 over Ethernet, whose frames are not acknowledged.
    pub packets_lost: u64,
    pub datagrams_sent: u64,
    pub datagrams_received: u64,
    pub dropped_queue_full: u64,
    pub dropped_too_large: u64,
    pub dropped_closed: u64,
    /// Datagrams dropped by [`Connection::set_impairment`] and [`Connection::set_outage`].
    pub dropped_by_impairment: u64,
}

impl Connection {
    pub(crate) fn new(session: Session, kind: SessionKind, clock: Clock, endpoint: Option<quinn::Endpoint>) -> Self {
        Self::over(Transport::Quic(session), kind, clock, endpoint)
    }

    pub(crate) fn over_ethernet(session: Arc<EthernetSession>, clock: Clock) -> Self {
        Self::over(Transport::Ethernet(session), SessionKind::Media, clock, None)
    }

    fn over(transport: Transport, kind: SessionKind, clock: Clock, endpoint: Option<quinn::Endpoint>) -> Self {
        let (arrived, arrivals) = mpsc::channel(MAX_QUEUED_ARRIVALS);
        let inner = Inner {
            transport,
            kind,
            clock,
            endpoint,
            closed_here: AtomicBool::new(false),
            impaired: AtomicBool::new(false),
            path: Mutex::default(),
            arrivals: arrivals.into(),
            arrived,
            counters: Arc::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The purpose for which the client opened the session.
    #[must_use]
    pub fn kind(&self) -> SessionKind {
        self.inner.kind
    }

    /// Queues a datagram for the network. Never waits. The transport copies it once, to prepend the session's number.
    ///
    /// A datagram that does not fit is dropped and counted, while queued datagrams stay. Over Ethernet it waits for [`Connection::flush`].
    pub fn send_datagram(&self, datagram: Bytes) -> Result<(), DropReason> {
        let Inner { transport, counters, .. } = &*self.inner;
        if !self.inner.impaired.load(Ordering::Relaxed) {
            return queue(transport, counters, datagram);
        }
        if transport.is_over() {
            return counters.dropped(DropReason::Closed);
        }
        self.path().crossed(Direction::Send, datagram, counters).map_or(Ok(()), |own| queue(transport, counters, own))
    }

    /// Sends what is queued: over Ethernet all of it, with one system call per [`crate::packet::BATCH`] frames. QUIC's own task does
    /// this by itself.
    pub fn flush(&self) {
        if let Transport::Ethernet(session) = &self.inner.transport {
            session.flush();
        }
    }

    /// Returns the next datagram, with the driver's time of arrival. The future is cancel-safe. For one reader at a time.
    pub async fn recv_datagram(&self) -> Result<ReceivedDatagram, CloseReason> {
        let Inner { transport, counters, clock, .. } = &*self.inner;
        let received = loop {
            let impaired = self.inner.impaired.load(Ordering::Relaxed);
            let arrived = async { self.inner.arrivals.lock().await.recv().await };
            let read = async {
                match transport {
                    Transport::Quic(session) => {
                        let datagram = session.read_datagram().await.map_err(|error| self.reason(error))?;
                        Ok(ReceivedDatagram { at: clock.now(), datagram })
                    }
                    Transport::Ethernet(session) => session.recv_datagram().await,
                }
            };
            let ReceivedDatagram { at, datagram } = tokio::select! {
                biased;
                Some(received) = arrived, if impaired => break received,
                read = read => read?,
            };
            let crossed = if self.inner.impaired.load(Ordering::Relaxed) {
                self.path().crossed(Direction::Receive, datagram, counters)
            } else {
                Some(datagram)
            };
            if let Some(datagram) = crossed {
                break ReceivedDatagram { at, datagram };
            }
        };
        count(&counters.received);
        Ok(received)
    }

    /// The largest datagram that the path carries now, in bytes. Path MTU discovery raises it during the first round trips, and a move to
    /// another path may lower it, so query it before each frame.
    #[must_use]
    pub fn max_datagram_size(&self) -> usize {
        match &self.inner.transport {
            Transport::Quic(session) => session.max_datagram_size(),
            Transport::Ethernet(session) => session.max_datagram_size(),
        }
    }

    /// The peer's current address. IPv4-mapped addresses are returned as IPv4. It changes when the peer moves to another network. A
    /// hardware address is returned in the form of [`crate::station_address`], with port 0.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        let address = match &self.inner.transport {
            Transport::Quic(session) => session.remote_address(),
            Transport::Ethernet(session) => SocketAddr::new(station_address(session.peer()), 0),
        };
        SocketAddr::new(address.ip().to_canonical(), address.port())
    }

    /// Opens the client's end of the control stream. The server learns of the stream with the first message.
    pub async fn open_control(
        &self,
    ) -> Result<(ControlSender<ClientMessage>, ControlReceiver<ServerMessage>), NetError> {
        match &self.inner.transport {
            Transport::Quic(session) => {
                let (send, receive) = session.open_bi().await.map_err(|error| NetError::Closed(self.reason(error)))?;
                prefer_control(&send);
                Ok((ControlSender::new(send), ControlReceiver::new(receive)))
            }
            Transport::Ethernet(session) => Ok(ethernet_control(session)),
        }
    }

    /// Accepts the server's end of the control stream. Waits for a client that may never open one, so limit the time.
    pub async fn accept_control(
        &self,
    ) -> Result<(ControlSender<ServerMessage>, ControlReceiver<ClientMessage>), NetError> {
        match &self.inner.transport {
            Transport::Quic(session) => {
                let (send, receive) =
                    session.accept_bi().await.map_err(|error| NetError::Closed(self.reason(error)))?;
                prefer_control(&send);
                Ok((ControlSender::new(send), ControlReceiver::new(receive)))
            }
            Transport::Ethernet(session) => Ok(ethernet_control(session)),
        }
    }

    /// The data that binds a proof of the token to this connection: both ends export the same value, whereas a man in the middle, with one
    /// TLS connection to each of them, gets two different ones. Over Ethernet it is the hash of Noise's handshake.
    #[must_use]
    pub fn exporter(&self) -> Binding {
        let mut exported = [0; 32];
        let session = match &self.inner.transport {
            Transport::Quic(session) => session,
            Transport::Ethernet(session) => return Binding::Exporter(Bytes32(session.hash())),
        };
        session.export_keying_material(&mut exported, EXPORTER_LABEL, b"").expect("TLS has finished its handshake");
        Binding::Exporter(Bytes32(exported))
    }

    /// Sends a browser the nonce that it needs for its proof, on a separate stream: it arrives together with the answer that opens
    /// the session. Waits for a client that grants no such stream, so limit the time. Over Ethernet, which browsers do not use, nothing is
    /// sent.
    pub async fn send_challenge(&self, nonce: Bytes32) -> Result<(), NetError> {
        let Transport::Quic(session) = &self.inner.transport else { return Ok(()) };
        let stream = session.open_uni().await.map_err(|error| NetError::Closed(self.reason(error)))?;
        ControlSender::new(stream).send(&ServerMessage::Challenge { nonce }).await
    }

    /// Informs the peer that the session is over, and why. Returns at once. See [`Connection::finish`].
    pub fn close(&self, code: u32, reason: &str) {
        self.inner.close(code, reason);
    }

    /// Closes the session and waits, a second at most, until the peer knows.
    pub async fn finish(&self, code: u32, reason: &str) {
        let session = match &self.inner.transport {
            Transport::Quic(session) => session,
            Transport::Ethernet(session) => {
                // The last control messages are sent before the close.
                let _ = tokio::time::timeout(CLOSING_LIMIT, session.acknowledged()).await;
                return self.close(code, reason);
            }
        };
        self.close(code, reason);
        let ended = async {
            session.closed().await;
            if let Some(endpoint) = &self.inner.endpoint {
                endpoint.wait_idle().await;
            }
        };
        let _ = tokio::time::timeout(CLOSING_LIMIT, ended).await;
    }

    /// Waits until the session has ended, by either end.
    pub async fn closed(&self) -> CloseReason {
        match &self.inner.transport {
            Transport::Quic(session) => self.reason(session.closed().await),
            Transport::Ethernet(session) => session.closed().await,
        }
    }

    #[cfg(test)]
    pub(crate) fn session(&self) -> &Session {
        match &self.inner.transport {
            Transport::Quic(session) => session,
            Transport::Ethernet(_) => panic!("no QUIC"),
        }
    }

    fn reason(&self, error: SessionError) -> CloseReason {
        match CloseReason::from(error) {
            // The transport reports the same when the peer ended the session without a close.
            CloseReason::Here if !self.inner.closed_here.load(Ordering::Relaxed) => {
                CloseReason::Peer { code: 0, reason: String::new() }
            }
            reason => reason,
        }
    }

    /// Moves a client to a new local port, as a change of network does. The session continues. Returns the new address. Fails over
    /// Ethernet, which has no ports.
    pub fn rebind(&self) -> Result<SocketAddr, NetError> {
        let failed = |source| NetError::Socket { what: "a UDP socket to move the session to".into(), source };
        let endpoint = self.inner.endpoint.as_ref().ok_or_else(|| failed(std::io::ErrorKind::Unsupported.into()))?;
        let local = endpoint.local_addr().map_err(failed)?;
        let socket = udp_socket(local_for(local)).map_err(failed)?;
        endpoint.rebind(socket).map_err(failed)?;
        endpoint.local_addr().map_err(failed)
    }

    /// Impairs one direction of this session's path with an emulated one, whose time begins now. None removes the impairment, and datagrams
    /// in flight are lost.
    ///
    /// Only datagrams are affected, because QUIC repairs control messages on any path.
    pub fn set_impairment(&self, direction: Direction, path: Option<Box<dyn EmulatedPath>>) {
        let now = self.inner.clock.now();
        self.replace_impairment(direction, path.map(|path| self.impairment(direction, path, now)));
    }

    /// Impairs one direction with a path whose time began at `origin` on the listener's clock. It may share that time with the paths of
    /// other sessions.
    pub fn set_impairment_since(&self, direction: Direction, path: Box<dyn EmulatedPath>, origin: Time) {
        self.replace_impairment(direction, Some(self.impairment(direction, path, origin)));
    }

    fn impairment(&self, direction: Direction, path: Box<dyn EmulatedPath>, origin: Time) -> Box<dyn PathEntrance> {
        let Inner { transport, clock, counters, arrived, .. } = &*self.inner;
        let (transport, clock, counters, arrived) = (transport.clone(), *clock, Arc::clone(counters), arrived.clone());
        let exit = move |datagram: Option<Bytes>| match (datagram, direction) {
            (None, _) => count(&counters.impaired),
            // The network's queue counts its own drops.
            (Some(datagram), Direction::Send) => {
                let _ = queue(&transport, &counters, datagram);
                if let Transport::Ethernet(session) = &transport {
                    session.flush();
                }
            }
            // When the session is gone, no one waits for it any more.
            (Some(datagram), Direction::Receive) => {
                if let Err(TrySendError::Full(_)) = arrived.try_send(ReceivedDatagram { at: clock.now(), datagram }) {
                    count(&counters.impaired);
                }
            }
        };
        path.open(clock, origin, Box::new(exit))
    }

    fn replace_impairment(&self, direction: Direction, impairment: Option<Box<dyn PathEntrance>>) {
        let mut path = self.path();
        match direction {
            Direction::Send => path.send = impairment,
            Direction::Receive => path.receive = impairment,
        }
        self.inner.impaired.store(true, Ordering::Relaxed);
    }

    /// While `outage` is set, this end drops every datagram in both directions.
    pub fn set_outage(&self, outage: bool) {
        self.path().outage = outage;
        self.inner.impaired.store(true, Ordering::Relaxed);
    }

    /// Counts and measurements of this session so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let counters = &self.inner.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (rtt, packets_sent, packets_lost) = match &self.inner.transport {
            Transport::Quic(session) => {
                let path = quinn::Connection::stats(session).path;
                (span(path.rtt), path.sent_packets, path.lost_packets)
            }
            // The transport does not acknowledge datagrams, so it does not know which were lost.
            Transport::Ethernet(session) => {
                let channel = session.statistics();
                (channel.round_trip.unwrap_or(Span::ZERO), channel.frames_sent, 0)
            }
        };
        Statistics {
            rtt,
            packets_sent,
            packets_lost,
            datagrams_sent: read(&counters.sent),
            datagrams_received: read(&counters.received),
            dropped_queue_full: read(&counters.queue_full),
            dropped_too_large: read(&counters.too_large),
            dropped_closed: read(&counters.closed),
            dropped_by_impairment: read(&counters.impaired),
        }
    }

    fn path(&self) -> MutexGuard<'_, PathImpairment> {
        lock(&self.inner.path)
    }
}

impl Transport {
    fn is_over(&self) -> bool {
        match self {
            Self::Quic(session) => session.close_reason().is_some(),
            Self::Ethernet(session) => session.is_over(),
        }
    }
}

impl Inner {
    fn close(&self, code: u32, reason: &str) {
        self.closed_here.store(true, Ordering::Relaxed);
        match &self.transport {
            Transport::Quic(session) => session.close(code, reason.as_bytes()),
            Transport::Ethernet(session) => session.close(reason),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close(0, "");
    }
}

impl PathImpairment {
    /// Passes a datagram through this direction. Returns it if the path is not impaired. Otherwise it is on the impaired path now, or
    /// dropped.
    fn crossed(&self, direction: Direction, datagram: Bytes, counters: &Counters) -> Option<Bytes> {
        if self.outage {
            count(&counters.impaired);
            return None;
        }
        let impairment = match direction {
            Direction::Send => &self.send,
            Direction::Receive => &self.receive,
        };
        match impairment {
            Some(impairment) => {
                impairment.offer(datagram);
                None
            }
            None => Some(datagram),
        }
    }
}

impl Counters {
    fn dropped(&self, reason: DropReason) -> Result<(), DropReason> {
        count(match reason {
            DropReason::QueueFull => &self.queue_full,
            DropReason::TooLarge => &self.too_large,
            DropReason::Closed => &self.closed,
        });
        Err(reason)
    }
}

/// Hands a datagram to the transport, if that has room for it.
fn queue(transport: &Transport, counters: &Counters, datagram: Bytes) -> Result<(), DropReason> {
    let session = match transport {
        Transport::Quic(session) => session,
        Transport::Ethernet(session) => {
            return match session.send_datagram(&datagram) {
                Ok(()) => {
                    count(&counters.sent);
                    Ok(())
                }
                Err(reason) => counters.dropped(reason),
            };
        }
    };
    // Sending more would evict the oldest in the queue, whose deadline is the nearest.
    if session.datagram_send_buffer_space() < datagram.len() {
        let reason = if session.close_reason().is_some() { DropReason::Closed } else { DropReason::QueueFull };
        return counters.dropped(reason);
    }
    match session.send_datagram(datagram) {
        Ok(()) => {
            count(&counters.sent);
            Ok(())
        }
        Err(SessionError::SendDatagramError(quinn::SendDatagramError::TooLarge)) => {
            counters.dropped(DropReason::TooLarge)
        }
        Err(_) => counters.dropped(DropReason::Closed),
    }
}

impl From<SessionError> for CloseReason {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::WebTransportError(WebTransportError::Closed(code, reason)) => Self::Peer { code, reason },
            SessionError::ConnectionError(quinn::ConnectionError::LocallyClosed) => Self::Here,
            SessionError::ConnectionError(quinn::ConnectionError::TimedOut) => Self::TimedOut,
            SessionError::ConnectionError(quinn::ConnectionError::Reset) => {
                Self::Failed("the peer does not know this session any more: it was probably restarted".into())
            }
            other => Self::Failed(other.to_string()),
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here => formatter.write_str("this end closed it"),
            Self::Peer { code, reason } if reason.is_empty() => write!(formatter, "the peer closed it (code {code})"),
            Self::Peer { code, reason } => write!(formatter, "the peer closed it: {reason} (code {code})"),
            Self::TimedOut => formatter.write_str("the peer has been silent for too long"),
            Self::Failed(reason) => formatter.write_str(reason),
        }
    }
}

fn ethernet_control<S: Serialize, R: DeserializeOwned>(
    session: &Arc<EthernetSession>,
) -> (ControlSender<S>, ControlReceiver<R>) {
    (ControlSender::over_ethernet(Arc::clone(session)), ControlReceiver::over_ethernet(Arc::clone(session)))
}

/// Gives control messages priority over other streams: they are few, and others wait for them. Datagrams share the packets either way.
fn prefer_control(stream: &web_transport_quinn::SendStream) {
    // Fails only on a stream that has ended, which the next message reports.
    let _ = stream.set_priority(1);
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
