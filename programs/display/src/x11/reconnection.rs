//! New connections to a display in place of those that its programs have ended (`XKillClient`) or blocked (`XGrabServer`): any of them may do so.
//!
//! A grab of the server does not hold our connections (XTEST's `GrabControl`). But X.Org's server sets aside those whose requests wait at the moment
//! of the grab, and answers neither them nor new ones until its end. Therefore each thread has a spare connection, which waits for nothing.

use std::fmt;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nearlight_units::lock;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, Pixmap};

use crate::clock::{now, pause};
use crate::watchdog::Activity;
use crate::x11::connection::{ConnectFailure, Display, DisplayAddress, XError};

/// Time before a lost connection is replaced. Guess: viewers barely notice it.
const MIN_DELAY: Duration = Duration::from_millis(50);
/// Longest time before a lost connection is replaced. Guess: a program that ends all of them costs nothing then, and viewers still see that
/// the picture changes.
pub(crate) const MAX_DELAY: Duration = Duration::from_secs(5);
/// How long a connection must last for the next delay to be the shortest again. Guess: longer than [`MAX_DELAY`], so that a program that
/// ends connections all the time never gets short delays.
const MIN_STABLE_CONNECTION: Duration = Duration::from_secs(10);

/// Opens a thread's connections. A program that ends each of them ends neither the thread nor the server: the delays between attempts grow,
/// and the attempts end only with the display.
pub(crate) struct Reconnection {
    address: DisplayAddress,
    activity: Activity,
    delays: Delays,
    /// A resource of the connection in use, by which another connection can end it; `None` if there was none.
    current: Option<Pixmap>,
    spare: SpareConnection,
}

impl Reconnection {
    /// Creates it for the thread that does `activity` over the connection `first`.
    pub(crate) fn new(address: DisplayAddress, activity: Activity, first: &Display) -> Self {
        let mut reconnection = Self::without_spare(address, activity);
        reconnection.spare.put(reconnection.address.open().ok());
        reconnection.on_connection(first);
        reconnection
    }

    fn without_spare(address: DisplayAddress, activity: Activity) -> Self {
        let delays = Delays { next: MIN_DELAY, opened: None };
        Self { address, activity, delays, current: None, spare: SpareConnection::default() }
    }

    /// Opens a connection after `error`, if that says that the former one is lost, and makes of it what the thread needs. Tries again if
    /// `prepare` fails, because a program may end the new connection meanwhile. Returns the error if it does not say so, or if the display
    /// itself is gone.
    pub(crate) fn connect<T, E: fmt::Display>(
        &mut self,
        error: XError,
        mut prepare: impl FnMut(Display) -> Result<T, E>,
    ) -> Result<T, XError> {
        if !error.is_lost() {
            return Err(error);
        }
        let mut reason = error.to_string();
        loop {
            self.activity.set_socket(None);
            self.activity.on_loss();
            self.activity.on_work();
            let delay = self.delays.on_loss(now());
            // The loop itself is reported by the watchdog, once.
            if delay == MIN_DELAY {
                tracing::warn!(
                    reason,
                    "a connection to the program's display was ended or blocked, perhaps by the program, and is replaced"
                );
            } else {
                tracing::debug!(reason, ?delay, "a connection to the program's display was ended again");
            }
            pause(delay);
            self.activity.on_work();
            let display = match self.open() {
                Ok(display) => display,
                Err(failure) if failure.gone => return Err(error),
                Err(failure) => {
                    reason = failure.reason;
                    continue;
                }
            };
            self.on_connection(&display);
            match prepare(display) {
                Ok(prepared) => {
                    self.delays.opened = Some(now());
                    return Ok(prepared);
                }
                Err(again) => reason = again.to_string(),
            }
        }
    }

