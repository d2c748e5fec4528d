//! Layouts of a room's messages; `docs/wire.md`, section "Rooms", is the normative description.
//!
//! Every parser reads untrusted bytes: it never panics, allocates no more than its bound and rejects trailing bytes.

mod state;
mod upstream;
mod voice;

pub(crate) use state::{Receipt, SavedRoom, SavedSeat, Snapshot, write_changes_head};
pub(crate) use upstream::{Command, POSE_NUMBER_GAP, PosesReceived, STALE_POSE_GAP, Upstream};
pub use voice::{HeardVoice, MAX_VOICE_BYTES, is_voice, write_voice};
pub(crate) use voice::{read_voice, write_heard};

use nearlight_units::{Span, Time};

use crate::cursor::{Reader, write_bytes, write_varint};
use crate::removal::MAX_REMOVED_CLIENTS;
use crate::state::{Change, MemberId, ObjectId, Revision, Role};

/// The version that both ends must speak; it is the high nibble of every message's first byte.
pub const ROOMS_VERSION: u8 = 1;
/// Members of one room. Guess: three times as many as interest management serves on one core.
pub const MAX_MEMBERS: usize = 1_024;
/// Shared objects of one room.
pub const MAX_OBJECTS: usize = 256;
/// Bytes of a member's or a room's name.
pub const MAX_NAME_BYTES: usize = 32;
/// Bytes of an event of the application.
pub const MAX_EVENT_BYTES: usize = 256;
/// Bytes of the longest message of a member.
pub const MAX_UPSTREAM_BYTES: usize = 16 << 10;
/// Bytes of the longest message of a room other than a snapshot.
pub const MAX_MESSAGE_BYTES: usize = 16 << 10;
/// Bytes of the longest snapshot: a full room with bodies, joints and objects.
pub const MAX_SNAPSHOT_BYTES: usize = 512 << 10;
/// Bytes of the longest checkpoint of a room: a snapshot, 23 bytes for each member, and 34 for each removed client.
pub const MAX_CHECKPOINT_BYTES: usize = MAX_SNAPSHOT_BYTES + 23 * MAX_MEMBERS + 34 * MAX_REMOVED_CLIENTS + 3;
/// Commands that fit into one message.
pub(crate) const MAX_COMMANDS: usize = 64;
/// Changes that fit into one message.
pub(crate) const MAX_CHANGES: usize = 256;

/// Why a message cannot be read. It is always the peer's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    #[error("the message ends too early")]
    Truncated,
    #[error("{0} bytes are left after the end of the message")]
    Trailing(usize),
    #[error("version {0} of the rooms' protocol is not spoken here (this is version {ROOMS_VERSION})")]
    Version(u8),
    #[error("message kind {0} is unknown or comes from the wrong end")]
    Kind(u8),
    #[error("field `{0}` is out of its range")]
    Field(&'static str),
    #[error("a message of {0} bytes is too long")]
    TooLong(usize),
}

/// Returns whether a message of a member or of a room contains more than poses, so that it must not wait for a batch.
#[must_use]
pub fn is_urgent(message: &[u8]) -> bool {
    match read_kind(&mut Reader::new(message)) {
        Ok(kind) if kind == Kind::Poses as u8 => false,
        Ok(kind) if kind == Kind::Upstream as u8 => {
            Upstream::parse(message).is_ok_and(|upstream| !upstream.commands.is_empty())
        }
        _ => true,
    }
}

/// The preferred way to carry a message, if a carrier has both. Members agree even if it is carried the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// A datagram, for a message that the next one makes obsolete.
    Datagram,
    /// A reliable stream, in order.
    Stream,
}

