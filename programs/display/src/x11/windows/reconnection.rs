//! Keeps managing windows when a program has ended the window manager's connection.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use x11rb::protocol::xproto::{ConnectionExt as _, MapState};

use super::{WindowCommand, WindowEvent, Windows, ignore_request_errors};
use crate::x11::connection::{ThreadError, WakePipe, XError};
use crate::x11::reconnection::Reconnection;

impl Windows {
    /// Manages windows until all senders of commands are dropped, over new connections if programs end them.
    pub(crate) fn run_and_reconnect(
        mut self,
        wake_pipe: &WakePipe,
        commands: &Receiver<WindowCommand>,
        report: &dyn Fn(WindowEvent),
        mut reconnection: Reconnection,
    ) -> Result<(), ThreadError> {
        while let Err(error) = self.run(wake_pipe, commands, report) {
            let managed = self.manages;
            self = reconnection.connect(error, |display| {
                let (captured, size) = (Arc::clone(&self.captured), self.screen.size().clone());
                Self::open(display, captured, size, (self.wanted, self.max_size))
            })?;
            if managed && !self.manages {
                tracing::warn!(
                    "a program manages the windows of its display in place of Nearlight, which keeps its size"
                );
            }
            // A program that ends this connection as well is handled by the next round.
            ignore_request_errors(self.adopt_windows())
                .or_else(|error| if error.is_lost() { Ok(()) } else { Err(error) })?;
        }
        Ok(())
    }

    /// Manages the windows that are visible already.
    fn adopt_windows(&mut self) -> Result<(), XError> {
        if !self.manages {
            return Ok(());
        }
        let windows = self.display.connection.query_tree(self.display.root)?.reply()?.children;
        for window in windows {
            let attributes = self.display.connection.get_window_attributes(window)?.reply();
            if attributes.is_ok_and(|found| !found.override_redirect && found.map_state != MapState::UNMAPPED) {
                ignore_request_errors(self.on_map(window))?;
            }
        }
        Ok(())
    }
}
