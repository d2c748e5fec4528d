//! The static environment, built once, with baked light.

pub mod build;
pub mod floor;
pub mod light;
pub mod mesh;
pub mod texture;

use std::ops::Range;

use glam::Vec3;

use crate::solid::Solid;
use light::{LIGHT_RANGE, Lighting, display};
use mesh::{Mesh, Vertex};
use texture::Image;

/// The textures with which a chunk is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// The shared texture array.
    Array,
    /// The flagstones under the baked light of the floor.
    Floor,
    /// The shared texture array, for parts behind everything else.
    Backdrop,
    /// The evening sky, without fog.
    Sky,
    /// A separate picture, by its index in [`Environment::pictures`].
    Picture(usize),
}

/// Triangles that are culled and drawn together.
#[derive(Clone, Debug)]
pub struct Chunk {
    pub surface: Surface,
    pub indices: Range<u32>,
    /// Centre of the bounding ball.
    pub centre: Vec3,
    pub radius: f32,
}

/// The static scene, ready for upload, and the parts of it that affect moving objects.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    pub mesh: Mesh,
    pub chunks: Vec<Chunk>,
    pub pictures: Vec<Image>,
    /// Baked light of the floor, as display values divided by [`LIGHT_RANGE`].
    pub floor_light: Option<Image>,
    pub solids: Vec<Solid>,
    pub lighting: Lighting,
}

impl Environment {
    /// Adds triangles whose vertex colours are final.
    pub fn add(&mut self, surface: Surface, mesh: &Mesh) {
        if mesh.indices.is_empty() {
            return;
        }
        let (low, high) = bounds(&mesh.vertices);
        let centre = (low + high) / 2.0;
        let start = self.mesh.indices.len() as u32;
        self.mesh.append(mesh);
        self.chunks.push(Chunk {
            surface,
            indices: start..self.mesh.indices.len() as u32,
            centre,
            radius: (high - low).length() / 2.0,
        });
    }

    /// Adds triangles whose vertex colours are surface colours, and bakes their light.
    pub fn add_lit(&mut self, surface: Surface, mut mesh: Mesh) {
        for vertex in &mut mesh.vertices {
            // Points near the ground see less of the sky.
            let open = 0.62 + 0.38 * light::smooth(vertex.position.y / 1.2 + 0.15);
            let light = self.lighting.at(vertex.position, vertex.normal, open);
            vertex.colour = vertex.colour * display(light) / LIGHT_RANGE;
        }
        self.add(surface, &mesh);
    }
}

/// Returns the corners of the box around `vertices`.
pub fn bounds(vertices: &[Vertex]) -> (Vec3, Vec3) {
    vertices.iter().fold((Vec3::INFINITY, Vec3::NEG_INFINITY), |(low, high), vertex| {
        (low.min(vertex.position), high.max(vertex.position))
    })
}
