//! An unmodified program as a source of pictures. It draws on its own display, where the viewers' input is injected.
//!
//! [`supervise`] runs in a separate process. The X server and the program are its children, which it ends when its standard input closes.
//! [`ProgramSource`] is the server's end: it captures the display, manages its windows, and injects the viewers' input. The decisions are
//! in [`input`], [`layout`] and [`supervisor::sandbox`], which do no IO.

#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

mod clock;
mod input;
mod layout;
mod microphone;
mod pulse;
mod shared_memory;
mod source;
mod specification;
mod supervisor;
mod sway;
mod threads;
mod watchdog;
mod x11;

pub use source::{OUTPUT_LOG_TARGET, ProgramSource};
pub use specification::{
    Compositor, CpuShare, DEFAULT_PROCESSES, GamepadBackend, MemoryLimit, ProgramExit, ProgramOptions, Restart,
};
pub use supervisor::sandbox::Sandbox;
pub use supervisor::supervise;
pub use supervisor::users::{Identity, find_user, hindrance};

/// Describes what renders OpenGL on the X display of this name.
///
/// # Errors
///
/// The display does not accept a connection of this process.
pub fn graphics_on(display: &str) -> Result<&'static str, DisplayError> {
    x11::connection::DisplayAddress::Named(display.into()).connect().map(|display| display.graphics())
}

/// Why a program cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DisplayError {
    #[error("cannot start the program's supervisor: {0}")]
    Supervisor(std::io::Error),
    #[error("{0}")]
    Program(String),
    #[error(
        "the display {name} cannot be used: {reason}. Check that it is there, and that this user may connect to it"
    )]
    Display { name: String, reason: String },
    #[error("the X display lacks the extension {0}, which is needed: use Xvfb (Debian: apt install xvfb)")]
    Extension(&'static str),
    #[error("the compositor lacks {0}, which is needed: use sway 1.7 or newer (Debian: apt install sway)")]
    Compositor(&'static str),
    #[error("cannot open the socket for the program's sound: {0}. --sound off serves the program without sound")]
    Sound(std::io::Error),
    #[error("the viewer's microphone cannot be decoded: {0}. --microphone off serves the program without it")]
    Microphone(#[from] nearlight_sound::OpusError),
    #[error("cannot allocate shared memory for the pictures: {0}")]
    Memory(std::io::Error),
}
