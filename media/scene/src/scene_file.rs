//! Loads a scene from a glTF file, instead of the plaza: binary (.glb), or JSON (.gltf) with files beside it.
//!
//! Buffers are loaded first, then compressed parts are decoded, so that what follows reads plain accessors only. Positions, normals,
//! texture coordinates, base colours and node transforms are drawn. Everything else that a file says is listed in
//! [`SceneFile::undrawn`]. A scene of at least six metres is a place to stand in, a smaller one an exhibit in front of the viewer.

mod basis;
mod compression;
mod container;
mod extensions;
mod files;
mod pictures;
#[cfg(test)]
pub(crate) mod tests;
mod triangles;
mod values;

use std::path::{Path, PathBuf};

use glam::{Mat4, Vec3};
use serde_json::Value;

use crate::SceneError;
use crate::plaza::mesh::Mesh;
use crate::plaza::{Environment, Surface, bounds, build};
use files::Files;
use triangles::Triangles;
use values::Values;

/// Corners of a scene. Guess: no adapter draws more at thirty pictures per second.
const MAX_CORNERS: usize = 6_000_000;
/// Size in metres from which a scene is a place. Smaller ones are exhibits.
const MIN_PLACE_SIZE: f32 = 6.0;
/// Length of the longest side of a place and of an exhibit after scaling, in metres.
const PLACE_SIZE: f32 = 20.0;
const EXHIBIT_SIZE: f32 = 4.0;
const EXHIBIT_AT: Vec3 = Vec3::new(0.0, 0.0, -6.0);

/// A scene that was read.
#[derive(Debug)]
pub struct SceneFile {
    pub environment: Environment,
    /// What the file says and the pictures do not show, such as `2 animations`.
    pub undrawn: Vec<String>,
}

/// Returns `path`, or the scene in it if it is a folder.
pub fn find(path: &Path) -> Result<PathBuf, SceneError> {
    files::find_scene(path).map_err(|reason| SceneError::File { file: path.display().to_string(), reason })
}

/// Returns the file and those that it refers to. A file that cannot be read is listed alone.
pub fn list_files(file: &Path) -> Vec<PathBuf> {
    let mut files = Files::beside(file);
    let beside = files.read(file).and_then(|bytes| container::open(&bytes)).map(|(root, _)| {
        let addresses = ["buffers", "images"].into_iter().flat_map(|kind| extensions::items(&root, kind));
        addresses.filter_map(|part| files.locate(part["uri"].as_str()?).ok()).collect()
    });
    [vec![file.to_path_buf()], beside.unwrap_or_default()].concat()
}

/// Loads a scene as the surroundings of the world.
pub fn load(file: &Path) -> Result<SceneFile, SceneError> {
    let failed = |reason: String| SceneError::File { file: file.display().to_string(), reason };
    let mut files = Files::beside(file);
    let bytes = files.read(file).map_err(failed)?;
    parse(&bytes, &mut files).map_err(failed)
}

/// Returns the scene that `bytes` describe, or what is wrong with them.
fn parse(bytes: &[u8], files: &mut Files) -> Result<SceneFile, String> {
    let (mut root, blob) = container::open(bytes)?;
    let mut undrawn = extensions::check(&root)?;
    undrawn.extend(extensions::list_undrawn(&root));
    let mut buffers = container::load_buffers(&root, blob, files)?;
    compression::decompress(&mut root, &mut buffers)?;
    extensions::simplify(&mut root);
    let document = document(&root)?;
    values::check(&document, &buffers)?;
    let mut triangles = Triangles::new(Values { buffers: &buffers });
    let scene = document.default_scene().or_else(|| document.scenes().next());
    for node in scene.ok_or("it has no scene")?.nodes() {
        triangles.add(&node, Mat4::IDENTITY, 0)?;
    }
    undrawn.extend(triangles.list_undrawn());
    let mut environment = build::surroundings();
    environment.pictures = pictures::load(&document, &triangles.pictures, &buffers, files)?;
    fit(&mut triangles.parts)?;
    for (surface, mesh) in triangles.parts {
        environment.add(surface, &mesh);
    }
    Ok(SceneFile { environment, undrawn })
}

/// Converts the file's JSON for the library and checks it.
fn document(root: &Value) -> Result<gltf::Document, String> {
    let damaged = |error: &dyn std::fmt::Display| format!("its glTF is damaged: {error}");
    let root =
        gltf::json::deserialize::from_str::<gltf::json::Root>(&root.to_string()).map_err(|error| damaged(&error))?;
    // The library's own check uses the positions of corners before it checks that they exist.
    let primitives = root.meshes.iter().flat_map(|mesh| &mesh.primitives);
    let missing =
        primitives.flat_map(|primitive| primitive.attributes.values()).find(|at| at.value() >= root.accessors.len());
    if let Some(at) = missing {
        return Err(damaged(&format!("there is no accessor {}", at.value())));
    }
    gltf::Document::from_json(root).map_err(|error| damaged(&error))
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
