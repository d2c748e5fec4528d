//! The server's side of a room: see [`crate`].

mod continuation;
mod local;

pub use continuation::CheckpointError;

use std::collections::{BTreeMap, VecDeque};

use nearlight_units::{Bitrate, Bytes, Span, Time};
use nearlight_wire::Pose;

use crate::delivery::{Delivery, Subject};
use crate::digest::Digest;
use crate::interest::Viewer;
use crate::limits::{Excess, Limits};
use crate::message::{
    Command, Join, MAX_CHANGES, MAX_EVENT_BYTES, MAX_MEMBERS, MAX_MESSAGE_BYTES, MAX_OBJECTS, Reason, Receipt, SeatKey,
    Snapshot, SubjectId, Upstream, write_changes_head, write_goodbye,
};
use crate::pose::{NotAPose, QuantisedPose, Sample};
use crate::state::{Cause, Change, CommandNumber, Member, MemberId, ObjectId, Revision, Role, RoomState};

/// How often it is decided anew what a member needs to see: a fifth of a second, in which somebody runs a metre.
const INTEREST: Span = Span::from_millis(200);
/// Changes that are kept for members that lack them. Who is further behind gets the whole room.
const LOG_ENTRIES: usize = 4_096;
const LOG_BYTES: usize = 1 << 20;
/// A sample is at most this much older than its message: more is a wrong clock, or a lie.
const OLDEST_SAMPLE: Span = Span::from_millis(250);
/// The estimate of a member's clock gives way by this share of the time, so that it follows drift (RFC 5905: at most 500 ppm).
const CLOCK_DRIFT: f64 = 1e-3;

/// How a room behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoomConfig {
    /// Between two updates of poses, 1 s to 11 ms.
    pub tick: Span,
    /// What a member's network is taken to carry before [`Room::on_network`] says more.
    pub rate: Bitrate,
    /// A member that is not heard for so long has left.
    pub silence: Span,
    /// A member that takes no changes for so long has to go.
    pub patience: Span,
}

impl Default for RoomConfig {
    fn default() -> Self {
        Self {
            tick: Span::from_millis(50),
            rate: Bitrate::from_mbps(2),
            silence: Span::from_secs(5),
            patience: Span::from_secs(10),
        }
    }
}

/// Objects of a room whose application names none, on a circle of [`CIRCLE`] metres at the height of a table.
const OBJECTS: u32 = 8;
const CIRCLE: f32 = 2.0;
const TABLE: f32 = 1.0;

/// The objects of a room whose application names none, at their first places.
#[must_use]
pub fn usual_objects() -> Vec<(ObjectId, Pose)> {
    let place = |number: u32| {
        let angle = number as f32 / OBJECTS as f32 * std::f32::consts::TAU;
        Pose { position: [CIRCLE * angle.sin(), TABLE, -CIRCLE * angle.cos()], ..Pose::default() }
    };
    (0..OBJECTS).map(|number| (ObjectId(number + 1), place(number))).collect()
}

/// How a message should rather be carried. Everything still agrees where it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Outdated by the next one: in a datagram.
    Datagram,
    /// Over a reliable stream, in order.
    Stream,
}

/// What happened in a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomEvent {
    Joined {
        member: MemberId,
    },
    /// The room takes and sends nothing more for this member, except for a goodbye that may still be polled. No reason: it left.
    Ended {
        member: MemberId,
        reason: Option<Reason>,
    },
}

/// Why somebody cannot join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    #[error("the room is full: it has {MAX_MEMBERS} members; try again when somebody has left, or another room")]
    Full,
    #[error("the name has control characters or more bytes than fit; choose another")]
    Name,
}

/// What was refused, summed over all members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages over a member's limits.
    pub refused_messages: u64,
    pub malformed_messages: u64,
    /// Poses of objects that their sender does not hold.
    pub foreign_poses: u64,
    /// Commands without effect: somebody else was first, or their sender may not.
    pub refused_commands: u64,
}

/// What passed between a room and one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub sent: Bytes,
    pub sent_messages: u64,
    pub received: Bytes,
    pub received_messages: u64,
}

#[derive(Debug)]
struct Seat {
    id: MemberId,
    /// It is in the room's own program: nothing is sent to it, and it need not be heard.
    local: bool,
    key: Option<SeatKey>,
    /// The next command that arrives continues the member's numbers, whatever this room knows of them.
    adopts_commands: bool,
    delivery: Delivery,
    limits: Limits,
    heard_at: Time,
    command: CommandNumber,
    /// The revision after that command.
    command_revision: Revision,
    /// The room's clock minus the member's in milliseconds, at its least: a message that did not wait.
    clock: Option<f64>,
    clock_at: Time,
    poses_due: bool,
    /// It is in `Room::ready`.
    ready: bool,
    traffic: Traffic,
}

