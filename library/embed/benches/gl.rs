//! Measures where an OpenGL picture is best converted into planes: by a shader in its context, or by the processor after reading it back,
//! with immediate or deferred delivery. A second table includes the program's last pass: converted in a separate pass, by the processor, or
//! not at all because the last pass draws planes. Rounds are interleaved. Prints tables, which docs/embedding.md contains.

#[path = "../tests/context/mod.rs"]
mod context;
#[path = "../tests/last_pass/mod.rs"]
mod last_pass;

use std::time::Duration;

use context::Context;
use glow::HasContext;
use last_pass::LastPass;
use nearlight_embed::graphics::gl::{Conversion, Delivery, Reader, ReaderOptions};
use nearlight_embed::{Content, EventKind, Host, Options, Rows, Size, Span};
use nearlight_viewer::{Options as ViewerOptions, Viewer};

const ROUNDS: usize = 5;
const PICTURES: usize = 40;
/// Time between two pictures, in which the encoder works as in a real program.
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
        while host.wait_event(Duration::from_secs(30)).expect("a viewer").kind != EventKind::ViewerJoined {}
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
        let cases = [Delivery::Immediate, Delivery::Deferred].map(|delivery| {
            [Conversion::Processor, Conversion::Shader].map(|conversion| ReaderOptions { delivery, conversion })
        });
        let cases = cases.concat();
        let mut spans = vec![Vec::new(); cases.len()];
        for _ in 0..ROUNDS {
            for (options, spans) in cases.iter().zip(&mut spans) {
                // SAFETY: the context of this library is current, and has this texture.
                unsafe {
                    let mut reader = Reader::for_current_context(*options).expect("a reader");
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
        for (options, spans) in cases.iter().zip(&mut spans) {
            println!("{size} {:?} {:?}: {}", options.delivery, options.conversion, quantiles(spans));
        }
        last_passes(&host, gl, texture, size);
        viewer.close().expect("an end");
        host.close().expect("an end");
    }
}

/// Says where the picture of a last pass is converted into planes.
#[derive(Clone, Copy)]
enum PassConversion {
    Processor,
    SeparatePass,
    LastPass,
}

/// Measures the time from the beginning of the last pass until the picture is submitted. The thread waits for the GPU, so that the time
/// includes all of the work.
fn last_passes(host: &Host, gl: &glow::Context, scene: glow::Texture, size: Size) {
    let pass = LastPass::new(gl, scene, size);
    let content = Content::default();
    let cases = [
        (PassConversion::Processor, "drawn as RGBA, converted by the processor"),
        (PassConversion::SeparatePass, "drawn as RGBA, converted in a pass of its own"),
        (PassConversion::LastPass, "drawn as planes, read into lent ones"),
    ];
    let mut spans = [(); 3].map(|()| Vec::new());
    for _ in 0..ROUNDS {
        for ((conversion_kind, _), spans) in cases.iter().zip(&mut spans) {
            let conversion = if matches!(conversion_kind, PassConversion::Processor) {
                Conversion::Processor
            } else {
                Conversion::Shader
            };
            let options = ReaderOptions { delivery: Delivery::Immediate, conversion };
            // SAFETY: the context of this library is current, and has the pass' texture.
            unsafe {
                let mut reader = Reader::for_current_context(options).expect("a reader");
                for _ in 0..PICTURES {
                    let began = host.now();
                    if matches!(conversion_kind, PassConversion::LastPass) {
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
    for ((_, name), spans) in cases.iter().zip(&mut spans) {
        println!("{size} last pass, {name}: {}", quantiles(spans));
    }
}

/// Returns the median and the 95th percentile, in microseconds, as text.
fn quantiles(spans: &mut [Span]) -> String {
    spans.sort_unstable();
    let at = |share: usize| spans.get(spans.len() * share / 100).map_or(0, |span| span.as_micros());
    format!("{} ({})", at(50), at(95))
}
