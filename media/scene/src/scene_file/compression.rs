//! Decodes compressed meshes: what they contain is added to the file as plain buffers, which are then read like any others.

use std::collections::BTreeSet;

use draco_core::decode_limits::DecodeLimits;
use draco_core::decoder_buffer::DecoderBuffer;
use draco_core::mesh::Mesh;
use draco_core::mesh_decoder::MeshDecoder;
use serde_json::{Map, Value, json};

use super::MAX_CORNERS;
use super::extensions::{DRACO, MESHOPT, items, items_mut};

/// Bytes of all decoded data. Guess: the most corners that a scene may have, with 64 bytes each.
const MAX_DECODED_BYTES: usize = MAX_CORNERS * 64;
/// Constants of glTF (section 5.1.3 of its specification).
const FLOAT: u32 = 5_126;
const UNSIGNED_INT: u32 = 5_125;

/// Decodes everything that is compressed. `root` refers to the decoded buffers afterwards.
pub fn decompress(root: &mut Value, buffers: &mut Vec<Vec<u8>>) -> Result<(), String> {
    let mut decoded = BufferList { buffers, bytes: 0 };
    for (number, view) in items_mut(root, "bufferViews").iter_mut().enumerate() {
        let compressed = MESHOPT.iter().map(|name| &view["extensions"][name]).find(|extension| extension.is_object());
        let Some(compressed) = compressed.cloned() else { continue };
        let data = decoded
            .view(&compressed)
            .map_err(|reason| format!("its compressed buffer view {number} cannot be decoded: {reason}"))?;
        let length = data.len();
        let buffer = decoded.add(data)?;
        for (key, value) in [("buffer", json!(buffer)), ("byteOffset", json!(0)), ("byteLength", json!(length))] {
            view[key] = value;
        }
    }
    let mut meshes = root.get_mut("meshes").map(Value::take).unwrap_or_default();
    for (number, mesh) in meshes.as_array_mut().into_iter().flatten().enumerate() {
        for primitive in items_mut(mesh, "primitives") {
            if primitive["extensions"][DRACO].is_object() {
                decoded
                    .primitive(primitive, root)
                    .map_err(|reason| format!("the Draco data of its mesh {number} cannot be decoded: {reason}"))?;
            }
        }
    }
    if !meshes.is_null() {
        root["meshes"] = meshes;
    }
    decoded.fill_zeros(root)?;
    describe(root, decoded.buffers);
    Ok(())
}

/// Returns the accessors that meshes refer to.
fn referenced_accessors(root: &Value) -> BTreeSet<u64> {
    let primitives = items(root, "meshes").iter().flat_map(|mesh| items(mesh, "primitives"));
    let accessors = primitives.flat_map(|primitive| {
        let attributes = primitive["attributes"].as_object().into_iter().flat_map(Map::values);
        attributes.chain([&primitive["indices"]]).filter_map(Value::as_u64)
    });
    accessors.collect()
}

/// Returns the bytes of an accessor's elements without padding.
fn bytes_of(accessor: &Value) -> usize {
    let component = match accessor["componentType"].as_u64() {
        Some(5_120 | 5_121) => 1,
        Some(5_122 | 5_123) => 2,
        _ => 4,
    };
    let components = match accessor["type"].as_str() {
        Some("SCALAR") => 1,
        Some("VEC2") => 2,
        Some("VEC3") => 3,
        Some("MAT3") => 9,
        Some("MAT4") => 16,
        _ => 4,
    };
    (accessor["count"].as_u64().unwrap_or(0) as usize).saturating_mul(component * components)
}

/// Adds the decoded buffers to the file's list.
fn describe(root: &mut Value, buffers: &[Vec<u8>]) {
    let Some(described) = root.as_object_mut() else { return };
    let Some(described) = described.entry("buffers").or_insert_with(|| json!([])).as_array_mut() else { return };
    for buffer in &buffers[described.len().min(buffers.len())..] {
        described.push(json!({ "byteLength": buffer.len() }));
    }
}

