//! Reads pictures of an OpenGL context.
//!
//! Pictures are read into two pixel buffers alternately. A picture is delivered with the next one, so that nothing waits for the GPU, or
//! immediately when a frame's delay costs more than waiting. It is either read as RGBA and converted by the processor, or converted into
//! planes by a shader in the caller's context and then only copied.

mod convert;
mod state;

use std::ffi::{CStr, c_void};
use std::num::NonZeroU32;

use crate::{Content, Host, Image, Layout, Picture, PixelOrder, Plane, Rows, Size};
use glow::HasContext;

use crate::graphics::GraphicsError;
pub use crate::graphics::content::Delivery;
use crate::graphics::content::OwnedContent;
use convert::Converter;
use state::SavedState;

/// Maximum time in nanoseconds for which a picture is drawn and read. Guess: a GPU that takes longer hangs.
const DRAW_TIMEOUT_NS: i32 = 1_000_000_000;
/// Minimum version of OpenGL, the first with sampler objects and fences.
const MIN_VERSION: (u32, u32) = (3, 3);
/// Minimum version of OpenGL ES, for the same reason.
const MIN_ES_VERSION: (u32, u32) = (3, 0);

/// Says where pixels are converted into the planes that encoders take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conversion {
    /// `Shader`, except with a software renderer, where a shader takes several times as long as `Processor`.
    #[default]
    Auto,
    /// A shader in the caller's context: less than half as many bytes are read back, and the processor only copies.
    Shader,
    /// The processor, while it copies.
    Processor,
}

/// Options of a reader.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReaderOptions {
    pub delivery: Delivery,
    pub conversion: Conversion,
}

/// Parts of the names of renderers that draw on the processor: those of Mesa, Chromium, Microsoft and Apple.
const SOFTWARE_RENDERERS: [&str; 6] =
    ["llvmpipe", "softpipe", "SwiftShader", "Software Rasterizer", "GDI Generic", "Apple Software Renderer"];

fn is_software(renderer: &str) -> bool {
    SOFTWARE_RENDERERS.iter().any(|name| renderer.contains(name))
}

/// A picture that is being read.
struct Pending {
    size: Size,
    rows: Rows,
    /// Whether its pixels are already planes.
    converted: bool,
    content: OwnedContent,
    fence: glow::Fence,
}

/// Objects for one picture in flight.
struct Slot {
    buffer: glow::Buffer,
    capacity: usize,
    pending: Option<Pending>,
}

/// A reader of one context's pictures. Its methods are called while that context is current, and they restore the context's state before
/// they return. No transform feedback or conditional rendering may be in progress.
pub struct Reader {
    gl: glow::Context,
    options: ReaderOptions,
    embedded: bool,
    converter: Option<Converter>,
    framebuffer: glow::Framebuffer,
    slots: [Slot; 2],
    next: usize,
}

// SAFETY: the reader's names and fences belong to the context, which must be current in the thread that calls a method; any thread may be
// it.
unsafe impl Send for Reader {}

impl Reader {
    /// Creates a reader for the context that is current in this thread. `loader` finds OpenGL's functions.
    ///
    /// # Safety
    /// `loader` returns the function of the current context with a given name, or null.
    pub unsafe fn new(
        mut loader: impl FnMut(&CStr) -> *const c_void,
        options: ReaderOptions,
    ) -> Result<Self, GraphicsError> {
        let get_string = loader(c"glGetString");
        if get_string.is_null() {
            return Err(GraphicsError::NoContext);
        }
        // SAFETY: `loader` returns OpenGL's function of this name; without a context the function returns null.
        let version = unsafe { std::mem::transmute::<*const c_void, GetString>(get_string)(glow::VERSION) };
        if version.is_null() {
            return Err(GraphicsError::NoContext);
        }
        // SAFETY: guaranteed by the caller.
        let gl = unsafe { glow::Context::from_loader_function_cstr(loader) };
        let version = gl.version();
        let minimum = if version.is_embedded { MIN_ES_VERSION } else { MIN_VERSION };
        if (version.major, version.minor) < minimum {
            return Err(GraphicsError::Version(format!("{}.{}", version.major, version.minor)));
        }
        let embedded = version.is_embedded;
        // SAFETY: the context is current by contract.
        let saved = unsafe { SavedState::save(&gl, embedded) };
        // SAFETY: the context is current by contract.
        let created = unsafe { Self::create_objects(&gl, options, embedded) };
        // SAFETY: the context is still current.
        unsafe { saved.restore(&gl) };
        let (converter, framebuffer, slots) = created?;
        Ok(Self { gl, options, embedded, converter, framebuffer, slots, next: 0 })
    }

