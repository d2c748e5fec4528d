//! The structures and constants of the C interface.

use std::ffi::{c_char, c_void};

use crate::memory::{Versioned, versioned};

/// Whether a call succeeded.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum nl_status {
    /// Done.
    Ok = 0,
    /// There is nothing to hand out: no event came in time, or there is no such index.
    Nothing = 1,
    /// An argument is NULL, out of its range, or a structure's `size` is none that this library knows.
    Argument = 2,
    /// The options are refused.
    Options = 3,
    /// The server is closed, or was never open.
    Closed = 4,
    /// The server has ended by itself, or cannot start.
    Failed = 5,
    /// The picture is refused: size, format, planes, strides or views.
    Picture = 6,
    /// Nobody with this number watches.
    NoViewer = 7,
    /// More waits than is kept; try again later.
    Full = 8,
    /// The system gives no thread, memory map or socket.
    System = 9,
    /// A fault of this library, which has been contained. Close the server; standard error has more.
    Panic = 10,
}

/// A server in this process.
pub struct nl_host {
    _private: [u8; 0],
}

/// How a picture's colours lie in memory.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum nl_pixel_format {
    /// Four bytes a pixel, red first, in sRGB; the fourth is ignored.
    Rgba = 0,
    /// Four bytes per pixel, blue first.
    Bgra = 1,
    /// Three bytes a pixel, red first.
    Rgb = 2,
    /// 4:2:0 in BT.709's limited range: a plane of luma, and one of blue and red differences in turn.
    Nv12 = 3,
    /// One plane each for luma, blue and red differences. Encoders take this format as it is, which makes it the cheapest.
    I420 = 4,
}

/// How a picture's memory is shared between the eyes.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum nl_layout {
    /// One picture for both eyes.
    Mono = 0,
    /// The left eye's picture in the left half, the right eye's in the right one.
    SideBySide = 1,
    /// The left eye's in `planes`, the right eye's in `right`, of the same size and format.
    Layers = 2,
}

/// What converts the pictures of an OpenGL context into the planes that encoders take.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum nl_conversion {
    /// A shader on a graphics processor; the processor where that draws as well.
    Auto = 0,
    /// The processor, while it copies.
    Processor = 1,
    /// A shader in the program's context.
    Shader = 2,
}

/// How samples of sound lie in memory.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum nl_sample_format {
    /// float, -1 to 1.
    F32 = 0,
    /// int16_t, all of its range.
    I16 = 1,
}

/// Bits of a picture's `flags`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum nl_picture_flags {
    /// The first row in memory is the lowest one, as OpenGL reads frame buffers.
    BottomUp = 1,
}

/// What a viewer watches on.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum nl_display {
    Screen = 0,
    Headset = 1,
}

/// What a controller belongs to.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum nl_hand {
    /// Neither hand, or the device does not say.
    None = 0,
    Left = 1,
    Right = 2,
}

/// Buttons of a mouse or pen, as bits of nl_pointer's `buttons` 1 << NL_POINTER_BUTTON_...
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum nl_pointer_button {
    Primary = 0,
    Auxiliary = 1,
    Secondary = 2,
    Back = 3,
    Forward = 4,
}

/// What shakes.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum nl_haptics_target {
    /// `index` is the gamepad's number.
    Gamepad = 0,
    /// `index` is an nl_hand.
    Controller = 1,
}

/// What happened.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum nl_event_kind {
    /// Pictures go to `viewer` from now on.
    ViewerJoined = 1,
    /// Whatever `viewer` held counts as let go of.
    ViewerLeft = 2,
    /// Head, pointer, sticks or hands moved; nl_viewer_state has the state. Comes once for however many movements until it is taken.
    Moved = 3,
    /// A key was pressed or released: `code` is its USB HID usage, page << 16 | usage (0x7002c is the space bar), the same on every
    /// keyboard layout.
    Key = 4,
    /// `data` was typed: up to 32 bytes of text.
    Text = 5,
    /// `code` is an nl_pointer_button, `x` and `y` where the pointer was.
    PointerButton = 6,
    /// A finger touched at `x` and `y`; `code` is its number, which is not used again.
    TouchBegan = 7,
    /// It was lifted, or with `pressed` 1 taken away by the system.
    TouchEnded = 8,
    /// Button `code` of gamepad `device`, in W3C's standard mapping.
    GamepadButton = 9,
    /// Button `code` of the controller of hand `device`, in WebXR's xr-standard mapping.
    ControllerButton = 10,
    /// What gamepads and controllers there are: `data` has a line for each, such as "gamepad 0 NAME" or "controller left PROFILE".
    Devices = 11,
    /// `data` is a message of the viewer's page or program; `reliable` says how it came.
    Message = 12,
    /// `data` is the text of the viewer's clipboard.
    Clipboard = 13,
    /// The server has ended; `data` says why. No picture leaves any more.
    Failed = 14,
    /// Key `code` is still down, and the user's system repeats it. The text that it types follows.
    KeyRepeated = 15,
    /// With the next press, key `code` is a command that means the character `data` in the user's layout, such as Control and a letter.
    KeyCharacter = 16,
}

