//! The machine's clock, which all processes share.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the machine started.
pub(crate) fn now() -> u64 {
    read(ClockId::Monotonic)
}

/// Nanoseconds that the calling thread has run.
pub(crate) fn thread_time() -> u64 {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Waits until this moment of [`now`].
#[expect(clippy::disallowed_methods, reason = "pictures are made in real time")]
pub(crate) fn wait_until(at: u64) {
    let wait = at.saturating_sub(now());
    if wait > 0 {
        std::thread::sleep(std::time::Duration::from_nanos(wait));
    }
}
