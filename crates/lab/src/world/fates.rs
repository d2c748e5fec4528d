//! What became of each frame, in the order of capture.

use nearlight_units::{Span, Time};

use super::tally::Tally;
use crate::record::FateCounts;
use crate::utility::FrameQuality;

#[derive(Clone, Copy, Debug)]
struct Fate {
    captured_at: Time,
    whole_at: Option<Time>,
    /// On the display, undamaged and in time.
    good: bool,
    /// What it is worth then.
    quality: f64,
}

/// All frames that were sent.
#[derive(Clone, Debug)]
pub(crate) struct Fates {
    frames: Vec<Fate>,
    quality: FrameQuality,
}

impl Fates {
    pub(crate) const fn new(quality: FrameQuality) -> Self {
        Self { frames: Vec::new(), quality }
    }

    /// The next frame leaves the encoder.
    pub(crate) fn on_sent(&mut self, captured_at: Time, bytes: usize, key: bool) {
        let quality = self.quality.on_frame(bytes, key);
        self.frames.push(Fate { captured_at, whole_at: None, good: false, quality });
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

    /// Frames of the measured time that were shown undamaged and in time, and the sum of their qualities.
    pub(crate) fn in_time(&self, tally: &Tally) -> (u64, f64) {
        let good = self.frames.iter().filter(|fate| fate.good && tally.counts_frame(fate.captured_at));
        good.fold((0, 0.0), |(count, sum), fate| (count + 1, sum + fate.quality))
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
        let bounds = nearlight_rate::Bounds::up_to(nearlight_units::Bitrate::from_mbps(30));
        let mut fates = Fates::new(FrameQuality::new(bounds, 30));
        for (frame, good) in [true, false, false, true, false, true].into_iter().enumerate() {
            let at = Time::from_millis(frame as u64 * 33);
            fates.on_sent(at, 125_000, false);
            // The third is whole too late, the fifth never.
            if frame != 4 {
                fates.on_whole(at + Span::from_millis(if frame == 2 { 101 } else { 100 }), frame);
            }
            if good {
                fates.on_good(frame);
            }
        }
        assert_eq!(fates.counts(&tally, Span::from_millis(100)), FateCounts { residual: 2, bad: 3, runs: 2 });
        // Each is coded at the highest rate.
        assert_eq!(fates.in_time(&tally), (3, 3.0));
    }
}
