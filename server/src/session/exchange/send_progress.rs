//! Progress of the session with the frames that it was given.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use nearlight_units::lock;

/// Counts the frames that the session was given and those that it has passed to its transport.
#[derive(Debug, Default)]
pub(super) struct SendProgress {
    counts: Mutex<FrameCounts>,
    sent: Condvar,
}

#[derive(Debug, Default)]
struct FrameCounts {
    given: u64,
    sent: u64,
}

impl SendProgress {
    fn counts(&self) -> MutexGuard<'_, FrameCounts> {
        lock(&self.counts)
    }

    /// Records that a frame is about to be delivered.
    pub(super) fn on_given(&self) {
        self.counts().given += 1;
    }

    /// Records that frames were passed to the transport.
    pub(super) fn on_sent(&self, frames: u64) {
        let mut counts = self.counts();
        counts.sent += frames;
        drop(counts);
        self.sent.notify_all();
    }

    /// Wakes those who wait, to see that the session has left.
    pub(super) fn on_left(&self) {
        // Whoever has checked before waits by the time that the lock is free.
        drop(self.counts());
        self.sent.notify_all();
    }

    /// Waits until every frame is sent, at most for `limit`, and not for a session that has left.
    pub(super) fn wait(&self, limit: Duration, has_left: impl Fn() -> bool) {
        let waits = |counts: &mut FrameCounts| counts.sent < counts.given && !has_left();
        drop(self.sent.wait_timeout_while(self.counts(), limit, waits));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    const NEVER: Duration = Duration::from_mins(10);

    #[test]
    fn nobody_waits_for_a_session_that_leaves() {
        let (progress, left) = (Arc::new(SendProgress::default()), Arc::new(AtomicBool::new(false)));
        progress.on_given();
        let waiting = {
            let (progress, left) = (Arc::clone(&progress), Arc::clone(&left));
            std::thread::spawn(move || progress.wait(NEVER, || left.load(Ordering::Relaxed)))
        };
        left.store(true, Ordering::Relaxed);
        progress.on_left();
        waiting.join().expect("it is woken, or has not begun to wait");
    }
}
