//! The only place where this crate reads a clock.

use std::time::{Duration, Instant};

use nearlight_units::{Span, Time};

/// The machine's monotonic clock since an origin. Copies share the origin, so their times are comparable.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// Starts a clock whose origin is now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the driver's clock: all times of a process come from here")]
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Returns the clock as if it had been started `span` earlier, as far back as the platform permits.
    #[must_use]
    pub fn started_earlier(self, span: Span) -> Self {
        Self { origin: self.origin.checked_sub(duration(span)).unwrap_or(self.origin) }
    }

    /// The time since the origin.
    #[must_use]
    pub fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Converts `time` to the runtime's representation, to wait until then. A time that the platform cannot represent becomes a day after
    /// the origin.
    #[must_use]
    pub fn instant(&self, time: Time) -> tokio::time::Instant {
        let since_origin = Duration::from_nanos(time.as_nanos());
        let instant = self.origin.checked_add(since_origin).unwrap_or(self.origin + Duration::from_hours(24));
        tokio::time::Instant::from_std(instant)
    }

    /// Waits until `time`. Returns at once if it has passed. The runtime's timer rounds up to a millisecond; [`crate::Alarm`] does not.
    pub async fn sleep_until(&self, time: Time) {
        tokio::time::sleep_until(self.instant(time)).await;
    }
}

/// Converts a length of time to the platform's type. A negative span becomes zero.
pub(crate) fn duration(span: Span) -> Duration {
    Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(0))
}

/// Converts the platform's length of time.
pub(crate) fn span(duration: Duration) -> Span {
    Span::from_nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}
