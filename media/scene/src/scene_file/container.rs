//! The outer form of a file: binary glTF, or JSON.

use gltf::binary::Glb;
use serde_json::Value;

use super::extensions::is_fallback;
use super::files::Files;

/// Returns the description and the embedded buffer.
pub fn open(bytes: &[u8]) -> Result<(Value, Option<Vec<u8>>), String> {
    let (text, blob) = if bytes.starts_with(b"glTF") {
        check_chunks(bytes)?;
        let Glb { json, bin, .. } =
            Glb::from_slice(bytes).map_err(|error| format!("its binary glTF is damaged: {error}"))?;
        (json, bin.map(std::borrow::Cow::into_owned))
    } else {
        let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        if !text.trim_ascii_start().starts_with(b"{") {
            return Err("it is neither binary glTF (.glb), which begins with `glTF`, nor glTF in JSON (.gltf)".into());
        }
        (text.into(), None)
    };
    let root: Value = serde_json::from_slice(&text).map_err(|error| format!("its JSON is damaged: {error}"))?;
    if !root.is_object() {
        return Err("its JSON is no glTF: it is no object".into());
    }
    let asset = &root["asset"];
    let version = asset["minVersion"].as_str().or(asset["version"].as_str());
    match version {
        None => Err("its JSON is no glTF, or damaged: it names no version (`asset.version`)".into()),
        Some(version) if version != "2.0" => Err(format!("it is glTF version {version}; version 2.0 is read")),
        Some(_) => Ok((root, blob)),
    }
}

/// Checks the lengths of file and chunks, which the library trusts.
fn check_chunks(bytes: &[u8]) -> Result<(), String> {
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

/// Loads all buffers. One that only clients without a decoder would need stays empty.
pub fn load_buffers(root: &Value, mut blob: Option<Vec<u8>>, files: &mut Files) -> Result<Vec<Vec<u8>>, String> {
    let described = root["buffers"].as_array().map_or(&[][..], Vec::as_slice);
    let mut buffers = Vec::with_capacity(described.len());
    for (number, buffer) in described.iter().enumerate() {
        let data = if is_fallback(buffer) {
            buffers.push(Vec::new());
            continue;
        } else if let Some(address) = buffer["uri"].as_str() {
            files.resolve(address).map_err(|reason| format!("its buffer {number} is missing: {reason}"))?
        } else {
            let embedded = if number == 0 { blob.take() } else { None };
            embedded.ok_or_else(|| format!("its buffer {number} has neither data nor an address"))?
        };
        let length = buffer["byteLength"].as_u64().unwrap_or(0);
        if length > data.len() as u64 {
            return Err(format!("its buffer {number} has {} of {length} bytes", data.len()));
        }
        buffers.push(data);
    }
    Ok(buffers)
}
