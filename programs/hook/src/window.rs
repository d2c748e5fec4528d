//! The surfaces into which a program draws, as its graphics interface identifies them.

use std::ffi::{CStr, c_int, c_uint, c_ulong, c_void};
use std::mem::transmute_copy;
use std::sync::OnceLock;

use crate::gl::Loader;
use crate::symbols::loaded_symbol;

type Pointer = *mut c_void;

/// A surface as it was passed to the function that shows its picture.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Surface {
    Glx {
        display: Pointer,
        drawable: c_ulong,
    },
    Egl {
        display: Pointer,
        surface: Pointer,
    },
    /// A swapchain, its size, and its X window if it has one.
    Vulkan {
        swapchain: usize,
        size: (u16, u16),
        window: Option<u32>,
    },
}

type QueryDrawable = unsafe extern "C" fn(Pointer, c_ulong, c_int, *mut c_uint);
type CurrentPointer = unsafe extern "C" fn() -> Pointer;
type CurrentDrawable = unsafe extern "C" fn() -> c_ulong;
type CurrentSurface = unsafe extern "C" fn(c_int) -> Pointer;
type QuerySurface = unsafe extern "C" fn(Pointer, Pointer, c_int, *mut c_int) -> c_uint;
type DisplayString = unsafe extern "C" fn(Pointer) -> *const std::ffi::c_char;

// Values of the registries (glx.xml, egl.xml).
const GLX_SIZE: [c_int; 2] = [0x801D, 0x801E];
const EGL_SIZE: [c_int; 2] = [0x3057, 0x3056];
const EGL_DRAW: c_int = 0x3059;
const EGL_READ: c_int = 0x305A;

/// The functions that query a surface.
struct Functions {
    glx_query: Option<QueryDrawable>,
    glx_context: Option<CurrentPointer>,
    glx_drawn: Option<CurrentDrawable>,
    glx_read: Option<CurrentDrawable>,
    egl_query: Option<QuerySurface>,
    egl_context: Option<CurrentPointer>,
    egl_current: Option<CurrentSurface>,
    display_string: Option<DisplayString>,
}

/// # Safety
///
/// `F` must be the type of a pointer to the function with this name.
unsafe fn load<F: Copy>(libraries: &[&CStr], name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<Pointer>()) };
    let found = libraries.iter().map(|library| loaded_symbol(library, name)).find(|found| !found.is_null())?;
    // SAFETY: the sizes are equal, the pointer is not null, and the caller guarantees the type.
    Some(unsafe { transmute_copy(&found) })
}

fn functions() -> &'static Functions {
    static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
    let (glx, egl): (&[&CStr], &[&CStr]) = (&[c"libGL.so.1", c"libGLX.so.0"], &[c"libEGL.so.1"]);
    // SAFETY: each type is the named function's (glx.xml, egl.xml, Xlib.h).
    FUNCTIONS.get_or_init(|| unsafe {
        Functions {
            glx_query: load(glx, c"glXQueryDrawable"),
            glx_context: load(glx, c"glXGetCurrentContext"),
            glx_drawn: load(glx, c"glXGetCurrentDrawable"),
            glx_read: load(glx, c"glXGetCurrentReadDrawable"),
            egl_query: load(egl, c"eglQuerySurface"),
            egl_context: load(egl, c"eglGetCurrentContext"),
            egl_current: load(egl, c"eglGetCurrentSurface"),
            display_string: load(&[c"libX11.so.6"], c"XDisplayString"),
        }
    })
}

impl Surface {
    /// Returns a key that identifies the surface in this process.
    pub(crate) fn key(self) -> usize {
        match self {
            Self::Glx { drawable, .. } => drawable as usize,
            Self::Egl { surface, .. } => surface as usize,
            // A window gets another swapchain when its size changes.
            Self::Vulkan { swapchain, window, .. } => window.map_or(swapchain, |window| window as usize),
        }
    }

    /// Returns the loader of OpenGL's functions; `None` for Vulkan.
    pub(crate) const fn loader(self) -> Option<Loader> {
        match self {
            Self::Glx { .. } => Some(Loader::Glx),
            Self::Egl { .. } => Some(Loader::Egl),
            Self::Vulkan { .. } => None,
        }
    }

    /// Returns the name of the graphics interface.
    pub(crate) const fn interface(self) -> &'static str {
        match self {
            Self::Glx { .. } => "OpenGL (GLX)",
            Self::Egl { .. } => "OpenGL (EGL)",
            Self::Vulkan { .. } => "Vulkan",
        }
    }

    /// Returns the current context if it draws to this surface and reads from it, which is necessary for reading its picture.
    pub(crate) fn context(self) -> Option<usize> {
        let functions = functions();
        // SAFETY: the types are the functions', which may be called at any time.
        let context = unsafe {
            match self {
                Self::Glx { drawable, .. } => {
                    let is_current = functions.glx_drawn?() == drawable && functions.glx_read?() == drawable;
                    is_current.then_some(functions.glx_context?())?
                }
                Self::Egl { surface, .. } => {
                    let current = functions.egl_current?;
                    let is_current = current(EGL_DRAW) == surface && current(EGL_READ) == surface;
                    is_current.then_some(functions.egl_context?())?
                }
                // Vulkan has no current context.
                Self::Vulkan { .. } => return Some(0),
            }
        };
        (!context.is_null()).then_some(context as usize)
    }

    /// Returns width and height in pixels. With GLX this queries the X server.
    pub(crate) fn size(self) -> Option<(u32, u32)> {
        let functions = functions();
        let sides = match self {
            Self::Glx { display, drawable } => {
                let query = functions.glx_query?;
                GLX_SIZE.map(|attribute| {
                    let mut side = 0;
                    // SAFETY: the caller is showing a picture of this drawable of this display.
                    unsafe { query(display, drawable, attribute, &raw mut side) };
                    side
                })
            }
            Self::Egl { display, surface } => {
                let query = functions.egl_query?;
                EGL_SIZE.map(|attribute| {
                    let mut side = 0;
                    // SAFETY: as above.
                    unsafe { query(display, surface, attribute, &raw mut side) };
                    side.try_into().unwrap_or(0)
                })
            }
            Self::Vulkan { size: (width, height), .. } => [width.into(), height.into()],
        };
        Some((sides[0], sides[1]))
    }

    /// Returns the name of the window's X display; `None` if the interface does not provide it.
    pub(crate) fn display_name(self) -> Option<String> {
        let Self::Glx { display, .. } = self else { return None };
        // SAFETY: the display is valid, and the string lives as long as the display.
        unsafe {
            let name = functions().display_string?(display);
            (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    }
}
