//! Turns nodes and their primitives into the triangles that are drawn.

use std::collections::BTreeSet;

use glam::{Mat4, Vec2, Vec3};
use gltf::Semantic;
use gltf::mesh::Mode;
use gltf::texture::WrappingMode;

use super::MAX_CORNERS;
use super::values::Values;
use crate::plaza::light::LIGHT_RANGE;
use crate::plaza::mesh::{Layer, Mesh, Vertex};
use crate::plaza::{Surface, build};

const MAX_NODES: usize = 100_000;
/// Depth of nested nodes. It also stops at nodes that contain themselves.
const MAX_DEPTH: usize = 64;

/// Collects the triangles of a scene.
pub struct Triangles<'a> {
    values: Values<'a>,
    pub parts: Vec<(Surface, Mesh)>,
    /// Indices of the pictures that the parts show.
    pub pictures: BTreeSet<usize>,
    corners: usize,
    nodes: usize,
    /// Primitives that are points or lines.
    lines: usize,
    /// Primitives whose texture would end or be mirrored at its edge.
    unrepeated: usize,
    /// Primitives whose texture is in no format that is read.
    untextured: usize,
}

/// The surface of a primitive.
struct PrimitiveSurface<'a> {
    colour: Vec3,
    texture: Option<gltf::texture::Info<'a>>,
    is_lit: bool,
}

impl<'a> Triangles<'a> {
    pub const fn new(values: Values<'a>) -> Self {
        let pictures = BTreeSet::new();
        Self { values, parts: Vec::new(), pictures, corners: 0, nodes: 0, lines: 0, unrepeated: 0, untextured: 0 }
    }

    /// Lists what was found and is not drawn as the file says.
    pub fn list_undrawn(&self) -> Vec<String> {
        let counts = [
            (self.lines, "meshes of points or lines"),
            (self.untextured, "textures in a format that is not read"),
            (self.unrepeated, "textures that end or are mirrored at their edges (they repeat)"),
        ];
        counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{what} ({count})")).collect()
    }

