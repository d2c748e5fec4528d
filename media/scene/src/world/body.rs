//! Rigid bodies: balls and cubes under gravity, with fixed steps and no randomness.
//!
//! Contacts are solved by sequential impulses. Both shapes have the same inertia about every axis, so a number replaces the tensor. Edges
//! of two cubes that cross without a corner inside do not collide.

use glam::{Quat, Vec3};
use nearlight_rooms::ObjectId;

use crate::solid::{Form, Solid};

/// Time step in seconds: 120 steps per second resolve the fastest throw to eight centimetres.
pub const STEP: f32 = 1.0 / 120.0;
const GRAVITY: f32 = 9.81;
/// Iterations of the solver per step. Guess: a stack of three crates is stable from six on.
const SOLVER_ITERATIONS: usize = 8;
/// Share of the penetration that a step corrects. Guess: a usual value in such engines.
const CORRECTION_SHARE: f32 = 0.2;
/// Penetration in metres that is tolerated, so that resting bodies keep touching.
const PENETRATION_TOLERANCE: f32 = 0.003;
const FRICTION: f32 = 0.55;
/// Slowest impact that bounces, in metres per second.
const MIN_BOUNCE_SPEED: f32 = 0.7;
/// Speed below which a body falls asleep after [`STEPS_TO_SLEEP`] steps, in metres and radians per second.
const MAX_SLEEP_SPEED: f32 = 0.09;
const STEPS_TO_SLEEP: u32 = 50;
/// Fewest steps between two reported impacts of a body: its corners and a lasting contact are one impact. Guess: 75 ms.
const MIN_STEPS_BETWEEN_IMPACTS: u32 = 9;
/// Slowest reported impact in metres per second. A resting body meets the floor with 0.08 in each step.
const MIN_REPORTED_IMPACT_SPEED: f32 = 0.25;
/// Speed limit in metres per second. A faster body could pass through a wall within a step.
pub const MAX_SPEED: f32 = 18.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    Ball { radius: f32 },
    Crate { half: f32 },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    /// Id of the body as an object of the room.
    pub object: ObjectId,
    pub shape: Shape,
    pub position: Vec3,
    pub rotation: Quat,
    pub velocity: Vec3,
    pub spin: Vec3,
    /// Display colour, 0 to 1.
    pub colour: Vec3,
    /// Initial position and rotation; none for a thrown ball.
    pub home: Option<(Vec3, Quat)>,
    /// Whether a hand holds the body, so that nothing else moves it.
    pub held: bool,
    still: u32,
    /// Steps since the last reported impact.
    silent: u32,
}

/// An impact of a body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Impact {
    pub body: usize,
    pub point: Vec3,
    /// Speed of approach in metres per second.
    pub speed: f32,
}

/// A contact of a body with another one, or with a static solid.
struct Contact {
    first: usize,
    second: Option<usize>,
    point: Vec3,
    /// Unit vector away from the second.
    normal: Vec3,
    depth: f32,
    /// Speed of approach before the contact, in metres per second.
    approach: f32,
    bounce: f32,
    pushed: f32,
}

impl Body {
    pub fn new(object: ObjectId, shape: Shape, position: Vec3, colour: Vec3) -> Self {
        Self {
            object,
            shape,
            position,
            rotation: Quat::IDENTITY,
            velocity: Vec3::ZERO,
            spin: Vec3::ZERO,
            colour,
            home: Some((position, Quat::IDENTITY)),
            held: false,
            still: 0,
            silent: MIN_STEPS_BETWEEN_IMPACTS,
        }
    }

    pub fn go_home(&mut self) {
        if let Some((position, rotation)) = self.home {
            (self.position, self.rotation) = (position, rotation);
        }
        (self.velocity, self.spin, self.still) = (Vec3::ZERO, Vec3::ZERO, 0);
    }

    /// Returns the radius of the bounding ball.
    pub fn reach(&self) -> f32 {
        match self.shape {
            Shape::Ball { radius } => radius,
            Shape::Crate { half } => half * 1.733,
        }
    }

