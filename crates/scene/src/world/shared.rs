//! The world as a room: viewers are members of it, bodies are its objects, and members that come over a network are in the world.
//!
//! The room decides who holds what. The world moves what nobody holds and what its own viewers hold; other members move what they hold.

use glam::{Quat, Vec3};
use nearlight_rooms::{Avatar, Member, MemberId, ObjectId, Request, Role, Room};
use nearlight_units::Time;
use nearlight_wire::{Hand, Pose};

use super::body::{Body, Shape};
use super::{FARTHEST_GRAB, Grip, HandPose, MAX_THROWN, NEAREST, Presence, THROWN_RADIUS, World, place, viewer_colour};
use crate::Viewer;

/// Where a ball is that nobody has thrown: out of sight.
pub(super) const PARKED_PLACE: Vec3 = Vec3::new(0.0, -20.0, 0.0);
const PARKED: Pose = Pose { position: PARKED_PLACE.to_array(), orientation: [0.0, 0.0, 0.0, 1.0] };
/// Metres from its new holder's hand to an object that was handed over, at the most.
const HANDED_OVER: f32 = 1.2;
/// Metres beyond which what others hold is put in its place at once: a ball that was out of sight, or a member that was cut off.
const JUMP: f32 = 3.0;
/// The cosine of the angle between the view and a member to whom an object is handed over, at the least: 35 degrees.
const FACING: f32 = 0.82;

/// A member of the room that is not a viewer of this world.
#[derive(Clone, Debug, PartialEq)]
pub struct Person {
    pub presence: Presence,
    /// Display colour, 0 to 1.
    pub colour: Vec3,
}

/// What such a member holds.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    pub member: MemberId,
    pub place: Vec3,
    pub rotation: Quat,
}

/// What viewers have done that the room has to know.
#[derive(Clone, Copy, Debug)]
pub enum Wish {
    Release { viewer: Viewer, object: ObjectId },
    HandOver { viewer: Viewer, object: ObjectId, to: Neighbour },
}

/// Somebody in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    Viewer(Viewer),
    Member(MemberId),
}

impl World {
    /// The objects of the room that this world is: the bodies that are there from the start, then the balls that can be thrown.
    pub fn objects(&self) -> Vec<(ObjectId, Pose)> {
        let bodies = self.bodies.iter().filter(|body| body.home.is_some());
        let thrown = self.thrown_numbers().map(|object| (object, PARKED));
        bodies.map(|body| (body.object, pose(body.position, body.rotation))).chain(thrown).collect()
    }

    /// The numbers of balls that can be thrown: those after the bodies that are there from the start.
    pub(super) fn thrown_numbers(&self) -> impl Iterator<Item = ObjectId> + use<> {
        let first = self.bodies.iter().filter(|body| body.home.is_some()).count() as u32 + 1;
        (first..).take(MAX_THROWN).map(ObjectId)
    }

    /// Tells the room what happened here, and takes over what happened there.
    pub fn exchange(&mut self, now: Time, room: &mut Room) {
        self.exchange_members(now, room);
        self.ask(now, room);
        self.take_over(room);
        for (object, parked) in self.thrown_numbers().map(|object| (object, PARKED)) {
            if !self.bodies.iter().any(|body| body.object == object) {
                let _ = room.set_object(now, object, &parked);
            }
        }
        for body in self.bodies.iter().filter(|body| !self.carried.contains_key(&body.object)) {
            // A body that left the bounds of rooms is not moved there.
            let _ = room.set_object(now, body.object, &pose(body.position, body.rotation));
        }
        self.exchange_voices(now, room);
    }

    fn exchange_members(&mut self, now: Time, room: &mut Room) {
        let (viewers, spectators) = (&self.viewers, self.people.spectators());
        self.members.retain(|viewer, member| {
            let stays = viewers.contains_key(viewer) || spectators.contains(viewer);
            if !stays {
                room.on_leave(now, *member);
            }
            stays
        });
        let guests = viewers.keys().map(|viewer| (*viewer, Role::Guest));
        for (viewer, role) in guests.chain(spectators.iter().map(|viewer| (*viewer, Role::Spectator))) {
            if !self.members.contains_key(&viewer) {
                let colour = (viewer_colour(viewer) * 255.0).round().to_array().map(|channel| channel as u8);
                let member = Member { role, name: self.people.name(viewer), colour };
                // In a full room the viewer is not seen by others until somebody has left.
                let Ok(member) = room.on_local_join(now, member) else { continue };
                self.members.insert(viewer, member);
                if role == Role::Spectator {
                    // It cannot say that it wants to hear others.
                    room.on_voice(now, member, 0, &[]);
                }
            }
        }
        for (viewer, presence) in viewers {
            if let Some(member) = self.members.get(viewer) {
                let _ = room.set_body(now, *member, &avatar(presence));
            }
        }
        let own: Vec<MemberId> = self.members.values().copied().collect();
        let others = room.state().members().filter(|(id, _)| !own.contains(id));
        self.others = others
            .filter_map(|(id, member)| {
                let colour = Vec3::from(member.colour.map(|channel| f32::from(channel) / 255.0));
                Some((id, Person { presence: presence(&room.body(id)?), colour }))
            })
            .collect();
    }

