use super::*;

const PACKET: Bytes = Bytes::new(1_500);

fn result(mbps: u64, loss: f64, gradient: f64) -> IntervalResult {
    IntervalResult { rate: Bitrate::from_mbps(mbps), sent: Bitrate::from_mbps(mbps), loss, gradient }
}

#[test]
fn allegros_utility_rises_with_the_rate_and_falls_with_loss() {
    let allegro = Allegro::new(Bitrate::from_mbps(10), 1);
    let utility = |mbps, loss| allegro.utility(&result(mbps, loss, 0.0));
    assert!(utility(20, 0.0) > utility(10, 0.0));
    assert!(utility(20, 0.01) < utility(20, 0.0));
    // Beyond 5 % throughput is worth nothing, and more rate is worth less than nothing.
    assert!(utility(20, 0.08) < 0.0 && utility(40, 0.08) < utility(20, 0.08));
    // Below it random loss does not matter much: what makes Allegro fill lossy links.
    assert!(utility(20, 0.02) > 0.9 * utility(20, 0.0));
    // The round trip is nothing to it.
    assert!((allegro.utility(&result(20, 0.0, 0.5)) - utility(20, 0.0)).abs() < 1e-9);
}

#[test]
fn vivaces_utility_falls_with_loss_and_with_a_growing_round_trip() {
    let vivace = Vivace::new(Bitrate::from_mbps(10), 1);
    let utility = |mbps, loss, gradient| vivace.utility(&result(mbps, loss, gradient));
    assert!(utility(20, 0.0, 0.0) > utility(10, 0.0, 0.0));
    assert!(utility(20, 0.05, 0.0) < utility(20, 0.0, 0.0));
    assert!(utility(20, 0.0, 0.05) < 0.0);
    assert!(utility(40, 0.0, 0.05) < utility(20, 0.0, 0.05));
    // Neither noise nor a shrinking round trip changes it.
    assert!((utility(20, 0.0, 0.005) - utility(20, 0.0, -0.5)).abs() < 1e-9);
}

/// Runs this many trials over a path that loses what exceeds its capacity. Returns the rate at the end.
fn settled_rate(chooser: &mut dyn Chooser, capacity: f64, trials: usize) -> f64 {
    for _ in 0..trials {
        let Some((rate, mark)) = chooser.poll_trial() else { break };
        let mbps = rate.as_mbps_f64();
        let over = ((mbps - capacity) / mbps).max(0.0);
        let gradient = ((mbps - capacity) / capacity).max(0.0);
        chooser.on_result(mark, &IntervalResult { rate, sent: rate, loss: over, gradient });
    }
    chooser.base().as_mbps_f64()
}

#[test]
fn both_find_the_capacity_of_a_path_without_noise() {
    for seed in 1..=5 {
        let mut allegro = Allegro::new(Bitrate::from_mbps(1), seed);
        let rate = settled_rate(&mut allegro, 30.0, 400);
        assert!((27.0..34.0).contains(&rate), "Allegro, seed {seed}: {rate}");
        let mut vivace = Vivace::new(Bitrate::from_mbps(1), seed);
        let rate = settled_rate(&mut vivace, 30.0, 400);
        assert!((26.0..32.0).contains(&rate), "Vivace, seed {seed}: {rate}");
    }
}

#[test]
fn an_interval_tells_its_own_losses_and_the_slope_of_its_round_trips() {
    let mut interval = Interval::new(Time::from_secs(1), Bitrate::from_mbps(12), Some(3));
    for number in 0..20 {
        interval.on_sent(PACKET);
        let sent_at = Time::from_secs(1) + Span::from_millis(number);
        let packet = SentPacket { sent_at, size: PACKET, ..SentPacket::default() };
        if number % 10 == 9 {
            interval.on_lost(PACKET);
        } else {
            // A tenth of a second more for each second.
            interval.on_acked(&packet, Some(Span::from_millis(20) + Span::from_micros(100 * number)));
        }
    }
    let ended = Time::from_millis(1_020);
    assert!(!interval.is_settled(ended, Span::from_secs(1)));
    interval.end(ended);
    assert!(interval.is_settled(ended, Span::from_secs(1)));
    let result = interval.result().expect("settled packets");
    assert!((result.loss - 0.1).abs() < 1e-9 && (result.gradient - 0.1).abs() < 1e-6, "{result:?}");
    assert_eq!((result.rate, result.sent), (Bitrate::from_mbps(12), Bitrate::from_mbps(12)));
}
