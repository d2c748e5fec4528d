//! All integration tests of this crate, in one binary: each links everything that the crate uses.

mod block;
mod policies;
mod support;
mod window;
