//! Converts poses, devices and similar values between the library's types and the package's data classes (`nearlight/_types.py`).

use nearlight_embed::{Devices, DisplayKind, Fov, Hand, HandJoints, Pose, View, ViewerState};
use nearlight_viewer::{
    Controller, Gamepad, Joint, MAX_CONTROLLER_BUTTONS, Pointer, PointerButton, ScreenPoint, Touch,
};
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFrozenSet, PyTuple};

use crate::error::ErrorClass;
use crate::wait::seconds;

/// Value of the protocol for a gamepad's button that is fully pressed.
const MAX_GAMEPAD_VALUE: f32 = 255.0;
/// Value of the protocol for a controller's button that is fully pressed.
const MAX_CONTROLLER_VALUE: f32 = 65_535.0;
/// Value of the protocol for an axis that is fully deflected.
const MAX_AXIS: f32 = 32_767.0;
/// Value of the protocol for a finger's maximum pressure.
const MAX_PRESSURE: f32 = 255.0;

/// Creates an instance of a data class from its fields, in their order.
pub(crate) fn make<'py>(py: Python<'py>, class: &str, fields: impl PyCallArgs<'py>) -> PyResult<Bound<'py, PyAny>> {
    static TYPES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let types = TYPES.get_or_try_init(py, || py.import("nearlight._types").map(Bound::unbind))?;
    types.bind(py).getattr(class)?.call1(fields)
}

fn tuple<'py, T>(
    py: Python<'py>,
    items: &[T],
    one: impl Fn(Python<'py>, &T) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let items = items.iter().map(|item| one(py, item)).collect::<PyResult<Vec<_>>>()?;
    PyTuple::new(py, items)
}

pub(crate) const fn hand_name(hand: Hand) -> &'static str {
    match hand {
        Hand::None => "none",
        Hand::Left => "left",
        Hand::Right => "right",
    }
}

pub(crate) fn hand_of(name: &str) -> PyResult<Hand> {
    Hand::ALL
        .into_iter()
        .find(|hand| hand_name(*hand) == name)
        .ok_or_else(|| ErrorClass::Usage.with_message(format!("`{name}` is not a hand: write left, right or none")))
}

/// Common names of the buttons of W3C's `MouseEvent.button`.
pub(crate) const BUTTON_NAMES: [(&str, PointerButton); 5] = [
    ("left", PointerButton::Primary),
    ("middle", PointerButton::Auxiliary),
    ("right", PointerButton::Secondary),
    ("back", PointerButton::Back),
    ("forward", PointerButton::Forward),
];

pub(crate) fn button_name(button: PointerButton) -> &'static str {
    BUTTON_NAMES.iter().find(|(_, known)| *known == button).map_or("left", |(name, _)| name)
}

pub(crate) fn button_of(name: &str) -> PyResult<PointerButton> {
    BUTTON_NAMES.iter().find(|(known, _)| *known == name).map(|(_, button)| *button).ok_or_else(|| {
        ErrorClass::Usage
            .with_message(format!("`{name}` is not a button of a pointer: write left, middle, right, back or forward"))
    })
}

pub(crate) const fn display_name(display: DisplayKind) -> &'static str {
    match display {
        DisplayKind::Screen => "screen",
        DisplayKind::Headset => "headset",
    }
}

pub(crate) fn display_of(name: &str) -> PyResult<DisplayKind> {
    match name {
        "screen" => Ok(DisplayKind::Screen),
        "headset" => Ok(DisplayKind::Headset),
        _ => Err(ErrorClass::Usage.with_message(format!("`{name}` is not a display: write screen or headset"))),
    }
}

pub(crate) fn pose<'py>(py: Python<'py>, pose: &Pose) -> PyResult<Bound<'py, PyAny>> {
    make(
        py,
        "Pose",
        (
            pose.position.map(f64::from).into_pyobject_tuple(py)?,
            pose.orientation.map(f64::from).into_pyobject_tuple(py)?,
        ),
    )
}

/// Converts an array into a tuple; `PyO3` would create a list.
trait IntoTuple<'py> {
    fn into_pyobject_tuple(self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>>;
}

impl<'py, const N: usize> IntoTuple<'py> for [f64; N] {
    fn into_pyobject_tuple(self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self)
    }
}

pub(crate) fn view<'py>(py: Python<'py>, view: &View) -> PyResult<Bound<'py, PyAny>> {
    let Fov { left, right, down, up } = view.fov;
    make(py, "View", (pose(py, &view.pose)?, make(py, "Fov", (left, right, down, up))?))
}

pub(crate) fn views<'py>(py: Python<'py>, views: &[View]) -> PyResult<Bound<'py, PyTuple>> {
    tuple(py, views, view)
}

/// Reads an object that has the fields of the data class.
pub(crate) fn pose_of(object: &Bound<'_, PyAny>) -> PyResult<Pose> {
    let position = object.getattr("position")?.extract()?;
    Ok(Pose { position, orientation: object.getattr("orientation")?.extract()? })
}

pub(crate) fn optional_pose_of(object: &Bound<'_, PyAny>) -> PyResult<Option<Pose>> {
    if object.is_none() { Ok(None) } else { pose_of(object).map(Some) }
}

