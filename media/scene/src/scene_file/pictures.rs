//! Pictures of a scene: PNG, JPEG, WebP, and KTX2 with Basis Universal.

use std::collections::BTreeSet;
use std::io::Cursor;

use gltf::Document;
use image::DynamicImage;

use super::basis;
use super::files::Files;
use crate::plaza::texture::Image;

/// Longest side of a texture in pixels. Larger textures are halved until they fit.
const MAX_TEXTURE_SIDE: u32 = 1024;
/// Pixels of all textures together after scaling: 128 of the largest, 512 MiB. Guess: several times what scenes of this kind contain.
const MAX_TEXTURE_PIXELS: usize = 128 << 20;
/// Bytes of a decoded picture before scaling: 8192x8192 with three channels. A file of half a megabyte can contain more.
const MAX_PICTURE_BYTES: u64 = 200 << 20;

/// Returns a white pixel for plain surfaces, then every picture of the file. Those that are not `used` are white pixels as well.
pub fn load(
    document: &Document,
    used: &BTreeSet<usize>,
    buffers: &[Vec<u8>],
    files: &mut Files,
) -> Result<Vec<Image>, String> {
    let white = || Image { width: 1, height: 1, rgba: vec![255; 4] };
    let mut pictures = vec![white()];
    let mut room = MAX_TEXTURE_PIXELS;
    for (number, picture) in document.as_json().images.iter().enumerate() {
        if !used.contains(&number) {
            pictures.push(white());
            continue;
        }
        let failed = |reason: String| format!("its picture {number} cannot be decoded: {reason}");
        let image = match (picture.buffer_view, &picture.uri) {
            (Some(view), _) => {
                let view =
                    document.views().nth(view.value()).ok_or_else(|| failed("its buffer view is missing".into()))?;
                let data = &buffers[view.buffer().index()];
                decode(&data[view.offset()..view.offset() + view.length()])
            }
            (None, Some(address)) => decode(&files.resolve(address).map_err(failed)?),
            (None, None) => Err("it has neither data nor an address".into()),
        };
        let image = image.map_err(failed)?;
        room = room
            .checked_sub(image.rgba.len() / 4)
            .ok_or_else(|| format!("its pictures have more than {MAX_TEXTURE_PIXELS} pixels even after scaling"))?;
        pictures.push(image);
    }
    Ok(pictures)
}

/// Decodes a file into an opaque texture, scaled down if necessary.
fn decode(bytes: &[u8]) -> Result<Image, String> {
    let picture = if basis::is_ktx2(bytes) {
        basis::decode(bytes, MAX_TEXTURE_SIDE, MAX_PICTURE_BYTES)?.into()
    } else {
        decode_common(bytes)?
    };
    Ok(scaled(picture))
}

/// Decodes a PNG, JPEG or WebP file.
fn decode_common(bytes: &[u8]) -> Result<DynamicImage, String> {
    let opened = image::ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let mut reader = opened.map_err(|error| error.to_string())?;
    let mut limits = image::Limits::no_limits();
    limits.max_alloc = Some(MAX_PICTURE_BYTES);
    reader.limits(limits);
    reader.decode().map_err(|error| error.to_string())
}

/// Returns an opaque texture, scaled down if necessary.
fn scaled(mut picture: DynamicImage) -> Image {
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
    Image { width, height, rgba }
}
