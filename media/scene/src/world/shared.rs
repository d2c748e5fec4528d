//! The world as a room: viewers are members, bodies are objects, and remote members appear in the world.
//!
//! The room decides who holds which object. The world moves objects that are free or that its own viewers hold. Remote members move the
//! objects that they hold.

use std::sync::Arc;

use glam::{Quat, Vec3};
use nearlight_rooms::{Avatar, Member, MemberId, ObjectId, Request, Role, Room};
use nearlight_units::Time;
use nearlight_wire::{Hand, Pose};

use super::body::{Body, Shape};
use super::{
    Grip, HandPose, MAX_GRAB_DISTANCE, MAX_THROWN, MIN_HOLD_DISTANCE, Presence, THROWN_RADIUS, World, place,
    viewer_colour,
};
use crate::Viewer;

/// Position of balls that nobody has thrown, out of sight.
pub(super) const PARKED_PLACE: Vec3 = Vec3::new(0.0, -20.0, 0.0);
const PARKED: Pose = Pose { position: PARKED_PLACE.to_array(), orientation: [0.0, 0.0, 0.0, 1.0] };
/// Largest distance in metres from the new holder's hand to an object that was handed over.
const MAX_HANDOVER_DISTANCE: f32 = 1.2;
/// Distance in metres beyond which an object that others hold is moved at once: a ball that was out of sight, or after an outage of its
/// holder.
const TELEPORT_DISTANCE: f32 = 3.0;
/// Smallest cosine of the angle between the view and the recipient of an object: 35 degrees.
const MIN_FACING_COSINE: f32 = 0.82;

/// A member of the room that is not a viewer of this world.
#[derive(Clone, Debug, PartialEq)]
pub struct Person {
    pub presence: Presence,
    pub name: Arc<str>,
    /// Display colour, 0 to 1.
    pub colour: Vec3,
}

/// An object that a remote member holds.
#[derive(Clone, Copy, Debug)]
pub struct CarriedObject {
    pub member: MemberId,
    pub place: Vec3,
    pub rotation: Quat,
}

/// A request of a viewer to the room.
#[derive(Clone, Copy, Debug)]
pub enum RoomRequest {
    Release { viewer: Viewer, object: ObjectId },
    HandOver { viewer: Viewer, object: ObjectId, to: Neighbour },
}

/// A viewer or a remote member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    Viewer(Viewer),
    Member(MemberId),
}

impl World {
    /// Returns the objects of the world's room: the initial bodies, then the balls that can be thrown.
    pub fn objects(&self) -> Vec<(ObjectId, Pose)> {
        let bodies = self.bodies.iter().filter(|body| body.home.is_some());
        let thrown = self.thrown_numbers().map(|object| (object, PARKED));
        bodies.map(|body| (body.object, pose(body.position, body.rotation))).chain(thrown).collect()
    }

    /// Returns the ids of the balls that can be thrown, which follow those of the initial bodies.
    pub(super) fn thrown_numbers(&self) -> impl Iterator<Item = ObjectId> + use<> {
        let first = self.bodies.iter().filter(|body| body.home.is_some()).count() as u32 + 1;
        (first..).take(MAX_THROWN).map(ObjectId)
    }

    /// Synchronises world and room.
    pub fn exchange(&mut self, now: Time, room: &mut Room) {
        self.exchange_members(now, room);
        self.send_requests(now, room);
        self.apply_room_owners(room);
        for (object, parked) in self.thrown_numbers().map(|object| (object, PARKED)) {
            if !self.bodies.iter().any(|body| body.object == object) {
                let _ = room.set_object(now, object, &parked);
            }
        }
        for body in self.bodies.iter().filter(|body| !self.carried.contains_key(&body.object)) {
            // A body outside the bounds of rooms is not moved in the room.
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
                // If the room is full, others do not see the viewer until somebody has left.
                let Ok(member) = room.on_local_join(now, member, self.people.seat_key(viewer)) else { continue };
                self.members.insert(viewer, member);
                if role == Role::Spectator {
                    // A spectator cannot request to hear others.
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
                let name = Arc::from(member.name.as_str());
                Some((id, Person { presence: presence(&room.body(id)?), name, colour }))
            })
            .collect();
        let named =
            |(viewer, id): (&Viewer, &MemberId)| Some((*viewer, Arc::from(room.state().member(*id)?.name.as_str())));
        self.names = self.members.iter().filter_map(named).collect();
    }