    /// Takes the spare connection, or opens one, which blocks while a program has grabbed the X server. The watchdog reports that.
    fn open(&mut self) -> Result<Display, ConnectFailure> {
        let Some(display) = self.spare.take() else { return self.address.open() };
        self.activity.set_replaceable(false);
        // The server may still have the former connection, with what only one connection can have, such as the management of windows.
        if let Some(former) = self.current.take() {
            let ended = display.connection.kill_client(former).map_err(XError::from);
            let ended = ended.and_then(|request| request.check().map_err(XError::from));
            // It is refused if the former connection is gone already.
            if let Err(error) = ended
                && error.is_lost()
            {
                return Err(ConnectFailure { reason: error.to_string(), gone: false });
            }
        }
        Ok(display)
    }

    /// Remembers the connection in use, and sees to it that there is a spare one. The spare one has no resources, so programs cannot end it.
    fn on_connection(&mut self, display: &Display) {
        self.current = create_resource(display).ok();
        self.activity.set_socket(display.connection.stream().as_fd().try_clone_to_owned().ok());
        if self.spare.is_there() {
            self.activity.set_replaceable(true);
        } else {
            self.spare.open_later(self.address.clone(), self.activity.clone());
        }
    }
}

fn create_resource(display: &Display) -> Result<Pixmap, XError> {
    let pixmap = display.connection.generate_id()?;
    display.connection.create_pixmap(1, pixmap, display.root, 1, 1)?;
    Ok(pixmap)
}

/// A connection that a thread has besides the one that it uses.
#[derive(Clone, Default)]
struct SpareConnection(Arc<Mutex<Option<Display>>>);

impl SpareConnection {
    fn take(&self) -> Option<Display> {
        lock(&self.0).take()
    }

    fn put(&self, display: Option<Display>) {
        *lock(&self.0) = display;
    }

    fn is_there(&self) -> bool {
        lock(&self.0).is_some()
    }

    /// Opens it in a thread of its own, because that takes as long as a program grabs the server. From then on, the connection in use can be
    /// replaced.
    fn open_later(&self, address: DisplayAddress, activity: Activity) {
        let spare = self.clone();
        let opening = move || {
            // Without one, a blocked connection stays in use until the program lets go.
            if let Ok(display) = address.open() {
                spare.put(Some(display));
                activity.set_replaceable(true);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("nearlight-spare".into()).spawn(opening) {
            tracing::debug!(%error, "no spare connection to the program's display");
        }
    }
}

/// The delays before connections are replaced.
#[derive(Debug)]
struct Delays {
    next: Duration,
    /// When the connection that is now lost was opened; `None` if it is the first one or could not be opened.
    opened: Option<Instant>,
}

impl Delays {
    /// Returns the delay after a loss.
    fn on_loss(&mut self, now: Instant) -> Duration {
        let opened = self.opened.take();
        if opened.is_some_and(|at| now.saturating_duration_since(at) >= MIN_STABLE_CONNECTION) {
            self.next = MIN_DELAY;
        }
        let delay = self.next;
        self.next = (delay * 2).min(MAX_DELAY);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_five_seconds_while_connections_are_ended_and_are_short_again_after_a_stable_one() {
        let mut at = now();
        let mut delays = Delays { next: MIN_DELAY, opened: None };
        let mut waited = Vec::new();
        for _ in 0..10 {
            let delay = delays.on_loss(at);
            waited.push(delay.as_millis());
            // A program ends each connection after a second.
            delays.opened = Some(at + delay);
            at += delay + Duration::from_secs(1);
        }
        assert_eq!(waited, [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000]);
        delays.opened = Some(at);
        assert_eq!(delays.on_loss(at + MIN_STABLE_CONNECTION), MIN_DELAY);
    }

    #[test]
    fn a_display_that_is_gone_ends_the_attempts() {
        let address = DisplayAddress::Own { number: u32::MAX, cookie: Vec::new() };
        let lost = || XError::Connection(x11rb::errors::ConnectionError::UnknownError);
        let mut reconnection = Reconnection::without_spare(address, Activity::default());
        let prepare = |_| -> Result<(), String> { unreachable!("there is no display of this number") };
        assert!(reconnection.connect(lost(), prepare).is_err());
    }
}
