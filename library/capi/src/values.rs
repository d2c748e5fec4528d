//! Conversions between C structures and Rust types that both the sending and the receiving end use.

use nearlight_viewer::{
    Controller, DisplayKind, Fov, Gamepad, Hand, HandJoints, Joint, Pointer, Pose, ScreenPoint, Touch, View,
};

use crate::fault::Fault;
use crate::types::{
    nl_controller, nl_display, nl_fov, nl_gamepad, nl_hand, nl_joint, nl_pointer, nl_pose, nl_touch, nl_tracked_hand,
    nl_view,
};

/// Value of an axis of the protocol that is fully deflected.
const MAX_AXIS: f32 = 32_767.0;
/// Value of a gamepad's button of the protocol that is fully pressed, and the maximum pressure of a touch.
const MAX_GAMEPAD_VALUE: f32 = 255.0;
/// Value of a controller's button of the protocol that is fully pressed.
const MAX_CONTROLLER_VALUE: f32 = 65_535.0;

/// Writes as many values as there are places. Returns how many were written.
pub(crate) fn fill<T>(places: &mut [T], values: impl Iterator<Item = T>) -> u32 {
    let mut count = 0;
    for (place, value) in places.iter_mut().zip(values) {
        *place = value;
        count += 1;
    }
    count
}

/// Returns the first `count` values of an array in a structure of the caller.
pub(crate) fn first<'a, T>(what: &str, values: &'a [T], count: u32) -> Result<&'a [T], Fault> {
    values.get(..count as usize).ok_or_else(|| {
        Fault::argument(format!("there are {count} {what}, and the structure has room for {}", values.len()))
    })
}

pub(crate) fn pose_of(pose: &Pose) -> nl_pose {
    nl_pose { position: pose.position, orientation: pose.orientation }
}

pub(crate) fn pose(pose: &nl_pose) -> Pose {
    Pose { position: pose.position, orientation: pose.orientation }
}

pub(crate) fn view_of(View { pose, fov }: &View) -> nl_view {
    nl_view { pose: pose_of(pose), fov: nl_fov { left: fov.left, right: fov.right, down: fov.down, up: fov.up } }
}

pub(crate) fn view(nl_view { pose: eye, fov }: &nl_view) -> View {
    View { pose: pose(eye), fov: Fov { left: fov.left, right: fov.right, down: fov.down, up: fov.up } }
}

pub(crate) fn display_of(display: DisplayKind) -> u32 {
    match display {
        DisplayKind::Screen => nl_display::Screen as u32,
        DisplayKind::Headset => nl_display::Headset as u32,
    }
}

pub(crate) fn display(code: u32) -> Result<DisplayKind, Fault> {
    [(nl_display::Screen, DisplayKind::Screen), (nl_display::Headset, DisplayKind::Headset)]
        .into_iter()
        .find(|(known, _)| *known as u32 == code)
        .map(|(_, display)| display)
        .ok_or_else(|| Fault::argument(format!("{code} is not an nl_display: set it to one of NL_DISPLAY_...")))
}

pub(crate) fn hand(code: u32) -> Result<Hand, Fault> {
    [(nl_hand::None, Hand::None), (nl_hand::Left, Hand::Left), (nl_hand::Right, Hand::Right)]
        .into_iter()
        .find(|(known, _)| *known as u32 == code)
        .map(|(_, hand)| hand)
        .ok_or_else(|| Fault::argument(format!("{code} is not an nl_hand: set it to one of NL_HAND_...")))
}

pub(crate) fn hand_name(hand: Hand) -> &'static str {
    match hand {
        Hand::None => "none",
        Hand::Left => "left",
        Hand::Right => "right",
    }
}

pub(crate) fn pointer_of(pointer: &Pointer) -> nl_pointer {
    let [x, y] = pointer.at.fractions();
    nl_pointer {
        present: 1,
        captured: pointer.captured.into(),
        x,
        y,
        moved: pointer.moved,
        scrolled: pointer.scrolled,
        buttons: pointer.buttons.into(),
    }
}

pub(crate) fn pointer(given: &nl_pointer) -> Result<Option<Pointer>, Fault> {
    if given.present == 0 {
        return Ok(None);
    }
    let buttons = u8::try_from(given.buttons).map_err(|_| {
        Fault::argument(format!("the pointer's buttons {:#x} have bits without a meaning", given.buttons))
    })?;
    Ok(Some(Pointer {
        at: point(given.x, given.y)?,
        captured: given.captured != 0,
        moved: given.moved,
        scrolled: given.scrolled,
        buttons,
    }))
}

