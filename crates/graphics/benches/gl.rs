//! Where an OpenGL picture becomes planes: by a shader in its context, or by the processor after reading it back; handed over at once, or with
//! the next one. And the same from the program's last pass on: converted in a pass of its own, by the processor, or not at all because the last
//! pass draws planes. Rounds are interleaved. Prints tables; docs/embedding.md has them.

#[path = "../tests/context/mod.rs"]
mod context;
#[path = "../tests/last_pass/mod.rs"]
mod last_pass;

use std::time::Duration;

use context::Context;
use glow::HasContext;
use last_pass::LastPass;
use nearlight_embed::{Content, Host, Options, Rows, Size, Span, What};
use nearlight_graphics::gl::{Conversion, HandOver, Reader, ReaderOptions};
use nearlight_viewer::{Options as ViewerOptions, Viewer};

const ROUNDS: usize = 5;
const PICTURES: usize = 40;
/// Between two pictures the encoder works, as it would.
const PAUSE: Duration = Duration::from_millis(25);

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let context = Context::new();
    let gl = &context.functions();
    // SAFETY: the context is current.
    println!("{}", unsafe { gl.get_parameter_string(glow::RENDERER) });
    println!("submit_texture in the calling thread, microseconds (median, 95 %)");
    for size in [Size { width: 1_280, height: 720 }, Size { width: 1_920, height: 1_080 }] {
        let address = Some([127, 0, 0, 1].into());
        let options = Options { address, width: size.width, height: size.height, ..Options::default() };
        let host = Host::open(&options).expect("a server");
        let viewer = Viewer::connect(&host.links()[0].to_string(), &ViewerOptions::default()).expect("a viewer");
        while host.wait_event(Duration::from_secs(30)).expect("a viewer").what != What::ViewerJoined {}
        let pixels: Vec<u8> = (0..size.pixels() * 4).map(|index| (index / 7) as u8).collect();
        // SAFETY: the context is current, here and below.
        let texture = unsafe {
            let texture = gl.create_texture().expect("a texture");
            gl.bind_texture(glow::TEXTURE_2D, Some(texture));
            let (width, height) = (size.width.into(), size.height.into());
            let data = glow::PixelUnpackData::Slice(Some(&pixels));
            let (inside, outside) = (glow::RGBA8 as i32, glow::RGBA);
            gl.tex_image_2d(glow::TEXTURE_2D, 0, inside, width, height, 0, outside, glow::UNSIGNED_BYTE, data);
            texture
        };
        let ways = [HandOver::AtOnce, HandOver::WithTheNext].map(|hand_over| {
            [Conversion::Processor, Conversion::Shader].map(|conversion| ReaderOptions { hand_over, conversion })
        });
        let ways = ways.concat();
        let mut spans = vec![Vec::new(); ways.len()];
        for _ in 0..ROUNDS {
            for (way, spans) in ways.iter().zip(&mut spans) {
                // SAFETY: the context of this library is current, and has this texture.
                unsafe {
                    let mut reader = Reader::of_current(*way).expect("a reader");
                    for _ in 0..PICTURES {
                        let began = host.now();
                        let content = Content::default();
                        reader.submit_texture(&host, texture.0, size, Rows::BottomUp, content).expect("a picture");
                        spans.push(host.now() - began);
                        std::thread::park_timeout(PAUSE);
                    }
                    reader.delete();
                }
            }
        }
        for (way, spans) in ways.iter().zip(&mut spans) {
            println!("{size} {:?} {:?}: {}", way.hand_over, way.conversion, quantiles(spans));
        }
        last_passes(&host, gl, texture, size);
        viewer.close().expect("an end");
        host.close().expect("an end");
    }
}

/// Where the picture of a last pass becomes planes.
#[derive(Clone, Copy)]
enum Way {
    Processor,
    OwnPass,
    LastPass,
}

/// From the beginning of the last pass until the picture is submitted. Everything waits for it, so that all of the work is in the time.
fn last_passes(host: &Host, gl: &glow::Context, scene: glow::Texture, size: Size) {
    let pass = LastPass::new(gl, scene, size);
    let content = Content::default();
    let ways = [
        (Way::Processor, "drawn as RGBA, converted by the processor"),
        (Way::OwnPass, "drawn as RGBA, converted in a pass of its own"),
        (Way::LastPass, "drawn as planes, read into lent ones"),
    ];
    let mut spans = [(); 3].map(|()| Vec::new());
    for _ in 0..ROUNDS {
        for ((way, _), spans) in ways.iter().zip(&mut spans) {
            let conversion = if matches!(way, Way::Processor) { Conversion::Processor } else { Conversion::Shader };
            let options = ReaderOptions { hand_over: HandOver::AtOnce, conversion };
            // SAFETY: the context of this library is current, and has the pass' texture.
            unsafe {
                let mut reader = Reader::of_current(options).expect("a reader");
                for _ in 0..PICTURES {
                    let began = host.now();
                    if matches!(way, Way::LastPass) {
                        let mut planes = host.lend(size).expect("planes");
                        pass.draw_planes(&mut planes);
                        host.submit_planes(planes, &content).expect("a picture");
                    } else {
                        let texture = pass.draw_pixels().0;
                        reader.submit_texture(host, texture, size, Rows::TopDown, content).expect("a picture");
                    }
                    spans.push(host.now() - began);
                    std::thread::park_timeout(PAUSE);
                }
                reader.delete();
            }
        }
    }
    for ((_, name), spans) in ways.iter().zip(&mut spans) {
        println!("{size} last pass, {name}: {}", quantiles(spans));
    }
}

/// The median and the 95th percentile, in microseconds.
fn quantiles(spans: &mut [Span]) -> String {
    spans.sort_unstable();
    let at = |share: usize| spans.get(spans.len() * share / 100).map_or(0, |span| span.as_micros());
    format!("{} ({})", at(50), at(95))
}
