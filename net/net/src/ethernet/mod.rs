//! Sessions over Ethernet frames: one task for each interface moves frames between the socket and [`crate::link_layer`]'s state machines.

mod link;
mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::link_layer::{
    Channel, ClientHandshake, ConnectConfig, HardwareAddress, Responder, ResponderAction, ResponderConfig,
    ResponderStatistics, session_index,
};
use crate::packet::{Frames, PacketSocket, interfaces};
use nearlight_units::{Span, Time, lock};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

pub use link::EthernetLink;
pub(crate) use session::EthernetSession;

use crate::clock::duration;
use crate::{Alarm, Clock, Connection, NetError, Token};

/// Maximum number of sessions that have begun and have not been accepted by the server. Only holders of the token can begin one.
const MAX_UNACCEPTED_SESSIONS: usize = 16;
/// How often a failed interface is retried, and the interval at which frames of strangers are logged.
const RETRY_INTERVAL: Span = Span::from_secs(1);
const LOG_INTERVAL: Span = Span::from_secs(10);
/// Time limit for opening a session.
const OPENING_LIMIT: Span = Span::from_secs(5);
/// The task wakes up at least this often.
const MAX_WAIT: Span = Span::from_secs(1);

/// Linux's `ENOBUFS`.
const NO_BUFFERS: i32 = 105;

/// An interface on which this process may send and receive frames of our EtherType.
///
/// Opening it needs `CAP_NET_RAW`; using it does not.
#[derive(Debug)]
pub struct EthernetInterface {
    socket: PacketSocket,
}

impl EthernetInterface {
    pub fn open(name: &str) -> Result<Self, NetError> {
        Ok(Self { socket: PacketSocket::open(name)? })
    }

    /// Returns the interface that the link names, otherwise the only one.
    pub fn of_link(link: &EthernetLink) -> Result<Self, NetError> {
        if let Some(name) = &link.interface {
            return Self::open(name);
        }
        match &interfaces()[..] {
            [name] => Self::open(name),
            several => Err(NetError::WhichInterface { server: link.server, interfaces: several.to_vec() }),
        }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        self.socket.name()
    }

    #[must_use]
    pub fn address(&self) -> HardwareAddress {
        self.socket.address()
    }

    fn mtu(&self) -> Result<u16, NetError> {
        Ok(u16::try_from(self.socket.mtu()?).unwrap_or(u16::MAX))
    }
}

/// The state that the task and the sessions of one interface share.
pub(crate) struct Hub {
    clock: Clock,
    socket: Socket,
    /// Maximum length of payloads in both directions.
    mtu: usize,
    address: HardwareAddress,
    sessions: Mutex<BTreeMap<u32, Arc<EthernetSession>>>,
    endpoint: Mutex<Endpoint>,
    /// Signals that a timer is due earlier than before, or that a session has begun or ended.
    changed: Notify,
    /// When the task wakes up, in nanoseconds.
    wakes_at: AtomicU64,
    /// Whether the socket accepts no more frames.
    blocked: AtomicBool,
}

/// Handles frames that belong to no session.
enum Endpoint {
    Server {
        responder: Box<Responder>,
        accepted: mpsc::Sender<Arc<EthernetSession>>,
        logged: LoggedStatistics,
    },
    Client {
        connecting: Option<Box<ClientHandshake>>,
        server: HardwareAddress,
        opened: Option<oneshot::Sender<Arc<EthernetSession>>>,
    },
}

/// The statistics about strangers that have been logged.
#[derive(Default)]
struct LoggedStatistics {
    at: Option<Time>,
    counts: ResponderStatistics,
}

#[cfg(target_os = "linux")]
type Socket = tokio::io::unix::AsyncFd<PacketSocket>;
#[cfg(not(target_os = "linux"))]
type Socket = PacketSocket;

