use arbitrary::{Arbitrary as _, Unstructured};
use nearlight_units::{Bitrate, Span, Time};
use nearlight_wire::Pose;
use proptest::prelude::*;

use crate::fuzzing::{Operation, run};
use crate::*;

const OBJECT: ObjectId = ObjectId(1);
/// Largest message in bytes that fits into a datagram on any QUIC path. Only a single body with its fingers may be longer.
const DATAGRAM: usize = 1_140;

/// A room and members over a network without loss, whose delay is one step.
struct SimulatedRoom {
    now: Time,
    room: Room,
    members: Vec<(MemberId, Replica)>,
    /// Bytes of poses and other messages to each member.
    received: Vec<usize>,
    events: Vec<RoomEvent>,
}

impl SimulatedRoom {
    fn new(roles: &[Role]) -> Self {
        let objects = [(OBJECT, Pose::default()), (ObjectId(2), Pose::default())];
        let room = Room::new(Time::ZERO, RoomConfig::default(), &objects).expect("poses");
        let mut simulation =
            Self { now: Time::ZERO, room, members: Vec::new(), received: Vec::new(), events: Vec::new() };
        for role in roles {
            simulation.join(*role);
        }
        simulation.pass(200);
        simulation
    }

    fn join(&mut self, role: Role) -> MemberId {
        let join = Join { room: "main".into(), role, name: format!("{role:?}"), colour: [1, 2, 3], key: None };
        let id = self.room.on_join(self.now, &join, role).expect("a place");
        self.members.push((id, Replica::new(self.now, Span::from_millis(50))));
        self.received.push(0);
        id
    }

    fn step(&mut self) {
        self.now += Span::from_millis(5);
        for (id, replica) in &mut self.members {
            let mut out = Vec::new();
            while replica.poll_transmit(self.now, &mut out) {
                self.room.on_message(self.now, *id, &out);
                out.clear();
            }
        }
        self.room.on_timeout(self.now);
        let mut out = Vec::new();
        while let Some(to) = self.room.poll_transmit(self.now, &mut out) {
            assert!(Lane::of(&out) == Lane::Stream || out.len() <= DATAGRAM, "{} bytes of poses", out.len());
            if let Some(place) = self.members.iter().position(|(id, _)| *id == to) {
                self.received[place] += out.len();
                self.members[place].1.on_message(self.now, &out).expect("what the room writes can be read");
            }
            out.clear();
        }
        self.events.extend(std::iter::from_fn(|| self.room.poll_event()));
    }

    fn pass(&mut self, milliseconds: i64) {
        for _ in 0..milliseconds / 5 {
            self.step();
        }
    }

    fn ask(&mut self, place: usize, request: Request) -> CommandNumber {
        self.members[place].1.request(request).expect("joined")
    }

    fn events_of(&mut self, place: usize) -> Vec<ReplicaEvent> {
        std::iter::from_fn(|| self.members[place].1.poll_event()).collect()
    }

    fn assert_agreement(&self) {
        for (id, replica) in &self.members {
            assert_eq!(replica.state(), self.room.state(), "{id:?}");
            assert_eq!(replica.digest(), self.room.digest(), "{id:?}");
        }
    }

    fn ended(&self, member: MemberId) -> Option<EndReason> {
        self.events.iter().find_map(|event| match event {
            RoomEvent::Ended { member: ended, reason } if *ended == member => *reason,
            _ => None,
        })
    }
}

fn at(x: f32) -> Pose {
    Pose { position: [x, 1.5, 0.0], ..Pose::default() }
}

fn body(x: f32) -> Avatar {
    Avatar { head: at(x), left: Some(at(x - 0.3)), right: Some(at(x + 0.3)), joints: None }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_all_agree_in_the_end(bytes in prop::collection::vec(any::<u8>(), 0..3_000)) {
        let mut source = Unstructured::new(&bytes);
        let mut operations = vec![Operation::Join { role: 0 }, Operation::Join { role: 1 }, Operation::Join { role: 1 }];
        while !source.is_empty() && let Ok(operation) = Operation::arbitrary(&mut source) {
            operations.push(operation);
        }

        run(&operations);
    }

    #[test]
    fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), kind in 0x11_u8..0x18) {
        let mut bytes = bytes;
        bytes.insert(0, kind);
        let mut simulation = SimulatedRoom::new(&[Role::Guest]);
        let (id, replica) = &mut simulation.members[0];
        simulation.room.on_message(simulation.now, *id, &bytes);
        let _ = replica.on_message(simulation.now, &bytes);
        let _ = Join::parse(&bytes);
        let _ = Room::restore(simulation.now, RoomConfig::default(), &bytes, 1);
    }
}

