//! Saves and restores the state of a context that reading changes.

use glow::HasContext;

/// Capabilities that affect drawing.
const TOGGLES: [u32; 6] =
    [glow::BLEND, glow::CULL_FACE, glow::DEPTH_TEST, glow::RASTERIZER_DISCARD, glow::SCISSOR_TEST, glow::STENCIL_TEST];
/// Further ones that OpenGL ES does not have.
const DESKTOP_TOGGLES: [u32; 2] = [glow::FRAMEBUFFER_SRGB, glow::COLOR_LOGIC_OP];
/// Parameters that affect reading pixels into a buffer.
const PACKING: [u32; 4] = [glow::PACK_ALIGNMENT, glow::PACK_ROW_LENGTH, glow::PACK_SKIP_ROWS, glow::PACK_SKIP_PIXELS];

/// The state of a context before reading.
pub(super) struct SavedState {
    embedded: bool,
    program: Option<glow::Program>,
    vertex_array: Option<glow::VertexArray>,
    draw: Option<glow::Framebuffer>,
    read: Option<glow::Framebuffer>,
    pack: Option<glow::Buffer>,
    active: u32,
    texture: Option<glow::Texture>,
    sampler: Option<glow::Sampler>,
    viewport: [i32; 4],
    mask: [bool; 4],
    polygon: [i32; 2],
    toggles: [bool; TOGGLES.len()],
    desktop: [bool; DESKTOP_TOGGLES.len()],
    packing: [i32; PACKING.len()],
}

impl SavedState {
    /// Saves the context's state. Texture unit 0 is active afterwards.
    ///
    /// # Safety
    /// The context is current.
    pub(super) unsafe fn save(gl: &glow::Context, embedded: bool) -> Self {
        // SAFETY: guaranteed by the caller; the slices are as long as OpenGL's values.
        unsafe {
            let (mut viewport, mut polygon) = ([0; 4], [glow::FILL as i32; 2]);
            gl.get_parameter_i32_slice(glow::VIEWPORT, &mut viewport);
            if !embedded {
                gl.get_parameter_i32_slice(glow::POLYGON_MODE, &mut polygon);
            }
            let active = gl.get_parameter_i32(glow::ACTIVE_TEXTURE) as u32;
            gl.active_texture(glow::TEXTURE0);
            Self {
                embedded,
                program: gl.get_parameter_program(glow::CURRENT_PROGRAM),
                vertex_array: gl.get_parameter_vertex_array(glow::VERTEX_ARRAY_BINDING),
                draw: gl.get_parameter_framebuffer(glow::DRAW_FRAMEBUFFER_BINDING),
                read: gl.get_parameter_framebuffer(glow::READ_FRAMEBUFFER_BINDING),
                pack: gl.get_parameter_buffer(glow::PIXEL_PACK_BUFFER_BINDING),
                active,
                texture: gl.get_parameter_texture(glow::TEXTURE_BINDING_2D),
                sampler: gl.get_parameter_sampler(glow::SAMPLER_BINDING),
                viewport,
                mask: gl.get_parameter_bool_array(glow::COLOR_WRITEMASK),
                polygon,
                toggles: TOGGLES.map(|toggle| gl.is_enabled(toggle)),
                desktop: DESKTOP_TOGGLES.map(|toggle| !embedded && gl.is_enabled(toggle)),
                packing: PACKING.map(|parameter| gl.get_parameter_i32(parameter)),
            }
        }
    }

    /// Restores the saved state.
    ///
    /// # Safety
    /// The context whose state was saved is current.
    pub(super) unsafe fn restore(self, gl: &glow::Context) {
        // SAFETY: guaranteed by the caller; all values were in force before.
        unsafe {
            for (toggle, on) in TOGGLES.into_iter().zip(self.toggles) {
                set(gl, toggle, on);
            }
            if !self.embedded {
                for (toggle, on) in DESKTOP_TOGGLES.into_iter().zip(self.desktop) {
                    set(gl, toggle, on);
                }
                gl.polygon_mode(glow::FRONT_AND_BACK, self.polygon[0] as u32);
            }
            for (parameter, value) in PACKING.into_iter().zip(self.packing) {
                gl.pixel_store_i32(parameter, value);
            }
            let [red, green, blue, alpha] = self.mask;
            gl.color_mask(red, green, blue, alpha);
            let [x, y, width, height] = self.viewport;
            gl.viewport(x, y, width, height);
            gl.bind_sampler(0, self.sampler);
            gl.bind_texture(glow::TEXTURE_2D, self.texture);
            gl.active_texture(self.active);
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, self.pack);
            gl.bind_framebuffer(glow::DRAW_FRAMEBUFFER, self.draw);
            gl.bind_framebuffer(glow::READ_FRAMEBUFFER, self.read);
            gl.bind_vertex_array(self.vertex_array);
            gl.use_program(self.program);
        }
    }

    /// Prepares the context for a pass of this module: everything is written as the shader computes it.
    ///
    /// # Safety
    /// The context is current.
    pub(super) unsafe fn prepare_drawing(gl: &glow::Context, embedded: bool) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            for toggle in TOGGLES {
                gl.disable(toggle);
            }
            if !embedded {
                for toggle in DESKTOP_TOGGLES {
                    gl.disable(toggle);
                }
                gl.polygon_mode(glow::FRONT_AND_BACK, glow::FILL);
            }
            gl.color_mask(true, true, true, true);
        }
    }
}

/// Enables or disables a capability.
///
/// # Safety
/// The context is current.
unsafe fn set(gl: &glow::Context, toggle: u32, on: bool) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if on {
            gl.enable(toggle);
        } else {
            gl.disable(toggle);
        }
    }
}
