//! The machine's clock. No other module of this crate reads it.

use std::time::Instant;

use nearlight_units::Time;
use rustix::time::{ClockId, clock_gettime};

/// The machine's monotonic clock, the same in all its processes.
#[must_use]
pub fn machine_time() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    Time::from_nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// The machine's monotonic clock since the link opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the link's clock: paths run in real time here")]
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    #[inline]
    pub(crate) fn now(self) -> Time {
        Time::from_nanos(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}