/// What to open. Zero and NULL stand for the usual.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct nl_options {
    /// sizeof(nl_options)
    pub size: usize,
    /// What makes the pictures, for the viewers' panels.
    pub name: *const c_char,
    /// Address to listen on; NULL: every address.
    pub address: *const c_char,
    /// Port for the page (TCP) and the media (UDP); 0: a free one.
    pub port: u16,
    /// Port for WebRTC (UDP); 0: the one after `port`, or a free one.
    pub rtc_port: u16,
    /// The usual size of the pictures, both even; 0: 1280x720. Encoders are prepared for it; a picture may have another.
    pub width: u16,
    pub height: u16,
    /// The usual number of pictures a second, up to 240; 0: 60.
    pub fps: u16,
    /// 1: screens get both halves of pictures for two eyes; 0: the left one.
    pub stereo: u8,
    /// 1: texts of the clipboard pass between the program and users who allow it as well.
    pub clipboard: u8,
    /// Most viewers at the same time; 0: 8.
    pub max_clients: u32,
    /// Pairing token, 16 characters or more; NULL: a new one.
    pub token: *const c_char,
    /// Files with certificate chain and key in PEM; NULL: a self-signed one that the links name.
    pub certificate: *const c_char,
    pub key: *const c_char,
    /// Codec to prefer: "h264" or "vp8".
    pub codec: *const c_char,
    /// Rate controller and redundancy, by the names of `nearlight serve --help`.
    pub controller: *const c_char,
    pub fec: *const c_char,
    /// File for what happens, one JSON object a line.
    pub events: *const c_char,
    /// Rates in megabits a second: to start with, and the bounds.
    pub rate_mbps: f64,
    pub min_rate_mbps: f64,
    pub max_rate_mbps: f64,
    /// 1: viewers hear what nl_submit_sound takes; 0: there is no sound.
    pub sound: u8,
    /// 1: nl_submit encodes in the thread that calls it, and returns once the picture's packets have left as far as they may at once;
    /// 0: pictures are encoded beside the program's work.
    pub synchronous: u8,
    /// Recovery of viewers from losses, by the names of `nearlight serve --help`.
    pub recovery: *const c_char,
    /// Network interfaces, separated by commas, on which viewers are also served over Ethernet frames, without IP; NULL: none. Opening them
    /// takes CAP_NET_RAW.
    pub ethernet: *const c_char,
    /// Hardware addresses of those viewers, separated by commas; NULL: of all that know the token.
    pub ethernet_allow: *const c_char,
}

/// Position in metres and orientation as a unit quaternion x, y, z, w.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct nl_pose {
    pub position: [f32; 3],
    pub orientation: [f32; 4],
}

/// Tangents of the angles between the view axis and the picture's edges: left and down are negative in a usual view.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct nl_fov {
    pub left: f32,
    pub right: f32,
    pub down: f32,
    pub up: f32,
}

/// Where an eye is and what it sees.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct nl_view {
    pub pose: nl_pose,
    pub fov: nl_fov,
}

/// Rows of bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct nl_plane {
    pub bytes: *const u8,
    /// Bytes from one row to the next; 0: rows without padding. After the last row no padding is read.
    pub stride: usize,
}

/// A finished picture, read before nl_submit returns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct nl_picture {
    /// sizeof(nl_picture)
    pub size: usize,
    /// An nl_pixel_format.
    pub format: u32,
    /// An nl_layout.
    pub layout: u32,
    /// NL_PICTURE_FLAGS_... or 0.
    pub flags: u32,
    /// In pixels, even, 16 to 4096; with NL_LAYOUT_LAYERS of each eye, and both together up to 4096 wide.
    pub width: u32,
    pub height: u32,
    /// As many as the format has: 1, 2 (NV12) or 3 (I420).
    pub planes: [nl_plane; 3],
    /// The right eye's, with NL_LAYOUT_LAYERS.
    pub right: [nl_plane; 3],
    /// When what it shows was so, on nl_now's clock; 0: now. One that is older than a picture before it is dropped.
    pub captured_at: u64,
    /// The views that it was rendered for, as nl_viewer_state had them: none where the picture does not depend on where anybody is, else
    /// one, or two for two eyes.
    pub view_count: u32,
    pub views: [nl_view; 2],
}