impl Hub {
    fn new(interface: &EthernetInterface, endpoint: Endpoint, clock: Clock) -> Result<Arc<Self>, NetError> {
        let failed = |source| NetError::Socket { what: "a packet socket".into(), source };
        let mtu = interface.mtu()?.into();
        Ok(Arc::new(Self {
            clock,
            socket: asynchronous(interface.socket.try_clone().map_err(failed)?).map_err(failed)?,
            mtu,
            address: interface.address(),
            sessions: Mutex::default(),
            endpoint: Mutex::new(endpoint),
            changed: Notify::new(),
            wakes_at: AtomicU64::new(0),
            blocked: AtomicBool::new(false),
        }))
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<EthernetSession>>> {
        lock(&self.sessions)
    }

    fn endpoint(&self) -> MutexGuard<'_, Endpoint> {
        lock(&self.endpoint)
    }

    fn packets(&self) -> &PacketSocket {
        #[cfg(target_os = "linux")]
        return self.socket.get_ref();
        #[cfg(not(target_os = "linux"))]
        return &self.socket;
    }

    /// Sends the payloads. Returns how many were sent or lost. Payloads that the socket does not accept now remain with the caller, to be
    /// sent later.
    fn send(&self, to: HardwareAddress, payloads: &[Vec<u8>]) -> usize {
        let mut done = 0;
        while done < payloads.len() {
            match self.packets().send(to, &payloads[done..]) {
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked.store(true, Ordering::Relaxed);
                    self.changed.notify_one();
                    return done;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The driver's ring is full: the first frame is lost; the next one may fit.
                Err(error) if error.raw_os_error() == Some(NO_BUFFERS) => done += 1,
                // The interface is down or gone: the frames are lost, as on any network.
                Err(error) => {
                    tracing::debug!(%error, "frames were not sent");
                    return payloads.len();
                }
            }
        }
        done
    }

    /// Schedules a session's timer at `at`.
    fn wake_at(&self, at: Option<Time>) {
        if at.is_some_and(|at| at.as_nanos() < self.wakes_at.load(Ordering::SeqCst)) {
            self.changed.notify_one();
        }
    }

