//! What programs can read about the display and their windows (Extended Window Manager Hints).

use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{AtomEnum, PropMode, Window};
use x11rb::wrapper::ConnectionExt as _;

use super::Windows;
use crate::x11::connection::{Display, XError};

impl Windows {
    /// Publishes the display's size for programs that ask the window manager.
    pub(super) fn publish_size(&self) -> Result<(), XError> {
        let Self { display: Display { connection, root, size }, atoms, .. } = self;
        let (width, height) = (u32::from(size.0), u32::from(size.1));
        for (property, numbers) in [
            (atoms._NET_DESKTOP_GEOMETRY, vec![width, height]),
            (atoms._NET_DESKTOP_VIEWPORT, vec![0, 0]),
            (atoms._NET_WORKAREA, vec![0, 0, width, height]),
        ] {
            connection.change_property32(PropMode::REPLACE, *root, property, AtomEnum::CARDINAL, &numbers)?;
        }
        connection.flush()?;
        Ok(())
    }

    /// Publishes a window's state. Windows that fill the screen then draw neither shadows nor round corners.
    pub(super) fn publish_state(&self, window: Window) -> Result<(), XError> {
        let Some(properties) = self.layout.properties(window) else { return Ok(()) };
        let mut states = Vec::new();
        if properties.full_screen {
            states.push(self.atoms._NET_WM_STATE_FULLSCREEN);
        } else if properties.is_main() {
            states.extend([self.atoms._NET_WM_STATE_MAXIMIZED_HORZ, self.atoms._NET_WM_STATE_MAXIMIZED_VERT]);
        }
        self.display.connection.change_property32(
            PropMode::REPLACE,
            window,
            self.atoms._NET_WM_STATE,
            AtomEnum::ATOM,
            &states,
        )?;
        Ok(())
    }
}
