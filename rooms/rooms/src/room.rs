//! The server's side of a room, see [`crate`].

mod continuation;
mod local;
mod transmit;
mod upstream;
mod voice;

pub use continuation::CheckpointError;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use nearlight_units::{Bitrate, Bytes, Span, Time};
use nearlight_wire::Pose;

use crate::delivery::{Delivery, Subject};
use crate::digest::Digest;
use crate::limits::{LimitViolation, Limits};
use crate::message::{
    EndReason, Join, MAX_MEMBERS, MAX_OBJECTS, SeatKey, SubjectId, Upstream, is_member_name, is_voice,
};
use crate::name::{comparable_name, unique_name};
use crate::pose::{NotAPose, QuantisedPose, Sample};
use crate::removal::{Exclusion, RemovedClient, RemovedClients};
use crate::state::{Change, CommandNumber, Member, MemberId, ObjectId, Revision, Role, RoomState};

/// Interval at which the interest of members is updated: a fifth of a second, in which a person runs a metre.
const INTEREST_INTERVAL: Span = Span::from_millis(200);
/// Changes, and their bytes, that are kept for members that lack them. Members that are further behind get a snapshot.
const MAX_LOG_ENTRIES: usize = 4_096;
const MAX_LOG_BYTES: usize = 1 << 20;
/// Largest age of a sample when its message arrives. More is a wrong clock, or a lie.
const MAX_SAMPLE_AGE: Span = Span::from_millis(250);
/// Rate at which the estimate of a member's clock is relaxed, so that it follows drift (RFC 5905: at most 500 ppm).
const CLOCK_DRIFT: f64 = 1e-3;

/// The configuration of a room.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoomConfig {
    /// Interval between two updates of poses, 11 ms to 1 s.
    pub tick: Span,
    /// Assumed rate of a member's network before [`Room::on_network`] is called.
    pub rate: Bitrate,
    /// Silence after which a member has left.
    pub silence: Span,
    /// Time without progress in acknowledging changes after which a membership ends.
    pub stall_limit: Span,
}

impl Default for RoomConfig {
    fn default() -> Self {
        Self {
            tick: Span::from_millis(50),
            rate: Bitrate::from_mbps(2),
            silence: Span::from_secs(5),
            stall_limit: Span::from_secs(10),
        }
    }
}

/// Number of default objects, which lie on a circle of [`CIRCLE_RADIUS`] metres at the height of a table, [`TABLE_HEIGHT`] metres.
const DEFAULT_OBJECTS: u32 = 8;
const CIRCLE_RADIUS: f32 = 2.0;
const TABLE_HEIGHT: f32 = 1.0;

/// Returns the objects of a room whose application has none of its own, at their initial poses.
#[must_use]
pub fn default_objects() -> Vec<(ObjectId, Pose)> {
    let place = |number: u32| {
        let angle = number as f32 / DEFAULT_OBJECTS as f32 * std::f32::consts::TAU;
        Pose { position: [CIRCLE_RADIUS * angle.sin(), TABLE_HEIGHT, -CIRCLE_RADIUS * angle.cos()], ..Pose::default() }
    };
    (0..DEFAULT_OBJECTS).map(|number| (ObjectId(number + 1), place(number))).collect()
}

/// An event in a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomEvent {
    Joined {
        member: MemberId,
    },
    /// The room accepts and sends nothing more for this member, except for a goodbye that may still be polled. There is no reason if the
    /// member left by itself.
    Ended {
        member: MemberId,
        reason: Option<EndReason>,
    },
}

/// Why a client cannot join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    #[error("the room is full: it has {MAX_MEMBERS} members; try again when somebody has left, or another room")]
    Full,
    #[error("the name has control characters or more bytes than fit; choose another")]
    Name,
    #[error("a host has removed you from this room; join another one, or ask for a new link")]
    Removed,
    #[error("a host has removed somebody at your network address; try again in {:.0} s", .0.as_secs_f64().ceil())]
    AddressHold(Span),
}