impl Lane {
    /// Returns the lane of a message of a member or of a room.
    #[must_use]
    pub fn of(message: &[u8]) -> Self {
        if is_voice(message) || !is_urgent(message) { Self::Datagram } else { Self::Stream }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Join = 1,
    Upstream = 2,
    Snapshot = 3,
    Changes = 4,
    Poses = 5,
    Goodbye = 6,
    /// Sent between servers only.
    Checkpoint = 7,
    Voice = 8,
}

impl Kind {
    const fn first_byte(self) -> u8 {
        ROOMS_VERSION << 4 | self as u8
    }
}

fn read_kind(reader: &mut Reader<'_>) -> Result<u8, MessageError> {
    let first = reader.u8()?;
    if first >> 4 == ROOMS_VERSION { Ok(first & 0x0f) } else { Err(MessageError::Version(first >> 4)) }
}

fn expect(reader: &mut Reader<'_>, kind: Kind) -> Result<(), MessageError> {
    match read_kind(reader)? {
        found if found == kind as u8 => Ok(()),
        other => Err(MessageError::Kind(other)),
    }
}

fn read_role(reader: &mut Reader<'_>) -> Result<Role, MessageError> {
    Role::ALL.get(usize::from(reader.u8()?)).copied().ok_or(MessageError::Field("role"))
}

fn read_member_id(reader: &mut Reader<'_>) -> Result<MemberId, MessageError> {
    match reader.varint32("member")? {
        0 => Err(MessageError::Field("member")),
        id => Ok(MemberId(id)),
    }
}

/// Reads a member's id, or 0 for nobody.
fn read_owner(reader: &mut Reader<'_>) -> Result<Option<MemberId>, MessageError> {
    let id = reader.varint32("owner")?;
    Ok((id != 0).then_some(MemberId(id)))
}

fn read_object_id(reader: &mut Reader<'_>) -> Result<ObjectId, MessageError> {
    reader.varint32("object").map(ObjectId)
}

/// The key with which a member reclaims its seat over another connection. It is random, and a secret of the member and the servers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeatKey(pub [u8; 16]);

impl std::fmt::Debug for SeatKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SeatKey")
    }
}

/// The first message of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// The room's name: 1 to 32 bytes of a-z, 0-9 and `-`.
    pub room: String,
    /// The role that the member requests.
    pub role: Role,
    pub name: String,
    pub colour: [u8; 3],
    /// The key of the member's seat. A member with a key keeps its seat for a while when its connection breaks, and reclaims it with the
    /// same key.
    pub key: Option<SeatKey>,
}

impl Join {
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![Kind::Join.first_byte(), self.role as u8];
        out.extend_from_slice(&self.colour);
        write_bytes(&mut out, self.room.as_bytes());
        write_bytes(&mut out, self.name.as_bytes());
        out.extend(self.key.iter().flat_map(|key| key.0));
        out
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(bytes);
        expect(&mut reader, Kind::Join)?;
        let (role, colour) = (read_role(&mut reader)?, reader.array()?);
        let room = reader.text(MAX_NAME_BYTES, "room")?.to_owned();
        let name = reader.text(MAX_NAME_BYTES, "name")?.to_owned();
        let key = if reader.is_empty() { None } else { Some(SeatKey(reader.array()?)) };
        reader.finish()?;
        let join = Self { room, role, name, colour, key };
        if is_room_name(&join.room) { Ok(join) } else { Err(MessageError::Field("room")) }
    }
}

/// Returns whether a room may have this name.
#[must_use]
pub fn is_room_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(allowed)
}

/// Returns whether a member may have this name.
#[must_use]
pub fn is_member_name(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES && !name.chars().any(char::is_control)
}

/// The subject of an entry in a pose message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SubjectId {
    Member(MemberId),
    Object(ObjectId),
}

impl SubjectId {
    const fn bits(self) -> u64 {
        match self {
            Self::Member(MemberId(id)) => (id as u64) << 1,
            Self::Object(ObjectId(id)) => (id as u64) << 1 | 1,
        }
    }

    const fn of_bits(bits: u64) -> Option<Self> {
        let id = bits >> 1;
        if id > u32::MAX as u64 {
            return None;
        }
        Some(if bits & 1 == 0 { Self::Member(MemberId(id as u32)) } else { Self::Object(ObjectId(id as u32)) })
    }
}

/// Modulus of sample numbers: 45 s at 90 Hz, longer than any message is in flight.
pub(crate) const SAMPLE_NUMBER_MODULUS: u16 = 1 << 12;
/// Samples that are kept as bases. A base is fewer samples older than this.
pub(crate) const HISTORY_SAMPLES: u16 = 16;

/// The header of an entry, which precedes the parts of its pose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryHead {
    pub(crate) subject: SubjectId,
    /// The sample's number, below [`SAMPLE_NUMBER_MODULUS`].
    pub(crate) number: u16,
    /// How many samples older the base is; 0 if there is none.
    pub(crate) base: u16,
    /// Age of the sample in milliseconds when it was sent; 255 stands for 255 or more.
    pub(crate) age: u8,
}

impl EntryHead {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        write_varint(out, self.subject.bits());
        out.extend_from_slice(&(self.base << 12 | self.number).to_be_bytes());
        out.push(self.age);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, MessageError> {
        let subject = SubjectId::of_bits(reader.varint()?).ok_or(MessageError::Field("subject"))?;
        let (numbers, age) = (reader.u16()?, reader.u8()?);
        Ok(Self { subject, number: numbers % SAMPLE_NUMBER_MODULUS, base: numbers >> 12, age })
    }
}

