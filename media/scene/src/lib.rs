//! Sources of pictures: the rendered world, a video file and a test card.
//!
//! There are two kinds of sources. A [`Source`] draws a picture on demand, for the views of one viewer. A [`PushSource`] paces itself and
//! submits the same pictures for all viewers.

#![forbid(unsafe_code)]

mod canvas;
mod card;
mod export;
mod open;
mod places;
mod plaza;
pub mod predict;
mod push;
mod render;
mod rendered;
mod scene_file;
mod solid;
mod sustain;
mod video;
mod world;

pub use card::{PacedTestCard, TestCard};
pub use open::{OpenOptions, OpenedSource, SourceKind, open};
pub use push::{Area, Damage, PictureSink, Planes, PlanesContent, PushSource, SoundFeed, SubmittedPicture};
pub use render::{AdapterSummary, Backend, Conversion, DrawStatistics, UnknownConversion, list_adapters};
pub use rendered::{START, WorldSource};
pub use sustain::{PictureRequest, choose_size, estimate_coding};
pub use video::VideoSource;

pub use nearlight_wire::{ApplicationMessage, DevicesDescription};

use nearlight_rooms::{ObjectId, Room, SeatKey};
use nearlight_sound::Cues;
use nearlight_units::{Span, Time};
use nearlight_wire::{CursorShape, Devices, DisplayKind, HandJoints, Haptics, InputEvent, Pose, View};

/// The number of a client within one run of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Viewer(pub u32);

/// The input of a viewer: the newest state of head and devices, and the events since the previous input.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ViewerInput {
    pub head: Pose,
    pub devices: Devices,
    /// The joints of the left and of the right hand, where they are tracked.
    pub hands: [Option<HandJoints>; 2],
    /// New events, in order, each reported once. A source that uses them need not compare states.
    pub events: Vec<InputEvent>,
}

/// A viewer's display at its newest input.
#[derive(Clone, Copy, Debug)]
pub struct ViewerDisplay<'a> {
    pub kind: DisplayKind,
    /// The sampled views: one for a screen, two for a headset, left first.
    pub views: &'a [View],
    /// When the sample arrived.
    pub received_at: Time,
    /// Time from a picture's capture to its display.
    pub capture_to_display: Span,
}

/// An output of a source for a viewer, besides pictures and sound.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    Haptics(Haptics),
    /// The shape of the viewer's pointer, and whether a click captures it for relative movement.
    Pointer {
        cursor: CursorShape,
        captured: bool,
    },
    /// Text for the viewer's clipboard, if owner and viewer allow that.
    Clipboard(String),
    Message(ApplicationMessage),
}

/// A request to render one picture.
#[derive(Clone, Debug)]
pub struct RenderRequest<'a> {
    /// The viewer of the picture, whose own avatar is not drawn.
    pub viewer: Viewer,
    /// One view, or two drawn side by side, left eye in the left half.
    pub views: &'a [View],
    /// Size of the whole picture in pixels, both even.
    pub width: u16,
    pub height: u16,
}

/// The byte order of a pixel.
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
    /// Blue differences, half as wide and half as high.
    pub blue: &'a [u8],
    pub red: &'a [u8],
    /// Bytes from one row to the next of luma and of each chroma plane.
    pub luma_stride: usize,
    pub chroma_stride: usize,
}

