//! Viewers' input: who has the controls, which keys and buttons are held, and the program's gamepads.

pub(crate) mod controls;
pub(crate) mod gamepad;
pub(crate) mod gamepad_devices;
pub(crate) mod gamepad_file;
pub(crate) mod gamepads;
pub(crate) mod keyboard;
pub(crate) mod motors;
