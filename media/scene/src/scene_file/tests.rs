use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use draco_core::{
    DataType, EncoderBuffer, EncoderOptions, FaceIndex, GeometryAttributeType, MeshEncoder, PointAttribute, PointIndex,
};
use glam::Vec2;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::plaza::mesh::Vertex;

/// Reads a scene without files beside it.
pub(crate) fn parse_alone(bytes: &[u8]) -> Result<Environment, String> {
    parse(bytes, &mut Files::none()).map(|scene| scene.environment)
}

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
    let place = parse_alone(bytes).expect("a good file");
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
        (b"hello".to_vec(), "neither binary glTF"),
        (good[..10].to_vec(), "within its header"),
        (good[..good.len() - 20].to_vec(), "ends after"),
        (patched("\"count\":6", "\"count\":9"), "outside of its view"),
        (patched("\"byteLength\":48", "\"byteLength\":99"), "outside of the buffer"),
        (patched("\"nodes\":[{\"mesh\":0}]", "\"nodes\":[{        }]"), "no triangles"),
        (patched("\"version\":\"2.0\"", "\"verrion\":\"2.0\""), "damaged"),
        (patched("\"POSITION\":0", "\"POSITION\":7"), "no accessor 7"),
        (patched("\"indices\":1", "\"indices\":0"), "no scalars"),
    ];
    for (bytes, expected) in cases {
        let error = parse_alone(&bytes).map(|_| ()).expect_err(expected);
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
        .replace("\"baseColorFactor\"", "\"baseColorTexture\":{\"index\":0},\"baseColorFactor\"")
        .replace(
            "\"accessors\":",
            "\"images\":[{\"bufferView\":2,\"mimeType\":\"image/png\"}],\"textures\":[{\"source\":0}],\"accessors\":",
        );
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
        let place = parse_alone(&pictured(&file)).unwrap();
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
    let error = parse_alone(&pictured(&file)).map(|_| ()).expect_err("too large");
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
        let _ = parse_alone(&bytes);
    }
}

