//! The structures and constants of the receiving end.

use std::ffi::c_char;

use crate::memory::{Versioned, versioned};
use crate::types::{nl_controller, nl_gamepad, nl_pointer, nl_pose, nl_touch, nl_tracked_hand, nl_view};

/// A viewer in this process, connected to a server anywhere.
pub struct nl_viewer_session {
    _private: [u8; 0],
}

/// How a viewer connects. Zero and NULL stand for the usual.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct nl_viewer_options {
    /// sizeof(nl_viewer_options)
    pub size: usize,
    /// The viewer's name for itself, for the server's log.
    pub name: *const c_char,
    /// Codecs that the server may use, best first, with commas between: "h264,vp8".
    pub codecs: *const c_char,
    /// How long nl_viewer_connect tries to reach a server, in milliseconds; 0: 10000.
    pub connect_limit_ms: u32,
    /// Pictures that wait for the program: of more, the oldest is passed over. 0: 1, which is the shortest delay.
    pub pictures_kept: u32,
    /// An nl_display: NL_DISPLAY_HEADSET requests two eyes side by side.
    pub display: u32,
    /// Refresh rate of the display in hertz; 0: a picture is displayed the moment it is decoded.
    pub display_hz: u16,
    /// 1: requests the program's sound.
    pub sound: u8,
    /// 1: shares texts of the clipboard, where the server's owner allows it too.
    pub clipboard: u8,
    /// 1: the program says by nl_viewer_displayed when each picture is seen; 0: it counts as seen when it is taken.
    pub tells_display: u8,
}

/// A decoded picture. Times are on nl_viewer_now's clock; 0 before the clocks were compared, which takes a round trip.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct nl_received_picture {
    /// sizeof(nl_received_picture)
    pub size: usize,
    /// Names it for nl_viewer_release and the other calls.
    pub id: u64,
    pub width: u32,
    pub height: u32,
    /// Luma, blue, red: 4:2:0 in BT.709's limited range, to be read until the picture is released or the viewer closed.
    pub planes: [*const u8; 3],
    /// Bytes from one row to the next.
    pub strides: [usize; 3],
    /// Counts from 0 in each session.
    pub frame: u32,
    /// Counts from 1: another one begins when the connection was lost, or the codec changes.
    pub session: u32,
    /// The newest input that it shows; 0 before the first.
    pub input: u32,
    /// 1: `marker_frame` and `marker_input` were read from the rows below the picture.
    pub has_marker: u32,
    pub marker_frame: u32,
    pub marker_input: u32,
    /// 1: decodes without any other frame.
    pub key: u32,
    /// 1: something that it depends on was lost.
    pub damaged: u32,
    /// When its rendering, or its capture, began and ended.
    pub captured_at: u64,
    pub rendered_at: u64,
    /// When it left the encoder.
    pub encoded_at: u64,
    /// When it was rendered to be displayed.
    pub display_at: u64,
    pub decoded_at: u64,
    /// What each eye of the picture sees, left first: one for a screen, two side by side for a headset.
    pub view_count: u32,
    pub views: [nl_view; 2],
}

/// What happened to a viewer.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum nl_viewer_event_kind {
    /// A server has welcomed the viewer: at first, and after each loss of the connection. `data` names the server's version.
    Connected = 1,
    /// The connection was lost, and the viewer tries to open another one; `data` says why. What was held counts as let go of.
    Lost = 2,
    /// Pictures are `width` by `height` at `fps` from now on, for `eyes` eyes; `data` names the codec.
    Stream = 3,
    /// Gamepad `device`, or the controller of hand `device` where `is_controller`, shakes.
    Haptics = 4,
    /// How the application wants the pointer: `data` is a keyword of CSS' `cursor`, or empty for an image of its own; with `captured` 1 a
    /// click captures it.
    Pointer = 5,
    /// `data` is a text for the user's clipboard.
    Clipboard = 6,
    /// `data` is a message of the application; `reliable` says how it came.
    Message = 7,
    /// No picture comes any more; `data` says why, and is empty where the viewer was closed.
    Ended = 8,
}

