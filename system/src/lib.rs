//! Processes of this machine: a command that runs in the foreground of another one, and how much processor time a process has used.

#![cfg(unix)]
#![deny(unsafe_code)]

mod processor_time;
mod supervise;

pub use processor_time::{of_folder, of_process, own};
pub use supervise::{ExitReport, Supervisor, ask_to_end, end_with_this_thread};