/// See [`crate`].
#[derive(Debug)]
pub struct Room {
    config: RoomConfig,
    state: RoomState,
    /// The revision before the first entry of `log`.
    log_start: Revision,
    log: VecDeque<Box<[u8]>>,
    log_bytes: usize,
    seats: Vec<Option<Box<Seat>>>,
    places: BTreeMap<MemberId, usize>,
    /// Objects first, then a place for each seat.
    subjects: Vec<Option<Subject>>,
    objects: BTreeMap<ObjectId, usize>,
    /// Members that are not local.
    remote: usize,
    next_member: u32,
    next_tick: Time,
    next_interest: Time,
    ready: VecDeque<usize>,
    farewells: VecDeque<(MemberId, Reason)>,
    events: VecDeque<RoomEvent>,
    counters: Counters,
}

impl Room {
    /// A room with these objects, of which the first [`MAX_OBJECTS`] count.
    pub fn new(now: Time, config: RoomConfig, objects: &[(ObjectId, Pose)]) -> Result<Self, NotAPose> {
        let config = RoomConfig { tick: config.tick.max(Span::from_millis(11)).min(Span::from_secs(1)), ..config };
        let mut places = BTreeMap::new();
        let mut subjects = Vec::new();
        for (object, pose) in objects.iter().take(MAX_OBJECTS) {
            let sample = Sample::of_object(QuantisedPose::new(pose)?);
            if places.insert(*object, subjects.len()).is_none() {
                let mut subject = Subject::new(SubjectId::Object(*object), now);
                subject.set(now, now, None, sample);
                subjects.push(Some(subject));
            }
        }
        Ok(Self {
            config,
            state: RoomState::new(places.keys().copied()),
            log_start: Revision::default(),
            log: VecDeque::new(),
            log_bytes: 0,
            seats: Vec::new(),
            places: BTreeMap::new(),
            subjects,
            objects: places,
            remote: 0,
            next_member: 1,
            next_tick: now,
            next_interest: now,
            ready: VecDeque::new(),
            farewells: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
        })
    }

    #[must_use]
    pub const fn state(&self) -> &RoomState {
        &self.state
    }

    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    #[must_use]
    pub fn traffic(&self, member: MemberId) -> Option<Traffic> {
        Some(self.seats[*self.places.get(&member)?].as_ref()?.traffic)
    }

    /// Between two updates of poses for this member, as far as its network carries them.
    #[must_use]
    pub fn update_interval(&self, member: MemberId) -> Option<Span> {
        Some(self.seats[*self.places.get(&member)?].as_ref()?.delivery.interval())
    }

