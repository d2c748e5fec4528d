//! Whether the machine sustains the requested frame rate.

use nearlight_session::{CaptureDecision, SkipReason};
use nearlight_units::{Span, Time};

/// The rate is averaged over this window.
const WINDOW: Span = Span::from_secs(5);
/// Less than this share of the pictures is too few. Guess: a picture in ten is missed by a trained eye.
const ENOUGH: f64 = 0.9;
/// This many windows in a row are reported: the first frames after a client has connected are slow on any machine.
const WINDOWS: u32 = 2;

/// The outcome of one frame slot; with several viewers, the highest of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Moment {
    /// No picture was wanted: the path carries no more, or the current step has a lower frame rate.
    LeftOut,
    Taken,
    /// An encoder was still at work.
    Behind,
}

impl From<CaptureDecision> for Moment {
    fn from(decision: CaptureDecision) -> Self {
        match decision {
            CaptureDecision::Capture => Self::Taken,
            CaptureDecision::Skip(SkipReason::EncoderBehind) => Self::Behind,
            CaptureDecision::Skip(_) => Self::LeftOut,
        }
    }
}

/// Counts pictures while there are viewers.
#[derive(Debug)]
pub(crate) struct OverloadMonitor {
    wanted: f64,
    began: Option<Time>,
    made: u32,
    left_out: u32,
    poor_windows: u32,
    warned: bool,
}

impl OverloadMonitor {
    /// For this many pictures a second.
    pub(crate) fn new(wanted: u16) -> Self {
        Self { wanted: f64::from(wanted), began: None, made: 0, left_out: 0, poor_windows: 0, warned: false }
    }

    /// There are no viewers any more.
    pub(crate) const fn on_idle(&mut self) {
        self.began = None;
        self.poor_windows = 0;
    }

    /// A frame slot is over. Returns once the frame rate that the machine sustains, if it is too low.
    pub(crate) fn on_moment(&mut self, now: Time, moment: Moment) -> Option<f64> {
        let Some(began) = self.began else {
            self.begin(now);
            return None;
        };
        self.made += u32::from(moment == Moment::Taken);
        self.left_out += u32::from(moment == Moment::LeftOut);
        let passed = now - began;
        if passed < WINDOW {
            return None;
        }
        let rate = |count: u32| f64::from(count) / passed.as_secs_f64();
        let (made, wanted) = (rate(self.made), self.wanted - rate(self.left_out));
        self.begin(now);
        self.poor_windows = if made < ENOUGH * wanted { self.poor_windows + 1 } else { 0 };
        let warns = self.poor_windows == WINDOWS && !self.warned;
        self.warned |= warns;
        warns.then_some(made)
    }

    const fn begin(&mut self, now: Time) {
        (self.began, self.made, self.left_out) = (Some(now), 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is reported in this many seconds of `rate` frame slots each, of which every n-th is `other`.
    fn warned(
        overload: &mut OverloadMonitor,
        now: &mut Time,
        seconds: i64,
        rate: i64,
        (every, other): (i64, Moment),
    ) -> Vec<f64> {
        let end = *now + Span::from_secs(seconds);
        let mut count = 0;
        let mut warned = Vec::new();
        while *now < end {
            *now += Span::from_secs(1) / rate;
            count += 1;
            warned.extend(overload.on_moment(*now, if count % every == 0 { other } else { Moment::Taken }));
        }
        warned
    }

    const ALL: (i64, Moment) = (i64::MAX, Moment::Taken);

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
        assert!(warned(&mut overload, &mut now, 60, 30, (20, Moment::Behind)).is_empty());
        assert!(warned(&mut overload, &mut now, 60, 30, (3, Moment::LeftOut)).is_empty());
        let warned = warned(&mut overload, &mut now, 60, 30, (3, Moment::Behind));
        assert!(warned.len() == 1 && (warned[0] - 20.0).abs() < 1.0, "{warned:?}");
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
