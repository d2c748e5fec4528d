//! One schema for what happened, the same in server, native client, browser and lab; and its writers.

#![forbid(unsafe_code)]

mod timeline;

pub use timeline::{STAGES, Stage, Timeline};