    /// Adds a node and those below it.
    pub fn add(&mut self, node: &gltf::Node<'_>, parent: Mat4, depth: usize) -> Result<(), String> {
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            return Err(format!("its nodes lie more than {MAX_DEPTH} deep or are more than {MAX_NODES}"));
        }
        let transform = parent * Mat4::from_cols_array_2d(&node.transform().matrix());
        for primitive in node.mesh().iter().flat_map(gltf::Mesh::primitives) {
            self.primitive(&primitive, transform)?;
        }
        for child in node.children() {
            self.add(&child, transform, depth + 1)?;
        }
        Ok(())
    }

    fn primitive(&mut self, primitive: &gltf::Primitive<'_>, transform: Mat4) -> Result<(), String> {
        let Some(accessor) = primitive.get(&Semantic::Positions) else { return Ok(()) };
        if matches!(primitive.mode(), Mode::Points | Mode::Lines | Mode::LineLoop | Mode::LineStrip) {
            self.lines += 1;
            return Ok(());
        }
        let positions: Vec<Vec3> = self.values.vectors(&accessor, "positions")?.into_iter().map(Vec3::from).collect();
        let indices = match primitive.indices() {
            Some(accessor) => self.values.indices(&accessor)?,
            None => (0..positions.len() as u32).collect(),
        };
        if indices.iter().any(|index| *index as usize >= positions.len()) {
            return Err("an index of it points at no corner".into());
        }
        let indices = separate(primitive.mode(), indices);
        self.corners += indices.len().max(positions.len());
        if self.corners > MAX_CORNERS {
            return Err(format!("it has more than {MAX_CORNERS} corners"));
        }
        let look = look(&primitive.material());
        let normals = match self.attribute(primitive, &Semantic::Normals, positions.len(), "normals")? {
            Some(normals) => normals.into_iter().map(Vec3::from).collect(),
            None => flat_normals(&positions, &indices),
        };
        let uvs = self.texture_coordinates(primitive, &look, positions.len())?;
        let colours = self.colours(primitive, positions.len())?;
        let turn = transform.inverse().transpose();
        let vertex = |(corner, position): (usize, &Vec3)| {
            let normal = turn.transform_vector3(normals[corner]).normalize_or(Vec3::Y);
            let linear = look.colour * colours.as_ref().map_or(Vec3::ONE, |colours| colours[corner]);
            let colour = linear.clamp(Vec3::ZERO, Vec3::ONE).powf(1.0 / 2.2);
            let light = if look.is_lit { build::open_light(normal) } else { Vec3::ONE };
            Vertex {
                position: transform.transform_point3(*position),
                normal,
                uv: uvs.as_ref().map_or(Vec2::ZERO, |uvs| uvs[corner]),
                colour: colour * light / LIGHT_RANGE,
                fog: 1.0,
                layer: Layer::White,
            }
        };
        let mesh = Mesh { vertices: positions.iter().enumerate().map(vertex).collect(), indices };
        if mesh.vertices.iter().any(|vertex| !vertex.position.is_finite() || !vertex.uv.is_finite()) {
            return Err("a corner of it lies nowhere (not a finite number)".into());
        }
        let surface = self.surface(&look, &mesh);
        self.parts.push((Surface::Picture(surface), mesh));
        Ok(())
    }

    /// Returns the number of the picture that the primitive shows: 0 is white, and the file's pictures follow.
    fn surface(&mut self, look: &PrimitiveSurface<'_>, mesh: &Mesh) -> usize {
        let Some(texture) = look.texture.as_ref().map(gltf::texture::Info::texture) else { return 0 };
        let Some(picture) = texture.source().map(|source| source.index()) else {
            self.untextured += 1;
            return 0;
        };
        let sampler = texture.sampler();
        let repeats = |mode: WrappingMode| mode == WrappingMode::Repeat;
        let inside = |uv: Vec2| uv.cmpge(Vec2::ZERO).all() && uv.cmple(Vec2::ONE).all();
        let is_repeated = repeats(sampler.wrap_s()) && repeats(sampler.wrap_t());
        if !is_repeated && mesh.vertices.iter().any(|vertex| !inside(vertex.uv)) {
            self.unrepeated += 1;
        }
        self.pictures.insert(picture);
        picture + 1
    }

    /// Returns the vectors of an attribute that has one for each corner.
    fn attribute<const N: usize>(
        &self,
        primitive: &gltf::Primitive<'_>,
        semantic: &Semantic,
        corners: usize,
        what: &str,
    ) -> Result<Option<Vec<[f32; N]>>, String> {
        let Some(accessor) = primitive.get(semantic) else { return Ok(None) };
        let vectors = self.values.vectors(&accessor, what)?;
        if vectors.len() < corners {
            return Err(format!("it has {} {what} for {corners} corners", vectors.len()));
        }
        Ok(Some(vectors))
    }

    /// Returns where the texture's picture lies on each corner.
    fn texture_coordinates(
        &self,
        primitive: &gltf::Primitive<'_>,
        look: &PrimitiveSurface<'_>,
        corners: usize,
    ) -> Result<Option<Vec<Vec2>>, String> {
        let Some(texture) = &look.texture else { return Ok(None) };
        let transform = texture.texture_transform();
        let set =
            transform.as_ref().and_then(gltf::texture::TextureTransform::tex_coord).unwrap_or(texture.tex_coord());
        let Some(uvs) = self.attribute(primitive, &Semantic::TexCoords(set), corners, "texture coordinates")? else {
            return Ok(None);
        };
        let place = |uv: Vec2| {
            // KHR_texture_transform: scale, then rotate counter-clockwise about the origin, then move.
            transform.as_ref().map_or(uv, |transform| {
                let (sin, cos) = transform.rotation().sin_cos();
                let scaled = uv * Vec2::from(transform.scale());
                let turned = Vec2::new(cos * scaled.x + sin * scaled.y, cos * scaled.y - sin * scaled.x);
                turned + Vec2::from(transform.offset())
            })
        };
        Ok(Some(uvs.into_iter().map(|uv| place(Vec2::from(uv))).collect()))
    }

    /// Returns the linear colour of each corner.
    fn colours(&self, primitive: &gltf::Primitive<'_>, corners: usize) -> Result<Option<Vec<Vec3>>, String> {
        let semantic = Semantic::Colors(0);
        let Some(accessor) = primitive.get(&semantic) else { return Ok(None) };
        if accessor.dimensions() == gltf::accessor::Dimensions::Vec4 {
            let colours = self.attribute(primitive, &semantic, corners, "colours")?;
            return Ok(
                colours.map(|all| all.into_iter().map(|[red, green, blue, _]| Vec3::new(red, green, blue)).collect())
            );
        }
        let colours = self.attribute(primitive, &semantic, corners, "colours")?;
        Ok(colours.map(|all| all.into_iter().map(Vec3::from_array).collect()))
    }
}

fn look<'a>(material: &gltf::Material<'a>) -> PrimitiveSurface<'a> {
    let metallic = material.pbr_metallic_roughness();
    let ([red, green, blue, _], texture) = match material.pbr_specular_glossiness() {
        Some(specular) => (specular.diffuse_factor(), specular.diffuse_texture()),
        None => (metallic.base_color_factor(), metallic.base_color_texture()),
    };
    PrimitiveSurface { colour: Vec3::new(red, green, blue), texture, is_lit: !material.unlit() }
}

/// Returns the triangles of a list, strip or fan, each with three indices.
fn separate(mode: Mode, indices: Vec<u32>) -> Vec<u32> {
    match mode {
        Mode::TriangleStrip => {
            let corners = indices.windows(3).enumerate();
            // Every other triangle of a strip runs the other way round.
            corners
                .flat_map(|(at, of)| if at % 2 == 0 { [of[0], of[1], of[2]] } else { [of[1], of[0], of[2]] })
                .collect()
        }
        Mode::TriangleFan => {
            let Some((hub, rim)) = indices.split_first() else { return Vec::new() };
            rim.windows(2).flat_map(|edge| [*hub, edge[0], edge[1]]).collect()
        }
        _ => {
            let mut indices = indices;
            indices.truncate(indices.len() / 3 * 3);
            indices
        }
    }
}

fn flat_normals(positions: &[Vec3], indices: &[u32]) -> Vec<Vec3> {
    let mut normals = vec![Vec3::ZERO; positions.len()];
    for triangle in indices.chunks_exact(3) {
        let [a, b, c] = [triangle[0], triangle[1], triangle[2]].map(|index| positions[index as usize]);
        for index in triangle {
            normals[*index as usize] += (b - a).cross(c - a);
        }
    }
    normals.into_iter().map(|normal| normal.normalize_or(Vec3::Y)).collect()
}
