//! The native viewer of a Nearlight stream: a window, a display without a window system, or no display at all for measurements and tests.
//!
//! All three drive [`nearlight_viewer`]'s player, which connects, decodes and measures. They differ in their source of input and in when a
//! picture counts as displayed. [`headless`] has a synthetic user and displays at the decoder's output. [`window`] reads mouse and keys and
//! displays when a picture is handed to the window system. [`kms`] reads the kernel's input devices and displays when the display begins to
//! show the picture.

#![forbid(unsafe_code)]

mod camera;
mod controls;
mod error;
mod fingers;
mod gamepads;
pub mod headless;
#[cfg(target_os = "linux")]
pub mod kms;
mod letterbox;
mod options;
mod pictures;
mod report;
mod screenshot;
mod signals;
mod steering;
mod user;
pub mod window;

pub use error::ClientError;
pub use nearlight_viewer::{
    ApplicationMessage, DisplayOrder, ExitClass, MessageError, Messages, Outage, ParseOutageError, PathOptions,
    RecordOptions, Target, ViewOptions, ViewerError,
};
#[cfg(target_os = "linux")]
pub use options::KmsOptions;
pub use options::{HeadlessOptions, WindowOptions};
pub use report::{message_json, summary_json, summary_table};
