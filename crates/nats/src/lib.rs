//! What carries rooms that several servers share ([`nearlight_fleet`]): NATS, whose `JetStream` has the directory as a key-value store.
//!
//! One batch for another server is one message, with the subject `nearlight.rooms.TO.FROM.ROOM`. The store is the bucket `nearlight-rooms`, whose
//! keys are the rooms' names. No decisions are made here: a [`RoomCarrier`] passes on what a [`SharedRoom`](nearlight_fleet::SharedRoom) asks.
//!
//! The bucket `nearlight-servers` has an announcement of each server, under its id. Entries that are not renewed are deleted by NATS.

#![forbid(unsafe_code)]

#[cfg(feature = "client")]
mod client;

use nearlight_fleet::{Announcement, Batch, Entry, ServerId, Write, WriteError};
use tokio::sync::mpsc;

#[cfg(feature = "client")]
pub use client::{NatsError, connect, watch};

/// Answers and batches that wait for a room; batches beyond that are lost, which rooms make good.
const WAITING: usize = 256;

/// A room asks the carrier.
#[derive(Debug)]
pub enum ToFleet {
    Read,
    Write(Write),
    Send { to: ServerId, batch: Batch },
}

/// The carrier's answers, and what other servers say.
#[derive(Debug)]
pub enum FromFleet {
    /// The directory's entry in this revision; 0 and none if it never had one.
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

#[cfg_attr(not(feature = "client"), expect(dead_code, reason = "the client reads them"))]
enum Request {
    /// None: the server closes.
    Announce(Option<Announcement>),
    Open {
        room: String,
        events: mpsc::Sender<FromFleet>,
    },
    Room {
        room: String,
        request: ToFleet,
    },
}

/// What a front learns of servers.
#[derive(Debug)]
pub enum FromDirectory {
    Announced {
        server: ServerId,
        announcement: Announcement,
    },
    /// It has closed.
    Gone(ServerId),
    /// The directory can be read from now on, or cannot.
    Reachable(bool),
}

/// This server's way to the others. Without a fleet there is none.
#[derive(Clone, Debug)]
pub struct Carrier {
    me: ServerId,
    requests: mpsc::Sender<Request>,
}

/// One room's way.
#[derive(Debug)]
pub struct RoomCarrier {
    room: String,
    requests: mpsc::Sender<Request>,
    events: mpsc::Receiver<FromFleet>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Request")
    }
}

impl Carrier {
    /// Who this server is.
    #[must_use]
    pub const fn me(&self) -> &ServerId {
        &self.me
    }

    /// Renews what the directory says of this server; none: it closes. One that finds the queue full is lost, as by a network that is away.
    pub fn announce(&self, announcement: Option<Announcement>) {
        let _ = self.requests.try_send(Request::Announce(announcement));
    }

    /// The way of this room, whose name is a room's.
    pub async fn open(&self, room: &str) -> RoomCarrier {
        let (events, received) = mpsc::channel(WAITING);
        // A carrier that has ended answers nothing, like a network that is away.
        let _ = self.requests.send(Request::Open { room: room.to_owned(), events }).await;
        RoomCarrier { room: room.to_owned(), requests: self.requests.clone(), events: received }
    }
}

impl RoomCarrier {
    /// False if the request was not taken: its answer will not come. Batches are lost then.
    pub fn ask(&self, request: ToFleet) -> bool {
        self.requests.try_send(Request::Room { room: self.room.clone(), request }).is_ok()
    }

    /// None: the carrier has ended.
    pub async fn recv(&mut self) -> Option<FromFleet> {
        self.events.recv().await
    }
}
