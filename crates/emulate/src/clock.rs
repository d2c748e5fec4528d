//! The one place where this crate reads a clock.

use std::time::Instant;

use nearlight_units::Time;

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
