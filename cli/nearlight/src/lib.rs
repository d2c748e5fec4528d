//! The `nearlight` command, as a library: `nearlight-lab` runs its `serve` and `view` too, with the parts that an experiment replaces.

#![deny(unsafe_code)]

mod agones;
mod announcement;
mod command;
pub mod companion;
mod configuration;
mod docs;
mod doctor;
pub mod experiment;
mod fleet;
mod front;
mod hook;
mod links;
mod log;
mod memory;
pub mod parse;
#[cfg(target_os = "linux")]
pub mod program;
mod sandbox;
pub mod serve;
mod signals;
pub mod terminal;
pub mod view;

pub use command::Arguments;
pub use log::format::LogFormat;
