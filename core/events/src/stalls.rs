//! Stalls: how long a picture is frozen before a new one replaces it.

use nearlight_units::{Span, Time};

/// A picture that is frozen for longer than this is a stall. Near the W3C's `freezeCount` (webrtc-stats: 150 ms above the mean
/// interval of the last 30 pictures, so 200 ms at 20 a second), but fixed: a stream that slows down must not raise its own threshold.
pub const STALL: Span = Span::from_millis(200);

/// Collects the times at which new pictures are displayed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stalls {
    begun_at: Option<Time>,
    picture_at: Time,
    longest: Span,
    stalled: Span,
    count: u64,
}

/// The statistics of the gaps between pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallCounts {
    /// Gaps longer than [`STALL`], and their total length.
    pub stalls: u64,
    pub stalled: Span,
    /// The longest gap, stall or not.
    pub longest: Span,
    /// The time from the start to the end.
    pub watched: Span,
}

impl Stalls {
    /// Marks the time from which pictures are due. Only the first call counts.
    pub fn on_start(&mut self, at: Time) {
        if self.begun_at.is_none() {
            (self.begun_at, self.picture_at) = (Some(at), at);
        }
    }

    /// Records that a new picture is displayed. Without an earlier start this is the start.
    pub fn on_picture(&mut self, at: Time) {
        self.on_start(at);
        let gap = at - self.picture_at;
        self.longest = self.longest.max(gap);
        if gap > STALL {
            self.count += 1;
            self.stalled += gap;
        }
        self.picture_at = self.picture_at.max(at);
    }

    /// The statistics if nothing more is displayed until `end`: the gap up to it counts like any other. An end before the newest picture is
    /// moved to that picture.
    #[must_use]
    pub fn until(mut self, end: Time) -> StallCounts {
        let Some(begun_at) = self.begun_at else { return StallCounts::default() };
        self.on_picture(end);
        StallCounts {
            stalls: self.count,
            stalled: self.stalled,
            longest: self.longest,
            watched: self.picture_at - begun_at,
        }
    }
}

impl StallCounts {
    /// The fraction of the time spent in stalls. None if no time passed.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (self.watched > Span::ZERO).then(|| self.stalled.as_secs_f64() / self.watched.as_secs_f64())
    }

    /// The number of stalls per minute. None if no time passed.
    #[must_use]
    pub fn per_minute(&self) -> Option<f64> {
        (self.watched > Span::ZERO).then(|| self.stalls as f64 * 60.0 / self.watched.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::from_millis(milliseconds)
    }

    #[test]
    fn only_gaps_above_the_threshold_are_stalls_and_count_whole() {
        let mut stalls = Stalls::default();
        for milliseconds in [1_000, 1_200, 1_401, 1_410, 3_000] {
            stalls.on_picture(at(milliseconds));
        }
        let counts = stalls.until(at(3_100));
        assert_eq!((counts.stalls, counts.stalled), (2, Span::from_millis(201 + 1_590)));
        assert_eq!(counts.watched, Span::from_millis(2_100));
        assert_eq!(counts.longest, Span::from_millis(1_590));
    }

    #[test]
    fn a_picture_that_never_comes_stalls_from_the_start_of_media_to_the_end() {
        let mut stalls = Stalls::default();
        assert_eq!(stalls.until(at(9_000)).ratio(), None, "nothing was due");
        stalls.on_start(at(2_000));
        assert_eq!(stalls.until(at(12_000)).ratio(), Some(1.0));
        stalls.on_picture(at(2_300));
        let counts = stalls.until(at(12_000));
        assert_eq!((counts.stalls, counts.ratio()), (2, Some(1.0)));
        assert!((counts.per_minute().expect("time passed") - 12.0).abs() < 1e-9);
    }
}
