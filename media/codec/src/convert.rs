//! Colour conversion between the format of renderers and screens (8-bit RGB with BT.709 primaries) and that of codecs (4:2:0, BT.709
//! matrix, limited range).

use yuv::{BufferStoreMut, YuvConversionMode, YuvPlanarImage, YuvPlanarImageMut, YuvRange, YuvStandardMatrix};

use crate::image::{Plane, Rows, Target};
use crate::row_pairs::{Kernel, RowPair};
use crate::{CodecError, Picture, PictureView, Size};

/// The order of a pixel's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelOrder {
    Rgba,
    Bgra,
    /// Three bytes per pixel.
    Rgb,
    /// Three bytes per pixel, the order of `OpenCV`.
    Bgr,
}

impl PixelOrder {
    /// Returns the number of bytes of a pixel.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Rgba | Self::Bgra => 4,
            Self::Rgb | Self::Bgr => 3,
        }
    }
}

/// Rendered or captured pixels, top row first.
#[derive(Clone, Copy, Debug)]
pub struct Pixels<'a> {
    pub size: Size,
    pub order: PixelOrder,
    pub bytes: &'a [u8],
    /// Bytes from one row to the next; a mapped GPU buffer pads its rows.
    pub stride: usize,
}

/// Converts `pixels` into `picture`, which takes their size and is reallocated only if it grows. Alpha is ignored.
///
/// Between renderer and encoder the pixels are touched only here.
pub fn to_picture(pixels: Pixels<'_>, picture: &mut Picture) -> Result<(), CodecError> {
    let Pixels { size, order, bytes, stride } = pixels;
    size.check()?;
    picture.set_size(size);
    let stride_of_luma = size.width.into();
    let Picture { luma, blue, red, .. } = picture;
    convert_packed(
        order,
        Plane { bytes, stride },
        Rows::TopDown,
        size,
        Target { luma, blue, red, stride: stride_of_luma },
    )
}

/// Converts pixels into part of a picture; `size` is even.
pub(crate) fn convert_packed(
    order: PixelOrder,
    plane: Plane<'_>,
    rows: Rows,
    size: Size,
    target: Target<'_>,
) -> Result<(), CodecError> {
    check_rgb("an RGB buffer", size, (plane.bytes.len(), plane.stride), order.bytes())?;
    match (Kernel::detect(order), rows) {
        (Some(kernel), _) => {
            convert_by(kernel, plane, rows, size, target);
            Ok(())
        }
        (None, Rows::TopDown) => convert_by_library(order, plane, size, target),
        (None, Rows::BottomUp) => {
            let Target { luma, blue, red, stride } = target;
            let (width, height) = (usize::from(size.width), usize::from(size.height));
            // Two rows at a time, because they share their chroma.
            let pair = Size { height: 2, ..size };
            for place in 0..height / 2 {
                let from = Plane { bytes: &plane.bytes[(height - 2 - 2 * place) * plane.stride..], ..plane };
                let luma = &mut luma[2 * place * stride..];
                let (blue, red) = (&mut blue[place * stride / 2..], &mut red[place * stride / 2..]);
                convert_by_library(order, from, pair, Target { luma: &mut *luma, blue, red, stride })?;
                let (upper, lower) = luma.split_at_mut(stride);
                upper[..width].swap_with_slice(&mut lower[..width]);
            }
            Ok(())
        }
    }
}

fn convert_by(kernel: Kernel, plane: Plane<'_>, rows: Rows, size: Size, target: Target<'_>) {
    let Target { luma, blue, red, stride } = target;
    let (width, height) = (usize::from(size.width), usize::from(size.height));
    let row = |number: usize| {
        let number = if rows == Rows::TopDown { number } else { height - 1 - number };
        &plane.bytes[number * plane.stride..][..4 * width]
    };
    let lumas = luma.chunks_mut(2 * stride);
    let differences = blue.chunks_mut(stride / 2).zip(red.chunks_mut(stride / 2));
    for (place, (luma, (blue, red))) in lumas.zip(differences).take(height / 2).enumerate() {
        let (upper, lower) = luma.split_at_mut(stride);
        kernel.convert(&mut RowPair {
            pixels: [row(2 * place), row(2 * place + 1)],
            luma: [&mut upper[..width], &mut lower[..width]],
            blue: &mut blue[..width / 2],
            red: &mut red[..width / 2],
        });
    }
}

