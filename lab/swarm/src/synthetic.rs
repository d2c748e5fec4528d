//! One synthetic member, without IO.

use std::collections::VecDeque;
use std::sync::Arc;

use nearlight_link::Random;
use nearlight_rooms::{
    Cause, Change, CommandNumber, Digest, Join, MemberId, MessageError, ObjectId, Replica, ReplicaEvent, Request,
    Revision, Role, SeatKey, is_voice,
};
use nearlight_units::{Span, Time};

use crate::behaviour::Walker;
use crate::voice::{Voice, sent_at};
use crate::{Behaviour, Profile};

/// Members that act on the same object.
const MEMBERS_PER_OBJECT: usize = 4;
/// The kind of a synthetic member's events.
const EVENT_KIND: u16 = 1;

/// The identity and configuration of a member.
#[derive(Clone, Debug)]
pub struct MemberSetup {
    pub profile: Arc<Profile>,
    pub room: String,
    /// Its index in the room, from 0.
    pub place: usize,
    /// Synthetic members of its room.
    pub members: usize,
    /// Its index in the crowd, from 0, which determines its behaviour.
    pub number: usize,
    pub seed: u64,
    /// Key with which the member keeps its seat when its connection breaks.
    pub key: Option<SeatKey>,
}

/// An event noticed by a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberEvent {
    /// The member knows the whole room for the first time.
    Started { revision: Revision },
    /// The member sent a request to the room.
    Asked { cause: Cause },
    /// The member saw a change caused by a request.
    Seen { revision: Revision, cause: Cause },
    /// The member's request was refused.
    Refused { cause: Cause },
    /// After falling behind, the member knows the room again, without having seen the changes after `from`.
    Missed { from: Revision, to: Revision },
    /// The member sent a voice packet.
    Spoke,
    /// The member received a voice packet.
    Heard { sent_at: Time },
    /// The room ended its membership.
    Ended { words: &'static str },
}

/// A synthetic member; see the module.
pub struct SyntheticMember {
    replica: Replica,
    profile: Arc<Profile>,
    behaviour: Behaviour,
    walker: Walker,
    random: Random,
    place: usize,
    moved_at: Time,
    next_move: Time,
    next_action: Time,
    resting: bool,
    /// The last revision that it has seen.
    revision: Revision,
    started: bool,
    /// The member's voice. None when nobody in the crowd speaks.
    voice: Option<Voice>,
    records: VecDeque<MemberEvent>,
}

fn name(place: usize) -> String {
    format!("synthetic-{place}")
}

/// The member's first message.
#[must_use]
pub fn join(setup: &MemberSetup) -> Join {
    let shade = (setup.place * 47 % 256) as u8;
    let (room, name, colour) = (setup.room.clone(), name(setup.place), [shade, 128, 255 - shade]);
    Join { room, role: Role::Guest, name, colour, key: setup.key }
}

impl SyntheticMember {
    /// A member that joins now.
    #[must_use]
    pub fn new(now: Time, setup: &MemberSetup) -> Self {
        let MemberSetup { profile, place, members, number, seed, .. } = setup;
        let mut random = Random::new(seed.wrapping_add(*number as u64));
        let behaviour = profile.behaviour(*number);
        let walker = Walker::new(behaviour, *place, *members, profile, &mut random);
        let interval = profile.pose_interval();
        let phase = interval.mul_f64(random.unit());
        let mut member = Self {
            replica: Replica::new(now, interval),
            profile: Arc::clone(profile),
            behaviour,
            walker,
            random,
            place: *place,
            moved_at: now,
            next_move: now + phase,
            next_action: now,
            resting: false,
            revision: Revision::default(),
            started: false,
            voice: (profile.speaking_share > 0.0)
                .then(|| Voice::new(now, profile.speaks(*number), profile.packet_interval(), profile.packet_bytes)),
            records: VecDeque::new(),
        };
        member.think(now);
        member
    }

    /// The room's own number for it.
    #[must_use]
    pub const fn you(&self) -> Option<MemberId> {
        self.replica.you()
    }

