//! Tests of servers, a directory and a network between them, all of which may fail, in virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

use nearlight_rooms::{
    Avatar, EndReason, Join, ObjectId, Replica, ReplicaEvent, Request, Role, RoomConfig, SeatKey, default_objects,
};
use nearlight_units::{Span, Time};
use nearlight_wire::Pose;
use proptest::prelude::*;

use crate::*;

const OBJECT: ObjectId = ObjectId(1);
const STEP: Span = Span::from_millis(5);
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn id(number: usize) -> ServerId {
    ServerId::new(&format!("s{number}")).expect("a name")
}

fn at(x: f32) -> Pose {
    Pose { position: [x, 1.5, 0.0], ..Pose::default() }
}

#[derive(Debug)]
enum DirectoryRequest {
    Read(usize),
    Write(usize, EntryWrite),
}

#[derive(Debug)]
enum Answer {
    Read(usize, Option<(u64, Option<Entry>)>),
    Written(usize, Result<u64, WriteError>),
    Batch { to: usize, from: ServerId, bytes: Vec<u8> },
}

struct Member {
    replica: Replica,
    join: Join,
    /// The member's server and its connection there.
    connected: Option<(usize, Connection)>,
    x: f32,
    moves: bool,
    /// Whether the member was removed as silent while its server was cut off for long.
    gone: bool,
}

struct World {
    now: Time,
    /// The directory: revision and entry of the one room.
    entry: (u64, Option<Entry>),
    directory_is_up: bool,
    servers: Vec<Option<SharedRoom>>,
    /// Whether each server reaches neither the directory nor other servers.
    cut: Vec<bool>,
    requests: VecDeque<(Time, DirectoryRequest)>,
    answers: VecDeque<(Time, Answer)>,
    members: Vec<Member>,
    next_connection: u32,
    random: u64,
}

impl World {
    fn new(servers: usize) -> Self {
        let room = |number| Some(SharedRoom::new(Time::ZERO, id(number), RoomConfig::default(), default_objects()));
        Self {
            now: Time::ZERO,
            entry: (0, None),
            directory_is_up: true,
            servers: (0..servers).map(room).collect(),
            cut: vec![false; servers],
            requests: VecDeque::new(),
            answers: VecDeque::new(),
            members: Vec::new(),
            next_connection: 0,
            random: 88_172_645_463_325_252,
        }
    }

    /// Marsaglia's xorshift64 (Xorshift RNGs, section 3).
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn delay(&mut self) -> Time {
        self.now + Span::from_micros((self.draw() % 3_000) as i64)
    }

    fn join(&mut self, server: usize) -> usize {
        let number = self.members.len();
        let key = Some(SeatKey([number as u8 + 1; 16]));
        let name = format!("member {number}");
        let join = Join { room: "main".into(), role: Role::Guest, name, colour: [number as u8; 3], key };
        let replica = Replica::new(self.now, Span::from_millis(20));
        let x = number as f32;
        self.members.push(Member { replica, join, connected: None, x, moves: true, gone: false });
        self.connect(number, server);
        number
    }

    fn connect(&mut self, member: usize, server: usize) {
        self.next_connection += 1;
        let connection = Connection(self.next_connection);
        let join = self.members[member].join.clone();
        if let Some(room) = &mut self.servers[server] {
            room.on_join(self.now, connection, ADDRESS, join);
            self.members[member].connected = Some((server, connection));
            self.members[member].replica.on_connected();
        }
    }

    /// Connects a member whose server is gone or has ended the connection to the next live server.
    fn move_on(&mut self, member: usize) {
        let from = self.members[member].connected.take().map_or(0, |(server, _)| server);
        let count = self.servers.len();
        let next = (1..=count).map(|step| (from + step) % count).find(|server| self.servers[*server].is_some());
        if let Some(next) = next {
            self.connect(member, next);
        }
    }

