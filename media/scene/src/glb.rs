//! Loads a scene from a binary glTF file, instead of the plaza.
//!
//! Positions, normals, texture coordinates, base colours and node transforms are used; animation, skins and morph targets are not. A scene
//! of at least six metres is a place to stand in, a smaller one an exhibit in front of the viewer.

use std::io::Cursor;
use std::path::Path;

use glam::{Mat4, Vec2, Vec3};
use gltf::accessor::{DataType, Dimensions};
use gltf::mesh::Mode;

use crate::SceneError;
use crate::plaza::light::LIGHT_RANGE;
use crate::plaza::mesh::{Layer, Mesh, Vertex};
use crate::plaza::texture::Image;
use crate::plaza::{Environment, Surface, bounds, build};

/// Bytes of the largest file.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Corners of a scene. Guess: no adapter draws more at thirty pictures per second.
const MAX_CORNERS: usize = 6_000_000;
const MAX_NODES: usize = 100_000;
/// Depth of nested nodes. It also stops at nodes that contain themselves.
const MAX_DEPTH: usize = 64;
/// Longest side of a texture in pixels. Larger textures are halved until they fit.
const MAX_TEXTURE_SIDE: u32 = 1024;
/// Pixels of all textures together after scaling: 128 of the largest, 512 MiB. Guess: several times what scenes of this kind contain.
const MAX_TEXTURE_PIXELS: usize = 128 << 20;
/// Bytes of a decoded picture before scaling: 8192x8192 with three channels. A file of half a megabyte can contain more.
const MAX_PICTURE_BYTES: u64 = 200 << 20;
/// Size in metres from which a scene is a place. Smaller ones are exhibits.
const MIN_PLACE_SIZE: f32 = 6.0;
/// Length of the longest side of a place and of an exhibit after scaling, in metres.
const PLACE_SIZE: f32 = 20.0;
const EXHIBIT_SIZE: f32 = 4.0;
const EXHIBIT_AT: Vec3 = Vec3::new(0.0, 0.0, -6.0);

/// Loads `file` as the surroundings of the world.
pub fn load(file: &Path) -> Result<Environment, SceneError> {
    let failed = |reason: String| SceneError::File { file: file.display().to_string(), reason };
    let size = std::fs::metadata(file).map_err(|error| failed(error.to_string()))?.len();
    if size > MAX_FILE_BYTES {
        return Err(failed(format!("it has {size} bytes; at most {MAX_FILE_BYTES} are read")));
    }
    let bytes = std::fs::read(file).map_err(|error| failed(error.to_string()))?;
    parse(&bytes).map_err(failed)
}

/// Returns the surroundings that `bytes` describe, or what is wrong with them.
pub fn parse(bytes: &[u8]) -> Result<Environment, String> {
    if !bytes.starts_with(b"glTF") {
        return Err("it is not binary glTF (.glb): its first four bytes are not `glTF`".into());
    }
    check_container(bytes)?;
    let damaged = |error: gltf::Error| format!("its glTF is damaged: {error}");
    let gltf::Gltf { document, blob } = gltf::Gltf::from_slice_without_validation(bytes).map_err(damaged)?;
    check_attributes(document.as_json())?;
    let document = gltf::Document::from_json(document.into_json()).map_err(damaged)?;
    let blob = blob.unwrap_or_default();
    check_buffers(&document, &blob)?;
    let mut reader = Reader { blob: &blob, parts: Vec::new(), corners: 0, nodes: 0 };
    let scene = document.default_scene().or_else(|| document.scenes().next());
    for node in scene.ok_or("it has no scene")?.nodes() {
        reader.node(&node, Mat4::IDENTITY, 0)?;
    }
    let mut place = build::surroundings();
    place.pictures = pictures(&document, &blob)?;
    fit(&mut reader.parts)?;
    for (surface, mesh) in reader.parts {
        place.add(surface, &mesh);
    }
    Ok(place)
}

