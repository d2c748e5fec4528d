//! A member's side of a room, see [`crate`].

use std::collections::{BTreeMap, VecDeque};

use nearlight_units::{Span, Time, smoothed};
use nearlight_wire::Pose;

use crate::cursor::Reader;
use crate::digest::Digest;
use crate::history::History;
use crate::message::{
    Command, Downstream, EndReason, EntryHead, MAX_COMMANDS, MAX_EVENT_BYTES, MessageError, PosesReceived, Receipt,
    STALE_POSE_GAP, Snapshot, SubjectId, Upstream, milliseconds,
};
use crate::pose::{Avatar, NotAPose, QuantisedPose, Sample};
use crate::state::{Cause, Change, CommandNumber, MemberId, ObjectId, Revision, Role, RoomState};

/// Longest delay of an acknowledgement, unless another message is sent earlier.
const ACKNOWLEDGEMENT_DELAY: Span = Span::from_millis(50);
/// Longest interval between two messages to the room.
const KEEP_ALIVE_INTERVAL: Span = Span::from_secs(1);
/// Requests that may wait for the room.
const MAX_QUEUED_REQUESTS: usize = 256;
/// Events that may wait for the application.
const MAX_EVENTS: usize = 4_096;
/// Shortest time after which commands are sent again.
const MIN_RETRANSMISSION_TIMEOUT: Span = Span::from_millis(200);

/// A request of a member.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Take an object that is free. A host also takes objects from others.
    Take { object: ObjectId },
    /// Release an object where it is.
    Release { object: ObjectId },
    /// Give an object to another member.
    HandOver { object: ObjectId, to: MemberId },
    /// Send an event of the application to all members.
    Event { kind: u16, data: Vec<u8> },
    /// Change a member's role. Only hosts may do that.
    SetRole { member: MemberId, role: Role },
    /// End a membership. Only hosts may do that.
    Remove { member: MemberId },
}

impl Request {
    /// Returns the command for the request. `pose` returns the pose of an object.
    pub(crate) fn into_command(
        self,
        pose: impl Fn(ObjectId) -> Option<QuantisedPose>,
    ) -> Result<Command, RequestError> {
        let holds = |object| pose(object).ok_or(RequestError::NotHeld);
        Ok(match self {
            Self::Take { object } => Command::Take { object },
            Self::Release { object } => Command::Release { object, pose: holds(object)? },
            Self::HandOver { object, to } => Command::HandOver { object, to, pose: holds(object)? },
            Self::Event { data, .. } if data.len() > MAX_EVENT_BYTES => return Err(RequestError::TooLong),
            Self::Event { kind, data } => Command::Event { kind, data },
            Self::SetRole { member, role } => Command::SetRole { member, role },
            Self::Remove { member } => Command::Remove { member },
        })
    }
}

/// Why a request was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("the room has not let this member in yet; wait for the event `Synchronised`")]
    NotJoined,
    #[error("{MAX_QUEUED_REQUESTS} requests wait for the room already; try again when it has answered")]
    TooMany,
    #[error("this member does not hold that object")]
    NotHeld,
    #[error("an event has more than {MAX_EVENT_BYTES} bytes; send less or several")]
    TooLong,
}

/// An event at a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaEvent {
    /// The complete room is known. `missed` counts the changes that were not reported one by one after falling behind.
    Synchronised {
        you: MemberId,
        missed: u64,
    },
    Changed {
        revision: Revision,
        change: Change,
    },
    /// A request had no effect, because another member was first or this member may not do that.
    Refused {
        command: CommandNumber,
    },
    Goodbye {
        reason: EndReason,
    },
}

/// The known state of a body or an object.
#[derive(Debug, Default)]
struct KnownSubject {
    history: History,
    current: Option<Sample>,
    /// The number of the pose message that `current` is from; 0 for the snapshot.
    message: u32,
    received_at: Time,
    age: Span,
}

/// The newest known state of a body.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedBody {
    pub avatar: Avatar,
    pub received_at: Time,
    /// Age of the pose when the room sent it, up to 255 ms.
    pub age: Span,
}

#[derive(Clone, Copy, Debug)]
struct HeldObject {
    pose: QuantisedPose,
    /// The number of the first message with this pose.
    since: Option<u32>,
}