fn point(x: f32, y: f32) -> Result<ScreenPoint, Fault> {
    if x.is_finite() && y.is_finite() {
        return Ok(ScreenPoint::new(x, y));
    }
    Err(Fault::argument("a place in the picture is not a number: it lies within 0 and 1"))
}

pub(crate) fn touch_of(touch: &Touch) -> nl_touch {
    let [x, y] = touch.at.fractions();
    nl_touch { id: touch.id, x, y, pressure: f32::from(touch.pressure) / MAX_GAMEPAD_VALUE }
}

pub(crate) fn touch(given: &nl_touch) -> Result<Touch, Fault> {
    let pressure = (given.pressure.clamp(0.0, 1.0) * MAX_GAMEPAD_VALUE) as u8;
    Ok(Touch { id: given.id, at: point(given.x, given.y)?, pressure })
}

pub(crate) fn gamepad_of(gamepad: &Gamepad) -> nl_gamepad {
    let mut known = nl_gamepad { index: gamepad.index.into(), pressed: gamepad.pressed, ..nl_gamepad::default() };
    known.value_count =
        fill(&mut known.values, gamepad.values.iter().map(|value| f32::from(*value) / MAX_GAMEPAD_VALUE));
    known.axis_count = fill(&mut known.axes, gamepad.axes.iter().map(|axis| f32::from(*axis) / MAX_AXIS));
    known
}

pub(crate) fn gamepad(given: &nl_gamepad) -> Result<Gamepad, Fault> {
    let values = first("values of a gamepad", &given.values, given.value_count)?;
    let axes = first("axes of a gamepad", &given.axes, given.axis_count)?;
    Ok(Gamepad {
        index: u8::try_from(given.index).unwrap_or(u8::MAX),
        pressed: given.pressed,
        values: values.iter().map(|value| (value.clamp(0.0, 1.0) * MAX_GAMEPAD_VALUE) as u8).collect(),
        axes: axes.iter().map(|axis| (axis.clamp(-1.0, 1.0) * MAX_AXIS) as i16).collect(),
    })
}

pub(crate) fn controller_of(controller: &Controller) -> nl_controller {
    let mut known = nl_controller {
        hand: controller.hand as u32,
        has_grip: controller.grip.is_some().into(),
        aim: pose_of(&controller.aim),
        grip: controller.grip.as_ref().map_or_else(nl_pose::default, pose_of),
        pressed: controller.pressed.into(),
        touched: controller.touched.into(),
        ..nl_controller::default()
    };
    known.value_count =
        fill(&mut known.values, controller.values.iter().map(|value| f32::from(*value) / MAX_CONTROLLER_VALUE));
    known.axis_count = fill(&mut known.axes, controller.axes.iter().map(|axis| f32::from(*axis) / MAX_AXIS));
    known
}

pub(crate) fn controller(given: &nl_controller) -> Result<Controller, Fault> {
    let values = first("values of a controller", &given.values, given.value_count)?;
    let axes = first("axes of a controller", &given.axes, given.axis_count)?;
    let bits = |bits: u32| {
        u16::try_from(bits).map_err(|_| Fault::argument(format!("a controller's buttons {bits:#x} are more than 16")))
    };
    Ok(Controller {
        hand: hand(given.hand)?,
        aim: pose(&given.aim),
        grip: (given.has_grip != 0).then(|| pose(&given.grip)),
        pressed: bits(given.pressed)?,
        touched: bits(given.touched)?,
        values: values.iter().map(|value| (value.clamp(0.0, 1.0) * MAX_CONTROLLER_VALUE) as u16).collect(),
        axes: axes.iter().map(|axis| (axis.clamp(-1.0, 1.0) * MAX_AXIS) as i16).collect(),
    })
}

pub(crate) fn tracked_hand_of(hand: &HandJoints) -> nl_tracked_hand {
    let mut known = nl_tracked_hand { tracked: 1, ..nl_tracked_hand::default() };
    for (target, joint) in known.joints.iter_mut().zip(&hand.joints) {
        let position = std::array::from_fn(|axis| hand.wrist[axis] + joint.offset[axis]);
        *target = nl_joint { pose: nl_pose { position, orientation: joint.orientation }, radius: joint.radius };
    }
    known
}

/// Converts the joints of a hand, the first of which is the wrist.
pub(crate) fn tracked_hand(hand: Hand, given: &nl_tracked_hand) -> HandJoints {
    let wrist = given.joints[0].pose.position;
    let joints = given.joints.map(|nl_joint { pose, radius }| Joint {
        offset: std::array::from_fn(|axis| pose.position[axis] - wrist[axis]),
        orientation: pose.orientation,
        radius,
    });
    HandJoints { hand, wrist, joints }
}
