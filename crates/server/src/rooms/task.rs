//! One room's task: the only one that touches the room.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::ws::Message;
use nearlight_fleet::Connection;
use nearlight_net::{Alarm, TcpSocket};
use nearlight_rooms::{JoinError, MemberId, Room, RoomEvent};
use nearlight_units::{Bitrate, Span, Time};
use tokio::sync::mpsc;

use super::{DEFAULT_ROOM, EMPTY_LIMIT, Newcomer, SharedRoom, ToRoom};
use crate::state::ServerState;

/// Messages that are taken at once: what arrived together is answered together.
pub(super) const BATCH: usize = 256;
/// TCP's state is read this often: as often as the room decides what a member needs to see.
pub(super) const ASK_TCP: Span = Span::from_millis(200);
/// With nobody there, the room checks this often whether it should close.
pub(super) const IDLE_CHECK: Span = Span::from_secs(10);

/// Places in a member's queue that voices leave to the room's own messages.
const KEPT_FROM_VOICES: usize = 4;

/// A member's end of its socket.
pub(super) struct Peer {
    connection: Connection,
    outgoing: mpsc::Sender<Message>,
    tcp: Option<TcpSocket>,
    /// It did not take a message that was due.
    pub(super) blocked: bool,
}

impl Peer {
    pub(super) const fn new(connection: Connection, outgoing: mpsc::Sender<Message>, tcp: Option<TcpSocket>) -> Self {
        Self { connection, outgoing, tcp, blocked: false }
    }

    /// Sends it a message. One for a full queue is lost, which the room makes good when the member takes messages again.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        let message = Message::Binary(axum::body::Bytes::copy_from_slice(bytes));
        self.blocked |= self.outgoing.try_send(message).is_err() || self.outgoing.capacity() == 0;
    }

    /// Sends it what somebody says, unless it takes too little at the moment.
    pub(super) fn send_voice(&self, bytes: &[u8]) {
        if self.outgoing.capacity() > KEPT_FROM_VOICES {
            let _ = self.outgoing.try_send(Message::Binary(axum::body::Bytes::copy_from_slice(bytes)));
        }
    }

    /// It takes messages again, for the first time since it did not.
    pub(super) fn unblocks(&mut self) -> bool {
        let unblocks = self.blocked && self.outgoing.capacity() > 0;
        self.blocked &= !unblocks;
        unblocks
    }

    /// What its network carries, and its round trip, if the kernel knows.
    pub(super) fn network(&mut self) -> Option<(Bitrate, Span)> {
        match self.tcp.as_ref()?.info() {
            Ok(info) => info.rate_limit().map(|rate| (rate, info.round_trip)),
            // It has closed, which its own task notices, or the system provides no information.
            Err(error) => {
                tracing::debug!(%error, "nothing is known of a member's TCP");
                self.tcp = None;
                None
            }
        }
    }
}

pub(super) struct RoomTask {
    state: Arc<ServerState>,
    name: String,
    room: Arc<SharedRoom>,
    /// The studio exchanges with it.
    is_world: bool,
    peers: BTreeMap<MemberId, Peer>,
    members: BTreeMap<Connection, MemberId>,
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
        let (peers, members) = (BTreeMap::new(), BTreeMap::new());
        Self {
            state,
            name,
            room,
            is_world,
            peers,
            members,
            incoming,
            out: Vec::new(),
            tcp_asked_at: now,
            empty_since: now,
        }
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
            ToRoom::Message { connection, bytes } => {
                if let Some(member) = self.members.get(&connection) {
                    room.on_message(now, *member, &bytes);
                }
            }
            ToRoom::Left { connection, lost } => {
                let Some(member) = self.members.remove(&connection) else { return };
                self.peers.remove(&member);
                if lost {
                    room.on_lost(now, member);
                } else {
                    room.on_leave(now, member);
                }
            }
        }
    }

    fn on_newcomer(&mut self, now: Time, room: &mut Room, newcomer: Newcomer) {
        let Newcomer { connection, join, tcp, outgoing, answer } = newcomer;
        let joined = room.on_join(now, &join, room.grantable(join.role));
        if let Ok(member) = joined {
            self.members.insert(connection, member);
            // Its former connection is of no use.
            if let Some(former) = self.peers.insert(member, Peer::new(connection, outgoing, tcp)) {
                self.members.remove(&former.connection);
            }
            if self.is_world {
                self.state.studio.on_member();
            }
        }
        if answer.send(joined.map(|_| ())).is_err()
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
            if peer.unblocks() {
                room.on_writable(*member);
            }
            if asks && let Some((rate, round_trip)) = peer.network() {
                room.on_network(*member, rate, round_trip);
            }
        }
    }

    /// Hands out what is due, and what happened.
    fn drain(&mut self, now: Time) {
        let Self { room: shared, peers, members, out, name, .. } = self;
        loop {
            out.clear();
            // Locked for each message anew, so that the studio has its turn between two of them.
            let mut room = shared.lock();
            let Some((member, _)) = room.poll_transmit(now, out) else { break };
            if let Some(peer) = peers.get_mut(&member) {
                peer.send(out);
                if peer.blocked {
                    room.on_blocked(member);
                }
            }
        }
        let mut room = shared.lock();
        while let Some((member, bytes)) = room.poll_voice() {
            if let Some(peer) = peers.get(&member) {
                peer.send_voice(&bytes);
            }
        }
        while let Some(event) = room.poll_event() {
            match event {
                RoomEvent::Joined { member } => {
                    let who = room.state().member(member);
                    let (own, role) = who.map_or(("", ""), |who| (who.name.as_str(), who.role.name()));
                    tracing::debug!(room = *name, member = member.0, name = own, role, "a member joined");
                }
                RoomEvent::Ended { member, reason } => {
                    if let Some(peer) = peers.remove(&member) {
                        members.remove(&peer.connection);
                    }
                    let reason = reason.map_or("it left", nearlight_rooms::Reason::words);
                    tracing::debug!(room = *name, member = member.0, reason, "a membership ended");
                }
            }
        }
    }
}

/// Why somebody cannot join, for its user.
pub(super) fn words(error: JoinError) -> String {
    format!("You cannot join: {error}.")
}