    fn kill(&mut self, server: usize) {
        self.servers[server] = None;
        for member in 0..self.members.len() {
            if self.members[member].connected.is_some_and(|(at, _)| at == server) {
                self.move_on(member);
            }
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        let now = self.now;
        self.serve_directory();
        self.deliver();
        for server in 0..self.servers.len() {
            self.drive_server(server);
        }
        for member in 0..self.members.len() {
            self.drive_member(member);
        }
        let owners: Vec<_> = self.servers.iter().flatten().filter(|room| room.is_owner(now)).collect();
        assert!(owners.len() <= 1, "several own the room at {now:?}: {:?}", owners.iter().map(|room| room.owner()));
    }

    fn serve_directory(&mut self) {
        let now = self.now;
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.requests).into_iter().partition(|r| r.0 <= now);
        self.requests = later.into();
        for (_, request) in due {
            let from = match &request {
                DirectoryRequest::Read(from) | DirectoryRequest::Write(from, _) => *from,
            };
            let reaches = self.directory_is_up && !self.cut[from];
            let at = self.delay();
            let answer = match request {
                DirectoryRequest::Read(_) => Answer::Read(from, reaches.then(|| self.entry.clone())),
                DirectoryRequest::Write(..) if !reaches => Answer::Written(from, Err(WriteError::Unknown)),
                DirectoryRequest::Write(_, write) if write.expected != self.entry.0 => {
                    Answer::Written(from, Err(WriteError::Conflict))
                }
                DirectoryRequest::Write(_, write) => {
                    let entry = write.entry.map(|entry| Entry::parse(&entry.to_bytes()).expect("its own writing"));
                    self.entry = (self.entry.0 + 1, entry);
                    // One answer in sixteen is lost.
                    let is_lost = self.draw().is_multiple_of(16);
                    Answer::Written(from, if is_lost { Err(WriteError::Unknown) } else { Ok(self.entry.0) })
                }
            };
            let late = if reaches { Span::ZERO } else { Span::from_millis(300) };
            self.answers.push_back((at + late, answer));
        }
    }

    fn deliver(&mut self) {
        let now = self.now;
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.answers).into_iter().partition(|a| a.0 <= now);
        self.answers = later.into();
        for (_, answer) in due {
            match answer {
                Answer::Read(to, entry) => {
                    let Some(room) = &mut self.servers[to] else { continue };
                    match entry {
                        Some((revision, entry)) => room.on_entry(now, revision, entry),
                        None => room.on_read_failed(),
                    }
                }
                Answer::Written(to, answer) => {
                    if let Some(room) = &mut self.servers[to] {
                        room.on_written(now, answer);
                    }
                }
                Answer::Batch { to, from, bytes } => {
                    if let Some(room) = self.servers[to].as_mut().filter(|_| !self.cut[to]) {
                        room.on_batch(now, &from, Batch::parse(&bytes).expect("its own writing"));
                    }
                }
            }
        }
    }

    fn drive_server(&mut self, server: usize) {
        let now = self.now;
        let Some(room) = &mut self.servers[server] else { return };
        if room.poll_timeout(now) <= now {
            room.on_timeout(now);
        }
        let (mut requests, mut batches, mut told) = (Vec::new(), Vec::new(), Vec::new());
        if room.poll_read(now) {
            requests.push(DirectoryRequest::Read(server));
        }
        requests.extend(room.poll_write(now).map(|write| DirectoryRequest::Write(server, write)));
        batches.extend(std::iter::from_fn(|| room.poll_batch()));
        told.extend(std::iter::from_fn(|| room.poll_member()));
        assert_eq!(room.poll_problem(), None);
        for request in requests {
            let at = self.delay();
            self.requests.push_back((at, request));
        }
        for (to, batch) in batches {
            let to = (0..self.servers.len()).find(|number| id(*number) == to).expect("a server");
            // One batch in fifty is lost.
            if !self.cut[server] && self.directory_is_up && !self.draw().is_multiple_of(50) {
                let at = self.delay();
                self.answers.push_back((at, Answer::Batch { to, from: id(server), bytes: batch.to_bytes() }));
            }
        }
        for (connection, told) in told {
            let member = self.members.iter().position(|member| member.connected == Some((server, connection)));
            let Some(member) = member else { continue };
            match told {
                MemberOutput::Message(bytes) => {
                    self.members[member].replica.on_message(now, &bytes).expect("the room writes what can be read");
                }
                MemberOutput::Joined => {}
                MemberOutput::Refused(error) => panic!("{error}"),
                MemberOutput::Ended => self.move_on(member),
            }
        }
    }

    fn drive_member(&mut self, member: usize) {
        let now = self.now;
        let Member { replica, connected, x, moves, gone, .. } = &mut self.members[member];
        while let Some(event) = replica.poll_event() {
            if let ReplicaEvent::Goodbye { reason } = event {
                assert_eq!(reason, EndReason::Silent, "member {member} at {now:?}");
                *gone = true;
            }
        }
        if *moves {
            *x += 0.01;
            replica.set_body(&Avatar { head: at(*x), ..Avatar::default() }).expect("a pose");
            if let Some(you) = replica.you()
                && replica.state().owner(OBJECT) == Some(you)
            {
                replica.set_object(OBJECT, &at(*x)).expect("held");
            }
        }
        let mut out = Vec::new();
        while replica.poll_transmit(now, &mut out) {
            if let Some((server, connection)) = *connected
                && let Some(room) = &mut self.servers[server]
            {
                room.on_message(now, connection, &out);
            }
            out.clear();
        }
    }

    fn pass(&mut self, milliseconds: i64) {
        let until = self.now + Span::from_millis(milliseconds);
        while self.now < until {
            self.step();
        }
    }

    fn rest(&mut self) {
        self.members.iter_mut().for_each(|member| member.moves = false);
    }

    /// Returns how long it takes until all members agree with the owned room.
    fn time_to_agree(&mut self, most: Span) -> Span {
        let began = self.now;
        while !self.agree() {
            assert!(self.now - began < most, "they do not agree after {most:?}");
            self.step();
        }
        self.now - began
    }

    fn agree(&self) -> bool {
        let owner = self.servers.iter().flatten().find(|room| room.is_owner(self.now));
        let Some(room) = owner.and_then(SharedRoom::room) else { return false };
        let mut members = self.members.iter().filter(|member| !member.gone);
        members.all(|member| member.replica.digest() == room.digest())
    }

    fn owner(&self) -> usize {
        (0..self.servers.len())
            .find(|server| self.servers[*server].as_ref().is_some_and(|room| room.is_owner(self.now)))
            .expect("an owner")
    }

    fn take(&mut self, member: usize) {
        self.members[member].replica.request(Request::Take { object: OBJECT }).expect("joined");
    }
}

