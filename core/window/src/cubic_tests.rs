//! Closed forms of RFC 9438.

use super::*;
use crate::Cause;

const PACKET: Bytes = Bytes::new(1_000);

fn bytes(packets: f64) -> Bytes {
    Bytes::new((packets * 1_000.0).round() as u64)
}

fn law(window: f64) -> Cubic {
    let mut law = Cubic::new(PACKET, CubicOptions { hystart: false, ..CubicOptions::default() });
    law.window = window;
    law
}

fn sample(acked: f64, round_trip: Span) -> AckSample {
    AckSample { acked: bytes(acked), round_trip: Some(round_trip), window_limited: true, ..AckSample::default() }
}

fn lose(law: &mut Cubic, now: Time) {
    let flight = bytes(law.window);
    law.on_loss(now, &Congestion { cause: Cause::Loss, flight, in_flight: flight.saturating_sub(PACKET) });
    law.on_recovered(now);
}

/// Acknowledges everything in steps of a tenth of a round trip.
fn run(law: &mut Cubic, from: Time, round_trip: Span, length: Span) -> Time {
    let mut now = from;
    while now < from + length {
        now += round_trip / 10;
        law.on_ack(now, &sample(law.window / 10.0, round_trip));
    }
    now
}

#[test]
fn a_loss_leaves_seven_tenths() {
    let mut law = law(1_000.0);
    lose(&mut law, Time::ZERO);
    assert_eq!(law.window(), bytes(700.0));
}

#[test]
fn the_window_is_back_at_the_loss_after_k_seconds() {
    for window in [100.0, 1_000.0, 8_000.0_f64] {
        let mut law = law(window);
        lose(&mut law, Time::ZERO);
        // K = cbrt(W_max (1 - beta) / C), equation 2 with cwnd_epoch = beta W_max. A long round trip keeps Reno out.
        let k = (window * 0.3 / 0.4).cbrt();
        let round_trip = Span::from_secs_f64(k / 20.0);
        let start = Time::from_secs(1);
        law.on_ack(start, &sample(0.0, round_trip));
        assert!((law.epoch.expect("an epoch").climb - k).abs() < 1e-6);
        let before = run(&mut law, start, round_trip, Span::from_secs_f64(0.5 * k));
        let half = window - 0.4 * (0.5 * k).powi(3);
        assert!((law.window / half - 1.0).abs() < 0.02, "{} at half of the climb, {half} expected", law.window);
        run(&mut law, before, round_trip, Span::from_secs_f64(0.5 * k));
        assert!((law.window / window - 1.0).abs() < 0.005, "{} after {k} s", law.window);
        // Beyond the plateau the cubic is convex.
        run(&mut law, start + Span::from_secs_f64(k), round_trip, Span::from_secs_f64(k));
        let beyond = window + 0.4 * k.powi(3);
        assert!((law.window / beyond - 1.0).abs() < 0.02, "{} after {} s, {beyond} expected", law.window, 2.0 * k);
    }
}

#[test]
fn a_shrinking_window_gives_up_more() {
    let mut law = law(1_000.0);
    lose(&mut law, Time::ZERO);
    assert_eq!(law.plateau, Some(1_000.0));
    lose(&mut law, Time::ZERO);
    assert_eq!(law.plateau, Some(700.0 * 0.85));
    law.window = 2_000.0;
    lose(&mut law, Time::ZERO);
    assert_eq!(law.plateau, Some(2_000.0));
}

#[test]
fn over_a_short_round_trip_it_grows_by_0_529_packets_each_beyond_the_last_loss_too() {
    assert!((FRIENDLY_INCREASE - 0.529_411_764_7).abs() < 1e-9);
    let round_trip = Span::from_millis(5);
    let mut law = law(40.0);
    lose(&mut law, Time::ZERO);
    let start = Time::from_secs(1);
    law.on_ack(start, &sample(0.0, round_trip));
    let from = law.window;
    let now = run(&mut law, start, round_trip, round_trip * 10);
    assert!((law.window - from - 5.29).abs() < 0.1, "{} from {from}", law.window);
    // W_est meets cwnd_prior after (40 - 28) / 0.529 = 22.7 round trips.
    let now = run(&mut law, now, round_trip, round_trip * 14);
    let from = law.window;
    assert!(from > 40.0);
    run(&mut law, now, round_trip, round_trip * 10);
    assert!((law.window - from - 5.29).abs() < 0.1, "{} from {from}", law.window);
}

/// The mean window with one loss in every `interval` packets. Around the fixed point the cubic is flat, so that windows come
/// closer to it by a thousandth per loss only: the run starts near.
fn mean_window(round_trip: Span, interval: f64, start: f64) -> f64 {
    let mut law = law(start);
    // The closed form knows equal windows only; a window a hair below the last one would count as shrinking.
    law.options.fast_convergence = false;
    let (mut now, mut since_loss, mut epochs) = (Time::from_secs(1), 0.0, 0);
    let (mut area, mut time) = (0.0, 0.0);
    lose(&mut law, now);
    while epochs < 60 {
        let step = round_trip / 20;
        let acked = law.window / 20.0;
        now += step;
        law.on_ack(now, &sample(acked, round_trip));
        if epochs >= 30 {
            area += law.window * step.as_secs_f64();
            time += step.as_secs_f64();
        }
        since_loss += acked;
        if since_loss >= interval {
            since_loss -= interval;
            epochs += 1;
            lose(&mut law, now);
        }
    }
    area / time
}

