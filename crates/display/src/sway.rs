//! The compositor sway, without a screen, as the display of a program that needs Wayland.
//!
//! Pictures and devices go by protocols of wlroots' family, windows and the output's size by sway's own socket. The program reaches the
//! Wayland socket alone: through the other one it could start programs outside its sandbox.

mod devices;
mod keymap;
mod screencopy;
mod windows;

use std::fmt::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wayland_client::Connection;
use wayland_client::backend::{ReadEventsGuard, WaylandError};
use wayland_client::globals::BindError;

use self::devices::VirtualDevices;
use self::screencopy::ScreenCopy;
use self::windows::SwayWindows;
use crate::DisplayError;
use crate::connection::ThreadError;
use crate::injection::Injection;
use crate::screen::ScreenSize;
use crate::threads::{Bells, Threads};

/// Beginning of the name of sway's own socket.
pub(crate) const OWN_SOCKET: &str = "sway-ipc.";
/// Beginning of the name of a Wayland socket.
pub(crate) const WAYLAND_SOCKET: &str = "wayland-";
/// What sway finds in its environment: it has no screen and no devices, and draws with the processor.
pub(crate) const ENVIRONMENT: [(&str, &str); 3] =
    [("WLR_BACKENDS", "headless"), ("WLR_RENDERER", "pixman"), ("WLR_LIBINPUT_NO_DEVICES", "1")];

/// sway's settings: no frames, no bar, no key bindings, one output of this size.
pub(crate) fn settings((width, height): (u16, u16)) -> String {
    let mut settings = String::new();
    let _ = writeln!(settings, "output * resolution {width}x{height}");
    for line in [
        "xwayland disable",
        "default_border none",
        "default_floating_border none",
        "focus_follows_mouse no",
        "mouse_warping none",
        "focus_on_window_activation focus",
    ] {
        settings.push_str(line);
        settings.push('\n');
    }
    settings
}

/// Connects to a sway that runs. Its sockets are in one folder.
pub(crate) fn open(
    wayland: &Path,
    own: &Path,
    (size, largest): ((u16, u16), Option<(u16, u16)>),
    fps: u16,
    bells: Bells,
) -> Result<Threads, DisplayError> {
    let shown = ScreenSize::new(size);
    let windows = SwayWindows::open(own, shown.clone(), largest)?;
    let capture = ScreenCopy::open(wayland, largest.unwrap_or(size), fps, bells.capture, bells.watch)?;
    let (devices, map) = VirtualDevices::open(wayland, shown.clone())?;
    let injection = Injection::new(Box::new(devices), map, Arc::new(AtomicBool::new(false)), shown);
    let (width, height) = size;
    let follows = if largest.is_some() { ", follows the viewer's window" } else { "" };
    let windows_bell = bells.windows;
    let graphics = "OpenGL by the processor";
    Ok(Threads {
        size,
        name: format!("with {graphics} on sway ({width}x{height}{follows})"),
        graphics: graphics.into(),
        pointer_in_picture: true,
        capture: Box::new(move |sink| capture.run(sink)),
        windows: Box::new(move |orders, tell| windows.run(&windows_bell, orders, tell)),
        injection,
    })
}

fn connect(socket: &Path) -> Result<Connection, DisplayError> {
    let wrong = |reason: String| DisplayError::Display { name: socket.display().to_string(), reason };
    let stream = UnixStream::connect(socket).map_err(|error| wrong(error.to_string()))?;
    Connection::from_socket(stream).map_err(|error| wrong(error.to_string()))
}

/// A part of the compositor that is needed.
fn bound<T: wayland_client::Proxy>(found: Result<T, BindError>) -> Result<T, DisplayError> {
    found.map_err(|_| DisplayError::Compositor(T::interface().name))
}

/// Reads what has come, if anything has.
fn read(guard: ReadEventsGuard) -> Result<(), ThreadError> {
    match guard.read() {
        Err(WaylandError::Io(error)) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
        read => Ok(read.map(|_| ())?),
    }
}
