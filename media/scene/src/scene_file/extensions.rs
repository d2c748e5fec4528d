//! Extensions of glTF, and the parts of a file that are not drawn.

use serde_json::{Map, Value};

/// The extensions that are read. Compressed data is decoded by [`super::compression`].
const READ: [&str; 9] = [
    DRACO,
    MESHOPT[0],
    MESHOPT[1],
    "KHR_mesh_quantization",
    "KHR_materials_pbrSpecularGlossiness",
    "KHR_materials_unlit",
    "KHR_texture_transform",
    WEBP,
    BASIS,
];
pub const DRACO: &str = "KHR_draco_mesh_compression";
/// The names under which compressed buffer views are known; the content is the same.
pub const MESHOPT: [&str; 2] = ["EXT_meshopt_compression", "KHR_meshopt_compression"];
const WEBP: &str = "EXT_texture_webp";
const BASIS: &str = "KHR_texture_basisu";

/// Checks that every required extension is read. Returns the names of the optional ones that are not.
pub fn check(root: &Value) -> Result<Vec<String>, String> {
    let names = |key: &str| {
        let mut names: Vec<&str> = items(root, key).iter().filter_map(Value::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| !READ.contains(name));
        names
    };
    let required = names("extensionsRequired");
    if !required.is_empty() {
        let many = if required.len() == 1 { "the extension" } else { "the extensions" };
        return Err(format!(
            "it requires {many} {}, which Nearlight does not read: export it without",
            required.join(", ")
        ));
    }
    Ok(names("extensionsUsed").into_iter().map(|name| format!("the extension {name}")).collect())
}

/// Returns whether a buffer is for clients that cannot decompress.
pub fn is_fallback(buffer: &Value) -> bool {
    MESHOPT.iter().any(|name| buffer["extensions"][name]["fallback"] == Value::Bool(true))
}

/// Returns the elements of a list of the file, none if it is missing.
pub fn items<'a>(parent: &'a Value, key: &str) -> &'a [Value] {
    parent[key].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the elements of a list of the file that can be changed.
pub fn items_mut<'a>(parent: &'a mut Value, key: &str) -> &'a mut [Value] {
    parent.get_mut(key).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

/// Lists what the file says and the picture will not show.
pub fn list_undrawn(root: &Value) -> Vec<String> {
    let counted = |count: usize, one: &str, several: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        _ => Some(format!("{count} {several}")),
    };
    let (materials, meshes) = (items(root, "materials"), items(root, "meshes"));
    let materials_with = |test: &dyn Fn(&Value) -> bool| materials.iter().filter(|material| test(material)).count();
    let is_metal = |material: &Value| {
        let look = &material["pbrMetallicRoughness"];
        look["metallicFactor"].as_f64().is_some_and(|factor| factor > 0.0)
            || look["roughnessFactor"].as_f64().is_some_and(|factor| factor < 1.0)
            || !look["metallicRoughnessTexture"].is_null()
    };
    let glows = |material: &Value| {
        !material["emissiveTexture"].is_null()
            || items(material, "emissiveFactor").iter().any(|factor| factor.as_f64() != Some(0.0))
    };
    let changes_shape = |mesh: &&Value| items(mesh, "primitives").iter().any(|part| !items(part, "targets").is_empty());
    let transparent = materials_with(&|material| !matches!(material["alphaMode"].as_str(), None | Some("OPAQUE")));
    [
        counted(items(root, "animations").len(), "animation", "animations"),
        counted(items(root, "skins").len(), "skin", "skins"),
        counted(meshes.iter().filter(changes_shape).count(), "mesh's morph targets", "meshes' morph targets"),
        counted(items(root, "cameras").len(), "camera", "cameras"),
        counted(items(root, "scenes").len().saturating_sub(1), "other scene", "other scenes"),
        counted(transparent, "material's transparency", "materials' transparency"),
        counted(materials_with(&is_metal), "material's gloss", "materials' gloss"),
        counted(materials_with(&glows), "material's glow", "materials' glow"),
        counted(materials_with(&|material| !material["normalTexture"].is_null()), "normal texture", "normal textures"),
        counted(
            materials_with(&|material| !material["occlusionTexture"].is_null()),
            "occlusion texture",
            "occlusion textures",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Brings the file to the form that the library reads. A part that is not drawn cannot make a file unreadable, so it is removed.
pub fn simplify(root: &mut Value) {
    for texture in items_mut(root, "textures") {
        let source = texture["extensions"][WEBP]["source"].clone();
        if source.is_u64() {
            texture["source"] = source;
        }
        // Another source is for clients that do not read this one, and is easier to decode.
        let basis = texture["extensions"][BASIS]["source"].clone();
        if basis.is_u64() && !texture["source"].is_u64() {
            texture["source"] = basis;
        }
    }
    for node in items_mut(root, "nodes").iter_mut().filter_map(Value::as_object_mut) {
        remove(node, &["skin", "camera", "weights"]);
    }
    for mesh in items_mut(root, "meshes") {
        for primitive in items_mut(mesh, "primitives").iter_mut().filter_map(Value::as_object_mut) {
            remove(primitive, &["targets"]);
            if let Some(attributes) = primitive.get_mut("attributes").and_then(Value::as_object_mut) {
                // Attributes of applications begin with an underscore (section 3.7.2.1 of the specification).
                attributes.retain(|name, _| !name.starts_with('_'));
            }
        }
    }
    if let Some(root) = root.as_object_mut() {
        remove(root, &["animations", "skins", "cameras", "extensionsRequired"]);
    }
}

fn remove(object: &mut Map<String, Value>, keys: &[&str]) {
    for key in keys {
        object.remove(*key);
    }
}
