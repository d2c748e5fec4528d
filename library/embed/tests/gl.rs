//! Pictures of an OpenGL context without a window reach the encoder as they were drawn, and the context's state is preserved. Needs EGL and
//! a driver, which `scripts/setup.sh` installs (Mesa's software renderer).

mod context;
mod last_pass;
mod watched;

use std::num::NonZeroU32;

use context::Context;
use glow::HasContext;
use last_pass::LastPass;
use nearlight_codec::Picture;
use nearlight_embed::graphics::gl::{Conversion, Delivery, Reader, ReaderOptions};
use nearlight_embed::{Content, Host, PixelOrder, Rows, Size};
use watched::{SIZE, Watched, difference, pattern};

struct Bench {
    context: Context,
    gl: glow::Context,
    host: Host,
    watched: Watched,
}

impl Bench {
    fn new() -> Self {
        let context = Context::new();
        let gl = context.functions();
        let (host, watched) = Watched::open();
        Self { context, gl, host, watched }
    }

    fn texture(&self, pixels: &[u8]) -> glow::Texture {
        // SAFETY: the context is current, and the pixels are as many as the size says.
        unsafe {
            let texture = self.gl.create_texture().expect("a texture");
            self.gl.bind_texture(glow::TEXTURE_2D, Some(texture));
            let (width, height) = (SIZE.width.into(), SIZE.height.into());
            let data = glow::PixelUnpackData::Slice(Some(pixels));
            let format = (glow::RGBA8 as i32, glow::RGBA);
            self.gl.tex_image_2d(glow::TEXTURE_2D, 0, format.0, width, height, 0, format.1, glow::UNSIGNED_BYTE, data);
            self.gl.bind_texture(glow::TEXTURE_2D, None);
            texture
        }
    }

    fn reader(delivery: Delivery, conversion: Conversion) -> Reader {
        let options = ReaderOptions { delivery, conversion };
        // SAFETY: the context of this library is current.
        unsafe { Reader::for_current_context(options) }.expect("a reader")
    }
}

fn name(texture: glow::Texture) -> NonZeroU32 {
    texture.0
}

#[test]
fn a_texture_a_frame_buffer_and_a_pixel_buffer_are_the_picture() {
    let bench = Bench::new();
    let pixels = pattern(90);
    let texture = bench.texture(&pixels);
    let content = Content::default();
    for rows in [Rows::TopDown, Rows::BottomUp] {
        let plain = bench.watched.encoded(|| {
            let stride = usize::from(SIZE.width) * 4;
            let plane = nearlight_embed::Plane { bytes: &pixels, stride };
            let layout = nearlight_embed::Layout::Packed(PixelOrder::Rgba, plane);
            let image = nearlight_embed::Image { size: SIZE, layout, rows };
            bench.host.submit(&nearlight_embed::Picture::new(image)).expect("a picture");
        });
        for conversion in [Conversion::Processor, Conversion::Shader] {
            let mut reader = Bench::reader(Delivery::Immediate, conversion);
            let read = bench.watched.encoded(|| {
                // SAFETY: the context is current and has this texture.
                unsafe { reader.submit_texture(&bench.host, name(texture), SIZE, rows, content) }.expect("a picture");
            });
            let (largest, mean) = difference(&plain, &read);
            assert!(largest <= 2 && mean < 0.6, "{conversion:?} {rows:?}: {largest}, {mean}");
            // SAFETY: the context is current.
            unsafe { reader.delete() };
        }
        if rows == Rows::TopDown {
            continue;
        }
        // A frame buffer has its first row at the bottom, like the bottom-up texture.
        // SAFETY: the context is current, in all of this.
        unsafe {
            let framebuffer = bench.gl.create_framebuffer().expect("a frame buffer");
            bench.gl.bind_framebuffer(glow::FRAMEBUFFER, Some(framebuffer));
            let place = glow::COLOR_ATTACHMENT0;
            bench.gl.framebuffer_texture_2d(glow::FRAMEBUFFER, place, glow::TEXTURE_2D, Some(texture), 0);
            let buffer = bench.gl.create_buffer().expect("a buffer");
            bench.gl.bind_buffer(glow::PIXEL_PACK_BUFFER, Some(buffer));
            bench.gl.buffer_data_size(glow::PIXEL_PACK_BUFFER, pixels.len() as i32, glow::DYNAMIC_COPY);
            let into = glow::PixelPackData::BufferOffset(0);
            let (width, height) = (SIZE.width.into(), SIZE.height.into());
            bench.gl.read_pixels(0, 0, width, height, glow::RGBA, glow::UNSIGNED_BYTE, into);
            for conversion in [Conversion::Processor, Conversion::Shader] {
                let mut reader = Bench::reader(Delivery::Immediate, conversion);
                let read = bench.watched.encoded(|| {
                    let framebuffer = Some(framebuffer.0);
                    reader.submit_framebuffer(&bench.host, framebuffer, SIZE, content).expect("a picture");
                });
                assert!(difference(&plain, &read).0 <= 2, "{conversion:?}");
                let read = bench.watched.encoded(|| {
                    let kind = (SIZE, PixelOrder::Rgba, Rows::BottomUp);
                    reader.submit_buffer(&bench.host, buffer.0, kind, content).expect("a picture");
                });
                assert!(difference(&plain, &read).0 <= 2, "a pixel buffer");
                let larger = Size { width: 640, ..SIZE };
                let kind = (larger, PixelOrder::Rgba, Rows::BottomUp);
                assert!(reader.submit_buffer(&bench.host, buffer.0, kind, content).is_err(), "it is smaller");
            }
        }
    }
    assert!(bench.context.is_current());
}

