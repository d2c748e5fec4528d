//! The receiving end of a Nearlight stream in a program's own process. [`Viewer`] connects, returns decoded pictures, sound and the
//! application's events, and sends the user's input.
//!
//! ```no_run
//! use std::time::Duration;
//! use nearlight_viewer::{Input, Options, Viewer};
//!
//! # fn main() -> Result<(), nearlight_viewer::ViewerError> {
//! let viewer = Viewer::connect("https://192.0.2.1:8443/#token=...", &Options::default())?;
//! viewer.send(Input::key("KeyW", true).expect("a key"))?;
//! let mut rgba = Vec::new();
//! while let Some(picture) = viewer.wait_picture(Duration::from_secs(10)) {
//!     picture.to_rgba(&mut rgba)?;
//! }
//! viewer.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! It is built on [`player`], as are the window and the headless run of `nearlight view`.

#![forbid(unsafe_code)]

mod error;
mod inbox;
mod input;
mod messages;
mod options;
mod picture;
pub mod player;
mod record;
mod viewer;
mod wav;

pub use error::{ExitClass, ViewerError};
pub use inbox::{Event, EventKind, Incoming};
pub use input::Input;
pub use messages::{MessageError, Messages};
pub use nearlight_codec::convert::PixelOrder;
pub use nearlight_codec::{CodecKind, PictureView, Size};
pub use nearlight_events::Summary;
pub use nearlight_net::{CertificateHash, Link};
pub use nearlight_session::{ClockEstimate, DeviceInput, DisplayOrder, Presence, ReceiverStatistics};
pub use nearlight_sound::BLOCK_FRAMES;
pub use nearlight_units::{Bitrate, FrameId, InputSeq, Span, Time};
pub use nearlight_wire::{
    ApplicationMessage, Controller, ControllerDescription, CursorShape, DevicesDescription, DisplayKind, Fov, Gamepad,
    GamepadDescription, Hand, HandJoints, Haptics, HapticsTarget, Joint, Key, MAX_CONTROLLER_BUTTONS, Pointer,
    PointerButton, Pose, RefusalReason, SOUND_RATE, ScreenPoint, StreamDescription, Touch, View, Welcome,
    marker::Marker,
};
pub use options::{Options, Outage, ParseOutageError, PathOptions, RecordOptions, Target, ViewOptions};
pub use picture::{PictureInfo, ReceivedPicture};
pub use player::{PointerRequest, point_at_offset};
pub use record::SCREENSHOT;
pub use viewer::{Statistics, Viewer};
