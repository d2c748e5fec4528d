//! Rooms that several servers share, without IO.
//!
//! One server at a time owns a room: it alone runs the [`Room`](nearlight_rooms::Room) and decides what happens there. A directory, which
//! all servers reach, has an [`Entry`] for each room: the owner, its term, and a checkpoint of the room. The directory writes an entry only
//! if nobody else has written it in the meantime (compare-and-set), so the servers agree on the order of an entry's revisions and on
//! nothing else.
//!
//! An owner renews its entry, with a new checkpoint, and owns the room for [`LEASE_DURATION`] from the moment at which it asked for a
//! renewal that was granted. Others that have members there take the room over when they have seen the same revision for longer than that
//! ([`Lease`]). No clocks are compared, only lengths of time, so at most one server acts at any moment. An owner that cannot renew stops:
//! its room stands still until it can, or until another one has continued it.
//!
//! Members connect to any server. A server that does not own a member's room relays the member's messages to the owner, and the owner's
//! messages back, in batches ([`Batch`]). When the owner changes, each server asks the new one for its members' seats by their keys;
//! members notice a snapshot in a new term. [`SharedRoom`] is one server's view of one room and does all of this.
//!
//! Servers also announce their free places in the directory ([`Announcement`]), and a [`Front`] decides which of them a client is sent to.
//!
//! All of that is sealed with a key of the fleet ([`FleetKey`]), because others may read and write what NATS carries.
//!
//! Batches may be lost, repeated and reordered; reads and writes of the directory may fail, or succeed without an answer.
//! `docs/wire.md` describes entries, announcements and batches.

#![forbid(unsafe_code)]

mod agones;
mod announcement;
mod batch;
mod entry;
mod front;
mod lease;
pub mod nats;
mod owned_room;
#[cfg_attr(not(feature = "nats"), expect(dead_code, reason = "the client of NATS uses it"))]
mod replay;
#[cfg_attr(not(feature = "nats"), expect(dead_code, reason = "the client of NATS uses it"))]
mod seal;
mod shared_room;

pub use agones::{GameServer, SdkAnswer, SdkCall, ServerState};
pub use announcement::{ANNOUNCEMENT_INTERVAL, ANNOUNCEMENT_TIMEOUT, Announcement, AnnouncementError, Places};
pub use batch::{Batch, BatchError, Connection, DownstreamItem, MAX_BATCH_BYTES, UpstreamItem};
pub use entry::{Entry, EntryError, NotAServerId, ServerId};
pub use front::{
    ARRIVAL_ALLOWANCE, AnnouncementOutcome, Candidate, Front, PlaceKind, PlacementError, PlacementRequest,
};
pub use lease::{LEASE_DURATION, Lease, TAKEOVER_MARGIN, WriteError};
pub use seal::{FleetKey, SealError, ShortFleetKey};
pub use shared_room::{EntryWrite, MemberOutput, SharedRoom};

#[cfg(test)]
mod tests;
