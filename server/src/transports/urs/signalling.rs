//! The task that owns the state machine of the signalling and passes its commands to sockets and peers.

use std::collections::BTreeMap;

use nearlight_net::{Clock, wall_clock};
use nearlight_units::Time;
use nearlight_urs::signalling::{
    ClientId, Command, Gate, Guest, Mode, PeerId, Reply, Request, Signalling, TooManyClients,
};
use tokio::sync::{mpsc, oneshot};

/// Events that may wait for the task. When the queue is full, senders wait.
const MAX_QUEUED_EVENTS: usize = 64;
/// Messages that may wait for a client's socket. A client that lets more accumulate is disconnected.
pub(super) const MAX_QUEUED_MESSAGES: usize = 32;
/// Commands that may wait for a peer, which executes them at once.
const MAX_QUEUED_COMMANDS: usize = 16;

/// An event for the signalling task.
pub(crate) enum SignallingEvent {
    /// A WebSocket was opened. Its outgoing messages are sent to `messages` until that is closed.
    Opened {
        from: Guest,
        messages: mpsc::Sender<String>,
        admitted: oneshot::Sender<Result<ClientId, TooManyClients>>,
    },
    Text(ClientId, String),
    Unreadable(ClientId),
    Closed(ClientId),
    /// A request of the polling variant.
    Request(Box<OwnedRequest>),
    /// A peer's result for [`PeerCommand::Answer`].
    Answer(PeerId, Result<String, String>),
    /// A peer's result for [`PeerCommand::Offer`].
    Offer(PeerId, Result<String, String>),
    /// A peer has ended on its own.
    Gone(PeerId),
}

/// A [`Request`] that owns its contents, and the channel for its reply.
pub(crate) struct OwnedRequest {
    pub(super) method: nearlight_urs::signalling::Method,
    pub(super) what: String,
    pub(super) session: Option<String>,
    pub(super) from_time: u64,
    pub(super) body: String,
    pub(super) from: Guest,
    pub(super) new_session: String,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// A command to a peer. When the channel of commands closes, the connection ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PeerCommand {
    /// Answer this offer and report it with [`SignallingEvent::Answer`].
    Answer(String),
    /// Make an offer with all media of the world and report it with [`SignallingEvent::Offer`].
    Offer,
    /// Accept the client's answer to that offer.
    Accept(String),
}

/// Starts the media side of connections.
pub(crate) trait Peers: Send + 'static {
    /// Starts a peer that executes `commands` and reports its results to `events`. `from` is the client that signals.
    fn open(
        &self,
        peer: PeerId,
        from: Guest,
        commands: mpsc::Receiver<PeerCommand>,
        events: mpsc::Sender<SignallingEvent>,
    );
}

/// A handle of the signalling task, to which events are sent. It is cheap to clone.
#[derive(Clone)]
pub(crate) struct SignallingTask {
    events: mpsc::Sender<SignallingEvent>,
    mode: Mode,
}

impl SignallingTask {
    /// Returns a handle, and the task: a future that never completes. Peers end when it is dropped.
    pub(crate) fn open(
        mode: Mode,
        clock: Clock,
        gate: Gate,
        peers: impl Peers,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (events, waiting) = mpsc::channel(MAX_QUEUED_EVENTS);
        let signalling = Signalling::new(mode, milliseconds_at_zero(clock), gate);
        let work = SignallingLoop {
            signalling,
            clock,
            peers,
            sockets: BTreeMap::new(),
            open: BTreeMap::new(),
            events: events.clone(),
        };
        (Self { events, mode }, work.run(waiting))
    }

    pub(crate) const fn mode(&self) -> Mode {
        self.mode
    }

    /// Sends an event to the task. Returns false when the task has ended.
    pub(crate) async fn send(&self, event: SignallingEvent) -> bool {
        self.events.send(event).await.is_ok()
    }
}

/// Returns the wall-clock time at the clock's origin, in milliseconds since 1970. Clients of the polling variant compare its times with their
/// own calendar.
fn milliseconds_at_zero(clock: Clock) -> u64 {
    let now = wall_clock().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX).saturating_sub(clock.now().as_micros() / 1_000)
}

