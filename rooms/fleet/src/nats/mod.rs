//! The carrier of rooms that several servers share ([`crate`]): NATS, whose `JetStream` holds the directory as a key-value store.
//!
//! One batch for another server is one message, with the subject `nearlight.rooms.TO.FROM.ROOM`. The store is the bucket `nearlight-rooms`,
//! whose keys are the rooms' names. No decisions are made here: a [`RoomCarrier`] forwards the requests of a
//! [`SharedRoom`](crate::SharedRoom).
//!
//! The bucket `nearlight-servers` holds an announcement of each server, under its id. NATS deletes entries that are not renewed.
//!
//! Everything is sealed ([`crate::FleetKey`]): NATS and its other users can withhold messages, and neither read nor forge them.

#[cfg(feature = "nats")]
mod client;
#[cfg(feature = "nats")]
mod directory;
#[cfg(feature = "nats")]
mod options;

use crate::{Announcement, AnnouncementError, Batch, Entry, EntryWrite, ServerId, WriteError};
use tokio::sync::mpsc;

#[cfg(feature = "nats")]
pub use client::{NatsError, connect, watch};
#[cfg(feature = "nats")]
pub use options::{NatsOptions, NatsOptionsError};

/// Answers and batches that may wait for a room. Further batches are lost, and the rooms recover from that.
const MAX_QUEUED_EVENTS: usize = 256;

/// A request of a room to the carrier.
#[derive(Debug)]
pub enum FleetRequest {
    Read,
    Write(EntryWrite),
    Send { to: ServerId, batch: Batch },
}

/// An answer of the carrier, or a message of another server.
#[derive(Debug)]
pub enum FleetEvent {
    /// The directory's entry in this revision. The revision is 0 and the entry none if there never was one.
    Entry {
        revision: u64,
        entry: Option<Entry>,
    },
    ReadFailed,
    Written(Result<u64, WriteError>),
    Batch {
        from: ServerId,
        batch: Batch,
    },
}

#[cfg_attr(not(feature = "nats"), expect(dead_code, reason = "the client reads them"))]
enum Request {
    /// Announces the server, or with none that it closes.
    Announce(Option<Announcement>),
    Open {
        room: String,
        events: mpsc::Sender<FleetEvent>,
    },
    Room {
        room: String,
        request: FleetRequest,
    },
}

/// An event of the directory, for a front.
#[derive(Debug)]
pub enum DirectoryEvent {
    Announced {
        server: ServerId,
        announcement: Announcement,
    },
    /// The server has closed.
    Gone(ServerId),
    /// An announcement under this id is not used.
    Refused {
        server: ServerId,
        error: AnnouncementError,
    },
    /// Whether the directory can be read from now on.
    Reachable(bool),
}

/// This server's connection to the other servers of the fleet.
#[derive(Clone, Debug)]
pub struct Carrier {
    me: ServerId,
    requests: mpsc::Sender<Request>,
}

/// The connection of one room to the other servers.
#[derive(Debug)]
pub struct RoomCarrier {
    room: String,
    requests: mpsc::Sender<Request>,
    events: mpsc::Receiver<FleetEvent>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Request")
    }
}

impl Carrier {
    /// Returns the id of this server.
    #[must_use]
    pub const fn me(&self) -> &ServerId {
        &self.me
    }

    /// Renews the announcement of this server; none says that it closes. If the queue is full, the announcement is lost, as on a broken
    /// network.
    pub fn announce(&self, announcement: Option<Announcement>) {
        let _ = self.requests.try_send(Request::Announce(announcement));
    }

    /// Opens the connection of a room. `room` must be a valid name of a room.
    pub async fn open(&self, room: &str) -> RoomCarrier {
        let (events, received) = mpsc::channel(MAX_QUEUED_EVENTS);
        // A carrier that has ended answers nothing, like a broken network.
        let _ = self.requests.send(Request::Open { room: room.to_owned(), events }).await;
        RoomCarrier { room: room.to_owned(), requests: self.requests.clone(), events: received }
    }
}

impl RoomCarrier {
    /// Sends a request. Returns false if it was not accepted, so that no answer will come; a batch is lost then.
    pub fn ask(&self, request: FleetRequest) -> bool {
        self.requests.try_send(Request::Room { room: self.room.clone(), request }).is_ok()
    }

    /// Waits for the next event. Returns none when the carrier has ended.
    pub async fn recv(&mut self) -> Option<FleetEvent> {
        self.events.recv().await
    }
}
