//! Exact release times of each mode in virtual time.

use nearlight_session::pace::{Class, Mode, Pacer};
use nearlight_units::{Bitrate, Bytes, Span, Time};

const PACKET: Bytes = Bytes::new(1_000);

/// A driver that wakes up exactly when asked to; returns the times in microseconds at which the frame's packets left.
fn releases(pacer: &mut Pacer, from: Time, packets: usize) -> Vec<u64> {
    let mut now = from;
    let mut times = Vec::new();
    while times.len() < packets {
        if pacer.poll(now, PACKET, Class::Media) {
            times.push(now.as_micros());
        } else {
            let next = pacer.poll_timeout().expect("packets are waiting");
            assert!(next > now, "a refusal names a later time");
            now = next;
        }
    }
    assert_eq!(pacer.queued(), Bytes::ZERO);
    assert_eq!(pacer.poll_timeout(), None);
    times
}

fn frame(pacer: &mut Pacer, at: Time, packets: u64) -> Vec<u64> {
    pacer.on_frame(at, Bytes::new(1_000 * packets), at + Span::from_millis(10));
    releases(pacer, at, packets as usize)
}

fn pacer(mode: Mode, rate: Bitrate) -> Pacer {
    let mut pacer = Pacer::new(mode);
    pacer.set_rate(Time::ZERO, rate);
    pacer
}

#[test]
fn each_mode_lays_a_frame_out_as_its_name_says() {
    let rate = Bitrate::from_mbps(16); // one packet of 1,000 bytes in 500 µs
    let cases = [
        (Mode::Burst, vec![0, 0, 0, 0, 0]),
        (Mode::Interval(Span::from_millis(1)), vec![0, 0, 1_000, 1_000, 2_000]),
        (Mode::Interval(Span::from_millis(5)), vec![0, 0, 0, 0, 0]),
        (Mode::Spread, vec![0, 2_000, 4_000, 6_000, 8_000]),
        (Mode::Compressed, vec![0, 500, 1_000, 1_500, 2_000]),
    ];
    for (mode, expected) in cases {
        // The first frame and one after a long silence: silence earns no credit.
        for start in [Time::ZERO, Time::from_secs(7)] {
            let mut pacer = pacer(mode, rate);
            let times: Vec<u64> = frame(&mut pacer, start, 5).iter().map(|at| at - start.as_micros()).collect();
            let expected_exactly = times.iter().zip(&expected).all(|(at, want)| at.abs_diff(*want) <= 1);
            assert!(expected_exactly, "{mode} from {start:?}: {times:?} instead of {expected:?}");
        }
    }
}

#[test]
fn an_interval_smaller_than_a_packet_averages_to_the_rate() {
    // 250 bytes an interval: a packet every four intervals.
    let mut pacer = pacer(Mode::Interval(Span::from_millis(1)), Bitrate::from_mbps(2));
    assert_eq!(frame(&mut pacer, Time::ZERO, 4), [0, 4_000, 8_000, 12_000]);
}

#[test]
fn spread_never_exceeds_the_pacing_rate_and_a_leftover_joins_the_next_frame() {
    let mut pacer = pacer(Mode::Spread, Bitrate::from_mbps(8));
    pacer.on_frame(Time::ZERO, Bytes::new(20_000), Time::from_millis(10));
    assert!(pacer.poll(Time::ZERO, PACKET, Class::Media));
    assert_eq!(pacer.poll_timeout(), Some(Time::from_millis(1)), "20 packets in 10 ms would be 16 Mb/s");
    // Room to spread again: 19 waiting packets and one new one over 40 ms.
    pacer.on_frame(Time::from_millis(1), PACKET, Time::from_millis(41));
    let times = releases(&mut pacer, Time::from_millis(1), 20);
    assert_eq!((times[0], times.len()), (1_000, 20));
    assert!(times.windows(2).all(|pair| (1_999..=2_001).contains(&(pair[1] - pair[0]))), "{times:?}");
}

#[test]
fn a_frame_whose_successor_is_due_goes_at_the_pacing_rate() {
    let mut pacer = pacer(Mode::Spread, Bitrate::from_mbps(8));
    pacer.on_frame(Time::from_millis(5), Bytes::new(2_000), Time::from_millis(4));
    assert_eq!(releases(&mut pacer, Time::from_millis(5), 2), [5_000, 6_000]);
}

#[test]
fn a_new_rate_counts_at_once_even_after_none() {
    for mode in [Mode::Compressed, Mode::Spread, Mode::Interval(Span::from_millis(1))] {
        let mut pacer = Pacer::new(mode);
        pacer.on_frame(Time::ZERO, Bytes::new(2_000), Time::from_millis(1));
        pacer.poll(Time::ZERO, PACKET, Class::Media);
        assert_eq!(pacer.poll_timeout(), Some(Time::FAR_FUTURE), "{mode}: a rate of zero lets nothing through");
        pacer.set_rate(Time::from_millis(3), Bitrate::from_mbps(8));
        let next = pacer.poll_timeout().expect("a packet waits");
        assert!(next <= Time::from_millis(5), "{mode}: {next:?}");
    }
}