#[test]
fn of_two_that_take_at_once_one_wins_everywhere() {
    let mut simulation = SimulatedRoom::new(&[Role::Guest, Role::Guest, Role::Spectator]);
    let wishes = [0, 1].map(|place| simulation.ask(place, Request::Take { object: OBJECT }));
    simulation.pass(100);
    let winner = simulation.room.state().owner(OBJECT).expect("somebody");
    simulation.assert_agreement();
    let loser = usize::from(simulation.members[0].0 == winner);
    let refused = ReplicaEvent::Refused { command: wishes[loser] };
    assert!(simulation.events_of(loser).contains(&refused));
    assert!(!simulation.events_of(1 - loser).iter().any(|event| matches!(event, ReplicaEvent::Refused { .. })));
}

#[test]
fn an_object_goes_from_hand_to_hand_and_stays_where_it_is_left() {
    let mut simulation = SimulatedRoom::new(&[Role::Guest, Role::Guest, Role::Guest]);
    let second = simulation.members[1].0;
    simulation.ask(0, Request::Take { object: OBJECT });
    simulation.pass(50);
    simulation.members[0].1.set_object(OBJECT, &at(1.0)).expect("held");
    simulation.pass(500);
    assert_eq!(simulation.members[2].1.object(OBJECT), Some(at(1.0)));
    simulation.ask(0, Request::HandOver { object: OBJECT, to: second });
    simulation.pass(50);
    assert_eq!(simulation.members[0].1.set_object(OBJECT, &at(9.0)), Err(RequestError::NotHeld));
    simulation.members[1].1.set_object(OBJECT, &at(2.0)).expect("held");
    simulation.ask(1, Request::Release { object: OBJECT });
    // Moved after it was let go, before the room knows: not where it is.
    let _ = simulation.members[1].1.set_object(OBJECT, &at(3.0));
    simulation.pass(1_000);
    assert_eq!(simulation.room.state().owner(OBJECT), None);
    assert!(simulation.members.iter().all(|(_, replica)| replica.object(OBJECT) == Some(at(2.0))));
    simulation.assert_agreement();
}

/// Returns a body with all fingers spread, differently for each `number` and moment.
fn hands(now: Time, number: usize) -> Avatar {
    let spread = (now.as_nanos() / 1_000_000 % 997) as f32 / 1e3 + number as f32 * 0.1;
    let joints = std::array::from_fn(|joint| [spread * joint as f32 / 50.0, spread.sin(), -spread]);
    Avatar { joints: Some(Box::new(joints)), ..body(number as f32 * 0.2) }
}

#[test]
fn poses_of_many_hands_fit_into_datagrams_and_each_has_its_turn() {
    let mut simulation = SimulatedRoom::new(&[Role::Guest; 9]);
    let mut newest = [Time::ZERO; 9];
    for _ in 0..600 {
        for place in 1..9 {
            let avatar = hands(simulation.now, place);
            simulation.members[place].1.set_body(&avatar).expect("poses");
        }
        // The largest message is checked at every step.
        simulation.step();
        for (place, newest) in newest.iter_mut().enumerate().skip(1) {
            let seen = simulation.members[0].1.seen(simulation.members[place].0);
            *newest = seen.map_or(*newest, |seen| seen.received_at);
            let age = simulation.now - *newest;
            assert!(
                simulation.now < Time::from_millis(1_000) || age < Span::from_millis(700),
                "{place} was seen {age} ago"
            );
        }
    }
    simulation.pass(1_000);
    simulation.assert_agreement();
}