/// Converts pixels by the library, from the top row on.
fn convert_by_library(order: PixelOrder, plane: Plane<'_>, size: Size, target: Target<'_>) -> Result<(), CodecError> {
    let Target { luma, blue, red, stride } = target;
    let from_stride = check_rgb("an RGB buffer", size, (plane.bytes.len(), plane.stride), order.bytes())?;
    // The library skips two rows if the second one ends without its padding.
    let padded = (plane.bytes.len() / plane.stride).min(luma.len() / stride);
    let pairs = (padded / 2).min(blue.len() / (stride / 2)).min(red.len() / (stride / 2));
    let pairs = pairs.min(usize::from(size.height / 2));
    if pairs > 0 {
        let size = Size { height: 2 * pairs as u16, ..size };
        let target = Target { luma: &mut *luma, blue: &mut *blue, red: &mut *red, stride };
        convert_padded(order, (plane.bytes, from_stride), size, target)?;
    }
    if pairs < usize::from(size.height / 2) {
        let plane = Plane { bytes: &plane.bytes[2 * pairs * plane.stride..], ..plane };
        let half = pairs * stride / 2;
        let (luma, blue, red) = (&mut luma[2 * pairs * stride..], &mut blue[half..], &mut red[half..]);
        convert_pair(order, plane, size.width, Target { luma, blue, red, stride })?;
    }
    Ok(())
}

/// Converts two rows via memory without padding, as the library expects.
fn convert_pair(order: PixelOrder, plane: Plane<'_>, width: u16, target: Target<'_>) -> Result<(), CodecError> {
    /// Columns that are converted at a time, an even number.
    const BLOCK: usize = 1_024;
    let Target { luma, blue, red, stride } = target;
    let (mut rgb, mut own_luma) = ([0; 2 * 4 * BLOCK], [0; 2 * BLOCK]);
    let [mut own_blue, mut own_red] = [[0; BLOCK / 2]; 2];
    let width = usize::from(width);
    for start in (0..width).step_by(BLOCK) {
        let columns = BLOCK.min(width - start);
        let (half, row, first) = (columns / 2, columns * order.bytes(), start * order.bytes());
        for (to, from) in rgb.chunks_exact_mut(row).zip(plane.bytes.chunks(plane.stride)).take(2) {
            to.copy_from_slice(&from[first..first + row]);
        }
        let size = Size { width: columns as u16, height: 2 };
        let own = Target {
            luma: &mut own_luma[..2 * columns],
            blue: &mut own_blue[..half],
            red: &mut own_red[..half],
            stride: columns,
        };
        convert_padded(order, (&rgb[..2 * row], row as u32), size, own)?;
        for (to, from) in luma.chunks_mut(stride).zip(own_luma.chunks_exact(columns)).take(2) {
            to[start..start + columns].copy_from_slice(from);
        }
        blue[start / 2..start / 2 + half].copy_from_slice(&own_blue[..half]);
        red[start / 2..start / 2 + half].copy_from_slice(&own_red[..half]);
    }
    Ok(())
}

/// Converts pixels whose rows and those of the target all have their padding.
fn convert_padded(
    order: PixelOrder,
    (bytes, from_stride): (&[u8], u32),
    size: Size,
    target: Target<'_>,
) -> Result<(), CodecError> {
    let Target { luma, blue, red, stride } = target;
    // The library continues beyond the height as long as the buffer has rows.
    let rows = usize::from(size.height);
    let (luma, bytes) = (&mut luma[..rows * stride], &bytes[..rows * from_stride as usize]);
    let (blue, red) = (&mut blue[..rows / 2 * (stride / 2)], &mut red[..rows / 2 * (stride / 2)]);
    let mut planes = YuvPlanarImageMut {
        y_plane: BufferStoreMut::Borrowed(luma),
        y_stride: stride as u32,
        u_plane: BufferStoreMut::Borrowed(blue),
        u_stride: stride as u32 / 2,
        v_plane: BufferStoreMut::Borrowed(red),
        v_stride: stride as u32 / 2,
        width: size.width.into(),
        height: size.height.into(),
    };
    let convert = match order {
        PixelOrder::Rgba => yuv::rgba_to_yuv420,
        PixelOrder::Bgra => yuv::bgra_to_yuv420,
        PixelOrder::Rgb => yuv::rgb_to_yuv420,
        PixelOrder::Bgr => yuv::bgr_to_yuv420,
    };
    convert(&mut planes, bytes, from_stride, YuvRange::Limited, YuvStandardMatrix::Bt709, YuvConversionMode::Balanced)
        .map_err(|error| library("rgb_to_yuv420", &error))
}

