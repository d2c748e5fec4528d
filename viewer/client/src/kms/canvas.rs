//! Places a decoded picture on a display and converts it to the display's pixels.
//!
//! The planes are scaled, not the converted pixels: they have less than half as many bytes. The display's memory, which processors read
//! slowly, is written once, in order, and never read.

use fast_image_resize::images::{TypedCroppedImageMut, TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use nearlight_codec::convert::{PixelOrder, to_pixels};
use nearlight_codec::{MAX_SIDE, Picture, Size};

use crate::ClientError;
use crate::letterbox::letterbox;

/// A picture's position and size on a display, in pixels. All values are even, so that they fit the subsampled chroma planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    pub left: u16,
    pub top: u16,
    pub size: Size,
}

impl Placement {
    /// Returns the largest placement in the middle of the display that keeps the picture's aspect ratio.
    pub fn centred(picture: Size, display: Size) -> Self {
        let [_, _, width, height] = letterbox(picture, (display.width.into(), display.height.into()));
        let even = |side: f32, limit: u16| ((side.round() as u16) & !1).clamp(2, limit);
        let size = Size { width: even(width, display.width), height: even(height, display.height) };
        let middle = |side: u16, of: u16| ((of - side) / 2) & !1;
        Self { left: middle(size.width, display.width), top: middle(size.height, display.height), size }
    }
}

/// A display's pixels of 4 bytes each: blue, green, red and one that is ignored (`XR24`).
pub struct Pixels<'a> {
    pub bytes: &'a mut [u8],
    /// Distance between the beginnings of two rows, in bytes.
    pub pitch: usize,
}

pub struct Canvas {
    /// The display's planes, black around the picture.
    planes: Picture,
    /// Size and placement of the picture that `planes` holds.
    placed: Option<(Size, Placement)>,
    resizer: Resizer,
}

impl Canvas {
    /// Creates a canvas for a display of this many columns and rows. An odd last column or row stays black, as does whatever exceeds the
    /// codecs' largest picture.
    pub fn new((width, height): (u16, u16)) -> Self {
        let side = |side: u16| side.min(MAX_SIDE) & !1;
        let planes = Picture::new(Size { width: side(width), height: side(height) });
        Self { planes, placed: None, resizer: Resizer::new() }
    }

    pub fn size(&self) -> Size {
        self.planes.size
    }

    /// Draws the whole display.
    pub fn draw(&mut self, picture: &Picture, pixels: Pixels<'_>) -> Result<(), ClientError> {
        let shown = if picture.size == self.planes.size {
            picture
        } else {
            self.scale(picture)?;
            &self.planes
        };
        let Pixels { bytes, pitch } = pixels;
        to_pixels(shown.view(), PixelOrder::Bgra, bytes, pitch)
            .map_err(|error| ClientError::Display(format!("a picture cannot be converted: {error}")))
    }

    fn scale(&mut self, picture: &Picture) -> Result<(), ClientError> {
        let display = self.planes.size;
        let place = Placement::centred(picture.size, display);
        if self.placed != Some((picture.size, place)) {
            self.planes = Picture::new(display);
            self.placed = Some((picture.size, place));
        }
        let Picture { luma, blue, red, .. } = &mut self.planes;
        let planes = [(&picture.luma, luma, 1), (&picture.blue, blue, 2), (&picture.red, red, 2)];
        for (from, to, divisor) in planes {
            resize(&mut self.resizer, (from, picture.size), (to, display), place, divisor)
                .map_err(|error| ClientError::Display(format!("a picture cannot be scaled: {error}")))?;
        }
        Ok(())
    }
}

