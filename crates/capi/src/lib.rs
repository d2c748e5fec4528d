//! libnearlight: [`nearlight_embed`] for C and everything that calls C.
//!
//! Thin: it checks pointers and sizes, turns C's structures into Rust's types and errors into codes, and keeps panics from crossing the
//! boundary. `include/nearlight.h` is generated from here, and a test compares the two.

#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
#![allow(non_camel_case_types, reason = "the names of the C interface")]
#![allow(clippy::doc_markdown, reason = "the comments of a C header are no Markdown")]

mod calls;
mod events;
mod fault;
mod hosts;
mod memory;
mod pictures;
mod types;
mod viewers;

pub use calls::*;
pub use events::{nl_poll_event, nl_set_callback};
pub use pictures::{nl_lend, nl_put_back, nl_submit, nl_submit_lent};
pub use types::*;
pub use viewers::{nl_viewer_ids, nl_viewer_state};
