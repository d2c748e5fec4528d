//! Pictures that lie in graphics memory, on their way to a [`Host`](nearlight_embed::Host) in the same process.
//!
//! [`gl::Reader`] takes textures, frame buffers and pixel buffers of an OpenGL context that the program has made current,
//! [`vulkan::Reader`] images of a Vulkan device. [`dmabuf`] takes buffers that another device or process exports. All end in
//! [`Host::submit`](nearlight_embed::Host::submit): one copy out of mapped memory.

pub mod dmabuf;
mod error;
pub mod gl;
mod kept;
pub mod vulkan;

pub use error::GraphicsError;
