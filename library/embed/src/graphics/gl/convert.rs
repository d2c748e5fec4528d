//! Converts pixels into planes in one pass: BT.709 in limited range (ITU-R BT.709-6 section 3), chroma from the mean of four pixels.
//!
//! The target has one byte a pixel: first the luma rows, top down, then the chroma rows, with blue differences on the left and red
//! differences on the right.

use crate::{PLANES_SHADER, Rows, Size};
use glow::HasContext;

use super::complete;
use super::state::SavedState;
use crate::graphics::GraphicsError;

const VERTICES: &str = "
void main() {
    // One triangle that covers the target.
    gl_Position = vec4(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0, 0.0, 1.0);
}";

/// Fragment shader that reads the picture from a texture.
const FRAGMENTS: &str = "
uniform sampler2D image;
uniform ivec2 size;
uniform int bottom_up;
out vec4 plane;

vec3 nearlight_pixel(ivec2 place) {
    int row = bottom_up != 0 ? size.y - 1 - place.y : place.y;
    return texelFetch(image, ivec2(place.x, row), 0).rgb;
}

void main() {
    plane = vec4(nearlight_plane(ivec2(gl_FragCoord.xy), size), 0.0, 0.0, 1.0);
}";

/// The conversion's objects in the caller's context.
pub(super) struct Converter {
    embedded: bool,
    program: glow::Program,
    size_at: Option<glow::UniformLocation>,
    bottom_up_at: Option<glow::UniformLocation>,
    vertex_array: glow::VertexArray,
    sampler: glow::Sampler,
    target: glow::Framebuffer,
    planes: glow::Texture,
    /// Receive a copy of a frame buffer's picture.
    copy_target: glow::Framebuffer,
    copy: glow::Texture,
    /// Sizes of `planes` and of `copy`.
    sizes: [Size; 2],
}

/// The size of a texture that was not allocated yet.
const EMPTY_SIZE: Size = Size { width: 0, height: 0 };

impl Converter {
    /// Creates the conversion's objects. Changes the context's bindings.
    ///
    /// # Safety
    /// The context is current.
    pub(super) unsafe fn new(gl: &glow::Context, embedded: bool) -> Result<Self, GraphicsError> {
        let fail = |what| move |reason| GraphicsError::Gl { what, reason };
        // SAFETY: guaranteed by the caller.
        unsafe {
            let program = build(gl, embedded)?;
            gl.use_program(Some(program));
            let image = gl.get_uniform_location(program, "image");
            gl.uniform_1_i32(image.as_ref(), 0);
            let sampler = gl.create_sampler().map_err(fail("make a sampler"))?;
            for filter in [glow::TEXTURE_MIN_FILTER, glow::TEXTURE_MAG_FILTER] {
                // With these filters, textures without mipmaps are complete.
                gl.sampler_parameter_i32(sampler, filter, glow::NEAREST as i32);
            }
            Ok(Self {
                embedded,
                program,
                size_at: gl.get_uniform_location(program, "size"),
                bottom_up_at: gl.get_uniform_location(program, "bottom_up"),
                vertex_array: gl.create_vertex_array().map_err(fail("make a vertex array"))?,
                sampler,
                target: gl.create_framebuffer().map_err(fail("make a frame buffer"))?,
                planes: gl.create_texture().map_err(fail("make a texture"))?,
                copy_target: gl.create_framebuffer().map_err(fail("make a frame buffer"))?,
                copy: gl.create_texture().map_err(fail("make a texture"))?,
                sizes: [EMPTY_SIZE; 2],
            })
        }
    }

    /// Converts a texture into planes, which can be read from the frame buffer that is bound afterwards.
    ///
    /// # Safety
    /// The context is current, its state is saved, and the texture belongs to it.
    pub(super) unsafe fn convert(
        &mut self,
        gl: &glow::Context,
        texture: glow::Texture,
        size: Size,
        rows: Rows,
    ) -> Result<(), GraphicsError> {
        let (width, height) = (i32::from(size.width), i32::from(size.height));
        // SAFETY: guaranteed by the caller.
        unsafe {
            if self.sizes[0] != size {
                store(gl, (self.target, self.planes), (glow::R8, glow::RED), (width, height * 3 / 2))?;
                self.sizes[0] = size;
            }
            SavedState::prepare_drawing(gl, self.embedded);
            gl.bind_framebuffer(glow::FRAMEBUFFER, Some(self.target));
            gl.viewport(0, 0, width, height * 3 / 2);
            gl.use_program(Some(self.program));
            gl.uniform_2_i32(self.size_at.as_ref(), width, height);
            gl.uniform_1_i32(self.bottom_up_at.as_ref(), i32::from(rows == Rows::BottomUp));
            gl.bind_texture(glow::TEXTURE_2D, Some(texture));
            gl.bind_sampler(0, Some(self.sampler));
            gl.bind_vertex_array(Some(self.vertex_array));
            gl.draw_arrays(glow::TRIANGLES, 0, 3);
        }
        Ok(())
    }

