//! The shared world: bodies, viewers and what they do to it. Time and input come in as arguments; drawing is elsewhere.

pub mod body;
mod controls;
mod decor;
mod draw_list;
mod people;
mod shared;
mod voice;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use glam::{Quat, Vec3};
use nearlight_rooms::{MemberId, ObjectId};
use nearlight_sound::Strike;
use nearlight_units::{Span, Time};
use nearlight_wire::{CursorShape, Hand, Haptics, HapticsTarget, Pose};

use crate::solid::Solid;
use crate::{Output, Viewer, ViewerInput};
use body::{Body, STEP, Shape};
use controls::Controls;
use people::People;
use shared::{CarriedObject, Person, RoomRequest, thrown_ball};

pub use draw_list::{DrawList, Instance, Model, Sprite, Tag};

/// Thrown balls in the world at a time. A new one replaces the oldest.
const MAX_THROWN: usize = 16;
/// Radius of a thrown ball in metres.
const THROWN_RADIUS: f32 = 0.13;
/// Distance in metres up to which objects can be reached.
const MAX_REACH: f32 = 14.0;
/// Distance in metres from a hand to the object that it holds: the smallest, the largest after grabbing, and the largest after moving it
/// away.
const MIN_HOLD_DISTANCE: f32 = 0.35;
const MAX_GRAB_DISTANCE: f32 = 3.0;
const MAX_HOLD_DISTANCE: f32 = 8.0;
/// Factor by which a notch of the wheel changes that distance.
const WHEEL_NOTCH_FACTOR: f32 = 1.15;
/// Margin in metres around objects when pointing at them.
const AIM_MARGIN: f32 = 0.06;
/// Speeds of a throw and a push in metres per second. Guess: a ball lands about eight metres away.
const THROW_SPEED: f32 = 8.5;
const PUSH_SPEED: f32 = 4.2;
/// Time for which the ring that confirms an action is visible.
const PULSE_DURATION: Span = Span::from_millis(450);
/// Rings that are visible at a time.
const MAX_PULSES: usize = 24;
/// Longest pause that the world catches up with. After a longer one it continues from where it was.
const MAX_CATCH_UP: Span = Span::from_millis(250);

/// Haptic feedback for a grab, a push and a throw: milliseconds, and the strength of both motors from 0 to 1. Guess: short enough to be a
/// click, strong enough to be noticed.
const HAPTIC_PULSE: (u16, f32, f32) = (60, 0.5, 0.9);
/// Outputs for viewers that may wait to be fetched. Beyond that, the oldest are dropped. Guess: what several users say to several others
/// within a frame.
const MAX_OUTPUTS: usize = 512;

/// An action of a user in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Take hold of the object that the hand points at.
    Grab,
    /// Release the object that the hand holds.
    Release,
    /// Push the object that the hand points at away from the hand.
    Push,
    /// Throw a new ball from the hand.
    Throw,
    /// Put everything back to where it was at the start.
    Reset,
    /// Move the held object nearer by a step, which is a notch of a mouse's wheel.
    Nearer,
    /// Move the held object farther away by a step.
    Farther,
    /// Give the held object to the person that the head faces.
    HandOver,
}

/// An action, the hand that performs it, and the device that triggered it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HandAction {
    /// The hand. If it is not tracked, the head points instead.
    pub hand: Hand,
    pub action: Action,
    /// The device that triggered the action, if it can vibrate.
    pub shakes: Option<HapticsTarget>,
}

/// A tracked hand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HandPose {
    pub hand: Hand,
    pub pose: Pose,
}

/// The poses of a viewer.
#[derive(Clone, Debug, PartialEq)]
pub struct Presence {
    pub head: Pose,
    pub hands: Vec<HandPose>,
}

/// An object in a viewer's hand.
#[derive(Clone, Copy, Debug)]
struct Grip {
    viewer: Viewer,
    hand: Hand,
    body: usize,
    /// Distance in front of the hand in metres.
    distance: f32,
    /// The body's rotation relative to the hand.
    rotation: Quat,
    /// Whether the room knows that the viewer holds the object.
    known: bool,
}

