//! The native viewer of a Nearlight stream: a window, or no display at all for measurements and tests.
//!
//! Both are drivers of [`nearlight_viewer`]'s player, which connects, decodes and measures. They differ in where a user's movements come
//! from and in what "displayed" means: [`headless`] plays a synthetic user and displays at the decoder's output, [`window`] follows mouse
//! and keys and displays when the picture was handed to the screen.

#![forbid(unsafe_code)]

mod camera;
mod error;
pub mod headless;
mod options;
mod report;
mod screenshot;
mod user;
pub mod window;

pub use error::ClientError;
pub use nearlight_viewer::{
    ApplicationMessage, ExitClass, MessageError, Messages, NotAnOutage, Outage, PathOptions, RecordOptions, Target,
    ViewOptions, ViewerError,
};
pub use options::{HeadlessOptions, WindowOptions};
pub use report::{message_json, summary_json, summary_table};