struct BufferList<'a> {
    buffers: &'a mut Vec<Vec<u8>>,
    bytes: usize,
}

impl BufferList<'_> {
    /// Adds a buffer and returns its index.
    fn add(&mut self, data: Vec<u8>) -> Result<usize, String> {
        self.reserve(data.len())?;
        self.buffers.push(data);
        Ok(self.buffers.len() - 1)
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_DECODED_BYTES {
            return Err(format!("it decodes to more than {} MiB", MAX_DECODED_BYTES >> 20));
        }
        Ok(())
    }

    /// Gives zeros to accessors without data, as the specification says (section 3.6.2.1), because the library demands data. Those that
    /// only described compressed data are no longer referred to and become a single zero.
    fn fill_zeros(&mut self, root: &mut Value) -> Result<(), String> {
        let referenced = referenced_accessors(root);
        let is_referenced = |number: usize| referenced.contains(&(number as u64));
        let is_empty = |accessor: &Value| accessor["bufferView"].is_null() && accessor["sparse"].is_null();
        let empty: Vec<usize> = items(root, "accessors")
            .iter()
            .enumerate()
            .filter(|(_, accessor)| accessor.is_object() && is_empty(accessor))
            .map(|(number, _)| number)
            .collect();
        if empty.is_empty() {
            return Ok(());
        }
        let zeros = empty.iter().filter(|number| is_referenced(**number));
        let length = zeros.map(|number| bytes_of(&root["accessors"][*number])).max().unwrap_or(0).max(1);
        let buffer = self.add(vec![0; length])?;
        let Some(described) = root.as_object_mut() else { return Ok(()) };
        let views = described.entry("bufferViews").or_insert_with(|| json!([]));
        let Some(views) = views.as_array_mut() else { return Err("its buffer views are no list".into()) };
        views.push(json!({ "buffer": buffer, "byteLength": length }));
        let view = views.len() - 1;
        for number in empty {
            let accessor = &mut root["accessors"][number];
            if !is_referenced(number) {
                *accessor = json!({ "componentType": 5_121, "count": 1, "type": "SCALAR" });
            }
            accessor["bufferView"] = view.into();
        }
        Ok(())
    }

    /// Returns the bytes of a part of a buffer.
    fn part(&self, description: &Value) -> Result<&[u8], String> {
        let number = |key: &str| description[key].as_u64().unwrap_or(0) as usize;
        let (start, length) = (number("byteOffset"), number("byteLength"));
        let buffer = self.buffers.get(number("buffer")).ok_or("it names a buffer that does not exist")?;
        let end = start.checked_add(length).ok_or("it lies outside of its buffer")?;
        buffer.get(start..end).ok_or_else(|| "it lies outside of its buffer".into())
    }

    /// Decodes a buffer view of meshoptimizer's codecs.
    fn view(&self, compressed: &Value) -> Result<Vec<u8>, String> {
        let number = |key: &str| compressed[key].as_u64().unwrap_or(0) as usize;
        let (count, stride) = (number("count"), number("byteStride"));
        let length = count.checked_mul(stride).filter(|length| (1..=MAX_DECODED_BYTES).contains(length));
        length.ok_or_else(|| format!("{count} elements of {stride} bytes are none or too many"))?;
        let bytes = self.part(compressed)?;
        let damaged = |_| "it is damaged".to_owned();
        let wide = |indices: Vec<u32>| indices.into_iter().flat_map(u32::to_le_bytes).collect();
        let narrow = |indices: Vec<u16>| indices.into_iter().flat_map(u16::to_le_bytes).collect();
        match (compressed["mode"].as_str().unwrap_or_default(), stride) {
            ("ATTRIBUTES", _) => {
                let mut data = attributes(bytes, count, stride)?;
                filter(&mut data, stride, compressed["filter"].as_str().unwrap_or("NONE"))?;
                Ok(data)
            }
            ("TRIANGLES", _) if count % 3 != 0 => Err("its indices are no triangles".into()),
            ("TRIANGLES", 2) => meshopt::decode_index_buffer(bytes, count).map(narrow).map_err(damaged),
            ("TRIANGLES", 4) => meshopt::decode_index_buffer(bytes, count).map(wide).map_err(damaged),
            ("INDICES", 2) => meshopt::decode_index_sequence(bytes, count).map(narrow).map_err(damaged),
            ("INDICES", 4) => meshopt::decode_index_sequence(bytes, count).map(wide).map_err(damaged),
            (mode, stride) => Err(format!("its mode `{mode}` with {stride} bytes an element is not known")),
        }
    }

    /// Decodes a Draco mesh. The primitive gets accessors of its own, in floating point.
    fn primitive(&mut self, primitive: &mut Value, root: &mut Value) -> Result<(), String> {
        let compressed = primitive["extensions"][DRACO].clone();
        let view = compressed["bufferView"].as_u64().unwrap_or(u64::MAX) as usize;
        let view =
            items_mut(root, "bufferViews").get(view).ok_or("it names a buffer view that does not exist")?.clone();
        let limits = DecodeLimits::default().with_max_faces(MAX_CORNERS as u64);
        let limits = limits.with_max_decoded_bytes(MAX_DECODED_BYTES as u64);
        let mut mesh = Mesh::new();
        let mut bytes = DecoderBuffer::new(self.part(&view)?).with_limits(limits);
        MeshDecoder::new().decode(&mut bytes, &mut mesh).map_err(|error| error.to_string())?;
        let points = mesh.num_points();
        if points > MAX_CORNERS {
            return Err(format!("it has more than {MAX_CORNERS} corners"));
        }
        let ids = compressed["attributes"].as_object().cloned().unwrap_or_default();
        for (name, id) in ids {
            let attribute = mesh
                .attribute_by_unique_id(id.as_u64().unwrap_or(u64::MAX) as u32)
                .ok_or_else(|| format!("it has no attribute {id}, which is to be {name}"))?;
            let old = primitive["attributes"][&name].as_u64().unwrap_or(u64::MAX) as usize;
            let described =
                items_mut(root, "accessors").get(old).ok_or_else(|| format!("{name} has no accessor"))?.clone();
            let components = usize::from(attribute.num_components());
            let values = attribute.read_f32s(points, components);
            let normalized = described["normalized"] == Value::Bool(true);
            let largest = largest(&described["componentType"]);
            let plain = |value: f32| if normalized { (value / largest).max(-1.0) } else { value };
            let data = values.into_iter().flat_map(|value| plain(value).to_le_bytes()).collect();
            primitive["attributes"][&name] = self.accessor(root, described, (data, points, FLOAT))?.into();
        }
        let indices: Vec<u8> = mesh.faces().iter().flatten().flat_map(|point| point.0.to_le_bytes()).collect();
        let count = indices.len() / 4;
        primitive["indices"] = self.accessor(root, json!({ "type": "SCALAR" }), (indices, count, UNSIGNED_INT))?.into();
        primitive["mode"] = 4.into();
        Ok(())
    }

    /// Adds an accessor like `described` for this data and returns its index.
    fn accessor(
        &mut self,
        root: &mut Value,
        mut described: Value,
        (data, count, component): (Vec<u8>, usize, u32),
    ) -> Result<usize, String> {
        let length = data.len();
        let buffer = self.add(data)?;
        let (Some(views), true) = (root.get_mut("bufferViews").and_then(Value::as_array_mut), described.is_object())
        else {
            return Err("it has no buffer views".into());
        };
        views.push(json!({ "buffer": buffer, "byteLength": length }));
        let view = views.len() - 1;
        if let Some(described) = described.as_object_mut() {
            described.remove("sparse");
            described.remove("byteOffset");
            described.remove("normalized");
        }
        for (key, value) in [("bufferView", view), ("count", count), ("componentType", component as usize)] {
            described[key] = value.into();
        }
        let accessors = root.get_mut("accessors").and_then(Value::as_array_mut).ok_or("it has no accessors")?;
        accessors.push(described);
        Ok(accessors.len() - 1)
    }
}

