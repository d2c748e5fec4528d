//! Pictures made smaller before they are coded, and larger where they are shown.
//!
//! A triangle as wide as two pixels of the smaller of both pictures: bilinear when enlarging, without aliasing when shrinking.

use nearlight_codec::{Picture, PictureView, Size};

/// The sum of an output's weights.
const WEIGHT_SUM: i32 = 1 << 12;

/// The inputs of an output sample and their weights.
struct Taps {
    first: usize,
    weights: Vec<i32>,
}

/// Returns the taps of each output sample along one side.
fn taps(from: usize, to: usize) -> Vec<Taps> {
    let scale = from as f64 / to as f64;
    let reach = scale.max(1.0);
    let tap = |index: usize| {
        let centre = (index as f64 + 0.5) * scale - 0.5;
        let first = ((centre - reach).ceil().max(0.0) as usize).min(from - 1);
        let last = ((centre + reach).floor() as usize).clamp(first, from - 1);
        let weight = |input: usize| (1.0 - (input as f64 - centre).abs() / reach).max(0.0);
        let sum: f64 = (first..=last).map(weight).sum();
        let mut weights: Vec<i32> = if sum > 0.0 {
            (first..=last).map(|input| (weight(input) / sum * f64::from(WEIGHT_SUM)).round() as i32).collect()
        } else {
            vec![WEIGHT_SUM]
        };
        // Rounding must not make a flat picture darker.
        let middle = weights.len() / 2;
        weights[middle] += WEIGHT_SUM - weights.iter().sum::<i32>();
        Taps { first, weights }
    };
    (0..to).map(tap).collect()
}

fn plane(input: &[u8], stride: usize, from: [usize; 2], output: &mut [u8], to: [usize; 2]) {
    let (across, down) = (taps(from[0], to[0]), taps(from[1], to[1]));
    let round = |sum: i32| ((sum + WEIGHT_SUM / 2) >> 12).clamp(0, 255) as u8;
    let mut narrowed = vec![0; to[0] * from[1]];
    for (row, output) in input.chunks(stride).zip(narrowed.chunks_exact_mut(to[0])) {
        for (pixel, taps) in output.iter_mut().zip(&across) {
            let inputs = &row[taps.first..taps.first + taps.weights.len()];
            *pixel = round(inputs.iter().zip(&taps.weights).map(|(value, weight)| i32::from(*value) * weight).sum());
        }
    }
    let mut sums = vec![0_i32; to[0]];
    for (row, taps) in output.chunks_exact_mut(to[0]).zip(&down) {
        sums.fill(0);
        for (offset, weight) in taps.weights.iter().enumerate() {
            let from = &narrowed[(taps.first + offset) * to[0]..][..to[0]];
            for (sum, value) in sums.iter_mut().zip(from) {
                *sum += i32::from(*value) * weight;
            }
        }
        for (pixel, sum) in row.iter_mut().zip(&sums) {
            *pixel = round(*sum);
        }
    }
}

/// Returns the picture at another size.
#[must_use]
pub fn picture(view: PictureView<'_>, size: Size) -> Picture {
    let mut picture = Picture::new(size);
    luma(view, &mut picture);
    let half = |size: Size| [usize::from(size.width) / 2, usize::from(size.height) / 2];
    plane(view.blue, view.chroma_stride, half(view.size), &mut picture.blue, half(size));
    plane(view.red, view.chroma_stride, half(view.size), &mut picture.red, half(size));
    picture
}

/// Resizes luma to the size of `picture`. Quality is measured on luma alone.
pub fn luma(view: PictureView<'_>, picture: &mut Picture) {
    let whole = |size: Size| [usize::from(size.width), usize::from(size.height)];
    plane(view.luma, view.luma_stride, whole(view.size), &mut picture.luma, whole(picture.size));
}

#[cfg(test)]
mod tests {
    use nearlight_codec::{quality::psnr, sample};

    use super::*;

    const SIZES: [Size; 4] = [
        Size { width: 320, height: 180 },
        Size { width: 214, height: 120 },
        Size { width: 48, height: 28 },
        Size { width: 640, height: 360 },
    ];

    #[test]
    fn a_flat_picture_stays_flat_at_any_size() {
        for from in SIZES {
            let mut flat = Picture::new(from);
            flat.luma.fill(201);
            for to in SIZES {
                let resized = picture(flat.view(), to);
                assert!(resized.luma.iter().all(|pixel| *pixel == 201), "{from} to {to}");
                assert!(resized.blue.iter().chain(&resized.red).all(|pixel| *pixel == 128), "{from} to {to}");
            }
        }
    }

    #[test]
    fn the_same_size_changes_nothing_and_a_ramp_stays_a_ramp() {
        let source = sample::moving_picture(SIZES[0], 3);
        assert_eq!(picture(source.view(), SIZES[0]), source);
        let mut ramp = Picture::new(SIZES[0]);
        for (index, pixel) in ramp.luma.iter_mut().enumerate() {
            *pixel = (index % 320 / 2 + 20) as u8;
        }
        let smaller = picture(ramp.view(), Size { width: 160, height: 90 });
        // Away from the edges the pixel at x covers 2 x and 2 x + 1 in its middle.
        for x in 4..156 {
            assert!(smaller.luma[160 * 40 + x].abs_diff((x + 20) as u8) <= 1, "{x}");
        }
        let back = picture(smaller.view(), SIZES[0]);
        assert!(psnr(back.view(), ramp.view()).expect("equal sizes") > 45.0);
    }

    #[test]
    fn the_smaller_the_picture_in_between_the_less_is_left() {
        let source = super::super::game::picture(SIZES[3], 10);
        let mut last = f64::INFINITY;
        for width in [480, 320, 160] {
            let small = picture(source.view(), Size { width, height: width * 9 / 16 });
            let left = psnr(picture(small.view(), SIZES[3]).view(), source.view()).expect("equal sizes");
            assert!(left < last, "{width}: {left} dB");
            last = left;
        }
    }
}
