//! All integration tests of this crate, in one binary: each links everything that the crate uses.

mod damage;
mod odd_captures;
mod rhythm;
mod streams;
mod support;
mod two_captures;
