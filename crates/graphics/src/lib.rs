//! Pictures that lie in graphics memory, on their way to a [`Host`](nearlight_embed::Host) in the same process.
//!
//! [`gl::Reader`] takes textures, frame buffers and pixel buffers of an OpenGL context that the program has made current. [`dmabuf`] takes
//! buffers that another device or process exports. Both end in [`Host::submit`](nearlight_embed::Host::submit): one copy out of mapped memory.

pub mod dmabuf;
mod error;
pub mod gl;

pub use error::GraphicsError;
