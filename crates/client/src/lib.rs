//! The native viewer of a Nearlight stream: a window, a display without a window system, or no display at all for measurements and tests.
//!
//! All are drivers of [`nearlight_viewer`]'s player, which connects, decodes and measures. They differ in where a user's movements come
//! from and in what "displayed" means: [`headless`] plays a synthetic user and displays at the decoder's output, [`window`] follows mouse
//! and keys and displays when the picture was handed to the screen, and [`kms`] does so on a display without a window system, when the
//! display has begun to show the picture.

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
    ApplicationMessage, DisplayOrder, ExitClass, MessageError, Messages, NotAnOutage, Outage, PathOptions,
    RecordOptions, Target, ViewOptions, ViewerError,
};
#[cfg(target_os = "linux")]
pub use options::KmsOptions;
pub use options::{HeadlessOptions, WindowOptions};
pub use report::{message_json, summary_json, summary_table};
