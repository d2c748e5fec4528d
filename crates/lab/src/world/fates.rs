//! What became of each frame, in the order of capture.

use nearlight_units::{Span, Time};
use serde::{Deserialize, Serialize};

use super::tally::Tally;

#[derive(Clone, Copy, Debug)]
struct Fate {
    captured_at: Time,
    whole_at: Option<Time>,
    /// On the display, undamaged and in time.
    good: bool,
}

/// All frames that were sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fates {
    frames: Vec<Fate>,
}

/// What became of the frames of the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FateCounts {
    /// Not whole by their deadline, or never.
    pub residual: u64,
    /// Not shown, damaged, or shown after their deadline.
    pub bad: u64,
    /// Runs of such frames.
    pub runs: u64,
}

impl Fates {
    /// The next frame leaves the encoder.
    pub(crate) fn on_sent(&mut self, captured_at: Time) {
        self.frames.push(Fate { captured_at, whole_at: None, good: false });
    }

    pub(crate) fn on_whole(&mut self, now: Time, frame: usize) {
        if let Some(fate) = self.frames.get_mut(frame) {
            fate.whole_at.get_or_insert(now);
        }
    }

    pub(crate) fn on_good(&mut self, frame: usize) {
        if let Some(fate) = self.frames.get_mut(frame) {
            fate.good = true;
        }
    }

    pub(crate) fn counts(&self, tally: &Tally, deadline: Span) -> FateCounts {
        let mut counts = FateCounts::default();
        let mut was_bad = false;
        for fate in self.frames.iter().filter(|fate| tally.counts_frame(fate.captured_at)) {
            let in_time = fate.whole_at.is_some_and(|at| at - fate.captured_at <= deadline);
            counts.residual += u64::from(!in_time);
            counts.bad += u64::from(!fate.good);
            counts.runs += u64::from(!fate.good && !was_bad);
            was_bad = !fate.good;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_bad_frames_are_counted_once() {
        let tally = Tally::new(Time::ZERO, Time::from_secs(100));
        let mut fates = Fates::default();
        for (frame, good) in [true, false, false, true, false, true].into_iter().enumerate() {
            let at = Time::from_millis(frame as u64 * 33);
            fates.on_sent(at);
            // The third is whole too late, the fifth never.
            if frame != 4 {
                fates.on_whole(at + Span::from_millis(if frame == 2 { 101 } else { 100 }), frame);
            }
            if good {
                fates.on_good(frame);
            }
        }
        assert_eq!(fates.counts(&tally, Span::from_millis(100)), FateCounts { residual: 2, bad: 3, runs: 2 });
    }
}
