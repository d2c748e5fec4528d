//! The real functions behind those that this library stands in front of.
//!
//! A program gets at them in three ways: it is linked with them, it asks the dynamic linker (`dlsym`), or it asks `glXGetProcAddress`
//! and `eglGetProcAddress`. In the first case the dynamic linker finds ours first, and the real one is the next in its order. In the others
//! the real address passes through here and is remembered, because a library that was opened privately is not in that order.

use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute_copy;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function that this library stands in front of.
#[derive(Debug)]
pub(crate) struct Hooked {
    pub(crate) name: &'static CStr,
    /// The library that holds it, for programs that have opened it privately.
    library: &'static CStr,
    real: AtomicPtr<c_void>,
}

impl Hooked {
    const fn new(name: &'static CStr, library: &'static CStr) -> Self {
        Self { name, library, real: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Notes where the real one is. `ours` is not it.
    pub(crate) fn on_found(&self, found: *mut c_void, ours: *mut c_void) {
        if !found.is_null() && found != ours {
            self.real.store(found, Ordering::Release);
        }
    }

    /// The real one as a function of type `F`; none if no library in this process has it.
    ///
    /// # Safety
    ///
    /// `F` must be the type of a pointer to a function with this name's signature.
    pub(crate) unsafe fn real<F: Copy>(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let mut found = self.real.load(Ordering::Acquire);
        if found.is_null() {
            found = next(self.name);
            if found.is_null() {
                found = of_library(self.library, self.name);
            }
            self.real.store(found, Ordering::Release);
        }
        // SAFETY: the sizes are equal, the pointer is not null, and the caller vouches for the type.
        (!found.is_null()).then(|| unsafe { transmute_copy(&found) })
    }
}

const GLX: &CStr = c"libGL.so.1";
const EGL: &CStr = c"libEGL.so.1";

pub(crate) static GLX_SWAP: Hooked = Hooked::new(c"glXSwapBuffers", GLX);
pub(crate) static GLX_SWAP_MSC: Hooked = Hooked::new(c"glXSwapBuffersMscOML", GLX);
pub(crate) static GLX_ADDRESS: Hooked = Hooked::new(c"glXGetProcAddress", GLX);
pub(crate) static GLX_ADDRESS_ARB: Hooked = Hooked::new(c"glXGetProcAddressARB", GLX);
pub(crate) static EGL_SWAP: Hooked = Hooked::new(c"eglSwapBuffers", EGL);
pub(crate) static EGL_SWAP_KHR: Hooked = Hooked::new(c"eglSwapBuffersWithDamageKHR", EGL);
pub(crate) static EGL_SWAP_EXT: Hooked = Hooked::new(c"eglSwapBuffersWithDamageEXT", EGL);
pub(crate) static EGL_ADDRESS: Hooked = Hooked::new(c"eglGetProcAddress", EGL);
pub(crate) static EGL_WINDOW: Hooked = Hooked::new(c"eglCreateWindowSurface", EGL);
pub(crate) static EGL_PLATFORM_WINDOW: Hooked = Hooked::new(c"eglCreatePlatformWindowSurface", EGL);
pub(crate) static EGL_PLATFORM_WINDOW_EXT: Hooked = Hooked::new(c"eglCreatePlatformWindowSurfaceEXT", EGL);

/// The function of this name in the libraries after this one; null where none has it.
fn next(name: &CStr) -> *mut c_void {
    real_dlsym(libc::RTLD_NEXT, name)
}

/// The real `dlsym`. The call comes from this library, so that "next" means what comes after it.
fn real_dlsym(handle: *mut c_void, name: &CStr) -> *mut c_void {
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    return interposed::real(handle, name);
    #[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
    // SAFETY: the name ends with a zero.
    unsafe {
        libc::dlsym(handle, name.as_ptr())
    }
}

/// The function of this name in a library that the process has loaded already; null where it has not.
pub(crate) fn of_library(library: &CStr, name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero. The handle is kept, so the library stays.
    unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() { ptr::null_mut() } else { real_dlsym(handle, name) }
    }
}

/// `dlsym` for the program. Names that this library stands in front of get its functions; for all others the real `dlsym` runs as if it had
/// been called directly, because its answer may depend on who calls it.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
pub(crate) mod interposed {
    use super::{AtomicPtr, CStr, Ordering, c_char, c_void, ptr};

    /// The oldest version of `dlsym` on x86-64, which every glibc keeps.
    const OLDEST: &CStr = c"GLIBC_2.2.5";

    static REAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

    type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

    /// # Safety
    ///
    /// As the C function's.
    #[cfg_attr(not(test), unsafe(no_mangle))]
    #[unsafe(naked)]
    pub(crate) unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
        core::arch::naked_asm!(
            // Keeps both arguments and aligns the stack.
            "push rdi",
            "push rsi",
            "sub rsp, 8",
            "call {choose}",
            "add rsp, 8",
            "pop rsi",
            "pop rdi",
            "test rax, rax",
            "jnz 2f",
            // The caller's return address is on top of the stack, so the real one sees the caller.
            "jmp qword ptr [rip + {real}]",
            "2:",
            "ret",
            choose = sym choose,
            real = sym REAL,
        )
    }

    fn find() -> *mut c_void {
        let mut real = REAL.load(Ordering::Acquire);
        if real.is_null() {
            // SAFETY: both strings end with a zero.
            real = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), OLDEST.as_ptr()) };
            assert!(!real.is_null(), "glibc has a dlsym");
            REAL.store(real, Ordering::Release);
        }
        real
    }

    /// The real one, called from this library.
    pub(super) fn real(handle: *mut c_void, name: &CStr) -> *mut c_void {
        // SAFETY: this is the address of `dlsym`, and the name ends with a zero.
        unsafe { std::mem::transmute::<*mut c_void, Dlsym>(find())(handle, name.as_ptr()) }
    }

    /// Ours for a name that this library stands in front of, if the library that was asked has the real one. Else null; the real `dlsym` is
    /// known then.
    unsafe extern "C" fn choose(handle: *mut c_void, name: *const c_char) -> *mut c_void {
        find();
        // Who asks for the next one stands in front of it as well and means the real one.
        if name.is_null() || handle == libc::RTLD_NEXT {
            return ptr::null_mut();
        }
        // SAFETY: `dlsym` takes a string that ends with a zero.
        let name = unsafe { CStr::from_ptr(name) };
        let Some((hooked, ours)) = crate::exports::by_name(name) else { return ptr::null_mut() };
        let found = real(handle, name);
        hooked.on_found(found, ours);
        if found.is_null() { ptr::null_mut() } else { ours }
    }
}
