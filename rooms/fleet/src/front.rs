//! Chooses the server that a client is sent to, without IO.
//!
//! Servers announce themselves in the directory. A client that wants a room goes to the server with the most members of that room that has
//! a free place. Other clients go to the server with the least load. The distance between client and servers is not known here, so the
//! result is a list of candidates, the best first, from which a client that has measured may choose another.
//!
//! Between two announcements of a server, clients that were sent there count as if they had arrived. A room that a client was sent to stays
//! with that server for a while even if nobody has joined it yet.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use nearlight_units::{Span, Time};

use crate::announcement::{ANNOUNCEMENT_TIMEOUT, Announcement, Places};
use crate::entry::ServerId;

/// Time for which a client that was sent to a server counts as being there. Guess: a page is loaded and connected in less, and one
/// announcement later the server counts it itself.
pub const ARRIVAL_ALLOWANCE: Span = Span::from_secs(5);
/// Time for which a room without members stays with a server after somebody was sent there: as long as an empty room stays open.
const EMPTY_ROOM_AFFINITY: Span = Span::from_secs(60);
/// Servers that a front remembers; further ones are ignored. Guess: far more than one NATS server carries.
const MAX_SERVERS: usize = 4_096;
/// Rooms without members that a front remembers. Beyond that, the room with the oldest request is forgotten.
const MAX_EMPTY_ROOMS: usize = 4_096;

/// The kind of place that a client needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceKind {
    /// The server renders for the client.
    Client,
    /// The client is a member of a room and renders for itself.
    Member,
}

/// The room and the kind of place that a client requests.
#[derive(Clone, Copy, Debug)]
pub struct PlacementRequest<'a> {
    /// The requested room; none if any server will do.
    pub room: Option<&'a str>,
    pub place: PlaceKind,
}

/// The outcome of an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnouncementOutcome {
    /// The server is new, or was silent.
    New,
    Known,
    /// The server has another token, so no link of this front opens it. This is reported once per server.
    OtherToken,
    /// There are too many servers, or the server's other token has been reported.
    Ignored,
}

/// A server with a free place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate<'a> {
    pub server: &'a ServerId,
    pub announcement: &'a Announcement,
    /// Free places of the requested kind.
    pub free: u32,
    /// The larger of the processors' load and the share of taken places, 0 to 1.
    pub load: f64,
    /// Members of the requested room that are connected to the server.
    pub room_members: u32,
}

/// Why no server has a free place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    #[error("No server is running at the moment. Try again in a few seconds.")]
    NoServer,
    #[error("All servers are full. Try again in a few seconds, or when somebody has left.")]
    Full,
}

#[derive(Debug)]
struct Server {
    announcement: Announcement,
    heard_at: Time,
    /// When clients that may not have arrived yet were sent to the server, by kind of place, oldest first.
    sent: [VecDeque<Time>; 2],
}

/// The front's view of all servers.
#[derive(Debug)]
pub struct Front {
    check: String,
    servers: BTreeMap<ServerId, Server>,
    /// Ids whose announcements are not used, and when they were last seen.
    strangers: BTreeMap<ServerId, Time>,
    /// The server to which a client was last sent for each room, and when.
    rooms: BTreeMap<String, (ServerId, Time)>,
    /// When the directory became unreachable; none while it can be read.
    away_since: Option<Time>,
}

impl Server {
    fn places(&self, kind: PlaceKind) -> Places {
        match kind {
            PlaceKind::Client => self.announcement.clients,
            PlaceKind::Member => self.announcement.members,
        }
    }

    fn candidate<'a>(
        &'a self,
        now: Time,
        server: &'a ServerId,
        placement: &PlacementRequest<'_>,
    ) -> Option<Candidate<'a>> {
        let Places { taken, capacity } = self.places(placement.place);
        let sent = self.sent[placement.place as usize]
            .iter()
            .filter(|at| now.saturating_since(**at) < ARRIVAL_ALLOWANCE)
            .count();
        let taken = taken.saturating_add(u32::try_from(sent).unwrap_or(u32::MAX));
        let free = capacity.checked_sub(taken).filter(|free| *free > 0)?;
        let load = self.announcement.load.max(f64::from(taken) / f64::from(capacity));
        let room_members =
            placement.room.and_then(|room| self.announcement.rooms.get(room)).copied().unwrap_or_default();
        Some(Candidate { server, announcement: &self.announcement, free, load, room_members })
    }
}

impl Front {
    /// Creates a front whose clients have the token with this check value, see [`Announcement::check`].
    #[must_use]
    pub const fn new(check: String) -> Self {
        Self { check, servers: BTreeMap::new(), strangers: BTreeMap::new(), rooms: BTreeMap::new(), away_since: None }
    }

