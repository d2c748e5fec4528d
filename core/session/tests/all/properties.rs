//! Invariants for every mode and every sequence of calls.

use nearlight_session::pace::{Class, Mode, Pacer};
use nearlight_units::{Bitrate, Bytes, Span, Time};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Frame { packets: u64, next: u64 },
    Wait(u64),
    WakeUp,
    EarlyPoll,
    Rate(u64),
    Urgent,
    Ceiling(Option<u64>),
    Probe { mbps: u64, packets: u64 },
    Drop(u64),
    TimeBack(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..60_u64, 0..50_000_u64).prop_map(|(packets, next)| Step::Frame { packets, next }),
        (0..50_000_u64).prop_map(Step::Wait),
        Just(Step::WakeUp),
        Just(Step::EarlyPoll),
        (0..200_u64).prop_map(Step::Rate),
        Just(Step::Urgent),
        prop::option::of(1..100_u64).prop_map(Step::Ceiling),
        (0..300_u64, 0..40_u64).prop_map(|(mbps, packets)| Step::Probe { mbps, packets }),
        (0..20_000_u64).prop_map(Step::Drop),
        (0..10_000_u64).prop_map(Step::TimeBack),
    ]
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        Just(Mode::Burst),
        (-1..20_000_i64).prop_map(|micros| Mode::Interval(Span::from_micros(micros))),
        Just(Mode::Spread),
        Just(Mode::Compressed),
    ]
}

const PACKET: Bytes = Bytes::new(1_200);

fn poll_all(pacer: &mut Pacer, now: Time) {
    let class = if pacer.queued() == Bytes::ZERO { Class::Padding } else { Class::Media };
    while (pacer.queued() > Bytes::ZERO || pacer.is_probing()) && pacer.poll(now, PACKET, class) {}
}

/// Polls when told to until nothing waits, and says whether that came to an end.
fn drains(pacer: &mut Pacer, mut now: Time) -> bool {
    for _ in 0..100_000 {
        poll_all(pacer, now);
        let Some(next) = pacer.poll_timeout() else { return true };
        now = now.max(next);
    }
    false
}

