//! An OpenGL context without a window.

use khronos_egl as egl;

/// `EGL_PLATFORM_SURFACELESS_MESA` of `EGL_MESA_platform_surfaceless`.
const SURFACELESS: egl::Enum = 0x31dd;

/// A current context without a surface.
#[expect(clippy::struct_field_names, reason = "EGL calls it so")]
pub struct Context {
    instance: egl::DynamicInstance<egl::EGL1_5>,
    display: egl::Display,
    context: egl::Context,
}

impl Context {
    pub fn new() -> Self {
        // SAFETY: the distribution's EGL library.
        let instance = unsafe { egl::DynamicInstance::<egl::EGL1_5>::load_required() }.expect("libEGL 1.5");
        // SAFETY: the default display is valid for every platform.
        let [surfaceless, any] = unsafe {
            let surfaceless = instance.get_platform_display(SURFACELESS, egl::DEFAULT_DISPLAY, &[egl::ATTRIB_NONE]);
            [surfaceless.ok(), instance.get_display(egl::DEFAULT_DISPLAY)]
        };
        // Drivers other than Mesa's may offer a display without a screen only as the default one.
        let mut displays = [surfaceless, any].into_iter().flatten();
        let display = displays.find(|display| instance.initialize(*display).is_ok()).expect("a driver");
        instance.bind_api(egl::OPENGL_API).expect("OpenGL");
        let wanted = [egl::RENDERABLE_TYPE, egl::OPENGL_BIT, egl::SURFACE_TYPE, 0, egl::NONE];
        let config = instance.choose_first_config(display, &wanted).expect("configurations").expect("a configuration");
        let version = [
            egl::CONTEXT_MAJOR_VERSION,
            3,
            egl::CONTEXT_MINOR_VERSION,
            3,
            egl::CONTEXT_OPENGL_PROFILE_MASK,
            egl::CONTEXT_OPENGL_CORE_PROFILE_BIT,
            egl::NONE,
        ];
        let context = instance.create_context(display, config, None, &version).expect("a context");
        instance.make_current(display, None, None, Some(context)).expect("it can be current");
        Self { instance, display, context }
    }

    pub fn functions(&self) -> glow::Context {
        // SAFETY: it is current.
        unsafe {
            glow::Context::from_loader_function(|name| {
                self.instance.get_proc_address(name).map_or(std::ptr::null(), |function| function as *const _)
            })
        }
    }
}

impl Context {
    #[allow(dead_code, reason = "the benchmark does not use it")]
    pub fn is_current(&self) -> bool {
        self.instance.get_current_context() == Some(self.context)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let _ = self.instance.make_current(self.display, None, None, None);
        let _ = self.instance.destroy_context(self.display, self.context);
    }
}
