//! One room's task: the only one that touches the room.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::ws::Message;
use nearlight_net::{Alarm, TcpSocket};
use nearlight_rooms::{JoinError, MemberId, Role, Room, RoomEvent};
use nearlight_units::{Span, Time};
use tokio::sync::mpsc;

use super::{DEFAULT_ROOM, EMPTY_LIMIT, Newcomer, SharedRoom, ToRoom};
use crate::state::ServerState;

/// Messages that are taken at once: what arrived together is answered together.
const BATCH: usize = 256;
/// TCP's state is read this often: as often as the room decides what a member needs to see.
const ASK_TCP: Span = Span::from_millis(200);
/// With nobody there, the room checks this often whether it should close.
const IDLE_CHECK: Span = Span::from_secs(10);
/// A member's end of its socket.
struct Peer {
    outgoing: mpsc::Sender<Message>,
    tcp: Option<TcpSocket>,
    /// It did not take a message that was due.
    blocked: bool,
}

pub(super) struct RoomTask {
    state: Arc<ServerState>,
    name: String,
    room: Arc<SharedRoom>,
    /// The studio exchanges with it.
    is_world: bool,
    peers: BTreeMap<MemberId, Peer>,
    incoming: mpsc::Receiver<ToRoom>,
    out: Vec<u8>,
    tcp_asked_at: Time,
    empty_since: Time,
}

impl RoomTask {
    pub(super) fn new(state: Arc<ServerState>, name: String, incoming: mpsc::Receiver<ToRoom>) -> Self {
        let now = state.clock.now();
        let world = state.rooms.world.clone().filter(|_| name == DEFAULT_ROOM);
        let is_world = world.is_some();
        let room = world.unwrap_or_else(|| Arc::new(SharedRoom::usual(now)));
        let peers = BTreeMap::new();
        Self { state, name, room, is_world, peers, incoming, out: Vec::new(), tcp_asked_at: now, empty_since: now }
    }

    /// Until the room has been empty for long enough, or the server closes.
    pub(super) async fn run(mut self) {
        let clock = self.state.clock;
        let mut closing = self.state.closing.clone();
        let mut alarm = Alarm::new(clock);
        let mut batch = Vec::with_capacity(BATCH);
        let shared = Arc::clone(&self.room);
        loop {
            let due = shared.lock().poll_timeout().unwrap_or_else(|| clock.now() + IDLE_CHECK);
            tokio::select! {
                _ = self.incoming.recv_many(&mut batch, BATCH) => {
                    let now = clock.now();
                    let mut room = shared.lock();
                    batch.drain(..).for_each(|message| self.on_message(now, &mut room, message));
                }
                () = alarm.at(due) => {
                    let now = clock.now();
                    let mut room = shared.lock();
                    self.look_at_peers(now, &mut room);
                    room.on_timeout(now);
                }
                () = shared.transmits.notified() => {}
                _ = closing.wait_for(|closing| *closing) => {
                    shared.lock().set_closed(clock.now());
                    self.drain(clock.now());
                    return;
                }
            }
            self.drain(clock.now());
            if self.closes(clock.now()) {
                tracing::info!(room = self.name, "a room has closed: nobody was there");
                return;
            }
        }
    }

    fn closes(&mut self, now: Time) -> bool {
        if !self.peers.is_empty() {
            self.empty_since = now;
        }
        let is_over = self.name != DEFAULT_ROOM && now - self.empty_since >= EMPTY_LIMIT;
        is_over && self.state.rooms.close(&self.name, || self.incoming.is_empty())
    }

    fn on_message(&mut self, now: Time, room: &mut Room, message: ToRoom) {
        match message {
            ToRoom::Join(newcomer) => self.on_newcomer(now, room, *newcomer),
            ToRoom::Message { member, bytes } => room.on_message(now, member, &bytes),
            ToRoom::Left { member } => room.on_leave(now, member),
        }
    }

    fn on_newcomer(&mut self, now: Time, room: &mut Room, newcomer: Newcomer) {
        let Newcomer { join, tcp, outgoing, answer } = newcomer;
        let joined = room.on_join(now, &join, granted(room, join.role));
        if let Ok(member) = joined {
            self.peers.insert(member, Peer { outgoing, tcp, blocked: false });
            if self.is_world {
                self.state.studio.on_member();
            }
        }
        if let Err(joined) = answer.send(joined)
            && let Ok(member) = joined
        {
            // It has gone meanwhile.
            room.on_leave(now, member);
        }
    }

    /// Whether members take messages again, and what their networks carry.
    fn look_at_peers(&mut self, now: Time, room: &mut Room) {
        let asks = now - self.tcp_asked_at >= ASK_TCP;
        if asks {
            self.tcp_asked_at = now;
        }
        for (member, peer) in &mut self.peers {
            if peer.blocked && peer.outgoing.capacity() > 0 {
                peer.blocked = false;
                room.on_writable(*member);
            }
            if !asks {
                continue;
            }
            let Some(info) = peer.tcp.as_ref().map(TcpSocket::info) else { continue };
            match info {
                Ok(info) => {
                    if let Some(rate) = info.rate_limit() {
                        room.on_network(*member, rate, info.round_trip);
                    }
                }
                // It has closed, which its own task notices, or the system provides no information.
                Err(error) => {
                    tracing::debug!(%error, "nothing is known of a member's TCP");
                    peer.tcp = None;
                }
            }
        }
    }

    /// Hands out what is due, and what happened.
    fn drain(&mut self, now: Time) {
        let Self { room: shared, peers, out, name, .. } = self;
        loop {
            out.clear();
            // Locked for each message anew, so that the studio has its turn between two of them.
            let mut room = shared.lock();
            let Some((member, _)) = room.poll_transmit(now, out) else { break };
            // A message for a full queue is lost, which the room makes good when the member takes messages again.
            if let Some(peer) = peers.get_mut(&member) {
                let message = Message::Binary(axum::body::Bytes::copy_from_slice(out));
                if peer.outgoing.try_send(message).is_err() || peer.outgoing.capacity() == 0 {
                    peer.blocked = true;
                    room.on_blocked(member);
                }
            }
        }
        let mut room = shared.lock();
        while let Some(event) = room.poll_event() {
            match event {
                RoomEvent::Joined { member } => {
                    let who = room.state().member(member);
                    let (own, role) = who.map_or(("", ""), |who| (who.name.as_str(), who.role.name()));
                    tracing::debug!(room = *name, member = member.0, name = own, role, "a member joined");
                }
                RoomEvent::Ended { member, reason } => {
                    peers.remove(&member);
                    let reason = reason.map_or("it left", nearlight_rooms::Reason::words);
                    tracing::debug!(room = *name, member = member.0, reason, "a membership ended");
                }
            }
        }
    }
}

/// The wish is within what the member's token permits. There is one host, who makes others hosts.
fn granted(room: &Room, wished: Role) -> Role {
    let has_host = room.state().members().any(|(_, member)| member.role == Role::Host);
    if wished == Role::Host && has_host { Role::Guest } else { wished }
}

/// Why somebody cannot join, for its user.
pub(super) fn words(error: JoinError) -> String {
    format!("You cannot join: {error}.")
}
