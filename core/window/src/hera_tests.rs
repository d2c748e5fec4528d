use super::*;

const PACKET: Bytes = Bytes::new(1_500);

fn ack(round: u64, round_trip: Span) -> AckSample {
    AckSample {
        acked: PACKET,
        delivered: Bytes::new((round + 1) * 1_500),
        delivered_when_sent: Bytes::new(round * 1_500),
        round_trip: Some(round_trip),
        window_limited: true,
        ..AckSample::default()
    }
}

/// Packets that the window moves by in one step, from 1000 packets, when every round trip there ever was is this one.
fn moved_by(options: HeraOptions, round_trip: Span) -> i64 {
    let mut hera = Hera::new(PACKET, HeraOptions { limit: Some(4), backlog: 1, ..options });
    hera.window = 1_000 * PARTS;
    hera.on_ack(Time::ZERO, &ack(0, round_trip));
    (hera.window / PARTS).cast_signed() - 1_000
}

#[test]
fn each_bucket_moves_the_window_as_its_reading_says() {
    let symmetric = HeraOptions { buckets: 8, ..HeraOptions::default() };
    let steps: Vec<i64> = (0..9).map(|bucket| moved_by(symmetric, Span::from_millis(15 * bucket + 1))).collect();
    assert_eq!(steps, [40, 30, 20, 10, -10, -20, -30, -40, -40]);
    let printed = HeraOptions { reading: Reading::AsPrinted, ..symmetric };
    let steps: Vec<i64> = (0..9).map(|bucket| moved_by(printed, Span::from_millis(15 * bucket + 1))).collect();
    assert_eq!(steps, [40, 30, 20, 10, 10, 0, -10, -20, -20]);
}

#[test]
fn a_rare_low_round_trip_moves_the_window_less_than_a_frequent_one() {
    let options = HeraOptions { buckets: 8, backlog: 1, limit: Some(10), ..HeraOptions::default() };
    let mut hera = Hera::new(PACKET, options);
    for round in 0..9 {
        hera.on_ack(Time::ZERO, &ack(round, Span::from_millis(100)));
    }
    hera.window = 500 * PARTS;
    hera.on_ack(Time::ZERO, &ack(9, Span::from_millis(1)));
    // One of ten counts: 40 packets weigh a tenth.
    assert_eq!(hera.window, 504 * PARTS);
}

#[test]
fn the_window_moves_once_a_round_trip_or_with_each_sample() {
    for (step, expected) in [(Step::RoundTrip, 10 + 30), (Step::Sample, 10 + 8 * 30)] {
        let mut hera = Hera::new(PACKET, HeraOptions { step, ..HeraOptions::default() });
        for packet in 0..8 {
            let sample = AckSample { delivered_when_sent: Bytes::ZERO, ..ack(packet, Span::from_millis(2)) };
            hera.on_ack(Time::ZERO, &sample);
        }
        assert_eq!(hera.window(), Bytes::new(expected * 1_500), "{step:?}");
    }
}

#[test]
fn a_loss_halves_the_window_or_changes_nothing() {
    let congestion =
        Congestion { cause: crate::Cause::Loss, flight: Bytes::new(150_000), in_flight: Bytes::new(148_500) };
    for (on_loss, expected) in [(LossResponse::Ignore, [10, 10]), (LossResponse::Halve, [5, 4])] {
        let mut hera = Hera::new(PACKET, HeraOptions { on_loss, ..HeraOptions::default() });
        let windows = [(); 2].map(|()| {
            hera.on_loss(Time::ZERO, &congestion);
            hera.window().get() / 1_500
        });
        assert_eq!(windows, expected, "{on_loss:?}: the least is four packets");
    }
}

#[test]
fn it_does_not_grow_while_something_else_limits_and_a_time_out_leaves_the_least() {
    let mut hera = Hera::new(PACKET, HeraOptions::default());
    hera.on_ack(Time::ZERO, &AckSample { window_limited: false, ..ack(0, Span::from_millis(2)) });
    assert_eq!(hera.window(), Bytes::new(15_000));
    hera.on_timeout(Time::ZERO, Bytes::new(15_000));
    assert_eq!(hera.window(), Bytes::new(6_000));
}
