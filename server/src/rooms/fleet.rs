//! The task of a room that this server shares with others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nearlight_fleet::nats::{Carrier, FleetEvent, FleetRequest, RoomCarrier};
use nearlight_fleet::{Connection, MemberOutput, SharedRoom, WriteError};
use nearlight_net::Alarm;
use nearlight_rooms::{JoinError, RemovedClients, RoomConfig, default_objects, is_voice};
use nearlight_units::Time;
use tokio::sync::{mpsc, oneshot};

use super::peer::Peer;
use super::task::{IDLE_CHECK_INTERVAL, MAX_BATCH_MESSAGES, NETWORK_POLL_INTERVAL};
use super::{JoinRequest, RoomInput};
use crate::state::ServerState;

/// Longest time that a closing server spends on releasing the room.
const RELEASE_LIMIT: Duration = Duration::from_secs(1);
/// Interval at which pending work is handled meanwhile.
const RELEASE_STEP: Duration = Duration::from_millis(20);

struct ConnectedMember {
    peer: Peer,
    /// Receives the answer to the member's join.
    answer: Option<oneshot::Sender<Result<(), JoinError>>>,
}

pub(super) struct FleetTask {
    state: Arc<ServerState>,
    name: String,
    room: SharedRoom,
    connected: BTreeMap<Connection, ConnectedMember>,
    incoming: mpsc::Receiver<RoomInput>,
    network_polled_at: Time,
    idle_since: Time,
    /// The room's owner and term when they were last logged.
    owner: Option<(String, u32)>,
}

impl FleetTask {
    pub(super) fn new(
        state: Arc<ServerState>,
        name: String,
        incoming: mpsc::Receiver<RoomInput>,
        fleet: &Carrier,
    ) -> Self {
        let now = state.clock.now();
        let room = SharedRoom::new(now, fleet.me().clone(), RoomConfig::default(), default_objects());
        let connected = BTreeMap::new();
        Self { state, name, room, connected, incoming, network_polled_at: now, idle_since: now, owner: None }
    }

    /// Runs until the room has been unused here for [`IDLE_CHECK_INTERVAL`], or the server closes.
    pub(super) async fn run(mut self, fleet: Carrier) {
        let clock = self.state.clock;
        let mut closing = self.state.closing.clone();
        let mut alarm = Alarm::new(clock);
        let mut batch = Vec::with_capacity(MAX_BATCH_MESSAGES);
        let mut carrier = fleet.open(&self.name).await;
        loop {
            let due = self.room.poll_timeout(clock.now());
            tokio::select! {
                count = self.incoming.recv_many(&mut batch, MAX_BATCH_MESSAGES) => {
                    let now = clock.now();
                    batch.drain(..).for_each(|message| self.on_message(now, message));
                    if count == 0 {
                        return;
                    }
                }
                event = carrier.recv() => match event {
                    Some(event) => self.on_fleet(clock.now(), event),
                    None => return tracing::error!(room = self.name, "the carrier to the fleet has ended"),
                },
                () = alarm.at(due) => {
                    let now = clock.now();
                    self.update_peers(now);
                    self.room.on_timeout(now);
                }
                // The value is dropped here, because it holds a lock.
                () = async { drop(closing.wait_for(|closing| *closing).await) } => {
                    self.room.set_draining(clock.now());
                    self.drain(clock.now(), &carrier);
                    let _ = tokio::time::timeout(RELEASE_LIMIT, self.release(&mut carrier)).await;
                    return;
                }
            }
            self.drain(clock.now(), &carrier);
            if self.should_close(clock.now()) {
                return;
            }
        }
    }

    /// Runs until another server may take the room over at once.
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

    fn should_close(&mut self, now: Time) -> bool {
        if !self.room.is_over() {
            self.idle_since = now;
        }
        now - self.idle_since >= IDLE_CHECK_INTERVAL
            && self.state.rooms.close(&self.name, || self.incoming.is_empty(), RemovedClients::default)
    }

    fn on_message(&mut self, now: Time, message: RoomInput) {
        match message {
            RoomInput::Join(request) => {
                let JoinRequest { connection, address, join, outgoing, answer } = *request;
                let peer = Peer::new(connection, outgoing);
                self.connected.insert(connection, ConnectedMember { peer, answer: Some(answer) });
                self.room.on_join(now, connection, address, join);
            }
            RoomInput::Message { connection, bytes } => self.room.on_message(now, connection, &bytes),
            RoomInput::Left { connection, lost } => {
                self.connected.remove(&connection);
                self.room.on_gone(now, connection, lost);
            }
        }
    }

    fn on_fleet(&mut self, now: Time, event: FleetEvent) {
        match event {
            FleetEvent::Entry { revision, entry } => self.room.on_entry(now, revision, entry),
            FleetEvent::ReadFailed => self.room.on_read_failed(),
            FleetEvent::Written(answer) => self.room.on_written(now, answer),
            FleetEvent::Batch { from, batch } => self.room.on_batch(now, &from, batch),
        }
    }

    /// Reports which members accept messages again, and the state of their networks.
    fn update_peers(&mut self, now: Time) {
        let asks = now - self.network_polled_at >= NETWORK_POLL_INTERVAL;
        if asks {
            self.network_polled_at = now;
        }
        for (connection, ConnectedMember { peer, .. }) in &mut self.connected {
            if peer.unblocks() {
                self.room.set_blocked(now, *connection, false);
            }
            if asks && let Some((rate, round_trip)) = peer.network() {
                self.room.on_network(now, *connection, rate, round_trip);
            }
        }
    }

    /// Sends what is due, and handles what happened.
    fn drain(&mut self, now: Time, carrier: &RoomCarrier) {
        while let Some((connection, told)) = self.room.poll_member() {
            let Some(ConnectedMember { peer, answer }) = self.connected.get_mut(&connection) else { continue };
            match told {
                MemberOutput::Joined => drop(answer.take().map(|answer| answer.send(Ok(())))),
                MemberOutput::Refused(error) => {
                    let _ = answer.take().map(|answer| answer.send(Err(error)));
                    self.connected.remove(&connection);
                }
                MemberOutput::Message(bytes) if is_voice(&bytes) => peer.send_voice(&bytes),
                MemberOutput::Message(bytes) => {
                    peer.send(&bytes);
                    if peer.blocked {
                        self.room.set_blocked(now, connection, true);
                    }
                }
                // Dropping the queue closes the connection.
                MemberOutput::Ended => drop(self.connected.remove(&connection)),
            }
        }
        while let Some((to, batch)) = self.room.poll_batch() {
            carrier.ask(FleetRequest::Send { to, batch });
        }
        if self.room.poll_read(now) && !carrier.ask(FleetRequest::Read) {
            self.room.on_read_failed();
        }
        if let Some(write) = self.room.poll_write(now)
            && !carrier.ask(FleetRequest::Write(write))
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
