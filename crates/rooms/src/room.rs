//! The server's side of a room: see [`crate`].

mod continuation;
mod local;
mod transmit;
mod upstream;
mod voice;

pub use continuation::CheckpointError;

use std::collections::{BTreeMap, VecDeque};

use nearlight_units::{Bitrate, Bytes, Span, Time};
use nearlight_wire::Pose;

use crate::delivery::{Delivery, Subject};
use crate::digest::Digest;
use crate::limits::{Excess, Limits};
use crate::message::{Join, MAX_MEMBERS, MAX_OBJECTS, Reason, SeatKey, SubjectId, Upstream, is_member_name, is_voice};
use crate::pose::{NotAPose, QuantisedPose, Sample};
use crate::state::{Change, CommandNumber, Member, MemberId, ObjectId, Revision, Role, RoomState};

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
    /// Packets of voices over a member's limits, of spectators, and of members without a body.
    pub refused_voices: u64,
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
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Seat {
    id: MemberId,
    /// It is in the room's own program: nothing is sent to it, and it need not be heard.
    local: bool,
    key: Option<SeatKey>,
    /// The next command that arrives continues the member's numbers, whatever this room knows of them.
    adopts_commands: bool,
    delivery: Delivery,
    limits: Limits,
    hearing: voice::Hearing,
    heard_at: Time,
    /// When the newest message to it was written.
    told_at: Time,
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
    voices: voice::Voices,
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
            voices: voice::Voices::default(),
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
        if !is_member_name(name) {
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
            hearing: voice::Hearing::default(),
            heard_at: now,
            told_at: now,
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
