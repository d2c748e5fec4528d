//! Fuzzing of a room, its members, and a network between them that loses, delays, reorders and repeats messages. After any sequence of
//! operations all members must agree.

use std::collections::{BTreeMap, VecDeque};

use arbitrary::Arbitrary;
use nearlight_units::{Bitrate, Span, Time};
use nearlight_wire::Pose;

use crate::message::{Downstream, Upstream};
use crate::{
    Avatar, Change, Join, MAX_MESSAGE_BYTES, MAX_SNAPSHOT_BYTES, MemberId, ObjectId, Replica, ReplicaEvent, Request,
    Role, Room, RoomConfig, RoomEvent, SeatKey,
};

/// One step of a run.
#[derive(Clone, Debug, Arbitrary)]
pub enum Operation {
    Join {
        role: u8,
    },
    /// The member leaves, and the room is informed.
    Leave {
        who: u8,
    },
    /// The member vanishes without a message.
    Vanish {
        who: u8,
    },
    Body {
        who: u8,
        at: [i8; 3],
        turn: i8,
        hands: u8,
    },
    Joints {
        who: u8,
        at: i8,
    },
    Take {
        who: u8,
        object: u8,
    },
    Move {
        who: u8,
        object: u8,
        at: [i8; 3],
    },
    Release {
        who: u8,
        object: u8,
    },
    HandOver {
        who: u8,
        object: u8,
        to: u8,
    },
    Event {
        who: u8,
        kind: u16,
        length: u8,
    },
    SetRole {
        who: u8,
        member: u8,
        role: u8,
    },
    Remove {
        who: u8,
        member: u8,
    },
    Network {
        who: u8,
        kilobits: u16,
        round_trip: u8,
    },
    Block {
        who: u8,
    },
    /// These bytes arrive at the room as if the member had sent them.
    Garbage {
        who: u8,
        bytes: [u8; 24],
    },
    /// Parses a message of the member with one byte changed.
    Damage {
        who: u8,
        place: u16,
        value: u8,
    },
    /// Sets how many of 256 messages the network loses and repeats, and the longest delay in milliseconds.
    Weather {
        loss: u8,
        repeats: u8,
        delay: u8,
    },
    /// Time passes, in milliseconds.
    Pass {
        milliseconds: u8,
    },
    /// The member's connection is replaced by another one, over which the member joins again.
    Reconnect {
        who: u8,
    },
    /// A checkpoint is written.
    Save,
    /// Another program continues the room from the last checkpoint, and all members join again.
    Continue,
}

const OBJECTS: u32 = 4;
const MAX_MEMBERS_IN_RUN: usize = 8;
const STEP: Span = Span::from_millis(5);
/// Time for vanished members to time out and for all losses to be repaired.
const SETTLING: Span = Span::from_secs(30);

struct Actor {
    id: MemberId,
    replica: Replica,
    join: Join,
    /// The room knows it.
    is_member: bool,
    /// Whether the member still runs.
    is_alive: bool,
    blocked: bool,
    last: Vec<u8>,
    seen: u64,
}

enum Destination {
    Room(MemberId),
    Member(MemberId),
}

/// The state of a run.
pub struct World {
    now: Time,
    room: Room,
    actors: Vec<Actor>,
    flying: VecDeque<(Time, Destination, Vec<u8>)>,
    weather: (u8, u8, u8),
    random: u64,
    /// The change of each revision, as the first replica reported it.
    log: BTreeMap<u64, Change>,
    checkpoint: Option<Vec<u8>>,
    joins: u128,
}

impl World {
    fn new() -> Self {
        let objects: Vec<_> = (0..OBJECTS).map(|object| (ObjectId(object), Pose::default())).collect();
        let room = Room::new(Time::ZERO, RoomConfig::default(), &objects).expect("poses");
        Self {
            now: Time::ZERO,
            room,
            actors: Vec::new(),
            flying: VecDeque::new(),
            weather: (0, 0, 20),
            random: 1,
            log: BTreeMap::new(),
            checkpoint: None,
            joins: 0,
        }
    }