/// The visual feedback for an action.
#[derive(Clone, Copy, Debug)]
struct Pulse {
    at: Time,
    place: Vec3,
    normal: Vec3,
    colour: Vec3,
}

/// The surroundings of the bodies.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    pub solids: Vec<Solid>,
    pub lighting: crate::plaza::light::Lighting,
    /// Whether there are the plaza's sculpture, pendulums, water and lanterns.
    pub decor: bool,
}

pub struct World {
    setting: Setting,
    bodies: Vec<Body>,
    viewers: BTreeMap<Viewer, Presence>,
    grips: Vec<Grip>,
    controls: BTreeMap<Viewer, Controls>,
    /// The shape that each viewer's pointer has.
    cursors: BTreeMap<Viewer, &'static str>,
    outputs: VecDeque<(Viewer, Output)>,
    /// The viewers' ids as members of the room.
    members: BTreeMap<Viewer, MemberId>,
    /// The viewers' names in the room.
    names: BTreeMap<Viewer, Arc<str>>,
    /// The other members of the room.
    others: BTreeMap<MemberId, Person>,
    /// The objects that they hold.
    carried: BTreeMap<ObjectId, CarriedObject>,
    /// Requests to the room.
    room_requests: Vec<RoomRequest>,
    people: People,
    pulses: Vec<Pulse>,
    strikes: Vec<Strike>,
    started_at: Option<Time>,
    now: Time,
    /// The time up to which the bodies have been simulated.
    stepped_to: Time,
}

impl World {
    pub fn new(setting: Setting) -> Self {
        Self {
            setting,
            bodies: starting_bodies(),
            viewers: BTreeMap::new(),
            grips: Vec::new(),
            controls: BTreeMap::new(),
            cursors: BTreeMap::new(),
            outputs: VecDeque::new(),
            members: BTreeMap::new(),
            names: BTreeMap::new(),
            others: BTreeMap::new(),
            carried: BTreeMap::new(),
            room_requests: Vec::new(),
            people: People::default(),
            pulses: Vec::new(),
            strikes: Vec::new(),
            started_at: None,
            now: Time::ZERO,
            stepped_to: Time::ZERO,
        }
    }

    /// Interprets a viewer's devices in this world.
    pub fn on_input(&mut self, now: Time, viewer: Viewer, input: &ViewerInput) {
        let hands = input.devices.controllers.iter().filter(|controller| controller.hand != Hand::None);
        let hands = hands.map(|controller| HandPose { hand: controller.hand, pose: controller.aim }).collect();
        let acts = self.controls.entry(viewer).or_default().on_input(now, input);
        self.on_acts(now, viewer, &Presence { head: input.head, hands }, &acts);
    }

    fn on_acts(&mut self, now: Time, viewer: Viewer, presence: &Presence, acts: &[HandAction]) {
        self.viewers.insert(viewer, presence.clone());
        for act in acts {
            self.act(now, viewer, *act);
        }
    }

    pub fn on_viewer_left(&mut self, viewer: Viewer) {
        self.viewers.remove(&viewer);
        self.controls.remove(&viewer);
        self.cursors.remove(&viewer);
        self.people.on_viewer_left(viewer);
        self.drop_grips(|grip| grip.viewer == viewer);
    }

    /// Advances the world to `now` in fixed steps.
    pub fn advance(&mut self, now: Time) {
        if self.started_at.is_none() {
            self.started_at = Some(now);
            self.stepped_to = now;
        }
        let before = self.age();
        self.now = self.now.max(now);
        if self.setting.decor {
            self.on_swung(before);
        }
        if now.saturating_since(self.stepped_to) > MAX_CATCH_UP {
            self.stepped_to = now - MAX_CATCH_UP;
        }
        let step = Span::from_secs_f64(f64::from(STEP));
        while self.stepped_to + step <= now {
            self.stepped_to += step;
            self.move_held();
            let impacts = body::step(&mut self.bodies, &self.setting.solids);
            self.on_impacts(&impacts);
        }
        self.pulses.retain(|pulse| now.saturating_since(pulse.at) < PULSE_DURATION);
        let mut pressed = Vec::new();
        for (viewer, controls) in &mut self.controls {
            pressed.extend(controls.on_time(now).map(|act| (*viewer, act)));
        }
        for (viewer, act) in pressed {
            self.act(now, viewer, act);
        }
        self.point();
    }