/// The next portion of a program's sound, read before nl_submit_sound returns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct nl_sound {
    /// sizeof(nl_sound)
    pub size: usize,
    /// One after the other, or left and right in turn.
    pub samples: *const c_void,
    /// Samples of each channel, up to 65536.
    pub frames: usize,
    /// An nl_sample_format.
    pub format: u32,
    /// 1 or 2.
    pub channels: u32,
    /// In hertz, 8000 to 192000; 0: 48000, which is the cheapest.
    pub rate: u32,
}

/// Memory for the planes of a picture in NL_PIXEL_FORMAT_I420, which encoders read without a copy.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct nl_lent {
    /// sizeof(nl_lent)
    pub size: usize,
    /// Names it for nl_submit_lent and nl_put_back.
    pub id: u64,
    pub width: u32,
    pub height: u32,
    /// Luma, blue, red: to be written until the picture is submitted or put back or the server is closed, and not after.
    pub planes: [*mut u8; 3],
    /// Bytes from one row to the next.
    pub strides: [usize; 3],
}

/// Pictures of one OpenGL context on their way to a server.
pub struct nl_gl {
    _private: [u8; 0],
}

/// Answers OpenGL's function of this name, or NULL, as eglGetProcAddress and SDL_GL_GetProcAddress do.
pub type nl_gl_loader = Option<unsafe extern "C" fn(user: *mut c_void, name: *const c_char) -> *const c_void>;

/// How pictures of an OpenGL context are read. Zero stands for the usual.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct nl_gl_options {
    /// sizeof(nl_gl_options)
    pub size: usize,
    /// 1: each picture is handed over before the call returns, which waits for the GPU; 0: with the next one, or by nl_gl_finish.
    pub at_once: u32,
    /// An nl_conversion: what converts pixels into planes.
    pub conversion: u32,
}

/// A picture in a buffer that another device or process exports, or in shared memory (memfd_create).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct nl_dmabuf {
    /// sizeof(nl_dmabuf)
    pub size: usize,
    /// Stays the program's, which closes it.
    pub descriptor: i32,
    /// A code of drm_fourcc.h: AR24, XR24, AB24, XB24, NV12 or YU12.
    pub fourcc: u32,
    /// Modifier from drm_fourcc.h. Linear buffers are read, tiled ones are refused.
    pub modifier: u64,
    /// Offset of each plane, in bytes.
    pub offsets: [usize; 3],
    pub strides: [usize; 3],
}

/// Something that happened.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct nl_event {
    /// sizeof(nl_event)
    pub size: usize,
    /// An nl_event_kind; ignore those that you do not know.
    pub kind: u32,
    /// Number of the viewer; 0 for what concerns none.
    pub viewer: u32,
    /// When, on nl_now's clock.
    pub at: u64,
    pub code: u32,
    /// Number of a gamepad, or an nl_hand.
    pub device: u32,
    /// 1: pressed; 0: released.
    pub pressed: u32,
    /// 1: a message that came once and in order; 0: one that may be lost, come twice or overtake others.
    pub reliable: u32,
    /// A place in the picture, 0 to 1 from its left and upper edge.
    pub x: f32,
    pub y: f32,
    /// Text or message, followed by a zero byte; valid until this thread's next nl_poll_event, or in a callback until it returns.
    pub data: *const u8,
    pub data_size: usize,
}

/// A mouse or a pen.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct nl_pointer {
    /// 0: there is none.
    pub present: u32,
    /// 1: only movement counts, not where it is.
    pub captured: u32,
    /// 0 to 1 from the left and upper edge.
    pub x: f32,
    pub y: f32,
    /// Right and down in CSS pixels, since the session began; wraps around.
    pub moved: [i32; 2],
    /// Scrolled right and down in sixteenths of a CSS pixel, since the session began; wraps around.
    pub scrolled: [i32; 2],
    /// Bits 1 << nl_pointer_button.
    pub buttons: u32,
}

/// A finger on a touch screen.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct nl_touch {
    pub id: u32,
    pub x: f32,
    pub y: f32,
    /// 0 to 1.
    pub pressure: f32,
}

/// A gamepad in W3C's standard mapping.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct nl_gamepad {
    pub index: u32,
    /// A bit for each button that is down.
    pub pressed: u32,
    /// How far each button is down, 0 to 1.
    pub value_count: u32,
    pub values: [f32; 20],
    /// -1 to 1: left stick right and down, right stick right and down.
    pub axis_count: u32,
    pub axes: [f32; 6],
}

