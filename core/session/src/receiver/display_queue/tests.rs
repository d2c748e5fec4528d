use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;

const HERTZ: i64 = 60;

/// A display whose refreshes are numbered from 0, and pictures whose captures are: in milliseconds, from capture to decoded.
struct DisplaySimulation {
    order: DisplayOrder,
    /// Pictures per second.
    per_second: i64,
    delays: fn(i64) -> f64,
}

struct Seen {
    /// The picture at each refresh of a display that began with the captures.
    shown: Vec<Option<i64>>,
    skipped: Vec<i64>,
}

impl DisplaySimulation {
    const fn new(order: DisplayOrder, delays: fn(i64) -> f64) -> Self {
        Self { order, per_second: HERTZ, delays }
    }

    fn run(&self, pictures: i64) -> Seen {
        let mut queue = DisplayQueue::new(self.order);
        queue.set_refresh_interval(Some(Span::from_secs(1) / HERTZ));
        let captured = |number: i64| Time::ZERO + Span::from_secs(number) / self.per_second;
        let mut decoded: VecDeque<(Time, i64)> = (0..pictures)
            .map(|number| (captured(number) + Span::from_secs_f64((self.delays)(number) / 1e3), number))
            .collect();
        let mut seen = Seen { shown: Vec::new(), skipped: Vec::new() };
        for refresh in 0.. {
            let now = Time::from_millis(1) + Span::from_secs(refresh) / HERTZ;
            while let Some((_, number)) = decoded.pop_front_if(|(at, _)| *at <= now) {
                queue.push(captured(number).for_peer(), Some(captured(number) + Span::from_millis(100)), number);
            }
            seen.shown.push(queue.take(now));
            queue.on_refresh(now);
            seen.skipped.extend(std::iter::from_fn(|| queue.poll_skipped()));
            if queue.is_empty() && decoded.is_empty() {
                return seen;
            }
        }
        seen
    }
}

/// Every third picture comes a refresh later, together with the next one.
const UNEVEN: fn(i64) -> f64 = |number| if number % 3 == 1 { 36.0 } else { 20.0 };

#[test]
fn in_turn_no_picture_is_skipped_on_an_uneven_path_and_the_newest_alone_skips_a_third() {
    let newest = DisplaySimulation::new(DisplayOrder::Newest, UNEVEN).run(300);
    assert_eq!(newest.skipped.len(), 100);
    assert!(newest.skipped.iter().all(|number| number % 3 == 1));
    let in_turn = DisplaySimulation::new(DisplayOrder::InTurn, UNEVEN).run(300);
    // The mean interval is not known before the second picture.
    assert!(in_turn.skipped.is_empty(), "{:?}", in_turn.skipped);
    let shown: Vec<_> = in_turn.shown.iter().flatten().copied().collect();
    assert_eq!(shown, (0..300).collect::<Vec<_>>());
}

#[test]
fn an_even_path_costs_no_wait() {
    for order in [DisplayOrder::Newest, DisplayOrder::InTurn] {
        let seen = DisplaySimulation::new(order, |_| 20.0).run(300);
        assert!(seen.skipped.is_empty());
        // Decoded within the second interval after the capture, and shown at its end.
        assert_eq!(seen.shown.iter().position(|shown| *shown == Some(250)), Some(252), "{order:?}");
    }
}

#[test]
fn after_a_jam_the_display_catches_up_by_skipping_one_picture() {
    // Everything from the 60th on comes 20 ms later than before for a while, and the late picture is shown together with none.
    let jam: fn(i64) -> f64 =
        |number| if (60..63).contains(&number) { 20.0 + (63 - number) as f64 * 17.0 } else { 20.0 };
    let seen = DisplaySimulation::new(DisplayOrder::InTurn, jam).run(300);
    let at = |number: i64| seen.shown.iter().position(|shown| *shown == Some(number));
    assert_eq!(at(64).map(|at| at > 66), Some(true), "it waits behind others: {:?}", &seen.shown[60..80]);
    assert_eq!(at(200), Some(202), "no wait is left");
    assert!((1..=3).contains(&seen.skipped.len()), "{:?}", seen.skipped);
}

#[test]
fn late_pictures_are_skipped_where_one_in_time_waits() {
    let outage: fn(i64) -> f64 =
        |number| if (60..90).contains(&number) { 20.0 + (90 - number) as f64 * 1e3 / 60.0 } else { 20.0 };
    let seen = DisplaySimulation::new(DisplayOrder::InTurn, outage).run(300);
    let first = seen.shown[70..].iter().flatten().next().copied();
    assert!(first.is_some_and(|number| (83..90).contains(&number)), "{first:?}");
    assert!(seen.skipped.iter().filter(|number| **number < 83).count() >= 20, "{:?}", seen.skipped);
}