/// Checks the lengths of file and chunks, which the library trusts.
fn check_container(bytes: &[u8]) -> Result<(), String> {
    let word = |at: usize| bytes.get(at..at + 4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let (Some(version), Some(length)) = (word(4), word(8)) else { return Err("it ends within its header".into()) };
    if version != 2 {
        return Err(format!("it is glTF version {version}; version 2 is read"));
    }
    if length as usize > bytes.len() {
        return Err(format!("it ends after {} bytes where its header says {length}", bytes.len()));
    }
    let mut at = 12;
    while at < length as usize {
        let size = word(at).ok_or("it ends within a chunk's header")? as usize;
        at = at.saturating_add(8).saturating_add(size);
        if at > bytes.len() {
            return Err("it ends within a chunk".into());
        }
    }
    Ok(())
}

/// Checks that all accessors exist. The library's own check uses the positions of corners before it checks that they exist.
fn check_attributes(root: &gltf::json::Root) -> Result<(), String> {
    let primitives = root.meshes.iter().flat_map(|mesh| &mesh.primitives);
    let missing =
        primitives.flat_map(|primitive| primitive.attributes.values()).find(|at| at.value() >= root.accessors.len());
    match missing {
        Some(at) => Err(format!("its glTF is damaged: there is no accessor {}", at.value())),
        None => Ok(()),
    }
}

/// Checks that everything that the library indexes with lies within the embedded buffer.
fn check_buffers(document: &gltf::Document, blob: &[u8]) -> Result<(), String> {
    for buffer in document.buffers() {
        if let gltf::buffer::Source::Uri(_) = buffer.source() {
            return Err("it refers to another file; only self-contained .glb files are read".into());
        }
        if buffer.length() > blob.len() {
            return Err(format!("its buffer has {} of {} bytes", blob.len(), buffer.length()));
        }
    }
    for view in document.views() {
        let end = view.offset().checked_add(view.length());
        if end.is_none_or(|end| end > blob.len()) {
            return Err(format!("its buffer view {} lies outside of the buffer", view.index()));
        }
    }
    for accessor in document.accessors() {
        let Some(view) = accessor.view() else { continue };
        let stride = view.stride().unwrap_or(accessor.size()).max(1);
        let steps = accessor.count().saturating_sub(1).saturating_mul(stride);
        let end = accessor.offset().saturating_add(steps).saturating_add(accessor.size());
        if end > view.length() || accessor.count() > MAX_CORNERS || stride < accessor.size() {
            return Err(format!("its accessor {} lies outside of its view", accessor.index()));
        }
    }
    Ok(())
}

struct Reader<'a> {
    blob: &'a [u8],
    parts: Vec<(Surface, Mesh)>,
    corners: usize,
    nodes: usize,
}

