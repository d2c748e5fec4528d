//! Linux input events (`linux/input.h`), and the conversion of key codes between Linux and the protocol.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use nearlight_viewer::Key;

/// Event types and codes of `linux/input-event-codes.h`.
pub(super) const EV_SYN: u16 = 0;
pub(super) const EV_KEY: u16 = 1;
pub(super) const EV_REL: u16 = 2;
pub(super) const REL_X: u16 = 0;
pub(super) const REL_Y: u16 = 1;
pub(super) const REL_WHEEL: u16 = 8;
pub(super) const REL_HWHEEL: u16 = 6;
/// `BTN_LEFT`, `BTN_RIGHT`, `BTN_MIDDLE`, `BTN_SIDE` and `BTN_EXTRA`, each with the protocol's button.
pub(super) const BUTTONS: [(u16, u8); 5] = [(0x110, 0), (0x111, 2), (0x112, 1), (0x113, 3), (0x114, 4)];

/// HID usage page of keyboards, in the upper half of a key's code.
const KEYBOARD_PAGE: u32 = 7 << 16;
/// HID usages of keyboards in the order of the `KEY_...` codes from 1; 0 when there is none (`linux/input-event-codes.h`, HID Usage Tables
/// 1.5 section 10).
const USAGES: [u8; 127] = [
    0x29, 0x1e, 0x1f, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x2d, 0x2e, 0x2a, 0x2b, 0x14, 0x1a, 0x08, 0x15,
    0x17, 0x1c, 0x18, 0x0c, 0x12, 0x13, 0x2f, 0x30, 0x28, 0xe0, 0x04, 0x16, 0x07, 0x09, 0x0a, 0x0b, 0x0d, 0x0e, 0x0f,
    0x33, 0x34, 0x35, 0xe1, 0x31, 0x1d, 0x1b, 0x06, 0x19, 0x05, 0x11, 0x10, 0x36, 0x37, 0x38, 0xe5, 0x55, 0xe2, 0x2c,
    0x39, 0x3a, 0x3b, 0x3c, 0x3d, 0x3e, 0x3f, 0x40, 0x41, 0x42, 0x43, 0x53, 0x47, 0x5f, 0x60, 0x61, 0x56, 0x5c, 0x5d,
    0x5e, 0x57, 0x59, 0x5a, 0x5b, 0x62, 0x63, 0, 0, 0x64, 0x44, 0x45, 0, 0, 0, 0, 0, 0, 0, 0x58, 0xe4, 0x54, 0x46,
    0xe6, 0, 0x4a, 0x52, 0x4b, 0x50, 0x4f, 0x4d, 0x51, 0x4e, 0x49, 0x4c, 0, 0, 0, 0, 0, 0x67, 0, 0x48, 0, 0, 0, 0, 0,
    0xe3, 0xe7, 0x65,
];

/// Returns the key of a `KEY_...` code, or `None` when the protocol's keyboards do not have it.
pub(super) fn key(code: u16) -> Option<Key> {
    let usage = *USAGES.get(usize::from(code.checked_sub(1)?))?;
    (usage != 0).then_some(Key(KEYBOARD_PAGE | u32::from(usage)))
}

/// Returns the `KEY_...` code of a key.
#[cfg_attr(not(feature = "host"), allow(dead_code, reason = "the device only reads events"))]
pub(super) fn code(key: Key) -> Option<u16> {
    let index = USAGES.iter().position(|usage| *usage != 0 && KEYBOARD_PAGE | u32::from(*usage) == key.0)?;
    Some(index as u16 + 1)
}

/// An input event without its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InputEvent {
    pub(super) kind: u16,
    pub(super) code: u16,
    pub(super) value: i32,
}

/// Number of bytes of a `struct input_event`, which begins with the machine's `struct timeval`.
pub(super) const EVENT_BYTES: usize = size_of::<libc::input_event>();
/// Number of bytes of its time.
const TIME_BYTES: usize = EVENT_BYTES - 8;

