//! Keyboard and pointer of a compositor of wlroots' family: `zwp_virtual_keyboard_v1` and `zwlr_virtual_pointer_v1`.

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
use crate::connection::ThreadError;
use crate::controls::Action;
use crate::injection::Devices;
use crate::keyboard::{Keymap, Step};
use crate::screen::ScreenSize;

/// `XKB_V1` of `wl_keyboard.keymap_format`.
const XKB_V1: u32 = 1;
/// Codes of the kernel's buttons (`BTN_LEFT`, `BTN_MIDDLE`, `BTN_RIGHT`, `BTN_SIDE`, `BTN_EXTRA`) by X's numbers.
const BUTTONS: [(u8, u32); 5] = [(1, 0x110), (2, 0x112), (3, 0x111), (8, 0x113), (9, 0x114)];
/// X's buttons for a notch of the wheel: axis and direction.
const WHEEL: [(u8, Axis, i32); 4] = [
    (4, Axis::VerticalScroll, -1),
    (5, Axis::VerticalScroll, 1),
    (6, Axis::HorizontalScroll, -1),
    (7, Axis::HorizontalScroll, 1),
];
/// What compositors report for a notch, in pixels (libinput's 15 degrees).
const NOTCH: f64 = 15.0;
/// Masks of XKB's real modifiers, and the codes of their keys on the layout `us`.
const MODIFIERS: [(u32, &[u8]); 4] = [(1, &[50, 62]), (4, &[37, 105]), (8, &[64, 108]), (64, &[133, 134])];
const LOCKS: [(u32, u8); 2] = [(2, 66), (16, 77)];

pub(super) struct VirtualDevices {
    queue: EventQueue<Seat>,
    keyboard: ZwpVirtualKeyboardV1,
    pointer: ZwlrVirtualPointerV1,
    size: ScreenSize,
    begun: Instant,
    replaced: keymap::Replaced,
    /// The compositor does not have the newest map yet.
    stale: bool,
    down: Vec<u8>,
    locked: u32,
    /// Of the modifiers, as the compositor was told.
    told: (u32, u32),
}

/// Nothing that the compositor says about its devices is of use.
struct Seat;

impl VirtualDevices {
    /// Also returns the keyboard's map.
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
        let (replaced, down) = (keymap::Replaced::default(), Vec::new());
        let mut devices =
            Self { queue, keyboard, pointer, size, begun, replaced, stale: true, down, locked: 0, told: (0, 0) };
        let failed = |error: ThreadError| DisplayError::Display {
            name: socket.display().to_string(),
            reason: error.to_string(),
        };
        // Programs look for a keyboard when they start.
        devices.bring_map().and_then(|()| devices.flush()).map_err(failed)?;
        Ok((devices, keymap::us()))
    }

    /// Milliseconds, for double clicks.
    fn time(&self) -> u32 {
        self.begun.elapsed().as_millis() as u32
    }

    /// Before a key types something of the newest map, the compositor must have it.
    fn bring_map(&mut self) -> Result<(), ThreadError> {
        if !std::mem::take(&mut self.stale) {
            return Ok(());
        }
        let mut text = self.replaced.text().into_bytes();
        text.push(0);
        let mut file = std::fs::File::from(memfd_create("nearlight-keymap", MemfdFlags::CLOEXEC)?);
        file.write_all(&text)?;
        self.keyboard.keymap(XKB_V1, file.as_fd(), text.len() as u32);
        // A new map has no modifiers down.
        self.told = (0, 0);
        self.tell_modifiers();
        Ok(())
    }

    fn tell_modifiers(&mut self) {
        let held = |keys: &[u8]| keys.iter().any(|key| self.down.contains(key));
        let down = MODIFIERS.iter().filter(|(_, keys)| held(keys)).fold(0, |mask, (bit, _)| mask | bit);
        if self.told != (down, self.locked) {
            self.told = (down, self.locked);
            self.keyboard.modifiers(down, 0, self.locked, 0);
        }
    }

    fn keyboard_step(&mut self, step: Step) -> Result<(), ThreadError> {
        match step {
            Step::Key { code, pressed } => {
                self.bring_map()?;
                self.down.retain(|down| *down != code);
                if pressed {
                    self.down.push(code);
                    let lock = LOCKS.iter().find(|(_, key)| *key == code);
                    self.locked ^= lock.map_or(0, |(bit, _)| *bit);
                }
                let Some(kernel) = code.checked_sub(nearlight_keyboard::EVDEV) else { return Ok(()) };
                self.keyboard.key(self.time(), kernel.into(), pressed.into());
                self.tell_modifiers();
            }
            Step::Map { code, symbols } => {
                if self.replaced.set(code, symbols) {
                    self.stale = true;
                } else {
                    tracing::debug!(code, "a key of which no other symbols can be made");
                }
            }
            // A map arrives before the keys that come after it.
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
            self.pointer.axis_discrete(self.time(), *axis, f64::from(*notches) * NOTCH, *notches);
        } else {
            return;
        }
        self.pointer.frame();
    }
}

impl Devices for VirtualDevices {
    fn carry_out(&mut self, action: Action) -> Result<(), ThreadError> {
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
        // What the compositor says must be read, or it would end the connection once much has come together.
        if let Some(guard) = self.queue.prepare_read() {
            super::read(guard)?;
        }
        self.queue.dispatch_pending(&mut Seat)?;
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "programs are told when something was pressed")]
fn now() -> Instant {
    Instant::now()
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
