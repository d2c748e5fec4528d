//! Converts events into data classes of `nearlight/_types.py`.

use nearlight_embed as embed;
use nearlight_embed::{CursorShape, DevicesDescription, Haptics, HapticsTarget, InputEvent};
use nearlight_viewer as viewer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::value::{button_name, hand_name, key_name, make, pointer, viewer_state};
use crate::wait::seconds;

/// An event for the program of a server.
pub(crate) enum ServerEvent {
    Event(embed::Event),
    /// An [`embed::EventKind::Moved`] with the viewer's state. The next two variants report the movement of pointer and wheel that it
    /// includes.
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

/// Converts an event of a server.
pub(crate) fn server_event<'py>(py: Python<'py>, server_event: &ServerEvent) -> PyResult<Bound<'py, PyAny>> {
    let (ServerEvent::Event(event)
    | ServerEvent::Moved { event, .. }
    | ServerEvent::Pointer { event, .. }
    | ServerEvent::Wheel { event, .. }) = server_event;
    let (at, from) = (seconds(event.at), event.viewer.map(|viewer| viewer.0));
    match server_event {
        ServerEvent::Event(embed::Event { kind, .. }) => embed_event(py, at, from, kind),
        ServerEvent::Moved { state, .. } => make(py, "Moved", (at, from, viewer_state(py, state)?)),
        ServerEvent::Pointer { pointer: now, moved, .. } => {
            make(py, "PointerMoved", (at, from, pointer(py, now)?, moved[0], moved[1]))
        }
        ServerEvent::Wheel { scrolled, .. } => make(py, "Wheel", (at, from, scrolled[0], scrolled[1])),
    }
}

fn embed_event<'py>(
    py: Python<'py>,
    at: f64,
    from: Option<u32>,
    kind: &embed::EventKind,
) -> PyResult<Bound<'py, PyAny>> {
    match kind {
        embed::EventKind::ViewerJoined => make(py, "ViewerJoined", (at, from)),
        embed::EventKind::ViewerLeft => make(py, "ViewerLeft", (at, from)),
        // The viewer has left since, so that there is no state.
        embed::EventKind::Moved => make(py, "Moved", (at, from, py.None())),
        embed::EventKind::Input(input) => input_event(py, at, from, input),
        embed::EventKind::Devices(devices) => devices_event(py, at, from, devices),
        embed::EventKind::Message(message) => {
            make(py, "Message", (at, from, PyBytes::new(py, &message.data), message.reliable))
        }
        embed::EventKind::Clipboard(text) => make(py, "Clipboard", (at, from, text)),
        embed::EventKind::Failed(reason) => make(py, "Ended", (at, from, reason)),
    }
}

fn input_event<'py>(py: Python<'py>, at: f64, from: Option<u32>, input: &InputEvent) -> PyResult<Bound<'py, PyAny>> {
    match input {
        InputEvent::Key { key, pressed } => make(py, "Key", (at, from, key_name(key.code()), *pressed, key.0)),
        InputEvent::KeyRepeated { key } => make(py, "KeyRepeated", (at, from, key_name(key.code()), key.0)),
        InputEvent::KeyCharacter { key, character } => {
            make(py, "KeyCharacter", (at, from, key_name(key.code()), character.to_string(), key.0))
        }
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

fn devices_event<'py>(
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

/// Converts an event of a viewer.
pub(crate) fn viewer_event<'py>(py: Python<'py>, event: &viewer::Event) -> PyResult<Bound<'py, PyAny>> {
    let (at, from) = (seconds(event.at), None::<u32>);
    match &event.kind {
        viewer::EventKind::Connected(welcome) => {
            let info = stream(py, &welcome.stream)?;
            make(py, "Connected", (at, from, &welcome.server, info, &welcome.controller))
        }
        viewer::EventKind::ConnectionLost(reason) => make(py, "ConnectionLost", (at, from, reason)),
        viewer::EventKind::Stream(description) => make(py, "StreamChanged", (at, from, stream(py, description)?)),
        viewer::EventKind::Haptics(Haptics { target, milliseconds, strong, weak }) => {
            let (gamepad, hand) = match target {
                HapticsTarget::Gamepad(number) => (Some(*number), None),
                HapticsTarget::Controller(hand) => (None, Some(hand_name(*hand))),
            };
            let length = f64::from(*milliseconds) / 1e3;
            make(py, "Haptics", (at, from, gamepad, hand, length, *strong, *weak))
        }
        viewer::EventKind::Pointer(request) => {
            // The pixels of a custom pointer are not passed on, because there is no window here that could show them.
            let shape = match &request.cursor {
                CursorShape::Named(name) => name.as_str(),
                CursorShape::Image { .. } => "image",
            };
            make(py, "PointerRequested", (at, from, shape, request.captured))
        }
        viewer::EventKind::Clipboard(text) => make(py, "Clipboard", (at, from, text)),
        viewer::EventKind::Message(message) => {
            make(py, "Message", (at, from, PyBytes::new(py, &message.data), message.reliable))
        }
        viewer::EventKind::Ended(reason) => make(py, "Ended", (at, from, reason)),
    }
}

fn stream<'py>(py: Python<'py>, stream: &viewer::StreamDescription) -> PyResult<Bound<'py, PyAny>> {
    let viewer::StreamDescription { codec, width, height, fps, encoder, adapter, views, .. } = stream;
    make(py, "StreamInfo", (codec.name(), *width, *height, *fps, encoder, adapter, *views))
}
