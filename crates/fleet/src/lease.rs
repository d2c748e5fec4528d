//! Who owns a room, as one server knows it.

use nearlight_units::{Span, Time};

use crate::entry::ServerId;

/// How long an owner owns its room after asking for the last renewal that was granted. Guess: longer than a restart of the directory on the
/// same machine, short enough that members are on another server within 3 s.
pub const LEASE: Span = Span::from_millis(1_200);
/// Others wait so much longer: for clocks that run at different speeds, by at most 500 ppm each (RFC 5905), and for scheduling.
pub const MARGIN: Span = Span::from_millis(100);

/// Why the directory did not answer a write with a new revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// Somebody else has written the entry since.
    Conflict,
    /// No answer came: it may have been written.
    Unknown,
}

/// The directory's entry but for the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holder {
    owner: ServerId,
    term: u32,
    released: bool,
}

#[derive(Clone, Copy, Debug)]
struct Written {
    asked_at: Time,
    term: u32,
    released: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Lease {
    me: ServerId,
    /// The entry's revision; none before it has been read. 0: there is no entry.
    revision: Option<u64>,
    holder: Option<Holder>,
    seen_at: Time,
    /// The term that this server has begun, and until when it owns the room.
    tenure: Option<(u32, Time)>,
    /// Waits for the directory's answer.
    writing: Option<Written>,
    /// The last write that got no answer: it may turn up.
    unanswered: Option<Written>,
}

impl Lease {
    #[must_use]
    pub const fn new(me: ServerId) -> Self {
        Self { me, revision: None, holder: None, seen_at: Time::ZERO, tenure: None, writing: None, unanswered: None }
    }

    /// The directory has this entry, or none. Older revisions than the one known are ignored: false.
    pub fn on_entry(&mut self, now: Time, revision: u64, entry: Option<(&ServerId, u32, bool)>) -> bool {
        if self.revision.is_some_and(|known| revision <= known) {
            return false;
        }
        (self.revision, self.seen_at) = (Some(revision), now);
        self.holder = entry.map(|(owner, term, released)| Holder { owner: owner.clone(), term, released });
        let mine = self.holder.as_ref().filter(|holder| holder.owner == self.me).map(|holder| holder.term);
        match (mine, self.unanswered.take()) {
            // The write succeeded, at its request or later.
            (Some(term), Some(written)) if written.term == term => self.begin(written),
            (Some(term), _) if self.tenure.is_some_and(|(own, _)| own == term) => {}
            _ => self.tenure = None,
        }
        true
    }

    fn begin(&mut self, written: Written) {
        let until = written.asked_at + LEASE;
        let before = self.tenure.filter(|(term, _)| *term == written.term).map_or(Time::ZERO, |(_, until)| until);
        self.tenure = (!written.released).then_some((written.term, until.max(before)));
    }

    /// Another server, or this one, may take the room over: nobody owns it.
    #[must_use]
    pub fn is_free(&self, now: Time) -> bool {
        self.revision.is_some()
            && self.writing.is_none()
            && self.holder.as_ref().is_none_or(|holder| {
                holder.released || holder.owner != self.me && now - self.seen_at >= LEASE + MARGIN
                    // Its own, which it does not know to have begun.
                    || holder.owner == self.me && self.tenure.is_none()
            })
    }

    /// When the room may become free, if nothing happens.
    #[must_use]
    pub fn free_at(&self) -> Option<Time> {
        let holder = self.holder.as_ref()?;
        (holder.owner != self.me).then(|| self.seen_at + LEASE + MARGIN)
    }

    /// The term that this server began, whether or not it owns the room at the moment.
    #[must_use]
    pub fn own_term(&self) -> Option<u32> {
        self.tenure.map(|(term, _)| term)
    }

    /// This server owns the room now. Not from the moment on at which it asks to give it up: another server may act before the answer
    /// arrives, and the answer may be lost.
    #[must_use]
    pub fn is_owner(&self, now: Time) -> bool {
        let gives_up = [self.writing, self.unanswered].into_iter().flatten().any(|written| written.released);
        !gives_up && self.tenure.is_some_and(|(_, until)| now < until)
    }

    /// Until when it owns the room.
    #[must_use]
    pub fn until(&self) -> Option<Time> {
        self.tenure.map(|(_, until)| until)
    }

    /// Who owned the room when the entry was last read, and its term, unless it gave the room up.
    #[must_use]
    pub fn owner(&self) -> Option<(&ServerId, u32)> {
        self.holder.as_ref().filter(|holder| !holder.released).map(|holder| (&holder.owner, holder.term))
    }

    /// The term that a takeover begins.
    #[must_use]
    pub fn next_term(&self) -> u32 {
        self.holder.as_ref().map_or(1, |holder| holder.term.saturating_add(1))
    }

    /// Whether the directory owes the answer to a write.
    #[must_use]
    pub const fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Asks to write an entry of this server's in this term. The revision that it must replace; none before the entry has been read.
    pub fn ask(&mut self, now: Time, term: u32, released: bool) -> Option<u64> {
        let expected = self.revision?;
        self.writing = Some(Written { asked_at: now, term, released });
        Some(expected)
    }

    /// The directory's answer to the write: the new revision.
    pub fn on_written(&mut self, now: Time, answer: Result<u64, WriteError>) {
        let Some(written) = self.writing.take() else { return };
        match answer {
            Ok(revision) if self.revision.is_none_or(|known| revision > known) => {
                (self.revision, self.seen_at) = (Some(revision), now);
                let Written { term, released, .. } = written;
                self.holder = Some(Holder { owner: self.me.clone(), term, released });
                self.unanswered = None;
                self.begin(written);
            }
            // A later revision has been read meanwhile.
            Ok(_) | Err(WriteError::Conflict) => {}
            Err(WriteError::Unknown) => self.unanswered = Some(written),
        }
    }

    /// The directory has forgotten the entry on this server's request, or it will be read again.
    pub fn forget(&mut self) {
        (self.revision, self.holder, self.tenure, self.writing, self.unanswered) = (None, None, None, None, None);
    }
}
