//! Finds out what renders OpenGL on an X display, by asking OpenGL itself.
//!
//! This runs in a separate process, because a driver may crash the process and stays loaded.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::mem;
use std::path::Path;
use std::ptr;

use x11_dl::error::OpenError;
use x11_dl::glx::{GLX_DOUBLEBUFFER, GLX_RED_SIZE, GLX_RGBA, Glx};
use x11_dl::xlib::{AllocNone, CWBorderPixel, CWColormap, InputOutput, True, XSetWindowAttributes, Xlib};

/// `GL_RENDERER` of `glGetString`.
const GL_RENDERER: c_uint = 0x1f01;
/// The device file of NVIDIA's kernel driver.
const NVIDIA_DEVICE: &str = "/dev/nvidiactl";

/// The variable that selects a vendor for GLVND, which loads the driver's OpenGL. Without it GLVND uses the X server's vendor, which is
/// Mesa on Xvfb.
pub(crate) const VENDOR_VARIABLE: &str = "__GLX_VENDOR_LIBRARY_NAME";
pub(crate) const NVIDIA: &str = "nvidia";

/// Returns whether this machine has a graphics card whose driver can render for any X server. NVIDIA's can, because it copies finished
/// pictures to the display. Mesa's drivers require the extension DRI3, which Xvfb does not have.
pub(crate) fn may_draw_anywhere() -> bool {
    Path::new(NVIDIA_DEVICE).exists()
}

/// Returns the name of the OpenGL renderer on the display in `DISPLAY`. To be called once per process.
pub(crate) fn ask() -> Result<String, String> {
    let missing = |error: OpenError| error.to_string();
    let (xlib, glx) = (Xlib::open().map_err(missing)?, Glx::open().map_err(missing)?);
    // SAFETY: the functions come from the libraries, and the pointers that they return are checked before use. All objects stay on this
    // thread and live until the process ends.
    unsafe {
        let display = (xlib.XOpenDisplay)(ptr::null());
        if display.is_null() {
            return Err("the display does not answer".into());
        }
        let screen = (xlib.XDefaultScreen)(display);
        let mut wanted = [GLX_RGBA, GLX_DOUBLEBUFFER, GLX_RED_SIZE, 8, 0];
        let visual = (glx.glXChooseVisual)(display, screen, wanted.as_mut_ptr()).as_ref();
        let visual = visual.ok_or("it has no format for the display's pictures")?;
        let context = (glx.glXCreateContext)(display, ptr::from_ref(visual).cast_mut(), ptr::null_mut(), True);
        if context.is_null() {
            return Err("it makes no context".into());
        }
        let root = (xlib.XRootWindow)(display, screen);
        let mut attributes: XSetWindowAttributes = mem::zeroed();
        attributes.colormap = (xlib.XCreateColormap)(display, root, visual.visual, AllocNone);
        let set = CWColormap | CWBorderPixel;
        let (depth, kind) = (visual.depth, InputOutput as c_uint);
        let window =
            (xlib.XCreateWindow)(display, root, 0, 0, 1, 1, 0, depth, kind, visual.visual, set, &raw mut attributes);
        if (glx.glXMakeCurrent)(display, window, context) == 0 {
            return Err("its context cannot draw into a window".into());
        }
        let get = (glx.glXGetProcAddress)(c"glGetString".as_ptr().cast()).ok_or("it has no glGetString")?;
        let get: unsafe extern "C" fn(c_uint) -> *const c_char = mem::transmute(get);
        let name = get(GL_RENDERER);
        if name.is_null() {
            return Err("it does not tell its name".into());
        }
        // A program swaps buffers, which is when the picture reaches the display.
        (glx.glXSwapBuffers)(display, window);
        let _: c_int = (xlib.XSync)(display, 0);
        Ok(CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}
