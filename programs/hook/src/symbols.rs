//! Finds the real functions that this library replaces.
//!
//! A program finds these functions in three ways: it is linked with them, or it calls `dlsym`, or it calls `glXGetProcAddress` or
//! `eglGetProcAddress`. In the first case the dynamic linker finds our function first, and the real one is the next in its search order. In
//! the other cases the real address passes through here and is stored, because a privately opened library is not in the search order.

use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute_copy;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function that this library replaces.
#[derive(Debug)]
pub(crate) struct HookedFunction {
    pub(crate) name: &'static CStr,
    /// The library that contains it, for programs that have opened it privately.
    library: &'static CStr,
    real: AtomicPtr<c_void>,
}

impl HookedFunction {
    const fn new(name: &'static CStr, library: &'static CStr) -> Self {
        Self { name, library, real: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Stores the address of the real function, unless it is `ours`.
    pub(crate) fn on_found(&self, found: *mut c_void, ours: *mut c_void) {
        if !found.is_null() && found != ours {
            self.real.store(found, Ordering::Release);
        }
    }

    /// Returns the real function; `None` if no library in this process has it.
    ///
    /// # Safety
    ///
    /// `F` must be the type of a pointer to a function with this name's signature.
    pub(crate) unsafe fn real<F: Copy>(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let mut found = self.real.load(Ordering::Acquire);
        if found.is_null() {
            found = next_symbol(self.name);
            if found.is_null() {
                found = loaded_symbol(self.library, self.name);
            }
            self.real.store(found, Ordering::Release);
        }
        // SAFETY: the sizes are equal, the pointer is not null, and the caller guarantees the type.
        (!found.is_null()).then(|| unsafe { transmute_copy(&found) })
    }
}

const GLX: &CStr = c"libGL.so.1";
const EGL: &CStr = c"libEGL.so.1";

pub(crate) static GLX_SWAP: HookedFunction = HookedFunction::new(c"glXSwapBuffers", GLX);
pub(crate) static GLX_SWAP_MSC: HookedFunction = HookedFunction::new(c"glXSwapBuffersMscOML", GLX);
pub(crate) static GLX_ADDRESS: HookedFunction = HookedFunction::new(c"glXGetProcAddress", GLX);
pub(crate) static GLX_ADDRESS_ARB: HookedFunction = HookedFunction::new(c"glXGetProcAddressARB", GLX);
pub(crate) static EGL_SWAP: HookedFunction = HookedFunction::new(c"eglSwapBuffers", EGL);
pub(crate) static EGL_SWAP_KHR: HookedFunction = HookedFunction::new(c"eglSwapBuffersWithDamageKHR", EGL);
pub(crate) static EGL_SWAP_EXT: HookedFunction = HookedFunction::new(c"eglSwapBuffersWithDamageEXT", EGL);
pub(crate) static EGL_ADDRESS: HookedFunction = HookedFunction::new(c"eglGetProcAddress", EGL);
pub(crate) static EGL_WINDOW: HookedFunction = HookedFunction::new(c"eglCreateWindowSurface", EGL);
pub(crate) static EGL_PLATFORM_WINDOW: HookedFunction = HookedFunction::new(c"eglCreatePlatformWindowSurface", EGL);
pub(crate) static EGL_PLATFORM_WINDOW_EXT: HookedFunction =
    HookedFunction::new(c"eglCreatePlatformWindowSurfaceEXT", EGL);

/// Finds a function in the libraries after this one; null if none has it.
fn next_symbol(name: &CStr) -> *mut c_void {
    real_dlsym(libc::RTLD_NEXT, name)
}

/// Calls the real `dlsym` from this library, so that `RTLD_NEXT` means the libraries after it.
fn real_dlsym(handle: *mut c_void, name: &CStr) -> *mut c_void {
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    return interposed::real(handle, name);
    #[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
    // SAFETY: the name ends with a zero.
    unsafe {
        libc::dlsym(handle, name.as_ptr())
    }
}

/// Finds a function in a library that the process has already loaded; null if it has not.
pub(crate) fn loaded_symbol(library: &CStr, name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero. The handle is kept, so the library stays.
    unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() { ptr::null_mut() } else { real_dlsym(handle, name) }
    }
}

/// The `dlsym` for the program. It returns this library's functions for the names that they replace. For all others the real `dlsym` runs
/// as if it had been called directly, because its result may depend on the caller.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
pub(crate) mod interposed {
    use super::{AtomicPtr, CStr, Ordering, c_char, c_void, ptr};

    /// The oldest version of `dlsym` on x86-64, which every glibc keeps.
    const OLDEST: &CStr = c"GLIBC_2.2.5";

    static REAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

    type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

    /// # Safety
    ///
    /// The requirements of the C function apply.
    #[cfg_attr(not(test), unsafe(no_mangle))]
    #[unsafe(naked)]
    pub(crate) unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
        core::arch::naked_asm!(
            // Saves both arguments and aligns the stack.
            "push rdi",
            "push rsi",
            "sub rsp, 8",
            "call {choose}",
            "add rsp, 8",
            "pop rsi",
            "pop rdi",
            "test rax, rax",
            "jnz 2f",
            // The caller's return address is on top of the stack, so the real function sees the caller.
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

    /// Calls the real `dlsym` from this library.
    pub(super) fn real(handle: *mut c_void, name: &CStr) -> *mut c_void {
        // SAFETY: this is the address of `dlsym`, and the name ends with a zero.
        unsafe { std::mem::transmute::<*mut c_void, Dlsym>(find())(handle, name.as_ptr()) }
    }

    /// Returns our function if it replaces this name and the real one is found; otherwise null. Afterwards the address of the real `dlsym`
    /// is known.
    unsafe extern "C" fn choose(handle: *mut c_void, name: *const c_char) -> *mut c_void {
        find();
        // A caller that passes `RTLD_NEXT` replaces the function too and needs the real one.
        if name.is_null() || handle == libc::RTLD_NEXT {
            return ptr::null_mut();
        }
        // SAFETY: `dlsym` takes a string that ends with a zero.
        let name = unsafe { CStr::from_ptr(name) };
        let Some((hooked, ours)) = crate::exports::replacement(name) else { return ptr::null_mut() };
        let found = real(handle, name);
        hooked.on_found(found, ours);
        if found.is_null() { ptr::null_mut() } else { ours }
    }
}
