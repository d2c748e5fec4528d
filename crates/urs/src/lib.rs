//! What Unity Render Streaming's own web clients speak: signalling, and input as Unity's Input System has it.
//!
//! State machines without clock or socket. [`signalling`] negotiates a connection with each client, [`input`] parses the bytes of its data
//! channel "input", [`User`] turns them into a pose and actions. `docs/wire.md` says which part of that protocol is supported.
//!
//! All input here is untrusted: no parser panics, and the state kept for each client is bounded.

#![forbid(unsafe_code)]

pub mod input;
pub mod signalling;
mod user;

pub use user::User;