    pub fn solid(&self) -> Solid {
        let form = match self.shape {
            Shape::Ball { radius } => Form::Ball { radius },
            Shape::Crate { half } => Form::Block { half: Vec3::splat(half) },
        };
        Solid { form, position: self.position, rotation: self.rotation }
    }

    pub fn wake(&mut self) {
        self.still = 0;
    }

    fn asleep(&self) -> bool {
        self.still >= STEPS_TO_SLEEP && !self.held
    }

    fn inverse_mass(&self) -> f32 {
        if self.held || self.asleep() {
            return 0.0;
        }
        match self.shape {
            Shape::Ball { radius } => 1.0 / (4.19 * radius.powi(3)),
            Shape::Crate { half } => 1.0 / (8.0 * half.powi(3)),
        }
    }

    /// Returns the ratio of inverse inertia to inverse mass.
    fn inverse_inertia_ratio(&self) -> f32 {
        match self.shape {
            Shape::Ball { radius } => 2.5 / (radius * radius),
            Shape::Crate { half } => 1.5 / (half * half),
        }
    }

    fn velocity_at(&self, point: Vec3) -> Vec3 {
        self.velocity + self.spin.cross(point - self.position)
    }

    fn apply(&mut self, impulse: Vec3, point: Vec3) {
        let inverse_mass = self.inverse_mass();
        self.velocity += impulse * inverse_mass;
        self.spin += (point - self.position).cross(impulse) * (inverse_mass * self.inverse_inertia_ratio());
    }

    /// Returns the velocity along `direction` that a unit impulse at `point` causes.
    fn velocity_per_impulse(&self, point: Vec3, direction: Vec3) -> f32 {
        self.inverse_mass()
            * (1.0 + self.inverse_inertia_ratio() * (point - self.position).cross(direction).length_squared())
    }

    /// Returns the balls (centre and radius) that represent the body in collisions with others.
    fn contact_balls(&self) -> impl Iterator<Item = (Vec3, f32)> + '_ {
        let (count, inset, radius) = match self.shape {
            Shape::Ball { radius } => (1, 0.0, radius),
            Shape::Crate { half } => (8, half * 0.94, half * 0.06),
        };
        (0..count).map(move |corner| {
            let side = |bit: u32| if corner >> bit & 1 == 1 { inset } else { -inset };
            (self.position + self.rotation * Vec3::new(side(0), side(1), side(2)), radius)
        })
    }
}

/// Advances all bodies by one [`STEP`] and returns the impacts.
pub fn step(bodies: &mut [Body], solids: &[Solid]) -> Vec<Impact> {
    for body in bodies.iter_mut().filter(|body| !body.held && !body.asleep()) {
        body.velocity.y -= GRAVITY * STEP;
        body.velocity *= 1.0 - 0.12 * STEP;
        body.spin *= 1.0 - 0.9 * STEP;
    }
    let mut contacts = contacts(bodies, solids);
    let impacts = impacts(bodies, &contacts);
    for _ in 0..SOLVER_ITERATIONS {
        for contact in &mut contacts {
            solve(bodies, contact);
        }
    }
    for body in bodies.iter_mut().filter(|body| !body.asleep()) {
        body.velocity = body.velocity.clamp_length_max(MAX_SPEED);
        body.position += body.velocity * STEP;
        body.rotation = (Quat::from_scaled_axis(body.spin * STEP) * body.rotation).normalize();
        let slow = body.velocity.length().max(body.spin.length() * 0.3) < MAX_SLEEP_SPEED;
        body.still = if slow && !body.held { body.still + 1 } else { 0 };
        if body.asleep() {
            (body.velocity, body.spin) = (Vec3::ZERO, Vec3::ZERO);
        }
    }
    impacts
}