/// Returns a world with two members on each server. The second member of the first server holds the object.
fn gathered(servers: usize) -> World {
    let mut world = World::new(servers);
    world.join(0);
    world.join(0);
    world.pass(300);
    for server in 1..servers {
        world.join(server);
        world.join(server);
    }
    world.pass(1_000);
    world.take(1);
    world.pass(500);
    world
}

#[test]
fn members_of_two_servers_are_in_one_room_and_an_object_goes_from_one_to_the_other() {
    let mut world = gathered(2);
    let you = |world: &World, member: usize| world.members[member].replica.you();
    assert_eq!(world.owner(), 0, "who came first");
    let holder = world.members[3].replica.state().owner(OBJECT);
    assert!(holder.is_some() && holder == you(&world, 1), "the other server's members see it");
    let to = you(&world, 2).expect("joined");
    world.members[1].replica.request(Request::HandOver { object: OBJECT, to }).expect("held");
    world.pass(500);
    assert_eq!(world.members[0].replica.state().owner(OBJECT), Some(to));
    world.rest();
    assert!(world.time_to_agree(Span::from_secs(2)) <= Span::from_secs(1));
}

#[test]
fn what_members_do_waits_for_no_batch_between_servers() {
    let mut world = gathered(2);
    let release = Request::Release { object: OBJECT };
    world.members[1].replica.request(release.clone()).expect("held");
    world.pass(500);
    // A member of the other server takes and releases, and a member of the owner's sees it; then the reverse.
    for (actor, witness) in [(2, 0), (0, 2)] {
        let mut spans = Vec::new();
        for _ in 0..20 {
            world.take(actor);
            let (began, actor_id) = (world.now, world.members[actor].replica.you());
            while world.members[witness].replica.state().owner(OBJECT) != actor_id {
                assert!(world.now - began < Span::from_secs(2), "{actor} is never seen to hold it");
                world.step();
            }
            spans.push(world.now - began);
            world.members[actor].replica.request(release.clone()).expect("held");
            world.pass(300);
        }
        spans.sort();
        // Steps of the test, and up to 3 ms between servers.
        assert!(spans[spans.len() / 2] <= Span::from_millis(15), "from {actor} to {witness}: {spans:?}");
    }
}