#[test]
fn repairs_go_at_once_and_media_waits_for_them() {
    let mut pacer = pacer(Mode::Compressed, Bitrate::from_mbps(8));
    pacer.on_frame(Time::ZERO, Bytes::new(3_000), Time::from_millis(10));
    assert!(pacer.poll(Time::ZERO, PACKET, Class::Media));
    assert!(pacer.poll(Time::ZERO, PACKET, Class::Urgent));
    assert_eq!(pacer.poll_timeout(), Some(Time::from_millis(2)));
    for _ in 0..100 {
        assert!(pacer.poll(Time::ZERO, PACKET, Class::Urgent));
    }
    assert_eq!(pacer.poll_timeout(), Some(Time::from_millis(5)), "media waits 5 ms at most");
}

#[test]
fn below_a_ceiling_every_mode_sends_evenly_and_retransmissions_wait_as_well() {
    for mode in [Mode::Burst, Mode::Interval(Span::from_millis(5)), Mode::Spread, Mode::Compressed] {
        let mut pacer = pacer(mode, Bitrate::from_mbps(80));
        pacer.set_ceiling(Time::ZERO, Some(Bitrate::from_mbps(4)));
        assert_eq!(frame(&mut pacer, Time::ZERO, 6), [0, 2_000, 4_000, 6_000, 8_000, 10_000], "{mode}");
        assert!(!pacer.poll(Time::from_millis(11), PACKET, Class::Retransmission), "{mode}");
        assert!(pacer.poll(Time::from_millis(11), PACKET, Class::Urgent), "{mode}: sound does not wait");
        assert_eq!(pacer.ceiling_opens_at(), Some(Time::from_millis(14)), "{mode}");
        assert!(pacer.poll(Time::from_millis(14), PACKET, Class::Retransmission), "{mode}");
        pacer.set_ceiling(Time::from_millis(14), None);
        for _ in 0..10 {
            assert!(pacer.poll(Time::from_millis(14), PACKET, Class::Retransmission), "{mode}");
        }
    }
}

#[test]
fn a_probe_has_its_own_rate_and_ends_with_its_size() {
    let mut pacer = pacer(Mode::Compressed, Bitrate::from_mbps(8));
    assert!(!pacer.poll(Time::ZERO, PACKET, Class::Padding), "padding is for probes only");
    pacer.on_frame(Time::ZERO, Bytes::new(2_000), Time::from_millis(10));
    pacer.on_probe(Time::ZERO, Bitrate::from_mbps(80), Bytes::new(4_000));
    let classes = [Class::Media, Class::Media, Class::Padding, Class::Padding];
    for (number, class) in classes.into_iter().enumerate() {
        let at = Time::from_micros(100 * number as u64);
        assert!(pacer.is_probing());
        assert_eq!(pacer.poll_timeout(), Some(at));
        assert!(pacer.poll(at, PACKET, class));
        assert!(!pacer.poll(at, PACKET, class));
    }
    assert!(!pacer.is_probing());
    // Four packets at 8 Mb/s are 4 ms.
    pacer.on_frame(Time::from_micros(300), Bytes::new(1_000), Time::from_millis(10));
    assert_eq!(releases(&mut pacer, Time::from_micros(300), 1), [4_000]);
}

#[test]
fn a_late_wake_up_is_caught_up_within_one_interval() {
    for mode in [Mode::Compressed, Mode::Interval(Span::from_millis(5))] {
        let mut pacer = pacer(mode, Bitrate::from_mbps(8));
        pacer.on_frame(Time::ZERO, Bytes::new(1_000_000), Time::from_millis(10));
        while pacer.poll(Time::ZERO, PACKET, Class::Media) {}
        let late = Time::from_millis(400);
        let mut caught_up = 0;
        while pacer.poll(late, PACKET, Class::Media) {
            caught_up += 1;
        }
        let regular = if mode == Mode::Compressed { 1 } else { 5 };
        assert_eq!(caught_up, regular + 5, "{mode}: what is due now and 5 ms of catching up");
    }
}

#[test]
fn dropped_media_is_no_longer_waited_for() {
    let mut pacer = pacer(Mode::Compressed, Bitrate::from_mbps(8));
    pacer.on_frame(Time::ZERO, Bytes::new(5_000), Time::from_millis(10));
    assert!(pacer.poll(Time::ZERO, PACKET, Class::Media));
    pacer.on_dropped(Time::ZERO, Bytes::new(4_000));
    assert_eq!((pacer.queued(), pacer.poll_timeout()), (Bytes::ZERO, None));
}
