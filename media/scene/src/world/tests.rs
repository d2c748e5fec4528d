use nearlight_rooms::{Avatar, Join, Replica, Request, Role, Room, RoomConfig};

use super::*;
use crate::plaza::build;

const ME: Viewer = Viewer(1);
const OTHER: Viewer = Viewer(2);
/// The red ball on its plinth.
const RED: usize = 0;

pub(super) fn world() -> World {
    let mut world = World::new(Setting { solids: build::solids(), ..Setting::default() });
    world.advance(Time::ZERO);
    world
}

/// A head at eye height that looks at `target`.
fn looking_at(target: Vec3) -> Presence {
    let eye = Vec3::new(0.0, 1.6, 0.0);
    let turn = Quat::from_rotation_arc(Vec3::NEG_Z, (target - eye).normalize());
    Presence { head: Pose { position: eye.to_array(), orientation: turn.to_array() }, hands: Vec::new() }
}

fn event(hand: Hand, action: Action) -> HandAction {
    HandAction { hand, action, shakes: None }
}

fn run(world: &mut World, from: u64, to: u64) {
    for millis in (from..to).step_by(16) {
        world.advance(Time::from_millis(millis));
    }
}

fn positions(world: &World) -> Vec<Vec3> {
    world.bodies.iter().map(|body| body.position).collect()
}

#[test]
fn what_stands_at_the_start_stays_there() {
    let mut world = world();
    let before = positions(&world);
    run(&mut world, 0, 10_000);
    for (body, (before, after)) in before.iter().zip(positions(&world)).enumerate() {
        assert!(before.distance(after) < 0.06, "body {body} moved from {before} to {after}");
    }
}

#[test]
fn a_ray_picks_the_nearest_thing_it_meets() {
    let world = world();
    let red = world.bodies[RED].position;
    let eye = Vec3::new(0.0, 1.6, 0.0);
    let towards = |target: Vec3| world.pick(eye, (target - eye).normalize());
    assert_eq!(towards(red).map(|(body, _)| body), Some(RED));
    assert_eq!(world.pick(eye, Vec3::Y), None);
    assert_eq!(world.pick(eye, Vec3::Z), None);
    // Two balls lie in line, seen from the side of the far one.
    let behind = red + (red - eye).normalize() * 2.0;
    assert_eq!(world.pick(behind, (eye - behind).normalize()).map(|(body, _)| body), Some(RED));
}

#[test]
fn a_held_ball_follows_the_head_and_is_let_go() {
    let mut world = world();
    let red = world.bodies[RED].position;
    world.on_acts(Time::ZERO, ME, &looking_at(red), &[event(Hand::None, Action::Grab)]);
    assert!(world.bodies[RED].held);
    world.on_acts(Time::ZERO, ME, &looking_at(Vec3::new(2.0, 2.5, -3.0)), &[]);
    run(&mut world, 0, 1_000);
    let held = world.bodies[RED].position;
    assert!(held.x > 0.8 && held.y > 1.8, "{held} is not where the head looks");
    // Another viewer cannot take the ball, and an action of another hand does not drop it.
    world.on_acts(Time::from_secs(1), OTHER, &looking_at(held), &[event(Hand::None, Action::Grab)]);
    world.on_acts(Time::from_secs(1), ME, &looking_at(held), &[event(Hand::Left, Action::Release)]);
    assert_eq!(world.grips.len(), 1);
    // The wheel of the holding hand moves it, within bounds.
    let distances = [(Hand::Left, Action::Farther), (Hand::None, Action::Farther), (Hand::None, Action::Nearer)].map(
        |(hand, action)| {
            world.on_acts(Time::from_secs(1), ME, &looking_at(held), &[event(hand, action)]);
            world.grips[0].distance
        },
    );
    assert!(distances[0] < distances[1] && (distances[2] - distances[0]).abs() < 1e-5, "{distances:?}");
    for action in [Action::Nearer, Action::Farther] {
        world.on_acts(Time::from_secs(1), ME, &looking_at(held), &[event(Hand::None, action); 32]);
        assert!((MIN_HOLD_DISTANCE..=MAX_HOLD_DISTANCE).contains(&world.grips[0].distance), "{action:?}");
    }
    world.on_acts(Time::from_secs(1), ME, &looking_at(held), &[event(Hand::None, Action::Release)]);
    run(&mut world, 1_000, 4_000);
    assert!(world.bodies[RED].position.y < 1.0, "it falls");
}

