//! The native viewer of a Nearlight stream: a window, or no display at all for measurements and tests.
//!
//! Both share one player: it connects (and reconnects after a loss), feeds the session's receiver, decodes on a thread of its own and
//! closes each frame's timeline from the marker below its picture. They differ in where a user's movements come from and in what
//! "displayed" means: [`headless`] plays a synthetic user and displays at the decoder's output, [`window`] follows mouse and keys and
//! displays when the picture was handed to the screen.

#![forbid(unsafe_code)]

mod camera;
mod error;
pub mod headless;
mod messages;
mod options;
mod player;
mod record;
mod report;
mod screenshot;
mod user;
mod wav;
pub mod window;

pub use error::{ClientError, ExitClass};
pub use messages::{MessageError, Messages};
pub use nearlight_wire::ApplicationMessage;
pub use options::{
    HeadlessOptions, NotAnOutage, Outage, PathOptions, RecordOptions, Target, ViewOptions, WindowOptions,
};
pub use report::{message_json, summary_json, summary_table};
