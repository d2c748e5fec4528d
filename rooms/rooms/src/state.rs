//! The state that results from a room's log of changes. Room and replicas apply the same changes in the same order, and so agree.

use std::collections::BTreeMap;

use crate::digest::Digest;

/// The id of a member of a room, counted from 1 and never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u32);

/// The id of a shared object of a room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u32);

/// The number of a change in a room's log, counted from 1; 0 is the empty room.
///
/// The bits above the lowest 40 are the term: how often the room has been continued from a checkpoint. A later term may lack
/// the last changes of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// Bits of a revision that count changes: 30 years of 1,000 changes per second.
const CHANGE_BITS: u32 = 40;

impl Revision {
    #[must_use]
    pub const fn term(self) -> u32 {
        (self.0 >> CHANGE_BITS) as u32
    }

    const fn changes(self) -> u64 {
        self.0 & ((1 << CHANGE_BITS) - 1)
    }

    /// Returns the revision with the same number of changes in another term, of which the lowest 24 bits count.
    #[must_use]
    pub const fn in_term(self, term: u32) -> Self {
        Self((term as u64) << CHANGE_BITS | self.changes())
    }

    /// Returns how many changes lie between the two revisions, 0 if `earlier` is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.changes().saturating_sub(earlier.changes())
    }
}

/// The number of a command of one member, counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandNumber(pub u32);

/// The role of a member, which decides what it may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Like a guest; in addition takes objects that others hold, changes roles and removes members.
    Host,
    /// Has a body, takes objects, sends events.
    #[default]
    Guest,
    /// Sees and is not seen: has no body, takes no objects, sends no events.
    Spectator,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Host, Self::Guest, Self::Spectator];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Guest => "guest",
            Self::Spectator => "spectator",
        }
    }

    /// Returns whether a member with this role has a body and may act.
    #[must_use]
    pub const fn acts(self) -> bool {
        !matches!(self, Self::Spectator)
    }
}

/// The error for a text that names no role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a role is host, guest or spectator")]
pub struct RoleError;

impl std::str::FromStr for Role {
    type Err = RoleError;

    fn from_str(name: &str) -> Result<Self, RoleError> {
        Self::ALL.into_iter().find(|role| role.name() == name).ok_or(RoleError)
    }
}

/// The public data of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub role: Role,
    pub name: String,
    /// Colour as red, green and blue.
    pub colour: [u8; 3],
}

/// The member and the command that caused a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    pub by: MemberId,
    pub command: CommandNumber,
}

/// An entry of a room's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Joined {
        id: MemberId,
        member: Member,
    },
    /// A member has left. The objects that it held are free.
    Left {
        id: MemberId,
    },
    Role {
        id: MemberId,
        role: Role,
    },
    /// An object was taken, handed over or released.
    Owner {
        object: ObjectId,
        owner: Option<MemberId>,
        cause: Cause,
    },
    /// An event of the application.
    Event {
        kind: u16,
        data: Vec<u8>,
        cause: Cause,
    },
}

/// The members of a room, and the owners of its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoomState {
    pub(crate) revision: Revision,
    pub(crate) members: BTreeMap<MemberId, Member>,
    pub(crate) objects: BTreeMap<ObjectId, Option<MemberId>>,
    /// Hash of all events so far, in order.
    pub(crate) events: Digest,
}

impl RoomState {
    pub(crate) fn new(objects: impl IntoIterator<Item = ObjectId>) -> Self {
        Self { objects: objects.into_iter().map(|object| (object, None)).collect(), ..Self::default() }
    }

    /// Returns the number of the last applied change.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    pub fn members(&self) -> impl ExactSizeIterator<Item = (MemberId, &Member)> {
        self.members.iter().map(|(id, member)| (*id, member))
    }

    #[must_use]
    pub fn member(&self, id: MemberId) -> Option<&Member> {
        self.members.get(&id)
    }

    /// Returns every object and its owner.
    pub fn objects(&self) -> impl ExactSizeIterator<Item = (ObjectId, Option<MemberId>)> {
        self.objects.iter().map(|(object, owner)| (*object, *owner))
    }

    /// Returns the member that holds the object. None if nobody holds it or there is no such object.
    #[must_use]
    pub fn owner(&self, object: ObjectId) -> Option<MemberId> {
        self.objects.get(&object).copied().flatten()
    }

    /// Applies the next change of the log.
    pub(crate) fn apply(&mut self, change: &Change) {
        self.revision.0 += 1;
        match change {
            Change::Joined { id, member } => {
                self.members.insert(*id, member.clone());
            }
            Change::Left { id } => {
                self.members.remove(id);
                self.free(*id);
            }
            Change::Role { id, role } => {
                if let Some(member) = self.members.get_mut(id) {
                    member.role = *role;
                }
                if !role.acts() {
                    self.free(*id);
                }
            }
            Change::Owner { object, owner, .. } => {
                if let Some(holder) = self.objects.get_mut(object) {
                    *holder = *owner;
                }
            }
            Change::Event { kind, data, cause } => {
                self.events.add(u64::from(*kind) << 32 | u64::from(cause.by.0));
                for byte in data {
                    self.events.add(u64::from(*byte));
                }
            }
        }
    }

    fn free(&mut self, member: MemberId) {
        for owner in self.objects.values_mut().filter(|owner| **owner == Some(member)) {
            *owner = None;
        }
    }

    pub(crate) fn digest(&self) -> Digest {
        let mut digest = self.events;
        digest.add(self.revision.0);
        for (id, Member { role, name, colour }) in &self.members {
            digest.add(u64::from(id.0) << 2 | *role as u64);
            name.bytes().chain(*colour).for_each(|byte| digest.add(u64::from(byte)));
        }
        for (object, owner) in &self.objects {
            digest.add(u64::from(object.0) << 32 | owner.map_or(0, |owner| u64::from(owner.0)));
        }
        digest
    }
}