#[test]
fn who_comes_late_gets_everything_in_one_message() {
    let mut simulation = SimulatedRoom::new(&[Role::Host, Role::Guest]);
    simulation.members[1].1.set_body(&body(2.0)).expect("poses");
    for kind in 0..50 {
        simulation.ask(1, Request::Event { kind, data: vec![1] });
    }
    simulation.ask(0, Request::Take { object: OBJECT });
    simulation.pass(2_000);
    let late = simulation.join(Role::Spectator);
    let mut out = Vec::new();
    let mut to = simulation.room.poll_transmit(simulation.now, &mut out).expect("something");
    while to != late {
        out.clear();
        to = simulation.room.poll_transmit(simulation.now, &mut out).expect("something for it");
    }
    assert_eq!(Lane::of(&out), Lane::Stream);
    let neighbour = simulation.members[1].0;
    let replica = &mut simulation.members[2].1;
    replica.on_message(simulation.now, &out).expect("a snapshot");
    assert_eq!(replica.digest(), simulation.room.digest());
    assert_eq!(replica.seen(neighbour).expect("a body").avatar, body(2.0));
}

#[test]
fn objects_of_those_who_leave_are_free() {
    let mut simulation = SimulatedRoom::new(&[Role::Guest, Role::Guest]);
    simulation.ask(0, Request::Take { object: OBJECT });
    simulation.pass(50);
    let first = simulation.members.remove(0).0;
    simulation.pass(4_000);
    assert_eq!(simulation.room.state().owner(OBJECT), Some(first), "an outage of four seconds");
    simulation.pass(2_000);
    assert_eq!(simulation.ended(first), Some(EndReason::Silent));
    assert_eq!(simulation.room.state().owner(OBJECT), None);
    simulation.assert_agreement();
}

#[test]
fn roles_decide_who_may_do_what() {
    let mut simulation = SimulatedRoom::new(&[Role::Host, Role::Guest, Role::Spectator]);
    let ids: Vec<MemberId> = simulation.members.iter().map(|(id, _)| *id).collect();
    simulation.ask(2, Request::Take { object: OBJECT });
    simulation.ask(1, Request::Remove { member: ids[0] });
    simulation.ask(1, Request::SetRole { member: ids[2], role: Role::Host });
    simulation.members[2].1.set_body(&body(1.0)).expect("poses");
    simulation.pass(200);
    assert_eq!((simulation.room.state().owner(OBJECT), simulation.room.state().members().len()), (None, 3));
    assert_eq!(simulation.members[0].1.seen(ids[2]), None, "who only watches is not seen");
    simulation.ask(1, Request::Take { object: OBJECT });
    simulation.pass(100);
    simulation.ask(0, Request::Take { object: OBJECT });
    simulation.ask(0, Request::SetRole { member: ids[2], role: Role::Guest });
    simulation.ask(0, Request::Remove { member: ids[1] });
    simulation.pass(1_000);
    assert_eq!(simulation.room.state().owner(OBJECT), Some(ids[0]), "a host takes what others hold");
    assert_eq!(simulation.ended(ids[1]), Some(EndReason::Removed));
    assert!(simulation.events_of(1).contains(&ReplicaEvent::Goodbye { reason: EndReason::Removed }));
    simulation.members.remove(1);
    assert_eq!(simulation.members[0].1.seen(ids[2]).map(|seen| seen.avatar), Some(body(1.0)));
    simulation.assert_agreement();
}

/// The join of a client with this key, from an address that ends with `address`.
fn join_from(
    simulation: &mut SimulatedRoom,
    address: u8,
    key: Option<u8>,
    (name, role): (&str, Role),
) -> Result<MemberId, JoinError> {
    let key = key.map(|key| SeatKey([key; 16]));
    let join = Join { room: "main".into(), role, name: name.into(), colour: [0; 3], key };
    let address = std::net::IpAddr::from([192, 0, 2, address]);
    simulation.room.on_join_from(simulation.now, Some(address), &join, simulation.room.grantable(role))
}