/// Returns the integer that stands for 1 in a normalised accessor.
fn largest(component: &Value) -> f32 {
    match component.as_u64() {
        Some(5_120) => 127.0,
        Some(5_121) => 255.0,
        Some(5_122) => 32_767.0,
        Some(5_123) => 65_535.0,
        _ => 1.0,
    }
}

/// Decodes vertices of `stride` bytes. The library needs the size of a vertex as a type.
fn attributes(bytes: &[u8], count: usize, stride: usize) -> Result<Vec<u8>, String> {
    fn decode<const WORDS: usize>(bytes: &[u8], count: usize) -> Option<Vec<u8>>
    where
        [u32; WORDS]: Default,
    {
        let vertices: Vec<[u32; WORDS]> = meshopt::decode_vertex_buffer(bytes, count).ok()?;
        // The words are memory that the library has filled byte by byte.
        Some(vertices.into_iter().flatten().flat_map(u32::to_ne_bytes).collect())
    }
    macro_rules! decode {
        ($($words:literal)*) => {
            match stride {
                $(stride if stride == 4 * $words => decode::<$words>(bytes, count),)*
                _ => return Err(format!("a vertex of {stride} bytes is not read; 4 to 128 are, in steps of 4")),
            }
        };
    }
    let data = decode!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
    data.ok_or_else(|| "it is damaged".into())
}

