//! The last displayed picture as a file.

use std::path::Path;

use nearlight_codec::{Picture, convert};

use crate::ClientError;

/// Makes the file, so that a path that cannot be written is told before the run and not after it.
pub fn prepare(path: &Path) -> Result<(), ClientError> {
    match std::fs::File::create(path) {
        Ok(_) => Ok(()),
        Err(source) => Err(ClientError::File { what: "the screenshot", path: path.to_owned(), source }),
    }
}

/// Writes `picture` as PNG.
pub fn save(picture: &Picture, path: &Path) -> Result<(), ClientError> {
    let mut rgba = Vec::new();
    convert::to_rgba(picture.view(), &mut rgba)?;
    let (width, height) = (picture.size.width.into(), picture.size.height.into());
    image::save_buffer_with_format(path, &rgba, width, height, image::ColorType::Rgba8, image::ImageFormat::Png)
        .map_err(|error| ClientError::File {
            what: "the screenshot",
            path: path.to_owned(),
            source: std::io::Error::other(error),
        })
}