#[test]
fn a_removed_member_does_not_come_back_with_its_key_or_under_another() {
    let mut simulation = SimulatedRoom::new(&[Role::Host]);
    let host = simulation.members[0].0;
    let (own, other) = (("Eve", Role::Guest), ("Host", Role::Guest));
    let eve = join_from(&mut simulation, 1, Some(1), own).expect("a place");
    let neighbour = join_from(&mut simulation, 1, Some(2), own).expect("a place");
    let unnamed = join_from(&mut simulation, 3, None, own).expect("a place");
    for member in [eve, unnamed] {
        simulation.ask(0, Request::Remove { member });
    }
    simulation.pass(200);
    for (address, key) in [(1, Some(1)), (2, Some(1)), (3, None)] {
        assert_eq!(join_from(&mut simulation, address, key, other), Err(JoinError::Removed), "{address} {key:?}");
    }
    for (address, key) in [(1, Some(9)), (1, None), (3, Some(9))] {
        let refused = join_from(&mut simulation, address, key, other);
        assert!(matches!(refused, Err(JoinError::AddressHold(wait)) if wait <= Span::from_secs(60)), "{refused:?}");
    }
    assert_eq!(join_from(&mut simulation, 1, Some(2), own), Ok(neighbour), "who has a seat keeps it");
    assert!(join_from(&mut simulation, 1, Some(8), ("Boss", Role::Host)).is_ok(), "the owner's token opens the room");
    assert!(join_from(&mut simulation, 2, Some(7), own).is_ok(), "others are not concerned");
    simulation.now += Span::from_secs(60);
    assert!(join_from(&mut simulation, 1, Some(9), own).is_ok());
    assert_eq!(join_from(&mut simulation, 1, Some(1), own), Err(JoinError::Removed), "a key stays removed");
    assert_eq!(simulation.room.state().member(host).map(|member| member.role), Some(Role::Host));

    let mut checkpoint = Vec::new();
    simulation.room.write_checkpoint(&mut checkpoint);
    assert!(checkpoint.len() <= MAX_CHECKPOINT_BYTES);
    simulation.room = Room::restore(simulation.now, RoomConfig::default(), &checkpoint, 1).expect("its own checkpoint");
    assert_eq!(join_from(&mut simulation, 2, Some(1), own), Err(JoinError::Removed), "wherever the room goes on");
    let removed = simulation.room.removed_clients().clone();
    let next = Room::new(simulation.now, RoomConfig::default(), &[]).expect("no pose is wrong");
    simulation.room = next.with_removed_clients(removed);
    assert_eq!(join_from(&mut simulation, 2, Some(1), own), Err(JoinError::Removed), "or begins anew");
}

#[test]
fn a_seat_that_is_reclaimed_has_no_role_above_the_token_s() {
    let mut simulation = SimulatedRoom::new(&[]);
    let host = join_from(&mut simulation, 1, Some(1), ("Ada", Role::Host)).expect("a place");
    let guest = join_from(&mut simulation, 1, Some(2), ("Bob", Role::Guest)).expect("a place");
    let role = |simulation: &SimulatedRoom, id| simulation.room.state().member(id).map(|member| member.role);
    let mut checkpoint = Vec::new();
    simulation.room.write_checkpoint(&mut checkpoint);
    simulation.room = Room::restore(simulation.now, RoomConfig::default(), &checkpoint, 1).expect("its own checkpoint");
    assert_eq!(join_from(&mut simulation, 1, Some(1), ("Ada", Role::Host)), Ok(host));
    assert_eq!(role(&simulation, host), Some(Role::Host), "with the same token nothing changes");
    simulation.members.push((host, Replica::new(simulation.now, Span::from_millis(50))));
    simulation.received.push(0);
    simulation.pass(200);
    simulation.ask(0, Request::SetRole { member: guest, role: Role::Host });
    simulation.pass(200);
    assert_eq!(join_from(&mut simulation, 1, Some(2), ("Bob", Role::Guest)), Ok(guest));
    assert_eq!(role(&simulation, guest), Some(Role::Host), "what a host has granted stays");
    assert_eq!(join_from(&mut simulation, 9, Some(1), ("Eve", Role::Spectator)), Ok(host));
    assert_eq!(role(&simulation, host), Some(Role::Spectator));
    assert_eq!(join_from(&mut simulation, 1, Some(1), ("Ada", Role::Host)), Ok(host));
    assert_eq!(role(&simulation, host), Some(Role::Guest), "as whoever comes while the room has a host");
}

#[test]
fn names_are_unique_among_all_members() {
    let mut simulation = SimulatedRoom::new(&[]);
    let names = ["Ada", "Ada", "a\u{200b}da", "Bob", "\u{202e}Bob", "Ada", "", ""];
    let mut roles = [Role::Host, Role::Guest, Role::Guest, Role::Guest, Role::Spectator].into_iter();
    let named = |(number, name): (u8, &&str)| {
        let role = roles.next().unwrap_or(Role::Guest);
        let id = join_from(&mut simulation, 1, Some(number), (name, role)).expect("a place");
        simulation.room.state().member(id).map(|member| member.name.clone()).unwrap_or_default()
    };
    let seen: Vec<String> = (1..).zip(&names).map(named).collect();
    assert_eq!(seen, ["Ada", "Ada (2)", "ada (3)", "Bob", "Bob (2)", "Ada (4)", "", ""]);
}