    /// Moves frames until `is_over`.
    async fn run(self: Arc<Self>, is_over: impl Fn(&Self) -> bool) {
        let (mut frames, mut alarm) = (Frames::new(self.mtu), Alarm::new(self.clock));
        let (mut failed_at, mut failing) = (None, false);
        while !is_over(&self) {
            let now = self.clock.now();
            self.on_timeouts(now);
            // A timer that is set from now on is seen below, or wakes this task.
            self.wakes_at.store(u64::MAX, Ordering::SeqCst);
            let due = self.poll_timeout().map_or(now + MAX_WAIT, |at| at.min(now + MAX_WAIT));
            let due = failed_at.map_or(due, |at: Time| due.min(at + RETRY_INTERVAL));
            self.wakes_at.store(due.as_nanos(), Ordering::SeqCst);
            let blocked = self.blocked.load(Ordering::Relaxed);
            tokio::select! {
                received = receive(&self.socket, &mut frames) => match received {
                    Ok(()) => {
                        failing = false;
                        self.on_frames(self.clock.now(), &frames);
                    }
                    Err(error) if failing => {
                        tracing::debug!(%error, "the interface still fails");
                        failed_at = Some(self.clock.now());
                    }
                    Err(error) => {
                        failing = true;
                        tracing::warn!(interface = self.packets().name(), %error, "the interface failed; frames are lost until it recovers");
                        failed_at = Some(self.clock.now());
                    }
                },
                () = writable(&self.socket), if blocked => {
                    self.blocked.store(false, Ordering::Relaxed);
                    self.sessions().values().for_each(|session| session.flush());
                }
                () = alarm.at(due) => {}
                () = self.changed.notified() => {}
            }
            if failed_at.is_some_and(|at| self.clock.now() >= at + RETRY_INTERVAL) {
                // An interface that was only down is still bound; a new one with the old name is not.
                failed_at = self.packets().rebind().is_err().then(|| self.clock.now());
            }
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let opening = match &*self.endpoint() {
            Endpoint::Client { connecting, .. } => connecting.as_ref().map(|connecting| connecting.poll_timeout()),
            Endpoint::Server { .. } => None,
        };
        self.sessions().values().filter_map(|session| session.poll_timeout()).chain(opening).min()
    }

    fn on_timeouts(&self, now: Time) {
        if let Endpoint::Client { connecting: Some(connecting), server, .. } = &mut *self.endpoint() {
            while let Some(frame) = connecting.poll_transmit(now) {
                self.send(*server, &[frame]);
            }
        }
        self.sessions().retain(|_, session| session.on_timeout(now));
    }

    fn on_frames(self: &Arc<Self>, now: Time, frames: &Frames) {
        let mut touched = BTreeSet::new();
        for (destination, source, payload) in frames.iter() {
            if destination != self.address {
                continue;
            }
            let session = session_index(payload).and_then(|index| self.sessions().get(&index).cloned());
            match session.filter(|session| session.peer() == source) {
                Some(session) => {
                    session.on_frame(now, payload);
                    touched.insert(session.index());
                }
                None => self.on_stranger(now, source, payload),
            }
        }
        for index in touched {
            let session = self.sessions().get(&index).cloned();
            session.inspect(|session| session.after_frames());
        }
    }

    fn on_stranger(self: &Arc<Self>, now: Time, source: HardwareAddress, payload: &[u8]) {
        match &mut *self.endpoint() {
            Endpoint::Server { responder, accepted, logged } => {
                match responder.on_frame(now, source, payload) {
                    ResponderAction::Dropped => {}
                    ResponderAction::Reply(reply) => drop(self.send(source, &[reply])),
                    ResponderAction::Session { reply, channel } => {
                        // Without a free place there is no answer, and the client retries.
                        if let Ok(place) = accepted.try_reserve() {
                            let session = self.admit(source, *channel);
                            self.send(source, &[reply]);
                            place.send(session);
                        }
                    }
                }
                logged.log(now, source, responder.statistics());
            }
            Endpoint::Client { connecting, server, opened } if source == *server => {
                let channel = connecting.as_mut().and_then(|connecting| connecting.on_frame(now, payload));
                if let Some(channel) = channel
                    && let Some(opened) = opened.take()
                {
                    *connecting = None;
                    let _ = opened.send(self.admit(source, channel));
                }
            }
            Endpoint::Client { .. } => {}
        }
    }

    fn admit(self: &Arc<Self>, peer: HardwareAddress, channel: Channel) -> Arc<EthernetSession> {
        let session = EthernetSession::new(Arc::clone(self), peer, channel);
        self.sessions().insert(session.index(), Arc::clone(&session));
        session
    }
}

impl LoggedStatistics {
    /// Logs at intervals what strangers send, so that a flood does not fill the log.
    fn log(&mut self, now: Time, source: HardwareAddress, counts: ResponderStatistics) {
        let unchanged = counts.wrong_token == self.counts.wrong_token
            && counts.not_allowed == self.counts.not_allowed
            && counts.malformed == self.counts.malformed;
        if unchanged || self.at.is_some_and(|at| now < at + LOG_INTERVAL) {
            return;
        }
        let ResponderStatistics { wrong_token, not_allowed, malformed, .. } = counts;
        tracing::warn!(
            last = %source, wrong_token, not_allowed, malformed,
            "Ethernet frames were dropped: wrong token, an address that --ethernet-allow does not list, or another protocol"
        );
        (self.at, self.counts) = (Some(now), counts);
    }
}

/// A server's end of all sessions on one interface.
pub struct EthernetListener {
    hub: Arc<Hub>,
    accepted: tokio::sync::Mutex<mpsc::Receiver<Arc<EthernetSession>>>,
    running: JoinHandle<()>,
}

impl EthernetListener {
    /// Accepts holders of `token` with one of the `allowed` addresses, or with any. Call it inside a tokio runtime.
    pub fn start(
        interface: &EthernetInterface,
        allowed: Option<BTreeSet<HardwareAddress>>,
        token: &Token,
        clock: Clock,
    ) -> Result<Self, NetError> {
        let (taken, accepted) = mpsc::channel(MAX_UNACCEPTED_SESSIONS);
        let config =
            ResponderConfig { token: token.to_string(), address: interface.address(), allowed, mtu: interface.mtu()? };
        let responder = Box::new(Responder::new(config, random));
        let endpoint = Endpoint::Server { responder, accepted: taken, logged: LoggedStatistics::default() };
        let hub = Hub::new(interface, endpoint, clock)?;
        let running = tokio::spawn(Arc::clone(&hub).run(|_| false));
        Ok(Self { hub, accepted: accepted.into(), running })
    }

