//! The last pass of a program that brightens its picture: it draws pixels, or directly the planes of a picture.

use glow::HasContext;
use nearlight_embed::{PLANES_SHADER, Planes, Size};

const VERTICES: &str = "#version 330
void main() {
    gl_Position = vec4(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0, 0.0, 1.0);
}";

const HEAD: &str = "#version 330
uniform sampler2D scene;
out vec4 colour;
";

const PIXEL: &str = "
vec3 nearlight_pixel(ivec2 place) {
    vec3 light = texelFetch(scene, place, 0).rgb;
    return light * 1.155 / (light + 0.155);
}
";

const TO_PIXELS: &str = "
void main() {
    colour = vec4(nearlight_pixel(ivec2(gl_FragCoord.xy)), 1.0);
}";

const TO_PLANES: &str = "
void main() {
    colour = vec4(nearlight_plane(ivec2(gl_FragCoord.xy), textureSize(scene, 0)), 0.0, 0.0, 1.0);
}";

struct Target {
    program: glow::Program,
    framebuffer: glow::Framebuffer,
    texture: glow::Texture,
    size: [i32; 2],
}

pub struct LastPass<'a> {
    gl: &'a glow::Context,
    scene: glow::Texture,
    vertex_array: glow::VertexArray,
    size: [i32; 2],
    pixels: Target,
    planes: Target,
}

impl<'a> LastPass<'a> {
    /// Creates the pass for a texture of this size with its first row on top. The texture's context is current, here and in the methods.
    pub fn new(gl: &'a glow::Context, scene: glow::Texture, size: Size) -> Self {
        let [width, height] = [size.width, size.height].map(i32::from);
        let target = |sources: &[&str], (inside, outside), size: [i32; 2]| {
            // SAFETY: the context is current by contract. No pixels are read.
            unsafe {
                let program = gl.create_program().expect("a program");
                for (kind, source) in [(glow::VERTEX_SHADER, VERTICES), (glow::FRAGMENT_SHADER, &sources.concat())] {
                    let shader = gl.create_shader(kind).expect("a shader");
                    gl.shader_source(shader, source);
                    gl.compile_shader(shader);
                    assert!(gl.get_shader_compile_status(shader), "{}", gl.get_shader_info_log(shader));
                    gl.attach_shader(program, shader);
                }
                gl.link_program(program);
                assert!(gl.get_program_link_status(program), "{}", gl.get_program_info_log(program));
                let framebuffer = gl.create_framebuffer().expect("a frame buffer");
                let texture = gl.create_texture().expect("a texture");
                gl.bind_texture(glow::TEXTURE_2D, Some(texture));
                let (level, border, nothing) = (0, 0, glow::PixelUnpackData::Slice(None));
                let [width, height] = size;
                let byte = glow::UNSIGNED_BYTE;
                gl.tex_image_2d(glow::TEXTURE_2D, level, inside, width, height, border, outside, byte, nothing);
                gl.bind_framebuffer(glow::FRAMEBUFFER, Some(framebuffer));
                let place = glow::COLOR_ATTACHMENT0;
                gl.framebuffer_texture_2d(glow::FRAMEBUFFER, place, glow::TEXTURE_2D, Some(texture), level);
                Target { program, framebuffer, texture, size }
            }
        };
        let pixels = target(&[HEAD, PIXEL, TO_PIXELS], (glow::RGBA8 as i32, glow::RGBA), [width, height]);
        let sources = [HEAD, PLANES_SHADER, PIXEL, TO_PLANES];
        let planes = target(&sources, (glow::R8 as i32, glow::RED), [width, height * 3 / 2]);
        // SAFETY: the context is current. The scene has no mipmaps.
        let vertex_array = unsafe {
            gl.bind_texture(glow::TEXTURE_2D, Some(scene));
            gl.tex_parameter_i32(glow::TEXTURE_2D, glow::TEXTURE_MAX_LEVEL, 0);
            gl.create_vertex_array().expect("a vertex array")
        };
        Self { gl, scene, vertex_array, size: [width, height], pixels, planes }
    }

    fn draw(&self, target: &Target) {
        let gl = self.gl;
        // SAFETY: the context is current and has these objects.
        unsafe {
            gl.bind_framebuffer(glow::FRAMEBUFFER, Some(target.framebuffer));
            gl.viewport(0, 0, target.size[0], target.size[1]);
            gl.use_program(Some(target.program));
            gl.active_texture(glow::TEXTURE0);
            gl.bind_texture(glow::TEXTURE_2D, Some(self.scene));
            gl.bind_vertex_array(Some(self.vertex_array));
            gl.draw_arrays(glow::TRIANGLES, 0, 3);
        }
    }

    /// Draws the picture as pixels. Returns its texture, with the first row on top.
    pub fn draw_pixels(&self) -> glow::Texture {
        self.draw(&self.pixels);
        self.pixels.texture
    }

    /// Draws the picture and reads it into planes of its size.
    pub fn draw_planes(&self, planes: &mut Planes) {
        self.draw(&self.planes);
        let (gl, [width, height]) = (self.gl, self.size);
        let (columns, rows) = (width / 2, height / 2);
        let Planes { luma, blue, red, .. } = planes;
        // SAFETY: the context is current, and `draw` has bound the frame buffer. The planes are as long as their size says, without
        // padding.
        unsafe {
            gl.pixel_store_i32(glow::PACK_ALIGNMENT, 1);
            for (bytes, [left, first, width, height]) in [
                (luma, [0, 0, width, height]),
                (blue, [0, height, columns, rows]),
                (red, [columns, height, columns, rows]),
            ] {
                let into = glow::PixelPackData::Slice(Some(bytes));
                gl.read_pixels(left, first, width, height, glow::RED, glow::UNSIGNED_BYTE, into);
            }
        }
    }
}