/// Converts a picture into opaque RGBA with rows without padding. `rgba` is reallocated only if it grows.
pub fn to_rgba(picture: PictureView<'_>, rgba: &mut Vec<u8>) -> Result<(), CodecError> {
    picture.check()?;
    rgba.resize(picture.size.pixels() * 4, 255);
    to_pixels(picture, PixelOrder::Rgba, rgba, usize::from(picture.size.width) * 4)
}

/// Converts a picture into opaque pixels in this order, whose rows begin `stride` bytes apart. The buffer must hold `stride` bytes per row.
pub fn to_pixels(
    picture: PictureView<'_>,
    order: PixelOrder,
    bytes: &mut [u8],
    stride: usize,
) -> Result<(), CodecError> {
    picture.check()?;
    let size = picture.size;
    let from_stride = check_rgb("a buffer for pixels", size, (bytes.len(), stride), order.bytes())?;
    let needed = stride * usize::from(size.height);
    let got = bytes.len();
    let bytes = bytes.get_mut(..needed).ok_or(CodecError::Buffer { what: "a buffer for pixels", size, needed, got })?;
    let planes = YuvPlanarImage {
        y_plane: picture.luma,
        y_stride: picture.luma_stride as u32,
        u_plane: picture.blue,
        u_stride: picture.chroma_stride as u32,
        v_plane: picture.red,
        v_stride: picture.chroma_stride as u32,
        width: size.width.into(),
        height: size.height.into(),
    };
    let convert = match order {
        PixelOrder::Rgba => yuv::yuv420_to_rgba,
        PixelOrder::Bgra => yuv::yuv420_to_bgra,
        PixelOrder::Rgb => yuv::yuv420_to_rgb,
        PixelOrder::Bgr => yuv::yuv420_to_bgr,
    };
    convert(&planes, bytes, from_stride, YuvRange::Limited, YuvStandardMatrix::Bt709)
        .map_err(|error| library("yuv420_to_rgb", &error))
}

fn check_rgb(what: &'static str, size: Size, (got, stride): (usize, usize), bytes: usize) -> Result<u32, CodecError> {
    let row = usize::from(size.width) * bytes;
    let needed = stride.max(row).saturating_mul(usize::from(size.height) - 1).saturating_add(row);
    if stride < row || got < needed {
        return Err(CodecError::Buffer { what, size, needed, got });
    }
    u32::try_from(stride).map_err(|_| CodecError::Buffer { what, size, needed, got })
}