#[test]
fn a_tracked_hand_points_for_itself() {
    let mut world = world();
    let red = world.bodies[RED].position;
    let mut presence = looking_at(Vec3::new(0.0, 9.0, -1.0));
    presence.hands.push(HandPose { hand: Hand::Right, pose: looking_at(red).head });
    world.on_acts(Time::ZERO, ME, &presence, &[]);
    assert_eq!(world.pointed_at(ME), [RED]);
    world.on_acts(Time::ZERO, ME, &presence, &[event(Hand::None, Action::Grab)]);
    assert!(!world.bodies[RED].held);
    world.on_acts(Time::ZERO, ME, &presence, &[event(Hand::Right, Action::Grab)]);
    assert!(world.bodies[RED].held);
}

#[test]
fn pushes_throws_and_resets_do_what_they_say() {
    let mut world = world();
    let before = positions(&world);
    let red = before[RED];
    world.on_acts(Time::ZERO, ME, &looking_at(red), &[event(Hand::None, Action::Push)]);
    run(&mut world, 0, 500);
    assert!(world.bodies[RED].position.z < red.z - 0.8);
    for shot in 0..40 {
        let now = Time::from_millis(500 + shot * 20);
        world.on_acts(now, ME, &looking_at(Vec3::new(0.0, 1.0, -4.0)), &[event(Hand::None, Action::Throw)]);
        world.advance(now);
    }
    assert_eq!(world.bodies.len(), before.len() + MAX_THROWN);
    assert!(world.pulses.len() <= MAX_PULSES);
    world.on_acts(Time::from_secs(2), ME, &looking_at(red), &[event(Hand::None, Action::Reset)]);
    assert_eq!(positions(&world), before);
}

#[test]
fn who_leaves_lets_go() {
    let mut world = world();
    let red = world.bodies[RED].position;
    world.on_acts(Time::ZERO, ME, &looking_at(red), &[event(Hand::None, Action::Grab)]);
    world.on_viewer_left(ME);
    assert!(!world.bodies[RED].held && world.grips.is_empty());
    // An event from a viewer that has left changes nothing.
    world.act(Time::ZERO, ME, event(Hand::None, Action::Throw));
    run(&mut world, 0, 200);
}

#[test]
fn the_same_input_makes_the_same_world() {
    let story = |stride: u64| {
        let mut world = world();
        let red = world.bodies[RED].position;
        for millis in (0..3_000).step_by(stride as usize) {
            let now = Time::from_millis(millis);
            if millis == 1_000 {
                world.on_acts(now, ME, &looking_at(red), &[event(Hand::None, Action::Push)]);
                world.on_acts(now, ME, &looking_at(red), &[event(Hand::None, Action::Throw)]);
            }
            world.advance(now);
        }
        positions(&world)
    };
    assert_eq!(story(10), story(10));
    // The number of calls that advance the world makes no difference either.
    assert_eq!(story(10)[..6], story(20)[..6]);
}

#[test]
fn others_see_a_viewer_who_does_not_see_itself() {
    let mut world = world();
    let alone = world.show(ME).instances.len();
    world.on_acts(Time::ZERO, ME, &looking_at(Vec3::NEG_Z), &[]);
    assert_eq!(world.show(ME).instances.len(), alone);
    let mut presence = looking_at(Vec3::NEG_Z);
    presence.hands.push(HandPose { hand: Hand::Left, pose: presence.head });
    world.on_acts(Time::ZERO, ME, &presence, &[]);
    assert_eq!(world.show(OTHER).instances.len(), alone + 4);
}

#[test]
fn viewers_differ_in_colour() {
    for viewer in 0..6 {
        let (own, next) = (viewer_colour(Viewer(viewer)), viewer_colour(Viewer(viewer + 1)));
        assert!(own.distance(next) > 0.3, "{own} and {next}");
        assert!(own.min_element() >= 0.0 && own.max_element() <= 1.0);
    }
}

#[test]
fn what_happens_is_heard_where_it_happens_and_once() {
    let mut world = world();
    world.cues();
    let red = world.bodies[RED].position;
    world.on_acts(Time::ZERO, ME, &looking_at(red), &[event(Hand::None, Action::Push)]);
    let pushed = world.cues().strikes;
    assert_eq!(pushed.len(), 1);
    assert!(pushed[0].place.distance(red) < 0.01);
    assert_eq!(world.cues().strikes, []);
    run(&mut world, 0, 3_000);
    let knocks = world.cues().strikes;
    assert!(knocks.len() >= 2, "it falls off its plinth: {knocks:?}");
    assert!(knocks.iter().all(|knock| (0.0..=1.0).contains(&knock.level) && knock.place.is_finite()));
    world.on_acts(Time::from_secs(3), ME, &looking_at(Vec3::Y * 9.0), &[event(Hand::None, Action::Throw)]);
    assert!(world.cues().strikes.iter().any(|strike| strike.struck == nearlight_sound::StrikeKind::Air));
    // Cues are not fetched for a while.
    for shot in 0..200 {
        let now = Time::from_millis(3_000 + shot * 50);
        world.on_acts(now, ME, &looking_at(Vec3::new(0.0, 1.0, -4.0)), &[event(Hand::None, Action::Throw)]);
        world.advance(now);
    }
    assert!(world.cues().strikes.len() <= 32);
}

