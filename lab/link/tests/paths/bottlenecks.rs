//! Rates, token buckets, traces and full queues.

use nearlight_link::{
    Backlog, Bottleneck, BottleneckConfig, Capacity, DropReason, FineStructure, FlowId, Hop, Limit, Packet, Path,
    QueueConfig, Random, Rates, Service, Trace,
};
use nearlight_units::{Bitrate, Bytes, Span, Time};

use crate::drive::{delivered, dropped, evenly, ids, micros, packet, path, run, times};

#[test]
fn a_busy_wire_sends_at_exactly_its_rate() {
    // Rates at which a packet's time is not a whole number of nanoseconds.
    for (rate, size, count) in
        [(35_000_000_u64, 1_200_u64, 5_000_u64), (7_777_777, 1_499, 3_000), (999_999_937, 40, 2_000)]
    {
        let mut path = path(&format!("rate={rate}bit,queue=unlimited"), 1);
        let exits = run(&mut path, (0..count).map(|id| (Time::ZERO, packet(id, size))));
        for (exit, sent) in exits.iter().zip(1..) {
            let ideal = (u128::from(size) * 8 * sent * 1_000_000_000).div_ceil(u128::from(rate));
            assert_eq!(u128::from(exit.at.as_nanos()), ideal, "packet {sent} at {rate} b/s");
        }
        assert_eq!(exits.len() as u64, count);
    }
}

#[test]
fn an_idle_wire_only_adds_the_packets_own_time() {
    let mut path = path("rate=8mbit,delay=10ms", 1);
    let exits = run(&mut path, evenly(100, 1_000, Span::from_millis(3)));
    let expected: Vec<u64> = (0..100).map(|id| id * 3_000 + 11_000).collect();
    assert_eq!(times(&exits), expected);
    assert!(exits.iter().all(|exit| exit.packet.queued == Span::ZERO));
}

#[test]
fn waiting_is_distinguished_from_sending() {
    let mut path = path("rate=8mbit,queue=unlimited", 1);
    let exits = run(&mut path, (0..4).map(|id| (Time::ZERO, packet(id, 1_000))));
    let queued: Vec<i64> = exits.iter().map(|exit| exit.packet.queued.as_micros()).collect();
    assert_eq!(queued, [0, 1_000, 2_000, 3_000]);
}

#[test]
fn capacity_follows_its_steps() {
    let mut path = path("rate=8mbit/0mbit@2ms/16mbit@5ms,queue=unlimited", 1);
    let exits = run(&mut path, (0..5).map(|id| (Time::ZERO, packet(id, 1_000))));
    assert_eq!(times(&exits), [1_000, 2_000, 5_500, 6_000, 6_500]);
    for (at, mbps) in [(1, 8), (3, 0), (5, 16), (500, 16)] {
        assert_eq!(path.capacity(Time::from_millis(at)), Some(Bitrate::from_mbps(mbps)), "at {at} ms");
    }
}

#[test]
fn a_full_queue_delays_by_its_limit_and_no_more() {
    // 10 Mb/s: 1,250 bytes are 1 ms. Twice that is offered.
    let cases = [
        ("100ms", Span::from_millis(100)),
        ("125kb", Span::from_millis(100)),
        ("40p", Span::from_millis(40)),
        ("0ms", Span::ZERO),
    ];
    for (limit, longest) in cases {
        let mut path = path(&format!("rate=10mbit,queue={limit}"), 1);
        let exits = run(&mut path, evenly(2_000, 1_250, Span::from_micros(500)));
        let reached = delivered(&exits).iter().map(|exit| exit.packet.queued).max().expect("deliveries");
        // What is accepted waits for the limit's worth of packets and for the rest of the one on the wire.
        let (least, most) = (longest - Span::from_millis(1), longest + Span::from_millis(1));
        assert!(reached > least && reached <= most, "{limit}: {reached}");
        let lost = dropped(&exits, DropReason::QueueFull).len();
        // In 1 s of offers the wire carries 1,000, and the queue holds the rest.
        let expected = 1_000 - longest.as_nanos() / 1_000_000;
        assert!((lost as i64 - expected).abs() <= 2, "{limit}: {lost} lost, expected {expected}");
    }
}

#[test]
fn a_limit_in_time_follows_the_rate() {
    let mut path = path("rate=8mbit/80mbit@1s,queue=10ms", 1);
    let burst = |at: Time| (0..200).map(move |id| (at, packet(id, 1_000)));
    let exits = run(&mut path, burst(Time::ZERO).chain(burst(Time::from_secs(1))));
    // One packet on the wire, and 10 ms of the rate of the moment behind it.
    let early = delivered(&exits).iter().filter(|exit| exit.at < Time::from_secs(1)).count();
    assert_eq!((early, delivered(&exits).len() - early), (11, 101));
}