/// Returns the fastest contact of each body that has had no impact for a while. If two bodies collide, both are reported.
fn impacts(bodies: &mut [Body], contacts: &[Contact]) -> Vec<Impact> {
    let mut impacts = Vec::new();
    for (index, body) in bodies.iter_mut().enumerate() {
        body.silent = body.silent.saturating_add(1);
        let own = contacts.iter().filter(|contact| contact.first == index || contact.second == Some(index));
        let fastest = own.max_by(|one, other| one.approach.total_cmp(&other.approach));
        if let Some(contact) = fastest.filter(|contact| contact.approach > MIN_REPORTED_IMPACT_SPEED) {
            if body.silent > MIN_STEPS_BETWEEN_IMPACTS {
                impacts.push(Impact { body: index, point: contact.point, speed: contact.approach });
            }
            body.silent = 0;
        }
    }
    impacts
}

fn contacts(bodies: &mut [Body], solids: &[Solid]) -> Vec<Contact> {
    let mut contacts = Vec::new();
    for first in 0..bodies.len() {
        if !bodies[first].asleep() && !bodies[first].held {
            for solid in solids {
                gather(bodies, first, None, solid, &mut contacts);
            }
        }
        for second in first + 1..bodies.len() {
            let (a, b) = (&bodies[first], &bodies[second]);
            let reach = a.reach() + b.reach();
            let idle = |body: &Body| body.asleep() || body.held;
            if a.position.distance_squared(b.position) > reach * reach || (idle(a) && idle(b)) {
                continue;
            }
            // A moving body wakes the bodies that it touches.
            if (a.velocity - b.velocity).length() > 4.0 * MAX_SLEEP_SPEED {
                bodies[first].wake();
                bodies[second].wake();
            }
            let (first_solid, second_solid) = (bodies[first].solid(), bodies[second].solid());
            gather(bodies, first, Some(second), &second_solid, &mut contacts);
            if matches!(bodies[second].shape, Shape::Crate { .. }) && matches!(bodies[first].shape, Shape::Crate { .. })
            {
                gather(bodies, second, Some(first), &first_solid, &mut contacts);
            } else if matches!(bodies[second].shape, Shape::Ball { .. })
                && matches!(bodies[first].shape, Shape::Crate { .. })
            {
                contacts.retain(|contact| contact.first != first || contact.second != Some(second));
                gather(bodies, second, Some(first), &first_solid, &mut contacts);
            }
        }
    }
    contacts
}

fn gather(bodies: &[Body], first: usize, second: Option<usize>, solid: &Solid, contacts: &mut Vec<Contact>) {
    for (feeler, radius) in bodies[first].contact_balls() {
        let Some(touch) = solid.touch(feeler, radius) else { continue };
        let point = feeler - touch.normal * (radius - touch.depth / 2.0);
        let other = second.map_or(Vec3::ZERO, |second| bodies[second].velocity_at(point));
        let approach = -(bodies[first].velocity_at(point) - other).dot(touch.normal);
        let springy = if matches!(bodies[first].shape, Shape::Ball { .. }) { 0.62 } else { 0.15 };
        contacts.push(Contact {
            first,
            second,
            point,
            normal: touch.normal,
            depth: touch.depth,
            approach,
            bounce: if approach > MIN_BOUNCE_SPEED { approach * springy } else { 0.0 },
            pushed: 0.0,
        });
    }
}

