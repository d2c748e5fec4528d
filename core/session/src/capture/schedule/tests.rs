use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::CaptureDecision::{Capture, Skip};
use super::*;

const FIRST: Time = Time::from_secs(7);
const WANTED: CaptureFacts = CaptureFacts { refusal: None, frame_rate: 1.0, encoder_free: true };

/// The conditions at a moment, and which moments are best for the viewers.
#[derive(Clone, Debug)]
struct Situation {
    viewers: Vec<(CaptureFacts, Option<Time>)>,
}

/// When frames were captured, and what was decided for each viewer's.
type DecisionLog = Vec<(Time, Vec<CaptureDecision>)>;

/// Like the lab: it wakes at the exact moment, and the schedule advances before anything is captured.
fn as_the_lab(captures: CaptureAlignment, fps: u16, situations: &[Situation]) -> DecisionLog {
    let mut schedule = CaptureSchedule::new(FIRST, fps, captures);
    let mut skippers = vec![FrameSkipper::default(); situations[0].viewers.len()];
    let moment = |situation: &Situation| {
        let now = schedule.due();
        schedule.on_passed(now, situation.viewers.iter().map(|(_, best)| *best));
        let both = skippers.iter_mut().zip(&situation.viewers);
        (now, both.map(|(skipper, (facts, _))| skipper.on_moment(facts)).collect())
    };
    situations.iter().map(moment).collect()
}

/// Like the studio: it wakes early and late, draws one viewer after the other, and then the schedule advances.
fn as_the_studio(captures: CaptureAlignment, fps: u16, situations: &[Situation], random: &mut Pcg64Mcg) -> DecisionLog {
    let interval = Span::from_secs(1) / i64::from(fps);
    let mut schedule = CaptureSchedule::new(FIRST, fps, captures);
    let mut skippers = vec![FrameSkipper::default(); situations[0].viewers.len()];
    let mut moment = |situation: &Situation| {
        let due = schedule.due();
        for _ in 0..random.random_range(0..3) {
            assert_eq!(schedule.due(), due, "reading changes nothing");
        }
        let both = skippers.iter_mut().zip(&situation.viewers);
        let decisions = both.map(|(skipper, (facts, _))| skipper.on_moment(facts)).collect();
        let drawn_at = due + interval.mul_f64(random.random_range(0.0..0.95));
        schedule.on_passed(drawn_at, situation.viewers.iter().map(|(_, best)| *best));
        (due, decisions)
    };
    situations.iter().map(&mut moment).collect()
}

#[test]
fn each_reason_has_its_turn_however_the_schedule_is_driven() {
    let refused = |reason| CaptureFacts { refusal: Some(reason), ..WANTED };
    let half = CaptureFacts { frame_rate: 0.5, ..WANTED };
    let busy = CaptureFacts { encoder_free: false, ..WANTED };
    let best = Some(FIRST + Span::from_millis(4));
    // At 50 frames a second a step is at most 312.5 us.
    let table = [
        (WANTED, None, 0, Capture),
        (WANTED, best, 20_000_000, Capture),
        (refused(SkipReason::PacerQueue), best, 40_312_500, Skip(SkipReason::PacerQueue)),
        (refused(SkipReason::PathBlocked), None, 60_625_000, Skip(SkipReason::PathBlocked)),
        (refused(SkipReason::DecoderBehind), best, 80_625_000, Skip(SkipReason::DecoderBehind)),
        (half, None, 100_937_500, Capture),
        (
            CaptureFacts { refusal: Some(SkipReason::PacerQueue), ..half },
            None,
            120_937_500,
            Skip(SkipReason::PacerQueue),
        ),
        (CaptureFacts { encoder_free: false, ..half }, None, 140_937_500, Skip(SkipReason::FrameRate)),
        (CaptureFacts { encoder_free: false, ..half }, None, 160_937_500, Skip(SkipReason::EncoderBehind)),
        (half, Some(FIRST), 180_937_500, Skip(SkipReason::FrameRate)),
        (busy, Some(FIRST), 200_625_000, Skip(SkipReason::EncoderBehind)),
        (WANTED, Some(FIRST), 220_312_500, Capture),
        (WANTED, Some(FIRST), 240_000_000, Capture),
        (WANTED, Some(FIRST), 260_000_000, Capture),
    ];
    let situations = table.map(|(facts, best, ..)| Situation { viewers: vec![(facts, best)] });
    let wanted: DecisionLog =
        table.iter().map(|(.., at, decision)| (FIRST + Span::from_nanos(*at), vec![*decision])).collect();
    assert_eq!(as_the_lab(CaptureAlignment::Fitted, 50, &situations), wanted);
    for seed in 0..20 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        assert_eq!(as_the_studio(CaptureAlignment::Fitted, 50, &situations, &mut random), wanted, "seed {seed}");
    }
}

