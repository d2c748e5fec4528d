//! All integration tests of this crate, in one binary: each links everything that the crate uses.

mod properties;
mod release_times;
