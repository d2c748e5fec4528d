//! Calls of the receiving end: connection, pictures, sound and statistics.

pub(crate) mod events;
pub(crate) mod inputs;
pub(crate) mod types;

use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nearlight_units::lock;
use nearlight_viewer::{
    BLOCK_FRAMES, MessageError, Options, PixelOrder, ReceivedPicture, Span, Target, Time, Viewer, ViewerError,
};

use crate::fault::{Fault, guard, guard_or};
use crate::handles::Handles;
use crate::memory::{self, array_mut, bytes, check, text};
use crate::types::{nl_pixel_format, nl_status};
use crate::values::{display, fill, view_of};
use types::{nl_received_picture, nl_viewer_counts, nl_viewer_options, nl_viewer_session};

/// Maximum number of pictures that a program holds at a time. Guess: enough for a display's queue and several threads.
const MAX_HELD_PICTURES: usize = 16;
/// Time limit of a connection attempt in milliseconds that a limit of 0 stands for.
const DEFAULT_CONNECT_LIMIT_MS: u32 = 10_000;
/// Number of channels of received sound.
const CHANNELS: usize = 2;
/// Maximum number of frames of sound in one call; a larger number is taken as a mistake. Guess: 100 blocks are more than is ever buffered.
const MAX_SOUND_FRAMES: usize = 100 * BLOCK_FRAMES;

static VIEWERS: Handles<Entry> = Handles::new();

/// An open viewer and the pictures that its program holds.
pub(crate) struct Entry {
    pub(crate) viewer: Viewer,
    held: Mutex<HeldPictures>,
}

/// The pictures that the program holds, by number.
#[derive(Default)]
struct HeldPictures {
    next: u64,
    pictures: Vec<(u64, Arc<ReceivedPicture>)>,
}

impl Entry {
    /// Returns a held picture.
    fn picture(&self, id: u64) -> Result<Arc<ReceivedPicture>, Fault> {
        let held = lock(&self.held);
        let picture = held.pictures.iter().find(|(known, _)| *known == id);
        picture.map(|(_, picture)| Arc::clone(picture)).ok_or_else(|| not_held(id))
    }
}

fn not_held(id: u64) -> Fault {
    Fault::argument(format!("no picture with the number {id} is held: release each of them only once"))
}

pub(crate) fn get(handle: *const nl_viewer_session) -> Result<Arc<Entry>, Fault> {
    if handle.is_null() {
        return Err(Fault::argument("the viewer is NULL: pass what nl_viewer_connect has written"));
    }
    let closed = || Fault::new(nl_status::Closed, "the viewer was closed, or was never open: connect another one");
    VIEWERS.get(handle.addr()).ok_or_else(closed)
}

impl From<ViewerError> for Fault {
    fn from(error: ViewerError) -> Self {
        let status = match &error {
            ViewerError::NoToken => nl_status::Options,
            ViewerError::System { .. } => nl_status::System,
            ViewerError::Input(_)
            | ViewerError::TooMany { .. }
            | ViewerError::Usage(_)
            | ViewerError::Message(MessageError::TooLong { .. }) => nl_status::Argument,
            ViewerError::Full | ViewerError::Message(MessageError::Full) => nl_status::Full,
            ViewerError::Closed => nl_status::Closed,
            _ => nl_status::Failed,
        };
        Self::new(status, error.to_string())
    }
}

