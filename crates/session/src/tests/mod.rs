//! Sender and receiver joined by a virtual path: stories of a frame's way, and fuzzing of both machines.

mod fuzz;
mod path;
mod stories;
