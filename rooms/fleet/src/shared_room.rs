//! One server's view of one room, see [`crate`].

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use nearlight_rooms::{CheckpointError, Join, JoinError, ObjectId, Room, RoomConfig, is_urgent};
use nearlight_units::{Bitrate, Span, Time};
use nearlight_wire::Pose;

use crate::batch::{Batch, Connection, DownstreamItem, UpstreamItem, split};
use crate::entry::{Entry, ServerId};
use crate::lease::{Lease, WriteError};
use crate::owned_room::{DownstreamItems, OwnedRoom};

/// Interval at which the checkpoint of a changing room is written. A takeover loses at most as much.
const CHECKPOINT_INTERVAL: Span = Span::from_millis(100);
/// Interval at which the lease of an unchanged room is renewed: three times per lease.
const RENEWAL_INTERVAL: Span = Span::from_millis(400);
/// Interval at which a server that does not own the room reads the entry.
const READ_INTERVAL: Span = Span::from_millis(200);
/// Time for which messages that contain only poses wait for others of their batch. Guess: a fifth of a room's tick.
const BATCH_DELAY: Span = Span::from_millis(10);
/// Time without an answer after which a join is repeated.
const JOIN_RETRY_INTERVAL: Span = Span::from_millis(200);
/// Silence after which a member has left: longer than a partition of 5 s and the time to notice its end.
const MIN_SILENCE_LIMIT: Span = Span::from_secs(8);
/// Time after which the owner of an empty room deletes its entry.
const EMPTY_LIMIT: Span = Span::from_secs(60);

/// A message to a member's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberOutput {
    Joined,
    Refused(JoinError),
    Message(Vec<u8>),
    /// The connection must be closed. The member may come back over another one with the same key.
    Ended,
}

/// A request to write the directory's entry. It is refused if the entry's revision is not the expected one; 0 expects that there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryWrite {
    pub expected: u64,
    /// The new entry; none deletes it.
    pub entry: Option<Entry>,
}

/// A member who is connected to this server.
#[derive(Debug)]
struct LocalMember {
    join: Join,
    address: IpAddr,
    /// The term in which the owner has confirmed the member's seat.
    joined: Option<u32>,
    asked_at: Option<Time>,
    /// Whether the member has been told that it has joined.
    answered: bool,
    blocked: bool,
}

/// See [`crate`].
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct SharedRoom {
    me: ServerId,
    config: RoomConfig,
    objects: Vec<(ObjectId, Pose)>,
    lease: Lease,
    /// The checkpoint of the entry that was read last.
    checkpoint: Vec<u8>,
    owned: Option<OwnedRoom>,
    locals: BTreeMap<Connection, LocalMember>,
    next_write: Time,
    next_read: Time,
    reading: bool,
    /// Whether the entry must be read before the next write, because it may have changed.
    must_read: bool,
    /// The term of a takeover that is being written.
    claiming: Option<u32>,
    deleting: bool,
    draining: bool,
    released: bool,
    over: bool,
    /// Why a takeover could not continue the checkpoint.
    problem: Option<CheckpointError>,
    up: Vec<(Connection, UpstreamItem)>,
    down: DownstreamItems,
    batch_due: Option<Time>,
    batches: VecDeque<(ServerId, Batch)>,
    to_members: VecDeque<(Connection, MemberOutput)>,
}

impl SharedRoom {
    /// Creates this server's view of a room that it knows nothing about yet. `objects` are the initial objects if the room does not exist.
    #[must_use]
    pub fn new(now: Time, me: ServerId, config: RoomConfig, objects: Vec<(ObjectId, Pose)>) -> Self {
        Self {
            lease: Lease::new(me.clone()),
            me,
            config: RoomConfig { silence: config.silence.max(MIN_SILENCE_LIMIT), ..config },
            objects,
            checkpoint: Vec::new(),
            owned: None,
            locals: BTreeMap::new(),
            next_write: now,
            next_read: now,
            reading: false,
            must_read: true,
            claiming: None,
            deleting: false,
            draining: false,
            released: false,
            over: false,
            problem: None,
            up: Vec::new(),
            down: BTreeMap::new(),
            batch_due: None,
            batches: VecDeque::new(),
            to_members: VecDeque::new(),
        }
    }

