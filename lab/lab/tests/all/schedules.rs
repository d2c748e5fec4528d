//! The schedule against exhaustive search on small paths, and against simple policies on long ones.

use nearlight_lab::oracle::{Choice, Frame, Problem, Schedule, Service, solve};
use nearlight_units::{Bytes, Span, Time};
use proptest::prelude::*;

const INTERVAL: Span = Span::from_millis(20);

fn at(millis: i64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn frames(count: usize, deadline: Span) -> Vec<Frame> {
    let frame = |index: usize| {
        let enters = Time::ZERO + Span::from_nanos(INTERVAL.as_nanos() * index as i64);
        Frame { enters, due: enters + deadline }
    };
    (0..count).map(frame).collect()
}

/// Sizes whose values are logarithmic.
fn choices(count: usize, smallest: f64, largest: f64) -> Vec<Choice> {
    let choice = |index: usize| {
        let share = index as f64 / (count - 1).max(1) as f64;
        let bytes = Bytes::new((smallest * (largest / smallest).powf(share)) as u64);
        Choice { bytes, value: (1.0 + bytes.get() as f64 / smallest).ln() / (1.0 + largest / smallest).ln() }
    };
    (0..count).map(choice).collect()
}

/// What a list of choices is worth, by a queue that serves millisecond by millisecond; none if a frame that was sent is late.
fn worth(problem: &Problem<'_>, chosen: &[Option<usize>]) -> Option<f64> {
    let mut backlog = 0.0;
    let mut worth = 0.0;
    let mut last_shown: Option<usize> = None;
    let mut stalled = 0;
    for (index, choice) in chosen.iter().enumerate() {
        let frame = problem.frames[index];
        let entry = problem.service.until(frame.enters);
        if let Some(choice) = choice {
            backlog += problem.choices[*choice].bytes.get() as f64;
            if backlog > problem.service.until(frame.due) - entry + 1e-6 {
                return None;
            }
            worth += problem.choices[*choice].value;
            let gap = last_shown.map_or(index + 1, |last| index - last);
            stalled += if gap > problem.stall_after { gap } else { 0 };
            last_shown = Some(index);
        }
        if let Some(next) = problem.frames.get(index + 1) {
            backlog = (backlog - (problem.service.until(next.enters) - entry)).max(0.0);
        }
    }
    let open = chosen.len() - last_shown.map_or(0, |last| last + 1);
    if open + 1 > problem.stall_after {
        stalled += open + 1;
    }
    Some(worth - stalled as f64)
}

/// The best of all lists of choices.
fn exhaustive(problem: &Problem<'_>) -> f64 {
    fn search(problem: &Problem<'_>, chosen: &mut Vec<Option<usize>>, best: &mut f64) {
        if chosen.len() == problem.frames.len() {
            if let Some(worth) = worth(problem, chosen) {
                *best = best.max(worth);
            }
            return;
        }
        for choice in std::iter::once(None).chain((0..problem.choices.len()).map(Some)) {
            chosen.push(choice);
            search(problem, chosen, best);
            chosen.pop();
        }
    }
    let mut best = f64::NEG_INFINITY;
    search(problem, &mut Vec::new(), &mut best);
    best
}

fn total(schedule: &Schedule) -> f64 {
    schedule.value - schedule.stalled as f64
}

#[test]
fn a_steady_path_gets_frames_of_its_rate() {
    // 1,000 bytes a millisecond: 20,000 a frame.
    let service = Service::new(Span::from_millis(1), vec![Bytes::new(1_000); 2_100]);
    let (frames, choices) = (frames(100, Span::from_millis(60)), choices(64, 1_000.0, 100_000.0));
    let problem = Problem { service: &service, frames: &frames, choices: &choices, stall_after: 10 };
    let schedule = solve(&problem);
    let sizes: Vec<u64> =
        schedule.choices.iter().map(|choice| choices[choice.expect("every frame")].bytes.get()).collect();
    let mean = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
    assert!((19_000.0..=21_000.0).contains(&mean), "{mean}");
    // The logarithm rewards even sizes.
    assert!(sizes.iter().skip(2).rev().skip(3).all(|size| (15_000..=26_000).contains(size)), "{sizes:?}");
    assert_eq!(schedule.stalled, 0);
}

#[test]
fn an_outage_is_prepared_for_and_stalls_are_counted() {
    // Nothing from 400 to 800 ms.
    let slots = (0..1_300).map(|slot| Bytes::new(if (400..800).contains(&slot) { 0 } else { 1_000 }));
    let service = Service::new(Span::from_millis(1), slots);
    let (frames, choices) = (frames(60, Span::from_millis(60)), choices(24, 1_000.0, 100_000.0));
    let problem = Problem { service: &service, frames: &frames, choices: &choices, stall_after: 10 };
    let schedule = solve(&problem);
    // The last frame before, at 380 ms, and the first one after that is in time, at 760 ms: a gap of 19 intervals.
    let shown: Vec<usize> = (0..60).filter(|frame| schedule.choices[*frame].is_some()).collect();
    assert!(shown.contains(&19) && !shown.contains(&20) && shown.contains(&38), "{shown:?}");
    assert_eq!(schedule.stalled, 19);
    assert!(schedule.utility() < 0.6, "{}", schedule.utility());
}

#[test]
fn nothing_gets_through_a_dead_path() {
    let service = Service::new(Span::from_millis(1), []);
    let (frames, choices) = (frames(30, Span::from_millis(60)), choices(4, 1_000.0, 8_000.0));
    let problem = Problem { service: &service, frames: &frames, choices: &choices, stall_after: 10 };
    let schedule = solve(&problem);
    assert!(schedule.choices.iter().all(Option::is_none));
    assert!((-1.1..=-0.9).contains(&schedule.utility()), "{}", schedule.utility());
    let none = Problem { frames: &[], ..problem };
    assert_eq!(solve(&none), Schedule::default());
}

#[test]
fn a_frame_that_just_fits_is_sent() {
    // 39 bytes by the due time: 33, and a fifth of 30, which no binary fraction is.
    let slots = [0, 0, 0, 0, 0, 0, 0, 0, 33, 30, 0, 0, 0, 0];
    let service = Service::new(Span::from_millis(10), slots.into_iter().map(Bytes::new));
    let (frames, choices) = (frames(7, Span::from_millis(12)), choices(4, 10.0, 80.0));
    let problem = Problem { service: &service, frames: &frames, choices: &choices, stall_after: 3 };
    let schedule = solve(&problem);
    assert_eq!(schedule.choices[4].map(|choice| choices[choice].bytes), Some(Bytes::new(39)));
    assert!((total(&schedule) - exhaustive(&problem)).abs() < 1e-9);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_list_of_choices_is_better_on_small_paths(
        slots in prop::collection::vec(0_u64..40, 14),
        deadline in 10_i64..60,
        count in 2_usize..5,
    ) {
        // Slots of 10 ms: seven frames. So few bytes that every backlog is a point of the grid.
        let service = Service::new(Span::from_millis(10), slots.into_iter().map(Bytes::new));
        let (frames, choices) = (frames(7, Span::from_millis(deadline)), choices(count, 10.0, 80.0));
        let problem = Problem { service: &service, frames: &frames, choices: &choices, stall_after: 3 };
        let schedule = solve(&problem);
        let (found, best) = (total(&schedule), exhaustive(&problem));
        prop_assert_eq!(worth(&problem, &schedule.choices).map(|worth| (worth * 1e6).round()), Some((found * 1e6).round()));
        prop_assert!((found - best).abs() < 1e-9, "{} of {}", found, best);
    }

    #[test]
    fn no_constant_size_is_better_on_long_paths(rates in prop::collection::vec(0_u64..3_000, 40), deadline in 20_i64..120) {
        // Each rate lasts for 50 ms.
        let service = Service::new(Span::from_millis(50), rates.into_iter().map(|rate| Bytes::new(rate * 50)));
        let (frames, choices) = (frames(100, Span::from_millis(deadline)), choices(32, 1_000.0, 100_000.0));
        let problem = Problem { service: &service, frames: &frames, choices: &choices, stall_after: 10 };
        let best = total(&solve(&problem));
        for (size, choice) in choices.iter().enumerate() {
            // Left out where it would be late.
            let mut chosen = Vec::new();
            let mut backlog = 0.0;
            for (index, frame) in frames.iter().enumerate() {
                let entry = service.until(frame.enters);
                let queued: f64 = backlog + choice.bytes.get() as f64;
                let fits = queued <= service.until(frame.due) - entry;
                if fits {
                    backlog = queued;
                }
                chosen.push(fits.then_some(size));
                if let Some(next) = frames.get(index + 1) {
                    backlog = (backlog - (service.until(next.enters) - entry)).max(0.0);
                }
            }
            let constant = worth(&problem, &chosen).expect("in time");
            prop_assert!(constant <= best + 0.3, "{:?}: {} of {}", choice.bytes, constant, best);
        }
    }
}

#[test]
fn time_zero_is_the_first_slot() {
    let service = Service::new(Span::from_millis(1), [Bytes::new(10)]);
    assert!((service.until(at(1)) - 10.0).abs() < 1e-9);
}
