//! Which of a program's pictures are streamed.

use std::time::{Duration, Instant};

/// Pictures that come early by this share of their interval are taken all the same: the one that is nearest to its moment.
const EARLY: f64 = 0.5;

/// Takes at most so many pictures a second, evenly.
#[derive(Debug)]
pub(crate) struct Pace {
    interval: Duration,
    due: Option<Instant>,
}

impl Pace {
    pub(crate) fn new(fps: u16) -> Self {
        Self { interval: Duration::from_secs(1) / u32::from(fps.max(1)), due: None }
    }

    /// Whether the picture of this moment is taken.
    pub(crate) fn takes(&mut self, now: Instant) -> bool {
        let Some(due) = self.due else {
            self.due = Some(now + self.interval);
            return true;
        };
        if now + self.interval.mul_f64(EARLY) < due {
            return false;
        }
        // The schedule goes on from where it was, unless the program is slower than it.
        self.due = Some((due + self.interval).max(now + self.interval.mul_f64(1.0 - EARLY)));
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
            let (mut pace, start) = (Pace::new(limit), Instant::now());
            let taken = (0..program * 10)
                .filter(|number| pace.takes(start + Duration::from_secs_f64(f64::from(*number) / f64::from(program))))
                .count();
            let per_second = taken as f64 / 10.0;
            assert!((per_second - f64::from(expected)).abs() < 1.5, "{program} at most {limit}: {per_second}");
        }
    }
}