/// The state of a room at a member, see [`crate`].
#[derive(Debug)]
pub struct Replica {
    state: RoomState,
    you: Option<MemberId>,
    subjects: BTreeMap<SubjectId, KnownSubject>,
    received: PosesReceived,
    /// Pose messages up to this number are from an earlier term.
    stale_poses: u32,
    interval: Span,
    body: Option<Sample>,
    body_since: Option<u32>,
    held: BTreeMap<ObjectId, HeldObject>,
    upstream: u32,
    upstream_received: u32,
    commands: VecDeque<Command>,
    first_command: CommandNumber,
    /// How many of `commands` have been sent.
    sent_commands: usize,
    commands_sent_at: Time,
    /// Commands that the room has executed or refused, and whether a change with that cause was seen.
    answered: VecDeque<(CommandNumber, bool)>,
    receipt: Receipt,
    round_trip: Span,
    timed: Option<(u32, Time)>,
    next_pose: Time,
    acknowledge_at: Option<Time>,
    sent_at: Option<Time>,
    events: VecDeque<ReplicaEvent>,
    dropped_events: u64,
    last_received: Option<Time>,
    ended: bool,
}

impl Replica {
    /// Creates a replica that sends its member's pose every `interval`, 11 ms (90 Hz) or longer, while it changes.
    #[must_use]
    pub fn new(now: Time, interval: Span) -> Self {
        Self {
            state: RoomState::default(),
            you: None,
            subjects: BTreeMap::new(),
            received: PosesReceived::default(),
            stale_poses: 0,
            interval: interval.max(Span::from_millis(11)),
            body: None,
            body_since: None,
            held: BTreeMap::new(),
            upstream: 0,
            upstream_received: 0,
            commands: VecDeque::new(),
            first_command: CommandNumber(1),
            sent_commands: 0,
            commands_sent_at: now,
            answered: VecDeque::new(),
            receipt: Receipt::default(),
            round_trip: Span::from_millis(100),
            timed: None,
            next_pose: now,
            acknowledge_at: None,
            sent_at: None,
            events: VecDeque::new(),
            dropped_events: 0,
            last_received: None,
            ended: false,
        }
    }

    /// Returns this member's id, or none before the room has assigned one.
    #[must_use]
    pub const fn you(&self) -> Option<MemberId> {
        self.you
    }

    #[must_use]
    pub const fn state(&self) -> &RoomState {
        &self.state
    }

    /// Returns the number of events that were dropped because the application did not poll them in time.
    #[must_use]
    pub const fn dropped_events(&self) -> u64 {
        self.dropped_events
    }

    /// Returns when a message of the room last arrived.
    #[must_use]
    pub const fn last_received(&self) -> Option<Time> {
        self.last_received
    }

    /// Returns the newest known state of a member's body. For this member, it is the body that was set.
    #[must_use]
    pub fn seen(&self, member: MemberId) -> Option<ObservedBody> {
        if self.you == Some(member) {
            let avatar = self.body.as_ref()?.avatar();
            return Some(ObservedBody { avatar, received_at: self.last_received.unwrap_or_default(), age: Span::ZERO });
        }
        let known = self
            .subjects
            .get(&SubjectId::Member(member))
            .filter(|_| self.state.member(member).is_some_and(|member| member.role.acts()))?;
        let avatar = known.current.as_ref()?.avatar();
        Some(ObservedBody { avatar, received_at: known.received_at, age: known.age })
    }

    /// Returns the pose of an object.
    #[must_use]
    pub fn object(&self, object: ObjectId) -> Option<Pose> {
        self.object_pose(object).map(|pose| pose.pose())
    }

    fn object_pose(&self, object: ObjectId) -> Option<QuantisedPose> {
        let held = self.held.get(&object).map(|held| held.pose);
        held.or_else(|| self.subjects.get(&SubjectId::Object(object))?.current.as_ref().map(|sample| *sample.head()))
    }

