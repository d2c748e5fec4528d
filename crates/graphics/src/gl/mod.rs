//! Pictures of an OpenGL context.
//!
//! A picture is read into one of two pixel buffers in turn and handed over with the next one, so that nobody waits for the GPU; or at once,
//! where a frame's delay costs more than waiting. It is either read as RGBA and converted by the processor, or converted into planes by a
//! shader of ours in the caller's context and then copied only.

mod convert;
mod state;

use std::ffi::{CStr, c_void};
use std::num::NonZeroU32;

use glow::HasContext;
use nearlight_embed::{Content, Host, Image, Layout, Picture, PixelOrder, Plane, Rows, Size};

use crate::GraphicsError;
pub use crate::kept::HandOver;
use crate::kept::Kept;
use convert::Converter;
use state::Saved;

/// How long a picture may take to be drawn and read. Guess: beyond it the GPU hangs.
const LONGEST_DRAWING_NS: i32 = 1_000_000_000;
/// Least OpenGL and OpenGL ES: sampler objects, fences.
const LEAST: (u32, u32) = (3, 3);
const LEAST_EMBEDDED: (u32, u32) = (3, 0);

/// Where pixels become the planes that encoders take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conversion {
    /// By a shader on a graphics processor; by the processor where that draws as well, in which a shader takes several times as long.
    #[default]
    Auto,
    /// In the caller's context: less than half as many bytes are read back, and the processor copies only.
    Shader,
    /// By the processor, while it copies.
    Processor,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct ReaderOptions {
    pub hand_over: HandOver,
    pub conversion: Conversion,
}

/// Renderers that draw on the processor, by parts of the names that they have for themselves: Mesa's, Chromium's, Microsoft's and Apple's.
const SOFTWARE_RENDERERS: [&str; 6] =
    ["llvmpipe", "softpipe", "SwiftShader", "Software Rasterizer", "GDI Generic", "Apple Software Renderer"];

fn is_software(renderer: &str) -> bool {
    SOFTWARE_RENDERERS.iter().any(|name| renderer.contains(name))
}

/// A picture that is being read.
struct Pending {
    size: Size,
    rows: Rows,
    converted: bool,
    kept: Kept,
    fence: glow::Fence,
}

struct Slot {
    buffer: glow::Buffer,
    capacity: usize,
    pending: Option<Pending>,
}

/// Reads pictures of one context. Its methods are called with that context current; the context's state is as before when they return, but
/// for a transform feedback or conditional rendering in progress, which must not be.
pub struct Reader {
    gl: glow::Context,
    options: ReaderOptions,
    embedded: bool,
    converter: Option<Converter>,
    framebuffer: glow::Framebuffer,
    slots: [Slot; 2],
    next: usize,
}

// SAFETY: its names and fences belong to the context, which its methods' contracts require to be current in the thread that calls them,
// whichever that is.
unsafe impl Send for Reader {}

impl Reader {
    /// For the context that is current in this thread, with OpenGL's functions as `loader` finds them.
    ///
    /// # Safety
    /// `loader` answers functions of the context that is current, by their names, or null.
    pub unsafe fn new(
        mut loader: impl FnMut(&CStr) -> *const c_void,
        options: ReaderOptions,
    ) -> Result<Self, GraphicsError> {
        let get_string = loader(c"glGetString");
        if get_string.is_null() {
            return Err(GraphicsError::NoContext);
        }
        // SAFETY: OpenGL's function of this name, by contract; without a context it answers null.
        let version = unsafe { std::mem::transmute::<*const c_void, GetString>(get_string)(glow::VERSION) };
        if version.is_null() {
            return Err(GraphicsError::NoContext);
        }
        // SAFETY: the caller's promise.
        let gl = unsafe { glow::Context::from_loader_function_cstr(loader) };
        let version = gl.version();
        let least = if version.is_embedded { LEAST_EMBEDDED } else { LEAST };
        if (version.major, version.minor) < least {
            return Err(GraphicsError::Version(format!("{}.{}", version.major, version.minor)));
        }
        let embedded = version.is_embedded;
        // SAFETY: the context is current by contract.
        let saved = unsafe { Saved::of(&gl, embedded) };
        // SAFETY: the same.
        let made = unsafe { Self::make(&gl, options, embedded) };
        // SAFETY: the same context.
        unsafe { saved.restore(&gl) };
        let (converter, framebuffer, slots) = made?;
        Ok(Self { gl, options, embedded, converter, framebuffer, slots, next: 0 })
    }