/// Scales a plane into its place. Its sides are those of its picture divided by `divisor`.
fn resize(
    resizer: &mut Resizer,
    (from, picture): (&[u8], Size),
    (to, display): (&mut [u8], Size),
    place: Placement,
    divisor: u16,
) -> Result<(), Box<dyn std::error::Error>> {
    let part = |side: u16| u32::from(side / divisor);
    // Typed views: the untyped entry would compile every pixel type and filter into this crate.
    let from = TypedImageRef::<U8>::from_buffer(part(picture.width), part(picture.height), from)?;
    let to = TypedImage::<U8>::from_buffer(part(display.width), part(display.height), to)?;
    let Placement { left, top, size } = place;
    let mut to = TypedCroppedImageMut::new(to, part(left), part(top), part(size.width), part(size.height))?;
    // Enlarging interpolates bilinearly; reducing averages the pixels that each one covers, weighted towards its centre.
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
    resizer.resize_typed(&from, &mut to, &options)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLACK: [u8; 3] = [0, 0, 0];

    /// The left half white, the right half blue.
    fn halves(size: Size) -> Picture {
        let mut picture = Picture::new(size);
        let width = usize::from(size.width);
        picture.luma.chunks_mut(width).for_each(|row| {
            row[..width / 2].fill(235);
            row[width / 2..].fill(32);
        });
        picture.blue.chunks_mut(width / 2).for_each(|row| row[width / 4..].fill(240));
        picture.red.chunks_mut(width / 2).for_each(|row| row[width / 4..].fill(118));
        picture
    }

    struct Shown {
        bytes: Vec<u8>,
        pitch: usize,
    }

    impl Shown {
        fn new(width: u16, height: u16) -> Self {
            // Drivers pad rows.
            let pitch = usize::from(width) * 4 + 64;
            Self { bytes: vec![0; pitch * usize::from(height)], pitch }
        }

        fn draw(&mut self, canvas: &mut Canvas, picture: &Picture) {
            let pixels = Pixels { bytes: &mut self.bytes, pitch: self.pitch };
            canvas.draw(picture, pixels).expect("it fits");
        }

        fn at(&self, x: usize, y: usize) -> [u8; 3] {
            let start = y * self.pitch + x * 4;
            self.bytes[start..start + 3].try_into().expect("a pixel")
        }
    }

    fn near(got: [u8; 3], wanted: [u8; 3]) -> bool {
        got.iter().zip(wanted).all(|(got, wanted)| got.abs_diff(wanted) <= 3)
    }

    #[test]
    fn pictures_lie_in_the_middle_on_even_pixels() {
        let wide = Size { width: 1280, height: 720 };
        let cases = [
            ((1920, 1080), (0, 0, 1920, 1080)),
            ((1280, 1024), (0, 152, 1280, 720)),
            ((1366, 768), (0, 0, 1364, 768)),
            ((800, 480), (0, 14, 800, 450)),
            ((720, 720), (0, 158, 720, 404)),
            ((2560, 1080), (320, 0, 1920, 1080)),
        ];
        for ((width, height), (left, top, wide_as, high_as)) in cases {
            let place = Placement::centred(wide, Size { width, height });
            let wanted = Placement { left, top, size: Size { width: wide_as, height: high_as } };
            assert_eq!(place, wanted, "{width}x{height}");
        }
    }

    #[test]
    fn a_picture_of_the_displays_size_is_not_scaled() {
        let size = Size { width: 64, height: 32 };
        let mut canvas = Canvas::new((64, 32));
        let mut shown = Shown::new(64, 32);
        shown.draw(&mut canvas, &halves(size));
        assert!(
            near(shown.at(31, 0), [255; 3]) && near(shown.at(32, 31), [255, 0, 0]),
            "a sharp edge: blue is the first byte"
        );
        assert_eq!(canvas.placed, None);
    }

    #[test]
    fn other_pictures_are_scaled_and_framed_in_black() {
        for (display, inside, outside) in [
            ((128, 128), [(10, 64), (117, 64), (10, 34)], [(10, 20), (10, 108)]),
            ((256, 64), [(70, 3), (180, 60), (66, 32)], [(50, 32), (205, 32)]),
            ((32, 32), [(3, 16), (28, 16), (3, 10)], [(3, 3), (28, 28)]),
        ] {
            let mut canvas = Canvas::new(display);
            let mut shown = Shown::new(display.0, display.1);
            shown.draw(&mut canvas, &halves(Size { width: 64, height: 32 }));
            let [white, blue, corner] = inside.map(|(x, y)| shown.at(x, y));
            assert!(near(white, [255; 3]) && near(blue, [255, 0, 0]) && near(corner, [255; 3]), "{display:?}");
            for (x, y) in outside {
                assert!(near(shown.at(x, y), BLACK), "{display:?}: {x}, {y}");
            }
        }
    }

    #[test]
    fn nothing_of_a_picture_of_another_shape_stays_behind() {
        let mut canvas = Canvas::new((128, 128));
        let mut shown = Shown::new(128, 128);
        shown.draw(&mut canvas, &halves(Size { width: 32, height: 64 }));
        assert!(near(shown.at(50, 2), [255; 3]));
        shown.draw(&mut canvas, &halves(Size { width: 64, height: 32 }));
        assert!(near(shown.at(50, 2), BLACK));
    }

    #[test]
    fn displays_of_odd_and_of_huge_sizes_are_drawn() {
        let mut shown = Shown::new(131, 97);
        let mut canvas = Canvas::new((131, 97));
        assert_eq!(canvas.size(), Size { width: 130, height: 96 });
        shown.draw(&mut canvas, &halves(Size { width: 64, height: 32 }));
        assert!(near(shown.at(20, 48), [255; 3]));
        assert_eq!(Canvas::new((5_120, 2_160)).size(), Size { width: 4_096, height: 2_160 });
    }
}
