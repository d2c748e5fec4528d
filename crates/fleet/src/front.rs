//! Which server a client is sent to. Decides; asks nobody.
//!
//! Servers announce themselves in the directory. A client that wants a room goes to a server where members of that room are, as long as one
//! has a place: the one with most of them. Other clients go to the server with the least load. What cannot be known here is how far a client
//! is from each server, so there is a list of candidates, the best first, from which a client that has measured may choose another.
//!
//! Between two announcements of a server, clients that were sent there count as if they had arrived. A room that a client was sent to stays
//! with that server for a while, although nobody has joined it yet.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use nearlight_units::{Span, Time};

use crate::announcement::{ANNOUNCEMENT_LIFE, Announcement, Places};
use crate::entry::ServerId;

/// A client that was sent to a server counts there for so long. Guess: a page is loaded and connected in less, and an announcement later its
/// server counts it itself.
pub const ARRIVAL: Span = Span::from_secs(5);
/// A room without members stays with a server for so long after somebody was sent there: as long as an empty room stays open.
const ROOM_STAYS: Span = Span::from_secs(60);
/// Servers beyond this are ignored. Guess: far more than one NATS server carries.
const MAX_SERVERS: usize = 4_096;
/// Rooms without members that are remembered; then the one that was asked for longest ago is forgotten.
const MAX_EMPTY_ROOMS: usize = 4_096;

/// What a client needs a place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceKind {
    /// The server renders for it.
    Client,
    /// It is a member of a room and renders for itself.
    Member,
}

/// What a client wants.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// None: any server will do.
    pub room: Option<&'a str>,
    pub place: PlaceKind,
}

/// What became of an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announced {
    /// Of a server that was not known, or had been silent.
    New,
    Known,
    /// Its token is another one, so no link of this front opens it; this is said once for each server.
    OtherToken,
    /// There are too many servers, or its other token is known.
    Ignored,
}

/// A server with a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate<'a> {
    pub server: &'a ServerId,
    pub announcement: &'a Announcement,
    /// Free places of the kind that is wanted.
    pub free: u32,
    /// The larger of the processors' load and the share of places that are taken.
    pub load: f64,
    /// Members of the wanted room that are connected to it.
    pub room_members: u32,
}

/// Why no server has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlace {
    #[error("No server is running at the moment. Try again in a few seconds.")]
    NoServer,
    #[error("All servers are full. Try again in a few seconds, or when somebody has left.")]
    Full,
}

#[derive(Debug)]
struct Server {
    announcement: Announcement,
    heard_at: Time,
    /// When clients were sent there that may not have arrived, the first one first.
    sent: [VecDeque<Time>; 2],
}

/// See the module.
#[derive(Debug)]
pub struct Front {
    check: String,
    servers: BTreeMap<ServerId, Server>,
    /// Servers with another token.
    strangers: BTreeMap<ServerId, Time>,
    /// Where somebody was sent for a room, and when last.
    rooms: BTreeMap<String, (ServerId, Time)>,
    /// Since when the directory cannot be read.
    away_since: Option<Time>,
}

impl Server {
    fn places(&self, kind: PlaceKind) -> Places {
        match kind {
            PlaceKind::Client => self.announcement.clients,
            PlaceKind::Member => self.announcement.members,
        }
    }

    fn candidate<'a>(&'a self, now: Time, server: &'a ServerId, wish: &Wish<'_>) -> Option<Candidate<'a>> {
        let Places { taken, capacity } = self.places(wish.place);
        let sent = self.sent[wish.place as usize].iter().filter(|at| now.saturating_since(**at) < ARRIVAL).count();
        let taken = taken.saturating_add(u32::try_from(sent).unwrap_or(u32::MAX));
        let free = capacity.checked_sub(taken).filter(|free| *free > 0)?;
        let load = self.announcement.load.max(f64::from(taken) / f64::from(capacity));
        let room_members = wish.room.and_then(|room| self.announcement.rooms.get(room)).copied().unwrap_or_default();
        Some(Candidate { server, announcement: &self.announcement, free, load, room_members })
    }
}

impl Front {
    /// `check`: of the token that clients of this front have, see [`Announcement::check`].
    #[must_use]
    pub const fn new(check: String) -> Self {
        Self { check, servers: BTreeMap::new(), strangers: BTreeMap::new(), rooms: BTreeMap::new(), away_since: None }
    }

