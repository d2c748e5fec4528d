//! What a display's threads do. They start with the source, after the process has given up its privileges.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;

use nearlight_scene::PictureSink;

use crate::DisplayError;
use crate::capture::{Capture, Watch};
use crate::connection::{Bell, Place, ThreadError};
use crate::injection::Injection;
use crate::screen::ScreenSize;
use crate::specification::ProgramOptions;
use crate::windows::{Order, Told, Windows};
use crate::xtest::XDevices;

/// Captures until the source is gone.
pub(crate) type CaptureWork = Box<dyn FnOnce(&dyn PictureSink) -> Result<(), ThreadError> + Send>;
/// Manages windows until nobody gives orders any more.
pub(crate) type WindowsWork = Box<dyn FnOnce(&Receiver<Order>, &dyn Fn(Told)) -> Result<(), ThreadError> + Send>;

/// A display that is connected.
pub(crate) struct Threads {
    /// Of the first picture, in pixels.
    pub(crate) size: (u16, u16),
    /// For people: which display it is.
    pub(crate) name: String,
    /// For people: what draws its programs' OpenGL.
    pub(crate) graphics: String,
    /// The display draws the pointer itself.
    pub(crate) pointer_in_picture: bool,
    pub(crate) capture: CaptureWork,
    pub(crate) windows: WindowsWork,
    pub(crate) injection: Injection,
}

/// What wakes the threads, and what they look at then.
pub(crate) struct Bells {
    pub(crate) capture: Bell,
    pub(crate) windows: Bell,
    pub(crate) watch: Watch,
}

/// Connects to an X display, on which programs draw with this graphics card; none: with what the display has.
pub(crate) fn open_x(
    place: &Place,
    card: Option<String>,
    options: &ProgramOptions,
    fps: u16,
    bells: Bells,
) -> Result<Threads, DisplayError> {
    let captured = Arc::new(AtomicBool::new(false));
    // All connect while the display is as large as it gets.
    let [first, second, third] = [place.connect()?, place.connect()?, place.connect()?];
    let graphics = card.map_or_else(|| first.graphics().to_owned(), |card| format!("OpenGL by {card}"));
    let shown = ScreenSize::new(first.size);
    let largest = options.largest.filter(|_| options.display.is_none());
    let windows = Windows::open(first, Arc::clone(&captured), shown.clone(), (options.size, largest))?;
    let capture = Capture::open(second, shown.clone(), fps, bells.capture, bells.watch)?;
    let (devices, map) = XDevices::open(third)?;
    let size @ (width, height) = shown.get();
    let how = if windows.manages() { "Nearlight's window manager" } else { "its own window manager" };
    let follows = if largest.is_some() { ", follows the viewer's window" } else { "" };
    let windows_bell = bells.windows;
    Ok(Threads {
        size,
        name: format!("with {graphics} on the X display {} ({width}x{height}{follows}, {how})", place.name()),
        graphics,
        pointer_in_picture: false,
        capture: Box::new(move |sink| Ok(capture.run(sink)?)),
        windows: Box::new(move |orders, tell| Ok(windows.run(&windows_bell, orders, tell)?)),
        injection: Injection::new(Box::new(devices), map, captured, shown),
    })
}