proptest! {
    #[test]
    fn everything_queued_leaves_in_the_end(mode in mode(), steps in prop::collection::vec(step(), 0..80)) {
        let mut pacer = Pacer::new(mode);
        let mut now = Time::ZERO;
        for step in steps {
            match step {
                Step::Frame { packets, next } => {
                    pacer.on_frame(now, Bytes::new(1_200 * packets), now + Span::from_micros(next as i64 - 5_000));
                }
                Step::Wait(micros) => now += Span::from_micros(micros as i64),
                Step::WakeUp => {
                    now = pacer.poll_timeout().filter(|&next| next < Time::FAR_FUTURE).map_or(now, |next| next.max(now));
                    poll_all(&mut pacer, now);
                }
                Step::EarlyPoll => poll_all(&mut pacer, now),
                Step::Rate(mbps) => pacer.set_rate(now, Bitrate::from_mbps(mbps)),
                Step::Urgent => prop_assert!(pacer.poll(now, PACKET, Class::Urgent)),
                Step::Ceiling(mbps) => pacer.set_ceiling(now, mbps.map(Bitrate::from_mbps)),
                Step::Probe { mbps, packets } => {
                    pacer.on_probe(now, Bitrate::from_mbps(mbps), Bytes::new(1_200 * packets));
                }
                Step::Drop(size) => pacer.on_dropped(now, Bytes::new(size)),
                Step::TimeBack(micros) => poll_all(&mut pacer, now - Span::from_micros(micros as i64)),
            }
        }
        pacer.set_rate(now, Bitrate::from_mbps(5));
        prop_assert!(drains(&mut pacer, now));
    }

    #[test]
    fn no_window_carries_more_than_the_rate_and_its_catching_up(
        interval in prop_oneof![Just(None), (100..10_000_i64).prop_map(Some)],
        mbps in 1..100_u64,
        frames in prop::collection::vec((0..40_u64, 0..40_000_u64), 1..12),
        wake_ups in prop::collection::vec(0..9_000_u64, 200),
    ) {
        let mode = interval.map_or(Mode::Compressed, |micros| Mode::Interval(Span::from_micros(micros)));
        // Evenly: 5 ms of catching up. In intervals: one granted at either end of the window, and one of catching up.
        let slack = interval.map_or(Mode::DEFAULT_INTERVAL, |micros| Span::from_micros(micros) * 3);
        let rate = Bitrate::from_mbps(mbps);
        let mut pacer = Pacer::new(mode);
        pacer.set_rate(Time::ZERO, rate);
        let mut frames = frames.into_iter();
        let mut next_frame = Time::ZERO;
        let mut now = Time::ZERO;
        let mut sent: Vec<Time> = Vec::new();
        for wait in wake_ups {
            if now >= next_frame && let Some((packets, pause)) = frames.next() {
                next_frame = now + Span::from_micros(pause as i64);
                pacer.on_frame(now, Bytes::new(1_200 * packets), next_frame);
            }
            while pacer.queued() > Bytes::ZERO && pacer.poll(now, PACKET, Class::Media) {
                sent.push(now);
            }
            now += Span::from_micros(wait as i64);
        }
        for (first, &from) in sent.iter().enumerate() {
            for (last, &to) in sent.iter().enumerate().skip(first) {
                let carried = PACKET.get() * (last - first + 1) as u64;
                let allowed = rate.bytes_in((to - from) + slack).get() + PACKET.get() + 1;
                prop_assert!(carried <= allowed, "{carried} bytes in {} instead of {allowed}", to - from);
            }
        }
    }

    #[test]
    fn nothing_but_sound_exceeds_a_ceiling(
        mode in mode(),
        mbps in 1..100_u64,
        steps in prop::collection::vec((0..40_u64, 0..9_000_u64, any::<bool>()), 1..60),
    ) {
        let ceiling = Bitrate::from_mbps(mbps);
        let mut pacer = Pacer::new(mode);
        pacer.set_rate(Time::ZERO, Bitrate::from_mbps(200));
        pacer.set_ceiling(Time::ZERO, Some(ceiling));
        let (mut now, mut sent) = (Time::ZERO, 0);
        for (packets, wait, resends) in steps {
            pacer.on_frame(now, Bytes::new(1_200 * packets), now + Span::from_millis(16));
            if resends {
                sent += u64::from(pacer.poll(now, PACKET, Class::Retransmission));
            }
            while pacer.queued() > Bytes::ZERO && pacer.poll(now, PACKET, Class::Media) {
                sent += 1;
            }
            let allowed = ceiling.bytes_in(now - Time::ZERO).get() + PACKET.get() + 1;
            prop_assert!(sent * PACKET.get() <= allowed, "{sent} packets in {}", now - Time::ZERO);
            now += Span::from_micros(wait as i64);
        }
    }

    #[test]
    fn early_calls_change_nothing(mbps in 1..50_u64, packets in 1..30_u64, early in prop::collection::vec(0..900_u64, 0..30)) {
        for mode in [Mode::Compressed, Mode::Spread, Mode::Interval(Span::from_millis(1))] {
            let mut quiet = Pacer::new(mode);
            quiet.set_rate(Time::ZERO, Bitrate::from_mbps(mbps));
            quiet.on_frame(Time::ZERO, Bytes::new(1_200 * packets), Time::from_millis(20));
            poll_all(&mut quiet, Time::ZERO);
            let mut busy = quiet.clone();
            let Some(due) = quiet.poll_timeout() else { continue };
            let mut early = early.clone();
            early.sort_unstable();
            for permille in early {
                let at = Time::from_nanos(due.as_nanos() / 1_000 * permille);
                prop_assert!(!busy.poll(at, PACKET, Class::Media), "{mode}");
                prop_assert_eq!(busy.poll_timeout(), Some(due));
            }
            prop_assert!(busy.poll(due, PACKET, Class::Media), "{}", mode);
        }
    }
}