    /// Marsaglia's xorshift64 (Xorshift RNGs, section 3).
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn send(&mut self, to: impl Fn() -> Destination, bytes: &[u8]) {
        let (loss, repeats, delay) = self.weather;
        let copies = 1 + u64::from(self.draw() % 256 < u64::from(repeats));
        for _ in 0..copies {
            if self.draw() % 256 >= u64::from(loss) {
                let delay = Span::from_micros((self.draw() % (u64::from(delay) * 1_000 + 1)) as i64);
                self.flying.push_back((self.now + delay, to(), bytes.to_vec()));
            }
        }
    }

    fn deliver(&mut self) {
        let (due, later) = std::mem::take(&mut self.flying).into_iter().partition(|packet| packet.0 <= self.now);
        self.flying = later;
        let mut due: VecDeque<(Time, Destination, Vec<u8>)> = due;
        due.make_contiguous().sort_by_key(|packet| packet.0);
        for (_, to, bytes) in due {
            match to {
                Destination::Room(member) => self.room.on_message(self.now, member, &bytes),
                Destination::Member(member) => {
                    let actor = self.actors.iter_mut().find(|actor| actor.id == member && actor.is_alive);
                    if let Some(actor) = actor {
                        actor.replica.on_message(self.now, &bytes).expect("the room writes what can be read");
                    }
                }
            }
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        self.deliver();
        self.room.on_timeout(self.now);
        let mut out = Vec::new();
        for _ in 0..10_000 {
            out.clear();
            let Some(member) = self.room.poll_transmit(self.now, &mut out) else { break };
            assert!(out.len() <= MAX_MESSAGE_BYTES.max(MAX_SNAPSHOT_BYTES), "{} bytes", out.len());
            self.send(|| Destination::Member(member), &out);
        }
        assert_eq!(self.room.poll_transmit(self.now, &mut out), None, "the room says ever more");
        while let Some(event) = self.room.poll_event() {
            if let RoomEvent::Ended { member, .. } = event {
                for actor in self.actors.iter_mut().filter(|actor| actor.id == member) {
                    (actor.is_member, actor.is_alive) = (false, false);
                }
            }
        }
        self.actors.retain(|actor| actor.is_member);
        for place in 0..self.actors.len() {
            self.drive(place);
        }
    }

    fn drive(&mut self, place: usize) {
        let (now, actor) = (self.now, &mut self.actors[place]);
        if !actor.is_alive {
            return;
        }
        while let Some(event) = actor.replica.poll_event() {
            match event {
                ReplicaEvent::Changed { revision, change } => {
                    assert!(revision.0 > actor.seen, "changes come in order, each once");
                    actor.seen = revision.0;
                    let known = self.log.entry(revision.0).or_insert_with(|| change.clone());
                    assert_eq!(*known, change, "revision {}", revision.0);
                }
                ReplicaEvent::Synchronised { you, .. } => assert_eq!(you, actor.id),
                ReplicaEvent::Refused { .. } | ReplicaEvent::Goodbye { .. } => {}
            }
        }
        let mut messages = Vec::new();
        for _ in 0..10 {
            let mut out = Vec::new();
            if !actor.replica.poll_transmit(now, &mut out) {
                break;
            }
            messages.push(out);
        }
        assert!(messages.len() < 10, "a member says ever more");
        let id = actor.id;
        for message in messages {
            self.actors[place].last.clone_from(&message);
            self.send(|| Destination::Room(id), &message);
        }
    }

    fn actor(&mut self, who: u8) -> Option<&mut Actor> {
        let count = self.actors.len();
        self.actors.get_mut(usize::from(who).checked_rem(count)?).filter(|actor| actor.is_alive)
    }

    fn member(&self, who: u8) -> MemberId {
        let place = usize::from(who).checked_rem(self.actors.len());
        place.map_or(MemberId(9_999), |place| self.actors[place].id)
    }

    /// Returns a key that no other member has.
    fn next_key(&mut self) -> SeatKey {
        self.joins += 1;
        SeatKey(self.joins.to_be_bytes())
    }

    /// Reconnects a member. Messages in flight on the old connection are lost.
    fn reconnect(&mut self, place: usize) {
        let now = self.now;
        let old = self.actors[place].id;
        self.flying.retain(|(_, to, _)| !matches!(to, Destination::Room(id) | Destination::Member(id) if *id == old));
        let Ok(id) = self.room.on_join(now, &self.actors[place].join, self.actors[place].join.role) else { return };
        let actor = &mut self.actors[place];
        (actor.id, actor.blocked) = (id, false);
        actor.replica.on_connected();
    }

    /// Continues the room from the checkpoint. Later changes are lost, and members who joined later join anew.
    fn continue_room(&mut self) {
        let Some(checkpoint) = self.checkpoint.take() else { return };
        let term = self.room.state().revision().term() + 1;
        self.room =
            Room::restore(self.now, RoomConfig::default(), &checkpoint, term).expect("the room's own checkpoint");
        self.flying.clear();
        self.actors.retain(|actor| actor.is_alive);
        (0..self.actors.len()).for_each(|place| self.reconnect(place));
    }

    fn ask(&mut self, who: u8, request: Request) {
        if let Some(actor) = self.actor(who) {
            let _ = actor.replica.request(request);
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each operation")]
    fn operate(&mut self, operation: &Operation) {
        let now = self.now;
        let object = |object: u8| ObjectId(u32::from(object) % (OBJECTS + 1));
        let role = |role: u8| Role::ALL[usize::from(role) % Role::ALL.len()];
        let pose = |at: [i8; 3], turn: i8| Pose {
            position: at.map(|axis| f32::from(axis) / 7.0),
            orientation: [0.0, f32::from(turn) / 128.0, 0.1, 1.0],
        };
        match *operation {
            Operation::Join { role: wanted } => {
                if self.actors.len() == MAX_MEMBERS_IN_RUN {
                    return;
                }
                let name = format!("member {wanted}");
                let join = Join {
                    room: "main".into(),
                    role: role(wanted),
                    name,
                    colour: [wanted; 3],
                    key: Some(self.next_key()),
                };
                let join = Join::parse(&join.to_bytes()).expect("its own writing");
                let id = self.room.on_join(now, &join, join.role).expect("room");
                let replica = Replica::new(now, Span::from_millis(20));
                let (is_member, is_alive, blocked) = (true, true, false);
                self.actors.push(Actor { id, replica, join, is_member, is_alive, blocked, last: Vec::new(), seen: 0 });
            }
            Operation::Leave { who } => {
                let member = self.member(who);
                self.room.on_leave(now, member);
            }
            Operation::Vanish { who } => {
                if let Some(actor) = self.actor(who) {
                    actor.is_alive = false;
                }
            }
            Operation::Body { who, at, turn, hands } => {
                let hand = |bit: u8| {
                    (hands & bit != 0).then(|| pose(at.map(|axis| axis.wrapping_add(9)), turn.wrapping_neg()))
                };
                let avatar = Avatar { head: pose(at, turn), left: hand(1), right: hand(2), joints: None };
                if let Some(actor) = self.actor(who) {
                    actor.replica.set_body(&avatar).expect("poses");
                }
            }
            Operation::Joints { who, at } => {
                let head = pose([at, 2, 3], at);
                let joints = Some(Box::new([[f32::from(at) / 1_000.0; 3]; 50]));
                let avatar = Avatar { left: Some(head), right: (at > 0).then_some(head), head, joints };
                if let Some(actor) = self.actor(who) {
                    actor.replica.set_body(&avatar).expect("poses");
                }
            }
            Operation::Move { who, object: moved, at } => {
                if let Some(actor) = self.actor(who) {
                    let _ = actor.replica.set_object(object(moved), &pose(at, 0));
                }
            }
            Operation::Take { who, object: wanted } => self.ask(who, Request::Take { object: object(wanted) }),
            Operation::Release { who, object: held } => self.ask(who, Request::Release { object: object(held) }),
            Operation::HandOver { who, object: held, to } => {
                let to = self.member(to);
                self.ask(who, Request::HandOver { object: object(held), to });
            }
            Operation::Event { who, kind, length } => {
                self.ask(who, Request::Event { kind, data: vec![7; usize::from(length)] });
            }
            Operation::SetRole { who, member, role: wanted } => {
                let member = self.member(member);
                self.ask(who, Request::SetRole { member, role: role(wanted) });
            }
            Operation::Remove { who, member } => {
                let member = self.member(member);
                self.ask(who, Request::Remove { member });
            }
            Operation::Network { who, kilobits, round_trip } => {
                let member = self.member(who);
                let round_trip = Span::from_millis(i64::from(round_trip));
                self.room.on_network(member, Bitrate::from_kbps(u64::from(kilobits)), round_trip);
            }
            Operation::Block { who } => {
                let member = self.member(who);
                if let Some(actor) = self.actor(who) {
                    actor.blocked = !actor.blocked;
                    if actor.blocked { self.room.on_blocked(member) } else { self.room.on_writable(member) }
                }
            }
            Operation::Garbage { who, bytes } => {
                // A replica must not panic at garbage from a room either.
                let _ = Replica::new(now, Span::from_millis(20)).on_message(now, &bytes);
                // Bytes that can be parsed are a member's lies about itself, which harm only that member.
                if Upstream::parse(&bytes).is_err() {
                    let member = self.member(who);
                    self.room.on_message(now, member, &bytes);
                }
            }
            Operation::Damage { who, place, value } => {
                let Some(mut bytes) = self.actor(who).map(|actor| actor.last.clone()) else { return };
                if let Some(byte) = bytes.get_mut(usize::from(place)) {
                    *byte ^= value;
                    let _ = Upstream::parse(&bytes);
                    let _ = Downstream::parse(&bytes);
                }
            }
            Operation::Weather { loss, repeats, delay } => self.weather = (loss, repeats, delay),
            Operation::Reconnect { who } => {
                if let Some(place) = usize::from(who).checked_rem(self.actors.len())
                    && self.actors[place].is_alive
                {
                    self.reconnect(place);
                }
            }
            Operation::Save => {
                let mut checkpoint = Vec::new();
                self.room.write_checkpoint(&mut checkpoint);
                self.checkpoint = Some(checkpoint);
            }
            Operation::Continue => self.continue_room(),
            Operation::Pass { milliseconds } => {
                for _ in 0..=i64::from(milliseconds) / 5 {
                    self.step();
                }
            }
        }
    }

    /// Makes the network perfect, waits, and checks that all remaining members agree.
    fn settle(&mut self) {
        self.weather = (0, 0, 30);
        for place in 0..self.actors.len() {
            self.actors[place].blocked = false;
            self.room.on_writable(self.actors[place].id);
        }
        let until = self.now + SETTLING;
        while self.now < until {
            self.step();
        }
        let expected = self.room.digest();
        for actor in &self.actors {
            let Actor { id, replica, .. } = actor;
            assert_eq!(replica.state(), self.room.state(), "{id:?} knows another room");
            for (object, _) in self.room.state().objects() {
                assert_eq!(replica.object(object), self.room.object(object), "{object:?} as {id:?} sees it");
            }
            for (member, _) in self.room.state().members().filter(|(_, member)| member.role.acts()) {
                let seen = replica.seen(member).map(|seen| seen.avatar);
                assert_eq!(seen, self.room.body(member), "{member:?} as {id:?} sees it");
            }
            assert_eq!(replica.digest(), expected, "{id:?} sees another room");
        }
    }
}

/// Runs all operations and checks that all members agree in the end.
pub fn run(operations: &[Operation]) {
    let mut world = World::new();
    for operation in operations {
        world.operate(operation);
    }
    world.settle();
}
