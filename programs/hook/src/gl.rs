//! The functions of OpenGL and OpenGL ES that read back a picture, for any version of the program's context.
//!
//! No call may fail, because the program's next `glGetError` would return the error. Functions that a version lacks are not called.

use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::transmute_copy;

use crate::symbols::{EGL_ADDRESS, GLX_ADDRESS, GLX_ADDRESS_ARB, loaded_symbol};

pub(crate) type Enum = u32;
pub(crate) type Sync = *mut c_void;

// Values and names from the registry (gl.xml).
pub(crate) const BGRA: Enum = 0x80E1;
pub(crate) const RGBA: Enum = 0x1908;
const UNSIGNED_BYTE: Enum = 0x1401;
const PIXEL_PACK_BUFFER: Enum = 0x88EB;
const PIXEL_PACK_BUFFER_BINDING: Enum = 0x88ED;
const STREAM_READ: Enum = 0x88E1;
const MAP_READ_BIT: u32 = 0x0001;
const READ_ONLY: Enum = 0x88B8;
const FRAMEBUFFER: Enum = 0x8D40;
const FRAMEBUFFER_BINDING: Enum = 0x8CA6;
const READ_FRAMEBUFFER: Enum = 0x8CA8;
const READ_FRAMEBUFFER_BINDING: Enum = 0x8CAA;
const READ_BUFFER: Enum = 0x0C02;
const BACK: Enum = 0x0405;
const VERSION: Enum = 0x1F02;
const EXTENSIONS: Enum = 0x1F03;
const SYNC_GPU_COMMANDS_COMPLETE: Enum = 0x9117;
const ALREADY_SIGNALED: Enum = 0x911A;
const CONDITION_SATISFIED: Enum = 0x911C;
const WAIT_FAILED: Enum = 0x911D;
const PACK_ALIGNMENT: Enum = 0x0D05;
/// `GL_PACK_ROW_LENGTH`, `_SKIP_ROWS`, `_SKIP_PIXELS`.
const PACK_OFFSETS: [Enum; 3] = [0x0D02, 0x0D03, 0x0D04];
/// `GL_PACK_SWAP_BYTES`, `_LSB_FIRST`, which OpenGL ES does not have.
const PACK_ORDER: [Enum; 2] = [0x0D00, 0x0D01];

type GetString = unsafe extern "C" fn(Enum) -> *const c_char;
type GetInteger = unsafe extern "C" fn(Enum, *mut i32);
type ReadPixels = unsafe extern "C" fn(i32, i32, i32, i32, Enum, Enum, *mut c_void);
type PixelStore = unsafe extern "C" fn(Enum, i32);
type GenerateNames = unsafe extern "C" fn(i32, *mut u32);
type DeleteNames = unsafe extern "C" fn(i32, *const u32);
type Bind = unsafe extern "C" fn(Enum, u32);
type BufferData = unsafe extern "C" fn(Enum, isize, *const c_void, Enum);
type MapRange = unsafe extern "C" fn(Enum, isize, isize, u32) -> *mut c_void;
type Map = unsafe extern "C" fn(Enum, Enum) -> *mut c_void;
type Unmap = unsafe extern "C" fn(Enum) -> u8;
type ReadBuffer = unsafe extern "C" fn(Enum);
type Fence = unsafe extern "C" fn(Enum, u32) -> Sync;
type ClientWait = unsafe extern "C" fn(Sync, u32, u64) -> Enum;
type DeleteSync = unsafe extern "C" fn(Sync);

/// The interface through which the context was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loader {
    Glx,
    Egl,
}

impl Loader {
    /// Returns the address of a function of the current context; null if it is unknown.
    fn address(self, name: &CStr) -> *mut c_void {
        type Address = unsafe extern "C" fn(*const c_char) -> *mut c_void;
        let (get_address, libraries): (_, &[&CStr]) = match self {
            // SAFETY: the type is both functions'.
            Self::Glx => unsafe { (GLX_ADDRESS_ARB.real::<Address>().or(GLX_ADDRESS.real()), &[c"libGL.so.1"]) },
            // SAFETY: the type is the function's.
            Self::Egl => unsafe {
                (EGL_ADDRESS.real::<Address>(), &[c"libGLESv2.so.2", c"libGL.so.1", c"libOpenGL.so.0"])
            },
        };
        // SAFETY: the name ends with a zero.
        let found = get_address.map_or(std::ptr::null_mut(), |get| unsafe { get(name.as_ptr()) });
        if !found.is_null() {
            return found;
        }
        // Before EGL 1.5, `eglGetProcAddress` need not know the functions of OpenGL ES 2.
        let symbols = libraries.iter().map(|library| loaded_symbol(library, name));
        symbols.into_iter().find(|found| !found.is_null()).unwrap_or(std::ptr::null_mut())
    }

