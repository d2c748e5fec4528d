//! Files of a scene: the one that is named, those beside it, and `data:` addresses.

use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use percent_encoding::percent_decode_str;

/// Bytes of all files of a scene together. Guess: scenes for the web have a few tens of megabytes.
const MAX_BYTES: u64 = 256 << 20;
/// Files in a folder that are looked at to find the scene.
const MAX_FOLDER_ENTRIES: usize = 10_000;
/// Characters of an address that an error quotes.
const MAX_QUOTED_CHARACTERS: usize = 60;
/// Some exporters leave out the padding at the end.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Reads a scene's files. Their sizes are limited together.
pub struct Files {
    /// The folder that addresses are relative to. None if the scene has no files beside it.
    folder: Option<PathBuf>,
    remaining: u64,
}

impl Files {
    /// Returns a reader of the files beside `scene`.
    pub fn beside(scene: &Path) -> Self {
        Self { folder: Some(scene.parent().unwrap_or(Path::new("")).to_path_buf()), remaining: MAX_BYTES }
    }

    /// Returns a reader for a scene that is only in memory.
    #[cfg(test)]
    pub const fn none() -> Self {
        Self { folder: None, remaining: MAX_BYTES }
    }

    pub fn read(&mut self, file: &Path) -> Result<Vec<u8>, String> {
        let opened = File::open(file).map_err(|error| error.to_string())?;
        if !opened.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err("it is no regular file".into());
        }
        let mut bytes = Vec::new();
        opened.take(self.remaining + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        self.remaining = self
            .remaining
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| format!("the scene's files have more than {} MiB together", MAX_BYTES >> 20))?;
        Ok(bytes)
    }

    /// Returns what the address of a buffer or a picture refers to.
    pub fn resolve(&mut self, address: &str) -> Result<Vec<u8>, String> {
        let quoted = quote(address);
        if let Some(data) = address.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("data:")) {
            return decode(&address[data.len()..]).map_err(|reason| format!("its address `{quoted}` {reason}"));
        }
        let file = self.locate(address)?;
        self.read(&file).map_err(|reason| format!("it refers to `{quoted}`, which cannot be read: {reason}"))
    }

    /// Returns the file beside the scene that an address names.
    pub fn locate(&self, address: &str) -> Result<PathBuf, String> {
        let quoted = quote(address);
        let elsewhere =
            || format!("it refers to `{quoted}`; only files in the scene's own folder are read: copy it there");
        if has_scheme(address) {
            return Err(elsewhere());
        }
        let name = percent_decode_str(address)
            .decode_utf8()
            .map_err(|_| format!("it refers to `{quoted}`, which is not UTF-8"))?;
        let path = Path::new(name.as_ref());
        if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err(elsewhere());
        }
        self.folder.as_ref().map(|folder| folder.join(path)).ok_or_else(elsewhere)
    }
}

fn quote(address: &str) -> String {
    address.chars().take(MAX_QUOTED_CHARACTERS).collect()
}

/// Returns the scene that is meant by a file or by a folder that holds one scene.
pub fn find_scene(path: &Path) -> Result<PathBuf, String> {
    if !path.is_dir() {
        return Ok(path.to_path_buf());
    }
    let entries = std::fs::read_dir(path).map_err(|error| error.to_string())?;
    let mut scenes: Vec<PathBuf> = entries
        .take(MAX_FOLDER_ENTRIES)
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| {
            let extension = file.extension().unwrap_or_default();
            extension.eq_ignore_ascii_case("gltf") || extension.eq_ignore_ascii_case("glb")
        })
        .collect();
    scenes.sort();
    match scenes.as_slice() {
        [scene] => Ok(scene.clone()),
        [] => Err("the folder holds no .gltf or .glb file".into()),
        [first, second, ..] => Err(format!(
            "the folder holds several scenes, such as {} and {}: name one of them",
            first.file_name().unwrap_or_default().display(),
            second.file_name().unwrap_or_default().display()
        )),
    }
}

/// Returns whether an address begins with a scheme, such as `https:` (RFC 3986, section 3.1).
fn has_scheme(address: &str) -> bool {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "+-.".contains(character);
    address.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.chars().all(is_part)
    })
}

/// Decodes what follows `data:` (RFC 2397).
fn decode(address: &str) -> Result<Vec<u8>, String> {
    let (kind, data) = address.split_once(',').ok_or("has no comma before its data")?;
    if kind.to_ascii_lowercase().ends_with(";base64") {
        // Base64 may be percent-encoded as well.
        let text: Vec<u8> = percent_decode_str(data).collect();
        BASE64.decode(text).map_err(|error| format!("is not base64: {error}"))
    } else {
        Ok(percent_decode_str(data).collect())
    }
}
