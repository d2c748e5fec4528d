//! The world as one binary glTF file, for clients that draw it themselves.
//!
//! The light of the surroundings is baked into the vertex colours (`KHR_materials_unlit`). Objects of the room are nodes whose `extras`
//! name the object; the page lights them. The scene's `extras` have the light, and the places at which users start. The animation of the
//! plaza's decoration is left out.

use std::collections::BTreeMap;
use std::io::Cursor;

use glam::{Mat4, Vec2, Vec3};
use image::{ExtendedColorType, ImageEncoder as _, codecs::jpeg::JpegEncoder};
use nearlight_rooms::ObjectId;
use nearlight_wire::Pose;
use serde_json::{Value, json};

use crate::SceneError;
use crate::plaza::light::{FOG, GROUND_LIGHT, LIGHT_RANGE, SKY_LIGHT, SUN, SUN_LIGHT};
use crate::plaza::mesh::{Layer, Mesh, Vertex};
use crate::plaza::texture::{self, Image};
use crate::plaza::{Environment, Surface, build};
use crate::render::FOG_DENSITY;
use crate::world::{Instance, Model, World};

/// Side of a repeating texture in pixels, as in the server's renderer.
const LAYER_SIDE: u32 = 256;
/// Side of the floor's picture in pixels. A pixel covers two centimetres.
const FLOOR_SIDE: u32 = 2_048;
/// Repeats of the flagstones along a side of the floor.
const FLAGSTONE_REPEATS: f32 = 11.0;
/// JPEG quality, 0 to 100. Guess: at 85 no blocks are visible at a normal distance.
const JPEG_QUALITY: u8 = 85;

/// Constants of glTF (sections 5.29 and 5.24 of its specification, version 2.0).
const FLOAT: u32 = 5_126;
const UNSIGNED_INT: u32 = 5_125;
const CLAMP_TO_EDGE: u32 = 33_071;
const REPEAT: u32 = 10_497;

/// The kind of a material.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MaterialKind {
    Layer(u8),
    Floor,
    Sky,
    Picture(usize),
}

/// Returns the file of a world in these surroundings, whose users start at `places`.
pub fn write(environment: &Environment, world: &World, places: &[Pose]) -> Result<Vec<u8>, SceneError> {
    let mut file = File::new();
    let mut nodes = Vec::new();
    for (look, mesh) in meshes_by_material(environment) {
        let texture = file.texture(environment, look)?;
        let material = file.material(json!({
            "pbrMetallicRoughness": base(texture, Vec3::ONE),
            "extensions": { "KHR_materials_unlit": {} },
            "doubleSided": matches!(look, MaterialKind::Picture(_)),
            "extras": { "fog": look != MaterialKind::Sky },
        }));
        let mesh = file.mesh(&mesh, material, true);
        nodes.push(json!({ "mesh": mesh }));
    }
    let mut meshes = BTreeMap::new();
    // Sparks that have not risen have no size.
    let sized = |instance: &Instance| instance.transform.matrix3.determinant().abs() > f32::EPSILON.powi(2);
    for (object, instance) in world.at_first().into_iter().filter(|(_, instance)| sized(instance)) {
        let mesh = file.instance(environment, &instance, &mut meshes)?;
        let matrix = Mat4::from(instance.transform).to_cols_array();
        nodes.push(match object {
            Some(ObjectId(object)) => json!({ "mesh": mesh, "matrix": matrix, "extras": { "object": object } }),
            None => json!({ "mesh": mesh, "matrix": matrix }),
        });
    }
    Ok(file.finish(&nodes, places))
}

/// Returns the triangles of the surroundings, with one mesh per material.
fn meshes_by_material(environment: &Environment) -> BTreeMap<MaterialKind, Mesh> {
    let mut meshes: BTreeMap<MaterialKind, (Mesh, BTreeMap<u32, u32>)> = BTreeMap::new();
    for chunk in &environment.chunks {
        let indices = &environment.mesh.indices[chunk.indices.start as usize..chunk.indices.end as usize];
        // Triangles with a position that is not finite are not drawn.
        for triangle in indices.chunks_exact(3).filter(|triangle| is_finite(environment, triangle)) {
            let look = match chunk.surface {
                Surface::Floor => MaterialKind::Floor,
                Surface::Sky => MaterialKind::Sky,
                Surface::Picture(index) => MaterialKind::Picture(index),
                Surface::Array | Surface::Backdrop => {
                    MaterialKind::Layer(environment.mesh.vertices[triangle[0] as usize].layer as u8)
                }
            };
            let (mesh, known) = meshes.entry(look).or_default();
            for index in triangle {
                let own = *known.entry(*index).or_insert_with(|| {
                    mesh.vertices.push(environment.mesh.vertices[*index as usize]);
                    mesh.vertices.len() as u32 - 1
                });
                mesh.indices.push(own);
            }
        }
    }
    meshes.into_iter().map(|(look, (mesh, _))| (look, mesh)).collect()
}