/// Undoes the filter that was applied before compression.
fn filter(data: &mut [u8], stride: usize, name: &str) -> Result<(), String> {
    fn shorts(data: &mut [u8], undo: impl Fn(&mut [[i16; 4]])) {
        let pairs = data.chunks_exact(8);
        let short = |vertex: &[u8], at: usize| i16::from_le_bytes([vertex[at * 2], vertex[at * 2 + 1]]);
        let mut vertices: Vec<[i16; 4]> =
            pairs.map(|vertex| [0, 1, 2, 3].map(|component| short(vertex, component))).collect();
        undo(&mut vertices);
        for (bytes, value) in data.chunks_exact_mut(2).zip(vertices.into_iter().flatten()) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    }
    fn bytes(data: &mut [u8], undo: impl Fn(&mut [[i8; 4]])) {
        let mut vertices: Vec<[i8; 4]> =
            data.chunks_exact(4).map(|vertex| [0, 1, 2, 3].map(|at| vertex[at] as i8)).collect();
        undo(&mut vertices);
        for (byte, value) in data.iter_mut().zip(vertices.into_iter().flatten()) {
            *byte = value as u8;
        }
    }
    match (name, stride) {
        ("NONE", _) => {}
        ("OCTAHEDRAL", 4) => bytes(data, meshopt::decode_filter_oct),
        ("OCTAHEDRAL", 8) => shorts(data, meshopt::decode_filter_oct),
        ("COLOR", 4) => bytes(data, meshopt::decode_filter_color),
        ("COLOR", 8) => shorts(data, meshopt::decode_filter_color),
        ("QUATERNION", 8) => shorts(data, meshopt::decode_filter_quat),
        ("EXPONENTIAL", _) => {
            let words = data.chunks_exact(4).map(|word| [u32::from_le_bytes([word[0], word[1], word[2], word[3]])]);
            let mut words: Vec<[u32; 1]> = words.collect();
            meshopt::decode_filter_exp(&mut words);
            for (bytes, word) in data.chunks_exact_mut(4).zip(words.into_iter().flatten()) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
        }
        (name, stride) => return Err(format!("its filter `{name}` with {stride} bytes a vertex is not known")),
    }
    Ok(())
}
