//! One room's task: the only one that touches the room.

use std::collections::BTreeMap;
use std::sync::Arc;

use nearlight_fleet::Connection;
use nearlight_net::Alarm;
use nearlight_rooms::{JoinError, MemberId, Room, RoomEvent};
use nearlight_units::{Span, Time};
use tokio::sync::mpsc;

use super::peer::Peer;
use super::{DEFAULT_ROOM, EMPTY_LIMIT, Newcomer, SharedRoom, ToRoom};
use crate::state::ServerState;

/// Messages that are taken at once: what arrived together is answered together.
pub(super) const BATCH: usize = 256;
/// The state of members' networks is read this often: as often as the room decides what a member needs to see.
pub(super) const ASK_NETWORK: Span = Span::from_millis(200);
/// With nobody there, the room checks this often whether it should close.
pub(super) const IDLE_CHECK: Span = Span::from_secs(10);

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
    network_asked_at: Time,
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
            network_asked_at: now,
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
        let Newcomer { connection, join, outgoing, answer } = newcomer;
        let joined = room.on_join(now, &join, room.grantable(join.role));
        if let Ok(member) = joined {
            self.members.insert(connection, member);
            // Its former connection is of no use.
            if let Some(former) = self.peers.insert(member, Peer::new(connection, outgoing)) {
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
        let asks = now - self.network_asked_at >= ASK_NETWORK;
        if asks {
            self.network_asked_at = now;
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
            let Some(member) = room.poll_transmit(now, out) else { break };
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
