//! One server's view of one room: see [`crate`].

use std::collections::{BTreeMap, VecDeque};

use nearlight_rooms::{CheckpointError, Join, JoinError, MemberId, ObjectId, Room, RoomConfig, RoomEvent, is_urgent};
use nearlight_units::{Bitrate, Span, Time};
use nearlight_wire::Pose;

use crate::batch::{Batch, Connection, Down, Up, split};
use crate::entry::{Entry, ServerId};
use crate::lease::{Lease, WriteError};

/// While a room changes, its checkpoint is written this often: what a takeover loses.
const CHECKPOINT: Span = Span::from_millis(100);
/// While it does not, the lease is renewed this often: three times in a lease.
const RENEWAL: Span = Span::from_millis(400);
/// Who does not own the room reads the entry this often.
const READ: Span = Span::from_millis(200);
/// Messages that say nothing but where somebody is wait for others of their batch for so long. Guess: a fifth of a room's tick.
const BATCH: Span = Span::from_millis(10);
/// A join is repeated after so long without an answer.
const REPEAT_JOIN: Span = Span::from_millis(200);
/// A member that is not heard for so long has left: longer than a partition of 5 s with the time to notice its end.
const SILENCE: Span = Span::from_secs(8);
/// An owner gives a room up, and the directory forgets it, when nobody has been there for so long.
const EMPTY_LIMIT: Span = Span::from_secs(60);

/// What a member's connection is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToMember {
    Joined,
    Refused(JoinError),
    Message(Vec<u8>),
    /// The connection has to be closed. The member may come again over another one, with the same key.
    Ended,
}

/// A request to the directory, which is refused if the entry's revision is not the expected one (0: there is no entry).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub expected: u64,
    /// None: the entry is to be deleted.
    pub entry: Option<Entry>,
}

/// A member that is connected to this server.
#[derive(Debug)]
struct Local {
    join: Join,
    /// In which term the owner has said that it has a seat.
    joined: Option<u32>,
    asked_at: Option<Time>,
    told: bool,
    blocked: bool,
}

/// The room itself, at its owner.
#[derive(Debug)]
struct Owned {
    room: Room,
    term: u32,
    /// Who is connected where.
    members: BTreeMap<(ServerId, Connection), MemberId>,
    connections: BTreeMap<MemberId, (ServerId, Connection)>,
    checkpoint: Vec<u8>,
    empty_since: Time,
    /// It stands still: the lease has run out.
    paused: bool,
}

/// See [`crate`].
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct SharedRoom {
    me: ServerId,
    config: RoomConfig,
    objects: Vec<(ObjectId, Pose)>,
    lease: Lease,
    /// Of the entry that was read last.
    checkpoint: Vec<u8>,
    owned: Option<Owned>,
    locals: BTreeMap<Connection, Local>,
    next_write: Time,
    next_read: Time,
    reading: bool,
    /// The entry may be another one than the one known, which a write would meet.
    must_read: bool,
    /// A takeover is being written.
    claiming: Option<u32>,
    deleting: bool,
    draining: bool,
    released: bool,
    over: bool,
    /// A takeover found a checkpoint that it could not continue.
    problem: Option<CheckpointError>,
    up: Vec<(Connection, Up)>,
    down: BTreeMap<ServerId, Vec<(Connection, Down)>>,
    batch_due: Option<Time>,
    batches: VecDeque<(ServerId, Batch)>,
    to_members: VecDeque<(Connection, ToMember)>,
}