/// Connects to the server of a link, `http[s]://HOST:PORT/#token=...` or `ether:[INTERFACE/]ADDRESS#token=...`, and waits until it has
/// welcomed the viewer, as long as the options say. NULL options are the usual ones. When the connection is lost later, the viewer opens
/// another one by itself. Writes the viewer to `viewer`, or NULL where it fails.
///
/// # Safety
/// `link` is null or ends with a zero byte, `options` is null or as large as its `size` says with texts that end with a zero byte, and
/// `viewer` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_viewer_connect(
    link: *const c_char,
    options: *const nl_viewer_options,
    viewer: *mut *mut nl_viewer_session,
) -> nl_status {
    guard(|| {
        if viewer.is_null() || !viewer.is_aligned() {
            return Err(Fault::argument(
                "the pointer for the viewer is NULL: pass the address of an nl_viewer pointer",
            ));
        }
        // SAFETY: not null, aligned, and writable by contract.
        unsafe { viewer.write(std::ptr::null_mut()) };
        // SAFETY: this function's contract.
        let link = unsafe { text("the link", link) }?;
        let link = link.ok_or_else(|| Fault::argument("the link is NULL: pass one as nl_link answers it"))?;
        let options = if options.is_null() {
            Options::default()
        } else {
            // SAFETY: this function's contract.
            unsafe { read_options(options) }?
        };
        let target = Target::open(link).map_err(|error| Fault::new(nl_status::Options, error.to_string()))?;
        let entry = Entry { viewer: Viewer::connect_to(target, &options)?, held: Mutex::default() };
        // SAFETY: as above.
        unsafe { viewer.write(std::ptr::without_provenance_mut(VIEWERS.add(entry))) };
        Ok(())
    })
}

/// Converts the options.
///
/// # Safety
/// `options` is as large as its `size` says, with texts that end with a zero byte.
unsafe fn read_options(options: *const nl_viewer_options) -> Result<Options, Fault> {
    // SAFETY: guaranteed by the caller.
    let given = unsafe { memory::read(options) }?;
    let defaults = Options::default();
    // SAFETY: guaranteed by the caller.
    let name = unsafe { text("the name", given.name) }?;
    // SAFETY: guaranteed by the caller.
    let codecs = match unsafe { text("the codecs", given.codecs) }? {
        None => defaults.codecs,
        Some(names) => {
            let codecs = names.split(',').map(|name| name.trim().parse());
            codecs.collect::<Result<_, _>>().map_err(|error| Fault::new(nl_status::Options, format!("{error}")))?
        }
    };
    let limit = if given.connect_limit_ms == 0 { DEFAULT_CONNECT_LIMIT_MS } else { given.connect_limit_ms };
    Ok(Options {
        name: name.map_or(defaults.name, str::to_owned),
        codecs,
        connect_limit: Span::from_millis(limit.into()),
        pictures_kept: given.pictures_kept.clamp(1, MAX_HELD_PICTURES as u32) as usize,
        display: display(given.display)?,
        display_hz: given.display_hz,
        sound: given.sound != 0,
        clipboard: given.clipboard != 0,
        tells_display: given.tells_display != 0,
        ..Options::default()
    })
}

/// Says goodbye to the server and ends all threads of the viewer: within 2 s, usually at once. The handle means nothing afterwards, and
/// pictures that were not released are gone. NL_STATUS_FAILED: it had ended before by itself, and the sentence says why.
#[unsafe(no_mangle)]
pub extern "C" fn nl_viewer_close(viewer: *mut nl_viewer_session) -> nl_status {
    guard(|| {
        let entry = get(viewer)?;
        VIEWERS.remove(viewer.addr());
        entry.viewer.close()?;
        Ok(())
    })
}

/// Nanoseconds since the viewer was connected; 0 for one that is not open.
#[unsafe(no_mangle)]
pub extern "C" fn nl_viewer_now(viewer: *const nl_viewer_session) -> u64 {
    guard_or(|| Ok(get(viewer)?.viewer.now().as_nanos()), |_| 0)
}