    /// Returns whether this server owns the room now.
    #[must_use]
    pub fn is_owner(&self, now: Time) -> bool {
        self.lease.is_owner(now) && self.owned.is_some()
    }

    /// Returns the owner and its term when the directory was last read.
    #[must_use]
    pub fn owner(&self) -> Option<(&ServerId, u32)> {
        self.lease.owner()
    }

    /// Returns the room at the server that owns it or owned it last.
    #[must_use]
    pub fn room(&self) -> Option<&Room> {
        self.owned.as_ref().map(|owned| &owned.room)
    }

    /// Returns whether the view can be dropped: nobody is connected here, and this server does not own the room.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over || self.locals.is_empty() && self.owned.is_none() && !self.lease.is_writing()
    }

    /// Takes the join of a client that has connected to this server from this address. The join must have a key.
    pub fn on_join(&mut self, now: Time, connection: Connection, address: IpAddr, join: Join) {
        let local = LocalMember { join, address, joined: None, asked_at: None, answered: false, blocked: false };
        self.locals.insert(connection, local);
        self.over = false;
        self.advance(now);
    }

    /// Takes a message of a member.
    pub fn on_message(&mut self, now: Time, connection: Connection, bytes: &[u8]) {
        self.forward_to_owner(now, connection, UpstreamItem::Message(bytes.to_vec()));
    }

    /// Takes that a member has left, or that its connection broke if `lost`.
    pub fn on_gone(&mut self, now: Time, connection: Connection, lost: bool) {
        self.forward_to_owner(now, connection, if lost { UpstreamItem::Lost } else { UpstreamItem::Left });
        self.locals.remove(&connection);
    }

    /// Takes the state of a member's network, see [`Room::on_network`].
    pub fn on_network(&mut self, now: Time, connection: Connection, rate: Bitrate, round_trip: Span) {
        self.forward_to_owner(now, connection, UpstreamItem::Network { rate, round_trip });
    }

    /// Sets whether a member's connection accepts no messages at the moment.
    pub fn set_blocked(&mut self, now: Time, connection: Connection, blocked: bool) {
        if let Some(local) = self.locals.get_mut(&connection).filter(|local| local.blocked != blocked) {
            local.blocked = blocked;
            self.forward_to_owner(
                now,
                connection,
                if blocked { UpstreamItem::Blocked } else { UpstreamItem::Writable },
            );
        }
    }

    /// Releases the room, because the server closes and its members must move to another server.
    pub fn set_draining(&mut self, now: Time) {
        self.draining = true;
        self.next_write = now;
        let lost: Vec<_> = self.locals.keys().copied().collect();
        for connection in lost {
            self.to_members.push_back((connection, MemberOutput::Ended));
            self.on_gone(now, connection, true);
        }
        self.flush();
    }

    /// Sends an item to the owner, if the member has a seat there.
    fn forward_to_owner(&mut self, now: Time, connection: Connection, item: UpstreamItem) {
        let term = self.locals.get(&connection).and_then(|local| local.joined);
        let Some((owner, current)) = self.lease.owner().filter(|(_, current)| term == Some(*current)) else { return };
        if *owner != self.me {
            let waits = matches!(&item, UpstreamItem::Message(bytes) if !is_urgent(bytes));
            self.up.push((connection, item));
            self.schedule_batch(if waits { now + BATCH_DELAY } else { now });
            if !waits {
                self.advance(now);
            }
            return;
        }
        let me = self.me.clone();
        self.on_up(now, current, &me, connection, item);
        self.advance(now);
    }

    /// Handles an item about a connection, from another server or from this one.
    fn on_up(&mut self, now: Time, term: u32, from: &ServerId, connection: Connection, item: UpstreamItem) {
        let runs = self.lease.is_owner(now);
        let Some(owned) = self.owned.as_mut().filter(|owned| owned.term == term && runs) else { return };
        let key = (from.clone(), connection);
        if let UpstreamItem::Join { join, address } = &item {
            let answer = owned.on_join(now, &key, *address, join, &mut self.down);
            return self.answer(now, from, connection, answer);
        }
        let Some(member) = owned.members.get(&key).copied() else {
            return self.answer(now, from, connection, DownstreamItem::Unknown);
        };
        let room = &mut owned.room;
        match item {
            UpstreamItem::Join { .. } => {}
            UpstreamItem::Message(bytes) => room.on_message(now, member, &bytes),
            UpstreamItem::Left => room.on_leave(now, member),
            UpstreamItem::Lost => {
                room.on_lost(now, member);
                owned.members.remove(&key);
                owned.connections.remove(&member);
            }
            UpstreamItem::Network { rate, round_trip } => room.on_network(member, rate, round_trip),
            UpstreamItem::Blocked => room.on_blocked(member),
            UpstreamItem::Writable => room.on_writable(member),
        }
    }

    fn answer(&mut self, now: Time, to: &ServerId, connection: Connection, item: DownstreamItem) {
        self.down.entry(to.clone()).or_default().push((connection, item));
        self.schedule_batch(now + BATCH_DELAY);
    }

    /// Schedules a batch, unless one is due earlier.
    fn schedule_batch(&mut self, at: Time) {
        self.batch_due = Some(self.batch_due.map_or(at, |due| due.min(at)));
    }

    /// Takes a batch of another server.
    pub fn on_batch(&mut self, now: Time, from: &ServerId, batch: Batch) {
        match batch {
            Batch::Upstream { term, items } => {
                for (connection, item) in items {
                    self.on_up(now, term, from, connection, item);
                }
            }
            Batch::Downstream { term, items } => {
                // Messages of a former owner are obsolete.
                if self.lease.owner().is_some_and(|(owner, current)| owner == from && term == current) {
                    for (connection, item) in items {
                        self.on_down(term, connection, item);
                    }
                }
            }
        }
        self.advance(now);
    }

    fn on_down(&mut self, term: u32, connection: Connection, item: DownstreamItem) {
        let Some(local) = self.locals.get_mut(&connection) else { return };
        match item {
            DownstreamItem::Joined => {
                local.joined = Some(term);
                if !std::mem::replace(&mut local.answered, true) {
                    self.to_members.push_back((connection, MemberOutput::Joined));
                }
            }
            DownstreamItem::Refused(error) => {
                let to = if local.answered { MemberOutput::Ended } else { MemberOutput::Refused(error) };
                self.to_members.push_back((connection, to));
                self.locals.remove(&connection);
            }
            DownstreamItem::Message(bytes) => self.to_members.push_back((connection, MemberOutput::Message(bytes))),
            DownstreamItem::Ended => {
                self.to_members.push_back((connection, MemberOutput::Ended));
                self.locals.remove(&connection);
            }
            DownstreamItem::Unknown => (local.joined, local.asked_at) = (None, None),
        }
    }

    /// Takes the directory's entry in this revision, or that there is none.
    pub fn on_entry(&mut self, now: Time, revision: u64, entry: Option<Entry>) {
        (self.reading, self.must_read) = (false, false);
        let holder = entry.as_ref().map(|entry| (&entry.owner, entry.term, entry.released));
        if self.lease.on_entry(now, revision, holder) {
            self.checkpoint = entry.map(|entry| entry.checkpoint).unwrap_or_default();
        }
        self.settle(now);
        self.advance(now);
    }

    /// Takes that the directory could not be read.
    pub fn on_read_failed(&mut self) {
        self.reading = false;
    }

    /// Takes the directory's answer to the last write.
    pub fn on_written(&mut self, now: Time, answer: Result<u64, WriteError>) {
        let deleted = std::mem::take(&mut self.deleting);
        self.lease.on_written(now, answer);
        match answer {
            Ok(_) if deleted => {
                self.lease.forget();
                (self.owned, self.claiming, self.must_read) = (None, None, true);
                self.checkpoint.clear();
                self.over = self.locals.is_empty();
            }
            Ok(_) => {}
            Err(_) => self.must_read = true,
        }
        self.settle(now);
        self.advance(now);
    }

    /// Starts or stops running the room, according to the directory.
    fn settle(&mut self, now: Time) {
        let own = self.lease.own_term();
        if self.owned.as_ref().is_some_and(|owned| Some(owned.term) != own) {
            self.owned = None;
            self.down.clear();
        }
        self.claiming = None;
        if let Some(term) = own.filter(|_| self.owned.is_none()) {
            let fresh = || Room::new(now, self.config, &self.objects).unwrap_or_else(|_| empty(now, self.config));
            let room = if self.checkpoint.is_empty() {
                fresh().in_term(term)
            } else {
                Room::restore(now, self.config, &self.checkpoint, term).unwrap_or_else(|error| {
                    self.problem = Some(error);
                    fresh().in_term(term)
                })
            };
            self.owned = Some(OwnedRoom::new(now, term, room));
            self.next_write = now;
        }
        self.released = self.draining && own.is_none();
    }

    /// Returns when [`SharedRoom::on_timeout`] is due, or when there is something to poll.
    #[must_use]
    pub fn poll_timeout(&self, now: Time) -> Time {
        let runs = self.lease.is_owner(now);
        let room = self.owned.as_ref().filter(|_| runs).and_then(|owned| owned.room.poll_timeout());
        let read = (!self.reading && !self.lease.is_writing()).then_some(self.next_read);
        let writes = self.owned.is_some() && !self.lease.is_writing() && !self.must_read && !self.released;
        let write = writes.then_some(self.next_write);
        let free = self.lease.free_at().filter(|at| *at > now);
        let joins = self.locals.values().filter_map(|local| Some(local.asked_at? + JOIN_RETRY_INTERVAL)).min();
        let joins = joins.filter(|at| *at > now);
        let lease = self.lease.until().filter(|until| *until > now);
        [room, read, write, free, joins, lease, self.batch_due]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(now + READ_INTERVAL)
    }

    /// Does what is due at `now`. Calls before [`SharedRoom::poll_timeout`] do no harm.
    pub fn on_timeout(&mut self, now: Time) {
        let runs = self.lease.is_owner(now);
        if let Some(owned) = &mut self.owned {
            if runs && std::mem::take(&mut owned.paused) {
                owned.room.on_pause_over(now);
            }
            owned.paused |= !runs;
            if runs {
                owned.room.on_timeout(now);
            }
        }
        self.advance(now);
    }

    /// Requests seats, and forwards the room's messages.
    fn advance(&mut self, now: Time) {
        self.request_seats(now);
        if self.lease.is_owner(now)
            && let Some(owned) = &mut self.owned
        {
            owned.drain(now, &mut self.down);
        }
        // Messages for members of this server need no batch.
        let own = self.down.remove(&self.me).unwrap_or_default();
        let term = self.owned.as_ref().map_or(0, |owned| owned.term);
        for (connection, item) in own {
            self.on_down(term, connection, item);
        }
        let mut waiting = self.down.values().flatten().peekable();
        if waiting.peek().is_some() {
            let waits = waiting.all(|(_, item)| matches!(item, DownstreamItem::Message(bytes) if !is_urgent(bytes)));
            self.schedule_batch(if waits { now + BATCH_DELAY } else { now });
        }
        if self.batch_due.is_some_and(|due| due <= now) {
            self.flush();
        }
    }

    fn request_seats(&mut self, now: Time) {
        let Some((owner, term)) = self.lease.owner().map(|(owner, term)| (owner.clone(), term)) else { return };
        let due = |local: &LocalMember| {
            local.joined != Some(term) && local.asked_at.is_none_or(|at| now - at >= JOIN_RETRY_INTERVAL)
        };
        let waiting: Vec<_> = self
            .locals
            .iter()
            .filter(|(_, local)| due(local))
            .map(|(id, local)| (*id, UpstreamItem::Join { join: local.join.clone(), address: local.address }))
            .collect();
        for (connection, join) in waiting {
            if let Some(local) = self.locals.get_mut(&connection) {
                (local.asked_at, local.blocked) = (Some(now), false);
            }
            if owner == self.me {
                let me = self.me.clone();
                self.on_up(now, term, &me, connection, join);
            } else {
                self.up.push((connection, join));
                self.batch_due.get_or_insert(now);
            }
        }
    }

    /// Makes batches of the waiting items.
    fn flush(&mut self) {
        self.batch_due = None;
        let up = std::mem::take(&mut self.up);
        if let Some((owner, term)) = self.lease.owner().filter(|(owner, _)| **owner != self.me) {
            let length = |item: &UpstreamItem| if let UpstreamItem::Message(bytes) = item { bytes.len() } else { 0 };
            for items in split(up, length) {
                self.batches.push_back((owner.clone(), Batch::Upstream { term, items }));
            }
        }
        let Some(term) = self.owned.as_ref().map(|owned| owned.term) else { return };
        for (to, items) in std::mem::take(&mut self.down) {
            let length =
                |item: &DownstreamItem| if let DownstreamItem::Message(bytes) = item { bytes.len() } else { 0 };
            for items in split(items, length) {
                self.batches.push_back((to.clone(), Batch::Downstream { term, items }));
            }
        }
    }

    /// Returns whether the directory's entry must be read. The answer goes to [`SharedRoom::on_entry`] or [`SharedRoom::on_read_failed`].
    pub fn poll_read(&mut self, now: Time) -> bool {
        let wants = self.must_read || self.owned.is_none();
        if self.reading || self.lease.is_writing() || now < self.next_read || !wants {
            if !wants {
                self.next_read = now + READ_INTERVAL;
            }
            return false;
        }
        (self.reading, self.next_read) = (true, now + READ_INTERVAL);
        true
    }

    /// Returns the next write. The answer goes to [`SharedRoom::on_written`].
    pub fn poll_write(&mut self, now: Time) -> Option<EntryWrite> {
        if self.lease.is_writing() || self.must_read {
            return None;
        }
        if self.owned.is_some() {
            return self.renew(now);
        }
        let wants = !self.locals.is_empty() && !self.draining;
        if !wants || !self.lease.is_free(now) {
            return None;
        }
        let term = self.lease.next_term();
        let expected = self.lease.ask(now, term, false)?;
        self.claiming = Some(term);
        let checkpoint = self.checkpoint.clone();
        Some(EntryWrite { expected, entry: Some(Entry { owner: self.me.clone(), term, released: false, checkpoint }) })
    }

    fn renew(&mut self, now: Time) -> Option<EntryWrite> {
        let (runs, draining) = (self.lease.is_owner(now), self.draining);
        let owned = self.owned.as_mut()?;
        if now < self.next_write || self.released {
            return None;
        }
        let mut checkpoint = Vec::new();
        owned.room.write_checkpoint(&mut checkpoint);
        if owned.room.state().members().len() > 0 {
            owned.empty_since = now;
        }
        let is_empty = now - owned.empty_since >= EMPTY_LIMIT && self.locals.is_empty() && runs;
        let changed = checkpoint != owned.checkpoint;
        // The renewal is requested again soon, whether or not the room changes until then.
        let last_write = self.lease.until().map_or(Time::ZERO, |until| until - crate::LEASE_DURATION);
        if !changed && !draining && !is_empty && now - last_write < RENEWAL_INTERVAL {
            self.next_write = now + CHECKPOINT_INTERVAL;
            return None;
        }
        owned.checkpoint.clone_from(&checkpoint);
        self.checkpoint.clone_from(&checkpoint);
        let term = owned.term;
        self.next_write = now + CHECKPOINT_INTERVAL;
        // The entry of a room from which somebody was removed stays, so that the client stays away from the next room of this name.
        let deletes = is_empty && !draining && owned.room.removed_clients().is_empty();
        let released = draining || is_empty;
        let expected = self.lease.ask(now, term, released)?;
        self.deleting = deletes;
        let entry = Entry { owner: self.me.clone(), term, released, checkpoint };
        Some(EntryWrite { expected, entry: (!self.deleting).then_some(entry) })
    }

    /// Returns why the room began anew although it had a checkpoint: another release, or another program, has written the checkpoint.
    pub const fn poll_problem(&mut self) -> Option<CheckpointError> {
        self.problem.take()
    }

    /// Returns the next batch for another server.
    pub fn poll_batch(&mut self) -> Option<(ServerId, Batch)> {
        self.batches.pop_front()
    }

    /// Returns the next message for a member who is connected here.
    pub fn poll_member(&mut self) -> Option<(Connection, MemberOutput)> {
        self.to_members.pop_front()
    }
}

fn empty(now: Time, config: RoomConfig) -> Room {
    Room::new(now, config, &[]).expect("a world without objects")
}