#[test]
fn what_rests_is_silent() {
    let mut world = world();
    run(&mut world, 0, 3_000);
    world.cues();
    run(&mut world, 3_000, 10_000);
    assert_eq!(world.cues().strikes, []);
}

#[test]
fn the_plaza_hums_and_its_pendulums_ring_in_their_own_time() {
    let mut world = World::new(Setting { decor: true, ..Setting::default() });
    let mut chimes = 0;
    let mut hums = Vec::new();
    for millis in (0..=48_000).step_by(20) {
        world.advance(Time::from_millis(millis));
        let cues = world.cues();
        chimes += cues
            .strikes
            .iter()
            .filter(|strike| matches!(strike.struck, nearlight_sound::StrikeKind::Chime { .. }))
            .count();
        hums = cues.hums;
    }
    // In 48 s the pendulums swing 24 to 34 times, each through its lowest point twice.
    assert_eq!(chimes, (24..=34).map(|swings| swings * 2).sum::<usize>());
    assert_eq!(hums.len(), 4);
}

/// A world that is a room, and a remote member over a network without loss or delay.
struct Shared {
    now: Time,
    world: World,
    room: Room,
    member: MemberId,
    replica: Replica,
}

impl Shared {
    fn new() -> Self {
        let world = world();
        let mut room = Room::new(Time::ZERO, RoomConfig::default(), &world.objects()).expect("poses");
        let join = Join { room: "main".into(), role: Role::Guest, name: "Ada".into(), colour: [255, 0, 0], key: None };
        let member = room.on_join(Time::ZERO, &join, Role::Guest).expect("a place");
        let replica = Replica::new(Time::ZERO, Span::from_millis(50));
        let mut shared = Self { now: Time::ZERO, world, room, member, replica };
        shared.pass(200);
        shared
    }

    fn pass(&mut self, milliseconds: i64) {
        for _ in 0..milliseconds / 10 {
            self.now += Span::from_millis(10);
            self.world.advance(self.now);
            self.world.exchange(self.now, &mut self.room);
            let mut out = Vec::new();
            while self.replica.poll_transmit(self.now, &mut out) {
                self.room.on_message(self.now, self.member, &out);
                out.clear();
            }
            self.room.on_timeout(self.now);
            while let Some(to) = self.room.poll_transmit(self.now, &mut out) {
                assert_eq!(to, self.member, "nothing is sent to viewers");
                self.replica.on_message(self.now, &out).expect("a message");
                out.clear();
            }
        }
    }

    fn act(&mut self, target: Vec3, acts: &[HandAction]) {
        self.world.on_acts(self.now, ME, &looking_at(target), acts);
    }

    fn me(&self) -> MemberId {
        self.world.members[&ME]
    }
}

const RED_OBJECT: ObjectId = ObjectId(1);