fn solve(bodies: &mut [Body], contact: &mut Contact) {
    let (normal, point) = (contact.normal, contact.point);
    let slip = |bodies: &[Body]| {
        let other = contact.second.map_or(Vec3::ZERO, |second| bodies[second].velocity_at(point));
        bodies[contact.first].velocity_at(point) - other
    };
    let velocity_per_impulse = |bodies: &[Body], direction: Vec3| {
        let other = contact.second.map_or(0.0, |second| bodies[second].velocity_per_impulse(point, direction));
        bodies[contact.first].velocity_per_impulse(point, direction) + other
    };
    let apply = |bodies: &mut [Body], impulse: Vec3| {
        bodies[contact.first].apply(impulse, point);
        if let Some(second) = contact.second {
            bodies[second].apply(-impulse, point);
        }
    };
    let give = velocity_per_impulse(bodies, normal);
    if give < 1e-9 {
        return;
    }
    let correction = (CORRECTION_SHARE / STEP * (contact.depth - PENETRATION_TOLERANCE).max(0.0)).min(3.0);
    let wanted = (contact.bounce.max(correction) - slip(bodies).dot(normal)) / give;
    let pushed = (contact.pushed + wanted).max(0.0);
    apply(bodies, normal * (pushed - contact.pushed));
    contact.pushed = pushed;
    let sliding = slip(bodies);
    let sideways = sliding - normal * sliding.dot(normal);
    let speed = sideways.length();
    if speed > 1e-5 {
        let direction = sideways / speed;
        let most = FRICTION * contact.pushed;
        let impulse = (speed / velocity_per_impulse(bodies, direction).max(1e-9)).min(most);
        apply(bodies, direction * -impulse);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(bodies: &mut [Body], seconds: f32) {
        for _ in 0..(seconds / STEP) as u32 {
            step(bodies, &[Solid::GROUND]);
        }
    }

    #[test]
    fn everything_comes_to_rest_on_the_floor() {
        let crate_at = |y: f32| Body::new(ObjectId(1), Shape::Crate { half: 0.25 }, Vec3::new(0.0, y, 0.0), Vec3::ONE);
        let mut bodies = vec![
            crate_at(0.3),
            crate_at(0.9),
            Body::new(ObjectId(1), Shape::Ball { radius: 0.2 }, Vec3::new(2.0, 2.0, 0.0), Vec3::ONE),
        ];
        bodies[2].velocity = Vec3::new(1.0, 0.0, 0.0);
        run(&mut bodies, 12.0);
        for (body, height) in bodies.iter().zip([0.25, 0.75, 0.2]) {
            assert!(body.asleep(), "{body:?} still moves");
            assert!((body.position.y - height).abs() < 0.02, "{body:?} should rest at {height}");
        }
    }

    #[test]
    fn a_ball_that_falls_knocks_ever_more_softly_and_then_rests_in_silence() {
        let mut bodies = vec![Body::new(ObjectId(1), Shape::Ball { radius: 0.2 }, Vec3::new(0.0, 2.2, 0.0), Vec3::ONE)];
        let impacts: Vec<(u32, Impact)> = (0..1_200)
            .flat_map(|at| step(&mut bodies, &[Solid::GROUND]).into_iter().map(move |impact| (at, impact)))
            .collect();
        // It falls two metres in 0.64 s and arrives with 6.3 m/s.
        let (first_at, first) = impacts[0];
        assert!((70..85).contains(&first_at) && (5.8..6.6).contains(&first.speed), "{first_at} {first:?}");
        assert!(impacts.len() >= 3 && impacts.windows(2).all(|pair| pair[0].1.speed > pair[1].1.speed), "{impacts:?}");
        assert!(impacts.iter().all(|(at, _)| *at < 900), "it rests: {impacts:?}");
    }

    #[test]
    fn a_ball_passes_its_momentum_on() {
        let ball = |x: f32| Body::new(ObjectId(1), Shape::Ball { radius: 0.2 }, Vec3::new(x, 0.2, 0.0), Vec3::ONE);
        let mut bodies = vec![ball(0.0), ball(1.0)];
        bodies[0].velocity = Vec3::new(4.0, 0.0, 0.0);
        run(&mut bodies, 0.5);
        assert!(bodies[1].velocity.x > 1.0 && bodies[1].velocity.x > bodies[0].velocity.x, "{bodies:?}");
    }

    #[test]
    fn nothing_leaves_the_world_or_becomes_infinite() {
        let mut bodies: Vec<Body> = (0..12)
            .map(|index| {
                let shape = if index % 2 == 0 { Shape::Ball { radius: 0.2 } } else { Shape::Crate { half: 0.2 } };
                let mut body = Body::new(ObjectId(1), shape, Vec3::new(0.01 * index as f32, 0.25, 0.0), Vec3::ONE);
                body.velocity = Vec3::new(90.0, -70.0, index as f32);
                body
            })
            .collect();
        run(&mut bodies, 3.0);
        for body in &bodies {
            assert!(body.position.is_finite() && body.rotation.is_finite() && body.position.y > -0.2, "{body:?}");
        }
    }
}