    /// Converts the picture of a frame buffer, like [`Converter::convert`].
    ///
    /// # Safety
    /// The context is current, its state is saved, and the frame buffer belongs to it.
    pub(super) unsafe fn convert_framebuffer(
        &mut self,
        gl: &glow::Context,
        framebuffer: Option<glow::Framebuffer>,
        size: Size,
    ) -> Result<(), GraphicsError> {
        let (width, height) = (i32::from(size.width), i32::from(size.height));
        // SAFETY: guaranteed by the caller.
        unsafe {
            if self.sizes[1] != size {
                store(gl, (self.copy_target, self.copy), (glow::RGBA8, glow::RGBA), (width, height))?;
                self.sizes[1] = size;
            }
            SavedState::prepare_drawing(gl, self.embedded);
            gl.bind_framebuffer(glow::READ_FRAMEBUFFER, framebuffer);
            complete(gl, glow::READ_FRAMEBUFFER)?;
            gl.bind_framebuffer(glow::DRAW_FRAMEBUFFER, Some(self.copy_target));
            let all = (0, 0, width, height);
            let (left, top, right, bottom) = all;
            gl.blit_framebuffer(
                left,
                top,
                right,
                bottom,
                left,
                top,
                right,
                bottom,
                glow::COLOR_BUFFER_BIT,
                glow::NEAREST,
            );
            self.convert(gl, self.copy, size, Rows::BottomUp)
        }
    }

    /// Deletes the conversion's objects.
    ///
    /// # Safety
    /// The context is current.
    pub(super) unsafe fn delete(self, gl: &glow::Context) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            gl.delete_program(self.program);
            gl.delete_vertex_array(self.vertex_array);
            gl.delete_sampler(self.sampler);
            for framebuffer in [self.target, self.copy_target] {
                gl.delete_framebuffer(framebuffer);
            }
            for texture in [self.planes, self.copy] {
                gl.delete_texture(texture);
            }
        }
    }
}

/// Allocates a texture's memory and attaches the texture to a frame buffer.
///
/// # Safety
/// The context is current and its state is saved.
unsafe fn store(
    gl: &glow::Context,
    (framebuffer, texture): (glow::Framebuffer, glow::Texture),
    (internal, format): (u32, u32),
    (width, height): (i32, i32),
) -> Result<(), GraphicsError> {
    // SAFETY: guaranteed by the caller. No pixels are read: while a buffer is bound for unpacking, a null pointer would be an offset into
    // it.
    unsafe {
        let unpack = gl.get_parameter_buffer(glow::PIXEL_UNPACK_BUFFER_BINDING);
        gl.bind_buffer(glow::PIXEL_UNPACK_BUFFER, None);
        gl.bind_texture(glow::TEXTURE_2D, Some(texture));
        let nothing = glow::PixelUnpackData::Slice(None);
        let level = 0;
        gl.tex_image_2d(
            glow::TEXTURE_2D,
            level,
            internal as i32,
            width,
            height,
            0,
            format,
            glow::UNSIGNED_BYTE,
            nothing,
        );
        gl.bind_buffer(glow::PIXEL_UNPACK_BUFFER, unpack);
        gl.bind_framebuffer(glow::FRAMEBUFFER, Some(framebuffer));
        gl.framebuffer_texture_2d(glow::FRAMEBUFFER, glow::COLOR_ATTACHMENT0, glow::TEXTURE_2D, Some(texture), 0);
        complete(gl, glow::FRAMEBUFFER)
    }
}

/// Builds the conversion's shader program.
///
/// # Safety
/// The context is current.
unsafe fn build(gl: &glow::Context, embedded: bool) -> Result<glow::Program, GraphicsError> {
    let fail = |what| move |reason| GraphicsError::Gl { what, reason };
    let head =
        if embedded { "#version 300 es\nprecision highp float;\nprecision highp int;\n" } else { "#version 330\n" };
    // SAFETY: guaranteed by the caller.
    unsafe {
        let program = gl.create_program().map_err(fail("make a program"))?;
        let fragments = [PLANES_SHADER, FRAGMENTS].concat();
        for (kind, source) in [(glow::VERTEX_SHADER, VERTICES), (glow::FRAGMENT_SHADER, &fragments)] {
            let shader = gl.create_shader(kind).map_err(fail("make a shader"))?;
            gl.shader_source(shader, &format!("{head}{source}"));
            gl.compile_shader(shader);
            if !gl.get_shader_compile_status(shader) {
                return Err(fail("compile the conversion")(gl.get_shader_info_log(shader)));
            }
            gl.attach_shader(program, shader);
            // OpenGL keeps it as long as the program.
            gl.delete_shader(shader);
        }
        gl.link_program(program);
        if gl.get_program_link_status(program) {
            Ok(program)
        } else {
            Err(fail("link the conversion")(gl.get_program_info_log(program)))
        }
    }
}