    /// # Safety
    ///
    /// `F` must be the type of a pointer to the function with this name.
    unsafe fn load<F: Copy>(self, name: &str) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let name = CString::new(name).ok()?;
        let found = self.address(&name);
        // SAFETY: the sizes are equal, the pointer is not null, and the caller guarantees the type.
        (!found.is_null()).then(|| unsafe { transmute_copy(&found) })
    }
}

/// The current context's capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the capabilities are independent")]
struct Capabilities {
    es: bool,
    /// Pixel buffers, into which pixels are read asynchronously.
    buffers: bool,
    fences: bool,
    /// Separate framebuffers for drawing and reading.
    separate_framebuffers: bool,
    framebuffers: bool,
}

impl Capabilities {
    /// Derives the capabilities from `GL_VERSION` and, before version 3.0, `GL_EXTENSIONS`.
    fn new(version: &str, extensions: &str) -> Self {
        let es = version.contains("OpenGL ES");
        let numbers = version.split(|letter: char| !(letter.is_ascii_digit() || letter == '.'));
        let number = numbers.into_iter().find(|word| word.contains('.')).unwrap_or("1.0");
        let mut parts = number.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let version = (parts.next().unwrap_or(1), parts.next().unwrap_or(0));
        let has = |name: &str| extensions.split(' ').any(|extension| extension.ends_with(name));
        Self {
            es,
            buffers: version >= if es { (3, 0) } else { (2, 1) },
            fences: version >= if es { (3, 0) } else { (3, 2) } || !es && has("_ARB_sync"),
            separate_framebuffers: version >= (3, 0) || !es && has("_framebuffer_blit"),
            framebuffers: es || version >= (3, 0) || has("_framebuffer_object"),
        }
    }
}

/// The current context's functions.
#[derive(Debug)]
pub(crate) struct Gl {
    capabilities: Capabilities,
    get_integer: GetInteger,
    read_pixels: ReadPixels,
    pixel_store: PixelStore,
    bind_framebuffer: Option<Bind>,
    read_buffer: Option<ReadBuffer>,
    buffers: Option<Buffers>,
    fences: Option<Fences>,
}

#[derive(Debug)]
struct Buffers {
    generate: GenerateNames,
    delete: DeleteNames,
    bind: Bind,
    data: BufferData,
    map_range: Option<MapRange>,
    map: Option<Map>,
    unmap: Unmap,
}

#[derive(Debug)]
struct Fences {
    insert: Fence,
    wait: ClientWait,
    delete: DeleteSync,
}

/// The program's OpenGL state, which is restored after reading.
#[derive(Debug)]
struct SavedState {
    pack: Vec<(Enum, i32)>,
    buffer: Option<u32>,
    framebuffer: Option<u32>,
    /// The read buffer of the window's framebuffer.
    source: Option<Enum>,
}

impl Gl {
    /// Loads the functions. Returns `None` if the context lacks functions of OpenGL ES 2.
    ///
    /// # Safety
    ///
    /// A context of this interface is current in this thread.
    pub(crate) unsafe fn load(loader: Loader) -> Option<Self> {
        // SAFETY: each type is the named function's (gl.xml); the strings that GL returns live as long as the context.
        unsafe {
            let get_string: GetString = loader.load("glGetString")?;
            let text = |name: Enum| {
                let text = get_string(name);
                if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
            };
            let version = text(VERSION);
            // From version 3.1 on, the core profile does not have this string, and querying it is an error.
            let has_string = version.starts_with("1.") || version.starts_with("2.");
            let capabilities = Capabilities::new(&version, &if has_string { text(EXTENSIONS) } else { String::new() });
            let buffers = || {
                Some(Buffers {
                    generate: loader.load("glGenBuffers")?,
                    delete: loader.load("glDeleteBuffers")?,
                    bind: loader.load("glBindBuffer")?,
                    data: loader.load("glBufferData")?,
                    map_range: capabilities.separate_framebuffers.then(|| loader.load("glMapBufferRange")).flatten(),
                    map: loader.load("glMapBuffer"),
                    unmap: loader.load("glUnmapBuffer")?,
                })
            };
            let fences = || {
                Some(Fences {
                    insert: loader.load("glFenceSync")?,
                    wait: loader.load("glClientWaitSync")?,
                    delete: loader.load("glDeleteSync")?,
                })
            };
            let bind_framebuffer = || loader.load("glBindFramebuffer").or_else(|| loader.load("glBindFramebufferEXT"));
            Some(Self {
                capabilities,
                get_integer: loader.load("glGetIntegerv")?,
                read_pixels: loader.load("glReadPixels")?,
                pixel_store: loader.load("glPixelStorei")?,
                bind_framebuffer: capabilities.framebuffers.then(bind_framebuffer).flatten(),
                read_buffer: (!capabilities.es || capabilities.buffers).then(|| loader.load("glReadBuffer")).flatten(),
                buffers: capabilities.buffers.then(buffers).flatten(),
                fences: capabilities.fences.then(fences).flatten(),
            })
        }
    }

