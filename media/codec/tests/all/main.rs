//! All integration tests of this crate, in one binary: each links everything that the crate uses.

mod damage;
mod marker;
mod recovery;
mod streams;
