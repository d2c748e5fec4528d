//! The machine's clocks. No other module of this crate reads one or sleeps.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

#[expect(clippy::disallowed_methods, reason = "threads of the display, and other processes, are paced and waited for")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The time of day, which programs compare with the times of a gamepad's events.
#[expect(clippy::disallowed_methods, reason = "a gamepad's events and effects have times of day")]
pub(crate) fn time_of_day() -> SystemTime {
    SystemTime::now()
}

#[expect(clippy::disallowed_methods, reason = "there is nothing to wait on: other processes need time")]
pub(crate) fn pause(time: Duration) {
    thread::sleep(time);
}