    /// A server has announced itself.
    pub fn on_announcement(&mut self, now: Time, server: ServerId, announcement: Announcement) -> Announced {
        self.forget(now);
        if announcement.check != self.check {
            let is_full = self.strangers.len() >= MAX_SERVERS;
            let is_known = self.strangers.contains_key(&server);
            if is_full && !is_known {
                return Announced::Ignored;
            }
            self.strangers.insert(server, now);
            return if is_known { Announced::Ignored } else { Announced::OtherToken };
        }
        if let Some(known) = self.servers.get_mut(&server) {
            let was_there = now.saturating_since(known.heard_at) < ANNOUNCEMENT_LIFE;
            (known.announcement, known.heard_at) = (announcement, now);
            return if was_there { Announced::Known } else { Announced::New };
        }
        if self.servers.len() >= MAX_SERVERS {
            return Announced::Ignored;
        }
        self.servers.insert(server, Server { announcement, heard_at: now, sent: Default::default() });
        Announced::New
    }

    /// A server closes. True if clients were sent there until now.
    pub fn on_gone(&mut self, server: &ServerId) -> bool {
        self.strangers.remove(server);
        self.servers.remove(server).is_some()
    }

    /// The directory cannot be read at the moment, or can be again. Meanwhile no server is taken to be gone: what keeps it from being heard is
    /// most likely the same.
    pub fn on_directory(&mut self, now: Time, is_reachable: bool) {
        if !is_reachable {
            self.away_since.get_or_insert(now);
        } else if let Some(since) = self.away_since.take() {
            // They have to find the directory again, too.
            let was_there = |server: &&mut Server| since.saturating_since(server.heard_at) < ANNOUNCEMENT_LIFE;
            self.servers.values_mut().filter(was_there).for_each(|server| server.heard_at = now);
        }
    }

    /// The servers with a place, the best first: those where the wanted room is, or all if none of these has a place.
    ///
    /// # Errors
    /// If there is none.
    pub fn candidates(&self, now: Time, wish: &Wish<'_>) -> Result<Vec<Candidate<'_>>, NoPlace> {
        let mut is_known = false;
        let mut found: Vec<Candidate<'_>> = Vec::new();
        for (id, server) in self.servers.iter().filter(|(_, server)| self.is_there(now, server)) {
            is_known = true;
            found.extend(server.candidate(now, id, wish));
        }
        if found.is_empty() {
            return Err(if is_known { NoPlace::Full } else { NoPlace::NoServer });
        }
        if found.iter().any(|candidate| candidate.room_members > 0) {
            found.retain(|candidate| candidate.room_members > 0);
        } else if let Some(stays) = self.stays(now, wish)
            && found.iter().any(|candidate| candidate.server == stays)
        {
            found.retain(|candidate| candidate.server == stays);
        }
        found.sort_by(|a, b| {
            let members = |candidate: &Candidate<'_>| Reverse(candidate.room_members);
            members(a).cmp(&members(b)).then(a.load.total_cmp(&b.load)).then(a.server.cmp(b.server))
        });
        Ok(found)
    }

    /// A client was sent to this server.
    pub fn on_sent(&mut self, now: Time, server: &ServerId, wish: &Wish<'_>) {
        let Some(known) = self.servers.get_mut(server) else { return };
        let sent = &mut known.sent[wish.place as usize];
        while sent.front().is_some_and(|at| now.saturating_since(*at) >= ARRIVAL) {
            sent.pop_front();
        }
        // No more than the server has places: none is sent where there is none.
        sent.push_back(now);
        let Some(room) = wish.room else { return };
        if !self.rooms.contains_key(room) && self.rooms.len() >= MAX_EMPTY_ROOMS {
            let oldest = self.rooms.iter().min_by_key(|(_, (_, at))| *at).map(|(name, _)| name.clone());
            oldest.and_then(|oldest| self.rooms.remove(&oldest));
        }
        self.rooms.insert(room.to_owned(), (server.clone(), now));
    }

    fn is_there(&self, now: Time, server: &Server) -> bool {
        self.away_since.unwrap_or(now).saturating_since(server.heard_at) < ANNOUNCEMENT_LIFE
    }

    fn stays(&self, now: Time, wish: &Wish<'_>) -> Option<&ServerId> {
        let (server, at) = self.rooms.get(wish.room?)?;
        (now.saturating_since(*at) < ROOM_STAYS).then_some(server)
    }

    /// Forgets what has no effect any more.
    fn forget(&mut self, now: Time) {
        if self.away_since.is_none() {
            // Not before those who were sent there have arrived.
            self.servers.retain(|_, server| now.saturating_since(server.heard_at) < ROOM_STAYS);
        }
        self.strangers.retain(|_, heard_at| now.saturating_since(*heard_at) < ROOM_STAYS);
        self.rooms.retain(|_, (_, at)| now.saturating_since(*at) < ROOM_STAYS);
    }
}

#[cfg(test)]
mod tests;
