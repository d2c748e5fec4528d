//! Connections to an X display, and waiting for their events.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::errors::{ConnectError, ConnectionError, ReplyError, ReplyOrIdError};
use x11rb::protocol::Event;
use x11rb::protocol::xproto::Window;
use x11rb::protocol::xtest::{self, ConnectionExt as _};
use x11rb::rust_connection::{DefaultStream, RustConnection};
use x11rb::wrapper::ConnectionExt as _;

use crate::DisplayError;
use crate::watchdog::Activity;

/// The address of an X display.
#[derive(Clone, Debug)]
pub(crate) enum DisplayAddress {
    /// The supervisor's X server, with its display number and cookie.
    Own { number: u32, cookie: Vec<u8> },
    /// An existing display by its name. Its cookie is found through `XAUTHORITY`.
    Named(String),
}

impl DisplayAddress {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Own { number, .. } => format!(":{number}"),
            Self::Named(name) => name.clone(),
        }
    }

    pub(crate) fn connect(&self) -> Result<Display, DisplayError> {
        self.open().map_err(|failure| DisplayError::Display { name: self.name(), reason: failure.reason })
    }

    /// Opens a connection. Says why it cannot, and whether because there is no such display.
    pub(crate) fn open(&self) -> Result<Display, ConnectFailure> {
        let (connection, screen) = match self {
            Self::Own { number, cookie } => {
                let socket = UnixStream::connect(x_socket(*number)).map_err(ConnectError::IoError)?;
                let (stream, _) = DefaultStream::from_unix_stream(socket).map_err(ConnectError::IoError)?;
                let name = b"MIT-MAGIC-COOKIE-1".to_vec();
                (RustConnection::connect_to_stream_with_auth_info(stream, 0, name, cookie.clone())?, 0)
            }
            Self::Named(name) => RustConnection::connect(Some(name))?,
        };
        let root = &connection.setup().roots[screen];
        let (root, size) = (root.root, (root.width_in_pixels, root.height_in_pixels));
        let failed = |error: XError| ConnectFailure { reason: error.to_string(), gone: false };
        let display = Display { connection, root, size };
        // A program that grabs the server, and perhaps never releases it, must not freeze the viewers' picture and input.
        if display.require(xtest::X11_EXTENSION_NAME).is_ok() {
            display.connection.xtest_grab_control(true).map_err(|error| failed(error.into()))?;
            display.connection.sync().map_err(|error| failed(error.into()))?;
        }
        Ok(display)
    }
}

/// Why a connection to a display cannot be opened.
#[derive(Debug)]
pub(crate) struct ConnectFailure {
    pub(crate) reason: String,
    /// Whether nothing accepts connections at the display's address.
    pub(crate) gone: bool,
}

impl From<ConnectError> for ConnectFailure {
    fn from(error: ConnectError) -> Self {
        use std::io::ErrorKind::{ConnectionRefused, NotFound};
        let gone = matches!(&error, ConnectError::IoError(io) if matches!(io.kind(), ConnectionRefused | NotFound));
        Self { reason: error.to_string(), gone }
    }
}

/// Returns the socket of the X server with this display number.
pub(crate) fn x_socket(number: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/.X11-unix/X{number}"))
}

/// A connection to an X display.
pub(crate) struct Display {
    pub(crate) connection: RustConnection,
    pub(crate) root: Window,
    pub(crate) size: (u16, u16),
}

impl Display {
    /// Describes what renders OpenGL and Vulkan on the display. Mesa uses a GPU through DRI3, which Xvfb does not have.
    pub(crate) fn graphics(&self) -> &'static str {
        match self.require("DRI3") {
            Ok(()) => "OpenGL by the GPU (DRI3)",
            Err(_) => "OpenGL by the processor",
        }
    }

    /// Returns an error if the display lacks an extension.
    pub(crate) fn require(&self, extension: &'static str) -> Result<(), DisplayError> {
        let found = self.connection.extension_information(extension).ok().flatten();
        found.map(|_| ()).ok_or(DisplayError::Extension(extension))
    }
}

/// Wakes a thread that waits with [`WakePipe::wait`].
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<UnixStream>);

impl Waker {
    pub(crate) fn wake(&self) {
        // If the socket is full, the thread will wake up anyway.
        let _ = (&*self.0).write(&[1]);
    }
}

/// The waiting thread's end of a [`Waker`].
#[derive(Debug)]
pub(crate) struct WakePipe {
    socket: UnixStream,
    activity: Activity,
}

/// Creates a waker and the pipe of the thread that it wakes.
pub(crate) fn wake_pipe() -> std::io::Result<(Waker, WakePipe)> {
    let (far, near) = UnixStream::pair()?;
    far.set_nonblocking(true)?;
    near.set_nonblocking(true)?;
    Ok((Waker(Arc::new(far)), WakePipe { socket: near, activity: Activity::default() }))
}

impl WakePipe {
    /// Returns what the waiting thread does.
    pub(crate) const fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Returns the display's next event, or `None` when woken or after `limit`. Without a limit it waits indefinitely.
    pub(crate) fn wait(&self, display: &Display, limit: Option<Duration>) -> Result<Option<Event>, ConnectionError> {
        self.activity.on_work();
        display.connection.flush()?;
        if let Some(event) = display.connection.poll_for_event()? {
            return Ok(Some(event));
        }
        self.wait_for(display.connection.stream(), limit);
        display.connection.poll_for_event()
    }

    /// Returns when the stream is readable, when woken, or after `limit`. Without a limit it waits indefinitely.
    pub(crate) fn wait_for(&self, stream: &impl AsFd, limit: Option<Duration>) {
        let limit =
            limit.map(|limit| Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) });
        let mut both = [PollFd::new(stream, PollFlags::IN), PollFd::new(&self.socket, PollFlags::IN)];
        // Callers tolerate a wait that is cut short by a signal.
        self.activity.on_wait();
        let _ = poll(&mut both, limit.as_ref());
        self.activity.on_work();
        let mut wakes = [0; 64];
        while matches!((&self.socket).read(&mut wakes), Ok(count) if count > 0) {}
    }
}

/// The error that ends one of a display's threads.
pub(crate) type ThreadError = Box<dyn std::error::Error + Send + Sync>;

/// An error of an X connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum XError {
    #[error("the connection to the X display was lost: {0}")]
    Connection(#[from] ConnectionError),
    #[error("the display refuses a request: {0}")]
    Reply(#[from] ReplyError),
    #[error("the display refuses a request: {0}")]
    Id(#[from] ReplyOrIdError),
}

impl XError {
    /// Returns whether the connection is lost, and not only a request refused.
    pub(crate) const fn is_lost(&self) -> bool {
        matches!(
            self,
            Self::Connection(_)
                | Self::Reply(ReplyError::ConnectionError(_))
                | Self::Id(ReplyOrIdError::ConnectionError(_))
        )
    }
}