#[test]
fn the_mean_window_under_periodic_loss_is_the_closed_form() {
    // Equation 6 where the cubic decides: long round trips, few losses.
    for (round_trip, interval) in [(0.1, 1e5), (0.1, 1e6), (0.2, 1e5_f64)] {
        let expected = (0.4 * 3.7 / (4.0 * 0.3_f64)).powf(0.25) * (round_trip * interval).powf(0.75);
        // The mean over a climb is (3 + beta) / 4 of its end.
        let mean = mean_window(Span::from_secs_f64(round_trip), interval, expected / 0.925);
        assert!((mean / expected - 1.0).abs() < 0.02, "{mean} for {expected}");
        let [above, below] = [1.3, 0.6].map(|factor| {
            let start = expected / 0.925 * factor;
            mean_window(Span::from_secs_f64(round_trip), interval, start) / expected
        });
        assert!(above < 1.25 && below > 0.8, "{above} and {below} of the fixed point");
    }
    // Section 4.3 where Reno decides: the mean window of AIMD(0.529, 0.7) is Reno's, sqrt(1.5 / p). Beyond the last window the
    // increase of 1 adds a little.
    for (round_trip, interval) in [(0.005, 400.0), (0.01, 1_000.0), (0.002, 4_000.0_f64)] {
        let mean = mean_window(Span::from_secs_f64(round_trip), interval, 100.0);
        let reno = (1.5 * interval).sqrt();
        assert!((mean / reno - 1.0).abs() < 0.05, "{mean} for {reno}");
    }
}

#[test]
fn a_timeout_starts_over_and_the_next_climb_begins_on_its_plateau() {
    let mut law = law(100.0);
    law.on_timeout(Time::ZERO, bytes(100.0));
    assert_eq!(law.window(), PACKET);
    let round_trip = Span::from_millis(100);
    let mut now = Time::from_secs(1);
    while law.window < 70.0 {
        now += round_trip;
        law.on_ack(now, &sample(law.window, round_trip));
    }
    assert_eq!(law.window(), bytes(70.0), "slow start ends at beta times the flight");
    law.on_ack(now, &sample(1.0, round_trip));
    assert_eq!(law.epoch.map(|epoch| epoch.climb), Some(0.0));
}

#[test]
fn time_without_need_of_the_window_is_not_time() {
    let round_trip = Span::from_millis(50);
    let mut idle = law(500.0);
    lose(&mut idle, Time::ZERO);
    let mut busy = law(500.0);
    lose(&mut busy, Time::ZERO);
    let start = Time::from_secs(1);
    let second = run(&mut idle, start, round_trip, Span::from_secs(1));
    run(&mut busy, start, round_trip, Span::from_secs(1));
    let limited = AckSample { window_limited: false, ..sample(1.0, round_trip) };
    for millis in 1..=4_000 {
        idle.on_ack(second + Span::from_millis(millis), &limited);
    }
    assert_eq!(idle.window(), busy.window());
    run(&mut idle, second + Span::from_secs(4), round_trip, Span::from_secs(1));
    run(&mut busy, second, round_trip, Span::from_secs(1));
    assert!((idle.window / busy.window - 1.0).abs() < 0.001, "{} and {}", idle.window, busy.window);
}

#[test]
fn hystart_leaves_slow_start_when_round_trips_grow_and_not_before() {
    let mut law = Cubic::new(PACKET, CubicOptions::default());
    let (mut delivered, mut now) = (0_u64, Time::from_secs(1));
    let mut round = |law: &mut Cubic, round_trip: Span| {
        let window = law.window().get();
        let sent_at = delivered;
        for _ in 0..window / 1_000 {
            delivered += 1_000;
            now += Span::from_micros(100);
            let delivered_when_sent = Bytes::new(sent_at);
            let base = sample(1.0, round_trip);
            law.on_ack(now, &AckSample { delivered: Bytes::new(delivered), delivered_when_sent, ..base });
        }
        law.window().get() as f64 / window as f64
    };
    for _ in 0..4 {
        assert!(round(&mut law, Span::from_millis(40)) > 1.9, "the window doubles");
    }
    // An eighth of 40 ms more is the threshold.
    assert!(round(&mut law, Span::from_millis(44)) > 1.9);
    round(&mut law, Span::from_millis(50));
    let slower = round(&mut law, Span::from_millis(51));
    assert!((1.2..1.3).contains(&slower), "a quarter of slow start's growth: {slower}");
    for _ in 0..4 {
        round(&mut law, Span::from_millis(52));
    }
    assert!(law.window >= law.threshold, "five such rounds end slow start");
}
