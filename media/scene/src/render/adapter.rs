//! Selection of the graphics adapter.

use std::future::Future;
use std::pin::pin;
use std::str::FromStr;
use std::task::{Context, Poll, Waker};

use crate::SceneError;

/// The graphics interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// A GPU through Vulkan, or else the faster of the software renderers.
    #[default]
    Auto,
    Vulkan,
    Gl,
}

impl Backend {
    /// The environment variable that overrides [`Backend::Auto`].
    pub const VARIABLE: &'static str = "NEARLIGHT_BACKEND";

    /// Returns `self`, or if that is `Auto` the backend that the environment variable names.
    pub fn or_environment(self) -> Result<Self, SceneError> {
        match (self, std::env::var(Self::VARIABLE)) {
            (Self::Auto, Ok(name)) => name.parse(),
            _ => Ok(self),
        }
    }
}

impl FromStr for Backend {
    type Err = SceneError;

    fn from_str(name: &str) -> Result<Self, SceneError> {
        match name {
            "auto" | "" => Ok(Self::Auto),
            "vulkan" => Ok(Self::Vulkan),
            "gl" => Ok(Self::Gl),
            _ => Err(SceneError::Adapter(format!("there is no backend `{name}`: use auto, vulkan or gl"))),
        }
    }
}

/// A description of an adapter for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterSummary {
    pub name: String,
    pub driver: String,
    /// `Vulkan` or `OpenGL`.
    pub backend: &'static str,
    /// Whether the adapter is a software renderer.
    pub software: bool,
    /// The longest side of a picture, in pixels.
    pub max_side: u32,
}

impl AdapterSummary {
    /// Returns the interface of this adapter.
    pub fn interface(&self) -> Backend {
        match self.backend {
            "OpenGL" => Backend::Gl,
            "Vulkan" => Backend::Vulkan,
            _ => Backend::Auto,
        }
    }

    /// Returns interface, driver and kind, for people.
    pub(super) fn details(&self) -> String {
        let kind = if self.software { ", software" } else { "" };
        let driver = if self.driver.is_empty() { String::new() } else { format!(", {}", self.driver) };
        format!("{}{driver}{kind}", self.backend)
    }
}

impl std::fmt::Display for AdapterSummary {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} ({})", self.name, self.details())
    }
}

/// Returns all usable adapters, the preferred one first.
pub fn list_adapters() -> Vec<AdapterSummary> {
    candidates(Backend::Auto).iter().map(summary).collect()
}

pub(super) fn summary(adapter: &wgpu::Adapter) -> AdapterSummary {
    let info = adapter.get_info();
    // Mesa's adapter name already contains LLVM's version, which the driver's fields repeat.
    let driver =
        [info.driver, info.driver_info].into_iter().filter(|text| !text.is_empty() && !info.name.contains(text));
    AdapterSummary {
        driver: driver.collect::<Vec<_>>().join(" "),
        backend: if info.backend == wgpu::Backend::Gl { "OpenGL" } else { "Vulkan" },
        software: info.device_type == wgpu::DeviceType::Cpu,
        max_side: adapter.limits().max_texture_dimension_2d,
        name: info.name,
    }
}

/// Returns the adapters to try, best first: GPUs, then software renderers.
pub(super) fn candidates(backend: Backend) -> Vec<wgpu::Adapter> {
    let backends = match backend {
        Backend::Auto => wgpu::Backends::VULKAN | wgpu::Backends::GL | wgpu::Backends::METAL | wgpu::Backends::DX12,
        Backend::Vulkan => wgpu::Backends::VULKAN,
        Backend::Gl => wgpu::Backends::GL,
    };
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = backends;
    descriptor.flags = wgpu::InstanceFlags::empty();
    let instance = wgpu::Instance::new(descriptor);
    let mut adapters = wait(instance.enumerate_adapters(backends)).unwrap_or_default();
    adapters.sort_by_key(|adapter| {
        let info = adapter.get_info();
        let kind = match info.device_type {
            wgpu::DeviceType::DiscreteGpu => 0,
            wgpu::DeviceType::IntegratedGpu => 1,
            wgpu::DeviceType::VirtualGpu => 2,
            wgpu::DeviceType::Other => 3,
            wgpu::DeviceType::Cpu => 4,
        };
        (kind, info.backend == wgpu::Backend::Gl)
    });
    adapters
}

/// Returns the result of a request to the graphics library, which completes at once on every system but the web.
pub(super) fn wait<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
