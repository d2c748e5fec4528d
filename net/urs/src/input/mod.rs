//! The messages that a client of Unity Render Streaming sends over its data channel "input".
//!
//! Bytes are little-endian. Written from the protocol's description; the layouts are those of Unity's Input System 1.x.

mod bytes;
mod device;
mod event;
mod message;
mod state;

pub use device::{Description, Device};
pub use event::{Event, EventKind, Events};
pub use message::{MAX_MESSAGE_BYTES, Message, Packet};
pub use state::{GamepadState, KeyboardState, MouseState, State, TouchPhase, TouchState, button, key, pad};

/// The reason for rejecting a message. All variants are the client's fault. Its state stays as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    #[error("an input message ends after {have} bytes where {need} are needed")]
    Truncated { need: usize, have: usize },
    #[error("{0} bytes are left after the end of an input message")]
    Trailing(usize),
    #[error("an input message of {0} bytes exceeds the limit of {MAX_MESSAGE_BYTES}")]
    TooLong(usize),
    #[error("input message type {0} is unknown")]
    Type(i32),
    #[error("field `{0}` of an input message is out of its range")]
    Field(&'static str),
    #[error("a device's description is not the JSON that the protocol describes")]
    DeviceSyntax,
}

/// Combines four letters into one number, the first in its highest byte.
pub(crate) const fn four_letters(letters: [u8; 4]) -> u32 {
    u32::from_be_bytes(letters)
}

#[cfg(test)]
pub(crate) mod tests;
