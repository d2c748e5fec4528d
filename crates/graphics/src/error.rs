//! Why a picture was not taken.

use nearlight_embed::HostError;

/// Each says what happened, what it means and what to do.
#[derive(Debug, thiserror::Error)]
pub enum GraphicsError {
    #[error(transparent)]
    Host(#[from] HostError),
    /// The caller's fault.
    #[error(
        "no OpenGL context is current in this thread: make the one current that has the picture, or pass its get_proc_address"
    )]
    NoContext,
    /// The platform's fault.
    #[error("OpenGL {0} is too old: OpenGL 3.3 or OpenGL ES 3.0 is needed")]
    Version(String),
    /// The platform's fault, or an object that the caller's context does not have.
    #[error("OpenGL failed to {what}: {reason}")]
    Gl { what: &'static str, reason: String },
    /// The platform's fault, or a handle that is not of the caller's device.
    #[error("Vulkan failed to {what}: {result}")]
    Vulkan { what: &'static str, result: ash::vk::Result },
    /// The caller's fault.
    #[error("{0}")]
    Argument(&'static str),
    /// The caller's fault, or the exporter does not allow it.
    #[error(
        "the buffer cannot be {what}: {source}; a buffer that only a GPU can read has to be read back through OpenGL"
    )]
    Memory { what: &'static str, source: std::io::Error },
}
