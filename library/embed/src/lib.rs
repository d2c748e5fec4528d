//! The server in the process of a program that brings its own pictures: no daemon, no window, no device.
//!
//! [`Host::open`] opens the ports, and [`Host::links`] returns the links for viewers. [`Host::submit`] takes each finished picture and
//! [`Host::submit_sound`] the sound, [`Host::poll_event`] returns what viewers do, [`Host::viewers`] returns where they look from, and
//! [`Host::close`] ends all sessions. Every function may be called from any thread.
//!
//! The program sets its own pace. A picture is converted in the thread that submits it, directly into the memory that encoders read, and
//! other threads encode it. When two pictures wait, only the newer one is sent. The C interface (`nearlight.h`) is a thin layer
//! over this crate; `docs/embedding.md` is the guide to both.

#![deny(unsafe_code)]

mod error;
mod event;
#[cfg(feature = "graphics")]
#[expect(unsafe_code, reason = "calls of OpenGL, Vulkan and the kernel, each with its safety argument")]
pub mod graphics;
mod host;
mod options;
mod picture;
mod source;
mod viewer;

pub use error::HostError;
pub use event::{Event, EventKind};
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
pub use nearlight_sound::{MAX_PORTION_FRAMES, Portion, PortionError, Samples};
pub use nearlight_units::{Bitrate, Span, Time};
pub use nearlight_wire::{
    CursorShape, Devices, DisplayKind, Fov, Hand, HandJoints, Haptics, HapticsTarget, InputEvent, Key, Pose, View,
};
