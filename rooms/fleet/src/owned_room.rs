//! The room at the server that owns it: who of its members is behind which connection of which server.

use std::collections::BTreeMap;
use std::net::IpAddr;

use nearlight_rooms::{Join, MemberId, Room, RoomEvent};
use nearlight_units::Time;

use crate::batch::{Connection, DownstreamItem};
use crate::entry::ServerId;

/// What waits for members' connections, by the server that has them.
pub(crate) type DownstreamItems = BTreeMap<ServerId, Vec<(Connection, DownstreamItem)>>;

/// The room at its owner.
#[derive(Debug)]
pub(crate) struct OwnedRoom {
    pub(crate) room: Room,
    pub(crate) term: u32,
    /// The member behind each server's connection.
    pub(crate) members: BTreeMap<(ServerId, Connection), MemberId>,
    pub(crate) connections: BTreeMap<MemberId, (ServerId, Connection)>,
    pub(crate) checkpoint: Vec<u8>,
    pub(crate) empty_since: Time,
    /// Whether the room is paused, because the lease has expired.
    pub(crate) paused: bool,
}

impl OwnedRoom {
    pub(crate) fn new(now: Time, term: u32, room: Room) -> Self {
        let (members, connections) = (BTreeMap::new(), BTreeMap::new());
        Self { room, term, members, connections, checkpoint: Vec::new(), empty_since: now, paused: false }
    }

    /// Gives the connection of a member a seat, and returns the answer.
    pub(crate) fn on_join(
        &mut self,
        now: Time,
        key: &(ServerId, Connection),
        address: IpAddr,
        join: &Join,
        down: &mut DownstreamItems,
    ) -> DownstreamItem {
        if self.members.contains_key(key) {
            return DownstreamItem::Joined;
        }
        match self.room.on_join_from(now, Some(address), join, self.room.grantable(join.role)) {
            Ok(member) => {
                self.members.insert(key.clone(), member);
                // The member's previous connection is obsolete.
                if let Some(former) = self.connections.insert(member, key.clone()) {
                    self.members.remove(&former);
                    down.entry(former.0).or_default().push((former.1, DownstreamItem::Ended));
                }
                DownstreamItem::Joined
            }
            Err(error) => DownstreamItem::Refused(error),
        }
    }

    /// Forwards the room's messages to all connected members.
    pub(crate) fn drain(&mut self, now: Time, down: &mut DownstreamItems) {
        let mut out = Vec::new();
        while let Some(member) = self.room.poll_transmit(now, &mut out) {
            let bytes = std::mem::take(&mut out);
            if let Some((server, connection)) = self.connections.get(&member) {
                down.entry(server.clone()).or_default().push((*connection, DownstreamItem::Message(bytes)));
            }
        }
        while let Some((member, bytes)) = self.room.poll_voice() {
            if let Some((server, connection)) = self.connections.get(&member) {
                down.entry(server.clone()).or_default().push((*connection, DownstreamItem::Message(bytes.to_vec())));
            }
        }
        while let Some(event) = self.room.poll_event() {
            if let RoomEvent::Ended { member, .. } = event
                && let Some(key) = self.connections.remove(&member)
            {
                self.members.remove(&key);
                down.entry(key.0).or_default().push((key.1, DownstreamItem::Ended));
            }
        }
    }
}