#[test]
fn a_page_that_is_in_the_room_twice_keeps_its_name_and_does_not_see_itself() {
    let mut simulation = SimulatedRoom::new(&[Role::Guest]);
    let name = |simulation: &SimulatedRoom, id| simulation.room.state().member(id).map(|member| member.name.clone());
    let guest = |name: &str| Member { role: Role::Guest, name: name.into(), colour: [0; 3] };
    let other = join_from(&mut simulation, 1, Some(9), ("Ada", Role::Guest)).expect("a place");
    let key = Some(SeatKey([1; 16]));
    let rendered_for = simulation.room.on_local_join(simulation.now, guest("Ada"), key).expect("a place");
    simulation.room.set_body(simulation.now, rendered_for, &body(3.0)).expect("poses");
    let page = join_from(&mut simulation, 1, Some(1), ("Ada", Role::Guest)).expect("a place");
    assert_ne!(page, rendered_for, "a key claims no seat of the room's own program");
    simulation.members.push((page, Replica::new(simulation.now, Span::from_millis(50))));
    simulation.received.push(0);
    let again = simulation.room.on_local_join(simulation.now, guest("Ada"), key).expect("a place");
    simulation.room.set_body(simulation.now, again, &body(4.0)).expect("poses");
    simulation.pass(500);
    assert_eq!(name(&simulation, other).as_deref(), Some("Ada"));
    for id in [rendered_for, page, again] {
        assert_eq!(name(&simulation, id).as_deref(), Some("Ada (2)"));
    }
    let sees = |simulation: &SimulatedRoom, member: usize, id| simulation.members[member].1.seen(id).is_some();
    assert_eq!([rendered_for, again].map(|id| sees(&simulation, 0, id)), [true; 2], "others see both");
    assert_eq!([rendered_for, again].map(|id| sees(&simulation, 1, id)), [false; 2]);
    for id in [rendered_for, again] {
        simulation.room.on_leave(simulation.now, id);
    }
    simulation.pass(500);
    simulation.assert_agreement();
    let third = join_from(&mut simulation, 1, Some(3), ("Ada", Role::Guest)).expect("a place");
    assert_eq!(name(&simulation, third).as_deref(), Some("Ada (3)"), "the page still has its name");
}

#[test]
fn a_claim_on_what_another_holds_moves_nothing() {
    use crate::message::Upstream;
    use crate::pose::QuantisedPose;
    let mut simulation = SimulatedRoom::new(&[Role::Guest, Role::Guest]);
    simulation.ask(0, Request::Take { object: OBJECT });
    simulation.pass(100);
    let claim = QuantisedPose::new(&at(7.0)).expect("a pose");
    let upstream = Upstream { number: 5_000, objects: vec![(OBJECT, claim)], ..Upstream::default() };
    let mut out = Vec::new();
    upstream.write(&mut out);
    simulation.room.on_message(simulation.now, simulation.members[1].0, &out);
    assert_eq!(simulation.room.counters().foreign_poses, 1);
    assert_eq!(simulation.members[0].1.object(OBJECT), Some(Pose::default()));
}

#[test]
fn a_flood_costs_its_sender_the_place_and_nobody_else_anything() {
    let mut simulation = SimulatedRoom::new(&[Role::Guest, Role::Guest]);
    let flooder = simulation.members[1].0;
    let mut out = Vec::new();
    for number in 1_000..40_000_u32 {
        out.clear();
        crate::message::Upstream { number, ..Default::default() }.write(&mut out);
        simulation.room.on_message(simulation.now, flooder, &out);
    }
    simulation.members.pop();
    simulation.pass(100);
    assert_eq!(simulation.ended(flooder), Some(EndReason::Flood));
    simulation.assert_agreement();
}

#[test]
fn unreadable_messages_end_a_membership() {
    let mut simulation = SimulatedRoom::new(&[Role::Guest, Role::Guest]);
    let (id, _) = simulation.members.pop().expect("two");
    for _ in 0..16 {
        simulation.room.on_message(simulation.now, id, &[0x12, 0, 0]);
    }
    simulation.pass(50);
    assert_eq!(simulation.ended(id), Some(EndReason::Malformed));
}