    /// Returns a hash of the known state. It equals [`crate::Room::digest`] if this replica knows everything that the room knows.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut digest = self.state.digest();
        for (id, member) in &self.state.members {
            let sample = match self.you {
                Some(you) if you == *id => self.body.as_ref(),
                _ => self.subjects.get(&SubjectId::Member(*id)).and_then(|known| known.current.as_ref()),
            };
            if let Some(sample) = sample.filter(|_| member.role.acts()) {
                digest.add_sample(sample);
            }
        }
        for object in self.state.objects.keys() {
            if let Some(pose) = self.object_pose(*object) {
                digest.add_sample(&Sample::of_object(pose));
            }
        }
        digest
    }

    /// Sets this member's body.
    pub fn set_body(&mut self, avatar: &Avatar) -> Result<(), NotAPose> {
        let sample = Sample::of_avatar(avatar)?;
        if self.body.as_ref() != Some(&sample) {
            (self.body, self.body_since) = (Some(sample), None);
        }
        Ok(())
    }

    /// Sets the pose of an object that this member holds.
    pub fn set_object(&mut self, object: ObjectId, pose: &Pose) -> Result<(), RequestError> {
        if self.you.is_none() || self.state.owner(object) != self.you {
            return Err(RequestError::NotHeld);
        }
        let Ok(pose) = QuantisedPose::new(pose) else { return Err(RequestError::NotHeld) };
        let is_same = self.held.get(&object).is_some_and(|held| held.pose == pose);
        if !is_same {
            self.held.insert(object, HeldObject { pose, since: None });
        }
        Ok(())
    }

    /// Sends a request to the room. The answer is a change with the returned number as its cause, or [`ReplicaEvent::Refused`].
    pub fn request(&mut self, request: Request) -> Result<CommandNumber, RequestError> {
        if self.you.is_none() {
            return Err(RequestError::NotJoined);
        }
        if self.commands.len() >= MAX_QUEUED_REQUESTS {
            return Err(RequestError::TooMany);
        }
        let command = request.into_command(|object| self.object_pose(object))?;
        self.commands.push_back(command);
        Ok(CommandNumber(self.first_command.0 + self.commands.len() as u32 - 1))
    }

    /// Records that the member has rejoined with the same [`SeatKey`](crate::SeatKey) over another connection. Everything that the room may
    /// lack is sent again.
    pub fn on_connected(&mut self) {
        (self.sent_at, self.body_since, self.sent_commands) = (None, None, 0);
        self.held.values_mut().for_each(|held| held.since = None);
        self.ended = false;
    }

    /// Takes a message of the room. The error is the room's fault; the state so far is kept.
    pub fn on_message(&mut self, now: Time, bytes: &[u8]) -> Result<(), MessageError> {
        let message = Downstream::parse(bytes)?;
        self.last_received = Some(now);
        match message {
            Downstream::Snapshot(snapshot) => self.on_snapshot(now, *snapshot),
            Downstream::Changes { receipt, first, changes } => self.on_changes(now, receipt, first, changes),
            Downstream::Poses { number, upstream, entries } => {
                self.on_upstream_received(now, upstream);
                self.on_poses(now, number, entries)?;
            }
            Downstream::Goodbye(reason) => {
                self.ended = true;
                self.push_event(ReplicaEvent::Goodbye { reason });
            }
        }
        Ok(())
    }

    fn on_snapshot(&mut self, now: Time, snapshot: Snapshot) {
        self.acknowledge_soon(now);
        if self.you.is_some() && snapshot.revision <= self.state.revision {
            return self.on_receipt(now, snapshot.receipt);
        }
        let missed = if self.you.is_some() { snapshot.revision.since(self.state.revision) } else { 0 };
        let Snapshot { you, revision, receipt, events, members, objects } = snapshot;
        if self.you.is_some() && revision.term() != self.state.revision.term() {
            // Samples are numbered anew, and the room may not know the latest commands.
            self.subjects.clear();
            self.stale_poses = self.received.highest.saturating_add(STALE_POSE_GAP);
            self.sent_commands = 0;
        }
        self.you = Some(you);
        let mut known = std::mem::take(&mut self.subjects);
        let mut keep = |id: SubjectId, sample: Option<Sample>| {
            let mut subject = known.remove(&id).unwrap_or_default();
            if subject.current.is_none() {
                (subject.current, subject.received_at) = (sample, now);
            }
            self.subjects.insert(id, subject);
        };
        self.state = RoomState { revision, events, ..RoomState::default() };
        for (object, owner, pose) in objects {
            keep(SubjectId::Object(object), Some(Sample::of_object(pose)));
            self.state.objects.insert(object, owner);
        }
        for (id, member, body) in members {
            keep(SubjectId::Member(id), body);
            self.state.members.insert(id, member);
        }
        self.held.retain(|object, _| self.state.owner(*object) == Some(you));
        // Other members may have held these objects meanwhile.
        self.held.values_mut().for_each(|held| held.since = None);
        // The room has no body of a spectator, which this member may have been meanwhile.
        self.body_since = None;
        // The outcome of earlier requests is part of the state.
        self.answered.clear();
        self.push_event(ReplicaEvent::Synchronised { you, missed });
        self.on_receipt(now, receipt);
    }

    fn on_changes(&mut self, now: Time, receipt: Receipt, first: Revision, changes: Vec<Change>) {
        self.acknowledge_soon(now);
        let Some(you) = self.you else { return };
        for (revision, change) in (first.0..).map(Revision).zip(changes) {
            if revision.0 > self.state.revision.0 + 1 {
                break;
            }
            if revision <= self.state.revision {
                continue;
            }
            self.state.apply(&change);
            self.on_change(you, &change);
            self.push_event(ReplicaEvent::Changed { revision, change });
        }
        self.on_receipt(now, receipt);
    }

    fn on_change(&mut self, you: MemberId, change: &Change) {
        let caused = match change {
            Change::Joined { id, .. } => {
                self.subjects.insert(SubjectId::Member(*id), KnownSubject::default());
                None
            }
            Change::Role { id, role } if role.acts() => {
                // The room has no body of a spectator.
                if *id == you {
                    self.body_since = None;
                }
                None
            }
            Change::Left { id } => {
                self.subjects.remove(&SubjectId::Member(*id));
                None
            }
            Change::Role { .. } => None,
            Change::Owner { cause, .. } | Change::Event { cause, .. } => Some(*cause),
        };
        match change {
            Change::Owner { object, owner, cause } if *owner != Some(you) => {
                self.held.remove(object);
                // The object stays where this member released it. Poses that were set after that have not reached the room.
                let place = cause.command.0.checked_sub(self.first_command.0).filter(|_| cause.by == you);
                let command = place.and_then(|place| self.commands.get(place as usize));
                if let Some(Command::Release { pose, .. } | Command::HandOver { pose, .. }) = command
                    && let Some(known) = self.subjects.get_mut(&SubjectId::Object(*object))
                {
                    known.current = Some(Sample::of_object(*pose));
                }
            }
            Change::Role { id, role } if *id == you && !role.acts() => self.held.clear(),
            _ => {}
        }
        if let Some(Cause { by, command }) = caused.filter(|cause| cause.by == you) {
            let _ = by;
            self.answered.push_back((command, true));
        }
    }

    fn on_receipt(&mut self, now: Time, receipt: Receipt) {
        self.on_upstream_received(now, receipt.upstream);
        // Older receipts may arrive late.
        if receipt.command > self.receipt.command {
            self.receipt = receipt;
        }
        if self.receipt.revision > self.state.revision {
            return;
        }
        while self.first_command <= self.receipt.command {
            let Some(command) = self.commands.pop_front() else { break };
            let number = self.first_command;
            self.first_command.0 += 1;
            self.sent_commands = self.sent_commands.saturating_sub(1);
            self.commands_sent_at = now;
            let had_effect = self.answered.iter().any(|answer| answer.0 == number);
            self.answered.retain(|answer| answer.0 > number);
            // The changes of these commands do not name their cause.
            let unnamed = matches!(command, Command::SetRole { .. } | Command::Remove { .. });
            if !had_effect && !unnamed {
                self.push_event(ReplicaEvent::Refused { command: number });
            }
        }
    }

    fn on_upstream_received(&mut self, now: Time, upstream: u32) {
        self.upstream_received = self.upstream_received.max(upstream).min(self.upstream);
        if let Some((_, at)) = self.timed.filter(|(number, _)| *number <= upstream) {
            self.round_trip = smoothed(self.round_trip, now.saturating_since(at));
            self.timed = None;
        }
    }

    fn on_poses(&mut self, now: Time, number: u32, mut entries: Reader<'_>) -> Result<(), MessageError> {
        if number <= self.stale_poses {
            return Ok(());
        }
        let mut whole = true;
        while !entries.is_empty() {
            let head = EntryHead::read(&mut entries)?;
            let Some(known) = self.subjects.get_mut(&head.subject) else {
                Sample::read(None, &mut entries)?;
                whole = false;
                continue;
            };
            let base = (head.base != 0)
                .then(|| {
                    known.history.get(
                        (head.number + crate::message::SAMPLE_NUMBER_MODULUS - head.base)
                            % crate::message::SAMPLE_NUMBER_MODULUS,
                    )
                })
                .flatten();
            let sample = Sample::read(base, &mut entries)?;
            if sample.parts == 0 || !known.history.insert(head.number, sample.clone()) {
                whole = false;
                continue;
            }
            if number > known.message {
                known.message = number;
                // Several messages may carry parts of the same moment.
                let merged = known.history.get(head.number).cloned();
                (known.current, known.received_at) = (merged.or(Some(sample)), now);
                known.age = Span::from_millis(i64::from(head.age));
            }
        }
        if whole {
            self.received.add(number);
        }
        self.acknowledge_soon(now);
        Ok(())
    }

    fn acknowledge_soon(&mut self, now: Time) {
        self.acknowledge_at.get_or_insert(now + ACKNOWLEDGEMENT_DELAY);
    }

    fn push_event(&mut self, event: ReplicaEvent) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
            self.dropped_events += 1;
        }
        self.events.push_back(event);
    }

    pub fn poll_event(&mut self) -> Option<ReplicaEvent> {
        self.events.pop_front()
    }

    fn repeat_after(&self) -> Span {
        (self.round_trip * 2).max(MIN_RETRANSMISSION_TIMEOUT)
    }

    /// Returns whether the room lacks a pose of this member.
    fn pose_is_due(&self) -> bool {
        let lacks = |since: Option<u32>| since.is_none_or(|since| since > self.upstream_received);
        self.you.is_some()
            && (self.body.is_some() && lacks(self.body_since) || self.held.values().any(|held| lacks(held.since)))
    }

    /// Returns when [`Replica::poll_transmit`] will have something to send, if nothing happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.ended {
            return None;
        }
        let alive = self.sent_at.map_or(Time::ZERO, |at| at + KEEP_ALIVE_INTERVAL);
        let commands = if self.sent_commands < self.commands.len().min(MAX_COMMANDS) {
            Some(Time::ZERO)
        } else {
            (!self.commands.is_empty()).then(|| self.commands_sent_at + self.repeat_after())
        };
        let pose = self.pose_is_due().then_some(self.next_pose);
        [Some(alive), self.acknowledge_at, commands, pose].into_iter().flatten().min()
    }

    /// Appends the next message to `out` and returns true, if one is due. Call it until it returns false.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        if self.poll_timeout().is_none_or(|due| due > now) {
            return false;
        }
        self.upstream += 1;
        let number = self.upstream;
        let mut upstream = Upstream {
            number,
            captured: milliseconds(now),
            revision: if self.you.is_some() { self.state.revision } else { Revision::default() },
            received: self.received,
            ..Upstream::default()
        };
        if self.pose_is_due() {
            if self.body_since.is_none_or(|since| since > self.upstream_received) {
                self.body_since = self.body_since.or(Some(number));
                upstream.body.clone_from(&self.body);
            }
            for (object, held) in &mut self.held {
                if held.since.is_none_or(|since| since > self.upstream_received) {
                    held.since = held.since.or(Some(number));
                    upstream.objects.push((*object, held.pose));
                }
            }
            self.next_pose = (self.next_pose + self.interval).max(now + self.interval / 2);
        }
        let repeats = self.sent_commands > 0 && now >= self.commands_sent_at + self.repeat_after();
        let skipped = if repeats { 0 } else { self.sent_commands };
        if !self.commands.is_empty() {
            upstream.first_command = CommandNumber(self.first_command.0 + skipped as u32);
            let most = MAX_COMMANDS.saturating_sub(skipped);
            upstream.commands.extend(self.commands.iter().skip(skipped).take(most).cloned());
            if !upstream.commands.is_empty() {
                self.sent_commands = skipped + upstream.commands.len();
                self.commands_sent_at = now;
            }
        }
        if self.timed.is_none() && (upstream.body.is_some() || !upstream.commands.is_empty()) {
            self.timed = Some((number, now));
        }
        upstream.write(out);
        (self.sent_at, self.acknowledge_at) = (Some(now), None);
        true
    }
}
