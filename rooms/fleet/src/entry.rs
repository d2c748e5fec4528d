//! The directory's entry of a room.

use std::fmt;

use nearlight_rooms::MAX_CHECKPOINT_BYTES;

/// Version of the layouts of entries, announcements and batches.
pub(crate) const VERSION: u8 = 2;
pub(crate) const MAX_ID_BYTES: usize = 32;

/// The name of one run of a server's program: 1 to 32 bytes of a-z, 0-9 and `-`. A program that restarts must take another name, because it
/// no longer has the rooms that its previous run owned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(String);

/// The error for a text that is not a [`ServerId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a server's name has 1 to {MAX_ID_BYTES} characters of a-z, 0-9 and `-`")]
pub struct NotAServerId;

impl ServerId {
    /// # Errors
    /// If the text has other characters, or too many.
    pub fn new(text: &str) -> Result<Self, NotAServerId> {
        // Both names are parts of a subject's name, so the same rule applies.
        if nearlight_rooms::is_room_name(text) { Ok(Self(text.to_owned())) } else { Err(NotAServerId) }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The error for an entry that cannot be read: another release of the program, or another program, has written it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the directory's entry of a room cannot be read: let all servers of a fleet be of the same release")]
pub struct EntryError;

/// The owner of a room, and a checkpoint of the room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub owner: ServerId,
    /// The term, counted from 1 and increased whenever the owner changes.
    pub term: u32,
    /// Whether the owner has released the room, so that it may be taken over at once.
    pub released: bool,
    /// The checkpoint; empty if nothing has happened in the room.
    pub checkpoint: Vec<u8>,
}

impl Entry {
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let owner = self.owner.as_str().as_bytes();
        let mut out = vec![VERSION, u8::from(self.released)];
        out.extend_from_slice(&self.term.to_be_bytes());
        out.push(owner.len() as u8);
        out.extend_from_slice(owner);
        out.extend_from_slice(&self.checkpoint);
        out
    }

    /// # Errors
    /// If the bytes are not an entry of this version.
    pub fn parse(bytes: &[u8]) -> Result<Self, EntryError> {
        let Some(([VERSION, released @ (0 | 1), a, b, c, d, length], rest)) = bytes.split_first_chunk::<7>() else {
            return Err(EntryError);
        };
        let (owner, checkpoint) = rest.split_at_checked(usize::from(*length)).ok_or(EntryError)?;
        let owner = std::str::from_utf8(owner).ok().and_then(|owner| ServerId::new(owner).ok()).ok_or(EntryError)?;
        let term = u32::from_be_bytes([*a, *b, *c, *d]);
        if term == 0 || checkpoint.len() > MAX_CHECKPOINT_BYTES {
            return Err(EntryError);
        }
        Ok(Self { owner, term, released: *released == 1, checkpoint: checkpoint.to_vec() })
    }
}