#[test]
fn when_the_owner_is_killed_its_members_are_on_another_server_within_three_seconds_and_hold_what_they_held() {
    let mut world = gathered(3);
    let before: Vec<_> = world.members.iter().map(|member| member.replica.you()).collect();
    let killed_at = world.now;
    world.kill(0);
    while !world.servers.iter().flatten().any(|room| room.is_owner(world.now)) {
        world.step();
    }
    let taken_over = world.now - killed_at;
    assert!(taken_over < Span::from_secs(2), "{taken_over:?}");
    let object = |world: &World| {
        let room = world.servers[world.owner()].as_ref().and_then(SharedRoom::room).expect("a room");
        (room.state().owner(OBJECT), room.object(OBJECT).expect("there").position[0])
    };
    let (holder, x) = object(&world);
    assert_eq!(holder, before[1]);
    // What the holder moved in the last 200 ms, at 2 m/s and 5 mm of rounding.
    let moved_at_death = world.members[1].x - 0.01 * (taken_over.as_millis_f64() as f32 / 5.0);
    assert!(x >= moved_at_death - 0.4 - 0.005, "{x} against {moved_at_death}");
    world.rest();
    world.time_to_agree(Span::from_secs(3) - taken_over);
    let after: Vec<_> = world.members.iter().map(|member| member.replica.you()).collect();
    assert_eq!(before, after, "all have their seats");
    assert!(!world.members.iter().any(|member| member.gone));
    assert!((object(&world).1 - world.members[1].x).abs() < 0.005, "its holder carries it on");
}

#[test]
fn a_server_that_drains_hands_the_room_over_without_loss() {
    let mut world = gathered(2);
    let before: Vec<_> = world.members.iter().map(|member| member.replica.you()).collect();
    let at = world.now;
    if let Some(room) = &mut world.servers[0] {
        room.set_draining(at);
    }
    world.rest();
    while world.servers.iter().flatten().all(|room| room.owner() != Some((&id(1), 2))) {
        world.step();
    }
    assert!(world.now - at < Span::from_millis(500), "at once, not when a lease is over: {:?}", world.now - at);
    world.time_to_agree(Span::from_secs(1));
    let after: Vec<_> = world.members.iter().map(|member| member.replica.you()).collect();
    assert_eq!(before, after);
    world.pass(1_000);
    assert!(world.servers[0].as_ref().is_some_and(SharedRoom::is_over));
}

#[test]
fn a_directory_that_restarts_within_a_lease_is_not_noticed() {
    let mut world = gathered(2);
    let revision = world.members[2].replica.state().revision();
    world.directory_is_up = false;
    world.pass(700);
    world.directory_is_up = true;
    world.pass(700);
    assert_eq!(world.members[2].replica.state().revision().term(), revision.term());
    world.rest();
    assert!(world.time_to_agree(Span::from_secs(2)) <= Span::from_secs(1));
}

#[test]
fn a_directory_that_is_away_for_long_stops_the_room_which_then_goes_on() {
    let mut world = gathered(2);
    world.directory_is_up = false;
    world.pass(20_000);
    assert!(!world.servers.iter().flatten().any(|room| room.is_owner(world.now)));
    world.directory_is_up = true;
    world.pass(500);
    world.rest();
    assert!(world.time_to_agree(Span::from_secs(2)) <= Span::from_millis(500));
    assert_eq!(world.members[1].replica.state().owner(OBJECT), world.members[1].replica.you());
}

#[test]
fn when_a_partition_of_five_seconds_heals_all_agree_within_one() {
    for cut in [0, 1, 2] {
        let mut world = gathered(3);
        world.cut[cut] = true;
        world.pass(5_000);
        let takes_over = cut == 0;
        assert_eq!(world.owner() != 0, takes_over, "the majority goes on");
        world.cut[cut] = false;
        world.rest();
        let healed = world.time_to_agree(Span::from_secs(2));
        assert!(healed <= Span::from_secs(1), "server {cut}: {healed:?}");
        assert!(!world.members.iter().any(|member| member.gone));
    }
}