#[test]
fn where_the_processor_draws_it_converts_unless_a_shader_is_asked_for() {
    let bench = Bench::new();
    // SAFETY: the context is current.
    let renderer = unsafe { bench.gl.get_parameter_string(glow::RENDERER) };
    let automatic = if renderer.contains("llvmpipe") { Conversion::Processor } else { Conversion::Shader };
    let cases = [
        (Conversion::Auto, automatic),
        (Conversion::Processor, Conversion::Processor),
        (Conversion::Shader, Conversion::Shader),
    ];
    for (asked, chosen) in cases {
        let reader = Bench::reader(Delivery::Immediate, asked);
        assert_eq!(reader.conversion(), chosen, "{asked:?} with {renderer}");
        // SAFETY: the same.
        unsafe { reader.delete() };
    }
}

#[test]
fn a_last_pass_draws_into_the_planes_that_encoders_read() {
    let bench = Bench::new();
    let scene = bench.texture(&pattern(60));
    let pass = LastPass::new(&bench.gl, scene, SIZE);
    let content = Content::default();
    let mut reader = Bench::reader(Delivery::Immediate, Conversion::Processor);
    let converted = bench.watched.encoded(|| {
        let texture = name(pass.draw_pixels());
        // SAFETY: the context is current and has this texture.
        unsafe { reader.submit_texture(&bench.host, texture, SIZE, Rows::TopDown, content) }.expect("a picture");
    });
    let drawn = bench.watched.encoded(|| {
        let mut planes = bench.host.lend(SIZE).expect("planes");
        pass.draw_planes(&mut planes);
        bench.host.submit_planes(planes, &content).expect("a picture");
    });
    let (largest, mean) = difference(&converted, &drawn);
    assert!(largest <= 2 && mean < 0.6, "{largest}, {mean}");
    // SAFETY: the context is current.
    unsafe { reader.delete() };
}

