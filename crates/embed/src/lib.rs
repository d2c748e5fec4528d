//! The server in the process of a program that brings its own pictures: no daemon, no window, no device.
//!
//! [`Host::open`] opens the ports and answers links. [`Host::submit`] takes each finished picture and [`Host::submit_sound`] the sound,
//! [`Host::poll_event`] answers what viewers do, [`Host::viewers`] where they look from, and [`Host::close`] says goodbye. Every call may come
//! from any thread.
//!
//! The program paces itself. A picture is converted in the thread that submits it, straight into the memory that encoders read, and
//! encoded beside the program's own work; of two pictures that wait the newer one is sent. The C interface (`nearlight.h`) is a thin layer
//! over this crate; `docs/embedding.md` is the guide to both.

#![forbid(unsafe_code)]

mod error;
mod event;
mod host;
mod options;
mod picture;
mod source;
mod viewer;

pub use error::HostError;
pub use event::{Event, What};
pub use host::{Host, Statistics};
pub use options::Options;
pub use picture::{Content, PLANES_SHADER, Picture};
pub use viewer::ViewerState;

pub use nearlight_codec::convert::PixelOrder;
pub use nearlight_codec::image::{Image, Layout, Plane, Rows};
pub use nearlight_codec::{CodecKind, Size};
pub use nearlight_net::{EthernetLink, Link};
pub use nearlight_scene::{ApplicationMessage, DevicesDescription, Planes, Viewer};
pub use nearlight_server::SessionStatistics;
pub use nearlight_sound::{MOST_FRAMES, Portion, PortionError, Samples};
pub use nearlight_units::{Bitrate, Span, Time};
pub use nearlight_wire::{
    CursorShape, Devices, DisplayKind, Fov, Hand, HandJoints, Haptics, HapticsTarget, InputEvent, Key, Pose, View,
};
