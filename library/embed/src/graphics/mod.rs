//! Reads pictures from graphics memory for a [`Host`](crate::Host) in the same process.
//!
//! [`gl::Reader`] reads textures, frame buffers and pixel buffers of an OpenGL context that the program has made current, and
//! [`vulkan::Reader`] images of a Vulkan device. [`dmabuf`] reads buffers that another device or process exports. All of them call
//! [`Host::submit`](crate::Host::submit) with mapped memory, which costs one copy.

mod content;
pub mod dmabuf;
mod error;
pub mod gl;
pub mod vulkan;

pub use error::GraphicsError;
