//! OpenUVR's device: reads input devices and shows pictures.

use std::ffi::{c_char, c_void};
use std::fs::File;
use std::io::Read;
use std::mem::ManuallyDrop;
use std::os::fd::{BorrowedFd, FromRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearlight_units::lock;
use nearlight_viewer::{CodecKind, DeviceInput, Options, Pointer, Target, Viewer};

use super::evdev::{self, EVENT_BYTES, InputEvent};
use super::{DeviceId, codec, device_id, is_raw, status};
use crate::fault::{Fault, guard, guard_or};
use crate::handles::Handles;
use crate::memory::text;
use crate::types::nl_status;

/// Environment variable with the link to the host.
const LINK_VARIABLE: &str = "OPENUVR_LINK";
/// Interval at which the display's thread checks whether it must end. Guess: unnoticeably short when the context is freed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Interval in milliseconds at which the input thread checks whether it must end. Guess: as above.
const POLL_INTERVAL_MS: i32 = 100;
/// The protocol's scroll units of a wheel's notch: 100 CSS pixels of 16 units each.
const UNITS_PER_NOTCH: i32 = 100 * 16;

/// A device ("MUD") of OpenUVR.
pub struct openuvr_mud_context {
    _private: [u8; 0],
}

/// A decoded picture.
#[repr(C)]
pub struct openuvr_picture {
    pub pixels: *const u8,
    pub width: i32,
    pub height: i32,
}

/// Called with each picture.
pub type openuvr_show = Option<unsafe extern "C" fn(user: *mut c_void, picture: *const openuvr_picture)>;

static DEVICES: Handles<Entry> = Handles::new();

struct Entry {
    codec: CodecKind,
    setup: Mutex<Setup>,
    running: Mutex<Option<RunningDevice>>,
}

#[derive(Default)]
struct Setup {
    link: Option<String>,
    devices: Vec<(DeviceId, RawFd)>,
    display: Option<Display>,
}

#[derive(Clone, Copy)]
struct Display {
    show: unsafe extern "C" fn(user: *mut c_void, picture: *const openuvr_picture),
    user: *mut c_void,
}

// SAFETY: the library never dereferences `user`, and the program guarantees that its callback can be called with it in another thread.
unsafe impl Send for Display {}

struct RunningDevice {
    stop: Arc<AtomicBool>,
    viewer: Arc<Viewer>,
    threads: Vec<JoinHandle<()>>,
}

fn get(context: *const openuvr_mud_context) -> Result<Arc<Entry>, Fault> {
    DEVICES
        .get(context.addr())
        .ok_or_else(|| Fault::new(nl_status::Closed, "the device's context is none, or was freed"))
}

/// See openuvr.h.
#[unsafe(no_mangle)]
pub extern "C" fn openuvr_alloc_mud_context(dec_type: u32, net_proto: u32) -> *mut openuvr_mud_context {
    let allocate = || {
        // The number is only checked: the link decides whether frames are raw.
        is_raw(net_proto)?;
        let entry = Entry { codec: codec(dec_type)?, setup: Mutex::default(), running: Mutex::default() };
        Ok(std::ptr::without_provenance_mut(DEVICES.add(entry)))
    };
    guard_or(allocate, |_| std::ptr::null_mut())
}

/// See openuvr.h.
///
/// # Safety
/// `link` is null or ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_set_link(context: *mut openuvr_mud_context, link: *const c_char) -> i32 {
    status(guard(|| {
        let entry = get(context)?;
        // SAFETY: this function's contract.
        let link = unsafe { text("the link", link) }?;
        lock(&entry.setup).link = link.map(str::to_owned);
        Ok(())
    }))
}

/// See openuvr.h.
///
/// # Safety
/// `show` can be called from another thread with `user` until openuvr_free_mud_context has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_set_display(
    context: *mut openuvr_mud_context,
    show: openuvr_show,
    user: *mut c_void,
) -> i32 {
    status(guard(|| {
        let entry = get(context)?;
        lock(&entry.setup).display = show.map(|show| Display { show, user });
        Ok(())
    }))
}

/// See openuvr.h.
#[unsafe(no_mangle)]
pub extern "C" fn openuvr_register_input_device(context: *mut openuvr_mud_context, id: i32, fd: i32) -> i32 {
    status(guard(|| {
        let (entry, id) = (get(context)?, device_id(id)?);
        if fd < 0 {
            return Err(Fault::argument(
                "the device's descriptor is negative: it was not opened; /dev/input needs the group `input`",
            ));
        }
        lock(&entry.setup).devices.push((id, fd));
        Ok(())
    }))
}

