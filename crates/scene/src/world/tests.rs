use super::*;
use crate::plaza::build;

const ME: Viewer = Viewer(1);
const OTHER: Viewer = Viewer(2);
/// The red ball on its plinth.
const RED: usize = 0;

fn world() -> World {
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

fn event(hand: Hand, action: Action) -> Act {
    Act { hand, action, shakes: None }
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
    // Two balls in line, from the far one's side.
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
    // Another viewer cannot take it, and an action of another hand does not drop it.
    world.on_acts(Time::from_secs(1), OTHER, &looking_at(held), &[event(Hand::None, Action::Grab)]);
    world.on_acts(Time::from_secs(1), ME, &looking_at(held), &[event(Hand::Left, Action::Release)]);
    assert_eq!(world.grips.len(), 1);
    // The wheel of its own hand moves it, within bounds.
    let distances = [(Hand::Left, Action::Farther), (Hand::None, Action::Farther), (Hand::None, Action::Nearer)].map(
        |(hand, action)| {
            world.on_acts(Time::from_secs(1), ME, &looking_at(held), &[event(hand, action)]);
            world.grips[0].distance
        },
    );
    assert!(distances[0] < distances[1] && (distances[2] - distances[0]).abs() < 1e-5, "{distances:?}");
    for action in [Action::Nearer, Action::Farther] {
        world.on_acts(Time::from_secs(1), ME, &looking_at(held), &[event(Hand::None, action); 32]);
        assert!((NEAREST..=FARTHEST).contains(&world.grips[0].distance), "{action:?}");
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
    // How often the world is advanced makes no difference either.
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
    assert!(world.cues().strikes.iter().any(|strike| strike.struck == nearlight_sound::Struck::Air));
    // Nothing is fetched for a while.
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
        chimes +=
            cues.strikes.iter().filter(|strike| matches!(strike.struck, nearlight_sound::Struck::Chime { .. })).count();
        hums = cues.hums;
    }
    // In 48 s the pendulums swing 24 to 34 times, each through its lowest point twice.
    assert_eq!(chimes, (24..=34).map(|swings| swings * 2).sum::<usize>());
    assert_eq!(hums.len(), 4);
}
