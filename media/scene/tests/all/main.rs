//! All integration tests of this crate, in one binary: each links everything that the crate uses.

mod names;
mod pictures;
mod planes;
