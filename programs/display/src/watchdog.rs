//! Notices when a program blocks its display or keeps ending the connections to it, so that viewers and the log are told.
//!
//! The threads that use the display cannot tell: an X server that a program has grabbed does not answer them. Another thread watches what
//! they do.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nearlight_units::{Span, Time, lock};
use rustix::net::{Shutdown, shutdown};

/// Interval at which the threads are observed. Guess: short against [`BLOCKED_AFTER`], and twice a second costs nothing.
pub(crate) const OBSERVATION_INTERVAL: Duration = Duration::from_millis(500);
/// Time without progress after which a display counts as blocked. Guess: longer than any request takes on a busy machine.
const BLOCKED_AFTER: Span = Span::from_secs(3);
/// Number of connections that a thread loses, each within [`STABLE_AFTER`] of the one before, before viewers are told. Guess: one or two are
/// replaced before anyone notices.
const MAX_UNREPORTED_LOSSES: u32 = 2;
/// Time without a loss after which connections count as stable. It is longer than the longest delay before a connection is opened again
/// ([`crate::x11::reconnection::MAX_DELAY`]).
const STABLE_AFTER: Span = Span::from_secs(10);

/// What a thread of the display is doing. Another thread reads it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    /// Number of times that the thread began to wait or ceased to: odd while it works.
    steps: AtomicU64,
    /// Number of connections that were lost, and of attempts to open one that failed.
    losses: AtomicU32,
    /// The socket of the thread's connection.
    socket: Mutex<Option<OwnedFd>>,
    /// Whether there is another connection that can take its place.
    is_replaceable: AtomicBool,
}

impl Activity {
    /// Called when the thread begins to wait for something that the display does not owe it.
    pub(crate) fn on_wait(&self) {
        self.advance(0);
    }

    /// Called when the thread begins its next piece of work.
    pub(crate) fn on_work(&self) {
        self.advance(1);
    }

    /// Called when the thread has lost its connection, or could not open another one.
    pub(crate) fn on_loss(&self) {
        self.0.losses.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the socket of the thread's connection; `None` if it has none.
    pub(crate) fn set_socket(&self, socket: Option<OwnedFd>) {
        *lock(&self.0.socket) = socket;
    }

    /// Sets whether another connection can take the place of the thread's, which is then ended if the display does not answer on it.
    pub(crate) fn set_replaceable(&self, is_replaceable: bool) {
        self.0.is_replaceable.store(is_replaceable, Ordering::Relaxed);
    }

    /// Ends the thread's connection, so that the thread takes the other one. Does nothing if there is no other one.
    fn end_connection(&self) {
        if self.0.is_replaceable.load(Ordering::Relaxed)
            && let Some(socket) = &*lock(&self.0.socket)
        {
            // It fails only if the connection has ended by itself.
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    fn advance(&self, parity: u64) {
        // Only the thread itself writes it.
        let steps = self.0.steps.load(Ordering::Relaxed);
        self.0.steps.store(steps + 1 + (steps + 1 + parity) % 2, Ordering::Relaxed);
    }
}

/// What hinders the threads of a display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    /// The display does not answer.
    Blocked,
    /// Connections to the display are lost again and again.
    Disconnected,
}

impl Trouble {
    /// Returns the sentence for viewers and log.
    pub(crate) fn words(self, program: &str) -> String {
        match self {
            Self::Blocked => format!(
                "{program} blocks its display, for example by grabbing the X server: picture, input or windows stand still until it lets go."
            ),
            Self::Disconnected => format!(
                "{program} keeps ending the connections to its display: picture, input and windows stand still until they are open again."
            ),
        }
    }
}

/// What was seen of one thread.
#[derive(Debug, Default)]
struct ThreadObservation {
    steps: u64,
    /// Since when `steps` is the same.
    since: Time,
    losses: u32,
    /// Losses that followed each other closely, and when the last one was seen.
    recent: u32,
    last_loss: Option<Time>,
}

impl ThreadObservation {
    fn observe(&mut self, now: Time, activity: &Activity) -> Option<Trouble> {
        let steps = activity.0.steps.load(Ordering::Relaxed);
        if steps != self.steps {
            (self.steps, self.since) = (steps, now);
        }
        if self.last_loss.is_some_and(|at| now.saturating_since(at) >= STABLE_AFTER) {
            (self.recent, self.last_loss) = (0, None);
        }
        let losses = activity.0.losses.load(Ordering::Relaxed);
        if losses != self.losses {
            self.recent = self.recent.saturating_add(losses.wrapping_sub(self.losses));
            (self.losses, self.last_loss) = (losses, Some(now));
        }
        if self.recent > MAX_UNREPORTED_LOSSES {
            return Some(Trouble::Disconnected);
        }
        let is_blocked = steps % 2 == 1 && now.saturating_since(self.since) >= BLOCKED_AFTER;
        if is_blocked {
            activity.end_connection();
        }
        is_blocked.then_some(Trouble::Blocked)
    }
}

/// What a watchdog reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TroubleReport {
    Hindered(Trouble),
    /// The trouble that was reported last is over.
    Recovered,
}

/// Decides when to report trouble with a display, and its end.
#[derive(Debug)]
pub(crate) struct Watchdog {
    threads: Vec<(Activity, ThreadObservation)>,
    trouble: Option<Trouble>,
}

impl Watchdog {
    pub(crate) fn new(threads: impl IntoIterator<Item = Activity>) -> Self {
        Self {
            threads: threads.into_iter().map(|activity| (activity, ThreadObservation::default())).collect(),
            trouble: None,
        }
    }