/// Writes the header of a pose message. Entries follow.
pub(crate) fn write_poses_head(number: u32, upstream: u32, out: &mut Vec<u8>) {
    out.push(Kind::Poses.first_byte());
    write_varint(out, u64::from(number));
    write_varint(out, u64::from(upstream));
}

/// Returns a time in milliseconds, which wraps after 49 days.
pub(crate) const fn milliseconds(now: Time) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

/// Returns a duration in milliseconds as a byte; 255 stands for 255 or more.
pub(crate) fn age_byte(age: Span) -> u8 {
    (age.as_micros() / 1_000).clamp(0, 255) as u8
}

/// Why a room ends a membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndReason {
    /// The room or its server is closing.
    Closing,
    /// A host removed the member.
    Removed,
    /// The member was silent for too long.
    Silent,
    /// The member did not read the room's messages.
    NotReading,
    /// The member sent far more than it may.
    Flood,
    /// The member sent malformed messages.
    Malformed,
}

impl EndReason {
    pub const ALL: [Self; 6] =
        [Self::Closing, Self::Removed, Self::Silent, Self::NotReading, Self::Flood, Self::Malformed];

    /// Returns whether the member may rejoin automatically. Removed members and protocol violators may not.
    #[must_use]
    pub const fn allows_return(self) -> bool {
        matches!(self, Self::Closing | Self::Silent | Self::NotReading)
    }

    /// Returns a message for the member's user.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Closing => "the room closes",
            Self::Removed => "a host removed you from the room",
            Self::Silent => "nothing was heard from you for too long; join again",
            Self::NotReading => "you took nothing of what the room sent for too long; join again over a better network",
            Self::Flood => "you sent far more than a member may; send poses at most 90 times a second",
            Self::Malformed => {
                "you sent something that is not a message of a room's member; use the same release as the server"
            }
        }
    }
}

pub(crate) fn write_goodbye(reason: EndReason, out: &mut Vec<u8>) {
    out.extend_from_slice(&[Kind::Goodbye.first_byte(), reason as u8]);
}

/// A parsed message of a room.
#[derive(Debug)]
pub(crate) enum Downstream<'a> {
    Snapshot(Box<Snapshot>),
    Changes {
        receipt: Receipt,
        first: Revision,
        changes: Vec<Change>,
    },
    /// Poses. The entries are parsed one by one, because they are relative to known samples.
    Poses {
        number: u32,
        upstream: u32,
        entries: Reader<'a>,
    },
    Goodbye(EndReason),
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Reader")
    }
}

impl<'a> Downstream<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(bytes);
        let kind = read_kind(&mut reader)?;
        let longest = if kind == Kind::Snapshot as u8 { MAX_SNAPSHOT_BYTES } else { MAX_MESSAGE_BYTES };
        if bytes.len() > longest {
            return Err(MessageError::TooLong(bytes.len()));
        }
        let message = match kind {
            kind if kind == Kind::Snapshot as u8 => Self::Snapshot(Box::new(Snapshot::read(&mut reader)?)),
            kind if kind == Kind::Changes as u8 => {
                let (receipt, first) = (Receipt::read(&mut reader)?, Revision(reader.varint()?));
                let mut changes = Vec::new();
                for _ in 0..reader.count(MAX_CHANGES, "changes")? {
                    changes.push(Change::read(&mut reader)?);
                }
                Self::Changes { receipt, first, changes }
            }
            kind if kind == Kind::Poses as u8 => {
                let (number, upstream) = (reader.varint32("number")?, reader.varint32("upstream")?);
                return Ok(Self::Poses { number, upstream, entries: reader });
            }
            kind if kind == Kind::Goodbye as u8 => {
                let reason = EndReason::ALL.get(usize::from(reader.u8()?)).copied();
                Self::Goodbye(reason.ok_or(MessageError::Field("reason"))?)
            }
            other => return Err(MessageError::Kind(other)),
        };
        reader.finish()?;
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_pose_messages_are_remembered_as_far_as_32_back() {
        let mut received = PosesReceived::default();
        for number in [1, 2, 5, 4, 40, 7, 8] {
            received.add(number);
        }
        let known: Vec<u32> = (1..=40).filter(|number| received.contains(*number)).collect();
        assert_eq!(known, [8, 40], "7 and those before it are too long ago");
        let mut received = PosesReceived::default();
        for number in [3, 1, 4, 6] {
            received.add(number);
        }
        let known: Vec<u32> = (1..=10).filter(|number| received.contains(*number)).collect();
        assert_eq!(known, [1, 3, 4, 6]);
    }
}