#[test]
fn who_reads_nothing_holds_nothing_up_and_has_to_go() {
    let mut simulation = SimulatedRoom::new(&[Role::Guest, Role::Guest, Role::Guest]);
    let deaf = simulation.members[2].0;
    simulation.room.on_blocked(deaf);
    for round in 0..60 {
        for _ in 0..10 {
            let _ = simulation.members[0].1.request(Request::Event { kind: round, data: vec![0; 256] });
        }
        simulation.pass(250);
    }
    assert_eq!(simulation.ended(deaf), Some(EndReason::NotReading));
    simulation.members.pop();
    simulation.pass(500);
    simulation.assert_agreement();
}

#[test]
fn who_falls_far_behind_gets_the_room_at_once() {
    let mut simulation = SimulatedRoom::new(&[Role::Guest; 13]);
    let slow = simulation.members[12].0;
    let _ = simulation.events_of(12);
    simulation.room.on_blocked(slow);
    // More events than the room keeps.
    for _ in 0..90 {
        for (_, replica) in &mut simulation.members[..12] {
            while replica.request(Request::Event { kind: 1, data: Vec::new() }).is_ok() {}
        }
        simulation.pass(100);
    }
    simulation.room.on_writable(slow);
    simulation.pass(10_000);
    simulation.assert_agreement();
    assert_eq!(simulation.ended(slow), None);
    let missed = |event: &ReplicaEvent| matches!(event, ReplicaEvent::Synchronised { missed, .. } if *missed > 4_096);
    assert!(simulation.events_of(12).iter().any(missed));
}

/// Returns the bytes per second that one member receives while `others` walk about at this distance.
fn bytes_per_second(others: usize, distance: f32, rate: Option<Bitrate>) -> f64 {
    let mut simulation = SimulatedRoom::new(&vec![Role::Guest; others + 1]);
    simulation.members[0].1.set_body(&body(0.0)).expect("poses");
    if let Some(rate) = rate {
        simulation.room.on_network(simulation.members[0].0, rate, Span::from_millis(20));
    }
    let mut before = 0;
    for step in 0..200 {
        for (place, (_, replica)) in simulation.members.iter_mut().enumerate().skip(1) {
            // In front of the first, each walking at 1.4 m/s and moving its hands.
            let along = distance + (step as f32 * 0.07 + place as f32).sin();
            let swing = (step as f32 * 0.3).sin() * 0.2;
            let pose =
                |x: f32| Pose { position: [x, 1.5, -along], orientation: [0.0, (step as f32 * 0.02).sin(), 0.0, 1.0] };
            let avatar = Avatar { head: pose(0.0), left: Some(pose(swing)), right: Some(pose(-swing)), joints: None };
            replica.set_body(&avatar).expect("poses");
        }
        simulation.pass(50);
        if step == 99 {
            before = simulation.received[0];
        }
    }
    (simulation.received[0] - before) as f64 / 5.0
}

#[test]
fn a_neighbour_costs_less_than_two_kibibytes_a_second_and_a_distant_one_a_tenth() {
    let near = bytes_per_second(8, 3.0, None) / 8.0;
    let far = bytes_per_second(8, 60.0, None) / 8.0;
    assert!(near < 1_024.0, "{near}");
    assert!(near > 300.0, "all of them are sent at 20 Hz: {near}");
    assert!(far < near / 8.0, "{far} of {near}");
}

#[test]
fn a_slow_network_gets_what_it_carries() {
    let kilobits = |rate| bytes_per_second(20, 3.0, Some(Bitrate::from_kbps(rate))) * 8.0 / 1e3;
    let (slow, fast) = (kilobits(50), kilobits(5_000));
    assert!(slow < 50.0, "{slow} kb/s");
    assert!(slow > 15.0, "{slow} kb/s: it gets something");
    assert!(fast > 60.0, "{fast} kb/s");
}