fn library(call: &'static str, error: &yuv::YuvError) -> CodecError {
    CodecError::Library { codec: "colour conversion", call, reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { width: 32, height: 16 };

    fn flat(colour: [u8; 4], stride: usize) -> Vec<u8> {
        let mut bytes = vec![0; stride * 16];
        for row in bytes.chunks_mut(stride) {
            row[..128].copy_from_slice(&colour.repeat(32));
        }
        bytes
    }

    /// ITU-R BT.709-6 item 3: luma and colour differences of the primaries, in the digital representation of item 4.
    #[test]
    fn primaries_have_their_standard_values() {
        let cases = [
            ("black", [0, 0, 0], (16, 128, 128)),
            ("white", [255, 255, 255], (235, 128, 128)),
            ("red", [255, 0, 0], (63, 102, 240)),
            ("green", [0, 255, 0], (173, 42, 26)),
            ("blue", [0, 0, 255], (32, 240, 118)),
        ];
        for (name, [red, green, blue], (luma, blue_difference, red_difference)) in cases {
            for (order, colour) in
                [(PixelOrder::Rgba, [red, green, blue, 0]), (PixelOrder::Bgra, [blue, green, red, 255])]
            {
                let bytes = flat(colour, 256);
                let mut picture = Picture::new(SIZE);
                to_picture(Pixels { size: SIZE, order, bytes: &bytes, stride: 256 }, &mut picture).unwrap();
                let near = |plane: &[u8], wanted: i32| plane.iter().all(|got| (i32::from(*got) - wanted).abs() <= 1);
                assert!(near(&picture.luma, luma), "{name} {order:?}: luma {}", picture.luma[0]);
                assert!(near(&picture.blue, blue_difference), "{name} {order:?}: blue {}", picture.blue[0]);
                assert!(near(&picture.red, red_difference), "{name} {order:?}: red {}", picture.red[0]);
                let mut back = Vec::new();
                to_rgba(picture.view(), &mut back).unwrap();
                for (got, wanted) in back[..4].iter().zip([red, green, blue, 255]) {
                    assert!(got.abs_diff(wanted) <= 3, "{name}: {:?}", &back[..4]);
                }
                let mut padded = vec![7; 100 * 16];
                to_pixels(picture.view(), PixelOrder::Rgb, &mut padded, 100).unwrap();
                let [last, padding] = [&padded[1_593..1_596], &padded[1_596..]];
                assert!(last.iter().zip([red, green, blue]).all(|(got, wanted)| got.abs_diff(wanted) <= 3), "{name}");
                assert_eq!(padding, [7; 4], "beyond the pixels nothing is written");
                let rgb = padded;
                padded = vec![7; 100 * 16];
                to_pixels(picture.view(), PixelOrder::Bgr, &mut padded, 100).unwrap();
                for (row, swapped) in rgb.chunks(100).zip(padded.chunks(100)) {
                    let pairs = row[..96].chunks(3).zip(swapped.chunks(3));
                    assert!(pairs.into_iter().all(|(one, other)| [one[2], one[1], one[0]] == *other), "{name}");
                }
            }
        }
    }

    #[test]
    fn wrong_buffers_are_errors() {
        let bytes = vec![0; 128 * 16];
        let cases = [
            ("short buffer", SIZE, 2047, 128),
            ("stride below a row", SIZE, 2048, 124),
            ("stride beyond the buffer", SIZE, 2048, 132),
            ("huge stride", SIZE, 2048, usize::MAX),
            ("odd width", Size { width: 31, height: 16 }, 2048, 128),
            ("no pixels", Size { width: 0, height: 0 }, 2048, 128),
        ];
        for (name, size, length, stride) in cases {
            let pixels = Pixels { size, order: PixelOrder::Rgba, bytes: &bytes[..length], stride };
            assert!(to_picture(pixels, &mut Picture::new(SIZE)).is_err(), "{name}");
        }
        let picture = Picture::new(SIZE);
        for (name, length, stride) in
            [("short", 2047, 128), ("thin", 2048, 124), ("no padding", 256 * 15 + 128, 256), ("huge", 2048, usize::MAX)]
        {
            let written = to_pixels(picture.view(), PixelOrder::Bgra, &mut vec![0; length], stride);
            assert!(written.is_err(), "{name}");
        }
        let mut damaged = Picture::new(SIZE);
        damaged.red.pop();
        assert!(to_rgba(damaged.view(), &mut Vec::new()).is_err());
    }

    #[test]
    fn the_last_row_needs_no_padding() {
        let bytes = vec![255; 256 * 15 + 128];
        let pixels = Pixels { size: SIZE, order: PixelOrder::Bgra, bytes: &bytes, stride: 256 };
        let mut picture = Picture::new(SIZE);
        to_picture(pixels, &mut picture).unwrap();
        assert!(picture.luma.iter().all(|luma| *luma == 235), "{:?}", &picture.luma[13 * 32..]);
        // The picture is wide enough for the last rows to be processed in blocks.
        let size = Size { width: 2_500, height: 16 };
        let bytes: Vec<u8> = (0..2_600 * 4 * 15 + 10_000).map(|index| (index % 10_400 / 40) as u8).collect();
        let [mut short, mut whole] = [Picture::new(size), Picture::new(size)];
        let pixels = Pixels { size, order: PixelOrder::Rgba, bytes: &bytes, stride: 10_400 };
        to_picture(pixels, &mut short).unwrap();
        let padded = [&bytes[..], &[0; 400]].concat();
        to_picture(Pixels { bytes: &padded, ..pixels }, &mut whole).unwrap();
        assert_eq!(short, whole);
    }
}
