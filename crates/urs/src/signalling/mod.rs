//! The clients connected to the world, over WebSocket and over HTTP polling, and the negotiation state of each connection.
//!
//! In Unity's set-up a relay connects the browser and the application; here the application is the relay, so a client's only peer is the
//! world. The world is the impolite peer when both offer at once, and every client is told to be polite.

mod client;
mod negotiation;
mod polling;
mod text;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::str::FromStr;

use nearlight_units::{Span, Time};

use client::{Client, Kind};
use negotiation::{Negotiation, Step};
use text::{Said, Tell};

pub use polling::{Method, Reply, Request};
pub use text::{Candidate, MAX_TEXT_BYTES, TextError};

/// Clients that signal at the same time, by socket and by polling together. Guess: eight for each place of a usual server.
const MAX_CLIENTS: usize = 64;
/// Of those, without the token; the rest are reserved for clients with it.
const MAX_STRANGERS: usize = 48;
/// Of those, from one address: a household or a test behind one. Clients with and without the token are counted apart.
const MAX_CLIENTS_OF_ADDRESS: usize = 16;
/// Connections of one client; the web client has one.
const MAX_CONNECTIONS: usize = 4;
/// A connection's candidates beyond this are ignored: a browser has one for each of its addresses and protocols.
const MAX_CANDIDATES: usize = 64;
/// A client that sent this many invalid messages is disconnected.
const MAX_FAULTS: u32 = 16;
/// A WebSocket without a connection that is silent for this long is closed.
const IDLE: Span = Span::from_secs(30);

/// Whether several clients may use the same name for a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Every client has its own connection to the world, whatever its name.
    #[default]
    Public,
    /// A name is a rendezvous of two, and the world is one of them: the second client that uses it is refused.
    Private,
}

impl Mode {
    /// As `/config` says it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
        }
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "public" => Ok(Self::Public),
            "private" => Ok(Self::Private),
            _ => Err(format!("`{text}` is no startup mode: use public or private")),
        }
    }
}

/// Names a client, by WebSocket or polling session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(u64);

/// Names a client's peer: one connection's media, as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerId(pub u64);

/// The client that signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guest {
    pub address: IpAddr,
    /// It showed the pairing token.
    pub trusted: bool,
}

