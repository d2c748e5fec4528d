//! All integration tests of this crate, in one binary: each links everything that the crate uses.

mod behaviour;
mod golden;
mod hops;
mod stations;
mod triggered;