#[test]
fn who_is_in_the_rooms_own_program_is_a_member_like_others() {
    let mut simulation = SimulatedRoom::new(&[Role::Guest]);
    let (now, visitor) = (simulation.now, Member { role: Role::Guest, name: "here".into(), colour: [9, 8, 7] });
    let local = simulation.room.on_local_join(now, visitor, None).expect("a place");
    let remote = simulation.members[0].0;
    simulation.room.set_body(now, local, &body(3.0)).expect("poses");
    assert!(simulation.room.request(now, local, Request::Take { object: OBJECT }));
    simulation.room.set_object(now, OBJECT, &at(4.0)).expect("a pose");
    simulation.members[0].1.set_body(&body(1.0)).expect("poses");
    simulation.pass(500);
    let replica = &simulation.members[0].1;
    assert_eq!(replica.seen(local).map(|seen| seen.avatar), Some(body(3.0)));
    assert_eq!((replica.state().owner(OBJECT), replica.object(OBJECT)), (Some(local), Some(at(4.0))));
    assert_eq!(simulation.room.body(remote), Some(body(1.0)));
    // Handed over, the other moves it, and the room's own world does not.
    assert!(simulation.room.request(simulation.now, local, Request::HandOver { object: OBJECT, to: remote }));
    assert!(!simulation.room.request(simulation.now, local, Request::Release { object: OBJECT }));
    simulation.pass(100);
    simulation.members[0].1.set_object(OBJECT, &at(5.0)).expect("held");
    simulation.pass(100);
    simulation.room.set_object(simulation.now, OBJECT, &at(6.0)).expect("a pose");
    assert_eq!(simulation.room.object(OBJECT), Some(at(5.0)));
    // It is not silent, and nothing is sent to it.
    simulation.pass(20_000);
    assert_eq!((simulation.room.state().members().len(), simulation.room.remote_members()), (2, 1));
    assert_eq!(simulation.room.traffic(local).expect("a member").sent_messages, 0);
    assert!(
        !simulation.room.request(simulation.now, remote, Request::Release { object: OBJECT }),
        "it asks by messages"
    );
    simulation.assert_agreement();
    simulation.room.on_leave(simulation.now, local);
    simulation.pass(200);
    assert_eq!(simulation.room.state().members().len(), 1);
    simulation.assert_agreement();
}

#[test]
fn at_rest_nothing_is_sent_but_signs_of_life_and_answers_to_them() {
    let mut simulation = SimulatedRoom::new(&[Role::Guest; 10]);
    for (place, (_, replica)) in simulation.members.iter_mut().enumerate() {
        replica.set_body(&body(place as f32)).expect("poses");
    }
    simulation.pass(3_000);
    simulation.assert_agreement();
    let counted = |simulation: &SimulatedRoom, place: usize| {
        let sent = simulation.room.traffic(simulation.members[place].0).expect("a member").sent_messages;
        (sent, simulation.received[place])
    };
    let before: Vec<_> = (0..10).map(|place| counted(&simulation, place)).collect();
    simulation.pass(10_000);
    // Each says something every second, and the answer is a receipt.
    for (place, (messages, bytes)) in before.into_iter().enumerate() {
        let (messages_after, bytes_after) = counted(&simulation, place);
        assert!((9..=10).contains(&(messages_after - messages)), "answers to {place}");
        assert!((40..=100).contains(&(bytes_after - bytes)), "{bytes} to {bytes_after} bytes in 10 s");
    }
}

#[test]
fn newcomers_stand_where_nobody_stands_who_came_before_them() {
    let mut simulation = SimulatedRoom::new(&[Role::Guest, Role::Guest, Role::Guest]);
    let places = [0.0, 5.0, 10.0].map(|x| body(x).head);
    let chosen = |simulation: &SimulatedRoom, member: usize, head: Option<usize>| {
        simulation.members[member].1.starting_place(&places, head.map(|head| &places[head]))
    };
    // All three have the same place at first, and whoever came later makes room.
    for member in 0..3 {
        assert_eq!(chosen(&simulation, member, None), Some(0), "{member} knows nobody's body");
        simulation.members[member].1.set_body(&body(0.0)).expect("a body");
    }
    simulation.pass(200);
    assert_eq!([0, 1, 2].map(|member| chosen(&simulation, member, Some(0))), [None, Some(1), Some(1)]);
    for member in 1..3 {
        simulation.members[member].1.set_body(&body(5.0)).expect("a body");
    }
    simulation.pass(200);
    assert_eq!([0, 1, 2].map(|member| chosen(&simulation, member, Some(member.min(1)))), [None, None, Some(2)]);
    simulation.members[2].1.set_body(&body(10.0)).expect("a body");
    simulation.pass(200);
    assert_eq!([0, 1, 2].map(|member| chosen(&simulation, member, Some(member))), [None; 3]);
}
