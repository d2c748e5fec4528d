//! Chooses the picture size and frame rate that the machine sustains, by measuring at start.

use nearlight_units::{Span, Time};
use nearlight_wire::{Fov, View};

use crate::{RenderRequest, START, SceneError, Source, SustainedFormat, Viewer};

/// The size and frame rate that the user has fixed. The rest is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureRequest {
    pub size: Option<(u16, u16)>,
    pub fps: Option<u16>,
    /// Number of views: 1 for a screen, 2 for a headset.
    pub views: u8,
    /// Number of processors of the machine.
    pub processors: usize,
}

/// Seconds per pixel for conversion, H.264 encoding and a decoder on the same machine. On one core of a 2.5 GHz processor, openh264 was
/// measured at 4.1 to 5.2 ms and its decoder at 1.9 ms for 1280x720.
const CODING_SECONDS_PER_PIXEL: f64 = 8e-9;
/// Seconds per pixel for conversion and an encoder with four threads, from [`MANY_PROCESSORS`] on: a decoder runs in parallel, and four
/// threads take 0.42 of the time of one. Measured on 16 processors: 4.7 ms for 1280x720.
const CODING_SECONDS_PER_PIXEL_THREADED: f64 = 5.1e-9;
const MANY_PROCESSORS: usize = 4;
/// Share of the time between frames that drawing and coding may take. The rest absorbs jitter and other load. Guess.
const MAX_TIME_SHARE: f64 = 0.7;
/// Candidates as width, height and frame rate, from best to worst.
const LADDER: [(u16, u16, u16); 5] =
    [(1920, 1080, 60), (1280, 720, 60), (1280, 720, 30), (960, 540, 30), (640, 360, 30)];
/// Frame rates tried for a fixed size, from best to worst.
const FRAME_RATES: [u16; 3] = [60, 30, 20];
/// Size of the picture that is drawn before measuring begins.
const WARM_UP: (u16, u16) = (320, 180);
/// Pictures measured per size, after one that warms up.
const MEASURED_PICTURES: usize = 3;
/// Time of a first picture after which no further pictures are measured: warming up never costs that much.
const MAX_FIRST_PICTURE: Span = Span::from_millis(250);
/// Time of measuring after which the remaining sizes are estimated.
const MAX_MEASURING_TIME: Span = Span::from_millis(900);

/// The known cost of a size.
#[derive(Clone, Copy)]
struct SizeCost {
    pixels: f64,
    /// The shortest time, which decides: other load while a server starts slows down some pictures, but not all.
    fastest: Span,
    median: Span,
}

/// Draws a few pictures at likely sizes and chooses the best size and rate that leave enough time for the rest of the pipeline. If the
/// request leaves no choice, reports its cost.
pub fn choose_size(
    source: &mut dyn Source,
    wanted: &PictureRequest,
    clock: &dyn Fn() -> Time,
) -> Result<SustainedFormat, SceneError> {
    let started = clock();
    let candidates = candidates(wanted);
    // Software renderers compile their shaders when they draw for the first time, so the first picture is not representative.
    draw(source, WARM_UP, wanted.views)?;
    let mut known: Vec<SizeCost> = Vec::new();
    let mut refused: Option<String> = None;
    for (index, (width, height, fps)) in candidates.iter().copied().enumerate() {
        let pixels = f64::from(width) * f64::from(height);
        let last = index + 1 == candidates.len();
        let guess = estimate(&known, pixels);
        // The first candidate of a ladder is measured only if the result of its smaller neighbour justifies that.
        if known.is_empty() && !last && wanted.size.is_none() && pixels > 1e6 {
            known.push(measure(source, (1280, 720), wanted.views, clock)?);
        }
        let guess = guess.or_else(|| estimate(&known, pixels));
        let total = |render: Span| render + coding(pixels, wanted.processors);
        let hopeless = guess.is_some_and(|guess| total(guess.fastest) > budget(fps).mul_f64(1.3));
        let exact = known.iter().find(|measured| (measured.pixels - pixels).abs() < 1.0);
        let late = clock() - started > MAX_MEASURING_TIME;
        let cost = match (exact, guess) {
            (Some(exact), _) => *exact,
            (None, Some(guess)) if hopeless || late => guess,
            _ => {
                let cost = measure(source, (width, height), wanted.views, clock)?;
                known.push(cost);
                cost
            }
        };
        let total = total(cost.fastest);
        if total <= budget(fps) || last {
            let keeps = total <= Span::from_secs_f64(1.0 / f64::from(fps.max(1)));
            let reason = reason(wanted, fps, cost.fastest, total, refused);
            return Ok(SustainedFormat { width, height, fps, render_median: cost.median, keeps, reason });
        }
        refused = Some(format!("{width}x{height} at {fps} would take {total}"));
    }
    Err(SceneError::Adapter("there is no candidate size".into()))
}