    /// Returns the next client that knows the token. The future is cancel-safe.
    pub async fn accept(&self) -> Option<Connection> {
        let session = self.accepted.lock().await.recv().await?;
        Some(Connection::over_ethernet(session, self.hub.clock))
    }
}

impl Drop for EthernetListener {
    fn drop(&mut self) {
        self.running.abort();
        self.hub.sessions().clear();
    }
}

/// Opens a session to the server of `link`.
pub async fn connect_ethernet(
    interface: &EthernetInterface,
    link: &EthernetLink,
    clock: Clock,
) -> Result<Connection, NetError> {
    let token = link.token.clone().unwrap_or_default();
    let (client, server) = (interface.address(), link.server);
    let opening = ConnectConfig { token, client, server, mtu: interface.mtu()? };
    let connecting = Some(Box::new(ClientHandshake::new(clock.now(), opening, random)));
    let (taken, opened) = oneshot::channel();
    let hub = Hub::new(interface, Endpoint::Client { connecting, server, opened: Some(taken) }, clock)?;
    let ended = |hub: &Hub| {
        let opening = matches!(&*hub.endpoint(), Endpoint::Client { opened: Some(opened), .. } if !opened.is_closed());
        !opening && hub.sessions().is_empty()
    };
    tokio::spawn(Arc::clone(&hub).run(ended));
    if let Ok(Ok(session)) = tokio::time::timeout(duration(OPENING_LIMIT), opened).await {
        return Ok(Connection::over_ethernet(session, clock));
    }
    let version = match &*hub.endpoint() {
        Endpoint::Client { connecting: Some(connecting), .. } => connecting.other_version(),
        _ => None,
    };
    hub.changed.notify_one();
    let interface = interface.name().to_owned();
    Err(match version {
        Some(version) => NetError::OtherEthernetVersion { server, version },
        None => NetError::NoEthernetAnswer { server, client, interface },
    })
}

/// Fills `bytes` from the system's random source.
fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system has random bytes: the token or its check needed them before");
}

#[cfg(target_os = "linux")]
fn asynchronous(socket: PacketSocket) -> io::Result<Socket> {
    #[expect(
        deprecated,
        reason = "owning its descriptor is all that the unsafe constructor in its place makes one promise"
    )]
    Socket::new(socket)
}

/// Waits for frames.
#[cfg(target_os = "linux")]
async fn receive(socket: &Socket, frames: &mut Frames) -> io::Result<()> {
    loop {
        let mut ready = socket.readable().await?;
        match ready.try_io(|socket| socket.get_ref().recv(frames)) {
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(received) => return received,
            Err(_would_block) => {}
        }
    }
}

/// Waits until the socket may accept more.
#[cfg(target_os = "linux")]
async fn writable(socket: &Socket) {
    if let Ok(mut ready) = socket.writable().await {
        // If nothing has changed, the next attempt to send reports it.
        ready.clear_ready();
    }
}

#[cfg(not(target_os = "linux"))]
fn asynchronous(socket: PacketSocket) -> io::Result<Socket> {
    Ok(socket)
}

#[cfg(not(target_os = "linux"))]
async fn receive(_: &Socket, _: &mut Frames) -> io::Result<()> {
    std::future::pending().await
}

#[cfg(not(target_os = "linux"))]
async fn writable(_: &Socket) {
    std::future::pending().await
}
