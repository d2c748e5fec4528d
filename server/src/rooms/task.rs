//! The task of one room, which alone drives it.

use std::collections::BTreeMap;
use std::sync::Arc;

use nearlight_fleet::Connection;
use nearlight_net::Alarm;
use nearlight_rooms::{JoinError, MemberId, Room, RoomEvent};
use nearlight_units::{Span, Time};
use tokio::sync::mpsc;

use super::peer::Peer;
use super::{DEFAULT_ROOM, EMPTY_LIMIT, JoinRequest, RoomInput, SharedRoom};
use crate::state::ServerState;

/// Messages that are handled before any answer is sent, so that messages that arrived together are answered together.
pub(super) const MAX_BATCH_MESSAGES: usize = 256;
/// Interval at which the state of the members' networks is read: as often as the room decides what a member needs to see.
pub(super) const NETWORK_POLL_INTERVAL: Span = Span::from_millis(200);
/// Interval at which an empty room checks whether it should close.
pub(super) const IDLE_CHECK_INTERVAL: Span = Span::from_secs(10);

pub(super) struct RoomTask {
    state: Arc<ServerState>,
    name: String,
    room: Arc<SharedRoom>,
    /// Whether the room is the demonstration's world, which the studio shares.
    is_world: bool,
    peers: BTreeMap<MemberId, Peer>,
    members: BTreeMap<Connection, MemberId>,
    incoming: mpsc::Receiver<RoomInput>,
    out: Vec<u8>,
    network_polled_at: Time,
    empty_since: Time,
}

impl RoomTask {
    pub(super) fn new(state: Arc<ServerState>, name: String, incoming: mpsc::Receiver<RoomInput>) -> Self {
        let now = state.clock.now();
        let world = state.rooms.world.clone().filter(|_| name == DEFAULT_ROOM);
        let is_world = world.is_some();
        let removed = state.rooms.removed_from(&name);
        let room = world.unwrap_or_else(|| Arc::new(SharedRoom::with_default_objects(now, removed)));
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
            network_polled_at: now,
            empty_since: now,
        }
    }

    /// Runs until the room has been empty for [`EMPTY_LIMIT`], or the server closes.
    pub(super) async fn run(mut self) {
        let clock = self.state.clock;
        let mut closing = self.state.closing.clone();
        let mut alarm = Alarm::new(clock);
        let mut batch = Vec::with_capacity(MAX_BATCH_MESSAGES);
        let shared = Arc::clone(&self.room);
        loop {
            let due = shared.lock().poll_timeout().unwrap_or_else(|| clock.now() + IDLE_CHECK_INTERVAL);
            tokio::select! {
                _ = self.incoming.recv_many(&mut batch, MAX_BATCH_MESSAGES) => {
                    let now = clock.now();
                    let mut room = shared.lock();
                    batch.drain(..).for_each(|message| self.on_message(now, &mut room, message));
                }
                () = alarm.at(due) => {
                    let now = clock.now();
                    let mut room = shared.lock();
                    self.update_peers(now, &mut room);
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
            if self.should_close(clock.now()) {
                tracing::info!(room = self.name, "a room has closed: nobody was there");
                return;
            }
        }
    }

    fn should_close(&mut self, now: Time) -> bool {
        if !self.peers.is_empty() {
            self.empty_since = now;
        }
        let is_over = self.name != DEFAULT_ROOM && now - self.empty_since >= EMPTY_LIMIT;
        let removed = || self.room.lock().removed_clients().clone();
        is_over && self.state.rooms.close(&self.name, || self.incoming.is_empty(), removed)
    }

    fn on_message(&mut self, now: Time, room: &mut Room, message: RoomInput) {
        match message {
            RoomInput::Join(request) => self.on_newcomer(now, room, *request),
            RoomInput::Message { connection, bytes } => {
                if let Some(member) = self.members.get(&connection) {
                    room.on_message(now, *member, &bytes);
                }
            }
            RoomInput::Left { connection, lost } => {
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

    fn on_newcomer(&mut self, now: Time, room: &mut Room, request: JoinRequest) {
        let JoinRequest { connection, address, join, outgoing, answer } = request;
        let joined = room.on_join_from(now, Some(address), &join, room.grantable(join.role));
        if let Ok(member) = joined {
            self.members.insert(connection, member);
            // The member's previous connection is obsolete.
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
            // The client is gone.
            room.on_leave(now, member);
        }
    }

    /// Reports to the room which members accept messages again, and the state of their networks.
    fn update_peers(&mut self, now: Time, room: &mut Room) {
        let asks = now - self.network_polled_at >= NETWORK_POLL_INTERVAL;
        if asks {
            self.network_polled_at = now;
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

    /// Sends what is due, and handles what happened.
    fn drain(&mut self, now: Time) {
        let Self { room: shared, peers, members, out, name, .. } = self;
        loop {
            out.clear();
            // The lock is taken for each message, so that the studio can take it between two of them.
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
                    let reason = reason.map_or("it left", nearlight_rooms::EndReason::words);
                    tracing::debug!(room = *name, member = member.0, reason, "a membership ended");
                }
            }
        }
    }
}

/// Returns the message for a user who cannot join.
pub(super) fn join_error_message(error: JoinError) -> String {
    format!("You cannot join: {error}.")
}
