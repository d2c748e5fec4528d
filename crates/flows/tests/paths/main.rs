//! Flows on a bottleneck in virtual time.

mod laws;
mod world;