fn is_finite(environment: &Environment, triangle: &[u32]) -> bool {
    triangle.iter().all(|index| environment.mesh.vertices[*index as usize].position.is_finite())
}

struct File {
    /// The layers of the shared texture array.
    layers: Vec<Image>,
    blob: Vec<u8>,
    views: Vec<Value>,
    accessors: Vec<Value>,
    images: Vec<Value>,
    textures: Vec<Value>,
    materials: Vec<Value>,
    meshes: Vec<Value>,
    known: BTreeMap<MaterialKind, usize>,
}

impl File {
    fn new() -> Self {
        Self {
            layers: build::layers(LAYER_SIDE),
            blob: Vec::new(),
            views: Vec::new(),
            accessors: Vec::new(),
            images: Vec::new(),
            textures: Vec::new(),
            materials: Vec::new(),
            meshes: Vec::new(),
            known: BTreeMap::new(),
        }
    }

    fn view(&mut self, bytes: &[u8]) -> usize {
        // The data of accessors must begin at multiples of four bytes.
        self.blob.resize(self.blob.len().next_multiple_of(4), 0);
        self.views.push(json!({ "buffer": 0, "byteOffset": self.blob.len(), "byteLength": bytes.len() }));
        self.blob.extend_from_slice(bytes);
        self.views.len() - 1
    }

    fn accessor(&mut self, values: impl Iterator<Item = f32>, kind: &str, further: Value) -> usize {
        let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        let size = 4 * if kind == "VEC2" { 2 } else { 3 };
        let view = self.view(&bytes);
        let mut accessor =
            json!({ "bufferView": view, "componentType": FLOAT, "count": bytes.len() / size, "type": kind });
        if let (Value::Object(accessor), Value::Object(further)) = (&mut accessor, further) {
            accessor.extend(further);
        }
        self.accessors.push(accessor);
        self.accessors.len() - 1
    }

    fn material(&mut self, material: Value) -> usize {
        self.materials.push(material);
        self.materials.len() - 1
    }

    /// Adds a mesh. `lit` says that the light is in the vertex colours.
    fn mesh(&mut self, mesh: &Mesh, material: usize, lit: bool) -> usize {
        let Mesh { vertices, indices } = mesh;
        let (low, high) = crate::plaza::bounds(vertices);
        let each = |vector: fn(&Vertex) -> Vec3| vertices.iter().flat_map(move |vertex| vector(vertex).to_array());
        let bounds = json!({ "min": low.to_array(), "max": high.to_array() });
        let position = self.accessor(each(|vertex| vertex.position), "VEC3", bounds);
        // A mesh without height has no texture coordinates.
        let uvs = vertices.iter().map(|vertex| if vertex.uv.is_finite() { vertex.uv } else { Vec2::ZERO });
        let uv = self.accessor(uvs.flat_map(|uv| uv.to_array()), "VEC2", json!({}));
        let mut attributes = json!({ "POSITION": position, "TEXCOORD_0": uv });
        if lit {
            attributes["COLOR_0"] =
                self.accessor(each(|vertex| linear(vertex.colour * LIGHT_RANGE)), "VEC3", json!({})).into();
        } else {
            attributes["NORMAL"] = self.accessor(each(|vertex| vertex.normal), "VEC3", json!({})).into();
        }
        let bytes: Vec<u8> = indices.iter().flat_map(|index| index.to_le_bytes()).collect();
        let view = self.view(&bytes);
        self.accessors.push(json!({
            "bufferView": view, "componentType": UNSIGNED_INT, "count": indices.len(), "type": "SCALAR",
        }));
        let indices = self.accessors.len() - 1;
        let primitive = json!({ "attributes": attributes, "indices": indices, "material": material });
        self.meshes.push(json!({ "primitives": [primitive] }));
        self.meshes.len() - 1
    }

