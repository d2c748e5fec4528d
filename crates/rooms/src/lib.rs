//! Rooms: many users in one world, without IO.
//!
//! Two state machines. A [`Room`] is at the server: it knows who is there, where their heads, hands and fingers are, and who holds which
//! object. A [`Replica`] is at each member and has the same, as far as the member can see it. Both are driven alike: `on_message` takes what
//! arrived, `poll_transmit` hands out what is to be sent, `poll_timeout` says when `on_timeout` is due, `poll_event` reports.
//!
//! What has to be the same everywhere, and in the same order, is a log of changes: joining and leaving, roles, owners of objects, events of
//! the application. The room alone appends to it; members ask by numbered commands. A replica applies the log's entries one after the other
//! and says how far it has come; what it lacks is sent again, and all of the room at once ([`Snapshot`](message::Snapshot)) to those that come
//! or are too far behind. So two that take one object at once learn the same answer, whatever was lost, repeated or overtaken.
//!
//! Where things are is not in the log: only the newest sample counts. A sample is written as its difference from one that the member has
//! acknowledged. How often and in which detail follows from distance and view (`interest`) and from what the member's network carries
//! ([`Room::on_network`]). What has come to rest is sent until it is acknowledged, so that all agree at rest.
//!
//! A room can be continued by another program, from a checkpoint ([`Room::write_checkpoint`]). What happened after the checkpoint is lost, and
//! the new term in the room's revisions tells replicas so. Who has a [`SeatKey`] claims its seat again there.
//!
//! Messages may be lost, repeated and reordered; the core needs no reliable carrier. [`Lane`] says which of them a carrier should rather send
//! over a reliable stream. `docs/wire.md` describes the messages.

#![forbid(unsafe_code)]

mod cursor;
mod delivery;
mod digest;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod history;
mod interest;
mod limits;
mod message;
mod pose;
mod replica;
mod room;
mod state;

pub use digest::Digest;
pub use message::{
    HeardVoice, Join, Lane, MAX_CHECKPOINT_BYTES, MAX_EVENT_BYTES, MAX_MEMBERS, MAX_MESSAGE_BYTES, MAX_NAME_BYTES,
    MAX_OBJECTS, MAX_SNAPSHOT_BYTES, MAX_UPSTREAM_BYTES, MAX_VOICE_BYTES, MessageError, ROOMS_VERSION, Reason, SeatKey,
    is_member_name, is_room_name, is_urgent, is_voice, write_voice,
};
pub use pose::{Avatar, JOINTS_PER_HAND, NotAPose};
pub use replica::{Replica, ReplicaEvent, Request, RequestError, Seen};
pub use room::{CheckpointError, Counters, JoinError, Room, RoomConfig, RoomEvent, Traffic, usual_objects};
pub use state::{Cause, Change, CommandNumber, Member, MemberId, ObjectId, Revision, Role, RoomState};

#[cfg(test)]
mod tests;
