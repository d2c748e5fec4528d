//! Pictures in the memory layouts of other programs: packed colours or planes, padded rows, either orientation, one image per eye.

use crate::convert::{PixelOrder, convert_packed};
use crate::{CodecError, Picture, Size};

/// Rows of bytes in memory.
#[derive(Clone, Copy, Debug)]
pub struct Plane<'a> {
    /// The bytes: at least `stride` for every row but the last, and the last row itself.
    pub bytes: &'a [u8],
    /// Bytes from one row to the next.
    pub stride: usize,
}

/// The layout of a picture's colours in memory.
#[derive(Clone, Copy, Debug)]
pub enum Layout<'a> {
    /// Red, green and blue of a pixel together, 8 bits each in BT.709's primaries. Alpha is ignored.
    Packed(PixelOrder, Plane<'a>),
    /// 4:2:0, BT.709 matrix, limited range: luma, then interleaved blue and red differences.
    Nv12([Plane<'a>; 2]),
    /// 4:2:0, BT.709 matrix, limited range: separate planes for luma, blue and red differences. This is the encoders' format and copied
    /// unchanged.
    I420([Plane<'a>; 3]),
}

/// The order of a picture's rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rows {
    /// The top row comes first.
    #[default]
    TopDown,
    /// The bottom row comes first, as OpenGL reads frame buffers.
    BottomUp,
}

/// A picture in external memory.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    pub size: Size,
    pub layout: Layout<'a>,
    pub rows: Rows,
}

impl Layout<'_> {
    /// Returns the planes with their names, widths in bytes and heights at this size of the picture.
    fn planes(&self, size: Size) -> impl Iterator<Item = (&'static str, Plane<'_>, usize, usize)> {
        let (width, height) = (usize::from(size.width), usize::from(size.height));
        let (half, rows) = (width / 2, height / 2);
        let planes = match self {
            Self::Packed(order, plane) => [Some(("packed pixels", *plane, width * order.bytes(), height)), None, None],
            Self::Nv12([luma, chroma]) => {
                [Some(("a luma plane", *luma, width, height)), Some(("a chroma plane", *chroma, width, rows)), None]
            }
            Self::I420([luma, blue, red]) => [
                Some(("a luma plane", *luma, width, height)),
                Some(("a blue plane", *blue, half, rows)),
                Some(("a red plane", *red, half, rows)),
            ],
        };
        planes.into_iter().flatten()
    }
}

impl Image<'_> {
    /// Checks that every plane holds the rows that size and strides promise.
    pub fn check(&self) -> Result<(), CodecError> {
        let size = self.size;
        size.check()?;
        for (what, Plane { bytes, stride }, columns, rows) in self.layout.planes(size) {
            let needed = stride.max(columns).saturating_mul(rows - 1).saturating_add(columns);
            if stride < columns {
                return Err(CodecError::Stride { what, size, needed: columns, got: stride });
            }
            if bytes.len() < needed {
                return Err(CodecError::Buffer { what, size, needed, got: bytes.len() });
            }
        }
        Ok(())
    }
}

/// The planes that a picture is written to: all columns, or one half.
pub(crate) struct Target<'a> {
    pub(crate) luma: &'a mut [u8],
    pub(crate) blue: &'a mut [u8],
    pub(crate) red: &'a mut [u8],
    /// Bytes from one row of luma to the next. The stride of chroma is half of it.
    pub(crate) stride: usize,
}

/// Fills `picture` from one image, or from a left and a right one of equal size, side by side. The picture takes their size, and is
/// reallocated only if it grows.
pub fn to_picture(left: &Image<'_>, right: Option<&Image<'_>>, picture: &mut Picture) -> Result<(), CodecError> {
    let Size { width, height } = left.size;
    for image in [Some(left), right].into_iter().flatten() {
        image.check()?;
        if image.size != left.size {
            return Err(CodecError::Shape { size: image.size, reason: "both eyes must have pictures of one size" });
        }
    }
    let size = match right {
        Some(_) => Size { width: width.saturating_mul(2), height },
        None => left.size,
    };
    size.check()?;
    picture.set_size(size);
    for (place, image) in [Some(left), right].into_iter().flatten().enumerate() {
        let (start, half) = (place * usize::from(width), place * usize::from(width / 2));
        let target = Target {
            luma: &mut picture.luma[start..],
            blue: &mut picture.blue[half..],
            red: &mut picture.red[half..],
            stride: size.width.into(),
        };
        write(image, target)?;
    }
    Ok(())
}

