//! Errors of a viewer, with messages that say what to do.

use std::io;
use std::path::PathBuf;

use nearlight_codec::CodecError;
use nearlight_net::NetError;
use nearlight_sound::OpusError;
use nearlight_wire::{RefusalReason, WireError};

use crate::MessageError;

/// The exit status of a program that ends with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitClass {
    /// Any other error: exit code 1.
    Other,
    /// The server refused: exit code 4, because 2 is that of wrong usage.
    Refused,
    /// No server answered, or no picture ever arrived: exit code 3.
    TimedOut,
}

impl ExitClass {
    /// The exit code of the process.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Other => 1,
            Self::Refused => 4,
            Self::TimedOut => 3,
        }
    }
}

/// Why a viewer gave up, or a call failed. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub enum ViewerError {
    #[error("the server refused: {message}")]
    Refused { reason: RefusalReason, message: String },
    #[error("no server answered within {seconds} s: {reason}")]
    NoServer { seconds: i64, reason: String },
    #[error(
        "the server answered but no picture arrived within {seconds} s: check its log, and run `nearlight doctor` on both machines"
    )]
    NoPicture { seconds: i64 },
    #[error("the link has no token: use the whole link that `nearlight serve` printed, and quote it for the shell")]
    NoToken,
    #[error(
        "the server at {target} does not know the token of the link: either another server runs there now (open the link that it \
         printed) or this is a man-in-the-middle attack"
    )]
    Impostor { target: String },
    #[error("{0}")]
    Net(#[from] NetError),
    #[error("{0}")]
    Codec(#[from] CodecError),
    #[error("{0}")]
    Sound(#[from] OpusError),
    #[error("writing {what} to {path} failed: {source}")]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error("the system could not provide a {what}: {source}")]
    System { what: &'static str, source: io::Error },
    /// An error of the caller.
    #[error("the input was not sent: {0}; docs/wire.md has the ranges")]
    Input(#[from] WireError),
    /// An error of the caller.
    #[error("the input was not sent: it has {got} {what}, and at most {most} are allowed")]
    TooMany { what: &'static str, got: usize, most: usize },
    /// An error of the caller.
    #[error("{0}")]
    Message(#[from] MessageError),
    /// An error of the caller.
    #[error("{0}")]
    Usage(&'static str),
    #[error("the input queue is full: the server is unreachable, or too much input is sent")]
    Full,
    #[error("the viewer was closed: connect a new one")]
    Closed,
    #[error("the viewer has ended: {0}")]
    Ended(String),
}

impl ViewerError {
    #[must_use]
    pub const fn class(&self) -> ExitClass {
        match self {
            Self::Refused { .. } => ExitClass::Refused,
            Self::NoServer { .. } | Self::NoPicture { .. } => ExitClass::TimedOut,
            _ => ExitClass::Other,
        }
    }
}