impl InputEvent {
    /// Reads an event.
    pub(super) fn from_bytes(bytes: &[u8; EVENT_BYTES]) -> Self {
        let rest = &bytes[TIME_BYTES..];
        let short = |at: usize| u16::from_ne_bytes([rest[at], rest[at + 1]]);
        Self { kind: short(0), code: short(2), value: i32::from_ne_bytes([rest[4], rest[5], rest[6], rest[7]]) }
    }

    /// Returns the event as bytes. Its time is 0, because programs that read a pipe use their own clock.
    #[cfg_attr(not(feature = "host"), allow(dead_code, reason = "the device only reads events"))]
    pub(super) fn bytes(self) -> [u8; EVENT_BYTES] {
        let mut bytes = [0; EVENT_BYTES];
        bytes[TIME_BYTES..TIME_BYTES + 2].copy_from_slice(&self.kind.to_ne_bytes());
        bytes[TIME_BYTES + 2..TIME_BYTES + 4].copy_from_slice(&self.code.to_ne_bytes());
        bytes[TIME_BYTES + 4..].copy_from_slice(&self.value.to_ne_bytes());
        bytes
    }
}

/// Returns whether a descriptor is `/dev/input/mice` or `/dev/input/mouseN`, which have PS/2 packets: the input subsystem's character
/// devices 32 to 63 (Linux `Documentation/admin-guide/devices.txt`).
pub(super) fn is_mice(descriptor: BorrowedFd<'_>) -> io::Result<bool> {
    let mut stat = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: an open descriptor, and memory for the result.
    if unsafe { libc::fstat(descriptor.as_raw_fd(), stat.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has initialised it.
    let stat = unsafe { stat.assume_init() };
    let is_device = stat.st_mode & libc::S_IFMT == libc::S_IFCHR;
    Ok(is_device && libc::major(stat.st_rdev) == 13 && (32..64).contains(&libc::minor(stat.st_rdev)))
}

/// Waits at most this many milliseconds until one of the descriptors is ready for `events` or has ended. Returns for each whether it is.
pub(super) fn poll(descriptors: &[RawFd], events: i16, milliseconds: i32) -> Vec<bool> {
    let polled = |descriptor: &RawFd| libc::pollfd { fd: *descriptor, events, revents: 0 };
    let mut polled: Vec<libc::pollfd> = descriptors.iter().map(polled).collect();
    // SAFETY: the length is that of the array; the kernel reports a descriptor that is not open.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) };
    polled.iter().map(|polled| ready > 0 && polled.revents != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_usages_and_go_back() {
        for (code_of_key, name) in [
            (1, "Escape"),
            (2, "Digit1"),
            (14, "Backspace"),
            (17, "KeyW"),
            (28, "Enter"),
            (29, "ControlLeft"),
            (30, "KeyA"),
            (42, "ShiftLeft"),
            (44, "KeyZ"),
            (57, "Space"),
            (58, "CapsLock"),
            (59, "F1"),
            (68, "F10"),
            (69, "NumLock"),
            (82, "Numpad0"),
            (86, "IntlBackslash"),
            (87, "F11"),
            (96, "NumpadEnter"),
            (97, "ControlRight"),
            (100, "AltRight"),
            (102, "Home"),
            (103, "ArrowUp"),
            (105, "ArrowLeft"),
            (111, "Delete"),
            (119, "Pause"),
            (125, "MetaLeft"),
            (127, "ContextMenu"),
        ] {
            assert_eq!(key(code_of_key), Key::from_code(name), "{name}");
            assert_eq!(Key::from_code(name).and_then(code), Some(code_of_key), "{name}");
        }
        assert_eq!((key(0), key(84), key(128), key(u16::MAX), code(Key(0))), (None, None, None, None, None));
    }

    #[test]
    fn events_are_as_linux_lays_them_out() {
        let event = InputEvent { kind: EV_REL, code: REL_Y, value: -7 };
        let bytes = event.bytes();
        assert_eq!(InputEvent::from_bytes(&bytes), event);
        assert_eq!(bytes.len(), if cfg!(target_pointer_width = "64") { 24 } else { 16 });
    }
}
