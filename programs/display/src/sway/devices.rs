//! Virtual keyboard and pointer of a compositor that uses wlroots: `zwp_virtual_keyboard_v1` and `zwlr_virtual_pointer_v1`.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Instant;

use rustix::fs::{MemfdFlags, memfd_create};
use wayland_client::protocol::wl_pointer::{Axis, AxisSource, ButtonState};
use wayland_client::protocol::wl_registry::WlRegistry;
use wayland_client::protocol::wl_seat::WlSeat;
use wayland_client::{Connection, Dispatch, EventQueue, QueueHandle, delegate_noop, globals};
use wayland_protocols_misc::zwp_virtual_keyboard_v1::client::zwp_virtual_keyboard_manager_v1::ZwpVirtualKeyboardManagerV1;
use wayland_protocols_misc::zwp_virtual_keyboard_v1::client::zwp_virtual_keyboard_v1::ZwpVirtualKeyboardV1;
use wayland_protocols_wlr::virtual_pointer::v1::client::zwlr_virtual_pointer_manager_v1::ZwlrVirtualPointerManagerV1;
use wayland_protocols_wlr::virtual_pointer::v1::client::zwlr_virtual_pointer_v1::ZwlrVirtualPointerV1;

use super::{bound, connect, keymap};
use crate::DisplayError;
use crate::clock::now;
use crate::input::controls::Action;
use crate::input::keyboard::{Keymap, Step};
use crate::x11::connection::ThreadError;
use crate::x11::injection::Devices;
use crate::x11::screen::ScreenSize;

/// `XKB_V1` of `wl_keyboard.keymap_format`.
const XKB_V1: u32 = 1;
/// X's numbers of buttons, and the kernel's codes (`BTN_LEFT`, `BTN_MIDDLE`, `BTN_RIGHT`, `BTN_SIDE`, `BTN_EXTRA`).
const BUTTONS: [(u8, u32); 5] = [(1, 0x110), (2, 0x112), (3, 0x111), (8, 0x113), (9, 0x114)];
/// X's buttons for a notch of the wheel, with axis and direction.
const WHEEL: [(u8, Axis, i32); 4] = [
    (4, Axis::VerticalScroll, -1),
    (5, Axis::VerticalScroll, 1),
    (6, Axis::HorizontalScroll, -1),
    (7, Axis::HorizontalScroll, 1),
];
/// Distance that compositors report for a notch of the wheel (libinput's 15 degrees).
const NOTCH_DISTANCE: f64 = 15.0;
/// Masks of XKB's real modifiers, and the codes of their keys in the layout `us`.
const MODIFIERS: [(u32, &[u8]); 4] = [(1, &[50, 62]), (4, &[37, 105]), (8, &[64, 108]), (64, &[133, 134])];
/// Masks of XKB's locks, and the codes of their keys in the layout `us`.
const LOCKS: [(u32, u8); 2] = [(2, 66), (16, 77)];

pub(super) struct VirtualDevices {
    queue: EventQueue<Seat>,
    keyboard: ZwpVirtualKeyboardV1,
    pointer: ZwlrVirtualPointerV1,
    size: ScreenSize,
    begun: Instant,
    replaced: keymap::ReplacedSymbols,
    /// Whether the compositor does not have the newest map yet.
    stale: bool,
    down: Vec<u8>,
    locked: u32,
    /// Masks of the pressed and the locked modifiers that the compositor was sent last.
    sent_modifiers: (u32, u32),
}

/// The state for the compositor's events, which are all ignored.
struct Seat;

impl VirtualDevices {
    /// Creates the devices. Also returns the keyboard's map.
    pub(super) fn open(socket: &Path, size: ScreenSize) -> Result<(Self, Keymap), DisplayError> {
        let connection = connect(socket)?;
        let (list, queue) = globals::registry_queue_init::<Seat>(&connection)
            .map_err(|error| DisplayError::Display { name: socket.display().to_string(), reason: error.to_string() })?;
        let handle = queue.handle();
        let seat: WlSeat = bound(list.bind(&handle, 1..=7, ()))?;
        let keyboards: ZwpVirtualKeyboardManagerV1 = bound(list.bind(&handle, 1..=1, ()))?;
        let pointers: ZwlrVirtualPointerManagerV1 = bound(list.bind(&handle, 1..=2, ()))?;
        let keyboard = keyboards.create_virtual_keyboard(&seat, &handle, ());
        let pointer = pointers.create_virtual_pointer(Some(&seat), &handle, ());
        let begun = now();
        let (replaced, down) = (keymap::ReplacedSymbols::default(), Vec::new());
        let mut devices = Self {
            queue,
            keyboard,
            pointer,
            size,
            begun,
            replaced,
            stale: true,
            down,
            locked: 0,
            sent_modifiers: (0, 0),
        };
        let failed = |error: ThreadError| DisplayError::Display {
            name: socket.display().to_string(),
            reason: error.to_string(),
        };
        // Programs expect a keyboard when they start.
        devices.send_map().and_then(|()| devices.flush()).map_err(failed)?;
        Ok((devices, keymap::us()))
    }

