//! Congestion control in the Linux kernel: Hera as BPF programs (`struct_ops`), their loader, and the state of their flows.
//!
//! The law itself is in `bpf/hera.h`, on integers, the same statements as [`nearlight_window::Hera`]; a test compares the two. Programs
//! are compiled by the build, nothing is compiled when they are loaded. Empty without the feature `bpf`, and on other systems than Linux.

#![cfg(all(target_os = "linux", feature = "bpf"))]
#![deny(unsafe_code)]

mod error;
mod groups;
mod instances;
mod load;
mod options;
mod programs;
mod report;
mod support;
mod system;

pub use error::KernelError;
pub use groups::Group;
pub use instances::{UnloadOutcome, status, unload};
pub use load::{LoadedLaw, load};
pub use options::{DEFAULT_NAME, LoadOptions};
pub use report::{Cost, FlowStatus, InstanceStatus, Parameters};
