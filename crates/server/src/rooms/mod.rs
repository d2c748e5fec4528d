//! Rooms, whose members come by WebSocket or WebTransport on the page's own port: admission, and the directory of the rooms that are open.
//!
//! A member's task ([`member`]) moves messages between its connection ([`websocket`], [`webtransport`]) and its room's task ([`task`]), which
//! alone drives the room and sends through its own end of the connection ([`peer`]).
//! Decisions are made in [`nearlight_rooms`], and for rooms that several servers share in [`nearlight_fleet`], whose task is another
//! ([`fleet`]).

mod fleet;
mod member;
mod peer;
mod task;
pub(crate) mod websocket;
pub(crate) mod webtransport;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearlight_fleet::Connection;
use nearlight_nats::Carrier;
use nearlight_rooms::{Join, JoinError, NotAPose, ObjectId, Room, RoomConfig, usual_objects};
use nearlight_units::{Span, Time};
use nearlight_wire::Pose;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::state::ServerState;
use crate::transports::Sessions;
use fleet::FleetTask;
use peer::Outgoing;
use task::RoomTask;

/// The room that is open as long as the server is, and keeps its objects when nobody is there.
const DEFAULT_ROOM: &str = "main";
/// Rooms that are open at the same time. Guess: 1,000 members, four in each.
const MAX_ROOMS: usize = 256;
/// Another room is closed, and its objects return to where they began, when nobody has been there for so long: longer than a member needs to
/// come back over another network.
const EMPTY_LIMIT: Span = Span::from_secs(60);
/// Messages that wait for a room's task; beyond that its members' connections are not read.
const WAITING: usize = 1_024;

/// A room that its task and, if it is the demonstration's world, the studio take turns with. The lock is never held while waiting.
pub(crate) struct SharedRoom {
    room: Mutex<Room>,
    /// There is something to send.
    transmits: Notify,
}

impl SharedRoom {
    pub(crate) fn new(now: Time, objects: &[(ObjectId, Pose)]) -> Result<Self, NotAPose> {
        let room = Room::new(now, RoomConfig::default(), objects)?;
        Ok(Self { room: Mutex::new(room), transmits: Notify::new() })
    }

    fn usual(now: Time) -> Self {
        Self::new(now, &usual_objects()).expect("the objects have poses")
    }

    fn lock(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody is there over a network.
    pub(crate) fn has_remote_members(&self) -> bool {
        self.lock().remote_members() > 0
    }

    /// Lets the world that the room is exchange with it.
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

/// What a member's task tells the room's.
enum ToRoom {
    Join(Box<Newcomer>),
    Message {
        connection: Connection,
        bytes: bytes::Bytes,
    },
    /// Its connection has closed, or (`lost`) broke.
    Left {
        connection: Connection,
        lost: bool,
    },
}

/// Somebody who wants to join.
struct Newcomer {
    connection: Connection,
    join: Join,
    /// The room drops it when the membership ends.
    outgoing: Outgoing,
    answer: oneshot::Sender<Result<(), JoinError>>,
}

/// The open rooms, and how many members they have together.
pub(crate) struct Rooms {
    most_members: usize,
    open: Mutex<Directory>,
    /// The default room, if it is the demonstration's world.
    world: Option<Arc<SharedRoom>>,
    /// The way to other servers with which all rooms are shared.
    fleet: Option<Carrier>,
    next_connection: AtomicU32,
}

#[derive(Default)]
struct Directory {
    rooms: BTreeMap<String, mpsc::Sender<ToRoom>>,
    members: usize,
}

/// A member's place; dropping it gives it back.
struct Place(Arc<ServerState>);

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.0.rooms.open();
        open.members -= 1;
        self.0.metrics.on_members(open.members);
    }
}

/// Why a room cannot be entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum NotEntered {
    #[error("This server lets nobody join rooms. Start it with --max-members above 0.")]
    Off,
    #[error("The server's rooms are full. Try again when somebody has left, or start it with a larger --max-members.")]
    Members,
    #[error("{MAX_ROOMS} rooms are open on this server. Join one of them, or try again when one has closed.")]
    Rooms,
}

impl Rooms {
    /// For at most so many members, all rooms together. `world` is the default room, if it is the demonstration's world. Rooms of a fleet
    /// have no world: each server has one of its own.
    pub(crate) fn new(most_members: usize, world: Option<Arc<SharedRoom>>, fleet: Option<Carrier>) -> Self {
        let world = world.filter(|_| fleet.is_none());
        Self { most_members, open: Mutex::default(), world, fleet, next_connection: AtomicU32::new(1) }
    }

    /// Whether other servers have the same rooms.
    fn is_shared(&self) -> bool {
        self.fleet.is_some()
    }

    fn new_connection(&self) -> Connection {
        Connection(self.next_connection.fetch_add(1, Ordering::Relaxed))
    }

    fn open(&self) -> MutexGuard<'_, Directory> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The room's task ends unless somebody has come meanwhile, which `is_idle` tells.
    fn close(&self, name: &str, is_idle: impl FnOnce() -> bool) -> bool {
        let mut open = self.open();
        let closes = is_idle();
        if closes {
            open.rooms.remove(name);
        }
        closes
    }
}

/// Opens the room that is the demonstration's world, whose viewers are there before anybody comes over a network.
pub(crate) async fn open_world(state: &Arc<ServerState>, sessions: &Sessions) {
    if state.rooms.world.is_some() {
        // The first room of all is within every limit.
        let _ = enter(state, sessions, DEFAULT_ROOM).await;
    }
}

fn take_place(state: &Arc<ServerState>) -> Result<Place, NotEntered> {
    let mut open = state.rooms.open();
    match state.rooms.most_members {
        0 => Err(NotEntered::Off),
        most if open.members >= most => Err(NotEntered::Members),
        _ => {
            open.members += 1;
            state.metrics.on_members(open.members);
            Ok(Place(Arc::clone(state)))
        }
    }
}

/// The room of this name; it is opened if it is not open, and its task started.
async fn enter(state: &Arc<ServerState>, sessions: &Sessions, name: &str) -> Result<mpsc::Sender<ToRoom>, NotEntered> {
    let (room, incoming) = {
        let mut open = state.rooms.open();
        if let Some(room) = open.rooms.get(name) {
            return Ok(room.clone());
        }
        if open.rooms.len() >= MAX_ROOMS {
            return Err(NotEntered::Rooms);
        }
        let (room, incoming) = mpsc::channel(WAITING);
        open.rooms.insert(name.to_owned(), room.clone());
        (room, incoming)
    };
    let (state, name) = (Arc::clone(state), name.to_owned());
    // A server that starts no more sessions drops it.
    let _ = match state.rooms.fleet.clone() {
        Some(fleet) => sessions.send(Box::pin(FleetTask::new(state, name, incoming, &fleet).run(fleet))).await,
        None => sessions.send(Box::pin(RoomTask::new(state, name, incoming).run())).await,
    };
    Ok(room)
}

#[cfg(test)]
mod tests;
