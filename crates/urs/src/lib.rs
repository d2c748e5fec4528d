//! What Unity Render Streaming's own web clients speak: signalling, and input as Unity's Input System has it.
//!
//! State machines without clock or socket. [`signalling`] agrees with each client on a connection, [`input`] reads the bytes of its data
//! channel "input", [`User`] makes a pose and actions of them. `docs/wire.md` says what of that protocol is spoken.
//!
//! Everything here comes from strangers: no parser panics, and what is kept for one of them has a bound.

#![forbid(unsafe_code)]

pub mod input;
pub mod signalling;
mod user;

pub use user::User;
