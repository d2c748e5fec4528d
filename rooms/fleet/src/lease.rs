//! The ownership of a room as one server knows it.

use nearlight_units::{Span, Time};

use crate::entry::ServerId;

/// Time for which an owner owns its room, from the request of the last renewal that was granted. Guess: longer than a restart of the
/// directory on the same machine, and short enough that members are on another server within 3 s.
pub const LEASE_DURATION: Span = Span::from_millis(1_200);
/// Time that other servers wait in addition: for clocks that drift by at most 500 ppm each (RFC 5905), and for scheduling.
pub const TAKEOVER_MARGIN: Span = Span::from_millis(100);

/// Why the directory did not answer a write with a new revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// Another server has written the entry in the meantime.
    Conflict,
    /// There was no answer, so the entry may or may not have been written.
    Unknown,
}

/// The directory's entry without the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holder {
    owner: ServerId,
    term: u32,
    released: bool,
}

#[derive(Clone, Copy, Debug)]
struct PendingWrite {
    asked_at: Time,
    term: u32,
    released: bool,
}

/// The lease of one room, see the module.
#[derive(Debug)]
pub struct Lease {
    me: ServerId,
    /// The entry's revision; 0 if there is no entry, and none before it has been read.
    revision: Option<u64>,
    holder: Option<Holder>,
    seen_at: Time,
    /// The term of this server's ownership, and until when it owns the room.
    tenure: Option<(u32, Time)>,
    /// The write that waits for the directory's answer.
    writing: Option<PendingWrite>,
    /// The last write that got no answer, which may still succeed.
    unanswered: Option<PendingWrite>,
}

impl Lease {
    #[must_use]
    pub const fn new(me: ServerId) -> Self {
        Self { me, revision: None, holder: None, seen_at: Time::ZERO, tenure: None, writing: None, unanswered: None }
    }

    /// Takes the directory's entry in this revision, or that there is none. Returns false for a revision that is older than the known one,
    /// which is ignored.
    pub fn on_entry(&mut self, now: Time, revision: u64, entry: Option<(&ServerId, u32, bool)>) -> bool {
        if self.revision.is_some_and(|known| revision <= known) {
            return false;
        }
        (self.revision, self.seen_at) = (Some(revision), now);
        self.holder = entry.map(|(owner, term, released)| Holder { owner: owner.clone(), term, released });
        let mine = self.holder.as_ref().filter(|holder| holder.owner == self.me).map(|holder| holder.term);
        match (mine, self.unanswered.take()) {
            // The write has succeeded, even if its answer was lost.
            (Some(term), Some(written)) if written.term == term => self.begin(written),
            (Some(term), _) if self.tenure.is_some_and(|(own, _)| own == term) => {}
            _ => self.tenure = None,
        }
        true
    }

    fn begin(&mut self, written: PendingWrite) {
        let until = written.asked_at + LEASE_DURATION;
        let before = self.tenure.filter(|(term, _)| *term == written.term).map_or(Time::ZERO, |(_, until)| until);
        self.tenure = (!written.released).then_some((written.term, until.max(before)));
    }

    /// Returns whether nobody owns the room, so that any server may take it over.
    #[must_use]
    pub fn is_free(&self, now: Time) -> bool {
        self.revision.is_some()
            && self.writing.is_none()
            && self.holder.as_ref().is_none_or(|holder| {
                holder.released || holder.owner != self.me && now - self.seen_at >= LEASE_DURATION + TAKEOVER_MARGIN
                    // The entry names this server, which does not know that its term has begun.
                    || holder.owner == self.me && self.tenure.is_none()
            })
    }

    /// Returns when the room becomes free if the entry does not change.
    #[must_use]
    pub fn free_at(&self) -> Option<Time> {
        let holder = self.holder.as_ref()?;
        (holder.owner != self.me).then(|| self.seen_at + LEASE_DURATION + TAKEOVER_MARGIN)
    }

    /// Returns the term that this server began, whether or not it owns the room at the moment.
    #[must_use]
    pub fn own_term(&self) -> Option<u32> {
        self.tenure.map(|(term, _)| term)
    }

    /// Returns whether this server owns the room now. It does not from the moment at which it asks to release the room: another server may
    /// act before the answer arrives, and the answer may be lost.
    #[must_use]
    pub fn is_owner(&self, now: Time) -> bool {
        let gives_up = [self.writing, self.unanswered].into_iter().flatten().any(|written| written.released);
        !gives_up && self.tenure.is_some_and(|(_, until)| now < until)
    }

    /// Returns until when this server owns the room.
    #[must_use]
    pub fn until(&self) -> Option<Time> {
        self.tenure.map(|(_, until)| until)
    }

    /// Returns the owner and its term when the entry was last read, or none if the owner has released the room.
    #[must_use]
    pub fn owner(&self) -> Option<(&ServerId, u32)> {
        self.holder.as_ref().filter(|holder| !holder.released).map(|holder| (&holder.owner, holder.term))
    }

    /// Returns the term that a takeover would begin.
    #[must_use]
    pub fn next_term(&self) -> u32 {
        self.holder.as_ref().map_or(1, |holder| holder.term.saturating_add(1))
    }

    /// Returns whether a write waits for the directory's answer.
    #[must_use]
    pub const fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Begins to write an entry of this server in this term. Returns the revision that it must replace, or none before the entry has been
    /// read.
    pub fn ask(&mut self, now: Time, term: u32, released: bool) -> Option<u64> {
        let expected = self.revision?;
        self.writing = Some(PendingWrite { asked_at: now, term, released });
        Some(expected)
    }

    /// Takes the directory's answer to the write: the new revision, or an error.
    pub fn on_written(&mut self, now: Time, answer: Result<u64, WriteError>) {
        let Some(written) = self.writing.take() else { return };
        match answer {
            Ok(revision) if self.revision.is_none_or(|known| revision > known) => {
                (self.revision, self.seen_at) = (Some(revision), now);
                let PendingWrite { term, released, .. } = written;
                self.holder = Some(Holder { owner: self.me.clone(), term, released });
                self.unanswered = None;
                self.begin(written);
            }
            // A later revision was read meanwhile.
            Ok(_) | Err(WriteError::Conflict) => {}
            Err(WriteError::Unknown) => self.unanswered = Some(written),
        }
    }

    /// Forgets the entry, because the directory has deleted it on this server's request or it will be read again.
    pub fn forget(&mut self) {
        (self.revision, self.holder, self.tenure, self.writing, self.unanswered) = (None, None, None, None, None);
    }
}
