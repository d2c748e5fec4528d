//! The messages of a member: its commands, its poses, and its acknowledgements.

use super::{
    Kind, MAX_COMMANDS, MAX_EVENT_BYTES, MAX_OBJECTS, MAX_UPSTREAM_BYTES, MessageError, expect, read_member_id,
    read_object_id, read_role,
};
use crate::cursor::{Reader, write_bytes, write_varint};
use crate::pose::{QuantisedPose, Sample, part};
use crate::state::{CommandNumber, MemberId, ObjectId, Revision, Role};

/// A command of a member to its room.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    Take { object: ObjectId },
    Release { object: ObjectId, pose: QuantisedPose },
    HandOver { object: ObjectId, to: MemberId, pose: QuantisedPose },
    Event { kind: u16, data: Vec<u8> },
    SetRole { member: MemberId, role: Role },
    Remove { member: MemberId },
}

impl Command {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Take { object } => {
                out.push(1);
                write_varint(out, u64::from(object.0));
            }
            Self::Release { object, pose } => {
                out.push(2);
                write_varint(out, u64::from(object.0));
                pose.write(out);
            }
            Self::HandOver { object, to, pose } => {
                out.push(3);
                write_varint(out, u64::from(object.0));
                write_varint(out, u64::from(to.0));
                pose.write(out);
            }
            Self::Event { kind, data } => {
                out.push(4);
                out.extend_from_slice(&kind.to_be_bytes());
                write_bytes(out, data);
            }
            Self::SetRole { member, role } => {
                out.push(5);
                write_varint(out, u64::from(member.0));
                out.push(*role as u8);
            }
            Self::Remove { member } => {
                out.push(6);
                write_varint(out, u64::from(member.0));
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, MessageError> {
        Ok(match reader.u8()? {
            1 => Self::Take { object: read_object_id(reader)? },
            2 => Self::Release { object: read_object_id(reader)?, pose: QuantisedPose::read(reader)? },
            3 => {
                let (object, to) = (read_object_id(reader)?, read_member_id(reader)?);
                Self::HandOver { object, to, pose: QuantisedPose::read(reader)? }
            }
            4 => Self::Event { kind: reader.u16()?, data: reader.bytes(MAX_EVENT_BYTES, "event")?.to_vec() },
            5 => Self::SetRole { member: read_member_id(reader)?, role: read_role(reader)? },
            6 => Self::Remove { member: read_member_id(reader)? },
            _ => return Err(MessageError::Field("command")),
        })
    }
}

/// The pose messages that have arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PosesReceived {
    /// The highest number; 0 if there is none.
    pub(crate) highest: u32,
    /// Bit n stands for the message with the number `highest` - n - 1.
    pub(crate) before: u32,
}

/// In a new term, the numbers of a member's pose messages continue this far above the highest one that it has received: more than are in
/// flight at any time.
pub(crate) const POSE_NUMBER_GAP: u32 = 20_000;
/// In a new term, pose messages that are less far above are from the previous term.
pub(crate) const STALE_POSE_GAP: u32 = POSE_NUMBER_GAP / 4;

impl PosesReceived {
    pub(crate) fn add(&mut self, number: u32) {
        if number > self.highest {
            let known = u64::from(self.before) << 1 | u64::from(self.highest != 0);
            let before = known.checked_shl(number - self.highest - 1).unwrap_or(0);
            (self.highest, self.before) = (number, before as u32);
        } else if let 1..=32 = self.highest - number {
            self.before |= 1 << (self.highest - number - 1);
        }
    }

    pub(crate) fn contains(self, number: u32) -> bool {
        number == self.highest
            || number < self.highest
                && self.highest - number <= 32
                && self.before >> (self.highest - number - 1) & 1 == 1
    }
}

/// A message of a member after its [`Join`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Upstream {
    /// Counted from 1.
    pub(crate) number: u32,
    /// Time of the poses in milliseconds on the member's clock, wrapping.
    pub(crate) captured: u32,
    pub(crate) revision: Revision,
    pub(crate) received: PosesReceived,
    /// The member's body, unless the room has it already.
    pub(crate) body: Option<Sample>,
    /// The poses of objects that the member holds.
    pub(crate) objects: Vec<(ObjectId, QuantisedPose)>,
    /// The number of the first of `commands`.
    pub(crate) first_command: CommandNumber,
    pub(crate) commands: Vec<Command>,
}

impl Upstream {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(Kind::Upstream.first_byte());
        out.extend_from_slice(&self.number.to_be_bytes());
        out.extend_from_slice(&self.captured.to_be_bytes());
        write_varint(out, self.revision.0);
        write_varint(out, u64::from(self.received.highest));
        out.extend_from_slice(&self.received.before.to_be_bytes());
        out.push(u8::from(self.body.is_some()));
        if let Some(body) = &self.body {
            body.write(part::ALL, None, out);
        }
        write_varint(out, self.objects.len() as u64);
        for (object, pose) in &self.objects {
            write_varint(out, u64::from(object.0));
            pose.write(out);
        }
        write_varint(out, self.commands.len() as u64);
        if !self.commands.is_empty() {
            write_varint(out, u64::from(self.first_command.0));
            self.commands.iter().for_each(|command| command.write(out));
        }
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, MessageError> {
        if bytes.len() > MAX_UPSTREAM_BYTES {
            return Err(MessageError::TooLong(bytes.len()));
        }
        let mut reader = Reader::new(bytes);
        expect(&mut reader, Kind::Upstream)?;
        let (number, captured, revision) = (reader.u32()?, reader.u32()?, Revision(reader.varint()?));
        let received = PosesReceived { highest: reader.varint32("received")?, before: reader.u32()? };
        let body = match reader.u8()? {
            0 => None,
            1 => Some(Sample::read(None, &mut reader)?),
            _ => return Err(MessageError::Field("body")),
        };
        // The room keeps no bases for a member's poses, so differences are not allowed.
        if number == 0 || body.as_ref().is_some_and(|body| body.parts == 0) {
            return Err(MessageError::Field("body"));
        }
        let mut objects = Vec::new();
        for _ in 0..reader.count(MAX_OBJECTS, "objects")? {
            objects.push((read_object_id(&mut reader)?, QuantisedPose::read(&mut reader)?));
        }
        let count = reader.count(MAX_COMMANDS, "commands")?;
        let first_command = CommandNumber(if count == 0 { 0 } else { reader.varint32("command")? });
        let mut commands = Vec::new();
        for _ in 0..count {
            commands.push(Command::read(&mut reader)?);
        }
        reader.finish()?;
        Ok(Self { number, captured, revision, received, body, objects, first_command, commands })
    }
}
