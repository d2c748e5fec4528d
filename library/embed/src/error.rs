//! Errors of the library's calls.

use nearlight_codec::CodecError;
use nearlight_server::ServerError;
use nearlight_sound::PortionError;

/// An error of a call. Each message says what happened, what it means and what to do.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The options are invalid: an error of the caller.
    #[error("the options cannot be used: {0}")]
    Options(String),
    /// The machine, or a file, port or interface that the options name, prevents the server from starting.
    #[error("the server cannot start: {0}")]
    Server(#[from] ServerError),
    /// The operating system refused a thread or an event loop.
    #[error("cannot start a thread or event loop: {0}")]
    System(#[from] std::io::Error),
    /// The picture's size, format or memory is invalid: an error of the caller.
    #[error("the picture was rejected: {0}")]
    Picture(#[from] CodecError),
    /// The picture does not match its views or planes: an error of the caller.
    #[error("the picture was rejected: {0}")]
    Views(&'static str),
    /// The sound's format is invalid: an error of the caller.
    #[error("the sound was rejected: {0}")]
    Sound(#[from] PortionError),
    /// Sound was submitted to a server without sound: an error of the caller.
    #[error(
        "the server was opened without sound, and viewers learn that when they connect: set `sound` in its options"
    )]
    NoSound,
    /// There is no such viewer: an error of the caller, unless the viewer has just left, which an event reports.
    #[error("there is no viewer with the number {0}; events report who connects and who leaves")]
    NoViewer(u32),
    /// A message or text has more bytes than allowed: an error of the caller.
    #[error("{what} has {got} bytes, and the limit is {most}: split it, or send a reference to it")]
    TooLong { what: &'static str, got: usize, most: usize },
    /// An argument of an output to viewers, or of the event callback, is invalid: an error of the caller.
    #[error("{0}")]
    Output(&'static str),
    /// Too many outputs to viewers are queued.
    #[error("the queue for the viewers is full: send less, or try again after the next picture")]
    Full,
    /// The program has closed the server.
    #[error("the server was closed: open a new one")]
    Closed,
    /// The server has ended by itself.
    #[error("the server has ended: {0}")]
    Failed(String),
    /// `close` was called from the event callback: an error of the caller.
    #[error("the server cannot be closed from its own event callback: close it in another thread")]
    CloseFromCallback,
}
