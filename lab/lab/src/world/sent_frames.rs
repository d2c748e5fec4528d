//! The fate of each frame, in the order of capture.

use nearlight_units::{Span, Time};

use super::tally::Tally;
use crate::record::FrameLossCounts;
use crate::utility::FrameQuality;

#[derive(Clone, Copy, Debug)]
struct SentFrame {
    captured_at: Time,
    whole_at: Option<Time>,
    /// Displayed undamaged by its deadline.
    good: bool,
    /// Its quality from 0 to 1.
    quality: f64,
}

/// All frames that were sent.
#[derive(Clone, Debug)]
pub(crate) struct SentFrames {
    frames: Vec<SentFrame>,
    quality: FrameQuality,
}

impl SentFrames {
    pub(crate) const fn new(quality: FrameQuality) -> Self {
        Self { frames: Vec::new(), quality }
    }

    /// The next frame leaves the encoder.
    pub(crate) fn on_sent(&mut self, captured_at: Time, bytes: usize, key: bool) {
        let quality = self.quality.on_frame(bytes, key);
        self.frames.push(SentFrame { captured_at, whole_at: None, good: false, quality });
    }

    pub(crate) fn on_whole(&mut self, now: Time, frame: usize) {
        if let Some(frame) = self.frames.get_mut(frame) {
            frame.whole_at.get_or_insert(now);
        }
    }

    pub(crate) fn on_good(&mut self, frame: usize) {
        if let Some(frame) = self.frames.get_mut(frame) {
            frame.good = true;
        }
    }

    /// Returns the number of frames of the measured time that were displayed undamaged and in time, and the sum of their qualities.
    pub(crate) fn in_time(&self, tally: &Tally) -> (u64, f64) {
        let good = self.frames.iter().filter(|frame| frame.good && tally.counts_frame(frame.captured_at));
        good.fold((0, 0.0), |(count, sum), frame| (count + 1, sum + frame.quality))
    }

    pub(crate) fn counts(&self, tally: &Tally, deadline: Span) -> FrameLossCounts {
        let mut counts = FrameLossCounts::default();
        let mut was_bad = false;
        for frame in self.frames.iter().filter(|frame| tally.counts_frame(frame.captured_at)) {
            let in_time = frame.whole_at.is_some_and(|at| at - frame.captured_at <= deadline);
            counts.residual += u64::from(!in_time);
            counts.bad += u64::from(!frame.good);
            counts.runs += u64::from(!frame.good && !was_bad);
            was_bad = !frame.good;
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
        let mut frames = SentFrames::new(FrameQuality::new(bounds, 30));
        for (frame, good) in [true, false, false, true, false, true].into_iter().enumerate() {
            let at = Time::from_millis(frame as u64 * 33);
            frames.on_sent(at, 125_000, false);
            // The third is whole too late, the fifth never.
            if frame != 4 {
                frames.on_whole(at + Span::from_millis(if frame == 2 { 101 } else { 100 }), frame);
            }
            if good {
                frames.on_good(frame);
            }
        }
        assert_eq!(frames.counts(&tally, Span::from_millis(100)), FrameLossCounts { residual: 2, bad: 3, runs: 2 });
        // Each is coded at the highest rate.
        assert_eq!(frames.in_time(&tally), (3, 3.0));
    }
}