/// Counts of refused content, summed over all members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages over a member's limits.
    pub refused_messages: u64,
    pub malformed_messages: u64,
    /// Poses of objects that the sender does not hold.
    pub foreign_poses: u64,
    /// Commands without effect, because another member was first or the sender may not do that.
    pub refused_commands: u64,
    /// Voice packets beyond a member's limits, of spectators, and of members without a body.
    pub refused_voices: u64,
}

/// The traffic between a room and one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub sent: Bytes,
    pub sent_messages: u64,
    pub received: Bytes,
    pub received_messages: u64,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Seat {
    id: MemberId,
    /// Whether the member is in the room's own program: nothing is sent to it, and it may be silent.
    local: bool,
    /// The key of the member's page. A page that changes its rendering or its transport has two seats for a moment.
    key: Option<SeatKey>,
    /// Where the member's connection comes from, if that is known.
    address: Option<IpAddr>,
    /// The highest role for the token with which the member came. A host may give it another role.
    permitted: Role,
    /// Whether the next command sets the member's command number, whatever number this room knows.
    adopts_commands: bool,
    delivery: Delivery,
    limits: Limits,
    hearing: voice::AudibleSpeakers,
    heard_at: Time,
    /// When the newest message to the member was written.
    last_sent_at: Time,
    command: CommandNumber,
    /// The revision after that command.
    command_revision: Revision,
    /// The smallest difference between the room's clock and the member's in milliseconds, from a message that was not delayed.
    clock: Option<f64>,
    clock_at: Time,
    poses_due: bool,
    /// Whether the seat is in `Room::ready`.
    ready: bool,
    traffic: Traffic,
}

/// The state of a room at its server, see [`crate`].
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
    /// Objects, followed by one body per seat.
    subjects: Vec<Option<Subject>>,
    objects: BTreeMap<ObjectId, usize>,
    /// Number of members that are not local.
    remote: usize,
    next_member: u32,
    next_tick: Time,
    next_interest: Time,
    ready: VecDeque<usize>,
    farewells: VecDeque<(MemberId, EndReason)>,
    events: VecDeque<RoomEvent>,
    voices: voice::VoiceQueues,
    counters: Counters,
    removed: RemovedClients,
}

impl Room {
    /// Creates a room with the first [`MAX_OBJECTS`] of these objects.
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
            voices: voice::VoiceQueues::default(),
            counters: Counters::default(),
            removed: RemovedClients::default(),
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

    /// Returns the interval between two updates of poses for this member, which depends on its network.
    #[must_use]
    pub fn update_interval(&self, member: MemberId) -> Option<Span> {
        Some(self.seats[*self.places.get(&member)?].as_ref()?.delivery.interval())
    }

    /// Returns a hash of everything that all members agree on at rest: the log's state, bodies and objects.
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

    /// Returns the number of members to which messages are sent.
    #[must_use]
    pub const fn remote_members(&self) -> usize {
        self.remote
    }

    fn object_pose(&self, object: ObjectId) -> Option<QuantisedPose> {
        self.newest(*self.objects.get(&object)?).map(|sample| *sample.head())
    }

    /// Returns the clients that hosts have removed, for the room that follows this one under the same name.
    #[must_use]
    pub const fn removed_clients(&self) -> &RemovedClients {
        &self.removed
    }

    /// Keeps these clients out as well as those that are removed later.
    #[must_use]
    pub fn with_removed_clients(self, removed: RemovedClients) -> Self {
        Self { removed, ..self }
    }

    /// Lets a client join whose address is unknown, see [`Room::on_join_from`].
    pub fn on_join(&mut self, now: Time, join: &Join, role: Role) -> Result<MemberId, JoinError> {
        self.on_join_from(now, None, join, role)
    }

