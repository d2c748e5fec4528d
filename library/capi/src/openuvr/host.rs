//! OpenUVR's host: a server whose pictures come from a pixel buffer.

use std::ffi::{c_char, c_void};
use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::num::NonZeroU32;
use std::os::fd::{FromRawFd, RawFd};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearlight_embed::graphics::gl::{Conversion, Delivery, Reader, ReaderOptions};
use nearlight_embed::{
    Content, EventKind, Host, InputEvent as ViewerInput, Options, PixelOrder, Rows, Size, Span, Time,
};
use nearlight_units::lock;
use nearlight_viewer::Pointer;

use super::evdev::{self, InputEvent};
use super::{DeviceId, codec, device_id, is_raw, status};
use crate::fault::{Fault, guard, guard_or};
use crate::handles::{Handles, Texts};
use crate::types::nl_status;

/// Interval at which the thread checks whether it must end. Guess: unnoticeably short when the context is freed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A host of OpenUVR.
pub struct openuvr_context {
    _private: [u8; 0],
}

static HOSTS: Handles<Entry> = Handles::new();

struct Entry {
    /// Address at which the program stores the name of its pixel buffer.
    buffer: BufferName,
    texts: Texts,
    state: Mutex<State>,
}

/// Address of the name of an OpenGL buffer.
struct BufferName(*const u32);

// SAFETY: only openuvr_send_frame reads it, in a thread that the program chooses.
unsafe impl Send for BufferName {}
// SAFETY: as for `Send`.
unsafe impl Sync for BufferName {}

struct State {
    options: Options,
    order: PixelOrder,
    devices: Vec<(DeviceId, RawFd)>,
    running: Option<RunningHost>,
    reader: Option<Reader>,
    /// The time when the last picture was submitted.
    last_sent_at: Option<Time>,
}

struct RunningHost {
    host: Arc<Host>,
    thread: JoinHandle<()>,
}

fn get(context: *const openuvr_context) -> Result<Arc<Entry>, Fault> {
    HOSTS.get(context.addr()).ok_or_else(|| Fault::new(nl_status::Closed, "the host's context is none, or was freed"))
}

/// See openuvr.h.
///
/// # Safety
/// A GLuint can be read at `ptr` until the context is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_alloc_context(
    dec_type: u32,
    net_proto: u32,
    ptr: *mut c_void,
) -> *mut openuvr_context {
    let allocate = || {
        let codec = codec(dec_type)?;
        let ethernet = if is_raw(net_proto)? { vec![interface()?] } else { Vec::new() };
        let buffer = ptr.cast_const().cast::<u32>();
        if buffer.is_null() || !buffer.is_aligned() {
            return Err(Fault::argument("the pixel buffer is none: pass the address of its name"));
        }
        let options = Options {
            name: "an OpenUVR host".into(),
            width: 1_920,
            height: 1_080,
            codec,
            ethernet,
            ..Options::default()
        };
        let (devices, running) = (Vec::new(), None);
        let state = State { options, order: PixelOrder::Rgb, devices, running, reader: None, last_sent_at: None };
        let entry = Entry { buffer: BufferName(buffer), texts: Texts::default(), state: Mutex::new(state) };
        Ok(std::ptr::without_provenance_mut(HOSTS.add(entry)))
    };
    guard_or(allocate, |_| std::ptr::null_mut())
}

/// Returns the network interface for raw frames, which the paper's host knows at build time.
fn interface() -> Result<String, Fault> {
    std::env::var("OPENUVR_INTERFACE").ok().filter(|name| !name.is_empty()).ok_or_else(|| {
        Fault::argument("raw frames need the name of a network interface: set OPENUVR_INTERFACE, such as to eth0")
    })
}

/// See openuvr.h.
#[unsafe(no_mangle)]
pub extern "C" fn openuvr_set_feature(context: *mut openuvr_context, feature: u32, value: i32) -> i32 {
    status(guard(|| {
        let entry = get(context)?;
        let mut state = lock(&entry.state);
        if state.running.is_some() {
            return Err(Fault::argument("the host's thread runs already: set features before openuvr_init_thread"));
        }
        let number = || {
            u16::try_from(value).map_err(|_| Fault::argument(format!("{value} is not a value of feature {feature}")))
        };
        match feature {
            1 => state.options.fps = number()?,
            2 => state.options.width = number()?,
            3 => state.options.height = number()?,
            4 => {
                let orders = [PixelOrder::Rgb, PixelOrder::Rgba, PixelOrder::Bgra];
                let order = usize::try_from(value).ok().and_then(|value| orders.get(value).copied());
                state.order = order.ok_or_else(|| Fault::argument(format!("{value} is none of OPENUVR_PIXELS")))?;
            }
            5 => state.options.synchronous = value != 0,
            6 => state.options.port = number()?,
            _ => return Err(Fault::argument(format!("there is no feature {feature}"))),
        }
        Ok(())
    }))
}

