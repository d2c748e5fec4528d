//! Rooms, whose members connect by WebSocket or WebTransport on the page's own port: admission, and the directory of open rooms.
//!
//! A member's task ([`member`]) moves messages between its connection ([`websocket`], [`webtransport`]) and its room's task ([`task`]),
//! which alone drives the room and sends through its own end of the connection ([`peer`]). Decisions are made in [`nearlight_rooms`], and
//! for rooms that several servers share in [`nearlight_fleet`], which has a task of its own ([`fleet`]).

mod fleet;
mod member;
mod peer;
mod task;
pub(crate) mod websocket;
pub(crate) mod webtransport;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearlight_fleet::Connection;
use nearlight_fleet::nats::Carrier;
use nearlight_rooms::{Join, JoinError, NotAPose, ObjectId, RemovedClients, Room, RoomConfig, default_objects};
use nearlight_units::{Span, Time, lock};
use nearlight_wire::Pose;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::access::admission::{Admission, AdmissionError, Applicant, Displacement, Permit};
use crate::access::history::PlaceKind;
use crate::state::ServerState;
use crate::transports::Sessions;
use fleet::FleetTask;
use peer::OutgoingSender;
use task::RoomTask;

/// The room that stays open as long as the server runs, and keeps its objects while it is empty.
const DEFAULT_ROOM: &str = "main";
/// Rooms that may be open at the same time. Guess: 1,000 members, four in each.
const MAX_ROOMS: usize = 256;
/// Time after which any other room closes if it is empty, and loses its objects' poses: longer than a member needs to come back over
/// another network.
const EMPTY_LIMIT: Span = Span::from_secs(60);
/// Messages that may wait for a room's task. When the queue is full, the members' connections are not read.
const MAX_QUEUED_MESSAGES: usize = 1_024;

/// A room that its task shares with the studio, if it is the demonstration's world. The lock is never held while waiting.
pub(crate) struct SharedRoom {
    room: Mutex<Room>,
    /// Notified when there is something to send.
    transmits: Notify,
}

impl SharedRoom {
    pub(crate) fn new(now: Time, objects: &[(ObjectId, Pose)]) -> Result<Self, NotAPose> {
        let room = Room::new(now, RoomConfig::default(), objects)?;
        Ok(Self { room: Mutex::new(room), transmits: Notify::new() })
    }

    /// Creates a room that keeps these clients out.
    fn with_default_objects(now: Time, removed: RemovedClients) -> Self {
        let Self { room, transmits } = Self::new(now, &default_objects()).expect("the objects have poses");
        let room = room.into_inner().unwrap_or_else(PoisonError::into_inner).with_removed_clients(removed);
        Self { room: Mutex::new(room), transmits }
    }

    fn lock(&self) -> MutexGuard<'_, Room> {
        lock(&self.room)
    }

    /// Returns whether the room has members over a network.
    pub(crate) fn has_remote_members(&self) -> bool {
        self.lock().remote_members() > 0
    }

    /// Synchronises the room with the world that it represents.
    pub(crate) fn exchange(&self, exchange: impl FnOnce(&mut Room)) {
        let mut room = self.lock();
        exchange(&mut room);
        let transmits = room.has_transmit();
        drop(room);
        if transmits {
            self.transmits.notify_one();
        }
    }
}

/// A message of a member's task to the room's task.
enum RoomInput {
    Join(Box<JoinRequest>),
    Message {
        connection: Connection,
        bytes: bytes::Bytes,
    },
    /// The member's connection has closed, or broke if `lost`.
    Left {
        connection: Connection,
        lost: bool,
    },
}

/// A client's request to join a room.
struct JoinRequest {
    connection: Connection,
    /// Where the connection comes from.
    address: IpAddr,
    join: Join,
    /// The channel to the member, which the room drops when the membership ends.
    outgoing: OutgoingSender,
    answer: oneshot::Sender<Result<(), JoinError>>,
}

/// The open rooms, and how many members they have together.
pub(crate) struct Rooms {
    max_members: usize,
    admission: Arc<Admission>,
    open: Mutex<Directory>,
    /// The default room, if it is the demonstration's world.
    world: Option<Arc<SharedRoom>>,
    /// The carrier to other servers with which all rooms are shared.
    fleet: Option<Carrier>,
    next_connection: AtomicU32,
}

#[derive(Default)]
struct Directory {
    rooms: BTreeMap<String, mpsc::Sender<RoomInput>>,
    /// Clients that were removed from rooms that have closed, at most [`MAX_ROOMS`] of them.
    removed: BTreeMap<String, RemovedClients>,
}

/// A member's place on the server, which is returned when it is dropped.
struct MemberPlace {
    state: Arc<ServerState>,
    permit: Option<Permit>,
}

impl MemberPlace {
    /// Records that the member was heard, and whether its user has done something.
    fn on_heard(&self, acted: bool) {
        let now = self.state.clock.now();
        if let Some(permit) = &self.permit {
            permit.on_heard(now);
            if acted {
                permit.on_active(now);
            }
        }
    }

