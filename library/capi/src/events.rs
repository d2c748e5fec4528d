//! Calls that return a server's events.

use std::cell::RefCell;
use std::ffi::c_void;
use std::time::Duration;

use nearlight_embed::{DevicesDescription, Event, EventKind, InputEvent};

use crate::fault::{Fault, guard};
use crate::hosts;
use crate::memory::{self, check};
use crate::types::{nl_event, nl_event_callback, nl_event_kind, nl_host, nl_status};
use crate::values::hand_name;

thread_local! {
    /// The data to which the event of this thread's last call points.
    static EVENT_DATA: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Writes the oldest event that was not taken; waits for one up to `wait_ms` milliseconds, 0 not at all. NL_STATUS_NOTHING: none came.
///
/// # Safety
/// `event` is null or as large as its `size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_poll_event(host: *mut nl_host, event: *mut nl_event, wait_ms: u32) -> nl_status {
    guard(|| {
        let entry = hosts::get(host)?;
        // This precedes taking an event, which would be lost if it could not be written.
        // SAFETY: this function's contract.
        unsafe { check(event) }?;
        let host = &entry.host;
        let taken = match wait_ms {
            0 => host.poll_event(),
            wait => host.wait_event(Duration::from_millis(wait.into())),
        };
        let (answer, data) = convert(taken.ok_or_else(Fault::nothing)?);
        EVENT_DATA.with(|stored| {
            let mut stored = stored.borrow_mut();
            *stored = data;
            // SAFETY: this function's contract.
            unsafe { memory::write(event, pointing(answer, &stored)) }
        })
    })
}

/// Has `on_event` called with each event and with `user`, in a thread of the library's own, in place of polling, until nl_close has
/// returned. It may call everything but nl_close.
///
/// # Safety
/// `on_event` can be called from another thread with `user` until nl_close has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_set_callback(
    host: *mut nl_host,
    on_event: nl_event_callback,
    user: *mut c_void,
) -> nl_status {
    guard(|| {
        let entry = hosts::get(host)?;
        let on_event = on_event.ok_or_else(|| Fault::argument("the callback is NULL: pass a function"))?;
        let user = UserPointer(user);
        entry.host.set_callback(move |event| {
            let user = &user;
            let (answer, data) = convert(event);
            let mut answer = pointing(answer, &data);
            answer.size = size_of::<nl_event>();
            // SAFETY: the contract of nl_set_callback; the event and its data live until the call returns.
            unsafe { on_event(user.0, &raw const answer) };
        })?;
        Ok(())
    })
}

/// The pointer that the program wants to get in its callback.
struct UserPointer(*mut c_void);

// SAFETY: the library never dereferences it, and the program guarantees that its callback can be called with it in another thread.
unsafe impl Send for UserPointer {}

/// Returns the event with a pointer to its data.
fn pointing(event: nl_event, data: &[u8]) -> nl_event {
    // The zero byte at the end does not count.
    nl_event { data: data.as_ptr(), data_size: data.len().saturating_sub(1), ..event }
}

/// Converts an event. Returns it with the data to which it must point, which ends with a zero byte.
fn convert(event: Event) -> (nl_event, Vec<u8>) {
    let Event { at, viewer, kind } = event;
    let mut answer = nl_event {
        size: 0,
        kind: 0,
        viewer: viewer.map_or(0, |viewer| viewer.0),
        at: at.as_nanos(),
        code: 0,
        device: 0,
        pressed: 0,
        reliable: 0,
        x: 0.0,
        y: 0.0,
        data: std::ptr::null(),
        data_size: 0,
    };
    let mut data = Vec::new();
    let kind = match kind {
        EventKind::ViewerJoined => nl_event_kind::ViewerJoined,
        EventKind::ViewerLeft => nl_event_kind::ViewerLeft,
        EventKind::Moved => nl_event_kind::Moved,
        EventKind::Input(input) => convert_input(input, &mut answer, &mut data),
        EventKind::Devices(devices) => {
            data = lines(&devices).into_bytes();
            nl_event_kind::Devices
        }
        EventKind::Message(message) => {
            (data, answer.reliable) = (message.data, message.reliable.into());
            nl_event_kind::Message
        }
        EventKind::Clipboard(text) => {
            data = text.into_bytes();
            nl_event_kind::Clipboard
        }
        EventKind::Failed(reason) => {
            data = reason.into_bytes();
            nl_event_kind::Failed
        }
    };
    answer.kind = kind as u32;
    data.push(0);
    (answer, data)
}

/// Converts an input into the fields and data of an event. Returns its kind.
fn convert_input(input: InputEvent, answer: &mut nl_event, data: &mut Vec<u8>) -> nl_event_kind {
    match input {
        InputEvent::Key { key, pressed } => {
            (answer.code, answer.pressed) = (key.0, pressed.into());
            nl_event_kind::Key
        }
        InputEvent::KeyRepeated { key } => {
            answer.code = key.0;
            nl_event_kind::KeyRepeated
        }
        InputEvent::KeyCharacter { key, character } => {
            answer.code = key.0;
            *data = character.to_string().into_bytes();
            nl_event_kind::KeyCharacter
        }
        InputEvent::Text(text) => {
            *data = text.into_bytes();
            nl_event_kind::Text
        }
        InputEvent::Button { button, pressed, at } => {
            (answer.code, answer.pressed) = (button as u32, pressed.into());
            [answer.x, answer.y] = at.fractions();
            nl_event_kind::PointerButton
        }
        InputEvent::TouchBegan { id, at } => {
            answer.code = id;
            [answer.x, answer.y] = at.fractions();
            nl_event_kind::TouchBegan
        }
        InputEvent::TouchEnded { id, at, cancelled } => {
            (answer.code, answer.pressed) = (id, cancelled.into());
            [answer.x, answer.y] = at.fractions();
            nl_event_kind::TouchEnded
        }
        InputEvent::GamepadButton { gamepad, button, pressed } => {
            (answer.device, answer.code, answer.pressed) = (gamepad.into(), button.into(), pressed.into());
            nl_event_kind::GamepadButton
        }
        InputEvent::ControllerButton { hand, button, pressed } => {
            (answer.device, answer.code, answer.pressed) = (hand as u32, button.into(), pressed.into());
            nl_event_kind::ControllerButton
        }
    }
}

/// Returns the description of devices as text, one device a line.
fn lines(devices: &DevicesDescription) -> String {
    let gamepads = devices.gamepads.iter().map(|gamepad| format!("gamepad {} {}", gamepad.index, gamepad.name));
    let controllers = devices.controllers.iter().map(|controller| {
        let profile = controller.profiles.first().map_or("", String::as_str);
        format!("controller {} {profile}", hand_name(controller.hand))
    });
    // Names come from the viewer and may contain line breaks.
    let lines = gamepads.chain(controllers).map(|line| line.replace(['\n', '\r', '\0'], " "));
    lines.collect::<Vec<_>>().join("\n")
}
