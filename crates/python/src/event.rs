//! Events as data classes of `nearlight/_types.py`.

use nearlight_embed as embed;
use nearlight_embed::{CursorShape, DevicesDescription, Haptics, HapticsTarget, InputEvent};
use nearlight_viewer as viewer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::value::{button_name, hand_name, key_name, make, pointer, viewer_state};
use crate::wait::seconds;

/// What the program of a server gets, in the order in which it happened.
pub(crate) enum Heard {
    Event(embed::Event),
    /// What [`embed::What::Moved`] comes to: where the viewer is now, and how far pointer and wheel went since the last one.
    Moved {
        event: embed::Event,
        state: Box<embed::ViewerState>,
    },
    Pointer {
        event: embed::Event,
        pointer: viewer::Pointer,
        moved: [i32; 2],
    },
    Wheel {
        event: embed::Event,
        scrolled: [f32; 2],
    },
}

pub(crate) fn of_server<'py>(py: Python<'py>, heard: &Heard) -> PyResult<Bound<'py, PyAny>> {
    let (Heard::Event(event) | Heard::Moved { event, .. } | Heard::Pointer { event, .. } | Heard::Wheel { event, .. }) =
        heard;
    let (at, from) = (seconds(event.at), event.viewer.map(|viewer| viewer.0));
    match heard {
        Heard::Event(embed::Event { what, .. }) => of_what(py, at, from, what),
        Heard::Moved { state, .. } => make(py, "Moved", (at, from, viewer_state(py, state)?)),
        Heard::Pointer { pointer: now, moved, .. } => {
            make(py, "PointerMoved", (at, from, pointer(py, now)?, moved[0], moved[1]))
        }
        Heard::Wheel { scrolled, .. } => make(py, "Wheel", (at, from, scrolled[0], scrolled[1])),
    }
}

fn of_what<'py>(py: Python<'py>, at: f64, from: Option<u32>, what: &embed::What) -> PyResult<Bound<'py, PyAny>> {
    match what {
        embed::What::ViewerJoined => make(py, "ViewerJoined", (at, from)),
        embed::What::ViewerLeft => make(py, "ViewerLeft", (at, from)),
        // It comes with the viewer's state, except where the viewer has left since.
        embed::What::Moved => make(py, "Moved", (at, from, py.None())),
        embed::What::Input(input) => of_input(py, at, from, input),
        embed::What::Devices(devices) => of_devices(py, at, from, devices),
        embed::What::Message(message) => {
            make(py, "Message", (at, from, PyBytes::new(py, &message.data), message.reliable))
        }
        embed::What::Clipboard(text) => make(py, "Clipboard", (at, from, text)),
        embed::What::LinksChanged => make(py, "LinksChanged", (at, from)),
        embed::What::Failed(reason) => make(py, "Ended", (at, from, reason)),
    }
}

fn of_input<'py>(py: Python<'py>, at: f64, from: Option<u32>, input: &InputEvent) -> PyResult<Bound<'py, PyAny>> {
    match input {
        InputEvent::Key { key, pressed } => make(py, "Key", (at, from, key_name(key.code()), *pressed, key.0)),
        InputEvent::Text(text) => make(py, "Text", (at, from, text)),
        InputEvent::Button { button, pressed, at: place } => {
            let [x, y] = place.fractions();
            make(py, "PointerButton", (at, from, button_name(*button), *pressed, x, y))
        }
        InputEvent::TouchBegan { id, at: place } => {
            let [x, y] = place.fractions();
            make(py, "TouchBegan", (at, from, *id, x, y))
        }
        InputEvent::TouchEnded { id, at: place, cancelled } => {
            let [x, y] = place.fractions();
            make(py, "TouchEnded", (at, from, *id, x, y, *cancelled))
        }
        InputEvent::GamepadButton { gamepad, button, pressed } => {
            make(py, "GamepadButton", (at, from, *gamepad, *button, *pressed))
        }
        InputEvent::ControllerButton { hand, button, pressed } => {
            make(py, "ControllerButton", (at, from, hand_name(*hand), *button, *pressed))
        }
    }
}

fn of_devices<'py>(
    py: Python<'py>,
    at: f64,
    from: Option<u32>,
    devices: &DevicesDescription,
) -> PyResult<Bound<'py, PyAny>> {
    let gamepads = devices.gamepads.iter();
    let gamepads = gamepads.map(|known| make(py, "GamepadInfo", (known.index, &known.name, known.haptics)));
    let gamepads = gamepads.collect::<PyResult<Vec<_>>>()?;
    let controllers = devices.controllers.iter().map(|known| {
        make(py, "ControllerInfo", (hand_name(known.hand), PyTuple::new(py, &known.profiles)?, known.haptics))
    });
    let controllers = controllers.collect::<PyResult<Vec<_>>>()?;
    make(py, "DevicesChanged", (at, from, PyTuple::new(py, gamepads)?, PyTuple::new(py, controllers)?))
}

/// What the program of a viewer gets.
pub(crate) fn of_viewer<'py>(py: Python<'py>, event: &viewer::Event) -> PyResult<Bound<'py, PyAny>> {
    let (at, from) = (seconds(event.at), None::<u32>);
    match &event.what {
        viewer::What::Connected(welcome) => {
            let info = stream(py, &welcome.stream)?;
            make(py, "Connected", (at, from, &welcome.server, info, &welcome.controller))
        }
        viewer::What::Lost(reason) => make(py, "ConnectionLost", (at, from, reason)),
        viewer::What::Stream(description) => make(py, "StreamChanged", (at, from, stream(py, description)?)),
        viewer::What::Haptics(Haptics { target, milliseconds, strong, weak }) => {
            let (gamepad, hand) = match target {
                HapticsTarget::Gamepad(number) => (Some(*number), None),
                HapticsTarget::Controller(hand) => (None, Some(hand_name(*hand))),
            };
            let length = f64::from(*milliseconds) / 1e3;
            make(py, "Haptics", (at, from, gamepad, hand, length, *strong, *weak))
        }
        viewer::What::Pointer(request) => {
            // Pixels of a pointer of the program's own are not handed out: there is no window here that could show them.
            let shape = match &request.cursor {
                CursorShape::Named(name) => name.as_str(),
                CursorShape::Image { .. } => "image",
            };
            make(py, "PointerRequested", (at, from, shape, request.captured))
        }
        viewer::What::Clipboard(text) => make(py, "Clipboard", (at, from, text)),
        viewer::What::Message(message) => {
            make(py, "Message", (at, from, PyBytes::new(py, &message.data), message.reliable))
        }
        viewer::What::Ended(reason) => make(py, "Ended", (at, from, reason)),
    }
}

fn stream<'py>(py: Python<'py>, stream: &viewer::StreamDescription) -> PyResult<Bound<'py, PyAny>> {
    let viewer::StreamDescription { codec, width, height, fps, encoder, adapter, views, .. } = stream;
    make(py, "StreamInfo", (codec.name(), *width, *height, *fps, encoder, adapter, *views))
}
