//! The application's cursor in a window.

use nearlight_wire::{CursorShape, MAX_CURSOR_SIDE};
use winit::window::{Cursor, CursorIcon, CustomCursor, CustomCursorSource};

/// Returns the window's cursor for a shape; `None` if it is hidden. `make` registers an image with the window system. A shape that the
/// window cannot show becomes the default arrow.
pub fn cursor(shape: &CursorShape, make: impl FnOnce(CustomCursorSource) -> CustomCursor) -> Option<Cursor> {
    match shape {
        CursorShape::Named(name) if name == "none" => None,
        CursorShape::Named(name) => {
            let unknown = |_| tracing::debug!(name, "the application's pointer has a name that is not one of CSS");
            Some(name.parse::<CursorIcon>().map_err(unknown).unwrap_or_default().into())
        }
        CursorShape::Image { .. } => Some(match image(shape) {
            Ok(source) => Cursor::Custom(make(source)),
            Err(reason) => {
                tracing::warn!(
                    reason,
                    "the application's pointer image cannot be shown; the default arrow is shown instead"
                );
                CursorIcon::Default.into()
            }
        }),
    }
}

/// Converts an image to the window system's format. The error says what is wrong with it.
fn image(shape: &CursorShape) -> Result<CustomCursorSource, String> {
    let CursorShape::Image { width, height, hotspot: [column, row], rgba } = shape else {
        return Err("it has a name".into());
    };
    if *width.max(height) > MAX_CURSOR_SIDE {
        return Err(format!("{width}x{height} pixels exceed the limit of {MAX_CURSOR_SIDE} along each side"));
    }
    let [width, height, column, row] = [*width, *height, *column, *row].map(u16::from);
    CustomCursor::from_rgba(rgba.0.clone(), width, height, column, row).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use nearlight_wire::Base64;

    use super::*;

    fn named(name: &str) -> Option<Cursor> {
        cursor(&CursorShape::Named(name.into()), |_| panic!("no image"))
    }

    fn picture(side: u8, hotspot: [u8; 2], bytes: usize) -> CursorShape {
        CursorShape::Image { width: side, height: side, hotspot, rgba: Base64(vec![255; bytes]) }
    }

    #[test]
    fn keywords_of_css_are_the_systems_shapes() {
        assert_eq!(named("grabbing"), Some(CursorIcon::Grabbing.into()));
        assert_eq!(named("none"), None, "nothing is to be seen");
        assert_eq!(named("no such thing"), Some(CursorIcon::Default.into()));
    }

    #[test]
    fn images_are_checked_before_the_system_gets_them() {
        assert!(image(&picture(32, [16, 16], 32 * 32 * 4)).is_ok());
        for (wrong, name) in [
            (picture(65, [0, 0], 65 * 65 * 4), "too large"),
            (picture(32, [0, 0], 32 * 32 * 4 - 1), "bytes are missing"),
            (picture(32, [32, 0], 32 * 32 * 4), "it points outside"),
            (picture(0, [0, 0], 0), "nothing to see"),
        ] {
            assert!(image(&wrong).is_err(), "{name}");
            let shown = cursor(&wrong, |_| panic!("no image"));
            assert_eq!(shown, Some(CursorIcon::Default.into()), "{name}");
        }
    }
}