/// Returns the cost of a source of this size and rate whose pictures cost nothing to draw, such as a video that another process decodes.
#[must_use]
pub fn estimate_coding(size: (u16, u16), fps: u16, processors: usize) -> SustainedFormat {
    let (width, height) = size;
    let total = coding(f64::from(width) * f64::from(height), processors);
    let wanted = PictureRequest { size: Some(size), fps: Some(fps), views: 1, processors };
    let reason = reason(&wanted, fps, Span::ZERO, total, None);
    let keeps = total <= Span::from_secs_f64(1.0 / f64::from(fps.max(1)));
    SustainedFormat { width, height, fps, render_median: Span::ZERO, keeps, reason }
}

fn candidates(wanted: &PictureRequest) -> Vec<(u16, u16, u16)> {
    match (wanted.size, wanted.fps) {
        (Some((width, height)), Some(fps)) => vec![(width, height, fps)],
        (Some((width, height)), None) => FRAME_RATES.map(|fps| (width, height, fps)).to_vec(),
        (None, Some(fps)) => {
            let mut sizes = LADDER.map(|(width, height, _)| (width, height, fps)).to_vec();
            sizes.dedup();
            sizes
        }
        (None, None) => LADDER.to_vec(),
    }
}

fn budget(fps: u16) -> Span {
    Span::from_secs_f64(MAX_TIME_SHARE / f64::from(fps.max(1)))
}

/// Returns the estimated time of coding a picture.
fn coding(pixels: f64, processors: usize) -> Span {
    let per_pixel =
        if processors < MANY_PROCESSORS { CODING_SECONDS_PER_PIXEL } else { CODING_SECONDS_PER_PIXEL_THREADED };
    Span::from_secs_f64(pixels * per_pixel)
}

/// Estimates the drawing time of another size, in proportion to the nearest measured one, because small pictures cost more per pixel.
fn estimate(known: &[SizeCost], pixels: f64) -> Option<SizeCost> {
    let nearest = known.iter().min_by(|a, b| (a.pixels - pixels).abs().total_cmp(&(b.pixels - pixels).abs()))?;
    let share = (pixels / nearest.pixels).max(0.4);
    Some(SizeCost { pixels, fastest: nearest.fastest.mul_f64(share), median: nearest.median.mul_f64(share) })
}

fn measure(
    source: &mut dyn Source,
    (width, height): (u16, u16),
    views: u8,
    clock: &dyn Fn() -> Time,
) -> Result<SizeCost, SceneError> {
    let pixels = f64::from(width) * f64::from(height);
    let mut times = Vec::with_capacity(MEASURED_PICTURES);
    for picture in 0..=MEASURED_PICTURES {
        let begin = clock();
        draw(source, (width, height), views)?;
        let took = clock() - begin;
        if picture > 0 {
            times.push(took);
        } else if took > MAX_FIRST_PICTURE {
            return Ok(SizeCost { pixels, fastest: took, median: took });
        }
    }
    times.sort_unstable();
    Ok(SizeCost { pixels, fastest: times[0], median: times[MEASURED_PICTURES / 2] })
}

