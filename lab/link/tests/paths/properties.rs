//! What holds for every stack of hops, every load and every way of polling.

use nearlight_link::{Ecn, Exit, FlowId, Hop, Packet, PathSpec};
use nearlight_units::{Bytes, Span, Time};
use proptest::prelude::*;

use crate::drive::{path, run};

fn queue() -> impl Strategy<Value = String> {
    let limit = prop_oneof![
        (0..200_u32).prop_map(|millis| format!("{millis}ms")),
        (0..60_000_u32).prop_map(|bytes| format!("{bytes}b")),
        (0..60_u32).prop_map(|packets| format!("{packets}p")),
        Just("unlimited".to_owned()),
    ];
    let aqm = prop_oneof![
        Just("droptail"),
        Just("codel"),
        Just("codel/1ms/10ms"),
        Just("pie"),
        Just("l4s-step"),
        Just("l4s-ramp/1ms/3ms")
    ];
    (limit, aqm).prop_map(|(limit, aqm)| format!("queue={limit},aqm={aqm}"))
}

fn bottleneck() -> impl Strategy<Value = String> {
    let source = prop_oneof![
        (1..200_u32).prop_map(|mbps| format!("rate={mbps}mbit")),
        (1..50_u32, 1..200_u32).prop_map(|(mbps, at)| format!("rate={mbps}mbit/0mbit@{at}ms/3mbit@300ms")),
        (1..50_u32, 1..200_u32).prop_map(|(mbps, at)| format!("rate={mbps}mbit/0mbit@{at}ms")),
        Just("model=5g".to_owned()),
        Just("model=wifi/40mbit".to_owned()),
    ];
    let service = prop_oneof![
        Just(String::new()),
        (0..20_000_u32).prop_map(|burst| format!(",burst={burst}b")),
        (0..20_000_u32).prop_map(|burst| format!(",burst={burst}b,bucket=htb")),
        Just(",fine=tdd".to_owned()),
        Just(",fine=tdd-up".to_owned()),
        Just(",fine=aggregates".to_owned()),
    ];
    (source, service, queue()).prop_map(|(source, service, queue)| format!("{source}{service},{queue}"))
}

fn hop() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => bottleneck(),
        1 => (1..50_u32, 0..20_u32).prop_map(|(mbps, kilobytes)| format!("police={mbps}mbit/{kilobytes}kb")),
        1 => (0..50_000_u32).prop_map(|micros| format!("delay={micros}us")),
        1 => Just("jitter=8ms".to_owned()),
        1 => Just("jitter=8ms/50mbit".to_owned()),
        1 => Just("jitter=0%:1ms/50%:2ms/100%:9ms".to_owned()),
        1 => (0..=100_u32).prop_map(|percent| format!("loss={percent}%")),
        1 => Just("loss=10%/40%".to_owned()),
        1 => Just("gilbert=5%/30%/90%/1%".to_owned()),
        1 => Just("reorder=20%/3ms".to_owned()),
        1 => (0..=100_u32).prop_map(|percent| format!("duplicate={percent}%")),
        1 => Just("outage=20ms+30ms/90ms+1ms".to_owned()),
        1 => Just("freeze=20ms+30ms@100ms/45ms+10ms".to_owned()),
    ]
}

fn spec() -> impl Strategy<Value = String> {
    prop::collection::vec(hop(), 0..5).prop_map(|hops| hops.join(","))
}