#[test]
fn a_display_that_is_too_slow_shows_the_newest() {
    let simulation = DisplaySimulation { per_second: 90, ..DisplaySimulation::new(DisplayOrder::InTurn, |_| 20.0) };
    let seen = simulation.run(900);
    assert!((290..=310).contains(&seen.skipped.len()), "a third: {}", seen.skipped.len());
    let last = seen.shown[500].expect("one at each refresh");
    assert!((last * 1_000 / 90 + 20 - 500 * 1_000 / 60).abs() <= 17, "{last} waits for no other");
}

#[test]
fn a_slower_source_is_shown_in_turn_and_leaves_no_backlog() {
    let bursts: fn(i64) -> f64 = |number| 20.0 + (1 - number % 2) as f64 * 33.4;
    let seen = DisplaySimulation { per_second: 30, ..DisplaySimulation::new(DisplayOrder::InTurn, bursts) }.run(90);
    assert!(seen.skipped.is_empty(), "{:?}", seen.skipped);
}

#[test]
fn without_a_known_rate_the_newest_is_shown() {
    let mut queue = DisplayQueue::new(DisplayOrder::InTurn);
    for number in 0..10 {
        queue.push(Time::from_millis(10 * number).for_peer(), None, number);
    }
    assert_eq!(queue.take(Time::from_millis(95)), Some(9));
    assert_eq!(std::iter::from_fn(|| queue.poll_skipped()).count(), 9);
}

#[test]
fn a_display_that_draws_ahead_catches_up_too() {
    let interval = Span::from_secs(1) / HERTZ;
    let mut queue = DisplayQueue::new(DisplayOrder::InTurn);
    queue.set_refresh_interval(Some(interval));
    // Two wait at first; then one comes in the middle of each interval, and the canvas is free after each refresh.
    let (mut drawn, mut shown) = (None, Vec::new());
    for number in 0..60_u64 {
        let refresh = Time::from_secs(1) + interval * number as i64;
        shown.extend(drawn.take());
        queue.on_refresh(refresh);
        drawn = queue.take_ahead(refresh);
        let coming: &[u64] = if number == 0 { &[0, 1] } else { &[number + 1] };
        for picture in coming {
            queue.push((refresh + Span::from_millis(*picture as i64)).for_peer(), None, *picture);
            drawn = drawn.or_else(|| queue.take_ahead(refresh + interval / 2));
        }
    }
    assert_eq!(std::iter::from_fn(|| queue.poll_skipped()).count(), 1, "{shown:?}");
    assert_eq!(shown.last(), Some(&59), "no picture waits behind another: {shown:?}");
}

/// Whatever happens, each picture is shown or skipped, once and in order, and few wait.
#[test]
fn every_picture_has_one_fate() {
    for seed in 0..500 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let order = if random.random_bool(0.7) { DisplayOrder::InTurn } else { DisplayOrder::Newest };
        let mut queue = DisplayQueue::new(order);
        let (mut now, mut pushed, mut fates) = (Time::from_secs(1), 0_u64, Vec::new());
        for _ in 0..200 {
            now += Span::from_micros(random.random_range(0..20_000));
            let mut shown = None;
            match random.random_range(0..8) {
                0..3 => {
                    let captured_at = Time::from_nanos(random.random_range(0..3_000_000_000)).for_peer();
                    let slack = Span::from_micros(random.random_range(-50_000..50_000));
                    queue.push(captured_at, random.random_bool(0.5).then(|| now + slack), pushed);
                    pushed += 1;
                }
                3..6 => {
                    let was_empty = queue.is_empty();
                    shown = queue.take(now);
                    assert_eq!(shown.is_none(), was_empty, "seed {seed}");
                }
                6 => queue.on_refresh(now),
                _ => queue.set_refresh_interval(Some(Span::from_micros(random.random_range(-1_000..40_000)))),
            }
            fates.extend(std::iter::from_fn(|| queue.poll_skipped()).chain(shown));
            assert!(queue.waiting.len() <= MAX_WAITING, "seed {seed}");
            assert_eq!(fates.len() + queue.waiting.len(), pushed as usize, "seed {seed}");
        }
        assert!(fates.is_sorted_by(|one, next| one < next), "seed {seed}: {fates:?}");
    }
}
