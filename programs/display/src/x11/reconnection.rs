//! New connections to a display in place of those that its programs have ended: any of them may do so (`XKillClient`).

use std::fmt;
use std::time::{Duration, Instant};

use crate::watchdog::Activity;
use crate::x11::connection::{Display, DisplayAddress, XError};

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
#[derive(Debug)]
pub(crate) struct Reconnection {
    address: DisplayAddress,
    activity: Activity,
    delays: Delays,
}

impl Reconnection {
    /// Creates it for the thread that does `activity`.
    pub(crate) const fn new(address: DisplayAddress, activity: Activity) -> Self {
        Self { address, activity, delays: Delays { next: MIN_DELAY, opened: None } }
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
            self.activity.on_loss();
            self.activity.on_work();
            let delay = self.delays.on_loss(now());
            // The loop itself is reported by the watchdog, once.
            if delay == MIN_DELAY {
                tracing::warn!(
                    reason,
                    "a connection to the program's display was ended, perhaps by the program, and is replaced"
                );
            } else {
                tracing::debug!(reason, ?delay, "a connection to the program's display was ended again");
            }
            pause(delay);
            self.activity.on_work();
            // This blocks if a program has grabbed the X server, which the watchdog reports as well.
            let opened = match self.address.open() {
                Ok(display) => prepare(display).map_err(|error| error.to_string()),
                Err(failure) if failure.gone => return Err(error),
                Err(failure) => Err(failure.reason),
            };
            match opened {
                Ok(opened) => {
                    self.delays.opened = Some(now());
                    return Ok(opened);
                }
                Err(again) => reason = again,
            }
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

#[expect(clippy::disallowed_methods, reason = "a thread of the display knows how long a connection lasted")]
fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a program that ends connections all the time must not keep a processor busy"
)]
fn pause(time: Duration) {
    std::thread::sleep(time);
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
        let mut reconnection = Reconnection::new(address, Activity::default());
        let prepare = |_| -> Result<(), String> { unreachable!("there is no display of this number") };
        assert!(reconnection.connect(lost(), prepare).is_err());
    }
}
