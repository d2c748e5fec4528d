use super::*;

/// Feeds blocks of 250 ms at `mbps` of which `loss` percent are missing, and answers the last limit.
fn feed(estimator: &mut LossBased, from: u64, blocks: u64, mbps: u64, loss: u64) -> Option<Bitrate> {
    let delay_based = Bitrate::from_mbps(50);
    let size = Bytes::new(1_250);
    let per_block = mbps * 25;
    for number in 0..blocks * per_block {
        let seq = PacketSeq((from * 1_000 + number) as u32);
        let sent_at = Time::from_secs(from) + Span::from_micros((number * 10_000 / mbps) as i64);
        if number % 100 < loss {
            estimator.on_missing(seq, sent_at, size);
        } else {
            estimator.on_arrived(seq, sent_at, size);
        }
        let arriving = Bitrate::from_kbps(mbps * (1_000 - 10 * loss));
        let minimum = Bitrate::from_kbps(100);
        estimator.update(&Update { delay_based, arriving: Some(arriving), app_limited: false, minimum });
    }
    estimator.limit()
}

#[test]
fn no_loss_sets_no_limit() {
    let mut estimator = LossBased::new(Scale::Path);
    assert_eq!(feed(&mut estimator, 0, 40, 50, 0), None);
    assert!(estimator.inherent_loss() < 0.002);
}

#[test]
fn random_loss_of_a_few_percent_is_learnt_and_does_not_limit() {
    for percent in [1, 2, 4] {
        let mut estimator = LossBased::new(Scale::Path);
        assert_eq!(feed(&mut estimator, 0, 60, 50, percent), None, "{percent} %");
        assert!((estimator.inherent_loss() - percent as f64 / 100.0).abs() < 0.006, "{}", estimator.inherent_loss());
    }
}

#[test]
fn the_balance_is_that_of_a_call_or_in_proportion() {
    // At 50 Mb/s the scale is 10. 100 kb/s / (10 % - 5 %) is 2 Mb/s or 20 Mb/s, and / (30 % - 5 %) 0.4 Mb/s or 4 Mb/s.
    for (loss, call, path) in [(10, 2e6, 20e6), (30, 0.4e6, 4e6)] {
        for (scale, expected) in [(Scale::Call, call), (Scale::Path, path)] {
            let limit = feed(&mut LossBased::new(scale), 0, 40, 50, loss).expect("limits").as_bps();
            let share = limit as f64 / expected;
            assert!((0.9..1.02).contains(&share), "{loss} %, {scale:?}: {limit}");
        }
    }
}

#[test]
fn a_limit_goes_away_with_the_loss() {
    let mut estimator = LossBased::new(Scale::Path);
    assert!(feed(&mut estimator, 0, 12, 50, 30).is_some());
    assert_eq!(feed(&mut estimator, 10, 120, 50, 0), None);
}

#[test]
fn a_rate_that_is_sent_anyway_is_no_overflow() {
    // Half of 1 Mb/s is lost for 5 s, then 2 %; the session cannot send less.
    let minimum = Bitrate::from_mbps(1);
    let (delay_based, size) = (Bitrate::from_mbps(8), Bytes::new(1_250));
    let mut estimator = LossBased::new(Scale::Call);
    let mut lowest = Bitrate::MAX;
    for number in 0..4_000_u32 {
        let sent_at = Time::from_millis(u64::from(number) * 10);
        let (percent, arriving) = if number < 500 { (50, 500) } else { (2, 980) };
        if number * 37 % 100 < percent {
            estimator.on_missing(PacketSeq(number), sent_at, size);
        } else {
            estimator.on_arrived(PacketSeq(number), sent_at, size);
        }
        let arriving = Some(Bitrate::from_kbps(arriving));
        estimator.update(&Update { delay_based, arriving, app_limited: false, minimum });
        lowest = estimator.limit().map_or(lowest, |limit| limit.min(lowest));
    }
    assert_eq!(lowest, minimum, "limited, but no further");
    assert!(estimator.limit().is_none_or(|limit| limit > minimum.mul_f64(1.3)), "{:?}", estimator.limit());
}

#[test]
fn a_late_arrival_takes_its_loss_back_and_memory_is_bounded() {
    let mut estimator = LossBased::new(Scale::Path);
    let size = Bytes::new(1_200);
    for number in 0..10_000 {
        estimator.on_missing(PacketSeq(number), Time::from_micros(1), size);
    }
    assert!(estimator.held() <= MAX_MISSING + OBSERVATION_WINDOW);
    for number in 0..4_096 {
        estimator.on_arrived(PacketSeq(number), Time::from_micros(1), size);
    }
    assert_eq!(estimator.pending.lost, Bytes::new((10_000 - 4_096) * 1_200));
}