    /// Creates a reader for the context that EGL or GLX has made current in this thread, and finds OpenGL's functions by itself.
    ///
    /// # Safety
    /// The libraries `libEGL.so.1` and `libGL.so.1` that the dynamic linker finds are those that created the context.
    pub unsafe fn for_current_context(options: ReaderOptions) -> Result<Self, GraphicsError> {
        // SAFETY: guaranteed by the caller.
        let loader = unsafe { current_loader() }.ok_or(GraphicsError::NoContext)?;
        // SAFETY: it returns functions of the current context.
        unsafe {
            Self::new(
                |name| {
                    // SAFETY: the name ends with a zero byte.
                    loader(name.as_ptr())
                },
                options,
            )
        }
    }

    /// Creates the reader's objects in the context.
    unsafe fn create_objects(
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
        // SAFETY: the caller's context is current.
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

    /// Returns where its pictures are converted; never [`Conversion::Auto`].
    #[must_use]
    pub const fn conversion(&self) -> Conversion {
        if self.converter.is_some() { Conversion::Shader } else { Conversion::Processor }
    }

    /// Submits a two-dimensional texture. `rows` says whether its first row is the lowest one, as OpenGL draws it.
    ///
    /// # Safety
    /// The reader's context is current, and `texture` is one of its textures and has this size.
    pub unsafe fn submit_texture(
        &mut self,
        host: &Host,
        texture: NonZeroU32,
        size: Size,
        rows: Rows,
        content: Content<'_>,
    ) -> Result<(), GraphicsError> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.submit(host, Origin::Texture(glow::NativeTexture(texture)), (size, rows), content) }
    }

    /// Submits the picture of a frame buffer, or of the window when it is `None`. Its read buffer is read, bottom up as in OpenGL.
    ///
    /// # Safety
    /// The reader's context is current, and `framebuffer` is one of its frame buffers, has at least this size and no multisampling.
    pub unsafe fn submit_framebuffer(
        &mut self,
        host: &Host,
        framebuffer: Option<NonZeroU32>,
        size: Size,
        content: Content<'_>,
    ) -> Result<(), GraphicsError> {
        let origin = Origin::Framebuffer(framebuffer.map(glow::NativeFramebuffer));
        // SAFETY: guaranteed by the caller.
        unsafe { self.submit(host, origin, (size, Rows::BottomUp), content) }
    }

    /// Submits pixels that the program has read into its own pixel buffer, with rows without padding. Waits until the GPU has written them.
    ///
    /// # Safety
    /// The reader's context is current, and `buffer` is one of its buffers.
    pub unsafe fn submit_buffer(
        &mut self,
        host: &Host,
        buffer: NonZeroU32,
        (size, order, rows): (Size, PixelOrder, Rows),
        content: Content<'_>,
    ) -> Result<(), GraphicsError> {
        size.check().map_err(|error| GraphicsError::Host(error.into()))?;
        let (gl, stride) = (&self.gl, usize::from(size.width) * order.bytes());
        // SAFETY: guaranteed by the caller.
        unsafe {
            let before = gl.get_parameter_buffer(glow::PIXEL_PACK_BUFFER_BINDING);
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, Some(glow::NativeBuffer(buffer)));
            let capacity = gl.get_buffer_parameter_i32(glow::PIXEL_PACK_BUFFER, glow::BUFFER_SIZE);
            let submitted =
                if usize::try_from(capacity).is_ok_and(|capacity| capacity >= stride * usize::from(size.height)) {
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

    /// Delivers the pictures that are still being read.
    ///
    /// # Safety
    /// The reader's context is current.
    pub unsafe fn finish(&mut self, host: &Host) -> Result<(), GraphicsError> {
        // The older one first.
        for slot in [self.next, 1 - self.next] {
            // SAFETY: guaranteed by the caller.
            unsafe { self.deliver(host, slot) }?;
        }
        Ok(())
    }

    /// Deletes the reader's objects in the context.
    ///
    /// # Safety
    /// The reader's context is current.
    pub unsafe fn delete(self) {
        // SAFETY: guaranteed by the caller; the objects are not used afterwards.
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
        let content = OwnedContent::new(host, content)?;
        let slot = self.next;
        // SAFETY: guaranteed by the caller, for all of these.
        unsafe {
            // When the slot is still pending, the GPU has had two frames to fill it.
            self.deliver(host, slot)?;
            let saved = SavedState::save(&self.gl, self.embedded);
            let read = self.read(slot, origin, size, rows);
            saved.restore(&self.gl);
            let (converted, rows) = read?;
            let fence = self.gl.fence_sync(glow::SYNC_GPU_COMMANDS_COMPLETE, 0);
            let fence = fence.map_err(|reason| GraphicsError::Gl { what: "make a fence", reason })?;
            self.slots[slot].pending = Some(Pending { size, rows, converted, content, fence });
            self.next = 1 - slot;
            match self.options.delivery {
                Delivery::Immediate => self.deliver(host, slot),
                Delivery::Deferred => self.deliver(host, 1 - slot),
            }
        }
    }

    /// Starts to read a picture into a slot's buffer. Returns whether it is converted, and the order of its rows in the buffer.
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
        // SAFETY: guaranteed by the caller: the context is current and has these objects. The buffer that receives the pixels is large
        // enough.
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
                    let attachment = glow::COLOR_ATTACHMENT0;
                    gl.framebuffer_texture_2d(glow::READ_FRAMEBUFFER, attachment, glow::TEXTURE_2D, Some(texture), 0);
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
                // The program may delete its texture, so that it must not stay attached.
                let attachment = glow::COLOR_ATTACHMENT0;
                self.gl.framebuffer_texture_2d(glow::READ_FRAMEBUFFER, attachment, glow::TEXTURE_2D, None, 0);
            }
            Ok((bytes == 1, rows))
        }
    }

    /// Waits for a slot's picture and submits it.
    unsafe fn deliver(&mut self, host: &Host, slot: usize) -> Result<(), GraphicsError> {
        let Some(Pending { size, rows, converted, content, fence }) = self.slots[slot].pending.take() else {
            return Ok(());
        };
        let (gl, buffer) = (&self.gl, self.slots[slot].buffer);
        let (width, height) = (usize::from(size.width), usize::from(size.height));
        let content = content.content();
        // SAFETY: guaranteed by the caller: the context is current. The buffer contains what `read` has requested.
        unsafe {
            let waited = gl.client_wait_sync(fence, glow::SYNC_FLUSH_COMMANDS_BIT, DRAW_TIMEOUT_NS);
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
                    // After the luma rows, both chroma planes are side by side.
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

/// The source of a picture.
#[derive(Clone, Copy)]
enum Origin {
    Texture(glow::Texture),
    Framebuffer(Option<glow::Framebuffer>),
}

/// Maps the bound pixel buffer and calls `work` with its bytes.
///
/// # Safety
/// The context is current, and the buffer has `length` bytes and is not mapped.
unsafe fn read_mapped(
    gl: &glow::Context,
    length: usize,
    work: impl FnOnce(&[u8]) -> Result<(), GraphicsError>,
) -> Result<(), GraphicsError> {
    // SAFETY: guaranteed by the caller. The bytes are borrowed until they are unmapped.
    unsafe {
        let address = gl.map_buffer_range(glow::PIXEL_PACK_BUFFER, 0, length as i32, glow::MAP_READ_BIT);
        if address.is_null() {
            let reason = "the driver returned no address; is the buffer mapped already?".to_owned();
            return Err(GraphicsError::Gl { what: "map a pixel buffer", reason });
        }
        let done = work(std::slice::from_raw_parts(address, length));
        gl.unmap_buffer(glow::PIXEL_PACK_BUFFER);
        done
    }
}

/// Checks that the bound frame buffer is complete.
///
/// # Safety
/// The context is current.
unsafe fn complete(gl: &glow::Context, target: u32) -> Result<(), GraphicsError> {
    // SAFETY: guaranteed by the caller.
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

/// Returns the function that finds OpenGL's functions, from EGL or GLX, whichever has a current context in this thread.
///
/// # Safety
/// The libraries that the dynamic linker finds by these names have the functions of EGL and GLX.
unsafe fn current_loader() -> Option<GetProcAddress> {
    const LIBRARIES: [(&str, &[u8], &[u8]); 2] = [
        ("libEGL.so.1", b"eglGetCurrentContext\0", b"eglGetProcAddress\0"),
        ("libGL.so.1", b"glXGetCurrentContext\0", b"glXGetProcAddressARB\0"),
    ];
    for (library, current, address) in LIBRARIES {
        // SAFETY: by contract these libraries have functions of these types; opening them runs only their own initialisation.
        unsafe {
            let Ok(library) = libloading::Library::new(library) else { continue };
            let has_context = library.get::<GetCurrentContext>(current).is_ok_and(|current| !current().is_null());
            if has_context && let Ok(loader) = library.get::<GetProcAddress>(address).map(|symbol| *symbol) {
                // The context belongs to the library, so that it must stay loaded.
                std::mem::forget(library);
                return Some(loader);
            }
        }
    }
    None
}