    /// Of everything that all members agree on at rest: the log's state, bodies and objects.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut digest = self.state.digest();
        let bodies = self.places.values().map(|place| self.objects.len() + place);
        for place in bodies.chain(self.objects.values().copied()) {
            if let Some(sample) = self.newest(place) {
                digest.add_sample(sample);
            }
        }
        digest
    }

    /// How many members there are that messages are sent to.
    #[must_use]
    pub const fn remote_members(&self) -> usize {
        self.remote
    }

    fn object_pose(&self, object: ObjectId) -> Option<QuantisedPose> {
        self.newest(*self.objects.get(&object)?).map(|sample| *sample.head())
    }

    /// Somebody joins, with the role that the server grants. Who has a seat with the same key has that again, as it was.
    pub fn on_join(&mut self, now: Time, join: &Join, role: Role) -> Result<MemberId, JoinError> {
        if let Some(member) = join.key.and_then(|key| self.claim_seat(now, key)) {
            return Ok(member);
        }
        let Join { name, colour, key, .. } = join;
        let member = self.admit(now, Member { role, name: name.clone(), colour: *colour }, false)?;
        if let Some(seat) = self.seat_mut(member).filter(|_| key.is_some()) {
            (seat.key, seat.adopts_commands) = (*key, true);
            seat.delivery.adopt_numbers();
        }
        Ok(member)
    }

    fn admit(&mut self, now: Time, member: Member, local: bool) -> Result<MemberId, JoinError> {
        let Member { role, name, .. } = &member;
        if name.len() > crate::message::MAX_NAME_BYTES || name.chars().any(char::is_control) {
            return Err(JoinError::Name);
        }
        let place = match self.seats.iter().position(Option::is_none) {
            Some(place) => place,
            None if self.seats.len() < MAX_MEMBERS => {
                self.seats.push(None);
                self.subjects.push(None);
                self.seats.len() - 1
            }
            None => return Err(JoinError::Full),
        };
        let id = MemberId(self.next_member);
        self.next_member += 1;
        let role = *role;
        if !local {
            if self.remote == 0 {
                self.next_tick = now;
            }
            self.remote += 1;
        }
        self.seats[place] = Some(Box::new(self.new_seat(now, id, local)));
        self.places.insert(id, place);
        self.set_body_place(now, place, Some(id));
        self.set_hidden(place, !role.acts());
        self.append(&Change::Joined { id, member });
        self.events.push_back(RoomEvent::Joined { member: id });
        Ok(id)
    }

    fn new_seat(&self, now: Time, id: MemberId, local: bool) -> Seat {
        Seat {
            id,
            local,
            key: None,
            adopts_commands: false,
            delivery: Delivery::new(now, self.config.tick, self.config.rate, self.subjects.len(), self.log_start),
            limits: Limits::new(now),
            heard_at: now,
            command: CommandNumber::default(),
            command_revision: Revision::default(),
            clock: None,
            clock_at: now,
            poses_due: false,
            ready: false,
            traffic: Traffic::default(),
        }
    }

    /// The member is gone.
    pub fn on_leave(&mut self, now: Time, member: MemberId) {
        self.end(now, member, None);
    }

    /// What the member's network carries towards it, and its round trip: from a transport's controller, or from the kernel's TCP.
    pub fn on_network(&mut self, member: MemberId, rate: Bitrate, round_trip: Span) {
        if let Some(seat) = self.seat_mut(member) {
            seat.delivery.on_network(rate, round_trip);
        }
    }

    /// The member's carrier takes nothing at the moment: nothing is handed out for it.
    pub fn on_blocked(&mut self, member: MemberId) {
        if let Some(seat) = self.seat_mut(member) {
            seat.delivery.blocked = true;
        }
    }

    /// The member's carrier takes messages again.
    pub fn on_writable(&mut self, member: MemberId) {
        if let Some(place) = self.places.get(&member).copied() {
            if let Some(seat) = &mut self.seats[place] {
                seat.delivery.blocked = false;
            }
            self.make_ready(place);
        }
    }

    /// Ends the membership of everybody.
    pub fn set_closed(&mut self, now: Time) {
        for member in self.places.keys().copied().collect::<Vec<_>>() {
            self.end(now, member, Some(Reason::Closing));
        }
    }

    /// A message of the member's arrived.
    pub fn on_message(&mut self, now: Time, member: MemberId, bytes: &[u8]) {
        let Some(seat) = self.seat_mut(member) else { return };
        seat.traffic.received += Bytes::new(bytes.len() as u64);
        seat.traffic.received_messages += 1;
        let parsed = match seat.limits.take_message(now, bytes.len()) {
            Ok(true) => Upstream::parse(bytes),
            Ok(false) => {
                self.counters.refused_messages += 1;
                return;
            }
            Err(excess) => return self.end(now, member, Some(excess.into())),
        };
        if let Ok(upstream) = parsed {
            return self.on_upstream(now, member, upstream);
        }
        let judged = seat.limits.on_malformed(now);
        self.counters.malformed_messages += 1;
        if let Err(excess) = judged {
            self.end(now, member, Some(excess.into()));
        }
    }

    fn on_upstream(&mut self, now: Time, member: MemberId, upstream: Upstream) {
        let Some(place) = self.places.get(&member).copied() else { return };
        let Some(seat) = &mut self.seats[place] else { return };
        seat.heard_at = now;
        seat.delivery.on_revision(now, upstream.revision);
        seat.delivery.on_received(now, upstream.received);
        let captured_at = seat.captured_at(now, upstream.captured);
        let is_newer = upstream.number > seat.delivery.upstream;
        if is_newer {
            seat.delivery.upstream = upstream.number;
            seat.delivery.upstream_due |= upstream.body.is_some() || !upstream.objects.is_empty();
        }
        if !upstream.commands.is_empty() {
            seat.delivery.receipt_due = true;
            self.make_ready(place);
            self.on_commands(now, member, upstream.first_command, &upstream.commands);
        }
        // What is older than what is known is outdated, and nobody moves what others hold.
        if !is_newer || !self.places.contains_key(&member) {
            return;
        }
        if let Some(body) = upstream.body {
            if let Some(seat) = &mut self.seats[place] {
                seat.delivery.viewer = Some(Viewer::new(body.head()));
            }
            self.set_subject(now, captured_at, self.objects.len() + place, Some(member), body);
        }
        for (object, pose) in upstream.objects {
            let place = self.objects.get(&object).copied();
            let subject = place.and_then(|place| self.subjects[place].as_ref());
            let knows = subject.is_some_and(|subject| upstream.revision >= subject.owned_since);
            if knows && self.state.owner(object) == Some(member) {
                self.carry(now, captured_at, object, member, pose);
            } else {
                self.counters.foreign_poses += 1;
            }
        }
    }

    /// A new sample of what is in this place, unless that is hidden.
    fn set_subject(&mut self, now: Time, captured_at: Time, place: usize, by: Option<MemberId>, sample: Sample) {
        if let Some(subject) = self.subjects[place].as_mut().filter(|subject| !subject.hidden) {
            subject.set(now, captured_at, by, sample);
        }
    }

    /// Its holder moves an object.
    fn carry(&mut self, now: Time, captured_at: Time, object: ObjectId, by: MemberId, pose: QuantisedPose) {
        if let Some(place) = self.objects.get(&object).copied() {
            self.set_subject(now, captured_at, place, Some(by), Sample::of_object(pose));
        }
    }

    fn on_commands(&mut self, now: Time, member: MemberId, first: CommandNumber, commands: &[Command]) {
        if let Some(seat) = self.seat_mut(member).filter(|seat| seat.adopts_commands) {
            seat.adopts_commands = false;
            seat.command.0 = seat.command.0.max(first.0.saturating_sub(1));
        }
        for (number, command) in (first.0..).zip(commands) {
            let Some(seat) = self.seat_mut(member) else { return };
            if number <= seat.command.0 {
                continue;
            }
            // In order, and no faster than a member may: the rest comes again.
            if number != seat.command.0 + 1 || !seat.limits.take_command(now) {
                return;
            }
            seat.command = CommandNumber(number);
            if !self.carry_out(now, Cause { by: member, command: CommandNumber(number) }, command) {
                self.counters.refused_commands += 1;
            }
            let revision = self.state.revision;
            if let Some(seat) = self.seat_mut(member) {
                seat.command_revision = revision;
            }
        }
    }

    /// Does what the member asks, if it may. False if nothing changed.
    fn carry_out(&mut self, now: Time, cause: Cause, command: &Command) -> bool {
        let by = cause.by;
        let Some(role) = self.state.member(by).map(|member| member.role) else { return false };
        let owner = |object: &ObjectId| self.state.objects.get(object).copied();
        let acts = |id: &MemberId| self.state.member(*id).is_some_and(|member| member.role.acts());
        match command {
            Command::Take { object } => {
                let is_free = match owner(object) {
                    Some(None) => role.acts(),
                    Some(Some(holder)) => role == Role::Host && holder != by,
                    None => false,
                };
                if is_free {
                    self.append(&Change::Owner { object: *object, owner: Some(by), cause });
                }
                is_free
            }
            Command::Release { object, pose } => {
                let holds = owner(object) == Some(Some(by));
                if holds {
                    self.carry(now, now, *object, by, *pose);
                    self.append(&Change::Owner { object: *object, owner: None, cause });
                }
                holds
            }
            Command::HandOver { object, to, pose } => {
                let may = owner(object) == Some(Some(by)) && *to != by && acts(to);
                if may {
                    self.carry(now, now, *object, by, *pose);
                    self.append(&Change::Owner { object: *object, owner: Some(*to), cause });
                }
                may
            }
            Command::Event { kind, data } => {
                let may = role.acts() && data.len() <= MAX_EVENT_BYTES;
                if may {
                    self.append(&Change::Event { kind: *kind, data: data.clone(), cause });
                }
                may
            }
            Command::SetRole { member, role: wanted } => {
                let differs = self.state.member(*member).is_some_and(|member| member.role != *wanted);
                let may = role == Role::Host && differs;
                if may && let Some(place) = self.places.get(member).copied() {
                    self.set_hidden(place, !wanted.acts());
                    self.append(&Change::Role { id: *member, role: *wanted });
                }
                may
            }
            Command::Remove { member } => {
                let may = role == Role::Host && self.state.member(*member).is_some();
                if may {
                    self.end(now, *member, Some(Reason::Removed));
                }
                may
            }
        }
    }

    /// A body, or none, has the place of this seat: nobody knows anything of it.
    fn set_body_place(&mut self, now: Time, place: usize, member: Option<MemberId>) {
        let subject = self.objects.len() + place;
        self.subjects[subject] = member.map(|id| Subject::new(SubjectId::Member(id), now));
        self.seats.iter_mut().flatten().for_each(|seat| seat.delivery.forget(subject));
    }

    fn set_hidden(&mut self, place: usize, hidden: bool) {
        if let Some(subject) = &mut self.subjects[self.objects.len() + place] {
            subject.hidden = hidden;
        }
    }

    fn append(&mut self, change: &Change) {
        self.state.apply(change);
        let moved = match change {
            Change::Owner { object, .. } => self.objects.get(object).copied().map(|place| place..place + 1),
            Change::Role { .. } => Some(0..self.objects.len()),
            _ => None,
        };
        let revision = self.state.revision;
        for subject in self.subjects[moved.unwrap_or_default()].iter_mut().flatten() {
            subject.disown();
            if matches!(change, Change::Owner { .. }) {
                subject.owned_since = revision;
            }
        }
        let mut entry = Vec::new();
        change.write(&mut entry);
        self.log_bytes += entry.len();
        self.log.push_back(entry.into_boxed_slice());
        while self.log.len() > LOG_ENTRIES || self.log_bytes > LOG_BYTES {
            let Some(oldest) = self.log.pop_front() else { break };
            self.log_bytes -= oldest.len();
            self.log_start.0 += 1;
        }
        for place in 0..self.seats.len() {
            self.make_ready(place);
        }
    }

    fn end(&mut self, now: Time, member: MemberId, reason: Option<Reason>) {
        let Some(place) = self.places.remove(&member) else { return };
        let local = self.seats[place].take().is_some_and(|seat| seat.local);
        self.remote -= usize::from(!local);
        self.set_body_place(now, place, None);
        self.append(&Change::Left { id: member });
        if let Some(reason) = reason.filter(|_| !local) {
            self.farewells.push_back((member, reason));
        }
        self.events.push_back(RoomEvent::Ended { member, reason });
    }

    fn seat_mut(&mut self, member: MemberId) -> Option<&mut Seat> {
        self.seats[*self.places.get(&member)?].as_deref_mut()
    }

    fn make_ready(&mut self, place: usize) {
        if let Some(seat) =
            self.seats[place].as_mut().filter(|seat| !seat.ready && !seat.local && !seat.delivery.blocked)
        {
            seat.ready = true;
            self.ready.push_back(place);
        }
    }

    /// Whether [`Room::poll_transmit`] may have something to hand out.
    #[must_use]
    pub fn has_transmit(&self) -> bool {
        !self.ready.is_empty() || !self.farewells.is_empty()
    }

    /// When [`Room::on_timeout`] is due: at the next tick, if anybody is there that messages are sent to.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        (self.remote > 0).then_some(self.next_tick)
    }

    /// The time that [`Room::poll_timeout`] named has come. Earlier calls do nothing.
    pub fn on_timeout(&mut self, now: Time) {
        if now < self.next_tick || self.remote == 0 {
            return;
        }
        self.next_tick = (self.next_tick + self.config.tick).max(now + Span::from_nanos(1));
        let RoomConfig { silence, patience, rate, .. } = self.config;
        let refresh = now >= self.next_interest;
        if refresh {
            self.next_interest = now + INTEREST;
        }
        let newest = self.state.revision;
        let mut gone = Vec::new();
        for place in 0..self.seats.len() {
            let Some(seat) = self.seats[place].as_mut().filter(|seat| !seat.local) else { continue };
            if now.saturating_since(seat.heard_at) >= silence {
                gone.push((seat.id, Reason::Silent));
                continue;
            }
            let mut ready = seat.delivery.check_repeat(now, newest);
            if seat.delivery.behind_since.is_some_and(|since| now.saturating_since(since) >= patience) {
                gone.push((seat.id, Reason::NotReading));
                continue;
            }
            if refresh {
                seat.delivery.refresh_interest(rate, &self.subjects);
            }
            seat.poses_due |= seat.delivery.is_update_due(now);
            ready |= seat.poses_due;
            if ready {
                self.make_ready(place);
            }
        }
        for (member, reason) in gone {
            self.end(now, member, Some(reason));
        }
    }

    /// Appends the next message to `out`, and says whom it is for. None: there is nothing to send at the moment.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<(MemberId, Lane)> {
        if let Some((member, reason)) = self.farewells.pop_front() {
            write_goodbye(reason, out);
            return Some((member, Lane::Stream));
        }
        while let Some(place) = self.ready.front().copied() {
            let before = out.len();
            let lane = self.write_next(now, place, out);
            let Some(seat) = &mut self.seats[place] else {
                self.ready.pop_front();
                continue;
            };
            if let Some(lane) = lane {
                seat.traffic.sent += Bytes::new((out.len() - before) as u64);
                seat.traffic.sent_messages += 1;
                return Some((seat.id, lane));
            }
            seat.ready = false;
            self.ready.pop_front();
        }
        None
    }

    /// What the member in this seat needs first.
    fn write_next(&mut self, now: Time, place: usize, out: &mut Vec<u8>) -> Option<Lane> {
        let newest = self.state.revision;
        let seat = self.seats[place].as_mut()?;
        let receipt =
            Receipt { upstream: seat.delivery.upstream, command: seat.command, revision: seat.command_revision };
        if seat.delivery.blocked {
            return None;
        }
        if seat.delivery.needs_snapshot || seat.delivery.sent < self.log_start {
            let snapshot = self.snapshot(place, receipt)?;
            let seat = self.seats[place].as_mut()?;
            seat.delivery.on_snapshot_sent(now, newest);
            snapshot.write(out);
            return Some(Lane::Stream);
        }
        let sent = seat.delivery.sent;
        if sent < newest || seat.delivery.receipt_due {
            let first = (sent.0 - self.log_start.0) as usize;
            let (mut count, mut bytes) = (0, 0);
            for entry in self.log.iter().skip(first).take(MAX_CHANGES) {
                if bytes + entry.len() > MAX_MESSAGE_BYTES / 2 {
                    break;
                }
                (count, bytes) = (count + 1, bytes + entry.len());
            }
            write_changes_head(Revision(sent.0 + 1), receipt, count, out);
            self.log.iter().skip(first).take(count).for_each(|entry| out.extend_from_slice(entry));
            seat.delivery.on_sent(now, Revision(sent.0 + count as u64));
            return Some(Lane::Stream);
        }
        if std::mem::take(&mut seat.poses_due) && seat.delivery.write_poses(now, seat.id, &mut self.subjects, out) {
            return Some(Lane::Datagram);
        }
        None
    }

    /// The newest sample of the subject in this place, if it is to be seen.
    fn newest(&self, place: usize) -> Option<&Sample> {
        let subject = self.subjects[place].as_ref().filter(|subject| !subject.hidden)?;
        subject.history.newest().map(|(_, sample)| sample)
    }

    fn snapshot(&self, place: usize, receipt: Receipt) -> Option<Snapshot> {
        Some(self.snapshot_for(self.seats[place].as_ref()?.id, receipt))
    }

    fn snapshot_for(&self, you: MemberId, receipt: Receipt) -> Snapshot {
        let members = self.places.iter().filter_map(|(id, place)| {
            let member = self.state.member(*id)?.clone();
            Some((*id, member, self.newest(self.objects.len() + place).cloned()))
        });
        let objects = self
            .objects
            .iter()
            .filter_map(|(object, place)| Some((*object, self.state.owner(*object), *self.newest(*place)?.head())));
        Snapshot {
            you,
            revision: self.state.revision,
            receipt,
            events: self.state.events,
            members: members.collect(),
            objects: objects.collect(),
        }
    }

    /// What happened, in order.
    pub fn poll_event(&mut self) -> Option<RoomEvent> {
        self.events.pop_front()
    }
}

impl Seat {
    /// When a pose was captured, from its message's stamp: never later than now, and not much earlier, whatever the member says.
    fn captured_at(&mut self, now: Time, stamp: u32) -> Time {
        let here = now.as_nanos() as f64 / 1e6;
        let offset = here - f64::from(stamp);
        let passed = now.saturating_since(self.clock_at).as_secs_f64() * 1e3;
        self.clock_at = now;
        let least = self.clock.map_or(offset, |least| offset.min(least + passed * CLOCK_DRIFT));
        self.clock = Some(least);
        let waited = Span::from_secs_f64(((offset - least) / 1e3).max(0.0)).min(OLDEST_SAMPLE);
        now - waited
    }
}

impl From<Excess> for Reason {
    fn from(excess: Excess) -> Self {
        match excess {
            Excess::Flood => Self::Flood,
            Excess::Malformed => Self::Malformed,
        }
    }
}