    /// Lets a client join with the role that the server grants, which is at most the one in `join`. A client whose key has a seat reclaims
    /// that seat; its role changes only if its token is for another role than the one with which it came. Clients that a host has removed
    /// stay away.
    pub fn on_join_from(
        &mut self,
        now: Time,
        address: Option<IpAddr>,
        join: &Join,
        role: Role,
    ) -> Result<MemberId, JoinError> {
        let Join { name, colour, key, role: permitted, .. } = join;
        if let Some(member) = key.and_then(|key| self.claim_seat(now, key, address, *permitted)) {
            return Ok(member);
        }
        match self.removed.exclusion(now, RemovedClient { key: *key, address }) {
            Some(Exclusion::Removed) => return Err(JoinError::Removed),
            // The owner's token opens the room from everywhere.
            Some(Exclusion::AddressHold(wait)) if *permitted != Role::Host => return Err(JoinError::AddressHold(wait)),
            Some(Exclusion::AddressHold(_)) | None => {}
        }
        let member = self.admit(now, Member { role, name: name.clone(), colour: *colour }, *key, false)?;
        if let Some(seat) = self.seat_mut(member) {
            (seat.address, seat.permitted) = (address, *permitted);
            if key.is_some() {
                seat.adopts_commands = true;
                seat.delivery.adopt_numbers();
            }
        }
        Ok(member)
    }

    fn admit(
        &mut self,
        now: Time,
        mut member: Member,
        key: Option<SeatKey>,
        local: bool,
    ) -> Result<MemberId, JoinError> {
        if !is_member_name(&member.name) {
            return Err(JoinError::Name);
        }
        // A page that changes its rendering or its transport is in the room twice for a moment, and keeps its name.
        let others = self.seats.iter().flatten().filter(|seat| key.is_none() || seat.key != key);
        let names = others.filter_map(|seat| Some(comparable_name(&self.state.member(seat.id)?.name)));
        let taken: BTreeSet<String> = names.collect();
        member.name = unique_name(&member.name, |name| taken.contains(name));
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
        let role = member.role;
        if !local {
            if self.remote == 0 {
                self.next_tick = now;
            }
            self.remote += 1;
        }
        self.seats[place] = Some(Box::new(Seat { key, ..self.new_seat(now, id, local) }));
        self.places.insert(id, place);
        self.update_twins(key);
        self.set_body_place(now, place, Some(id));
        self.set_hidden(place, !role.acts());
        self.append(&Change::Joined { id, member });
        self.events.push_back(RoomEvent::Joined { member: id });
        Ok(id)
    }

    /// Updates which members each of those with this key does not see, because they are the same page.
    fn update_twins(&mut self, key: Option<SeatKey>) {
        let Some(key) = key else { return };
        let same = |seat: &Seat| seat.key == Some(key);
        let twins: Vec<MemberId> = self.seats.iter().flatten().filter(|seat| same(seat)).map(|seat| seat.id).collect();
        for seat in self.seats.iter_mut().flatten().filter(|seat| same(seat)) {
            let others = twins.iter().filter(|id| **id != seat.id);
            seat.delivery.twins = others.map(|id| SubjectId::Member(*id)).collect();
        }
    }

    fn new_seat(&self, now: Time, id: MemberId, local: bool) -> Seat {
        Seat {
            id,
            local,
            key: None,
            address: None,
            permitted: Role::Host,
            adopts_commands: false,
            delivery: Delivery::new(now, self.config.tick, self.config.rate, self.subjects.len(), self.log_start),
            limits: Limits::new(now),
            hearing: voice::AudibleSpeakers::default(),
            heard_at: now,
            last_sent_at: now,
            command: CommandNumber::default(),
            command_revision: Revision::default(),
            clock: None,
            clock_at: now,
            poses_due: false,
            ready: false,
            traffic: Traffic::default(),
        }
    }

    /// Ends the membership of a member that has left.
    pub fn on_leave(&mut self, now: Time, member: MemberId) {
        self.end(now, member, None);
    }