    /// Returns the format in which pixels are read.
    pub(crate) const fn order(&self) -> Enum {
        // OpenGL ES guarantees RGBA only. Windows of OpenGL usually hold BGRA, which then needs no conversion.
        if self.capabilities.es { RGBA } else { BGRA }
    }

    pub(crate) const fn has_buffers(&self) -> bool {
        self.buffers.is_some()
    }

    fn get(&self, name: Enum) -> i32 {
        let mut value = 0;
        // SAFETY: the context is current, and the names used here have one value.
        unsafe { (self.get_integer)(name, &raw mut value) };
        value
    }

    fn pack_names(&self) -> impl Iterator<Item = Enum> + use<> {
        let place = if self.capabilities.es && !self.capabilities.buffers { &[][..] } else { &PACK_OFFSETS[..] };
        let order = if self.capabilities.es { &[][..] } else { &PACK_ORDER[..] };
        std::iter::once(PACK_ALIGNMENT).chain(place.iter().copied()).chain(order.iter().copied())
    }

    const fn framebuffer_names(&self) -> (Enum, Enum) {
        if self.capabilities.separate_framebuffers {
            (READ_FRAMEBUFFER, READ_FRAMEBUFFER_BINDING)
        } else {
            (FRAMEBUFFER, FRAMEBUFFER_BINDING)
        }
    }

    /// Prepares to read the window's picture, with rows without padding. Returns the state to restore.
    fn prepare(&self) -> SavedState {
        let pack: Vec<_> = self.pack_names().map(|name| (name, self.get(name))).collect();
        let (target, binding) = self.framebuffer_names();
        let framebuffer = self.bind_framebuffer.map(|bind| {
            let bound = self.get(binding) as u32;
            if bound != 0 {
                // SAFETY: the context is current; 0 names the window's framebuffer.
                unsafe { bind(target, 0) };
            }
            bound
        });
        let source = self.read_buffer.map(|read_buffer| {
            let source = self.get(READ_BUFFER) as Enum;
            if source != BACK {
                // SAFETY: the context is current, and its window has a back buffer, which is about to be swapped.
                unsafe { read_buffer(BACK) };
            }
            source
        });
        for (name, value) in &pack {
            let default = if *name == PACK_ALIGNMENT { 4 } else { 0 };
            if *value != default {
                // SAFETY: the context is current and knows the name, because it has returned its value.
                unsafe { (self.pixel_store)(*name, default) };
            }
        }
        SavedState { pack, buffer: self.bound_buffer(), framebuffer, source }
    }

    fn bound_buffer(&self) -> Option<u32> {
        self.buffers.as_ref().map(|_| self.get(PIXEL_PACK_BUFFER_BINDING) as u32)
    }

    fn bind_buffer(&self, name: u32) {
        if let Some(buffers) = &self.buffers {
            // SAFETY: the context is current and knows the target; the name is one of the program's or ours.
            unsafe { (buffers.bind)(PIXEL_PACK_BUFFER, name) };
        }
    }

    fn restore(&self, saved: SavedState) {
        let SavedState { pack, buffer, framebuffer, source } = saved;
        if let Some(buffer) = buffer {
            self.bind_buffer(buffer);
        }
        for (name, value) in pack {
            let default = if name == PACK_ALIGNMENT { 4 } else { 0 };
            if value != default {
                // SAFETY: as above, where it was changed.
                unsafe { (self.pixel_store)(name, value) };
            }
        }
        if let (Some(read_buffer), Some(source)) = (self.read_buffer, source.filter(|source| *source != BACK)) {
            // SAFETY: the window's framebuffer is still bound, and had this source before.
            unsafe { read_buffer(source) };
        }
        if let (Some(bind), Some(name)) = (self.bind_framebuffer, framebuffer.filter(|name| *name != 0)) {
            // SAFETY: the program had bound it.
            unsafe { bind(self.framebuffer_names().0, name) };
        }
    }

    /// Creates a buffer of this many bytes. Returns 0 if the context has no buffers.
    pub(crate) fn new_buffer(&self, bytes: usize) -> u32 {
        let Some(buffers) = &self.buffers else { return 0 };
        let (before, mut name) = (self.bound_buffer(), 0);
        // SAFETY: the context is current; the buffer is new and its contents are not read from memory.
        unsafe {
            (buffers.generate)(1, &raw mut name);
            (buffers.bind)(PIXEL_PACK_BUFFER, name);
            (buffers.data)(PIXEL_PACK_BUFFER, bytes as isize, std::ptr::null(), STREAM_READ);
        }
        self.bind_buffer(before.unwrap_or(0));
        name
    }

