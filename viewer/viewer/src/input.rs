//! The user's input as a program sends it. It is validated first, because a server drops invalid input without an answer.

use nearlight_session::{DeviceInput, Presence};
use nearlight_units::{InputSeq, RemoteTime};
use nearlight_wire::{
    Devices, DevicesDescription, DisplayKind, HandSample, InputSample, Key, MAX_CLIPBOARD_BYTES, MAX_CONTROLLER_AXES,
    MAX_CONTROLLER_BUTTONS, MAX_CONTROLLERS, MAX_GAMEPAD_AXES, MAX_GAMEPAD_BUTTONS, MAX_GAMEPADS, MAX_TOUCHES, Pose,
    ToServer,
};

use crate::ViewerError;

/// Maximum number of bytes of typed text in one call. Guess: a paragraph; longer texts belong into the clipboard or a message.
const MAX_TEXT_BYTES: usize = 4_096;
/// Maximum number of bytes of a device's name. Guess: three times the longest names that systems report.
const MAX_NAME_BYTES: usize = 200;
/// Maximum number of views of a sample: one per eye.
const MAX_VIEWS: usize = 2;

/// An input of the user.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The head's pose, from which the poses of the eyes and their fields of view are derived.
    Head(Pose),
    /// Poses of head, eyes and controllers as a headset's driver reports them.
    Presence(Presence),
    /// Input from keyboard, pointer, touch screen, gamepads or hands.
    Device(DeviceInput),
    /// Descriptions of all gamepads and controllers, to be sent whenever one is connected or disconnected.
    Devices(DevicesDescription),
    /// The kind of display, and its refresh rate in hertz; 0 if pictures are displayed as soon as they are decoded.
    Display { display: DisplayKind, display_hz: u16 },
    /// A text that the user pastes.
    Clipboard(String),
}

impl Input {
    /// Returns the input of a key by W3C's code, such as `KeyW` or `Space`; `None` for an unknown code.
    #[must_use]
    pub fn key(code: &str, pressed: bool) -> Option<Self> {
        Some(Self::Device(DeviceInput::Key { key: Key::from_code(code)?, pressed }))
    }

    pub(crate) fn validate(&self) -> Result<(), ViewerError> {
        match self {
            Self::Head(head) => validate_sample(*head, Vec::new(), Devices::default()),
            Self::Presence(Presence { head, views, gaze, controllers }) => {
                check_count("views", views.len(), MAX_VIEWS)?;
                check_count("controllers", controllers.len(), MAX_CONTROLLERS)?;
                for controller in controllers {
                    check_count("buttons", controller.values.len(), MAX_CONTROLLER_BUTTONS)?;
                    check_count("axes", controller.axes.len(), MAX_CONTROLLER_AXES)?;
                }
                let devices = Devices { gaze: *gaze, controllers: controllers.clone(), ..Devices::default() };
                validate_sample(*head, views.clone(), devices)
            }
            Self::Device(input) => validate_device(input),
            Self::Devices(devices) => {
                check_count("gamepads", devices.gamepads.len(), MAX_GAMEPADS)?;
                check_count("controllers", devices.controllers.len(), MAX_CONTROLLERS)?;
                let names = devices.gamepads.iter().map(|gamepad| gamepad.name.len());
                names.max().map_or(Ok(()), |longest| check_count("bytes of a name", longest, MAX_NAME_BYTES))
            }
            Self::Display { .. } => Ok(()),
            Self::Clipboard(text) => check_count("bytes", text.len(), MAX_CLIPBOARD_BYTES),
        }
    }
}

impl From<DeviceInput> for Input {
    fn from(input: DeviceInput) -> Self {
        Self::Device(input)
    }
}

fn validate_device(input: &DeviceInput) -> Result<(), ViewerError> {
    let mut devices = Devices::default();
    match input {
        DeviceInput::Key { key, .. } | DeviceInput::KeyCharacter { key, .. } => devices.keys.push(*key),
        DeviceInput::KeyRepeat { text, .. } | DeviceInput::Text(text) => {
            return check_count("bytes of text", text.len(), MAX_TEXT_BYTES);
        }
        DeviceInput::Pointer(pointer) => devices.pointer = *pointer,
        DeviceInput::Touches(touches) => {
            check_count("fingers", touches.len(), MAX_TOUCHES)?;
            devices.touches.clone_from(touches);
        }
        DeviceInput::Gamepads(gamepads) => {
            check_count("gamepads", gamepads.len(), MAX_GAMEPADS)?;
            for gamepad in gamepads {
                check_count("buttons", gamepad.values.len(), MAX_GAMEPAD_BUTTONS)?;
                check_count("axes", gamepad.axes.len(), MAX_GAMEPAD_AXES)?;
            }
            devices.gamepads.clone_from(gamepads);
        }
        DeviceInput::Joints(joints) => {
            let hand = HandSample { seq: InputSeq(1), joints: joints.as_ref().clone() };
            return validate_message(&ToServer::Hand(Box::new(hand)));
        }
        DeviceInput::JointsGone(_) | DeviceInput::ReleaseAll => {}
    }
    validate_sample(Pose::default(), Vec::new(), devices)
}