    /// Reports to the room what viewers have taken, released and handed over.
    fn send_requests(&mut self, now: Time, room: &mut Room) {
        for wish in std::mem::take(&mut self.room_requests) {
            let (viewer, request) = match wish {
                RoomRequest::Release { viewer, object } => (viewer, Some(Request::Release { object })),
                RoomRequest::HandOver { viewer, object, to } => {
                    let to = match to {
                        Neighbour::Member(member) => Some(member),
                        Neighbour::Viewer(viewer) => self.members.get(&viewer).copied(),
                    };
                    (viewer, to.map(|to| Request::HandOver { object, to }))
                }
            };
            if let Some((member, request)) = self.members.get(&viewer).copied().zip(request) {
                // A viewer cannot release an object that it no longer holds.
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

    /// Applies the room's owners: objects that others hold move with them, and objects that were handed over to a viewer move with that
    /// viewer.
    fn apply_room_owners(&mut self, room: &Room) {
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
                    if body.position.distance(at) > TELEPORT_DISTANCE {
                        (body.position, body.velocity) = (at, Vec3::ZERO);
                    }
                    self.carried.insert(object, CarriedObject { member, place: at, rotation });
                }
                (_, viewer) => {
                    if self.carried.remove(&object).is_some()
                        && let Some(body) = self.bodies.iter_mut().find(|body| body.object == object)
                        && let Some(pose) = room.object(object)
                    {
                        // The object continues from where it was released, with the speed that it had here.
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

    /// Puts an object into the viewer's hand, unless the viewer holds it already.
    fn receive(&mut self, viewer: Viewer, object: ObjectId) {
        let hand = self.viewers.get(&viewer).and_then(|presence| presence.hands.first()).map(|hand| hand.hand);
        let hand = hand.unwrap_or(Hand::None);
        let Some((origin, turn)) = self.ray(viewer, hand) else { return };
        let body = self.body_of(object, origin);
        if self.grips.iter().any(|grip| grip.body == body) {
            return;
        }
        let distance = self.bodies[body]
            .position
            .distance(origin)
            .clamp(MIN_HOLD_DISTANCE, MAX_HANDOVER_DISTANCE.min(MAX_GRAB_DISTANCE));
        let rotation = turn.inverse() * self.bodies[body].rotation;
        self.bodies[body].held = true;
        self.grips.push(Grip { viewer, hand, body, distance, rotation, known: true });
    }

    /// Returns the body of an object. A ball that nobody has thrown is created at `at`.
    fn body_of(&mut self, object: ObjectId, at: Vec3) -> usize {
        if let Some(body) = self.bodies.iter().position(|body| body.object == object) {
            return body;
        }
        self.bodies.push(thrown_ball(object, at, Vec3::ONE));
        self.bodies.len() - 1
    }

    /// Returns the neighbour that a viewer faces.
    pub(super) fn faced(&self, viewer: Viewer) -> Option<Neighbour> {
        let (eye, turn) = place(&self.viewers.get(&viewer)?.head);
        let viewers = self.viewers.iter().filter(|(other, _)| **other != viewer);
        let viewers = viewers.map(|(other, presence)| (Neighbour::Viewer(*other), presence));
        let others = self.others.iter().map(|(member, person)| (Neighbour::Member(*member), &person.presence));
        let angles = viewers.chain(others).map(|(neighbour, presence)| {
            let towards = (Vec3::from(presence.head.position) - eye).normalize_or_zero();
            (neighbour, towards.dot(turn * Vec3::NEG_Z))
        });
        let faced =
            angles.filter(|(_, cosine)| *cosine > MIN_FACING_COSINE).max_by(|one, other| one.1.total_cmp(&other.1));
        faced.map(|(neighbour, _)| neighbour)
    }
}

/// Returns a ball without an initial position.
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
