//! Decides when frames are captured, and which of them are skipped before anything is drawn or encoded.
//!
//! A [`CaptureSchedule`] yields the moments, which all viewers of one world share. At each of them a viewer's [`FrameSkipper`] decides
//! whether its frame is captured, from the current state of its session, controller and encoder. A source that paces itself and pushes its
//! pictures needs no schedule: each of its pictures is a moment, and only the skippers decide.
//!
//! The driver carries out the decision, and reports every skipped frame to the session ([`crate::Sender::on_skipped`]).

use nearlight_rate::Step;
use nearlight_units::{Span, Time};
use serde::Deserialize;

/// The time between two captures differs from the frame interval by at most one over this. Guess: half a millisecond at 30 frames a second,
/// which is invisible in motion.
pub(crate) const MAX_STEP_DIVISOR: i64 = 64;

/// How the moments of capture are aligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CaptureAlignment {
    /// At regular intervals.
    #[default]
    Even,
    /// Aligned so that a single viewer's inputs and pictures wait the least ([`crate::MediaTarget::best_capture`]).
    Fitted,
}

impl CaptureAlignment {
    /// The name in plans, in labels and on the server's command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Fitted => "fitted",
        }
    }
}

/// The moments at which frames are captured.
#[derive(Clone, Debug)]
pub struct CaptureSchedule {
    fps: u16,
    captures: CaptureAlignment,
    /// The first of the regular moments, how many came after it, and how much later than the regular one the next moment is.
    first: Time,
    count: u64,
    shift: Span,
}

impl CaptureSchedule {
    /// Makes a schedule whose first moment is at `first`, followed by `fps` a second. 0 counts as 1.
    #[must_use]
    pub fn new(first: Time, fps: u16, captures: CaptureAlignment) -> Self {
        Self { fps: fps.max(1), captures, first, count: 0, shift: Span::ZERO }
    }

    /// The next moment, on the clock that `first` was read from. A late call of [`Self::on_passed`] skips no moment as long as it is late
    /// by less than a frame interval.
    #[must_use]
    pub fn due(&self) -> Time {
        self.first + self.ticks(self.count) + self.shift
    }

    /// Advances past the moment that was due, whether or not its frames were captured. `best` contains for each viewer the moment at which
    /// a capture would be best for it.
    ///
    /// Several viewers' displays refresh at different moments. Only one could be followed, so captures stay regular.
    pub fn on_passed(&mut self, now: Time, best: impl IntoIterator<Item = Option<Time>>) {
        self.count += 1;
        let due = self.due();
        if due <= now {
            // A machine that is too slow captures as fast as it can, without trying to catch up.
            self.restart(now);
            return;
        }
        let mut viewers = best.into_iter();
        if let (CaptureAlignment::Fitted, Some(best), None) = (self.captures, viewers.next(), viewers.next()) {
            self.shift += capture_step(due, best, self.ticks(1));
        }
    }

    /// Restarts the schedule with its next moment at `first`.
    pub const fn restart(&mut self, first: Time) {
        (self.first, self.count, self.shift) = (first, 0, Span::ZERO);
    }

    /// This many frame intervals, counted from the first so that rounding errors do not accumulate.
    fn ticks(&self, count: u64) -> Span {
        Span::from_nanos((count * 1_000_000_000 / u64::from(self.fps)) as i64)
    }
}

/// Returns by how much the next capture should be later than `due`, negative for earlier, to approach the moments `best` plus whole frame
/// intervals. Zero if there is no best moment.
pub(crate) fn capture_step(due: Time, best: Option<Time>, frame_interval: Span) -> Span {
    let Some(best) = best else { return Span::ZERO };
    let interval = frame_interval.as_nanos().max(1);
    let ahead = (best - due).as_nanos().rem_euclid(interval);
    let nearest = if ahead > interval / 2 { ahead - interval } else { ahead };
    let largest = interval / MAX_STEP_DIVISOR;
    Span::from_nanos(nearest.clamp(-largest, largest))
}

/// Why a frame was skipped before it was encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// It would only wait in the pacer's queue.
    PacerQueue,
    /// The path is currently blocked.
    PathBlocked,
    /// It would only wait for the viewer's decoder.
    DecoderBehind,
    /// The controller's step has a lower frame rate.
    FrameRate,
    /// The encoder is still busy with earlier ones.
    EncoderBehind,
}

impl SkipReason {
    /// The name in events.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PacerQueue => "pacer queue",
            Self::PathBlocked => "path blocked",
            Self::DecoderBehind => "decoder behind",
            Self::FrameRate => "frame rate",
            Self::EncoderBehind => "encoder behind",
        }
    }
}

/// The inputs to the decision whether a viewer's frame is captured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CaptureFacts {
    /// The session's decision ([`crate::MediaTarget::refusal`]).
    pub refusal: Option<SkipReason>,
    /// Fraction of the full frame rate, above 0 and at most 1 (`nearlight_rate::Step`). 1 if the controller has no steps.
    pub frame_rate: f64,
    /// Whether the encoder has a free picture to draw into.
    pub encoder_free: bool,
}

impl CaptureFacts {
    /// Makes the facts from the fields `refusal` and `step` of a [`crate::MediaTarget`].
    #[must_use]
    pub const fn new(refusal: Option<SkipReason>, step: Step, encoder_free: bool) -> Self {
        Self { refusal, frame_rate: step.frame_rate, encoder_free }
    }
}

/// The decision on a viewer's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureDecision {
    Capture,
    Skip(SkipReason),
}

/// Decides which of a viewer's frames are captured.
#[derive(Clone, Debug, Default)]
pub struct FrameSkipper {
    /// Accumulated fraction of frames to skip at a reduced frame rate since the last skipped one. Below 1.
    skipped_share: f64,
}

impl FrameSkipper {
    /// Decides on a moment of the schedule, or a picture pushed by the source. Call it once for each.
    pub fn on_moment(&mut self, facts: &CaptureFacts) -> CaptureDecision {
        if let Some(reason) = facts.refusal {
            return CaptureDecision::Skip(reason);
        }
        self.skipped_share += 1.0 - facts.frame_rate.clamp(0.0, 1.0);
        if self.skipped_share >= 1.0 {
            self.skipped_share -= 1.0;
            return CaptureDecision::Skip(SkipReason::FrameRate);
        }
        // Checked last: an unwanted frame is not a sign of a slow encoder.
        if facts.encoder_free { CaptureDecision::Capture } else { CaptureDecision::Skip(SkipReason::EncoderBehind) }
    }
}

#[cfg(test)]
mod tests;
