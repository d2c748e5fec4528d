//! What a program sends for its user, checked before it leaves: a server drops what is out of range without an answer.

use nearlight_session::{DeviceInput, Presence};
use nearlight_units::{InputSeq, RemoteTime};
use nearlight_wire::{
    Devices, DevicesDescription, DisplayKind, HandSample, InputSample, Key, MAX_CLIPBOARD_BYTES, MAX_CONTROLLER_AXES,
    MAX_CONTROLLER_BUTTONS, MAX_CONTROLLERS, MAX_GAMEPAD_AXES, MAX_GAMEPAD_BUTTONS, MAX_GAMEPADS, MAX_TOUCHES, Pose,
    ToServer,
};

use crate::ViewerError;

/// Bytes of text in one call. Guess: a pasted paragraph; more belongs into the clipboard or a message.
const MAX_TYPED_BYTES: usize = 4_096;
/// Bytes of a device's name. Guess: those that systems report are a third of it.
const MAX_NAME_BYTES: usize = 200;
const MAX_VIEWS: usize = 2;

/// What the user does.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The head is here; the eyes and what they see follow from it.
    Head(Pose),
    /// Where eyes and controllers are, as a headset's driver knows it.
    Presence(Presence),
    /// Keys, text, pointer, fingers, gamepads, hands.
    Device(DeviceInput),
    /// What gamepads and controllers there are: all of them, whenever one comes or goes.
    Devices(DevicesDescription),
    /// The kind of display, and its refresh rate in hertz; 0 where a picture is displayed the moment it is decoded.
    Display { display: DisplayKind, display_hz: u16 },
    /// The user pastes this text.
    Clipboard(String),
}

impl Input {
    /// A key by W3C's code, such as `KeyW` or `Space`; none for a code that does not exist.
    #[must_use]
    pub fn key(code: &str, pressed: bool) -> Option<Self> {
        Some(Self::Device(DeviceInput::Key { key: Key::from_code(code)?, pressed }))
    }

    pub(crate) fn check(&self) -> Result<(), ViewerError> {
        match self {
            Self::Head(head) => check_sample(*head, Vec::new(), Devices::default()),
            Self::Presence(Presence { head, views, gaze, controllers }) => {
                most("views", views.len(), MAX_VIEWS)?;
                most("controllers", controllers.len(), MAX_CONTROLLERS)?;
                for controller in controllers {
                    most("buttons", controller.values.len(), MAX_CONTROLLER_BUTTONS)?;
                    most("axes", controller.axes.len(), MAX_CONTROLLER_AXES)?;
                }
                let devices = Devices { gaze: *gaze, controllers: controllers.clone(), ..Devices::default() };
                check_sample(*head, views.clone(), devices)
            }
            Self::Device(input) => check_device(input),
            Self::Devices(devices) => {
                most("gamepads", devices.gamepads.len(), MAX_GAMEPADS)?;
                most("controllers", devices.controllers.len(), MAX_CONTROLLERS)?;
                let names = devices.gamepads.iter().map(|gamepad| gamepad.name.len());
                names.max().map_or(Ok(()), |longest| most("bytes of a name", longest, MAX_NAME_BYTES))
            }
            Self::Display { .. } => Ok(()),
            Self::Clipboard(text) => most("bytes", text.len(), MAX_CLIPBOARD_BYTES),
        }
    }
}

impl From<DeviceInput> for Input {
    fn from(input: DeviceInput) -> Self {
        Self::Device(input)
    }
}

fn check_device(input: &DeviceInput) -> Result<(), ViewerError> {
    let mut devices = Devices::default();
    match input {
        DeviceInput::Key { key, .. } => devices.keys.push(*key),
        DeviceInput::Text(text) => return most("bytes of text", text.len(), MAX_TYPED_BYTES),
        DeviceInput::Pointer(pointer) => devices.pointer = *pointer,
        DeviceInput::Touches(touches) => {
            most("fingers", touches.len(), MAX_TOUCHES)?;
            devices.touches.clone_from(touches);
        }
        DeviceInput::Gamepads(gamepads) => {
            most("gamepads", gamepads.len(), MAX_GAMEPADS)?;
            for gamepad in gamepads {
                most("buttons", gamepad.values.len(), MAX_GAMEPAD_BUTTONS)?;
                most("axes", gamepad.axes.len(), MAX_GAMEPAD_AXES)?;
            }
            devices.gamepads.clone_from(gamepads);
        }
        DeviceInput::Joints(joints) => {
            let hand = HandSample { seq: InputSeq(1), joints: joints.as_ref().clone() };
            return parses(&ToServer::Hand(Box::new(hand)));
        }
        DeviceInput::JointsGone(_) | DeviceInput::ReleaseAll => {}
    }
    check_sample(Pose::default(), Vec::new(), devices)
}

fn most(what: &'static str, got: usize, most: usize) -> Result<(), ViewerError> {
    if got > most { Err(ViewerError::TooMany { what, got, most }) } else { Ok(()) }
}

/// Whether the server's own parser takes it.
fn check_sample(head: Pose, mut views: Vec<nearlight_wire::View>, devices: Devices) -> Result<(), ViewerError> {
    if views.is_empty() {
        views.push(nearlight_wire::View { pose: Pose::default(), fov: nearlight_wire::Fov::symmetric(1.0, 1.0) });
    }
    let sample = InputSample::of_views(InputSeq(1), RemoteTime::default(), head, views);
    parses(&ToServer::Input(InputSample { devices, ..sample }))
}

fn parses(message: &ToServer) -> Result<(), ViewerError> {
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
            (DeviceInput::Text("x".repeat(MAX_TYPED_BYTES + 1)).into(), false),
            (DeviceInput::ReleaseAll.into(), true),
            (Input::key("Space", true).expect("a code"), true),
        ];
        for (input, fine) in cases {
            assert_eq!(input.check().is_ok(), fine, "{input:?}: {:?}", input.check());
        }
        assert_eq!(Input::key("no such key", true), None);
    }
}
