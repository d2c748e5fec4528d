//! The functions that the program calls instead of the real ones.
//!
//! Each passes its arguments on unchanged and returns the real function's result. A failure here never affects the program.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::stream::{self, Surface};
use crate::symbols::{
    EGL_ADDRESS, EGL_PLATFORM_WINDOW, EGL_PLATFORM_WINDOW_EXT, EGL_SWAP, EGL_SWAP_EXT, EGL_SWAP_KHR, EGL_WINDOW,
    GLX_ADDRESS, GLX_ADDRESS_ARB, GLX_SWAP, GLX_SWAP_MSC, HookedFunction,
};

type Pointer = *mut c_void;
type XId = std::ffi::c_ulong;

/// EGL's `EGL_FALSE`, which is also returned if the driver lacks a function.
const EGL_FALSE: u32 = 0;

type GlxSwap = unsafe extern "C" fn(Pointer, XId);
type GlxSwapMsc = unsafe extern "C" fn(Pointer, XId, i64, i64, i64) -> i64;
type EglSwap = unsafe extern "C" fn(Pointer, Pointer) -> u32;
type EglSwapDamage = unsafe extern "C" fn(Pointer, Pointer, *mut i32, i32) -> u32;
type GlxAddress = unsafe extern "C" fn(*const u8) -> Pointer;
type EglAddress = unsafe extern "C" fn(*const c_char) -> Pointer;
type EglWindow = unsafe extern "C" fn(Pointer, Pointer, usize, *const i32) -> Pointer;
type EglPlatformWindow = unsafe extern "C" fn(Pointer, Pointer, *const usize, *const isize) -> Pointer;
type EglPlatformWindowExt = unsafe extern "C" fn(Pointer, Pointer, *const usize, *const i32) -> Pointer;

