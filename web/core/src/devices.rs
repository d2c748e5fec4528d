//! The user's devices as sent by the page: lists of numbers.

use nearlight_session::DeviceInput;
use nearlight_wire::{
    Controller, Gamepad, Hand, HandJoints, JOINTS, Joint, MAX_GAMEPADS, MAX_TOUCHES, Pointer, PointerButton, Pose,
    ScreenPoint, Touch, WHEEL_UNITS_PER_PIXEL,
};

use crate::layout::{CONTROLLER, GAMEPAD, HAND, Numbers, POSE_NUMBERS, optional_pose, pose, whole};

/// The numbers of a pointer: fractions of the picture, captured or not, totals in pixels, W3C's `buttons`.
pub(crate) const POINTER_COLUMNS: [&str; 8] =
    ["x", "y", "captured", "movedX", "movedY", "scrolledX", "scrolledY", "buttons"];
/// The numbers of a finger: its name, fractions of the picture, pressure from 0 to 1.
pub(crate) const TOUCH_COLUMNS: [&str; 4] = ["id", "x", "y", "pressure"];

/// W3C's `MouseEvent.buttons` has the secondary button before the auxiliary one.
const BUTTONS: [(u8, PointerButton); 5] = [
    (1, PointerButton::Primary),
    (2, PointerButton::Secondary),
    (4, PointerButton::Auxiliary),
    (8, PointerButton::Back),
    (16, PointerButton::Forward),
];

/// Reads [`POINTER_COLUMNS`]; no numbers for no pointer.
pub(crate) fn pointer(values: &[f64]) -> Option<DeviceInput> {
    if values.is_empty() {
        return Some(DeviceInput::Pointer(None));
    }
    let values: [f64; POINTER_COLUMNS.len()] = values.try_into().ok()?;
    let [x, y, captured, moved_x, moved_y, scrolled_x, scrolled_y, buttons] = values;
    let unit = f64::from(WHEEL_UNITS_PER_PIXEL);
    let down = BUTTONS.into_iter().filter(|(bit, _)| buttons as u8 & bit != 0);
    Some(DeviceInput::Pointer(Some(Pointer {
        at: ScreenPoint::new(x as f32, y as f32),
        captured: captured > 0.0,
        // Totals wrap around in the wire's 32 bits.
        moved: [moved_x, moved_y].map(|total| total as i64 as i32),
        scrolled: [scrolled_x, scrolled_y].map(|total| (total * unit) as i64 as i32),
        buttons: down.fold(0, |set, (_, button)| set | button.bit()),
    })))
}

/// Reads [`TOUCH_COLUMNS`] for each finger; those beyond a session's limit are ignored.
pub(crate) fn touches(values: &[f64]) -> Option<DeviceInput> {
    let (fingers, []) = values.as_chunks::<{ TOUCH_COLUMNS.len() }>() else { return None };
    let touches = fingers.iter().take(MAX_TOUCHES).map(|[id, x, y, pressure]| Touch {
        id: *id as u32,
        at: ScreenPoint::new(*x as f32, *y as f32),
        pressure: (pressure * f64::from(u8::MAX)) as u8,
    });
    Some(DeviceInput::Touches(touches.collect()))
}

/// Reads [`GAMEPAD`] for each.
pub(crate) fn gamepads(values: &[f32]) -> Option<DeviceInput> {
    let mut numbers = Numbers(values);
    let mut gamepads = Vec::new();
    while !numbers.0.is_empty() {
        let [pad, buttons, axes] = numbers.record(&GAMEPAD)?;
        let index = whole(pad[0], MAX_GAMEPADS as u8 - 1)?;
        let mut gamepad = Gamepad { index, axes: fractions(axes), ..Gamepad::default() };
        for (button, [value, pressed]) in buttons.as_chunks().0.iter().enumerate() {
            gamepad.values.push((value.clamp(0.0, 1.0) * f32::from(u8::MAX)).round() as u8);
            gamepad.pressed |= u32::from(*pressed > 0.0) << button;
        }
        gamepads.push(gamepad);
    }
    gamepads.truncate(MAX_GAMEPADS);
    Some(DeviceInput::Gamepads(gamepads))
}

