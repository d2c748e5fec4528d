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
    #[error("cannot start a thread or event loop: {0}")]
    System(#[from] std::io::Error),
    /// The caller's fault.
    #[error("the picture was rejected: {0}")]
    Picture(#[from] CodecError),
    /// The caller's fault.
    #[error("the picture was rejected: {0}")]
    Views(&'static str),
    /// The caller's fault.
    #[error("the sound was rejected: {0}")]
    Sound(#[from] PortionError),
    /// The caller's fault.
    #[error(
        "the server was opened without sound, and viewers learn that when they connect: set `sound` in its options"
    )]
    NoSound,
    /// The caller's fault, or the viewer has left meanwhile, of which an event tells.
    #[error("there is no viewer with the number {0}; events report who connects and who leaves")]
    NoViewer(u32),
    /// The caller's fault.
    #[error("{what} has {got} bytes, and the limit is {most}: split it, or send a reference to it")]
    TooLong { what: &'static str, got: usize, most: usize },
    /// The caller's fault.
    #[error("{0}")]
    Output(&'static str),
    /// What waits for viewers has not left yet.
    #[error("the queue for the viewers is full: send less, or try again after the next picture")]
    Full,
    #[error("the server was closed: open a new one")]
    Closed,
    #[error("the server has ended: {0}")]
    Failed(String),
    /// The caller's fault.
    #[error("the server cannot be closed from its own event callback: close it in another thread")]
    CloseFromCallback,
}