/// An XR controller, or another thing that points in space.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct nl_controller {
    /// An nl_hand.
    pub hand: u32,
    /// 1: `grip` says how it is held.
    pub has_grip: u32,
    /// Where it points from, along -z.
    pub aim: nl_pose,
    pub grip: nl_pose,
    /// A bit for each button of WebXR's xr-standard mapping: 0 trigger, 1 squeeze, 2 touchpad, 3 thumbstick, then the profile's own.
    pub pressed: u32,
    pub touched: u32,
    /// How far each button is down, 0 to 1.
    pub value_count: u32,
    pub values: [f32; 10],
    /// -1 to 1: touchpad right and down, thumbstick right and down.
    pub axis_count: u32,
    pub axes: [f32; 4],
}

/// A joint of a hand.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct nl_joint {
    pub pose: nl_pose,
    /// From the joint to the skin, in metres.
    pub radius: f32,
}

/// A hand, in WebXR's order of joints, the wrist first.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct nl_tracked_hand {
    /// 0: it is not tracked.
    pub tracked: u32,
    pub joints: [nl_joint; 25],
}

/// A viewer as its newest input has it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct nl_viewer {
    /// sizeof(nl_viewer)
    pub size: usize,
    /// Its number, not used again.
    pub id: u32,
    /// 1: it acted last, or nobody has acted yet and it has been here longest.
    pub drives: u32,
    /// An nl_display.
    pub display: u32,
    /// What to draw for it now: a headset's views as they will be at `display_at`, a screen's as they are; none before its first input.
    pub view_count: u32,
    pub views: [nl_view; 2],
    /// When a picture that is submitted now is displayed; an estimate before pictures were displayed.
    pub display_at: u64,
    pub head: nl_pose,
    pub pointer: nl_pointer,
    /// Keys that are down, as in NL_EVENT_KIND_KEY.
    pub key_count: u32,
    pub keys: [u32; 16],
    pub touch_count: u32,
    pub touches: [nl_touch; 10],
    pub gamepad_count: u32,
    pub gamepads: [nl_gamepad; 4],
    pub controller_count: u32,
    pub controllers: [nl_controller; 3],
    /// 1: `gaze` says where the eyes look from, along -z.
    pub has_gaze: u32,
    pub gaze: nl_pose,
    /// The left and the right one.
    pub hands: [nl_tracked_hand; 2],
}

/// A pulse.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct nl_haptics_pulse {
    /// sizeof(nl_haptics_pulse)
    pub size: usize,
    /// An nl_haptics_target.
    pub target: u32,
    pub index: u32,
    /// At most 5000; 0 ends the pulse before.
    pub milliseconds: u32,
    /// Strength of the slow, strong motor and of the fast, weak one, 0 to 1.
    pub strong: f32,
    pub weak: f32,
}

/// What was counted since the server was opened.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct nl_server_statistics {
    /// sizeof(nl_server_statistics)
    pub size: usize,
    /// Pictures that were submitted, and those of them that nobody watched.
    pub submitted: u64,
    pub unwatched: u64,
    /// Events that were not taken in time.
    pub events_dropped: u64,
    pub viewers: u32,
    /// Frames of sound that were dropped: more was submitted than is played, or nobody listened.
    pub sound_dropped: u64,
}

/// What was counted since a viewer came, as of the last fifth of a second.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct nl_session_statistics {
    /// sizeof(nl_session_statistics)
    pub size: usize,
    pub frames: u64,
    /// Frames left out because pacer, path or encoder was behind.
    pub frames_skipped: u64,
    pub key_frames: u64,
    pub packets: u64,
    pub packets_lost: u64,
    pub retransmissions: u64,
    pub repairs: u64,
    pub bytes: u64,
    /// Over the last second, in bits a second.
    pub sent_bps: u64,
    /// What the rate controller allows the encoder, in bits a second.
    pub target_bps: u64,
    /// Nanoseconds; 0: not known yet.
    pub round_trip: u64,
}

/// Called with each event in a thread of the library; `event` is valid until it returns.
pub type nl_event_callback = Option<unsafe extern "C" fn(user: *mut c_void, event: *const nl_event)>;

// The fields that this first version has; later ones do not change this.
versioned!(
    nl_options up to max_rate_mbps,
    nl_picture up to views,
    nl_lent up to strides,
    nl_event up to data_size,
    nl_viewer up to hands,
    nl_sound up to rate,
    nl_gl_options up to conversion,
    nl_dmabuf up to strides,
    nl_haptics_pulse up to weak,
    nl_server_statistics up to viewers,
    nl_session_statistics up to round_trip,
);