    /// Returns the texture of a material, or none if it is white.
    fn texture(&mut self, environment: &Environment, look: MaterialKind) -> Result<Option<usize>, SceneError> {
        if look == MaterialKind::Layer(Layer::White as u8) {
            return Ok(None);
        }
        if let Some(known) = self.known.get(&look) {
            return Ok(Some(*known));
        }
        let picture = match look {
            MaterialKind::Layer(layer) => self.layers[usize::from(layer)].clone(),
            MaterialKind::Floor => floor(environment),
            MaterialKind::Sky => texture::sky(),
            MaterialKind::Picture(index) => environment.pictures[index].clone(),
        };
        let view = self.view(&jpeg(&picture)?);
        self.images.push(json!({ "bufferView": view, "mimeType": "image/jpeg" }));
        let sampler = usize::from(look == MaterialKind::Floor);
        self.textures.push(json!({ "source": self.images.len() - 1, "sampler": sampler }));
        self.known.insert(look, self.textures.len() - 1);
        Ok(Some(self.textures.len() - 1))
    }

    fn instance(
        &mut self,
        environment: &Environment,
        instance: &Instance,
        meshes: &mut BTreeMap<(Model, [u8; 5]), usize>,
    ) -> Result<usize, SceneError> {
        let [red, green, blue] = (instance.colour * 255.0).to_array().map(|channel| channel as u8);
        let glow = (instance.glow * 255.0) as u8;
        let key = (instance.model, [red, green, blue, glow, instance.layer as u8]);
        if let Some(known) = meshes.get(&key) {
            return Ok(*known);
        }
        let texture = self.texture(environment, MaterialKind::Layer(instance.layer as u8))?;
        let colour = linear(instance.colour);
        let mut base = base(texture, colour.min(Vec3::ONE));
        base["metallicFactor"] = (instance.metal * 0.3).into();
        base["roughnessFactor"] = (0.85 - instance.metal * 0.5).into();
        let emissive = (colour * instance.glow.min(1.0)).min(Vec3::ONE).to_array();
        let material = self.material(json!({ "pbrMetallicRoughness": base, "emissiveFactor": emissive }));
        let mesh = self.mesh(&instance.model.mesh(), material, false);
        meshes.insert(key, mesh);
        Ok(mesh)
    }

    /// Returns the file: header, JSON and buffer (section 4 of the specification).
    fn finish(self, nodes: &[Value], places: &[Pose]) -> Vec<u8> {
        let Self { mut blob, views, accessors, images, textures, materials, meshes, .. } = self;
        let all: Vec<usize> = (0..nodes.len()).collect();
        // The client lights moving objects and fades distant ones, as the server does.
        let places = places
            .iter()
            .map(|Pose { position, orientation }| json!({ "position": position, "orientation": orientation }));
        let extras = json!({
            "places": places.collect::<Vec<_>>(),
            "sun": { "towards": SUN.to_array(), "light": SUN_LIGHT.to_array() },
            "sky": SKY_LIGHT.to_array(),
            "ground": GROUND_LIGHT.to_array(),
            "fog": { "colour": FOG.to_array(), "density": FOG_DENSITY },
        });
        let document = json!({
            "asset": { "version": "2.0", "generator": concat!("nearlight ", env!("CARGO_PKG_VERSION")) },
            "extensionsUsed": ["KHR_materials_unlit"],
            "scene": 0,
            "scenes": [{ "nodes": all, "extras": extras }],
            "nodes": nodes,
            "meshes": meshes,
            "materials": materials,
            "textures": textures,
            "images": images,
            "samplers": [{ "wrapS": REPEAT, "wrapT": REPEAT }, { "wrapS": CLAMP_TO_EDGE, "wrapT": CLAMP_TO_EDGE }],
            "accessors": accessors,
            "bufferViews": views,
            "buffers": [{ "byteLength": blob.len().next_multiple_of(4) }],
        });
        let mut text = document.to_string().into_bytes();
        text.resize(text.len().next_multiple_of(4), b' ');
        blob.resize(blob.len().next_multiple_of(4), 0);
        let mut file = Vec::with_capacity(28 + text.len() + blob.len());
        file.extend_from_slice(b"glTF");
        for word in [2, (28 + text.len() + blob.len()) as u32, text.len() as u32] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(b"JSON");
        file.extend_from_slice(&text);
        file.extend_from_slice(&(blob.len() as u32).to_le_bytes());
        file.extend_from_slice(b"BIN\0");
        file.extend_from_slice(&blob);
        file
    }
}

