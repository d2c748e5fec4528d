//! The interface to emulated paths. A carrier passes its datagrams through one, and does not know which paths there are or what they do.

use std::fmt;

use bytes::Bytes;
use nearlight_units::Time;

use crate::Clock;

/// Called with each datagram that leaves an emulated path, in order, and with None for each that is lost.
pub type PathExit = Box<dyn FnMut(Option<Bytes>) + Send>;

/// One direction of an emulated path, not yet in use.
pub trait EmulatedPath: Send {
    /// Opens the path. Its time zero is `origin` on `clock`. Dropping the entrance loses the datagrams that are still on the path.
    fn open(self: Box<Self>, clock: Clock, origin: Time, exit: PathExit) -> Box<dyn PathEntrance>;
}

/// The entrance of an emulated path.
pub trait PathEntrance: Send + Sync {
    /// Sends a datagram into the path. If the path does not delay it, it leaves before this returns. Never blocks.
    fn offer(&self, datagram: Bytes);
}

/// The emulated paths of an endpoint's sessions.
pub trait EmulatedPaths: fmt::Debug + Send + Sync {
    /// The path of session number `session`, which begins at `now`: first the direction in which this endpoint sends, then the one in which
    /// it receives.
    ///
    /// # Errors
    /// The reason why this session has no emulated path, for the log.
    fn for_session(&self, session: u32, now: Time) -> Result<[Box<dyn EmulatedPath>; 2], String>;
}