pub(crate) fn view_of(object: &Bound<'_, PyAny>) -> PyResult<View> {
    let fov = object.getattr("fov")?;
    let tangent = |name| fov.getattr(name)?.extract::<f32>();
    let fov = Fov { left: tangent("left")?, right: tangent("right")?, down: tangent("down")?, up: tangent("up")? };
    Ok(View { pose: pose_of(&object.getattr("pose")?)?, fov })
}

pub(crate) fn all_of<'py, T>(
    objects: &Bound<'py, PyAny>,
    one: impl Fn(&Bound<'py, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    objects.try_iter()?.map(|object| one(&object?)).collect()
}

/// Returns flags as bits, the first flag in the lowest bit.
fn bits(flags: &Bound<'_, PyAny>) -> PyResult<u32> {
    let flags = all_of(flags, PyAnyMethods::is_truthy)?;
    if flags.len() > 32 {
        return Err(ErrorClass::Usage.with_message("a device has more than 32 buttons: leave some out"));
    }
    Ok(flags.iter().enumerate().map(|(index, flag)| u32::from(*flag) << index).sum())
}

fn flags(py: Python<'_>, bits: u32, count: usize) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, (0..count).map(|index| bits >> index & 1 == 1))
}

fn fractions(values: &Bound<'_, PyAny>, minimum: f32) -> PyResult<Vec<f32>> {
    let values = all_of(values, |value| value.extract::<f32>())?;
    match values.iter().find(|value| !(minimum..=1.0).contains(*value)) {
        Some(value) => Err(ErrorClass::Usage.with_message(format!("{value} is out of range: write {minimum} to 1"))),
        None => Ok(values),
    }
}

pub(crate) fn place(x: f32, y: f32) -> PyResult<ScreenPoint> {
    let is_valid = [x, y].iter().all(|part| (0.0..=1.0).contains(part));
    if is_valid {
        return Ok(ScreenPoint::new(x, y));
    }
    Err(ErrorClass::Usage
        .with_message(format!("({x}, {y}) is not a place in the picture: write fractions of width and height, 0 to 1")))
}

pub(crate) fn pointer<'py>(py: Python<'py>, pointer: &Pointer) -> PyResult<Bound<'py, PyAny>> {
    let [x, y] = pointer.at.fractions();
    let held = BUTTON_NAMES.iter().filter(|(_, button)| pointer.buttons & button.bit() != 0).map(|(name, _)| name);
    make(py, "Pointer", (x, y, PyFrozenSet::new(py, held)?, pointer.captured))
}

fn touch<'py>(py: Python<'py>, touch: &Touch) -> PyResult<Bound<'py, PyAny>> {
    let [x, y] = touch.at.fractions();
    make(py, "Touch", (touch.id, x, y, f32::from(touch.pressure) / MAX_PRESSURE))
}

pub(crate) fn touch_of(object: &Bound<'_, PyAny>) -> PyResult<Touch> {
    let part = |name| object.getattr(name)?.extract::<f32>();
    let pressure = part("pressure")?.clamp(0.0, 1.0) * MAX_PRESSURE;
    Ok(Touch {
        id: object.getattr("id")?.extract()?,
        at: place(part("x")?, part("y")?)?,
        pressure: pressure.round() as u8,
    })
}

fn gamepad<'py>(py: Python<'py>, gamepad: &Gamepad) -> PyResult<Bound<'py, PyAny>> {
    let values = PyTuple::new(py, gamepad.values.iter().map(|value| f32::from(*value) / MAX_GAMEPAD_VALUE))?;
    let axes = PyTuple::new(py, gamepad.axes.iter().map(|axis| f32::from(*axis) / MAX_AXIS))?;
    make(py, "Gamepad", (gamepad.index, flags(py, gamepad.pressed, gamepad.values.len())?, values, axes))
}

pub(crate) fn gamepad_of(object: &Bound<'_, PyAny>) -> PyResult<Gamepad> {
    let pressed = object.getattr("buttons")?;
    let mut values = fractions(&object.getattr("values")?, 0.0)?;
    if values.is_empty() {
        values = all_of(&pressed, |flag| Ok(if flag.is_truthy()? { 1.0 } else { 0.0 }))?;
    }
    Ok(Gamepad {
        index: object.getattr("index")?.extract()?,
        pressed: bits(&pressed)?,
        values: values.iter().map(|value| (value * MAX_GAMEPAD_VALUE).round() as u8).collect(),
        axes: fractions(&object.getattr("axes")?, -1.0)?.iter().map(|axis| (axis * MAX_AXIS).round() as i16).collect(),
    })
}

fn controller<'py>(py: Python<'py>, controller: &Controller) -> PyResult<Bound<'py, PyAny>> {
    let count = controller.values.len();
    let values = PyTuple::new(py, controller.values.iter().map(|value| f32::from(*value) / MAX_CONTROLLER_VALUE))?;
    let axes = PyTuple::new(py, controller.axes.iter().map(|axis| f32::from(*axis) / MAX_AXIS))?;
    let grip = controller.grip.as_ref().map(|grip| pose(py, grip)).transpose()?;
    let [pressed, touched] = [controller.pressed, controller.touched].map(|bits| flags(py, bits.into(), count));
    make(
        py,
        "Controller",
        (hand_name(controller.hand), pose(py, &controller.aim)?, grip, pressed?, touched?, values, axes),
    )
}