/// Writes the newest picture, if one came since the last call; waits for one up to `wait_ms` milliseconds, 0 not at all.
/// NL_STATUS_NOTHING: none came. NL_STATUS_FULL: 16 are held; release some. The memory of a picture that was released is used again.
///
/// # Safety
/// `picture` is null or as large as its `size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_viewer_poll_picture(
    viewer: *mut nl_viewer_session,
    picture: *mut nl_received_picture,
    wait_ms: u32,
) -> nl_status {
    guard(|| {
        let entry = get(viewer)?;
        // SAFETY: this function's contract.
        unsafe { check(picture) }?;
        if lock(&entry.held).pictures.len() >= MAX_HELD_PICTURES {
            return Err(Fault::new(nl_status::Full, "16 pictures are held already: release some of them"));
        }
        let wait = Duration::from_millis(wait_ms.into());
        let received = entry.viewer.wait_picture(wait).ok_or_else(Fault::nothing)?;
        let mut held = lock(&entry.held);
        held.next += 1;
        let answer = describe(held.next, &received);
        let id = held.next;
        held.pictures.push((id, Arc::new(received)));
        drop(held);
        // SAFETY: this function's contract.
        unsafe { memory::write(picture, answer) }
    })
}

/// Converts a picture's description.
fn describe(id: u64, picture: &ReceivedPicture) -> nl_received_picture {
    let (info, planes) = (&picture.info, picture.planes());
    let at = |time: Option<Time>| time.map_or(0, Time::as_nanos);
    let mut answer = nl_received_picture {
        size: 0,
        id,
        width: planes.size.width.into(),
        height: planes.size.height.into(),
        planes: [planes.luma.as_ptr(), planes.blue.as_ptr(), planes.red.as_ptr()],
        strides: [planes.luma_stride, planes.chroma_stride, planes.chroma_stride],
        frame: info.frame.0,
        session: info.session,
        input: info.input.0,
        has_marker: info.marker.is_some().into(),
        marker_frame: info.marker.map_or(0, |marker| marker.frame.0),
        marker_input: info.marker.map_or(0, |marker| marker.input.0),
        key: info.key.into(),
        damaged: info.damaged.into(),
        captured_at: at(info.captured_at),
        rendered_at: at(info.rendered_at),
        encoded_at: at(info.encoded_at),
        display_at: at(info.display_at),
        decoded_at: info.decoded_at.as_nanos(),
        view_count: 0,
        views: Default::default(),
    };
    answer.view_count = fill(&mut answer.views, info.views.iter().map(view_of));
    answer
}

/// Converts a picture that is held into pixels of the caller's, NL_PIXEL_FORMAT_RGBA, _BGRA or _RGB, whose rows begin `stride` bytes apart;
/// 0: without padding. `capacity` is how many bytes there are.
///
/// # Safety
/// `picture` is null or as large as its `size` says; `capacity` bytes can be written at `pixels`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_viewer_write_pixels(
    viewer: *mut nl_viewer_session,
    picture: *const nl_received_picture,
    format: u32,
    pixels: *mut u8,
    stride: usize,
    capacity: usize,
) -> nl_status {
    guard(|| {
        let entry = get(viewer)?;
        // SAFETY: this function's contract.
        let held = entry.picture(unsafe { memory::read(picture) }?.id)?;
        let orders = [
            (nl_pixel_format::Rgba, PixelOrder::Rgba),
            (nl_pixel_format::Bgra, PixelOrder::Bgra),
            (nl_pixel_format::Rgb, PixelOrder::Rgb),
        ];
        let order = orders.into_iter().find(|(known, _)| *known as u32 == format).map(|(_, order)| order);
        let order = order.ok_or_else(|| {
            Fault::argument(format!(
                "pictures cannot be written in format {format}: read the planes, or request RGBA, BGRA or RGB"
            ))
        })?;
        let stride = if stride == 0 { usize::from(held.size().width) * order.bytes() } else { stride };
        // SAFETY: this function's contract.
        let pixels = unsafe { array_mut("the memory for pixels", pixels, capacity) }?;
        held.write(order, pixels, stride).map_err(|error| Fault::argument(error.to_string()))
    })
}

