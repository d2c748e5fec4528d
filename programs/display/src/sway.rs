//! The compositor sway without a screen, as the display of a program that needs Wayland.
//!
//! Pictures and input use protocols of wlroots; windows and the output's size use sway's IPC socket. The program has access to the Wayland
//! socket only, because through the other one it could start programs outside its sandbox.

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
use crate::threads::{ThreadInputs, Threads};
use crate::x11::connection::ThreadError;
use crate::x11::injection::Injection;
use crate::x11::screen::ScreenSize;

/// Prefix of the name of sway's IPC socket.
pub(crate) const IPC_SOCKET_PREFIX: &str = "sway-ipc.";
/// Prefix of the name of a Wayland socket.
pub(crate) const WAYLAND_SOCKET_PREFIX: &str = "wayland-";
/// sway's environment: no screen, no devices, and software rendering.
pub(crate) const ENVIRONMENT: [(&str, &str); 3] =
    [("WLR_BACKENDS", "headless"), ("WLR_RENDERER", "pixman"), ("WLR_LIBINPUT_NO_DEVICES", "1")];

/// Returns sway's settings: no frames, no bar, no key bindings, one output of this size. Programs do not repeat held keys by themselves,
/// because the viewer's system repeats them.
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
        "input * repeat_rate 0",
    ] {
        settings.push_str(line);
        settings.push('\n');
    }
    settings
}

/// Connects to a running sway. `own` is its IPC socket.
pub(crate) fn open(
    wayland: &Path,
    own: &Path,
    (size, max_size): ((u16, u16), Option<(u16, u16)>),
    fps: u16,
    inputs: ThreadInputs,
) -> Result<Threads, DisplayError> {
    let shown = ScreenSize::new(size);
    let windows = SwayWindows::open(own, shown.clone(), max_size)?;
    let capture = ScreenCopy::open(wayland, max_size.unwrap_or(size), fps, inputs.capture, inputs.flags)?;
    let (devices, map) = VirtualDevices::open(wayland, shown.clone())?;
    let injection = Injection::new(Box::new(devices), map, Arc::new(AtomicBool::new(false)), shown, inputs.injection);
    let (width, height) = size;
    let follows = if max_size.is_some() { ", follows the viewer's window" } else { "" };
    let wake_pipe = inputs.windows;
    let graphics = "OpenGL by the processor";
    Ok(Threads {
        size,
        name: format!("with {graphics} on sway ({width}x{height}{follows})"),
        graphics: graphics.into(),
        pointer_in_picture: true,
        capture: Box::new(move |sink| capture.run(sink)),
        windows: Box::new(move |commands, report| windows.run(&wake_pipe, commands, report)),
        injection,
    })
}

fn connect(socket: &Path) -> Result<Connection, DisplayError> {
    let wrong = |reason: String| DisplayError::Display { name: socket.display().to_string(), reason };
    let stream = UnixStream::connect(socket).map_err(|error| wrong(error.to_string()))?;
    Connection::from_socket(stream).map_err(|error| wrong(error.to_string()))
}

/// Converts the error for a protocol that the compositor lacks.
fn bound<T: wayland_client::Proxy>(found: Result<T, BindError>) -> Result<T, DisplayError> {
    found.map_err(|_| DisplayError::Compositor(T::interface().name))
}

/// Reads events from the compositor, if there are any.
fn read(guard: ReadEventsGuard) -> Result<(), ThreadError> {
    match guard.read() {
        Err(WaylandError::Io(error)) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
        read => Ok(read.map(|_| ())?),
    }
}
