//! Who watches, from where and with what in the hands.

use nearlight_embed::{DisplayKind, HandJoints, HostError, Pose, View, ViewerState};

use crate::fault::{Fault, guard};
use crate::hosts;
use crate::memory::{self, check};
use crate::types::{
    nl_controller, nl_display, nl_fov, nl_gamepad, nl_host, nl_joint, nl_pointer, nl_pose, nl_status, nl_touch,
    nl_tracked_hand, nl_view, nl_viewer,
};

/// Writes the numbers of those who watch, in the order of their coming, up to `capacity` of them to `ids`, and how many there are to
/// `count`.
///
/// # Safety
/// `capacity` numbers can be written at `ids`, which may be null where that is 0, and one at `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_viewer_ids(
    host: *const nl_host,
    ids: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> nl_status {
    guard(|| {
        let entry = hosts::get(host)?;
        if count.is_null() || !count.is_aligned() || capacity > 0 && (ids.is_null() || !ids.is_aligned()) {
            return Err(Fault::argument("there is nowhere to write the viewers' numbers or their count to"));
        }
        let viewers = entry.host.viewers();
        for (index, state) in viewers.iter().take(capacity).enumerate() {
            // SAFETY: below `capacity`, not null, aligned, and writable by contract.
            unsafe { ids.add(index).write(state.viewer.0) };
        }
        // SAFETY: not null, aligned, and writable by contract.
        unsafe { count.write(viewers.len()) };
        Ok(())
    })
}

/// Writes what is known of a viewer; of the one that drives with 0: who acted last, else who came first. NL_STATUS_NO_VIEWER: nobody
/// with this number, or nobody at all, watches.
///
/// # Safety
/// `state` is null or as large as its `size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_viewer_state(host: *const nl_host, viewer: u32, state: *mut nl_viewer) -> nl_status {
    guard(|| {
        let entry = hosts::get(host)?;
        // SAFETY: this function's contract.
        unsafe { check(state) }?;
        let wanted = |known: &ViewerState| if viewer == 0 { known.drives } else { known.viewer.0 == viewer };
        let known = entry.host.viewers().into_iter().find(wanted).ok_or(HostError::NoViewer(viewer))?;
        // SAFETY: this function's contract.
        unsafe { memory::write(state, of(&known)) }
    })
}

fn of(state: &ViewerState) -> nl_viewer {
    let devices = &state.devices;
    let mut answer = nl_viewer {
        id: state.viewer.0,
        drives: state.drives.into(),
        display: match state.display {
            DisplayKind::Screen => nl_display::Screen as u32,
            DisplayKind::Headset => nl_display::Headset as u32,
        },
        display_at: state.display_at.as_nanos(),
        head: pose_of(&state.head),
        has_gaze: devices.gaze.is_some().into(),
        gaze: devices.gaze.as_ref().map_or_else(nl_pose::default, pose_of),
        ..nl_viewer::default()
    };
    answer.view_count = fill(&mut answer.views, state.views.iter().map(view_of));
    if let Some(pointer) = devices.pointer {
        let [x, y] = pointer.at.fractions();
        answer.pointer = nl_pointer {
            present: 1,
            captured: pointer.captured.into(),
            x,
            y,
            moved: pointer.moved,
            scrolled: pointer.scrolled,
            buttons: pointer.buttons.into(),
        };
    }
    answer.key_count = fill(&mut answer.keys, devices.keys.iter().map(|key| key.0));
    answer.touch_count = fill(
        &mut answer.touches,
        devices.touches.iter().map(|touch| {
            let [x, y] = touch.at.fractions();
            nl_touch { id: touch.id, x, y, pressure: f32::from(touch.pressure) / 255.0 }
        }),
    );
    answer.gamepad_count = fill(
        &mut answer.gamepads,
        devices.gamepads.iter().map(|gamepad| {
            let mut known =
                nl_gamepad { index: gamepad.index.into(), pressed: gamepad.pressed, ..nl_gamepad::default() };
            known.value_count = fill(&mut known.values, gamepad.values.iter().map(|value| f32::from(*value) / 255.0));
            known.axis_count = fill(&mut known.axes, gamepad.axes.iter().map(|axis| f32::from(*axis) / 32_767.0));
            known
        }),
    );
    answer.controller_count = fill(
        &mut answer.controllers,
        devices.controllers.iter().map(|controller| {
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
                fill(&mut known.values, controller.values.iter().map(|value| f32::from(*value) / 65_535.0));
            known.axis_count = fill(&mut known.axes, controller.axes.iter().map(|axis| f32::from(*axis) / 32_767.0));
            known
        }),
    );
    for (known, hand) in answer.hands.iter_mut().zip(&state.hands) {
        if let Some(joints) = hand {
            *known = hand_of(joints);
        }
    }
    answer
}

/// Fills as many places as there are; answers how many are filled.
fn fill<T>(places: &mut [T], values: impl Iterator<Item = T>) -> u32 {
    let mut count = 0;
    for (place, value) in places.iter_mut().zip(values) {
        *place = value;
        count += 1;
    }
    count
}

fn pose_of(pose: &Pose) -> nl_pose {
    nl_pose { position: pose.position, orientation: pose.orientation }
}

fn view_of(View { pose, fov }: &View) -> nl_view {
    nl_view { pose: pose_of(pose), fov: nl_fov { left: fov.left, right: fov.right, down: fov.down, up: fov.up } }
}

fn hand_of(hand: &HandJoints) -> nl_tracked_hand {
    let mut known = nl_tracked_hand { tracked: 1, ..nl_tracked_hand::default() };
    for (place, joint) in known.joints.iter_mut().zip(&hand.joints) {
        let position = std::array::from_fn(|axis| hand.wrist[axis] + joint.offset[axis]);
        *place = nl_joint { pose: nl_pose { position, orientation: joint.orientation }, radius: joint.radius };
    }
    known
}