const CORNERS: [[f32; 3]; 4] = [[-1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [1.0, 1.0, 0.0], [-1.0, 1.0, 0.0]];
const TRIANGLES: [u32; 6] = [0, 1, 2, 0, 2, 3];

fn bytes<const N: usize>(numbers: impl IntoIterator<Item = [u8; N]>) -> Vec<u8> {
    numbers.into_iter().flatten().collect()
}

/// Returns the description and the buffer of a square two metres wide.
fn parts() -> (Value, Vec<u8>) {
    let (root, blob) = container::open(&square(1.0)).expect("a good file");
    (root, blob.expect("a buffer"))
}

fn file(root: &Value, blob: &[u8]) -> Vec<u8> {
    container(root.to_string().into_bytes(), blob)
}

/// Returns the corners of the triangles that are drawn.
fn drawn(environment: &Environment) -> Vec<Vertex> {
    let chunk = environment.chunks.last().expect("a chunk");
    let indices = &environment.mesh.indices[chunk.indices.start as usize..chunk.indices.end as usize];
    indices.iter().map(|index| environment.mesh.vertices[*index as usize]).collect()
}

/// Returns the positions of the triangles' corners in an order that does not depend on where a triangle begins.
fn places(environment: &Environment) -> Vec<[i32; 3]> {
    let round = |vertex: &Vertex| (vertex.position * 100.0).round().as_ivec3().to_array();
    let mut places: Vec<_> = drawn(environment).iter().map(round).collect();
    places.sort_unstable();
    places
}

fn meshopt_square() -> Vec<u8> {
    let (mut root, _) = parts();
    let indices: Vec<u8> = meshopt::encode_index_buffer(&TRIANGLES, 4).expect("encoded");
    let mut blob = meshopt::encode_vertex_buffer(&CORNERS).expect("encoded");
    let vertices = blob.len();
    blob.extend(&indices);
    let compressed = |offset: usize, length: usize, mode: &str, count: usize, stride: usize| json!({ "buffer": 0, "byteOffset": offset, "byteLength": length, "mode": mode, "count": count, "byteStride": stride });
    root["buffers"] = json!([
        { "byteLength": blob.len() },
        { "byteLength": 60, "extensions": { "EXT_meshopt_compression": { "fallback": true } } },
    ]);
    root["bufferViews"] = json!([
        { "buffer": 1, "byteLength": 48, "byteStride": 12,
          "extensions": { "EXT_meshopt_compression": compressed(0, vertices, "ATTRIBUTES", 4, 12) } },
        { "buffer": 1, "byteOffset": 48, "byteLength": 12,
          "extensions": { "EXT_meshopt_compression": compressed(vertices, indices.len(), "TRIANGLES", 6, 2) } },
    ]);
    root["extensionsRequired"] = json!(["EXT_meshopt_compression"]);
    root["extensionsUsed"] = json!(["EXT_meshopt_compression"]);
    file(&root, &blob)
}

fn draco_square() -> Vec<u8> {
    let mut positions = PointAttribute::new();
    positions.init(GeometryAttributeType::Position, 3, DataType::Float32, false, 4);
    positions.buffer_mut().write(0, &bytes(CORNERS.as_flattened().iter().map(|number| number.to_le_bytes())));
    let mut mesh = draco_core::Mesh::new();
    mesh.add_attribute(positions);
    mesh.set_num_points(4);
    mesh.set_num_faces(2);
    for (face, triangle) in TRIANGLES.chunks_exact(3).enumerate() {
        mesh.set_face(FaceIndex(face as u32), [0, 1, 2].map(|corner| PointIndex(triangle[corner])));
    }
    let (mut encoder, mut encoded) = (MeshEncoder::new(), EncoderBuffer::new());
    encoder.set_mesh(mesh);
    encoder.encode(&EncoderOptions::new(), &mut encoded).expect("encoded");
    let (mut root, _) = parts();
    root["buffers"] = json!([{ "byteLength": encoded.data().len() }]);
    root["bufferViews"] = json!([{ "buffer": 0, "byteLength": encoded.data().len() }]);
    for accessor in extensions::items_mut(&mut root, "accessors") {
        accessor.as_object_mut().expect("an object").remove("bufferView");
    }
    root["meshes"][0]["primitives"][0]["extensions"] =
        json!({ "KHR_draco_mesh_compression": { "bufferView": 0, "attributes": { "POSITION": 0 } } });
    root["extensionsRequired"] = json!(["KHR_draco_mesh_compression"]);
    root["extensionsUsed"] = json!(["KHR_draco_mesh_compression"]);
    file(&root, encoded.data())
}

fn quantised_square() -> Vec<u8> {
    let (mut root, _) = parts();
    let short = |number: f32| ((number * 32_767.0) as i16).to_le_bytes();
    // The fourth number of each corner is padding.
    let corner = |[x, y, z]: [f32; 3]| bytes([x, y, z, 0.0].map(short));
    let mut blob: Vec<u8> = CORNERS.into_iter().flat_map(corner).collect();
    blob.extend(bytes(TRIANGLES.map(|index| (index as u16).to_le_bytes())));
    root["buffers"] = json!([{ "byteLength": 44 }]);
    root["bufferViews"] = json!([{ "buffer": 0, "byteLength": 32, "byteStride": 8 }, { "buffer": 0, "byteOffset": 32, "byteLength": 12 }]);
    root["accessors"][0]["componentType"] = json!(5_122);
    root["accessors"][0]["normalized"] = json!(true);
    root["extensionsRequired"] = json!(["KHR_mesh_quantization"]);
    root["extensionsUsed"] = json!(["KHR_mesh_quantization"]);
    file(&root, &blob)
}

/// Returns the square with corners that are all zero apart from three that are listed.
fn sparse_square() -> Vec<u8> {
    let (mut root, mut blob) = parts();
    blob.extend([0, 1, 2, 3]);
    root["buffers"][0]["byteLength"] = json!(64);
    root["bufferViews"].as_array_mut().expect("views").push(json!({ "buffer": 0, "byteOffset": 60, "byteLength": 4 }));
    root["accessors"][0].as_object_mut().expect("an accessor").remove("bufferView");
    root["accessors"][0]["sparse"] =
        json!({ "count": 4, "indices": { "bufferView": 2, "componentType": 5_121 }, "values": { "bufferView": 0 } });
    file(&root, &blob)
}

fn strip_square() -> Vec<u8> {
    let (mut root, mut blob) = parts();
    root["meshes"][0]["primitives"][0]["mode"] = json!(5);
    root["accessors"][1]["count"] = json!(4);
    blob.splice(48..56, bytes([0u16, 1, 3, 2].map(u16::to_le_bytes)));
    file(&root, &blob)
}

/// Returns glTF in JSON with its buffer in an address.
fn json_square(address: &dyn Fn(&[u8]) -> String) -> Vec<u8> {
    let (mut root, blob) = parts();
    root["buffers"][0]["uri"] = json!(address(&blob));
    root.to_string().into_bytes()
}

fn data_square() -> Vec<u8> {
    json_square(&|blob| format!("data:application/octet-stream;base64,{}", STANDARD.encode(blob)))
}

#[test]
fn every_form_of_a_mesh_is_drawn_as_the_same_triangles() {
    let plain = places(&parse_alone(&square(1.0)).expect("the plain file"));
    let forms: [(&str, Vec<u8>); 6] = [
        ("meshopt", meshopt_square()),
        ("Draco", draco_square()),
        ("quantised", quantised_square()),
        ("sparse", sparse_square()),
        ("data address", data_square()),
        ("byte order mark", [b"\xEF\xBB\xBF".to_vec(), data_square()].concat()),
    ];
    for (name, form) in forms {
        let environment = parse_alone(&form).unwrap_or_else(|reason| panic!("{name}: {reason}"));
        // A mesh encoder may choose the other diagonal, so each corner of the square is drawn, and only those.
        let (mut found, mut expected) = (places(&environment), plain.clone());
        assert_eq!(found.len(), 6, "{name}");
        found.dedup();
        expected.dedup();
        assert_eq!(found, expected, "{name}");
    }
    // An accessor without data consists of zeros.
    let (mut root, blob) = parts();
    root["accessors"][0].as_object_mut().expect("an accessor").remove("bufferView");
    let error = parse_alone(&file(&root, &blob)).expect_err("a point");
    assert!(error.contains("no triangles to show"), "{error}");
    let strip = parse_alone(&strip_square()).expect("a strip");
    let normals: Vec<Vec3> = drawn(&strip)
        .chunks_exact(3)
        .map(|corners| (corners[1].position - corners[0].position).cross(corners[2].position - corners[0].position))
        .collect();
    assert!(normals.len() == 2 && normals.iter().all(|normal| normal.z > 1.0), "{normals:?}");
}

struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("nearlight-{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("parts")).expect("a folder");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_scene_with_files_beside_it_is_read_from_its_own_folder_only() {
    let folder = Folder::new("scene-folder");
    let write = |address: &str| {
        let scene = json_square(&|blob| {
            std::fs::write(folder.0.join("parts/the buffer.bin"), blob).expect("written");
            address.to_owned()
        });
        std::fs::write(folder.0.join("scene.gltf"), scene).expect("written");
    };
    write("parts/the%20buffer.bin");
    let plain = places(&parse_alone(&square(1.0)).expect("the plain file"));
    for path in [folder.0.clone(), folder.0.join("scene.gltf")] {
        let file = find(&path).unwrap_or_else(|error| panic!("{error}"));
        let scene = load(&file).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(places(&scene.environment), plain);
        assert_eq!(list_files(&file), [file.clone(), folder.0.join("parts/the buffer.bin")]);
    }
    for (address, reason) in [
        ("../the buffer.bin", "own folder"),
        ("/etc/hostname", "own folder"),
        ("%2Fetc%2Fhostname", "own folder"),
        ("https://example.org/buffer.bin", "own folder"),
        ("absent.bin", "`absent.bin`, which cannot be read"),
        ("data:application/octet-stream;base64,A*", "not base64"),
    ] {
        write(address);
        let error = load(&folder.0.join("scene.gltf")).expect_err(address).to_string();
        assert!(error.contains(reason), "{address}: {error}");
    }
    std::fs::write(folder.0.join("other.glb"), square(1.0)).expect("written");
    let error = find(&folder.0).expect_err("two scenes").to_string();
    assert!(error.contains("other.glb and scene.gltf"), "{error}");
}

#[test]
fn an_extension_that_a_file_requires_is_named_and_valid_files_are_not_called_damaged() {
    for (name, advice) in [("KHR_unheard_of", "export it without"), ("EXT_unheard_of", "export it without")] {
        let (mut root, blob) = parts();
        root["extensionsUsed"] = json!([name, "KHR_mesh_quantization"]);
        root["extensionsRequired"] = json!([name, "KHR_mesh_quantization"]);
        let error = parse_alone(&file(&root, &blob)).expect_err("not read");
        assert!(error.contains(name) && error.contains(advice), "{error}");
        assert!(!error.contains("damaged") && !error.contains("KHR_mesh_quantization"), "{error}");
    }
    // Attributes of applications, and parts that this library does not know, are valid.
    let (mut root, blob) = parts();
    root["meshes"][0]["primitives"][0]["attributes"]["_TEMPERATURE"] = json!(0);
    root["animations"] = json!([{ "samplers": [], "channels": [{ "sampler": 0, "target": { "path": "pointer" } }] }]);
    parse_alone(&file(&root, &blob)).expect("valid");
}

#[test]
fn what_a_scene_says_and_the_picture_does_not_show_is_listed() {
    let (mut root, blob) = parts();
    let undrawn = |root: &Value| parse(&file(root, &blob), &mut Files::none()).expect("a scene").undrawn;
    assert_eq!(undrawn(&root), Vec::<String>::new());
    root["extensionsUsed"] = json!(["KHR_lights_punctual", "KHR_materials_unlit"]);
    root["animations"] = json!([{}, {}]);
    root["skins"] = json!([{ "joints": [0] }]);
    root["cameras"] = json!([{ "type": "perspective" }]);
    root["materials"][0]["alphaMode"] = json!("BLEND");
    root["materials"][0]["normalTexture"] = json!({ "index": 0 });
    root["materials"][0]["emissiveFactor"] = json!([1.0, 0.0, 0.0]);
    root["images"] = json!([{ "uri": "absent.png" }]);
    root["textures"] = json!([{ "source": 0 }]);
    root["meshes"][0]["primitives"][0]["targets"] = json!([{ "POSITION": 0 }]);
    let line = json!({ "attributes": { "POSITION": 0 }, "mode": 1 });
    root["meshes"][0]["primitives"].as_array_mut().expect("primitives").push(line);
    let expected = [
        "the extension KHR_lights_punctual",
        "2 animations",
        "1 skin",
        "1 mesh's morph targets",
        "1 camera",
        "1 material's transparency",
        "1 material's glow",
        "1 normal texture",
        "meshes of points or lines (1)",
    ];
    assert_eq!(undrawn(&root), expected);
}

#[test]
fn a_webp_texture_is_drawn_and_a_texture_in_an_unknown_format_is_listed() {
    let mut picture = Vec::new();
    image::write_buffer_with_format(
        &mut Cursor::new(&mut picture),
        &[10, 200, 30, 10, 200, 30],
        2,
        1,
        image::ColorType::Rgb8,
        image::ImageFormat::WebP,
    )
    .expect("encoded");
    let (mut root, blob) = parts();
    let address = format!("data:image/webp;base64,{}", STANDARD.encode(&picture));
    root["images"] = json!([{ "uri": address, "mimeType": "image/webp" }]);
    root["textures"] = json!([{ "extensions": { "EXT_texture_webp": { "source": 0 } } }]);
    root["materials"][0]["pbrMetallicRoughness"]["baseColorTexture"] = json!({ "index": 0 });
    root["extensionsRequired"] = json!(["EXT_texture_webp"]);
    root["extensionsUsed"] = json!(["EXT_texture_webp"]);
    let scene = parse_alone(&file(&root, &blob)).expect("a scene");
    assert_eq!(scene.chunks.last().map(|chunk| chunk.surface), Some(Surface::Picture(1)));
    assert_eq!(scene.pictures[1].rgba, [10, 200, 30, 255, 10, 200, 30, 255]);
    root["textures"] = json!([{ "extensions": { "EXT_texture_unheard_of": { "source": 0 } } }]);
    root["extensionsUsed"] = json!(["EXT_texture_unheard_of"]);
    root["extensionsRequired"] = json!([]);
    let scene = parse(&file(&root, &blob), &mut Files::none()).expect("a scene");
    let expected = ["the extension EXT_texture_unheard_of", "textures in a format that is not read (1)"];
    assert_eq!(scene.undrawn, expected);
}

#[test]
fn a_basis_universal_texture_is_drawn_and_a_damaged_one_is_named() {
    let (mut root, blob) = parts();
    let picture = super::basis::tests::file(0);
    let image = |bytes: &[u8]| json!([{ "uri": format!("data:image/ktx2;base64,{}", STANDARD.encode(bytes)) }]);
    root["images"] = image(&picture);
    root["textures"] = json!([{ "extensions": { "KHR_texture_basisu": { "source": 0 } } }]);
    root["materials"][0]["pbrMetallicRoughness"]["baseColorTexture"] = json!({ "index": 0 });
    root["extensionsRequired"] = json!(["KHR_texture_basisu"]);
    root["extensionsUsed"] = json!(["KHR_texture_basisu"]);
    let scene = parse_alone(&file(&root, &blob)).expect("a scene");
    assert_eq!(scene.chunks.last().map(|chunk| chunk.surface), Some(Surface::Picture(1)));
    assert_eq!((scene.pictures[1].width, scene.pictures[1].height), (32, 32));
    assert!(scene.pictures[1].rgba[0].abs_diff(200) < 12 && scene.pictures[1].rgba[3] == 255);
    root["images"] = image(&picture[..300]);
    let refused = parse_alone(&file(&root, &blob)).expect_err("it is damaged");
    assert!(refused.contains("its picture 0 cannot be decoded: it is damaged"), "{refused}");
}

#[test]
fn colours_of_corners_and_transforms_of_textures_are_applied() {
    let (mut root, mut blob) = parts();
    // The corners' texture coordinates are their x and y; three are red and one is black.
    blob.extend(bytes([[0xFF, 0, 0, 0xFF], [0xFF, 0, 0, 0xFF], [0xFF, 0, 0, 0xFF], [0, 0, 0, 0xFF]]));
    root["buffers"][0]["byteLength"] = json!(76);
    let views = root["bufferViews"].as_array_mut().expect("views");
    views[0]["byteStride"] = json!(12);
    views.push(json!({ "buffer": 0, "byteOffset": 60, "byteLength": 16 }));
    let accessors = root["accessors"].as_array_mut().expect("accessors");
    accessors.push(json!({ "bufferView": 2, "componentType": 5_121, "normalized": true, "count": 4, "type": "VEC4" }));
    accessors.push(json!({ "bufferView": 0, "componentType": 5_126, "count": 4, "type": "VEC2" }));
    let attributes = &mut root["meshes"][0]["primitives"][0]["attributes"];
    attributes["COLOR_0"] = json!(2);
    attributes["TEXCOORD_0"] = json!(3);
    let address = format!("data:image/png;base64,{}", STANDARD.encode(png(1, 1, image::ColorType::Rgb8)));
    root["images"] = json!([{ "uri": address }]);
    root["textures"] = json!([{ "source": 0 }]);
    let quarter = std::f32::consts::FRAC_PI_2;
    let transform = json!({ "offset": [0.5, 0.0], "scale": [2.0, 2.0], "rotation": quarter });
    root["materials"][0]["pbrMetallicRoughness"] = json!({
        "baseColorTexture": { "index": 0, "extensions": { "KHR_texture_transform": transform } },
    });
    root["extensionsUsed"] = json!(["KHR_texture_transform"]);
    let corners = drawn(&parse_alone(&file(&root, &blob)).expect("a scene"));
    assert!(corners[1].colour.x > 0.1 && corners[1].colour.y == 0.0, "{:?}", corners[1]);
    assert_eq!(corners[5].colour, Vec3::ZERO);
    // (-1, -1), doubled, turned by a quarter counter-clockwise in the picture and moved.
    assert!((corners[0].uv - Vec2::new(-1.5, 2.0)).length() < 1e-5, "{:?}", corners[0].uv);
}