struct SignallingLoop<P> {
    signalling: Signalling,
    clock: Clock,
    peers: P,
    sockets: BTreeMap<ClientId, mpsc::Sender<String>>,
    open: BTreeMap<PeerId, mpsc::Sender<PeerCommand>>,
    /// A sender that each peer gets a clone of.
    events: mpsc::Sender<SignallingEvent>,
}

impl<P: Peers> SignallingLoop<P> {
    async fn run(mut self, mut waiting: mpsc::Receiver<SignallingEvent>) {
        loop {
            let wake = self.signalling.poll_timeout().unwrap_or(Time::FAR_FUTURE);
            tokio::select! {
                Some(event) = waiting.recv() => self.on_event(event),
                () = self.clock.sleep_until(wake) => self.signalling.on_timeout(self.clock.now()),
            }
            while let Some(order) = self.signalling.poll_command() {
                self.execute(order);
            }
        }
    }

    fn on_event(&mut self, event: SignallingEvent) {
        let now = self.clock.now();
        match event {
            SignallingEvent::Opened { from, messages, admitted } => {
                let client = self.signalling.on_websocket(now, from);
                if let Ok(client) = client {
                    self.sockets.insert(client, messages);
                }
                let _ = admitted.send(client);
            }
            SignallingEvent::Text(client, text) => self.signalling.on_text(now, client, &text),
            SignallingEvent::Unreadable(client) => self.signalling.on_unreadable(client),
            SignallingEvent::Closed(client) => {
                self.sockets.remove(&client);
                self.signalling.on_closed(client);
            }
            SignallingEvent::Request(asked) => {
                let reply = self.signalling.on_request(now, &asked.request());
                let _ = asked.reply.send(reply);
            }
            SignallingEvent::Answer(peer, answer) => self.signalling.on_answer(now, peer, answer),
            SignallingEvent::Offer(peer, offer) => self.signalling.on_offer(now, peer, offer),
            SignallingEvent::Gone(peer) => self.signalling.on_peer_gone(now, peer),
        }
    }

    fn execute(&mut self, order: Command) {
        match order {
            Command::Send(client, text) => {
                let taken = self.sockets.get(&client).is_none_or(|socket| socket.try_send(text).is_ok());
                if !taken {
                    tracing::debug!(?client, "a client does not take its signalling messages; closed");
                    self.sockets.remove(&client);
                    self.signalling.on_closed(client);
                }
            }
            Command::Close(client) => drop(self.sockets.remove(&client)),
            Command::Answer(peer, offer) => {
                if !self.open.contains_key(&peer) {
                    self.open_peer(peer);
                }
                self.send_command(peer, PeerCommand::Answer(offer));
            }
            Command::Offer(peer) => self.send_command(peer, PeerCommand::Offer),
            Command::Accept(peer, answer) => self.send_command(peer, PeerCommand::Accept(answer)),
            // The server is ICE-lite: it waits for the client's checks, wherever they come from.
            Command::Candidate(..) => {}
            Command::End(peer) => drop(self.open.remove(&peer)),
        }
    }

    fn open_peer(&mut self, peer: PeerId) {
        let Some(from) = self.signalling.guest_of(peer) else { return };
        let (commands, waiting) = mpsc::channel(MAX_QUEUED_COMMANDS);
        self.open.insert(peer, commands);
        self.peers.open(peer, from, waiting, self.events.clone());
    }

    fn send_command(&mut self, peer: PeerId, command: PeerCommand) {
        let Some(commands) = self.open.get(&peer) else { return };
        if commands.try_send(command).is_err() {
            self.open.remove(&peer);
            self.signalling.on_peer_gone(self.clock.now(), peer);
        }
    }
}

impl OwnedRequest {
    fn request(&self) -> Request<'_> {
        Request {
            method: self.method,
            what: &self.what,
            session: self.session.as_deref(),
            from_time: self.from_time,
            body: &self.body,
            from: self.from,
            new_session: &self.new_session,
        }
    }
}
