//! Quality metrics: PSNR and SSIM of luma as the `ffmpeg` filters define them, so that figures compare with published ones.

use crate::{CodecError, PictureView, Size};

/// Side in pixels of the blocks whose sums overlapping windows share.
const BLOCK: usize = 4;

/// Square of the largest level of 8-bit luma.
const PEAK: f64 = 255.0 * 255.0;

/// Returns the mean squared error of luma, in squared levels.
pub fn mean_squared_error(one: PictureView<'_>, other: PictureView<'_>) -> Result<f64, CodecError> {
    check(one, other)?;
    let width = usize::from(one.size.width);
    let rows = one.luma.chunks(one.luma_stride).zip(other.luma.chunks(other.luma_stride));
    let squares: u64 =
        rows.take(one.size.height.into()).map(|(one, other)| squares(&one[..width], &other[..width])).sum();
    Ok(squares as f64 / one.size.pixels() as f64)
}

/// Returns the peak signal-to-noise ratio of luma in dB, which is infinite if both pictures are equal.
pub fn psnr(one: PictureView<'_>, other: PictureView<'_>) -> Result<f64, CodecError> {
    Ok(10.0 * (PEAK / mean_squared_error(one, other)?).log10())
}

/// Returns the mean squared error that corresponds to a PSNR in dB.
pub(crate) fn error_of(psnr: f64) -> f64 {
    PEAK / 10_f64.powf(psnr / 10.0)
}

fn squares(one: &[u8], other: &[u8]) -> u64 {
    let sum: u32 = one.iter().zip(other).map(|(one, other)| u32::from(one.abs_diff(*other)).pow(2)).sum();
    sum.into()
}

/// Measures how much each picture of a stream differs from the previous one, sampled at regular rows.
///
/// The difference is the error of repeating the previous picture instead.
#[derive(Clone, Debug, Default)]
pub struct PictureDifference {
    size: Option<Size>,
    /// The sampled rows of the previous picture.
    rows: Vec<u8>,
}

impl PictureDifference {
    /// Distance of the sampled rows in pixels. A 16th of 720p takes a few microseconds, and moving objects are many rows high.
    const EVERY: usize = 16;

    /// Returns the mean squared error of luma, in squared levels, of repeating the previous picture. None if the previous picture has
    /// another size or there is none.
    pub fn on_picture(&mut self, picture: PictureView<'_>) -> Option<f64> {
        let (width, height) = (usize::from(picture.size.width), usize::from(picture.size.height));
        let all = || picture.luma.chunks(picture.luma_stride).take(height);
        let rows = || all().step_by(Self::EVERY).map(|row| &row[..width]);
        let known = self.size.replace(picture.size) == Some(picture.size);
        let change = known.then(|| {
            let sum: u64 = rows().zip(self.rows.chunks_exact(width)).map(|(now, before)| squares(now, before)).sum();
            sum as f64 / self.rows.len().max(1) as f64
        });
        self.rows.clear();
        rows().for_each(|row| self.rows.extend_from_slice(row));
        change
    }
}

/// Returns the structural similarity of luma, 1 if both pictures are equal: the mean over windows of 8x8 pixels, four pixels apart.
pub fn ssim(one: PictureView<'_>, other: PictureView<'_>) -> Result<f64, CodecError> {
    check(one, other)?;
    let (columns, rows) = (usize::from(one.size.width) / BLOCK, usize::from(one.size.height) / BLOCK);
    let mut above = block_sums(one, other, 0, columns);
    let mut total = 0.0;
    for row in 1..rows {
        let below = block_sums(one, other, row, columns);
        total += above
            .windows(2)
            .zip(below.windows(2))
            .map(|(above, below)| above[0].plus(above[1]).plus(below[0]).plus(below[1]).similarity())
            .sum::<f64>();
        above = below;
    }
    Ok(total / ((columns - 1) * (rows - 1)) as f64)
}

fn check(one: PictureView<'_>, other: PictureView<'_>) -> Result<(), CodecError> {
    if one.size != other.size {
        return Err(CodecError::Size { expected: one.size, got: other.size });
    }
    one.check()?;
    other.check()
}

/// Sums over the pixels of a block or window in both pictures.
#[derive(Clone, Copy, Default)]
struct Sums {
    one: u32,
    other: u32,
    squares: u32,
    products: u32,
}

impl Sums {
    fn plus(self, more: Self) -> Self {
        Self {
            one: self.one + more.one,
            other: self.other + more.other,
            squares: self.squares + more.squares,
            products: self.products + more.products,
        }
    }