#[test]
fn a_viewer_and_a_member_see_each_other_and_hand_a_ball_over_and_back() {
    let mut shared = Shared::new();
    let red = shared.world.bodies[RED].position;
    let alone = shared.world.show(ME).instances.len();
    shared.act(red, &[event(Hand::None, Action::Grab)]);
    let body = Avatar { head: Pose { position: [0.0, 1.6, -3.0], ..Pose::default() }, ..Avatar::default() };
    shared.replica.set_body(&body).expect("poses");
    shared.pass(500);
    let me = shared.me();
    assert_eq!(shared.world.show(ME).instances.len(), alone + 3, "a head, a visor and a bust");
    let seen = shared.replica.seen(me).expect("a viewer has a body").avatar.head;
    assert!(Vec3::from(seen.position).distance(Vec3::new(0.0, 1.6, 0.0)) < 0.002);
    assert_eq!(shared.replica.state().owner(RED_OBJECT), Some(me));
    // The viewer carries it to the member, faces it and hands it over.
    shared.act(Vec3::new(0.0, 1.6, -3.0), &[]);
    shared.pass(500);
    let carried = Vec3::from(shared.replica.object(RED_OBJECT).expect("an object").position);
    assert!(carried.x.abs() < 0.1, "{carried} is where the viewer looks");
    shared.act(Vec3::new(0.0, 1.6, -3.0), &[event(Hand::None, Action::HandOver)]);
    shared.pass(100);
    assert_eq!(shared.replica.state().owner(RED_OBJECT), Some(shared.member));
    assert!(shared.world.grips.is_empty() && shared.world.bodies[RED].held);
    // Now the member moves it, and the viewer's world shows it there.
    let there = Pose { position: [1.0, 2.0, -2.0], ..Pose::default() };
    shared.replica.set_object(RED_OBJECT, &there).expect("held");
    shared.pass(1_000);
    assert!(shared.world.bodies[RED].position.distance(Vec3::from(there.position)) < 0.02);
    // Nobody else can take it.
    shared.act(Vec3::from(there.position), &[event(Hand::None, Action::Grab)]);
    assert!(shared.world.grips.is_empty());
    shared.replica.request(Request::HandOver { object: RED_OBJECT, to: me }).expect("held");
    shared.pass(200);
    assert_eq!((shared.room.state().owner(RED_OBJECT), shared.world.grips.len()), (Some(me), 1));
    shared.act(Vec3::NEG_Z, &[event(Hand::None, Action::Release)]);
    shared.pass(10_000);
    assert_eq!(shared.room.state().owner(RED_OBJECT), None);
    let fallen = Vec3::from(shared.replica.object(RED_OBJECT).expect("an object").position);
    assert!(fallen.y < 0.3 && fallen.distance(shared.world.bodies[RED].position) < 0.002, "{fallen}");
    shared.world.on_viewer_left(ME);
    shared.pass(200);
    assert_eq!(shared.replica.state().members().len(), 1);
    assert_eq!(shared.replica.digest(), shared.room.digest());
}

#[test]
fn what_a_member_lets_go_in_a_swing_flies_on() {
    let mut shared = Shared::new();
    shared.replica.request(Request::Take { object: RED_OBJECT }).expect("joined");
    shared.pass(100);
    let mut place = [0.0, 2.0, 0.0];
    for _ in 0..10 {
        place[0] += 0.25;
        shared.replica.set_object(RED_OBJECT, &Pose { position: place, ..Pose::default() }).expect("held");
        shared.pass(50);
    }
    shared.replica.request(Request::Release { object: RED_OBJECT }).expect("held");
    shared.pass(400);
    let ball = &shared.world.bodies[RED];
    assert!(ball.position.x > place[0] + 0.8, "5 m/s: {}", ball.position);
}

#[test]
fn of_a_viewer_and_a_member_that_take_one_ball_the_first_has_it() {
    let mut shared = Shared::new();
    shared.pass(100);
    let red = shared.world.bodies[RED].position;
    shared.replica.request(Request::Take { object: RED_OBJECT }).expect("joined");
    let mut out = Vec::new();
    assert!(shared.replica.poll_transmit(shared.now, &mut out));
    shared.room.on_message(shared.now, shared.member, &out);
    // The world does not know that yet.
    shared.act(red, &[event(Hand::None, Action::Grab)]);
    assert_eq!(shared.world.grips.len(), 1);
    shared.pass(100);
    assert_eq!((shared.room.state().owner(RED_OBJECT), shared.world.grips.len()), (Some(shared.member), 0));
}

#[test]
fn thrown_balls_are_objects_of_the_room_and_members_can_have_them_too() {
    let mut shared = Shared::new();
    let thrown: Vec<ObjectId> = shared.world.thrown_numbers().collect();
    shared.act(Vec3::new(0.0, 1.0, -4.0), &[event(Hand::None, Action::Throw)]);
    shared.pass(500);
    assert!(shared.replica.object(thrown[0]).expect("an object").position[1] > 0.0);
    assert!(shared.replica.object(thrown[1]).expect("an object").position[1] < -1.0, "nobody has thrown it");
    shared.replica.request(Request::Take { object: thrown[1] }).expect("joined");
    shared.pass(100);
    shared.replica.set_object(thrown[1], &Pose { position: [0.0, 1.0, 0.0], ..Pose::default() }).expect("held");
    shared.pass(2_000);
    let ball = shared.world.bodies.iter().find(|body| body.object == thrown[1]).expect("a body");
    assert!(ball.position.distance(Vec3::Y) < 0.05 && ball.held, "{}", ball.position);
    shared.act(Vec3::NEG_Z, &[event(Hand::None, Action::Reset)]);
    shared.pass(100);
    assert!(shared.replica.object(thrown[0]).expect("an object").position[1] < -1.0);
    assert_eq!(shared.room.state().owner(thrown[1]), Some(shared.member));
}
