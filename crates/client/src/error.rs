//! Why a viewer ended without a picture, in words for the person who has to act on it.

use std::io;
use std::path::PathBuf;

use nearlight_codec::CodecError;
use nearlight_net::NetError;
use nearlight_sound::OpusError;
use nearlight_wire::RefusalReason;

/// The exit status of a program that ends with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitClass {
    /// Anything that is neither of the others: exit code 1.
    Other,
    /// The server refused: exit code 2.
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
            Self::Refused => 2,
            Self::TimedOut => 3,
        }
    }
}

/// Why a viewer gave up; one clear line each.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("the server refused: {message}")]
    Refused { reason: RefusalReason, message: String },
    #[error("no server answered within {seconds} s: {reason}")]
    NoServer { seconds: i64, reason: String },
    #[error(
        "the server answered but no picture came within {seconds} s: look into its log, and run `nearlight doctor` on both machines"
    )]
    NoPicture { seconds: i64 },
    #[error(
        "the link has no token: use the whole link that `nearlight serve` printed, and put it in quotes for the shell's sake"
    )]
    NoToken,
    #[error(
        "the server at {target} does not know the token of the link: either another server answers there now (open the link that it \
         printed) or someone stands between you and it"
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
    #[error("no picture was displayed, so {0} was not written")]
    NoScreenshot(PathBuf),
    #[error("no window can be opened: {0}; watch without one by `--headless`")]
    Window(String),
    #[error("the graphics adapter failed: {0}; watch without one by `--headless`")]
    Graphics(String),
    #[error("the system gave no {what}: {source}")]
    System { what: &'static str, source: io::Error },
}

impl ClientError {
    #[must_use]
    pub const fn class(&self) -> ExitClass {
        match self {
            Self::Refused { .. } => ExitClass::Refused,
            Self::NoServer { .. } | Self::NoPicture { .. } => ExitClass::TimedOut,
            _ => ExitClass::Other,
        }
    }
}