    /// Takes the rate of the network towards the member, and its round trip, from a transport's controller or from the kernel's TCP.
    pub fn on_network(&mut self, member: MemberId, rate: Bitrate, round_trip: Span) {
        if let Some(seat) = self.seat_mut(member) {
            seat.delivery.on_network(rate, round_trip);
        }
    }

    /// Stops sending to a member whose carrier accepts no messages at the moment.
    pub fn on_blocked(&mut self, member: MemberId) {
        if let Some(seat) = self.seat_mut(member) {
            seat.delivery.blocked = true;
        }
    }

    /// Resumes sending to a member whose carrier accepts messages again.
    pub fn on_writable(&mut self, member: MemberId) {
        if let Some(place) = self.places.get(&member).copied() {
            if let Some(seat) = &mut self.seats[place] {
                seat.delivery.blocked = false;
            }
            self.make_ready(place);
        }
    }

    /// Ends all memberships.
    pub fn set_closed(&mut self, now: Time) {
        for member in self.places.keys().copied().collect::<Vec<_>>() {
            self.end(now, member, Some(EndReason::Closing));
        }
    }

    /// Takes a message of a member.
    pub fn on_message(&mut self, now: Time, member: MemberId, bytes: &[u8]) {
        let Some(seat) = self.seat_mut(member) else { return };
        seat.traffic.received += Bytes::new(bytes.len() as u64);
        seat.traffic.received_messages += 1;
        match seat.limits.take_message(now, bytes.len()) {
            Ok(true) => {}
            Ok(false) => {
                self.counters.refused_messages += 1;
                return;
            }
            Err(excess) => return self.end(now, member, Some(excess.into())),
        }
        let understood = if is_voice(bytes) {
            self.on_voice_message(now, member, bytes)
        } else {
            Upstream::parse(bytes).map(|upstream| self.on_upstream(now, member, upstream)).is_ok()
        };
        if understood {
            return;
        }
        self.counters.malformed_messages += 1;
        let judged = self.seat_mut(member).map_or(Ok(()), |seat| seat.limits.on_malformed(now));
        if let Err(excess) = judged {
            self.end(now, member, Some(excess.into()));
        }
    }

    /// Sets or removes the body of a seat. Nobody knows anything about the new body.
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
        while self.log.len() > MAX_LOG_ENTRIES || self.log_bytes > MAX_LOG_BYTES {
            let Some(oldest) = self.log.pop_front() else { break };
            self.log_bytes -= oldest.len();
            self.log_start.0 += 1;
        }
        for place in 0..self.seats.len() {
            self.make_ready(place);
        }
    }

    fn end(&mut self, now: Time, member: MemberId, reason: Option<EndReason>) {
        let Some(place) = self.places.remove(&member) else { return };
        let seat = self.seats[place].take();
        let (local, key) = seat.map_or((false, None), |seat| (seat.local, seat.key));
        self.update_twins(key);
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

    /// Returns the next event, in order.
    pub fn poll_event(&mut self) -> Option<RoomEvent> {
        self.events.pop_front()
    }
}

impl Seat {
    /// Returns when a pose was captured, from its message's time stamp: not later than `now`, and at most [`MAX_SAMPLE_AGE`] earlier,
    /// whatever the member claims.
    fn captured_at(&mut self, now: Time, stamp: u32) -> Time {
        let here = now.as_nanos() as f64 / 1e6;
        let offset = here - f64::from(stamp);
        let passed = now.saturating_since(self.clock_at).as_secs_f64() * 1e3;
        self.clock_at = now;
        let least = self.clock.map_or(offset, |least| offset.min(least + passed * CLOCK_DRIFT));
        self.clock = Some(least);
        let waited = Span::from_secs_f64(((offset - least) / 1e3).max(0.0)).min(MAX_SAMPLE_AGE);
        now - waited
    }
}

impl From<LimitViolation> for EndReason {
    fn from(excess: LimitViolation) -> Self {
        match excess {
            LimitViolation::Flood => Self::Flood,
            LimitViolation::Malformed => Self::Malformed,
        }
    }
}