fn write(image: &Image<'_>, target: Target<'_>) -> Result<(), CodecError> {
    let Image { size, layout, rows } = *image;
    let Target { luma, blue, red, stride } = target;
    let (width, height) = (usize::from(size.width), usize::from(size.height));
    let luma_shape = (width, height, stride);
    let chroma_shape = (width / 2, height / 2, stride / 2);
    match layout {
        Layout::Packed(order, plane) => {
            convert_packed(order, plane, rows, size, Target { luma, blue, red, stride })?;
        }
        Layout::Nv12([from, chroma]) => {
            copy(from, luma, luma_shape, rows);
            let (columns, height, stride) = chroma_shape;
            for (row, source) in rows_of(chroma, (columns * 2, height), rows).enumerate() {
                let start = row * stride;
                let pairs = source.as_chunks::<2>().0;
                // The planes are written one after the other, because the compiler vectorises either loop.
                for (blue, pair) in blue[start..start + columns].iter_mut().zip(pairs) {
                    *blue = pair[0];
                }
                for (red, pair) in red[start..start + columns].iter_mut().zip(pairs) {
                    *red = pair[1];
                }
            }
        }
        Layout::I420([from_luma, from_blue, from_red]) => {
            copy(from_luma, luma, luma_shape, rows);
            copy(from_blue, blue, chroma_shape, rows);
            copy(from_red, red, chroma_shape, rows);
        }
    }
    Ok(())
}

/// Returns a plane's rows from the top.
fn rows_of(plane: Plane<'_>, (columns, height): (usize, usize), rows: Rows) -> impl Iterator<Item = &[u8]> {
    (0..height).map(move |row| {
        let row = if rows == Rows::TopDown { row } else { height - 1 - row };
        &plane.bytes[row * plane.stride..row * plane.stride + columns]
    })
}