    /// Returns the similarity of a window of 64 pixels: equation 13 of Wang et al. (2004), with numerator and denominator multiplied by 64
    /// * 64 and by the 63 of the sample variance.
    fn similarity(self) -> f64 {
        const LUMINANCE: f64 = 0.01 * 0.01 * 255.0 * 255.0 * 64.0; // C1
        const CONTRAST: f64 = 0.03 * 0.03 * 255.0 * 255.0 * 64.0 * 63.0; // C2
        let [one, other, squares, products] = [self.one, self.other, self.squares, self.products].map(f64::from);
        let variances = squares * 64.0 - one * one - other * other;
        let covariance = products * 64.0 - one * other;
        (2.0 * one * other + LUMINANCE) * (2.0 * covariance + CONTRAST)
            / ((one * one + other * other + LUMINANCE) * (variances + CONTRAST))
    }
}

/// Returns the sums of one row of blocks.
fn block_sums(one: PictureView<'_>, other: PictureView<'_>, row: usize, columns: usize) -> Vec<Sums> {
    let mut sums = vec![Sums::default(); columns];
    for y in row * BLOCK..(row + 1) * BLOCK {
        let line_one = &one.luma[y * one.luma_stride..][..columns * BLOCK];
        let line_other = &other.luma[y * other.luma_stride..][..columns * BLOCK];
        for ((sums, one), other) in
            sums.iter_mut().zip(line_one.as_chunks::<BLOCK>().0).zip(line_other.as_chunks::<BLOCK>().0)
        {
            for (a, b) in one.iter().zip(other) {
                let (a, b) = (u32::from(*a), u32::from(*b));
                *sums = sums.plus(Sums { one: a, other: b, squares: a * a + b * b, products: a * b });
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Picture, Size, sample};

    /// The expected values are what ffmpeg 5.1's `psnr` and `ssim` filters print for the same two pictures.
    #[test]
    fn values_are_those_of_ffmpeg() {
        let size = Size { width: 320, height: 180 };
        let (one, other) = (sample::moving_picture(size, 0), sample::moving_picture(size, 1));
        let (psnr, ssim) = (psnr(one.view(), other.view()).unwrap(), ssim(one.view(), other.view()).unwrap());
        assert!((psnr - 29.026_678).abs() < 1e-5, "{psnr}");
        assert!((ssim - 0.616_539).abs() < 1e-5, "{ssim}");
    }

    #[test]
    fn equal_pictures_are_perfect_and_padding_does_not_count() {
        let size = Size { width: 34, height: 18 };
        let picture = sample::moving_picture(size, 3);
        let luma: Vec<u8> =
            picture.luma.chunks_exact(34).enumerate().flat_map(|(y, row)| [row, &[y as u8; 7]].concat()).collect();
        let padded = PictureView { luma: &luma, luma_stride: 41, ..picture.view() };
        assert!(psnr(picture.view(), padded).unwrap().is_infinite());
        assert!((ssim(picture.view(), padded).unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn change_is_what_the_picture_before_would_cost() {
        let size = Size { width: 320, height: 180 };
        let picture = |moment| sample::moving_picture(size, moment);
        let mut change = PictureDifference::default();
        assert_eq!(change.on_picture(picture(0).view()), None);
        for moment in 1..5 {
            let wanted = mean_squared_error(picture(moment).view(), picture(moment - 1).view()).unwrap();
            let got = change.on_picture(picture(moment).view()).unwrap();
            assert!((0.7..1.4).contains(&(got / wanted)), "{got} for {wanted}");
        }
        assert_eq!(change.on_picture(picture(4).view()), Some(0.0));
        assert_eq!(change.on_picture(Picture::new(Size { width: 180, height: 320 }).view()), None);
        // A change in rows that are not sampled is not a change.
        let (mut top, mut all) = (PictureDifference::default(), PictureDifference::default());
        let mut marked = Picture::new(size);
        for wanted in [(None, false), (Some(0.0), true)] {
            let changes = (top.on_picture(marked.view().top(176)), all.on_picture(marked.view()));
            assert_eq!((changes.0, changes.1.is_some_and(|change| change > 0.0)), wanted);
            marked.luma[320 * 176..].fill(200);
        }
    }

    #[test]
    fn pictures_of_other_sizes_do_not_compare() {
        let (one, other) = (Picture::new(Size { width: 32, height: 16 }), Picture::new(Size { width: 16, height: 32 }));
        assert!(matches!(psnr(one.view(), other.view()), Err(CodecError::Size { .. })));
        assert!(matches!(ssim(one.view(), other.view()), Err(CodecError::Size { .. })));
    }
}
