//! All integration tests of this crate, in one binary: each links everything that the crate uses.

mod determinism;
mod fit;
mod flows;
mod live;
mod operations;
mod oracle;
mod plans;
mod playback;
mod rfc8867;
mod schedules;
mod sessions;
mod standstill;
mod support;
mod systems;
mod transports;
mod wifi;
