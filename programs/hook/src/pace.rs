//! Limits the rate at which a program's pictures are streamed.

use std::time::{Duration, Instant};

/// Fraction of the interval by which a picture may be early, so that the picture closest to its scheduled time is streamed.
const MAX_EARLINESS: f64 = 0.5;

/// Selects pictures at a maximum rate and evenly spaced.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    interval: Duration,
    due: Option<Instant>,
}

impl RateLimiter {
    pub(crate) fn new(fps: u16) -> Self {
        Self { interval: Duration::from_secs(1) / u32::from(fps.max(1)), due: None }
    }

    /// Returns whether a picture at this time is streamed.
    pub(crate) fn accepts(&mut self, now: Instant) -> bool {
        let Some(due) = self.due else {
            self.due = Some(now + self.interval);
            return true;
        };
        if now + self.interval.mul_f64(MAX_EARLINESS) < due {
            return false;
        }
        // The schedule continues from the due time, unless the program is slower than the schedule.
        self.due = Some((due + self.interval).max(now + self.interval.mul_f64(1.0 - MAX_EARLINESS)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the moments need an origin")]
    fn no_more_than_its_rate_and_no_fewer_than_there_are() {
        for (program, limit, expected) in
            [(500, 60, 60), (60, 60, 60), (61, 60, 60), (75, 60, 60), (30, 60, 30), (144, 30, 30)]
        {
            let (mut pace, start) = (RateLimiter::new(limit), Instant::now());
            let taken = (0..program * 10)
                .filter(|number| pace.accepts(start + Duration::from_secs_f64(f64::from(*number) / f64::from(program))))
                .count();
            let per_second = taken as f64 / 10.0;
            assert!((per_second - f64::from(expected)).abs() < 1.5, "{program} at most {limit}: {per_second}");
        }
    }
}
