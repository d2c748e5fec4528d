//! libnearlight: the C interface of `nearlight_embed`, the server, and of [`nearlight_viewer`], the receiving end.
//!
//! It only checks pointers and sizes, converts C structures into Rust types and errors into status codes, and catches panics before they
//! cross the boundary. `include/nearlight.h` is generated from this crate, and a test compares the two.

#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
#![allow(non_camel_case_types, reason = "the names of the C interface")]
#![allow(clippy::doc_markdown, reason = "the comments of a C header are not Markdown")]

#[cfg(feature = "host")]
mod calls;
mod common;
#[cfg(feature = "host")]
mod events;
mod fault;
#[cfg(feature = "host")]
mod graphics;
mod handles;
#[cfg(feature = "host")]
mod hosts;
mod memory;
mod openuvr;
#[cfg(feature = "host")]
mod pictures;
mod receiving;
#[cfg(feature = "host")]
mod sounds;
mod types;
mod values;
#[cfg(feature = "host")]
mod viewers;
#[cfg(feature = "host")]
mod vulkan;

#[cfg(feature = "host")]
pub use calls::*;
pub use common::*;
#[cfg(feature = "host")]
pub use events::{nl_poll_event, nl_set_callback};
#[cfg(feature = "host")]
pub use graphics::{
    nl_gl_close, nl_gl_finish, nl_gl_open, nl_gl_submit_buffer, nl_gl_submit_framebuffer, nl_gl_submit_texture,
    nl_submit_dmabuf,
};
pub use openuvr::*;
#[cfg(feature = "host")]
pub use pictures::{nl_lend, nl_planes_shader, nl_put_back, nl_submit, nl_submit_lent};
pub use receiving::events::nl_viewer_poll_event;
pub use receiving::inputs::nl_viewer_send_input;
pub use receiving::types::*;
pub use receiving::{
    nl_viewer_close, nl_viewer_connect, nl_viewer_count, nl_viewer_displayed, nl_viewer_now, nl_viewer_poll_picture,
    nl_viewer_read_sound, nl_viewer_release, nl_viewer_send_message, nl_viewer_write_pixels,
};
#[cfg(feature = "host")]
pub use sounds::nl_submit_sound;
pub use types::*;
#[cfg(feature = "host")]
pub use viewers::{nl_viewer_ids, nl_viewer_state};
#[cfg(feature = "host")]
pub use vulkan::*;
