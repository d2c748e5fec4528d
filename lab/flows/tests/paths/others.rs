//! Short transfers and constant bit rate.

use nearlight_flows::{Cbr, CbrConfig, Schedule, Short, ShortConfig, Traffic as _};
use nearlight_units::{Bitrate, Bytes, Span, Time};

use crate::world::{bulk, world};

const fn ms(millis: i64) -> Span {
    Span::from_millis(millis)
}

/// Lets a flow of short transfers run alone; answers it.
fn run_short(config: ShortConfig, seconds: i64) -> Short {
    let mut short = Short::new(config);
    let mut now = Time::ZERO;
    let (rate, one_way) = (Bitrate::from_mbps(10), ms(25));
    let mut free_at = Time::ZERO;
    let mut travelling = std::collections::VecDeque::new();
    let until = Time::ZERO + Span::from_secs(seconds);
    loop {
        while let Some(packet) = short.poll_transmit(now) {
            free_at = free_at.max(now) + rate.time_to_send(packet.size);
            travelling.push_back((free_at + one_way, packet));
        }
        let arrival = travelling.front().map_or(Time::FAR_FUTURE, |(at, _)| *at);
        let wake = short.poll_timeout().map_or(Time::FAR_FUTURE, |(at, _)| at);
        now = now.max(arrival.min(wake));
        if now > until {
            return short;
        }
        if wake <= now {
            short.on_timeout(now);
        } else if let Some((_, packet)) = travelling.pop_front() {
            let arrival = nearlight_flows::Arrival {
                id: packet.id,
                direction: packet.direction,
                size: packet.size,
                marked: false,
            };
            short.on_delivered(now, arrival);
        }
    }
}

#[test]
fn short_transfers_have_the_sizes_pauses_and_times_of_the_standard() {
    for seed in 1..=3 {
        let config = ShortConfig { connections: 30, seed, ..ShortConfig::default() };
        let mut short = run_short(config, 600);
        let done: Vec<_> = std::iter::from_fn(|| short.poll_completion()).collect();
        // A file and a pause take 10.2 s or so: 600 s of 30 connections hold 1,760 of them, give or take four sigma.
        assert!((1_590..1_930).contains(&done.len()), "seed {seed}: {}", done.len());
        assert_eq!(short.statistics().completed, done.len() as u64);
        assert!(done.iter().all(|file| (30_000..=50_000).contains(&file.size.get())));
        let mean = done.iter().map(|file| file.size.get()).sum::<u64>() / done.len() as u64;
        assert!((39_000..41_000).contains(&mean), "seed {seed}: {mean}");
        // Windows of 10 and 20 packets carry up to 43 kB: two round trips of 50 ms and a way of 25 ms, alone or nearly so.
        let mut took: Vec<Span> = done.iter().map(|file| file.took).collect();
        took.sort_unstable();
        let (best, median) = (took[0], took[took.len() / 2]);
        assert!(best > ms(75) && best < ms(130), "seed {seed}: {best}");
        assert!(median > ms(90) && median < ms(190), "seed {seed}: {median}");
    }
}

#[test]
fn as_many_begin_busy_as_asked() {
    let config =
        ShortConfig { connections: 10, begin_busy: 2, mean_pause: Span::from_secs(1_000), ..ShortConfig::default() };
    let mut short = run_short(config, 2);
    let early = std::iter::from_fn(|| short.poll_completion()).filter(|file| file.at < Time::from_secs(1)).count();
    assert!((2..=3).contains(&early), "{early}");
}

#[test]
fn short_transfers_get_through_beside_a_long_one() {
    let short = Short::new(ShortConfig { seed: 5, ..ShortConfig::default() });
    let mut world =
        world(Bitrate::from_mbps(20), ms(40), ms(60)).with(bulk("cubic", Time::ZERO, 1)).with(Box::new(short));
    world.run(Span::from_secs(60));
    let [long, short] = world.statistics()[..] else { panic!("two flows") };
    assert!(short.completed > 120, "{short:?}");
    assert!(short.delivered.get() >= short.completed * 30_000);
    assert!(long.delivered.over(Span::from_secs(60)) > Bitrate::from_mbps(15), "{long:?}");
}

#[test]
fn a_constant_bit_rate_is_exact_and_pauses() {
    let schedule = Schedule { begins: Time::from_secs(1), ends: Time::from_secs(11) };
    let config = CbrConfig {
        rate: Bitrate::from_kbps(3_001),
        packet: Bytes::new(1_200),
        on: Span::from_secs(60),
        off: Span::ZERO,
        schedule,
    };
    let mut world = world(Bitrate::from_mbps(10), ms(20), ms(100)).with(Box::new(Cbr::new(config)));
    world.run(Span::from_secs(20));
    // 3.001 Mb/s for 10 s are 3,126.04 packets; the one at the start is on top.
    assert_eq!(world.statistics()[0].packets, 3_127);
    assert_eq!(world.statistics()[0].delivered, Bytes::new(3_127 * (1_200 - 28)));

    let pausing = CbrConfig { on: Span::from_secs(2), off: Span::from_secs(3), ..config };
    let mut cbr = Cbr::new(pausing);
    let mut seconds = [0_u32; 12];
    while let Some((at, _)) = cbr.poll_timeout() {
        cbr.on_timeout(at);
        assert!(cbr.poll_transmit(at).is_some());
        seconds[(at.as_nanos() / 1_000_000_000) as usize] += 1;
    }
    assert_eq!(
        seconds.map(|packets| packets > 0),
        [false, true, true, false, false, false, true, true, false, false, false, false]
    );
    assert!(seconds[1].abs_diff(313) <= 1 && seconds[7].abs_diff(313) <= 1, "{seconds:?}");
}

#[test]
fn a_constant_bit_rate_of_nothing_sends_nothing() {
    let config = CbrConfig {
        rate: Bitrate::ZERO,
        packet: Bytes::new(1_200),
        on: Span::ZERO,
        off: Span::ZERO,
        schedule: Schedule::default(),
    };
    let mut cbr = Cbr::new(config);
    assert_eq!((cbr.poll_timeout(), cbr.poll_transmit(Time::from_secs(1))), (None, None));
}