impl SharedRoom {
    /// This server's view of a room of which it knows nothing yet. `objects` are those of a room that nobody has opened.
    #[must_use]
    pub fn new(now: Time, me: ServerId, config: RoomConfig, objects: Vec<(ObjectId, Pose)>) -> Self {
        Self {
            lease: Lease::new(me.clone()),
            me,
            config: RoomConfig { silence: config.silence.max(SILENCE), ..config },
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

    /// This server decides now what happens in the room.
    #[must_use]
    pub fn is_owner(&self, now: Time) -> bool {
        self.lease.is_owner(now) && self.owned.is_some()
    }

    /// Who owned the room when the directory was last read, and its term.
    #[must_use]
    pub fn owner(&self) -> Option<(&ServerId, u32)> {
        self.lease.owner()
    }

    /// The room, at the server that owns it or owned it last.
    #[must_use]
    pub fn room(&self) -> Option<&Room> {
        self.owned.as_ref().map(|owned| &owned.room)
    }

    /// Nobody is connected here, and this server owns nothing: the view can be dropped.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over || self.locals.is_empty() && self.owned.is_none() && !self.lease.is_writing()
    }

    /// Somebody connects to this server and wants to join. The join has a key.
    pub fn on_join(&mut self, now: Time, connection: Connection, join: Join) {
        let local = Local { join, joined: None, asked_at: None, told: false, blocked: false };
        self.locals.insert(connection, local);
        self.over = false;
        self.advance(now);
    }

    /// A member sent something.
    pub fn on_message(&mut self, now: Time, connection: Connection, bytes: &[u8]) {
        self.pass_on(now, connection, Up::Message(bytes.to_vec()));
    }

    /// A member has left, or (`lost`) its connection broke.
    pub fn on_gone(&mut self, now: Time, connection: Connection, lost: bool) {
        self.pass_on(now, connection, if lost { Up::Lost } else { Up::Left });
        self.locals.remove(&connection);
    }

    /// See [`Room::on_network`].
    pub fn on_network(&mut self, now: Time, connection: Connection, rate: Bitrate, round_trip: Span) {
        self.pass_on(now, connection, Up::Network { rate, round_trip });
    }

    /// A member's connection takes nothing at the moment, or takes messages again.
    pub fn set_blocked(&mut self, now: Time, connection: Connection, blocked: bool) {
        if let Some(local) = self.locals.get_mut(&connection).filter(|local| local.blocked != blocked) {
            local.blocked = blocked;
            self.pass_on(now, connection, if blocked { Up::Blocked } else { Up::Writable });
        }
    }

    /// The server closes: the room is given up, and members are to come to another server.
    pub fn set_draining(&mut self, now: Time) {
        self.draining = true;
        self.next_write = now;
        let lost: Vec<_> = self.locals.keys().copied().collect();
        for connection in lost {
            self.to_members.push_back((connection, ToMember::Ended));
            self.on_gone(now, connection, true);
        }
        self.flush();
    }

    /// To the owner, if the member has a seat there.
    fn pass_on(&mut self, now: Time, connection: Connection, item: Up) {
        let term = self.locals.get(&connection).and_then(|local| local.joined);
        let Some((owner, current)) = self.lease.owner().filter(|(_, current)| term == Some(*current)) else { return };
        if *owner != self.me {
            let waits = matches!(&item, Up::Message(bytes) if !is_urgent(bytes));
            self.up.push((connection, item));
            self.batch_is_due(if waits { now + BATCH } else { now });
            if !waits {
                self.advance(now);
            }
            return;
        }
        let me = self.me.clone();
        self.on_up(now, current, &me, connection, item);
        self.advance(now);
    }

    /// Another server, or this one, says something of a connection of its.
    fn on_up(&mut self, now: Time, term: u32, from: &ServerId, connection: Connection, item: Up) {
        let runs = self.lease.is_owner(now);
        let Some(owned) = self.owned.as_mut().filter(|owned| owned.term == term && runs) else { return };
        let key = (from.clone(), connection);
        if let Up::Join(join) = &item {
            let answer = owned.on_join(now, &key, join, &mut self.down);
            return self.answer(now, from, connection, answer);
        }
        let Some(member) = owned.members.get(&key).copied() else {
            return self.answer(now, from, connection, Down::Unknown);
        };
        let room = &mut owned.room;
        match item {
            Up::Join(_) => {}
            Up::Message(bytes) => room.on_message(now, member, &bytes),
            Up::Left => room.on_leave(now, member),
            Up::Lost => {
                room.on_lost(now, member);
                owned.members.remove(&key);
                owned.connections.remove(&member);
            }
            Up::Network { rate, round_trip } => room.on_network(member, rate, round_trip),
            Up::Blocked => room.on_blocked(member),
            Up::Writable => room.on_writable(member),
        }
    }

    fn answer(&mut self, now: Time, to: &ServerId, connection: Connection, item: Down) {
        self.down.entry(to.clone()).or_default().push((connection, item));
        self.batch_is_due(now + BATCH);
    }

    /// A batch leaves then, if none does before.
    fn batch_is_due(&mut self, at: Time) {
        self.batch_due = Some(self.batch_due.map_or(at, |due| due.min(at)));
    }

    /// Another server's batch arrived.
    pub fn on_batch(&mut self, now: Time, from: &ServerId, batch: Batch) {
        match batch {
            Batch::Up { term, items } => {
                for (connection, item) in items {
                    self.on_up(now, term, from, connection, item);
                }
            }
            Batch::Down { term, items } => {
                // What a former owner says is outdated.
                if self.lease.owner().is_some_and(|(owner, current)| owner == from && term == current) {
                    for (connection, item) in items {
                        self.on_down(term, connection, item);
                    }
                }
            }
        }
        self.advance(now);
    }

    fn on_down(&mut self, term: u32, connection: Connection, item: Down) {
        let Some(local) = self.locals.get_mut(&connection) else { return };
        match item {
            Down::Joined => {
                local.joined = Some(term);
                if !std::mem::replace(&mut local.told, true) {
                    self.to_members.push_back((connection, ToMember::Joined));
                }
            }
            Down::Refused { name } => {
                let error = if name { JoinError::Name } else { JoinError::Full };
                let to = if local.told { ToMember::Ended } else { ToMember::Refused(error) };
                self.to_members.push_back((connection, to));
                self.locals.remove(&connection);
            }
            Down::Message(bytes) => self.to_members.push_back((connection, ToMember::Message(bytes))),
            Down::Ended => {
                self.to_members.push_back((connection, ToMember::Ended));
                self.locals.remove(&connection);
            }
            Down::Unknown => (local.joined, local.asked_at) = (None, None),
        }
    }

    /// The directory has this entry in this revision, or none.
    pub fn on_entry(&mut self, now: Time, revision: u64, entry: Option<Entry>) {
        (self.reading, self.must_read) = (false, false);
        let holder = entry.as_ref().map(|entry| (&entry.owner, entry.term, entry.released));
        if self.lease.on_entry(now, revision, holder) {
            self.checkpoint = entry.map(|entry| entry.checkpoint).unwrap_or_default();
        }
        self.settle(now);
        self.advance(now);
    }

    /// The directory could not be read.
    pub fn on_read_failed(&mut self) {
        self.reading = false;
    }

    /// The directory's answer to the last write.
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

    /// Begins to run the room, or stops, as the directory says.
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
            self.owned = Some(Owned::new(now, term, room));
            self.next_write = now;
        }
        self.released = self.draining && own.is_none();
    }

    /// When [`SharedRoom::on_timeout`] is due, or there is something to poll.
    #[must_use]
    pub fn poll_timeout(&self, now: Time) -> Time {
        let runs = self.lease.is_owner(now);
        let room = self.owned.as_ref().filter(|_| runs).and_then(|owned| owned.room.poll_timeout());
        let read = (!self.reading && !self.lease.is_writing()).then_some(self.next_read);
        let writes = self.owned.is_some() && !self.lease.is_writing() && !self.must_read && !self.released;
        let write = writes.then_some(self.next_write);
        let free = self.lease.free_at().filter(|at| *at > now);
        let joins = self.locals.values().filter_map(|local| Some(local.asked_at? + REPEAT_JOIN)).min();
        let joins = joins.filter(|at| *at > now);
        let lease = self.lease.until().filter(|until| *until > now);
        [room, read, write, free, joins, lease, self.batch_due].into_iter().flatten().min().unwrap_or(now + READ)
    }

    /// The time that [`SharedRoom::poll_timeout`] named has come. Earlier calls do no harm.
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

    /// Asks for seats, and passes on what the room says.
    fn advance(&mut self, now: Time) {
        self.ask_for_seats(now);
        if self.lease.is_owner(now)
            && let Some(owned) = &mut self.owned
        {
            owned.drain(now, &mut self.down);
        }
        // What is for members of this server needs no batch.
        let own = self.down.remove(&self.me).unwrap_or_default();
        let term = self.owned.as_ref().map_or(0, |owned| owned.term);
        for (connection, item) in own {
            self.on_down(term, connection, item);
        }
        let mut waiting = self.down.values().flatten().peekable();
        if waiting.peek().is_some() {
            let waits = waiting.all(|(_, item)| matches!(item, Down::Message(bytes) if !is_urgent(bytes)));
            self.batch_is_due(if waits { now + BATCH } else { now });
        }
        if self.batch_due.is_some_and(|due| due <= now) {
            self.flush();
        }
    }

    fn ask_for_seats(&mut self, now: Time) {
        let Some((owner, term)) = self.lease.owner().map(|(owner, term)| (owner.clone(), term)) else { return };
        let due = |local: &Local| local.joined != Some(term) && local.asked_at.is_none_or(|at| now - at >= REPEAT_JOIN);
        let waiting: Vec<_> =
            self.locals.iter().filter(|(_, local)| due(local)).map(|(id, local)| (*id, local.join.clone())).collect();
        for (connection, join) in waiting {
            if let Some(local) = self.locals.get_mut(&connection) {
                (local.asked_at, local.blocked) = (Some(now), false);
            }
            if owner == self.me {
                let me = self.me.clone();
                self.on_up(now, term, &me, connection, Up::Join(join));
            } else {
                self.up.push((connection, Up::Join(join)));
                self.batch_due.get_or_insert(now);
            }
        }
    }

    /// Makes batches of what waits.
    fn flush(&mut self) {
        self.batch_due = None;
        let up = std::mem::take(&mut self.up);
        if let Some((owner, term)) = self.lease.owner().filter(|(owner, _)| **owner != self.me) {
            let length = |item: &Up| if let Up::Message(bytes) = item { bytes.len() } else { 0 };
            for items in split(up, length) {
                self.batches.push_back((owner.clone(), Batch::Up { term, items }));
            }
        }
        let Some(term) = self.owned.as_ref().map(|owned| owned.term) else { return };
        for (to, items) in std::mem::take(&mut self.down) {
            let length = |item: &Down| if let Down::Message(bytes) = item { bytes.len() } else { 0 };
            for items in split(items, length) {
                self.batches.push_back((to.clone(), Batch::Down { term, items }));
            }
        }
    }

    /// Whether the directory's entry is to be read. The answer is [`SharedRoom::on_entry`] or [`SharedRoom::on_read_failed`].
    pub fn poll_read(&mut self, now: Time) -> bool {
        let wants = self.must_read || self.owned.is_none();
        if self.reading || self.lease.is_writing() || now < self.next_read || !wants {
            if !wants {
                self.next_read = now + READ;
            }
            return false;
        }
        (self.reading, self.next_read) = (true, now + READ);
        true
    }

    /// What is to be written. The answer is [`SharedRoom::on_written`].
    pub fn poll_write(&mut self, now: Time) -> Option<Write> {
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
        Some(Write { expected, entry: Some(Entry { owner: self.me.clone(), term, released: false, checkpoint }) })
    }

    fn renew(&mut self, now: Time) -> Option<Write> {
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
        // Asked again soon, whether or not there is a change by then.
        let last_write = self.lease.until().map_or(Time::ZERO, |until| until - crate::LEASE);
        if !changed && !draining && !is_empty && now - last_write < RENEWAL {
            self.next_write = now + CHECKPOINT;
            return None;
        }
        owned.checkpoint.clone_from(&checkpoint);
        self.checkpoint.clone_from(&checkpoint);
        let term = owned.term;
        self.next_write = now + CHECKPOINT;
        let expected = self.lease.ask(now, term, draining || is_empty)?;
        self.deleting = is_empty && !draining;
        let entry = Entry { owner: self.me.clone(), term, released: draining, checkpoint };
        Some(Write { expected, entry: (!self.deleting).then_some(entry) })
    }

    /// Why the room began anew although it had a checkpoint: another release, or another program, wrote that.
    pub const fn poll_problem(&mut self) -> Option<CheckpointError> {
        self.problem.take()
    }

    /// A batch for another server.
    pub fn poll_batch(&mut self) -> Option<(ServerId, Batch)> {
        self.batches.pop_front()
    }

    /// Something for a member that is connected here.
    pub fn poll_member(&mut self) -> Option<(Connection, ToMember)> {
        self.to_members.pop_front()
    }
}

