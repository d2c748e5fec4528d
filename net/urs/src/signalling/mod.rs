//! The clients connected to the world, over WebSocket and over HTTP polling, and the negotiation state of each connection.
//!
//! In Unity's set-up a relay connects the browser and the application. Here the application is the relay, so a client's only peer is the
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
use text::{ClientMessage, ServerMessage};

pub use polling::{Method, Reply, Request};
pub use text::{Candidate, MAX_TEXT_BYTES, TextError};

/// Maximum number of clients that signal at the same time, by socket and by polling together. Guess: eight for each place of a usual
/// server.
const MAX_CLIENTS: usize = 64;
/// Maximum number of clients without the token among them. The rest are reserved for clients with it. Guess.
const MAX_STRANGERS: usize = 48;
/// Maximum number of clients from one address: a household or a test behind it. Clients with and without the token are counted separately.
/// Guess.
const MAX_CLIENTS_PER_ADDRESS: usize = 16;
/// Maximum number of connections of one client. The web client has one.
const MAX_CONNECTIONS: usize = 4;
/// Maximum number of a connection's candidates. Further ones are ignored: a browser has one for each of its addresses and protocols.
const MAX_CANDIDATES: usize = 64;
/// A client that sent this many invalid messages is disconnected. Guess.
const MAX_FAULTS: u32 = 16;
/// A WebSocket without a connection that is silent for this long is closed. Guess.
const IDLE_TIMEOUT: Span = Span::from_secs(30);

/// Whether several clients may use the same name for a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Every client has its own connection to the world, whatever its name.
    #[default]
    Public,
    /// A name is a rendezvous of two, and the world is one of them: the second client that uses it is rejected.
    Private,
}

impl Mode {
    /// The name in `/config`.
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
            _ => Err(format!("`{text}` is not a startup mode: use public or private")),
        }
    }
}

/// Identifies a client, by WebSocket or polling session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(u64);

/// Identifies a client's peer: one connection's media, as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerId(pub u64);

/// The address and trust of a client that signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guest {
    pub address: IpAddr,
    /// Whether it showed the pairing token.
    pub trusted: bool,
}

