//! All integration tests of this crate, in one binary: each links everything that the crate uses.

mod common;
mod graphics;
mod header;
mod installed;
mod receiving;
mod stream;