impl Owned {
    fn new(now: Time, term: u32, room: Room) -> Self {
        let (members, connections) = (BTreeMap::new(), BTreeMap::new());
        Self { room, term, members, connections, checkpoint: Vec::new(), empty_since: now, paused: false }
    }

    fn on_join(
        &mut self,
        now: Time,
        key: &(ServerId, Connection),
        join: &Join,
        down: &mut BTreeMap<ServerId, Vec<(Connection, Down)>>,
    ) -> Down {
        if self.members.contains_key(key) {
            return Down::Joined;
        }
        match self.room.on_join(now, join, self.room.grantable(join.role)) {
            Ok(member) => {
                self.members.insert(key.clone(), member);
                // Its former connection is of no use.
                if let Some(former) = self.connections.insert(member, key.clone()) {
                    self.members.remove(&former);
                    down.entry(former.0).or_default().push((former.1, Down::Ended));
                }
                Down::Joined
            }
            Err(JoinError::Full) => Down::Refused { name: false },
            Err(JoinError::Name) => Down::Refused { name: true },
        }
    }

    /// Passes on what the room says, for whoever is connected.
    fn drain(&mut self, now: Time, down: &mut BTreeMap<ServerId, Vec<(Connection, Down)>>) {
        let mut out = Vec::new();
        while let Some(member) = self.room.poll_transmit(now, &mut out) {
            let bytes = std::mem::take(&mut out);
            if let Some((server, connection)) = self.connections.get(&member) {
                down.entry(server.clone()).or_default().push((*connection, Down::Message(bytes)));
            }
        }
        while let Some((member, bytes)) = self.room.poll_voice() {
            if let Some((server, connection)) = self.connections.get(&member) {
                down.entry(server.clone()).or_default().push((*connection, Down::Message(bytes.to_vec())));
            }
        }
        while let Some(event) = self.room.poll_event() {
            if let RoomEvent::Ended { member, .. } = event
                && let Some(key) = self.connections.remove(&member)
            {
                self.members.remove(&key);
                down.entry(key.0).or_default().push((key.1, Down::Ended));
            }
        }
    }
}

fn empty(now: Time, config: RoomConfig) -> Room {
    Room::new(now, config, &[]).expect("no object is no pose")
}