/// See openuvr.h.
#[unsafe(no_mangle)]
pub extern "C" fn openuvr_map_input_device(context: *mut openuvr_context, id: i32, fd: i32) -> i32 {
    status(guard(|| {
        let (entry, id) = (get(context)?, device_id(id)?);
        if fd < 0 {
            return Err(Fault::argument("the device's descriptor is negative: it was not opened"));
        }
        // SAFETY: the call only returns flags; a descriptor that is not open is an error.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        if flags < 0 || flags & libc::O_ACCMODE == libc::O_RDONLY {
            return Err(Fault::argument(
                "the device's descriptor cannot be written to: pass uinput's, or the writing end of a pipe or socket",
            ));
        }
        lock(&entry.state).devices.push((id, fd));
        Ok(())
    }))
}

/// See openuvr.h.
#[unsafe(no_mangle)]
pub extern "C" fn openuvr_init_thread(context: *mut openuvr_context) {
    let outcome = guard(|| {
        let entry = get(context)?;
        let mut state = lock(&entry.state);
        if state.running.is_some() {
            return Ok(());
        }
        let host = Arc::new(Host::open(&state.options)?);
        let size = [state.options.width, state.options.height];
        let writer = Writer { host: Arc::clone(&host), devices: state.devices.clone(), size, pointer: None };
        let thread = thread::Builder::new().name("openuvr".into()).spawn(move || writer.run());
        let thread =
            thread.map_err(|error| Fault::new(nl_status::System, format!("cannot start a thread: {error}")))?;
        state.running = Some(RunningHost { host, thread });
        Ok(())
    });
    if outcome != nl_status::Ok {
        // SAFETY: the text belongs to this thread and ends with a zero byte.
        let message = unsafe { std::ffi::CStr::from_ptr(crate::fault::last_message()) };
        eprintln!("openuvr: {}", message.to_string_lossy());
    }
}

/// See openuvr.h.
///
/// # Safety
/// The program's OpenGL context is current, and what its address names is a pixel buffer of it that is not mapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_send_frame(context: *mut openuvr_context) -> i32 {
    let mut early = false;
    let outcome = guard(|| {
        let entry = get(context)?;
        let mut state = lock(&entry.state);
        let State { options, order, running, reader, last_sent_at, .. } = &mut *state;
        let Some(RunningHost { host, .. }) = running else {
            return Err(Fault::argument("the host has no thread: call openuvr_init_thread first"));
        };
        let (now, interval) = (host.now(), Span::from_secs(1) / i64::from(options.fps.max(1)));
        // Clocks jitter, so that a picture may be a tenth of an interval early.
        early = last_sent_at.is_some_and(|last| now - last < interval * 9 / 10);
        if early || !host.is_watched() {
            return Ok(());
        }
        *last_sent_at = Some(now);
        let reader = if let Some(reader) = reader {
            reader
        } else {
            let options = ReaderOptions { delivery: Delivery::Immediate, conversion: Conversion::Processor };
            // SAFETY: this function's contract.
            reader.insert(unsafe { Reader::for_current_context(options) }?)
        };
        // SAFETY: the contract of openuvr_alloc_context.
        let name = unsafe { entry.buffer.0.read() };
        let name =
            NonZeroU32::new(name).ok_or_else(|| Fault::argument("the pixel buffer's name is 0: it was not made"))?;
        let size = Size { width: options.width, height: options.height };
        // SAFETY: this function's contract.
        unsafe { reader.submit_buffer(host, name, (size, *order, Rows::BottomUp), Content::default()) }?;
        Ok(())
    });
    if outcome == nl_status::Ok { early.into() } else { -1 }
}

/// See openuvr.h.
#[unsafe(no_mangle)]
pub extern "C" fn openuvr_link(context: *mut openuvr_context) -> *const c_char {
    let link = || {
        let entry = get(context)?;
        let state = lock(&entry.state);
        let running = state.running.as_ref().ok_or_else(Fault::nothing)?;
        let host = &running.host;
        let raw = host.ethernet_links().first().map(ToString::to_string);
        let link = raw.or_else(|| host.links().first().map(ToString::to_string)).ok_or_else(Fault::nothing)?;
        Ok(entry.texts.keep(&link))
    };
    guard_or(link, |_| std::ptr::null())
}

