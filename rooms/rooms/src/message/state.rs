//! The state of a room in messages: changes, receipts, snapshots and checkpoints.

use std::net::IpAddr;

use super::{
    Kind, MAX_CHECKPOINT_BYTES, MAX_EVENT_BYTES, MAX_MEMBERS, MAX_NAME_BYTES, MAX_OBJECTS, MessageError, SeatKey,
    expect, read_member_id, read_object_id, read_owner, read_role,
};
use crate::cursor::{Reader, write_bytes, write_varint};
use crate::digest::Digest;
use crate::pose::{QuantisedPose, Sample, part};
use crate::removal::{MAX_REMOVED_CLIENTS, RemovedClient};
use crate::state::{Cause, Change, CommandNumber, Member, MemberId, ObjectId, Revision, Role};

impl Change {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let caused = |out: &mut Vec<u8>, cause: &Cause| {
            write_varint(out, u64::from(cause.by.0));
            write_varint(out, u64::from(cause.command.0));
        };
        match self {
            Self::Joined { id, member } => {
                out.push(1);
                write_varint(out, u64::from(id.0));
                write_member(member, out);
            }
            Self::Left { id } => {
                out.push(2);
                write_varint(out, u64::from(id.0));
            }
            Self::Role { id, role } => {
                out.push(3);
                write_varint(out, u64::from(id.0));
                out.push(*role as u8);
            }
            Self::Owner { object, owner, cause } => {
                out.push(4);
                write_varint(out, u64::from(object.0));
                write_varint(out, owner.map_or(0, |owner| u64::from(owner.0)));
                caused(out, cause);
            }
            Self::Event { kind, data, cause } => {
                out.push(5);
                out.extend_from_slice(&kind.to_be_bytes());
                caused(out, cause);
                write_bytes(out, data);
            }
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, MessageError> {
        fn cause(reader: &mut Reader<'_>) -> Result<Cause, MessageError> {
            let by = reader.varint32("member").map(MemberId)?;
            Ok(Cause { by, command: CommandNumber(reader.varint32("command")?) })
        }
        Ok(match reader.u8()? {
            1 => Self::Joined { id: read_member_id(reader)?, member: read_member(reader)? },
            2 => Self::Left { id: read_member_id(reader)? },
            3 => Self::Role { id: read_member_id(reader)?, role: read_role(reader)? },
            4 => {
                let (object, owner) = (read_object_id(reader)?, read_owner(reader)?);
                Self::Owner { object, owner, cause: cause(reader)? }
            }
            5 => {
                let (kind, cause) = (reader.u16()?, cause(reader)?);
                Self::Event { kind, data: reader.bytes(MAX_EVENT_BYTES, "event")?.to_vec(), cause }
            }
            _ => return Err(MessageError::Field("change")),
        })
    }
}

fn write_member(Member { role, name, colour }: &Member, out: &mut Vec<u8>) {
    out.push(*role as u8);
    out.extend_from_slice(colour);
    write_bytes(out, name.as_bytes());
}

fn read_member(reader: &mut Reader<'_>) -> Result<Member, MessageError> {
    let (role, colour) = (read_role(reader)?, reader.array()?);
    Ok(Member { role, colour, name: reader.text(MAX_NAME_BYTES, "name")?.to_owned() })
}

/// The room's acknowledgement of a member's commands and messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// The number of the member's latest message that has arrived.
    pub(crate) upstream: u32,
    /// The latest command that was carried out or refused.
    pub(crate) command: CommandNumber,
    /// The room's revision after that command. A replica that has applied it sees the command's outcome.
    pub(crate) revision: Revision,
}

impl Receipt {
    fn write(self, out: &mut Vec<u8>) {
        write_varint(out, u64::from(self.upstream));
        write_varint(out, u64::from(self.command.0));
        write_varint(out, self.revision.0);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, MessageError> {
        let (upstream, command) = (reader.varint32("upstream")?, CommandNumber(reader.varint32("command")?));
        Ok(Self { upstream, command, revision: Revision(reader.varint()?) })
    }
}

/// Writes the header of a message with changes. `count` entries of the log follow.
pub(crate) fn write_changes_head(first: Revision, receipt: Receipt, count: usize, out: &mut Vec<u8>) {
    out.push(Kind::Changes.first_byte());
    receipt.write(out);
    write_varint(out, first.0);
    write_varint(out, count as u64);
}

/// The part of a seat that only the room knows, for the program that continues the room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedSeat {
    pub(crate) key: Option<SeatKey>,
    /// The highest role for the member's token.
    pub(crate) permitted: Role,
    /// The latest command that was carried out or refused.
    pub(crate) command: CommandNumber,
}