impl Reader<'_> {
    fn node(&mut self, node: &gltf::Node<'_>, parent: Mat4, depth: usize) -> Result<(), String> {
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            return Err(format!("its nodes lie more than {MAX_DEPTH} deep or are more than {MAX_NODES}"));
        }
        let transform = parent * Mat4::from_cols_array_2d(&node.transform().matrix());
        if let Some(mesh) = node.mesh() {
            for primitive in mesh.primitives().filter(|primitive| primitive.mode() == Mode::Triangles) {
                self.primitive(&primitive, transform)?;
            }
        }
        for child in node.children() {
            self.node(&child, transform, depth + 1)?;
        }
        Ok(())
    }

    fn primitive(&mut self, primitive: &gltf::Primitive<'_>, transform: Mat4) -> Result<(), String> {
        let Some(accessor) = primitive.get(&gltf::Semantic::Positions) else { return Ok(()) };
        if !is_plain(&accessor, Dimensions::Vec3, &[DataType::F32]) {
            return Err("it has sparse or compressed positions, which are not read".into());
        }
        let reader = primitive.reader(|buffer| (buffer.index() == 0).then_some(self.blob));
        let positions: Vec<Vec3> =
            reader.read_positions().ok_or("its positions are missing")?.map(Vec3::from).collect();
        let indices: Vec<u32> = match primitive.indices() {
            Some(accessor)
                if !is_plain(&accessor, Dimensions::Scalar, &[DataType::U8, DataType::U16, DataType::U32]) =>
            {
                return Err("it has indices that are sparse or no whole numbers".into());
            }
            Some(_) => reader.read_indices().ok_or("its indices are missing")?.into_u32().collect(),
            None => (0..positions.len() as u32).collect(),
        };
        if indices.iter().any(|index| *index as usize >= positions.len()) {
            return Err("an index of it points at no corner".into());
        }
        self.corners += indices.len().max(positions.len());
        if self.corners > MAX_CORNERS {
            return Err(format!("it has more than {MAX_CORNERS} corners"));
        }
        let usable = |semantic: &gltf::Semantic, dimensions: Dimensions, types: &[DataType]| {
            let accessor = primitive.get(semantic);
            accessor.is_some_and(|found| is_plain(&found, dimensions, types) && found.count() == positions.len())
        };
        let normals = usable(&gltf::Semantic::Normals, Dimensions::Vec3, &[DataType::F32])
            .then(|| reader.read_normals())
            .flatten();
        let normals = normals.map(|normals| normals.map(Vec3::from).collect::<Vec<_>>());
        let normals = normals.filter(|normals| normals.len() == positions.len());
        let normals = normals.unwrap_or_else(|| flat_normals(&positions, &indices));
        let shares = [DataType::U8, DataType::U16, DataType::F32];
        let uvs = usable(&gltf::Semantic::TexCoords(0), Dimensions::Vec2, &shares)
            .then(|| reader.read_tex_coords(0))
            .flatten();
        let mut uvs = uvs.map(gltf::mesh::util::ReadTexCoords::into_f32);

        let look = primitive.material().pbr_metallic_roughness();
        let surface = look.base_color_texture().map_or(0, |texture| texture.texture().source().index() + 1);
        let [red, green, blue, _] = look.base_color_factor();
        let colour = Vec3::new(red, green, blue).clamp(Vec3::ZERO, Vec3::ONE).powf(1.0 / 2.2);
        let turn = transform.inverse().transpose();
        let vertices = positions.iter().zip(&normals).map(|(position, normal)| {
            let normal = turn.transform_vector3(*normal).normalize_or(Vec3::Y);
            let uv = uvs.as_mut().and_then(Iterator::next).map_or(Vec2::ZERO, Vec2::from);
            Vertex {
                position: transform.transform_point3(*position),
                normal,
                uv,
                colour: colour * build::open_light(normal) / LIGHT_RANGE,
                fog: 1.0,
                layer: Layer::White,
            }
        });
        let mesh = Mesh { vertices: vertices.collect(), indices: indices[..indices.len() / 3 * 3].to_vec() };
        if mesh.vertices.iter().any(|vertex| !vertex.position.is_finite() || !vertex.uv.is_finite()) {
            return Err("a corner of it lies nowhere (not a finite number)".into());
        }
        self.parts.push((Surface::Picture(surface), mesh));
        Ok(())
    }
}