#[test]
fn flows_share_the_queue_and_are_counted_apart() {
    let mut path = path("rate=8mbit,queue=10p", 1);
    let offers = (0..30).map(|id| (Time::ZERO, Packet::new(id, FlowId(id as u32 % 3), Bytes::new(1_000))));
    run(&mut path, offers);
    let counters: Vec<_> =
        path.flows().iter().map(|flow| (flow.flow.0, flow.offered, flow.delivered, flow.lost())).collect();
    assert_eq!(counters, [(0, 10, 4, 6), (1, 10, 4, 6), (2, 10, 3, 7)]);
    assert_eq!(path.flows()[1].queued_longest, Span::from_millis(10));
    assert_eq!(path.flows()[0].dropped[DropReason::QueueFull.index()], 6);
}

#[test]
fn the_backlog_is_what_waits() {
    let mut path = path("rate=8mbit,delay=50ms", 1);
    for id in 0..4 {
        path.offer(Time::ZERO, packet(id, 1_000));
    }
    let backlog = Backlog { bytes: Bytes::new(3_000), packets: 3, delay: Span::from_millis(4) };
    assert_eq!(path.backlog(), backlog);
    assert_eq!(path.poll(micros(1_500)), None);
    let later = Backlog { bytes: Bytes::new(2_000), packets: 2, delay: Span::from_micros(2_500) };
    assert_eq!(path.backlog(), later);
}

#[test]
fn a_token_bucket_conforms() {
    for (bucket, debt) in [("tbf", 0), ("htb", 1_200)] {
        let mut path = path(&format!("rate=12mbit,burst=6kb,bucket={bucket},queue=unlimited"), 1);
        // Bursts with pauses of uneven length, which refill the bucket partly.
        let offers = (0..4_000_u64).map(|id| (micros(id / 20 * 13_000 + id / 400 * 7_000), packet(id, 1_200)));
        let exits = run(&mut path, offers);
        assert_eq!(exits.len(), 4_000);
        for first in 0..exits.len() {
            for last in first..exits.len().min(first + 60) {
                let span = exits[last].at - exits[first].at;
                let carried = 1_200 * (last - first + 1) as u64;
                let allowed = 6_000 + debt + Bitrate::from_mbps(12).bytes_in(span).get() + 1;
                assert!(carried <= allowed, "{bucket}: {carried} bytes in {span}, {allowed} allowed");
            }
        }
    }
}

#[test]
fn token_buckets_release_as_tc_does() {
    // 8 Mb/s, 1,000 bytes a millisecond; a bucket of 2,500 bytes is full at first.
    let cases = [
        // After two packets 500 bytes are left: TBF waits for the other 500.
        ("tbf", [0, 0, 500, 1_500, 2_500]),
        // HTB lets the third go into a debt of 500 bytes, and the fourth waits for the debt alone.
        ("htb", [0, 0, 0, 500, 1_500]),
    ];
    for (bucket, expected) in cases {
        let mut path = path(&format!("rate=8mbit,burst=2500b,bucket={bucket},queue=unlimited"), 1);
        let exits = run(&mut path, (0..5).map(|id| (Time::ZERO, packet(id, 1_000))));
        assert_eq!(times(&exits), expected, "{bucket}");
    }
    let mut path = path("rate=8mbit,burst=1000b", 1);
    let exits = run(&mut path, [(Time::ZERO, packet(0, 1_001)), (Time::ZERO, packet(1, 1_000))]);
    assert_eq!((ids(&exits), dropped(&exits, DropReason::TooLarge).len()), (vec![1], 1));
}

#[test]
fn a_bucket_in_front_of_a_latency_drops_like_tc_tbf() {
    // tc-tbf turns `latency 10ms` into a limit of rate * latency + burst: 10,000 + 3,000 bytes, the head included.
    let mut path = path("rate=8mbit,burst=3kb,queue=10ms", 1);
    let exits = run(&mut path, (0..100).map(|id| (Time::ZERO, packet(id, 1_000))));
    assert_eq!(delivered(&exits).len(), 3 + 13);
    let longest = delivered(&exits).iter().map(|exit| exit.packet.queued).max();
    assert_eq!(longest, Some(Span::from_millis(13)));
}

#[test]
fn a_policer_passes_what_conforms_and_drops_the_rest_at_once() {
    let mut path = path("police=8mbit/2kb", 1);
    // 2,000 bytes at once; then, at twice the rate, every other packet.
    let exits = run(&mut path, evenly(40, 1_000, Span::from_micros(500)));
    assert!(exits.iter().all(|exit| exit.at == micros(exit.packet.id * 500)));
    let (passed, lost) = (delivered(&exits).len(), dropped(&exits, DropReason::Policed).len());
    assert_eq!((passed, lost), (21, 19));
}