/// Draws one picture from the initial pose of viewers.
fn draw(source: &mut dyn Source, (width, height): (u16, u16), views: u8) -> Result<(), SceneError> {
    let aspect = f32::from(width) / f32::from(height) / f32::from(views.max(1));
    let view = View { pose: START, fov: Fov::symmetric(1.1, aspect) };
    let views = vec![view; usize::from(views.clamp(1, 2))];
    let request = RenderRequest { viewer: Viewer(u32::MAX), views: &views, width, height };
    source.render(&request, &mut |_| {})
}

fn reason(wanted: &PictureRequest, fps: u16, render: Span, total: Span, refused: Option<String>) -> String {
    let period = Span::from_secs_f64(1.0 / f64::from(fps.max(1)));
    let verdict = match (total <= budget(fps), wanted.size.is_some() && wanted.fps.is_some()) {
        (true, _) => "fit into",
        (false, true) => "exceed",
        (false, false) => "exceed, as nothing smaller is on offer,",
    };
    let refused = refused.map(|refused| format!("; {refused}")).unwrap_or_default();
    // Drawing in another process is not measured.
    let takes = if render > Span::ZERO {
        format!("drawing takes {render}, together with coding about {total}")
    } else {
        format!("coding takes about {total}")
    };
    format!("{takes}, which {verdict} {:.0} % of the {period} between frames{refused}", MAX_TIME_SHARE * 100.0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::{Application, RenderedPicture, ViewerInput};

    /// A source that takes a fixed time per pixel, on a simulated clock.
    struct Slow<'a> {
        nanos: &'a AtomicU64,
        nanos_per_pixel: f64,
    }

    impl Application for Slow<'_> {
        fn describe(&self) -> String {
            "slow".into()
        }

        fn on_input(&mut self, _now: Time, _viewer: Viewer, _input: &ViewerInput) {}

        fn on_viewer_left(&mut self, _viewer: Viewer) {}
    }

    impl Source for Slow<'_> {
        fn advance(&mut self, _now: Time) {}

        fn render(
            &mut self,
            request: &RenderRequest<'_>,
            _take: &mut dyn FnMut(RenderedPicture<'_>),
        ) -> Result<(), SceneError> {
            let pixels = f64::from(request.width) * f64::from(request.height);
            self.nanos.fetch_add((pixels * self.nanos_per_pixel) as u64, Ordering::Relaxed);
            Ok(())
        }
    }

    /// Returns the choice, and how long measuring took.
    fn chosen(nanos_per_pixel: f64, wanted: PictureRequest) -> (SustainedFormat, Span) {
        let nanos = AtomicU64::new(0);
        let now = || Time::from_nanos(nanos.load(Ordering::Relaxed));
        let sustained = choose_size(&mut Slow { nanos: &nanos, nanos_per_pixel }, &wanted, &now).expect("candidates");
        (sustained, now() - Time::ZERO)
    }

    #[test]
    fn the_best_size_that_fits_is_chosen() {
        let free = PictureRequest { size: None, fps: None, views: 1, processors: 2 };
        let cases = [
            // Nanoseconds per pixel, request, result.
            (0.5, free, (1280, 720, 60)),
            (12.0, free, (1280, 720, 30)),
            (25.0, free, (960, 540, 30)),
            (900.0, free, (640, 360, 30)),
            (0.5, PictureRequest { processors: 16, ..free }, (1920, 1080, 60)),
            (12.0, PictureRequest { fps: Some(60), ..free }, (960, 540, 60)),
            (12.0, PictureRequest { size: Some((1920, 1080)), ..free }, (1920, 1080, 20)),
            (900.0, PictureRequest { size: Some((1920, 1080)), fps: Some(72), ..free }, (1920, 1080, 72)),
        ];
        for (nanos_per_pixel, wanted, expected) in cases {
            let (sustained, took) = chosen(nanos_per_pixel, wanted);
            assert_eq!((sustained.width, sustained.height, sustained.fps), expected, "{}", sustained.reason);
            assert!(took < Span::from_millis(2_200), "measuring took {took}");
        }
    }

    #[test]
    fn the_reason_names_what_was_refused() {
        let (sustained, _) = chosen(12.0, PictureRequest { size: None, fps: None, views: 1, processors: 2 });
        assert!(sustained.reason.contains("1280x720 at 60 would take"), "{}", sustained.reason);
    }
}