fn copy(from: Plane<'_>, to: &mut [u8], (columns, height, stride): (usize, usize, usize), rows: Rows) {
    for (source, row) in rows_of(from, (columns, height), rows).zip(to.chunks_mut(stride)) {
        row[..columns].copy_from_slice(source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    const SIZE: Size = Size { width: 64, height: 32 };

    /// Returns rows of this many bytes, each but the last padded by 24. `byte` returns the value for column and row.
    fn padded(columns: usize, rows: usize, byte: impl Fn(usize, usize) -> u8) -> (Vec<u8>, usize) {
        let stride = columns + 24;
        let mut bytes = vec![0xee; stride * (rows - 1) + columns];
        for row in 0..rows {
            for column in 0..columns {
                bytes[row * stride + column] = byte(column, row);
            }
        }
        (bytes, stride)
    }

    /// Returns a picture whose colour and brightness differ at each place.
    fn colourful(size: Size) -> Picture {
        let mut picture = Picture::new(size);
        for (index, luma) in picture.luma.iter_mut().enumerate() {
            *luma = 16 + (index * 7 % 220) as u8;
        }
        for (index, (blue, red)) in picture.blue.iter_mut().zip(&mut picture.red).enumerate() {
            (*blue, *red) = (16 + (index * 3 % 200) as u8, 230 - (index * 5 % 200) as u8);
        }
        picture
    }

    fn flipped(picture: &Picture) -> Picture {
        let width = usize::from(picture.size.width);
        let flip = |plane: &[u8], width: usize| plane.chunks(width).rev().flatten().copied().collect();
        Picture {
            size: picture.size,
            luma: flip(&picture.luma, width),
            blue: flip(&picture.blue, width / 2),
            red: flip(&picture.red, width / 2),
        }
    }

    #[test]
    fn planes_are_taken_as_they_are_padded_and_either_end_up() {
        let wanted = colourful(SIZE);
        for rows in [Rows::TopDown, Rows::BottomUp] {
            let source = if rows == Rows::TopDown { wanted.clone() } else { flipped(&wanted) };
            let (luma, luma_stride) = padded(64, 32, |x, y| source.luma[y * 64 + x]);
            let (blue, stride) = padded(32, 16, |x, y| source.blue[y * 32 + x]);
            let (red, _) = padded(32, 16, |x, y| source.red[y * 32 + x]);
            let (both, both_stride) = padded(64, 16, |x, y| [&source.blue, &source.red][x % 2][y * 32 + x / 2]);
            let plane = |bytes, stride| Plane { bytes, stride };
            let luma = plane(&luma, luma_stride);
            for layout in [
                Layout::I420([luma, plane(&blue, stride), plane(&red, stride)]),
                Layout::Nv12([luma, plane(&both, both_stride)]),
            ] {
                let mut picture = Picture::new(SIZE);
                to_picture(&Image { size: SIZE, layout, rows }, None, &mut picture).expect("a picture");
                assert_eq!(picture, wanted, "{rows:?}");
            }
        }
    }

    #[test]
    fn packed_pixels_come_out_the_same_in_every_order_and_either_end_up() {
        let rgb = |x: usize, y: usize| [(x * 4) as u8, (y * 8) as u8, (x * 3 + y) as u8];
        let channel = |order: PixelOrder, index: usize| match (order, index) {
            (_, 3) => 3,
            (PixelOrder::Bgra | PixelOrder::Bgr, index) => 2 - index,
            (_, index) => index,
        };
        let mut wanted = None;
        for order in [PixelOrder::Rgba, PixelOrder::Bgra, PixelOrder::Rgb, PixelOrder::Bgr] {
            for rows in [Rows::TopDown, Rows::BottomUp] {
                let count = order.bytes();
                let (bytes, stride) = padded(64 * count, 32, |x, y| {
                    let y = if rows == Rows::TopDown { y } else { 31 - y };
                    rgb(x / count, y).get(channel(order, x % count)).copied().unwrap_or(255)
                });
                let layout = Layout::Packed(order, Plane { bytes: &bytes, stride });
                let mut picture = Picture::new(SIZE);
                to_picture(&Image { size: SIZE, layout, rows }, None, &mut picture).expect("a picture");
                let first = wanted.get_or_insert_with(|| picture.clone());
                let near = |one: &[u8], two: &[u8]| one.iter().zip(two).all(|(one, two)| one.abs_diff(*two) <= 1);
                assert!(near(&picture.luma, &first.luma), "{order:?} {rows:?}");
                assert!(near(&picture.blue, &first.blue) && near(&picture.red, &first.red), "{order:?} {rows:?}");
            }
        }
    }

    #[test]
    fn each_eye_gets_its_half() {
        fn of(Picture { luma, blue, red, .. }: &Picture) -> [Plane<'_>; 3] {
            [(luma, 64), (blue, 32), (red, 32)].map(|(bytes, stride)| Plane { bytes, stride })
        }
        let [left, right] = [1, 40].map(|moment| sample::moving_picture(SIZE, moment));
        let image = |planes| Image { size: SIZE, layout: Layout::I420(planes), rows: Rows::TopDown };
        let mut both = Picture::new(SIZE);
        to_picture(&image(of(&left)), Some(&image(of(&right))), &mut both).expect("a picture");
        assert_eq!(both.size, Size { width: 128, height: 32 });
        let planes = |picture: &Picture| [picture.luma.clone(), picture.blue.clone(), picture.red.clone()];
        for ((both, width), (left, right)) in
            planes(&both).iter().zip([64, 32, 32]).zip(planes(&left).iter().zip(&planes(&right)))
        {
            for ((both, left), right) in both.chunks(2 * width).zip(left.chunks(width)).zip(right.chunks(width)) {
                assert_eq!([left, right].concat(), both);
            }
        }
    }

    #[test]
    fn wrong_images_are_errors() {
        let bytes = vec![0; 4 * 64 * 32];
        let rgba = |length: usize, stride| Layout::Packed(PixelOrder::Rgba, Plane { bytes: &bytes[..length], stride });
        let plane = |length: usize, stride| Plane { bytes: &bytes[..length], stride };
        let cases = [
            ("short", SIZE, rgba(4 * 64 * 32 - 1, 256)),
            ("stride below a row", SIZE, rgba(4 * 64 * 32, 252)),
            ("no stride", SIZE, rgba(4 * 64 * 32, 0)),
            ("huge stride", SIZE, rgba(4 * 64 * 32, usize::MAX)),
            ("odd", Size { width: 63, height: 32 }, rgba(4 * 64 * 32, 256)),
            ("nothing", Size { width: 0, height: 0 }, rgba(0, 0)),
            ("short chroma", SIZE, Layout::Nv12([plane(2_048, 64), plane(1_023, 64)])),
            ("chroma stride", SIZE, Layout::Nv12([plane(2_048, 64), plane(2_048, 63)])),
            ("short red", SIZE, Layout::I420([plane(2_048, 64), plane(512, 32), plane(511, 32)])),
        ];
        for (name, size, layout) in cases {
            for rows in [Rows::TopDown, Rows::BottomUp] {
                let image = Image { size, layout, rows };
                assert!(to_picture(&image, None, &mut Picture::new(SIZE)).is_err(), "{name}");
            }
        }
        let whole = Image { size: SIZE, layout: rgba(4 * 64 * 32, 256), rows: Rows::TopDown };
        let small = Image { size: Size { width: 32, height: 32 }, ..whole };
        assert!(to_picture(&whole, Some(&small), &mut Picture::new(SIZE)).is_err(), "eyes of two sizes");
        let wide = Size { width: 2_050, height: 16 };
        let bytes = vec![0; 4 * 2_050 * 16];
        let layout = Layout::Packed(PixelOrder::Rgba, Plane { bytes: &bytes, stride: 4 * 2_050 });
        let wide = Image { size: wide, layout, rows: Rows::TopDown };
        assert!(to_picture(&wide, Some(&wide), &mut Picture::new(SIZE)).is_err(), "too wide together");
    }
}