#[test]
fn captures_are_even_for_several_viewers_and_where_that_is_wanted() {
    let best = Some(FIRST + Span::from_millis(4));
    for (captures, viewers) in
        [(CaptureAlignment::Even, 1), (CaptureAlignment::Fitted, 2), (CaptureAlignment::Fitted, 0)]
    {
        let situations = vec![Situation { viewers: vec![(WANTED, best); viewers] }; 181];
        let log = as_the_lab(captures, 90, &situations);
        assert_eq!(log[180].0, FIRST + Span::from_secs(2), "{captures:?}: no rounding adds up");
        assert!(log.iter().all(|(at, _)| *at - FIRST < Span::from_secs(2) + Span::from_nanos(1)));
    }
}

#[test]
fn a_machine_that_is_too_slow_never_catches_up() {
    let mut schedule = CaptureSchedule::new(FIRST, 100, CaptureAlignment::Even);
    for (drawn_at, due) in [(9, 10), (19, 20), (35, 35), (44, 45), (80, 80), (81, 90)] {
        schedule.on_passed(FIRST + Span::from_millis(drawn_at), []);
        assert_eq!(schedule.due(), FIRST + Span::from_millis(due), "drawn at {drawn_at} ms");
    }
    schedule.restart(Time::from_secs(9));
    assert_eq!(schedule.due(), Time::from_secs(9));
}

/// Arbitrary situations for this many moments and viewers.
fn situations(random: &mut Pcg64Mcg, moments: usize, viewers: usize) -> Vec<Situation> {
    let reasons = [None, None, None, None, Some(SkipReason::PacerQueue), Some(SkipReason::DecoderBehind)];
    let mut viewer = || {
        let facts = CaptureFacts {
            refusal: *reasons.choose(random).expect("reasons"),
            frame_rate: random.random_range(0.01..=1.0),
            encoder_free: random.random_bool(0.8),
        };
        let best = random.random_bool(0.5).then(|| FIRST + Span::from_nanos(random.random_range(0..20_000_000_000)));
        (facts, best)
    };
    (0..moments).map(|_| Situation { viewers: (0..viewers).map(|_| viewer()).collect() }).collect()
}

#[test]
fn nothing_depends_on_the_pattern_of_calls() {
    for seed in 0..200 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let (fps, viewers) = (random.random_range(1..=240), random.random_range(1..4));
        let captures = if random.random_bool(0.5) { CaptureAlignment::Fitted } else { CaptureAlignment::Even };
        let situations = situations(&mut random, 300, viewers);
        let log = as_the_lab(captures, fps, &situations);
        assert_eq!(as_the_studio(captures, fps, &situations, &mut random), log, "seed {seed}");
        // A viewer's frames are decided as if it were the only one.
        for viewer in 0..viewers {
            let mut alone = FrameSkipper::default();
            let decisions = situations.iter().map(|situation| alone.on_moment(&situation.viewers[viewer].0));
            assert!(log.iter().map(|(_, all)| all[viewer]).eq(decisions), "seed {seed}, viewer {viewer}");
        }
    }
}

#[test]
fn a_share_of_the_frames_passes_within_one() {
    for seed in 0..500 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut skipper = FrameSkipper::default();
        let mut frame_rate = random.random_range(0.0..=1.0);
        let changes = random.random_bool(0.5);
        let (mut wanted, mut passed) = (0.0, 0);
        for moment in 0..5_000 {
            if changes && random.random_bool(0.05) {
                frame_rate = random.random_range(0.0..=1.0);
            }
            let refusal = random.random_bool(0.1).then_some(SkipReason::PathBlocked);
            let facts = CaptureFacts { refusal, frame_rate, encoder_free: true };
            passed += u32::from(skipper.on_moment(&facts) == Capture);
            wanted += if refusal.is_none() { frame_rate } else { 0.0 };
            let off = f64::from(passed) - wanted;
            assert!((-1e-6..=1.0 + 1e-6).contains(&off), "seed {seed}, moment {moment}: {passed} of {wanted}");
        }
    }
}
