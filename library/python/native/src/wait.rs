//! Waits without the interpreter lock, in slices. Signals are checked between slices, so that Ctrl-C ends every wait.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use nearlight_net::Clock;
use nearlight_viewer::{Span, Time};
use pyo3::prelude::*;

use crate::error::ErrorClass;

/// Duration of a slice, which is the maximum delay of Ctrl-C. Guess: nobody notices it, and ten wake-ups a second cost nothing.
pub(crate) const WAIT_SLICE: Duration = Duration::from_millis(100);

/// Time limit of a wait; `None` for no limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit(Option<Duration>);

impl Limit {
    pub(crate) fn new(seconds: Option<f64>) -> PyResult<Self> {
        let Some(seconds) = seconds else { return Ok(Self(None)) };
        let length = Duration::try_from_secs_f64(if seconds < 0.0 { 0.0 } else { seconds });
        length.map(|length| Self(Some(length))).map_err(|_| {
            ErrorClass::Usage
                .with_message(format!("the timeout is {seconds}: give seconds, or None to wait as long as it takes"))
        })
    }
}

/// Calls `poll` with the time that it may wait, until it returns a value, the limit has passed, a signal raises an exception, or
/// `has_ended` returns true because nothing more will come.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    limit: Limit,
    has_ended: impl Fn() -> bool + Sync,
    poll: impl Fn(Duration) -> Option<T> + Sync,
) -> PyResult<Option<T>> {
    let clock = Clock::start();
    loop {
        let waited = Duration::from_nanos(clock.now().as_nanos());
        let left = limit.0.map(|limit| limit.saturating_sub(waited));
        let slice = left.map_or(WAIT_SLICE, |left| left.min(WAIT_SLICE));
        // The end is checked before the last poll, so that values from before the end are still returned.
        let (ended, got) = py.detach(|| (has_ended(), poll(slice)));
        if got.is_some() || ended || left.is_some_and(|left| left <= WAIT_SLICE) {
            return Ok(got);
        }
        py.check_signals()?;
    }
}

/// Waits for a thread's result, and calls `between` after each slice. Returns `None` when the thread has ended without a result.
pub(crate) fn receive<T: Send>(
    py: Python<'_>,
    results: Receiver<T>,
    mut between: impl FnMut() -> PyResult<()>,
) -> PyResult<Option<T>> {
    let mut results = results;
    loop {
        let (returned, got) = py.detach(move || {
            let got = results.recv_timeout(WAIT_SLICE);
            (results, got)
        });
        results = returned;
        match got {
            Ok(result) => return Ok(Some(result)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
        }
        py.check_signals()?;
        between()?;
    }
}

/// Converts a time into seconds on the library's clock.
pub(crate) fn seconds(at: Time) -> f64 {
    at.as_secs_f64()
}

/// Converts seconds on the library's clock into a time.
pub(crate) fn moment(seconds: f64) -> PyResult<Time> {
    if !(0.0..=1e9).contains(&seconds) {
        return Err(
            ErrorClass::Usage.with_message(format!("{seconds} is not a time: give seconds on the clock of now()"))
        );
    }
    Ok(Time::ZERO + Span::from_secs_f64(seconds))
}
