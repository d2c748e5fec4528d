//! Measures the time from the beginning of drawing until a picture's planes are in the processor's memory: drawn as pixels and converted by
//! the processor, or drawn as planes by the last pass. The two alternate picture by picture. docs/results/openuvr.md has the medians.

use std::time::{Duration, Instant};

use nearlight_codec::convert::{self, PixelOrder};
use nearlight_codec::{Picture, PictureView, Size};
use nearlight_scene::{
    Application as _, Backend, Conversion, PlanesView, RenderRequest, RenderedPicture, START, Source as _, Viewer,
    WorldSource,
};
use nearlight_units::Time;
use nearlight_wire::{Fov, View};

const PAIRS: usize = 200;
/// Pictures that are not counted: the first pictures of a size compile shaders and allocate.
const WARM_UP: usize = 5;
/// Pause between two pictures, in which an encoder would work.
const PAUSE: Duration = Duration::from_millis(15);

/// The cost of a picture.
struct Cost {
    wall: Duration,
    /// Processor time of all threads.
    processor: Duration,
    /// Part of `wall` after drawing and reading back.
    conversion: Duration,
}

#[expect(clippy::disallowed_methods, reason = "a program that measures reads the clock")]
fn now() -> Instant {
    Instant::now()
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let backend = Backend::default().or_environment().expect("a known backend");
    let mut sources = [Conversion::Processor, Conversion::Shader]
        .map(|conversion| WorldSource::plaza(backend, conversion, &|| Time::ZERO).expect("an adapter"));
    for source in &sources {
        println!("{}", source.describe());
    }
    println!("microseconds a picture, medians of {PAIRS} pairs");
    for size in [Size { width: 1_280, height: 720 }, Size { width: 1_920, height: 1_080 }] {
        let mut costs = [(); 2].map(|()| Vec::new());
        let mut picture = Picture::new(size);
        for pair in 0..PAIRS + WARM_UP {
            for (source, costs) in sources.iter_mut().zip(&mut costs) {
                source.advance(Time::from_millis(pair as u64 * 16));
                let cost = draw(source, size, &mut picture);
                if pair >= WARM_UP {
                    costs.push(cost);
                }
                std::thread::park_timeout(PAUSE);
            }
        }
        let [processor, shader] = &costs;
        for (name, costs) in [("by the processor", processor), ("by a shader", shader)] {
            let [wall, spent, conversion] =
                [|cost: &Cost| cost.wall, |cost: &Cost| cost.processor, |cost: &Cost| cost.conversion]
                    .map(|of| median(costs.iter().map(|cost| of(cost).as_micros() as i64).collect()));
            println!("{size} {name}: {wall}, of which {conversion} after the readback; {spent} of processor time");
        }
        let pairs = || processor.iter().zip(shader);
        let saved = |of: fn(&Cost) -> Duration| {
            median(pairs().map(|(one, other)| of(one).as_micros() as i64 - of(other).as_micros() as i64).collect())
        };
        let (wall, spent) = (saved(|cost| cost.wall), saved(|cost| cost.processor));
        println!("{size} the shader saves, pair by pair: {wall}; {spent} of processor time");
    }
}

fn draw(source: &mut WorldSource, size: Size, picture: &mut Picture) -> Cost {
    let views = [View { pose: START, fov: Fov::symmetric(1.05, f32::from(size.width) / f32::from(size.height)) }];
    let request = RenderRequest { viewer: Viewer(1), views: &views, width: size.width, height: size.height };
    let (began, spent) = (now(), processor_time());
    let mut drawn = began;
    let take = &mut |rendered: RenderedPicture<'_>| {
        drawn = now();
        match rendered {
            RenderedPicture::Pixels(pixels) => {
                let (bytes, stride) = (pixels.bytes, pixels.stride);
                let pixels = convert::Pixels { size, order: PixelOrder::Rgba, bytes, stride };
                convert::to_picture(pixels, picture).expect("a picture");
            }
            RenderedPicture::Planes(PlanesView { luma, blue, red, luma_stride, chroma_stride, .. }) => {
                PictureView { size, luma, blue, red, luma_stride, chroma_stride }.copy_to(picture);
            }
        }
    };
    source.render(&request, take).expect("a picture");
    let end = now();
    Cost { wall: end - began, processor: processor_time().saturating_sub(spent), conversion: end - drawn }
}

fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Returns the processor time of the whole process.
fn processor_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanos = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(tasks.filter_map(nanos).sum())
}
