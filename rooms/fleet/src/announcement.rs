//! A server's announcement of itself in the directory, for a [`Front`](crate::Front).

use std::collections::BTreeMap;

use nearlight_rooms::is_room_name;
use nearlight_units::Span;
use serde::{Deserialize, Serialize};

use crate::entry::VERSION;
use crate::seal::SealError;

/// Interval at which a server announces itself.
pub const ANNOUNCEMENT_INTERVAL: Span = Span::from_secs(1);
/// Time without an announcement after which a server is gone: two announcements may be lost.
pub const ANNOUNCEMENT_TIMEOUT: Span = Span::from_secs(3);

/// Rooms in one announcement, which is also the most that a server has open.
const MAX_ROOMS: usize = 256;
const MAX_LINK_BYTES: usize = 512;
const MAX_CHECK_BYTES: usize = 64;
/// Bytes of the longest announcement: rooms with the longest names and numbers, and the other fields.
const MAX_BYTES: usize = MAX_ROOMS * 48 + 4_096;

/// How many places a server has of one kind, and how many of them are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    pub taken: u32,
    pub capacity: u32,
}

/// The state of a server that takes clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Announcement {
    /// The link to the server, with `https` and without a token.
    pub link: String,
    /// A value derived from the server's token that does not reveal it. Servers and fronts with the same value have the same token.
    pub check: String,
    /// Clients that the server renders for.
    pub clients: Places,
    /// Members of rooms.
    pub members: Places,
    /// Share of the machine's processors that the server uses, 0 to 1.
    pub load: f64,
    /// How many members of each room are connected to this server; rooms without any are left out.
    pub rooms: BTreeMap<String, u32>,
}

/// An announcement with the version of its layout, as it is written to the directory.
#[derive(Serialize, Deserialize)]
struct VersionedAnnouncement<A> {
    version: u8,
    #[serde(flatten)]
    announcement: A,
}

/// Why an announcement is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnnouncementError {
    /// A program without the fleet's key has written it.
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error(
        "it is an announcement of another server, or a copy of an older one; if nobody has copied it, synchronise the clocks of the machines"
    )]
    Replay,
    #[error("it cannot be read: let all servers of a fleet and its fronts be of the same release")]
    Layout,
    #[error("its link has no https, so a client's token would be sent in the clear")]
    Insecure,
}

impl Announcement {
    /// Creates the announcement of a server without clients.
    #[must_use]
    pub fn new(link: String, check: String) -> Self {
        let (clients, members) = (Places::default(), Places::default());
        Self { link, check, clients, members, load: 0.0, rooms: BTreeMap::new() }
    }

    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&VersionedAnnouncement { version: VERSION, announcement: self }).unwrap_or_default()
    }

    /// # Errors
    /// If it is no announcement of this version, or its link has no `https`.
    pub fn parse(bytes: &[u8]) -> Result<Self, AnnouncementError> {
        if bytes.len() > MAX_BYTES {
            return Err(AnnouncementError::Layout);
        }
        let versioned: VersionedAnnouncement<Self> =
            serde_json::from_slice(bytes).map_err(|_| AnnouncementError::Layout)?;
        let VersionedAnnouncement { version, announcement: own } = versioned;
        let is_plain = |text: &str, most| text.len() <= most && text.bytes().all(|byte| byte.is_ascii_graphic());
        let is_right = version == VERSION
            && is_plain(&own.link, MAX_LINK_BYTES)
            && is_plain(&own.check, MAX_CHECK_BYTES)
            && (0.0..=1.0).contains(&own.load)
            && own.rooms.len() <= MAX_ROOMS
            && own.rooms.keys().all(|name| is_room_name(name));
        if is_right && !own.link.starts_with("https://") {
            return Err(AnnouncementError::Insecure);
        }
        is_right.then_some(own).ok_or(AnnouncementError::Layout)
    }
}
