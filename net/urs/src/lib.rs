//! The protocol of Unity Render Streaming's own web clients: signalling, and input in the form of Unity's Input System.
//!
//! State machines without clock or socket. [`signalling`] negotiates a connection with each client, [`input`] parses the bytes of its data
//! channel "input", and [`User`] turns them into a pose and actions. `docs/wire.md` says which part of that protocol is supported.
//!
//! All input here is untrusted: no parser panics, and the state kept for each client is bounded.

#![forbid(unsafe_code)]

pub mod input;
pub mod signalling;
mod user;

pub use user::User;