    /// Takes the announcement of a server.
    pub fn on_announcement(&mut self, now: Time, server: ServerId, announcement: Announcement) -> AnnouncementOutcome {
        self.forget(now);
        if announcement.check != self.check {
            let is_new = self.add_stranger(now, server);
            return if is_new { AnnouncementOutcome::OtherToken } else { AnnouncementOutcome::Ignored };
        }
        if let Some(known) = self.servers.get_mut(&server) {
            let was_there = now.saturating_since(known.heard_at) < ANNOUNCEMENT_TIMEOUT;
            (known.announcement, known.heard_at) = (announcement, now);
            return if was_there { AnnouncementOutcome::Known } else { AnnouncementOutcome::New };
        }
        if self.servers.len() >= MAX_SERVERS {
            return AnnouncementOutcome::Ignored;
        }
        self.servers.insert(server, Server { announcement, heard_at: now, sent: Default::default() });
        AnnouncementOutcome::New
    }

    /// Takes that an announcement under this id is not used. Returns whether that should be reported, which it is once per id. The server of
    /// this id, if there is one, stays as it is.
    pub fn on_refused(&mut self, now: Time, server: ServerId) -> bool {
        self.forget(now);
        self.add_stranger(now, server)
    }

    /// Returns whether the stranger is new, and there is room to remember it.
    fn add_stranger(&mut self, now: Time, server: ServerId) -> bool {
        let is_known = self.strangers.contains_key(&server);
        if !is_known && self.strangers.len() >= MAX_SERVERS {
            return false;
        }
        self.strangers.insert(server, now);
        !is_known
    }

    /// Removes a server that closes. Returns whether it was usable until now.
    pub fn on_gone(&mut self, server: &ServerId) -> bool {
        self.strangers.remove(server);
        self.servers.remove(server).is_some()
    }

    /// Takes whether the directory can be read. While it cannot, no server is considered gone, because its announcements are most likely
    /// lost for the same reason.
    pub fn on_directory(&mut self, now: Time, is_reachable: bool) {
        if !is_reachable {
            self.away_since.get_or_insert(now);
        } else if let Some(since) = self.away_since.take() {
            // The servers have to reconnect to the directory as well.
            let was_there = |server: &&mut Server| since.saturating_since(server.heard_at) < ANNOUNCEMENT_TIMEOUT;
            self.servers.values_mut().filter(was_there).for_each(|server| server.heard_at = now);
        }
    }

    /// Returns the servers with a free place, the best first: those with members of the requested room, or all if none of these has a
    /// place.
    ///
    /// # Errors
    /// If no server has a free place.
    pub fn candidates(
        &self,
        now: Time,
        placement: &PlacementRequest<'_>,
    ) -> Result<Vec<Candidate<'_>>, PlacementError> {
        let mut is_known = false;
        let mut found: Vec<Candidate<'_>> = Vec::new();
        for (id, server) in self.servers.iter().filter(|(_, server)| self.is_there(now, server)) {
            is_known = true;
            found.extend(server.candidate(now, id, placement));
        }
        if found.is_empty() {
            return Err(if is_known { PlacementError::Full } else { PlacementError::NoServer });
        }
        if found.iter().any(|candidate| candidate.room_members > 0) {
            found.retain(|candidate| candidate.room_members > 0);
        } else if let Some(stays) = self.stays(now, placement)
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

    /// Records that a client was sent to this server.
    pub fn on_sent(&mut self, now: Time, server: &ServerId, placement: &PlacementRequest<'_>) {
        let Some(known) = self.servers.get_mut(server) else { return };
        let sent = &mut known.sent[placement.place as usize];
        while sent.front().is_some_and(|at| now.saturating_since(*at) >= ARRIVAL_ALLOWANCE) {
            sent.pop_front();
        }
        // No client is sent to a server without a free place, so this list is no longer than the number of places.
        sent.push_back(now);
        let Some(room) = placement.room else { return };
        if !self.rooms.contains_key(room) && self.rooms.len() >= MAX_EMPTY_ROOMS {
            let oldest = self.rooms.iter().min_by_key(|(_, (_, at))| *at).map(|(name, _)| name.clone());
            oldest.and_then(|oldest| self.rooms.remove(&oldest));
        }
        self.rooms.insert(room.to_owned(), (server.clone(), now));
    }

    fn is_there(&self, now: Time, server: &Server) -> bool {
        self.away_since.unwrap_or(now).saturating_since(server.heard_at) < ANNOUNCEMENT_TIMEOUT
    }

    fn stays(&self, now: Time, placement: &PlacementRequest<'_>) -> Option<&ServerId> {
        let (server, at) = self.rooms.get(placement.room?)?;
        (now.saturating_since(*at) < EMPTY_ROOM_AFFINITY).then_some(server)
    }

    /// Forgets servers and rooms that are irrelevant.
    fn forget(&mut self, now: Time) {
        if self.away_since.is_none() {
            // A server is kept until the clients that were sent there have arrived.
            self.servers.retain(|_, server| now.saturating_since(server.heard_at) < EMPTY_ROOM_AFFINITY);
        }
        self.strangers.retain(|_, heard_at| now.saturating_since(*heard_at) < EMPTY_ROOM_AFFINITY);
        self.rooms.retain(|_, (_, at)| now.saturating_since(*at) < EMPTY_ROOM_AFFINITY);
    }
}

#[cfg(test)]
mod tests;
