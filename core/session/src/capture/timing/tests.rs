use std::collections::VecDeque;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::capture::schedule::{MAX_STEP_DIVISOR, capture_step};
use crate::{DisplayOrder, DisplayQueue};

/// A server that captures, a path, and a client that samples movements and shows pictures, in virtual time. All in milliseconds.
#[derive(Clone, Copy)]
struct CaptureSimulation {
    fps: i64,
    /// The display rate that the client reports. Its real display runs 1 + `drift` times as fast.
    display_hz: u16,
    drift: f64,
    /// Movements a second, 0 for none; sampled at the refreshes of a display of that rate.
    input_hz: u16,
    up: f64,
    /// From capture to decoded, and how much frames vary.
    down: f64,
    jitter: f64,
    /// A picture that is decoded later than this before a refresh misses it.
    drawing: f64,
}

const STEADY: CaptureSimulation = CaptureSimulation {
    fps: 30,
    display_hz: 60,
    drift: 0.0,
    input_hz: 60,
    up: 3.0,
    down: 25.0,
    jitter: 0.3,
    drawing: 0.0,
};

/// Means over the last ten of thirty seconds.
#[derive(Clone, Copy, Debug)]
struct Reported {
    /// From the newest input that a picture shows to the display.
    total: f64,
    /// From decoded to displayed.
    wait: f64,
    /// Largest deviation of the time between two captures from the frame interval.
    step: f64,
    /// How far captures have moved in total.
    moved: f64,
}

