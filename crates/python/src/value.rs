//! Poses, devices and the like: from the library's types into the package's data classes (`nearlight/_types.py`) and back.

use nearlight_embed::{Devices, DisplayKind, Fov, Hand, HandJoints, Pose, View, ViewerState};
use nearlight_viewer::{Controller, Gamepad, Joint, Pointer, PointerButton, ScreenPoint, Touch};
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFrozenSet, PyTuple};

use crate::error::Class;
use crate::wait::seconds;

/// Full travel of a gamepad's button, of a controller's button, and of an axis, in the wire's units.
const BUTTON: f32 = 255.0;
const TRIGGER: f32 = 65_535.0;
const AXIS: f32 = 32_767.0;
/// A finger's pressure.
const PRESSURE: f32 = 255.0;

/// An instance of a data class, its fields in their order.
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
        .ok_or_else(|| Class::Usage.because(format!("`{name}` is no hand: write left, right or none")))
}

/// As W3C's `MouseEvent.button` is usually called.
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
        Class::Usage.because(format!("`{name}` is no button of a pointer: write left, middle, right, back or forward"))
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
        _ => Err(Class::Usage.because(format!("`{name}` is no display: write screen or headset"))),
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

/// A tuple where `PyO3` would make a list.
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

/// Reads what has the fields of the data class.
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

/// The bits of these flags, the first one lowest.
fn bits(flags: &Bound<'_, PyAny>) -> PyResult<u32> {
    let flags = all_of(flags, PyAnyMethods::is_truthy)?;
    if flags.len() > 32 {
        return Err(Class::Usage.because("a device has more than 32 buttons: leave some out"));
    }
    Ok(flags.iter().enumerate().map(|(place, flag)| u32::from(*flag) << place).sum())
}

fn flags(py: Python<'_>, bits: u32, count: usize) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, (0..count).map(|place| bits >> place & 1 == 1))
}

fn fractions(values: &Bound<'_, PyAny>, least: f32) -> PyResult<Vec<f32>> {
    let values = all_of(values, |value| value.extract::<f32>())?;
    match values.iter().find(|value| !(least..=1.0).contains(*value)) {
        Some(value) => Err(Class::Usage.because(format!("{value} is out of range: write {least} to 1"))),
        None => Ok(values),
    }
}

pub(crate) fn place(x: f32, y: f32) -> PyResult<ScreenPoint> {
    let fine = [x, y].iter().all(|part| (0.0..=1.0).contains(part));
    if fine {
        return Ok(ScreenPoint::new(x, y));
    }
    Err(Class::Usage
        .because(format!("({x}, {y}) is no place in the picture: write fractions of width and height, 0 to 1")))
}

pub(crate) fn pointer<'py>(py: Python<'py>, pointer: &Pointer) -> PyResult<Bound<'py, PyAny>> {
    let [x, y] = pointer.at.fractions();
    let held = BUTTON_NAMES.iter().filter(|(_, button)| pointer.buttons & button.bit() != 0).map(|(name, _)| name);
    make(py, "Pointer", (x, y, PyFrozenSet::new(py, held)?, pointer.captured))
}

fn touch<'py>(py: Python<'py>, touch: &Touch) -> PyResult<Bound<'py, PyAny>> {
    let [x, y] = touch.at.fractions();
    make(py, "Touch", (touch.id, x, y, f32::from(touch.pressure) / PRESSURE))
}

pub(crate) fn touch_of(object: &Bound<'_, PyAny>) -> PyResult<Touch> {
    let part = |name| object.getattr(name)?.extract::<f32>();
    let pressure = part("pressure")?.clamp(0.0, 1.0) * PRESSURE;
    Ok(Touch {
        id: object.getattr("id")?.extract()?,
        at: place(part("x")?, part("y")?)?,
        pressure: pressure.round() as u8,
    })
}

fn gamepad<'py>(py: Python<'py>, gamepad: &Gamepad) -> PyResult<Bound<'py, PyAny>> {
    let values = PyTuple::new(py, gamepad.values.iter().map(|value| f32::from(*value) / BUTTON))?;
    let axes = PyTuple::new(py, gamepad.axes.iter().map(|axis| f32::from(*axis) / AXIS))?;
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
        values: values.iter().map(|value| (value * BUTTON).round() as u8).collect(),
        axes: fractions(&object.getattr("axes")?, -1.0)?.iter().map(|axis| (axis * AXIS).round() as i16).collect(),
    })
}

fn controller<'py>(py: Python<'py>, controller: &Controller) -> PyResult<Bound<'py, PyAny>> {
    let count = controller.values.len();
    let values = PyTuple::new(py, controller.values.iter().map(|value| f32::from(*value) / TRIGGER))?;
    let axes = PyTuple::new(py, controller.axes.iter().map(|axis| f32::from(*axis) / AXIS))?;
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
    let few = |flags: &Bound<'_, PyAny>| {
        u16::try_from(bits(flags)?).map_err(|_| Class::Usage.because("a controller has at most 10 buttons"))
    };
    Ok(Controller {
        hand: hand_of(object.getattr("hand")?.extract()?)?,
        aim: pose_of(&object.getattr("aim")?)?,
        grip: optional_pose_of(&object.getattr("grip")?)?,
        pressed: few(&pressed)?,
        touched: few(&object.getattr("touched")?)?,
        values: values.iter().map(|value| (value * TRIGGER).round() as u16).collect(),
        axes: fractions(&object.getattr("axes")?, -1.0)?.iter().map(|axis| (axis * AXIS).round() as i16).collect(),
    })
}

fn hand_joints<'py>(py: Python<'py>, hand: Option<&HandJoints>) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let Some(hand) = hand else { return Ok(None) };
    let joint = |py, joint: &Joint| {
        let mut position = hand.wrist;
        for (coordinate, offset) in position.iter_mut().zip(joint.offset) {
            *coordinate += offset;
        }
        let place = Pose { position, orientation: joint.orientation };
        make(py, "Joint", (pose(py, &place)?, joint.radius))
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
        Class::Usage.because(format!("{count} joints are none of a hand: WebXR has 25, the wrist first"))
    })?;
    Ok(HandJoints { hand, wrist, joints })
}

/// A viewer as its newest input has it.
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

/// W3C has this name for keys without one.
pub(crate) fn key_name(code: Option<&'static str>) -> &'static str {
    code.unwrap_or("Unidentified")
}
