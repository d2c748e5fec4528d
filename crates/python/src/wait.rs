//! Waiting without the interpreter lock, in slices, between which signals are looked at: Ctrl-C ends every wait.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use nearlight_net::Clock;
use nearlight_viewer::{Span, Time};
use pyo3::prelude::*;

use crate::error::Class;

/// How late Ctrl-C may be answered. Guess: nobody notices, and ten wake-ups a second cost nothing.
pub(crate) const SLICE: Duration = Duration::from_millis(100);

/// How long to wait: seconds, or none for as long as it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit(Option<Duration>);

impl Limit {
    pub(crate) fn new(seconds: Option<f64>) -> PyResult<Self> {
        let Some(seconds) = seconds else { return Ok(Self(None)) };
        let length = Duration::try_from_secs_f64(if seconds < 0.0 { 0.0 } else { seconds });
        length.map(|length| Self(Some(length))).map_err(|_| {
            Class::Usage.because(format!("the timeout is {seconds}: give seconds, or None to wait as long as it takes"))
        })
    }
}

/// Calls `poll` with how long it may wait, until it answers something, the time is over, a signal raises an exception, or `has_ended` tells
/// that nothing will come.
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
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        // Told before the last look: what came before the end is still handed out.
        let (ended, got) = py.detach(|| (has_ended(), poll(slice)));
        if got.is_some() || ended || left.is_some_and(|left| left <= SLICE) {
            return Ok(got);
        }
        py.check_signals()?;
    }
}

/// The thread's answer; none if it has ended without one.
pub(crate) fn receive<T: Send>(
    py: Python<'_>,
    answers: Receiver<T>,
    mut between: impl FnMut() -> PyResult<()>,
) -> PyResult<Option<T>> {
    let mut answers = answers;
    loop {
        let (back, got) = py.detach(move || {
            let got = answers.recv_timeout(SLICE);
            (answers, got)
        });
        answers = back;
        match got {
            Ok(answer) => return Ok(Some(answer)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
        }
        py.check_signals()?;
        between()?;
    }
}

/// Seconds on a library's clock.
pub(crate) fn seconds(at: Time) -> f64 {
    at.as_secs_f64()
}

/// The moment so many seconds after the clock's start.
pub(crate) fn moment(seconds: f64) -> PyResult<Time> {
    if !(0.0..=1e9).contains(&seconds) {
        return Err(Class::Usage.because(format!("{seconds} is no time: give seconds on the clock of now()")));
    }
    Ok(Time::ZERO + Span::from_secs_f64(seconds))
}