/// Something that happened to a viewer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct nl_viewer_event {
    /// sizeof(nl_viewer_event)
    pub size: usize,
    /// An nl_viewer_event_kind; ignore those that you do not know.
    pub kind: u32,
    /// 1: a message that came once and in order.
    pub reliable: u32,
    /// When, on nl_viewer_now's clock.
    pub at: u64,
    pub width: u32,
    pub height: u32,
    pub fps: u32,
    pub eyes: u32,
    /// Number of a gamepad, or an nl_hand.
    pub device: u32,
    pub is_controller: u32,
    pub milliseconds: u32,
    /// Strength of the slow, strong motor and of the fast, weak one, 0 to 1.
    pub strong: f32,
    pub weak: f32,
    pub captured: u32,
    /// Text or message, followed by a zero byte; valid until this thread's next nl_viewer_poll_event.
    pub data: *const u8,
    pub data_size: usize,
}

/// What a user does.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum nl_input_kind {
    /// The head is at `head`; the eyes and what they see follow from it.
    Head = 1,
    /// `head`, `views`, `gaze` and `controllers` as a headset's driver knows them.
    Presence = 2,
    /// Key `code`, a USB HID usage page << 16 | usage, is `pressed` or not.
    Key = 3,
    /// `text` was typed, up to 4096 bytes.
    Text = 4,
    /// The pointer is as in `pointer`.
    Pointer = 5,
    /// The fingers are those of `touches`, all of them.
    Touches = 6,
    /// The gamepads are those of `gamepads`, all of them.
    Gamepads = 7,
    /// The hand `code`, NL_HAND_LEFT or NL_HAND_RIGHT, is as in `hand`; with `tracked` 0 it is gone.
    Hand = 8,
    /// Everything that is held is let go of.
    ReleaseAll = 9,
    /// The display is of the kind `display` and refreshes `display_hz` times a second; 0 where it shows a picture at once.
    Display = 10,
    /// The user pastes `text`.
    Clipboard = 11,
}

/// What a user does now.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct nl_input {
    /// sizeof(nl_input)
    pub size: usize,
    /// An nl_input_kind, which says what of the rest counts.
    pub kind: u32,
    pub code: u32,
    pub pressed: u32,
    pub display: u32,
    pub display_hz: u32,
    pub text: *const c_char,
    pub pointer: nl_pointer,
    pub touch_count: u32,
    pub touches: [nl_touch; 10],
    pub gamepad_count: u32,
    pub gamepads: [nl_gamepad; 4],
    pub head: nl_pose,
    pub view_count: u32,
    pub views: [nl_view; 2],
    pub has_gaze: u32,
    pub gaze: nl_pose,
    pub controller_count: u32,
    pub controllers: [nl_controller; 3],
    pub hand: nl_tracked_hand,
}

/// What a viewer has counted, as of the last half second.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct nl_viewer_counts {
    /// sizeof(nl_viewer_counts)
    pub size: usize,
    /// 1: a server has welcomed the viewer, and the connection was not lost.
    pub connected: u32,
    /// How often one has.
    pub connections: u32,
    /// Pictures displayed a second.
    pub fps: f64,
    /// Median in nanoseconds, from an input to the display of the first picture that shows it; 0 before one was.
    pub motion_to_photon: u64,
    /// Over the last second, in bits a second.
    pub received_bps: u64,
    /// Bytes received on the newest connection.
    pub bytes: u64,
    /// Frames that the decoder refused.
    pub refused: u64,
    /// Datagrams that are none.
    pub malformed: u64,
    /// Pictures that newer ones replaced before the program took them.
    pub pictures_passed_over: u64,
    /// Events and frames of sound that the program did not take in time.
    pub events_dropped: u64,
    pub sound_dropped: u64,
}

versioned!(
    nl_viewer_options up to tells_display,
    nl_received_picture up to views,
    nl_viewer_event up to data_size,
    nl_input up to hand,
    nl_viewer_counts up to sound_dropped,
);