    /// Returns the time of an event in milliseconds, which programs need for double clicks.
    fn time(&self) -> u32 {
        self.begun.elapsed().as_millis() as u32
    }

    /// Sends the newest map, which the compositor needs before a key that uses it.
    fn send_map(&mut self) -> Result<(), ThreadError> {
        if !std::mem::take(&mut self.stale) {
            return Ok(());
        }
        let mut text = self.replaced.text().into_bytes();
        text.push(0);
        let mut file = std::fs::File::from(memfd_create("nearlight-keymap", MemfdFlags::CLOEXEC)?);
        file.write_all(&text)?;
        self.keyboard.keymap(XKB_V1, file.as_fd(), text.len() as u32);
        // A new map resets the modifiers.
        self.sent_modifiers = (0, 0);
        self.send_modifiers();
        Ok(())
    }

    fn send_modifiers(&mut self) {
        let held = |keys: &[u8]| keys.iter().any(|key| self.down.contains(key));
        let down = MODIFIERS.iter().filter(|(_, keys)| held(keys)).fold(0, |mask, (bit, _)| mask | bit);
        if self.sent_modifiers != (down, self.locked) {
            self.sent_modifiers = (down, self.locked);
            self.keyboard.modifiers(down, 0, self.locked, 0);
        }
    }

    fn keyboard_step(&mut self, step: Step) -> Result<(), ThreadError> {
        match step {
            Step::Key { code, pressed } => {
                self.send_map()?;
                self.down.retain(|down| *down != code);
                if pressed {
                    self.down.push(code);
                    let lock = LOCKS.iter().find(|(_, key)| *key == code);
                    self.locked ^= lock.map_or(0, |(bit, _)| *bit);
                }
                let Some(kernel) = code.checked_sub(nearlight_wire::key_codes::EVDEV_OFFSET) else { return Ok(()) };
                self.keyboard.key(self.time(), kernel.into(), pressed.into());
                self.send_modifiers();
            }
            Step::Map { code, symbols } => {
                if self.replaced.set(code, symbols) {
                    self.stale = true;
                } else {
                    tracing::debug!(code, "the symbols of this key cannot be replaced");
                }
            }
            // The compositor receives a map before later keys, so no pause is needed.
            Step::Settle => {}
        }
        Ok(())
    }

    fn button(&self, button: u8, pressed: bool) {
        if let Some((_, code)) = BUTTONS.iter().find(|(known, _)| *known == button) {
            let state = if pressed { ButtonState::Pressed } else { ButtonState::Released };
            self.pointer.button(self.time(), *code, state);
        } else if let Some((_, axis, notches)) = WHEEL.iter().find(|(known, ..)| *known == button && pressed) {
            self.pointer.axis_source(AxisSource::Wheel);
            self.pointer.axis_discrete(self.time(), *axis, f64::from(*notches) * NOTCH_DISTANCE, *notches);
        } else {
            return;
        }
        self.pointer.frame();
    }
}

impl Devices for VirtualDevices {
    fn inject(&mut self, action: Action) -> Result<(), ThreadError> {
        match action {
            Action::Keyboard(step) => self.keyboard_step(step)?,
            Action::Button { button, pressed } => self.button(button, pressed),
            Action::MoveTo { x, y } => {
                let (width, height) = self.size.get();
                let place = |pixel: i16| u32::from(pixel.max(0).unsigned_abs());
                self.pointer.motion_absolute(self.time(), place(x), place(y), width.into(), height.into());
                self.pointer.frame();
            }
            Action::MoveBy { right, down } => {
                self.pointer.motion(self.time(), right.into(), down.into());
                self.pointer.frame();
            }
            Action::Gamepad(_) => {}
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ThreadError> {
        self.queue.flush()?;
        // Events must be read, or the compositor would close the connection once too many have accumulated.
        if let Some(guard) = self.queue.prepare_read() {
            super::read(guard)?;
        }
        self.queue.dispatch_pending(&mut Seat)?;
        Ok(())
    }
}

impl Dispatch<WlRegistry, globals::GlobalListContents> for Seat {
    fn event(
        _: &mut Self,
        _: &WlRegistry,
        _: <WlRegistry as wayland_client::Proxy>::Event,
        _: &globals::GlobalListContents,
        _: &Connection,
        _: &QueueHandle<Self>,
    ) {
    }
}
delegate_noop!(Seat: ignore WlSeat);
delegate_noop!(Seat: ZwpVirtualKeyboardManagerV1);
delegate_noop!(Seat: ZwpVirtualKeyboardV1);
delegate_noop!(Seat: ZwlrVirtualPointerManagerV1);
delegate_noop!(Seat: ZwlrVirtualPointerV1);
