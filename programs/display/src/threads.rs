//! The bodies of a display's threads. They start with the source, after the process has given up its privileges.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;

use nearlight_scene::PictureSink;

use crate::DisplayError;
use crate::specification::ProgramOptions;
use crate::watchdog::Activity;
use crate::x11::capture::{Capture, CaptureFlags};
use crate::x11::connection::{DisplayAddress, ThreadError, WakePipe};
use crate::x11::injection::Injection;
use crate::x11::reconnection::Reconnection;
use crate::x11::screen::ScreenSize;
use crate::x11::windows::{WindowCommand, WindowEvent, Windows};
use crate::x11::xtest::XDevices;

/// The body of the thread that captures pictures until the source is gone.
pub(crate) type CaptureThread = Box<dyn FnOnce(&dyn PictureSink) -> Result<(), ThreadError> + Send>;
/// The body of the thread that manages windows until all senders of its commands are dropped.
pub(crate) type WindowsThread =
    Box<dyn FnOnce(&Receiver<WindowCommand>, &dyn Fn(WindowEvent)) -> Result<(), ThreadError> + Send>;

/// The threads of a connected display, and its description.
pub(crate) struct Threads {
    /// Size of the first picture, in pixels.
    pub(crate) size: (u16, u16),
    /// A description of the display.
    pub(crate) name: String,
    /// A description of what renders OpenGL on it.
    pub(crate) graphics: String,
    /// Whether the display draws the pointer into the picture.
    pub(crate) pointer_in_picture: bool,
    pub(crate) capture: CaptureThread,
    pub(crate) windows: WindowsThread,
    pub(crate) injection: Injection,
}

/// The pipes that wake the threads, and the flags of the capturing one.
pub(crate) struct ThreadInputs {
    pub(crate) capture: WakePipe,
    pub(crate) windows: WakePipe,
    pub(crate) flags: CaptureFlags,
    /// What the injecting thread does.
    pub(crate) injection: Activity,
}

/// Connects to an X display. `card` is the graphics card that renders its programs' OpenGL, if it is known.
pub(crate) fn open_x(
    address: &DisplayAddress,
    card: Option<String>,
    options: &ProgramOptions,
    fps: u16,
    inputs: ThreadInputs,
) -> Result<Threads, DisplayError> {
    let captured = Arc::new(AtomicBool::new(false));
    // All connections are opened while the display has its largest size.
    let [first, second, third] = [address.connect()?, address.connect()?, address.connect()?];
    let graphics = card.map_or_else(|| first.graphics().to_owned(), |card| format!("OpenGL by {card}"));
    let shown = ScreenSize::new(first.size);
    let max_size = options.max_size.filter(|_| options.display.is_none());
    let reconnection = |activity: &Activity, display| Reconnection::new(address.clone(), activity.clone(), display);
    let of_windows = reconnection(inputs.windows.activity(), &first);
    let of_capture = reconnection(inputs.capture.activity(), &second);
    let of_injection = reconnection(&inputs.injection, &third);
    let windows = Windows::open(first, Arc::clone(&captured), shown.clone(), (options.size, max_size))?;
    let capture = Capture::open(second, shown.clone(), fps, inputs.capture, inputs.flags)?;
    let (devices, map) = XDevices::open(third, of_injection)?;
    let size @ (width, height) = shown.get();
    let how = if windows.manages() { "Nearlight's window manager" } else { "its own window manager" };
    let follows = if max_size.is_some() { ", follows the viewer's window" } else { "" };
    let wake_pipe = inputs.windows;
    Ok(Threads {
        size,
        name: format!("with {graphics} on the X display {} ({width}x{height}{follows}, {how})", address.name()),
        graphics,
        pointer_in_picture: false,
        capture: Box::new(move |sink| Ok(capture.run(sink, of_capture)?)),
        windows: Box::new(move |commands, report| windows.run_and_reconnect(&wake_pipe, commands, report, of_windows)),
        injection: Injection::new(Box::new(devices), map, captured, shown, inputs.injection),
    })
}
