//! One task that owns the signalling's state machine and passes its orders on to sockets and peers.

use std::collections::BTreeMap;

use nearlight_net::Clock;
use nearlight_units::Time;
use nearlight_urs::signalling::{ClientId, Full, Gate, Guest, Mode, Order, PeerId, Reply, Request, Signalling};
use tokio::sync::{mpsc, oneshot};

/// Facts that wait for the task; a sender of one more has to wait.
const FACTS: usize = 64;
/// Messages that wait for a client's socket; a client that lets more accumulate is disconnected.
pub(super) const MESSAGES: usize = 32;
/// Orders that wait for a peer, which executes them at once.
const PEER_ORDERS: usize = 16;

/// Events reported to the task.
pub(crate) enum Fact {
    /// A WebSocket was opened; its messages go to `messages` until that is closed.
    Opened {
        from: Guest,
        messages: mpsc::Sender<String>,
        admitted: oneshot::Sender<Result<ClientId, Full>>,
    },
    Text(ClientId, String),
    Unreadable(ClientId),
    Closed(ClientId),
    /// A request of the polling variant.
    Asked(Box<Asked>),
    /// A peer's result for [`PeerOrder::Answer`].
    Answer(PeerId, Result<String, String>),
    /// A peer's result for [`PeerOrder::Offer`].
    Offer(PeerId, Result<String, String>),
    /// A peer has ended by itself.
    Gone(PeerId),
}

/// [`Request`] with everything owned, and where its reply goes.
pub(crate) struct Asked {
    pub(super) method: nearlight_urs::signalling::Method,
    pub(super) what: String,
    pub(super) session: Option<String>,
    pub(super) from_time: u64,
    pub(super) body: String,
    pub(super) from: Guest,
    pub(super) new_session: String,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// An order to a peer; when the channel of orders closes, the connection is over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PeerOrder {
    /// Answer this offer and report it with [`Fact::Answer`].
    Answer(String),
    /// Make an offer with all media of the world and report it with [`Fact::Offer`].
    Offer,
    /// The client's answer to that.
    Accept(String),
}

/// Makes the media side of a connection.
pub(crate) trait Peers: Send + 'static {
    /// Starts a peer that executes `orders` and reports its results to `facts`. `from` is the client that signals.
    fn open(&self, peer: PeerId, from: Guest, orders: mpsc::Receiver<PeerOrder>, facts: mpsc::Sender<Fact>);
}

/// Takes facts for the task; cheap to clone.
#[derive(Clone)]
pub(crate) struct SignallingTask {
    facts: mpsc::Sender<Fact>,
    mode: Mode,
}

impl SignallingTask {
    /// Its handle, and the task: a future that never ends by itself. Peers end when it is dropped.
    pub(crate) fn open(
        mode: Mode,
        clock: Clock,
        gate: Gate,
        peers: impl Peers,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (facts, waiting) = mpsc::channel(FACTS);
        let signalling = Signalling::new(mode, milliseconds_at_zero(clock), gate);
        let work =
            Work { signalling, clock, peers, sockets: BTreeMap::new(), open: BTreeMap::new(), facts: facts.clone() };
        (Self { facts, mode }, work.run(waiting))
    }

    pub(crate) const fn mode(&self) -> Mode {
        self.mode
    }

    /// False when the task has ended.
    pub(crate) async fn bring(&self, fact: Fact) -> bool {
        self.facts.send(fact).await.is_ok()
    }
}

/// The wall-clock time at the clock's origin, in milliseconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "clients of the polling variant compare its times with their own calendar"
)]
fn milliseconds_at_zero(clock: Clock) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX).saturating_sub(clock.now().as_micros() / 1_000)
}

struct Work<P> {
    signalling: Signalling,
    clock: Clock,
    peers: P,
    sockets: BTreeMap<ClientId, mpsc::Sender<String>>,
    open: BTreeMap<PeerId, mpsc::Sender<PeerOrder>>,
    /// For peers.
    facts: mpsc::Sender<Fact>,
}

impl<P: Peers> Work<P> {
    async fn run(mut self, mut waiting: mpsc::Receiver<Fact>) {
        loop {
            let wake = self.signalling.poll_timeout().unwrap_or(Time::FAR_FUTURE);
            tokio::select! {
                Some(fact) = waiting.recv() => self.on_fact(fact),
                () = self.clock.sleep_until(wake) => self.signalling.on_timeout(self.clock.now()),
            }
            while let Some(order) = self.signalling.poll_order() {
                self.follow(order);
            }
        }
    }

    fn on_fact(&mut self, fact: Fact) {
        let now = self.clock.now();
        match fact {
            Fact::Opened { from, messages, admitted } => {
                let client = self.signalling.on_websocket(now, from);
                if let Ok(client) = client {
                    self.sockets.insert(client, messages);
                }
                let _ = admitted.send(client);
            }
            Fact::Text(client, text) => self.signalling.on_text(now, client, &text),
            Fact::Unreadable(client) => self.signalling.on_unreadable(client),
            Fact::Closed(client) => {
                self.sockets.remove(&client);
                self.signalling.on_closed(client);
            }
            Fact::Asked(asked) => {
                let reply = self.signalling.on_request(now, &asked.request());
                let _ = asked.reply.send(reply);
            }
            Fact::Answer(peer, answer) => self.signalling.on_answer(now, peer, answer),
            Fact::Offer(peer, offer) => self.signalling.on_offer(now, peer, offer),
            Fact::Gone(peer) => self.signalling.on_peer_gone(now, peer),
        }
    }

    fn follow(&mut self, order: Order) {
        match order {
            Order::Send(client, text) => {
                let taken = self.sockets.get(&client).is_none_or(|socket| socket.try_send(text).is_ok());
                if !taken {
                    tracing::debug!(?client, "a client does not take its signalling messages; closed");
                    self.sockets.remove(&client);
                    self.signalling.on_closed(client);
                }
            }
            Order::Close(client) => drop(self.sockets.remove(&client)),
            Order::Answer(peer, offer) => {
                if !self.open.contains_key(&peer) {
                    self.open_peer(peer);
                }
                self.order(peer, PeerOrder::Answer(offer));
            }
            Order::Offer(peer) => self.order(peer, PeerOrder::Offer),
            Order::Accept(peer, answer) => self.order(peer, PeerOrder::Accept(answer)),
            // The server is ICE-lite: it waits for the client's checks, wherever they come from.
            Order::Candidate(..) => {}
            Order::End(peer) => drop(self.open.remove(&peer)),
        }
    }

    fn open_peer(&mut self, peer: PeerId) {
        let Some(from) = self.signalling.guest_of(peer) else { return };
        let (orders, waiting) = mpsc::channel(PEER_ORDERS);
        self.open.insert(peer, orders);
        self.peers.open(peer, from, waiting, self.facts.clone());
    }

    fn order(&mut self, peer: PeerId, order: PeerOrder) {
        let Some(orders) = self.open.get(&peer) else { return };
        if orders.try_send(order).is_err() {
            self.open.remove(&peer);
            self.signalling.on_peer_gone(self.clock.now(), peer);
        }
    }
}

impl Asked {
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