    /// The same with the functions of the context that EGL or GLX has made current.
    ///
    /// # Safety
    /// The libraries `libEGL.so.1` and `libGL.so.1` that the dynamic linker finds are those that made the context.
    pub unsafe fn of_current(options: ReaderOptions) -> Result<Self, GraphicsError> {
        // SAFETY: the caller's promise.
        let loader = unsafe { current_loader() }.ok_or(GraphicsError::NoContext)?;
        // SAFETY: it answers functions of the current context.
        unsafe {
            Self::new(
                |name| {
                    // SAFETY: a name that ends with a zero byte.
                    loader(name.as_ptr())
                },
                options,
            )
        }
    }

    unsafe fn make(
        gl: &glow::Context,
        options: ReaderOptions,
        embedded: bool,
    ) -> Result<(Option<Converter>, glow::Framebuffer, [Slot; 2]), GraphicsError> {
        let fail = |what| move |reason| GraphicsError::Gl { what, reason };
        let by_shader = match options.conversion {
            // SAFETY: the caller's context is current.
            Conversion::Auto => !is_software(&unsafe { gl.get_parameter_string(glow::RENDERER) }),
            Conversion::Shader => true,
            Conversion::Processor => false,
        };
        // SAFETY: the same.
        let converter = by_shader.then(|| unsafe { Converter::new(gl, embedded) }).transpose()?;
        // SAFETY: the same.
        let framebuffer = unsafe { gl.create_framebuffer() }.map_err(fail("make a frame buffer"))?;
        let slot = || {
            // SAFETY: the same.
            let buffer = unsafe { gl.create_buffer() }.map_err(fail("make a pixel buffer"))?;
            Ok::<_, GraphicsError>(Slot { buffer, capacity: 0, pending: None })
        };
        Ok((converter, framebuffer, [slot()?, slot()?]))
    }

    /// Where its pictures are converted; never [`Conversion::Auto`].
    #[must_use]
    pub const fn conversion(&self) -> Conversion {
        if self.converter.is_some() { Conversion::Shader } else { Conversion::Processor }
    }

    /// Takes a two-dimensional texture: `rows` says whether its first row is the lowest, as OpenGL draws.
    ///
    /// # Safety
    /// The reader's context is current, and `texture` is a texture of it with this size.
    pub unsafe fn submit_texture(
        &mut self,
        host: &Host,
        texture: NonZeroU32,
        size: Size,
        rows: Rows,
        content: Content<'_>,
    ) -> Result<(), GraphicsError> {
        // SAFETY: the caller's promise.
        unsafe { self.submit(host, Origin::Texture(glow::NativeTexture(texture)), (size, rows), content) }
    }

    /// Takes the picture of a frame buffer, none for the window's, bottom up as OpenGL has it. Its read buffer counts.
    ///
    /// # Safety
    /// The reader's context is current, and `framebuffer` is a frame buffer of it, at least of this size and without multisampling.
    pub unsafe fn submit_framebuffer(
        &mut self,
        host: &Host,
        framebuffer: Option<NonZeroU32>,
        size: Size,
        content: Content<'_>,
    ) -> Result<(), GraphicsError> {
        let origin = Origin::Framebuffer(framebuffer.map(glow::NativeFramebuffer));
        // SAFETY: the caller's promise.
        unsafe { self.submit(host, origin, (size, Rows::BottomUp), content) }
    }