/// Returns an error if there are more than `most` of something.
fn check_count(what: &'static str, got: usize, most: usize) -> Result<(), ViewerError> {
    if got > most { Err(ViewerError::TooMany { what, got, most }) } else { Ok(()) }
}

/// Validates a sample with the server's own parser.
fn validate_sample(head: Pose, mut views: Vec<nearlight_wire::View>, devices: Devices) -> Result<(), ViewerError> {
    if views.is_empty() {
        views.push(nearlight_wire::View { pose: Pose::default(), fov: nearlight_wire::Fov::symmetric(1.0, 1.0) });
    }
    let sample = InputSample::of_views(InputSeq(1), RemoteTime::default(), head, views);
    validate_message(&ToServer::Input(InputSample { devices, ..sample }))
}

fn validate_message(message: &ToServer) -> Result<(), ViewerError> {
    Ok(ToServer::parse(&message.to_bytes()).map(drop)?)
}

#[cfg(test)]
mod tests {
    use nearlight_wire::{Gamepad, GamepadDescription, Hand, HandJoints, Joint, Pointer, Touch, View};

    use super::*;

    fn touches(count: u32) -> Input {
        let touch = |id| Touch { id, at: nearlight_wire::ScreenPoint::new(0.5, 0.5), pressure: 9 };
        DeviceInput::Touches((0..count).map(touch).collect()).into()
    }

    #[test]
    fn what_a_server_would_drop_is_an_error_here() {
        let pose = |x: f32, w: f32| Pose { position: [x, 0.0, 0.0], orientation: [0.0, 0.0, 0.0, w] };
        let view = |left: f32| View {
            pose: pose(0.0, 1.0),
            fov: nearlight_wire::Fov { left, right: 1.0, down: -1.0, up: 1.0 },
        };
        let presence = |views| Input::Presence(Presence::of_views(pose(0.0, 1.0), views));
        let gamepad = |index, buttons: usize| {
            let gamepad = Gamepad { index, pressed: 0, values: vec![0; buttons], axes: vec![0; 4] };
            Input::from(DeviceInput::Gamepads(vec![gamepad]))
        };
        let hand = |hand, radius| {
            let joints = [Joint { radius, ..Joint::default() }; nearlight_wire::JOINTS];
            Input::from(DeviceInput::Joints(Box::new(HandJoints { hand, wrist: [0.0; 3], joints })))
        };
        let named = |bytes| {
            let gamepads = vec![GamepadDescription { index: 0, name: "x".repeat(bytes), haptics: true }];
            Input::Devices(DevicesDescription { gamepads, controllers: Vec::new() })
        };
        let pointer = |buttons| DeviceInput::Pointer(Some(Pointer { buttons, ..Pointer::default() })).into();
        let cases = [
            (Input::Head(pose(1.0, 1.0)), true),
            (Input::Head(pose(f32::NAN, 1.0)), false),
            (Input::Head(pose(1e9, 1.0)), false),
            (Input::Head(pose(1.0, 0.0)), false),
            (presence(vec![view(-1.0); 2]), true),
            (presence(vec![view(-1.0); 3]), false),
            (presence(vec![view(2.0)]), false),
            (touches(10), true),
            (touches(11), false),
            (touches(256 + 3), false),
            (gamepad(3, 17), true),
            (gamepad(4, 17), false),
            (gamepad(0, 21), false),
            (hand(Hand::Left, 0.01), true),
            (hand(Hand::None, 0.01), false),
            (pointer(1), true),
            (pointer(0x80), false),
            (named(200), true),
            (named(201), false),
            (Input::Clipboard("x".repeat(MAX_CLIPBOARD_BYTES)), true),
            (Input::Clipboard("x".repeat(MAX_CLIPBOARD_BYTES + 1)), false),
            (DeviceInput::Text("x".repeat(MAX_TEXT_BYTES + 1)).into(), false),
            (DeviceInput::ReleaseAll.into(), true),
            (Input::key("Space", true).expect("a code"), true),
        ];
        for (input, fine) in cases {
            assert_eq!(input.validate().is_ok(), fine, "{input:?}: {:?}", input.validate());
        }
        assert_eq!(Input::key("no such key", true), None);
    }
}
