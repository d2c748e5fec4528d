//! Connections to the display, and waiting for them.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::errors::{ConnectionError, ReplyError, ReplyOrIdError};
use x11rb::protocol::Event;
use x11rb::protocol::xproto::Window;
use x11rb::rust_connection::{DefaultStream, RustConnection};

use crate::DisplayError;

/// Where the display is.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Our own X server, at this socket, with this cookie.
    Own { number: u32, cookie: Vec<u8> },
    /// An existing one by its name; its cookie is found where `XAUTHORITY` says.
    Named(String),
}

impl Place {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Own { number, .. } => format!(":{number}"),
            Self::Named(name) => name.clone(),
        }
    }

    pub(crate) fn connect(&self) -> Result<Display, DisplayError> {
        let wrong = |reason: String| DisplayError::Display { name: self.name(), reason };
        let (connection, screen) = match self {
            Self::Own { number, cookie } => {
                let socket = UnixStream::connect(x_socket(*number)).map_err(|error| wrong(error.to_string()))?;
                let (stream, _) = DefaultStream::from_unix_stream(socket).map_err(|error| wrong(error.to_string()))?;
                let name = b"MIT-MAGIC-COOKIE-1".to_vec();
                let connection = RustConnection::connect_to_stream_with_auth_info(stream, 0, name, cookie.clone());
                (connection.map_err(|error| wrong(error.to_string()))?, 0)
            }
            Self::Named(name) => RustConnection::connect(Some(name)).map_err(|error| wrong(error.to_string()))?,
        };
        let root = &connection.setup().roots[screen];
        let (root, size) = (root.root, (root.width_in_pixels, root.height_in_pixels));
        Ok(Display { connection, root, size })
    }
}

/// Where the X server of this number listens.
pub(crate) fn x_socket(number: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/.X11-unix/X{number}"))
}

/// One connection.
pub(crate) struct Display {
    pub(crate) connection: RustConnection,
    pub(crate) root: Window,
    pub(crate) size: (u16, u16),
}

impl Display {
    /// What draws the OpenGL and Vulkan of the display's programs, for people. Mesa reaches a GPU through DRI3, which Xvfb does not have.
    pub(crate) fn graphics(&self) -> &'static str {
        match self.needs("DRI3") {
            Ok(()) => "OpenGL by the GPU (DRI3)",
            Err(_) => "OpenGL by the processor",
        }
    }

    pub(crate) fn needs(&self, extension: &'static str) -> Result<(), DisplayError> {
        let found = self.connection.extension_information(extension).ok().flatten();
        found.map(|_| ()).ok_or(DisplayError::Extension(extension))
    }
}

/// Wakes a thread that waits with [`Bell::wait`].
#[derive(Clone, Debug)]
pub(crate) struct Ringer(Arc<UnixStream>);

impl Ringer {
    pub(crate) fn ring(&self) {
        // If the pipe is full, the thread is woken anyway.
        let _ = (&*self.0).write(&[1]);
    }
}

/// The end of the thread that waits.
#[derive(Debug)]
pub(crate) struct Bell(UnixStream);

pub(crate) fn bell() -> std::io::Result<(Ringer, Bell)> {
    let (far, near) = UnixStream::pair()?;
    far.set_nonblocking(true)?;
    near.set_nonblocking(true)?;
    Ok((Ringer(Arc::new(far)), Bell(near)))
}

impl Bell {
    /// Returns the display's next event, or none after a ring or after so long; no limit waits for ever.
    pub(crate) fn wait(&self, display: &Display, limit: Option<Duration>) -> Result<Option<Event>, ConnectionError> {
        display.connection.flush()?;
        if let Some(event) = display.connection.poll_for_event()? {
            return Ok(Some(event));
        }
        self.wait_for(display.connection.stream(), limit);
        display.connection.poll_for_event()
    }

    /// Returns when the stream can be read, after a ring or after so long; no limit waits for ever.
    pub(crate) fn wait_for(&self, stream: &impl AsFd, limit: Option<Duration>) {
        let limit =
            limit.map(|limit| Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) });
        let mut both = [PollFd::new(stream, PollFlags::IN), PollFd::new(&self.0, PollFlags::IN)];
        // An interrupted wait is a short one.
        let _ = poll(&mut both, limit.as_ref());
        let mut rings = [0; 64];
        while matches!((&self.0).read(&mut rings), Ok(count) if count > 0) {}
    }
}

/// What ends one of a display's threads, in words.
pub(crate) type ThreadError = Box<dyn std::error::Error + Send + Sync>;

/// What goes wrong on a connection, in words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum XError {
    #[error("the connection to the X display was lost: {0}")]
    Connection(#[from] ConnectionError),
    #[error("the display refuses a request: {0}")]
    Reply(#[from] ReplyError),
    #[error("the display refuses a request: {0}")]
    Id(#[from] ReplyOrIdError),
}