/// See openuvr.h.
#[unsafe(no_mangle)]
pub extern "C" fn openuvr_init_mud_thread(context: *mut openuvr_mud_context) -> i32 {
    status(guard(|| {
        let entry = get(context)?;
        let mut running = lock(&entry.running);
        if running.is_some() {
            return Err(Fault::argument("the device's threads run already"));
        }
        let setup = lock(&entry.setup);
        let link = setup.link.clone().or_else(|| std::env::var(LINK_VARIABLE).ok()).ok_or_else(|| {
            Fault::new(
                nl_status::Options,
                "the device has no link to its host: call openuvr_set_link, or set OPENUVR_LINK",
            )
        })?;
        let target = Target::open(&link).map_err(|error| Fault::new(nl_status::Options, error.to_string()))?;
        let options = Options { name: "an OpenUVR device".into(), codecs: vec![entry.codec], ..Options::default() };
        let viewer = Arc::new(Viewer::connect_to(target, &options)?);
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        let no_thread =
            |error: std::io::Error| Fault::new(nl_status::System, format!("cannot start a thread: {error}"));
        if !setup.devices.is_empty() {
            let reader = Reader::new(&setup.devices, Arc::clone(&viewer), Arc::clone(&stop))?;
            let thread = thread::Builder::new().name("openuvr input".into()).spawn(move || reader.run());
            threads.push(thread.map_err(no_thread)?);
        }
        if let Some(display) = setup.display {
            let (viewer, stop) = (Arc::clone(&viewer), Arc::clone(&stop));
            let thread =
                thread::Builder::new().name("openuvr display".into()).spawn(move || show(&viewer, &stop, display));
            threads.push(thread.map_err(no_thread)?);
        }
        *running = Some(RunningDevice { stop, viewer, threads });
        Ok(())
    }))
}

/// See openuvr.h.
#[unsafe(no_mangle)]
pub extern "C" fn openuvr_free_mud_context(context: *mut openuvr_mud_context) {
    guard(|| {
        let Some(entry) = DEVICES.remove(context.addr()) else { return Ok(()) };
        let Some(RunningDevice { stop, viewer, threads }) = lock(&entry.running).take() else { return Ok(()) };
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            let _ = thread.join();
        }
        viewer.close()?;
        Ok(())
    });
}

/// Passes pictures to the display's callback until the viewer ends.
fn show(viewer: &Viewer, stop: &AtomicBool, display: Display) {
    let mut pixels = Vec::new();
    while !viewer.has_ended() {
        let picture = viewer.wait_picture(POLL_INTERVAL);
        // A picture that arrives while the context is freed may already show the released keys.
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let Some(picture) = picture else { continue };
        if picture.to_rgba(&mut pixels).is_ok() {
            let (width, height) = (picture.size().width.into(), picture.size().height.into());
            let shown = openuvr_picture { pixels: pixels.as_ptr(), width, height };
            // SAFETY: the contract of openuvr_set_display; the picture lives until the call returns.
            unsafe { (display.show)(display.user, &raw const shown) };
        }
    }
}

/// Reads the input devices and sends the user's input.
struct Reader {
    /// The devices; `None` for one that has ended.
    devices: Vec<Option<Source>>,
    viewer: Arc<Viewer>,
    stop: Arc<AtomicBool>,
    pointer: Pointer,
}

struct Source {
    id: DeviceId,
    descriptor: RawFd,
    /// Whether the device has the packets of a PS/2 mouse instead of input events.
    is_mice: bool,
    /// Bytes of an incomplete event or packet.
    rest: Vec<u8>,
}

impl Reader {
    fn new(devices: &[(DeviceId, RawFd)], viewer: Arc<Viewer>, stop: Arc<AtomicBool>) -> Result<Self, Fault> {
        let source = |(id, descriptor): &(DeviceId, RawFd)| {
            // SAFETY: open until the context is freed, as the program guarantees.
            let borrowed = unsafe { BorrowedFd::borrow_raw(*descriptor) };
            let is_mice = evdev::is_mice(borrowed).map_err(|error| {
                Fault::argument(format!("the descriptor {descriptor} of a device cannot be read: {error}"))
            })?;
            Ok(Some(Source { id: *id, descriptor: *descriptor, is_mice, rest: Vec::new() }))
        };
        let devices = devices.iter().map(source).collect::<Result<_, Fault>>()?;
        // The devices have only relative movement.
        let pointer = Pointer { captured: true, ..Pointer::default() };
        Ok(Self { devices, viewer, stop, pointer })
    }