/// Pauses before packets in microseconds, sizes, flows and ECN bits.
fn load() -> impl Strategy<Value = Vec<(Time, Packet)>> {
    let ecn = prop_oneof![Just(Ecn::NotCapable), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    let pause = prop_oneof![3 => Just(0), 5 => 0..1_000_i64, 1 => 0..60_000_i64];
    prop::collection::vec((pause, 1..2_000_u64, 0..3_u32, ecn), 0..150).prop_map(|packets| {
        let mut at = Time::ZERO;
        let offers = packets.into_iter().zip(0..).map(|((pause, size, flow, ecn), id)| {
            at += Span::from_micros(pause);
            (at, Packet::new(id, FlowId(flow), Bytes::new(size)).with_ecn(ecn))
        });
        offers.collect()
    })
}

/// Polls only now and then: at each offer if the bit is set, and long after the end.
fn run_late(spec: &str, seed: u64, load: &[(Time, Packet)], polls: &[bool]) -> Vec<Exit> {
    let mut path = path(spec, seed);
    let mut exits = Vec::new();
    for ((at, packet), poll) in load.iter().zip(polls.iter().cycle()) {
        if *poll {
            exits.extend(std::iter::from_fn(|| path.poll(*at)));
        }
        path.offer(*at, *packet);
    }
    exits.extend(std::iter::from_fn(|| path.poll(Time::from_secs(60))));
    exits.extend(std::iter::from_fn(|| path.poll(Time::FAR_FUTURE)));
    exits
}

/// Exits at the same moment have no order among each other.
fn sorted(mut exits: Vec<Exit>) -> Vec<Exit> {
    exits.sort_by_key(|exit| (exit.at, exit.packet.id, exit.packet.duplicate, exit.is_delivered()));
    exits
}

/// Held and passing packets leave at the same moment here, and the next hop makes its random draws in their order.
#[test]
fn a_tie_is_decided_alike_however_late_anybody_looks() {
    let packet = |id: u64| (Time::from_millis(id), Packet::new(id, FlowId(0), Bytes::new(100)));
    let load: Vec<(Time, Packet)> = (0..300).map(packet).collect();
    for seed in 0..20 {
        let spec = "reorder=20%/3ms,jitter=8ms";
        let timely = run(&mut path(spec, seed), load.iter().copied());
        let late = run_late(spec, seed, &load, &[false]);
        assert_eq!(sorted(timely), sorted(late), "seed {seed}");
    }
}

proptest! {
    #[test]
    fn every_packet_comes_out_exactly_once_and_in_order(spec in spec(), load in load(), seed in any::<u64>()) {
        let mut path = path(&spec, seed);
        let exits = run(&mut path, load.iter().copied());
        prop_assert!(exits.is_sorted_by_key(|exit| exit.at), "{}", spec);
        let mut ids: Vec<u64> = exits.iter().filter(|exit| !exit.packet.duplicate).map(|exit| exit.packet.id).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..load.len() as u64).collect::<Vec<_>>());
        let mut portions = vec![0; load.len()];
        for exit in &exits {
            portions[exit.packet.id as usize] += exit.packet.portion();
        }
        prop_assert!(portions.iter().all(|portion| *portion == Packet::PORTIONS), "{}: {:?}", spec, portions);
        prop_assert_eq!(path.poll_timeout(), None);
        prop_assert_eq!(path.backlog().packets, 0);
        for exit in &exits {
            prop_assert!(exit.at >= load[exit.packet.id as usize].0);
        }
        let counted: u64 = path.flows().iter().map(|flow| flow.delivered + flow.lost()).sum();
        prop_assert_eq!(counted, load.len() as u64);
    }

    #[test]
    fn late_polls_change_nothing(
        spec in spec(),
        load in load(),
        seed in any::<u64>(),
        polls in prop::collection::vec(any::<bool>(), 1..20),
    ) {
        let timely = run(&mut path(&spec, seed), load.iter().copied());
        let late = run_late(&spec, seed, &load, &polls);
        prop_assert!(late.is_sorted_by_key(|exit| exit.at), "{}", spec);
        prop_assert_eq!(sorted(timely), sorted(late), "{}", spec);
    }

    #[test]
    fn what_is_written_reads_back_as_the_same_path(spec in spec()) {
        let parsed: PathSpec = spec.parse().expect("a path");
        let written = parsed.to_string();
        let again: PathSpec = written.parse().map_err(|error| TestCaseError::fail(format!("{written}: {error}")))?;
        prop_assert_eq!(&again, &parsed);
        prop_assert_eq!(again.to_string(), written);
    }

    #[test]
    fn any_text_is_a_path_or_an_error(text in "[a-z0-9=,/@:%.+ -]{0,60}") {
        let _ = text.parse::<PathSpec>();
    }

    #[test]
    fn any_bytes_are_a_trace_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = nearlight_link::parse_trace(&bytes);
    }

    #[test]
    fn any_numbers_are_a_trace_or_an_error(text in "(t_s,mbps\n)?([0-9]{1,3}(,[0-9.]{1,4})?\n){0,12}") {
        let _ = nearlight_link::parse_trace(text.as_bytes());
    }
}
