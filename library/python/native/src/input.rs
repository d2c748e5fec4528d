//! Converts the input that a viewer's program sends for its user.

use nearlight_viewer::{
    ControllerDescription, DeviceInput, DevicesDescription, GamepadDescription, Input, Key, Pointer, Presence,
};
use pyo3::prelude::*;

use crate::error::ErrorClass;
use crate::value::{
    all_of, button_of, controller_of, display_of, gamepad_of, hand_of, joints_of, optional_pose_of, place, pose_of,
    touch_of, view_of,
};

/// The wheel's units of a CSS pixel (docs/wire.md).
const WHEEL_UNITS: f64 = 16.0;

/// Converts an input from its kind and arguments, as `nearlight/_viewer.py` passes them.
pub(crate) fn input_of(kind: &str, with: &Bound<'_, PyAny>) -> PyResult<Input> {
    Ok(match kind {
        "key" => {
            let (code, pressed): (String, bool) = with.extract()?;
            DeviceInput::Key { key: key_of(&code)?, pressed }.into()
        }
        "text" => DeviceInput::Text(with.extract()?).into(),
        "no pointer" => DeviceInput::Pointer(None).into(),
        "touches" => DeviceInput::Touches(all_of(with, touch_of)?).into(),
        "gamepads" => DeviceInput::Gamepads(all_of(with, gamepad_of)?).into(),
        "hand" => {
            let (hand, joints): (String, Bound<'_, PyAny>) = with.extract()?;
            let hand = hand_of(&hand)?;
            if joints.is_none() {
                DeviceInput::JointsGone(hand).into()
            } else {
                DeviceInput::Joints(Box::new(joints_of(hand, &joints)?)).into()
            }
        }
        "release" => DeviceInput::ReleaseAll.into(),
        "head" => Input::Head(pose_of(with)?),
        "presence" => {
            type Parts<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);
            let (head, views, gaze, controllers): Parts<'_> = with.extract()?;
            Input::Presence(Presence {
                head: pose_of(&head)?,
                views: all_of(&views, view_of)?,
                gaze: optional_pose_of(&gaze)?,
                controllers: all_of(&controllers, controller_of)?,
            })
        }
        "devices" => Input::Devices(devices_of(with)?),
        "display" => {
            let (display, display_hz): (String, u16) = with.extract()?;
            Input::Display { display: display_of(&display)?, display_hz }
        }
        "clipboard" => Input::Clipboard(with.extract()?),
        _ => return Err(ErrorClass::Error.with_message(format!("`{kind}` is not an input"))),
    })
}

fn key_of(code: &str) -> PyResult<Key> {
    Key::from_code(code).ok_or_else(|| {
        ErrorClass::Usage.with_message(format!(
            "`{code}` is not a key: write a code as browsers have it (KeyboardEvent.code), such as KeyW, Digit1, Space or ArrowLeft"
        ))
    })
}

/// Returns the pointer after an input: its position, the pressed buttons, and the movement of pointer and wheel in CSS pixels.
pub(crate) fn pointer_after(before: Pointer, x: f32, y: f32, with: &Bound<'_, PyAny>) -> PyResult<Pointer> {
    let (buttons, moved, scrolled, captured): (Vec<String>, [i32; 2], [f64; 2], bool) = with.extract()?;
    let mut bits = 0;
    for button in &buttons {
        bits |= button_of(button)?.bit();
    }
    if !scrolled.iter().all(|pixels| pixels.abs() <= 1e6) {
        return Err(ErrorClass::Usage.with_message("the wheel moved by no number of pixels that can be"));
    }
    let sum = |total: [i32; 2], more: [i32; 2]| [total[0].wrapping_add(more[0]), total[1].wrapping_add(more[1])];
    Ok(Pointer {
        at: place(x, y)?,
        captured,
        moved: sum(before.moved, moved),
        scrolled: sum(before.scrolled, scrolled.map(|pixels| (pixels * WHEEL_UNITS).round() as i32)),
        buttons: bits,
    })
}

fn devices_of(with: &Bound<'_, PyAny>) -> PyResult<DevicesDescription> {
    let (gamepads, controllers): (Bound<'_, PyAny>, Bound<'_, PyAny>) = with.extract()?;
    let gamepads = all_of(&gamepads, |known| {
        Ok(GamepadDescription {
            index: known.getattr("index")?.extract()?,
            name: known.getattr("name")?.extract()?,
            haptics: known.getattr("haptics")?.extract()?,
        })
    });
    let controllers = all_of(&controllers, |known| {
        Ok(ControllerDescription {
            hand: hand_of(known.getattr("hand")?.extract()?)?,
            profiles: known.getattr("profiles")?.extract()?,
            haptics: known.getattr("haptics")?.extract()?,
        })
    });
    Ok(DevicesDescription { gamepads: gamepads?, controllers: controllers? })
}
