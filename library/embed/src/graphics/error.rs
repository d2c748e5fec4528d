//! Errors of reading pictures from graphics memory.

use crate::HostError;

/// An error of reading a picture. Each message says what happened, what it means and what to do.
#[derive(Debug, thiserror::Error)]
pub enum GraphicsError {
    #[error(transparent)]
    Host(#[from] HostError),
    /// No context is current: an error of the caller.
    #[error(
        "no OpenGL context is current in this thread: make the one current that has the picture, or pass its get_proc_address"
    )]
    NoContext,
    /// The platform's OpenGL is too old.
    #[error("OpenGL {0} is too old: OpenGL 3.3 or OpenGL ES 3.0 is needed")]
    Version(String),
    /// OpenGL reported an error: a failure of the platform, or an object that does not belong to the caller's context.
    #[error("OpenGL failed to {what}: {reason}")]
    Gl { what: &'static str, reason: String },
    /// Vulkan reported an error: a failure of the platform, or a handle that does not belong to the caller's device.
    #[error("Vulkan failed to {what}: {result}")]
    Vulkan { what: &'static str, result: ash::vk::Result },
    /// An argument is invalid: an error of the caller.
    #[error("{0}")]
    Argument(&'static str),
    /// The buffer's memory cannot be mapped or read: an error of the caller, or the exporter does not allow it.
    #[error(
        "the buffer cannot be {what}: {source}; a buffer that only a GPU can read has to be read back through OpenGL"
    )]
    Memory { what: &'static str, source: std::io::Error },
}