    /// Returns the next output for a viewer.
    pub fn poll_output(&mut self) -> Option<(Viewer, Output)> {
        self.outputs.pop_front()
    }

    fn queue_output(&mut self, viewer: Viewer, output: Output) {
        if self.outputs.len() == MAX_OUTPUTS {
            self.outputs.pop_front();
        }
        self.outputs.push_back((viewer, output));
    }

    /// Sets the shape of every viewer's pointer according to what it can do now.
    fn point(&mut self) {
        let viewers: Vec<Viewer> = self.viewers.keys().copied().collect();
        for viewer in viewers {
            let cursor = if self.grips.iter().any(|grip| grip.viewer == viewer) {
                "grabbing"
            } else if self.pointed_at(viewer).is_empty() {
                "default"
            } else {
                "grab"
            };
            if self.cursors.insert(viewer, cursor) != Some(cursor) {
                self.queue_output(
                    viewer,
                    Output::Pointer { cursor: CursorShape::Named(cursor.into()), captured: true },
                );
            }
        }
    }

    /// Returns the age of the world in seconds.
    fn age(&self) -> f64 {
        self.started_at.map_or(0.0, |start| self.now.saturating_since(start).as_secs_f64())
    }

    /// Returns the origin and direction of the ray along which `hand` points. A hand that is not tracked points where the head looks.
    fn ray(&self, viewer: Viewer, hand: Hand) -> Option<(Vec3, Quat)> {
        let presence = self.viewers.get(&viewer)?;
        let tracked = presence.hands.iter().find(|tracked| tracked.hand == hand);
        Some(place(tracked.map_or(&presence.head, |tracked| &tracked.pose)))
    }

