//! Converts X's pointer image for the viewers' browsers.

use nearlight_wire::{Base64, CursorShape, MAX_CURSOR_SIDE};

/// A pointer image as XFIXES reports it, with a premultiplied ARGB value per pixel.
pub(crate) struct CursorImage<'a> {
    pub(crate) size: (u16, u16),
    pub(crate) hotspot: (u16, u16),
    pub(crate) pixels: &'a [u32],
}

/// Converts an image to a cursor shape. Returns `None` if it is fully transparent. Programs hide the pointer in this way when they capture
/// it, but also for other reasons, such as while the user types.
pub(crate) fn shape_of(image: &CursorImage<'_>) -> Option<CursorShape> {
    let (width, height) = (usize::from(image.size.0), usize::from(image.size.1));
    if image.pixels.len() != width * height || image.pixels.iter().all(|pixel| pixel >> 24 == 0) {
        return None;
    }
    // A larger image is shrunk by skipping pixels.
    let step = width.max(height).div_ceil(usize::from(MAX_CURSOR_SIDE)).max(1);
    let mut rgba = Vec::with_capacity(width * height * 4 / step / step);
    for row in image.pixels.chunks_exact(width.max(1)).step_by(step) {
        for pixel in row.iter().step_by(step) {
            let [opacity, colours @ ..] = pixel.to_be_bytes();
            rgba.extend(colours.map(|colour| unpremultiply(colour, opacity)));
            rgba.push(opacity);
        }
    }
    let side = |pixels: usize| pixels.div_ceil(step) as u8;
    let (width, height) = (side(width), side(height));
    let place = |pixel: u16, side: u8| (usize::from(pixel) / step).min(usize::from(side.saturating_sub(1))) as u8;
    let hotspot = [place(image.hotspot.0, width), place(image.hotspot.1, height)];
    Some(CursorShape::Image { width, height, hotspot, rgba: Base64(rgba) })
}

/// Returns the shape of a hidden pointer.
pub(crate) fn hidden() -> CursorShape {
    CursorShape::Named("none".into())
}

/// Converts a premultiplied colour to a straight one.
fn unpremultiply(colour: u8, opacity: u8) -> u8 {
    let [colour, opacity] = [u16::from(colour), u16::from(opacity)];
    (colour * 255).checked_div(opacity).map_or(0, |colour| colour.min(255) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_keeps_its_colours_and_its_point() {
        let pixels = [0xff10_2030, 0x8040_0000, 0, 0xffff_ffff];
        let shape = shape_of(&CursorImage { size: (2, 2), hotspot: (1, 0), pixels: &pixels });
        let rgba = Base64(vec![0x10, 0x20, 0x30, 0xff, 0x7f, 0, 0, 0x80, 0, 0, 0, 0, 255, 255, 255, 255]);
        assert_eq!(shape, Some(CursorShape::Image { width: 2, height: 2, hotspot: [1, 0], rgba }));
    }

    #[test]
    fn an_image_without_opaque_pixels_shows_nothing() {
        for (size, pixels) in
            [((1, 1), vec![0]), ((2, 1), vec![0, 0x00ff_ffff]), ((0, 0), Vec::new()), ((9, 9), vec![!0])]
        {
            assert_eq!(shape_of(&CursorImage { size, hotspot: (0, 0), pixels: &pixels }), None, "{size:?}");
        }
    }

    #[test]
    fn a_large_image_is_shrunk() {
        let pixels = vec![!0; 130 * 70];
        let shape = shape_of(&CursorImage { size: (130, 70), hotspot: (129, 69), pixels: &pixels });
        let Some(CursorShape::Image { width, height, hotspot, rgba }) = shape else { panic!("{shape:?}") };
        assert_eq!((width, height, hotspot), (44, 24, [43, 23]));
        assert_eq!(rgba.0.len(), 44 * 24 * 4);
    }
}
