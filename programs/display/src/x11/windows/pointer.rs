//! The pointer's shape, and whether a program has captured it.

use std::sync::atomic::Ordering;

use x11rb::protocol::xfixes::ConnectionExt as _;
use x11rb::protocol::xproto::{ConnectionExt as _, EventMask, GrabMode, GrabStatus};

use super::{POINTER_RECHECK_DELAYS_MS, WindowEvent, Windows};
use crate::x11::connection::XError;
use crate::x11::cursor::{CursorImage, hidden, shape_of};

impl Windows {
    /// Reports the pointer if it has changed. It counts as captured if it is hidden and grabbed.
    pub(super) fn report_pointer(&mut self, report: &dyn Fn(WindowEvent)) -> Result<(), XError> {
        let image = self.display.connection.xfixes_get_cursor_image()?.reply()?;
        let image = CursorImage {
            size: (image.width, image.height),
            hotspot: (image.xhot, image.yhot),
            pixels: &image.cursor_image,
        };
        let shape = shape_of(&image);
        if shape.is_some() {
            self.rechecks = POINTER_RECHECK_DELAYS_MS.len();
        }
        let captured = shape.is_none() && self.is_grabbed()?;
        let pointer = (shape.unwrap_or_else(hidden), captured);
        if self.pointer.as_ref() != Some(&pointer) {
            self.captured.store(captured, Ordering::Relaxed);
            self.pointer = Some(pointer.clone());
            report(WindowEvent::Pointer { cursor: pointer.0, captured });
        }
        Ok(())
    }

    /// Returns whether a program has grabbed the pointer, which a test grab finds out.
    fn is_grabbed(&self) -> Result<bool, XError> {
        let (connection, root) = (&self.display.connection, self.display.root);
        let (mode, nowhere, time) = (GrabMode::ASYNC, x11rb::NONE, x11rb::CURRENT_TIME);
        let grab = connection.grab_pointer(true, root, EventMask::NO_EVENT, mode, mode, nowhere, nowhere, time)?;
        let status = grab.reply()?.status;
        if status == GrabStatus::SUCCESS {
            connection.ungrab_pointer(time)?;
        }
        Ok(status == GrabStatus::ALREADY_GRABBED)
    }
}