impl CaptureSimulation {
    /// `follows`: captures move to the best moment.
    fn run(self, seed: u64, follows: bool) -> Reported {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let frame_interval = Span::from_secs(1) / self.fps;
        let interval = frame_interval.as_millis_f64();
        let mut timing = CaptureTiming::new(frame_interval);
        timing.set_display_hz(self.display_hz);
        let refresh = (self.display_hz > 0).then(|| 1e3 / f64::from(self.display_hz) / (1.0 + self.drift));
        let between_inputs = 1e3 / f64::from(self.input_hz.max(1));
        let (display_phase, input_phase) = (random.random_range(0.0..20.0), random.random_range(0.0..20.0));
        let mut at = random.random_range(100.0..140.0);
        let (mut input, mut unreported) = (0_u64, VecDeque::new());
        let (mut totals, mut waits, mut steps, mut moved) = (Vec::new(), Vec::new(), Vec::new(), 0.0);
        for number in 0..30 * self.fps {
            let sampled = |number: u64| input_phase + number as f64 * between_inputs;
            while self.input_hz > 0 && sampled(input) + self.up <= at {
                timing.on_input(time(sampled(input) + self.up), time(sampled(input)).for_peer());
                input += 1;
            }
            let decoded = at + self.down + random.random_range(0.0..=self.jitter);
            let shown = refresh.map_or(decoded + self.drawing, |refresh| {
                display_phase + ((decoded + self.drawing - display_phase) / refresh).ceil() * refresh
            });
            unreported.push_back((
                shown + self.up,
                time(at),
                time(shown),
                Span::from_secs_f64((shown - decoded) / 1e3),
            ));
            if number % 3 == 0 {
                while unreported.front().is_some_and(|(reported_at, ..)| *reported_at <= at) {
                    let Some((_, captured_at, displayed_at, waited)) = unreported.pop_front() else { break };
                    timing.on_displayed(captured_at, displayed_at, waited);
                }
                timing.on_reported(time(at));
            }
            if number >= 20 * self.fps {
                totals.push(shown - if self.input_hz > 0 { sampled(input - 1) } else { at });
                waits.push(shown - decoded);
            }
            let due = time(at + interval);
            let step = capture_step(due, timing.best().filter(|_| follows), frame_interval);
            steps.push(step.as_millis_f64().abs());
            moved += step.as_millis_f64();
            at += interval + step.as_millis_f64();
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        Reported {
            total: mean(&totals),
            wait: mean(&waits),
            step: steps.into_iter().fold(0.0, f64::max),
            moved: f64::abs(moved),
        }
    }

    /// Means over many phases, without and with following, and the worst loss at any phase.
    fn compare(self) -> (Reported, Reported, f64) {
        const SEEDS: u64 = 40;
        let zero = Reported { total: 0.0, wait: 0.0, step: 0.0, moved: 0.0 };
        let (mut before, mut after, mut worst) = (zero, zero, 0.0);
        for seed in 0..SEEDS {
            let (left, led) = (self.run(seed, false), self.run(seed, true));
            worst = f64::max(worst, led.total - left.total);
            for (sum, reported) in [(&mut before, left), (&mut after, led)] {
                sum.total += reported.total / SEEDS as f64;
                sum.wait += reported.wait / SEEDS as f64;
                sum.step = sum.step.max(reported.step);
                sum.moved += reported.moved / SEEDS as f64;
            }
        }
        (before, after, worst)
    }
}

fn time(millis: f64) -> Time {
    Time::from_nanos((millis * 1e6) as u64)
}

#[test]
fn pictures_come_just_before_the_display_changes() {
    let simulation = CaptureSimulation { input_hz: 0, ..STEADY };
    for simulation in [
        simulation,
        CaptureSimulation { fps: 72, display_hz: 72, ..simulation },
        CaptureSimulation { display_hz: 120, ..simulation },
    ] {
        let (before, after, worst) = simulation.compare();
        let refresh = 1e3 / f64::from(simulation.display_hz);
        assert!((before.wait - refresh / 2.0).abs() < 0.15 * refresh, "{before:?}");
        assert!(after.wait < 1.2 && after.total < before.total - 0.5 * refresh + 1.5, "{before:?} {after:?}");
        assert!(worst < 1.0 && after.step <= 1e3 / simulation.fps as f64 / 64.0 + 1e-6, "{worst} {after:?}");
    }
}

#[test]
fn an_input_and_a_picture_never_both_wait_in_vain() {
    // Inputs are sampled at the refreshes: the sum of both waits is a whole number of refreshes.
    let (before, after, worst) = STEADY.compare();
    assert!(after.total < before.total - 5.0 && worst < 1.0, "{before:?} {after:?} {worst}");
    // DisplayedFrame at once: only the input's wait remains, half of 16.7 ms on average.
    let (before, after, worst) = CaptureSimulation { display_hz: 0, ..STEADY }.compare();
    assert!(after.total < before.total - 6.5 && worst < 1.0, "{before:?} {after:?} {worst}");
}

#[test]
fn clocks_that_drift_are_followed() {
    for drift in [-1e-3, -1e-4, 1e-4, 1e-3] {
        let simulation = CaptureSimulation { drift, input_hz: 0, ..STEADY };
        let (before, after, _) = simulation.compare();
        assert!(after.wait < 2.5 && before.wait > 5.0, "{drift}: {before:?} {after:?}");
    }
}

#[test]
fn the_time_that_drawing_takes_is_learned() {
    for drawing in [1.0, 3.0, 6.0] {
        let simulation = CaptureSimulation { drawing, input_hz: 0, ..STEADY };
        let (before, after, worst) = simulation.compare();
        assert!(before.wait > drawing + 7.0, "{drawing}: {before:?}");
        assert!(after.wait < drawing + 2.0 && worst < 1.0, "{drawing}: {after:?} {worst}");
        let (_, after, _) = CaptureSimulation { fps: 60, ..simulation }.compare();
        assert!(after.wait < drawing + 2.0, "as many pictures as refreshes: {drawing}: {after:?}");
    }
}

#[test]
fn pictures_that_queue_for_the_display_are_not_taken_for_late_ones() {
    // Ten a second come 20 ms later than the others, and the next ones have to wait for a refresh more.
    let interval = Span::from_secs(1) / 60;
    let mut timing = CaptureTiming::new(interval);
    timing.set_display_hz(60);
    let mut queue = DisplayQueue::new(DisplayOrder::InTurn);
    queue.set_refresh_interval(Some(interval));
    let captured = |number: i64| Time::from_secs(1) + interval * number;
    let mut coming: VecDeque<_> = (0..600)
        .map(|number| (captured(number) + Span::from_millis(if number % 6 == 0 { 43 } else { 23 }), number))
        .collect();
    let (mut waited_most, mut at) = (Span::ZERO, Time::from_secs(1) + Span::from_millis(10));
    while !coming.is_empty() {
        at += interval;
        while let Some((decoded_at, number)) = coming.pop_front_if(|(decoded_at, _)| *decoded_at <= at) {
            queue.push(captured(number).for_peer(), None, (decoded_at, number));
        }
        if let Some((decoded_at, number)) = queue.take(at) {
            waited_most = waited_most.max(at - decoded_at);
            timing.on_displayed(captured(number), at, at - decoded_at);
        }
        queue.on_refresh(at);
    }
    assert!(waited_most > interval, "pictures have queued: {waited_most:?}");
    assert!(timing.lead < 500_000, "{} ns", timing.lead);
}

#[test]
fn without_a_best_moment_nothing_moves() {
    // Frames that vary by more than a refresh, and rates that do not match.
    let spread = CaptureSimulation { jitter: 40.0, input_hz: 0, ..STEADY };
    let (before, after, _) = spread.compare();
    assert!((after.total - before.total).abs() < 1.0, "{before:?} {after:?}");
    for simulation in [CaptureSimulation { display_hz: 72, ..spread }, CaptureSimulation { fps: 90, ..spread }] {
        assert!(simulation.run(1, true).moved.to_bits() == 0, "{}", simulation.display_hz);
    }
}

#[test]
fn lies_cost_little() {
    let mut random = Pcg64Mcg::seed_from_u64(5);
    let mut timing = CaptureTiming::new(Span::from_millis(11));
    for step in 0..2_000_u64 {
        let any = |random: &mut Pcg64Mcg| Time::from_nanos(random.random::<u64>() >> random.random_range(0..40));
        timing.set_display_hz([0, 1, 60, 90, u16::MAX][random.random_range(0..5)]);
        for _ in 0..random.random_range(0..40) {
            timing.on_input(any(&mut random), any(&mut random).for_peer());
            timing.on_displayed(any(&mut random), any(&mut random), Span::from_nanos(random.random()));
        }
        timing.on_reported(Time::from_millis(50 * step));
        let step = capture_step(any(&mut random), timing.best(), Span::from_millis(11));
        assert!(step.abs() <= Span::from_millis(11) / MAX_STEP_DIVISOR);
    }
}
