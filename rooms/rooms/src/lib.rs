//! Rooms: many users in one world, without IO.
//!
//! There are two state machines. A [`Room`] at the server knows the members, the poses of their heads, hands and fingers, and who holds
//! which object. A [`Replica`] at each member knows the same, as far as the member can see it. Both have the same interface: `on_message`
//! takes a received message, `poll_transmit` returns the next message to send, `poll_timeout` says when `on_timeout` is due, and
//! `poll_event` returns events.
//!
//! State that must be the same everywhere, in the same order, is a log of changes: joining and leaving, roles, owners of objects, events of
//! the application. Only the room appends to it; members send numbered commands. A replica applies the entries in order and acknowledges
//! them. Missing entries are sent again, and members that join or are too far behind get a [`Snapshot`](message::Snapshot). So if two
//! members take an object at the same time, all learn the same outcome, whatever was lost, repeated or reordered.
//!
//! Poses are not in the log, because only the newest sample counts. A sample is written as its difference from one that the member has
//! acknowledged. Rate and detail follow from distance and view (`interest`) and from the member's network ([`Room::on_network`]). The last
//! sample of a subject that has come to rest is sent until it is acknowledged, so that all members agree at rest.
//!
//! Another program can continue a room from a checkpoint ([`Room::write_checkpoint`]). Later changes are lost, which replicas notice by the
//! new term in the room's revisions. Members with a [`SeatKey`] reclaim their seats there.
//!
//! Messages may be lost, repeated and reordered; no reliable carrier is needed. [`Lane`] says which messages a carrier should preferably
//! send over a reliable stream. `docs/wire.md` describes the messages.

#![forbid(unsafe_code)]

mod arrival;
mod cursor;
mod delivery;
mod digest;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod history;
mod interest;
mod limits;
mod message;
mod name;
mod pose;
mod removal;
mod replica;
mod room;
mod state;

pub use arrival::starting_place;
pub use digest::Digest;
pub use message::{
    EndReason, HeardVoice, Join, Lane, MAX_CHECKPOINT_BYTES, MAX_EVENT_BYTES, MAX_MEMBERS, MAX_MESSAGE_BYTES,
    MAX_NAME_BYTES, MAX_OBJECTS, MAX_SNAPSHOT_BYTES, MAX_UPSTREAM_BYTES, MAX_VOICE_BYTES, MessageError, ROOMS_VERSION,
    SeatKey, is_member_name, is_room_name, is_urgent, is_voice, write_voice,
};
pub use name::visible_name;
pub use pose::{Avatar, JOINTS_PER_HAND, NotAPose};
pub use removal::RemovedClients;
pub use replica::{ObservedBody, Replica, ReplicaEvent, Request, RequestError};
pub use room::{CheckpointError, Counters, JoinError, Room, RoomConfig, RoomEvent, Traffic, default_objects};
pub use state::{Cause, Change, CommandNumber, Member, MemberId, ObjectId, Revision, Role, RoleError, RoomState};

#[cfg(test)]
mod tests;
