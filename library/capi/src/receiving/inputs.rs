//! The call that sends the user's input.

use nearlight_viewer::{DeviceInput, Input, Key, Presence, Touch, View};

use super::get;
use super::types::{nl_input, nl_input_kind, nl_viewer_session};
use crate::fault::{Fault, guard};
use crate::memory::{self, text};
use crate::types::nl_status;
use crate::values;

/// Sends what the user does now; what a server would drop is an error. What is sent while no server is reached has no effect, but for where
/// the user is.
///
/// # Safety
/// `input` is null or as large as its `size` says; its text is null or ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_viewer_send_input(viewer: *mut nl_viewer_session, input: *const nl_input) -> nl_status {
    guard(|| {
        let entry = get(viewer)?;
        // SAFETY: this function's contract.
        let given = unsafe { memory::read(input) }?;
        // SAFETY: this function's contract.
        let input = unsafe { read(&given) }?;
        Ok(entry.viewer.send(input)?)
    })
}

/// Converts an input.
///
/// # Safety
/// The text is null or ends with a zero byte.
unsafe fn read(given: &nl_input) -> Result<Input, Fault> {
    let is = |kind: nl_input_kind| given.kind == kind as u32;
    let written = || {
        // SAFETY: guaranteed by the caller.
        let text = unsafe { text("the text", given.text) }?;
        text.map(str::to_owned).ok_or_else(|| Fault::argument("the text is NULL: pass its address"))
    };
    Ok(if is(nl_input_kind::Head) {
        Input::Head(values::pose(&given.head))
    } else if is(nl_input_kind::Presence) {
        Input::Presence(presence(given)?)
    } else if is(nl_input_kind::Key) {
        DeviceInput::Key { key: Key(given.code), pressed: given.pressed != 0 }.into()
    } else if is(nl_input_kind::Text) {
        DeviceInput::Text(written()?).into()
    } else if is(nl_input_kind::Pointer) {
        DeviceInput::Pointer(values::pointer(&given.pointer)?).into()
    } else if is(nl_input_kind::Touches) {
        let touches = values::first("fingers", &given.touches, given.touch_count)?;
        DeviceInput::Touches(touches.iter().map(values::touch).collect::<Result<Vec<Touch>, Fault>>()?).into()
    } else if is(nl_input_kind::Gamepads) {
        let gamepads = values::first("gamepads", &given.gamepads, given.gamepad_count)?;
        DeviceInput::Gamepads(gamepads.iter().map(values::gamepad).collect::<Result<_, Fault>>()?).into()
    } else if is(nl_input_kind::Hand) {
        let hand = values::hand(given.code)?;
        if given.hand.tracked == 0 {
            DeviceInput::JointsGone(hand).into()
        } else {
            DeviceInput::Joints(Box::new(values::tracked_hand(hand, &given.hand))).into()
        }
    } else if is(nl_input_kind::ReleaseAll) {
        DeviceInput::ReleaseAll.into()
    } else if is(nl_input_kind::Display) {
        let display_hz = u16::try_from(given.display_hz).unwrap_or(u16::MAX);
        Input::Display { display: values::display(given.display)?, display_hz }
    } else if is(nl_input_kind::Clipboard) {
        Input::Clipboard(written()?)
    } else {
        let kind = given.kind;
        return Err(Fault::argument(format!("{kind} is not an nl_input_kind: set it to one of NL_INPUT_KIND_...")));
    })
}

fn presence(given: &nl_input) -> Result<Presence, Fault> {
    let views = values::first("views", &given.views, given.view_count)?;
    let controllers = values::first("controllers", &given.controllers, given.controller_count)?;
    Ok(Presence {
        head: values::pose(&given.head),
        views: views.iter().map(values::view).collect::<Vec<View>>(),
        gaze: (given.has_gaze != 0).then(|| values::pose(&given.gaze)),
        controllers: controllers.iter().map(values::controller).collect::<Result<_, Fault>>()?,
    })
}