/// A client's submission to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission<'a> {
    /// An offer that is not a repetition.
    Offer(&'a str),
    Answer(&'a str),
    Candidate(&'a str),
}

/// The reason for rejecting a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    Bad(String),
    /// Too many. May be tried again after this time.
    TooMany(String, Span),
}

/// Checks submissions of clients before they are processed.
pub type Gate = Box<dyn FnMut(Time, Guest, Submission<'_>) -> Result<(), Rejection> + Send>;

/// A command to the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Send this text over the client's WebSocket.
    Send(ClientId, String),
    /// Close the client's WebSocket. Its state has been dropped already.
    Close(ClientId),
    /// Answer this offer. A peer of this name is created if there is none.
    Answer(PeerId, String),
    /// Make an offer with all media of the world.
    Offer(PeerId),
    /// The client's answer to that offer.
    Accept(PeerId, String),
    Candidate(PeerId, Candidate),
    /// The connection is over. The peer's state has been dropped already.
    End(PeerId),
}

/// The error for a client that is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many clients are signalling; try again in a moment")]
pub struct TooManyClients;

#[derive(Debug)]
struct Connection {
    client: ClientId,
    name: String,
    negotiation: Negotiation,
    /// Candidates that arrived before the peer's first offer.
    early: Vec<Candidate>,
    candidates: usize,
    /// Whether the driver has a peer.
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
    commands: VecDeque<Command>,
    next: u64,
}

impl Signalling {
    /// Makes the signalling. `origin`: milliseconds since 1970 at time zero.
    #[must_use]
    pub fn new(mode: Mode, origin: u64, gate: Gate) -> Self {
        Self {
            mode,
            gate,
            origin,
            clients: BTreeMap::new(),
            sessions: BTreeMap::new(),
            connections: BTreeMap::new(),
            commands: VecDeque::new(),
            next: 1,
        }
    }

    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Handles a WebSocket that was opened.
    pub fn on_websocket(&mut self, now: Time, from: Guest) -> Result<ClientId, TooManyClients> {
        self.admit(Client::new(now, from, Kind::WebSocket))
    }

    fn admit(&mut self, client: Client) -> Result<ClientId, TooManyClients> {
        let count = |is: &dyn Fn(&Guest) -> bool| self.clients.values().filter(|known| is(&known.guest)).count();
        let too_many_strangers = !client.guest.trusted && count(&|known| !known.trusted) >= MAX_STRANGERS;
        let same = count(&|known| *known == client.guest);
        if too_many_strangers || self.clients.len() >= MAX_CLIENTS || same >= MAX_CLIENTS_PER_ADDRESS {
            return Err(TooManyClients);
        }
        let id = ClientId(self.next);
        self.next += 1;
        self.clients.insert(id, client);
        Ok(id)
    }

    /// Handles a text message from a client's WebSocket.
    pub fn on_text(&mut self, now: Time, id: ClientId, text: &str) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.heard_at = now;
        let message = text::read_message(text).map_err(|error| Rejection::Bad(error.to_string()));
        let refused = message.and_then(|(name, message)| self.on_client_message(now, id, &name, message)).err();
        if let Some(Rejection::Bad(problem) | Rejection::TooMany(problem, _)) = refused {
            self.on_fault(id, &problem);
        }
    }

    /// Handles a WebSocket message that is not text or is too long. Its bytes were not parsed.
    pub fn on_unreadable(&mut self, id: ClientId) {
        self.on_fault(id, "a message is text of at most 64 kB");
    }

    fn on_fault(&mut self, id: ClientId, problem: &str) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.faults += 1;
        let cut_off = client.faults >= MAX_FAULTS;
        self.commands.push_back(Command::Send(id, text::error_message(problem)));
        if cut_off {
            self.forget(id);
            self.commands.push_back(Command::Close(id));
        }
    }

    /// Handles a WebSocket that is gone.
    pub fn on_closed(&mut self, id: ClientId) {
        self.forget(id);
    }

    /// Handles the peer's answer that [`Command::Answer`] requested, or its failure.
    pub fn on_answer(&mut self, now: Time, peer: PeerId, answer: Result<String, String>) {
        match answer {
            Ok(answer) => self.negotiate(now, peer, |negotiation| negotiation.on_answer_made(answer)),
            Err(problem) => self.on_peer_failed(now, peer, &problem),
        }
    }

    /// Handles the peer's offer that [`Command::Offer`] requested, or its failure.
    pub fn on_offer(&mut self, now: Time, peer: PeerId, offer: Result<String, String>) {
        match offer {
            Ok(offer) => self.negotiate(now, peer, |negotiation| negotiation.on_offer_made(now, offer)),
            Err(problem) => self.on_peer_failed(now, peer, &problem),
        }
    }

    fn on_peer_failed(&mut self, now: Time, peer: PeerId, problem: &str) {
        let Some(connection) = self.connections.get(&peer) else { return };
        let (client, name) = (connection.client, connection.name.clone());
        self.inform(now, client, &name, ServerMessage::Error(problem));
        self.on_peer_gone(now, peer);
    }

    /// Handles a peer that has ended by itself: informs its client.
    pub fn on_peer_gone(&mut self, now: Time, peer: PeerId) {
        self.end(now, peer);
    }

    /// Handles a client's message about one of its connections, over either transport.
    fn on_client_message(
        &mut self,
        now: Time,
        id: ClientId,
        name: &str,
        message: ClientMessage,
    ) -> Result<(), Rejection> {
        match message {
            ClientMessage::Connect => {
                // A client that connects again starts over.
                if let Some(peer) = self.peer_of(id, name) {
                    self.drop_peer(peer);
                }
                self.connect(id, name)?;
                self.inform(now, id, name, ServerMessage::Connect);
            }
            ClientMessage::Disconnect => match self.peer_of(id, name) {
                Some(peer) => self.end(now, peer),
                None => self.inform(now, id, name, ServerMessage::Disconnect),
            },
            ClientMessage::Offer(offer) => {
                let known = self.peer_of(id, name).and_then(|peer| self.connections.get(&peer));
                if known.is_none_or(|connection| connection.negotiation.is_new(&offer)) {
                    self.check(now, id, Submission::Offer(&offer))?;
                }
                let peer = self.connect(id, name)?;
                self.negotiate(now, peer, |negotiation| negotiation.on_offer(offer));
            }
            ClientMessage::Answer(answer) => {
                self.check(now, id, Submission::Answer(&answer))?;
                if let Some(peer) = self.peer_of(id, name) {
                    self.negotiate(now, peer, |negotiation| negotiation.on_answer(answer));
                }
            }
            ClientMessage::Candidate(candidate) => {
                self.check(now, id, Submission::Candidate(&candidate.candidate))?;
                let peer = self.connect(id, name)?;
                self.on_candidate(peer, candidate);
            }
        }
        Ok(())
    }

    fn check(&mut self, now: Time, id: ClientId, submission: Submission<'_>) -> Result<(), Rejection> {
        let guest = self.clients.get(&id).map(|client| client.guest);
        guest.map_or(Ok(()), |guest| (self.gate)(now, guest, submission))
    }

    fn on_candidate(&mut self, peer: PeerId, candidate: Candidate) {
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        connection.candidates += 1;
        if connection.candidates > MAX_CANDIDATES {
            return;
        }
        if connection.has_peer {
            self.commands.push_back(Command::Candidate(peer, candidate));
        } else {
            connection.early.push(candidate);
        }
    }

    fn peer_of(&self, id: ClientId, name: &str) -> Option<PeerId> {
        self.clients.get(&id)?.connections.get(name).copied()
    }

    /// Returns the client's connection with this name. Older clients offer without having connected.
    fn connect(&mut self, id: ClientId, name: &str) -> Result<PeerId, Rejection> {
        if let Some(peer) = self.peer_of(id, name) {
            return Ok(peer);
        }
        let taken = self.mode == Mode::Private && self.connections.values().any(|connection| connection.name == name);
        if taken {
            return Err(Rejection::Bad(format!("{name}: This connection id is already used.")));
        }
        let client = self.clients.get_mut(&id).ok_or_else(|| Rejection::Bad("the session has ended".into()))?;
        if client.connections.len() >= MAX_CONNECTIONS {
            return Err(Rejection::Bad(format!("a client has at most {MAX_CONNECTIONS} connections")));
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
            self.execute(now, peer, step);
        }
    }

    fn execute(&mut self, now: Time, peer: PeerId, step: Step) {
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        match step {
            Step::MakeAnswer(offer) => {
                connection.has_peer = true;
                let early = std::mem::take(&mut connection.early);
                self.commands.push_back(Command::Answer(peer, offer));
                self.commands.extend(early.into_iter().map(|candidate| Command::Candidate(peer, candidate)));
            }
            Step::MakeOffer => self.commands.push_back(Command::Offer(peer)),
            Step::Accept(answer) => self.commands.push_back(Command::Accept(peer, answer)),
            Step::SendAnswer(sdp) => {
                let (client, name) = (connection.client, connection.name.clone());
                self.inform(now, client, &name, ServerMessage::Answer(&sdp));
            }
            Step::SendOffer(sdp) => {
                let (client, name) = (connection.client, connection.name.clone());
                self.inform(now, client, &name, ServerMessage::Offer(&sdp));
            }
            Step::GiveUp => self.end(now, peer),
        }
    }

    fn inform(&mut self, now: Time, id: ClientId, name: &str, message: ServerMessage<'_>) {
        let datetime = self.datetime(now);
        let Some(client) = self.clients.get_mut(&id) else { return };
        match &mut client.kind {
            Kind::WebSocket => self.commands.push_back(Command::Send(id, message.to_json(name, datetime))),
            Kind::Polling(log) => log.add(name, message, datetime),
        }
    }

    /// The time in milliseconds since 1970.
    fn datetime(&self, now: Time) -> u64 {
        self.origin.saturating_add(now.as_micros() / 1_000)
    }

    /// Ends a connection and informs its client.
    fn end(&mut self, now: Time, peer: PeerId) {
        if let Some((client, name)) = self.drop_peer(peer) {
            self.inform(now, client, &name, ServerMessage::Disconnect);
        }
    }

    fn drop_peer(&mut self, peer: PeerId) -> Option<(ClientId, String)> {
        let connection = self.connections.remove(&peer)?;
        if let Some(client) = self.clients.get_mut(&connection.client) {
            client.connections.remove(&connection.name);
        }
        if connection.has_peer {
            self.commands.push_back(Command::End(peer));
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
            .filter(|(_, client)| client.expires_at().is_some_and(|at| at <= now))
            .map(|(id, _)| *id)
            .collect();
        for id in silent {
            let websocket = matches!(self.clients[&id].kind, Kind::WebSocket);
            self.forget(id);
            if websocket {
                self.commands.push_back(Command::Close(id));
            }
        }
    }

    /// The client that the peer belongs to.
    #[must_use]
    pub fn guest_of(&self, peer: PeerId) -> Option<Guest> {
        Some(self.clients.get(&self.connections.get(&peer)?.client)?.guest)
    }

    /// When to call [`Signalling::on_timeout`]. Calling it earlier is harmless; later keeps silent clients longer.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let offers = self.connections.values().filter_map(|connection| connection.negotiation.poll_timeout());
        self.clients.values().filter_map(Client::expires_at).chain(offers).min()
    }

    /// Returns the next command. Call it until it returns None after each fact.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }
}

#[cfg(test)]
mod tests;
