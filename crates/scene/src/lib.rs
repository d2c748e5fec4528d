//! Where pictures come from: the rendered world, a video file or a test card.
//!
//! Sources are of two kinds. A [`Source`] draws a picture on demand, for one viewer's views. A
//! [`PushSource`] paces itself and submits the same pictures for all.

#![forbid(unsafe_code)]

mod canvas;
mod card;
mod export;
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
pub use push::{Area, Damage, PictureSink, Planes, PlanesContent, PushSource, SoundFeed, SubmittedPicture};
pub use render::{AdapterSummary, Backend, Conversion, Drawn, UnknownConversion, list_adapters};
pub use rendered::{START, WorldSource};
pub use sustain::{PictureRequest, choose_size, of_coding};
pub use video::VideoSource;

pub use nearlight_wire::{ApplicationMessage, DevicesDescription};

use nearlight_rooms::{ObjectId, Room};
use nearlight_sound::Cues;
use nearlight_units::{Span, Time};
use nearlight_wire::{CursorShape, Devices, DisplayKind, HandJoints, Haptics, InputEvent, Pose, View};

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
    /// New events, in order, each handed over once. A source that uses them need not compare states.
    pub events: Vec<InputEvent>,
}

/// A viewer's display, as of its newest input.
#[derive(Clone, Copy, Debug)]
pub struct ViewerDisplay<'a> {
    pub kind: DisplayKind,
    /// One for a screen, two for a headset, left first, as they were sampled.
    pub views: &'a [View],
    /// When the sample arrived.
    pub received_at: Time,
    /// From a picture's capture to its display.
    pub capture_to_display: Span,
}

/// What a source sends to a viewer besides pictures and sound.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    Haptics(Haptics),
    /// How the viewer's pointer looks, and whether it is to be captured when the user clicks, for its movement.
    Pointer {
        cursor: CursorShape,
        captured: bool,
    },
    /// For the viewer's clipboard, if owner and viewer allow it.
    Clipboard(String),
    Message(ApplicationMessage),
}

/// One picture to make.
#[derive(Clone, Debug)]
pub struct RenderRequest<'a> {
    /// The viewer whose eyes these are; its own avatar is not drawn.
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

/// A finished picture in mapped memory, borrowed for the duration of one call.
#[derive(Clone, Copy, Debug)]
pub struct Pixels<'a> {
    pub bytes: &'a [u8],
    pub format: PixelFormat,
    pub width: u16,
    pub height: u16,
    /// Bytes from one row to the next.
    pub stride: usize,
}

/// A finished picture's planes in mapped memory, borrowed for the duration of one call: 4:2:0, BT.709 matrix, limited range, the encoders'
/// input format.
#[derive(Clone, Copy, Debug)]
pub struct PlanesView<'a> {
    pub width: u16,
    pub height: u16,
    pub luma: &'a [u8],
    /// Half as wide and half as high.
    pub blue: &'a [u8],
    pub red: &'a [u8],
    /// Bytes from one row to the next of luma and of each chroma plane.
    pub luma_stride: usize,
    pub chroma_stride: usize,
}

/// What a source has drawn.
#[derive(Clone, Copy, Debug)]
pub enum Rendered<'a> {
    Pixels(Pixels<'a>),
    Planes(PlanesView<'a>),
}

/// Makes a world's binary glTF file, in a second or two.
pub type MakeModel = Box<dyn Fn() -> Result<Vec<u8>, SceneError> + Send + Sync>;

/// The interactive side of a source of either kind: it receives what viewers do and responds.
pub trait Application: Send {
    /// What makes the pictures, for people: adapter, driver and backend, or the file's name.
    fn describe(&self) -> String;

    /// Whether viewers walk, grab and throw in it as the page explains.
    fn is_demonstration(&self) -> bool {
        false
    }

    /// The objects of a world that is a room, where they are at first; none of an application that is no such world.
    fn objects(&self) -> Option<Vec<(ObjectId, Pose)>> {
        None
    }

    /// A world that clients can draw by themselves: what makes it as a binary glTF file, in which nodes name the room's objects.
    fn model(&self) -> Option<MakeModel> {
        None
    }

    /// Tells the room that this world is what its viewers have done, and takes over what other members have. Called after each
    /// [`Source::advance`].
    fn exchange(&mut self, _now: Time, _room: &mut Room) {}

    /// A viewer has joined; it may never send any input.
    fn on_viewer_joined(&mut self, _now: Time, _viewer: Viewer) {}

    /// The viewer's display, reported before each input: for a source that paces itself and renders for the poses of its viewers.
    fn on_display(&mut self, _now: Time, _viewer: Viewer, _display: &ViewerDisplay<'_>) {}

    /// A viewer came, moved or acted.
    fn on_input(&mut self, now: Time, viewer: Viewer, input: &ViewerInput);

    /// A viewer watches that may do nothing; called again and again, and never together with [`Self::on_input`] by a source that draws for
    /// each viewer.
    fn on_spectator(&mut self, _now: Time, _viewer: Viewer) {}

    /// The viewer has left; whatever it held counts as released.
    fn on_viewer_left(&mut self, viewer: Viewer);

    /// What others are to call the viewer, without control characters and at most [`MAX_NAME_BYTES`](nearlight_rooms::MAX_NAME_BYTES) long.
    /// Called at most once, before the application has any input of the viewer or together with the first one.
    fn on_name(&mut self, _now: Time, _viewer: Viewer, _name: String) {}

    /// The viewer's gamepads and controllers have changed to these. Their states arrive as input, whether or not this was called.
    fn on_devices(&mut self, _now: Time, _viewer: Viewer, _devices: &DevicesDescription) {}

    /// A message from the viewer's page or program arrived.
    fn on_message(&mut self, _now: Time, _viewer: Viewer, _message: ApplicationMessage) {}

    /// The viewer's clipboard has this text; called only if owner and viewer allow it.
    fn on_clipboard(&mut self, _now: Time, _viewer: Viewer, _text: String) {}

    /// The next output for a viewer besides pictures and sound; polled until none after each [`Source::advance`], and at least every 50 ms
    /// for a source that paces itself.
    fn poll_output(&mut self) -> Option<(Viewer, Output)> {
        None
    }

    /// The sounds since the last call; none if the source never makes any.
    fn poll_cues(&mut self) -> Option<Cues> {
        None
    }
}

/// A source that draws pictures on demand.
pub trait Source: Application {
    /// Advances the world to `now`, which never goes back.
    fn advance(&mut self, now: Time);

    /// Draws one picture of the world as it is and hands it, mapped, to `take`.
    fn render(&mut self, request: &RenderRequest<'_>, take: &mut dyn FnMut(Rendered<'_>)) -> Result<(), SceneError>;
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
    #[error("the program's own source of pictures was not given: start the server with it")]
    NoSource,
    #[error("{0}")]
    Program(String),
    /// It has ended for good, which is no failure of the server's. The source has logged it.
    #[error("{0}")]
    ProgramEnded(String),
}

/// What `--size auto` and `--fps auto` settled on, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sustained {
    pub width: u16,
    pub height: u16,
    pub fps: u16,
    pub render_median: Span,
    /// Whether drawing and encoding fit between two frames.
    pub keeps: bool,
    /// One sentence for people.
    pub reason: String,
}