    fn run(mut self) {
        // The first report is the origin of movement: a host takes the difference of two reports.
        self.send_pointer();
        while !self.stop.load(Ordering::Relaxed) && self.devices.iter().any(Option::is_some) {
            let indices: Vec<usize> = (0..self.devices.len()).filter(|index| self.devices[*index].is_some()).collect();
            let descriptors: Vec<RawFd> = self.devices.iter().flatten().map(|source| source.descriptor).collect();
            let ready = evdev::poll(&descriptors, libc::POLLIN, POLL_INTERVAL_MS);
            let ready: Vec<usize> =
                indices.into_iter().zip(ready).filter(|(_, ready)| *ready).map(|(index, _)| index).collect();
            for index in ready {
                self.read(index);
            }
        }
        // Keys and buttons of devices that are gone are released.
        let _ = self.viewer.send(DeviceInput::ReleaseAll.into());
    }

    fn read(&mut self, index: usize) {
        let Some(mut source) = self.devices[index].take() else { return };
        // SAFETY: open until the context is freed, as the program guarantees; it is not closed here.
        let mut file = ManuallyDrop::new(unsafe { File::from_raw_fd(source.descriptor) });
        let mut bytes = [0; 64 * EVENT_BYTES];
        match file.read(&mut bytes) {
            Ok(count @ 1..) => source.rest.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            // The device is gone, and its entry stays `None`.
            Ok(_) | Err(_) => return,
        }
        if source.is_mice {
            let complete = source.rest.len() / 3 * 3;
            for packet in source.rest[..complete].chunks_exact(3) {
                self.on_mouse_packet([packet[0], packet[1], packet[2]]);
            }
            source.rest.drain(..complete);
        } else {
            let complete = source.rest.len() / EVENT_BYTES * EVENT_BYTES;
            for event in source.rest[..complete].chunks_exact(EVENT_BYTES) {
                let event: &[u8; EVENT_BYTES] = event.try_into().unwrap_or(&[0; EVENT_BYTES]);
                self.on_event(source.id, InputEvent::from_bytes(event));
            }
            source.rest.drain(..complete);
        }
        self.devices[index] = Some(source);
    }

    /// Handles a PS/2 packet: flags with the buttons, movement to the right, movement up.
    fn on_mouse_packet(&mut self, [flags, right, up]: [u8; 3]) {
        self.pointer.moved[0] = self.pointer.moved[0].wrapping_add(i32::from(right.cast_signed()));
        self.pointer.moved[1] = self.pointer.moved[1].wrapping_sub(i32::from(up.cast_signed()));
        // PS/2 has the order left, right, middle; the protocol has left, middle, right.
        self.pointer.buttons = flags & 1 | (flags & 2) << 1 | (flags & 4) >> 1;
        self.send_pointer();
    }

    fn on_event(&mut self, id: DeviceId, InputEvent { kind, code, value }: InputEvent) {
        let scroll = |units: &mut i32, notches: i32| *units = units.wrapping_add(notches.wrapping_mul(UNITS_PER_NOTCH));
        match (id, kind, code) {
            (DeviceId::Keyboard, evdev::EV_KEY, code) => {
                // The value 2 is a repetition of a held key.
                if let Some(key) = evdev::key(code).filter(|_| value != 2) {
                    let _ = self.viewer.send(DeviceInput::Key { key, pressed: value != 0 }.into());
                }
            }
            (DeviceId::Mouse, evdev::EV_KEY, code) => {
                let button = evdev::BUTTONS.iter().find(|(known, _)| *known == code);
                if let Some((_, button)) = button {
                    let bit = 1 << button;
                    self.pointer.buttons =
                        if value == 0 { self.pointer.buttons & !bit } else { self.pointer.buttons | bit };
                }
            }
            (DeviceId::Mouse, evdev::EV_REL, evdev::REL_X) => {
                self.pointer.moved[0] = self.pointer.moved[0].wrapping_add(value);
            }
            (DeviceId::Mouse, evdev::EV_REL, evdev::REL_Y) => {
                self.pointer.moved[1] = self.pointer.moved[1].wrapping_add(value);
            }
            // A positive notch scrolls up.
            (DeviceId::Mouse, evdev::EV_REL, evdev::REL_WHEEL) => {
                scroll(&mut self.pointer.scrolled[1], value.wrapping_neg());
            }
            (DeviceId::Mouse, evdev::EV_REL, evdev::REL_HWHEEL) => scroll(&mut self.pointer.scrolled[0], value),
            (DeviceId::Mouse, evdev::EV_SYN, _) => self.send_pointer(),
            _ => {}
        }
    }

    fn send_pointer(&self) {
        // An error means that the viewer has ended; closing it reports why.
        let _ = self.viewer.send(DeviceInput::Pointer(Some(self.pointer)).into());
    }
}
