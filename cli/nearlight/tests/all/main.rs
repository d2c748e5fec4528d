//! All integration tests of this crate, in one binary: each links everything that the crate uses.

mod access;
mod agones;
mod end_to_end;
mod ethernet;
mod fleet;
mod front;
mod hook;
mod memory;
mod nats;
mod output;
mod process;
mod programs;
mod rooms;
mod sandbox;
mod strangers;
mod support;
mod whep;