fn mahimahi(opportunities: &[u32], scale: f64, limit: Limit) -> Path {
    let trace = Trace::new(opportunities).expect("a trace");
    let capacity = Capacity::Trace(trace, scale);
    let config = BottleneckConfig { capacity, service: Service::Serial, queue: QueueConfig::drop_tail(limit) };
    Path::new([Bottleneck::new(config, Random::new(1)).into()])
}

#[test]
fn mahimahi_traces_are_read_as_mahimahi_does() {
    /// Opportunities, offers as (ms, bytes), deliveries in ms.
    type Case = (&'static [u32], &'static [(u64, u64)], &'static [u64]);
    let at = |millis: u64| Time::from_millis(millis);
    let cases: [Case; 7] = [
        // One full packet for each opportunity, even within one millisecond.
        (&[1, 2, 2, 5], &[(0, 1_500), (0, 1_500), (0, 1_500), (0, 1_500)], &[1, 2, 2, 5]),
        // An opportunity that finds nothing is lost, also for a packet that arrives in that very moment.
        (&[1, 2, 5], &[(2, 1_500)], &[5]),
        // The last timestamp is the length of a round.
        (&[1, 4], &[(4, 1_500), (4, 1_500), (4, 1_500)], &[5, 8, 9]),
        // 0 in the second round is the end of the first.
        (&[0, 10], &[(1, 1_500), (1, 1_500), (1, 1_500)], &[10, 10, 20]),
        // Small packets share an opportunity, and one that does not fit is cut: 2 * 754 + 4 are more than 1,504.
        (&[1, 2, 3], &[(0, 750), (0, 750), (0, 750)], &[1, 2, 2]),
        (&[1, 2, 3], &[(0, 748), (0, 748), (0, 748)], &[1, 1, 2]),
        // A packet larger than an opportunity takes several; the next one starts in what is left.
        (&[1, 2, 3], &[(0, 3_000), (0, 4)], &[2, 3]),
    ];
    for (opportunities, offers, expected) in cases {
        let mut path = mahimahi(opportunities, 1.0, Limit::Unlimited);
        let offers = offers.iter().zip(0..).map(|(&(millis, size), id)| (at(millis), packet(id, size)));
        let exits = run(&mut path, offers);
        let millis: Vec<u64> = times(&exits).iter().map(|micros| micros / 1_000).collect();
        assert_eq!(millis, expected, "{opportunities:?}");
    }
}

#[test]
fn a_trace_can_be_scaled_and_idles_for_hours() {
    let mut path = mahimahi(&[1, 2, 3, 4, 5], 2.0, Limit::Unlimited);
    assert_eq!(path.capacity(Time::from_secs(1)), Some(Bitrate::from_mbps(24)));
    let start = Time::from_secs(36_000);
    let exits = run(&mut path, (0..4).map(|id| (start, packet(id, 1_500))));
    assert_eq!(times(&exits), [1_000, 1_000, 2_000, 2_000].map(|after| after + start.as_micros()));
}

#[test]
fn a_limit_in_time_before_a_trace_is_worth_its_mean() {
    // 12 Mb/s: 10 ms are 15,000 bytes.
    let mut path = mahimahi(&[1, 2, 3, 4, 5], 1.0, Limit::Time(Span::from_millis(10)));
    let exits = run(&mut path, (0..50).map(|id| (Time::ZERO, packet(id, 1_500))));
    assert_eq!(delivered(&exits).len(), 10);
}

#[test]
fn slots_bunch_packets_and_keep_the_rate() {
    // 40 Mb/s in time division: slots of half a millisecond; the fifth carries nothing down.
    let config = BottleneckConfig {
        capacity: Capacity::Rates(Rates::constant(Bitrate::from_mbps(40)), FineStructure::TddDown),
        service: Service::Serial,
        queue: QueueConfig::drop_tail(Limit::Unlimited),
    };
    let mut path = Path::new([Bottleneck::new(config, Random::new(1)).into()]);
    let exits = run(&mut path, (0..10_000).map(|id| (Time::ZERO, packet(id, 1_250))));
    let slots: Vec<u64> = times(&exits);
    assert!(slots.iter().all(|at| at % 500 == 0 && at % 2_500 != 0), "only at the ends of downlink slots");
    // 12.5 MB at 5 MB/s are 2.5 s, rounding and the last slot aside.
    let last = slots[slots.len() - 1];
    assert!((2_497_000..2_503_000).contains(&last), "{last}");
}
