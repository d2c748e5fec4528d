//! A room's entry in the directory, as NATS keeps it.

use std::sync::{Mutex, MutexGuard};

use async_nats::jetstream::kv::{Operation, Store, UpdateErrorKind};
use nearlight_units::lock;

use super::FleetEvent;
use super::client::ANSWER_LIMIT;
use crate::seal::SealContext;
use crate::{Entry, EntryWrite, FleetKey, ServerId, WriteError};

/// The newest entry that a server of this fleet has written, as far as this server knows.
#[derive(Clone, Debug)]
struct KnownEntry {
    /// The number of the sealed message.
    number: u64,
    entry: Entry,
}

/// Reads and writes the entry of one room.
///
/// Others on NATS may overwrite or delete the entry, or put an older one in its place. None of that is believed: whoever knows the newest
/// entry that was sealed goes on with it in the directory's new revision, and the owner's next renewal restores the directory.
pub(super) struct RoomEntry {
    me: ServerId,
    room: String,
    store: Store,
    key: FleetKey,
    known: Mutex<Option<KnownEntry>>,
}

/// An entry that is to be written.
pub(super) struct SealedEntry {
    pub(super) number: u64,
    pub(super) bytes: Vec<u8>,
}

impl KnownEntry {
    /// Returns whether this entry was written before another one, of which this server knows for certain.
    fn is_older_than(&self, own: &Self) -> bool {
        let is_own = self.entry.owner == own.entry.owner;
        self.entry.term < own.entry.term || self.entry.term == own.entry.term && (!is_own || self.number < own.number)
    }
}

impl RoomEntry {
    pub(super) const fn new(me: ServerId, room: String, store: Store, key: FleetKey) -> Self {
        Self { me, room, store, key, known: Mutex::new(None) }
    }

    fn known(&self) -> MutexGuard<'_, Option<KnownEntry>> {
        lock(&self.known)
    }

    pub(super) async fn read(&self) -> FleetEvent {
        match tokio::time::timeout(ANSWER_LIMIT, self.store.entry(&self.room)).await {
            Ok(Ok(None)) => FleetEvent::Entry { revision: 0, entry: None },
            Ok(Ok(Some(found))) => {
                let stored = (found.operation == Operation::Put).then_some(&*found.value);
                FleetEvent::Entry { revision: found.revision, entry: self.newest(stored) }
            }
            Ok(Err(error)) => {
                tracing::debug!(room = self.room, %error, "the directory cannot be read");
                FleetEvent::ReadFailed
            }
            Err(_) => FleetEvent::ReadFailed,
        }
    }

    /// Returns the entry that counts when the directory holds this.
    fn newest(&self, stored: Option<&[u8]>) -> Option<Entry> {
        let read = stored.map(|sealed| self.open(sealed)).transpose();
        let mut known = self.known();
        let held = known.as_ref().filter(|known| !known.entry.released);
        let doubt = match (&read, held) {
            (Err(error), _) => Some(error.as_str()),
            // If its owner has deleted it after all, the room is free when the owner has been silent for long enough.
            (Ok(None), Some(_)) => Some("it was deleted while the room had an owner"),
            (Ok(Some(read)), Some(own)) if own.entry.owner == self.me && read.is_older_than(own) => {
                Some("another program has put an older one in its place")
            }
            _ => None,
        };
        match (doubt, &read) {
            (None, Ok(read)) => known.clone_from(read),
            (reason, _) => tracing::warn!(
                room = self.room,
                reason,
                "the directory's entry of the room is not used; the newest one that is known counts"
            ),
        }
        known.as_ref().map(|known| known.entry.clone())
    }

    fn open(&self, sealed: &[u8]) -> Result<KnownEntry, String> {
        let context = SealContext::Entry { room: &self.room };
        let (header, contents) = self.key.open(context, sealed).map_err(|error| error.to_string())?;
        let entry = Entry::parse(&contents).map_err(|error| error.to_string())?;
        if entry.owner != header.sender {
            return Err("its owner is not the server that has sealed it".into());
        }
        Ok(KnownEntry { number: header.number, entry })
    }

    /// Writes the entry, sealed as this; none deletes it.
    pub(super) async fn write(&self, write: EntryWrite, sealed: Option<SealedEntry>) -> Result<u64, WriteError> {
        let EntryWrite { expected, entry } = write;
        let Some((entry, SealedEntry { number, bytes })) = entry.zip(sealed) else {
            *self.known() = None;
            let deleted = self.store.delete_expect_revision(&self.room, Some(expected));
            return match tokio::time::timeout(ANSWER_LIMIT, deleted).await {
                // NATS does not report the revision of the deletion, so the entry is read again.
                Ok(Ok(())) => Ok(expected + 1),
                _ => Err(WriteError::Unknown),
            };
        };
        let updated = self.store.update(&self.room, bytes.into(), expected);
        match tokio::time::timeout(ANSWER_LIMIT, updated).await {
            Ok(Ok(revision)) => {
                *self.known() = Some(KnownEntry { number, entry });
                Ok(revision)
            }
            Ok(Err(error)) if error.kind() == UpdateErrorKind::WrongLastRevision => Err(WriteError::Conflict),
            Ok(Err(error)) => {
                tracing::debug!(room = self.room, %error, "the directory cannot be written");
                Err(WriteError::Unknown)
            }
            Err(_) => Err(WriteError::Unknown),
        }
    }
}