    /// Observes the threads. Returns a report if something has changed.
    pub(crate) fn observe(&mut self, now: Time) -> Option<TroubleReport> {
        let trouble = self.threads.iter_mut().filter_map(|(activity, observed)| observed.observe(now, activity)).max();
        (trouble != self.trouble).then(|| {
            self.trouble = trouble;
            trouble.map_or(TroubleReport::Recovered, TroubleReport::Hindered)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(at: i64) -> Time {
        Time::ZERO + Span::from_millis(at)
    }

    #[test]
    fn a_thread_that_works_for_long_is_blocked_until_it_goes_on() {
        let (idle, busy) = (Activity::default(), Activity::default());
        let mut watchdog = Watchdog::new([idle.clone(), busy.clone()]);
        idle.on_wait();
        busy.on_work();
        assert_eq!(watchdog.observe(millis(1_000)), None);
        assert_eq!(watchdog.observe(millis(3_900)), None, "seen for less than three seconds");
        assert_eq!(watchdog.observe(millis(4_000)), Some(TroubleReport::Hindered(Trouble::Blocked)));
        assert_eq!(watchdog.observe(millis(99_000)), None, "reported once");
        busy.on_wait();
        assert_eq!(watchdog.observe(millis(99_500)), Some(TroubleReport::Recovered));
        assert_eq!(watchdog.observe(millis(999_000)), None, "waiting is no trouble");
    }

    #[test]
    fn a_thread_that_works_all_the_time_is_not_blocked() {
        let busy = Activity::default();
        let mut watchdog = Watchdog::new([busy.clone()]);
        for step in 0..100 {
            busy.on_work();
            assert_eq!(watchdog.observe(millis(step * 2_900)), None, "{step}");
        }
    }

    #[test]
    fn a_few_lost_connections_are_not_reported_and_a_loop_is_reported_once() {
        let thread = Activity::default();
        let mut watchdog = Watchdog::new([thread.clone()]);
        for second in [0, 5, 20, 40, 60] {
            thread.on_loss();
            assert_eq!(watchdog.observe(millis(second * 1_000)), None, "second {second}");
        }
        let reports: Vec<_> = (0..20)
            .filter_map(|step| {
                thread.on_loss();
                thread.on_work();
                watchdog.observe(millis(100_000 + step * 5_500))
            })
            .collect();
        assert_eq!(reports, [TroubleReport::Hindered(Trouble::Disconnected)]);
        assert_eq!(watchdog.observe(millis(214_000)), None);
        thread.on_wait();
        assert_eq!(
            watchdog.observe(millis(214_500)),
            Some(TroubleReport::Recovered),
            "ten seconds after the last loss"
        );
    }
}