pub(crate) fn controller_of(object: &Bound<'_, PyAny>) -> PyResult<Controller> {
    let pressed = object.getattr("buttons")?;
    let mut values = fractions(&object.getattr("values")?, 0.0)?;
    if values.is_empty() {
        values = all_of(&pressed, |flag| Ok(if flag.is_truthy()? { 1.0 } else { 0.0 }))?;
    }
    let button_bits = |flags: &Bound<'_, PyAny>| {
        let bits = u16::try_from(bits(flags)?).ok().filter(|bits| bits >> MAX_CONTROLLER_BUTTONS == 0);
        bits.filter(|_| values.len() <= MAX_CONTROLLER_BUTTONS).ok_or_else(|| {
            ErrorClass::Usage.with_message(format!("a controller has at most {MAX_CONTROLLER_BUTTONS} buttons"))
        })
    };
    Ok(Controller {
        hand: hand_of(object.getattr("hand")?.extract()?)?,
        aim: pose_of(&object.getattr("aim")?)?,
        grip: optional_pose_of(&object.getattr("grip")?)?,
        pressed: button_bits(&pressed)?,
        touched: button_bits(&object.getattr("touched")?)?,
        values: values.iter().map(|value| (value * MAX_CONTROLLER_VALUE).round() as u16).collect(),
        axes: fractions(&object.getattr("axes")?, -1.0)?.iter().map(|axis| (axis * MAX_AXIS).round() as i16).collect(),
    })
}

fn hand_joints<'py>(py: Python<'py>, hand: Option<&HandJoints>) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let Some(hand) = hand else { return Ok(None) };
    let joint = |py, joint: &Joint| {
        let mut position = hand.wrist;
        for (coordinate, offset) in position.iter_mut().zip(joint.offset) {
            *coordinate += offset;
        }
        let joint_pose = Pose { position, orientation: joint.orientation };
        make(py, "Joint", (pose(py, &joint_pose)?, joint.radius))
    };
    tuple(py, &hand.joints, joint).map(Some)
}

/// Reads the joints of one hand, the wrist first.
pub(crate) fn joints_of(hand: Hand, objects: &Bound<'_, PyAny>) -> PyResult<HandJoints> {
    let known = all_of(objects, |object| {
        Ok((pose_of(&object.getattr("pose")?)?, object.getattr("radius")?.extract::<f32>()?))
    })?;
    let wrist = known.first().map_or([0.0; 3], |(pose, _)| pose.position);
    let joints = known.iter().map(|(pose, radius)| {
        let [x, y, z] = pose.position;
        let offset = [x - wrist[0], y - wrist[1], z - wrist[2]];
        Joint { offset, orientation: pose.orientation, radius: *radius }
    });
    let joints: Vec<Joint> = joints.collect();
    let count = joints.len();
    let joints = joints.try_into().map_err(|_| {
        ErrorClass::Usage.with_message(format!("{count} joints are none of a hand: WebXR has 25, the wrist first"))
    })?;
    Ok(HandJoints { hand, wrist, joints })
}

/// Returns the state of a viewer according to its newest input.
pub(crate) fn viewer_state<'py>(py: Python<'py>, state: &ViewerState) -> PyResult<Bound<'py, PyAny>> {
    let Devices { gaze, controllers, keys, pointer: known_pointer, touches, gamepads, .. } = &state.devices;
    let keys = PyFrozenSet::new(py, keys.iter().map(|key| key_name(key.code())))?;
    let hands = [&state.hands[0], &state.hands[1]].map(|hand| hand_joints(py, hand.as_ref()));
    let [left, right] = hands;
    let fields = [
        state.viewer.0.into_pyobject(py)?.into_any(),
        state.drives.into_pyobject(py)?.to_owned().into_any(),
        display_name(state.display).into_pyobject(py)?.into_any(),
        pose(py, &state.head)?,
        views(py, &state.views)?.into_any(),
        seconds(state.display_at).into_pyobject(py)?.into_any(),
        keys.into_any(),
        known_pointer.as_ref().map(|known| pointer(py, known)).transpose()?.into_pyobject(py)?,
        tuple(py, touches, touch)?.into_any(),
        tuple(py, gamepads, gamepad)?.into_any(),
        tuple(py, controllers, controller)?.into_any(),
        gaze.as_ref().map(|gaze| pose(py, gaze)).transpose()?.into_pyobject(py)?,
        left?.into_pyobject(py)?.into_any(),
        right?.into_pyobject(py)?.into_any(),
    ];
    make(py, "ViewerState", PyTuple::new(py, fields)?)
}

/// Returns the W3C name of a key, which is `Unidentified` when it has no other.
pub(crate) fn key_name(code: Option<&'static str>) -> &'static str {
    code.unwrap_or("Unidentified")
}
