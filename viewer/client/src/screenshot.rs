//! Saves the last displayed picture.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use nearlight_codec::{Picture, convert};
use nearlight_viewer::{SCREENSHOT, ViewerError};

/// Writes `picture` as PNG.
pub fn save(picture: &Picture, path: &Path) -> Result<(), ViewerError> {
    let mut rgba = Vec::new();
    convert::to_rgba(picture.view(), &mut rgba)?;
    write_png(&rgba, picture, path).map_err(|source| ViewerError::File {
        what: SCREENSHOT,
        path: path.to_owned(),
        source,
    })
}

fn write_png(rgba: &[u8], picture: &Picture, path: &Path) -> std::io::Result<()> {
    let mut encoder =
        png::Encoder::new(BufWriter::new(File::create(path)?), picture.size.width.into(), picture.size.height.into());
    encoder.set_color(png::ColorType::Rgba);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(rgba)?;
    Ok(writer.finish()?)
}
