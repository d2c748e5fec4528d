//! The clock that all processes of this machine share. Within a link, times are those of `nearlight_net::Clock`.

use nearlight_units::Time;
use rustix::time::{ClockId, clock_gettime};

/// The machine's monotonic clock, the same in all its processes.
#[must_use]
pub fn machine_time() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    Time::from_nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}