/// Returns the replacement of the function with this name.
pub(crate) fn replacement(name: &CStr) -> Option<(&'static HookedFunction, Pointer)> {
    let all: [(&'static HookedFunction, Pointer); 11] = [
        (&GLX_SWAP, glXSwapBuffers as GlxSwap as Pointer),
        (&GLX_SWAP_MSC, glXSwapBuffersMscOML as GlxSwapMsc as Pointer),
        (&GLX_ADDRESS, glXGetProcAddress as GlxAddress as Pointer),
        (&GLX_ADDRESS_ARB, glXGetProcAddressARB as GlxAddress as Pointer),
        (&EGL_SWAP, eglSwapBuffers as EglSwap as Pointer),
        (&EGL_SWAP_KHR, eglSwapBuffersWithDamageKHR as EglSwapDamage as Pointer),
        (&EGL_SWAP_EXT, eglSwapBuffersWithDamageEXT as EglSwapDamage as Pointer),
        (&EGL_ADDRESS, eglGetProcAddress as EglAddress as Pointer),
        (&EGL_WINDOW, eglCreateWindowSurface as EglWindow as Pointer),
        (&EGL_PLATFORM_WINDOW, eglCreatePlatformWindowSurface as EglPlatformWindow as Pointer),
        (&EGL_PLATFORM_WINDOW_EXT, eglCreatePlatformWindowSurfaceEXT as EglPlatformWindowExt as Pointer),
    ];
    // Most names that programs look up have other prefixes.
    let bytes = name.to_bytes();
    if !(bytes.starts_with(b"glX") || bytes.starts_with(b"egl")) {
        return None;
    }
    all.into_iter().find(|(hooked, _)| hooked.name == name)
}

/// Returns our function if it replaces the one that `GetProcAddress` has found, and otherwise the one found.
fn replace(name: &CStr, found: Pointer) -> Pointer {
    match replacement(name) {
        Some((hooked, ours)) if !found.is_null() => {
            hooked.on_found(found, ours);
            ours
        }
        _ => found,
    }
}

/// # Safety
///
/// The requirements of the C function apply.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case)]
pub(crate) unsafe extern "C" fn glXSwapBuffers(display: Pointer, drawable: XId) {
    // SAFETY: the type is the function's.
    let Some(real) = (unsafe { GLX_SWAP.real::<GlxSwap>() }) else { return };
    // SAFETY: the caller's arguments are passed on unchanged.
    stream::swap(&Surface::Glx { display, drawable }, || unsafe { real(display, drawable) });
}

/// # Safety
///
/// The requirements of the C function apply.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case)]
pub(crate) unsafe extern "C" fn glXSwapBuffersMscOML(
    display: Pointer,
    drawable: XId,
    target: i64,
    divisor: i64,
    remainder: i64,
) -> i64 {
    // SAFETY: the type is the function's.
    let Some(real) = (unsafe { GLX_SWAP_MSC.real::<GlxSwapMsc>() }) else { return -1 };
    // SAFETY: the caller's arguments are passed on unchanged.
    let swap = || unsafe { real(display, drawable, target, divisor, remainder) };
    stream::swap(&Surface::Glx { display, drawable }, swap)
}

/// # Safety
///
/// The requirements of the C function apply.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case)]
pub(crate) unsafe extern "C" fn eglSwapBuffers(display: Pointer, surface: Pointer) -> u32 {
    // SAFETY: the type is the function's.
    let Some(real) = (unsafe { EGL_SWAP.real::<EglSwap>() }) else { return EGL_FALSE };
    // SAFETY: the caller's arguments are passed on unchanged.
    stream::swap(&Surface::Egl { display, surface }, || unsafe { real(display, surface) })
}

/// # Safety
///
/// The requirements of the C function apply.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case)]
pub(crate) unsafe extern "C" fn eglSwapBuffersWithDamageKHR(
    display: Pointer,
    surface: Pointer,
    areas: *mut i32,
    count: i32,
) -> u32 {
    // SAFETY: the type is the function's.
    let Some(real) = (unsafe { EGL_SWAP_KHR.real::<EglSwapDamage>() }) else { return EGL_FALSE };
    // SAFETY: the caller's arguments are passed on unchanged.
    stream::swap(&Surface::Egl { display, surface }, || unsafe { real(display, surface, areas, count) })
}

/// # Safety
///
/// The requirements of the C function apply.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case)]
pub(crate) unsafe extern "C" fn eglSwapBuffersWithDamageEXT(
    display: Pointer,
    surface: Pointer,
    areas: *mut i32,
    count: i32,
) -> u32 {
    // SAFETY: the type is the function's.
    let Some(real) = (unsafe { EGL_SWAP_EXT.real::<EglSwapDamage>() }) else { return EGL_FALSE };
    // SAFETY: the caller's arguments are passed on unchanged.
    stream::swap(&Surface::Egl { display, surface }, || unsafe { real(display, surface, areas, count) })
}

/// # Safety
///
/// The requirements of the C function apply.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case)]
pub(crate) unsafe extern "C" fn glXGetProcAddress(name: *const u8) -> Pointer {
    // SAFETY: the type is the function's, and the caller passes a string that ends with a zero.
    unsafe { GLX_ADDRESS.real::<GlxAddress>().map_or(std::ptr::null_mut(), |real| address(name.cast(), real(name))) }
}

/// # Safety
///
/// The requirements of the C function apply.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case)]
pub(crate) unsafe extern "C" fn glXGetProcAddressARB(name: *const u8) -> Pointer {
    // SAFETY: as above.
    unsafe {
        GLX_ADDRESS_ARB.real::<GlxAddress>().map_or(std::ptr::null_mut(), |real| address(name.cast(), real(name)))
    }
}

/// # Safety
///
/// The requirements of the C function apply.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case)]
pub(crate) unsafe extern "C" fn eglGetProcAddress(name: *const c_char) -> Pointer {
    // SAFETY: as above.
    unsafe { EGL_ADDRESS.real::<EglAddress>().map_or(std::ptr::null_mut(), |real| address(name, real(name))) }
}

/// # Safety
///
/// `name` is null or a string that ends with a zero.
unsafe fn address(name: *const c_char, found: Pointer) -> Pointer {
    // SAFETY: guaranteed by the caller.
    if name.is_null() { found } else { replace(unsafe { CStr::from_ptr(name) }, found) }
}

/// # Safety
///
/// The requirements of the C function apply.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case)]
pub(crate) unsafe extern "C" fn eglCreateWindowSurface(
    display: Pointer,
    config: Pointer,
    window: usize,
    attributes: *const i32,
) -> Pointer {
    // SAFETY: the type is the function's.
    let Some(real) = (unsafe { EGL_WINDOW.real::<EglWindow>() }) else { return std::ptr::null_mut() };
    // SAFETY: the caller's arguments are passed on unchanged.
    let surface = unsafe { real(display, config, window, attributes) };
    stream::on_surface(surface, window);
    surface
}

/// # Safety
///
/// The requirements of the C function apply.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case)]
pub(crate) unsafe extern "C" fn eglCreatePlatformWindowSurface(
    display: Pointer,
    config: Pointer,
    window: *const usize,
    attributes: *const isize,
) -> Pointer {
    // SAFETY: the type is the function's.
    let real = unsafe { EGL_PLATFORM_WINDOW.real::<EglPlatformWindow>() };
    let Some(real) = real else { return std::ptr::null_mut() };
    // SAFETY: the caller's arguments are passed on unchanged.
    let surface = unsafe { real(display, config, window, attributes) };
    on_platform_surface(surface, window);
    surface
}

/// # Safety
///
/// The requirements of the C function apply.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case)]
pub(crate) unsafe extern "C" fn eglCreatePlatformWindowSurfaceEXT(
    display: Pointer,
    config: Pointer,
    window: *const usize,
    attributes: *const i32,
) -> Pointer {
    // SAFETY: the type is the function's.
    let real = unsafe { EGL_PLATFORM_WINDOW_EXT.real::<EglPlatformWindowExt>() };
    let Some(real) = real else { return std::ptr::null_mut() };
    // SAFETY: the caller's arguments are passed on unchanged.
    let surface = unsafe { real(display, config, window, attributes) };
    on_platform_surface(surface, window);
    surface
}

/// Records the window of a platform surface. On X11 `window` points to a window's id. On other platforms it points to a structure, whose
/// first word is not a window of this process, which is checked before it is used.
fn on_platform_surface(surface: Pointer, window: *const usize) {
    if !surface.is_null() && window.is_aligned() && !window.is_null() {
        // SAFETY: the driver has accepted it as a pointer to an id or to a structure of several words.
        stream::on_surface(surface, unsafe { *window });
    }
}

/// The function that the dynamic linker calls when the library is loaded.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = {
    extern "C" fn on_load() {
        crate::process::on_load();
    }
    on_load
};

/// Is called by `exit`.
pub(crate) extern "C" fn on_exit() {
    stream::close();
}

/// Is called in a child process after `fork`.
pub(crate) extern "C" fn on_fork() {
    stream::on_fork();
}

/// Registers both callbacks. Returns 0 on success.
pub(crate) fn register_process_callbacks() -> c_int {
    // SAFETY: both functions stay valid, because a preloaded library is never unloaded.
    unsafe { libc::atexit(on_exit) | libc::pthread_atfork(None, None, Some(on_fork)) }
}