#[test]
fn who_asks_to_give_a_room_up_owns_it_no_longer_whatever_is_answered() {
    for answer in [None, Some(WriteError::Unknown), Some(WriteError::Conflict)] {
        let mut lease = Lease::new(id(0));
        lease.on_entry(Time::ZERO, 0, None);
        lease.ask(Time::ZERO, 1, false);
        lease.on_written(Time::ZERO, Ok(1));
        assert!(lease.is_owner(Time::ZERO));
        lease.ask(Time::ZERO, 1, true);
        if let Some(error) = answer {
            lease.on_written(Time::ZERO, Err(error));
        }
        // After a conflict it is known that the room was not given up: the entry that is read next decides.
        assert_eq!(lease.is_owner(Time::ZERO), answer == Some(WriteError::Conflict), "{answer:?}");
    }
}

#[derive(Clone, Debug)]
enum Event {
    Kill(usize),
    Start(usize),
    Cut(usize, bool),
    Directory(bool),
    Join(usize),
    Take(usize),
    Release(usize),
    Drain(usize),
    Pass(i64),
}

fn an_event() -> impl Strategy<Value = Event> {
    let server = 0..3_usize;
    let member = 0..8_usize;
    prop_oneof![
        1 => server.clone().prop_map(Event::Kill),
        2 => server.clone().prop_map(Event::Start),
        3 => (server.clone(), any::<bool>()).prop_map(|(server, cut)| Event::Cut(server, cut)),
        1 => any::<bool>().prop_map(Event::Directory),
        3 => server.clone().prop_map(Event::Join),
        4 => member.clone().prop_map(Event::Take),
        2 => member.prop_map(Event::Release),
        1 => server.prop_map(Event::Drain),
        8 => (1..2_500_i64).prop_map(Event::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_fails_one_owns_the_room_and_all_agree_in_the_end(events in prop::collection::vec(an_event(), 0..40)) {
        let mut world = World::new(3);
        let mut restarts = BTreeMap::new();
        world.join(0);
        for event in events {
            match event {
                Event::Kill(server) => world.kill(server),
                Event::Start(server) => {
                    // A program that starts again has another name, which here is another place.
                    if world.servers[server].is_none() && !restarts.contains_key(&server) {
                        restarts.insert(server, world.servers.len());
                        let number = world.servers.len();
                        let room = SharedRoom::new(world.now, id(number), RoomConfig::default(), default_objects());
                        world.servers.push(Some(room));
                        world.cut.push(false);
                    }
                }
                Event::Cut(server, cut) => world.cut[server] = cut,
                Event::Directory(is_up) => world.directory_is_up = is_up,
                Event::Join(server) => {
                    if world.members.len() < 8 && world.servers[server].is_some() {
                        world.join(server);
                    }
                }
                Event::Take(member) | Event::Release(member) if member >= world.members.len() => {}
                Event::Take(member) => {
                    let _ = world.members[member].replica.request(Request::Take { object: OBJECT });
                }
                Event::Release(member) => {
                    let _ = world.members[member].replica.request(Request::Release { object: OBJECT });
                }
                Event::Drain(server) => {
                    let now = world.now;
                    if let Some(room) = &mut world.servers[server] {
                        room.set_draining(now);
                    }
                    world.pass(500);
                    world.kill(server);
                }
                Event::Pass(milliseconds) => world.pass(milliseconds),
            }
        }
        // Somebody has to be there.
        let number = world.servers.len();
        world.servers.push(Some(SharedRoom::new(world.now, id(number), RoomConfig::default(), default_objects())));
        world.cut = vec![false; world.servers.len()];
        world.directory_is_up = true;
        for member in 0..world.members.len() {
            if world.members[member].connected.is_none() {
                world.connect(member, number);
            }
        }
        world.rest();
        world.pass(10_000);
        world.time_to_agree(Span::from_secs(1));
    }
}