    /// Waits until another member has taken this place.
    async fn displaced(&self) -> Displacement {
        match &self.permit {
            Some(permit) => permit.displaced().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for MemberPlace {
    fn drop(&mut self) {
        self.permit.take();
        self.state.metrics.on_members(self.state.rooms.admission.held());
    }
}

/// Why a room cannot be entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum EnterError {
    #[error("Rooms are disabled on this server. Start it with --max-members above 0.")]
    Disabled,
    #[error("The server's rooms are full. Try again when somebody has left, or start it with a larger --max-members.")]
    MembersFull,
    #[error(
        "The places for members of your role are taken; the others are reserved. Try again when somebody has left, or start the server with a larger --max-members."
    )]
    Reserved,
    #[error("The link was revoked or has expired. Ask the owner for another one.")]
    LinkEnded,
    #[error("{MAX_ROOMS} rooms are open on this server. Join one of them, or try again when one has closed.")]
    TooManyRooms,
}

impl Rooms {
    /// Creates the directory, for at most `max_members` members in all rooms together. `world` is the default room, if it is the
    /// demonstration's world. Rooms of a fleet have no world, because each server has one of its own.
    pub(crate) fn new(max_members: usize, world: Option<Arc<SharedRoom>>, fleet: Option<Carrier>) -> Self {
        let world = world.filter(|_| fleet.is_none());
        let (admission, open) = (Admission::new(max_members), Mutex::default());
        Self { max_members, admission, open, world, fleet, next_connection: AtomicU32::new(1) }
    }

    /// Ends the memberships of clients that came with these links.
    pub(crate) fn end_links(&self, links: &[u32]) {
        self.admission.end_links(links);
    }

    /// Returns the heads of the members of the demonstration's world, as far as it is a room.
    pub(crate) fn world_heads(&self) -> Vec<Pose> {
        self.world.as_ref().map(|world| world.lock().heads().collect()).unwrap_or_default()
    }

    /// Returns whether other servers share the same rooms.
    fn is_shared(&self) -> bool {
        self.fleet.is_some()
    }

    fn new_connection(&self) -> Connection {
        Connection(self.next_connection.fetch_add(1, Ordering::Relaxed))
    }

    fn open(&self) -> MutexGuard<'_, Directory> {
        lock(&self.open)
    }

    /// Closes a room if `is_idle` still holds under the lock, which is false if somebody has just come. Returns whether the room was
    /// closed. Clients that were removed from it stay away from the next room of this name.
    fn close(&self, name: &str, is_idle: impl FnOnce() -> bool, removed: impl FnOnce() -> RemovedClients) -> bool {
        let mut open = self.open();
        let closes = is_idle();
        if closes {
            open.rooms.remove(name);
            let removed = removed();
            if !removed.is_empty() {
                if open.removed.len() >= MAX_ROOMS {
                    open.removed.pop_first();
                }
                open.removed.insert(name.to_owned(), removed);
            }
        }
        closes
    }

    /// Takes the clients that were removed from the last room of this name.
    fn removed_from(&self, name: &str) -> RemovedClients {
        self.open().removed.remove(name).unwrap_or_default()
    }
}

/// Opens the room of the demonstration's world, whose viewers are members before anybody connects over a network.
pub(crate) async fn open_world(state: &Arc<ServerState>, sessions: &Sessions) {
    if state.rooms.world.is_some() {
        // The first room is within every limit.
        let _ = enter(state, sessions, DEFAULT_ROOM).await;
    }
}

/// Takes a place for a member, which may be another's, see [`Admission::take`].
fn take_place(state: &Arc<ServerState>, applicant: Applicant) -> Result<MemberPlace, EnterError> {
    if state.rooms.max_members == 0 {
        return Err(EnterError::Disabled);
    }
    let now = state.clock.now();
    let permit = state.rooms.admission.take(now, applicant).map_err(|error| match error {
        AdmissionError::Reserved => EnterError::Reserved,
        AdmissionError::Full | AdmissionError::SilentClient(_) | AdmissionError::AddressLimit(_) => {
            EnterError::MembersFull
        }
    })?;
    permit.on_heard(now);
    if !state.pairing.links().on_place(PlaceKind::Member, applicant) {
        return Err(EnterError::LinkEnded);
    }
    state.metrics.on_members(state.rooms.admission.held());
    Ok(MemberPlace { state: Arc::clone(state), permit: Some(permit) })
}

/// Returns the channel to the room of this name, after opening the room and starting its task if necessary.
async fn enter(
    state: &Arc<ServerState>,
    sessions: &Sessions,
    name: &str,
) -> Result<mpsc::Sender<RoomInput>, EnterError> {
    let (room, incoming) = {
        let mut open = state.rooms.open();
        if let Some(room) = open.rooms.get(name) {
            return Ok(room.clone());
        }
        if open.rooms.len() >= MAX_ROOMS {
            return Err(EnterError::TooManyRooms);
        }
        let (room, incoming) = mpsc::channel(MAX_QUEUED_MESSAGES);
        open.rooms.insert(name.to_owned(), room.clone());
        (room, incoming)
    };
    let (state, name) = (Arc::clone(state), name.to_owned());
    // A server that starts no more sessions drops the task.
    let _ = match state.rooms.fleet.clone() {
        Some(fleet) => sessions.send(Box::pin(FleetTask::new(state, name, incoming, &fleet).run(fleet))).await,
        None => sessions.send(Box::pin(RoomTask::new(state, name, incoming).run())).await,
    };
    Ok(room)
}

#[cfg(test)]
mod tests;
