//! Triangle meshes and their generators.

use glam::{Mat4, Vec2, Vec3};

/// A layer of the shared texture array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Layer {
    White = 0,
    Stone = 1,
    Marble = 2,
    Crate = 3,
    Leaves = 4,
    Ball = 5,
    Masonry = 6,
    Paper = 7,
}

impl Layer {
    pub const COUNT: u32 = 8;
}

#[derive(Clone, Copy, Debug)]
pub struct Vertex {
    pub position: Vec3,
    pub normal: Vec3,
    pub uv: Vec2,
    /// Surface colour, or with baked light the display value divided by [`super::light::LIGHT_RANGE`]; 0 to 1.
    pub colour: Vec3,
    /// Strength of the fog on the surface, 0 to 1.
    pub fog: f32,
    pub layer: Layer,
}

impl Vertex {
    /// Number of bytes of a vertex in a buffer.
    pub const BYTES: usize = 28;

    pub fn write(&self, bytes: &mut Vec<u8>) {
        for value in self.position.to_array() {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        for value in self.normal.to_array() {
            bytes.push((value.clamp(-1.0, 1.0) * 127.0).round() as i8 as u8);
        }
        bytes.push(self.layer as u8);
        for value in self.uv.to_array() {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        for value in [self.colour.x, self.colour.y, self.colour.z, self.fog] {
            bytes.push((value.clamp(0.0, 1.0) * 255.0).round() as u8);
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Mesh {
    pub vertices: Vec<Vertex>,
    pub indices: Vec<u32>,
}

impl Mesh {
    pub fn append(&mut self, other: &Self) {
        let first = self.vertices.len() as u32;
        self.vertices.extend_from_slice(&other.vertices);
        self.indices.extend(other.indices.iter().map(|index| first + index));
    }

    #[must_use]
    pub fn moved(mut self, transform: Mat4) -> Self {
        for vertex in &mut self.vertices {
            vertex.position = transform.transform_point3(vertex.position);
            vertex.normal = transform.transform_vector3(vertex.normal).normalize_or(Vec3::Y);
        }
        self
    }

    #[must_use]
    pub fn at(self, x: f32, y: f32, z: f32) -> Self {
        self.moved(Mat4::from_translation(Vec3::new(x, y, z)))
    }

    #[must_use]
    pub fn coloured(mut self, colour: Vec3, layer: Layer) -> Self {
        for vertex in &mut self.vertices {
            vertex.colour = colour;
            vertex.layer = layer;
        }
        self
    }

    /// Returns the surface of revolution of `profile` (radius and height, from bottom to top) around the y axis.
    ///
    /// Neighbouring lines of the profile share a smooth normal if they meet at less than about 40 degrees.
    pub fn lathe(profile: &[Vec2], segments: u32, uv_scale: Vec2) -> Self {
        let mut mesh = Self::default();
        let slope = |line: &[Vec2]| {
            let step = line[1] - line[0];
            Vec2::new(step.y, -step.x).normalize_or(Vec2::X)
        };
        let normals: Vec<Vec2> = profile.windows(2).map(slope).collect();
        let mut height = 0.0;
        for (index, line) in profile.windows(2).enumerate() {
            let own = normals[index];
            let blend = |other: Option<&Vec2>| match other {
                Some(other) if other.dot(own) > 0.76 => (*other + own).normalize_or(own),
                _ => own,
            };
            let before = blend(index.checked_sub(1).and_then(|index| normals.get(index)));
            let after = blend(normals.get(index + 1));
            let top = height + line[0].distance(line[1]);
            mesh.band([(line[0], before, height), (line[1], after, top)], segments, uv_scale);
            height = top;
        }
        mesh
    }

    fn band(&mut self, ends: [(Vec2, Vec2, f32); 2], segments: u32, uv_scale: Vec2) {
        let first = self.vertices.len() as u32;
        for segment in 0..=segments {
            let share = segment as f32 / segments as f32;
            let (sin, cos) = (share * std::f32::consts::TAU).sin_cos();
            for (point, normal, along) in ends {
                self.vertices.push(Vertex {
                    position: Vec3::new(point.x * cos, point.y, point.x * sin),
                    normal: Vec3::new(normal.x * cos, normal.y, normal.x * sin),
                    uv: Vec2::new(share, along) * uv_scale,
                    colour: Vec3::ONE,
                    fog: 1.0,
                    layer: Layer::White,
                });
            }
        }
        for segment in 0..segments {
            let corner = first + segment * 2;
            // At the axis, one of the two triangles has no area.
            if ends[0].0.x > 1e-4 {
                self.indices.extend([corner, corner + 1, corner + 2]);
            }
            if ends[1].0.x > 1e-4 {
                self.indices.extend([corner + 2, corner + 1, corner + 3]);
            }
        }
    }

    /// Returns a ball of radius one.
    pub fn ball(segments: u32, rings: u32) -> Self {
        let profile: Vec<Vec2> = (0..=rings)
            .map(|ring| {
                let angle = (ring as f32 / rings as f32 - 0.5) * std::f32::consts::PI;
                Vec2::new(angle.cos().max(0.0), angle.sin())
            })
            .collect();
        let mut mesh = Self::lathe(&profile, segments, Vec2::new(1.0, 1.0 / std::f32::consts::PI));
        for vertex in &mut mesh.vertices {
            vertex.normal = vertex.position.normalize_or(Vec3::Y);
        }
        mesh
    }

    /// Returns a box with the given half sizes. Every face shows the whole texture, or `per_metre` repeats of it.
    pub fn cuboid(half: Vec3, per_metre: Option<f32>) -> Self {
        let mut mesh = Self::default();
        for axis in 0..3 {
            for side in [-1.0, 1.0] {
                let pick = |index: usize, value: f32| {
                    let mut vector = Vec3::ZERO;
                    vector[index % 3] = value;
                    vector
                };
                let normal = pick(axis, side);
                // Side faces keep the texture upright.
                let (right, up) = match axis {
                    0 => (pick(2, -side), pick(1, 1.0)),
                    1 => (pick(0, 1.0), pick(2, -side)),
                    _ => (pick(0, side), pick(1, 1.0)),
                };
                let size = Vec2::new((right * half).length(), (up * half).length());
                let repeat = per_metre.map_or(Vec2::ONE, |per_metre| size * 2.0 * per_metre);
                mesh.quad(normal * half, right * half, up * half, repeat);
            }
        }
        mesh
    }

    /// Adds a flat rectangle around `centre`, facing `right` cross `up`.
    pub fn quad(&mut self, centre: Vec3, right: Vec3, up: Vec3, repeat: Vec2) {
        let first = self.vertices.len() as u32;
        let normal = right.cross(up).normalize_or(Vec3::Y);
        for (x, y) in [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)] {
            self.vertices.push(Vertex {
                position: centre + right * x + up * y,
                normal,
                uv: Vec2::new(x * 0.5 + 0.5, 0.5 - y * 0.5) * repeat,
                colour: Vec3::ONE,
                fog: 1.0,
                layer: Layer::White,
            });
        }
        self.indices.extend([first, first + 1, first + 2, first, first + 2, first + 3]);
    }

    /// Returns a ring of radius one around the y axis with the tube radius `tube`.
    pub fn torus(tube: f32, segments: u32, sides: u32) -> Self {
        let profile: Vec<Vec2> = (0..=sides)
            .map(|side| {
                let angle = side as f32 / sides as f32 * std::f32::consts::TAU;
                Vec2::new(1.0 + tube * angle.cos(), tube * angle.sin())
            })
            .collect();
        let mut mesh = Self::lathe(&profile, segments, Vec2::new(16.0, 1.0));
        for vertex in &mut mesh.vertices {
            let spine = Vec3::new(vertex.position.x, 0.0, vertex.position.z).normalize_or(Vec3::X);
            vertex.normal = (vertex.position - spine).normalize_or(Vec3::Y);
        }
        mesh
    }
}
