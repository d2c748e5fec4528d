//! Detects a machine that does not sustain the requested frame rate.

use nearlight_session::{CaptureDecision, SkipReason};
use nearlight_units::{Span, Time};

/// Window over which the frame rate is averaged.
const WINDOW: Span = Span::from_secs(5);
/// Smallest share of the wanted pictures that is not an overload. Guess: a trained eye notices one missing picture in ten.
const MIN_PICTURE_SHARE: f64 = 0.9;
/// Windows in a row with too few pictures before a warning. One is not enough: the first frames after a client has connected are slow on
/// any machine.
const POOR_WINDOWS_BEFORE_WARNING: u32 = 2;

/// Returns what the owner can do about pictures that are too many or too large, given what was left to the server to choose.
pub(crate) const fn advice(size_is_given: bool, fps_is_given: bool) -> &'static str {
    match (size_is_given, fps_is_given) {
        (true, true) => "choose a smaller --size or --fps, or omit both to let the server choose",
        (true, false) => "choose a smaller --size, or omit it to let the server adapt the size",
        (false, true) => "choose a smaller --fps, or omit it to have it measured",
        (false, false) => {
            "it is the smallest format that the server chooses by itself: end other programs, use a graphics card, or set a smaller --size"
        }
    }
}

/// The outcome of one frame slot. With several viewers it is the greatest of their outcomes, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FrameSlot {
    /// No picture was wanted: the path carries no more, or the current step of the ladder has a lower frame rate.
    Skipped,
    Captured,
    /// An encoder was still at work.
    EncoderBusy,
}

impl From<CaptureDecision> for FrameSlot {
    fn from(decision: CaptureDecision) -> Self {
        match decision {
            CaptureDecision::Capture => Self::Captured,
            CaptureDecision::Skip(SkipReason::EncoderBehind) => Self::EncoderBusy,
            CaptureDecision::Skip(_) => Self::Skipped,
        }
    }
}

/// Counts pictures while there are viewers, and warns once.
#[derive(Debug)]
pub(crate) struct OverloadMonitor {
    wanted: f64,
    began: Option<Time>,
    made: u32,
    skipped: u32,
    poor_windows: u32,
    warned: bool,
}

impl OverloadMonitor {
    /// Creates a monitor for `wanted` pictures a second.
    pub(crate) fn new(wanted: u16) -> Self {
        Self { wanted: f64::from(wanted), began: None, made: 0, skipped: 0, poor_windows: 0, warned: false }
    }

    /// Resets the window, because there are no viewers any more.
    pub(crate) const fn on_idle(&mut self) {
        self.began = None;
        self.poor_windows = 0;
    }

    /// Counts a frame slot. If the machine is too slow, returns the frame rate that it sustains, in frames per second, once.
    pub(crate) fn on_slot(&mut self, now: Time, slot: FrameSlot) -> Option<f64> {
        let Some(began) = self.began else {
            self.begin(now);
            return None;
        };
        self.made += u32::from(slot == FrameSlot::Captured);
        self.skipped += u32::from(slot == FrameSlot::Skipped);
        let passed = now - began;
        if passed < WINDOW {
            return None;
        }
        let rate = |count: u32| f64::from(count) / passed.as_secs_f64();
        let (made, wanted) = (rate(self.made), self.wanted - rate(self.skipped));
        self.begin(now);
        self.poor_windows = if made < MIN_PICTURE_SHARE * wanted { self.poor_windows + 1 } else { 0 };
        let warns = self.poor_windows == POOR_WINDOWS_BEFORE_WARNING && !self.warned;
        self.warned |= warns;
        warns.then_some(made)
    }

    const fn begin(&mut self, now: Time) {
        (self.began, self.made, self.skipped) = (Some(now), 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the warnings within this many seconds of `rate` frame slots each, of which every n-th is `other`.
    fn warned(
        overload: &mut OverloadMonitor,
        now: &mut Time,
        seconds: i64,
        rate: i64,
        (every, other): (i64, FrameSlot),
    ) -> Vec<f64> {
        let end = *now + Span::from_secs(seconds);
        let mut count = 0;
        let mut warned = Vec::new();
        while *now < end {
            *now += Span::from_secs(1) / rate;
            count += 1;
            warned.extend(overload.on_slot(*now, if count % every == 0 { other } else { FrameSlot::Captured }));
        }
        warned
    }

    const ALL: (i64, FrameSlot) = (i64::MAX, FrameSlot::Captured);

    #[test]
    fn too_few_pictures_are_reported_once() {
        let (mut overload, mut now) = (OverloadMonitor::new(90), Time::ZERO);
        let warned = warned(&mut overload, &mut now, 60, 5, ALL);
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!((warned[0] - 5.0).abs() < 0.01, "{warned:?}");
    }

    #[test]
    fn an_encoder_that_is_behind_is_noticed_and_a_path_is_not() {
        let (mut overload, mut now) = (OverloadMonitor::new(30), Time::ZERO);
        assert!(warned(&mut overload, &mut now, 60, 30, (20, FrameSlot::EncoderBusy)).is_empty());
        assert!(warned(&mut overload, &mut now, 60, 30, (3, FrameSlot::Skipped)).is_empty());
        let warned = warned(&mut overload, &mut now, 60, 30, (3, FrameSlot::EncoderBusy));
        assert!(warned.len() == 1 && (warned[0] - 20.0).abs() < 1.0, "{warned:?}");
    }

    #[test]
    fn nobody_is_advised_to_omit_an_option_that_was_not_given() {
        for (size, fps) in [(true, true), (true, false), (false, true), (false, false)] {
            let words = advice(size, fps);
            assert_eq!(words.contains("omit"), size || fps, "{words}");
            assert!(!words.contains("--fps") || fps, "{words}");
            assert!(!words.contains("omit both") || (size && fps), "{words}");
        }
    }

    #[test]
    fn a_slow_beginning_and_pauses_are_not() {
        let (mut overload, mut now) = (OverloadMonitor::new(30), Time::ZERO);
        for _ in 0..5 {
            assert!(warned(&mut overload, &mut now, 4, 10, ALL).is_empty());
            assert!(warned(&mut overload, &mut now, 20, 30, ALL).is_empty());
            overload.on_idle();
            now += Span::from_secs(100);
        }
    }
}