    /// Takes pixels that the program has read into a pixel buffer of its own, rows without padding. Waits until they are there.
    ///
    /// # Safety
    /// The reader's context is current, and `buffer` is a buffer of it.
    pub unsafe fn submit_buffer(
        &mut self,
        host: &Host,
        buffer: NonZeroU32,
        (size, order, rows): (Size, PixelOrder, Rows),
        content: Content<'_>,
    ) -> Result<(), GraphicsError> {
        size.check().map_err(|error| GraphicsError::Host(error.into()))?;
        let (gl, stride) = (&self.gl, usize::from(size.width) * order.bytes());
        // SAFETY: the caller's promise.
        unsafe {
            let before = gl.get_parameter_buffer(glow::PIXEL_PACK_BUFFER_BINDING);
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, Some(glow::NativeBuffer(buffer)));
            let there = gl.get_buffer_parameter_i32(glow::PIXEL_PACK_BUFFER, glow::BUFFER_SIZE);
            let submitted = if usize::try_from(there).is_ok_and(|there| there >= stride * usize::from(size.height)) {
                read_mapped(gl, stride * usize::from(size.height), |bytes| {
                    let layout = Layout::Packed(order, Plane { bytes, stride });
                    let image = Image { size, layout, rows };
                    Ok(host.submit(&Picture { content, ..Picture::new(image) })?)
                })
            } else {
                Err(GraphicsError::Argument("the pixel buffer is smaller than the picture's size and format say"))
            };
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, before);
            submitted
        }
    }

    /// Hands over what is still being read.
    ///
    /// # Safety
    /// The reader's context is current.
    pub unsafe fn finish(&mut self, host: &Host) -> Result<(), GraphicsError> {
        // The older one first.
        for slot in [self.next, 1 - self.next] {
            // SAFETY: the caller's promise.
            unsafe { self.hand_over(host, slot) }?;
        }
        Ok(())
    }

    /// Deletes what it has in the context.
    ///
    /// # Safety
    /// The reader's context is current.
    pub unsafe fn delete(self) {
        // SAFETY: the caller's promise; nothing of it is used afterwards.
        unsafe {
            for slot in self.slots {
                if let Some(pending) = slot.pending {
                    self.gl.delete_sync(pending.fence);
                }
                self.gl.delete_buffer(slot.buffer);
            }
            self.gl.delete_framebuffer(self.framebuffer);
            if let Some(converter) = self.converter {
                converter.delete(&self.gl);
            }
        }
    }

    unsafe fn submit(
        &mut self,
        host: &Host,
        origin: Origin,
        (size, rows): (Size, Rows),
        content: Content<'_>,
    ) -> Result<(), GraphicsError> {
        size.check().map_err(|error| GraphicsError::Host(error.into()))?;
        let kept = Kept::new(host, content)?;
        let slot = self.next;
        // SAFETY: the caller's promise, for all of these.
        unsafe {
            // Where it is still pending, the GPU has had two frames for it.
            self.hand_over(host, slot)?;
            let saved = Saved::of(&self.gl, self.embedded);
            let read = self.read(slot, origin, size, rows);
            saved.restore(&self.gl);
            let (converted, rows) = read?;
            let fence = self.gl.fence_sync(glow::SYNC_GPU_COMMANDS_COMPLETE, 0);
            let fence = fence.map_err(|reason| GraphicsError::Gl { what: "make a fence", reason })?;
            self.slots[slot].pending = Some(Pending { size, rows, converted, kept, fence });
            self.next = 1 - slot;
            match self.options.hand_over {
                HandOver::AtOnce => self.hand_over(host, slot),
                HandOver::WithTheNext => self.hand_over(host, 1 - slot),
            }
        }
    }

    /// Begins to read a picture into a slot's buffer. Answers whether it is converted, and the order of its rows there.
    unsafe fn read(
        &mut self,
        slot: usize,
        origin: Origin,
        size: Size,
        rows: Rows,
    ) -> Result<(bool, Rows), GraphicsError> {
        let Self { gl, converter, framebuffer, slots, .. } = self;
        let (width, height) = (i32::from(size.width), i32::from(size.height));
        let slot = &mut slots[slot];
        let (format, lines, bytes) =
            if converter.is_some() { (glow::RED, height * 3 / 2, 1) } else { (glow::RGBA, height, 4) };
        let needed = usize::from(size.width) * lines as usize * bytes;
        // SAFETY: the caller's promise: the context is current and has these objects. Reading goes into a buffer that is large enough.
        unsafe {
            let rows = match (converter, origin) {
                (Some(converter), Origin::Texture(texture)) => {
                    converter.convert(gl, texture, size, rows)?;
                    Rows::TopDown
                }
                (Some(converter), Origin::Framebuffer(read)) => {
                    converter.convert_framebuffer(gl, read, size)?;
                    Rows::TopDown
                }
                (None, Origin::Texture(texture)) => {
                    gl.bind_framebuffer(glow::READ_FRAMEBUFFER, Some(*framebuffer));
                    let place = glow::COLOR_ATTACHMENT0;
                    gl.framebuffer_texture_2d(glow::READ_FRAMEBUFFER, place, glow::TEXTURE_2D, Some(texture), 0);
                    complete(gl, glow::READ_FRAMEBUFFER)?;
                    rows
                }
                (None, Origin::Framebuffer(read)) => {
                    gl.bind_framebuffer(glow::READ_FRAMEBUFFER, read);
                    complete(gl, glow::READ_FRAMEBUFFER)?;
                    rows
                }
            };
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, Some(slot.buffer));
            if slot.capacity < needed {
                gl.buffer_data_size(glow::PIXEL_PACK_BUFFER, needed as i32, glow::STREAM_READ);
                slot.capacity = needed;
            }
            for (parameter, value) in [
                (glow::PACK_ALIGNMENT, 1),
                (glow::PACK_ROW_LENGTH, 0),
                (glow::PACK_SKIP_ROWS, 0),
                (glow::PACK_SKIP_PIXELS, 0),
            ] {
                gl.pixel_store_i32(parameter, value);
            }
            let into = glow::PixelPackData::BufferOffset(0);
            gl.read_pixels(0, 0, width, lines, format, glow::UNSIGNED_BYTE, into);
            if matches!(origin, Origin::Texture(_)) && self.converter.is_none() {
                // The texture belongs to the program, which may delete it.
                let place = glow::COLOR_ATTACHMENT0;
                self.gl.framebuffer_texture_2d(glow::READ_FRAMEBUFFER, place, glow::TEXTURE_2D, None, 0);
            }
            Ok((bytes == 1, rows))
        }
    }

    /// Waits for a slot's picture and submits it.
    unsafe fn hand_over(&mut self, host: &Host, slot: usize) -> Result<(), GraphicsError> {
        let Some(Pending { size, rows, converted, kept, fence }) = self.slots[slot].pending.take() else {
            return Ok(());
        };
        let (gl, buffer) = (&self.gl, self.slots[slot].buffer);
        let (width, height) = (usize::from(size.width), usize::from(size.height));
        let content = kept.content();
        // SAFETY: the caller's promise: the context is current. The buffer holds what `read` has asked for.
        unsafe {
            let waited = gl.client_wait_sync(fence, glow::SYNC_FLUSH_COMMANDS_BIT, LONGEST_DRAWING_NS);
            gl.delete_sync(fence);
            if waited == glow::TIMEOUT_EXPIRED || waited == glow::WAIT_FAILED {
                let reason = "it took longer than a second".to_owned();
                return Err(GraphicsError::Gl { what: "draw the picture", reason });
            }
            let before = gl.get_parameter_buffer(glow::PIXEL_PACK_BUFFER_BINDING);
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, Some(buffer));
            let length = if converted { width * height * 3 / 2 } else { width * height * 4 };
            let submitted = read_mapped(gl, length, |bytes| {
                let layout = if converted {
                    // Below the luma, both chroma planes side by side.
                    let (luma, chroma) = bytes.split_at(width * height);
                    let plane = |bytes| Plane { bytes, stride: width };
                    Layout::I420([plane(luma), plane(chroma), plane(&chroma[width / 2..])])
                } else {
                    Layout::Packed(PixelOrder::Rgba, Plane { bytes, stride: width * 4 })
                };
                Ok(host.submit(&Picture { content, ..Picture::new(Image { size, layout, rows }) })?)
            });
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, before);
            submitted
        }
    }
}

