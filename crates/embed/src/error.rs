//! Why a call was in vain.

use nearlight_codec::CodecError;
use nearlight_server::ServerError;
use nearlight_sound::PortionError;

/// Each says what happened, what it means and what to do.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The caller's fault.
    #[error("the options cannot be used: {0}")]
    Options(String),
    /// The machine's fault, or that of what the options name.
    #[error("the server cannot start: {0}")]
    Server(#[from] ServerError),
    /// The platform's fault.
    #[error("the system gives no thread or event loop: {0}")]
    System(#[from] std::io::Error),
    /// The caller's fault.
    #[error("the picture was not taken: {0}")]
    Picture(#[from] CodecError),
    /// The caller's fault.
    #[error("the picture was not taken: {0}")]
    Views(&'static str),
    /// The caller's fault.
    #[error("the sound was not taken: {0}")]
    Sound(#[from] PortionError),
    /// The caller's fault.
    #[error("the server was opened without sound, which viewers are told when they come: set `sound` in its options")]
    NoSound,
    /// The caller's fault, or the viewer has left meanwhile, of which an event tells.
    #[error("nobody with the number {0} watches; events tell who comes and who leaves")]
    NoViewer(u32),
    /// The caller's fault.
    #[error("{what} has {got} bytes, and at most {most} are carried: split it, or send a name for it")]
    TooLong { what: &'static str, got: usize, most: usize },
    /// The caller's fault.
    #[error("{0}")]
    Output(&'static str),
    /// What waits for viewers has not left yet.
    #[error("more waits for the viewers than is kept: send less, or try again after the next picture")]
    Full,
    #[error("the server was closed: open another one")]
    Closed,
    #[error("the server has ended: {0}")]
    Failed(String),
    /// The caller's fault.
    #[error("the server cannot be closed from its own event callback, which it waits for: close it in another thread")]
    CloseFromCallback,
}
