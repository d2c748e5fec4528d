//! Injects keys and pointer input into an X display, by the extension XTEST.

use std::time::Duration;

use x11rb::connection::Connection as _;
use x11rb::protocol::xinput::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{self, ConnectionExt as _};
use x11rb::protocol::xtest::{self, ConnectionExt as _};
use x11rb::wrapper::ConnectionExt as _;

use crate::DisplayError;
use crate::clock::pause;
use crate::input::controls::Action;
use crate::input::keyboard::{Keymap, Step};
use crate::x11::connection::{Display, ThreadError, XError};
use crate::x11::injection::Devices;
use crate::x11::reconnection::Reconnection;

/// Time that programs get to read a new keyboard map. Without it, programs were observed to type wrong characters; with 5 ms, never.
const SETTLE_TIME: Duration = Duration::from_millis(5);

/// The X server's name of the keyboard whose keys XTEST presses ends with this.
const XTEST_KEYBOARD: &[u8] = b"XTEST keyboard";
/// Bytes of the keyboard feedback control (`XInput` 1.5, section 2.17).
const FEEDBACK_BYTES: u16 = 20;

pub(crate) struct XDevices {
    display: Display,
    reconnection: Reconnection,
    /// Actions that the display has not confirmed. They are repeated if the connection is lost.
    unconfirmed: Vec<Action>,
}

impl XDevices {
    /// Opens the devices. Also returns the display's keyboard map.
    pub(crate) fn open(display: Display, reconnection: Reconnection) -> Result<(Self, Keymap), DisplayError> {
        display.require(xtest::X11_EXTENSION_NAME)?;
        let map = read_map(&display)
            .map_err(|error| DisplayError::Display { name: "of the program".into(), reason: error.to_string() })?;
        match stop_repeats(&display) {
            Ok(true) => {}
            Ok(false) => tracing::warn!("the display has no XTEST keyboard, so it repeats held keys by its own clock"),
            Err(error) => tracing::warn!(%error, "the display repeats held keys by its own clock"),
        }
        Ok((Self { display, reconnection, unconfirmed: Vec::new() }, map))
    }

    /// Opens a new connection after `error` and repeats what the display has not confirmed.
    fn recover(&mut self, error: XError) -> Result<(), XError> {
        let unconfirmed = &self.unconfirmed;
        self.display = self.reconnection.connect(error, |display| {
            unconfirmed.iter().try_for_each(|action| perform(&display, *action))?;
            display.connection.sync()?;
            Ok::<_, XError>(display)
        })?;
        Ok(())
    }
}

impl Devices for XDevices {
    fn inject(&mut self, action: Action) -> Result<(), ThreadError> {
        self.unconfirmed.push(action);
        perform(&self.display, action).or_else(|error| self.recover(error))?;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ThreadError> {
        if self.unconfirmed.is_empty() {
            return Ok(());
        }
        // The display's answer shows that it has not set the connection aside.
        self.display.connection.sync().map_err(XError::from).or_else(|error| self.recover(error))?;
        self.unconfirmed.clear();
        Ok(())
    }
}

fn fake(display: &Display, kind: u8, detail: u8, (x, y): (i16, i16)) -> Result<(), XError> {
    let Display { connection, root, .. } = display;
    connection.xtest_fake_input(kind, detail, x11rb::CURRENT_TIME, *root, x, y, 0)?;
    Ok(())
}

fn keyboard_step(display: &Display, step: Step) -> Result<(), XError> {
    match step {
        Step::Key { code, pressed } => {
            let kind = if pressed { xproto::KEY_PRESS_EVENT } else { xproto::KEY_RELEASE_EVENT };
            fake(display, kind, code, (0, 0))?;
        }
        Step::Map { code, symbols } => {
            display.connection.change_keyboard_mapping(1, code, 2, &symbols)?;
        }
        Step::Settle => {
            display.connection.sync()?;
            pause(SETTLE_TIME);
        }
    }
    Ok(())
}

fn perform(display: &Display, action: Action) -> Result<(), XError> {
    match action {
        Action::Keyboard(step) => keyboard_step(display, step)?,
        Action::Button { button, pressed } => {
            let kind = if pressed { xproto::BUTTON_PRESS_EVENT } else { xproto::BUTTON_RELEASE_EVENT };
            fake(display, kind, button, (0, 0))?;
        }
        Action::MoveTo { x, y } => fake(display, xproto::MOTION_NOTIFY_EVENT, 0, (x, y))?,
        // With a detail of 1, movement is relative.
        Action::MoveBy { right, down } => fake(display, xproto::MOTION_NOTIFY_EVENT, 1, (right, down))?,
        Action::Gamepad(_) => {}
    }
    Ok(())
}

/// Stops the display from repeating the held keys of the injected keyboard, because the viewer's system repeats them. Other keyboards of the
/// display are left as they are. Returns false if there is no such keyboard.
fn stop_repeats(display: &Display) -> Result<bool, XError> {
    let connection = &display.connection;
    let devices = connection.xinput_list_input_devices()?.reply()?;
    let mut named = devices.devices.iter().zip(&devices.names);
    let Some((device, _)) = named.find(|(_, name)| name.name.ends_with(XTEST_KEYBOARD)) else { return Ok(false) };
    let data = xinput::FeedbackCtlDataKeyboard {
        key: 0,
        auto_repeat_mode: u32::from(xproto::AutoRepeatMode::OFF) as u8,
        key_click_percent: 0,
        bell_percent: 0,
        bell_pitch: 0,
        bell_duration: 0,
        led_mask: 0,
        led_values: 0,
    };
    let data = xinput::FeedbackCtlData::Keyboard(data);
    let feedback = xinput::FeedbackCtl { feedback_id: 0, len: FEEDBACK_BYTES, data };
    let mask = xinput::ChangeFeedbackControlMask::AUTO_REPEAT_MODE;
    connection.xinput_change_feedback_control(mask, device.device_id, 0, feedback)?.check()?;
    Ok(true)
}

fn read_map(display: &Display) -> Result<Keymap, XError> {
    let connection = &display.connection;
    connection.xtest_get_version(2, 2)?.reply()?;
    let setup = connection.setup();
    let (first, last) = (setup.min_keycode, setup.max_keycode);
    let map = connection.get_keyboard_mapping(first, last - first + 1)?.reply()?;
    Ok(Keymap::new(first, map.keysyms_per_keycode, &map.keysyms))
}