/// What a client submits to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brought<'a> {
    /// Not a repeated one.
    Offer(&'a str),
    Answer(&'a str),
    Candidate(&'a str),
}

/// Why it is refused, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    Bad(String),
    /// May be tried again after this.
    TooMany(String, Span),
}

/// Checks what clients submit before it is processed.
pub type Gate = Box<dyn FnMut(Time, Guest, Brought<'_>) -> Result<(), Refused> + Send>;

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Send this text over the client's WebSocket.
    Send(ClientId, String),
    /// Close the client's WebSocket; its state has been dropped already.
    Close(ClientId),
    /// Answer this offer; a peer of this name is made if there is none.
    Answer(PeerId, String),
    /// Make an offer with all media of the world.
    Offer(PeerId),
    /// The client's answer to that offer.
    Accept(PeerId, String),
    Candidate(PeerId, Candidate),
    /// The connection is over; the peer's state has been dropped already.
    End(PeerId),
}

/// Why a client is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many clients are signalling; try again in a moment")]
pub struct Full;

#[derive(Debug)]
struct Connection {
    client: ClientId,
    name: String,
    negotiation: Negotiation,
    /// Candidates that came before the peer's first offer.
    early: Vec<Candidate>,
    candidates: usize,
    /// The driver has a peer.
    has_peer: bool,
}

/// All clients that signal.
pub struct Signalling {
    mode: Mode,
    gate: Gate,
    /// Milliseconds since 1970 at time zero, because clients use that time base.
    origin: u64,
    clients: BTreeMap<ClientId, Client>,
    sessions: BTreeMap<String, ClientId>,
    connections: BTreeMap<PeerId, Connection>,
    orders: VecDeque<Order>,
    next: u64,
}

impl Signalling {
    /// `origin`: milliseconds since 1970 at time zero.
    #[must_use]
    pub fn new(mode: Mode, origin: u64, gate: Gate) -> Self {
        Self {
            mode,
            gate,
            origin,
            clients: BTreeMap::new(),
            sessions: BTreeMap::new(),
            connections: BTreeMap::new(),
            orders: VecDeque::new(),
            next: 1,
        }
    }

    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// A WebSocket was opened.
    pub fn on_websocket(&mut self, now: Time, from: Guest) -> Result<ClientId, Full> {
        self.let_in(Client::new(now, from, Kind::WebSocket))
    }

    fn let_in(&mut self, client: Client) -> Result<ClientId, Full> {
        let count = |is: &dyn Fn(&Guest) -> bool| self.clients.values().filter(|known| is(&known.guest)).count();
        let too_many_strangers = !client.guest.trusted && count(&|known| !known.trusted) >= MAX_STRANGERS;
        let same = count(&|known| *known == client.guest);
        if too_many_strangers || self.clients.len() >= MAX_CLIENTS || same >= MAX_CLIENTS_OF_ADDRESS {
            return Err(Full);
        }
        let id = ClientId(self.next);
        self.next += 1;
        self.clients.insert(id, client);
        Ok(id)
    }

    /// A client sent a text message over its WebSocket.
    pub fn on_text(&mut self, now: Time, id: ClientId, text: &str) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.heard_at = now;
        let said = text::read_message(text).map_err(|error| Refused::Bad(error.to_string()));
        let refused = said.and_then(|(name, said)| self.on_said(now, id, &name, said)).err();
        if let Some(Refused::Bad(problem) | Refused::TooMany(problem, _)) = refused {
            self.on_fault(id, &problem);
        }
    }

    /// A WebSocket message arrived that is not text or is too long: its bytes were not parsed.
    pub fn on_unreadable(&mut self, id: ClientId) {
        self.on_fault(id, "a message is text of at most 64 kB");
    }

    fn on_fault(&mut self, id: ClientId, problem: &str) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.faults += 1;
        let cut_off = client.faults >= MAX_FAULTS;
        self.orders.push_back(Order::Send(id, text::error_message(problem)));
        if cut_off {
            self.forget(id);
            self.orders.push_back(Order::Close(id));
        }
    }

    /// A WebSocket is gone.
    pub fn on_closed(&mut self, id: ClientId) {
        self.forget(id);
    }

    /// The peer has made the answer that [`Order::Answer`] requested, or has failed to.
    pub fn on_answer(&mut self, now: Time, peer: PeerId, answer: Result<String, String>) {
        match answer {
            Ok(answer) => self.negotiate(now, peer, |negotiation| negotiation.on_answer_made(answer)),
            Err(problem) => self.on_peer_failed(now, peer, &problem),
        }
    }

    /// The peer has made the offer that [`Order::Offer`] requested, or has failed to.
    pub fn on_offer(&mut self, now: Time, peer: PeerId, offer: Result<String, String>) {
        match offer {
            Ok(offer) => self.negotiate(now, peer, |negotiation| negotiation.on_offer_made(now, offer)),
            Err(problem) => self.on_peer_failed(now, peer, &problem),
        }
    }

    fn on_peer_failed(&mut self, now: Time, peer: PeerId, problem: &str) {
        let Some(connection) = self.connections.get(&peer) else { return };
        let (client, name) = (connection.client, connection.name.clone());
        self.tell(now, client, &name, Tell::Error(problem));
        self.on_peer_gone(now, peer);
    }

    /// The peer has ended by itself: informs its client.
    pub fn on_peer_gone(&mut self, now: Time, peer: PeerId) {
        self.end(now, peer);
    }

    /// Handles a client's message about one of its connections, over either transport.
    fn on_said(&mut self, now: Time, id: ClientId, name: &str, said: Said) -> Result<(), Refused> {
        match said {
            Said::Connect => {
                // A client that connects again starts over.
                if let Some(peer) = self.peer_of(id, name) {
                    self.drop_peer(peer);
                }
                self.connect(id, name)?;
                self.tell(now, id, name, Tell::Connect);
            }
            Said::Disconnect => match self.peer_of(id, name) {
                Some(peer) => self.end(now, peer),
                None => self.tell(now, id, name, Tell::Disconnect),
            },
            Said::Offer(offer) => {
                let known = self.peer_of(id, name).and_then(|peer| self.connections.get(&peer));
                if known.is_none_or(|connection| connection.negotiation.is_new(&offer)) {
                    self.look_at(now, id, Brought::Offer(&offer))?;
                }
                let peer = self.connect(id, name)?;
                self.negotiate(now, peer, |negotiation| negotiation.on_offer(offer));
            }
            Said::Answer(answer) => {
                self.look_at(now, id, Brought::Answer(&answer))?;
                if let Some(peer) = self.peer_of(id, name) {
                    self.negotiate(now, peer, |negotiation| negotiation.on_answer(answer));
                }
            }
            Said::Candidate(candidate) => {
                self.look_at(now, id, Brought::Candidate(&candidate.candidate))?;
                let peer = self.connect(id, name)?;
                self.on_candidate(peer, candidate);
            }
        }
        Ok(())
    }

    fn look_at(&mut self, now: Time, id: ClientId, brought: Brought<'_>) -> Result<(), Refused> {
        let guest = self.clients.get(&id).map(|client| client.guest);
        guest.map_or(Ok(()), |guest| (self.gate)(now, guest, brought))
    }

    fn on_candidate(&mut self, peer: PeerId, candidate: Candidate) {
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        connection.candidates += 1;
        if connection.candidates > MAX_CANDIDATES {
            return;
        }
        if connection.has_peer {
            self.orders.push_back(Order::Candidate(peer, candidate));
        } else {
            connection.early.push(candidate);
        }
    }

    fn peer_of(&self, id: ClientId, name: &str) -> Option<PeerId> {
        self.clients.get(&id)?.connections.get(name).copied()
    }

    /// The client's connection with this name; older clients offer without having connected.
    fn connect(&mut self, id: ClientId, name: &str) -> Result<PeerId, Refused> {
        if let Some(peer) = self.peer_of(id, name) {
            return Ok(peer);
        }
        let taken = self.mode == Mode::Private && self.connections.values().any(|connection| connection.name == name);
        if taken {
            return Err(Refused::Bad(format!("{name}: This connection id is already used.")));
        }
        let client = self.clients.get_mut(&id).ok_or_else(|| Refused::Bad("the session has ended".into()))?;
        if client.connections.len() >= MAX_CONNECTIONS {
            return Err(Refused::Bad(format!("a client has at most {MAX_CONNECTIONS} connections")));
        }
        let peer = PeerId(self.next);
        self.next += 1;
        client.connections.insert(name.to_owned(), peer);
        let connection = Connection {
            client: id,
            name: name.to_owned(),
            negotiation: Negotiation::new(),
            early: Vec::new(),
            candidates: 0,
            has_peer: false,
        };
        self.connections.insert(peer, connection);
        Ok(peer)
    }

    /// Passes an event to a connection and executes the resulting steps.
    fn negotiate(&mut self, now: Time, peer: PeerId, fact: impl FnOnce(&mut Negotiation)) {
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        fact(&mut connection.negotiation);
        while let Some(step) = self.connections.get_mut(&peer).and_then(|known| known.negotiation.poll_step()) {
            self.follow(now, peer, step);
        }
    }

    fn follow(&mut self, now: Time, peer: PeerId, step: Step) {
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        match step {
            Step::MakeAnswer(offer) => {
                connection.has_peer = true;
                let early = std::mem::take(&mut connection.early);
                self.orders.push_back(Order::Answer(peer, offer));
                self.orders.extend(early.into_iter().map(|candidate| Order::Candidate(peer, candidate)));
            }
            Step::MakeOffer => self.orders.push_back(Order::Offer(peer)),
            Step::Accept(answer) => self.orders.push_back(Order::Accept(peer, answer)),
            Step::SendAnswer(sdp) => {
                let (client, name) = (connection.client, connection.name.clone());
                self.tell(now, client, &name, Tell::Answer(&sdp));
            }
            Step::SendOffer(sdp) => {
                let (client, name) = (connection.client, connection.name.clone());
                self.tell(now, client, &name, Tell::Offer(&sdp));
            }
            Step::GiveUp => self.end(now, peer),
        }
    }

    fn tell(&mut self, now: Time, id: ClientId, name: &str, tell: Tell<'_>) {
        let datetime = self.datetime(now);
        let Some(client) = self.clients.get_mut(&id) else { return };
        match &mut client.kind {
            Kind::WebSocket => self.orders.push_back(Order::Send(id, tell.message(name, datetime))),
            Kind::Polling(log) => log.add(name, tell, datetime),
        }
    }

    /// Milliseconds since 1970.
    fn datetime(&self, now: Time) -> u64 {
        self.origin.saturating_add(now.as_micros() / 1_000)
    }

    /// Ends a connection and informs its client.
    fn end(&mut self, now: Time, peer: PeerId) {
        if let Some((client, name)) = self.drop_peer(peer) {
            self.tell(now, client, &name, Tell::Disconnect);
        }
    }

    fn drop_peer(&mut self, peer: PeerId) -> Option<(ClientId, String)> {
        let connection = self.connections.remove(&peer)?;
        if let Some(client) = self.clients.get_mut(&connection.client) {
            client.connections.remove(&connection.name);
        }
        if connection.has_peer {
            self.orders.push_back(Order::End(peer));
        }
        Some((connection.client, connection.name))
    }

    fn forget(&mut self, id: ClientId) {
        let Some(client) = self.clients.remove(&id) else { return };
        for peer in client.connections.into_values() {
            self.drop_peer(peer);
        }
        self.sessions.retain(|_, session| *session != id);
    }

    /// Repeats offers, and drops clients that have been silent for too long.
    pub fn on_timeout(&mut self, now: Time) {
        let peers: Vec<PeerId> = self.connections.keys().copied().collect();
        for peer in peers {
            self.negotiate(now, peer, |negotiation| negotiation.on_timeout(now));
        }
        let silent: Vec<ClientId> = self
            .clients
            .iter()
            .filter(|(_, client)| client.dies_at().is_some_and(|at| at <= now))
            .map(|(id, _)| *id)
            .collect();
        for id in silent {
            let websocket = matches!(self.clients[&id].kind, Kind::WebSocket);
            self.forget(id);
            if websocket {
                self.orders.push_back(Order::Close(id));
            }
        }
    }

    /// The client that the peer belongs to.
    #[must_use]
    pub fn guest_of(&self, peer: PeerId) -> Option<Guest> {
        Some(self.clients.get(&self.connections.get(&peer)?.client)?.guest)
    }

    /// When to call [`Signalling::on_timeout`]; calling it earlier is harmless, later keeps silent clients longer.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let offers = self.connections.values().filter_map(|connection| connection.negotiation.poll_timeout());
        self.clients.values().filter_map(Client::dies_at).chain(offers).min()
    }

    /// Call it until it returns none after each fact.
    pub fn poll_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }
}

#[cfg(test)]
mod tests;
