//! The moving part of the world that is drawn for one viewer: instances of models, and sprites.

use std::sync::Arc;

use glam::{Affine3A, Quat, Vec3, Vec4};

use nearlight_rooms::ObjectId;

use super::body::{Body, Shape};
use super::shared::{PARKED_PLACE, thrown_ball};
use super::{PULSE_DURATION, Presence, World, decor, place, viewer_colour};
use crate::Viewer;
use crate::plaza::mesh::{Layer, Mesh};
use crate::solid::{Form, Solid};

/// Meshes that many instances share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Model {
    Ball,
    Globe,
    Pearl,
    Speck,
    Cube,
    Ring,
    Band,
    Lantern,
    Water,
    Bust,
}

impl Model {
    pub const ALL: [Self; 10] = [
        Self::Ball,
        Self::Globe,
        Self::Pearl,
        Self::Speck,
        Self::Cube,
        Self::Ring,
        Self::Band,
        Self::Lantern,
        Self::Water,
        Self::Bust,
    ];

    /// Returns the mesh, about one metre in radius if it is round.
    pub fn mesh(self) -> Mesh {
        let profile = |points: &[(f32, f32)]| points.iter().map(|point| glam::Vec2::from(*point)).collect::<Vec<_>>();
        let uv = glam::Vec2::ONE;
        match self {
            Self::Ball => Mesh::ball(18, 10),
            Self::Globe => Mesh::ball(12, 7),
            Self::Pearl => Mesh::ball(10, 6),
            Self::Speck => Mesh::ball(6, 4),
            Self::Cube => Mesh::cuboid(Vec3::ONE, None),
            Self::Ring => Mesh::torus(0.042, 42, 6),
            Self::Band => Mesh::torus(0.05, 32, 6),
            Self::Lantern => {
                Mesh::lathe(&profile(&[(0.45, -1.0), (0.85, -0.6), (1.0, 0.0), (0.85, 0.6), (0.45, 1.0)]), 10, uv)
            }
            Self::Water => {
                let mut disc = Mesh::lathe(
                    &profile(&[(1.0, 0.0), (0.86, 0.0), (0.72, 0.0), (0.58, 0.0), (0.44, 0.0), (0.3, 0.0)]),
                    36,
                    uv,
                );
                for vertex in &mut disc.vertices {
                    vertex.normal = Vec3::Y;
                }
                disc
            }
            Self::Bust => Mesh::lathe(
                &profile(&[(0.0, -0.62), (0.10, -0.6), (0.16, -0.4), (0.21, -0.22), (0.19, -0.12), (0.07, -0.06)]),
                16,
                uv,
            ),
        }
    }
}

/// An instance of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Instance {
    pub model: Model,
    pub transform: Affine3A,
    /// Display colour, 0 to 1.
    pub colour: Vec3,
    /// Share of the colour that the surface emits, 0 to about 1.
    pub glow: f32,
    pub layer: Layer,
    /// Share of mirror-like reflection, 0 to 1.
    pub metal: f32,
    /// Share of the sun that reaches the instance, 0 to 1.
    pub sunlight: f32,
    /// Phase of the ripples in radians; 0 for a still surface.
    pub ripple: f32,
    /// Radius of the bounding ball in metres.
    pub reach: f32,
}

impl Instance {
    pub fn new(model: Model, position: Vec3, rotation: Quat, scale: Vec3) -> Self {
        Self {
            model,
            transform: Affine3A::from_scale_rotation_translation(scale, rotation, position),
            colour: Vec3::ONE,
            glow: 0.0,
            layer: Layer::White,
            metal: 0.0,
            sunlight: 1.0,
            ripple: 0.0,
            reach: scale.max_element() * 1.75,
        }
    }

    pub fn position(&self) -> Vec3 {
        self.transform.translation.into()
    }
}

/// A soft round spot, which adds its light and hides the background according to its alpha.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sprite {
    pub centre: Vec3,
    /// Radius in metres.
    pub radius: f32,
    /// Whether the sprite faces up from the floor, instead of facing the viewer.
    pub flat: bool,
    /// Display colour, and the share of the background that it hides.
    pub colour: Vec4,
}

/// The name above a member of the room.
#[derive(Clone, Debug, PartialEq)]
pub struct Tag {
    pub name: Arc<str>,
    /// The middle of the tag's lower edge.
    pub place: Vec3,
    /// Display colour, 0 to 1.
    pub colour: Vec3,
}

/// Distance of a tag's lower edge above the middle of the head, in metres.
const TAG_OFFSET: f32 = 0.25;

/// Everything that moves, ready to be drawn.
#[derive(Clone, Debug, Default)]
pub struct DrawList {
    pub instances: Vec<Instance>,
    pub sprites: Vec<Sprite>,
    pub tags: Vec<Tag>,
}

fn tag(name: &Arc<str>, colour: Vec3, presence: &Presence) -> Tag {
    let place = Vec3::from(presence.head.position) + Vec3::Y * TAG_OFFSET;
    Tag { name: Arc::clone(name), place, colour }
}