/// A picture that a source has rendered.
#[derive(Clone, Copy, Debug)]
pub enum RenderedPicture<'a> {
    Pixels(Pixels<'a>),
    Planes(PlanesView<'a>),
}

/// Makes a world's binary glTF file, which takes a second or two.
pub type MakeModel = Box<dyn Fn() -> Result<Vec<u8>, SceneError> + Send + Sync>;

/// The interactive side of a source of either kind: it receives what viewers do and responds.
pub trait Application: Send {
    /// Returns a description of the source for people: adapter, driver and backend, or the file's name.
    fn describe(&self) -> String;

    /// Returns whether the source is the demonstration, whose controls the page explains.
    fn is_demonstration(&self) -> bool {
        false
    }

    /// Returns the objects of a world that is a room, at their initial poses, or none if the application is not such a world.
    fn objects(&self) -> Option<Vec<(ObjectId, Pose)>> {
        None
    }

    /// Returns the initial poses of users' heads, in the order in which newcomers take them: the first is that of a user who is alone.
    fn starting_places(&self) -> Vec<Pose> {
        vec![START]
    }

    /// Returns a function that makes a binary glTF file of the world, for clients that draw it themselves. Nodes of the file name the
    /// room's objects. None if clients cannot draw the world.
    fn model(&self) -> Option<MakeModel> {
        None
    }

    /// Synchronises the world with its room: reports what viewers have done, and applies what other members have done. Called after each
    /// [`Source::advance`].
    fn exchange(&mut self, _now: Time, _room: &mut Room) {}

    /// Adds a viewer, which may never send any input.
    fn on_viewer_joined(&mut self, _now: Time, _viewer: Viewer) {}

    /// Takes the viewer's display. Called before each input, for a source that paces itself and renders for the poses of its viewers.
    fn on_display(&mut self, _now: Time, _viewer: Viewer, _display: &ViewerDisplay<'_>) {}

    /// Takes input of a viewer. The first one may add the viewer.
    fn on_input(&mut self, now: Time, viewer: Viewer, input: &ViewerInput);

    /// Reports that a spectator watches, which may do nothing. Called repeatedly instead of [`Self::on_input`], for a source that draws for
    /// each viewer.
    fn on_spectator(&mut self, _now: Time, _viewer: Viewer) {}

    /// Removes a viewer. Everything that it held or pressed is released.
    fn on_viewer_left(&mut self, viewer: Viewer);

    /// Takes the viewer's name, which has no control characters and at most [`MAX_NAME_BYTES`](nearlight_rooms::MAX_NAME_BYTES). Called at
    /// most once, before the viewer's first input or together with it.
    fn on_name(&mut self, _now: Time, _viewer: Viewer, _name: String) {}

    /// Takes the key of the viewer's page in rooms, by which a page that is in a room twice keeps its name. Called like [`Self::on_name`].
    fn on_seat_key(&mut self, _now: Time, _viewer: Viewer, _key: SeatKey) {}

    /// Takes the viewer's gamepads and controllers after a change. Their states arrive as input, whether or not this was called.
    fn on_devices(&mut self, _now: Time, _viewer: Viewer, _devices: &DevicesDescription) {}

    /// Takes a message from the viewer's page or program.
    fn on_message(&mut self, _now: Time, _viewer: Viewer, _message: ApplicationMessage) {}

    /// Reports that a long text of the viewer's clipboard has begun to arrive: [`Self::on_clipboard`] follows, unless the viewer leaves.
    fn on_clipboard_announced(&mut self, _now: Time, _viewer: Viewer) {}

    /// Takes the text of the viewer's clipboard. Called only if owner and viewer allow that.
    fn on_clipboard(&mut self, _now: Time, _viewer: Viewer, _text: String) {}

    /// Returns the next output for a viewer besides pictures and sound. Polled until none after each [`Source::advance`], and at least
    /// every 50 ms for a source that paces itself.
    fn poll_output(&mut self) -> Option<(Viewer, Output)> {
        None
    }

    /// Returns the sounds since the last call, or none if the source never makes any.
    fn poll_cues(&mut self) -> Option<Cues> {
        None
    }
}

/// A source that draws pictures on demand.
pub trait Source: Application {
    /// Advances the world to `now`, which never decreases.
    fn advance(&mut self, now: Time);

    /// Draws one picture of the current world and passes it, in mapped memory, to `take`.
    fn render(
        &mut self,
        request: &RenderRequest<'_>,
        take: &mut dyn FnMut(RenderedPicture<'_>),
    ) -> Result<(), SceneError>;
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
    /// The program has exited, which is not a failure of the server. The source has logged it.
    #[error("{0}")]
    ProgramEnded(String),
}

/// The size and frame rate that the machine sustains, as chosen for `--size auto` and `--fps auto`, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SustainedFormat {
    pub width: u16,
    pub height: u16,
    pub fps: u16,
    pub render_median: Span,
    /// Whether drawing and encoding fit into the time between two frames.
    pub keeps: bool,
    /// The reason in one sentence, for people.
    pub reason: String,
}