/// Reads [`CONTROLLER`].
pub(crate) fn controller(numbers: &mut Numbers<'_>) -> Option<Controller> {
    let [hand, aim, grip, buttons, axes] = numbers.record(&CONTROLLER)?;
    let hand = Hand::from_code(whole(hand[0], Hand::ALL.len() as u8 - 1)?)?;
    let grip = optional_pose(grip);
    let mut controller = Controller { grip, axes: fractions(axes), ..Controller::pointing(hand, pose(aim)) };
    for (button, [value, pressed, touched]) in buttons.as_chunks().0.iter().enumerate() {
        controller.values.push((value.clamp(0.0, 1.0) * f32::from(u16::MAX)).round() as u16);
        controller.pressed |= u16::from(*pressed > 0.0) << button;
        controller.touched |= u16::from(*touched > 0.0) << button;
    }
    Some(controller)
}

/// Reads [`HAND`]; no numbers for a hand that is no longer tracked.
pub(crate) fn joints(hand: u8, values: &[f32]) -> Option<DeviceInput> {
    let hand = Hand::from_code(hand).filter(|hand| *hand != Hand::None)?;
    if values.is_empty() {
        return Some(DeviceInput::JointsGone(hand));
    }
    let mut numbers = Numbers(values);
    let [rows] = numbers.record(&HAND)?;
    let (rows, _) = rows.as_chunks::<{ POSE_NUMBERS + 1 }>();
    let wrist = pose(&rows[0]).position;
    let mut joints = [Joint::default(); JOINTS];
    for (joint, row) in joints.iter_mut().zip(rows) {
        let Pose { position, orientation } = pose(row);
        let offset = [0, 1, 2].map(|axis: usize| position[axis] - wrist[axis]);
        *joint = Joint { offset, orientation, radius: row[POSE_NUMBERS] };
    }
    numbers.0.is_empty().then(|| DeviceInput::Joints(Box::new(HandJoints { hand, wrist, joints })))
}

fn fractions(axes: &[f32]) -> Vec<i16> {
    axes.iter().map(|value| (value.clamp(-1.0, 1.0) * f32::from(i16::MAX)).round() as i16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_s_buttons_are_w3c_s() {
        let Some(DeviceInput::Pointer(Some(pointer))) = pointer(&[0.5, 1.0, 1.0, 3.0, -4.0, 0.5, -1.0, 2.0]) else {
            panic!("a pointer")
        };
        assert_eq!(pointer.buttons, PointerButton::Secondary.bit());
        assert_eq!(
            (pointer.moved, pointer.scrolled, pointer.at.y, pointer.captured),
            ([3, -4], [8, -16], u16::MAX, true)
        );
        assert_eq!(super::pointer(&[]), Some(DeviceInput::Pointer(None)));
        assert_eq!(super::pointer(&[1.0; 7]), None);
    }

    #[test]
    fn gamepads_are_read_whole_or_not_at_all() {
        let values = [1.0, 2.0, 0.0, 0.0, 1.0, 1.0, 2.0, -1.0, 0.5];
        let Some(DeviceInput::Gamepads(pads)) = gamepads(&values) else { panic!("a gamepad") };
        let expected = Gamepad { index: 1, pressed: 2, values: vec![0, 255], axes: vec![-32_767, 16_384] };
        assert_eq!(pads, [expected]);
        for length in 1..values.len() {
            assert_eq!(gamepads(&values[..length]), None, "{length} numbers");
        }
        assert_eq!(gamepads(&[]), Some(DeviceInput::Gamepads(Vec::new())));
    }

    #[test]
    fn joints_are_distinguished_from_the_wrist() {
        let values: Vec<f32> =
            (0..JOINTS).flat_map(|at| [1.0 + at as f32 / 100.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0, 0.01]).collect();
        let Some(DeviceInput::Joints(hand)) = joints(2, &values) else { panic!("a hand") };
        assert_eq!((hand.hand, hand.wrist), (Hand::Right, [1.0, 2.0, 3.0]));
        assert!((hand.joints[24].offset[0] - 0.24).abs() < 1e-6);
        assert_eq!(joints(1, &[]), Some(DeviceInput::JointsGone(Hand::Left)));
        assert_eq!((joints(0, &values), joints(2, &values[1..])), (None, None));
    }
}