/// A checkpoint of a room, from which another program can continue it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedRoom {
    /// The room's state. Its `you` is the id of the next member.
    pub(crate) snapshot: Snapshot,
    /// The seats of the snapshot's members, in the same order.
    pub(crate) seats: Vec<SavedSeat>,
    pub(crate) removed: Vec<RemovedClient>,
}

impl SavedRoom {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(Kind::Checkpoint.first_byte());
        self.snapshot.write(out);
        for SavedSeat { key, permitted, command } in &self.seats {
            write_key(*key, out);
            out.push(*permitted as u8);
            write_varint(out, u64::from(command.0));
        }
        write_varint(out, self.removed.len() as u64);
        for RemovedClient { key, address } in &self.removed {
            write_key(*key, out);
            out.push(u8::from(address.is_some()));
            let mapped = |address: &IpAddr| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            out.extend(address.iter().flat_map(mapped));
        }
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, MessageError> {
        if bytes.len() > MAX_CHECKPOINT_BYTES {
            return Err(MessageError::TooLong(bytes.len()));
        }
        let mut reader = Reader::new(bytes);
        expect(&mut reader, Kind::Checkpoint)?;
        expect(&mut reader, Kind::Snapshot)?;
        let snapshot = Snapshot::read(&mut reader)?;
        let mut seats = Vec::new();
        for _ in &snapshot.members {
            let (key, permitted) = (read_key(&mut reader)?, read_role(&mut reader)?);
            seats.push(SavedSeat { key, permitted, command: CommandNumber(reader.varint32("command")?) });
        }
        let mut removed = Vec::new();
        for _ in 0..reader.count(MAX_REMOVED_CLIENTS, "removed")? {
            let key = read_key(&mut reader)?;
            let address = match reader.u8()? {
                0 => None,
                1 => Some(IpAddr::from(reader.array::<16>()?).to_canonical()),
                _ => return Err(MessageError::Field("address")),
            };
            removed.push(RemovedClient { key, address });
        }
        reader.finish()?;
        Ok(Self { snapshot, seats, removed })
    }
}

fn write_key(key: Option<SeatKey>, out: &mut Vec<u8>) {
    out.push(u8::from(key.is_some()));
    out.extend(key.iter().flat_map(|key| key.0));
}

fn read_key(reader: &mut Reader<'_>) -> Result<Option<SeatKey>, MessageError> {
    match reader.u8()? {
        0 => Ok(None),
        1 => Ok(Some(SeatKey(reader.array()?))),
        _ => Err(MessageError::Field("key")),
    }
}

/// The complete room, for a member that joins or has fallen behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The member that the snapshot is for.
    pub(crate) you: MemberId,
    pub(crate) revision: Revision,
    pub(crate) receipt: Receipt,
    pub(crate) events: Digest,
    pub(crate) members: Vec<(MemberId, Member, Option<Sample>)>,
    pub(crate) objects: Vec<(ObjectId, Option<MemberId>, QuantisedPose)>,
}

impl Snapshot {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(Kind::Snapshot.first_byte());
        write_varint(out, u64::from(self.you.0));
        write_varint(out, self.revision.0);
        self.receipt.write(out);
        out.extend_from_slice(&self.events.0.to_be_bytes());
        write_varint(out, self.members.len() as u64);
        for (id, member, body) in &self.members {
            write_varint(out, u64::from(id.0));
            write_member(member, out);
            out.push(u8::from(body.is_some()));
            if let Some(body) = body {
                body.write(part::ALL, None, out);
            }
        }
        write_varint(out, self.objects.len() as u64);
        for (object, owner, pose) in &self.objects {
            write_varint(out, u64::from(object.0));
            write_varint(out, owner.map_or(0, |owner| u64::from(owner.0)));
            pose.write(out);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, MessageError> {
        let (you, revision, receipt) = (read_member_id(reader)?, Revision(reader.varint()?), Receipt::read(reader)?);
        let events = Digest(u64::from_be_bytes(reader.array()?));
        let mut members = Vec::new();
        for _ in 0..reader.count(MAX_MEMBERS, "members")? {
            let (id, member) = (read_member_id(reader)?, read_member(reader)?);
            let body = match reader.u8()? {
                0 => None,
                1 => Some(Sample::read(None, reader)?).filter(|body| body.parts != 0),
                _ => return Err(MessageError::Field("body")),
            };
            members.push((id, member, body));
        }
        let mut objects = Vec::new();
        for _ in 0..reader.count(MAX_OBJECTS, "objects")? {
            objects.push((read_object_id(reader)?, read_owner(reader)?, QuantisedPose::read(reader)?));
        }
        Ok(Self { you, revision, receipt, events, members, objects })
    }
}