    /// Returns the nearest body that a ray hits, and its distance.
    pub fn pick(&self, origin: Vec3, direction: Vec3) -> Option<(usize, f32)> {
        let bodies = self.bodies.iter().enumerate().filter(|(_, body)| !body.held);
        let hits = bodies.filter_map(|(index, body)| Some((index, body.solid().hit(origin, direction, AIM_MARGIN)?)));
        hits.filter(|(_, distance)| *distance < MAX_REACH).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Returns the bodies that a viewer points at, with the head or with either hand.
    fn pointed_at(&self, viewer: Viewer) -> Vec<usize> {
        let Some(presence) = self.viewers.get(&viewer) else { return Vec::new() };
        let hands: Vec<Hand> = if presence.hands.is_empty() {
            vec![Hand::None]
        } else {
            presence.hands.iter().map(|tracked| tracked.hand).collect()
        };
        let rays = hands.into_iter().filter_map(|hand| self.ray(viewer, hand));
        rays.filter_map(|(origin, turn)| self.pick(origin, turn * Vec3::NEG_Z)).map(|(body, _)| body).collect()
    }

    fn act(&mut self, now: Time, viewer: Viewer, event: HandAction) {
        let Some((origin, turn)) = self.ray(viewer, event.hand) else { return };
        let direction = turn * Vec3::NEG_Z;
        let target = self.pick(origin, direction);
        match event.action {
            Action::Grab => {
                self.drop_grips(|grip| grip.viewer == viewer && grip.hand == event.hand);
                if let Some((body, distance)) = target {
                    let reach = distance + self.bodies[body].reach() * 0.6;
                    self.bodies[body].held = true;
                    self.grips.push(Grip {
                        viewer,
                        hand: event.hand,
                        body,
                        distance: reach.clamp(MIN_HOLD_DISTANCE, MAX_GRAB_DISTANCE),
                        rotation: turn.inverse() * self.bodies[body].rotation,
                        known: false,
                    });
                }
            }
            Action::Release => self.drop_grips(|grip| grip.viewer == viewer && grip.hand == event.hand),
            Action::Push => {
                if let Some((index, _)) = target {
                    let body = &mut self.bodies[index];
                    body.wake();
                    body.velocity += direction * PUSH_SPEED + Vec3::Y * 0.9;
                    body.spin += Vec3::Y.cross(direction) * 2.0;
                    self.on_pushed(index);
                }
            }
            Action::Throw => self.throw(viewer, origin, direction),
            Action::Reset => self.reset(),
            Action::HandOver => return self.hand_over(viewer),
            Action::Nearer | Action::Farther => {
                let factor =
                    if event.action == Action::Farther { WHEEL_NOTCH_FACTOR } else { 1.0 / WHEEL_NOTCH_FACTOR };
                let own = |grip: &&mut Grip| grip.viewer == viewer && grip.hand == event.hand;
                if let Some(grip) = self.grips.iter_mut().find(own) {
                    grip.distance = (grip.distance * factor).clamp(MIN_HOLD_DISTANCE, MAX_HOLD_DISTANCE);
                }
                // The motion of a held object is sufficient feedback.
                return;
            }
        }
        self.answer(now, viewer, event.action, (origin, direction), target);
        let felt = match event.action {
            Action::Grab | Action::Push => target.is_some(),
            Action::Throw => true,
            _ => false,
        };
        if let (true, Some(target)) = (felt, event.shakes) {
            let (milliseconds, strong, weak) = HAPTIC_PULSE;
            self.queue_output(viewer, Output::Haptics(Haptics { target, milliseconds, strong, weak }));
        }
    }

    /// Shows a ring where the action took place.
    fn answer(&mut self, now: Time, viewer: Viewer, action: Action, ray: (Vec3, Vec3), target: Option<(usize, f32)>) {
        let (origin, direction) = ray;
        let ground = Solid::GROUND.hit(origin, direction, 0.0).filter(|distance| *distance < 30.0);
        let (place, normal) = match (action, target, ground) {
            (Action::Throw | Action::Reset, ..) => (origin + direction * 2.0, -direction),
            (_, Some((_, distance)), _) => (origin + direction * (distance - 0.05), -direction),
            (_, None, Some(distance)) => (origin + direction * distance + Vec3::Y * 0.03, Vec3::Y),
            (_, None, None) => (origin + direction * 4.0, -direction),
        };
        if self.pulses.len() == MAX_PULSES {
            self.pulses.remove(0);
        }
        self.pulses.push(Pulse { at: now, place, normal, colour: viewer_colour(viewer) });
    }

    /// Requests to hand over the held object. It stays in the hand until the room confirms the new owner.
    fn hand_over(&mut self, viewer: Viewer) {
        let held = self.grips.iter().find(|grip| grip.viewer == viewer).map(|grip| self.bodies[grip.body].object);
        if let Some((object, to)) = held.zip(self.faced(viewer)) {
            self.room_requests.push(RoomRequest::HandOver { viewer, object, to });
        }
    }

    fn throw(&mut self, viewer: Viewer, origin: Vec3, direction: Vec3) {
        let unused = |bodies: &[Body], object: &ObjectId| bodies.iter().all(|body| body.object != *object);
        let mut free = self.thrown_numbers().find(|object| unused(&self.bodies, object));
        if free.is_none()
            && let Some(oldest) = self.bodies.iter().position(|body| body.home.is_none() && !body.held)
        {
            free = Some(self.bodies[oldest].object);
            self.remove(oldest);
        }
        let Some(object) = free else { return };
        let mut ball = thrown_ball(object, origin + direction * 0.45, viewer_colour(viewer));
        ball.velocity = direction * THROW_SPEED + Vec3::Y * 1.4;
        ball.spin = direction.cross(Vec3::Y) * 6.0;
        self.on_thrown(ball.position);
        self.bodies.push(ball);
    }

    fn remove(&mut self, body: usize) {
        self.bodies.remove(body);
        self.grips.retain(|grip| grip.body != body);
        for grip in &mut self.grips {
            grip.body -= usize::from(grip.body > body);
        }
    }

    fn reset(&mut self) {
        self.drop_grips(|_| true);
        // Objects that other members hold stay with them.
        let carried = &self.carried;
        self.bodies.retain(|body| body.home.is_some() || carried.contains_key(&body.object));
        self.bodies.iter_mut().filter(|body| !carried.contains_key(&body.object)).for_each(Body::go_home);
    }

    fn drop_grips(&mut self, dropped: impl Fn(&Grip) -> bool) {
        let (bodies, room_requests) = (&mut self.bodies, &mut self.room_requests);
        self.grips.retain(|grip| {
            let keep = !dropped(grip);
            if !keep {
                bodies[grip.body].held = false;
                bodies[grip.body].wake();
                if grip.known {
                    room_requests.push(RoomRequest::Release { viewer: grip.viewer, object: bodies[grip.body].object });
                }
            }
            keep
        });
    }

    /// Steers held objects towards their hands. Releasing an object in a swing throws it.
    fn move_held(&mut self) {
        for grip in &self.grips {
            let Some((origin, turn)) = self.ray(grip.viewer, grip.hand) else { continue };
            let body = &mut self.bodies[grip.body];
            steer(body, origin + turn * Vec3::NEG_Z * grip.distance, turn * grip.rotation);
        }
        for body in &mut self.bodies {
            if let Some(carried) = self.carried.get(&body.object) {
                steer(body, carried.place, carried.rotation);
            }
        }
    }
}

/// Sets the velocities of a held body so that it moves towards the target.
fn steer(body: &mut Body, mut target: Vec3, rotation: Quat) {
    target.y = target.y.max(body.reach() * 0.7);
    body.velocity = ((target - body.position) * 18.0).clamp_length_max(body::MAX_SPEED);
    body.spin = Vec3::ZERO;
    body.rotation = body.rotation.slerp(rotation, 0.2).normalize();
}

/// Returns position and rotation of a pose. The wire format guarantees that both are valid.
pub fn place(pose: &Pose) -> (Vec3, Quat) {
    (Vec3::from(pose.position), Quat::from_array(pose.orientation).normalize())
}

/// Returns a viewer's display colour. Consecutive numbers are far apart in hue.
pub fn viewer_colour(viewer: Viewer) -> Vec3 {
    let hue = (viewer.0 as f32 * 0.618_034 + 0.52).fract() * 6.0;
    let channel = |shift: f32| {
        let along = (shift + hue) % 6.0;
        1.0 - 0.72 * along.min(4.0 - along).clamp(0.0, 1.0)
    };
    Vec3::new(channel(5.0), channel(3.0), channel(1.0))
}

fn starting_bodies() -> Vec<Body> {
    let ball = |radius: f32, place: [f32; 3], colour: [f32; 3]| {
        Body::new(ObjectId(0), Shape::Ball { radius }, Vec3::from(place), Vec3::from(colour))
    };
    let mut bodies = vec![
        ball(0.20, [-1.75, 1.12, -3.3], [0.95, 0.30, 0.22]),
        ball(0.17, [1.55, 1.09, -2.9], [0.20, 0.58, 0.92]),
        ball(0.26, [-0.75, 0.26, -4.3], [0.98, 0.76, 0.20]),
        ball(0.22, [5.1, 0.70, -6.6], [0.30, 0.78, 0.56]),
        ball(0.16, [0.95, 0.16, -3.7], [0.93, 0.42, 0.66]),
        ball(0.19, [5.9, 0.67, -6.6], [0.88, 0.88, 0.92]),
    ];
    let (x, z, half) = (3.05, -4.6, 0.27);
    let pitch = half * 2.0 + 0.03;
    for (column, row) in [(-1.0, 0.0), (0.0, 0.0), (1.0, 0.0), (-0.5, 1.0), (0.5, 1.0), (0.0, 2.0)] {
        let at = Vec3::new(x + column * pitch, half + row * half * 2.0, z);
        let mut body = Body::new(ObjectId(0), Shape::Crate { half }, at, Vec3::ONE);
        body.rotation = Quat::from_rotation_y(0.06 * (column + row * 1.7));
        body.home = Some((body.position, body.rotation));
        bodies.push(body);
    }
    for (number, body) in (1..).zip(&mut bodies) {
        body.object = ObjectId(number);
    }
    bodies
}

#[cfg(test)]
mod tests;
