//! Calls that return the viewers and their state.

use nearlight_embed::{HostError, ViewerState};

use crate::fault::{Fault, guard};
use crate::hosts;
use crate::memory::{self, check};
use crate::types::{nl_host, nl_pointer, nl_pose, nl_status, nl_viewer};
use crate::values::{
    controller_of, display_of, fill, gamepad_of, pointer_of, pose_of, touch_of, tracked_hand_of, view_of,
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
        unsafe { memory::write(state, convert(&known)) }
    })
}

fn convert(state: &ViewerState) -> nl_viewer {
    let devices = &state.devices;
    let mut answer = nl_viewer {
        id: state.viewer.0,
        drives: state.drives.into(),
        display: display_of(state.display),
        display_at: state.display_at.as_nanos(),
        head: pose_of(&state.head),
        has_gaze: devices.gaze.is_some().into(),
        gaze: devices.gaze.as_ref().map_or_else(nl_pose::default, pose_of),
        ..nl_viewer::default()
    };
    answer.view_count = fill(&mut answer.views, state.views.iter().map(view_of));
    answer.pointer = devices.pointer.as_ref().map_or_else(nl_pointer::default, pointer_of);
    answer.key_count = fill(&mut answer.keys, devices.keys.iter().map(|key| key.0));
    answer.touch_count = fill(&mut answer.touches, devices.touches.iter().map(touch_of));
    answer.gamepad_count = fill(&mut answer.gamepads, devices.gamepads.iter().map(gamepad_of));
    answer.controller_count = fill(&mut answer.controllers, devices.controllers.iter().map(controller_of));
    for (known, hand) in answer.hands.iter_mut().zip(&state.hands) {
        if let Some(joints) = hand {
            *known = tracked_hand_of(joints);
        }
    }
    answer
}
