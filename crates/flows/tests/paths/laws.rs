//! What each law makes of a bottleneck.

use nearlight_flows::law::LAWS;
use nearlight_units::{Bitrate, Bytes, Span, Time};

use crate::world::{bulk, jain, world};

const fn mbps(rate: u64) -> Bitrate {
    Bitrate::from_mbps(rate)
}

const fn ms(millis: i64) -> Span {
    Span::from_millis(millis)
}

/// What a link leaves for data: 1,448 of 1,500 bytes.
fn data(rate: Bitrate) -> Bitrate {
    rate.mul_f64(1_448.0 / 1_500.0)
}

#[test]
fn every_law_fills_a_clean_link() {
    for law in LAWS {
        for (rate, round_trip, queue) in [(10, 20, 50), (50, 20, 100), (50, 100, 100), (300, 10, 20)] {
            let mut world = world(mbps(rate), ms(round_trip), ms(queue)).with(bulk(law, Time::ZERO, 1));
            world.run(Span::from_secs(5));
            let goodput = world.goodputs(Span::from_secs(20))[0];
            let share = goodput.as_mbps_f64() / data(mbps(rate)).as_mbps_f64();
            let case = format!("{law} at {rate} Mb/s, {round_trip} ms, queue {queue} ms");
            println!("{case}: {share:.3} {:?}", world.statistics()[0]);
            assert!((0.93..=1.001).contains(&share), "{case}: {share}");
        }
    }
}