    pub(crate) fn delete_buffer(&self, name: u32) {
        if let Some(buffers) = &self.buffers {
            // SAFETY: the context is current, and the buffer is ours.
            unsafe { (buffers.delete)(1, &raw const name) };
        }
    }

    /// Starts copying the window's picture into one of our buffers. Returns a fence that is signalled when it is done, if the context has
    /// fences.
    pub(crate) fn start_reading(&self, buffer: u32, (width, height): (u16, u16)) -> Option<Sync> {
        let saved = self.prepare();
        self.bind_buffer(buffer);
        // SAFETY: the context is current; the buffer is bound and has width times height times four bytes, so the pointer is an offset.
        unsafe {
            let to = std::ptr::null_mut();
            (self.read_pixels)(0, 0, width.into(), height.into(), self.order(), UNSIGNED_BYTE, to);
        }
        self.restore(saved);
        // SAFETY: the context is current; these are the only valid arguments.
        self.fences.as_ref().map(|fences| unsafe { (fences.insert)(SYNC_GPU_COMMANDS_COMPLETE, 0) })
    }

    /// Copies the window's picture into memory and waits for it. For contexts without buffers.
    pub(crate) fn read(&self, to: &mut [u8], (width, height): (u16, u16)) {
        assert_eq!(to.len(), usize::from(width) * usize::from(height) * 4, "the memory has the picture's size");
        let saved = self.prepare();
        // SAFETY: the context is current and has no buffers, so the pointer is an address; the memory has been checked.
        unsafe {
            let to = to.as_mut_ptr().cast();
            (self.read_pixels)(0, 0, width.into(), height.into(), self.order(), UNSIGNED_BYTE, to);
        }
        self.restore(saved);
    }

    /// Returns whether a copy is complete, without waiting.
    pub(crate) fn is_done(&self, sync: Sync) -> bool {
        let Some(fences) = &self.fences else { return true };
        // SAFETY: the context is current, and the object is ours and not deleted.
        let state = unsafe { (fences.wait)(sync, 0, 0) };
        matches!(state, ALREADY_SIGNALED | CONDITION_SATISFIED | WAIT_FAILED)
    }

    pub(crate) fn delete_sync(&self, sync: Sync) {
        if let Some(fences) = &self.fences {
            // SAFETY: as above.
            unsafe { (fences.delete)(sync) };
        }
    }

    /// Passes the contents of one of our buffers to `use_bytes`. Waits until the copy into it is complete.
    pub(crate) fn with_buffer(&self, name: u32, bytes: usize, use_bytes: impl FnOnce(&[u8])) {
        let Some(buffers) = &self.buffers else { return };
        let before = self.bound_buffer().unwrap_or(0);
        self.bind_buffer(name);
        // SAFETY: the context is current; the bound buffer is ours, has this many bytes and is not mapped.
        let mapped = unsafe {
            match (buffers.map_range, buffers.map) {
                (Some(map), _) => map(PIXEL_PACK_BUFFER, 0, bytes as isize, MAP_READ_BIT),
                (None, Some(map)) => map(PIXEL_PACK_BUFFER, READ_ONLY),
                (None, None) => std::ptr::null_mut(),
            }
        };
        if !mapped.is_null() {
            // SAFETY: the driver has mapped this many bytes for reading until the buffer is unmapped below.
            use_bytes(unsafe { std::slice::from_raw_parts(mapped.cast(), bytes) });
            // SAFETY: it is mapped.
            unsafe { (buffers.unmap)(PIXEL_PACK_BUFFER) };
        }
        self.bind_buffer(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abilities_follow_from_the_version() {
        let capabilities = |es, buffers, fences, separate_framebuffers, framebuffers| Capabilities {
            es,
            buffers,
            fences,
            separate_framebuffers,
            framebuffers,
        };
        for (version, extensions, expected) in [
            ("4.5 (Compatibility Profile) Mesa 22.3.6", "", capabilities(false, true, true, true, true)),
            ("3.1 Mesa 20.0", "", capabilities(false, true, false, true, true)),
            ("2.1 Mesa 22.3.6", "GL_ARB_sync GL_EXT_framebuffer_object", capabilities(false, true, true, false, true)),
            ("1.4 (2.1 Mesa)", "", capabilities(false, false, false, false, false)),
            ("OpenGL ES 3.2 Mesa 22.3.6", "", capabilities(true, true, true, true, true)),
            ("OpenGL ES 2.0 (ANGLE)", "GL_OES_EGL_sync", capabilities(true, false, false, false, true)),
            ("OpenGL ES-CM 1.1", "", capabilities(true, false, false, false, true)),
            ("", "", capabilities(false, false, false, false, false)),
        ] {
            assert_eq!(Capabilities::new(version, extensions), expected, "{version}");
        }
    }
}