/// Where a picture is.
#[derive(Clone, Copy)]
enum Origin {
    Texture(glow::Texture),
    Framebuffer(Option<glow::Framebuffer>),
}

/// Calls `work` with the bytes of the pixel buffer that is bound.
///
/// # Safety
/// The context is current, and the buffer has `length` bytes and is not mapped.
unsafe fn read_mapped(
    gl: &glow::Context,
    length: usize,
    work: impl FnOnce(&[u8]) -> Result<(), GraphicsError>,
) -> Result<(), GraphicsError> {
    // SAFETY: the caller's promise. The bytes are borrowed until they are unmapped.
    unsafe {
        let place = gl.map_buffer_range(glow::PIXEL_PACK_BUFFER, 0, length as i32, glow::MAP_READ_BIT);
        if place.is_null() {
            let reason = "the driver answers no address; is it mapped already?".to_owned();
            return Err(GraphicsError::Gl { what: "map a pixel buffer", reason });
        }
        let done = work(std::slice::from_raw_parts(place, length));
        gl.unmap_buffer(glow::PIXEL_PACK_BUFFER);
        done
    }
}

/// # Safety
/// The context is current.
unsafe fn complete(gl: &glow::Context, target: u32) -> Result<(), GraphicsError> {
    // SAFETY: the caller's promise.
    let status = unsafe { gl.check_framebuffer_status(target) };
    if status == glow::FRAMEBUFFER_COMPLETE {
        return Ok(());
    }
    let reason =
        format!("its frame buffer is incomplete ({status:#x}); is the texture two-dimensional, and of this context?");
    Err(GraphicsError::Gl { what: "read the picture", reason })
}

