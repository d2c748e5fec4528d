//! Calls that return a viewer's events.

use std::cell::RefCell;
use std::time::Duration;

use nearlight_viewer::{CursorShape, Event, EventKind, Hand, HapticsTarget, PointerRequest};

use super::get;
use super::types::{nl_viewer_event, nl_viewer_event_kind, nl_viewer_session};
use crate::fault::{Fault, guard};
use crate::memory::{self, check};
use crate::types::nl_status;

thread_local! {
    /// The data to which the event of this thread's last call points.
    static EVENT_DATA: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Writes the oldest event that was not taken; waits for one up to `wait_ms` milliseconds, 0 not at all. NL_STATUS_NOTHING: none came.
///
/// # Safety
/// `event` is null or as large as its `size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_viewer_poll_event(
    viewer: *mut nl_viewer_session,
    event: *mut nl_viewer_event,
    wait_ms: u32,
) -> nl_status {
    guard(|| {
        let entry = get(viewer)?;
        // This precedes taking an event, which would be lost if it could not be written.
        // SAFETY: this function's contract.
        unsafe { check(event) }?;
        let taken = entry.viewer.wait_event(Duration::from_millis(wait_ms.into()));
        let (answer, mut data) = convert(taken.ok_or_else(Fault::nothing)?);
        // The zero byte at the end does not count.
        let data_size = data.len();
        data.push(0);
        EVENT_DATA.with(|stored| {
            let mut stored = stored.borrow_mut();
            *stored = data;
            // SAFETY: this function's contract.
            unsafe { memory::write(event, nl_viewer_event { data: stored.as_ptr(), data_size, ..answer }) }
        })
    })
}

/// Converts an event. Returns it with the data to which it must point.
fn convert(event: Event) -> (nl_viewer_event, Vec<u8>) {
    let Event { at, kind } = event;
    let mut answer = nl_viewer_event {
        size: 0,
        kind: 0,
        reliable: 0,
        at: at.as_nanos(),
        width: 0,
        height: 0,
        fps: 0,
        eyes: 0,
        device: 0,
        is_controller: 0,
        milliseconds: 0,
        strong: 0.0,
        weak: 0.0,
        captured: 0,
        data: std::ptr::null(),
        data_size: 0,
    };
    let (kind, data) = match kind {
        EventKind::Connected(welcome) => (nl_viewer_event_kind::Connected, welcome.server.into_bytes()),
        EventKind::ConnectionLost(reason) => (nl_viewer_event_kind::Lost, reason.into_bytes()),
        EventKind::Stream(stream) => {
            (answer.width, answer.height) = (stream.width.into(), stream.height.into());
            (answer.fps, answer.eyes) = (stream.fps.into(), stream.views.into());
            (nl_viewer_event_kind::Stream, stream.codec.name().as_bytes().to_vec())
        }
        EventKind::Haptics(haptics) => {
            (answer.device, answer.is_controller) = match haptics.target {
                HapticsTarget::Gamepad(number) => (number.into(), 0),
                HapticsTarget::Controller(hand) => (hand_code(hand), 1),
            };
            answer.milliseconds = haptics.milliseconds.into();
            (answer.strong, answer.weak) = (haptics.strong, haptics.weak);
            (nl_viewer_event_kind::Haptics, Vec::new())
        }
        EventKind::Pointer(PointerRequest { cursor, captured }) => {
            answer.captured = captured.into();
            let name = if let CursorShape::Named(name) = cursor { name.into_bytes() } else { Vec::new() };
            (nl_viewer_event_kind::Pointer, name)
        }
        EventKind::Clipboard(text) => (nl_viewer_event_kind::Clipboard, text.into_bytes()),
        EventKind::Message(message) => {
            answer.reliable = message.reliable.into();
            (nl_viewer_event_kind::Message, message.data)
        }
        EventKind::Ended(reason) => (nl_viewer_event_kind::Ended, reason.unwrap_or_default().into_bytes()),
    };
    answer.kind = kind as u32;
    (answer, data)
}

const fn hand_code(hand: Hand) -> u32 {
    hand as u32
}
