//! Renders one picture into a PNG: `snapshot FILE [mono|stereo] [WIDTH HEIGHT] [SECONDS] [FRAMES]`.

use std::error::Error;
use std::time::Instant;

use nearlight_scene::{
    Application as _, Backend, Conversion, PictureRequest, RenderRequest, RenderedPicture, Source, Viewer, ViewerInput,
    WorldSource, choose_size,
};
use nearlight_units::Time;
use nearlight_wire::{Fov, Pose, View};

#[expect(clippy::disallowed_methods, reason = "a program that measures reads the clock")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |index: usize, default: &str| arguments.get(index).map_or(default, String::as_str).to_owned();
    let file = argument(0, "snapshot.png");
    let stereo = argument(1, "mono") == "stereo";
    let (width, height): (u16, u16) = (argument(2, "1280").parse()?, argument(3, "720").parse()?);
    let seconds: u64 = argument(4, "6").parse()?;
    let frames: usize = argument(5, "60").parse()?;
    let started = Instant::now();
    let clock = || Time::from_nanos(started.elapsed().as_nanos() as u64);
    let mut source = WorldSource::plaza(Backend::default().or_environment()?, Conversion::Processor, &clock)?;
    println!("{} after {:?}", source.describe(), started.elapsed());
    let wanted = PictureRequest { size: None, fps: None, views: if stereo { 2 } else { 1 }, processors: 1 };
    let sustained = choose_size(&mut source, &wanted, &clock)?;
    println!("{} (all after {:?})", sustained.reason, started.elapsed());

    let aspect = f32::from(width) / f32::from(height);
    let pose = |x: f32| Pose { position: [x, 1.6, 0.0], ..Pose::default() };
    let views = if stereo {
        let fov = |side: f32| Fov { left: -1.0 - 0.1 * side, right: 1.0 - 0.1 * side, down: -1.1, up: 0.9 };
        vec![View { pose: pose(-0.032), fov: fov(1.0) }, View { pose: pose(0.032), fov: fov(-1.0) }]
    } else {
        vec![View { pose: pose(0.0), fov: Fov::symmetric(1.05, aspect) }]
    };
    let input = ViewerInput { head: pose(0.0), ..ViewerInput::default() };
    source.advance(Time::ZERO);
    source.on_input(Time::ZERO, Viewer(1), &input);
    for hundredth in 0..seconds * 100 {
        source.advance(Time::from_millis(hundredth * 10));
    }
    let request = RenderRequest { viewer: Viewer(1), views: &views, width, height };
    let mut times = Vec::new();
    for _ in 0..frames {
        let begin = Instant::now();
        source.render(&request, &mut |_| times.push(begin.elapsed()))?;
    }
    times.sort();
    let time = |share: usize| times[times.len() * share / 100];
    println!("{:?}, fastest {:?}, tenth {:?}, median {:?}", source.drawn(), time(0), time(10), time(50));
    let mut rgb = Vec::new();
    source.render(&request, &mut |rendered| {
        let RenderedPicture::Pixels(pixels) = rendered else { unreachable!("the processor converts") };
        for row in pixels.bytes.chunks(pixels.stride) {
            let row = &row[..usize::from(width) * 4];
            rgb.extend(row.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]));
        }
    })?;
    image::save_buffer(&file, &rgb, u32::from(width), u32::from(height), image::ColorType::Rgb8)?;
    Ok(())
}