#[test]
fn the_context_s_state_stays_and_a_picture_comes_with_the_next() {
    let bench = Bench::new();
    let gl = &bench.gl;
    let textures = [40, 200].map(|shade| bench.texture(&pattern(shade)));
    for conversion in [Conversion::Processor, Conversion::Shader] {
        let mut reader = Bench::reader(Delivery::Deferred, conversion);
        // SAFETY: the context is current, in all of this.
        unsafe {
            let framebuffer = gl.create_framebuffer().expect("a frame buffer");
            gl.bind_framebuffer(glow::READ_FRAMEBUFFER, Some(framebuffer));
            gl.active_texture(glow::TEXTURE3);
            gl.bind_texture(glow::TEXTURE_2D, Some(textures[1]));
            gl.viewport(1, 2, 3, 4);
            for toggle in [glow::BLEND, glow::SCISSOR_TEST, glow::DEPTH_TEST] {
                gl.enable(toggle);
            }
            gl.color_mask(false, true, false, true);
            gl.pixel_store_i32(glow::PACK_ALIGNMENT, 8);
            gl.pixel_store_i32(glow::PACK_ROW_LENGTH, 77);
            let state = || {
                let mut viewport = [0; 4];
                gl.get_parameter_i32_slice(glow::VIEWPORT, &mut viewport);
                let numbers = [
                    glow::ACTIVE_TEXTURE,
                    glow::PACK_ALIGNMENT,
                    glow::PACK_ROW_LENGTH,
                    glow::CURRENT_PROGRAM,
                    glow::VERTEX_ARRAY_BINDING,
                    glow::DRAW_FRAMEBUFFER_BINDING,
                    glow::READ_FRAMEBUFFER_BINDING,
                    glow::PIXEL_PACK_BUFFER_BINDING,
                    glow::TEXTURE_BINDING_2D,
                    glow::SAMPLER_BINDING,
                ];
                let toggles = [glow::BLEND, glow::SCISSOR_TEST, glow::DEPTH_TEST, glow::CULL_FACE];
                (
                    viewport,
                    numbers.map(|number| gl.get_parameter_i32(number)),
                    toggles.map(|toggle| gl.is_enabled(toggle)),
                    gl.get_parameter_bool_array::<4>(glow::COLOR_WRITEMASK),
                )
            };
            let before = state();
            // The encoder gets the previous picture, which is the other texture.
            let mut turn = 0;
            let mut submit = || {
                turn += 1;
                let texture = name(textures[turn % 2]);
                let content = Content::default();
                reader.submit_texture(&bench.host, texture, SIZE, Rows::TopDown, content).expect("a picture");
                assert_eq!(state(), before, "{conversion:?}");
            };
            submit();
            submit();
            let first = bench.watched.encoded(&mut submit);
            // The colour of the corner, where red and green are zero.
            let shade = |picture: &Picture| picture.blue[0];
            assert!((shade(&first) > 180) == (turn % 2 == 0), "turn {turn}: {}", shade(&first));
            assert_eq!(gl.get_error(), glow::NO_ERROR);
            // Only the last picture is left, and it is submitted once.
            let submitted = bench.host.statistics().submitted;
            reader.finish(&bench.host).expect("the last picture");
            reader.finish(&bench.host).expect("nothing");
            assert_eq!(bench.host.statistics().submitted, submitted + 1);
            gl.color_mask(true, true, true, true);
            for toggle in [glow::BLEND, glow::SCISSOR_TEST, glow::DEPTH_TEST] {
                gl.disable(toggle);
            }
            gl.pixel_store_i32(glow::PACK_ROW_LENGTH, 0);
            gl.bind_framebuffer(glow::FRAMEBUFFER, None);
            reader.delete();
        }
    }
}

#[test]
fn without_a_context_it_says_so() {
    std::thread::spawn(|| {
        // SAFETY: no context is current in this thread, so that the call fails.
        let refused = unsafe { Reader::for_current_context(ReaderOptions::default()) };
        let error = refused.err().expect("no context").to_string();
        assert!(error.contains("no OpenGL context"), "{error}");
    })
    .join()
    .expect("no panic");
}