type GetProcAddress = unsafe extern "C" fn(*const std::ffi::c_char) -> *const c_void;
type GetString = unsafe extern "system" fn(u32) -> *const u8;
type GetCurrentContext = unsafe extern "C" fn() -> *const c_void;

/// How EGL or GLX, whichever has a context current in this thread, finds functions.
///
/// # Safety
/// The libraries are what their names say.
unsafe fn current_loader() -> Option<GetProcAddress> {
    const WAYS: [(&str, &[u8], &[u8]); 2] = [
        ("libEGL.so.1", b"eglGetCurrentContext\0", b"eglGetProcAddress\0"),
        ("libGL.so.1", b"glXGetCurrentContext\0", b"glXGetProcAddressARB\0"),
    ];
    for (library, current, address) in WAYS {
        // SAFETY: by contract these libraries have functions of these kinds; opening them runs no code of anybody else.
        unsafe {
            let Ok(library) = libloading::Library::new(library) else { continue };
            let has_context = library.get::<GetCurrentContext>(current).is_ok_and(|current| !current().is_null());
            if has_context && let Ok(loader) = library.get::<GetProcAddress>(address).map(|symbol| *symbol) {
                // Its context lives in it: it stays.
                std::mem::forget(library);
                return Some(loader);
            }
        }
    }
    None
}