/// The user saw a picture that is held first at `at`, on nl_viewer_now's clock; 0: now. Only with nl_viewer_options' `tells_display`.
///
/// # Safety
/// `picture` is null or as large as its `size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_viewer_displayed(
    viewer: *mut nl_viewer_session,
    picture: *const nl_received_picture,
    at: u64,
) -> nl_status {
    guard(|| {
        let entry = get(viewer)?;
        // SAFETY: this function's contract.
        let held = entry.picture(unsafe { memory::read(picture) }?.id)?;
        let at = if at == 0 { entry.viewer.now() } else { Time::from_nanos(at) };
        Ok(entry.viewer.displayed(&held, at)?)
    })
}

/// The program does not read a picture's planes any more.
///
/// # Safety
/// `picture` is null or as large as its `size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_viewer_release(
    viewer: *mut nl_viewer_session,
    picture: *const nl_received_picture,
) -> nl_status {
    guard(|| {
        let entry = get(viewer)?;
        // SAFETY: this function's contract.
        let id = unsafe { memory::read(picture) }?.id;
        let mut held = lock(&entry.held);
        let index = held.pictures.iter().position(|(known, _)| *known == id).ok_or_else(|| not_held(id))?;
        held.pictures.swap_remove(index);
        Ok(())
    })
}

/// Sends the application a message: up to 16384 bytes that come once and in order, or with `reliable` 0 up to 1100 that may be lost, come
/// twice or overtake others.
///
/// # Safety
/// `size` bytes can be read at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_viewer_send_message(
    viewer: *mut nl_viewer_session,
    data: *const c_void,
    size: usize,
    reliable: i32,
) -> nl_status {
    guard(|| {
        let entry = get(viewer)?;
        // SAFETY: this function's contract.
        let data = unsafe { bytes("the message", data.cast(), size) }?;
        Ok(entry.viewer.send_message(data, reliable != 0)?)
    })
}

/// Fills `samples` with up to `frames` frames of sound that is due and was not read, left and right in turn at 48 kHz within -1 and 1.
/// Answers how many; where fewer came than asked for, play silence for the rest. Writes when the first one is due to `due_at`, which may be
/// NULL. An audio device's own callback may call it: it allocates nothing and waits for nobody.
///
/// # Safety
/// 2 * `frames` samples can be written at `samples`; `due_at` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_viewer_read_sound(
    viewer: *mut nl_viewer_session,
    samples: *mut f32,
    frames: usize,
    due_at: *mut u64,
) -> usize {
    let read = || {
        let entry = get(viewer)?;
        // SAFETY: this function's contract.
        let samples = unsafe { array_mut("the memory for samples", samples, frames.min(MAX_SOUND_FRAMES) * CHANNELS) }?;
        let (count, at) = entry.viewer.read_sound(samples);
        if !due_at.is_null() && due_at.is_aligned() {
            // SAFETY: not null, aligned, and writable by contract.
            unsafe { due_at.write(at.as_nanos()) };
        }
        Ok(count / CHANNELS)
    };
    guard_or(read, |_| 0)
}

/// What a viewer has counted.
///
/// # Safety
/// `counts` is null or as large as its `size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_viewer_count(viewer: *const nl_viewer_session, counts: *mut nl_viewer_counts) -> nl_status {
    guard(|| {
        let counted = get(viewer)?.viewer.statistics();
        let answer = nl_viewer_counts {
            connected: counted.connected.into(),
            connections: counted.connections,
            fps: counted.fps,
            motion_to_photon: counted.motion_to_photon.map_or(0, |span| span.as_nanos().unsigned_abs()),
            received_bps: counted.received_rate.as_bps(),
            bytes: counted.received.received.get(),
            refused: counted.received.refused,
            malformed: counted.received.malformed,
            pictures_passed_over: counted.pictures_passed_over,
            events_dropped: counted.events_dropped,
            sound_dropped: counted.sound_dropped,
            ..nl_viewer_counts::default()
        };
        // SAFETY: this function's contract.
        unsafe { memory::write(counts, answer) }
    })
}
