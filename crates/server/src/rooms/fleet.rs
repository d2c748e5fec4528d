//! The task of a room that this server shares with others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nearlight_fleet::{Connection, SharedRoom, ToMember, WriteError};
use nearlight_nats::{Carrier, FromFleet, RoomCarrier, ToFleet};
use nearlight_net::Alarm;
use nearlight_rooms::{JoinError, RoomConfig, is_voice, usual_objects};
use nearlight_units::Time;
use tokio::sync::{mpsc, oneshot};

use super::peer::Peer;
use super::task::{ASK_NETWORK, BATCH, IDLE_CHECK};
use super::{Newcomer, ToRoom};
use crate::state::ServerState;

/// How long a server that closes tries to give the room up.
const RELEASE_LIMIT: Duration = Duration::from_secs(1);
/// What is due is looked at this often meanwhile.
const RELEASE_STEP: Duration = Duration::from_millis(20);

struct Connected {
    peer: Peer,
    /// Waits for the answer to its join.
    answer: Option<oneshot::Sender<Result<(), JoinError>>>,
}

pub(super) struct FleetTask {
    state: Arc<ServerState>,
    name: String,
    room: SharedRoom,
    connected: BTreeMap<Connection, Connected>,
    incoming: mpsc::Receiver<ToRoom>,
    network_asked_at: Time,
    idle_since: Time,
    /// Who owned the room when that was last logged, and its term.
    owner: Option<(String, u32)>,
}

impl FleetTask {
    pub(super) fn new(
        state: Arc<ServerState>,
        name: String,
        incoming: mpsc::Receiver<ToRoom>,
        fleet: &Carrier,
    ) -> Self {
        let now = state.clock.now();
        let room = SharedRoom::new(now, fleet.me().clone(), RoomConfig::default(), usual_objects());
        let connected = BTreeMap::new();
        Self { state, name, room, connected, incoming, network_asked_at: now, idle_since: now, owner: None }
    }

    /// Until the room has been of no use here for long enough, or the server closes.
    pub(super) async fn run(mut self, fleet: Carrier) {
        let clock = self.state.clock;
        let mut closing = self.state.closing.clone();
        let mut alarm = Alarm::new(clock);
        let mut batch = Vec::with_capacity(BATCH);
        let mut carrier = fleet.open(&self.name).await;
        loop {
            let due = self.room.poll_timeout(clock.now());
            tokio::select! {
                count = self.incoming.recv_many(&mut batch, BATCH) => {
                    let now = clock.now();
                    batch.drain(..).for_each(|message| self.on_message(now, message));
                    if count == 0 {
                        return;
                    }
                }
                event = carrier.recv() => match event {
                    Some(event) => self.on_fleet(clock.now(), event),
                    None => return tracing::error!(room = self.name, "the way to the fleet has ended"),
                },
                () = alarm.at(due) => {
                    let now = clock.now();
                    self.look_at_peers(now);
                    self.room.on_timeout(now);
                }
                // Without the value, which is a lock.
                () = async { drop(closing.wait_for(|closing| *closing).await) } => {
                    self.room.set_draining(clock.now());
                    self.drain(clock.now(), &carrier);
                    let _ = tokio::time::timeout(RELEASE_LIMIT, self.release(&mut carrier)).await;
                    return;
                }
            }
            self.drain(clock.now(), &carrier);
            if self.closes(clock.now()) {
                return;
            }
        }
    }

    /// Until another server may take the room over at once.
    async fn release(&mut self, carrier: &mut RoomCarrier) {
        while !self.room.is_over() {
            let event = tokio::time::timeout(RELEASE_STEP, carrier.recv()).await;
            let now = self.state.clock.now();
            match event {
                Ok(Some(event)) => self.on_fleet(now, event),
                Ok(None) => return,
                Err(_) => {}
            }
            self.drain(now, carrier);
        }
    }

    fn closes(&mut self, now: Time) -> bool {
        if !self.room.is_over() {
            self.idle_since = now;
        }
        now - self.idle_since >= IDLE_CHECK && self.state.rooms.close(&self.name, || self.incoming.is_empty())
    }

    fn on_message(&mut self, now: Time, message: ToRoom) {
        match message {
            ToRoom::Join(newcomer) => {
                let Newcomer { connection, join, outgoing, answer } = *newcomer;
                let peer = Peer::new(connection, outgoing);
                self.connected.insert(connection, Connected { peer, answer: Some(answer) });
                self.room.on_join(now, connection, join);
            }
            ToRoom::Message { connection, bytes } => self.room.on_message(now, connection, &bytes),
            ToRoom::Left { connection, lost } => {
                self.connected.remove(&connection);
                self.room.on_gone(now, connection, lost);
            }
        }
    }

    fn on_fleet(&mut self, now: Time, event: FromFleet) {
        match event {
            FromFleet::Entry { revision, entry } => self.room.on_entry(now, revision, entry),
            FromFleet::ReadFailed => self.room.on_read_failed(),
            FromFleet::Written(answer) => self.room.on_written(now, answer),
            FromFleet::Batch { from, batch } => self.room.on_batch(now, &from, batch),
        }
    }

    /// Whether members take messages again, and what their networks carry.
    fn look_at_peers(&mut self, now: Time) {
        let asks = now - self.network_asked_at >= ASK_NETWORK;
        if asks {
            self.network_asked_at = now;
        }
        for (connection, Connected { peer, .. }) in &mut self.connected {
            if peer.unblocks() {
                self.room.set_blocked(now, *connection, false);
            }
            if asks && let Some((rate, round_trip)) = peer.network() {
                self.room.on_network(now, *connection, rate, round_trip);
            }
        }
    }

    /// Hands out what is due, and what happened.
    fn drain(&mut self, now: Time, carrier: &RoomCarrier) {
        while let Some((connection, told)) = self.room.poll_member() {
            let Some(Connected { peer, answer }) = self.connected.get_mut(&connection) else { continue };
            match told {
                ToMember::Joined => drop(answer.take().map(|answer| answer.send(Ok(())))),
                ToMember::Refused(error) => {
                    let _ = answer.take().map(|answer| answer.send(Err(error)));
                    self.connected.remove(&connection);
                }
                ToMember::Message(bytes) if is_voice(&bytes) => peer.send_voice(&bytes),
                ToMember::Message(bytes) => {
                    peer.send(&bytes);
                    if peer.blocked {
                        self.room.set_blocked(now, connection, true);
                    }
                }
                // Its connection closes with its queue.
                ToMember::Ended => drop(self.connected.remove(&connection)),
            }
        }
        while let Some((to, batch)) = self.room.poll_batch() {
            carrier.ask(ToFleet::Send { to, batch });
        }
        if self.room.poll_read(now) && !carrier.ask(ToFleet::Read) {
            self.room.on_read_failed();
        }
        if let Some(write) = self.room.poll_write(now)
            && !carrier.ask(ToFleet::Write(write))
        {
            self.room.on_written(now, Err(WriteError::Unknown));
        }
        if let Some(error) = self.room.poll_problem() {
            tracing::error!(room = self.name, %error, "the room could not be continued, and began anew");
        }
        let owner = self.room.owner().map(|(owner, term)| (owner.to_string(), term));
        if owner != self.owner {
            let (owner, term) = owner.as_ref().map_or(("nobody", 0), |(owner, term)| (owner.as_str(), *term));
            tracing::info!(room = self.name, owner, term, own = self.room.is_owner(now), "the room has an owner");
            self.owner = self.room.owner().map(|(owner, term)| (owner.to_string(), term));
        }
    }
}
