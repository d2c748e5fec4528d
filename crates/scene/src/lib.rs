//! Where pictures come from: the rendered world, a video file or a test card.
//!
//! Sources are of two kinds. A [`Source`] draws a picture on demand, for one viewer's views. A
//! [`PushSource`] paces itself and submits the same pictures for all.

#![forbid(unsafe_code)]

mod canvas;
mod card;
mod glb;
mod open;
mod plaza;
pub mod predict;
mod push;
mod render;
mod rendered;
mod solid;
mod sustain;
mod video;
mod world;

pub use card::{PacedTestCard, TestCard};
pub use open::{OpenOptions, Opened, SourceKind, open};
pub use push::{Area, Damage, PictureSink, PushSource, SubmittedPicture};
pub use render::{AdapterSummary, Backend, Drawn, list_adapters};
pub use rendered::{START, WorldSource};
pub use sustain::{PictureRequest, choose_size, of_coding};
pub use video::VideoSource;

use nearlight_sound::Cues;
use nearlight_units::{Span, Time};
use nearlight_wire::{
    ControllerDescription, CursorShape, Devices, GamepadDescription, HandJoints, Haptics, InputEvent, Pose, View,
};

/// Names a client within one server run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Viewer(pub u32);

/// What a viewer does: the newest state of head and devices, and what happened since the last one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ViewerInput {
    pub head: Pose,
    pub devices: Devices,
    /// The joints of the left and of the right hand, where they are tracked.
    pub hands: [Option<HandJoints>; 2],
    /// New, in order, each handed over once. A source that follows them need not look for differences between states.
    pub events: Vec<InputEvent>,
}

/// What a viewer's gamepads and controllers are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DevicesDescription {
    pub gamepads: Vec<GamepadDescription>,
    pub controllers: Vec<ControllerDescription>,
}

/// A message between the application and its viewer's page or program, which nobody in between reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationMessage {
    /// At most [`MAX_RELIABLE_MESSAGE_BYTES`](nearlight_wire::MAX_RELIABLE_MESSAGE_BYTES), or
    /// [`MAX_UNRELIABLE_MESSAGE_BYTES`](nearlight_wire::MAX_UNRELIABLE_MESSAGE_BYTES) where it is not reliable.
    pub data: Vec<u8>,
    /// It comes once and in order; otherwise it may be lost, come twice or overtake others.
    pub reliable: bool,
}

/// What a source has for a viewer beside pictures and sound.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    Haptics(Haptics),
    /// How the viewer's pointer looks, and whether it is to be captured when the user clicks, for its movement.
    Pointer {
        cursor: CursorShape,
        captured: bool,
    },
    /// For the viewer's clipboard, where owner and viewer allow it.
    Clipboard(String),
    Message(ApplicationMessage),
}

/// One picture to make.
#[derive(Clone, Debug)]
pub struct RenderRequest<'a> {
    /// Whose eyes: that viewer's own avatar is left out.
    pub viewer: Viewer,
    /// One view, or two drawn side by side, left eye in the left half.
    pub views: &'a [View],
    /// Size of the whole picture in pixels, both even.
    pub width: u16,
    pub height: u16,
}

/// Byte order of a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelFormat {
    Rgba,
    Bgra,
}

/// A finished picture in mapped memory, borrowed for the length of one call.
#[derive(Clone, Copy, Debug)]
pub struct Pixels<'a> {
    pub bytes: &'a [u8],
    pub format: PixelFormat,
    pub width: u16,
    pub height: u16,
    /// Bytes from one row to the next.
    pub stride: usize,
}

/// What a source of either kind is for its viewers beside pictures: it takes what they do and answers.
pub trait Application: Send {
    /// What makes the pictures, for people: adapter, driver and backend, or the file's name.
    fn describe(&self) -> String;

    /// A viewer came, moved or acted.
    fn on_input(&mut self, now: Time, viewer: Viewer, input: &ViewerInput);

    /// Whatever the viewer held counts as let go of.
    fn on_viewer_left(&mut self, viewer: Viewer);

    /// The viewer's gamepads and controllers are these from now on. Their states come as input, whether this has come or not.
    fn on_devices(&mut self, _now: Time, _viewer: Viewer, _devices: &DevicesDescription) {}

    /// A message of the viewer's page or program came.
    fn on_message(&mut self, _now: Time, _viewer: Viewer, _message: ApplicationMessage) {}

    /// The viewer's clipboard has this text, where owner and viewer allow that it is told.
    fn on_clipboard(&mut self, _now: Time, _viewer: Viewer, _text: String) {}

    /// The next thing for a viewer beside pictures and sound; asked after each [`Source::advance`], and of a source that paces itself at
    /// least every 50 ms, until none.
    fn poll_output(&mut self) -> Option<(Viewer, Output)> {
        None
    }

    /// What is to be heard since the last call; none where there is never anything to hear.
    fn poll_cues(&mut self) -> Option<Cues> {
        None
    }
}

/// A source that draws pictures on demand.
pub trait Source: Application {
    /// Moves the world on to `now`, which never goes back.
    fn advance(&mut self, now: Time);

    /// Draws one picture of the world as it is and hands it, mapped, to `take`.
    fn render(&mut self, request: &RenderRequest<'_>, take: &mut dyn FnMut(Pixels<'_>)) -> Result<(), SceneError>;
}

#[derive(Debug, thiserror::Error)]
pub enum SceneError {
    #[error(
        "no graphics adapter answers: {0}. Install Mesa's software renderer (Debian: apt install mesa-vulkan-drivers libegl1)"
    )]
    NoAdapter(String),
    #[error("the graphics adapter failed: {0}")]
    Adapter(String),
    #[error("a picture of {width}x{height} cannot be drawn: {reason}")]
    Size { width: u16, height: u16, reason: String },
    #[error("cannot load {file}: {reason}")]
    File { file: String, reason: String },
}

/// What `--size auto` and `--fps auto` settled on, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sustained {
    pub width: u16,
    pub height: u16,
    pub fps: u16,
    pub render_median: Span,
    /// Drawing and coding fit between two frames.
    pub keeps: bool,
    /// One sentence for people.
    pub reason: String,
}
