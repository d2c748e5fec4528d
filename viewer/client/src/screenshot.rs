//! Saves the last displayed picture.

use std::path::Path;

use nearlight_codec::{Picture, convert};
use nearlight_viewer::{SCREENSHOT, ViewerError};

/// Writes `picture` as PNG.
pub fn save(picture: &Picture, path: &Path) -> Result<(), ViewerError> {
    let mut rgba = Vec::new();
    convert::to_rgba(picture.view(), &mut rgba)?;
    let (width, height) = (picture.size.width.into(), picture.size.height.into());
    image::save_buffer_with_format(path, &rgba, width, height, image::ColorType::Rgba8, image::ImageFormat::Png)
        .map_err(|error| ViewerError::File {
            what: SCREENSHOT,
            path: path.to_owned(),
            source: std::io::Error::other(error),
        })
}