fn base(texture: Option<usize>, colour: Vec3) -> Value {
    let mut base = json!({ "metallicFactor": 0.0, "baseColorFactor": colour.extend(1.0).to_array() });
    if let Some(texture) = texture {
        base["baseColorTexture"] = json!({ "index": texture });
    }
    base
}

/// Returns the linear light of a display value.
fn linear(display: Vec3) -> Vec3 {
    display.max(Vec3::ZERO).powf(2.2)
}

/// Returns the flagstones with their light, because glTF has one texture for both.
fn floor(environment: &Environment) -> Image {
    let stone = texture::floor();
    let light = environment.floor_light.as_ref();
    Image::from_colours(FLOOR_SIDE, FLOOR_SIDE, |u, v| {
        let colour = sample(&stone, (u * FLAGSTONE_REPEATS).fract(), (v * FLAGSTONE_REPEATS).fract());
        colour * light.map_or(Vec3::ONE, |light| sample(light, u, v) * LIGHT_RANGE)
    })
}

/// Samples an image bilinearly, with repeating edges.
fn sample(image: &Image, u: f32, v: f32) -> Vec3 {
    let (x, y) = (u * image.width as f32 - 0.5, v * image.height as f32 - 0.5);
    let (left, top) = (x.floor(), y.floor());
    let pixel = |column: f32, row: f32| {
        let column = (column as i64).rem_euclid(i64::from(image.width)) as usize;
        let row = (row as i64).rem_euclid(i64::from(image.height)) as usize;
        let at = (row * image.width as usize + column) * 4;
        Vec3::from([0, 1, 2].map(|channel| f32::from(image.rgba[at + channel]) / 255.0))
    };
    let line = |row: f32| pixel(left, row).lerp(pixel(left + 1.0, row), x - left);
    line(top).lerp(line(top + 1.0), y - top)
}

fn jpeg(picture: &Image) -> Result<Vec<u8>, SceneError> {
    let rgb: Vec<u8> = picture.rgba.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
    let mut bytes = Cursor::new(Vec::new());
    JpegEncoder::new_with_quality(&mut bytes, JPEG_QUALITY)
        .write_image(&rgb, picture.width, picture.height, ExtendedColorType::Rgb8)
        .map_err(|error| SceneError::Adapter(format!("its texture cannot be written: {error}")))?;
    Ok(bytes.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene_file;
    use crate::world::Setting;

    #[test]
    fn the_file_is_gltf_with_every_object_and_the_same_triangles() {
        let environment = build::plaza();
        let world = World::new(Setting { decor: true, ..Setting::default() });
        let places = crate::places::around_fountain();
        let file = write(&environment, &world, &places).expect("a file");
        let read = gltf::Gltf::from_slice(&file).expect("valid glTF");
        let length = u32::from_le_bytes([file[12], file[13], file[14], file[15]]) as usize;
        let document: Value = serde_json::from_slice(&file[20..20 + length]).expect("JSON");
        let extras = &document["scenes"][0]["extras"]["places"];
        assert_eq!(extras.as_array().map(Vec::len), Some(places.len()));
        assert_eq!(extras[0]["position"][2].as_f64(), Some(0.0), "the first place is the start");
        let nodes = document["nodes"].as_array().expect("nodes");
        let objects: Vec<u64> = nodes.iter().filter_map(|node| node["extras"]["object"].as_u64()).collect();
        assert_eq!(objects, (1..=world.objects().len() as u64).collect::<Vec<_>>());
        let indices: usize = read
            .meshes()
            .flat_map(|mesh| mesh.primitives().collect::<Vec<_>>())
            .filter(|primitive| primitive.get(&gltf::Semantic::Colors(0)).is_some())
            .filter_map(|primitive| primitive.indices().map(|indices| indices.count()))
            .sum();
        let drawn = environment.mesh.indices.chunks_exact(3).filter(|triangle| is_finite(&environment, triangle));
        assert_eq!(indices, drawn.count() * 3);
        // The server must be able to read what it writes.
        scene_file::tests::parse_alone(&file).expect("a scene");
    }
}