/// See openuvr.h.
///
/// # Safety
/// The program's OpenGL context is current if frames were sent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_free_context(context: *mut openuvr_context) {
    guard(|| {
        let Some(entry) = HOSTS.remove(context.addr()) else { return Ok(()) };
        let mut state = lock(&entry.state);
        if let Some(reader) = state.reader.take() {
            // SAFETY: this function's contract.
            unsafe { reader.delete() };
        }
        if let Some(RunningHost { host, thread }) = state.running.take() {
            let closed = host.close();
            let _ = thread.join();
            closed?;
        }
        Ok(())
    });
}

/// Writes what viewers do to the program's descriptors.
struct Writer {
    host: Arc<Host>,
    devices: Vec<(DeviceId, RawFd)>,
    size: [u16; 2],
    /// The driving viewer and its pointer, as it was written last.
    pointer: Option<(u32, Pointer)>,
}

impl Writer {
    fn run(mut self) {
        loop {
            let Some(event) = self.host.wait_event(POLL_INTERVAL) else {
                if self.host.is_closed() {
                    return;
                }
                continue;
            };
            match event.kind {
                EventKind::Input(ViewerInput::Key { key, pressed }) => {
                    if let Some(code) = evdev::code(key) {
                        self.write(DeviceId::Keyboard, &[key_event(code, pressed)]);
                    }
                }
                EventKind::Input(ViewerInput::Button { button, pressed, .. }) => {
                    self.move_pointer();
                    let known = evdev::BUTTONS.iter().find(|(_, known)| *known == button as u8);
                    if let Some((code, _)) = known {
                        self.write(DeviceId::Mouse, &[key_event(*code, pressed)]);
                    }
                }
                EventKind::Moved => self.move_pointer(),
                _ => {}
            }
        }
    }

    fn move_pointer(&mut self) {
        let Some(state) = self.host.driver() else { return };
        let Some(pointer) = state.devices.pointer else { return };
        let before = self.pointer.replace((state.viewer.0, pointer));
        let Some((_, before)) = before.filter(|(viewer, _)| *viewer == state.viewer.0) else { return };
        let (moved, scrolled) = pointer.since(&before);
        let [right, down] = if pointer.captured {
            moved
        } else {
            // A free pointer has positions; its movement is their difference in pixels of the picture.
            let (now, then) = (pointer.at.fractions(), before.at.fractions());
            std::array::from_fn(|axis| ((now[axis] - then[axis]) * f32::from(self.size[axis])).round() as i32)
        };
        let notches = |pixels: f32| (pixels / 100.0).round() as i32;
        let changes = [
            (evdev::REL_X, right),
            (evdev::REL_Y, down),
            (evdev::REL_HWHEEL, notches(scrolled[0])),
            (evdev::REL_WHEEL, -notches(scrolled[1])),
        ];
        let events: Vec<InputEvent> = changes
            .into_iter()
            .filter(|(_, value)| *value != 0)
            .map(|(code, value)| InputEvent { kind: evdev::EV_REL, code, value })
            .collect();
        if scrolled.map(notches) == [0; 2] {
            // Less than a notch is added to the next movement.
            self.pointer = Some((state.viewer.0, Pointer { scrolled: before.scrolled, ..pointer }));
        }
        if !events.is_empty() {
            self.write(DeviceId::Mouse, &events);
        }
    }

    /// Writes events and the report that ends them. A program that does not read loses them.
    fn write(&self, id: DeviceId, events: &[InputEvent]) {
        let report = InputEvent { kind: evdev::EV_SYN, code: 0, value: 0 };
        let bytes: Vec<u8> = events.iter().chain([&report]).flat_map(|event| event.bytes()).collect();
        for (_, descriptor) in self.devices.iter().filter(|(known, _)| *known == id) {
            if evdev::poll(&[*descriptor], libc::POLLOUT, 0)[0] {
                // SAFETY: the program keeps it open until the context is freed; it is not closed here.
                let mut file = ManuallyDrop::new(unsafe { File::from_raw_fd(*descriptor) });
                let _ = file.write_all(&bytes);
            }
        }
    }
}

fn key_event(code: u16, pressed: bool) -> InputEvent {
    InputEvent { kind: evdev::EV_KEY, code, value: pressed.into() }
}