/// Returns whether the accessor's values are contiguous and have one of these types. The library panics on others.
fn is_plain(accessor: &gltf::Accessor<'_>, dimensions: Dimensions, types: &[DataType]) -> bool {
    accessor.dimensions() == dimensions && types.contains(&accessor.data_type()) && accessor.sparse().is_none()
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

/// Returns a white pixel for plain surfaces, then every picture of the file.
fn pictures(document: &gltf::Document, blob: &[u8]) -> Result<Vec<Image>, String> {
    let mut pictures = vec![Image { width: 1, height: 1, rgba: vec![255; 4] }];
    let mut room = MAX_TEXTURE_PIXELS;
    for picture in document.images() {
        let number = picture.index();
        let gltf::image::Source::View { view, .. } = picture.source() else {
            return Err("it refers to a picture in another file; only self-contained .glb files are read".into());
        };
        let image = decode(&blob[view.offset()..view.offset() + view.length()])
            .map_err(|error| format!("its picture {number} cannot be decoded: {error}"))?;
        room = room
            .checked_sub(image.rgba.len() / 4)
            .ok_or_else(|| format!("its pictures have more than {MAX_TEXTURE_PIXELS} pixels even after scaling"))?;
        pictures.push(image);
    }
    Ok(pictures)
}

/// Decodes a PNG or JPEG file into an opaque texture, scaled down if necessary.
fn decode(bytes: &[u8]) -> image::ImageResult<Image> {
    let mut reader = image::ImageReader::new(Cursor::new(bytes)).with_guessed_format()?;
    let mut limits = image::Limits::no_limits();
    limits.max_alloc = Some(MAX_PICTURE_BYTES);
    reader.limits(limits);
    let mut picture = reader.decode()?;
    let (mut width, mut height) = (picture.width(), picture.height());
    while width.max(height) > MAX_TEXTURE_SIDE {
        (width, height) = ((width / 2).max(1), (height / 2).max(1));
    }
    if width != picture.width() {
        // The picture is scaled in its decoded format: a copy as RGBA would need up to four times the memory.
        picture = picture.thumbnail_exact(width, height);
    }
    let mut rgba = picture.into_rgba8().into_raw();
    rgba.iter_mut().skip(3).step_by(4).for_each(|alpha| *alpha = 255);
    Ok(Image { width, height, rgba })
}

/// Scales the scene and moves it to the viewer.
fn fit(parts: &mut [(Surface, Mesh)]) -> Result<(), String> {
    let corners = parts.iter().map(|(_, mesh)| bounds(&mesh.vertices));
    let (low, high) = corners.fold((Vec3::INFINITY, Vec3::NEG_INFINITY), |(low, high), (part_low, part_high)| {
        (low.min(part_low), high.max(part_high))
    });
    let size = high - low;
    let longest = size.max_element();
    if !longest.is_finite() || longest <= 1e-6 {
        return Err("it has no triangles to show".into());
    }
    let is_place = longest >= MIN_PLACE_SIZE;
    let scale = if is_place { PLACE_SIZE / longest } else { EXHIBIT_SIZE / longest };
    let target = if is_place { Vec3::ZERO } else { EXHIBIT_AT };
    let middle = ((low + high) / 2.0).with_y(low.y);
    for vertex in parts.iter_mut().flat_map(|(_, mesh)| &mut mesh.vertices) {
        vertex.position = (vertex.position - middle) * scale + target;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a square of two triangles as binary glTF.
    pub(crate) fn square(half: f32) -> Vec<u8> {
        let mut blob = Vec::new();
        for (x, y) in [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)] {
            for number in [x * half, y * half, 0.0f32] {
                blob.extend(number.to_le_bytes());
            }
        }
        for index in [0u16, 1, 2, 0, 2, 3] {
            blob.extend(index.to_le_bytes());
        }
        let json = format!(
            r#"{{"asset":{{"version":"2.0"}},"scene":0,"scenes":[{{"nodes":[0]}}],"nodes":[{{"mesh":0}}],
            "meshes":[{{"primitives":[{{"attributes":{{"POSITION":0}},"indices":1,"material":0}}]}}],
            "materials":[{{"pbrMetallicRoughness":{{"baseColorFactor":[1.0,0.1,0.1,1.0]}}}}],
            "buffers":[{{"byteLength":60}}],
            "bufferViews":[{{"buffer":0,"byteLength":48}},{{"buffer":0,"byteOffset":48,"byteLength":12}}],
            "accessors":[{{"bufferView":0,"componentType":5126,"count":4,"type":"VEC3",
            "min":[-{half:?},-{half:?},0.0],"max":[{half:?},{half:?},0.0]}},
            {{"bufferView":1,"componentType":5123,"count":6,"type":"SCALAR"}}]}}"#
        )
        .into_bytes();
        container(json, &blob)
    }

    fn container(mut json: Vec<u8>, blob: &[u8]) -> Vec<u8> {
        json.resize(json.len().next_multiple_of(4), b' ');
        let mut blob = blob.to_vec();
        blob.resize(blob.len().next_multiple_of(4), 0);
        let mut bytes = b"glTF".to_vec();
        bytes.extend(2u32.to_le_bytes());
        bytes.extend((12 + 8 + json.len() as u32 + 8 + blob.len() as u32).to_le_bytes());
        for (kind, chunk) in [(b"JSON", &json), (b"BIN\0", &blob)] {
            bytes.extend((chunk.len() as u32).to_le_bytes());
            bytes.extend(kind);
            bytes.extend(chunk);
        }
        bytes
    }

    fn extent(bytes: &[u8]) -> (Vec3, Vec3) {
        let place = parse(bytes).expect("a good file");
        let chunk = place.chunks.last().expect("a chunk");
        assert_eq!((chunk.surface, chunk.indices.len()), (Surface::Picture(0), 6));
        let corners: Vec<Vertex> = place.mesh.indices[chunk.indices.start as usize..chunk.indices.end as usize]
            .iter()
            .map(|index| place.mesh.vertices[*index as usize])
            .collect();
        bounds(&corners)
    }

    #[test]
    fn small_files_are_exhibits_and_large_ones_places() {
        let (low, high) = extent(&square(0.5));
        assert!((high - low - Vec3::new(4.0, 4.0, 0.0)).length() < 1e-3 && low.y.abs() < 1e-4 && low.z < -5.0);
        let (low, high) = extent(&square(300.0));
        assert!((high - low - Vec3::new(20.0, 20.0, 0.0)).length() < 1e-2 && low.z.abs() < 1e-3);
    }

    #[test]
    fn bad_files_are_refused_in_words() {
        let good = square(1.0);
        let patched = |from: &str, to: &str| {
            assert_eq!(from.len(), to.len());
            let at = good.windows(from.len()).position(|window| window == from.as_bytes()).expect("in the file");
            let mut bytes = good.clone();
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
            bytes
        };
        let cases: [(Vec<u8>, &str); 9] = [
            (b"hello".to_vec(), "not binary glTF"),
            (good[..10].to_vec(), "within its header"),
            (good[..good.len() - 20].to_vec(), "ends after"),
            (patched("\"count\":6", "\"count\":9"), "outside of its view"),
            (patched("\"byteLength\":48", "\"byteLength\":99"), "outside of the buffer"),
            (patched("\"nodes\":[{\"mesh\":0}]", "\"nodes\":[{        }]"), "no triangles"),
            (patched("\"version\":\"2.0\"", "\"verrion\":\"2.0\""), "damaged"),
            (patched("\"POSITION\":0", "\"POSITION\":7"), "no accessor 7"),
            (patched("\"indices\":1", "\"indices\":0"), "no whole numbers"),
        ];
        for (bytes, expected) in cases {
            let error = parse(&bytes).map(|_| ()).expect_err(expected);
            assert!(error.contains(expected), "{error:?} should contain {expected:?}");
        }
        let missing = load(Path::new("/nonexistent/scene.glb")).map(|_| ()).expect_err("no such file").to_string();
        assert!(missing.contains("cannot load /nonexistent/scene.glb"), "{missing}");
    }

    /// Returns the square with a picture on it.
    fn pictured(picture: &[u8]) -> Vec<u8> {
        let plain = square(1.0);
        let word = |at: usize| u32::from_le_bytes(plain[at..at + 4].try_into().unwrap()) as usize;
        let json_length = word(12);
        let json = std::str::from_utf8(&plain[20..20 + json_length]).unwrap();
        let mut blob = plain[20 + json_length + 8..].to_vec();
        let at = blob.len();
        blob.extend(picture);
        let view = format!(
            "{{\"buffer\":0,\"byteOffset\":48,\"byteLength\":12}},{{\"buffer\":0,\"byteOffset\":{at},\"byteLength\":{}}}]",
            picture.len()
        );
        let json = json
            .replace("\"byteLength\":60", &format!("\"byteLength\":{}", blob.len()))
            .replace("{\"buffer\":0,\"byteOffset\":48,\"byteLength\":12}]", &view)
            .replace("\"accessors\":", "\"images\":[{\"bufferView\":2,\"mimeType\":\"image/png\"}],\"accessors\":");
        container(json.into_bytes(), &blob)
    }

    fn png(width: u32, height: u32, colour: image::ColorType) -> Vec<u8> {
        let mut file = Vec::new();
        let pixels = vec![200; width as usize * height as usize * usize::from(colour.bytes_per_pixel())];
        image::write_buffer_with_format(
            &mut Cursor::new(&mut file),
            &pixels,
            width,
            height,
            colour,
            image::ImageFormat::Png,
        )
        .unwrap();
        file
    }

    #[test]
    fn pictures_become_opaque_textures_of_at_most_1024_pixels() {
        let cases = [
            (png(3, 2, image::ColorType::L8), (3, 2)),
            (png(64, 64, image::ColorType::Rgba8), (64, 64)),
            (png(16, 16, image::ColorType::Rgb16), (16, 16)),
            (png(3000, 10, image::ColorType::Rgb8), (750, 2)),
        ];
        for (file, size) in cases {
            let place = parse(&pictured(&file)).unwrap();
            let texture = &place.pictures[1];
            assert_eq!((texture.width, texture.height), size);
            assert_eq!(texture.rgba.len(), (size.0 * size.1 * 4) as usize);
            assert!(texture.rgba.chunks_exact(4).all(|pixel| pixel[3] == 255));
        }
    }

    /// 16384x16384 pixels of one colour are 0.3 MB as PNG and would be a gigabyte as RGBA.
    #[test]
    fn a_small_file_cannot_claim_a_gigabyte_of_pixels() {
        let mut file = png(1, 1, image::ColorType::L8);
        let header = file.windows(4).position(|window| window == b"IHDR").unwrap();
        let mut body = b"IHDR".to_vec();
        body.extend(16_384u32.to_be_bytes());
        body.extend(16_384u32.to_be_bytes());
        body.extend(&file[header + 12..header + 17]);
        let check = crc(&body);
        file[header..header + 17].copy_from_slice(&body);
        file[header + 17..header + 21].copy_from_slice(&check.to_be_bytes());
        let error = parse(&pictured(&file)).map(|_| ()).expect_err("too large");
        assert!(error.contains("picture 0 cannot be decoded"), "{error}");
        assert!(error.to_lowercase().contains("limit") || error.to_lowercase().contains("memory"), "{error}");
    }

    /// The check value of a PNG chunk (PNG specification, annex D).
    fn crc(bytes: &[u8]) -> u32 {
        let remainder = bytes.iter().fold(u32::MAX, |remainder, byte| {
            (0..8).fold(remainder ^ u32::from(*byte), |value, _| (value >> 1) ^ (0xEDB8_8320 * (value & 1)))
        });
        !remainder
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        // Replacing digits by digits passes the JSON parser, and complete files pass the check of chunk lengths.
        fn garbage_never_panics(
            changes in proptest::collection::vec((0usize..1000, prop_oneof![any::<u8>(), b'0'..=b'9']), 1..6),
            cut in proptest::option::weighted(0.2, 0usize..1200),
        ) {
            let mut bytes = square(1.0);
            let length = bytes.len();
            for (at, value) in changes {
                bytes[at % length] = value;
            }
            bytes.truncate(cut.unwrap_or(length).max(12));
            let _ = parse(&bytes);
        }
    }
}