    /// What viewers have taken, let go and given away.
    fn ask(&mut self, now: Time, room: &mut Room) {
        for wish in std::mem::take(&mut self.wishes) {
            let (viewer, request) = match wish {
                Wish::Release { viewer, object } => (viewer, Some(Request::Release { object })),
                Wish::HandOver { viewer, object, to } => {
                    let to = match to {
                        Neighbour::Member(member) => Some(member),
                        Neighbour::Viewer(viewer) => self.members.get(&viewer).copied(),
                    };
                    (viewer, to.map(|to| Request::HandOver { object, to }))
                }
            };
            if let Some((member, request)) = self.members.get(&viewer).copied().zip(request) {
                // What it no longer holds it cannot let go.
                room.request(now, member, request);
            }
        }
        let (members, bodies) = (&self.members, &mut self.bodies);
        self.grips.retain_mut(|grip| {
            let object = bodies[grip.body].object;
            let holds = match (members.get(&grip.viewer), room.state().owner(object)) {
                (Some(member), Some(owner)) => *member == owner,
                (Some(member), None) if !grip.known => room.request(now, *member, Request::Take { object }),
                (None, None) => return true,
                _ => false,
            };
            grip.known = holds;
            if !holds {
                bodies[grip.body].held = false;
                bodies[grip.body].wake();
            }
            holds
        });
    }

    /// What others hold moves with them, and what was handed over to a viewer with that viewer.
    fn take_over(&mut self, room: &Room) {
        for (object, owner) in room.state().objects() {
            let viewer = owner.and_then(|owner| self.members.iter().find(|(_, member)| **member == owner));
            let viewer = viewer.map(|(viewer, _)| *viewer);
            match (owner, viewer) {
                (Some(member), None) => {
                    let Some(pose) = room.object(object) else { continue };
                    let (at, rotation) = place(&pose);
                    let body = self.body_of(object, at);
                    let body = &mut self.bodies[body];
                    body.held = true;
                    if body.position.distance(at) > JUMP {
                        (body.position, body.velocity) = (at, Vec3::ZERO);
                    }
                    self.carried.insert(object, Carried { member, place: at, rotation });
                }
                (_, viewer) => {
                    if self.carried.remove(&object).is_some()
                        && let Some(body) = self.bodies.iter_mut().find(|body| body.object == object)
                        && let Some(pose) = room.object(object)
                    {
                        // It goes on from where it was let go, with the speed that it had here.
                        let least = body.reach() * 0.7;
                        body.position = Vec3::from(pose.position).max(Vec3::new(f32::MIN, least, f32::MIN));
                        body.held = false;
                        body.wake();
                    }
                    if let Some(viewer) = viewer {
                        self.receive(viewer, object);
                    }
                }
            }
        }
    }

    /// The viewer has been given an object, unless it holds it already.
    fn receive(&mut self, viewer: Viewer, object: ObjectId) {
        let hand = self.viewers.get(&viewer).and_then(|presence| presence.hands.first()).map(|hand| hand.hand);
        let hand = hand.unwrap_or(Hand::None);
        let Some((origin, turn)) = self.ray(viewer, hand) else { return };
        let body = self.body_of(object, origin);
        if self.grips.iter().any(|grip| grip.body == body) {
            return;
        }
        let distance = self.bodies[body].position.distance(origin).clamp(NEAREST, HANDED_OVER.min(FARTHEST_GRAB));
        let rotation = turn.inverse() * self.bodies[body].rotation;
        self.bodies[body].held = true;
        self.grips.push(Grip { viewer, hand, body, distance, rotation, known: true });
    }

    /// The body of an object; a ball that nobody has thrown is put at `at` first.
    fn body_of(&mut self, object: ObjectId, at: Vec3) -> usize {
        if let Some(body) = self.bodies.iter().position(|body| body.object == object) {
            return body;
        }
        self.bodies.push(thrown_ball(object, at, Vec3::ONE));
        self.bodies.len() - 1
    }

    /// Whom a viewer faces.
    pub(super) fn faced(&self, viewer: Viewer) -> Option<Neighbour> {
        let (eye, turn) = place(&self.viewers.get(&viewer)?.head);
        let viewers = self.viewers.iter().filter(|(other, _)| **other != viewer);
        let viewers = viewers.map(|(other, presence)| (Neighbour::Viewer(*other), presence));
        let others = self.others.iter().map(|(member, person)| (Neighbour::Member(*member), &person.presence));
        let angles = viewers.chain(others).map(|(neighbour, presence)| {
            let towards = (Vec3::from(presence.head.position) - eye).normalize_or_zero();
            (neighbour, towards.dot(turn * Vec3::NEG_Z))
        });
        let faced = angles.filter(|(_, cosine)| *cosine > FACING).max_by(|one, other| one.1.total_cmp(&other.1));
        faced.map(|(neighbour, _)| neighbour)
    }
}

/// A ball without a home.
pub(super) fn thrown_ball(object: ObjectId, at: Vec3, colour: Vec3) -> Body {
    let mut ball = Body::new(object, Shape::Ball { radius: THROWN_RADIUS }, at, colour);
    ball.home = None;
    ball
}

fn pose(position: Vec3, rotation: Quat) -> Pose {
    Pose { position: position.to_array(), orientation: rotation.to_array() }
}

fn avatar(presence: &Presence) -> Avatar {
    let hand = |wanted: Hand| presence.hands.iter().find(|hand| hand.hand == wanted).map(|hand| hand.pose);
    Avatar { head: presence.head, left: hand(Hand::Left), right: hand(Hand::Right), joints: None }
}

fn presence(avatar: &Avatar) -> Presence {
    let hands = [(Hand::Left, avatar.left), (Hand::Right, avatar.right)];
    let hands = hands.into_iter().filter_map(|(hand, pose)| Some(HandPose { hand, pose: pose? })).collect();
    Presence { head: avatar.head, hands }
}
