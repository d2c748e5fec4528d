//! Flows on a bottleneck in virtual time.

mod laws;
mod others;
mod recovery;
mod stream;
mod world;