impl World {
    /// Returns everything that moves as `viewer` sees it.
    pub fn show(&self, viewer: Viewer) -> DrawList {
        let mut show = DrawList::default();
        let pointed = self.pointed_at(viewer);
        for (index, body) in self.bodies.iter().enumerate() {
            let viewer = self.grips.iter().find(|grip| grip.body == index).map(|grip| viewer_colour(grip.viewer));
            let member = self.carried.get(&body.object).and_then(|carried| self.others.get(&carried.member));
            let holder = viewer.or_else(|| member.map(|person| person.colour));
            show.instances.push(self.body_instance(body, holder, pointed.contains(&index)));
            show.sprites.extend(self.blob_shadow(body.position, body.reach()));
        }
        for (other, presence) in self.viewers.iter().filter(|(other, _)| **other != viewer) {
            self.avatar(viewer_colour(*other), presence, &mut show);
            // Viewers have their names from the room, which makes them unique.
            show.tags.extend(self.names.get(other).map(|name| tag(name, viewer_colour(*other), presence)));
        }
        for person in self.others.values() {
            self.avatar(person.colour, &person.presence, &mut show);
            show.tags.push(tag(&person.name, person.colour, &person.presence));
        }
        for pulse in &self.pulses {
            let share = (self.now.saturating_since(pulse.at).as_secs_f64() / PULSE_DURATION.as_secs_f64()) as f32;
            let turn = Quat::from_rotation_arc(Vec3::Y, pulse.normal.normalize_or(Vec3::Y));
            let size = 0.12 + 0.75 * share.sqrt();
            let mut ring = Instance::new(Model::Band, pulse.place, turn, Vec3::new(size, size * 0.5, size));
            ring.colour = pulse.colour;
            ring.glow = 1.3 * (1.0 - share);
            show.instances.push(ring);
        }
        if self.setting.decor {
            decor::add(self.age(), &self.setting.lighting, &mut show);
        }
        show
    }

    fn body_instance(&self, body: &Body, holder: Option<Vec3>, pointed: bool) -> Instance {
        // Frames do not coincide with steps, so bodies are extrapolated from the last step.
        let position = body.position + body.velocity * self.now.saturating_since(self.stepped_to).as_secs_f64() as f32;
        let mut instance = match body.shape {
            Shape::Ball { radius } => {
                let mut instance = Instance::new(Model::Ball, position, body.rotation, Vec3::splat(radius));
                instance.layer = Layer::Ball;
                instance.metal = 0.12;
                instance
            }
            Shape::Crate { half } => {
                let mut instance = Instance::new(Model::Cube, position, body.rotation, Vec3::splat(half));
                instance.layer = Layer::Crate;
                instance
            }
        };
        instance.colour = body.colour;
        instance.sunlight = self.setting.lighting.sunlight(position);
        if let Some(holder) = holder {
            instance.glow = 0.55;
            instance.colour = body.colour.lerp(holder, 0.5);
        } else if pointed {
            instance.glow = 0.28;
        }
        instance
    }

    /// Returns everything that moves in its initial state, with the ids of the room's objects. Balls that nobody has thrown are out of
    /// sight.
    pub fn at_first(&self) -> Vec<(Option<ObjectId>, Instance)> {
        let parked = self.thrown_numbers().map(|object| thrown_ball(object, PARKED_PLACE, Vec3::ONE));
        let bodies = self.bodies.iter().filter(|body| body.home.is_some()).cloned().chain(parked);
        let bodies = bodies.map(|body| (Some(body.object), self.body_instance(&body, None, false)));
        let mut show = DrawList::default();
        if self.setting.decor {
            decor::add(0.0, &self.setting.lighting, &mut show);
        }
        bodies.chain(show.instances.into_iter().map(|instance| (None, instance))).collect()
    }

    /// Returns a dark spot on the surface under `position`.
    fn blob_shadow(&self, position: Vec3, reach: f32) -> Option<Sprite> {
        let under = |solid: &Solid| match solid.form {
            Form::Block { half } => {
                let offset = position - solid.position;
                let above = offset.x.abs() < half.x && offset.z.abs() < half.z && offset.y > half.y;
                above.then_some(solid.position.y + half.y)
            }
            _ => None,
        };
        let floor = self.setting.solids.iter().filter_map(under).fold(0.0, f32::max);
        let height = position.y - floor;
        let strength = 0.62 * (1.0 - height / (reach * 7.0));
        (height > 0.0 && strength > 0.02).then(|| Sprite {
            centre: position.with_y(floor + 0.012),
            radius: reach * 1.25 + height * 0.25,
            flat: true,
            colour: Vec4::new(0.0, 0.0, 0.0, strength),
        })
    }

    fn avatar(&self, colour: Vec3, presence: &Presence, show: &mut DrawList) {
        let (head, turn) = place(&presence.head);
        let sunlight = self.setting.lighting.sunlight(head);
        let mut part = |model: Model, position: Vec3, rotation: Quat, scale: Vec3, tint: Vec3, metal: f32| {
            let mut instance = Instance::new(model, position, rotation, scale);
            (instance.colour, instance.metal, instance.sunlight) = (tint, metal, sunlight);
            show.instances.push(instance);
        };
        part(Model::Ball, head, turn, Vec3::new(0.115, 0.145, 0.13), colour, 0.1);
        let visor = head + turn * Vec3::new(0.0, 0.015, -0.075);
        part(Model::Ball, visor, turn, Vec3::new(0.095, 0.055, 0.075), Vec3::new(0.10, 0.11, 0.16), 0.75);
        let ahead = (turn * Vec3::NEG_Z).with_y(0.0).normalize_or(Vec3::NEG_Z);
        let upright = Quat::from_rotation_arc(Vec3::NEG_Z, ahead);
        part(Model::Bust, head - Vec3::Y * 0.12, upright, Vec3::new(1.0, 1.0, 0.62), colour * 0.8, 0.05);
        for hand in &presence.hands {
            let (position, turn) = place(&hand.pose);
            part(Model::Pearl, position, turn, Vec3::new(0.042, 0.032, 0.075), colour, 0.1);
        }
        show.sprites.extend(self.blob_shadow(head, 0.3).map(|spot| Sprite { colour: spot.colour * 1.2, ..spot }));
    }
}