    /// Returns the digest of the member's state.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.replica.digest()
    }

    /// Events that were not polled in time.
    #[must_use]
    pub const fn dropped_events(&self) -> u64 {
        self.replica.dropped_events()
    }

    /// The member has joined again over another connection.
    pub fn on_connected(&mut self) {
        self.replica.on_connected();
    }

    /// Stops movements and actions.
    pub const fn set_resting(&mut self) {
        self.resting = true;
    }

    fn think(&mut self, now: Time) {
        let [least, most] = self.profile.think_seconds;
        self.next_action = now + Span::from_secs_f64(least + (most - least) * self.random.unit());
    }

    /// A message of the room's arrived.
    pub fn on_message(&mut self, now: Time, bytes: &[u8]) -> Result<(), MessageError> {
        if is_voice(bytes) {
            self.records.extend(sent_at(bytes).map(|sent_at| MemberEvent::Heard { sent_at }));
            return Ok(());
        }
        self.replica.on_message(now, bytes)?;
        while let Some(event) = self.replica.poll_event() {
            self.on_event(&event);
        }
        Ok(())
    }

    fn on_event(&mut self, event: &ReplicaEvent) {
        let record = match event {
            ReplicaEvent::Synchronised { missed, .. } => {
                let (from, to) = (self.revision, self.replica.state().revision());
                self.revision = to;
                if std::mem::replace(&mut self.started, true) {
                    (*missed > 0).then_some(MemberEvent::Missed { from, to })
                } else {
                    Some(MemberEvent::Started { revision: to })
                }
            }
            ReplicaEvent::Changed { revision, change } => {
                self.revision = *revision;
                match change {
                    Change::Owner { cause, .. } | Change::Event { cause, .. } => {
                        Some(MemberEvent::Seen { revision: *revision, cause: *cause })
                    }
                    _ => None,
                }
            }
            ReplicaEvent::Refused { command } => self.cause(*command).map(|cause| MemberEvent::Refused { cause }),
            ReplicaEvent::Goodbye { reason } => Some(MemberEvent::Ended { words: reason.words() }),
        };
        self.records.extend(record);
    }

    fn cause(&self, command: CommandNumber) -> Option<Cause> {
        Some(Cause { by: self.replica.you()?, command })
    }

    /// When [`SyntheticMember::on_timeout`] or [`SyntheticMember::poll_transmit`] has something to do, if no message arrives before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let own = (!self.resting && self.started).then(|| self.next_move.min(self.next_action));
        let voice = self.voice.as_ref().filter(|_| !self.resting && self.started).map(Voice::poll_timeout);
        [own, voice, self.replica.poll_timeout()].into_iter().flatten().min()
    }

    /// Moves and acts, if it is time.
    pub fn on_timeout(&mut self, now: Time) {
        if self.resting || !self.started {
            return;
        }
        if now >= self.next_move {
            self.walker.advance(now.saturating_since(self.moved_at), &mut self.random);
            self.moved_at = now;
            let interval = self.profile.pose_interval();
            self.next_move = (self.next_move + interval).max(now + interval / 2);
            self.replica.set_body(&self.walker.avatar()).expect("walkers have poses");
            if let Some(object) = self.held() {
                // It may have been taken from it a moment ago.
                let _ = self.replica.set_object(object, &self.walker.held());
            }
        }
        if now >= self.next_action {
            let request = self.next_request();
            if let Ok(command) = self.replica.request(request)
                && let Some(cause) = self.cause(command)
            {
                self.records.push_back(MemberEvent::Asked { cause });
            }
            self.think(now);
        }
    }

    /// The object of its group.
    fn object(&self) -> Option<ObjectId> {
        let objects = self.replica.state().objects();
        let count = objects.len().max(1);
        self.replica.state().objects().nth(self.place / MEMBERS_PER_OBJECT % count).map(|(object, _)| object)
    }

    fn held(&self) -> Option<ObjectId> {
        let object = (self.behaviour == Behaviour::Collaborate).then(|| self.object()).flatten()?;
        (self.replica.state().owner(object).is_some() && self.replica.state().owner(object) == self.you())
            .then_some(object)
    }

    /// The next of its group that is here.
    fn mate(&self) -> Option<MemberId> {
        let (group, own) = (self.place / MEMBERS_PER_OBJECT * MEMBERS_PER_OBJECT, self.place % MEMBERS_PER_OBJECT);
        let names = (1..MEMBERS_PER_OBJECT).map(|step| name(group + (own + step) % MEMBERS_PER_OBJECT));
        let mut found = names.filter_map(|name| {
            let mut members = self.replica.state().members();
            members.find(|(_, member)| member.name == name).map(|(id, _)| id)
        });
        found.next()
    }

    fn next_request(&mut self) -> Request {
        let event = |payload| Request::Event { kind: EVENT_KIND, data: vec![0x5a; payload] };
        let object = match self.behaviour {
            Behaviour::Collaborate => self.object(),
            _ => None,
        };
        let Some(object) = object else { return event(self.profile.payload_bytes) };
        match self.replica.state().owner(object) {
            None => Request::Take { object },
            Some(owner) if Some(owner) == self.you() => {
                let mate = self.mate().filter(|_| self.random.unit() < 0.5);
                mate.map_or(Request::Release { object }, |to| Request::HandOver { object, to })
            }
            // It is another's turn.
            Some(_) => event(self.profile.payload_bytes),
        }
    }

    /// Appends the next message to `out`, if one is due. Call it until it answers false.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let voice = self.voice.as_mut().filter(|_| !self.resting && self.started);
        if let Some((message, is_heard)) = voice.and_then(|voice| voice.poll_transmit(now)) {
            out.extend_from_slice(&message);
            self.records.extend(is_heard.then_some(MemberEvent::Spoke));
            return true;
        }
        self.replica.poll_transmit(now, out)
    }

    pub fn poll_record(&mut self) -> Option<MemberEvent> {
        self.records.pop_front()
    }

    /// The last revision that it has seen.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }
}
